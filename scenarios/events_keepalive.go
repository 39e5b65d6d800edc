package scenarios

import (
	"fmt"
	"net/http"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// streamKeepAlive covers the comments of a quiet stream (events.md, "SSE
// frames").
func streamKeepAlive() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-stream-keep-alive",
		Title:    "A quiet stream is kept alive with comments",
		Document: "events.md", Section: "SSE frames",
		Tests: []harness.Test{
			{
				Name:      "a comment arrives on a quiet stream in time",
				Witnesses: []requirements.ID{requirements.EventsSseKeepAlive},
				Gates:     []harness.Gate{harness.NeedsFixture(cancellable)},
				Slow:      30 * time.Second,
				Run:       keepsAlive,
			},
		},
	}
}

const (
	// quietFor is the longest a stream may be quiet, with the tolerance for the
	// way the bytes take.
	quietFor = 32 * time.Second
	// opening is how long what a host sends at the opening counts as that.
	opening = time.Second
)

func keepsAlive(t *harness.T) {
	id := startRun(t, object{"workflowId": cancellable, "inputs": object{"delayMs": 60_000}})
	s := t.Stream(modeQuery(id, "updates", -1))
	if c := s.Response.Is(http.StatusOK); !c.OK {
		cancel(t, id, object{})
		t.Abort("no stream to listen to: %s", c.Observed)
	}
	check := awaitKeepAlive(s)
	if !check.OK && endedStatus(get(t, id).Text("status")) {
		t.Abort("the run that was to stay quiet ended before a comment had to come")
	}
	cancel(t, id, object{})
	s.Close()
	t.Expect(requirements.EventsSseKeepAlive, check)
}

// awaitKeepAlive waits for the first comment after the opening and judges how
// long the stream was quiet before it. What is sent at the opening is no
// keep-alive; frames and comments end the quiet they come in.
func awaitKeepAlive(s *harness.Stream) harness.Check {
	expected := fmt.Sprintf("a comment at most %s after what came before it", quietFor)
	began := time.Now()
	for seen := 0; ; {
		since := quietSince(s, began, time.Now())
		comments := s.AwaitComment(seen, time.Until(later(since, began.Add(opening)).Add(quietFor)))
		for ; seen < len(comments); seen++ {
			if at := comments[seen].At; at.After(began.Add(opening)) {
				quiet := at.Sub(quietSince(s, began, at)).Round(time.Millisecond)
				return harness.That(quiet <= quietFor, expected, "a comment after %s", quiet).At(s.Response)
			}
		}
		if closure := s.AwaitClose(0); closure != harness.Open {
			return harness.That(false, expected, "no comment, and a stream %s after %s", ended(closure), time.Since(began).Round(time.Second)).At(s.Response)
		}
		since = quietSince(s, began, time.Now())
		if time.Since(later(since, began.Add(opening))) >= quietFor {
			return harness.That(false, expected, "no comment in %s", time.Since(since).Round(time.Second)).At(s.Response)
		}
	}
}

// quietSince is the arrival of the last event frame or comment before a
// moment, or the given beginning where there was none.
func quietSince(s *harness.Stream, began, moment time.Time) time.Time {
	last := began
	for _, f := range s.Frames() {
		if f.Dispatches() && f.At.Before(moment) {
			last = later(last, f.At)
		}
	}
	for _, c := range s.AwaitComment(0, 0) {
		if c.At.Before(moment) {
			last = later(last, c.At)
		}
	}
	return last
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
