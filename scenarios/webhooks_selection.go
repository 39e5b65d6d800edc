package scenarios

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"wopcert/harness"
	"wopcert/harness/receiver"
	"wopcert/requirements"
)

// webhookSelection: webhooks.md, "Surfaces".
func webhookSelection() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-webhook-selection",
		Title:    "A subscription receives what it asked for, of its own tenant",
		Document: "webhooks.md",
		Section:  "Surfaces",
		Gates:    hookGates(),
		Tests: []harness.Test{
			{Name: "the types a subscription lists", Witnesses: []requirements.ID{requirements.WebhooksEventsFilter}, Run: filtersByType},
			{Name: "runs of another tenant", Witnesses: []requirements.ID{requirements.WebhooksTenantIsolation},
				Gates: []harness.Gate{harness.NeedsCredential(harness.OtherTenant)}, Run: staysInTenant},
			{Name: "the tags of runs", Witnesses: []requirements.ID{requirements.WebhooksTagsNarrow}, Run: narrowsByTag},
		},
	}
}

func filtersByType(t *harness.T) {
	few, all := hookEndpoint(t, nil), hookEndpoint(t, nil)
	narrow := subscribe(t, few, hookBody(t.SigningSecret(0), runEnd))
	defer narrow.drop()
	wide := subscribe(t, all, hookBody(t.SigningSecret(1), runStart, "node.started", "node.completed", runEnd))
	defer wide.drop()
	id := startRun(t, noopRun(t))
	wide.need(id, runStart, runEnd)
	narrow.need(id, runEnd)
	pause(t, quiet)
	got := typesOf(narrow.ofRun(id))
	t.Expect(requirements.WebhooksEventsFilter, harness.That(slices.Equal(got, []string{runEnd}),
		"nothing but "+runEnd+" for a subscription to that alone", "deliveries of %s", strings.Join(got, ", ")))
	// A subscription to several types receives each of them that the run has.
	t.Expect(requirements.WebhooksEventsFilter, harness.That(!slices.Contains(typesOf(wide.ofRun(id)), ""),
		"deliveries of the types listed", "one whose event has no type"))
}

// staysInTenant runs a workflow in each of two tenants, both of which
// subscribe to the same types. Each one's own event is the control for the
// other's absence.
func staysInTenant(t *harness.T) {
	who := []harness.Identity{harness.Primary, harness.OtherTenant}
	var hooks []*hook
	for i, as := range who {
		h := subscribeAs(t, as, hookEndpoint(t, nil), hookBody(t.SigningSecret(i), runStart, runEnd))
		defer h.drop()
		hooks = append(hooks, h)
	}
	var runs []string
	for _, as := range who {
		runs = append(runs, startRunAs(t, as, noopRun(t)))
	}
	for i, h := range hooks {
		h.need(runs[i], runStart, runEnd)
	}
	pause(t, quiet)
	for i, h := range hooks {
		tenant := tenantSegment(runs[i])
		var foreign []string
		for _, a := range h.at.Attempts() {
			if d := readDelivery(a); d.runID != "" && tenantSegment(d.runID) != tenant {
				foreign = append(foreign, d.label()+" of run "+d.runID)
			}
		}
		t.Expect(requirements.WebhooksTenantIsolation, none("delivery from outside the tenant "+tenant, foreign))
	}
}

func narrowsByTag(t *harness.T) {
	tag, other := newTag(), newTag()
	narrow := subscribe(t, hookEndpoint(t, nil), with(hookBody(t.SigningSecret(0), runEnd), "tags", []string{tag, newTag()}))
	defer narrow.drop()
	wide := subscribe(t, hookEndpoint(t, nil), with(hookBody(t.SigningSecret(1), runEnd), "tags", nil))
	defer wide.drop()
	body := object{"workflowId": noop}
	overlapping := startRun(t, with(body, "tags", []string{other, tag}))
	apart := startRun(t, with(body, "tags", []string{other}))
	untagged := startRun(t, body)
	for _, id := range []string{overlapping, apart, untagged} {
		wide.need(id, runEnd) // an event of each is there to be delivered
	}
	_, ok := narrow.await(overlapping, runEnd)
	t.Expect(requirements.WebhooksTagsNarrow, harness.That(ok, "a delivery for the run whose tags overlap", "none came"))
	pause(t, quiet)
	for name, id := range map[string]string{"with other tags": apart, "without tags": untagged} {
		t.Expect(requirements.WebhooksTagsNarrow, none("delivery for the run "+name, labels(narrow.ofRun(id))))
	}
}

func labels(all []delivery) []string {
	var out []string
	for _, d := range all {
		out = append(out, d.label())
	}
	return out
}

// webhookUnregister: webhooks.md, "Surfaces" and "Unregister".
func webhookUnregister() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-webhook-unregister",
		Title:    "A subscription that was taken back is gone, and only its own tenant can take it back",
		Document: "webhooks.md",
		Section:  "Unregister",
		Gates:    hookGates(),
		Tests: []harness.Test{
			{Name: "an id that is not there", Witnesses: []requirements.ID{requirements.WebhooksUnregisterUnknown}, Run: func(t *harness.T) {
				h := subscribe(t, hookEndpoint(t, nil), hookBody(t.SigningSecret(0), runEnd))
				t.Expect(requirements.WebhooksUnregisterUnknown, h.unregister().Is(http.StatusNoContent))
				t.Expect(requirements.WebhooksUnregisterUnknown, h.unregister().Refuses("not_found"))
				t.Expect(requirements.WebhooksUnregisterUnknown, unregister(t, projectID(tenantSegment(h.id)+"/"+newOpaque())).Refuses("not_found"))
			}},
			{Name: "a caller of another tenant", Witnesses: []requirements.ID{requirements.WebhooksUnregisterForeign},
				Gates: []harness.Gate{harness.NeedsCredential(harness.OtherTenant)}, Run: unregisterForeign},
			{Name: "events after an unregister", Witnesses: []requirements.ID{requirements.WebhooksUnregisterEndsDeliveries}, Run: endsDeliveries},
			{Name: "retries after an unregister", Witnesses: []requirements.ID{requirements.WebhooksUnregisterEndsRetries},
				Gates: []harness.Gate{retries()}, Run: endsRetries},
			{Name: "retries that wait for their time when the subscription ends", Witnesses: []requirements.ID{requirements.WebhooksUnregisterEndsRetries},
				Gates: []harness.Gate{retries()}, Run: endsScheduled},
		},
	}
}

