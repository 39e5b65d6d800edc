package scenarios

import (
	"net/http"
	"slices"

	"wopcert/harness"
	"wopcert/requirements"
)

// interruptPayload covers what a run asks for and how it waits (interrupt.md,
// "Payload" and "Events").
func interruptPayload() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-interrupt-payload",
		Title:    "A run that waits says on what, and its log holds what the node raised",
		Document: "interrupt.md", Section: "Payload",
		Gates: []harness.Gate{interruptFamily()},
		Tests: []harness.Test{
			{
				Name:      "the interrupts of the published workflows",
				Witnesses: []requirements.ID{requirements.InterruptPayload, requirements.InterruptWaitingStatus},
				Gates:     []harness.Gate{harness.NeedsFixture(approves, clarifies, waitsForEvent)},
				Run:       publishedInterrupts,
			},
			{
				Name:      "an interrupt of choice is recorded as it was raised",
				Witnesses: []requirements.ID{requirements.InterruptPayload, requirements.InterruptPayloadVerbatim, requirements.InterruptWaitingStatus},
				Gates:     []harness.Gate{optIn(waitsForAny)},
				Run:       recordedVerbatim,
			},
			{
				Name:      "an approval of choice is recorded as it was raised",
				Witnesses: []requirements.ID{requirements.InterruptPayload, requirements.InterruptPayloadVerbatim},
				Gates:     []harness.Gate{optIn(gateOfChoice)},
				Run:       approvalVerbatim,
			},
			{
				Name:      "an interrupt of kind custom",
				Witnesses: []requirements.ID{requirements.InterruptCustomPersisted},
				Gates:     []harness.Gate{optIn(waitsForAny)},
				Run:       customPersisted,
			},
		},
	}
}

// interruptFixtures are the published workflows that wait, with the kind of
// interrupt each of them raises.
func interruptFixtures() []struct{ fixture, kind string } {
	return []struct{ fixture, kind string }{
		{approves, "approval"}, {approvesRefining, "approval"}, {approvesEdit, "approval"}, {quorumOfThree, "approval"},
		{clarifies, "clarification"}, {waitsForEvent, "external-event"},
	}
}

func publishedInterrupts(t *harness.T) {
	judged := 0
	for _, f := range interruptFixtures() {
		if !listed(t, f.fixture) {
			continue
		}
		id := startRun(t, object{"workflowId": f.fixture})
		defer endRun(t, id)
		_, waits := awaitLogged(t, id, func(e object) bool { return isWaitEvent(e) || isTerminalType(e["type"]) }, settle)
		status := awaitStatus(t, id, func(s string) bool { return isWaiting(s) || endedStatus(s) }, settle/5)
		if !waits || endedStatus(status) {
			t.Abort("no waiting run to observe: run of %s has status %q", f.fixture, status)
		}
		judged++
		l := wholeLog(t, id)
		requests := eventsOfType(l.events, "interrupt.requested")
		t.Expect(requirements.InterruptPayload, requestedOnce(t, f.kind, requests).At(l.last))
		node := ""
		if len(requests) > 0 {
			node = nodeOfInterrupt(requests[0], l.events)
		}
		t.Expect(requirements.InterruptWaitingStatus, waitsAt(t, id, f.kind, node))
	}
	if judged == 0 {
		t.Abort("the host lists none of the workflows that wait")
	}
}

// requestedOnce checks that a run which waits on one interrupt of a kind has
// recorded it, validly.
func requestedOnce(t *harness.T, kind string, requests []object) harness.Check {
	expected := "one interrupt.requested of kind " + kind + " with a valid InterruptPayload"
	if len(requests) != 1 {
		return harness.That(false, expected, "%d interrupt.requested in the log of a waiting run", len(requests))
	}
	payload := requests[0]["payload"]
	if why := violation(t.Corpus().ValidateValue("suspend-request", payload)); why != "" {
		return harness.That(false, expected, "a payload that is invalid: %s", cut(why))
	}
	got := harness.Get(payload, "kind")
	return harness.That(got == any(kind), expected, "kind %s", show(got))
}

// waitsAt checks the snapshot of a run that waits on an interrupt of a kind.
func waitsAt(t *harness.T, id, kind, node string) harness.Check {
	statuses := []string{"waiting-approval", "waiting-input", "waiting-external"}
	if kind == "approval" {
		statuses = statuses[:1]
	}
	status := awaitStatus(t, id, func(s string) bool { return slices.Contains(statuses, s) }, settle/10)
	r := get(t, id)
	current := r.Text("currentNodeId")
	return harness.All(r.Is(http.StatusOK), harness.OneOf("status while suspended on "+kind, status, statuses...),
		harness.That(current != "" && (node == "" || node == current), "currentNodeId "+show(node), "currentNodeId %s", show(r.Get("currentNodeId")))).At(r)
}

