package scenarios

import "wopcert/harness"

// webhookScenarios are those of webhooks.md and of what security-defaults.md
// says about deliveries.
func webhookScenarios() []harness.Scenario {
	return []harness.Scenario{
		webhookRegistration(),
		webhookSelection(),
		webhookUnregister(),
		webhookDeliveryShape(),
		webhookSignature(),
		webhookDurable(),
		webhookRetries(),
		webhookIsolation(),
		webhookDeadLetters(),
		webhookStandard(),
		webhookVerification(),
		webhookMessageID(),
		webhookRotation(),
		webhookEgress(),
		webhookForks(),
		webhookV1Accepted(),
		webhookUnprojectable(),
		webhookRestart(),
		onwardHopDelivery(),
	}
}
