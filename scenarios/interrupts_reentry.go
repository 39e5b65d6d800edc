package scenarios

import (
	"slices"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// waitsWithOneKey is the fixture with two nodes that interrupt under one key.
const waitsWithOneKey = "wopcert-interrupt-same-key"

// rejectLoops is the published workflow whose gate is come to again after a
// reject. Hosts that run no loops do not hold it.
const rejectLoops = "conformance-approval-reject-loopback"

// interruptReentry covers what an interrupt is resolved with and how often it
// is raised (interrupt.md, "Re-entry and resume values").
func interruptReentry() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-interrupt-reentry",
		Title:    "An interrupt is raised once, takes only what its schema allows, and ends at its deadline",
		Document: "interrupt.md", Section: "Re-entry and resume values",
		Gates: []harness.Gate{interruptFamily()},
		Tests: []harness.Test{
			{
				Name:      "the keys of a run's interrupts",
				Witnesses: []requirements.ID{requirements.InterruptKeyOnce},
				Gates:     []harness.Gate{harness.NeedsFixture(approves, clarifies)},
				Run: func(t *harness.T) {
					p := suspend(t, object{"workflowId": oneOf(t, approves, clarifies)})
					defer endRun(t, p.run)
					mustResolve(t, harness.Primary, p, answerOf(t, p))
					awaitEnd(t, p.run, settle)
					l := wholeLog(t, p.run)
					t.Expect(requirements.InterruptKeyOnce, keysDiffer(l.events).At(l.last))
				},
			},
			{
				Name:      "two interrupts at once have two keys",
				Witnesses: []requirements.ID{requirements.InterruptKeyOnce},
				Gates:     []harness.Gate{optIn(waitsTwice)},
				Run: func(t *harness.T) {
					left, right := twoPending(t, object{"workflowId": waitsTwice})
					defer endRun(t, left.run)
					mustResolve(t, harness.Primary, left, object{"side": "left"})
					mustResolve(t, harness.Primary, right, object{"side": "right"})
					awaitEnd(t, left.run, settle)
					l := wholeLog(t, left.run)
					t.Expect(requirements.InterruptKeyOnce, keysDiffer(l.events).At(l.last))
				},
			},
			{
				Name:      "two nodes with one key ask once",
				Witnesses: []requirements.ID{requirements.InterruptKeyOnce},
				Gates:     []harness.Gate{optIn(waitsWithOneKey)},
				Run:       keyShared,
			},
			{
				Name:      "a gate that is come to again asks again",
				Witnesses: []requirements.ID{requirements.InterruptKeyOnce},
				Gates:     []harness.Gate{optIn(rejectLoops)},
				Run:       askedAnew,
			},
			{
				Name:      "the node goes on with what it was given",
				Witnesses: []requirements.ID{requirements.InterruptResumeValueReturned},
				Gates:     []harness.Gate{optIn(waitsForAny)},
				Run:       valueReturned,
			},
			{
				Name:      "a resumeSchema is enforced",
				Witnesses: []requirements.ID{requirements.InterruptResumeSchemaEnforced},
				Gates:     []harness.Gate{optIn(waitsForAny)},
				Run:       resumeSchemaEnforced,
			},
			{
				Name:      "an approval nobody gives in time",
				Witnesses: []requirements.ID{requirements.InterruptDeadlineEnds},
				Gates:     []harness.Gate{harness.NeedsFixture(approvesLate)},
				Slow:      3 * time.Second,
				Run:       deadlineEnds,
			},
		},
	}
}

// oneOf is the first of some fixtures that the host lists.
func oneOf(t *harness.T, fixtures ...string) string {
	i := slices.IndexFunc(fixtures, func(f string) bool { return listed(t, f) })
	return fixtures[max(i, 0)]
}

// answerOf is a value that resolves the interrupt of a published workflow.
func answerOf(t *harness.T, p pending) any {
	switch p.payload()["kind"] {
	case "approval":
		return decide("accept")
	case "clarification":
		answers := object{}
		questions, _ := harness.Get(p.payload(), "data", "questions").([]any)
		for _, q := range questions {
			if id, ok := harness.Get(q, "id").(string); ok {
				answers[id] = "blue"
			}
		}
		return object{"answers": answers}
	}
	return object{"eventPayload": object{"from": "wopcert"}}
}

