package scenarios

import "wopcert/harness"

// effectScenarios are those of replays and branches, of effects and of their
// compensation.
func effectScenarios() []harness.Scenario {
	return []harness.Scenario{
		effectSeamManifest(),
		effectSeamNoRefire(),
		replayRefusals(),
		replayBranch(),
		replayPrefix(),
		replayDeterminism(),
		replayDivergence(),
		replaySuppression(),
		effectIdentity(),
		effectProvider(),
		effectsRead(),
		compensationRead(),
		compensationUnwind(),
		compensationOutcomes(),
		compensationCancel(),
		onwardHopEffect(),
	}
}
