package scenarios

import (
	"context"
	"net/http"
	"slices"
	"time"

	"wopcert/harness"
	"wopcert/harness/receiver"
	"wopcert/requirements"
)

// callbackURLGuarded covers where a callback may lead (interrupt.md, "Callback
// delivery").
func callbackURLGuarded() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-callback-url-guarded",
		Title:    "No callback leads into the host's own network",
		Document: "interrupt.md", Section: "Callback delivery",
		Gates: []harness.Gate{interruptFamily(), delivers(), endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "addresses that are not public, or not https",
				Witnesses: []requirements.ID{requirements.R0196CallbackUrlGuarded},
				Run:       callbackGuarded,
			},
		},
	}
}

// guardedURLs are addresses that the registration guard of webhooks.md refuses.
func guardedURLs() []string {
	return []string{
		"http://wopcert.example/callback", "https://localhost/callback", "https://127.0.0.1/callback", "https://127.8.9.10:8443/callback", "https://[::1]/callback",
		"https://LOCALHOST:8443/callback", "https://localhost./callback", "https://[0:0:0:0:0:0:0:1]/callback",
		"https://10.0.0.1/callback", "https://10.255.255.254/callback", "https://172.16.0.1/callback", "https://172.31.255.254/callback",
		"https://192.168.0.1/callback", "https://169.254.0.1/callback", "https://169.254.169.254/latest/meta-data",
		"https://metadata.google.internal/computeMetadata", "https://METADATA.google.internal./callback",
		"https://[::ffff:127.0.0.1]/callback", "https://[::ffff:7f00:1]/callback", "https://[::ffff:a9fe:a9fe]/callback", "https://[::ffff:10.0.0.1]/callback",
		"https://[0000:0000:0000:0000:0000:ffff:c0a8:0001]/callback", "https://[fe80::1]/callback", "https://[febf::1]/callback",
		"https://[fd00::1]/callback", "https://[fc00::1]/callback",
	}
}

// callbackGuarded uses a workflow that never waits, so that nothing is
// delivered anywhere.
func callbackGuarded(t *harness.T) {
	control(t, harness.Primary, endingBody(t))
	accepted, last := false, (*harness.Response)(nil)
	for _, public := range []string{"https://example.com/callback", "https://93.184.215.14/callback", "https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/callback"} {
		if last = create(t, with(endingBody(t), "callbackUrl", public)); last.Is(http.StatusCreated).OK {
			accepted = true
			break
		}
	}
	if !accepted {
		t.Abort("no public callbackUrl is accepted either, so that a refusal shows nothing: %s", answered(last))
	}
	body, tag := tagged(endingBody(t))
	guarded := guardedURLs()
	answers := atOnce(len(guarded), func(i int) *harness.Response { return create(t, with(body, "callbackUrl", guarded[i])) })
	notLimited(t, answers)
	for i, r := range answers {
		check := harness.All(r.Refuses("validation_error"), harness.Equal("details.field", any("callbackUrl"), r.Get("details", "field"))).At(r)
		check.Observed = guarded[i] + " was answered " + check.Observed
		t.Expect(requirements.R0196CallbackUrlGuarded, check)
	}
	if !slices.ContainsFunc(answers, succeeded) {
		t.Expect(requirements.R0196CallbackUrlGuarded, noRunTagged(t, harness.Primary, tag))
	}
}

// interruptCallback covers the delivery itself (interrupt.md, "Callback
// delivery").
func interruptCallback() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-interrupt-callback",
		Title:    "A host that says it calls back does, and goes nowhere else",
		Document: "interrupt.md", Section: "Callback delivery",
		Gates: []harness.Gate{interruptFamily()},
		Tests: []harness.Test{
			{
				Name:      "the notice of an interrupt",
				Witnesses: []requirements.ID{requirements.InterruptCallbackDelivered},
				Gates:     []harness.Gate{delivers(), harness.NeedsFixture(approves), harness.NeedsReceiver()},
				Run:       callbackDelivered,
			},
			{
				Name:      "a callback that is redirected",
				Witnesses: []requirements.ID{requirements.InterruptCallbackNoRedirect},
				Gates:     []harness.Gate{delivers(), harness.NeedsFixture(approves), harness.NeedsReceiver()},
				Slow:      time.Second,
				Run:       callbackNotRedirected,
			},
			{
				Name:      "a callbackUrl at a host that calls nobody",
				Witnesses: []requirements.ID{requirements.InterruptCallbackUnadvertisedRefused},
				Gates: []harness.Gate{harness.HostFact("the host advertises interrupt.callbackDelivery", func(d *harness.Discovery) bool {
					v, _ := d.Facet("interrupt", "callbackDelivery")
					return v != true
				}), endingFixtures()},
				Run: func(t *harness.T) {
					control(t, harness.Primary, endingBody(t))
					r := create(t, with(endingBody(t), "callbackUrl", "https://example.com/callback"))
					t.Should(requirements.InterruptCallbackUnadvertisedRefused, harness.All(r.Refuses("validation_error"),
						harness.Equal("details.field", any("callbackUrl"), r.Get("details", "field"))).At(r))
				},
			},
		},
	}
}

func callbackDelivered(t *harness.T) {
	e := t.Endpoint(nil)
	p := suspend(t, with(object{"workflowId": approves}, "callbackUrl", e.URL()))
	defer endRun(t, p.run)
	tokens := awaitTokens(t, e, noticeWait)
	n := notice{pending: p, endpoint: e, tokens: tokens}
	tok, ok := n.resolver()
	if !t.Expect(requirements.InterruptCallbackDelivered, harness.That(ok, "a callback with a token for the interrupt", "%d callbacks within %s and %d tokens in them",
		e.Count(), noticeWait, len(tokens))) {
		return
	}
	r := resolveBy(t, tok.raw, decide("accept"))
	if t.Expect(requirements.InterruptCallbackDelivered, harness.That(succeeded(r), "2xx for a resolve with the token of the notice", "%s", answered(r)).At(r)) {
		t.Expect(requirements.InterruptCallbackDelivered, endsCompleted(t, p))
	}
}

// callbackNotRedirected answers callbacks with redirects to an endpoint of its
// own. A client that follows does so at once, so that a short look is enough.
func callbackNotRedirected(t *harness.T) {
	target := t.Endpoint(nil)
	var from []*receiver.Endpoint
	for _, status := range []int{http.StatusTemporaryRedirect, http.StatusFound, http.StatusPermanentRedirect} {
		e := t.Endpoint(receiver.Redirect(status, target.URL()+"/followed"))
		p := suspend(t, with(object{"workflowId": approves}, "callbackUrl", e.URL()))
		defer endRun(t, p.run)
		from = append(from, e)
	}
	for _, e := range from {
		if !wasCalled(t, e, noticeWait) {
			t.Abort("no callback to redirect: none came within %s", noticeWait)
		}
	}
	followed := wasCalled(t, target, time.Second)
	check := harness.That(!followed, "no request to where a redirect leads", "%d requests", target.Count())
	if all := target.Attempts(); followed && len(all) > 0 {
		check = check.AtAttempt(all[0])
	}
	t.Expect(requirements.InterruptCallbackNoRedirect, check)
}

// wasCalled waits until an endpoint was called.
func wasCalled(t *harness.T, e *receiver.Endpoint, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	_, ok := e.Wait(ctx, 1)
	return ok
}
