package scenarios

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"wopcert/harness"
	"wopcert/harness/receiver"
	"wopcert/harness/webhook"
	"wopcert/requirements"
)

// webhookRegistration: webhooks.md, "Surfaces".
func webhookRegistration() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-webhook-registration",
		Title:    "A webhook is registered as asked, and its secret is handed over once at most",
		Document: "webhooks.md",
		Section:  "Surfaces",
		Gates:    hookGates(),
		Tests: []harness.Test{
			{Name: "a registration", Witnesses: []requirements.ID{requirements.WebhooksRegistered}, Run: func(t *harness.T) {
				r := registerHook(t, harness.Primary, hookEndpoint(t, nil).URL(), hookBody(t.SigningSecret(0), runEnd))
				if id := r.Text("webhookId"); id != "" {
					defer unregister(t, projectID(id))
				}
				t.Expect(requirements.WebhooksRegistered, harness.All(r.Is(http.StatusCreated), r.Valid("webhook-created")))
			}},
			{Name: "a secret the host makes", Witnesses: []requirements.ID{requirements.WebhooksSecretGenerated}, Run: secretGenerated},
			{Name: "a secret the caller supplies", Witnesses: []requirements.ID{requirements.WebhooksSecretNotEchoed}, Run: secretNotEchoed},
			{Name: "where a secret is afterwards", Witnesses: []requirements.ID{requirements.WebhooksSecretReturnedOnce}, Run: secretNowhereElse},
			{Name: "registrations without events", Witnesses: []requirements.ID{requirements.WebhooksEventsNonempty}, Run: func(t *harness.T) {
				for _, check := range refusedBeside(t, map[string]object{
					"an empty events": {"events": []string{}},
					"no events":       {},
					"events null":     {"events": nil},
				}) {
					t.Expect(requirements.WebhooksEventsNonempty, check)
				}
			}},
			{Name: "registrations for types that do not exist", Witnesses: []requirements.ID{requirements.WebhooksEventsV2Names}, Run: func(t *harness.T) {
				bodies := map[string]object{
					"a type of no domain":          {"events": []string{"completed"}},
					"an unknown type of a run":     {"events": []string{"run.wopcert-never"}},
					"one unknown type among known": {"events": []string{runEnd, "run.wopcert-never"}},
				}
				for _, old := range renamedTypes(t) {
					bodies["the version 1 name "+old] = object{"events": []string{old}}
				}
				for _, check := range refusedBeside(t, bodies) {
					t.Expect(requirements.WebhooksEventsV2Names, check)
				}
			}},
			{Name: "a registration that is sent again", Witnesses: []requirements.ID{requirements.WebhooksRegistrationIdempotent}, Run: registeredOnce},
			{Name: "a refused registration that is sent again", Witnesses: []requirements.ID{requirements.WebhooksRegistrationIdempotent},
				Gates: []harness.Gate{listsStandard()}, Run: refusalRepeated},
			{Name: "a key that may only read", Witnesses: []requirements.ID{requirements.WebhooksScope}, Gates: []harness.Gate{harness.NeedsCredential(harness.ReadOnly)}, Run: scopeOfHooks},
			{Name: "a registration with an unknown member", Witnesses: []requirements.ID{requirements.WebhooksRegistrationClosed}, Run: func(t *harness.T) {
				for _, check := range refusedBeside(t, map[string]object{
					"an unknown member": {"events": []string{runEnd}, "wopcertUnknown": true},
				}) {
					t.Expect(requirements.WebhooksRegistrationClosed, check)
				}
			}},
		},
	}
}

// renamedTypes are version 1 names of event types that have another name in
// version 2 and are no types of version 2: one of each of the first domains.
func renamedTypes(t *harness.T) []string {
	const enough = 5
	var out, domains []string
	for _, e := range t.Corpus().Events() {
		old, ok := t.Corpus().EventToV1(e.Type)
		_, registered := t.Corpus().Event(old)
		domain, _, _ := strings.Cut(old, ".")
		if !ok || registered || slices.Contains(domains, domain) || violation(t.Corpus().ValidateValue("run-event#/$defs/vendorType", old)) == "" {
			continue
		}
		if out, domains = append(out, old), append(domains, domain); len(out) == enough {
			break
		}
	}
	return out
}

