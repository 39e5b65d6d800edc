package faults

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

const alreadyResolved = "interrupt_already_resolved"

// after selects answers about interrupts of runs that have a status by then;
// "waiting" is each of the three.
func (k *insider) after(status string) func(r *http.Request, doc object, next http.Handler) bool {
	return func(r *http.Request, _ object, next http.Handler) bool {
		return strings.HasPrefix(text(k.run(next, r, segmentIn(r))["status"]), status)
	}
}

func oneCodeFaults() []Fault {
	cancelled, completed, unknown := requirements.R0213ResolveAfterCancel, requirements.R0213ResolveAfterComplete, requirements.R0213ResolveUnknownRun
	resolved, never := requirements.ErrorsResolvedInterruptConflict, requirements.ErrorsNoInterruptCancelled
	late := func(id, summary, reason, status string, edit func(*tamper.Answer), breaks ...requirements.ID) Fault {
		return inside(id, summary, reason, func(k *insider) tamper.Middleware {
			return settled(resolveByRun, 409, alreadyResolved, func(r *http.Request, doc object, next http.Handler) bool {
				// Who loses a race comes after the end too; only what comes again says so.
				return (status != "completed" || given(r)["feedback"] == "again") && k.after(status)(r, doc, next)
			}, edit)
		}, breaks...)
	}
	noRun := func(edit func(*tamper.Answer)) func(k *insider) tamper.Middleware {
		return func(k *insider) tamper.Middleware {
			return settled(resolveByRun, 404, "not_found", func(r *http.Request, _ object, next http.Handler) bool {
				return k.run(next, r, segmentIn(r))["runId"] == nil
			}, edit)
		}
	}
	return []Fault{
		late("resolve-after-cancel-run-terminal", "A resolve after a cancel is refused because the run has ended.", "run_terminal", "cancelled", recoded(409, "run_terminal"), cancelled),
		late("resolve-after-cancel-not-found", "A cancelled run has no interrupts any more.", "404", "cancelled", recoded(404, "not_found"), cancelled),
		late("resolve-after-cancel-accepted", "A resolve after a cancel is taken.", "200", "cancelled", accepted, cancelled, never),
		late("resolve-after-cancel-says-cancelled", "A resolve after a cancel is told that the interrupt was cancelled.", "interrupt_cancelled", "cancelled",
			recoded(410, "interrupt_cancelled"), cancelled, never),
		late("resolve-after-complete-run-terminal", "A resolve after the end is refused because the run has ended.", "run_terminal", "completed", recoded(409, "run_terminal"), completed),
		late("resolve-after-complete-accepted", "A resolve after the end is taken.", "200", "completed", accepted, completed),
		late("resolve-after-complete-expired", "A resolve after the end is told that it comes too late.", "410", "completed", recoded(410, "interrupt_expired"), completed),
		late("resolved-twice-accepted", "A second resolve of an interrupt is taken while its run goes on.", "200", "waiting", accepted, resolved),
		late("resolved-twice-state-conflict", "A second resolve of an interrupt is refused because of the run's status.", "run_state_conflict", "waiting", recoded(409, "run_state_conflict"), resolved),
		late("resolved-twice-not-found", "An interrupt that was resolved is not found.", "interrupt_not_found", "waiting", recoded(404, "interrupt_not_found"), resolved),
		inside("resolve-of-no-run-conflicts", "A resolve of an interrupt of no run is one that comes too late.", "409", noRun(recoded(409, alreadyResolved)), unknown),
		inside("resolve-of-no-run-other-code", "A resolve of an interrupt of no run is refused with the code of interrupts.", "interrupt_not_found", noRun(recoded(404, "interrupt_not_found")), unknown),
		inside("token-after-cancel-says-cancelled", "A token of a cancelled run is told that the interrupt was cancelled.", "interrupt_cancelled", func(k *insider) tamper.Middleware {
			return settled(byToken, 409, alreadyResolved, k.after("cancelled"), recoded(410, "interrupt_cancelled"))
		}, never, requirements.InterruptTokenSpentCancelled),
		inside("token-after-complete-says-cancelled", "A token of a completed run is told that the interrupt was cancelled.", "interrupt_cancelled", func(k *insider) tamper.Middleware {
			return settled(inspectByToken, 409, alreadyResolved, k.after("completed"), recoded(410, "interrupt_cancelled"))
		}, never, requirements.InterruptTokenSpentCompleted),
	}
}