// oddData is data whose members a host could be tempted to tidy.
func oddData() object {
	return object{"text": " grün — \"…\" ", "list": []any{1, nil, true, object{}}, "nested": object{"0": -1.5, "kind": "approval", "": "empty"}}
}

func recordedVerbatim(t *harness.T) {
	schema := object{"type": "object", "required": []any{"n"}, "properties": object{"n": object{"type": "integer"}}, "additionalProperties": true}
	for _, raised := range []struct {
		kind string
		data object
		more []any
	}{
		{"custom", object{"customKind": "wopcert.verbatim", "payload": oddData()}, []any{"resumeSchema", schema, "timeoutMs", 600_000}},
		{"external-event", object{"eventType": "wopcert.event", "correlation": oddData()}, nil},
		{"clarification", object{"questions": []any{
			object{"id": "a", "question": "Which?", "schema": object{"type": "string", "enum": []any{"x", "y"}}},
			object{"id": "b", "question": "How many?"}}, "contextType": "wopcert"}, []any{"timeoutMs", 600_000}},
	} {
		p := suspend(t, askOf(raised.kind, raised.data, raised.more...))
		defer endRun(t, p.run)
		t.Expect(requirements.InterruptPayload, requestedOnce(t, raised.kind, eventsOfType(p.log.events, "interrupt.requested")).At(p.log.last))
		t.Expect(requirements.InterruptWaitingStatus, waitsAt(t, p.run, raised.kind, p.node))
		checks := []harness.Check{same("data", raised.data, p.payload()["data"])}
		given := object{}
		for i := 0; i+1 < len(raised.more); i += 2 {
			given[raised.more[i].(string)] = raised.more[i+1]
		}
		for _, name := range []string{"resumeSchema", "timeoutMs"} {
			want, has := given[name]
			got, there := p.payload()[name]
			if !has && name == "timeoutMs" {
				continue // a deadline of the host's own is nothing the node raised
			}
			if !has {
				checks = append(checks, harness.That(!there, "no "+name+" where none was given", "%s %s", name, show(got)))
				continue
			}
			checks = append(checks, same(name, want, got))
		}
		t.Expect(requirements.InterruptPayloadVerbatim, harness.All(checks...).At(p.log.last))
	}
}

func approvalVerbatim(t *harness.T) {
	members := object{
		"actions": []any{"reject", "accept", "ask"}, "requiredApprovals": 2, "rejectionPolicy": "majority", "overrideBypassesQuorum": false,
		"approversList": []any{"wopcert.nobody", "ἀλλός"}, "audience": object{"subjects": []any{"wopcert.somebody"}, "groups": []any{}},
		"artifactData": oddData(),
	}
	p := suspend(t, gateOf(members))
	defer endRun(t, p.run)
	t.Expect(requirements.InterruptPayload, requestedOnce(t, "approval", eventsOfType(p.log.events, "interrupt.requested")).At(p.log.last))
	for name, want := range members {
		t.Expect(requirements.InterruptPayloadVerbatim, same("data."+name, want, harness.Get(p.payload(), "data", name)).At(p.log.last))
	}
}

// customPersisted raises an interrupt of a kind of nobody's and resolves it.
func customPersisted(t *harness.T) {
	for _, data := range []object{
		{"customKind": "com.example.sign-off/v7"},
		{"customKind": "x", "payload": oddData()},
		{"customKind": "wopcert list", "payload": []any{1, "two", nil}},
	} {
		id := startRun(t, askOf("custom", data))
		defer endRun(t, id)
		status := awaitStatus(t, id, func(s string) bool { return isWaiting(s) || endedStatus(s) }, settle)
		if !t.Expect(requirements.InterruptCustomPersisted, harness.That(isWaiting(status), "a run that waits on the custom interrupt", "status %q", status)) {
			continue
		}
		requested, _ := awaitLogged(t, id, ofType("interrupt.requested"), settle/5)
		t.Expect(requirements.InterruptCustomPersisted, harness.All(
			harness.Equal("kind", any("custom"), harness.Get(requested, "payload", "kind")),
			same("data", data, harness.Get(requested, "payload", "data"))))
	}
}
