package faults

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/tamper"
	"wopcert/reference-host/tamper/outbound"
	"wopcert/requirements"
)

func deliveryFaults() []Fault {
	shape, verbatim := requirements.R0171WebhookDeliveryShape, requirements.WebhooksEventVerbatim
	workspace, runID := requirements.WebhooksWorkspacePresent, requirements.WebhooksDeliveryRunId
	return []Fault{
		made("webhook-envelope-open", "The envelope of a delivery says when it was sent.", "sentAt",
			outbound.Delivering(func(p *outbound.Post) { p.EditBody(func(doc object) { doc["sentAt"] = "2026-01-01T00:00:00Z" }) }), shape),
		made("webhook-event-open", "The event of a delivery names the subscription.", "webhookId",
			outbound.Delivering(func(p *outbound.Post) { p.EditEvent(func(event object) { event["webhookId"] = p.Hook.ID }) }), shape),
		made("webhook-workspace-null", "The workspace of a run that has none is null.", "workspaceId",
			outbound.Delivering(func(p *outbound.Post) { p.EditBody(func(doc object) { doc["workspaceId"] = nil }) }), shape),
		made("webhook-payload-trimmed", "The payload of a delivery leaves out what is large.", "payload of the event",
			outbound.Delivering(func(p *outbound.Post) { p.EditEvent(func(event object) { event["payload"] = object{} }) }), verbatim),
		made("webhook-event-renumbered", "The events of a delivery are counted from 1.", "sequence|never taken|was not delivered",
			outbound.Delivering(func(p *outbound.Post) {
				p.EditEvent(func(event object) {
					event["sequence"] = integer(event["sequence"]) + 1
				})
			}), verbatim, requirements.WebhooksAtLeastOnce, requirements.WebhooksBranchDelivered),
		made("webhook-event-renamed", "An event has an id of its own in a delivery.", "eventId of the event",
			outbound.Delivering(func(p *outbound.Post) {
				p.EditEvent(func(event object) { event["eventId"] = "delivery." + text(event["eventId"]) })
			}),
			verbatim),
		made("webhook-event-under-v1-name", "The events of a run of version 1 are delivered as they are stored.", "as in the log",
			outbound.Delivering(func(p *outbound.Post) {
				p.EditEvent(func(event object) {
					if event["type"] == "orchestrator.decided" {
						event["payload"] = object{"decision": event["payload"]}
					}
				})
			}), verbatim),
		made("webhook-v1-name-unmatched", "Subscriptions are matched with the names that events are stored by.", "of a run of version 1",
			outbound.Carrying(func(ctx context.Context, p *outbound.Post, next referencehost.Sender) (*referencehost.Outcome, error) {
				if event, _ := tamper.Decode(p.Body).(object)["event"].(object); event["type"] == "orchestrator.decided" {
					return outbound.Taken(), nil
				}
				return next.Send(ctx, p.Effect)
			}), requirements.WebhooksAtLeastOnce).slow(),
		made("webhook-tenant-for-workspace", "The tenant stands in for a workspace there is none of.", "workspaceId",
			outbound.Delivering(func(p *outbound.Post) { p.EditBody(func(doc object) { doc["workspaceId"] = p.Hook.Tenant }) }), workspace),
		made("webhook-workspace-missing", "The workspace of a run is left out.", "workspaceId",
			decorators(inWorkspace(), outbound.Delivering(func(p *outbound.Post) { p.EditBody(func(doc object) { delete(doc, "workspaceId") }) })), workspace),
		made("webhook-run-id-of-another", "The envelope names another run than the event.", "runId of a delivery",
			outbound.Delivering(func(p *outbound.Post) { p.EditBody(func(doc object) { doc["runId"] = text(doc["runId"]) + "x" }) }), runID),
		made("webhook-run-id-bare", "The envelope names the run without its tenant.", "runId",
			outbound.Delivering(func(p *outbound.Post) {
				p.EditBody(func(doc object) { _, doc["runId"], _ = strings.Cut(text(doc["runId"]), "/") })
			}), runID, shape),
	}
}

// inWorkspace gives every key a workspace.
func inWorkspace() func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		keys := make([]referencehost.Credential, len(c.Keys))
		for i, key := range c.Keys {
			key.Workspace = "workspace-1"
			keys[i] = key
		}
		c.Keys = keys
	}
}