func reentryFaults() []Fault {
	key, value, schema, deadline := requirements.InterruptKeyOnce, requirements.InterruptResumeValueReturned, requirements.InterruptResumeSchemaEnforced, requirements.InterruptDeadlineEnds
	const late = "conformance-approval-timeout"
	outcome := func(edit func(outputs object)) tamper.Middleware {
		return shown(func(p object) {
			if outputs, ok := p["outputs"].(object); ok && p["nodeId"] == "wait" {
				edit(outputs)
			}
		}, "node.completed")
	}
	schemed := func(edit func(*tamper.Answer)) tamper.Middleware {
		return settled(at("wait"), 400, "validation_error", nil, edit)
	}
	return []Fault{
		{ID: "key-asked-again", Summary: "A second node with a key asks again.", Reason: "one interrupt.requested for every key", Breaks: []requirements.ID{key},
			Decorate: redefined("wopcert-interrupt-same-key", `"id": "second", "typeId": "core.interrupt", "name": "Take the same answer", "position": {"x": 200, "y": 0}, "config": {"kind": "custom", "key": "wopcert.shared"`,
				`"id": "second", "typeId": "core.interrupt", "name": "Take the same answer", "position": {"x": 200, "y": 0}, "config": {"kind": "custom", "key": "wopcert.shared.again"`),
			Wrap: raised(func(p object) {
				if p["key"] == "wopcert.shared.again" {
					p["key"] = "wopcert.shared"
				}
			})},
		wire("key-of-the-node", "An interrupt has the key of its node, however often that asks.", "one interrupt.requested for every key", shown(func(p object) {
			if p["key"] == "gate.2" {
				p["key"] = "gate"
			}
		}, "interrupt.requested"), key),
		wire("reject-replayed", "A gate that is come to again takes its first decision for the second.", "a second interrupt.requested", tamper.Events(func(e map[string]any) bool {
			p, _ := e["payload"].(object)
			return p["key"] != "gate.2"
		}), key).slow(),
		wire("keys-of-a-run-alike", "All interrupts of a run have one key.", "one interrupt.requested for every key", shown(func(p object) {
			if p["key"] == "left" || p["key"] == "right" {
				p["key"] = "wait"
			}
		}, "interrupt.requested"), key).blocking(requirements.InterruptTokenSpentResolved),
		wire("resume-value-falsy-dropped", "A node that was resolved with false or null is given nothing.", "resumeValue", outcome(func(outputs object) {
			if v := outputs["resumeValue"]; v == nil || v == false {
				delete(outputs, "resumeValue")
			}
		}), value),
		wire("resume-value-as-text", "A node is given what it was resolved with as a text.", "resumeValue", outcome(func(outputs object) {
			if _, ok := outputs["resumeValue"].(string); !ok {
				outputs["resumeValue"] = string(tamper.Encode(outputs["resumeValue"]))
			}
		}), value),
		wire("resume-schema-ignored", "A resume value is taken whatever its schema says.", "200", schemed(accepted), schema),
		wire("resume-schema-other-code", "A resume value that fails its schema is refused with another code.", "409", schemed(recoded(409, "run_state_conflict")), schema),
		wire("resume-schema-refuses-all", "A resume value is refused where there is a schema.", "400", settled(at("wait"), 200, "", func(r *http.Request, _ object, _ http.Handler) bool {
			return given(r)["weight"] != nil
		}, recoded(400, "validation_error")), schema),
		Fault{ID: "deadline-ignored", Summary: "An approval that nobody gives in time is waited for all the same.", Reason: "interrupt that is over|after it", Breaks: []requirements.ID{deadline},
			Decorate: redefined(late, `, "timeoutMs": 1500`, ``), Wrap: raised(ofAsked("approval", func(p, data object) {
				if data["title"] == "Conformance approval (timeout)" {
					p["timeoutMs"] = 1500
				}
			}))}.slow(),
		wire("deadline-grants", "An approval that nobody gives in time is granted.", "decision that grants", tamper.Events(func(e map[string]any) bool {
			if p, ok := e["payload"].(object); ok && e["type"] == "interrupt.resolved" && p["action"] == "timeout" {
				p["decision"] = "granted"
			}
			return true
		}), deadline),
		inside("answer-after-deadline-accepted", "An approval that comes after the deadline is taken.", "200", func(k *insider) tamper.Middleware {
			return settled(resolveByRun, 409, alreadyResolved, func(r *http.Request, _ object, next http.Handler) bool {
				return k.run(next, r, segmentIn(r))["workflowId"] == late
			}, accepted)
		}, deadline),
	}
}

