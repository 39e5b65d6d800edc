package clean

import (
	"wopcert/requirements"
	ids "wopcert/requirements"
	"wopcert/requirements/lint/testdata/harness"
)

func Scenarios() []harness.Scenario {
	return []harness.Scenario{
		{ID: "v2-one", Title: "one", Tests: []harness.Test{
			{
				Name:      "a literal",
				Witnesses: []requirements.ID{requirements.R0170RunCancel, ids.EventsSequence},
				Run: func(t *harness.T) {
					if !t.Do() {
						t.Abort("it does not work")
						return
					}
					if !t.Expect(requirements.R0170RunCancel, ends()) {
						return
					}
					common(t)
				},
			},
			{Name: "a function", Witnesses: []requirements.ID{requirements.EventsSequence}, Run: testSequence},
		}},
		{ID: second, Tests: []harness.Test{{
			Name:      "a recommendation",
			Witnesses: []requirements.ID{requirements.R0213LastEventIdMalformed},
			Run: func(t *harness.T) {
				if !t.Do() {
					t.Inapplicable(requirements.R0213LastEventIdMalformed, "the host has none")
					return
				}
				t.Should(requirements.R0213LastEventIdMalformed, ends())
			},
		}}},
	}
}

const second = "v2-two"

func testSequence(t *harness.T) { common(t) }

// common asserts for several tests, naming the requirement itself.
func common(t *harness.T) {
	func() { t.Expect(requirements.EventsSequence, ends()) }()
}

func ends() harness.Check { return harness.That(true) }
