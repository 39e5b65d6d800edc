package scenarios

import (
	"regexp"
	"slices"
	"strings"

	"wopcert/harness"
	"wopcert/requirements"
)

// interruptKinds covers the rules of single kinds (interrupt.md, "Payload").
func interruptKinds() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-interrupt-kinds",
		Title:    "Each kind of interrupt keeps the rule that is its own",
		Document: "interrupt.md", Section: "Payload",
		Gates: []harness.Gate{interruptFamily()},
		Tests: []harness.Test{
			{
				Name:      "a clarification is waiting-input",
				Witnesses: []requirements.ID{requirements.InterruptClarificationStatus},
				Gates:     []harness.Gate{harness.NeedsFixture(clarifies)},
				Run: func(t *harness.T) {
					p := suspend(t, object{"workflowId": clarifies})
					defer endRun(t, p.run)
					if kind := p.payload()["kind"]; kind != "clarification" {
						t.Abort("the fixture %s waits on an interrupt of kind %s", clarifies, show(kind))
					}
					r := get(t, p.run)
					t.Expect(requirements.InterruptClarificationStatus, harness.Equal("status", any("waiting-input"), r.Get("status")).At(r))
				},
			},
			{
				Name:      "two conversations are two",
				Witnesses: []requirements.ID{requirements.InterruptConversationIdUnique},
				Gates:     []harness.Gate{harness.Advertises("conversationPrimitive"), harness.NeedsFixture(converses, converseAsks)},
				Run:       conversationsDiffer,
			},
			{
				Name:      "the answer in a conversation has the shape that was asked for",
				Witnesses: []requirements.ID{requirements.InterruptConversationOutcomeSchema},
				Gates:     []harness.Gate{harness.Advertises("conversationPrimitive"), optIn(converseAsks)},
				Run:       outcomeChecked,
			},
			{
				Name:      "a decision of low confidence is not carried out",
				Witnesses: []requirements.ID{requirements.InterruptLowConfidenceSuspends},
				Gates:     []harness.Gate{harness.Advertises("agents"), harness.NeedsFixture(lowConfidence)},
				Run: func(t *harness.T) {
					id := startRun(t, object{"workflowId": lowConfidence})
					defer endRun(t, id)
					t.Expect(requirements.InterruptLowConfidenceSuspends, escalated(t, id, decidedWith(t, id)))
				},
			},
			{
				Name:      "the threshold of a run",
				Witnesses: []requirements.ID{requirements.InterruptEscalationThreshold},
				Gates:     []harness.Gate{harness.Advertises("agents"), harness.NeedsFixture(lowConfidence)},
				Run:       thresholdOfRun,
			},
			{
				Name:      "what the published workflows ask for",
				Witnesses: []requirements.ID{requirements.InterruptNoCredentialSolicited},
				Gates:     []harness.Gate{harness.NeedsFixture(approves, clarifies, waitsForEvent)},
				Run:       solicitsNothing,
			},
		},
	}
}

// conversationsDiffer compares the ids of two runs of one workflow.
func conversationsDiffer(t *harness.T) {
	fixture := converses
	if !listed(t, fixture) {
		fixture = converseAsks
	}
	var ids [2][]string
	for i := range ids {
		id := startRun(t, object{"workflowId": fixture})
		defer endRun(t, id)
		awaitLogged(t, id, func(e object) bool {
			return ofType("conversation.closed", "interrupt.requested", "node.suspended")(e) || isTerminalType(e["type"])
		}, settle)
		ids[i] = conversationsIn(wholeLog(t, id).events)
		if len(ids[i]) == 0 {
			t.Abort("no conversation to observe: the run of %s names no conversationId", fixture)
		}
	}
	for _, id := range ids[0] {
		t.Expect(requirements.InterruptConversationIdUnique, harness.That(!slices.Contains(ids[1], id), "another conversationId in every run",
			"%q in two runs", id))
	}
}

