package scenarios

import (
	"net/http"
	"slices"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// lateWork covers work that comes in after the end (events.md, "The terminal
// event").
func lateWork() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-late-work",
		Title:    "What a node produces after the end of its run leaves no event",
		Document: "events.md", Section: "The terminal event",
		Gates: []harness.Gate{liveFixtures()},
		Tests: []harness.Test{
			{
				Name:      "a node that outlasts the cancel of its run adds nothing",
				Witnesses: []requirements.ID{requirements.EventsLateWorkRefused},
				Slow:      3 * time.Second,
				Run:       lateAfterCancel,
			},
			{
				Name:      "a node that outlasts the time of its run adds nothing",
				Witnesses: []requirements.ID{requirements.EventsLateWorkRefused},
				Slow:      3 * time.Second,
				Run:       lateAfterTimeout,
			},
		},
	}
}

// lateBy is how long after a node's work would be done its event is waited
// for.
const lateBy = 800 * time.Millisecond

// lateAfterCancel cancels a run while its node waits, and looks at the log
// once the wait is over.
func lateAfterCancel(t *harness.T) {
	for _, work := range []time.Duration{1200 * time.Millisecond, 6 * time.Second} {
		id := delayedRun(t, int(work.Milliseconds()), nil)
		if _, ok := awaitLogged(t, id, ofType("node.started"), settle); !ok {
			t.Abort("no node of the run started within %s", settle)
		}
		began := time.Now() // the node has been at work since before
		r := cancel(t, id, object{})
		l := readLog(t, id, settle)
		if r.Refuses("run_terminal").OK || l.status == "completed" {
			continue // it was over before; more work gives a slow host more time
		}
		if !r.Is(http.StatusOK).OK || !l.terminal {
			t.Abort("no cancelled run to observe: cancelRun gave %s and the status is %q", answered(r), l.status)
		}
		t.Expect(requirements.EventsLateWorkRefused, silentAfterEnd(t, id, l, began.Add(work+lateBy)))
		return
	}
	t.Abort("no cancelled run to observe: every run ended before it could be cancelled")
}

// lateAfterTimeout has a run end by its own time limit while its node waits.
func lateAfterTimeout(t *harness.T) {
	const limit, work = 500 * time.Millisecond, 1500 * time.Millisecond
	id := delayedRun(t, int(work.Milliseconds()), object{"configurable": object{
		"version": 1, "run": object{"runTimeoutMs": limit.Milliseconds()},
	}})
	began := time.Now()
	l := readLog(t, id, settle)
	if !l.terminal {
		t.Abort("no finished run to observe: status %q after %s", l.status, settle)
	}
	if countOf(l.events, ofType("run.failed")) == 0 {
		t.Inapplicable(requirements.EventsLateWorkRefused, "the run did not end by its time limit of %s: its status is %q", limit, l.status)
		return
	}
	t.Expect(requirements.EventsLateWorkRefused, silentAfterEnd(t, id, l, began.Add(work+lateBy)))
}

// silentAfterEnd waits on an ended run until a moment at which late work would
// have come in, and checks its log.
func silentAfterEnd(t *harness.T, runID string, l log, until time.Time) harness.Check {
	waitPast(t, runID, highest(l.events), until)
	again := wholeLog(t, runID)
	if !again.last.Is(http.StatusOK).OK || len(again.events) == 0 {
		t.Abort("the log of the ended run cannot be read again: %s", answered(again.last))
	}
	return terminalOnce(again)
}

// duplicateOf says to the host's durability hook to deliver a run's work
// again. The hook is no operation of the protocol, so that a host need not
// have it.
func duplicateOf(t *harness.T, runID string) *harness.Response {
	return t.Do(harness.Request{Method: http.MethodPost, Path: "/host/durability/kill",
		Body: object{"mode": "duplicate-delivery", "runId": runID}})
}

// deliveredAgain delivers the work of runs again while they execute and after
// they have ended, and looks at their logs when work of that length would be
// done.
func deliveredAgain(t *harness.T) {
	const work = 600 * time.Millisecond
	running := delayedRun(t, int(work.Milliseconds()), nil)
	if r := duplicateOf(t, running); !r.Is(http.StatusAccepted).OK {
		t.Inapplicable(requirements.R0194TerminalOnceDuplicateDelivery,
			"the host has no durability hook that delivers work again: POST /host/durability/kill gave %s", answered(r))
		return
	}
	// The cancelled run's own work would take longer than the test listens, so
	// that what comes after its end comes of the second delivery.
	stopped, _ := executing(t, liveBody(t))
	duplicateOf(t, stopped)
	cancel(t, stopped, object{})
	runs := []string{running, stopped}
	if len(endingBodies(t)) > 0 {
		runs = append(runs, startEnding(t))
	}
	for _, id := range runs {
		if !awaitEnd(t, id, settle) {
			t.Abort("no finished run to deliver again: status %q after %s", get(t, id).Text("status"), settle)
		}
		for range 2 {
			if r := duplicateOf(t, id); !r.Is(http.StatusAccepted).OK {
				t.Abort("the hook does not deliver the work of a finished run again: %s", answered(r))
			}
		}
	}
	until := time.Now().Add(work + lateBy)
	for _, id := range slices.Backward(runs) {
		t.Expect(requirements.R0194TerminalOnceDuplicateDelivery, silentAfterEnd(t, id, wholeLog(t, id), until))
	}
}
