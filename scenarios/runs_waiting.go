package scenarios

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"wopcert/harness"
	"wopcert/harness/sse"
	"wopcert/requirements"
)

// externalEventWait covers the status of a run that waits for an external
// event (runs.md, "Snapshot").
func externalEventWait() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-external-event-wait",
		Title:    "A run that waits for an external event says so, and at which node",
		Document: "runs.md", Section: "Snapshot",
		Gates: []harness.Gate{optIn(waitsForEvent)}, // no family says that a host waits for external events
		Tests: []harness.Test{
			{
				Name:      "a suspended run is waiting-external and names its node",
				Witnesses: []requirements.ID{requirements.RunsExternalEventStatus},
				Run:       waitsExternally,
			},
		},
	}
}

// isWaiting reports whether a status is one of a suspended run.
func isWaiting(status string) bool { return strings.HasPrefix(status, "waiting-") }

func waitsExternally(t *harness.T) {
	id := startRun(t, object{"workflowId": waitsForEvent})
	defer endRun(t, id)
	suspended, ok := awaitLogged(t, id, ofType("interrupt.requested", "node.suspended"), settle)
	if !ok && !isWaiting(get(t, id).Text("status")) {
		t.Abort("no suspended run to observe: run of %s has status %q after %s", waitsForEvent, get(t, id).Text("status"), settle)
	}
	l := wholeLog(t, id)
	for _, e := range l.events {
		if kind, has := harness.Get(e, "payload", "kind").(string); has && kind != "external-event" && ofType("interrupt.requested", "node.suspended")(e) {
			t.Abort("the fixture %s suspends on an interrupt of kind %q, so that nothing waits for an external event", waitsForEvent, kind)
		}
	}
	node := ""
	for _, e := range append([]object{suspended}, l.events...) {
		if node == "" && ofType("interrupt.requested", "node.suspended")(e) {
			node = nodeOf(e)
		}
	}
	r := get(t, id)
	for range 20 { // the events of one suspension need not be appended at once
		if isWaiting(r.Text("status")) || !r.Is(http.StatusOK).OK {
			break
		}
		pause(t, 100*time.Millisecond)
		r = get(t, id)
	}
	if !r.Is(http.StatusOK).OK {
		t.Abort("no snapshot to observe: %s", answered(r))
	}
	t.Expect(requirements.RunsExternalEventStatus, harness.Equal("status while suspended", any("waiting-external"), r.Get("status")).At(r))
	current := r.Text("currentNodeId")
	named := current != "" && (node == "" || current == node)
	t.Expect(requirements.RunsExternalEventStatus, harness.That(named, "currentNodeId "+show(node), "currentNodeId %s", show(r.Get("currentNodeId"))).At(r))
	if status := l.status; isWaiting(status) {
		t.Expect(requirements.RunsExternalEventStatus, harness.Equal("status of a poll", "waiting-external", status).At(l.last))
	}
	if snapshot, ok := waitingSnapshot(t, id); ok {
		t.Expect(requirements.RunsExternalEventStatus, harness.Equal("status of a state.snapshot", any("waiting-external"), snapshot["status"]))
	}
}

// waitingSnapshot is the first snapshot of the values stream that reads as
// suspended; a host need not serve that mode.
func waitingSnapshot(t *harness.T, runID string) (object, bool) {
	s := t.Stream(streamRequest(runID, "values", ""))
	defer s.Close()
	if !s.Response.Is(http.StatusOK).OK {
		return nil, false
	}
	frames := s.Collect(func(f sse.Frame) bool {
		doc, err := frameEvent(f)
		return err == nil && isWaiting(text(doc, "status"))
	}, settle/5)
	if len(frames) == 0 {
		return nil, false
	}
	doc, err := frameEvent(frames[len(frames)-1])
	return doc, err == nil && isWaiting(text(doc, "status"))
}

// snapshotMembers covers members of the snapshot that depend on what the host
// advertises (runs.md, "Snapshot").
func snapshotMembers() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-snapshot-members",
		Title:    "Snapshots have compensationStatus exactly where compensation is advertised, and a constant runOrchestrator",
		Document: "runs.md", Section: "Snapshot",
		Tests: []harness.Test{
			{
				Name:      "no snapshot has compensationStatus where compensation is not advertised",
				Witnesses: []requirements.ID{requirements.RunsCompensationStatusAbsent},
				Gates: []harness.Gate{endingFixtures(), harness.HostFact("the host advertises compensation",
					func(d *harness.Discovery) bool { return !d.Advertises("compensation") })},
				Run: compensationAbsent,
			},
			{
				Name:      "every snapshot has compensationStatus where compensation is advertised",
				Witnesses: []requirements.ID{requirements.RunsCompensationStatusPresent},
				Gates:     []harness.Gate{endingFixtures(), harness.Advertises("compensation")},
				Run:       compensationPresent,
			},
			{
				Name:      "runOrchestrator stays what it was",
				Witnesses: []requirements.ID{requirements.RunsRunOrchestratorConstant},
				Gates:     []harness.Gate{harness.Advertises("agents"), harness.NeedsFixture(dispatchLoop, agentIdentity)},
				Run:       orchestratorConstant,
			},
		},
	}
}

// seen is a snapshot as a host showed it somewhere.
type seen struct {
	where string
	doc   object
	of    *harness.Response
	other bool // of a run the test did not make
}

