package scenarios

import "wopcert/harness"

// controlScenarios are those of runs.md on what can be done with a run once it
// is there: read and list, cancel, pause, fork, compare, annotate and evaluate.
func controlScenarios() []harness.Scenario {
	return []harness.Scenario{
		externalEventWait(),
		snapshotMembers(),
		responseEncoding(),
		runList(),
		runListPages(),
		cancelRace(),
		cancelCascade(),
		runBulkCancel(),
		bulkCancelEntries(),
		runPauseResume(),
		pauseDrainPolicies(),
		pauseRefusals(),
		runForkRefusals(),
		runForkPrefix(),
		forkChild(),
		runDiffIdentical(),
		runDiff(),
		runAncestry(),
		runAnnotationNotEvent(),
		annotations(),
		artifactShape(),
		artifactMediaTypes(),
		evalRun(),
		conversationTurnParts(),
	}
}
