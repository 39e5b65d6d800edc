package scenarios

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"wopcert/harness"
)

// Fixtures of the scenarios about the control of runs.
const (
	waitsForEvent     = "conformance-interrupt-external-event"
	cascadeParent     = "conformance-interrupt-parent-child-cancel"
	cascadeChild      = "conformance-interrupt-parent-child-cancel-child"
	subWorkflowCalls  = "conformance-subworkflow-parent"
	subWorkflowCalled = "conformance-subworkflow-child"
	dispatchLoop      = "conformance-dispatch-loop"
	agentIdentity     = "conformance-agent-identity"
	twoDelays         = "wopcert-two-delays"
)

// act sends one of the operations that are written as a suffix of a run's path.
func act(t *harness.T, runID, verb string, body any) *harness.Response {
	return t.Do(harness.Request{Method: http.MethodPost, Path: runPath(runID, ":"+verb), Body: body})
}

// awaitLogged waits until a run's log holds an event that matches, and returns
// the first one. It reads the log whole each time and uses the cursor only to
// wait by.
func awaitLogged(t *harness.T, runID string, matches func(object) bool, within time.Duration) (object, bool) {
	end := time.Now().Add(within)
	for {
		l := wholeLog(t, runID)
		if i := slices.IndexFunc(l.events, matches); i >= 0 {
			return l.events[i], true
		}
		left := time.Until(end)
		if left <= 0 || t.Context().Err() != nil {
			return nil, false
		}
		r := poll(t, runID, highest(l.events), min(max(left, time.Second), 5*time.Second))
		if r.Elapsed < 100*time.Millisecond {
			pause(t, 20*time.Millisecond) // what came may not be what is waited for
		}
	}
}

// nodeOf is the node an event is about, by its payload or its envelope.
func nodeOf(event object) string {
	if id, ok := harness.Get(event, "payload", "nodeId").(string); ok {
		return id
	}
	return text(event, "nodeId")
}

// executing creates a run and waits until one of its nodes executes. The test
// ends when none does.
func executing(t *harness.T, body object) (runID string, started object) {
	id := startRun(t, body)
	started, ok := awaitLogged(t, id, ofType("node.started"), settle)
	if !ok {
		status := get(t, id).Text("status")
		cancel(t, id, object{})
		t.Abort("no executing node to observe: run of %v has status %q and no node.started after %s", body["workflowId"], status, settle)
	}
	return id, started
}

// pausedRun is a run of a fixture that stays active, paused between events.
// The test ends when it cannot be had.
func pausedRun(t *harness.T) string {
	id, _ := executing(t, liveBody(t))
	pauseNow(t, id)
	return id
}

// pauseNow pauses a run between events and waits until that took effect. The
// test ends when it does not.
func pauseNow(t *harness.T, runID string) {
	r := act(t, runID, "pause", object{"drainPolicy": "immediate"})
	if !r.Is(http.StatusAccepted).OK {
		cancel(t, runID, object{})
		t.Abort("no paused run to observe: pauseRun gave %s", answered(r))
	}
	if _, ok := awaitLogged(t, runID, ofType("run.paused"), settle); !ok {
		cancel(t, runID, object{})
		t.Abort("no paused run to observe: no run.paused within %s of the pause", settle)
	}
}

// resumeNow ends a pause, waits until that took effect and returns the sequence
// of run.resumed. The test ends when it does not.
func resumeNow(t *harness.T, runID string) int64 {
	r := act(t, runID, "resume", object{})
	if !r.Is(http.StatusAccepted).OK {
		cancel(t, runID, object{})
		t.Abort("no resumed run to observe: resumeRun gave %s", answered(r))
	}
	resumed, ok := awaitLogged(t, runID, ofType("run.resumed"), settle)
	if !ok {
		cancel(t, runID, object{})
		t.Abort("no resumed run to observe: no run.resumed within %s of the resume", settle)
	}
	return seqOf(resumed)
}

// terminalRun is a run that has ended: by itself where the host holds a fixture
// for that, else cancelled. The test ends when there is none.
func terminalRun(t *harness.T) string {
	if len(endingBodies(t)) > 0 {
		id, _ := settledEnding(t)
		return id
	}
	id, _, ok := cancelledRun(t)
	if !ok {
		t.Abort("no finished run to observe: the run could not be cancelled")
	}
	return id
}

// absentRun is an id of the caller's tenant that no host has minted.
func absentRun(own string) string { return tenantSegment(own) + "/" + newOpaque() }

// stateConflict checks a refusal for the state a run is in, which names it.
func stateConflict(r *harness.Response, statuses ...string) harness.Check {
	return harness.All(r.Refuses("run_state_conflict"),
		harness.OneOf("details.runStatus", r.Text("details", "runStatus"), statuses...)).At(r)
}

// between are the events after one and before another, by their place in the
// log.
func between(events []object, after, before func(object) bool) []object {
	i := slices.IndexFunc(events, after)
	if i < 0 {
		return nil
	}
	rest := events[i+1:]
	if j := slices.IndexFunc(rest, before); j >= 0 {
		return rest[:j]
	}
	return rest
}

// endsNode matches the events that end an attempt of a node.
func endsNode(e object) bool {
	return ofType("node.completed", "node.failed", "node.cancelled", "node.skipped")(e)
}

// openNodes are the nodes that have started and not ended by the end of a list
// of events.
func openNodes(events []object) []string {
	var open []string
	for _, e := range events {
		node := nodeOf(e)
		switch {
		case e["type"] == "node.started" && !slices.Contains(open, node):
			open = append(open, node)
		case endsNode(e):
			open = slices.DeleteFunc(open, func(n string) bool { return n == node })
		}
	}
	return open
}

// hasPrefix matches events whose type begins with one of the prefixes.
func hasPrefix(prefixes ...string) func(object) bool {
	return func(e object) bool {
		typ, _ := e["type"].(string)
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(typ, p) })
	}
}

// noneOf checks that no event matches.
func noneOf(what string, events []object, matches func(object) bool) harness.Check {
	if i := slices.IndexFunc(events, matches); i >= 0 {
		return harness.That(false, "no "+what, "%s", label(events[i]))
	}
	return harness.That(true, "no "+what, "%d other events", len(events))
}

// seqOf is an event's sequence, 0 for one that has none.
func seqOf(event object) int64 {
	seq, _ := sequenceOf(event)
	return seq
}

// countOf is how many events match.
func countOf(events []object, matches func(object) bool) int {
	n := 0
	for _, e := range events {
		if matches(e) {
			n++
		}
	}
	return n
}
