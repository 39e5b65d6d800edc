package scenarios

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"wopcert/harness"
	"wopcert/harness/receiver"
	"wopcert/harness/webhook"
	"wopcert/requirements"
)

// webhookStandard: webhooks.md, "Standard Webhooks".
func webhookStandard() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-webhook-standard-webhooks-delivery",
		Title:    "Standard Webhooks signatures for the subscriptions that ask for them, and for no others",
		Document: "webhooks.md",
		Section:  "Standard Webhooks",
		Gates:    hookGates(),
		Tests: []harness.Test{
			{Name: "registrations that opt in", Witnesses: []requirements.ID{requirements.R0201RegistrationValidated}, Gates: []harness.Gate{listsStandard()}, Run: optInValidated},
			{Name: "deliveries to a subscription that opted in", Witnesses: []requirements.ID{requirements.R0201DeliverySigned}, Gates: []harness.Gate{listsStandard()}, Run: func(t *harness.T) {
				h := subscribe(t, hookEndpoint(t, nil), standardBody(t.StandardSecret(0), runStart, runEnd))
				defer h.drop()
				id := startRun(t, noopRun(t))
				for _, d := range h.need(id, runStart, runEnd) {
					t.Expect(requirements.R0201DeliverySigned, harness.All(fiveHeaders(d, h.id), signedV1(d, h.secret)))
					t.Expect(requirements.R0201DeliverySigned, signedStandard(d.Attempt, h.secret))
					t.Expect(requirements.R0201DeliverySigned, harness.That(d.Header.Get(webhook.StandardTimestamp) == d.Header.Get(webhook.HeaderTimestamp),
						"webhook-timestamp as "+webhook.HeaderTimestamp, "%s and %s", show(d.Header.Get(webhook.StandardTimestamp)), show(d.Header.Get(webhook.HeaderTimestamp))).AtAttempt(d.Attempt))
				}
			}},
			{Name: "subscriptions that did not opt in", Witnesses: []requirements.ID{requirements.R0201OptInOnly}, Gates: []harness.Gate{listsStandard()}, Run: optInOnly},
			{Name: "an opt-in on a host without the scheme", Witnesses: []requirements.ID{requirements.WebhooksStandardUnadvertised},
				Gates: []harness.Gate{harness.HostFact("webhooks.signatureAlgorithms lists "+standardWebhooks, func(d *harness.Discovery) bool { return !standardListed(d) })},
				Run: func(t *harness.T) {
					at := hookEndpoint(t, nil)
					subscribe(t, at, hookBody(t.StandardSecret(0), runEnd)).drop()
					t.Expect(requirements.WebhooksStandardUnadvertised, refusedOptIn(t, at, "an opt-in", standardBody(t.StandardSecret(0), runEnd)))
				}},
		},
	}
}

// encodedSecret is a fresh secret in the form of Standard Webhooks, of a
// number of bytes. It is for registrations that are refused.
func encodedSecret(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails (crypto/rand)
	return "whsec_" + base64.StdEncoding.EncodeToString(b)
}

func refusedOptIn(t *harness.T, at *receiver.Endpoint, what string, body object) harness.Check {
	r := registerHook(t, harness.Primary, at.URL(), body)
	if made := r.Text("webhookId"); made != "" {
		unregister(t, projectID(made))
	}
	check := r.Refuses("validation_error")
	check.Expected += " for " + what
	return check
}

func optInValidated(t *harness.T) {
	at := hookEndpoint(t, nil)
	valid := standardBody(t.StandardSecret(0), runEnd)
	for _, body := range []object{valid, with(hookBody(t.SigningSecret(0), runEnd), "signatureAlgorithms", []string{"v1"}),
		with(valid, "secret", encodedSecret(24)), with(valid, "secret", encodedSecret(64))} {
		h := subscribe(t, at, body)
		h.drop()
		asked, _ := body["signatureAlgorithms"].([]string)
		applied, _ := stringList(h.response.Get("signatureAlgorithms"))
		t.Expect(requirements.R0201RegistrationValidated, harness.That(slices.Equal(slices.Sorted(slices.Values(applied)), slices.Sorted(slices.Values(asked))),
			"the applied list "+strings.Join(asked, ", ")+" in the 201", "%s", show(h.response.Get("signatureAlgorithms"))).At(h.response))
	}
	listed := func(ids ...string) object { return with(valid, "signatureAlgorithms", ids) }
	for what, body := range map[string]object{
		"a list without v1":          listed(standardWebhooks),
		"an empty list":              listed([]string{}...),
		"a list with v1 twice":       listed("v1", standardWebhooks, "v1"),
		"an id that is not listed":   listed("v1", standardWebhooks, "wopcert-none"),
		"no secret":                  with(hookBody("", runEnd), "signatureAlgorithms", []string{"v1", standardWebhooks}),
		"a secret of another form":   with(valid, "secret", t.SigningSecret(0)),
		"a secret of 8 bytes":        with(valid, "secret", encodedSecret(8)),
		"a secret of 23 bytes":       with(valid, "secret", encodedSecret(23)),
		"a secret of 65 bytes":       with(valid, "secret", encodedSecret(65)),
		"a secret that is no base64": with(valid, "secret", "whsec_"+strings.Repeat("!?", 24)),
	} {
		t.Expect(requirements.R0201RegistrationValidated, refusedOptIn(t, at, what, body))
	}
}

