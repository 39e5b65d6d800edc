package scenarios

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"wopcert/harness"
	"wopcert/harness/webhook"
	"wopcert/requirements"
	"wopcert/seams"
)

// webhookV1Accepted: webhooks.md, "Dual emission through the overlap" and
// "Surfaces". The first is about the host as a subscriber, which only a seam
// shows.
func webhookV1Accepted() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-v1-signed-webhook-accepted",
		Title:    "A delivery signed by a host of version 1 is taken for what it is",
		Document: "webhooks.md",
		Section:  "Dual emission through the overlap",
		Gates:    []harness.Gate{harness.Advertises("webhooks")},
		Tests: []harness.Test{
			{Name: "deliveries with the headers of version 1", Witnesses: []requirements.ID{requirements.R0176V1SignedWebhookAccepted}, Gates: []harness.Gate{harness.NeedsSeams()}, Run: v1Accepted},
			{Name: "the signature algorithms of the host", Public: true, Witnesses: []requirements.ID{requirements.R0176V1SignedWebhookAcceptedFacet}, Run: func(t *harness.T) {
				facet, _ := t.Host().Discovery.Facet("webhooks", "signatureAlgorithms")
				ids, _ := stringList(facet)
				t.Expect(requirements.R0176V1SignedWebhookAcceptedFacet, harness.That(slices.Contains(ids, "v1"), "webhooks.signatureAlgorithms with v1", "%s", show(facet)))
			}},
		},
	}
}

// signedDelivery is a delivery as a host of version 1 signs it: its body, and
// the headers by their names without a prefix.
type signedDelivery struct {
	secret, body string
	at           time.Time
	headers      map[string]string // by the names of version 2
}

func newSignedDelivery(t *harness.T) signedDelivery {
	run := "wopcert/" + newOpaque()
	body := `{"runId":"` + run + `","workspaceId":"w-1","event":{"eventId":"` + newOpaque() + `","runId":"` + run +
		`","type":"run.completed","payload":{},"timestamp":"2026-01-02T03:04:05.000Z","sequence":7,"schemaVersion":1}}`
	d := signedDelivery{secret: t.SigningSecret(0), body: body, at: time.Now()}
	d.sign()
	return d
}

func (d *signedDelivery) sign() {
	timestamp := strconv.FormatInt(d.at.Unix(), 10)
	d.headers = map[string]string{
		webhook.HeaderID: "wopcert/subscription-of-the-suite", webhook.HeaderType: "run.completed", webhook.HeaderTimestamp: timestamp,
		webhook.HeaderSignature: webhook.Sign(d.secret, timestamp, []byte(d.body)), webhook.HeaderAlgorithm: "v1",
	}
}

// receive hands a delivery to the host, its headers renamed.
func receive(t *harness.T, d signedDelivery, name func(string) string) *harness.Response {
	headers := map[string]string{}
	for k, v := range d.headers {
		headers[name(k)] = v
	}
	return t.Seam(seams.ReceiveWebhook(d.secret, headers, d.body))
}

func v1Accepted(t *harness.T) {
	same := func(s string) string { return s }
	verdict := func(what string, r *harness.Response, want bool) harness.Check {
		return harness.All(r.Is(http.StatusOK), r.Valid("seams#/$defs/verdict"), harness.Equal("accepted for "+what, any(want), r.Get("accepted")).At(r))
	}
	good := newSignedDelivery(t)
	t.Expect(requirements.R0176V1SignedWebhookAccepted, verdict("the headers of version 1 alone", receive(t, good, webhook.V1Name), true))
	t.Expect(requirements.R0176V1SignedWebhookAccepted, verdict("the same headers in lower case", receive(t, good, func(s string) string { return strings.ToLower(webhook.V1Name(s)) }), true))
	t.Expect(requirements.R0176V1SignedWebhookAccepted, verdict("the headers of version 2", receive(t, good, same), true))
	for what, change := range map[string]func(*signedDelivery){
		"a body with one byte changed":  func(d *signedDelivery) { d.body = strings.Replace(d.body, `"sequence":7`, `"sequence":8`, 1) },
		"a body with a space after it":  func(d *signedDelivery) { d.body += " " },
		"a signature under another key": func(d *signedDelivery) { d.secret = t.SigningSecret(1); d.sign(); d.secret = t.SigningSecret(0) },
		"a time six minutes ago":        func(d *signedDelivery) { d.at = d.at.Add(-6 * time.Minute); d.sign() },
		"a time six minutes ahead":      func(d *signedDelivery) { d.at = d.at.Add(6 * time.Minute); d.sign() },
		"another time than the one signed": func(d *signedDelivery) {
			d.headers[webhook.HeaderTimestamp] = strconv.FormatInt(d.at.Add(-time.Second).Unix(), 10)
		},
		"an algorithm nobody knows": func(d *signedDelivery) { d.headers[webhook.HeaderAlgorithm] = "v9" },
		"no signature":              func(d *signedDelivery) { delete(d.headers, webhook.HeaderSignature) },
	} {
		d := newSignedDelivery(t)
		change(&d)
		t.Expect(requirements.R0176V1SignedWebhookAccepted, verdict(what, receive(t, d, webhook.V1Name), false))
	}
}
