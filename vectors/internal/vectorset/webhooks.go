package vectorset

import (
	"encoding/base64"
	"maps"
)

// WebhookFile is webhooks/cases.json.
type WebhookFile struct {
	Description string        `json:"description"`
	Cases       []WebhookCase `json:"cases"`
}

// WebhookCase is a delivery as it arrives, and what a subscriber has to say.
type WebhookCase struct {
	ID          string            `json:"id"`
	Description string            `json:"description"`
	Scheme      string            `json:"scheme"` // v1 or standard-webhooks-1
	Secret      string            `json:"secret"`
	Now         int64             `json:"now"` // the subscriber's clock, Unix seconds
	Headers     map[string]string `json:"headers"`
	BodyBase64  string            `json:"bodyBase64"`
	Accepted    bool              `json:"accepted"`
	Reason      string            `json:"reason,omitempty"` // of a refusal
}

// What the cases are about. The signatures were computed with another
// implementation of HMAC-SHA256 than the one the suite uses.
const (
	hookSecret      = "TEST-ONLY wopcert v1 signing secret"
	hookStandard    = "whsec_VEVTVC1PTkxZLXN0YW5kYXJkLXdlYmhvb2tzLWtleTE="
	hookNext        = "whsec_VEVTVC1PTkxZLXN0YW5kYXJkLXdlYmhvb2tzLWtleTI="
	hookTime        = "1767323045"
	hookNow         = 1767323045
	hookMessage     = "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W"
	hookSignature   = "sha256=62acc5a654374ebde8c21a917b07fcec6cf08893fea24f11cc7cb4339e582532"
	hookUpper       = "sha256=62ACC5A654374EBDE8C21A917B07FCEC6CF08893FEA24F11CC7CB4339E582532"
	hookEntry       = "v1,hZPzXSjAWdWdR2ArCVvAg9gjhtslTP1Bu6a3Hcuwxyw="
	hookNextEntry   = "v1,3XnyYP3PKNGv3n1tcsnYmYwfScutVA+9XPnSXu9NaQE="
	hookStandardV1  = "sha256=5fe997b4bff6899219bafa003a1c355002f9a0213ae14413807fe7786069012e"
	hookBody        = `{"runId":"acme/0123456789abcdef","event":{"eventId":"0123456789abcdef","runId":"acme/0123456789abcdef","type":"run.completed","payload":{"outputs":{"text":"grün <&>"}},"timestamp":"2026-01-02T03:04:05.000Z","sequence":7,"schemaVersion":3}}`
	hookSpaced      = "{\"a\": 1}\n"
	hookBinary      = "\x00\xff{"
	hookBinarySum   = "sha256=ba99dfd30f6ad4c2997d6ef33ba19bec58569c7486537a4a492c3b41f5ea8ffe"
	hookSpacedSum   = "sha256=48e71634463bfe8594ee259f5a1084ea011f5b07d6209b8892647fd238ad07c4"
	hookWithoutTime = "sha256=e14628d1af4cad6ad971923cef0f34affdd95a823b99ef8ac0f62078a0e5a05d"
	hookWithoutID   = "v1,7OyREGj1J2hEw5b6J1UNm2RadNYVPf7axXazlp71KqA="
	hookTextKey     = "v1,hHYPVNokmz05q8KZJF1Qi19+5GphgCgZ4Ncv7x9eE5I="
)

// The headers of a delivery that is right, in each family.
func hookHeaders() map[string]string {
	return map[string]string{"OpenWOP-Webhook-Id": "acme/subscription0123456", "OpenWOP-Event-Type": "run.completed",
		"OpenWOP-Timestamp": hookTime, "OpenWOP-Signature": hookSignature, "OpenWOP-Signature-Algorithm": "v1"}
}

func hookOldHeaders() map[string]string {
	return map[string]string{"X-openwop-Webhook-Id": "acme/subscription0123456", "X-openwop-Event-Type": "run.completed",
		"X-openwop-Timestamp": hookTime, "X-openwop-Signature": hookSignature, "X-openwop-Signature-Algorithm": "v1"}
}

func hookStandardHeaders() map[string]string {
	return map[string]string{"webhook-id": hookMessage, "webhook-timestamp": hookTime, "webhook-signature": hookEntry}
}

