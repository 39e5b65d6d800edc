package scenarios

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// terminalEventOnce covers the end of a log (events.md, "The terminal event").
func terminalEventOnce() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-terminal-event-once",
		Title:    "A log has one terminal event, and nothing that runs on comes after it",
		Document: "events.md", Section: "The terminal event",
		Tests: []harness.Test{
			{
				Name:      "runs that end by themselves end once",
				Witnesses: []requirements.ID{requirements.R0194TerminalOnce},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       endsOnce,
			},
			{
				Name:      "a cancelled run ends once, also when its work comes in late",
				Witnesses: []requirements.ID{requirements.R0194TerminalOnce},
				Gates:     []harness.Gate{liveFixtures()},
				Slow:      2 * time.Second,
				Run:       cancelledEndsOnce,
			},
			{
				Name:      "work delivered again leaves no trace of a second end",
				Witnesses: []requirements.ID{requirements.R0194TerminalOnceDuplicateDelivery},
				Gates:     []harness.Gate{liveFixtures()},
				Slow:      3 * time.Second,
				Run:       deliveredAgain,
			},
		},
	}
}

// terminalOnce checks the end of a log.
func terminalOnce(l log) harness.Check {
	const expected = "exactly one terminal event and no run, node or interrupt event going on after it"
	at := -1
	for i, event := range l.events {
		switch {
		case at < 0 && isTerminalType(event["type"]):
			at = i
		case at >= 0 && goesOn(event["type"]):
			return harness.That(false, expected, "%s after %s", label(event), label(l.events[at])).At(l.last)
		}
	}
	if at < 0 {
		return harness.That(false, expected, "%d events, none terminal", len(l.events)).At(l.last)
	}
	return harness.That(true, expected, "%s, then %d more events", label(l.events[at]), len(l.events)-at-1).At(l.last)
}

// goesOn reports whether a type must not follow a terminal event.
func goesOn(v any) bool {
	typ, _ := v.(string)
	return isTerminalType(v) || strings.HasPrefix(typ, "node.") || strings.HasPrefix(typ, "interrupt.") ||
		slices.Contains([]string{"run.started", "run.resumed", "run.resume-started", "run.paused", "run.restored-from-snapshot"}, typ)
}

func endsOnce(t *harness.T) {
	for _, body := range endingBodies(t) {
		id, l := settledRun(t, body)
		t.Expect(requirements.R0194TerminalOnce, terminalOnce(l))
		// A second end is refused, and must leave no trace.
		cancel(t, id, object{})
		t.Expect(requirements.R0194TerminalOnce, terminalOnce(wholeLog(t, id)))
	}
	if listed(t, waitsForEvent) {
		waitingEndsOnce(t)
	}
}

// waitingEndsOnce cancels a run that waits: what becomes of its interrupt must
// not be told after the end. A run that does not wait is for other rows.
func waitingEndsOnce(t *harness.T) {
	r := create(t, object{"workflowId": waitsForEvent})
	id := r.Text("runId")
	if !r.Is(http.StatusCreated).OK || id == "" {
		return
	}
	_, waits := awaitLogged(t, id, ofType("interrupt.requested", "node.suspended"), settle)
	c := cancel(t, id, object{})
	if !waits || !c.Is(http.StatusOK).OK {
		return
	}
	if l := readLog(t, id, settle); l.terminal {
		waitPast(t, id, highest(l.events), time.Now().Add(200*time.Millisecond))
		t.Expect(requirements.R0194TerminalOnce, terminalOnce(wholeLog(t, id)))
	}
}

// cancelledEndsOnce cancels a run whose work would end soon after, and looks
// at its log when that time has passed. A host too slow to be cancelled in
// time gets more of it.
func cancelledEndsOnce(t *harness.T) {
	for _, work := range []time.Duration{time.Second, 4 * time.Second, 12 * time.Second} {
		began := time.Now()
		id := startRun(t, with(liveBody(t), "inputs", object{"delayMs": work.Milliseconds()}))
		poll(t, id, -1, 5*time.Second)
		r := cancel(t, id, object{})
		if r.Refuses("run_terminal").OK {
			continue
		}
		if !r.Is(http.StatusOK).OK {
			t.Abort("no cancelled run to observe: cancelRun gave %s", r.Is(http.StatusOK).Observed)
		}
		l := readLog(t, id, settle)
		if !l.terminal {
			t.Abort("no cancelled run to observe: status %q %s after the cancel", l.status, settle)
		}
		t.Expect(requirements.R0194TerminalOnce, terminalOnce(l))
		waitPast(t, id, highest(l.events), began.Add(work+500*time.Millisecond))
		again := wholeLog(t, id)
		if !again.last.Is(http.StatusOK).OK {
			t.Abort("the log of the cancelled run cannot be read again: %s", again.last.Is(http.StatusOK).Observed)
		}
		t.Expect(requirements.R0194TerminalOnce, terminalOnce(again))
		return
	}
	t.Abort("no cancelled run to observe: every run ended before it could be cancelled")
}

// waitPast lets time pass on a finished run. It polls, since polls return when
// something is appended after all.
func waitPast(t *harness.T, runID string, after int64, end time.Time) {
	for left := time.Until(end); left > 0 && t.Context().Err() == nil; left = time.Until(end) {
		r := poll(t, runID, after, min(left, time.Second))
		after = max(after, highest(eventsOf(r)))
		if r.Elapsed < 100*time.Millisecond {
			pause(t, min(left, 200*time.Millisecond)) // a host need not wait on a finished run
		}
	}
}
