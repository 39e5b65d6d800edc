package scenarios

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"wopcert/bundle/jcs"
	"wopcert/corpus"
	"wopcert/harness"
	"wopcert/harness/sse"
)

// The form of a vendor event type (events.md, "Types"); the excluded openwop.
// prefix is a reserved org.
var vendorType = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*\.[a-z][a-z0-9]*(-[a-z0-9]+)*(\.[a-z][a-z0-9]*(-[a-z0-9]+)*)?$`)

// allowedType checks an event's type against the registry and, for a vendor's,
// against the org registry.
func allowedType(c *corpus.Corpus, v any) harness.Check {
	const expected = "a registered type, or a vendor type of a registered org"
	typ, ok := v.(string)
	if !ok {
		return harness.That(false, expected, "type %v", v)
	}
	_, registered := c.Event(typ)
	org, _, _ := strings.Cut(typ, ".")
	vendor := vendorType.MatchString(typ) && slices.Contains(c.Orgs(), org) && !slices.Contains(c.ReservedOrgs(), org)
	return harness.That(registered || vendor, expected, "type %q", typ)
}

// validEnvelope checks an event against its schema. Its type is a requirement
// of its own and stands aside here for a registered one.
func validEnvelope(c *corpus.Corpus, runID string, event object) harness.Check {
	const expected = "a valid, closed event of the run"
	if event == nil {
		return harness.That(false, expected, "an entry of events that is no object")
	}
	doc := maps.Clone(event)
	if _, ok := doc["type"].(string); ok {
		doc["type"] = "run.started"
	}
	if err := c.ValidateValue("run-event", doc); err != nil {
		return harness.That(false, expected, "%s: %v", label(event), err)
	}
	return harness.That(event["runId"] == runID, expected, "%s of run %v", label(event), event["runId"])
}

// validPayload checks an event's payload against the definition the registry
// names for its type. judged is false for a type that has none: a vendor's,
// or one that is not registered.
func validPayload(c *corpus.Corpus, event object) (check harness.Check, judged bool) {
	typ, _ := event["type"].(string)
	if _, ok := c.Event(typ); !ok {
		return harness.Check{}, false
	}
	expected := "a payload valid for " + typ
	if err := c.ValidatePayload(typ, event["payload"]); err != nil {
		return harness.That(false, expected, "%s: %v", label(event), err), true
	}
	return harness.That(true, expected, "%s", label(event)), true
}

func label(event object) string { return fmt.Sprintf("event %v %v", event["sequence"], event["type"]) }

// ascending checks that sequences increase strictly from a first one at or
// above the least allowed.
func ascending(events []object, least int64) harness.Check {
	expected := fmt.Sprintf("sequences that strictly increase, none below %d", least)
	previous := least - 1
	for _, e := range events {
		seq, ok := sequenceOf(e)
		if !ok {
			return harness.That(false, expected, "%s has no integer sequence", label(e))
		}
		if seq <= previous {
			return harness.That(false, expected, "%s after %d", label(e), previous)
		}
		previous = seq
	}
	return harness.That(true, expected, "%d events up to %d", len(events), previous)
}

// highest is the highest sequence among events, -1 when there is none.
func highest(events []object) int64 {
	top := int64(-1)
	for _, e := range events {
		if seq, ok := sequenceOf(e); ok {
			top = max(top, seq)
		}
	}
	return top
}

// bySequence files events under their sequence.
func bySequence(events []object) map[int64]object {
	out := map[int64]object{}
	for _, e := range events {
		if seq, ok := sequenceOf(e); ok {
			out[seq] = e
		}
	}
	return out
}

// newer are the events with a sequence above a cursor.
func newer(events []object, cursor int64) []object {
	return slices.DeleteFunc(slices.Clone(events), func(e object) bool {
		seq, ok := sequenceOf(e)
		return ok && seq <= cursor
	})
}

// sequencesOf are the sequences of events, in their order.
func sequencesOf(events []object) []int64 {
	out := []int64{}
	for _, e := range events {
		seq, ok := sequenceOf(e)
		if !ok {
			seq = -1
		}
		out = append(out, seq)
	}
	return out
}

// frameEvent decodes the event a frame carries.
func frameEvent(f sse.Frame) (object, error) {
	v, err := jcs.Decode([]byte(f.Data))
	if err != nil {
		return nil, err
	}
	event, ok := v.(object)
	if !ok {
		return nil, errors.New("the data is not an object")
	}
	return event, nil
}

// projects checks a frame of a single-mode stream against the log as polled:
// id, event and data are the sequence, type and document of one event. A poll
// that begins too late is a requirement of polls, so that events before its
// first are judged by their frame alone.
func projects(f sse.Frame, polled map[int64]object) harness.Check {
	const expected = "a frame with the event's sequence as id, its type as event and the polled event as data"
	event, err := frameEvent(f)
	if err != nil {
		return harness.That(false, expected, "frame with event %q and data that is no event: %v", f.Event, err)
	}
	seq, ok := sequenceOf(event)
	switch {
	case !ok:
		return harness.That(false, expected, "frame whose event has sequence %v", event["sequence"])
	case !f.HasID:
		return harness.That(false, expected, "%s in a frame without id", label(event))
	case f.ID != decimal(seq):
		return harness.That(false, expected, "%s in a frame with id %q", label(event), f.ID)
	case !f.HasEvent || any(f.Event) != event["type"]:
		return harness.That(false, expected, "%s in a frame with event %q", label(event), f.Event)
	}
	log, ok := polled[seq]
	if !ok && len(polled) > 0 && seq < slices.Min(slices.Collect(maps.Keys(polled))) {
		return harness.That(true, expected, "%s", label(event))
	}
	if !ok {
		return harness.That(false, expected, "%s in a frame, and no such event in the log", label(event))
	}
	if c := same("event", log, event); !c.OK {
		return harness.That(false, "the polled "+c.Expected, "%s in the frame", c.Observed)
	}
	return harness.That(true, expected, "%s", label(event))
}