// conversationsIn are the conversations a log names.
func conversationsIn(events []object) []string {
	var out []string
	for _, e := range events {
		id, ok := harness.Get(e, "payload", "conversationId").(string)
		if !ok {
			id, ok = harness.Get(e, "payload", "data", "conversationId").(string)
		}
		if ok && id != "" && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

func outcomeChecked(t *harness.T) {
	p := suspend(t, object{"workflowId": converseAsks})
	defer endRun(t, p.run)
	if p.payload()["kind"] != "conversation.exchange" || harness.Get(p.payload(), "data", "outcomeSchema") == nil {
		t.Abort("the fixture %s waits on no conversation.exchange with an outcomeSchema: kind %s", converseAsks, show(p.payload()["kind"]))
	}
	for _, value := range []any{object{}, object{"text": 7}, object{"text": "yes", "more": true}, "yes"} {
		t.Expect(requirements.InterruptConversationOutcomeSchema, refusedAsInvalid("the answer "+show(value), resolve(t, p, value)))
	}
	if !t.Expect(requirements.InterruptConversationOutcomeSchema, stillPending(t, p)) {
		return
	}
	r := resolve(t, p, object{"text": "yes"})
	t.Expect(requirements.InterruptConversationOutcomeSchema, harness.That(succeeded(r), "2xx for a valid answer", "%s", answered(r)).At(r))
}

// decidedWith waits for the first agent.decided with a confidence. The test
// ends when there is none.
func decidedWith(t *harness.T, id string) object {
	e, ok := awaitLogged(t, id, func(e object) bool {
		_, has := numeric(harness.Get(e, "payload", "confidence"))
		return e["type"] == "agent.decided" && has || isTerminalType(e["type"])
	}, settle)
	if !ok || e["type"] != "agent.decided" {
		t.Abort("no decision to observe: no agent.decided with a confidence in the run of %s", lowConfidence)
	}
	return e
}

// isEscalation matches the suspension for want of confidence.
func isEscalation(e object) bool {
	return e["type"] == "node.suspended" && harness.Get(e, "payload", "reason") == any("low-confidence")
}

// escalated checks that a decision is followed by a suspension before anything
// comes of it.
func escalated(t *harness.T, id string, decided object) harness.Check {
	const expected = "node.suspended with reason low-confidence after the decision, and a run that waits"
	e, ok := awaitLogged(t, id, func(e object) bool {
		return seqOf(e) > seqOf(decided) && (isEscalation(e) || endsNode(e) && nodeOf(e) == nodeOf(decided) || isTerminalType(e["type"]))
	}, settle)
	if !ok || !isEscalation(e) {
		return harness.That(false, expected, "%s after the decision of confidence %s", labelOf(e), show(harness.Get(decided, "payload", "confidence")))
	}
	status := awaitStatus(t, id, isWaiting, settle/5)
	return harness.That(isWaiting(status), expected, "the suspension, and status %q", status)
}

// labelOf is the label of an event, also of none.
func labelOf(e object) string {
	if e == nil {
		return "nothing"
	}
	return label(e)
}

func thresholdOfRun(t *harness.T) {
	first := startRun(t, object{"workflowId": lowConfidence})
	decided := decidedWith(t, first)
	endRun(t, first)
	confidence, _ := numeric(harness.Get(decided, "payload", "confidence"))
	if confidence <= 0 || confidence >= 1 {
		t.Abort("the confidence %v of the fixture %s leaves no room for a threshold on both sides", confidence, lowConfidence)
	}
	run := func(threshold float64) string {
		return startRun(t, object{"workflowId": lowConfidence, "configurable": object{"version": 1, "run": object{"escalationThreshold": threshold}}})
	}
	above := run((1 + confidence) / 2)
	defer endRun(t, above)
	t.Expect(requirements.InterruptEscalationThreshold, escalated(t, above, decidedWith(t, above)))
	below := run(confidence / 2)
	defer endRun(t, below)
	decidedWith(t, below)
	e, _ := awaitLogged(t, below, func(e object) bool { return isEscalation(e) || isTerminalType(e["type"]) }, settle)
	t.Expect(requirements.InterruptEscalationThreshold, harness.That(e != nil && isTerminalType(e["type"]), "a run that goes on with a confidence above its threshold",
		"%s with half the confidence as threshold", labelOf(e)))
}

// secretNames are names of members that hold nothing but credentials. Names
// that also mean something else, such as token, are not among them.
var secretNames = regexp.MustCompile(`(?i)^(password|passwd|passphrase|api[-_]?key|client[-_]?secret|access[-_]?token|refresh[-_]?token|bearer[-_]?token|private[-_]?key|secret[-_]?key|credentials?)$`)

func solicitsNothing(t *harness.T) {
	judged := 0
	for _, f := range append(interruptFixtures(), struct{ fixture, kind string }{approvesLate, "approval"}) {
		if !listed(t, f.fixture) {
			continue
		}
		p := suspend(t, object{"workflowId": f.fixture})
		endRun(t, p.run)
		judged++
		found := secretsAsked("", p.payload())
		t.Expect(requirements.InterruptNoCredentialSolicited, harness.That(len(found) == 0, "an interrupt that asks for no credential",
			"%s asks for %s", f.fixture, strings.Join(found, ", ")).At(p.log.last))
	}
	if judged == 0 {
		t.Abort("the host lists none of the workflows that wait")
	}
}

// secretsAsked are the places of an interrupt's schemas that ask for a secret:
// a member with such a name, or one that is shown as a password.
func secretsAsked(path string, v any) []string {
	var out []string
	switch x := v.(type) {
	case []any:
		for _, e := range x {
			out = append(out, secretsAsked(path, e)...)
		}
	case object:
		if x["format"] == "password" {
			out = append(out, path+" of format password")
		}
		if id, ok := x["id"].(string); ok && x["question"] != nil && secretNames.MatchString(id) {
			out = append(out, path+" with the question "+id)
		}
		if properties, ok := x["properties"].(object); ok {
			for _, name := range keysWhere(properties, func(name string, _ any) bool { return secretNames.MatchString(name) }) {
				out = append(out, path+"/properties/"+name)
			}
		}
		for name, e := range x {
			if name != "artifactData" && name != "correlation" && name != "payload" { // what is shown, not what is asked for
				out = append(out, secretsAsked(path+"/"+name, e)...)
			}
		}
	}
	return out
}