// twoPending are the two interrupts of the fixture that waits on both at once.
func twoPending(t *harness.T, body object) (left, right pending) {
	id := startRun(t, body)
	var why string
	if left, why = awaitInterrupt(t, id, "left"); why == "" {
		right, why = awaitInterrupt(t, id, "right")
	}
	if why != "" {
		endRun(t, id)
		t.Abort("no two interrupts to observe: run of %s %s", waitsTwice, why)
	}
	return left, right
}

// keysDiffer checks that no key is asked for twice in a log, and that there is
// one to look at.
func keysDiffer(events []object) harness.Check {
	const expected = "one interrupt.requested for every key"
	var keys []string
	for _, e := range eventsOfType(events, "interrupt.requested") {
		key, ok := harness.Get(e, "payload", "key").(string)
		if !ok || key == "" || slices.Contains(keys, key) {
			return harness.That(false, expected, "%s with the key %s", label(e), show(harness.Get(e, "payload", "key")))
		}
		keys = append(keys, key)
	}
	return harness.That(len(keys) > 0, expected, "%d keys", len(keys))
}

func keyShared(t *harness.T) {
	p := suspend(t, object{"workflowId": waitsWithOneKey})
	defer endRun(t, p.run)
	mustResolve(t, harness.Primary, p, object{"answer": "wopcert"})
	ended := awaitEnd(t, p.run, settle)
	l := wholeLog(t, p.run)
	t.Expect(requirements.InterruptKeyOnce, keysDiffer(l.events).At(l.last))
	t.Expect(requirements.InterruptKeyOnce, harness.That(ended, "a run that completes, as its second node takes the answer of the first",
		"status %q after %s", get(t, p.run).Text("status"), settle))
}

// askedAnew rejects at a gate that a loop leads back to: what it asks then is
// another interrupt, under another key, and not answered by the first decision.
func askedAnew(t *harness.T) {
	p := suspend(t, object{"workflowId": rejectLoops, "configurable": object{"version": 1, "run": object{"recursionLimit": 20}}})
	defer endRun(t, p.run)
	mustResolve(t, harness.Primary, p, decide("reject"))
	second, _ := awaitLogged(t, p.run, func(e object) bool {
		return e["type"] == "interrupt.requested" && seqOf(e) > seqOf(p.requested) || isTerminalType(e["type"])
	}, settle)
	status := awaitStatus(t, p.run, func(s string) bool { return isWaiting(s) || endedStatus(s) }, settle/5)
	if !t.Expect(requirements.InterruptKeyOnce, harness.That(second != nil && second["type"] == "interrupt.requested" && isWaiting(status),
		"a second interrupt.requested, and a run that waits", "%s and status %q after the reject", labelOf(second), status)) {
		return
	}
	l := wholeLog(t, p.run)
	t.Expect(requirements.InterruptKeyOnce, keysDiffer(l.events).At(l.last))
	r := resolve(t, p, decide("accept"))
	if t.Expect(requirements.InterruptKeyOnce, harness.That(succeeded(r), "2xx for a decision on the second interrupt", "%s", answered(r)).At(r)) {
		t.Expect(requirements.InterruptKeyOnce, endsCompleted(t, p))
	}
}

func valueReturned(t *harness.T) {
	for _, value := range []any{object{"n": 7, "odd": oddData()}, []any{"a", 2}, "grün", false, nil} {
		p := suspend(t, askOf("custom", object{"customKind": "wopcert.value"}))
		defer endRun(t, p.run)
		mustResolve(t, harness.Primary, p, value)
		done, ok := awaitLogged(t, p.run, func(e object) bool { return endsNode(e) && nodeOf(e) == p.node || isTerminalType(e["type"]) }, settle)
		if !ok || done["type"] != "node.completed" {
			t.Expect(requirements.InterruptResumeValueReturned, harness.That(false, "the node to complete", "%s after the resolve", labelOf(done)))
			continue
		}
		t.Expect(requirements.InterruptResumeValueReturned, same("output resumeValue of the node", value, harness.Get(done, "payload", "outputs", "resumeValue")))
	}
}

