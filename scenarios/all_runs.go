package scenarios

import "wopcert/harness"

// runScenarios are the scenarios of runs.md and events.md, in the order of the
// documents.
func runScenarios() []harness.Scenario {
	return []harness.Scenario{
		createdRunReadable(),
		runCancel(),
		runSnapshotETag(),
		configurableClosed(),
		runOptionsLimits(),
		eventTypeClosed(),
		payloadRegistryClosed(),
		runCompletedOutputs(),
		eventSequence(),
		pollCursor(),
		streamModeRefusal(),
		streamSSEProjection(),
		sseLastEventID(),
		sseLastEventIDCursor(),
		terminalEventOnce(),
	}
}