// messageID is the grammar of webhook-id.
var messageID = regexp.MustCompile(`^[A-Za-z0-9_-]{16,128}$`)

// signedStandard checks the headers of Standard Webhooks under a secret, and
// that the id is among what is signed.
func signedStandard(a receiver.Attempt, secret string) harness.Check {
	id := a.Header.Get(webhook.StandardID)
	err := webhook.VerifyStandard(a.Header, a.Body, secret, a.At)
	other := a.Header.Clone()
	other.Set(webhook.StandardID, "wopcert_"+newOpaque())
	return harness.All(
		harness.That(messageID.MatchString(id), "webhook-id of 16 to 128 characters of A-Z a-z 0-9 _ -", "webhook-id %s", show(id)),
		harness.That(err == nil, "a webhook-signature that verifies under the secret", "%v: %s", err, show(a.Header.Get(webhook.StandardSignature))),
		harness.That(webhook.VerifyStandard(other, a.Body, secret, a.At) != nil, "a webhook-signature over the id", "one that verifies with another id"),
	).AtAttempt(a)
}

func optInOnly(t *harness.T) {
	bodies := []object{hookBody(t.SigningSecret(0), runStart, runEnd),
		with(hookBody(t.StandardSecret(0), runStart, runEnd), "signatureAlgorithms", []string{"v1"})}
	var hooks []*hook
	for _, body := range bodies {
		at := t.Endpoint(nil) // answers no challenge
		r := registerHook(t, harness.Primary, at.URL(), body)
		h := &hook{t: t, id: r.Text("webhookId"), at: at, response: r}
		if !t.Expect(requirements.R0201OptInOnly, harness.That(r.Is(http.StatusCreated).OK && h.id != "", "201 for an endpoint that answers no challenge and did not opt in", "%s", answered(r)).At(r)) {
			return
		}
		defer h.drop()
		hooks = append(hooks, h)
		t.Expect(requirements.R0201OptInOnly, harness.That(h.at.Count() == 0, "no request to an endpoint that did not opt in before its first event", "%d", h.at.Count()))
	}
	id := startRun(t, noopRun(t))
	for _, h := range hooks {
		h.need(id, runStart, runEnd)
		for _, a := range h.at.Attempts() {
			_, verification := challengeOf(a)
			found := []string{}
			for _, name := range []string{webhook.StandardID, webhook.StandardTimestamp, webhook.StandardSignature} {
				if len(a.Header.Values(name)) > 0 {
					found = append(found, name)
				}
			}
			t.Expect(requirements.R0201OptInOnly, harness.All(
				harness.That(!verification, "no verification request", "one"), none("header of Standard Webhooks", found)).AtAttempt(a))
		}
	}
}

// webhookVerification: webhooks.md, "Standard Webhooks", "Endpoint
// verification".
func webhookVerification() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-webhook-endpoint-verification",
		Title:    "Nobody is sent Standard Webhooks who did not ask for them",
		Document: "webhooks.md",
		Section:  "Standard Webhooks",
		Gates:    hookGates(listsStandard()),
		Tests: []harness.Test{
			{Name: "endpoints that do and do not answer the challenge", Witnesses: []requirements.ID{requirements.R0201EndpointVerification}, Run: verifiesEndpoints},
			{Name: "an endpoint that consents too late", Witnesses: []requirements.ID{requirements.R0201EndpointVerification}, Slow: consentDelay, Run: consentsLate},
			{Name: "the verification request", Witnesses: []requirements.ID{requirements.WebhooksVerificationRequest}, Run: verificationRequest},
			{Name: "a verification that is redirected", Witnesses: []requirements.ID{requirements.WebhooksVerificationRedirect}, Run: func(t *harness.T) {
				to := hookEndpoint(t, nil)
				for _, status := range []int{302, 307, 308} {
					r := registerHook(t, harness.Primary, t.Endpoint(receiver.Redirect(status, to.URL())).URL(), standardBody(t.StandardSecret(0), runEnd))
					if made := r.Text("webhookId"); made != "" {
						unregister(t, projectID(made))
					}
					t.Expect(requirements.WebhooksVerificationRedirect, r.Refuses("webhook_endpoint_unverified"))
				}
				t.Expect(requirements.WebhooksVerificationRedirect, harness.That(to.Count() == 0, "no request at the address redirected to", "%d", to.Count()))
			}},
		},
	}
}

