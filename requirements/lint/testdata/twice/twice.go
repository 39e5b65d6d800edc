package twice

import (
	"wopcert/requirements"
	"wopcert/requirements/lint/testdata/harness"
)

func Scenarios() []harness.Scenario {
	return []harness.Scenario{first(), second()}
}

func first() harness.Scenario {
	return harness.Scenario{ID: "v2-one", Tests: []harness.Test{
		{Name: "a", Witnesses: []requirements.ID{requirements.R0170RunCancel}, Run: run},
	}}
}

func second() harness.Scenario {
	return harness.Scenario{ID: "v2-one", Tests: []harness.Test{ // want twice "declared in line 13"
		{Name: "a", Witnesses: []requirements.ID{requirements.R0170RunCancel}, Run: run},
	}}
}

func run(t *harness.T) { t.Expect(requirements.R0170RunCancel, harness.That(true)) }
