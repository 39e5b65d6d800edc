package faults

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

func keyOf(r *http.Request) string { return r.Header.Get("Idempotency-Key") }

// badKey selects requests whose key breaks the grammar in one way.
func badKey(bad func(key string) bool) tamper.Match {
	return func(r *http.Request) bool { return keyOf(r) != "" && bad(keyOf(r)) }
}

func keyFaults() []Fault {
	invalid := requirements.R0170IdempotencyKeyGrammarInvalidRefused
	valid := requirements.R0170IdempotencyKeyGrammarValidAccepted
	ignore := func(bad func(string) bool) tamper.Middleware {
		return tamper.Requests(badKey(bad), func(r *http.Request) { r.Header.Del("Idempotency-Key") })
	}
	refuse := func(bad func(string) bool) tamper.Middleware {
		return tamper.Answers(tamper.And(tamper.CreateRun, badKey(bad)), func(_ *http.Request, a *tamper.Answer) {
			a.Refuse(400, "idempotency_key_invalid", "the key is malformed")
		})
	}
	outside := func(key string) bool {
		return strings.Trim(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~-") != ""
	}
	return []Fault{
		wire("short-key-accepted", "An Idempotency-Key of fewer than 22 characters is accepted.",
			"201", ignore(func(k string) bool { return len(k) < 22 }), invalid),
		wire("long-key-accepted", "An Idempotency-Key of more than 128 characters is accepted.",
			"201", ignore(func(k string) bool { return len(k) > 128 }), invalid),
		wire("key-alphabet-ignored", "An Idempotency-Key with a character outside the alphabet is accepted.",
			"201", ignore(outside), invalid),
		wire("invalid-key-other-code", "A malformed Idempotency-Key is refused with the general code.",
			"400 validation_error", tamper.JSON(tamper.Any, 400, func(_ *http.Request, doc map[string]any) {
				if doc["error"] == "idempotency_key_invalid" {
					doc["error"] = "validation_error"
				}
			}), invalid),
		wire("shortest-key-refused", "An Idempotency-Key of exactly 22 characters is refused.",
			"400 idempotency_key_invalid", refuse(func(k string) bool { return len(k) == 22 }), valid),
		wire("longest-key-refused", "An Idempotency-Key of exactly 128 characters is refused.",
			"400 idempotency_key_invalid", refuse(func(k string) bool { return len(k) == 128 }), valid),
		wire("key-punctuation-refused", "An Idempotency-Key with a tilde in it is refused.",
			"400 idempotency_key_invalid", refuse(func(k string) bool { return strings.Contains(k, "~") && !outside(k) && len(k) >= 22 && len(k) <= 128 }), valid),
	}
}

func replayFaults() []Fault {
	replay := requirements.IdempotencyReplay
	mismatch := requirements.IdempotencyKeyMismatch
	return []Fault{
		wire("replay-creates-again", "A createRun repeated with its key creates another run.",
			"another run", forgetful(true), replay).
			blocking(requirements.R0213InFlightOneWinner, requirements.R0213InFlightLoserOutcome),
		wire("replay-without-marker", "A replayed createRun does not say that it is one.",
			"OpenWOP-Idempotent-Replay", tamper.Answers(tamper.CreateRun, func(_ *http.Request, a *tamper.Answer) {
				a.Header.Del("OpenWOP-Idempotent-Replay")
			}), replay).
			blocking(requirements.R0213InFlightOneWinner, requirements.R0213InFlightLoserOutcome).
			also("201 application/json with OpenWOP-Idempotent-Replay \"\" and", requirements.IdempotencyKeyTenantScope),
		wire("replay-answers-200", "A replayed createRun is answered 200 and not with the status of the first.",
			"200", tamper.Answers(tamper.CreateRun, func(_ *http.Request, a *tamper.Answer) {
				if a.Header.Get("OpenWOP-Idempotent-Replay") != "" {
					a.Status = http.StatusOK
				}
			}), replay).
			blocking(requirements.R0213InFlightOneWinner, requirements.R0213InFlightLoserOutcome).
			also("200 application/json with OpenWOP-Idempotent-Replay \"true\"", requirements.IdempotencyKeyTenantScope),
		wire("replay-refused", "A createRun repeated with its key is refused as a conflict.",
			"409", tamper.Answers(tamper.CreateRun, func(_ *http.Request, a *tamper.Answer) {
				if a.Header.Get("OpenWOP-Idempotent-Replay") != "" {
					a.Header.Del("OpenWOP-Idempotent-Replay")
					a.Refuse(409, "idempotency_key_mismatch", "the key was used")
				}
			}), replay).
			blocking(requirements.R0213InFlightOneWinner, requirements.R0213InFlightLoserOutcome).
			also("409 idempotency_key_mismatch with OpenWOP-Idempotent-Replay", requirements.IdempotencyKeyTenantScope),
		wire("replay-shows-current-status", "A replayed createRun shows the state the run is in by now.",
			"another body", tamper.Answers(tamper.CreateRun, func(_ *http.Request, a *tamper.Answer) {
				if doc, ok := a.JSON(); ok && a.Header.Get("OpenWOP-Idempotent-Replay") != "" {
					doc["status"] = "waiting-external"
					a.SetJSON(doc)
				}
			}), replay).
			blocking(requirements.R0213InFlightOneWinner, requirements.R0213InFlightLoserOutcome).
			also("201 application/json with OpenWOP-Idempotent-Replay \"true\"", requirements.IdempotencyKeyTenantScope),
		wire("replay-marker-on-new-runs", "A createRun that creates a run says that it is a replay.",
			"a new run under another key", onStatus(tamper.CreateRun, 201, func(a *tamper.Answer) { a.Header.Set("OpenWOP-Idempotent-Replay", "true") }), replay).
			blocking(requirements.R0213InFlightOneWinner, requirements.R0213InFlightLoserOutcome),
		{
			ID: "idempotency-records-lost", Breaks: []requirements.ID{replay, mismatch, requirements.IdempotencyMutatingOperations, requirements.IdempotencyKeyTenantScope,
				requirements.WebhooksRegistrationIdempotent, requirements.InterruptResolveIdempotent, requirements.InterruptTokenResolveIdempotent},
			Blocks: []requirements.ID{requirements.R0213InFlightOneWinner, requirements.R0213InFlightLoserOutcome}, Reason: "another run|201|409|for the repeated refusal",
			Summary:  "The host forgets every Idempotency-Key at once, because each of its processes keeps its own.",
			Decorate: func(c *referencehost.Config) { c.Store = forgetfulStore{c.Store} },
		},
		wire("mismatch-gets-first-response", "A createRun with a used key and another body gets the first response.",
			"201", firstBody("tags", "metadata"), mismatch, requirements.IdempotencyRefusalsNotCached),
		wire("mismatch-ignores-metadata", "Two createRun bodies that differ in their metadata alone count as the same.",
			"201", firstBody("metadata"), mismatch),
		wire("mismatch-creates-run", "A createRun with a used key and another body creates another run.",
			"201", forgetful(false), mismatch),
		wire("mismatch-422", "A createRun with a used key and another body is refused 422.",
			"422", onStatus(tamper.CreateRun, 409, func(a *tamper.Answer) {
				if doc, _ := a.JSON(); doc["error"] == "idempotency_key_mismatch" {
					a.Refuse(422, "validation_error", "the key was used")
				}
			}), mismatch),
	}
}

// bodies remembers the first body that came with each key.
type bodies struct {
	mu    sync.Mutex
	first map[string][]byte
}

func (b *bodies) seen(r *http.Request) (first []byte, again bool) {
	body := tamper.Body(r)
	id := r.Header.Get("Authorization") + " " + keyOf(r)
	b.mu.Lock()
	defer b.mu.Unlock()
	if f, ok := b.first[id]; ok {
		return f, true
	}
	b.first[id] = body
	return body, false
}

// forgetful drops the key of a repeated createRun: of one with the same body,
// or of one with another.
func forgetful(same bool) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		known := &bodies{first: map[string][]byte{}}
		return tamper.Requests(tamper.And(tamper.CreateRun, tamper.HasHeader("Idempotency-Key")), func(r *http.Request) {
			if first, again := known.seen(r); again && (string(first) == string(tamper.Body(r))) == same {
				r.Header.Del("Idempotency-Key")
			}
		})(next)
	}
}

