// Package scenarios holds what is asked of a host: one scenario per section of
// the specification, each a plain value that package harness runs. Scenarios
// know the wire and the contract, and nothing of any host's inside.
package scenarios

import (
	"slices"

	"wopcert/harness"
)

// All returns every scenario, in the order of the documents they come from.
func All() []harness.Scenario {
	return slices.Concat(discoveryScenarios(), runScenarios(), controlScenarios(), contractScenarios(), webhookScenarios(), streamScenarios(), interruptScenarios(), effectScenarios(), eraScenarios())
}
