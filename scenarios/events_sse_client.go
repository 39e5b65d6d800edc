package scenarios

import (
	"time"

	"wopcert/bundle/jcs"
	"wopcert/harness"
	"wopcert/harness/sse"
	"wopcert/requirements"
)

// clientSeesFinished subscribes to a finished run with a client that is not
// ours, the one many programs use.
func clientSeesFinished(t *harness.T) {
	id, l := settledRun(t, endingFixtureOf(t))
	s := stream(t, id, "", "")
	frames := s.Collect(endsRun, settle)
	s.Close()
	t.Expect(requirements.R0171StreamSseProjection, allProject(s.Response, frames, l))
	if !harness.Ordinary(frames) {
		return // the client reads such a stream wrongly, and the frames are judged above
	}
	seen, err := t.Subscribe(subscription(id), receivedEnd)
	t.Expect(requirements.R0171StreamSseProjection, receivedAll(frames, seen, err))
}

// clientSeesActive has the client and our own reader follow the same run to
// its end.
func clientSeesActive(t *harness.T) {
	id := delayedRun(t, 300, nil)
	raw := streamSoon(t, streamRequest(id, "", ""))
	seen, err := t.Subscribe(subscription(id), receivedEnd)
	s := <-raw
	frames := s.Collect(endsRun, settle)
	s.Close()
	l := readLog(t, id, settle)
	if len(l.events) == 0 {
		t.Abort("no log to compare the frames with: %s", answered(l.last))
	}
	t.Expect(requirements.R0171StreamSseProjection, allProject(s.Response, frames, l))
	if harness.Ordinary(frames) {
		t.Expect(requirements.R0171StreamSseProjection, receivedAll(frames, seen, err))
	}
}

// subscription is a stream request that is given up after the time in which a
// run of these tests ends.
func subscription(runID string) harness.Request {
	r := streamRequest(runID, "", "")
	r.Timeout = settle + 2*time.Second
	return r
}

// receivedEnd reports whether the client was given the run's terminal event.
func receivedEnd(e harness.Received) bool {
	v, err := jcs.Decode([]byte(e.Data))
	return err == nil && isTerminalType(harness.Get(v, "type"))
}

// receivedAll checks that a client was given the frames that crossed the wire,
// each once, whole and in their order.
func receivedAll(frames []sse.Frame, seen []harness.Received, err error) harness.Check {
	const expected = "an ordinary client to be given every event frame, whole and in order"
	for i, f := range frames {
		switch {
		case i >= len(seen) && err != nil:
			return harness.That(false, expected, "%d of %d frames, then: %v", len(seen), len(frames), err)
		case i >= len(seen):
			return harness.That(false, expected, "%d of %d frames", len(seen), len(frames))
		case f.HasID && seen[i].ID != f.ID, seen[i].Event != f.Event, seen[i].Data != f.Data:
			return harness.That(false, expected, "frame %d with id %q and event %q where the stream has id %q and event %q",
				i, seen[i].ID, seen[i].Event, f.ID, f.Event)
		}
	}
	return harness.That(len(seen) == len(frames), expected, "%d frames where the stream has %d", len(seen), len(frames))
}
