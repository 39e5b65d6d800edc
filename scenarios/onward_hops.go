package scenarios

import (
	"net/http"

	"wopcert/harness"
	"wopcert/harness/receiver"
	"wopcert/requirements"
)

// onwardHopDelivery: security-defaults.md, "Onward hops", for webhooks and
// callbacks.
func onwardHopDelivery() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-onward-hop-delivery",
		Title:    "What authenticated a caller stays with the host",
		Document: "security-defaults.md",
		Section:  "Onward hops",
		Gates:    []harness.Gate{harness.NeedsReceiver()},
		Tests: []harness.Test{
			{Name: "credentials and webhook deliveries", Witnesses: []requirements.ID{requirements.SecurityDefaultsOnwardHopDelivery}, Gates: hookGates(), Run: func(t *harness.T) {
				script := receiver.Script(nil)
				if standardListed(t.Host().Discovery) {
					script = echo(nil)
				}
				at := t.Endpoint(script)
				for _, body := range hopRegistrations(t) {
					r := t.Do(harness.Request{Method: http.MethodPost, Path: "/webhooks", Body: with(with(body, "url", at.URL()), "tags", []string{t.Tag()}), Header: credentialHeaders(t)})
					if r.Text("webhookId") == "" {
						t.Abort("no subscription to observe: registerWebhook was answered %s", answered(r))
					}
					defer unregister(t, projectID(r.Text("webhookId")))
				}
				made := t.Do(harness.Request{Method: http.MethodPost, Path: "/runs", Body: noopRun(t), Header: credentialHeaders(t)})
				id := made.Text("runId")
				if !made.Is(http.StatusCreated).OK || id == "" {
					t.Abort("no run to observe: createRun with further credentials gave %s", answered(made))
				}
				h := &hook{t: t, at: at}
				h.need(id, runStart, runEnd)
				for _, a := range at.Attempts() {
					t.Expect(requirements.SecurityDefaultsOnwardHopDelivery, withoutCredentials(t, a))
				}
			}},
			{Name: "credentials and callbacks", Witnesses: []requirements.ID{requirements.SecurityDefaultsOnwardHopDelivery},
				Gates: []harness.Gate{callsBack(), harness.NeedsFixture(approval)}, Run: func(t *harness.T) {
					at := t.Endpoint(nil)
					made := t.Do(harness.Request{Method: http.MethodPost, Path: "/runs", Body: object{"workflowId": approval, "callbackUrl": at.URL()}, Header: credentialHeaders(t)})
					id := made.Text("runId")
					if !made.Is(http.StatusCreated).OK || id == "" {
						t.Abort("no run to observe: createRun with a callbackUrl gave %s", answered(made))
					}
					defer endRun(t, id)
					ctx, cancel := patience(t)
					defer cancel()
					all, ok := at.Wait(ctx, 1)
					if !ok {
						t.Abort("no callback to observe: none came in the time given")
					}
					for _, a := range all {
						t.Expect(requirements.SecurityDefaultsOnwardHopDelivery, withoutCredentials(t, a))
					}
				}},
		},
	}
}

// callsBack gates on callbacks to a run's callbackUrl.
func callsBack() harness.Gate {
	return harness.HostFact("interrupt.callbackDelivery is not true", func(d *harness.Discovery) bool {
		v, _ := d.Facet("interrupt", "callbackDelivery")
		return v == any(true)
	})
}

// hopRegistrations are registrations whose secrets arrive in a body.
func hopRegistrations(t *harness.T) []object {
	bodies := []object{hookBody(t.SigningSecret(0), runStart, runEnd)}
	if standardListed(t.Host().Discovery) {
		bodies = append(bodies, standardBody(t.StandardSecret(0), runStart, runEnd))
	}
	return bodies
}

// credentialHeaders are credentials beside the key, of the kinds the text
// names, none of which means anything to any host.
func credentialHeaders(t *harness.T) http.Header {
	h := headerOf("Idempotency-Key", newIdempotencyKey())
	h.Set("Cookie", "session="+t.Canary(0))
	h.Set("Proxy-Authorization", "Bearer "+t.Canary(1))
	h.Set("DPoP", t.Canary(2))
	return h
}

// withoutCredentials checks an attempt for everything the host received.
func withoutCredentials(t *harness.T, a receiver.Attempt) harness.Check {
	var carried []string
	for name, values := range a.Header {
		for _, v := range values {
			if t.Carries(v) {
				carried = append(carried, "header "+name)
			}
		}
	}
	if t.Carries(string(a.Body)) || t.Carries(a.Path+"?"+a.Query) {
		carried = append(carried, "the body or the address")
	}
	return none("credential that the host received", carried).AtAttempt(a)
}
