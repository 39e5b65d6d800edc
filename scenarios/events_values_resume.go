package scenarios

import (
	"net/http"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// streamValuesResume covers a values stream that is taken up again (events.md,
// "Resuming with Last-Event-ID").
func streamValuesResume() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-stream-values-resume",
		Title:    "A values stream taken up again begins with the state",
		Document: "events.md", Section: "Resuming with Last-Event-ID",
		Tests: []harness.Test{
			{
				Name:      "a finished run's values stream resumes with a snapshot",
				Witnesses: []requirements.ID{requirements.EventsValuesResumeSnapshot},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       valuesResumeFinished,
			},
			{
				Name:      "an active run's values stream resumes with a snapshot at once",
				Witnesses: []requirements.ID{requirements.EventsValuesResumeSnapshot},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       valuesResumeActive,
			},
		},
	}
}

func resumedValues(runID string) harness.Request {
	r := modeQuery(runID, "values", -1)
	r.Header.Set("Last-Event-ID", "0")
	return r
}

func valuesResumeFinished(t *harness.T) {
	id, l := settledRun(t, endingFixtureOf(t))
	endOf(t, l)
	s := t.Stream(resumedValues(id))
	if unservedMode(streamed{open: s.Response}) {
		t.Inapplicable(requirements.EventsValuesResumeSnapshot, "the host does not serve the values mode")
		return
	}
	t.Expect(requirements.EventsValuesResumeSnapshot, beginsWithSnapshot(s, settle))
	s.Close()
}

// valuesResumeActive resumes while the node of the run waits: no transition
// comes for as long as the test listens, so that only the resumption can have
// caused a snapshot.
func valuesResumeActive(t *harness.T) {
	id, started := executing(t, liveBody(t))
	if seq, ok := sequenceOf(started); !ok || seq < 1 {
		t.Abort("no event beyond the first one to resume at: node.started has sequence %v", started["sequence"])
	}
	opened := streamSoon(t, resumedValues(id))
	var s *harness.Stream
	select {
	case s = <-opened:
	case <-time.After(5 * time.Second):
	}
	check := harness.That(false, "a first frame state.snapshot", "no answer while the run made no transition")
	if s != nil && !unservedMode(streamed{open: s.Response}) {
		check = beginsWithSnapshot(s, 5*time.Second)
	}
	cancel(t, id, object{})
	if s == nil {
		s = <-opened
	}
	s.Close()
	if unservedMode(streamed{open: s.Response}) {
		t.Inapplicable(requirements.EventsValuesResumeSnapshot, "the host does not serve the values mode")
		return
	}
	t.Expect(requirements.EventsValuesResumeSnapshot, check)
}

// beginsWithSnapshot checks the first frame of a stream.
func beginsWithSnapshot(s *harness.Stream, within time.Duration) harness.Check {
	const expected = "a first frame state.snapshot"
	if open := s.Response.Is(http.StatusOK); !open.OK {
		return open
	}
	f, ok := s.Next(within)
	if !ok {
		return harness.That(false, expected, "no frame, and the stream %s", ended(s.AwaitClose(0))).At(s.Response)
	}
	return harness.That(f.Event == "state.snapshot", expected, "a first frame with event %q", f.Event).At(s.Response)
}