// headed is a case's headers with one more, or changed, or gone where its value
// is empty.
func headed(headers map[string]string, name, value string) map[string]string {
	out := maps.Clone(headers)
	if out[name] = value; value == "" {
		delete(out, name)
	}
	return out
}

func webhookCases() WebhookFile {
	file := WebhookFile{Description: "A delivery, the secret of the subscription and the subscriber's clock. The answer must be accepted, and a refusal for the reason given. The body is the exact bytes of bodyBase64; header names are in any case. Secrets are TEST-ONLY."}
	body := base64.StdEncoding.EncodeToString([]byte(hookBody))
	add := func(c WebhookCase) {
		if c.Now == 0 {
			c.Now = hookNow
		}
		if c.BodyBase64 == "" {
			c.BodyBase64 = body
		}
		c.Accepted = c.Reason == ""
		file.Cases = append(file.Cases, c)
	}
	for _, c := range hookV1Cases() {
		c.Scheme = "v1"
		if c.Secret == "" {
			c.Secret = hookSecret
		}
		if c.Headers == nil {
			c.Headers = hookHeaders()
		}
		add(c)
	}
	for _, c := range hookStandardCases() {
		c.Scheme = "standard-webhooks-1"
		if c.Secret == "" {
			c.Secret = hookStandard
		}
		if c.Headers == nil {
			c.Headers = hookStandardHeaders()
		}
		add(c)
	}
	return file
}

func hookV1Cases() []WebhookCase {
	h, b64 := hookHeaders(), base64.StdEncoding.EncodeToString
	return []WebhookCase{
		{ID: "verifies", Description: "HMAC-SHA256 under the bytes of the secret, over timestamp, dot and body"},
		{ID: "upper-case-hex", Description: "hex digits in upper case are the same digits", Headers: headed(h, "OpenWOP-Signature", hookUpper)},
		{ID: "version-1-headers-alone", Description: "the family of version 1 carries the same values and signs the same bytes", Headers: hookOldHeaders()},
		{ID: "both-families", Description: "both families in one delivery", Headers: func() map[string]string { both := hookOldHeaders(); maps.Copy(both, h); return both }()},
		{ID: "whsec-secret-as-text", Description: "under v1 a secret of Standard Webhooks is its text, prefix and all, not what it decodes to", Secret: hookStandard, Headers: headed(h, "OpenWOP-Signature", hookStandardV1)},
		{ID: "bytes-that-are-no-text", Description: "the body is bytes, not text", BodyBase64: b64([]byte(hookBinary)), Headers: headed(h, "OpenWOP-Signature", hookBinarySum)},
		{ID: "white-space-counts", Description: "the body is not parsed and written again before it is verified", BodyBase64: b64([]byte(hookSpaced)), Headers: headed(h, "OpenWOP-Signature", hookSpacedSum)},
		{ID: "five-minutes-late", Description: "300 seconds are within the tolerance", Now: hookNow + 300},
		{ID: "five-minutes-early", Description: "300 seconds are within the tolerance", Now: hookNow - 300},
		{ID: "too-late", Description: "301 seconds are not", Now: hookNow + 301, Reason: "outside-tolerance"},
		{ID: "too-early", Description: "301 seconds are not", Now: hookNow - 301, Reason: "outside-tolerance"},
		{ID: "body-changed", Description: "one byte of the body is another", BodyBase64: b64([]byte("[" + hookBody[1:])), Reason: "wrong-signature"},
		{ID: "body-longer", Description: "a line end after the body", BodyBase64: b64([]byte(hookBody + "\n")), Reason: "wrong-signature"},
		{ID: "another-secret", Description: "signed under another subscription's secret", Secret: "TEST-ONLY another secret", Reason: "wrong-signature"},
		{ID: "time-changed", Description: "the timestamp is not the one that was signed", Headers: headed(h, "OpenWOP-Timestamp", "1767323046"), Reason: "wrong-signature"},
		{ID: "time-not-signed", Description: "signed over the body alone", Headers: headed(h, "OpenWOP-Signature", hookWithoutTime), Reason: "wrong-signature"},
		{ID: "no-scheme", Description: "the hex digits without sha256=", Headers: headed(h, "OpenWOP-Signature", hookSignature[len("sha256="):]), Reason: "wrong-signature"},
		{ID: "cut-short", Description: "half of the signature", Headers: headed(h, "OpenWOP-Signature", hookSignature[:len("sha256=")+32]), Reason: "wrong-signature"},
		{ID: "empty-signature", Description: "sha256= and nothing", Headers: headed(h, "OpenWOP-Signature", "sha256="), Reason: "wrong-signature"},
		{ID: "unknown-algorithm", Description: "an algorithm the subscriber does not know is rejected, whatever the signature", Headers: headed(h, "OpenWOP-Signature-Algorithm", "v2"), Reason: "unknown-algorithm"},
		{ID: "companion-scheme-as-algorithm", Description: "the id of the companion scheme has no place in this header", Headers: headed(h, "OpenWOP-Signature-Algorithm", "standard-webhooks-1"), Reason: "unknown-algorithm"},
		{ID: "no-algorithm", Description: "all five headers are on every delivery", Headers: headed(h, "OpenWOP-Signature-Algorithm", ""), Reason: "missing-header"},
		{ID: "no-signature", Description: "in either family", Headers: headed(h, "OpenWOP-Signature", ""), Reason: "missing-header"},
		{ID: "time-in-milliseconds", Description: "the timestamp is in seconds", Headers: headed(h, "OpenWOP-Timestamp", "1767323045000"), Reason: "outside-tolerance"},
		{ID: "time-as-text", Description: "a timestamp in another form", Headers: headed(h, "OpenWOP-Timestamp", "2026-01-02T03:04:05Z"), Reason: "malformed-timestamp"},
		{ID: "time-with-a-sign", Description: "a timestamp in another form", Headers: headed(h, "OpenWOP-Timestamp", "+1767323045"), Reason: "malformed-timestamp"},
	}
}

