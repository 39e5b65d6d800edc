package scenarios

import (
	"net/http"
	"slices"

	"wopcert/harness"
	"wopcert/requirements"
)

// runCancel covers cancelRun (runs.md, "Cancel").
func runCancel() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-run-cancel",
		Title:    "An active run can be cancelled, and a finished one cannot",
		Document: "runs.md", Section: "Cancel",
		Tests: []harness.Test{
			{
				Name:      "an active run is cancelled once",
				Witnesses: []requirements.ID{requirements.R0170RunCancel},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       cancelActive,
			},
			{
				Name:      "a run that ended by itself is not cancelled",
				Witnesses: []requirements.ID{requirements.R0170RunCancel},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       cancelEnded,
			},
		},
	}
}

func cancelActive(t *harness.T) {
	id := liveRun(t)
	r := cancel(t, id, object{"reason": "no longer needed"})
	if !t.Expect(requirements.R0170RunCancel, harness.All(
		names(r, id),
		harness.OneOf("status", r.Text("status"), "cancelling", "cancelled").At(r),
	)) {
		return
	}
	l := readLog(t, id, settle)
	if !l.last.Is(http.StatusOK).OK {
		t.Abort("the log of the cancelled run cannot be read: %s", l.last.Is(http.StatusOK).Observed)
	}
	t.Expect(requirements.R0170RunCancel, harness.That(l.terminal, "the run to end", "status %q after %s", l.status, settle))
	t.Expect(requirements.R0170RunCancel, logHolds(l, "run.cancelled"))
	snapshot := get(t, id)
	t.Expect(requirements.R0170RunCancel, harness.Equal("status after the cancel", any("cancelled"), snapshot.Get("status")).At(snapshot))
	t.Expect(requirements.R0170RunCancel, cancel(t, id, object{}).Refuses("run_terminal"))
	if listed(t, waitsForEvent) {
		cancelWaiting(t)
	}
}

// cancelWaiting cancels a run that waits for something outside: it is active, too.
func cancelWaiting(t *harness.T) {
	id := startRun(t, object{"workflowId": waitsForEvent})
	if awaitStatus(t, id, func(s string) bool { return isWaiting(s) || endedStatus(s) }, settle); !isWaiting(get(t, id).Text("status")) {
		return // what it waits for, and as what, is a requirement of its own
	}
	r := cancel(t, id, object{})
	if t.Expect(requirements.R0170RunCancel, harness.All(names(r, id), harness.OneOf("status", r.Text("status"), "cancelling", "cancelled").At(r))) {
		l := readLog(t, id, settle)
		t.Expect(requirements.R0170RunCancel, logHolds(l, "run.cancelled"))
	}
}

// logHolds checks that a log has an event of a type.
func logHolds(l log, typ string) harness.Check {
	found := slices.ContainsFunc(l.events, func(e object) bool { return e["type"] == typ })
	return harness.That(found, typ+" in the log", "%d events, none of that type", len(l.events)).At(l.last)
}

func cancelEnded(t *harness.T) {
	bodies := endingBodies(t)[:1]
	if listed(t, failure) && bodies[0]["workflowId"] != failure {
		bodies = append(bodies, object{"workflowId": failure})
	}
	for _, body := range bodies {
		id, _ := settledRun(t, body)
		before := get(t, id)
		if !endedStatus(before.Text("status")) {
			t.Abort("no finished run to cancel: its log says it ended, its snapshot says %q", before.Text("status"))
		}
		t.Expect(requirements.R0170RunCancel, cancel(t, id, object{}).Refuses("run_terminal"))
		after := get(t, id)
		t.Expect(requirements.R0170RunCancel, harness.Equal("status after the refused cancel", before.Get("status"), after.Get("status")).At(after))
	}
}
