package scenarios

import "wopcert/harness"

// streamScenarios are the further scenarios of events.md: streams, polls, the
// host's own channel, the end of a log, and AI envelopes.
func streamScenarios() []harness.Scenario {
	return []harness.Scenario{
		payloadSeats(),
		payloadVendorHatch(),
		streamModes(),
		streamVendorEvents(),
		streamMixedModes(),
		streamMessages(),
		streamKeepAlive(),
		streamValuesResume(),
		streamBatching(),
		streamSubscribers(),
		hostEvents(),
		pollWait(),
		lateWork(),
		aiEnvelopes(),
		envelopeCatalog(),
		envelopeVersions(),
		envelopeContracts(),
		envelopeFacets(),
		providerUsage(),
	}
}
