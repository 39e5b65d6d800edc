package scenarios

import "wopcert/harness"

// eraScenarios are those of persistence.md, of the seams profile, of recovery
// and of relaxations.
func eraScenarios() []harness.Scenario {
	return []harness.Scenario{
		v1EventsTranslated(),
		era2Projection(),
		unmappedTypeRefused(),
		forkAV1Run(),
		eraAbsent(),
		pinnedRunDisposition(),
		era2AppendVocabulary(),
		v1WireOfEra3(),
		seamsOperations(),
		relaxationRecorded(),
	}
}
