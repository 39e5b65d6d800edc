package scenarios

import (
	"fmt"
	"net/http"
	"slices"

	"wopcert/harness"
	"wopcert/harness/sse"
	"wopcert/requirements"
)

// sseLastEventID covers a stream that is taken up again (events.md, "Resuming
// with Last-Event-ID").
func sseLastEventID() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-sse-last-event-id",
		Title:    "A stream taken up again goes on after the last event seen",
		Document: "events.md", Section: "Resuming with Last-Event-ID",
		Tests: []harness.Test{
			{
				Name:      "a finished run's stream resumes after the cursor",
				Witnesses: []requirements.ID{requirements.R0171SseLastEventId},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       resumesFinished,
			},
			{
				Name:      "an active run's stream resumes after the cursor",
				Witnesses: []requirements.ID{requirements.R0171SseLastEventId},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       resumesActive,
			},
		},
	}
}

// resumes checks the frames of a stream that was opened with a cursor: only
// events of the log above it, in log order, up to the one that ended the run.
// full is what a stream without cursor sent of the same run, nil where it did
// not come to its end; then the frames are also exactly its frames above the
// cursor.
func resumes(s *harness.Stream, frames []sse.Frame, cursor int64, l log, full []int64) harness.Check {
	expected := "the events above " + decimal(cursor) + ", in log order"
	if open := s.Response.Is(http.StatusOK); !open.OK {
		return open
	}
	got := sequences(frames)
	fail := func(why string, args ...any) harness.Check {
		return harness.That(false, expected, why, args...).At(s.Response)
	}
	polled := bySequence(l.events)
	previous := cursor
	for i, seq := range got {
		switch _, logged := polled[seq]; {
		case seq < 0:
			return fail("frame %d carries no event", i)
		case seq <= cursor:
			return fail("sequences %v", got)
		case seq <= previous:
			return fail("sequences %v", got)
		case !logged:
			return fail("sequence %d, which is not in the log", seq)
		}
		previous = seq
	}
	if len(frames) == 0 || !endsRun(frames[len(frames)-1]) {
		return fail("sequences %v without the terminal event", got)
	}
	if full != nil {
		want := slices.DeleteFunc(slices.Clone(full), func(n int64) bool { return n <= cursor })
		if !slices.Equal(want, got) {
			return harness.That(false, fmt.Sprintf("%s: %v", expected, want), "sequences %v", got).At(s.Response)
		}
	}
	return harness.That(true, expected, "sequences %v", got).At(s.Response)
}

// fullStream is the sequences of a finished run's whole stream, nil where it
// does not come to its end.
func fullStream(t *harness.T, runID string) []int64 {
	s := stream(t, runID, "", "")
	defer s.Close()
	frames := s.Collect(endsRun, settle)
	if len(frames) == 0 || !endsRun(frames[len(frames)-1]) {
		return nil
	}
	return sequences(frames)
}

func resumesFinished(t *harness.T) {
	id, l := settledEnding(t)
	last := endOf(t, l)
	full := fullStream(t, id)
	for _, event := range l.events {
		cursor, _ := sequenceOf(event)
		if cursor >= last {
			break
		}
		s := stream(t, id, "", decimal(cursor))
		t.Expect(requirements.R0171SseLastEventId, resumes(s, s.Collect(endsRun, settle), cursor, l, full))
		s.Close()
	}
}

// endOf is the sequence of the event that ended a run. The test ends where the
// log has none or nothing comes before it.
func endOf(t *harness.T, l log) int64 {
	for _, event := range l.events {
		if seq, ok := sequenceOf(event); ok && seq > 0 && isTerminalType(event["type"]) {
			return seq
		}
	}
	t.Abort("no event before a terminal one to resume from, in a log of %d events", len(l.events))
	return 0
}

func resumesActive(t *harness.T) {
	id := liveRun(t)
	s := endWhileStreaming(t, id, streamRequest(id, "", "0"))
	frames := s.Collect(endsRun, settle)
	l := readLog(t, id, settle)
	endOf(t, l)
	t.Expect(requirements.R0171SseLastEventId, resumes(s, frames, 0, l, fullStream(t, id)))
}
