package selector

import (
	"wopcert/requirements"
	"wopcert/requirements/lint/testdata/harness"
)

func Scenarios() []harness.Scenario {
	return []harness.Scenario{{ID: "v2-one", Tests: []harness.Test{{
		Name: "a",
		Witnesses: []requirements.ID{requirements.R0170RunCancel,
			local, // want selector "a witness is not a constant"
		},
		Run: func(t *harness.T) {
			t.Expect(requirements.R0170RunCancel, harness.That(true))
			t.Expect("openwop.requirement.0170.run-cancel", harness.That(true)) // want selector "not a constant of package requirements"
			id := requirements.R0170RunCancel
			t.Should(id, harness.That(true))                                        // want selector "not a constant"
			t.Blocked(requirements.ID("openwop.requirement.0170.run-cancel"), "x")  // want selector "not a constant"
			t.Inapplicable(pick(), "x")                                             // want selector "not a constant"
			t.Expect(local, harness.That(true))                                     // want selector "not a constant"
			t.Expect(table.id, harness.That(true))                                  // want selector "not a constant"
			(*harness.T).Expect(t, requirements.R0170RunCancel, harness.That(true)) // want selector "where it stands"
			expect := t.Expect                                                      // want selector "where it stands"
			expect(requirements.R0170RunCancel, harness.That(true))
			wrapped{t}.Expect(id, harness.That(true)) // want selector "not a constant"
			var a asserter = t
			a.Expect(requirements.R0170RunCancel, harness.That(true)) // want selector "no method of harness.T"
			harness.ExpectAll(requirements.R0170RunCancel, t)         // want selector "takes a requirement's id"
			helper(t, requirements.R0170RunCancel)
		},
	}}}}
}

const local = requirements.R0170RunCancel

var table = struct{ id requirements.ID }{requirements.R0170RunCancel}

type wrapped struct{ *harness.T }

type asserter interface {
	Expect(requirements.ID, harness.Check) bool
}

func pick() requirements.ID { return requirements.R0170RunCancel }

func helper(t *harness.T, id requirements.ID) {
	t.Expect(id, harness.That(true)) // want selector "let a helper return the check"
}
