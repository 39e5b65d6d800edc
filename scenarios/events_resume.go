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
// events above it, in log order, up to the one that ended the run. full is what
// a stream without cursor sends of the same run, nil where it did not come to
// its end; then none of its events above the cursor may be missing either.
func resumes(s *harness.Stream, frames []sse.Frame, cursor int64, full []int64) harness.Check {
	expected := "the events above " + decimal(cursor) + ", in log order"
	if open := s.Response.Is(http.StatusOK); !open.OK {
		return open
	}
	got := sequences(frames)
	previous := cursor
	for i, seq := range got {
		if seq < 0 {
			return harness.That(false, expected, "frame %d carries no event", i).At(s.Response)
		}
		if seq <= previous {
			return harness.That(false, expected, "sequences %v", got).At(s.Response)
		}
		previous = seq
	}
	if len(frames) == 0 || !endsRun(frames[len(frames)-1]) {
		return harness.That(false, expected, "sequences %v without the terminal event", got).At(s.Response)
	}
	for _, seq := range full {
		if seq > cursor && !slices.Contains(got, seq) {
			return harness.That(false, expected, "sequences %v without %d, which the whole stream has", got, seq).At(s.Response)
		}
	}
	return harness.That(true, expected, "sequences %v", got).At(s.Response)
}

// fullStream is the sequences of a finished run's whole stream in a mode, nil
// where it does not come to its end.
func fullStream(t *harness.T, runID, mode string) []int64 {
	s := stream(t, runID, mode, "")
	defer s.Close()
	frames := s.Collect(endsRun, settle)
	if len(frames) == 0 || !endsRun(frames[len(frames)-1]) {
		return nil
	}
	return sequences(frames)
}

// unserved reports whether a stream was refused for its optional mode.
func unserved(mode string, s *harness.Stream) bool {
	return mode != "" && s.Response.Refuses("unsupported_stream_mode").OK
}

func resumesFinished(t *harness.T) {
	id, l := settledEnding(t)
	last := endOf(t, l)
	for _, mode := range typedModes() {
		full := fullStream(t, id, mode)
		for _, event := range l.events {
			cursor, _ := sequenceOf(event)
			if cursor >= last {
				break
			}
			s := stream(t, id, mode, decimal(cursor))
			if unserved(mode, s) {
				break
			}
			t.Expect(requirements.R0171SseLastEventId, resumes(s, s.Collect(endsRun, settle), cursor, full))
			s.Close()
		}
	}
	if listed(t, streamText) && mocksText(t.Host().Discovery) {
		resumesMessages(t)
	}
}

// resumesMessages takes up the messages of a run behind each of its chunks. How
// a message reads is for other rows, as is a run that cannot be had.
func resumesMessages(t *harness.T) {
	r := create(t, spokenText())
	id := r.Text("runId")
	if !r.Is(http.StatusCreated).OK || id == "" || !awaitEnd(t, id, settle) {
		return
	}
	chunks := eventsOfType(wholeLog(t, id).events, "output.chunk")
	if full := readMode(t, id, "messages"); !full.served() || len(full.frames) != len(chunks) {
		return
	}
	for i, chunk := range chunks {
		q := modeQuery(id, "messages", -1)
		q.Header.Set("Last-Event-ID", decimal(seqOf(chunk)))
		s := readFinished(t, q)
		left := len(chunks) - i - 1
		t.Expect(requirements.R0171SseLastEventId, harness.All(s.open.Is(http.StatusOK),
			harness.That(len(s.frames) == left, fmt.Sprintf("the %d messages above %d", left, seqOf(chunk)), "%d frames of %d", len(s.frames), len(chunks))).At(s.open))
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
	modes := typedModes()
	var requests []harness.Request
	for _, mode := range modes {
		requests = append(requests, streamRequest(id, mode, "0"))
	}
	streams := endWhileStreaming(t, id, requests...)
	for i, s := range streams {
		if unserved(modes[i], s) {
			continue
		}
		frames := s.Collect(endsRun, settle)
		endOf(t, readLog(t, id, settle))
		t.Expect(requirements.R0171SseLastEventId, resumes(s, frames, 0, fullStream(t, id, modes[i])))
	}
}
