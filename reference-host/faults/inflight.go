package faults

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

func kindFaults() []Fault {
	kind := requirements.R0187BoundIdKindsPerKind
	interrupt := func(edit func(id string) string) tamper.Middleware {
		return tamper.Events(func(e map[string]any) bool {
			if p, ok := e["payload"].(object); ok && text(p["interruptId"]) != "" {
				p["interruptId"] = edit(text(p["interruptId"]))
			}
			return true
		})
	}
	webhook, emitted := requirements.R0187BoundIdKindsWebhook, requirements.R0187BoundIdKindsWebhookEmitted
	unregister := tamper.Match(tamper.Op(http.MethodDelete, "/webhooks/{}"))
	return []Fault{
		wire("interrupt-id-bare", "An interrupt is named without its tenant.", "interruptId",
			interrupt(func(id string) string { return id[strings.Index(id, "/")+1:] }), kind).
			also("an invalid payload: /interruptId does not match pattern", requirements.InterruptResolvedRecorded, requirements.InterruptTokenResolves),
		wire("interrupt-id-of-another-tenant", "An interrupt is named under another tenant than its run.", "interruptId|another-tenant",
			interrupt(func(id string) string { return "another-tenant" + id[strings.Index(id, "/"):] }), kind),
		wire("interrupt-id-short", "What names an interrupt within its tenant has eight characters.", "interruptId",
			interrupt(func(id string) string { return id[:strings.Index(id, "/")+9] }), kind).
			also("an invalid payload: /interruptId does not match pattern", requirements.InterruptResolvedRecorded, requirements.InterruptTokenResolves),
		wire("webhook-foreign-not-found", "A registration of another tenant is answered 404.", "404",
			foreignAs(unregister, 404, "not_found"), webhook, requirements.WebhooksUnregisterForeign),
		wire("webhook-foreign-other-code", "A registration of another tenant is refused with the code for a missing scope.", "403 forbidden",
			foreignAs(unregister, 403, "forbidden"), webhook, requirements.WebhooksUnregisterForeign),
		wire("webhook-percent-encoded-not-found", "A registration is not found by its id with %2F.", "404",
			tamper.Answers(tamper.And(unregister, func(r *http.Request) bool {
				return strings.Contains(strings.ToUpper(r.URL.EscapedPath()), "%2F")
			}), func(_ *http.Request, a *tamper.Answer) { a.Refuse(404, "not_found", "no route") }), webhook),
		wire("webhook-projected-not-found", "A registration is not found by its projected id.", "404",
			elsewhere(func(doc object) {}, func(r *http.Request, a *tamper.Answer) {
				if a.Status == http.StatusNoContent && strings.Contains(r.URL.EscapedPath(), "~2F") {
					a.Refuse(404, "not_found", "no route")
				}
			}), webhook),
		wire("webhook-id-of-two-parts", "A registration has an id of the host's own form.", "webhookId|status 204",
			elsewhere(func(doc object) { doc["webhookId"] = "wh_123" }, nil), emitted, webhook),
		wire("webhook-id-of-another-tenant", "A registration is named under another tenant than the caller's.", "another-tenant|status 204",
			elsewhere(func(doc object) {
				id := text(doc["webhookId"])
				doc["webhookId"] = "another-tenant" + id[strings.Index(id, "/"):]
			}, nil), emitted, webhook),
	}
}

// foreignAs gives what is refused as another tenant's another refusal.
func foreignAs(m tamper.Match, status int, code string) tamper.Middleware {
	return onStatus(m, http.StatusForbidden, func(a *tamper.Answer) {
		if doc, ok := a.JSON(); ok && doc["error"] == "id_tenant_mismatch" {
			a.Refuse(status, code, "refused")
		}
	})
}

// elsewhere edits the registrations of the one address that no test receives at, and what becomes of their ids when
// they are unregistered.
func elsewhere(made func(doc object), unregistered func(r *http.Request, a *tamper.Answer)) tamper.Middleware {
	var ids notes[bool]
	return tamper.Chain(
		answeringHook(func(asked object, a *tamper.Answer) {
			doc, ok := a.JSON()
			if !ok || !strings.HasPrefix(text(asked["url"]), "https://wopcert.example/") {
				return
			}
			ids.put(text(doc["webhookId"]), true)
			made(doc)
			a.SetJSON(doc)
		}),
		tamper.Instead(unregisterHook(), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			a := tamper.Record(next, r)
			if known, _ := ids.get(hookSegment(r)); known && unregistered != nil {
				unregistered(r, a)
			}
			a.Send(w)
		}),
	)
}

