package scenarios

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"

	"wopcert/harness"
	"wopcert/requirements"
)

// currentEra is what a host of version 2 stamps on new runs (versioning.md
// §2.2).
const currentEra = 3

// eraKey: persistence.md, "The era key".
func eraKey() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-era-key",
		Title:    "Snapshots carry the era of their log, and discovery the era of new runs",
		Document: "persistence.md",
		Section:  "The era key",
		Gates:    []harness.Gate{endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "the era on a snapshot",
				Witnesses: []requirements.ID{requirements.R0176EraKey},
				Run: func(t *harness.T) {
					r := snapshot(t, startEnding(t))
					era, ok := eraOf(r)
					t.Expect(requirements.R0176EraKey, harness.That(ok && era >= 2,
						"eventLogSchemaVersion an integer of at least 2", "eventLogSchemaVersion %s", show(r.Get("eventLogSchemaVersion"))).At(r))
				},
			},
			{
				Name:      "the era in discovery",
				Witnesses: []requirements.ID{requirements.R0176EraKeyDiscovery},
				Gates: []harness.Gate{harness.HostFact("the host's discovery document has no eventLogSchemaVersion",
					func(d *harness.Discovery) bool { _, ok := d.Document["eventLogSchemaVersion"]; return ok })},
				Run: func(t *harness.T) {
					r := snapshot(t, startEnding(t))
					era, stamped := eraOf(r)
					advertised, ok := wholeNumber(t.Host().Discovery.Document["eventLogSchemaVersion"])
					t.Expect(requirements.R0176EraKeyDiscovery, harness.That(stamped && ok && advertised == era,
						"the same eventLogSchemaVersion in discovery and on a new run", "eventLogSchemaVersion %s in discovery, %s on a new run",
						show(t.Host().Discovery.Document["eventLogSchemaVersion"]), show(r.Get("eventLogSchemaVersion"))).At(r))
				},
			},
		},
	}
}

// eraStampUniversal: versioning.md §2.2, "eventLogSchemaVersion".
func eraStampUniversal() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-era-stamp-universal",
		Title:    "Every new run is stamped with the era of version 2",
		Document: "versioning.md",
		Section:  "2.2 eventLogSchemaVersion",
		Gates:    []harness.Gate{endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "runs that end by themselves",
				Witnesses: []requirements.ID{requirements.R0176EraStampUniversal},
				Run: func(t *harness.T) {
					for _, body := range endingBodies(t) {
						id, fixture := startRun(t, body), text(body, "workflowId")
						t.Expect(requirements.R0176EraStampUniversal, stamped("a new run of "+fixture, snapshot(t, id)))
						if l := readLog(t, id, settle); !l.terminal {
							t.Abort("the run of %s is %q after %s", fixture, l.status, settle)
						}
						t.Expect(requirements.R0176EraStampUniversal, stamped("an ended run of "+fixture, snapshot(t, id)))
					}
				},
			},
			{
				Name:      "a run that is cancelled",
				Witnesses: []requirements.ID{requirements.R0176EraStampUniversal},
				Gates:     []harness.Gate{liveFixtures()},
				Run: func(t *harness.T) {
					id := liveRun(t)
					r := cancel(t, id, object{})
					if l := readLog(t, id, 2*settle); !l.terminal {
						t.Abort("the run is %q %s after cancelRun answered %s", l.status, 2*settle, answered(r))
					}
					t.Expect(requirements.R0176EraStampUniversal, stamped("a cancelled run", snapshot(t, id)))
				},
			},
		},
	}
}

// stamped checks the era of a new run.
func stamped(what string, r *harness.Response) harness.Check {
	era, ok := eraOf(r)
	return harness.That(ok && era == currentEra, fmt.Sprintf("eventLogSchemaVersion %d on every new run", currentEra),
		"eventLogSchemaVersion %s on %s", show(r.Get("eventLogSchemaVersion")), what).At(r)
}

// snapshot reads a run that has to be there; the test ends when it is not.
func snapshot(t *harness.T, runID string) *harness.Response {
	r := get(t, runID)
	if _, ok := r.JSON().(object); !ok || !r.Is(http.StatusOK).OK {
		t.Abort("no snapshot to judge: getRun gave %s", answered(r))
	}
	return r
}

func eraOf(r *harness.Response) (int64, bool) { return wholeNumber(r.Get("eventLogSchemaVersion")) }

// wholeNumber reads a JSON number without a fractional part, as JSON Schema
// reads an integer: 3.0 is one.
func wholeNumber(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok || len(n) > 32 {
		return 0, false
	}
	r, ok := new(big.Rat).SetString(n.String())
	if !ok || !r.IsInt() || !r.Num().IsInt64() {
		return 0, false
	}
	return r.Num().Int64(), true
}