func unregisterForeign(t *harness.T) {
	h := subscribe(t, hookEndpoint(t, nil), hookBody(t.SigningSecret(0), runEnd))
	defer h.drop()
	r := t.Do(harness.Request{Method: http.MethodDelete, Path: h.path(""), As: harness.OtherTenant})
	t.Expect(requirements.WebhooksUnregisterForeign, r.Refuses("id_tenant_mismatch"))
	id := startRun(t, noopRun(t))
	_, ok := h.await(id, runEnd)
	t.Expect(requirements.WebhooksUnregisterForeign, harness.That(ok, "deliveries that go on after the refusal", "none came"))
}

func endsDeliveries(t *harness.T) {
	gone := subscribe(t, hookEndpoint(t, nil), hookBody(t.SigningSecret(0), runEnd))
	stays := subscribe(t, hookEndpoint(t, nil), hookBody(t.SigningSecret(1), runEnd))
	defer stays.drop()
	first := startRun(t, noopRun(t))
	gone.need(first, runEnd)
	if r := gone.unregister(); !r.Is(http.StatusNoContent).OK {
		t.Abort("no subscription was ended: unregisterWebhook was answered %s", answered(r))
	}
	second := startRun(t, noopRun(t))
	stays.need(second, runEnd)
	pause(t, quiet)
	t.Expect(requirements.WebhooksUnregisterEndsDeliveries, none("delivery for a run after the unregister", labels(gone.ofRun(second))))
}

// endsRetries holds back the answer to a first attempt until its subscription
// is gone, and then fails it: the retry that would follow must not come. A
// second subscription whose attempts fail alike shows when it would have.
func endsRetries(t *harness.T) {
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	defer release()
	failing := func(receiver.Attempt) receiver.Answer {
		select {
		case <-released:
		case <-t.Context().Done():
		}
		return receiver.Answer{Status: http.StatusInternalServerError}
	}
	gone := subscribe(t, hookEndpoint(t, failing), hookBody(t.SigningSecret(0), runEnd))
	stays := subscribe(t, hookEndpoint(t, failing), hookBody(t.SigningSecret(1), runEnd))
	defer stays.drop()
	id := startRun(t, noopRun(t))
	gone.need(id, runEnd)
	r := gone.unregister()
	if !r.Is(http.StatusNoContent).OK {
		t.Abort("no subscription was ended: unregisterWebhook was answered %s", answered(r))
	}
	before := gone.at.Count()
	release()
	if all, ok := stays.awaitThat(id, func(all []delivery) bool { return len(all) >= 2 }); !ok {
		t.Abort("no retry to compare with: the other subscription saw %d attempts", len(all))
	}
	pause(t, quiet)
	t.Expect(requirements.WebhooksUnregisterEndsRetries, harness.That(gone.at.Count() == before,
		fmt.Sprintf("no attempt after the %d that had begun", before), "%d attempts", gone.at.Count()).At(r))
}

// endsScheduled takes a subscription back between attempts that fail at once.
// At that time one attempt at an event can have begun that is still to arrive;
// a second one was made afterwards. A subscription that stays shows when its
// attempts would have come.
func endsScheduled(t *harness.T) {
	failing := receiver.Always(http.StatusInternalServerError)
	stays := subscribe(t, hookEndpoint(t, failing), hookBody(t.SigningSecret(1), deliveredTypes()...))
	defer stays.drop()
	gone := subscribe(t, hookEndpoint(t, failing), hookBody(t.SigningSecret(0), deliveredTypes()...))
	id := startRun(t, noopRun(t))
	gone.need(id, runStart)
	r := gone.unregister()
	if !r.Is(http.StatusNoContent).OK {
		t.Abort("no subscription was ended: unregisterWebhook was answered %s", answered(r))
	}
	before := attemptsByKey(gone.ofRun(id))
	most, _, _ := retryPolicy(t)
	wanted := 4
	if most > 0 {
		wanted = int(min(most, 4))
	}
	stays.awaitThat(id, func(all []delivery) bool { return len(ofDelivered(all, runEnd)) >= wanted })
	if n := len(ofDelivered(stays.ofRun(id), runEnd)); n < 2 {
		t.Abort("no retry to compare with: the other subscription saw %d attempts at %s", n, runEnd)
	}
	pause(t, quiet)
	for key, chain := range attemptsByKey(gone.ofRun(id)) {
		more := len(chain) - len(before[key])
		t.Expect(requirements.WebhooksUnregisterEndsRetries, harness.That(more <= 1, "no attempt after the unregister but one that had begun",
			"%d at %s after the %d before it", more, chain[0].typ, len(before[key])).AtAttempt(chain[len(chain)-1].Attempt))
	}
}