func egressFaults() []Fault {
	egress, mapped := requirements.R0171WebhookEgressRefused, requirements.WebhooksEgressMapped
	translated, special := requirements.WebhooksEgressTranslated, requirements.WebhooksEgressSpecialPurpose
	register := tamper.Match(tamper.Op(http.MethodPost, "/webhooks"))
	accepted := func(id, summary, host string, breaks ...requirements.ID) Fault {
		return wire(id, summary, "201", tamper.Requests(register, func(r *http.Request) {
			doc, ok := tamper.BodyJSON(r)
			if ok && strings.Contains(text(doc["url"]), host) {
				doc["url"] = "https://hooks.example/x"
				tamper.SetBodyJSON(r, doc)
			}
		}), breaks...)
	}
	relaxed := requirements.R0173RelaxationRecorded
	return []Fault{
		accepted("webhook-to-loopback", "A webhook may lead to the host itself.", "//127.0.0.1", egress, relaxed),
		accepted("webhook-to-localhost", "A webhook may lead to the host itself by name.", "//localhost", egress),
		accepted("webhook-to-mapped-address", "A webhook may lead to a private address written as IPv6.", "//[::ffff:", mapped),
		accepted("webhook-to-metadata", "A webhook may lead to the metadata of the cloud.", "//169.254.", egress, relaxed),
		accepted("webhook-to-private-ipv6", "A webhook may lead to a private IPv6 address.", "//[fd", egress),
		accepted("webhook-without-tls", "A webhook may be sent in the clear.", "http://", egress),
		wire("webhook-refused-other-code", "A webhook to a private address is refused with the general code.", "400 validation_error",
			tamper.JSON(register, 400, func(_ *http.Request, doc map[string]any) {
				if doc["error"] == "webhook_url_rejected" {
					doc["error"] = "validation_error"
				}
			}), egress, mapped, translated, special).blocking(relaxed),
		wire("webhook-refused-403", "A webhook to a private address is forbidden.", "403",
			tamper.Answers(register, func(_ *http.Request, a *tamper.Answer) {
				if doc, ok := a.JSON(); ok && doc["error"] == "webhook_url_rejected" {
					a.Refuse(403, "forbidden", "not there")
				}
			}), egress, mapped, translated, special).blocking(relaxed),
	}
}

// inFlight is the state of a record whose request is being processed.
const inFlight referencehost.RecordState = 1

// leakyStore lets requests of one key through that come while the first is
// being processed, or answers them with what it must not.
type leakyStore struct {
	referencehost.Store
	then referencehost.RecordState
}

// Begin implements referencehost.Store.
func (s *leakyStore) Begin(ctx context.Context, key referencehost.RecordKey, digest [32]byte, now time.Time) (referencehost.RecordState, *referencehost.Response, error) {
	state, response, err := s.Store.Begin(ctx, key, digest, now)
	if state == inFlight {
		return s.then, nil, err
	}
	if state == 0 && err == nil {
		tamper.Pause(ctx, 30*time.Millisecond) // the others arrive meanwhile
	}
	return state, response, err
}

// unseparated makes one record of what several requests must not share.
type unseparated struct {
	referencehost.Store
	key func(referencehost.RecordKey) referencehost.RecordKey
	sum func([32]byte) [32]byte
}

// Begin implements referencehost.Store.
func (s unseparated) Begin(ctx context.Context, key referencehost.RecordKey, digest [32]byte, now time.Time) (referencehost.RecordState, *referencehost.Response, error) {
	if s.sum != nil {
		digest = s.sum(digest)
	}
	return s.Store.Begin(ctx, s.key(key), digest, now)
}

// Finish implements referencehost.Store.
func (s unseparated) Finish(ctx context.Context, key referencehost.RecordKey, response *referencehost.Response, expiry time.Time) error {
	return s.Store.Finish(ctx, s.key(key), response, expiry)
}

