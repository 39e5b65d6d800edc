package referencehost

import (
	"context"
	"crypto/sha256"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"wopcert/bundle/jcs"
	"wopcert/reference-host/internal/eventlog"
)

// recordRetention is how long a final outcome is replayed (idempotency.md §Layer 1: at least 24 hours).
const recordRetention = 24 * time.Hour

const (
	minKeyLength           = 22
	maxIdempotencyKeyBytes = 128
)

// idempotent puts Layer 1 around a mutating operation: with an Idempotency-Key the operation runs at most once to a
// final outcome, and a duplicate gets that outcome again.
func (h *Host) idempotent(operation func(*request) (*answer, error)) func(*request) (*answer, error) {
	return func(r *request) (*answer, error) {
		keys := r.Header.Values("Idempotency-Key")
		if len(keys) > 0 && (len(keys) > 1 || !isSegment(keys[0], minKeyLength, maxIdempotencyKeyBytes)) {
			return nil, h.codes.badIdempotencyKey()
		}
		body, err := h.readBody(r.Request)
		if err != nil {
			return nil, err
		}
		r.body = body
		if len(keys) == 0 {
			return operation(r)
		}
		key := eventlog.RecordKey{Tenant: r.tenant(), Endpoint: r.operation.ID, Key: keys[0]}
		state, stored, err := h.store.Begin(r.Context(), key, r.digest(), h.clock.Now())
		switch {
		case err != nil:
			return nil, err
		case state == eventlog.RecordMismatch:
			return nil, h.codes.reusedKey()
		case state == eventlog.RecordInFlight:
			return nil, h.codes.busyKey()
		case state == eventlog.RecordDone:
			return replayed(stored), nil
		}
		return h.once(r, key, operation)
	}
}

// once runs the operation for the holder of the record, and stores the outcome or gives the key back. The caller
// going away does not change what is recorded.
func (h *Host) once(r *request, key eventlog.RecordKey, operation func(*request) (*answer, error)) (*answer, error) {
	ctx := context.WithoutCancel(r.Context())
	kept := false
	defer func() {
		if !kept {
			if err := h.store.Abandon(ctx, key); err != nil {
				h.logger.Error("an idempotency record could not be given back", "error", err)
			}
		}
	}()
	r.record = &key
	response, err := operation(r)
	if err != nil {
		refusal := h.refusalOf(r.Request, err)
		if !final(refusal) {
			return nil, refusal
		}
		response = refusal.answer()
	}
	if err := h.store.Finish(ctx, key, response.outcome(), h.clock.Now().Add(recordRetention)); err != nil {
		return nil, err
	}
	kept = true
	return response, nil
}

// outcome is the response as a record keeps it.
func (a *answer) outcome() *eventlog.Response {
	return &eventlog.Response{Status: a.status, Header: maps.Clone(a.header), Body: a.body}
}

// answering has the run that is created under the context answer for the request: whoever sends it again after the host
// died in between gets the same run.
func (h *Host) answering(r *request, response *answer) context.Context {
	if r.record == nil {
		return r.Context()
	}
	return eventlog.WithOutcome(r.Context(), eventlog.Outcome{
		Key: *r.record, Response: response.outcome(), Expiry: h.clock.Now().Add(recordRetention),
	})
}

// final reports whether a refusal is an outcome to replay: a 4xx the registry does not call retriable, except those
// that say the request itself was not acceptable (idempotency.md §Layer 1).
func final(r *refusal) bool {
	status := r.code.HTTPStatus
	switch {
	case status < 400 || status > 499 || r.code.Retriable:
		return false
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusTooManyRequests:
		return false
	}
	return r.code.Code != "validation_error" && r.code.Code != "idempotency_key_invalid"
}

// tenant is the caller's; the bearer of a token acts in the tenant of the run it is about.
func (r *request) tenant() string {
	if r.principal != nil {
		return r.principal.tenant()
	}
	tenant, _, _ := strings.Cut(r.token.RunID, "/")
	return tenant
}

func replayed(stored *eventlog.Response) *answer {
	header := maps.Clone(stored.Header)
	header.Set("OpenWOP-Idempotent-Replay", "true")
	return &answer{status: stored.Status, header: header, body: stored.Body}
}

// digest identifies the request within its key: the resource, the headers that change what is asked, and the body up
// to the spelling of its JSON.
func (r *request) digest() [sha256.Size]byte {
	body, err := jcs.Canonicalize(r.body)
	if err != nil {
		body = r.body
	}
	sum := sha256.New()
	for _, part := range []string{r.id, r.second, r.Header.Get("OpenWOP-Dedup"), r.Header.Get("OpenWOP-Force-Engine-Version")} {
		_, _ = io.WriteString(sum, part+"\x00") // a hash takes every byte
	}
	_, _ = sum.Write(body)
	return [sha256.Size]byte(sum.Sum(nil))
}
