package scenarios

import (
	"encoding/json"
	"net/http"

	"wopcert/harness"
	"wopcert/requirements"
)

// eventTypeClosed covers the event envelope and its type (events.md, "The
// envelope" and "Types").
func eventTypeClosed() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-event-type-closed",
		Title:    "Every event is a closed object of a registered type",
		Document: "events.md", Section: "The envelope",
		Gates: []harness.Gate{endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "the events of finished runs are valid and of allowed types",
				Witnesses: []requirements.ID{requirements.R0171EventTypeClosedEnvelope, requirements.R0171EventTypeClosedType},
				Run:       eventsAreClosed,
			},
		},
	}
}

func eventsAreClosed(t *harness.T) {
	for _, s := range samples(t) {
		for _, event := range s.log.events {
			t.Expect(requirements.R0171EventTypeClosedEnvelope, validEnvelope(t.Corpus(), s.id, event).At(s.log.last))
			t.Expect(requirements.R0171EventTypeClosedType, allowedType(t.Corpus(), event["type"]).At(s.log.last))
		}
	}
}

// payloadRegistryClosed covers the payloads of events (events.md, "Payloads").
func payloadRegistryClosed() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-payload-registry-closed",
		Title:    "Every payload is the one registered for its type",
		Document: "events.md", Section: "Payloads",
		Gates: []harness.Gate{endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "the payloads of finished runs are valid",
				Witnesses: []requirements.ID{requirements.R0171PayloadRegistryClosed},
				Run:       payloadsAreRegistered,
			},
		},
	}
}

func payloadsAreRegistered(t *harness.T) {
	for _, s := range samples(t) {
		for _, event := range s.log.events {
			if check, judged := validPayload(t.Corpus(), event); judged {
				t.Expect(requirements.R0171PayloadRegistryClosed, check.At(s.log.last))
			}
		}
	}
}

// runCompletedOutputs covers the payload of run.completed (events.md,
// "Payloads").
func runCompletedOutputs() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-run-completed-outputs",
		Title:    "A completed run says what it put out, even when that is nothing",
		Document: "events.md", Section: "Payloads",
		Tests: []harness.Test{
			{
				Name:      "run.completed carries outputs",
				Witnesses: []requirements.ID{requirements.R0171RunCompletedOutputs},
				Gates:     []harness.Gate{harness.NeedsFixture(noop, multiNode, identity, delay)},
				Run:       completedHasOutputs,
			},
		},
	}
}

func completedHasOutputs(t *harness.T) {
	seen := false
	for _, body := range endingBodies(t) {
		if body["workflowId"] == failure {
			continue
		}
		_, l := settledRun(t, body)
		for _, event := range l.events {
			if event["type"] != "run.completed" {
				continue
			}
			seen = true
			outputs := harness.Get(event["payload"], "outputs")
			_, isObject := outputs.(object)
			t.Expect(requirements.R0171RunCompletedOutputs, harness.That(isObject, "outputs as an object in run.completed",
				"%s with outputs %v", label(event), outputs).At(l.last))
		}
	}
	if !seen {
		t.Abort("no run.completed event to observe in the logs of the runs that should complete")
	}
}

// eventSequence covers the one ordering field (events.md, "The envelope").
func eventSequence() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-event-sequence",
		Title:    "Sequences start at 0, strictly increase and are never renumbered",
		Document: "events.md", Section: "The envelope",
		Tests: []harness.Test{
			{
				Name:      "the log of a finished run is ordered and reads the same twice",
				Witnesses: []requirements.ID{requirements.EventsSequence},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       sequenceOfFinished,
			},
			{
				Name:      "a log keeps its events when it grows",
				Witnesses: []requirements.ID{requirements.EventsSequence},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       sequenceOfGrowing,
			},
		},
	}
}

// numbered checks that a log starts at 0 and strictly increases.
func numbered(l log) harness.Check {
	if len(l.events) > 0 {
		if first, ok := sequenceOf(l.events[0]); !ok || first != 0 {
			return harness.That(false, "a first event with sequence 0", "%s first", label(l.events[0])).At(l.last)
		}
	}
	return ascending(l.events, 0).At(l.last)
}

// keeps checks that a later reading begins with the earlier one.
func keeps(before, after log) harness.Check {
	if len(after.events) < len(before.events) {
		return harness.That(false, "the events read before", "%d events where there were %d", len(after.events), len(before.events)).At(after.last)
	}
	for i, event := range before.events {
		if c := same("event "+decimal(int64(i))+" of the log", event, after.events[i]); !c.OK {
			return c.At(after.last)
		}
	}
	return harness.That(true, "the events read before", "%d of them again", len(before.events)).At(after.last)
}

func sequenceOfFinished(t *harness.T) {
	for _, s := range samples(t) {
		again := wholeLog(t, s.id)
		t.Expect(requirements.EventsSequence, harness.All(numbered(fromStart(t, s)), keeps(s.log, again)))
	}
}

// fromStart is the log of a finished run with its first event. Where a poll
// leaves that one out, which is a requirement of polls, the stream has it.
func fromStart(t *harness.T, s sample) log {
	if first, ok := sequenceOf(s.log.events[0]); ok && first == 0 {
		return s.log
	}
	open := stream(t, s.id, "", "")
	defer open.Close()
	full := s.log
	if f, ok := open.Next(settle); ok {
		if event, err := frameEvent(f); err == nil && event["sequence"] == json.Number("0") {
			full.events = append([]object{event}, full.events...)
		}
	}
	return full
}

func sequenceOfGrowing(t *harness.T) {
	id := liveRun(t)
	before := wholeLog(t, id)
	if len(before.events) == 0 {
		t.Abort("no events of the active run to observe: %s", before.last.Is(http.StatusOK).Observed)
	}
	cancel(t, id, object{})
	after := readLog(t, id, settle)
	if len(after.events) <= len(before.events) && !after.terminal {
		t.Abort("the log of the run did not grow when it was cancelled")
	}
	t.Expect(requirements.EventsSequence, harness.All(numbered(after), keeps(before, after)))
}
