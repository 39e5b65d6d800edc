package scenarios

import (
	"mime"
	"net/http"
	"time"

	"wopcert/harness"
	"wopcert/harness/sse"
	"wopcert/requirements"
)

// streamSSEProjection covers the frames of a run's event stream, its content
// type and its end (events.md, "SSE frames").
func streamSSEProjection() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-stream-sse-projection",
		Title:    "An event stream is the log in frames and ends with the run",
		Document: "events.md", Section: "SSE frames",
		Tests: []harness.Test{
			{
				Name:      "the frames of a finished run are its events",
				Witnesses: []requirements.ID{requirements.R0171StreamSseProjection, requirements.EventsSseContentType},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       framesOfFinished,
			},
			{
				Name:      "the frames of an active run are its events",
				Witnesses: []requirements.ID{requirements.R0171StreamSseProjection, requirements.EventsSseContentType},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       framesOfActive,
			},
			{
				Name:      "an ordinary client sees the frames of a finished run",
				Witnesses: []requirements.ID{requirements.R0171StreamSseProjection},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       clientSeesFinished,
			},
			{
				Name:      "an ordinary client sees the frames of an active run",
				Witnesses: []requirements.ID{requirements.R0171StreamSseProjection},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       clientSeesActive,
			},
			{
				Name:      "the stream of a finished run is closed after its last frame",
				Witnesses: []requirements.ID{requirements.EventsSseCloseAfterTerminal},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       closesFinished,
			},
			{
				Name:      "the stream of an active run is closed when the run ends",
				Witnesses: []requirements.ID{requirements.EventsSseCloseAfterTerminal},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       closesActive,
			},
		},
	}
}

// isEventStream checks the media type of a stream; parameters are free.
func isEventStream(r *harness.Response) harness.Check {
	ct := r.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(ct)
	return harness.All(r.Is(http.StatusOK),
		harness.That(err == nil && media == "text/event-stream", "Content-Type: text/event-stream", "Content-Type: %s", ct)).At(r)
}

// allProject checks frames against the log; a stream without any frame of a
// log that has events projects nothing.
func allProject(r *harness.Response, frames []sse.Frame, l log) harness.Check {
	if open := r.Is(http.StatusOK); !open.OK {
		return open
	}
	if len(frames) == 0 {
		return harness.That(false, "frames of the run's events", "a stream without any event frame of a log of %d events", len(l.events)).At(r)
	}
	polled := bySequence(l.events)
	var c harness.Check
	for _, f := range frames {
		if c = projects(f, polled); !c.OK {
			break
		}
	}
	return c.At(r)
}

func framesOfFinished(t *harness.T) {
	id, l := settledEnding(t)
	s := stream(t, id, "", "")
	t.Expect(requirements.EventsSseContentType, isEventStream(s.Response))
	frames := s.Collect(endsRun, settle)
	t.Expect(requirements.R0171StreamSseProjection, allProject(s.Response, frames, l))
}

func framesOfActive(t *harness.T) {
	id := liveRun(t)
	s := endWhileStreaming(t, id, streamRequest(id, "", ""))[0]
	t.Expect(requirements.EventsSseContentType, isEventStream(s.Response))
	frames := s.Collect(endsRun, settle)
	l := readLog(t, id, settle)
	if len(l.events) == 0 {
		t.Abort("no log to compare the frames with: %s", l.last.Is(http.StatusOK).Observed)
	}
	t.Expect(requirements.R0171StreamSseProjection, allProject(s.Response, frames, l))
}

// endWhileStreaming opens streams of an active run and cancels the run once
// they are open, or after a moment where the host sends no headers before it
// has something to say.
func endWhileStreaming(t *harness.T, runID string, requests ...harness.Request) []*harness.Stream {
	var opening []<-chan *harness.Stream
	for _, r := range requests {
		opening = append(opening, streamSoon(t, r))
	}
	streams := make([]*harness.Stream, len(requests))
	moment := time.NewTimer(time.Second)
	defer moment.Stop()
	for i := range opening {
		select {
		case streams[i] = <-opening[i]:
			continue
		case <-moment.C:
		}
		break
	}
	cancel(t, runID, object{})
	for i := range opening {
		if streams[i] == nil {
			streams[i] = <-opening[i]
		}
	}
	return streams
}

// closesAfterEnd checks that a stream sends the frame that ends the run and
// that the host then closes it.
func closesAfterEnd(s *harness.Stream) harness.Check {
	const expected = "the frame of the run's terminal event, and the host closing the stream after it"
	if open := s.Response.Is(http.StatusOK); !open.OK {
		return open
	}
	frames := s.Collect(endsRun, settle)
	closure := s.AwaitClose(0)
	if len(frames) == 0 || !endsRun(frames[len(frames)-1]) {
		if closure == harness.Open {
			return harness.That(false, expected, "%d frames, no terminal one, and a stream still open after %s", len(frames), settle).At(s.Response)
		}
		return harness.That(false, expected, "%d frames, no terminal one, and a stream ended by %s", len(frames), closure).At(s.Response)
	}
	closure = s.AwaitClose(settle)
	switch closure {
	case harness.Open:
		return harness.That(false, expected, "the terminal frame, and a stream still open %s later", settle).At(s.Response)
	case harness.ClosedByHost:
		return harness.That(true, expected, "the terminal frame and the end of the stream").At(s.Response)
	}
	return harness.That(false, expected, "the terminal frame, and a stream ended by %s", closure).At(s.Response)
}

func closesFinished(t *harness.T) {
	id, _ := settledEnding(t)
	t.Expect(requirements.EventsSseCloseAfterTerminal, closesAfterEnd(stream(t, id, "", "")))
}

func closesActive(t *harness.T) {
	id := liveRun(t)
	t.Expect(requirements.EventsSseCloseAfterTerminal, closesAfterEnd(endWhileStreaming(t, id, streamRequest(id, "", ""))[0]))
}