// refusedBeside checks that each body is refused as invalid where the same
// registration with proper events is accepted; where that is not, the test ends.
func refusedBeside(t *harness.T, bodies map[string]object) []harness.Check {
	var checks []harness.Check
	at := hookEndpoint(t, nil)
	subscribe(t, at, hookBody(t.SigningSecret(0), runEnd)).drop()
	for name, body := range bodies {
		r := registerHook(t, harness.Primary, at.URL(), with(body, "secret", t.SigningSecret(0)))
		if made := r.Text("webhookId"); made != "" {
			unregister(t, projectID(made))
		}
		check := r.Refuses("validation_error")
		check.Expected += " for " + name
		checks = append(checks, check)
	}
	return checks
}

func scopeOfHooks(t *harness.T) {
	body, at := hookBody(t.SigningSecret(0), runEnd), hookEndpoint(t, nil)
	if standardListed(t.Host().Discovery) {
		body = standardBody(t.StandardSecret(0), runEnd)
	}
	h := subscribe(t, at, body)
	defer h.drop()
	made := registerHook(t, harness.ReadOnly, at.URL(), body)
	if id := made.Text("webhookId"); id != "" {
		defer unregister(t, projectID(id))
	}
	t.Expect(requirements.WebhooksScope, forbids(t, "registerWebhook", made))
	if _, ok := t.Host().Discovery.Facet("webhooks", "secretRotation"); ok && standardListed(t.Host().Discovery) {
		t.Expect(requirements.WebhooksScope, forbids(t, "rotateWebhookSecret", rotate(t, harness.ReadOnly, h, t.StandardSecret(1))))
	}
	t.Expect(requirements.WebhooksScope, forbids(t, "unregisterWebhook", t.Do(harness.Request{Method: http.MethodDelete, Path: h.path(""), As: harness.ReadOnly})))
}

