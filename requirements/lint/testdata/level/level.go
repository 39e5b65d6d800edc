package level

import (
	"wopcert/requirements"
	"wopcert/requirements/lint/testdata/harness"
)

func Scenarios() []harness.Scenario {
	return []harness.Scenario{{ID: "v2-one", Tests: []harness.Test{
		{Name: "a", Witnesses: []requirements.ID{
			requirements.R0170RunCancel,            // want level "asserted with Should alone"
			requirements.R0213LastEventIdMalformed, // want level "use t.Should"
		}, Run: func(t *harness.T) {
			t.Should(requirements.R0170RunCancel, harness.That(true))
			t.Expect(requirements.R0213LastEventIdMalformed, harness.That(true))
		}},
	}}}
}
