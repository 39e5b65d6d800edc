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
	for _, mode := range typedModes() {
		s := stream(t, id, mode, "")
		if unserved(mode, s) {
			continue
		}
		t.Expect(requirements.EventsSseContentType, isEventStream(s.Response))
		frames := s.Collect(endsRun, settle)
		s.Close()
		t.Expect(requirements.R0171StreamSseProjection, allProject(s.Response, frames, l))
	}
}

// typedModes are the modes whose frames are events named by their type: the
// default one, and the one that shows every event, which a host need not serve.
func typedModes() []string { return []string{"", "debug"} }

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

// closesAfterEnd checks that a stream sends the frame that shows the end of the
// run, where its mode has one, and that the host then closes it.
func closesAfterEnd(mode string, s *harness.Stream) harness.Check {
	expected := "the frame of the run's terminal event, and the host closing the stream after it"
	if mode != "" {
		expected += ", with streamMode=" + mode
	}
	if open := s.Response.Is(http.StatusOK); !open.OK {
		return open
	}
	frames := s.Collect(showsEnd, settle)
	closure := s.AwaitClose(0)
	if mode == "messages" || mode == "values" { // which carry no event that ends a run; what a snapshot shows has a row of its own
		if closure = s.AwaitClose(settle); closure != harness.ClosedByHost {
			return harness.That(false, expected, "%d frames, and the stream %s", len(frames), ended(closure)).At(s.Response)
		}
		return harness.That(true, expected, "%d frames and the end of the stream", len(frames)).At(s.Response)
	}
	if len(frames) == 0 || !showsEnd(frames[len(frames)-1]) {
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
	for _, mode := range append([]string{""}, singleModes()...) {
		s := stream(t, id, mode, "")
		if unserved(mode, s) {
			continue
		}
		held := t.Expect(requirements.EventsSseCloseAfterTerminal, closesAfterEnd(mode, s))
		s.Close()
		if !held {
			return // the other modes would cost as long a wait
		}
	}
}

func closesActive(t *harness.T) {
	id := liveRun(t)
	modes := append([]string{""}, singleModes()...)
	var requests []harness.Request
	for _, mode := range modes {
		requests = append(requests, streamRequest(id, mode, ""))
	}
	streams := endWhileStreaming(t, id, requests...)
	for i, s := range streams {
		if !unserved(modes[i], s) && !t.Expect(requirements.EventsSseCloseAfterTerminal, closesAfterEnd(modes[i], s)) {
			return
		}
	}
}
