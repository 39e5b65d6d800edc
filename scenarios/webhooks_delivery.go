package scenarios

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"wopcert/harness"
	"wopcert/harness/receiver"
	"wopcert/harness/webhook"
	"wopcert/requirements"
	"wopcert/seams"
)

// deliveredTypes are the types most tests of deliveries subscribe to.
func deliveredTypes() []string { return []string{runStart, "node.started", "node.completed", runEnd} }

// webhookDeliveryShape: webhooks.md, "Delivery".
func webhookDeliveryShape() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-webhook-delivery-shape",
		Title:    "A delivery is the run's event, verbatim, in its envelope",
		Document: "webhooks.md",
		Section:  "Delivery",
		Gates:    hookGates(),
		Tests: []harness.Test{
			{Name: "the body of deliveries", Witnesses: []requirements.ID{requirements.R0171WebhookDeliveryShape}, Run: func(t *harness.T) {
				for _, d := range delivered(t).deliveries {
					t.Expect(requirements.R0171WebhookDeliveryShape, validDelivery(t, d))
				}
			}},
			{Name: "the event of deliveries", Witnesses: []requirements.ID{requirements.WebhooksEventVerbatim}, Run: eventVerbatim},
			{Name: "the events of a run of version 1", Witnesses: []requirements.ID{requirements.WebhooksEventVerbatim},
				Gates: []harness.Gate{harness.NeedsSeams(), renamingFixture()}, Run: func(t *harness.T) {
					id, all, _ := era2Delivered(t)
					asLogged(t, id, all)
				}},
			{Name: "the workspace of deliveries", Witnesses: []requirements.ID{requirements.WebhooksWorkspacePresent}, Run: func(t *harness.T) {
				out := delivered(t)
				workspace := get(t, out.run).Get("owner", "workspace")
				for _, d := range out.deliveries {
					t.Expect(requirements.WebhooksWorkspacePresent, harness.Equal("workspaceId of a delivery", workspace, d.body["workspaceId"]).AtAttempt(d.Attempt))
				}
			}},
			{Name: "the run of deliveries", Witnesses: []requirements.ID{requirements.WebhooksDeliveryRunId}, Run: func(t *harness.T) {
				out := delivered(t)
				for _, d := range out.deliveries {
					t.Expect(requirements.WebhooksDeliveryRunId, harness.All(
						idIs(t, "runId of a delivery", d.body["runId"], "runId"),
						harness.Equal("runId of a delivery", any(out.run), d.body["runId"]),
						harness.Equal("runId of its event", any(out.run), d.event["runId"])).AtAttempt(d.Attempt))
				}
			}},
		},
	}
}

// hookOutcome is a run that ended and the deliveries of its events, one attempt or
// more of each.
type hookOutcome struct {
	run        string
	hook       *hook
	deliveries []delivery
}

// delivered runs a workflow with something in its payloads and returns the
// deliveries of its events.
func delivered(t *harness.T) hookOutcome {
	h := subscribe(t, hookEndpoint(t, nil), hookBody(t.SigningSecret(0), deliveredTypes()...))
	defer h.drop()
	body := object{"workflowId": noop}
	if listed(t, identity) {
		body = object{"workflowId": identity, "inputs": object{"payload": object{"text": "grün <&> \u2028", "list": []any{1, nil, true}, "big": 1e21}}}
	}
	run := startRun(t, taggedRun(t, body))
	l := readLog(t, run, settle)
	matching := slices.DeleteFunc(slices.Clone(l.events), func(e object) bool { return !ofType(deliveredTypes()...)(e) })
	ctx, cancel := patience(t)
	defer cancel()
	all, _ := h.at.WaitUntil(ctx, func(all []receiver.Attempt) bool { return len(concerning(all, run, l.events)) >= max(1, len(matching)) })
	all = concerning(all, run, l.events)
	if len(all) == 0 {
		t.Abort("no deliveries to observe: the run has %d events to deliver, and nothing came in time", len(matching))
	}
	out := hookOutcome{run: run, hook: h}
	for _, a := range all {
		out.deliveries = append(out.deliveries, readDelivery(a))
	}
	return out
}