// badAnswers are answers to a verification request that consent to nothing.
func badAnswers() map[string]receiver.Script {
	wrap := func(f func(challenge string) receiver.Answer) receiver.Script {
		return func(a receiver.Attempt) receiver.Answer {
			challenge, ok := challengeOf(a)
			if !ok {
				return receiver.Answer{Status: http.StatusNoContent}
			}
			return f(challenge)
		}
	}
	answer := func(status int, body string) receiver.Answer {
		a := receiver.JSON([]byte(body))
		a.Status = status
		return a
	}
	return map[string]receiver.Script{
		"an empty 204":                            receiver.Always(http.StatusNoContent),
		"an object without it":                    wrap(func(string) receiver.Answer { return answer(200, `{}`) }),
		"another challenge":                       wrap(func(c string) receiver.Answer { return answer(200, `{"challenge":"x`+c+`"}`) }),
		"the challenge in a text that is no JSON": wrap(func(c string) receiver.Answer { return answer(200, c) }),
		"the challenge with a 500":                wrap(func(c string) receiver.Answer { return answer(500, `{"challenge":"`+c+`"}`) }),
		"the challenge with a 400":                wrap(func(c string) receiver.Answer { return answer(400, `{"challenge":"`+c+`"}`) }),
		"no answer at all":                        func(receiver.Attempt) receiver.Answer { return receiver.Answer{HangUp: true} },
	}
}

func verifiesEndpoints(t *harness.T) {
	secret := t.StandardSecret(0)
	willing := map[string]receiver.Script{"200": echo(nil), "another 2xx": func(a receiver.Attempt) receiver.Answer {
		answer := echo(nil)(a)
		if _, ok := challengeOf(a); ok {
			answer.Status = http.StatusAccepted
		}
		return answer
	}}
	var accepted []*hook
	for what, script := range willing {
		at := t.Endpoint(script)
		r := registerHook(t, harness.Primary, at.URL(), standardBody(secret, runEnd))
		h := &hook{t: t, id: r.Text("webhookId"), secret: secret, at: at, response: r}
		if !t.Expect(requirements.R0201EndpointVerification, harness.That(r.Is(http.StatusCreated).OK && h.id != "", "201 for an endpoint that answers the challenge with "+what, "%s", answered(r)).At(r)) {
			continue
		}
		defer h.drop()
		verified := 0
		for _, a := range at.Attempts() { // as of now: before the 201 was answered
			if _, ok := challengeOf(a); ok {
				verified++
			}
		}
		t.Expect(requirements.R0201EndpointVerification, harness.That(verified > 0, "a verification request before the 201", "none").At(r))
		accepted = append(accepted, h)
	}
	refused := map[string]*receiver.Endpoint{}
	for what, script := range badAnswers() {
		at := t.Endpoint(script)
		r := registerHook(t, harness.Primary, at.URL(), standardBody(secret, runEnd))
		check := r.Refuses("webhook_endpoint_unverified")
		check.Expected += " for " + what
		if made := r.Text("webhookId"); made != "" {
			defer unregister(t, projectID(made))
		}
		if t.Expect(requirements.R0201EndpointVerification, check) {
			refused[what] = at
		}
	}
	if len(accepted) == 0 {
		return
	}
	run := startRun(t, noopRun(t))
	accepted[0].need(run, runEnd)
	pause(t, quiet)
	for what, at := range refused {
		t.Expect(requirements.R0201EndpointVerification, none("delivery to an endpoint that answered "+what, labels(deliveriesOf(at.Attempts(), run))))
	}
}

// consentDelay is how late an endpoint answers that has ten seconds for it.
const consentDelay = 11 * time.Second

func consentsLate(t *harness.T) {
	if end, ok := t.Context().Deadline(); ok && time.Until(end) < consentDelay+5*time.Second {
		t.Inapplicable(requirements.R0201EndpointVerification, "a consent after 10 s is not waited for in a test of %s; --timeout gives more", time.Until(end).Round(time.Second))
		return
	}
	at := t.Endpoint(func(a receiver.Attempt) receiver.Answer {
		answer := echo(nil)(a)
		answer.Delay = consentDelay
		return answer
	})
	r := registerHook(t, harness.Primary, at.URL(), standardBody(t.StandardSecret(0), runEnd))
	if made := r.Text("webhookId"); made != "" {
		defer unregister(t, projectID(made))
	}
	check := r.Refuses("webhook_endpoint_unverified")
	check.Expected += " for a consent that comes after " + consentDelay.String()
	t.Expect(requirements.R0201EndpointVerification, check)
}

