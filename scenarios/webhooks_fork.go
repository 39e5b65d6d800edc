package scenarios

import (
	"slices"

	"wopcert/harness"
	"wopcert/requirements"
)

// webhookForks: webhooks.md, "Replay", and replay.md, "Suppression".
func webhookForks() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-webhook-fork-delivery",
		Title:    "What a branch adds is news, and what a replay tells again is not",
		Document: "webhooks.md",
		Section:  "Replay",
		Gates:    hookGates(harness.Advertises("replay")),
		Tests: []harness.Test{{Name: "the history of a replay", Witnesses: []requirements.ID{requirements.WebhooksReplaySilent}, Gates: []harness.Gate{servesMode("replay")}, Run: historySilent}, {
			Name: "the events of a branch", Witnesses: []requirements.ID{requirements.WebhooksBranchDelivered}, Gates: []harness.Gate{servesMode("branch")}, Run: func(t *harness.T) {
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

// historySilent replays a run from its last event, so that all but that one are
// history, while a subscription to them all is in force. What a later run has
// to have delivered shows that nothing more is on its way.
func historySilent(t *harness.T) {
	source, l := settledRun(t, noopRun(t))
	end := slices.IndexFunc(l.events, func(e object) bool { return isTerminalType(e["type"]) })
	if end < 1 || !slices.ContainsFunc(l.events[:end], ofType(deliveredTypes()...)) {
		t.Abort("no history to replay: the run has %d events and status %q", len(l.events), l.status)
	}
	at := seqOf(l.events[end])
	h := subscribe(t, hookEndpoint(t, nil), with(hookBody(t.SigningSecret(0), deliveredTypes()...), "tags", nil))
	defer h.drop()
	child := forkedFrom(t, source, "replay", at)
	defer endRun(t, child)
	awaitEnd(t, child, settle)
	later := startRun(t, noopRun(t))
	h.need(later, runStart, runEnd)
	pause(t, quiet)
	var told []string
	for _, d := range h.ofRun(child) {
		if seq, ok := sequenceOf(d.event); !ok || seq < at {
			told = append(told, d.label())
		}
	}
	t.Expect(requirements.WebhooksReplaySilent, none("delivery of what the replay has from its source", told))
}