func hookStandardCases() []WebhookCase {
	h := hookStandardHeaders()
	return []WebhookCase{
		{ID: "standard-verifies", Description: "HMAC-SHA256 under the decoded secret, over id, timestamp and body, joined by dots"},
		{ID: "standard-during-rotation", Description: "one entry under each secret; either is enough", Headers: headed(h, "webhook-signature", hookNextEntry+" "+hookEntry)},
		{ID: "standard-new-secret", Description: "the same delivery, by a subscriber that has the new secret alone", Secret: hookNext, Headers: headed(h, "webhook-signature", hookNextEntry+" "+hookEntry)},
		{ID: "standard-other-schemes-beside", Description: "entries of other schemes are passed over", Headers: headed(h, "webhook-signature", "v1a,AAAA "+hookEntry+" v9,AAAA")},
		{ID: "standard-unpadded-secret", Description: "the padding of the secret may be left out", Secret: hookStandard[:len(hookStandard)-1]},
		{ID: "standard-id-changed", Description: "the id is signed", Headers: headed(h, "webhook-id", "msg_2KWPBgLlAfxdpx2AI54pPJ85f4X"), Reason: "wrong-signature"},
		{ID: "standard-id-not-signed", Description: "signed over timestamp and body alone", Headers: headed(h, "webhook-signature", hookWithoutID), Reason: "wrong-signature"},
		{ID: "standard-text-as-key", Description: "signed under the text of the secret instead of what it decodes to", Headers: headed(h, "webhook-signature", hookTextKey), Reason: "wrong-signature"},
		{ID: "standard-old-secret-retired", Description: "a subscriber that has only the secret that no longer signs", Headers: headed(h, "webhook-signature", hookNextEntry), Reason: "wrong-signature"},
		{ID: "standard-other-scheme", Description: "the right digits under the name of another scheme", Headers: headed(h, "webhook-signature", "v1a"+hookEntry[len("v1"):]), Reason: "wrong-signature"},
		{ID: "standard-too-late", Description: "the tolerance is the same", Now: hookNow + 301, Reason: "outside-tolerance"},
		{ID: "standard-no-id", Description: "all three headers are on every such delivery", Headers: headed(h, "webhook-id", ""), Reason: "missing-header"},
		{ID: "standard-short-secret", Description: "a secret has 24 bytes or more", Secret: "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY=", Reason: "malformed-secret"},
		{ID: "standard-secret-without-prefix", Description: "a secret begins with whsec_", Secret: hookStandard[len("whsec_"):], Reason: "malformed-secret"},
	}
}
