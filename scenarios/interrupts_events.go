package scenarios

import (
	"net/http"
	"slices"

	"wopcert/harness"
	"wopcert/requirements"
)

// interruptEvents covers what a resolve leaves in the log (interrupt.md,
// "Events").
func interruptEvents() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-interrupt-events",
		Title:    "What was asked and what was decided stand in the log and in its streams",
		Document: "interrupt.md", Section: "Events",
		Gates: []harness.Gate{interruptFamily()},
		Tests: []harness.Test{
			{
				Name:      "the event of a resolve",
				Witnesses: []requirements.ID{requirements.InterruptResolvedRecorded},
				Gates:     []harness.Gate{harness.NeedsFixture(clarifies, waitsForEvent, approves)},
				Run:       resolvedRecorded,
			},
			{
				Name:      "the action of an approval",
				Witnesses: []requirements.ID{requirements.InterruptApprovalActionRecorded},
				Gates:     []harness.Gate{harness.NeedsFixture(approves)},
				Run: func(t *harness.T) {
					for _, action := range []string{"accept", "reject"} {
						e := decided(t, object{"workflowId": approves}, decide(action))
						t.Expect(requirements.InterruptApprovalActionRecorded, harness.Equal("action", any(action), harness.Get(e, "payload", "action")))
					}
				},
			},
			{
				Name:      "the feedback of a refine",
				Witnesses: []requirements.ID{requirements.InterruptApprovalActionRecorded, requirements.InterruptRefineFeedbackRecorded},
				Gates:     []harness.Gate{harness.NeedsFixture(approvesRefining)},
				Run: func(t *harness.T) {
					feedback := object{"scope": "whole", "tags": []any{"tone", "länger"}, "text": "Say it in one sentence."}
					e := decided(t, object{"workflowId": approvesRefining}, decide("refine", "refineFeedback", feedback))
					t.Expect(requirements.InterruptApprovalActionRecorded, harness.Equal("action", any("refine"), harness.Get(e, "payload", "action")))
					t.Expect(requirements.InterruptRefineFeedbackRecorded, same("refineFeedback", feedback, harness.Get(e, "payload", "refineFeedback")))
				},
			},
			{
				Name:      "the artifact of an edit-accept",
				Witnesses: []requirements.ID{requirements.InterruptApprovalActionRecorded, requirements.InterruptEditedDataRecorded},
				Gates:     []harness.Gate{harness.NeedsFixture(approvesEdit)},
				Run: func(t *harness.T) {
					edited := object{"title": "Edited", "body": oddData()}
					e := decided(t, object{"workflowId": approvesEdit}, decide("edit-accept", "editedArtifactData", edited))
					t.Expect(requirements.InterruptApprovalActionRecorded, harness.Equal("action", any("edit-accept"), harness.Get(e, "payload", "action")))
					t.Expect(requirements.InterruptEditedDataRecorded, same("editedArtifactData", edited, harness.Get(e, "payload", "editedArtifactData")))
				},
			},
			{
				Name:      "the types of one kind",
				Witnesses: []requirements.ID{requirements.InterruptKindSpecificTypes},
				Gates:     []harness.Gate{harness.NeedsFixture(approves, clarifies)},
				Run:       kindSpecific,
			},
			{
				Name:      "the streams of a resolved interrupt",
				Witnesses: []requirements.ID{requirements.InterruptEventsStreamed},
				Gates:     []harness.Gate{harness.NeedsFixture(approves, clarifies)},
				Run:       eventsStreamed,
			},
		},
	}
}

// decided raises an approval, resolves it and returns its interrupt.resolved.
// The test ends when any of it does not happen.
func decided(t *harness.T, body object, value any) object {
	p := suspend(t, body)
	defer endRun(t, p.run)
	mustResolve(t, harness.Primary, p, value)
	return awaitResolved(t, p)
}

func resolvedRecorded(t *harness.T) {
	for _, fixture := range []string{clarifies, waitsForEvent, approves} {
		if !listed(t, fixture) {
			continue
		}
		p := suspend(t, object{"workflowId": fixture})
		defer endRun(t, p.run)
		value := answerOf(t, p)
		mustResolve(t, harness.Primary, p, value)
		awaitEnd(t, p.run, settle)
		l := wholeLog(t, p.run)
		t.Expect(requirements.InterruptResolvedRecorded, recordsResolve(t, p, value, l).At(l.last))
	}
}