// firstBody gives a repeated createRun the body of the first when the two are
// the same apart from the given members.
func firstBody(apart ...string) tamper.Middleware {
	without := func(body []byte) string {
		doc, _ := tamper.Decode(body).(object)
		for _, name := range apart {
			delete(doc, name)
		}
		return string(tamper.Encode(doc))
	}
	return func(next http.Handler) http.Handler {
		known := &bodies{first: map[string][]byte{}}
		return tamper.Requests(tamper.And(tamper.CreateRun, tamper.HasHeader("Idempotency-Key")), func(r *http.Request) {
			if first, again := known.seen(r); again && without(first) == without(tamper.Body(r)) {
				tamper.SetBody(r, first)
			}
		})(next)
	}
}

// forgetfulStore keeps no idempotency record.
type forgetfulStore struct{ referencehost.Store }

// Begin implements referencehost.Store.
func (forgetfulStore) Begin(context.Context, referencehost.RecordKey, [32]byte, time.Time) (referencehost.RecordState, *referencehost.Response, error) {
	return 0, nil, nil // the state of a new record
}

// Finish implements referencehost.Store.
func (forgetfulStore) Finish(context.Context, referencehost.RecordKey, *referencehost.Response, time.Time) error {
	return nil
}

// Abandon implements referencehost.Store.
func (forgetfulStore) Abandon(context.Context, referencehost.RecordKey) error { return nil }
