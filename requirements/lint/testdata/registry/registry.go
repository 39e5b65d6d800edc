package registry

import (
	"wopcert/requirements"
	"wopcert/requirements/lint/testdata/harness"
)

func Scenarios() []harness.Scenario {
	return []harness.Scenario{{ID: "v2-one", Tests: []harness.Test{{
		Name: "a",
		Witnesses: []requirements.ID{
			requirements.R0170RunCancel,
			requirements.EventsSequence,    // want registry "not in the registry"
			requirements.R0194TerminalOnce, // want registry "belongs to the scenario v2-other"
		},
		Run: func(t *harness.T) {
			t.Expect(requirements.R0170RunCancel, harness.That(true))
			t.Expect(requirements.EventsSequence, harness.That(true))
			t.Expect(requirements.R0194TerminalOnce, harness.That(true))
		},
	}}}}
}
