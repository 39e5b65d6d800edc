package scenarios

import (
	"net/http"
	"slices"

	"wopcert/harness"
	"wopcert/requirements"
)

const versionFold = "conformance-version-fold"

// forceEngineVersion: headers.md, "Request headers", and runs.md, "Request
// headers".
func forceEngineVersion() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-force-engine-version",
		Title:    "A test key can force the engine version, and no other key can",
		Document: "headers.md",
		Section:  "Request headers",
		Gates: []harness.Gate{
			harness.HostFact("the host does not advertise testing.forceEngineVersionRange", func(d *harness.Discovery) bool {
				_, _, ok := engineRange(d)
				return ok
			}),
			harness.NeedsFixture(versionFold, noop),
		},
		Tests: []harness.Test{
			{
				Name:      "a production key",
				Witnesses: []requirements.ID{requirements.RunsForceEngineVersionRefused},
				Gates:     []harness.Gate{harness.NeedsCredential(harness.Production)},
				Run: func(t *harness.T) {
					least, _, _ := engineRange(t.Host().Discovery)
					control(t, harness.Production, foldBody(t))
					body, tag := tagged(foldBody(t))
					r := createAs(t, harness.Production, body, "OpenWOP-Force-Engine-Version", decimal(least))
					t.Expect(requirements.RunsForceEngineVersionRefused, r.Refuses("force_engine_version_forbidden"))
					t.Expect(requirements.RunsForceEngineVersionRefused, noRunTagged(t, harness.Production, tag))
				},
			},
			{
				Name:      "a test key",
				Witnesses: []requirements.ID{requirements.HeadersForceEngineVersionHonored},
				Run: func(t *harness.T) {
					least, most, _ := engineRange(t.Host().Discovery)
					for _, version := range slices.Compact([]int64{least, most}) {
						forcedRun(t, version)
					}
				},
			},
		},
	}
}

// engineRange is the advertised range of versions that can be forced.
func engineRange(d *harness.Discovery) (least, most int64, ok bool) {
	least, isLeast := integer(harness.Get(d.Document, "testing", "forceEngineVersionRange", "min"))
	most, isMost := integer(harness.Get(d.Document, "testing", "forceEngineVersionRange", "max"))
	return least, most, isLeast && isMost
}

func foldBody(t *harness.T) object {
	if listed(t, versionFold) {
		return object{"workflowId": versionFold}
	}
	return object{"workflowId": noop}
}

// forcedRun runs a workflow under a version and reads back which one shows.
func forcedRun(t *harness.T, version int64) {
	r := create(t, foldBody(t), "OpenWOP-Force-Engine-Version", decimal(version))
	if r.Refuses("force_engine_version_forbidden").OK {
		t.Blocked(requirements.HeadersForceEngineVersionHonored,
			"the primary key is no test key of the host, which alone may force an engine version; give a test key")
		return
	}
	id := r.Text("runId")
	if !t.Expect(requirements.HeadersForceEngineVersionHonored, harness.All(r.Is(http.StatusCreated),
		harness.That(id != "", "a runId", "runId %s", show(r.Get("runId")))).At(r)) {
		return
	}
	l := readLog(t, id, settle)
	t.Expect(requirements.HeadersForceEngineVersionHonored, harness.That(len(eventsOfType(l.events, "run.completed")) > 0,
		"run.completed under a forced version", "status %q and %d events", l.status, len(l.events)).At(l.last))
	shown := engineVersions(snapshot(t, id).JSON(), l.events)
	for _, w := range shown {
		t.Expect(requirements.HeadersForceEngineVersionHonored, isNumber(w.where, float64(version), w.value))
	}
	if len(shown) == 0 {
		t.Inapplicable(requirements.HeadersForceEngineVersionHonored, "the host shows no engineVersion on a run")
	}
}
