package scenarios

import "wopcert/harness"

// discoveryScenarios are those of capabilities.md, versioning.md, headers.md,
// errors.md, identity.md, idempotency.md and persistence.md.
func discoveryScenarios() []harness.Scenario {
	return []harness.Scenario{
		capabilitiesRootClosed(),
		capabilityRecordShape(),
		noTransportAdvertisement(),
		discoveryCaching(),
		wellKnownOneResource(),
		preferredVersionDefault(),
		versionHeaderHonored(),
		dualStackNegotiation(),
		minClientVersion(),
		headerScheme(),
		eraKey(),
		eraStampUniversal(),
		advertisedFixturesExist(),
		errorRegistry(),
		malformedBodyEnvelope(),
		authRequired(),
		idGrammar(),
		boundIDPathProjection(),
		ownerSubjectRequired(),
		idempotencyKeyGrammar(),
		idempotentCreate(),
	}
}
