package faults

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"wopcert/corpus"
	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/reference-host/tamper/outbound"
	"wopcert/requirements"
)

func registrationFaults() []Fault {
	generated, echoed := requirements.WebhooksSecretGenerated, requirements.WebhooksSecretNotEchoed
	names, closed := requirements.WebhooksEventsV2Names, requirements.WebhooksRegistrationClosed
	accepting := func(id, summary string, breaks requirements.ID, edit func(doc object)) Fault {
		return wire(id, summary, "201", askingHook(edit), breaks)
	}
	events := func(doc object) []any { list, _ := doc["events"].([]any); return list }
	contract := sync.OnceValue(func() *corpus.Corpus { c, _ := corpus.Load(); return c }) // the host has loaded it too
	known := func(e any) bool { return e != "completed" && e != "run.wopcert-never" }
	return []Fault{
		wire("webhook-answer-open", "The answer to a registration lists signature algorithms nobody asked for, and none.", "signatureAlgorithms",
			answeringHook(func(asked object, a *tamper.Answer) {
				if doc, ok := a.JSON(); ok && asked["signatureAlgorithms"] == nil {
					doc["signatureAlgorithms"] = []any{}
					a.SetJSON(doc)
				}
			}), requirements.WebhooksRegistered),
		wire("webhook-secret-missing", "A registration without a secret is answered without one.", "without a secret",
			tamper.JSON(registerHook(), 201, func(_ *http.Request, doc map[string]any) { delete(doc, "secret") }), generated),
		wire("webhook-secret-of-another", "The secret in the 201 is not the one that signs.", "which they do not give",
			tamper.JSON(registerHook(), 201, func(_ *http.Request, doc map[string]any) {
				if secret := text(doc["secret"]); secret != "" {
					doc["secret"] = "whsec_" + strings.ToLower(secret[6:])
				}
			}), generated),
		wire("webhook-secret-echoed", "A secret that the caller supplied comes back.", "it is there",
			answeringHook(func(asked object, a *tamper.Answer) {
				if doc, ok := a.JSON(); ok && asked["secret"] != nil {
					doc["secret"] = asked["secret"]
					a.SetJSON(doc)
				}
			}), echoed),
		wire("webhook-secret-echoed-in-header", "A secret that the caller supplied comes back in a header.", "it is there",
			answeringHook(func(asked object, a *tamper.Answer) {
				if secret := text(asked["secret"]); secret != "" {
					a.Header.Set("Webhook-Secret", secret)
				}
			}), echoed),
		made("webhook-secret-delivered", "A secret the host made goes along with every delivery.", "it is there",
			outbound.Delivering(func(p *outbound.Post) {
				if !p.Hook.Standard && strings.HasPrefix(p.Hook.Secret, "whsec_") {
					p.Header.Set("Webhook-Secret", p.Hook.Secret)
				}
			}), requirements.WebhooksSecretReturnedOnce),
		secretAtTheEnd(),
		made("webhook-registered-anew", "A registration that is repeated under its key is made again.", "webhookId|subscription",
			func(c *referencehost.Config) { c.Store = &repeater{Store: c.Store} }, requirements.WebhooksRegistrationIdempotent),
		wire("webhook-refusal-not-kept", "A registration whose endpoint did not consent is made again under its key, and the endpoint asked again.", "no request to the endpoint",
			forgottenKeys(registerHook(), "webhook_endpoint_unverified"), requirements.WebhooksRegistrationIdempotent),
		accepting("webhook-empty-events-accepted", "A registration for no event is accepted.", requirements.WebhooksEventsNonempty, func(doc object) {
			if list, ok := doc["events"].([]any); ok && len(list) == 0 {
				doc["events"] = []any{"run.completed"}
			}
		}),
		accepting("webhook-missing-events-accepted", "A registration without events is one for all.", requirements.WebhooksEventsNonempty, func(doc object) {
			if doc["events"] == nil {
				doc["events"] = []any{"run.completed"}
			}
		}),
		accepting("webhook-unknown-event-accepted", "A registration for a type that does not exist is accepted.", names, func(doc object) {
			if list := events(doc); len(list) == 1 && !known(list[0]) {
				doc["events"] = []any{"run.completed"}
			}
		}),
		accepting("webhook-unknown-event-dropped", "A type that does not exist is dropped without a word.", names, func(doc object) {
			if list := slices.DeleteFunc(slices.Clone(events(doc)), func(e any) bool { return !known(e) }); len(list) > 0 {
				doc["events"] = list
			}
		}),
		accepting("webhook-version-1-event-accepted", "A registration may use the names of version 1.", names, func(doc object) {
			for i, e := range events(doc) {
				if _, current := contract().Event(text(e)); known(e) && !current {
					events(doc)[i] = "run.completed"
				}
			}
		}),
		accepting("webhook-unknown-member-accepted", "What a registration does not define is dropped without a word.", closed, func(doc object) {
			delete(doc, "wopcertUnknown")
		}),
	}
}

