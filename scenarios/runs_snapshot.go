package scenarios

import (
	"net/http"

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
	t.Expect(requirements.R0170RunSnapshotEtag, names(conditional(t, id, `"wopcert-another-tag"`), id))
}

func etagChanges(t *harness.T) {
	id := liveRun(t)
	before := get(t, id)
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
