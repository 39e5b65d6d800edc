package scenarios

import "wopcert/harness"

// interruptScenarios are those of interrupt.md, of resume tokens in identity.md
// and of the codes of interrupts in errors.md.
func interruptScenarios() []harness.Scenario {
	return []harness.Scenario{
		interruptPayload(),
		interruptKinds(),
		interruptReentry(),
		interruptRecovery(),
		interruptEvents(),
		interruptResolve(),
		interruptTokenSurface(),
		callbackURLGuarded(),
		interruptCallback(),
		interruptTokens(),
		interruptTokenScheme(),
		interruptTokenGrammar(),
		interruptApproval(),
		approverEnforced(),
		approverRefs(),
		interruptResolveTerminal(),
		interruptOneCode(),
	}
}
