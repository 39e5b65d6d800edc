package faults

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/reference-host/tamper/outbound"
	"wopcert/requirements"
)

// The reads of effects.
func getEffects() tamper.Match  { return tamper.Op(http.MethodGet, "/runs/{}/effects") }
func effectSeams() tamper.Match { return tamper.Op(http.MethodGet, "/host/effect-seams") }

// sendsTwice selects the seam that sends an effect twice.
func sendsTwice(r *http.Request) bool {
	return tamper.Op(http.MethodPost, "/conformance/seams/sample/test/idempotency/effect-retry")(r)
}

// effectRows edits the records of getRunEffects.
func effectRows(edit func(r *http.Request, rows []any, next http.Handler) []any) tamper.Middleware {
	return tamper.Instead(getEffects(), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := tamper.Record(next, r)
		if doc, ok := a.JSON(); ok && a.Status == http.StatusOK {
			rows, _ := doc["effects"].([]any)
			doc["effects"] = edit(r, rows, next)
			a.SetJSON(doc)
		}
		a.Send(w)
	})
}

// runOf is the snapshot of the run a request is about.
func runOf(next http.Handler, r *http.Request) object {
	doc, _ := tamper.Ask(next, r, http.MethodGet, "/runs/"+tamper.RunSegment(r), nil).JSON()
	return doc
}

// sendingEffects edits effects of nodes on their way out; other things that leave the
// host are left alone.
func sendingEffects(edit func(e *referencehost.Effect)) outbound.Decorator {
	return outbound.Leaving(func(ctx context.Context, e referencehost.Effect, next referencehost.Sender) (*referencehost.Outcome, error) {
		if e.NodeID != "" {
			e.Header = e.Header.Clone()
			edit(&e)
		}
		return next.Send(ctx, e)
	})
}

const providerKeyHeader = "Idempotency-Key"

// sent remembers what left a host, and can send it once more.
type sent struct {
	mu      sync.Mutex
	effects map[string][]referencehost.Effect // by run id
	next    referencehost.Sender
}