// concerning are the attempts that are about a run: that hold its id, whole or
// in part, or an id of its events, and those that are about no run at all. What
// is wrong with any of them is for the tests to judge.
func concerning(all []receiver.Attempt, runID string, events []object) []receiver.Attempt {
	_, opaque, _ := strings.Cut(runID, "/")
	marks := []string{opaque}
	for _, e := range events {
		if id, _ := e["eventId"].(string); id != "" {
			marks = append(marks, id)
		}
	}
	var out []receiver.Attempt
	for _, a := range all {
		if _, verification := challengeOf(a); verification {
			continue
		}
		held := slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(string(a.Body), mark) })
		if held || readDelivery(a).runID == "" {
			out = append(out, a)
		}
	}
	return out
}

func validDelivery(t *harness.T, d delivery) harness.Check {
	const expected = "a POST whose body is valid against webhook-delivery"
	if d.Method != "POST" || d.body == nil || d.Truncated {
		return harness.That(false, expected, "%s with %d bytes that are no JSON object", d.Method, len(d.Body)).AtAttempt(d.Attempt)
	}
	why := violation(t.Corpus().ValidateValue("webhook-delivery", d.body))
	return harness.That(why == "", expected, "%s: %s", d.label(), why).AtAttempt(d.Attempt)
}

func eventVerbatim(t *harness.T) {
	out := delivered(t)
	asLogged(t, out.run, out.deliveries)
}

// era2Delivered takes over a run of era 2 that goes on to append a type of
// another name in version 1: a subscription to its version 2 name is to it, and
// what is delivered is the event as every reader gets it.
func era2Delivered(t *harness.T) (runID string, all []delivery, ok bool) {
	h := subscribe(t, hookEndpoint(t, nil), with(hookBody(t.SigningSecret(0), renamedType, runEnd), "tags", nil))
	defer h.drop()
	log := seed(t, seams.Running, begun(dispatchLoop, object{})...)
	defer endRun(t, log.id)
	l := readLog(t, log.id, settle)
	if !slices.ContainsFunc(added(log, l), ofType(renamedType)) {
		t.Abort("the seeded run logs no %s: it has status %q and %d events", renamedType, l.status, len(l.events))
	}
	h.need(log.id, runEnd)
	all, ok = h.await(log.id, renamedType)
	return log.id, all, ok
}

// renamedType is a type that runs of the fixture of renamed types log.
const renamedType = "orchestrator.decided"

// asLogged checks the events of deliveries against the log of their run.
func asLogged(t *harness.T, run string, deliveries []delivery) {
	logged := map[int64]object{}
	for _, e := range wholeLog(t, run).events {
		if seq, ok := sequenceOf(e); ok {
			logged[seq] = e
		}
	}
	if len(logged) == 0 {
		t.Abort("no log to compare with")
	}
	for _, d := range deliveries {
		seq, _ := sequenceOf(d.event)
		original, known := logged[seq]
		if !t.Expect(requirements.WebhooksEventVerbatim, harness.That(known && d.event["sequence"] != nil, "an event that the run's log holds",
			"%s with sequence %s", d.label(), show(d.event["sequence"])).AtAttempt(d.Attempt)) {
			continue
		}
		for _, member := range []string{"type", "eventId", "sequence", "payload"} {
			t.Expect(requirements.WebhooksEventVerbatim, harness.That(reflect.DeepEqual(original[member], d.event[member]),
				fmt.Sprintf("%s of the event as in the log: %s", member, show(original[member])), "%s: %s", d.label(), show(d.event[member])).AtAttempt(d.Attempt))
		}
	}
}

