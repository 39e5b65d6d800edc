package scenarios

import (
	"net/http"
	"slices"

	"wopcert/harness"
	"wopcert/requirements"
)

// runPauseResume covers pauseRun and resumeRun as a whole (runs.md, "Pause and
// resume").
func runPauseResume() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-run-pause-resume",
		Title:    "An active run can be paused and resumed, and either is refused where it does not fit",
		Document: "runs.md", Section: "Pause and resume",
		Tests: []harness.Test{
			{
				Name:      "a run is paused, resumed and cancelled",
				Witnesses: []requirements.ID{requirements.R0170RunPauseResume},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       pausesAndResumes,
			},
		},
	}
}

// pauseRefusals covers the refusals of pauseRun and resumeRun (runs.md, "Pause
// and resume").
func pauseRefusals() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-pause-refusals",
		Title:    "A pause or resume that does not fit a run's state is refused and leaves no trace",
		Document: "runs.md", Section: "Pause and resume",
		Tests: []harness.Test{
			{
				Name:      "a paused run is not paused again",
				Witnesses: []requirements.ID{requirements.RunsPauseRefused},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       pausedNotPaused,
			},
			{
				Name:      "a finished run is not paused",
				Witnesses: []requirements.ID{requirements.RunsPauseRefused},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       finishedNotPaused,
			},
			{
				Name:      "a run that is not paused is not resumed",
				Witnesses: []requirements.ID{requirements.RunsResumeRefused},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       activeNotResumed,
			},
			{
				Name:      "a finished run is not resumed",
				Witnesses: []requirements.ID{requirements.RunsResumeRefused},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       finishedNotResumed,
			},
		},
	}
}

// acceptedAs checks the answer of an accepted pause or resume.
func acceptedAs(r *harness.Response, runID, status, schema string) harness.Check {
	return harness.All(r.Is(http.StatusAccepted), harness.Equal("runId", any(runID), r.Get("runId")),
		harness.Equal("status", any(status), r.Get("status")), r.Valid(schema)).At(r)
}

func pausesAndResumes(t *harness.T) {
	id, _ := executing(t, liveBody(t))
	defer endRun(t, id)
	if !t.Expect(requirements.R0170RunPauseResume, acceptedAs(
		act(t, id, "pause", object{"drainPolicy": "immediate", "reason": "wopcert"}), id, "paused", "pause-response")) {
		return
	}
	event, ok := awaitLogged(t, id, ofType("run.paused"), settle)
	if !t.Expect(requirements.R0170RunPauseResume, harness.That(ok, "run.paused in the log", "none within %s of the pause", settle)) {
		return
	}
	t.Expect(requirements.R0170RunPauseResume, harness.Equal("drainPolicy of run.paused", any("immediate"), harness.Get(event, "payload", "drainPolicy")))
	s := get(t, id)
	t.Expect(requirements.R0170RunPauseResume, harness.Equal("status after the pause", any("paused"), s.Get("status")).At(s))
	t.Expect(requirements.R0170RunPauseResume, stateConflict(act(t, id, "pause", object{}), "paused"))

	if !t.Expect(requirements.R0170RunPauseResume, acceptedAs(act(t, id, "resume", object{}), id, "running", "resume-response")) {
		return
	}
	_, ok = awaitLogged(t, id, ofType("run.resumed"), settle)
	t.Expect(requirements.R0170RunPauseResume, harness.That(ok, "run.resumed in the log", "none within %s of the resume", settle))
	s = get(t, id)
	t.Expect(requirements.R0170RunPauseResume, harness.That(s.Is(http.StatusOK).OK && s.Text("status") != "paused", "the resumed run to go on",
		"%s with status %s", answered(s), show(s.Get("status"))).At(s))
	if endedStatus(s.Text("status")) {
		t.Abort("the resumed run ended before it could be observed: status %q", s.Text("status"))
	}
	t.Expect(requirements.R0170RunPauseResume, stateConflict(act(t, id, "resume", object{}), unpausedStatuses()...))

	if r := cancel(t, id, object{}); !r.Is(http.StatusOK).OK || !awaitEnd(t, id, settle) {
		t.Abort("no cancelled run to observe: cancelRun gave %s", answered(r))
	}
	t.Expect(requirements.R0170RunPauseResume, act(t, id, "pause", object{}).Refuses("run_terminal"))
	t.Expect(requirements.R0170RunPauseResume, act(t, id, "resume", object{}).Refuses("run_terminal"))
}