// repeater keeps no record of registrations.
type repeater struct {
	referencehost.Store
	seen atomic.Int64
}

// Begin implements referencehost.Store.
func (s *repeater) Begin(ctx context.Context, key referencehost.RecordKey, digest [32]byte, now time.Time) (referencehost.RecordState, *referencehost.Response, error) {
	if key.Endpoint == "registerWebhook" {
		key.Key += "." + strconv.FormatInt(s.seen.Add(1), 10)
	}
	return s.Store.Begin(ctx, key, digest, now)
}

// secretAtTheEnd says once more, when a subscription ends, what its secret was.
func secretAtTheEnd() Fault {
	var secrets notes[string] // webhookId -> secret
	return wire("webhook-secret-at-the-end", "The answer to an unregistration holds the secret that is not needed any more.", "it is there",
		tamper.Chain(
			answeringHook(func(_ object, a *tamper.Answer) {
				if doc, ok := a.JSON(); ok && text(doc["secret"]) != "" {
					secrets.put(text(doc["webhookId"]), text(doc["secret"]))
				}
			}),
			tamper.Answers(unregisterHook(), func(r *http.Request, a *tamper.Answer) {
				if secret, ok := secrets.get(hookSegment(r)); ok {
					a.Header.Set("Webhook-Secret", secret)
				}
			}),
		), requirements.WebhooksSecretReturnedOnce)
}

func selectionFaults() []Fault {
	tags, isolation := requirements.WebhooksTagsNarrow, requirements.WebhooksTenantIsolation
	return []Fault{
		wire("webhook-every-event-delivered", "A subscription to the start or the end of runs receives what the nodes do as well.", "deliveries of",
			askingHook(func(doc object) {
				if list, ok := doc["events"].([]any); ok && len(list) == 1 && list[0] == "run.completed" {
					doc["events"] = append(list, "node.completed")
				}
			}), requirements.WebhooksEventsFilter).
			also("records of one delivery 2", requirements.R0173WebhookDurableDeliveryDeadLetter),
		made("webhook-tenants-mixed", "A subscription receives the events of other tenants too.", "of run", othersToo(), isolation),
		wire("webhook-tags-ignored", "The tags of a subscription mean nothing.", "with other tags|without tags",
			askingHook(func(doc object) {
				if list, ok := doc["tags"].([]any); ok && len(list) > 1 {
					delete(doc, "tags")
				}
			}), tags),
		wire("webhook-tags-all-needed", "A run must carry every tag of a subscription.", "none came",
			askingHook(func(doc object) {
				if list, ok := doc["tags"].([]any); ok && len(list) > 1 {
					doc["tags"] = list[1:]
				}
			}), tags),
	}
}

