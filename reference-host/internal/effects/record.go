package effects

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"wopcert/reference-host/internal/egress"
	"wopcert/reference-host/internal/engine"
)

// The states of an attempt (effect-ledger-projection schema).
const (
	// Claimed: the intent is recorded, and nothing is known yet.
	Claimed = "claimed"
	// Completed: the outcome is recorded.
	Completed = "completed"
	// Released: the provider refused for now, or was never reached; the effect has not happened.
	Released = "released"
	// Escaped: the request left and nothing came back; whether the effect has happened, the provider knows by its key.
	Escaped = "escaped"
)

// record is what the ledger keeps of an effect. It holds nothing of the request but its digest.
type record struct {
	Keying string `json:"keying"`
	Key    string `json:"key"`
	Digest []byte `json:"digest"`
	// Holder is the incarnation of the host that holds the claim, "" while nobody does.
	Holder   string    `json:"holder,omitempty"`
	Attempts []attempt `json:"attempts"`
	Outcome  *outcome  `json:"outcome,omitempty"`
	Expires  time.Time `json:"expires"`
}

// attempt is one attempt at an effect.
type attempt struct {
	RunID      string    `json:"runId"`
	NodeID     string    `json:"nodeId"`
	Number     int       `json:"number"` // within the run, from 1
	Invocation string    `json:"invocation"`
	State      string    `json:"state"`
	At         time.Time `json:"at"`
}

// outcome is the final outcome. What a provider streams is not kept, only that it came (idempotency.md §Layer 2).
type outcome struct {
	Status      int    `json:"status"`
	ContentType string `json:"contentType,omitempty"`
	Body        []byte `json:"body,omitempty"`
}

func decodeRecord(raw []byte) (*record, error) {
	r := new(record)
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, fmt.Errorf("a record of the effect ledger cannot be read: %w", err)
	}
	return r, nil
}

// begin adds an attempt that is about to be made.
func (r *record) begin(effect *engine.Effect, id *identity, holder string, now, expires time.Time) {
	r.Holder, r.Expires = holder, expires
	r.add(effect, id, Claimed, now)
}

func (r *record) add(effect *engine.Effect, id *identity, state string, now time.Time) {
	number := 1
	for _, earlier := range r.Attempts {
		if earlier.RunID == effect.RunID {
			number++
		}
	}
	r.Attempts = append(r.Attempts, attempt{
		RunID: effect.RunID, NodeID: effect.NodeID, Number: number, Invocation: id.invocation, State: state, At: now,
	})
}

// settle ends the attempt that is claimed.
func (r *record) settle(state string, final *outcome, now, expires time.Time) {
	r.Holder, r.Expires = "", expires
	for i := range r.Attempts {
		if r.Attempts[i].State == Claimed {
			r.Attempts[i].State, r.Attempts[i].At = state, now
		}
	}
	if final != nil {
		r.Outcome = final
	}
}

func (r *record) has(runID string) bool {
	for _, made := range r.Attempts {
		if made.RunID == runID {
			return true
		}
	}
	return false
}

func keep(got *engine.Outcome) *outcome {
	kept := &outcome{Status: got.Status, ContentType: got.Header.Get("Content-Type")}
	if !streamed(kept.ContentType) {
		kept.Body = got.Body
	}
	return kept
}

func streamed(contentType string) bool {
	for _, stream := range []string{"text/event-stream", "application/x-ndjson", "application/stream+json", "multipart/x-mixed-replace"} {
		if strings.HasPrefix(strings.ToLower(contentType), stream) {
			return true
		}
	}
	return false
}

func (o *outcome) again() *engine.Outcome {
	header := make(http.Header)
	if o.ContentType != "" {
		header.Set("Content-Type", o.ContentType)
	}
	return &engine.Outcome{Status: o.Status, Header: header, Body: o.Body}
}

// happened reports whether a status says that the effect has happened. Any other is a refusal: who asks again, asks for
// the same effect.
func happened(status int) bool { return status < http.StatusBadRequest }

// transient reports whether a status is a refusal for now.
func transient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= http.StatusInternalServerError
}

// refused reports whether an error says that nothing was sent and nothing would be next time.
func refused(err error) bool {
	return errors.Is(err, engine.ErrNotSent) || errors.Is(err, egress.ErrRefused)
}

// unsent reports whether an error says that the provider was not reached.
func unsent(err error) bool {
	var name *net.DNSError
	var operation *net.OpError
	return refused(err) || errors.As(err, &name) || errors.As(err, &operation) && operation.Op == "dial"
}