// deliveryHeader edits the headers of deliveries.
func deliveryHeader(id, summary, reason string, edit func(h http.Header, p *outbound.Post), breaks ...requirements.ID) Fault {
	return made(id, summary, reason, outbound.Delivering(func(p *outbound.Post) { edit(p.Header, p) }), breaks...)
}

func signatureFaults() []Fault {
	headers, signature := requirements.WebhooksDeliveryHeaders, requirements.WebhooksDeliverySignature
	signed := requirements.R0201DeliverySigned
	again, generated := requirements.WebhooksRetrySameEvent, requirements.WebhooksSecretGenerated
	rotation, twice := requirements.R0201SecretRotation, requirements.WebhooksRotationTwice
	return []Fault{
		deliveryHeader("webhook-id-header-bare", "OpenWOP-Webhook-Id is without the tenant.", "Openwop-Webhook-Id|OpenWOP-Webhook-Id", func(h http.Header, p *outbound.Post) {
			_, bare, _ := strings.Cut(p.Hook.ID, "/")
			h.Set("OpenWOP-Webhook-Id", bare)
		}, headers, signed),
		deliveryHeader("webhook-type-header-missing", "A delivery does not say in a header of which type it is.", "Event-Type", func(h http.Header, _ *outbound.Post) {
			h.Del("OpenWOP-Event-Type")
		}, headers, signed),
		deliveryHeader("webhook-algorithm-of-standard", "The algorithm of a delivery is that of the companion scheme.", "Signature-Algorithm", func(h http.Header, _ *outbound.Post) {
			h.Set("OpenWOP-Signature-Algorithm", "standard-webhooks-1")
		}, headers, signed),
		deliveryHeader("webhook-algorithm-twice", "A delivery names its algorithm twice.", "Signature-Algorithm", func(h http.Header, _ *outbound.Post) {
			h.Add("OpenWOP-Signature-Algorithm", "v1")
		}, headers, signed),
		deliveryHeader("webhook-signature-in-base64", "The signature of a delivery is in base64.", "OpenWOP-Signature", func(h http.Header, _ *outbound.Post) {
			digest, _ := hex.DecodeString(strings.TrimPrefix(h.Get("OpenWOP-Signature"), "sha256="))
			h.Set("OpenWOP-Signature", "sha256="+base64.StdEncoding.EncodeToString(digest))
		}, headers, signature, signed, again, generated, rotation),
		deliveryHeader("webhook-signature-without-time", "The timestamp of a delivery is not signed.", "which they do not give", func(h http.Header, p *outbound.Post) {
			key, previous := p.Secrets()
			h.Set("OpenWOP-Signature", outbound.V1(cmp.Or(previous, key), string(p.Body)))
		}, signature, signed, again, generated, rotation),
		made("webhook-signature-of-other-bytes", "A delivery is written anew after it was signed.", "which they do not give|verifies|entry under secret",
			outbound.Delivering(func(p *outbound.Post) { p.Body = append(p.Body, '\n') }), signature, signed, again, generated, rotation, twice),
		made("webhook-signed-by-host", "Every delivery is signed with one secret of the host.", "which they do not give",
			outbound.Delivering(func(p *outbound.Post) { p.SignV1("the host's own") }), signature, signed, again, generated, rotation),
		deliveryHeader("webhook-time-in-milliseconds", "The timestamp of a delivery is in milliseconds.", "Unix seconds|webhook-timestamp as", func(h http.Header, p *outbound.Post) {
			p.Header.Set("OpenWOP-Timestamp", p.Header.Get("OpenWOP-Timestamp")+"000")
			p.Sign()
		}, requirements.WebhooksDeliveryTimestamp, again, signed),
		deliveryHeader("webhook-time-of-old", "The timestamp of a delivery is when the subscription was made, or long before.", "Unix seconds|webhook-timestamp as", func(h http.Header, p *outbound.Post) {
			at, _ := strconv.ParseInt(h.Get("OpenWOP-Timestamp"), 10, 64)
			h.Set("OpenWOP-Timestamp", strconv.FormatInt(at-600, 10))
			p.Sign()
		}, requirements.WebhooksDeliveryTimestamp, again, signed),
		deliveryHeader("webhook-legacy-headers-missing", "A host of both majors sends the headers of one.", "X-openwop", func(h http.Header, _ *outbound.Post) {
			for name := range h {
				if strings.HasPrefix(name, "X-Openwop-") {
					h.Del(name)
				}
			}
		}, requirements.WebhooksDualEmission).on("dual-stack"),
		deliveryHeader("webhook-legacy-signature-differs", "The two families of headers are signed at different times.", "X-openwop", func(h http.Header, p *outbound.Post) {
			at, _ := strconv.ParseInt(h.Get("OpenWOP-Timestamp"), 10, 64)
			timestamp := strconv.FormatInt(at-1, 10)
			h.Set("X-openwop-Timestamp", timestamp)
			h.Set("X-openwop-Signature", outbound.V1(p.Hook.Secret, timestamp+"."+string(p.Body)))
		}, requirements.WebhooksDualEmission).on("dual-stack"),
	}
}

