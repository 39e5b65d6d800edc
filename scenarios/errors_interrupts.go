package scenarios

import (
	"wopcert/harness"
	"wopcert/requirements"
)

// interruptResolveTerminal covers resolves that come too late (errors.md, "One
// code per state").
func interruptResolveTerminal() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-interrupt-resolve-terminal",
		Title:    "A resolve after the run has ended, and one of no run",
		Document: "errors.md", Section: "One code per state",
		Gates: []harness.Gate{interruptFamily(), harness.NeedsFixture(approves)},
		Tests: []harness.Test{
			{
				Name:      "after the run was cancelled",
				Witnesses: []requirements.ID{requirements.R0213ResolveAfterCancel},
				Run: func(t *harness.T) {
					p := cancelledWaiting(t)
					t.Expect(requirements.R0213ResolveAfterCancel, resolve(t, p, decide("accept")).Refuses("interrupt_already_resolved"))
				},
			},
			{
				Name:      "after the run has completed",
				Witnesses: []requirements.ID{requirements.R0213ResolveAfterComplete},
				Run: func(t *harness.T) {
					p := completedWaiting(t)
					t.Expect(requirements.R0213ResolveAfterComplete, resolve(t, p, decide("accept", "feedback", "again")).Refuses("interrupt_already_resolved"))
				},
			},
			{
				Name:      "of a run that does not exist",
				Witnesses: []requirements.ID{requirements.R0213ResolveUnknownRun},
				Run: func(t *harness.T) {
					p := suspend(t, object{"workflowId": approves})
					defer endRun(t, p.run)
					absent := p
					absent.run = absentRun(p.run)
					t.Expect(requirements.R0213ResolveUnknownRun, resolve(t, absent, decide("accept")).Refuses("not_found"))
					mustResolve(t, harness.Primary, p, decide("accept"))
				},
			},
		},
	}
}

// cancelledWaiting is the interrupt of a run that was cancelled while it
// waited. The test ends when that cannot be had.
func cancelledWaiting(t *harness.T) pending {
	p := suspend(t, object{"workflowId": approves})
	if r := cancel(t, p.run, object{}); !succeeded(r) || awaitStatus(t, p.run, endedStatus, settle) != "cancelled" {
		t.Abort("no cancelled run to observe: cancelRun gave %s and the run has status %q", answered(r), get(t, p.run).Text("status"))
	}
	return p
}

// completedWaiting is the interrupt of a run that was resolved and completed.
// The test ends when that cannot be had.
func completedWaiting(t *harness.T) pending {
	p := suspend(t, object{"workflowId": approves})
	mustResolve(t, harness.Primary, p, decide("accept"))
	if status := awaitStatus(t, p.run, endedStatus, settle); status != "completed" {
		endRun(t, p.run)
		t.Abort("no completed run to observe: status %q", status)
	}
	return p
}

// interruptOneCode covers the codes of interrupts that are over (errors.md,
// "One code per state").
func interruptOneCode() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-interrupt-one-code",
		Title:    "An interrupt that is over has one code, whatever ended it",
		Document: "errors.md", Section: "One code per state",
		Gates: []harness.Gate{interruptFamily(), harness.NeedsFixture(approves)},
		Tests: []harness.Test{
			{
				Name:      "an interrupt resolved while its run goes on",
				Witnesses: []requirements.ID{requirements.ErrorsResolvedInterruptConflict},
				Gates:     []harness.Gate{optIn(waitsTwice)},
				Run: func(t *harness.T) {
					left, right := twoPending(t, object{"workflowId": waitsTwice})
					defer endRun(t, left.run)
					mustResolve(t, harness.Primary, left, object{"n": 1})
					awaitResolved(t, left)
					for _, value := range []any{object{"n": 1}, object{"n": 2}} {
						t.Expect(requirements.ErrorsResolvedInterruptConflict, resolve(t, left, value).Refuses("interrupt_already_resolved"))
					}
					t.Expect(requirements.ErrorsResolvedInterruptConflict, stillPending(t, right))
					mustResolve(t, harness.Primary, right, object{"n": 3})
				},
			},
			{
				Name:      "run-scoped resolves after the end",
				Witnesses: []requirements.ID{requirements.ErrorsNoInterruptCancelled},
				Run: func(t *harness.T) {
					for _, p := range []pending{cancelledWaiting(t), completedWaiting(t)} {
						t.Expect(requirements.ErrorsNoInterruptCancelled, notCancelledCode(t, "a resolve", resolve(t, p, decide("accept"))))
					}
				},
			},
			{
				Name:      "tokens after the end",
				Witnesses: []requirements.ID{requirements.ErrorsNoInterruptCancelled},
				Gates:     []harness.Gate{delivers(), harness.NeedsReceiver()},
				Run: func(t *harness.T) {
					for _, end := range []func(notice){
						func(n notice) { cancel(t, n.run, object{}) },
						func(n notice) { resolve(t, n.pending, decide("accept")) },
					} {
						n := notified(t, object{"workflowId": approves})
						end(n)
						if status := awaitStatus(t, n.run, endedStatus, settle); !endedStatus(status) {
							t.Abort("no ended run to observe: status %q", status)
						}
						t.Expect(requirements.ErrorsNoInterruptCancelled, notCancelledCode(t, "inspection", inspect(t, n.mustToken().raw)))
						t.Expect(requirements.ErrorsNoInterruptCancelled, notCancelledCode(t, "a resolve by token", resolveBy(t, n.mustToken().raw, decide("accept"))))
					}
				},
			},
		},
	}
}

// notCancelledCode checks a refusal for the code that names no state.
func notCancelledCode(t *harness.T, what string, r *harness.Response) harness.Check {
	code := r.Text("error")
	return harness.That(r.Err == nil && r.Status >= 400 && r.Status <= 499 && permittedCode(t.Corpus(), code) && code != "interrupt_cancelled",
		"4xx with another code than interrupt_cancelled", "%s after the run ended was answered %s", what, answered(r)).At(r)
}
