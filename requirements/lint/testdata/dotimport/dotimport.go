package dotimport

import (
	. "wopcert/requirements" // want selector "under a name"
	named "wopcert/requirements"
	"wopcert/requirements/lint/testdata/harness"
)

func Scenarios() []harness.Scenario {
	return []harness.Scenario{{ID: "v2-one", Tests: []harness.Test{
		{Name: "dotted", Witnesses: []named.ID{named.R0170RunCancel}, Run: func(t *harness.T) {
			t.Expect(named.R0170RunCancel, harness.That(true))
			t.Expect(R0170RunCancel, harness.That(true)) // want selector "not a constant"
		}},
	}}}
}