func retryFaults() []Fault {
	durable, dead := requirements.R0173WebhookDurableDelivery, requirements.R0173WebhookDurableDeliveryDeadLetter
	attempts, backoff := requirements.WebhooksRetryMaxAttempts, requirements.WebhooksRetryBackoff
	redirect, follow := requirements.WebhooksRedirectFails, requirements.WebhooksRedirectNotFollowed
	return []Fault{
		made("webhook-best-effort", "What a receiver answers does not matter.", "another attempt|among the dead letters|no more came|was never taken",
			outbound.Answered(func(_ *outbound.Post, o *referencehost.Outcome) *referencehost.Outcome { return outbound.Taken() }),
			durable, dead, attempts, redirect, requirements.WebhooksConnectionFails, requirements.WebhooksAtLeastOnce).
			blocking(backoff, requirements.WebhooksRetrySameEvent, requirements.R0188DeadLetterRead, requirements.R0188DeadLetterContentFree,
				requirements.WebhooksDeadLetterPages, requirements.WebhooksDeadLetterCursor, requirements.WebhooksDeadLetterRetention,
				requirements.WebhooksDeadLetterUnregistered, requirements.R0201MessageIdStable, requirements.WebhooksUnregisterEndsRetries).slow(),
		wire("webhook-attempts-understated", "A delivery is attempted once more than the policy says.", "no more than 3 attempts",
			retryPolicy(func(policy object) { policy["maxAttempts"] = 3 }), attempts),
		wire("webhook-attempts-overstated", "A delivery is given up before its attempts are used up.", "no more came",
			retryPolicy(func(policy object) { policy["maxAttempts"] = 5 }), attempts).slow(),
		Fault{ID: "webhook-backoff-shrinks", Summary: "A host that says its backoff is exponential waits less and less.", Reason: "times the first|a wait of",
			Decorate: decorators(func(c *referencehost.Config) { c.Webhooks.Backoff = "none" }, impatient()),
			Wrap:     retryPolicy(func(policy object) { policy["backoff"] = "exponential" }), Breaks: []requirements.ID{backoff}},
		Fault{ID: "webhook-backoff-does-not-grow", Summary: "A host that says its backoff is exponential always waits as long.", Reason: "times the first",
			Decorate: func(c *referencehost.Config) { c.Webhooks.Backoff = "fixed" },
			Wrap:     retryPolicy(func(policy object) { policy["backoff"] = "exponential" }), Breaks: []requirements.ID{backoff}},
		made("webhook-redirect-accepted", "A redirect counts as an answer like any other.", "another attempt after one that was answered 3",
			outbound.Answered(func(_ *outbound.Post, o *referencehost.Outcome) *referencehost.Outcome {
				if o != nil && o.Status >= 300 && o.Status < 400 {
					return outbound.Taken()
				}
				return o
			}), redirect).slow(),
		made("webhook-redirect-followed", "A delivery goes where a redirect leads, which counts as a failure all the same.", "after a 3",
			redirected(false), follow),
		made("webhook-redirect-followed-and-done", "A delivery goes where a redirect leads.", "after a 3|another attempt after one that was answered 3",
			redirected(true), follow, redirect).slow(),
		made("webhook-hang-up-accepted", "A receiver that hangs up has what it wanted.", "whose connection was closed",
			outbound.Answered(func(_ *outbound.Post, o *referencehost.Outcome) *referencehost.Outcome {
				if o == nil {
					return outbound.Taken()
				}
				return o
			}), requirements.WebhooksConnectionFails).slow(),
		made("webhook-retry-counts", "A retry says in its event the how manieth it is.", "the event of a retry",
			outbound.Delivering(func(p *outbound.Post) {
				if p.Attempt > 1 {
					p.EditEvent(func(event object) {
						if payload, ok := event["payload"].(object); ok {
							payload["attempt"] = p.Attempt
						}
					})
				}
			}), requirements.WebhooksRetrySameEvent),
		made("webhook-retry-signed-once", "A retry has the signature of the first attempt and a time of its own.", "which they do not give",
			outbound.Delivering(func(p *outbound.Post) {
				if p.Attempt > 1 {
					at, _ := strconv.ParseInt(p.Header.Get("OpenWOP-Timestamp"), 10, 64)
					p.Header.Set("OpenWOP-Timestamp", strconv.FormatInt(at+1, 10))
				}
			}), requirements.WebhooksRetrySameEvent),
		made("webhook-late-events-lost", "What comes late in a run is not delivered.", "never taken",
			outbound.Carrying(func(ctx context.Context, p *outbound.Post, next referencehost.Sender) (*referencehost.Outcome, error) {
				event, _ := tamper.Decode(p.Body).(object)["event"].(object)
				if integer(event["sequence"]) >= 4 && event["type"] == "node.completed" {
					return outbound.Taken(), nil
				}
				return next.Send(ctx, p.Effect)
			}), requirements.WebhooksAtLeastOnce).slow(),
		made("webhook-held-up", "Deliveries are made one after the other.", "another subscription|subscriptions at a time",
			atATime(1, time.Minute),
			requirements.WebhooksIsolation, requirements.WebhooksIsolationEight).slow(),
		made("webhook-held-up-briefly", "Deliveries are made one after the other, and none may take long.", "another subscription while|subscriptions at a time",
			atATime(1, 300*time.Millisecond),
			requirements.WebhooksIsolation, requirements.WebhooksIsolationEight).slow(),
		made("webhook-refusals-accepted", "What a receiver refuses as the caller's fault is not sent again.", "answered 404|answered 429",
			outbound.Answered(func(_ *outbound.Post, o *referencehost.Outcome) *referencehost.Outcome {
				if o != nil && o.Status >= 400 && o.Status <= 499 {
					return outbound.Taken()
				}
				return o
			}), durable).slow(),
		made("webhook-retry-redirected", "A retry goes where a redirect leads.", "after a 302|after a 307",
			outbound.Carrying(func(ctx context.Context, p *outbound.Post, next referencehost.Sender) (*referencehost.Outcome, error) {
				o, err := next.Send(ctx, p.Effect)
				if err == nil && p.Attempt > 1 && o.Status >= 300 && o.Status <= 399 {
					p.URL = o.Header.Get("Location")
					_, _ = next.Send(ctx, p.Effect) // what comes there does not matter
				}
				return o, err
			}), follow),
		made("webhook-four-at-a-time", "Four deliveries are under way at a time, whoever they are for.", "another subscription while 8|8 subscriptions at a time",
			atATime(4, time.Minute),
			requirements.WebhooksIsolationEight).slow(),
		made("webhook-branch-silent", "A branch is as silent as a replay.", "event of the branch", silentForks(), requirements.WebhooksBranchDelivered),
		made("webhook-replay-delivered", "A replay delivers what it records like any run.", "what the replay has from its source",
			func(c *referencehost.Config) { c.Store = loudReplays{Store: c.Store} }, requirements.WebhooksReplaySilent),
		made("webhook-replay-history-by-type", "What a replay tells again is delivered, unless it is the start of a run.", "what the replay has from its source",
			func(c *referencehost.Config) { c.Store = loudReplays{Store: c.Store, but: "run.started"} }, requirements.WebhooksReplaySilent),
		onwardHop("webhook-carries-authorization", "A delivery carries the credential the subscription was made with.", "Authorization"),
		onwardHop("webhook-carries-cookie", "A delivery carries the cookies the subscription was made with.", "Cookie"),
	}
}

