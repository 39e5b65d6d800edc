package scenarios

import (
	"net/http"
	"slices"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// forkChild covers the run a fork makes (runs.md, "Fork" and "Pause and
// resume").
func forkChild() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-fork-child",
		Title:    "A fork is a run of its own with the owner of its source, and is not paused by its history",
		Document: "runs.md", Section: "Fork",
		Gates: []harness.Gate{harness.Advertises("replay")},
		Tests: []harness.Test{
			{
				Name:      "the response and the owner of a fork",
				Witnesses: []requirements.ID{requirements.RunsForkChild},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       forkIsRun,
			},
			{
				Name:      "a fork of a run that was paused and resumed",
				Witnesses: []requirements.ID{requirements.RunsForkFoldsPause},
				Gates:     []harness.Gate{harness.NeedsFixture(delay)},
				Slow:      3 * time.Second,
				Run:       forkFoldsPause,
			},
		},
	}
}

func forkIsRun(t *harness.T) {
	modes := forkModes(t)
	if len(modes) == 0 {
		t.Inapplicable(requirements.RunsForkChild, noForkModes)
		return
	}
	source, _ := settledEnding(t)
	owner := snapshot(t, source).Get("owner")
	for _, mode := range modes {
		r := fork(t, source, object{"mode": mode, "fromSeq": 0})
		if !t.Expect(requirements.RunsForkChild, harness.All(r.Is(http.StatusCreated), r.Valid("fork-response"),
			harness.Equal("sourceRunId", any(source), r.Get("sourceRunId")),
			harness.Equal("mode", any(mode), r.Get("mode")),
			harness.That(r.Text("runId") != source, "a runId of its own", "the source's, %s", source)).At(r)) {
			continue
		}
		child := r.Text("runId")
		defer endRun(t, child)
		if at, has := r.JSON().(object)["fromSeq"]; has {
			n, _ := wholeNumber(at)
			t.Expect(requirements.RunsForkChild, harness.That(n == 0 && at != nil, "fromSeq as asked for, 0", "%s", show(at)).At(r))
		}
		link, stays := onOrigin(r, "eventsUrl", r.Get("eventsUrl"))
		if t.Expect(requirements.RunsForkChild, stays) {
			t.Expect(requirements.RunsForkChild, firstGood(candidates(t, r.Text("eventsUrl"), link), func(link string) harness.Check {
				return streamsRun(t, link, child)
			}))
		}
		s := get(t, child)
		t.Expect(requirements.RunsForkChild, harness.All(names(s, child), same("owner of the fork", owner, s.Get("owner"))).At(s))
	}
}

func forkFoldsPause(t *harness.T) {
	modes := forkModes(t)
	if len(modes) == 0 {
		t.Inapplicable(requirements.RunsForkFoldsPause, noForkModes)
		return
	}
	source, work := pausedDelay(t)
	defer endRun(t, source)
	resumed := resumeNow(t, source)
	l := readLog(t, source, work+settle)
	outcome := get(t, source).Text("status")
	later := newer(l.events, resumed)
	if !l.terminal || outcome != "completed" || len(later) == 0 {
		t.Abort("no resumed and completed run to fork: its status is %q", outcome)
	}
	after, _ := sequenceOf(later[0])
	type point struct {
		mode string
		at   int64
	}
	var children []string
	for _, p := range []point{{"replay", 0}, {"replay", after}, {"branch", after}} {
		if !slices.Contains(modes, p.mode) {
			continue
		}
		child := forkedFrom(t, source, p.mode, p.at)
		defer endRun(t, child)
		children = append(children, child)
	}
	for _, child := range children {
		ended := awaitEnd(t, child, work+settle)
		s := get(t, child)
		t.Expect(requirements.RunsForkFoldsPause, harness.That(ended && s.Text("status") == outcome, "the fork to come to the status of its source, "+outcome,
			"%s with status %s after %s", answered(s), show(s.Get("status")), work+settle).At(s))
	}
}

// pausedDelay is a run that was paused while its node waits, and how long that
// node takes. A host too slow to be paused in time gets a longer one.
func pausedDelay(t *harness.T) (runID string, work time.Duration) {
	for _, work := range []time.Duration{800 * time.Millisecond, 4 * time.Second, 12 * time.Second} {
		id, _ := executing(t, object{"workflowId": delay, "inputs": object{"delayMs": work.Milliseconds()}})
		r := act(t, id, "pause", object{"drainPolicy": "immediate"})
		if r.Refuses("run_terminal").OK {
			continue
		}
		if !r.Is(http.StatusAccepted).OK {
			endRun(t, id)
			t.Abort("no paused run to observe: pauseRun gave %s", answered(r))
		}
		e, ok := awaitLogged(t, id, func(e object) bool { return e["type"] == "run.paused" || isTerminalType(e["type"]) }, settle)
		switch {
		case !ok:
			endRun(t, id)
			t.Abort("no paused run to observe: no run.paused within %s of the pause", settle)
		case e["type"] == "run.paused":
			return id, work
		}
	}
	t.Abort("no paused run to observe: every run ended before it could be paused")
	return "", 0
}