// othersToo sends every delivery to the subscriptions of other tenants as well.
func othersToo() func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		store := c.Store
		outbound.Carrying(func(ctx context.Context, p *outbound.Post, next referencehost.Sender) (*referencehost.Outcome, error) {
			var others []string
			_ = store.Scan(ctx, "webhooks", "", func(key string, _ []byte) error {
				if !strings.HasPrefix(key, p.Hook.Tenant+"/") {
					others = append(others, key)
				}
				return nil
			})
			for _, id := range others {
				other := &outbound.Post{Effect: p.Effect, Hook: outbound.HookOf(ctx, store, id)}
				if !slices.Contains(other.Hook.Events, p.Header.Get("OpenWOP-Event-Type")) || p.Attempt > 1 {
					continue
				}
				other.URL, other.Header = other.Hook.URL, p.Header.Clone()
				other.Header.Set("OpenWOP-Webhook-Id", id)
				other.Sign()
				_, _ = next.Send(ctx, other.Effect) // nobody waits for it
			}
			return next.Send(ctx, p.Effect)
		})(c)
	}
}

func unregisterFaults() []Fault {
	scope := requirements.WebhooksScope
	unknown, foreign := requirements.WebhooksUnregisterUnknown, requirements.WebhooksUnregisterForeign
	return []Fault{
		wire("webhook-unknown-unregistered", "Whatever is unregistered is gone, known or not.", "204",
			tamper.Answers(unregisterHook(), func(_ *http.Request, a *tamper.Answer) {
				if a.Status == http.StatusNotFound {
					a.Status, a.Body = http.StatusNoContent, nil
				}
			}), unknown),
		wire("webhook-unregister-answers-200", "An unregistration is answered 200 with a word.", "200",
			tamper.Answers(unregisterHook(), func(_ *http.Request, a *tamper.Answer) {
				if a.Status == http.StatusNoContent {
					a.Status = http.StatusOK
					a.SetJSON(object{"unregistered": true})
				}
			}), unknown, requirements.R0187BoundIdKindsWebhook).
			blocking(requirements.WebhooksUnregisterEndsDeliveries, requirements.WebhooksUnregisterEndsRetries, requirements.WebhooksDeadLetterUnregistered),
		foreignUnregistered(foreign),
		made("webhook-reader-manages", "Whoever may read may manage webhooks.", "was answered 20", func(c *referencehost.Config) {
			keys := slices.Clone(c.Keys)
			for i := range keys {
				if keys[i].Name == referencehost.KeyReadOnly {
					keys[i].Scopes = append(slices.Clone(keys[i].Scopes), referencehost.ScopeWebhooks)
				}
			}
			c.Keys = keys
		}, scope),
		wire("webhook-reader-not-found", "To a key that may only read there are no webhooks.", "404", tamper.Answers(
			tamper.Or(registerHook(), unregisterHook(), rotateSecret()), func(_ *http.Request, a *tamper.Answer) {
				if doc, ok := a.JSON(); ok && doc["error"] == "forbidden" {
					a.Refuse(http.StatusNotFound, "not_found", "no route")
				}
			}), scope),
		zombies(),
		made("webhook-retried-after-unregister", "What has failed once is tried again, subscribed or not.", "attempts",
			retriedForever(), requirements.WebhooksUnregisterEndsRetries),
		made("webhook-scheduled-after-unregister", "What is to be tried again is, though its subscription has ended meanwhile.", "but one that had begun",
			retriedOnSchedule(), requirements.WebhooksUnregisterEndsRetries),
	}
}