// retryPolicy edits the retry policy that is advertised.
func retryPolicy(edit func(policy object)) tamper.Middleware {
	return document(func(doc object) {
		if hooks, ok := doc["webhooks"].(object); ok {
			if policy, ok := hooks["retryPolicy"].(object); ok {
				edit(policy)
			}
		}
	})
}

// impatient puts the waits between attempts in the wrong order.
func impatient() func(*referencehost.Config) {
	return outbound.Carrying(func(ctx context.Context, p *outbound.Post, next referencehost.Sender) (*referencehost.Outcome, error) {
		if p.Attempt > 1 {
			tamper.Pause(ctx, time.Duration(max(4-p.Attempt, 0))*80*time.Millisecond)
		}
		return next.Send(ctx, p.Effect)
	})
}

// redirected follows the redirects of deliveries; done makes what comes there the outcome.
func redirected(done bool) func(*referencehost.Config) {
	return outbound.Carrying(func(ctx context.Context, p *outbound.Post, next referencehost.Sender) (*referencehost.Outcome, error) {
		o, err := next.Send(ctx, p.Effect)
		if err != nil || o.Status < 300 || o.Status > 399 {
			return o, err
		}
		p.URL = o.Header.Get("Location")
		there, err := next.Send(ctx, p.Effect)
		if done {
			return there, err
		}
		return o, nil
	})
}