func runSurfaceFaults() []Fault {
	surface, scope, closed := requirements.InterruptRunSurface, requirements.InterruptResolveScope, requirements.InterruptResolveBodyClosed
	idempotent, winner, foreign := requirements.InterruptResolveIdempotent, requirements.InterruptOneWinner, requirements.InterruptForeignTenant
	counts := requirements.InterruptOverrideCountsOnce
	body := func(edit func(doc object)) tamper.Middleware {
		return tamper.Requests(resolveByRun, func(r *http.Request) {
			if doc, ok := tamper.BodyJSON(r); ok {
				edit(doc)
				tamper.SetBodyJSON(r, doc)
			}
		})
	}
	loser := func(edit func(*tamper.Answer)) tamper.Middleware {
		return settled(at("wait"), 409, alreadyResolved, nil, edit)
	}
	unkeyed := func(m tamper.Match) tamper.Middleware {
		return tamper.Requests(m, func(r *http.Request) { r.Header.Del("Idempotency-Key") })
	}
	return []Fault{
		wire("resolve-answered-202", "A resolve is answered as something that is still to come.", "202", tamper.Answers(resolveByRun, func(_ *http.Request, a *tamper.Answer) {
			if a.Status == http.StatusOK {
				a.Status = http.StatusAccepted
			}
		}), surface, counts),
		wire("resolve-answered-204", "A resolve is answered with nothing.", "204", tamper.Answers(resolveByRun, func(_ *http.Request, a *tamper.Answer) {
			if a.Status == http.StatusOK {
				a.Status, a.Body = http.StatusNoContent, nil
				a.Header.Del("Content-Type")
			}
		}), surface, counts),
		made("reader-resolves", "A key that may read runs may resolve their interrupts.", "200", func(c *referencehost.Config) {
			for i := range c.Keys {
				if c.Keys[i].Name == referencehost.KeyReadOnly {
					c.Keys[i].Scopes = append([]string{referencehost.ScopeApprovals}, c.Keys[i].Scopes...)
				}
			}
		}, scope),
		inside("anybody-resolves", "A resolve needs no credential.", "200", func(k *insider) tamper.Middleware {
			return tamper.Requests(tamper.And(resolveByRun, anonymous), func(r *http.Request) { r.Header.Set("Authorization", k.bearer(referencehost.KeyTenantA)) })
		}, scope),
		wire("resolve-without-scope-not-found", "A resolve without its scope finds nothing.", "404", settled(resolveByRun, 403, "forbidden", func(_ *http.Request, doc object, _ http.Handler) bool {
			details, _ := doc["details"].(object)
			return details["requiredScope"] != nil
		}, recoded(404, "not_found")), scope),
		wire("resolve-body-open", "A resolve takes members it does not know.", "decidedBy", body(func(doc object) {
			if value, ok := doc["resumeValue"]; ok {
				clear(doc)
				doc["resumeValue"] = value
			}
		}), closed),
		wire("resolve-body-is-value", "A resolve without resumeValue takes the body for it.", "the body {} was answered 200", settled(resolveByRun, 400, "validation_error", func(r *http.Request, _ object, _ http.Handler) bool {
			doc, ok := tamper.BodyJSON(r)
			_, given := doc["resumeValue"]
			return ok && !given
		}, accepted), closed),
		wire("resolve-body-malformed-422", "A resolve without resumeValue is refused with another status.", "422", settled(resolveByRun, 400, "validation_error", func(r *http.Request, _ object, _ http.Handler) bool {
			doc, ok := tamper.BodyJSON(r)
			return ok && len(doc) == 0
		}, recoded(422, "validation_error")), closed),
		wire("resolve-key-ignored", "A resolve ignores its Idempotency-Key.", "409", unkeyed(resolveByRun), idempotent),
		wire("resolve-replay-unmarked", "A replayed resolve does not say that it is one.", "OpenWOP-Idempotent-Replay|marker", tamper.Answers(resolveByRun, func(_ *http.Request, a *tamper.Answer) {
			a.Header.Del("OpenWOP-Idempotent-Replay")
		}), idempotent),
		wire("resolve-key-of-other-body", "A resolve with the key of another one gets its response.", "idempotency_key_mismatch|200", settled(resolveByRun, 409, "idempotency_key_mismatch", nil, accepted), idempotent),
		wire("losers-accepted", "Of several resolves at once every one is told that it has won.", "resolves succeeded", loser(accepted), winner),
		wire("losers-run-terminal", "A resolve that comes too late is refused because the run has ended.", "run_terminal", loser(recoded(409, "run_terminal")), winner),
		wire("losers-not-found", "A resolve that comes too late finds nothing.", "404", loser(recoded(404, "interrupt_not_found")), winner),
		wire("last-resolve-recorded", "What is recorded of a race is the last resolve and not the one that won.", "resumeValue", lastContender(), winner),
		inside("unknown-node-conflicts", "A resolve at a node that is not there is one that comes too late.", "409", func(k *insider) tamper.Middleware {
			return settled(resolveByRun, 404, "not_found", runIsThere(k), recoded(409, alreadyResolved))
		}, requirements.InterruptUnknownNode),
		inside("unknown-node-other-code", "A resolve at a node that is not there is refused with the code of interrupts.", "interrupt_not_found", func(k *insider) tamper.Middleware {
			return settled(resolveByRun, 404, "not_found", runIsThere(k), recoded(404, "interrupt_not_found"))
		}, requirements.InterruptUnknownNode),
		wire("foreign-resolve-not-found", "A resolve by another tenant finds nothing.", "404", settled(resolveByRun, 403, "id_tenant_mismatch", nil, recoded(404, "not_found")), foreign),
		inside("foreign-resolve-accepted", "A full key of any tenant resolves.", "200", func(k *insider) tamper.Middleware {
			return tamper.Requests(tamper.And(resolveByRun, func(r *http.Request) bool { return k.by(r, referencehost.KeyTenantB) }), func(r *http.Request) {
				r.Header.Set("Authorization", k.bearer(referencehost.KeyTenantA))
			})
		}, foreign),
	}
}

