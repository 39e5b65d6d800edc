package undeclared

import (
	"wopcert/requirements"
	"wopcert/requirements/lint/testdata/harness"
)

func Scenarios() []harness.Scenario {
	return []harness.Scenario{{ID: "v2-one", Tests: []harness.Test{{
		Name:      "a",
		Witnesses: []requirements.ID{requirements.R0170RunCancel},
		Run: func(t *harness.T) {
			t.Expect(requirements.R0170RunCancel, harness.That(true))
			t.Blocked(requirements.EventsSequence, "x") // want declared "does not declare it"
			indirect(t)
		},
	}}}}
}

func indirect(t *harness.T) { deep(t) }

var deep = func(t *harness.T) {
	t.Expect(requirements.R0194TerminalOnce, harness.That(true)) // want declared "does not declare it"
}

func nobody(t *harness.T) {
	t.Expect(requirements.R0170RunCancel, harness.That(true)) // want declared "no test reaches"
}
