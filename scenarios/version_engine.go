package scenarios

import (
	"fmt"

	"wopcert/harness"
	"wopcert/requirements"
)

// engineVersionInteger: versioning.md §2.1, "engineVersion".
func engineVersionInteger() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-engine-version-integer",
		Title:    "The engine version is an integer wherever it is written",
		Document: "versioning.md",
		Section:  "2.1 engineVersion",
		Gates:    []harness.Gate{endingFixtures()},
		Tests: []harness.Test{{
			Name:      "the discovery root, a snapshot and the events of a run",
			Witnesses: []requirements.ID{requirements.VersioningEngineVersionInteger},
			Run: func(t *harness.T) {
				id, l := settledEnding(t)
				found := engineVersions(snapshot(t, id).JSON(), l.events)
				if v, has := t.Host().Discovery.Document["engineVersion"]; has {
					found = append(found, written{"engineVersion of the discovery document", v})
				}
				for _, w := range found {
					t.Expect(requirements.VersioningEngineVersionInteger, isCount(w.where, w.value))
				}
				if len(found) == 0 {
					t.Inapplicable(requirements.VersioningEngineVersionInteger, "the host writes engineVersion nowhere")
				}
			},
		}},
	}
}

// written is a value and where it stood.
type written struct {
	where string
	value any
}

// engineVersions are those of a snapshot and of a run's events.
func engineVersions(snapshot any, events []object) []written {
	var out []written
	note := func(where string, m any) {
		if holder, ok := m.(object); ok {
			if v, has := holder["engineVersion"]; has {
				out = append(out, written{where, v})
			}
		}
	}
	note("engineVersion of the snapshot", snapshot)
	for _, e := range events {
		note("engineVersion of "+label(e), e)
		if e["type"] == "run.started" {
			note(fmt.Sprintf("engineVersion in the payload of %s", label(e)), e["payload"])
		}
	}
	return out
}