// snapshotsShown are snapshots from every place a host shows them in: getRun of
// runs in several states, the newest page of the run list and the values stream.
// The test ends when getRun shows none.
func snapshotsShown(t *harness.T) []seen {
	var out []seen
	read := func(where, id string) {
		r := get(t, id)
		if doc, ok := r.JSON().(object); ok && names(r, id).OK {
			out = append(out, seen{where: where + " " + show(doc["status"]), doc: doc, of: r})
		}
	}
	if body := liveBody(t); body != nil {
		id := startRun(t, body)
		defer endRun(t, id)
		poll(t, id, -1, settle/2)
		read("getRun of an active run,", id)
	}
	finished := samples(t)
	for _, s := range finished {
		read("getRun,", s.id)
	}
	if len(out) == 0 {
		t.Abort("no snapshot to observe: getRun shows none of %d finished runs", len(finished))
	}
	if t.Host().Discovery.Advertises("runList") {
		r := t.Do(harness.Request{Path: "/runs"})
		runs, _ := r.Get("runs").([]any)
		for _, run := range runs {
			if doc, ok := run.(object); ok && r.Is(http.StatusOK).OK {
				out = append(out, seen{where: "listRuns, " + show(doc["status"]), doc: doc, of: r, other: true})
			}
		}
	}
	s := t.Stream(streamRequest(finished[0].id, "values", ""))
	defer s.Close()
	if s.Response.Is(http.StatusOK).OK {
		for _, f := range s.Collect(nil, settle) {
			if doc, err := frameEvent(f); err == nil && f.Event == "state.snapshot" {
				out = append(out, seen{where: "a state.snapshot, " + show(doc["status"]), doc: doc, of: s.Response})
			}
		}
	}
	return out
}

func compensationAbsent(t *harness.T) {
	for _, s := range snapshotsShown(t) {
		v, has := s.doc["compensationStatus"]
		t.Expect(requirements.RunsCompensationStatusAbsent, harness.That(!has, "a snapshot without compensationStatus",
			"%s: compensationStatus %s", s.where, show(v)).At(s.of))
	}
}

// compensationPresent asks for none where a run of the test's own goes on or
// came to its end as it should; what a host does by itself about a failed or
// cancelled run is its own affair.
func compensationPresent(t *harness.T) {
	states := []string{"none", "pending", "running", "completed", "partial", "failed", "manual"}
	for _, s := range snapshotsShown(t) {
		got, _ := s.doc["compensationStatus"].(string)
		ok, expected := got == "none", "compensationStatus none"
		if status := text(s.doc, "status"); s.other || slices.Contains([]string{"failed", "cancelling", "cancelled"}, status) {
			ok, expected = slices.Contains(states, got), "a compensationStatus of the vocabulary"
		}
		t.Expect(requirements.RunsCompensationStatusPresent, harness.That(ok, expected, "%s: compensationStatus %s",
			s.where, show(s.doc["compensationStatus"])).At(s.of))
	}
}

func orchestratorConstant(t *harness.T) {
	body := object{"workflowId": dispatchLoop}
	if !listed(t, dispatchLoop) {
		body["workflowId"] = agentIdentity
	}
	id := startRun(t, body)
	defer endRun(t, id)
	reads := []seen{} // in the order they were made
	read := func() {
		r := get(t, id)
		if doc, ok := r.JSON().(object); ok && names(r, id).OK {
			reads = append(reads, seen{where: "getRun", doc: doc, of: r})
		}
	}
	read()
	var streamed []seen // in the order of the log
	s := t.Stream(streamRequest(id, "values", ""))
	for s.Response.Is(http.StatusOK).OK {
		f, ok := s.Next(settle)
		if !ok {
			break
		}
		if doc, err := frameEvent(f); err == nil && f.Event == "state.snapshot" {
			streamed = append(streamed, seen{where: "a state.snapshot", doc: doc, of: s.Response})
		}
		read()
	}
	if !awaitEnd(t, id, 2*settle) {
		t.Abort("no finished run to observe: run of %v has status %q after %s", body["workflowId"], get(t, id).Text("status"), 2*settle)
	}
	read()
	if len(reads) == 0 {
		t.Abort("no snapshot to observe: %s", answered(get(t, id)))
	}
	// getRun after the end shows a later state than every frame does.
	held := false
	for _, order := range [][]seen{reads, append(streamed, reads[len(reads)-1])} {
		if check, named := constantOrchestrator(order); named {
			held = true
			t.Expect(requirements.RunsRunOrchestratorConstant, check)
		}
	}
	if !held {
		t.Inapplicable(requirements.RunsRunOrchestratorConstant, "no snapshot of a run of %v names a runOrchestrator", body["workflowId"])
	}
}

// constantOrchestrator checks snapshots in the order of the states they show;
// named is false when none has a runOrchestrator.
func constantOrchestrator(order []seen) (check harness.Check, named bool) {
	first := slices.IndexFunc(order, func(s seen) bool { return s.doc["runOrchestrator"] != nil })
	if first < 0 {
		return harness.Check{}, false
	}
	want := order[first].doc["runOrchestrator"]
	for _, s := range order[first:] {
		if check = same("runOrchestrator", want, s.doc["runOrchestrator"]).At(s.of); !check.OK {
			check.Observed += " in " + s.where + " with status " + show(s.doc["status"])
			break
		}
	}
	return check, true
}
