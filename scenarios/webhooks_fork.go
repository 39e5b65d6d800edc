package scenarios

import (
	"slices"

	"wopcert/harness"
	"wopcert/requirements"
)

// webhookForks: webhooks.md, "Replay". That a replay delivers nothing is a
// rule of replay.md too, and watched there.
func webhookForks() harness.Scenario {
	branches := harness.HostFact("replay.modes does not list branch", func(d *harness.Discovery) bool {
		facet, _ := d.Facet("replay", "modes")
		modes, _ := stringList(facet)
		return slices.Contains(modes, "branch")
	})
	return harness.Scenario{
		ID:       "v2-webhook-fork-delivery",
		Title:    "What a branch adds is news",
		Document: "webhooks.md",
		Section:  "Replay",
		Gates:    hookGates(harness.Advertises("replay"), branches),
		Tests: []harness.Test{{Name: "the events of a branch", Witnesses: []requirements.ID{requirements.WebhooksBranchDelivered}, Run: func(t *harness.T) {
			source, l := settledRun(t, noopRun(t))
			h := subscribe(t, hookEndpoint(t, nil), with(hookBody(t.SigningSecret(0), deliveredTypes()...), "tags", nil))
			defer h.drop()
			at := forkPoint(l)
			child := forkedFrom(t, source, "branch", at)
			defer endRun(t, child)
			forked := readLog(t, child, settle)
			var want []string
			for _, e := range forked.events {
				if seq, ok := sequenceOf(e); ok && seq >= at && ofType(deliveredTypes()...)(e) {
					want = append(want, label(e))
				}
			}
			if !forked.terminal || len(want) == 0 {
				t.Abort("no branch to observe: it has status %q and %d events to deliver", forked.status, len(want))
			}
			missing := func(all []delivery) []string {
				return slices.DeleteFunc(slices.Clone(want), func(event string) bool {
					return slices.ContainsFunc(all, func(d delivery) bool { return label(d.event) == event })
				})
			}
			all, _ := h.awaitThat(child, func(all []delivery) bool { return len(missing(all)) == 0 })
			t.Expect(requirements.WebhooksBranchDelivered, none("event of the branch that was not delivered", missing(all)))
		}}},
	}
}
