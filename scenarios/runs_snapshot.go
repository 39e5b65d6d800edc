package scenarios

import (
	"net/http"
	"reflect"
	"strings"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// runSnapshotETag covers getRun and its validators (runs.md, "Snapshot" and
// "Caching and encoding").
func runSnapshotETag() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-run-snapshot-etag",
		Title:    "A snapshot is a valid closed object, and its ETag follows the run",
		Document: "runs.md", Section: "Caching and encoding",
		Tests: []harness.Test{
			{
				Name:      "snapshots are valid while a run lasts and after it",
				Witnesses: []requirements.ID{requirements.RunsSnapshotValid},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       snapshotsAreValid,
			},
			{
				Name:      "the ETag of an unchanged run is stable and answers 304",
				Witnesses: []requirements.ID{requirements.R0170RunSnapshotEtag},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       etagIsStable,
			},
			{
				Name:      "one ETag is of one snapshot",
				Witnesses: []requirements.ID{requirements.R0170RunSnapshotEtag},
				Gates:     []harness.Gate{optIn(twoDelays)},
				Slow:      time.Second,
				Run:       etagOfContent,
			},
			{
				Name:      "the ETag changes when the run does",
				Witnesses: []requirements.ID{requirements.R0170RunSnapshotEtag},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       etagChanges,
			},
		},
	}
}

func snapshotsAreValid(t *harness.T) {
	body := endingBodies(t)[0]
	id := startRun(t, body)
	t.Expect(requirements.RunsSnapshotValid, validSnapshot(get(t, id), id, body["workflowId"].(string)))
	for _, s := range samples(t) {
		t.Expect(requirements.RunsSnapshotValid, validSnapshot(get(t, s.id), s.id, s.workflow))
	}
	for _, s := range unfinished(t) {
		t.Expect(requirements.RunsSnapshotValid, validSnapshot(s.read, s.id, s.workflow))
	}
	if listed(t, failure) {
		showsItsError(t)
	}
}

// showsItsError compares the snapshot of a run that failed with the event that says why.
func showsItsError(t *harness.T) {
	id, l := settledRun(t, object{"workflowId": failure})
	ends := eventsOfType(l.events, "run.failed")
	if len(ends) == 0 {
		return // how that run has to end is a requirement of its own
	}
	r := get(t, id)
	t.Expect(requirements.RunsSnapshotValid, harness.All(validSnapshot(r, id, failure),
		harness.Equal("error.code of a run that failed", harness.Get(ends[0], "payload", "error", "code"), r.Get("error", "code"))).At(r))
}

// read is a snapshot of a run.
type read struct {
	id, workflow string
	read         *harness.Response
}

// unfinished are snapshots of runs that execute, are paused and wait, as far as
// the host can be brought to show some. The runs are cancelled.
func unfinished(t *harness.T) []read {
	var out []read
	take := func(id string, body object) {
		out = append(out, read{id, body["workflowId"].(string), get(t, id)})
	}
	begin := func(body object, begun ...string) string {
		r := create(t, body)
		id := r.Text("runId")
		if !r.Is(http.StatusCreated).OK || id == "" {
			return ""
		}
		if _, ok := awaitLogged(t, id, ofType(begun...), settle); ok {
			take(id, body)
		}
		return id
	}
	if body := liveBody(t); body != nil {
		if id := begin(body, "node.started"); id != "" {
			defer endRun(t, id)
			if act(t, id, "pause", object{"drainPolicy": "immediate"}).Is(http.StatusAccepted).OK {
				awaitLogged(t, id, ofType("run.paused"), settle)
				take(id, body)
			}
		}
	}
	if listed(t, waitsForEvent) {
		endRun(t, begin(object{"workflowId": waitsForEvent}, "node.suspended", "interrupt.requested"))
	}
	return out
}

func conditional(t *harness.T, runID, tag string) *harness.Response {
	return t.Do(harness.Request{Path: runPath(runID, ""), Header: http.Header{"If-None-Match": {tag}}})
}

// readTwice reads a snapshot twice while the log does not grow, since events
// may be appended to a finished run's log too.
func readTwice(t *harness.T, runID string) (first, second *harness.Response) {
	for range 3 {
		before := highest(wholeLog(t, runID).events)
		first, second = get(t, runID), get(t, runID)
		if highest(wholeLog(t, runID).events) == before {
			break
		}
	}
	return first, second
}