// foreignUnregistered refuses another tenant's caller and does what was asked.
func foreignUnregistered(breaks requirements.ID) Fault {
	var owners notes[string] // webhookId -> Authorization
	return wire("webhook-foreign-unregistered", "A caller of another tenant is refused, and the subscription ends all the same.", "none came",
		tamper.Chain(
			tamper.Instead(registerHook(), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				a := tamper.Record(next, r)
				if doc, ok := a.JSON(); ok {
					owners.put(text(doc["webhookId"]), r.Header.Get("Authorization"))
				}
				a.Send(w)
			}),
			tamper.Instead(unregisterHook(), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				a := tamper.Record(next, r)
				doc, _ := a.JSON()
				if owner, ok := owners.get(hookSegment(r)); ok && doc["error"] == "id_tenant_mismatch" {
					tamper.Ask(next, r, http.MethodDelete, r.URL.EscapedPath(), nil, "Authorization", owner)
				}
				a.Send(w)
			}),
		), breaks)
}

// zombies registers anew what is unregistered.
func zombies() Fault {
	var bodies notes[object]
	return wire("webhook-delivers-after-unregister", "A subscription that was taken back receives what comes later.", "delivery for a run after the unregister",
		tamper.Chain(
			tamper.Instead(registerHook(), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				asked, _ := tamper.BodyJSON(r)
				a := tamper.Record(next, r)
				if doc, ok := a.JSON(); ok && a.Status == http.StatusCreated && asked["signatureAlgorithms"] == nil {
					bodies.put(text(doc["webhookId"]), asked)
				}
				a.Send(w)
			}),
			tamper.Instead(unregisterHook(), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				body, known := bodies.get(hookSegment(r))
				a := tamper.Record(next, r)
				if known && a.Status == http.StatusNoContent {
					tamper.Ask(next, r, http.MethodPost, "/webhooks", body)
				}
				a.Send(w)
			}),
		), requirements.WebhooksUnregisterEndsDeliveries)
}

// retriedForever makes one more attempt when a subscription has gone meanwhile.
func retriedForever() func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		store := c.Store
		outbound.Carrying(func(ctx context.Context, p *outbound.Post, next referencehost.Sender) (*referencehost.Outcome, error) {
			o, err := next.Send(ctx, p.Effect)
			if err == nil && o.Status < 300 || outbound.HookOf(ctx, store, p.Header.Get("OpenWOP-Webhook-Id")).ID != "" {
				return o, err
			}
			later := context.WithoutCancel(ctx)
			go func() {
				tamper.Pause(later, 30*time.Millisecond) // the unregister has been answered
				_, _ = next.Send(later, p.Effect)        // nobody waits for it
			}()
			return o, err
		})(c)
	}
}

// retriedOnSchedule makes the retries of what fails while the subscription is
// there whatever becomes of it, as timers do that nobody stops.
func retriedOnSchedule() func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		store := c.Store
		outbound.Carrying(func(ctx context.Context, p *outbound.Post, next referencehost.Sender) (*referencehost.Outcome, error) {
			o, err := next.Send(ctx, p.Effect)
			id := p.Header.Get("OpenWOP-Webhook-Id")
			if err != nil || o.Status < 300 || p.Attempt > 1 || outbound.HookOf(ctx, store, id).ID == "" {
				return o, err
			}
			later, effect := context.WithoutCancel(ctx), p.Effect
			go func() {
				for range 3 {
					tamper.Pause(later, 60*time.Millisecond)
					if outbound.HookOf(later, store, id).ID == "" {
						_, _ = next.Send(later, effect) // nobody waits for it
					}
				}
			}()
			return o, err
		})(c)
	}
}

// forgottenKeys gives a request whose key was refused with a code another key
// when it is sent again.
func forgottenKeys(m tamper.Match, code string) tamper.Middleware {
	var refused notes[bool]
	return tamper.Instead(m, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		key := r.Header.Get("Idempotency-Key")
		if again, _ := refused.get(key); again && key != "" {
			r.Header.Set("Idempotency-Key", strings.Repeat("again", 6)[:26]+strconv.Itoa(len(key)))
		}
		a := tamper.Record(next, r)
		if doc, _ := a.JSON(); doc["error"] == code {
			refused.put(key, true)
		}
		a.Send(w)
	})
}