// Abandon implements referencehost.Store.
func (s unseparated) Abandon(ctx context.Context, key referencehost.RecordKey) error {
	return s.Store.Abandon(ctx, s.key(key))
}

// slowWinner holds the first create with a key, so that the others meet it.
func slowWinner(d time.Duration) func(*referencehost.Config) {
	return func(c *referencehost.Config) { c.Store = &heldStore{Store: c.Store, d: d} }
}

type heldStore struct {
	referencehost.Store
	d time.Duration
}

// Create implements referencehost.Store.
func (s *heldStore) Create(ctx context.Context, run referencehost.Run, exclusive bool, first ...referencehost.Draft) (referencehost.Log, error) {
	if len(run.Tags) > 0 {
		tamper.Pause(ctx, s.d)
	}
	return s.Store.Create(ctx, run, exclusive, first...)
}

func inFlightFaults() []Fault {
	winner, loser := requirements.R0213InFlightOneWinner, requirements.R0213InFlightLoserOutcome
	refused := func(edit func(a *tamper.Answer)) tamper.Middleware {
		return tamper.Answers(tamper.CreateRun, func(_ *http.Request, a *tamper.Answer) {
			if doc, _ := a.JSON(); doc["error"] == "idempotency_in_flight" {
				edit(a)
			}
		})
	}
	lost := func(f Fault) Fault { f.Decorate = slowWinner(60 * time.Millisecond); return f }
	return []Fault{
		made("in-flight-creates-again", "Requests with a key that is being processed are processed too.", "runs|distinct", func(c *referencehost.Config) {
			c.Store = &leakyStore{Store: c.Store, then: 0}
		}, winner),
		lost(wire("in-flight-refused-as-mismatch", "A request with a key that is being processed is refused as another one.", "idempotency_key_mismatch",
			refused(func(a *tamper.Answer) { a.Refuse(409, "idempotency_key_mismatch", "the key was used") }), loser)),
		lost(wire("in-flight-retry-in-details", "The refusal of a request that is being processed says under details when to try again.", "retryAfterMs",
			refused(func(a *tamper.Answer) {
				doc, _ := a.JSON()
				doc["details"] = object{"retryAfterMs": 100}
				a.SetJSON(doc)
			}), loser)),
		lost(wire("in-flight-500", "A request with a key that is being processed makes the host fail.", "500",
			refused(func(a *tamper.Answer) { a.Refuse(500, "internal_error", "deadlock") }), loser)),
		lost(wire("in-flight-retry-after-words", "The refusal of a request that is being processed says in words when to try again.", "Retry-After",
			refused(func(a *tamper.Answer) { a.Header.Set("Retry-After", "in a moment") }), loser)),
		lost(wire("in-flight-replay-unmarked", "A request that met another one with its key is answered as that one, without saying so.", "OpenWOP-Idempotent-Replay|marker",
			awaitedReplay(func(a *tamper.Answer) { a.Header.Del("OpenWOP-Idempotent-Replay") }), loser)),
		lost(wire("in-flight-replay-of-other-body", "A request that met another one with its key is answered with a later state of its run.", "body",
			awaitedReplay(func(a *tamper.Answer) {
				if doc, ok := a.JSON(); ok {
					doc["status"] = "waiting-input"
					a.SetJSON(doc)
				}
			}), loser)),
	}
}

// awaitedReplay repeats a create that meets another one with its key until it
// is answered.
func awaitedReplay(edit func(a *tamper.Answer)) tamper.Middleware {
	return tamper.Instead(tamper.CreateRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		body := tamper.Body(r)
		a := tamper.Record(next, r)
		met := false
		for doc, _ := a.JSON(); doc["error"] == "idempotency_in_flight" && r.Context().Err() == nil; doc, _ = a.JSON() {
			met = true
			tamper.Pause(r.Context(), 10*time.Millisecond)
			tamper.SetBody(r, body)
			a = tamper.Record(next, r)
		}
		if met {
			edit(a)
		}
		a.Send(w)
	})
}

