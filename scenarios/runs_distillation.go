package scenarios

import (
	"strings"

	"wopcert/harness"
	"wopcert/requirements"
)

// distill is the opt-in workflow that distills the text it is given into
// memory, within the token budget of the run.
const distill = "wopcert-distill"

// distillationBudget: runs.md, "distillation section".
func distillationBudget() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-distillation-budget",
		Title:    "A distillation that does not fit its budget leaves nothing behind",
		Document: "runs.md",
		Section:  "distillation section",
		Gates:    []harness.Gate{harness.AdvertisesFacet("memory", "distillation"), optIn(distill)},
		Tests: []harness.Test{{
			Name:      "two thousand words in one token",
			Witnesses: []requirements.ID{requirements.RunsDistillationBudget},
			Run: func(t *harness.T) {
				budget := int64(1000)
				if v, ok := t.Host().Discovery.Facet("memory", "distillation", "maxTokenBudget"); ok {
					if most, ok := integer(v); ok && most > 0 {
						budget = min(budget, most)
					}
				}
				bounded(t, distilling("three short words", budget))
				id := startRun(t, distilling(strings.Repeat("every word of this counts ", 400), 1))
				l := readLog(t, id, settle)
				t.Expect(requirements.RunsDistillationBudget, harness.All(
					failsWith(l, "token_budget_exceeded"),
					atMost(0, "memory.written", l),
					atMost(0, "memory.compacted", l),
					atMost(0, "agent.memory-consolidated", l),
				).At(l.last))
			},
		}},
	}
}

func distilling(text string, budget int64) object {
	return object{"workflowId": distill, "inputs": object{"text": text},
		"configurable": object{"version": 1, "distillation": object{"tokenBudget": budget}}}
}
