package scenarios

import (
	"net/http"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// interruptRecovery covers interrupts of a host that was killed (interrupt.md,
// "Re-entry and resume values").
func interruptRecovery() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-interrupt-recovery",
		Title:    "What was asked and answered before the host went down is not asked again",
		Document: "interrupt.md", Section: "Re-entry and resume values",
		Gates: []harness.Gate{interruptFamily(), harness.ClaimsDurability(), harness.NeedsKill(), harness.NeedsFixture(approves)},
		Tests: []harness.Test{
			{
				Name:      "a kill while runs wait",
				Witnesses: []requirements.ID{requirements.InterruptAskedOnceOverRestart},
				Last:      true,
				Timeout:   recoveryTimeout,
				Run:       askedOnceOverRestart,
			},
		},
	}
}

// askedOnceOverRestart kills the host while one run waits, and another that
// waited twice has had one of its answers.
func askedOnceOverRestart(t *harness.T) {
	p := suspend(t, object{"workflowId": approves})
	defer endRun(t, p.run)
	twice := listed(t, waitsTwice)
	var left, right pending
	value := object{"side": "left", "odd": oddData()}
	if twice {
		left, right = twoPending(t, object{"workflowId": waitsTwice})
		defer endRun(t, left.run)
		mustResolve(t, harness.Primary, left, value)
		awaitResolved(t, left)
	}
	o := t.KillHost(func() *harness.Stream { return t.Lifeline(runPath(p.run, "/events")) })
	if !t.Expect(requirements.InterruptAskedOnceOverRestart, back(o)) {
		return
	}
	t.Expect(requirements.InterruptAskedOnceOverRestart, askedOnce(t, p))
	answeredAfter(t, p, decide("accept"))
	if !twice {
		return
	}
	t.Expect(requirements.InterruptAskedOnceOverRestart, askedOnce(t, right))
	t.Expect(requirements.InterruptAskedOnceOverRestart, resolve(t, left, object{"side": "again"}).Refuses("interrupt_already_resolved"))
	answeredAfter(t, right, object{"side": "right"})
	l := wholeLog(t, left.run)
	resolved := resolvedAt(l.events, left.node)
	check := harness.That(len(resolved) == 1, "one interrupt.resolved of the interrupt that was answered before the kill", "%d", len(resolved)).At(l.last)
	if check.OK {
		check = same("its resumeValue", value, harness.Get(resolved[0], "payload", "resumeValue")).At(l.last)
	}
	t.Expect(requirements.InterruptAskedOnceOverRestart, harness.All(check, keysDiffer(l.events).At(l.last)))
}

// askedOnce checks that a run waits on, and that its interrupt was requested
// once. A host may take a moment to pick up its runs.
func askedOnce(t *harness.T, p pending) harness.Check {
	awaitStatus(t, p.run, isWaiting, settle)
	if check := stillPending(t, p); !check.OK {
		return check
	}
	pause(t, 200*time.Millisecond) // an engine that asks again does so as it picks the run up
	l := wholeLog(t, p.run)
	return keysDiffer(l.events).At(l.last)
}

// answeredAfter checks that an interrupt takes its answer after the kill, and
// that its run comes to its end.
func answeredAfter(t *harness.T, p pending, value any) {
	r := resolve(t, p, value)
	if t.Expect(requirements.InterruptAskedOnceOverRestart, r.Is(http.StatusOK)) {
		t.Expect(requirements.InterruptAskedOnceOverRestart, endsCompleted(t, p))
	}
}