// watch puts a sent where everything leaves the host.
func (s *sent) watch(c *referencehost.Config) {
	outbound.Leaving(func(ctx context.Context, e referencehost.Effect, next referencehost.Sender) (*referencehost.Outcome, error) {
		outcome, err := next.Send(ctx, e)
		if e.NodeID == "" {
			return outcome, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.effects == nil {
			s.effects = map[string][]referencehost.Effect{}
		}
		s.next, s.effects[e.RunID] = next, append(s.effects[e.RunID], e)
		return outcome, err
	})(c)
}

// again sends what a run has sent once more.
func (s *sent) again(runID string, which func(e *referencehost.Effect) bool) {
	s.mu.Lock()
	effects, next := s.effects[runID], s.next
	s.mu.Unlock()
	for _, e := range effects {
		if which(&e) {
			_, _ = next.Send(context.Background(), e) // the provider counts it, whatever it answers
		}
	}
}

// watching is a fault on the wire that knows what left the host.
func watching(id, summary, reason string, wrap func(s *sent) tamper.Middleware, breaks ...requirements.ID) Fault {
	s := new(sent)
	return Fault{ID: id, Summary: summary, Reason: reason, Wrap: wrap(s), Decorate: s.watch, Breaks: breaks}
}

func providerFaults() []Fault {
	identity, retry := requirements.R0173EffectIdentityBusinessKey, requirements.R0173EffectIdentityBusinessKeyRetry
	stable, distinct := requirements.IdempotencyBusinessIdentityStable, requirements.IdempotencyDistinctInvocations
	key, claim := requirements.IdempotencyProviderKey, requirements.IdempotencyOneClaim
	inverses := requirements.SecurityDefaultsCompensationRetryIdentity
	var counts notes[int]
	var first notes[*referencehost.Outcome]
	var owners notes[string]
	return []Fault{
		made("effect-business-key-of-nobody", "A business key of one tenant is that of every tenant.", "an effect of each tenant",
			outbound.Leaving(func(ctx context.Context, e referencehost.Effect, next referencehost.Sender) (*referencehost.Outcome, error) {
				owner, _ := owners.get(e.Key)
				if known, ok := first.get(e.Key); ok && e.Key != "" && owner != e.Tenant {
					return known, nil
				}
				outcome, err := next.Send(ctx, e)
				if e.Key != "" && err == nil {
					owners.put(e.Key, e.Tenant)
					first.put(e.Key, outcome)
				}
				return outcome, err
			}), distinct),
		wire("effect-identity-without-ordinal", "A node that executes again has the effect it has had.", "an identity for each of two executions",
			effectRows(func(_ *http.Request, rows []any, _ http.Handler) []any {
				ids := map[string]any{}
				for _, v := range rows {
					if row, _ := v.(object); row["keying"] == "activity-recipe" {
						if _, known := ids[text(row["nodeId"])]; !known {
							ids[text(row["nodeId"])] = row["effectId"]
						}
						row["effectId"] = ids[text(row["nodeId"])]
					}
				}
				return rows
			}), distinct),
		made("effect-without-key", "The provider is shown no idempotency key.", "idempotency key|key",
			sendingEffects(func(e *referencehost.Effect) { e.Header.Del(providerKeyHeader) }), key, retry, stable, inverses),
		made("effect-key-for-some", "Effects of business operations show no idempotency key.", "idempotency key|key",
			sendingEffects(func(e *referencehost.Effect) {
				if e.Key != "" {
					e.Header.Del(providerKeyHeader)
				}
			}), key, retry, stable),
		made("effect-key-per-attempt", "Every attempt shows the provider another key.", "one idempotency key",
			sendingEffects(func(e *referencehost.Effect) {
				counts.mu.Lock()
				defer counts.mu.Unlock()
				if counts.held == nil {
					counts.held = map[string]int{}
				}
				was := e.Header.Get(providerKeyHeader)
				counts.held[was]++
				e.Header.Set(providerKeyHeader, was+"-"+strconv.Itoa(counts.held[was]))
			}), retry, inverses),
		made("effect-key-shared", "Every effect shows the provider the same key.", "keys for two effects|a key of its own",
			sendingEffects(func(e *referencehost.Effect) { e.Header.Set(providerKeyHeader, "the-only-key-of-this-host") }), distinct, inverses),
		made("effect-key-of-the-run", "The key of an effect is made of the run's id.", "without the run",
			sendingEffects(func(e *referencehost.Effect) {
				if e.Key != "" {
					_, opaque, _ := strings.Cut(e.RunID, "/")
					e.Header.Set(providerKeyHeader, "run-"+opaque)
				}
			}), identity),
		wire("effect-business-key-ignored", "The business key of an effect is not looked at.", "effectId in a second run|one request",
			askingEffect(func(inputs object) { delete(inputs, "key") }), stable, claim),
		wire("effect-business-key-of-the-run", "Every run makes a business key of its own.", "effectId in a second run|one request",
			askingEffect(func(inputs object) {
				if inputs["key"] != nil {
					inputs["key"] = text(inputs["key"]) + strconv.Itoa(counts.next("runs"))
				}
			}), stable, claim),
		wire("effect-business-key-made-up", "Effects without a business key are taken for one if they go to one place.", "another effectId in another run",
			askingEffect(func(inputs object) {
				if inputs["key"] == nil {
					inputs["key"] = "to " + text(inputs["url"])
				}
			}), distinct),
		wire("effect-business-keys-one", "All business keys are one.", "another effectId for another key",
			askingEffect(func(inputs object) {
				if inputs["key"] != nil {
					inputs["key"] = "to " + text(inputs["url"])
				}
			}), stable),
		made("effect-claim-not-atomic", "Two executors perform one effect of the business.", "one request",
			outbound.Leaving(func(ctx context.Context, e referencehost.Effect, next referencehost.Sender) (*referencehost.Outcome, error) {
				if e.Key != "" && e.Resend == 0 {
					_, _ = next.Send(ctx, e)
				}
				return next.Send(ctx, e)
			}), claim).
			blocking(requirements.IdempotencyDistinctInvocations),
	}
}

// next counts under a name.
func (m *notes[V]) next(name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held == nil {
		m.held = make(map[string]V)
	}
	n, _ := any(m.held[name]).(int)
	m.held[name], _ = any(n + 1).(V)
	return n + 1
}

// askingEffect edits the inputs of runs of the fixture with one effect.
func askingEffect(edit func(inputs object)) tamper.Middleware {
	return tamper.Requests(tamper.CreateRun, func(r *http.Request) {
		doc, _ := tamper.BodyJSON(r)
		if inputs, ok := doc["inputs"].(object); ok && doc["workflowId"] == "wopcert-http-effect" {
			edit(inputs)
			tamper.SetBodyJSON(r, doc)
		}
	})
}

func onwardFaults() []Fault {
	hop := requirements.SecurityDefaultsOnwardHopEffect
	var kept notes[string]
	return []Fault{
		func() Fault {
			k := new(insider)
			return made("effect-with-callers-key", "An effect carries the key of who asked for it.", "one in the header", decorators(k.learn,
				sendingEffects(func(e *referencehost.Effect) {
					if e.Inverse == "" && e.Key != "" {
						e.Header.Set("Authorization", k.bearer(referencehost.KeyTenantA))
					}
				})), hop)
		}(),
		{ID: "effect-with-callers-cookie", Summary: "An effect carries the cookies that came with the request.", Reason: "one in the header", Breaks: []requirements.ID{hop},
			Wrap: tamper.Requests(sendsTwice, func(r *http.Request) {
				if cookie := r.Header.Get("Cookie"); cookie != "" {
					kept.put("cookie", cookie)
				}
			}),
			Decorate: sendingEffects(func(e *referencehost.Effect) {
				if cookie, ok := kept.get("cookie"); ok && e.Key != "" {
					e.Header.Set("Cookie", cookie)
				}
			})},
		func() Fault {
			k := new(insider)
			return made("effect-with-key-in-body", "An effect says in its body which key asked for it.", "the body or the address", decorators(k.learn,
				sendingEffects(func(e *referencehost.Effect) {
					if e.Inverse == "" && e.Key != "" {
						e.Body = tamper.Encode(object{"as": k.bearer(referencehost.KeyTenantA)})
					}
				})), hop)
		}(),
	}
}