const noETag = "the host sends no ETag with a snapshot"

func etagIsStable(t *harness.T) {
	id, _ := settledEnding(t)
	first, second := readTwice(t, id)
	if !first.Is(http.StatusOK).OK {
		t.Abort("no snapshot to observe: %s", first.Is(http.StatusOK).Observed)
	}
	t.Should(requirements.R0170RunSnapshotEtag, hasStrongETag(first))
	tag := first.Header.Get("ETag")
	if tag == "" {
		t.Inapplicable(requirements.R0170RunSnapshotEtag, noETag)
		return
	}
	t.Expect(requirements.R0170RunSnapshotEtag, harness.Equal("ETag of the unchanged run", tag, second.Header.Get("ETag")).At(second))
	t.Expect(requirements.R0170RunSnapshotEtag, notModified(conditional(t, id, tag)))
	list := notModified(conditional(t, id, `"wopcert-another-tag", `+tag)) // RFC 9110 §13.1.2
	list.Expected += " for a list of tags with the run's among them"
	t.Expect(requirements.R0170RunSnapshotEtag, list)
	t.Expect(requirements.R0170RunSnapshotEtag, names(conditional(t, id, `"wopcert-another-tag"`), id))
}

// etagOfContent reads a run while one node after another executes: what a snapshot shows
// of that may change without its status, and then its tag does.
func etagOfContent(t *harness.T) {
	id := startRun(t, object{"workflowId": twoDelays, "inputs": object{"firstMs": 300, "secondMs": 300}})
	defer endRun(t, id)
	shown, differs := map[string]any{}, ""
	end := time.Now().Add(settle)
	var r *harness.Response
	for {
		r = get(t, id)
		tag := r.Header.Get("ETag")
		if !r.Is(http.StatusOK).OK || tag == "" {
			break
		}
		before, known := shown[tag]
		if known && !strings.HasPrefix(tag, "W/") && !reflect.DeepEqual(before, r.JSON()) { // a weak tag says less
			differs = tag
			break
		}
		shown[tag] = r.JSON()
		if endedStatus(r.Text("status")) || time.Now().After(end) {
			break
		}
		pause(t, 100*time.Millisecond)
	}
	if len(shown) == 0 {
		t.Inapplicable(requirements.R0170RunSnapshotEtag, noETag)
		return
	}
	t.Expect(requirements.R0170RunSnapshotEtag, harness.That(differs == "", "one snapshot for each ETag of a run that executes",
		"snapshots that differ with the ETag %s", differs).At(r))
}

func etagChanges(t *harness.T) {
	id, _ := executing(t, liveBody(t))
	before := get(t, id)
	if act(t, id, "pause", object{"drainPolicy": "immediate"}).Is(http.StatusAccepted).OK {
		awaitLogged(t, id, ofType("run.paused"), settle)
		paused := get(t, id)
		if a, b := before.Header.Get("ETag"), paused.Header.Get("ETag"); a != "" && b != "" && before.Get("status") != paused.Get("status") {
			t.Expect(requirements.R0170RunSnapshotEtag, harness.That(a != b, "an ETag other than "+a,
				"ETag %s as before, while status went from %v to %v", b, before.Get("status"), paused.Get("status")).At(paused))
		}
		before = paused
	}
	tag := before.Header.Get("ETag")
	cancel(t, id, object{})
	if before.Is(http.StatusOK).OK && tag == "" {
		t.Inapplicable(requirements.R0170RunSnapshotEtag, noETag)
		return
	}
	awaitEnd(t, id, settle)
	after := get(t, id)
	if !before.Is(http.StatusOK).OK || !after.Is(http.StatusOK).OK || before.Get("status") == after.Get("status") {
		t.Abort("no transition to observe: the snapshot's status was %v and is %v", before.Get("status"), after.Get("status"))
	}
	if now := after.Header.Get("ETag"); now == "" {
		t.Should(requirements.R0170RunSnapshotEtag, hasStrongETag(after))
	} else {
		t.Expect(requirements.R0170RunSnapshotEtag, harness.That(now != tag, "an ETag other than "+tag,
			"ETag %s as before, while status went from %v to %v", now, before.Get("status"), after.Get("status")).At(after))
	}
	t.Expect(requirements.R0170RunSnapshotEtag, names(conditional(t, id, tag), id))
}
