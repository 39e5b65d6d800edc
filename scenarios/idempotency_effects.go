package scenarios

import (
	"fmt"
	"net/http"

	"wopcert/harness"
	"wopcert/requirements"
)

// durabilityHook is where hosts that can be told to deliver accepted work again
// take the order. It is no operation of the protocol.
const durabilityHook = "/host/durability/kill"

// durabilityRecovery: idempotency.md, "Layer 2: effect identity".
func durabilityRecovery() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-durability-recovery",
		Title:    "Work that is delivered twice has its effects once",
		Document: "idempotency.md",
		Section:  "Layer 2: effect identity",
		Gates:    []harness.Gate{harness.Advertises("idempotency"), harness.NeedsFixture(sideEffect)},
		Tests: []harness.Test{{
			Name:      "a second delivery during a run and after it",
			Witnesses: []requirements.ID{requirements.R0158DuplicateDelivery},
			Run: func(t *harness.T) {
				id := startRun(t, object{"workflowId": sideEffect, "inputs": object{"delayMs": 200}})
				switch r := deliverTwice(t, id); r.Status {
				case http.StatusAccepted:
				case http.StatusNotFound, http.StatusMethodNotAllowed:
					t.Inapplicable(requirements.R0158DuplicateDelivery, "the host has no durability hook: %s", answered(r))
					return
				case http.StatusBadRequest, http.StatusUnprocessableEntity:
					t.Inapplicable(requirements.R0158DuplicateDelivery, "the host's durability hook takes another request: %s", answered(r))
					return
				default:
					t.Abort("the durability hook answered %s", answered(r))
				}
				if l := readLog(t, id, settle); len(eventsOfType(l.events, "run.completed")) == 0 {
					t.Abort("the run with an effect did not complete: it has status %q", l.status)
				}
				deliverTwice(t, id)
				effects := effectsOf(t, id)
				if len(effects) == 0 {
					t.Abort("the host reports no effect of the run")
				}
				t.Expect(requirements.R0158DuplicateDelivery, effectsOnce(effects))
			},
		}},
	}
}

// deliverTwice asks a host to deliver the accepted work of a run again.
func deliverTwice(t *harness.T, runID string) *harness.Response {
	return t.Do(harness.Request{Method: http.MethodPost, Path: durabilityHook,
		Body: object{"mode": "duplicate-delivery", "runId": runID}})
}

// effectsOnce checks that every effect is reported once, and that every node
// completed one.
func effectsOnce(effects []object) harness.Check {
	var faults []string
	seen, completed := map[string]int{}, map[string]int{}
	for _, e := range effects {
		seen[text(e, "effectId")]++
		completed[text(e, "nodeId")] += map[bool]int{true: 1}[e["state"] == "completed"]
	}
	for id, n := range seen {
		if n > 1 {
			faults = append(faults, fmt.Sprintf("effect %s reported %d times", id, n))
		}
	}
	for node, n := range completed {
		if n != 1 {
			faults = append(faults, fmt.Sprintf("node %s with %d completed effects", node, n))
		}
	}
	return none("effect performed twice", faults)
}