func keyScopeFaults() []Fault {
	mutating, operation, tenant := requirements.IdempotencyMutatingOperations, requirements.IdempotencyKeyScopedToOperation, requirements.IdempotencyKeyTenantScope
	refusals, reads := requirements.IdempotencyRefusalsNotCached, requirements.IdempotencyGetIgnoresKey
	unkeyed := func(m tamper.Match) tamper.Middleware {
		return tamper.Requests(m, func(r *http.Request) { r.Header.Del("Idempotency-Key") })
	}
	unmarked := func(m tamper.Match) tamper.Middleware {
		return tamper.Answers(m, func(_ *http.Request, a *tamper.Answer) { a.Header.Del("OpenWOP-Idempotent-Replay") })
	}
	return []Fault{
		wire("cancel-key-ignored", "A cancel ignores its Idempotency-Key.", "409", unkeyed(tamper.CancelRun), mutating),
		wire("pause-key-ignored", "A pause ignores its Idempotency-Key.", "409", unkeyed(tamper.PauseRun), mutating),
		wire("resume-key-ignored", "A resume ignores its Idempotency-Key.", "409", unkeyed(tamper.ResumeRun), mutating),
		wire("bulk-cancel-key-ignored", "A bulk cancel ignores its Idempotency-Key.", "bulk|OpenWOP-Idempotent-Replay|body", unkeyed(tamper.BulkCancel), mutating),
		wire("cancel-replay-unmarked", "A replayed cancel does not say that it is one.", "OpenWOP-Idempotent-Replay", unmarked(tamper.CancelRun), mutating),
		wire("pause-replay-unmarked", "A replayed pause does not say that it is one.", "OpenWOP-Idempotent-Replay", unmarked(tamper.PauseRun), mutating),
		wire("bulk-cancel-replay-unmarked", "A replayed bulk cancel does not say that it is one.", "OpenWOP-Idempotent-Replay", unmarked(tamper.BulkCancel), mutating),
		wire("refusal-key-forgotten", "A request that was refused under a key is carried out when it comes again.",
			"a refused resumeRun", refusalsForgotten(), mutating),
		wire("key-of-run-replayed-to-another", "A cancel gets the response that its key has from the cancel of another run.",
			"the cancel of another run", keysOfAnyRun(), operation),
		made("key-of-create-replayed-to-cancel", "A key belongs to the tenant and not to the operation, and any request gets the response of the first.",
			"201|replay|marker", func(c *referencehost.Config) {
				c.Store = unseparated{Store: c.Store, key: func(k referencehost.RecordKey) referencehost.RecordKey { k.Endpoint = ""; return k },
					sum: func([32]byte) [32]byte { return [32]byte{} }}
			}, operation, requirements.IdempotencyKeyMismatch).
			also("409 idempotency_key_mismatch in the error envelope", requirements.InterruptResolveIdempotent, requirements.InterruptTokenResolveIdempotent),
		made("key-of-create-refused-to-cancel", "A key belongs to the tenant and not to the operation, and another request is refused.",
			"409 idempotency_key_mismatch", func(c *referencehost.Config) {
				c.Store = unseparated{Store: c.Store, key: func(k referencehost.RecordKey) referencehost.RecordKey { k.Endpoint = ""; return k }}
			}, operation),
		wire("key-of-principal", "A key of one principal is not that of another one of the same tenant.", "another key of the tenant",
			tamper.Requests(tamper.CreateRun, func(r *http.Request) {
				if key := r.Header.Get("Idempotency-Key"); len(key) >= 22 && len(key) <= 100 {
					r.Header.Set("Idempotency-Key", key+fmt.Sprintf(".%x", sha256.Sum256([]byte(r.Header.Get("Authorization"))))[:17])
				}
			}), tenant),
		made("key-without-tenant", "A key of one tenant is that of every tenant.", "OpenWOP-Idempotent-Replay", func(c *referencehost.Config) {
			c.Store = unseparated{Store: c.Store, key: func(k referencehost.RecordKey) referencehost.RecordKey { k.Tenant = ""; return k }}
		}, tenant),
		wire("refusals-replayed", "A refusal of a malformed request is kept and replayed.", "OpenWOP-Idempotent-Replay|marker", cachedRefusals(400, true), refusals),
		wire("refusals-hold-key", "A key that came with a malformed request is taken.", "409 idempotency_key_mismatch", cachedRefusals(400, false), refusals),
		wire("forbidden-replayed", "A refusal for want of a scope is kept and replayed to whoever comes next.", "403", cachedRefusals(403, true), refusals),
		wire("get-replayed", "A read with a key gets the response of the first read with it.", "status|running|later", cachedReads(), reads),
		wire("get-with-key-marked", "A read with a key says that it is a replay.", "OpenWOP-Idempotent-Replay|marker",
			tamper.Answers(tamper.And(tamper.GetRun, tamper.HasHeader("Idempotency-Key")), func(_ *http.Request, a *tamper.Answer) {
				a.Header.Set("OpenWOP-Idempotent-Replay", "true")
			}), reads),
		wire("get-with-key-refused", "A read with a key is refused.", "400",
			tamper.Answers(tamper.And(tamper.GetRun, tamper.HasHeader("Idempotency-Key")), func(_ *http.Request, a *tamper.Answer) {
				a.Refuse(400, "validation_error", "a read takes no key")
			}), reads),
	}
}

