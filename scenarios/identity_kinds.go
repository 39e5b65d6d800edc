package scenarios

import (
	"net/http"
	"net/url"

	"wopcert/harness"
	"wopcert/requirements"
)

// Fixtures whose runs put ids of other kinds on the wire.
const (
	approval   = "conformance-approval"
	sideEffect = "conformance-replay-side-effect"
)

// boundIDKinds: identity.md §5, "Identifier grammars".
func boundIDKinds() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-bound-id-kinds",
		Title:    "Every kind of tenant-bound id is bound, and resolves in both forms",
		Document: "identity.md",
		Section:  "5. Identifier grammars",
		Tests: []harness.Test{
			{
				Name:      "ids of interrupts and effects",
				Witnesses: []requirements.ID{requirements.R0187BoundIdKindsPerKind},
				Gates: []harness.Gate{harness.HostFact("no listed fixture of the host puts an interrupt, effect or delivery id on the wire",
					func(d *harness.Discovery) bool { return len(idSources(d)) > 0 })},
				Run: idsOfKinds,
			},
			{
				Name:      "the id of a registered webhook",
				Witnesses: []requirements.ID{requirements.R0187BoundIdKindsWebhookEmitted},
				Gates:     []harness.Gate{harness.Advertises("webhooks"), endingFixtures()},
				Run: func(t *harness.T) {
					tenant := tenantSegment(startEnding(t))
					r := registered(t)
					id := r.Text("webhookId")
					defer unregister(t, projectID(id))
					t.Expect(requirements.R0187BoundIdKindsWebhookEmitted, boundIn(t, "webhookId", id, "subscriptionId", tenant).At(r))
				},
			},
			{
				Name:      "the forms of a webhook id",
				Witnesses: []requirements.ID{requirements.R0187BoundIdKindsWebhook},
				Gates:     []harness.Gate{harness.Advertises("webhooks")},
				Run:       webhookForms,
			},
		},
	}
}

// idSources are the listed fixtures whose runs have such ids.
func idSources(d *harness.Discovery) []string {
	var out []string
	for _, id := range d.Fixtures() {
		if id == waitsForEvent || id == approval && d.Advertises("interrupt") || id == sideEffect && d.Advertises("idempotency") {
			out = append(out, id)
		}
	}
	return out
}

// idsOfKinds runs what waits, and what has effects, and reads the ids.
func idsOfKinds(t *harness.T) {
	judged := 0
	for _, workflow := range idSources(t.Host().Discovery) {
		body := object{"workflowId": workflow}
		if workflow == sideEffect {
			body["inputs"] = object{"delayMs": 50}
		}
		id := startRun(t, body)
		defer endRun(t, id)
		tenant := tenantSegment(id)
		if workflow == sideEffect {
			awaitEnd(t, id, settle)
		} else {
			awaitLogged(t, id, ofType("node.suspended"), settle)
		}
		for _, e := range wholeLog(t, id).events {
			if v := harness.Get(e, "payload", "interruptId"); v != nil && ofType("node.suspended", "interrupt.resolved")(e) {
				judged++
				t.Expect(requirements.R0187BoundIdKindsPerKind, boundIn(t, "interruptId of "+label(e), v, "interruptId", tenant))
			}
		}
		for _, effect := range effectsOf(t, id) {
			judged++
			t.Expect(requirements.R0187BoundIdKindsPerKind, boundIn(t, "effectId", effect["effectId"], "effectId", tenant))
		}
	}
	if judged == 0 {
		t.Abort("no interrupt or effect id came of the runs of %v", idSources(t.Host().Discovery))
	}
}

// effectsOf are the effects a host reports for a run, none where it reports
// no effects.
func effectsOf(t *harness.T, runID string) []object {
	if !t.Host().Discovery.Advertises("idempotency") {
		return nil
	}
	list, _ := t.Do(harness.Request{Path: runPath(runID, "/effects")}).Get("effects").([]any)
	var out []object
	for _, e := range list {
		effect, _ := e.(object)
		out = append(out, effect)
	}
	return out
}

// boundIn checks that an id is in the grammar of its kind and of a tenant.
func boundIn(t *harness.T, what string, value any, kind, tenant string) harness.Check {
	id, _ := value.(string)
	return harness.All(idIs(t, what, value, kind),
		harness.That(tenantSegment(id) == tenant, what+" in the tenant "+tenant, "%s %s", what, show(value)))
}

// register registers a webhook for the ends of runs.
func register(t *harness.T, address string) *harness.Response {
	return t.Do(harness.Request{Method: http.MethodPost, Path: "/webhooks",
		Body: object{"url": address, "events": []string{"run.completed"}}, Header: headerOf("Idempotency-Key", newIdempotencyKey())})
}

// registered is a webhook's registration; the test ends when there is none.
func registered(t *harness.T) *harness.Response {
	r := register(t, "https://wopcert.example/hook")
	if !r.Is(http.StatusCreated).OK || r.Text("webhookId") == "" {
		t.Abort("no webhook to observe: the registration of an https address was answered %s", answered(r))
	}
	return r
}

// unregister names a webhook by one path segment, escaped already.
func unregister(t *harness.T, segment string) *harness.Response {
	return t.Do(harness.Request{Method: http.MethodDelete, Path: "/webhooks/" + segment})
}

// webhookForms takes one registration back by each form of its id.
func webhookForms(t *harness.T) {
	for _, form := range []struct {
		name  string
		write func(string) string
	}{{"projected", projectID}, {"percent-encoded", url.PathEscape}} {
		r := unregister(t, form.write(registered(t).Text("webhookId")))
		check := r.Is(http.StatusNoContent)
		check.Observed = "the " + form.name + " form was answered " + check.Observed
		t.Expect(requirements.R0187BoundIdKindsWebhook, check)
	}
	t.Expect(requirements.R0187BoundIdKindsWebhook, unregister(t, projectID("no-such-tenant/"+newOpaque())).Refuses("id_tenant_mismatch"))
}
