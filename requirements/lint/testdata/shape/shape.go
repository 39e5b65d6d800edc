package shape

import (
	"wopcert/requirements"
	"wopcert/requirements/lint/testdata/harness"
)

func Scenarios() []harness.Scenario {
	tests := []harness.Test{}
	loose := harness.Test{Name: "loose", Witnesses: []requirements.ID{requirements.R0170RunCancel}, Run: run} // want shape "outside a scenario"
	all := []harness.Scenario{
		{ID: "v2-one", Tests: []harness.Test{
			{Name: "a", Witnesses: []requirements.ID{requirements.R0170RunCancel}, Run: run},
			loose,                 // want shape "not a literal"
			{Name: "b", Run: run}, // want shape "declares nothing"
			{Name: "c", Witnesses: []requirements.ID{requirements.R0170RunCancel}, Run: made()}, // want shape "neither a function literal"
			{Name: "d", Witnesses: []requirements.ID{requirements.R0170RunCancel}, Run: kept},   // want shape "no function of this package"
			{Name: "e", Witnesses: []requirements.ID{requirements.R0170RunCancel}},              // want shape "neither a function literal"
			{"f", []requirements.ID{requirements.R0170RunCancel}, run},                          // want shape "field's name" shape "declares nothing" shape "neither a function literal"
		}},
		{ID: name(), Tests: nil},     // want shape "no literal id"
		{ID: "v2-two", Tests: tests}, // want shape "no literal tests"
	}
	all[0].Tests[0].Run = run // want shape "set outside the literal"
	all[0].ID = "v2-three"    // want shape "set outside the literal"
	return all
}

var kept = made()

func name() string { return "v2-four" }

func made() func(*harness.T) { return run }

func run(t *harness.T) {
	t.Expect(requirements.R0170RunCancel, harness.That(true)) // want declared "does not declare it"
}