// registeredOnce sends one registration twice under one key: it is answered
// alike, verified no second time, and delivers once.
func registeredOnce(t *harness.T) {
	at, body := hookEndpoint(t, nil), hookBody(t.SigningSecret(0), runEnd)
	if standardListed(t.Host().Discovery) {
		body = standardBody(t.StandardSecret(0), runEnd)
	}
	request := harness.Request{Method: http.MethodPost, Path: "/webhooks", Header: headerOf("Idempotency-Key", newIdempotencyKey()),
		Body: with(with(body, "url", at.URL()), "tags", []string{t.Tag()})}
	first := t.Do(request)
	h := &hook{t: t, id: first.Text("webhookId"), at: at, response: first}
	if !first.Is(http.StatusCreated).OK || h.id == "" {
		t.Abort("no subscription to observe: registerWebhook of the suite's receiver was answered %s", answered(first))
	}
	defer h.drop()
	verified := at.Count()
	again := t.Do(request)
	if id := again.Text("webhookId"); id != "" && id != h.id {
		defer unregister(t, projectID(id))
	}
	t.Expect(requirements.WebhooksRegistrationIdempotent, harness.All(again.Is(http.StatusCreated), harness.Equal("webhookId", any(h.id), again.Get("webhookId"))).At(again))
	t.Expect(requirements.WebhooksRegistrationIdempotent, harness.That(at.Count() == verified, "no request to the endpoint for the second", "%d more", at.Count()-verified).At(again))
	run := startRun(t, noopRun(t))
	h.need(run, runEnd)
	pause(t, quiet)
	ids := []string{}
	for _, d := range h.ofRun(run) {
		if id := d.Header.Get(webhook.HeaderID); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	t.Expect(requirements.WebhooksRegistrationIdempotent, harness.That(len(ids) == 1, "deliveries of one subscription", "of %d", len(ids)))
}

// refusalRepeated repeats an opt-in that the endpoint did not consent to: a refusal
// that is final is the answer to its key, and the endpoint is not asked again.
func refusalRepeated(t *harness.T) {
	at := t.Endpoint(receiver.Always(http.StatusNoContent))
	request := harness.Request{Method: http.MethodPost, Path: "/webhooks", Header: headerOf("Idempotency-Key", newIdempotencyKey()),
		Body: with(standardBody(t.StandardSecret(0), runEnd), "url", at.URL())}
	first := t.Do(request)
	asked := at.Count()
	if id := first.Text("webhookId"); id != "" {
		defer unregister(t, projectID(id))
	}
	if !first.Refuses("webhook_endpoint_unverified").OK || asked == 0 {
		t.Abort("no refusal to repeat: registerWebhook of an endpoint without consent was answered %s after %d requests to it", answered(first), asked)
	}
	again := t.Do(request)
	if id := again.Text("webhookId"); id != "" {
		defer unregister(t, projectID(id))
	}
	t.Expect(requirements.WebhooksRegistrationIdempotent, again.Refuses("webhook_endpoint_unverified"))
	t.Expect(requirements.WebhooksRegistrationIdempotent, harness.That(at.Count() == asked, "no request to the endpoint for the repeated refusal",
		"%d more", at.Count()-asked).At(again))
}

func secretGenerated(t *harness.T) {
	h := subscribe(t, hookEndpoint(t, nil), hookBody("", runEnd))
	defer h.drop()
	secret := h.response.Text("secret")
	if !t.Expect(requirements.WebhooksSecretGenerated, harness.That(secret != "", "a secret in the 201 of a registration without one",
		"%s without a secret", answered(h.response)).At(h.response)) {
		return
	}
	id := startRun(t, noopRun(t))
	for _, d := range h.need(id, runEnd) {
		t.Expect(requirements.WebhooksSecretGenerated, signedV1(d, secret))
	}
}

func secretNotEchoed(t *harness.T) {
	bodies := []object{hookBody(t.SigningSecret(0), runEnd), hookBody(t.SigningSecret(1), runStart)}
	if standardListed(t.Host().Discovery) {
		bodies = append(bodies, standardBody(t.StandardSecret(0), runEnd))
	}
	for _, body := range bodies {
		h := subscribe(t, hookEndpoint(t, nil), body)
		defer h.drop()
		t.Expect(requirements.WebhooksSecretNotEchoed, withoutSecret("the 201 of a registration with a secret", h.secret,
			headerText(h.response.Header)+string(h.response.Body)).At(h.response))
	}
}

// secretNowhereElse looks for a secret in everything the host says about a
// subscription after its registration. Dead letters have a rule of their own.
func secretNowhereElse(t *harness.T) {
	at := hookEndpoint(t, nil)
	h := subscribe(t, at, hookBody("", runStart, runEnd))
	if made := h.response.Text("secret"); made != "" {
		h.secret = made
	} else {
		h.drop()
		h = subscribe(t, at, hookBody(t.SigningSecret(0), runStart, runEnd))
	}
	defer h.drop()
	id := startRun(t, noopRun(t))
	for _, d := range h.need(id, runStart, runEnd) {
		t.Expect(requirements.WebhooksSecretReturnedOnce, withoutSecret("a delivery", h.secret, headerText(d.Header)+string(d.Body)).AtAttempt(d.Attempt))
	}
	again := registerHook(t, harness.Primary, at.URL(), with(hookBody(t.SigningSecret(1), runEnd), "wopcertUnknown", true))
	if made := again.Text("webhookId"); made != "" {
		unregister(t, projectID(made))
	}
	for _, r := range []*harness.Response{get(t, id), poll(t, id, -1, 0), again, h.unregister()} {
		t.Expect(requirements.WebhooksSecretReturnedOnce, withoutSecret(r.Request, h.secret, headerText(r.Header)+string(r.Body)).At(r))
	}
}

// withoutSecret checks that a text does not hold one secret, as it is or in a
// spelling of its bytes.
func withoutSecret(what, secret, text string) harness.Check {
	forms := []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), hex.EncodeToString([]byte(secret)), url.QueryEscape(secret)}
	if key, err := webhook.Key(secret); err == nil {
		forms = append(forms, strings.TrimRight(strings.TrimPrefix(secret, "whsec_"), "="), hex.EncodeToString(key))
	}
	held := slices.ContainsFunc(forms, func(form string) bool { return form != "" && strings.Contains(text, form) })
	return harness.That(!held, "no secret in "+what, "it is there")
}

// carriesNothing checks that a text holds no credential or secret of the run.
func carriesNothing(t *harness.T, what, text string) harness.Check {
	return harness.That(!t.Carries(text), "no secret and no credential in "+what, "one is in it")
}

// headerText is a header as text to look through.
func headerText(h http.Header) string {
	text := ""
	for name, values := range h {
		for _, v := range values {
			text += name + ": " + v + "\n"
		}
	}
	return text
}

// signedV1 checks the v1 signature of a delivery under a secret, over the
// bytes that came. That the timestamp is a fresh one is a rule of its own.
func signedV1(d delivery, secret string) harness.Check {
	want := webhook.Sign(secret, d.Header.Get(webhook.HeaderTimestamp), d.Body)
	return harness.That(webhook.SameSignature(d.Header.Get(webhook.HeaderSignature), want), webhook.HeaderSignature+" of the exact bytes under the secret",
		"%s carries %s: %s, which they do not give", d.label(), webhook.HeaderSignature, show(d.Header.Get(webhook.HeaderSignature))).AtAttempt(d.Attempt)
}
