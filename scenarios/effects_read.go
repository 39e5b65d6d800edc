package scenarios

import (
	"net/http"
	"slices"

	"wopcert/harness"
	"wopcert/requirements"
)

// effectsRead: idempotency.md, "Layer 2: effect identity", and
// security-defaults.md, "Layer-2 effect identity".
func effectsRead() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-effects-read",
		Title:    "The effects of a run can be read, by those who may",
		Document: "idempotency.md", Section: "Layer 2: effect identity",
		Gates: []harness.Gate{harness.Advertises("idempotency")},
		Tests: []harness.Test{
			{
				Name:      "a run without effects",
				Witnesses: []requirements.ID{requirements.IdempotencyEffectsRead},
				Gates:     []harness.Gate{harness.NeedsFixture(noop)},
				Run: func(t *harness.T) {
					id, _ := settledRun(t, object{"workflowId": noop})
					r := t.Do(harness.Request{Path: runPath(id, "/effects")})
					list, _ := r.Get("effects").([]any)
					t.Expect(requirements.IdempotencyEffectsRead, harness.All(servesEffects(r, id),
						harness.That(len(list) == 0, "no effect of a run that does nothing", "%d", len(list))).At(r))
				},
			},
			{
				Name:      "a run with an effect",
				Witnesses: []requirements.ID{requirements.IdempotencyEffectsRead, requirements.IdempotencyNodeEffectsRecorded},
				Gates:     []harness.Gate{harness.NeedsFixture(sideEffect)},
				Run:       effectRecorded,
			},
			{
				Name:      "a run that is not there",
				Witnesses: []requirements.ID{requirements.IdempotencyEffectsReadRefused},
				Gates:     []harness.Gate{endingFixtures()},
				Run: func(t *harness.T) {
					id := effectsServed(t)
					r := t.Do(harness.Request{Path: runPath(absentRun(id), "/effects")})
					t.Expect(requirements.IdempotencyEffectsReadRefused, r.Refuses("not_found"))
				},
			},
			{
				Name:      "a run of another tenant",
				Witnesses: []requirements.ID{requirements.IdempotencyEffectsReadRefused},
				Gates:     []harness.Gate{endingFixtures(), harness.NeedsCredential(harness.OtherTenant)},
				Run: func(t *harness.T) {
					id := effectsServed(t)
					r := t.Do(harness.Request{Path: runPath(id, "/effects"), As: harness.OtherTenant})
					t.Expect(requirements.IdempotencyEffectsReadRefused, r.Refuses("id_tenant_mismatch"))
				},
			},
		},
	}
}

// servesEffects checks an answer with a run's effects for itself.
func servesEffects(r *harness.Response, runID string) harness.Check {
	return harness.All(names(r, runID), r.Valid("effect-ledger-projection")).At(r)
}

// effectsServed is a finished run whose effects its owner can read, so that a
// refusal of others is not one of everybody. The test ends when there is none.
func effectsServed(t *harness.T) string {
	id, _ := settledEnding(t)
	if r := t.Do(harness.Request{Path: runPath(id, "/effects")}); !r.Is(http.StatusOK).OK {
		t.Abort("the effects of a run cannot be read by its owner either: %s", answered(r))
	}
	return id
}

func effectRecorded(t *harness.T) {
	id, l := settledRun(t, object{"workflowId": sideEffect, "inputs": object{"delayMs": 1}})
	var started []string
	for _, e := range eventsOfType(l.events, "node.started") {
		started = append(started, nodeOf(e))
	}
	if !slices.Contains(started, "effect") {
		t.Abort("a run of %s never came to its node effect: it has status %q", sideEffect, l.status)
	}
	r := t.Do(harness.Request{Path: runPath(id, "/effects")})
	if !t.Expect(requirements.IdempotencyEffectsRead, servesEffects(r, id)) {
		return
	}
	nodes := nodesWithEffects(readLedger(t, id).effects)
	strange := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return slices.Contains(started, n) })
	t.Expect(requirements.IdempotencyEffectsRead, none("effect of a node that the run never started", strange).At(r))
	t.Expect(requirements.IdempotencyNodeEffectsRecorded, harness.That(slices.Contains(nodes, "effect"), "a record of node effect",
		"records of %v", nodes).At(r))
}
