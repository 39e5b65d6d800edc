package scenarios

import (
	"net/http"
	"strings"
	"time"

	"wopcert/harness"
	"wopcert/harness/receiver"
	"wopcert/harness/webhook"
	"wopcert/requirements"
)

// webhookRotation: webhooks.md, "Standard Webhooks", "Rotation".
func webhookRotation() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-webhook-secret-rotation",
		Title:    "A secret is changed without a delivery that nobody can verify",
		Document: "webhooks.md",
		Section:  "Standard Webhooks",
		Gates:    hookGates(listsStandard(), harness.AdvertisesFacet("webhooks", "secretRotation")),
		Tests: []harness.Test{
			{Name: "deliveries after a rotation", Witnesses: []requirements.ID{requirements.R0201SecretRotation}, Run: rotationOverlaps},
			{Name: "the answer to a rotation", Witnesses: []requirements.ID{requirements.WebhooksRotationResponse}, Run: func(t *harness.T) {
				h := subscribe(t, hookEndpoint(t, nil), standardBody(t.StandardSecret(0), runEnd))
				defer h.drop()
				r := rotate(t, harness.Primary, h, t.StandardSecret(1))
				from, to := timeOf(r.Get("rotatedAt")), timeOf(r.Get("previousSecretExpiresAt"))
				off := to.Sub(from.Add(overlapOf(t))).Abs()
				t.Expect(requirements.WebhooksRotationResponse, harness.All(r.Is(http.StatusOK), r.Valid("webhook-rotated"),
					harness.That(off <= time.Second, "previousSecretExpiresAt overlapSeconds after rotatedAt", "%s and %s", show(r.Get("previousSecretExpiresAt")), show(r.Get("rotatedAt"))).At(r),
					carriesNothing(t, "the answer", headerText(r.Header)+string(r.Body)).At(r)))
			}},
			{Name: "two rotations in one overlap", Witnesses: []requirements.ID{requirements.WebhooksRotationTwice}, Run: rotationTwice},
			{Name: "rotations that are refused", Witnesses: []requirements.ID{requirements.WebhooksRotationRefused},
				Gates: []harness.Gate{harness.NeedsCredential(harness.OtherTenant)}, Run: rotationRefused},
		},
	}
}

func overlapOf(t *harness.T) time.Duration {
	v, _ := t.Host().Discovery.Facet("webhooks", "secretRotation", "overlapSeconds")
	n, _ := integer(v)
	return time.Duration(n) * time.Second
}

func rotate(t *harness.T, as harness.Identity, h *hook, secret string) *harness.Response {
	return t.Do(harness.Request{Method: http.MethodPost, Path: h.path("/rotate-secret"), As: as, Body: object{"secret": secret},
		Header: headerOf("Idempotency-Key", newIdempotencyKey())})
}

// rotated is a subscription whose secrets were replaced, one after the other.
// The test ends where a rotation does not work.
func rotated(t *harness.T, secrets ...string) (*hook, *harness.Response) {
	h := subscribe(t, hookEndpoint(t, nil), standardBody(secrets[0], runEnd))
	var last *harness.Response
	for _, secret := range secrets[1:] {
		if last = rotate(t, harness.Primary, h, secret); !last.Is(http.StatusOK).OK {
			h.drop()
			t.Abort("no rotation to observe: rotateWebhookSecret was answered %s", answered(last))
		}
	}
	return h, last
}

// entriesUnder checks that webhook-signature has one entry under each of the
// secrets and no further one.
func entriesUnder(a receiver.Attempt, secrets ...string) harness.Check {
	entries := strings.Fields(a.Header.Get(webhook.StandardSignature))
	checks := []harness.Check{harness.That(len(entries) == len(secrets), decimal(int64(len(secrets)))+" entries of webhook-signature", "%d", len(entries))}
	for i, secret := range secrets {
		n := 0
		for _, entry := range entries {
			only := a.Header.Clone()
			only.Set(webhook.StandardSignature, entry)
			if webhook.VerifyStandard(only, a.Body, secret, a.At) == nil {
				n++
			}
		}
		checks = append(checks, harness.That(n == 1, "one entry under secret "+decimal(int64(i+1))+" of "+decimal(int64(len(secrets))), "%d", n))
	}
	return harness.All(checks...).AtAttempt(a)
}

func rotationOverlaps(t *harness.T) {
	older, newer := t.StandardSecret(0), t.StandardSecret(1)
	h, r := rotated(t, older, newer)
	defer h.drop()
	until := timeOf(r.Get("previousSecretExpiresAt"))
	run := startRun(t, noopRun(t))
	for _, d := range h.need(run, runEnd) {
		if until.Before(d.At.Add(-time.Minute)) {
			t.Abort("the overlap ended at %s, before the first delivery", until)
		}
		t.Expect(requirements.R0201SecretRotation, entriesUnder(d.Attempt, newer, older))
		t.Expect(requirements.R0201SecretRotation, signedV1(d, older))
	}
	overlap := overlapOf(t)
	end, _ := t.Context().Deadline()
	if left := time.Until(end); overlap+15*time.Second > left {
		t.Inapplicable(requirements.R0201SecretRotation, "the overlap of %s outlasts the %s a test has left, so what signs afterwards is not waited for; --timeout gives more", overlap, left.Round(time.Second))
		return
	}
	pause(t, overlap+2*time.Second)
	run = startRun(t, noopRun(t))
	for _, d := range h.need(run, runEnd) {
		t.Expect(requirements.R0201SecretRotation, entriesUnder(d.Attempt, newer))
		t.Expect(requirements.R0201SecretRotation, signedV1(d, newer))
	}
}

func rotationTwice(t *harness.T) {
	h, _ := rotated(t, t.StandardSecret(0), t.StandardSecret(1), t.StandardSecret(2))
	defer h.drop()
	run := startRun(t, noopRun(t))
	for _, d := range h.need(run, runEnd) {
		t.Expect(requirements.WebhooksRotationTwice, entriesUnder(d.Attempt, t.StandardSecret(2), t.StandardSecret(1)))
	}
}

func rotationRefused(t *harness.T) {
	h, _ := rotated(t, t.StandardSecret(0), t.StandardSecret(1))
	defer h.drop()
	plain := subscribe(t, hookEndpoint(t, nil), hookBody(t.StandardSecret(2), runEnd))
	defer plain.drop()
	unknown := &hook{t: t, id: tenantSegment(h.id) + "/" + newOpaque()}
	t.Expect(requirements.WebhooksRotationRefused, rotate(t, harness.OtherTenant, h, t.StandardSecret(3)).Refuses("id_tenant_mismatch"))
	t.Expect(requirements.WebhooksRotationRefused, rotate(t, harness.OtherTenant, unknown, t.StandardSecret(3)).Refuses("id_tenant_mismatch"))
	t.Expect(requirements.WebhooksRotationRefused, rotate(t, harness.Primary, unknown, t.StandardSecret(3)).Refuses("not_found"))
	t.Expect(requirements.WebhooksRotationRefused, rotate(t, harness.Primary, plain, t.StandardSecret(3)).Refuses("validation_error"))
	for _, secret := range []string{t.SigningSecret(0), encodedSecret(8), encodedSecret(23), encodedSecret(65)} {
		t.Expect(requirements.WebhooksRotationRefused, rotate(t, harness.Primary, h, secret).Refuses("validation_error"))
	}
}
