package scenarios

import "wopcert/harness"

// contractScenarios are those of discovery, versions, headers, the creation of
// runs and its options, ids and idempotency that need more of a host than its
// first runs.
func contractScenarios() []harness.Scenario {
	return []harness.Scenario{
		profilesDerivedOnly(),
		extensionKeys(),
		preferredVersionTwin(),
		advertisedPathSpace(),
		sharedNamePages(),
		engineVersionInteger(),
		corsPreflight(),
		forceEngineVersion(),
		seamsAdvertised(),
		gatedOperations(),
		operationScopes(),
		createRefusals(),
		runDedup(),
		evalUnadvertised(),
		dataResidency(),
		gatedTypes(),
		runBounds(),
		aiOptions(),
		distillationBudget(),
		configurableConstant(),
		configurableSchema(),
		metadataInert(),
		boundIDKinds(),
		idempotencyInFlight(),
		idempotencyScope(),
		durabilityRecovery(),
	}
}
