package constrained

import (
	"wopcert/requirements"
	"wopcert/requirements/lint/testdata/harness"
)

func Scenarios() []harness.Scenario {
	return []harness.Scenario{{ID: "v2-one", Tests: []harness.Test{{
		Name:      "a",
		Witnesses: []requirements.ID{requirements.R0170RunCancel},
		Run:       func(t *harness.T) { t.Expect(requirements.R0170RunCancel, harness.That(true)) },
	}}}}
}