// unpausedStatuses are those of a run that is neither paused nor at its end.
func unpausedStatuses() []string {
	return []string{"pending", "running", "waiting-approval", "waiting-input", "waiting-external", "cancelling"}
}

// ownEvents are the events a run has of its transitions: what a refusal must
// not add to.
func ownEvents(l log) []int64 {
	return sequencesOf(slices.DeleteFunc(slices.Clone(l.events), func(e object) bool { return !hasPrefix("run.")(e) }))
}

// addsNothing checks that a run's transitions are those it had before.
func addsNothing(t *harness.T, id string, before log) harness.Check {
	after := wholeLog(t, id)
	return harness.All(after.last.Is(http.StatusOK), harness.That(slices.Equal(ownEvents(after), ownEvents(before)), "no run.* event from a refused operation",
		"run.* events at %v, before it at %v", ownEvents(after), ownEvents(before))).At(after.last)
}

func pausedNotPaused(t *harness.T) {
	id := pausedRun(t)
	defer endRun(t, id)
	before := wholeLog(t, id)
	for _, body := range []object{{}, {"drainPolicy": "immediate"}, {"drainPolicy": "drain-current-node"}} {
		t.Expect(requirements.RunsPauseRefused, stateConflict(act(t, id, "pause", body), "paused"))
	}
	t.Expect(requirements.RunsPauseRefused, addsNothing(t, id, before))
	s := get(t, id)
	t.Expect(requirements.RunsPauseRefused, harness.Equal("status after the refusals", any("paused"), s.Get("status")).At(s))
}

// finishedRuns are runs that completed, failed and were cancelled, as far as
// the host's fixtures allow; and the test ends unless an active run can be
// paused and resumed, without which a refusal shows nothing.
func finishedRuns(t *harness.T) []sample {
	out := samples(t)
	id := pausedRun(t)
	defer endRun(t, id)
	resumeNow(t, id)
	return out
}

func finishedNotPaused(t *harness.T) {
	for _, s := range finishedRuns(t) {
		t.Expect(requirements.RunsPauseRefused, act(t, s.id, "pause", object{}).Refuses("run_terminal"))
		t.Expect(requirements.RunsPauseRefused, addsNothing(t, s.id, s.log))
	}
}

func finishedNotResumed(t *harness.T) {
	for _, s := range finishedRuns(t) {
		t.Expect(requirements.RunsResumeRefused, act(t, s.id, "resume", object{}).Refuses("run_terminal"))
		t.Expect(requirements.RunsResumeRefused, addsNothing(t, s.id, s.log))
	}
}

func activeNotResumed(t *harness.T) {
	control := pausedRun(t)
	defer endRun(t, control)
	resumeNow(t, control)
	id, _ := executing(t, liveBody(t))
	defer endRun(t, id)
	t.Expect(requirements.RunsResumeRefused, notResumed(t, id))
	if !listed(t, waitsForEvent) {
		return
	}
	waiting := startRun(t, object{"workflowId": waitsForEvent})
	defer endRun(t, waiting)
	if _, ok := awaitLogged(t, waiting, ofType("interrupt.requested"), settle); !ok {
		return // the status of such a run is a requirement of its own
	}
	t.Expect(requirements.RunsResumeRefused, notResumed(t, waiting, "waiting-external"))
}

// notResumed checks that a resume of an active run is refused, with the status
// it reads as, or is known to have, as the reason, and changes nothing.
func notResumed(t *harness.T, id string, known ...string) harness.Check {
	before, status := wholeLog(t, id), get(t, id).Text("status")
	if endedStatus(status) || status == "paused" {
		t.Abort("no active run to resume: its status is %q", status)
	}
	r := act(t, id, "resume", object{})
	return harness.All(stateConflict(r, append(known, status, get(t, id).Text("status"))...), addsNothing(t, id, before))
}