// webhookSignature: webhooks.md, "Headers" and "Dual emission through the
// overlap".
func webhookSignature() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-webhook-delivery-signature",
		Title:    "Every delivery says what it is and is signed over its exact bytes",
		Document: "webhooks.md",
		Section:  "Headers",
		Gates:    hookGates(),
		Tests: []harness.Test{
			{Name: "the headers of deliveries", Witnesses: []requirements.ID{requirements.WebhooksDeliveryHeaders}, Run: func(t *harness.T) {
				out := delivered(t)
				for _, d := range out.deliveries {
					t.Expect(requirements.WebhooksDeliveryHeaders, fiveHeaders(d, out.hook.id))
				}
			}},
			{Name: "signatures under two secrets", Witnesses: []requirements.ID{requirements.WebhooksDeliverySignature}, Run: signatures},
			{Name: "the time of signing", Witnesses: []requirements.ID{requirements.WebhooksDeliveryTimestamp}, Run: func(t *harness.T) {
				for _, d := range delivered(t).deliveries {
					t.Expect(requirements.WebhooksDeliveryTimestamp, timely(d))
				}
			}},
			{Name: "both header families", Witnesses: []requirements.ID{requirements.WebhooksDualEmission}, Gates: []harness.Gate{bothMajors()}, Run: func(t *harness.T) {
				for _, d := range delivered(t).deliveries {
					for _, name := range webhook.Headers() {
						want, got := d.Header.Get(name), d.Header.Get(webhook.V1Name(name))
						t.Expect(requirements.WebhooksDualEmission, harness.That(want != "" && want == got, webhook.V1Name(name)+" with the value of "+name,
							"%s and %s", show(got), show(want)).AtAttempt(d.Attempt))
					}
				}
			}},
		},
	}
}

// fiveHeaders checks what the headers of a delivery say. Whether the signature
// is right, and the time fresh, are rules of their own.
func fiveHeaders(d delivery, webhookID string) harness.Check {
	digits := func(s string) bool { _, err := strconv.ParseUint(s, 10, 63); return err == nil }
	checks := []harness.Check{
		oneValue(d, webhook.HeaderID, webhookID),
		oneValue(d, webhook.HeaderType, d.typ),
		oneValue(d, webhook.HeaderAlgorithm, "v1"),
	}
	for name, ok := range map[string]bool{
		webhook.HeaderTimestamp: digits(d.Header.Get(webhook.HeaderTimestamp)),
		webhook.HeaderSignature: webhook.SameSignature(d.Header.Get(webhook.HeaderSignature), d.Header.Get(webhook.HeaderSignature)),
	} {
		checks = append(checks, harness.That(ok && len(d.Header.Values(name)) == 1, name+" once, in its form", "%s: %q", name, d.Header.Values(name)))
	}
	return harness.All(checks...).AtAttempt(d.Attempt)
}

func oneValue(d delivery, name, want string) harness.Check {
	got := d.Header.Values(name)
	return harness.That(len(got) == 1 && got[0] == want, name+": "+want, "%s: %q", name, got)
}

// signatures subscribes twice, under two secrets: each delivery verifies under
// its own subscription's and not under the other's.
func signatures(t *harness.T) {
	var hooks []*hook
	for i := range 2 {
		h := subscribe(t, hookEndpoint(t, nil), hookBody(t.SigningSecret(i), runStart, runEnd))
		defer h.drop()
		hooks = append(hooks, h)
	}
	id := startRun(t, noopRun(t))
	for i, h := range hooks {
		for _, d := range h.need(id, runStart, runEnd) {
			t.Expect(requirements.WebhooksDeliverySignature, signedV1(d, h.secret))
			got := d.Header.Get(webhook.HeaderSignature)
			other := webhook.Sign(hooks[1-i].secret, d.Header.Get(webhook.HeaderTimestamp), d.Body)
			t.Expect(requirements.WebhooksDeliverySignature, harness.That(!webhook.SameSignature(got, other),
				"a signature that no other subscription's secret gives", "%s verifies under the other secret", d.label()).AtAttempt(d.Attempt))
			tampered := append([]byte{' '}, d.Body...)
			t.Expect(requirements.WebhooksDeliverySignature, harness.That(!webhook.SameSignature(got, webhook.Sign(h.secret, d.Header.Get(webhook.HeaderTimestamp), tampered)),
				"a signature that other bytes do not have", "%s verifies with a byte more", d.label()).AtAttempt(d.Attempt))
		}
	}
}

// timely checks a timestamp the way a subscriber does.
func timely(d delivery) harness.Check {
	text := d.Header.Get(webhook.HeaderTimestamp)
	seconds, err := strconv.ParseInt(text, 10, 64)
	apart := d.At.Sub(time.Unix(seconds, 0)).Abs()
	return harness.That(err == nil && apart <= webhook.Tolerance+time.Second, "Unix seconds within "+webhook.Tolerance.String()+" of the arrival",
		"%s: %q, at Unix time %d", webhook.HeaderTimestamp, text, d.At.Unix()).AtAttempt(d.Attempt)
}
