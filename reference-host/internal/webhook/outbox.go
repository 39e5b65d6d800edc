package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"wopcert/reference-host/internal/eventlog"
)

// replayMode is the mode of a fork whose events are history told again.
const replayMode = "replay"

// delivery is one event on its way to one subscription. The event itself stays in its log, which never changes.
type delivery struct {
	RunID    string    `json:"runId"`
	Sequence int64     `json:"sequence"`
	EventID  string    `json:"eventId"`
	Type     string    `json:"type"`
	Attempts int       `json:"attempts,omitempty"`
	Due      time.Time `json:"due,omitzero"`
	// LastStatus is the status of the last response, 0 while there was none.
	LastStatus int `json:"lastStatus,omitempty"`
	// Dead is set once it is decided that there is no further attempt.
	Dead *verdict `json:"dead,omitempty"`
}

type verdict struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// Outbox is the eventlog.Outbox of this package. The events of a replay fork are silent, and so is what any fork has
// inherited: that is told by the run, never by the events (webhooks.md §Replay).
func (d *Dispatcher) Outbox(run eventlog.Run, events []eventlog.Event) []eventlog.TableWrite {
	lanes := (*d.index.Load())[run.Owner.Tenant]
	if len(lanes) == 0 || run.ForkMode == replayMode {
		return nil
	}
	var writes []eventlog.TableWrite
	for i := range events {
		event := &events[i]
		if run.ForkOf != "" && event.Sequence < run.ForkPoint {
			continue
		}
		var row []byte
		for _, l := range lanes {
			if !l.matches(&run, event.Type) {
				continue
			}
			if row == nil {
				row = encodeRow(delivery{RunID: run.ID, Sequence: event.Sequence, EventID: event.EventID, Type: event.Type})
			}
			key := rowKey(l.id, run.ID, event.Sequence)
			writes = append(writes, eventlog.TableWrite{
				Table: tableDeliveries, Key: key, Value: row, Written: func() { d.enqueue(l, key, time.Time{}) },
			})
		}
	}
	return writes
}

func encodeRow(row any) []byte {
	encoded, err := json.Marshal(row)
	if err != nil {
		panic(err) // rows are made of text, numbers and times of this era
	}
	return encoded
}

// rowKey orders the deliveries of a subscription by run and sequence. Both ids are of one tenant.
func rowKey(webhookID, runID string, sequence int64) string {
	_, opaque, _ := strings.Cut(runID, "/")
	return webhookID + "/" + opaque + "/" + fmt.Sprintf("%016x", sequence)
}

// digest is the same for every attempt of one delivery, after a restart too, and different for every other one. No
// secret goes into it (webhooks.md §Standard Webhooks).
func digest(webhookID, runID string, sequence int64) string {
	hash := sha256.New()
	for _, part := range []string{webhookID, runID, strconv.FormatInt(sequence, 10)} {
		_, _ = fmt.Fprintf(hash, "%d:%s", len(part), part) // a hash takes every byte
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}