// atATime bounds the deliveries under way to subscriptions that are to the same tags, each for as long as it may take.
func atATime(n int, each time.Duration) func(*referencehost.Config) {
	var mu sync.Mutex
	places := make(map[string]chan struct{}) // by tags
	of := func(tags []string) chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		key := strings.Join(tags, "\n")
		if places[key] == nil {
			places[key] = make(chan struct{}, n)
		}
		return places[key]
	}
	return decorators(
		func(c *referencehost.Config) { c.Webhooks.AttemptTimeout = time.Minute },
		outbound.Carrying(func(ctx context.Context, p *outbound.Post, next referencehost.Sender) (*referencehost.Outcome, error) {
			place := of(p.Hook.Tags)
			select {
			case place <- struct{}{}:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			defer func() { <-place }()
			bounded, cancel := context.WithTimeout(ctx, each)
			defer cancel()
			return next.Send(bounded, p.Effect)
		}))
}

// silentForks delivers nothing of any fork.
func silentForks() func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		store := c.Store
		outbound.Carrying(func(ctx context.Context, p *outbound.Post, next referencehost.Sender) (*referencehost.Outcome, error) {
			if log, err := store.Open(ctx, p.RunID); err == nil && log.Run().ForkOf != "" {
				return outbound.Taken(), nil
			}
			return next.Send(ctx, p.Effect)
		})(c)
	}
}

// onwardHop passes a header of the registration on to the receiver.
func onwardHop(id, summary, name string) Fault {
	var inbound notes[string] // webhookId -> value
	return Fault{ID: id, Summary: summary, Reason: "header " + name, Breaks: []requirements.ID{requirements.SecurityDefaultsOnwardHopDelivery},
		Wrap: tamper.Instead(registerHook(), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			value := r.Header.Get(name)
			a := tamper.Record(next, r)
			if doc, ok := a.JSON(); ok && value != "" {
				inbound.put(text(doc["webhookId"]), value)
			}
			a.Send(w)
		}),
		Decorate: outbound.Delivering(func(p *outbound.Post) {
			if value, ok := inbound.get(p.Hook.ID); ok {
				p.Header.Set(name, value)
			}
		}),
	}
}

// loudReplays is a store to which a replay is a run like any other when
// something has to be said of its events, but for those of one type.
type loudReplays struct {
	referencehost.Store
	but string
}

// Outbox implements referencehost.Store.
func (s loudReplays) Outbox(outbox eventlog.Outbox) {
	s.Store.Outbox(func(run eventlog.Run, events []eventlog.Event) []eventlog.TableWrite {
		if run.ForkMode == "replay" {
			run.ForkMode, run.ForkOf, run.ForkPoint = "", "", 0
			events = slices.DeleteFunc(slices.Clone(events), func(e eventlog.Event) bool { return e.Type == s.but })
		}
		return outbox(run, events)
	})
}