func resumeSchemaEnforced(t *harness.T) {
	schema := object{"type": "object", "required": []any{"verdict"}, "additionalProperties": false, "properties": object{
		"verdict": object{"enum": []any{"yes", "no"}}, "weight": object{"type": "integer", "minimum": 1},
		"list": object{"type": "array", "maxItems": 1, "items": object{"$ref": "#/$defs/word"}}},
		"$defs": object{"word": object{"type": "string", "pattern": "^[a-z]+$"}}}
	p := suspend(t, askOf("external-event", object{"eventType": "wopcert.schema", "correlation": object{}}, "resumeSchema", schema))
	defer endRun(t, p.run)
	for _, value := range []any{
		object{}, object{"verdict": "maybe"}, object{"verdict": "yes", "more": 1}, object{"verdict": "yes", "weight": 0},
		object{"verdict": "no", "list": []any{"A"}}, "yes", nil, []any{},
	} {
		t.Expect(requirements.InterruptResumeSchemaEnforced, refusedAsInvalid("the resume value "+show(value), resolve(t, p, value)))
	}
	if !t.Expect(requirements.InterruptResumeSchemaEnforced, stillPending(t, p)) {
		return
	}
	r := resolve(t, p, object{"verdict": "yes", "weight": 2, "list": []any{"a"}})
	t.Expect(requirements.InterruptResumeSchemaEnforced, harness.That(succeeded(r), "2xx for a valid resume value", "%s", answered(r)).At(r))
}

// deadlineEnds leaves an approval alone until its timeoutMs has passed.
func deadlineEnds(t *harness.T) {
	p := raised(t, object{"workflowId": approvesLate})
	defer endRun(t, p.run)
	ms, ok := numeric(p.payload()["timeoutMs"])
	if !ok || ms <= 0 || ms > 20_000 {
		t.Abort("the interrupt of %s has no short deadline: timeoutMs %s", approvesLate, show(p.payload()["timeoutMs"]))
	}
	ended, _ := awaitLogged(t, p.run, func(e object) bool {
		return seqOf(e) > seqOf(p.requested) && (e["type"] == "interrupt.resolved" || endsNode(e) || isTerminalType(e["type"]))
	}, time.Duration(ms)*time.Millisecond+settle/2)
	status := awaitStatus(t, p.run, func(s string) bool { return !isWaiting(s) }, settle/10)
	if !t.Expect(requirements.InterruptDeadlineEnds, harness.That(ended != nil && !isWaiting(status), "an interrupt that is over once its timeoutMs has passed",
		"%s in the log and status %q", labelOf(ended), status)) {
		return
	}
	r := resolve(t, p, decide("accept", "feedback", "too late"))
	t.Expect(requirements.InterruptDeadlineEnds, harness.That(r.Err == nil && r.Status >= 400 && r.Status <= 499 && permittedCode(t.Corpus(), r.Text("error")),
		"4xx with a code the host may use for a resolve after the deadline", "%s", answered(r)).At(r))
	l := wholeLog(t, p.run)
	accepted := slices.ContainsFunc(resolvedAt(l.events, p.node), func(e object) bool { return harness.Get(e, "payload", "action") == any("accept") })
	t.Expect(requirements.InterruptDeadlineEnds, harness.That(!accepted, "no accept in the log", "an interrupt.resolved with the action accept").At(l.last))
	granted := slices.ContainsFunc(l.events, func(e object) bool {
		decision, _ := harness.Get(e, "payload", "decision").(string)
		return e["type"] == "approval.granted" || e["type"] == "interrupt.resolved" && (decision == "granted" || decision == "overridden")
	})
	t.Expect(requirements.InterruptDeadlineEnds, harness.That(!granted, "nothing granted that nobody approved", "a decision that grants it").At(l.last))
}
