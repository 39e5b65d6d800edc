package scenarios

import (
	"net/http"
	"sync"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// cancelRace covers cancels of one run at the same time (runs.md, "Cancel").
func cancelRace() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-cancel-race",
		Title:    "A run cancelled by several at once is cancelled once",
		Document: "runs.md", Section: "Cancel",
		Tests: []harness.Test{
			{
				Name:      "six cancels at once",
				Witnesses: []requirements.ID{requirements.RunsCancelRace},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       cancelsAtOnce,
			},
		},
	}
}

func cancelsAtOnce(t *harness.T) {
	id := liveRun(t)
	defer endRun(t, id)
	answers := make([]*harness.Response, 6)
	release := make(chan struct{})
	var wait sync.WaitGroup
	for i := range answers {
		wait.Go(func() {
			<-release
			answers[i] = cancel(t, id, object{})
		})
	}
	close(release)
	wait.Wait()
	accepted := 0
	for _, r := range answers {
		if r.Is(http.StatusOK).OK {
			accepted++
		}
		t.Expect(requirements.RunsCancelRace, acceptedOrTerminal(r, id))
	}
	t.Expect(requirements.RunsCancelRace, harness.That(accepted > 0, "at least one cancel answered with 200", "%d of %d", accepted, len(answers)))
	if accepted == 0 {
		return
	}
	l := readLog(t, id, settle)
	if !l.last.Is(http.StatusOK).OK {
		t.Abort("the log of the cancelled run cannot be read: %s", answered(l.last))
	}
	t.Expect(requirements.RunsCancelRace, harness.That(l.terminal, "the run to end", "status %q after %s", l.status, settle))
	count := countOf(l.events, ofType("run.cancelled"))
	t.Expect(requirements.RunsCancelRace, harness.That(count == 1, "one run.cancelled in the log", "%d", count).At(l.last))
	r := get(t, id)
	t.Expect(requirements.RunsCancelRace, harness.Equal("status after the cancels", any("cancelled"), r.Get("status")).At(r))
}

// acceptedOrTerminal checks one of several cancels of a run.
func acceptedOrTerminal(r *harness.Response, runID string) harness.Check {
	if r.Is(http.StatusOK).OK {
		return harness.All(names(r, runID), harness.OneOf("status", r.Text("status"), "cancelling", "cancelled")).At(r)
	}
	check := r.Refuses("run_terminal")
	check.Expected = "200, or " + check.Expected
	return check
}

// cancelCascade covers the cascade from a parent run to its child (runs.md,
// "Cancel").
func cancelCascade() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-cancel-cascade",
		Title:    "Cancelling a run cancels the child run it waits for",
		Document: "runs.md", Section: "Cancel",
		Gates: []harness.Gate{
			harness.HostFact("the host neither advertises subWorkflow nor lists the fixture "+cascadeParent, startsChildren),
			harness.NeedsFixture(cascadeParent),
		},
		Tests: []harness.Test{
			{
				Name:      "the child is cancelled with its parent",
				Witnesses: []requirements.ID{requirements.RunsCancelCascade},
				Run:       cancelReachesChild,
			},
		},
	}
}

// childEnd is how long after its parent a child may end: the published five
// seconds, and two for the way there.
const childEnd = 7 * time.Second

func cancelReachesChild(t *harness.T) {
	parent, child := childOf(t, cascadeParent, cascadeChild)
	defer endRun(t, child)
	defer endRun(t, parent)
	if _, ok := awaitLogged(t, child, func(object) bool { return true }, settle); !ok || endedStatus(get(t, child).Text("status")) {
		t.Abort("no child that waits: run %s has status %q", child, get(t, child).Text("status"))
	}
	r := cancel(t, parent, object{"reason": "no longer needed"})
	if !r.Is(http.StatusOK).OK {
		t.Abort("no cancelled parent to observe: cancelRun gave %s", answered(r))
	}
	if !awaitEnd(t, parent, settle) || get(t, parent).Text("status") != "cancelled" {
		t.Abort("no cancelled parent to observe: its status is %q", get(t, parent).Text("status"))
	}
	l := readLog(t, child, childEnd)
	t.Expect(requirements.RunsCancelCascade, harness.That(l.terminal, "the child to end within five seconds of its parent",
		"status %q after %s", l.status, childEnd).At(l.last))
	if !l.terminal {
		return
	}
	s := get(t, child)
	t.Expect(requirements.RunsCancelCascade, harness.Equal("status of the child", any("cancelled"), s.Get("status")).At(s))
	for _, e := range l.events {
		if e["type"] == "run.cancelled" {
			t.Expect(requirements.RunsCancelCascade, harness.Equal("parentRunId of the child's run.cancelled", any(parent), harness.Get(e, "payload", "parentRunId")).At(l.last))
			t.Expect(requirements.RunsCancelCascade, harness.Equal("reason of the child's run.cancelled", any("parent-cancelled"), harness.Get(e, "payload", "reason")).At(l.last))
			return
		}
	}
	t.Expect(requirements.RunsCancelCascade, logHolds(l, "run.cancelled"))
}