func runIsThere(k *insider) func(r *http.Request, doc object, next http.Handler) bool {
	return func(r *http.Request, _ object, next http.Handler) bool {
		return k.run(next, r, segmentIn(r))["runId"] != nil
	}
}

// lastContender shows, of interrupts that were resolved more than once, the value
// that came last.
func lastContender() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		var mu sync.Mutex
		values := map[string]any{}
		noted := tamper.Instead(at("wait"), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			mark := given(r)["contender"]
			a := tamper.Record(next, r)
			if mark != nil && a.Status == http.StatusConflict {
				mu.Lock()
				values[tamper.RunSegment(r)] = mark
				mu.Unlock()
			}
			a.Send(w)
		})
		shows := tamper.JSON(tamper.PollRun, http.StatusOK, func(r *http.Request, doc map[string]any) {
			mu.Lock()
			last := values[tamper.RunSegment(r)]
			mu.Unlock()
			list, _ := doc["events"].([]any)
			for _, v := range list {
				if e, _ := v.(object); last != nil && e["type"] == "interrupt.resolved" {
					p, _ := e["payload"].(object)
					p["resumeValue"] = object{"contender": last}
				}
			}
		})
		return tamper.Chain(noted, shows)(next)
	}
}

// lives tells the first life of a host from those that follow: the store it is
// given holds runs that go on.
type lives struct{ later atomic.Bool }

func (l *lives) begin(c *referencehost.Config) {
	errFound := errors.New("found")
	l.later.Store(c.Store.ActiveRuns(context.Background(), func(referencehost.Log) error { return errFound }) != nil)
}

// again is a middleware of every life but the first.
func (l *lives) again(m tamper.Middleware) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		if !l.later.Load() {
			return next
		}
		return m(next)
	}
}

func interruptRecoveryFaults() []Fault {
	row := requirements.InterruptAskedOnceOverRestart
	reborn := func(id, summary, reason string, m tamper.Middleware) Fault {
		l := new(lives)
		return Fault{ID: id, Summary: summary, Reason: reason, Wrap: l.again(m), Decorate: l.begin, Breaks: []requirements.ID{row}}
	}
	return []Fault{
		reborn("asked-again-after-restart", "A host that comes back asks again what it waits for.", "one interrupt.requested for every key",
			tamper.JSON(tamper.PollRun, http.StatusOK, func(_ *http.Request, doc map[string]any) {
				list, _ := doc["events"].([]any)
				for i, v := range list {
					if e, _ := v.(object); e["type"] == "approval.requested" && i == len(list)-1 {
						e["type"] = "interrupt.requested"
					}
				}
			})),
		reborn("interrupt-lost-at-restart", "A host that comes back has forgotten what it waits for.", "404", tamper.Answers(resolveByRun, func(_ *http.Request, a *tamper.Answer) {
			a.Refuse(404, "not_found", "nothing waits")
		})),
		reborn("answer-lost-at-restart", "A host that comes back has forgotten what was answered.", "200", settled(at("left"), 409, alreadyResolved, nil, accepted)),
	}
}
