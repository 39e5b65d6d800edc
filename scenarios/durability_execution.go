package scenarios

import (
	"fmt"
	"net/http"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

func killDuringExecution(t *harness.T) {
	bound := declaredBound(t, t.Recovery().DuringExecution)
	runs, lifeline := victims(t)
	for i := range runs {
		if _, ok := awaitLogged(t, runs[i].id, ofType("node.started"), settle); !ok {
			t.Abort("no executing run to observe: no node.started within %s", settle)
		}
		runs[i].seen = wholeLog(t, runs[i].id).events
	}
	o := t.KillHost(func() *harness.Stream { return lifeline })
	if !t.Expect(requirements.R0158KillDuringExecution, back(o)) {
		return
	}
	defer endAll(t, runs)
	cut := interrupted(t, runs, o)
	logs, first := recovered(t, cut, bound)
	for i, l := range logs {
		t.Expect(requirements.R0158KillDuringExecution, harness.All(completesItself(cut[i], l), kept(cut[i], l), terminalOnce(l), once(l)).At(l.last))
	}
	observed := resumedAfter(o, cut[0], first)
	t.Expect(requirements.R0158KillDuringExecution, inTime(bound, observed))
	t.Attest(requirements.R0158KillDuringExecution, recoveryOf(bound, observed))
}

// kept checks that a log still begins with what was read of it before the kill.
func kept(v victim, l log) harness.Check {
	const expected = "the events that were in the log before the kill, unchanged"
	now := bySequence(l.events)
	for _, e := range v.seen {
		if c := same(label(e), e, now[seqOf(e)]); !c.OK || now[seqOf(e)] == nil {
			return harness.That(false, expected, "%s, before the kill %s", c.Observed, c.Expected)
		}
	}
	return harness.That(len(v.seen) > 0, expected, "%d events", len(v.seen))
}

// once checks that the interruption left no sequence twice and no node that
// completed twice.
func once(l log) harness.Check {
	var faults []string
	completed := map[string]int{}
	seen := map[int64]bool{}
	for _, e := range l.events {
		if seen[seqOf(e)] {
			faults = append(faults, label(e)+" at a sequence used before")
		}
		seen[seqOf(e)] = true
		if e["type"] == "node.completed" {
			completed[nodeOf(e)]++
		}
	}
	for node, n := range completed {
		if n > 1 {
			faults = append(faults, fmt.Sprintf("node %s completed %d times", node, n))
		}
	}
	return none("work done twice", faults)
}

// mostKills is how often a test kills a host.
const mostKills = 12

func poisonExhaustion(t *harness.T) {
	limit := t.Recovery().MaxAttempts
	switch {
	case limit == 0:
		t.Inapplicable(requirements.R0158PoisonExhaustion, "no number of attempts is declared for the host (maxAttempts of the recovery declaration)")
		return
	case limit > mostKills:
		t.Blocked(requirements.R0158PoisonExhaustion, "the host attempts a run %d times, and the suite kills it %d times at most", limit, mostKills)
		return
	}
	id := startRun(t, object{"workflowId": delay, "inputs": object{"delayMs": activeFor}})
	defer endRun(t, id)
	attempts, visible := 0, true
	for range limit {
		began, ended := nextAttempt(t, id, attempts)
		if ended {
			break
		}
		visible = visible && began > attempts
		attempts = max(attempts+1, began)
		if o := t.KillHost(func() *harness.Stream { return t.Lifeline(runPath(id, "/events")) }); o.Back.IsZero() {
			t.Expect(requirements.R0158PoisonExhaustion, back(o))
			return
		}
	}
	l := readLog(t, id, settle)
	if !l.terminal && !visible {
		t.Inapplicable(requirements.R0158PoisonExhaustion, "the log of a run shows no attempt that follows a restart, so that attempts cannot be counted")
		return
	}
	t.Expect(requirements.R0158PoisonExhaustion, gaveUpOn(l, attempts, limit))
	other := readLog(t, startRun(t, object{"workflowId": noop}), settle)
	t.Expect(requirements.R0158PoisonExhaustion, harness.That(len(eventsOfType(other.events, "run.completed")) == 1, "another run to complete",
		"%s with status %q", answered(other.last), other.status).At(other.last))
}

// nextAttempt waits until the log of a run shows more than a number of attempts,
// or its end. It returns the attempts the log shows.
func nextAttempt(t *harness.T, runID string, before int) (began int, ended bool) {
	for end := time.Now().Add(settle); ; {
		l := wholeLog(t, runID)
		if !l.last.Is(http.StatusOK).OK {
			t.Abort("the log of the run cannot be read: %s", answered(l.last))
		}
		began = attemptsIn(l.events)
		if countOf(l.events, ofType(terminalTypes()...)) > 0 {
			return began, true
		}
		if began > before || time.Now().After(end) || t.Context().Err() != nil {
			return began, false
		}
		if r := poll(t, runID, highest(l.events), time.Second); r.Elapsed < 100*time.Millisecond {
			pause(t, 20*time.Millisecond)
		}
	}
}

// attemptsIn are the executions of a node that a log shows: its starts, or one
// more than its retries where a host logs a retry in place of a start.
func attemptsIn(events []object) int {
	return max(countOf(events, ofType("node.started")), countOf(events, ofType("node.retried"))+min(1, countOf(events, ofType("node.started"))))
}

// gaveUpOn checks the end of a run that no host survives.
func gaveUpOn(l log, attempts, limit int) harness.Check {
	expected := fmt.Sprintf("run.failed, once, after %d attempts", limit)
	failed := len(eventsOfType(l.events, "run.failed")) == 1 && countOf(l.events, ofType(terminalTypes()...)) == 1
	return harness.That(failed && attempts == limit && attemptsIn(l.events) <= limit, expected,
		"%s with status %q, %d attempts and the events %v", answered(l.last), l.status, max(attempts, attemptsIn(l.events)), typeNames(l.events)).At(l.last)
}
