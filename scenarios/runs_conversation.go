package scenarios

import (
	"wopcert/harness"
	"wopcert/requirements"
)

// converses is the fixture that holds one conversation.
const converses = "conformance-conversation-lifecycle"

// conversationTurnParts covers the parts of turns (runs.md,
// "conversationPrimitive").
func conversationTurnParts() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-conversation-turn-parts",
		Title:    "Conversation turns carry parts, and a content for those who read none",
		Document: "runs.md", Section: "conversationPrimitive",
		Gates: []harness.Gate{harness.Advertises("conversationPrimitive"), harness.NeedsFixture(converses)},
		Tests: []harness.Test{
			{
				Name:      "the turns of a conversation",
				Witnesses: []requirements.ID{requirements.R0205TurnPartsEmitted},
				Run:       turnsHaveParts,
			},
		},
	}
}

func turnsHaveParts(t *harness.T) {
	id := startRun(t, object{"workflowId": converses})
	defer endRun(t, id)
	// A host may wait for somebody to speak; the turns so far are in its log.
	if _, ok := awaitLogged(t, id, func(e object) bool {
		return ofType("conversation.closed", "interrupt.requested", "node.suspended")(e) || isTerminalType(e["type"])
	}, 2*settle); !ok {
		t.Abort("no conversation to observe: neither its end nor a wait in the log within %s", 2*settle)
	}
	l := wholeLog(t, id)
	turns := 0
	for _, e := range l.events {
		name := map[any]string{"conversation.exchanged": "turn", "conversation.opened": "initialTurn"}[e["type"]]
		turn, ok := harness.Get(e, "payload", name).(object)
		if name == "" || !ok {
			continue
		}
		turns++
		t.Should(requirements.R0205TurnPartsEmitted, hasParts(t, turn).At(l.last))
	}
	if turns == 0 {
		t.Inapplicable(requirements.R0205TurnPartsEmitted, "the conversation of %s records no turn", converses)
	}
}

// hasParts checks one turn: parts, not empty and each valid, and a content that
// can be shown without them.
func hasParts(t *harness.T, turn object) harness.Check {
	const expected = "a turn with valid parts and a content"
	parts, _ := turn["parts"].([]any)
	if len(parts) == 0 {
		return harness.That(false, expected, "turn %s with parts %s", show(turn["turnIndex"]), show(turn["parts"]))
	}
	for _, part := range parts {
		if why := violation(t.Corpus().ValidateValue("part", part)); why != "" {
			return harness.That(false, expected, "turn %s with a part %s", show(turn["turnIndex"]), cut(why))
		}
	}
	content, isText := turn["content"].(string)
	return harness.That(turn["content"] != nil && (!isText || content != ""), expected, "turn %s with content %s", show(turn["turnIndex"]), show(turn["content"]))
}