// recordsResolve checks a log for the one interrupt.resolved of an interrupt.
// An approval's value may be completed by the host, so that only its action
// counts there.
func recordsResolve(t *harness.T, p pending, value any, l log) harness.Check {
	const expected = "one valid interrupt.resolved that names the node and the interrupt, with the resume value"
	all := eventsOfType(l.events, "interrupt.resolved")
	if len(all) != 1 {
		return harness.That(false, expected, "%d interrupt.resolved", len(all))
	}
	payload, _ := all[0]["payload"].(object)
	if why := violation(t.Corpus().ValidateValue("run-event-payloads#/$defs/interruptResolved", payload)); why != "" {
		return harness.That(false, expected, "an invalid payload: %s", cut(why))
	}
	checks := []harness.Check{harness.Equal("nodeId", any(p.node), payload["nodeId"])}
	for _, s := range eventsOfType(l.events, "node.suspended") {
		if nodeOf(s) == p.node {
			checks = append(checks, harness.Equal("interruptId", harness.Get(s, "payload", "interruptId"), payload["interruptId"]))
		}
	}
	if kind, has := payload["kind"]; has {
		checks = append(checks, harness.Equal("kind", p.payload()["kind"], kind))
	}
	if p.payload()["kind"] == "approval" {
		checks = append(checks, harness.Equal("resumeValue.action", harness.Get(value, "action"), harness.Get(payload["resumeValue"], "action")))
	} else {
		checks = append(checks, same("resumeValue", value, payload["resumeValue"]))
	}
	return harness.All(checks...)
}

func kindSpecific(t *harness.T) {
	for _, fixture := range []string{approves, clarifies} {
		if !listed(t, fixture) {
			continue
		}
		p := suspend(t, object{"workflowId": fixture})
		defer endRun(t, p.run)
		kind, _ := p.payload()["kind"].(string)
		typ := kind + ".requested"
		e, _ := awaitLogged(t, p.run, ofType(typ), settle/10)
		check := harness.That(e != nil, typ+" beside interrupt.requested", "no %s", typ)
		if e != nil {
			check = same("payload of "+typ, p.requested["payload"], e["payload"])
		}
		t.Should(requirements.InterruptKindSpecificTypes, check)
	}
}

func eventsStreamed(t *harness.T) {
	p := suspend(t, object{"workflowId": oneOf(t, approves, clarifies)})
	defer endRun(t, p.run)
	mustResolve(t, harness.Primary, p, answerOf(t, p))
	if !awaitEnd(t, p.run, settle) {
		t.Abort("no finished run to stream: status %q", get(t, p.run).Text("status"))
	}
	l := wholeLog(t, p.run)
	if len(eventsOfType(l.events, "interrupt.resolved")) == 0 {
		t.Abort("no interrupt.resolved in the log, so that no stream could show it")
	}
	for _, mode := range []string{"updates", "debug"} {
		s := readMode(t, p.run, mode)
		if !s.open.Is(http.StatusOK).OK {
			if mode == "debug" && unservedMode(s) {
				t.Inapplicable(requirements.InterruptEventsStreamed, "the host does not serve the stream mode debug")
				continue
			}
			t.Abort("no stream to observe: mode %s was answered %s", mode, answered(s.open))
		}
		var shown []object
		for _, f := range s.frames {
			if e, err := frameEvent(f); err == nil {
				shown = append(shown, e)
			}
		}
		for _, typ := range []string{"interrupt.requested", "interrupt.resolved"} {
			for _, e := range eventsOfType(l.events, typ) {
				i := slices.IndexFunc(shown, func(x object) bool { return seqOf(x) == seqOf(e) })
				check := harness.That(i >= 0, label(e)+" in the mode "+mode, "%d other events", len(shown))
				if i >= 0 {
					check = same(label(e)+" in the mode "+mode, e["payload"], shown[i]["payload"])
				}
				t.Expect(requirements.InterruptEventsStreamed, check.At(s.open))
			}
		}
	}
}