// cachedRefusals keeps the refusals of one status by their key: to replay them,
// or to refuse the key from then on when another request comes with it.
func cachedRefusals(status int, replay bool) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		var mu sync.Mutex
		kept := map[string]*tamper.Answer{}
		bodies := map[string]string{}
		return tamper.Instead(tamper.And(tamper.CreateRun, tamper.HasHeader("Idempotency-Key")), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			body := string(tamper.Body(r))
			mu.Lock()
			was, again := kept[keyOf(r)], kept[keyOf(r)] != nil
			same := bodies[keyOf(r)] == body
			mu.Unlock()
			if again && (replay && (same || status == http.StatusForbidden) || !replay && !same) {
				a := *was
				a.Header = was.Header.Clone()
				if replay {
					a.Header.Set("OpenWOP-Idempotent-Replay", "true")
				} else {
					a.Refuse(409, "idempotency_key_mismatch", "the key was used")
				}
				a.Send(w)
				return
			}
			a := tamper.Record(next, r)
			if doc, _ := a.JSON(); a.Status == status && doc["error"] != "idempotency_key_invalid" {
				mu.Lock()
				kept[keyOf(r)], bodies[keyOf(r)] = a, body
				mu.Unlock()
			}
			a.Send(w)
		})(next)
	}
}

// cachedReads keeps the first answer to a read with a key.
func cachedReads() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		var mu sync.Mutex
		kept := map[string]*tamper.Answer{}
		return tamper.Instead(tamper.And(tamper.GetRun, tamper.HasHeader("Idempotency-Key")), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			mu.Lock()
			was := kept[keyOf(r)]
			mu.Unlock()
			if was == nil {
				was = tamper.Record(next, r)
				mu.Lock()
				kept[keyOf(r)] = was
				mu.Unlock()
			}
			was.Send(w)
		})(next)
	}
}

func ledgerFaults() []Fault {
	delivered := requirements.R0158DuplicateDelivery
	ledger := func(edit func(effects []any) []any) tamper.Middleware {
		return tamper.JSON(tamper.Op(http.MethodGet, "/runs/{}/effects"), 200, func(_ *http.Request, doc map[string]any) {
			effects, _ := doc["effects"].([]any)
			doc["effects"] = edit(effects)
		})
	}
	return []Fault{
		wire("effect-recorded-twice", "An effect of work that was delivered twice is in the ledger twice.", "effectId|effect",
			ledger(func(effects []any) []any { return append(effects, effects...) }), delivered),
		wire("effect-made-twice", "Work that was delivered twice has its effect twice.", "effect|node",
			ledger(func(effects []any) []any {
				for _, v := range effects {
					second := object{}
					for name, value := range v.(object) {
						second[name] = value
					}
					second["effectId"] = text(second["effectId"]) + "-again"
					return append(effects, second)
				}
				return effects
			}), delivered, requirements.R0173EffectIdentityBusinessKeyRetry).
			blocking(requirements.IdempotencyDistinctInvocations, requirements.IdempotencyBusinessIdentityStable),
	}
}