func verificationRequest(t *harness.T) {
	secret := t.StandardSecret(1)
	taken := map[string]bool{}
	for _, script := range []receiver.Script{echo(nil), echo(nil), receiver.Always(http.StatusInternalServerError)} {
		at := t.Endpoint(script)
		r := registerHook(t, harness.Primary, at.URL(), standardBody(secret, runEnd))
		if made := r.Text("webhookId"); made != "" {
			defer unregister(t, projectID(made))
		}
		var requests []receiver.Attempt
		for _, a := range at.Attempts() {
			if readDelivery(a).event == nil {
				requests = append(requests, a)
			}
		}
		if len(requests) == 0 {
			t.Abort("no verification request to observe: the registration was answered %s without one", answered(r))
		}
		t.Expect(requirements.WebhooksVerificationRequest, harness.That(len(requests) == 1, "one verification request for a registration", "%d", len(requests)).At(r))
		a := requests[0]
		why := violation(t.Corpus().ValidateValue("webhook-verification", readDelivery(a).body))
		t.Expect(requirements.WebhooksVerificationRequest, harness.All(
			harness.That(a.Method == http.MethodPost && why == "", "a POST whose body is valid against webhook-verification", "%s: %s", a.Method, why),
			harness.That(strings.HasPrefix(a.Header.Get("Content-Type"), "application/json"), "Content-Type: application/json", "%s", show(a.Header.Get("Content-Type"))),
			signedStandard(a, secret),
			harness.That(a.Header.Get(webhook.HeaderType) == "" && a.Header.Get(webhook.V1Name(webhook.HeaderType)) == "", "no "+webhook.HeaderType, "%s", show(a.Header.Get(webhook.HeaderType))),
		).AtAttempt(a))
		challenge, _ := challengeOf(a)
		t.Expect(requirements.WebhooksVerificationRequest, harness.That(!taken[challenge], "a challenge that was not sent before", "the same one").AtAttempt(a))
		taken[challenge] = true
	}
}

// webhookMessageID: webhooks.md, "Standard Webhooks", "Delivery".
func webhookMessageID() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-webhook-message-id-stable",
		Title:    "A message keeps its id however often it is tried, and shares it with no other",
		Document: "webhooks.md",
		Section:  "Standard Webhooks",
		Gates:    hookGates(listsStandard(), retries()),
		Tests:    []harness.Test{{Name: "ids over attempts, events and subscriptions", Witnesses: []requirements.ID{requirements.R0201MessageIdStable}, Run: messageIDs}},
	}
}

func messageIDs(t *harness.T) {
	most, _, _ := retryPolicy(t)
	wanted := 3
	if most > 0 {
		wanted = int(min(most, 3))
	}
	var hooks []*hook
	for i := range 2 {
		h := subscribe(t, hookEndpoint(t, failFirst(wanted-1, http.StatusInternalServerError)), standardBody(t.StandardSecret(i), runStart, runEnd))
		defer h.drop()
		hooks = append(hooks, h)
	}
	run := startRun(t, noopRun(t))
	owner := map[string]string{}
	for i, h := range hooks {
		h.need(run, runStart, runEnd)
		all, ok := h.awaitThat(run, func(all []delivery) bool {
			return len(ofDelivered(all, runStart)) >= wanted && len(ofDelivered(all, runEnd)) >= wanted
		})
		if !ok {
			t.Abort("no retries to observe: %d attempts at two events came in the time given", len(all))
		}
		for key, chain := range attemptsByKey(all) {
			first := chain[0].Header.Get(webhook.StandardID)
			for _, d := range chain {
				got := d.Header.Get(webhook.StandardID)
				t.Expect(requirements.R0201MessageIdStable, harness.That(got != "" && got == first, "the webhook-id of the first attempt, "+show(first), "%s has %s", d.label(), show(got)).AtAttempt(d.Attempt))
			}
			mine := fmt.Sprintf("subscription %d, %s", i+1, key)
			other, used := owner[first]
			t.Expect(requirements.R0201MessageIdStable, harness.That(!used, "a webhook-id that no other delivery has", "%s and %s have %s", other, mine, show(first)).AtAttempt(chain[0].Attempt))
			owner[first] = mine
		}
	}
}
