package scenarios

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// pollCursor covers pollRunEvents (events.md, "Poll").
func pollCursor() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-poll-cursor-v2",
		Title:    "A poll returns the events after its cursor, and an empty list past the end",
		Document: "events.md", Section: "Poll",
		Tests: []harness.Test{
			{
				Name:      "the response describes a finished run and its log",
				Witnesses: []requirements.ID{requirements.R0171PollCursorV2Shape},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       pollShapeFinished,
			},
			{
				Name:      "the response describes an active run and its log",
				Witnesses: []requirements.ID{requirements.R0171PollCursorV2Shape, requirements.R0171PollCursorV2PastEnd},
				Gates:     []harness.Gate{liveFixtures()},
				Slow:      2 * time.Second,
				Run:       pollActive,
			},
			{
				Name:      "a poll without a cursor starts at the first event",
				Witnesses: []requirements.ID{requirements.R0171PollCursorV2FromFirst},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       pollFromFirst,
			},
			{
				Name:      "a poll with a cursor returns what follows it",
				Witnesses: []requirements.ID{requirements.R0171PollCursorV2AfterSequence},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       pollAfter,
			},
			{
				Name:      "a poll of an active run with a cursor returns what follows it",
				Witnesses: []requirements.ID{requirements.R0171PollCursorV2AfterSequence},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       pollAfterActive,
			},
			{
				Name:      "a cursor past the end returns no events",
				Witnesses: []requirements.ID{requirements.R0171PollCursorV2PastEnd},
				Gates:     []harness.Gate{endingFixtures()},
				Slow:      2 * time.Second,
				Run:       pollPastEnd,
			},
		},
	}
}

// pollShape checks everything of a poll response but the events themselves,
// which have requirements of their own. later is the log as read afterwards:
// an event may be appended while a response is put together, so lastSequence
// may be above its events, but not above theirs.
func pollShape(t *harness.T, r *harness.Response, runID string, later log) harness.Check {
	if c := r.Is(http.StatusOK); !c.OK {
		return c
	}
	body, ok := r.JSON().(object)
	if !ok {
		return r.Valid("poll-response")
	}
	shape := maps.Clone(body)
	if _, list := shape["events"].([]any); list {
		shape["events"] = []any{}
	}
	if err := t.Corpus().ValidateValue("poll-response", shape); err != nil {
		return harness.That(false, "a valid, closed poll response", "%v", err).At(r)
	}
	return harness.All(
		harness.Equal("runId", any(runID), body["runId"]),
		harness.Equal("isTerminal beside status "+r.Text("status"), any(endedStatus(r.Text("status"))), body["isTerminal"]),
		lastIsHighest(lastSequence(r), highest(eventsOf(r)), highest(later.events)),
	).At(r)
}

func lastIsHighest(last, shown, later int64) harness.Check {
	expected := "lastSequence " + decimal(shown)
	if later > shown {
		expected = fmt.Sprintf("lastSequence from %d to %d", shown, later)
	}
	return harness.That(shown <= last && last <= max(shown, later), expected, "lastSequence %d", last)
}

func pollShapeFinished(t *harness.T) {
	id, _ := settledEnding(t)
	snapshot := get(t, id)
	r := poll(t, id, -1, time.Second)
	t.Expect(requirements.R0171PollCursorV2Shape, harness.All(
		pollShape(t, r, id, wholeLog(t, id)),
		harness.Equal("status of the snapshot", snapshot.Get("status"), r.Get("status")).At(r),
	))
	// Whatever the cursor leaves of the log, lastSequence is that of the whole.
	last := highest(eventsOf(r))
	for _, cursor := range []int64{last / 2, last, last + 1000} {
		if after := poll(t, id, cursor, time.Second); after.Is(http.StatusOK).OK {
			t.Expect(requirements.R0171PollCursorV2Shape, lastIsHighest(lastSequence(after), last, highest(wholeLog(t, id).events)).At(after))
		}
	}
}

func pollActive(t *harness.T) {
	id := liveRun(t)
	before := get(t, id)
	r := poll(t, id, -1, time.Second)
	after := get(t, id)
	t.Expect(requirements.R0171PollCursorV2Shape, pollShape(t, r, id, wholeLog(t, id)))
	if before.Get("status") == after.Get("status") {
		t.Expect(requirements.R0171PollCursorV2Shape, harness.Equal("status of the snapshot", after.Get("status"), r.Get("status")).At(r))
	}
	t.Expect(requirements.R0171PollCursorV2PastEnd, noEvents(poll(t, id, highest(eventsOf(r))+1000, time.Second)))
	cancel(t, id, object{})
}

// noEvents checks an answer 200 with an events array that is empty.
func noEvents(r *harness.Response) harness.Check {
	list, isList := r.Get("events").([]any)
	return harness.All(r.Is(http.StatusOK),
		harness.That(isList && len(list) == 0, "an empty events array", "events %v", r.Get("events"))).At(r)
}

func pollFromFirst(t *harness.T) {
	id, _ := settledEnding(t)
	r := poll(t, id, -1, time.Second)
	events := eventsOf(r)
	t.Expect(requirements.R0171PollCursorV2FromFirst, r.Is(http.StatusOK))
	first := int64(-1)
	if len(events) > 0 {
		first, _ = sequenceOf(events[0])
	}
	t.Expect(requirements.R0171PollCursorV2FromFirst, harness.All(
		harness.That(len(events) > 0, "the events of the run", "no events"),
		harness.Equal("sequence of the first event", int64(0), first),
		harness.That(slices.ContainsFunc(events, func(e object) bool { return isTerminalType(e["type"]) }),
			"events up to the one that ended the run", "%d events up to %d", len(events), highest(events)),
	).At(r))
}

func pollAfter(t *harness.T) {
	id, l := settledEnding(t)
	last := highest(l.events)
	if last < 1 {
		t.Abort("a log of %d events up to sequence %d leaves nothing after a cursor", len(l.events), last)
	}
	for _, cursor := range []int64{0, last / 2, last - 1} {
		r := poll(t, id, cursor, time.Second)
		t.Expect(requirements.R0171PollCursorV2AfterSequence, harness.All(
			r.Is(http.StatusOK),
			harness.Equal("sequences after "+decimal(cursor), sequencesOf(newer(l.events, cursor)), sequencesOf(eventsOf(r))),
		).At(r))
	}
}

// pollAfterActive reads a log that may grow, so that more may follow than the
// log had.
func pollAfterActive(t *harness.T) {
	id, _ := executing(t, liveBody(t))
	defer endRun(t, id)
	l := wholeLog(t, id)
	last := highest(l.events)
	if last < 1 {
		t.Abort("a log of %d events up to sequence %d leaves nothing after a cursor", len(l.events), last)
	}
	for cursor := range last {
		r := poll(t, id, cursor, time.Second)
		want, got := sequencesOf(newer(l.events, cursor)), sequencesOf(eventsOf(r))
		more := len(got) >= len(want) && ascending(eventsOf(r), cursor+1).OK
		t.Expect(requirements.R0171PollCursorV2AfterSequence, harness.All(
			r.Is(http.StatusOK),
			harness.That(more && slices.Equal(want, got[:len(want)]), fmt.Sprintf("sequences after %d of an active run %v", cursor, want), "sequences %v", got),
		).At(r))
	}
}

func pollPastEnd(t *harness.T) {
	id, l := settledEnding(t)
	last := highest(l.events)
	for _, cursor := range []int64{last + 1, last + 1_000_000, mostSafe} {
		t.Expect(requirements.R0171PollCursorV2PastEnd, noEvents(poll(t, id, cursor, time.Second)))
	}
}
