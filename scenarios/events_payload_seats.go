package scenarios

import (
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"

	"wopcert/corpus"
	"wopcert/harness"
	"wopcert/requirements"
)

// payloadSeats covers where a payload has room for what was said and why
// (events.md, "Payloads").
func payloadSeats() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-payload-seats-0186",
		Title:    "What was said in a conversation is recorded where the payloads have a seat for it",
		Document: "events.md", Section: "Payloads",
		Gates: []harness.Gate{harness.Advertises("conversationPrimitive"), harness.NeedsFixture(conversation)},
		Tests: []harness.Test{
			{
				Name:      "the exchanges of a conversation carry their turn or their outcome",
				Witnesses: []requirements.ID{requirements.R0186PayloadSeats},
				Run:       conversationSeats,
			},
		},
	}
}

func conversationSeats(t *harness.T) {
	id := startRun(t, object{"workflowId": conversation})
	if _, ok := awaitLogged(t, id, ofType("conversation.exchanged"), settle); !ok {
		cancel(t, id, object{})
		t.Abort("no exchange to observe: no conversation.exchanged in the run's log within %s", settle)
	}
	if !awaitEnd(t, id, settle) {
		cancel(t, id, object{})
	}
	l := wholeLog(t, id)
	for _, e := range l.events {
		switch e["type"] {
		case "conversation.exchanged":
			t.Expect(requirements.R0186PayloadSeats, exchangeSeats(t.Corpus(), e).At(l.last))
		case "node.suspended", "interrupt.resolved":
			payload, _ := e["payload"].(object)
			if reason, has := payload["reason"]; has {
				s, isText := reason.(string)
				n := utf8.RuneCountInString(s)
				t.Expect(requirements.R0186PayloadSeats, harness.That(isText && 1 <= n && n <= 64,
					"a reason of 1 to 64 characters", "%s with reason %s", label(e), show(reason)).At(l.last))
			}
		}
	}
}

// exchangeSeats checks a conversation.exchanged: the closed definition, and in
// it what was said.
func exchangeSeats(c *corpus.Corpus, event object) harness.Check {
	const expected = "turn or outcome, and no member the definition does not have"
	if check, _ := validPayload(c, event); !check.OK {
		return check
	}
	payload, _ := event["payload"].(object)
	_, turn := payload["turn"]
	_, outcome := payload["outcome"]
	return harness.That(turn || outcome, expected, "%s with the members %v", label(event), keysWhere(payload, func(string, any) bool { return true }))
}

// payloadVendorHatch covers what readers show of a payload's members
// (events.md, "Era-2 logs").
func payloadVendorHatch() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-payload-vendor-hatch",
		Title:    "No reader of an event loses a member of its payload, and none has a name it may not have",
		Document: "events.md", Section: "Era-2 logs",
		Gates: []harness.Gate{endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "a poll, a stream and a batch show the same payloads",
				Witnesses: []requirements.ID{requirements.R0185PayloadVendorHatch},
				Run:       payloadsEverywhere,
			},
		},
	}
}

func payloadsEverywhere(t *harness.T) {
	id, l := settledRun(t, endingFixtureOf(t))
	for _, e := range l.events {
		t.Expect(requirements.R0185PayloadVendorHatch, admittedMembers(t.Corpus(), e).At(l.last))
	}
	mode := fullestMode(t, id)
	for _, bufferMs := range []int{-1, 200} {
		s := readFinished(t, modeQuery(id, mode, bufferMs))
		if c := s.open.Is(http.StatusOK); !c.OK {
			t.Abort("no stream to compare the poll with: streamMode=%s, bufferMs=%d gave %s", mode, bufferMs, c.Observed)
		}
		shown := bySequence(allEventsIn(s.frames))
		compared := 0
		for _, e := range l.events {
			seq, _ := sequenceOf(e)
			streamed, ok := shown[seq]
			if !ok {
				continue // whether an event is there is a requirement of the mode
			}
			compared++
			t.Expect(requirements.R0185PayloadVendorHatch, samePayload(fmt.Sprintf("streamMode=%s, bufferMs=%d", mode, bufferMs), e, streamed).At(s.open))
		}
		if compared == 0 {
			t.Abort("no event to compare: streamMode=%s, bufferMs=%d shows none that the poll has", mode, bufferMs)
		}
	}
}

// samePayload compares an event's payload as polled with another reader's.
func samePayload(reader string, polled, shown object) harness.Check {
	c := same("payload of "+label(polled), polled["payload"], shown["payload"])
	c.Observed = "by " + reader + " " + c.Observed
	return c
}

// admittedMembers checks the names of an event's payload members: each is one
// the definition has, or of the form of the hatch where the definition admits
// it. What is wrong with the values is another requirement's.
func admittedMembers(c *corpus.Corpus, event object) harness.Check {
	const expected = "payload members the definition names, or of the form openwop-…, x-… or vendor.… where it admits them"
	typ, _ := event["type"].(string)
	if tierOf(c, event) == "" {
		return harness.That(true, expected, "%s, for which no definition is registered", label(event))
	}
	var invalid *corpus.ValidationError
	if errors.As(c.ValidatePayload(typ, event["payload"]), &invalid) {
		for _, v := range invalid.Violations {
			if v.Pointer == "" && (v.Keyword == "additionalProperties" || v.Keyword == "unevaluatedProperties") {
				return harness.That(false, expected, "%s: %s", label(event), cut(v.Message))
			}
		}
	}
	return harness.That(true, expected, "%s", label(event))
}
