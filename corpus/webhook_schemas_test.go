package corpus

import "testing"

const (
	delivery   = `{"runId":` + runID + `,"event":{"eventId":` + eventID + `,"runId":` + runID + `,"type":"run.completed","payload":{},"timestamp":"2026-01-02T03:04:05Z","sequence":3,"schemaVersion":3}}`
	deadLetter = `{"deliveryId":` + runID + `,"webhookId":` + runID + `,"runId":` + runID + `,"eventId":` + eventID + `,"eventType":"run.completed","attempts":3,"deadLetteredAt":"2026-01-02T03:04:05Z","expiresAt":"2026-01-09T03:04:05Z","reason":"retries_exhausted"}`
	whsec      = `"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"`
	hook       = `{"url":"https://h.example/x","events":["run.completed"]}`
)

func TestWebhookSchemas(t *testing.T) {
	t.Parallel()
	unknown := func(doc string) invalidCase { return invalidCase{closedDoc(doc), "", "additionalProperties"} }
	without := func(doc, member string) invalidCase { return invalidCase{edit(t, doc, member, ""), "", "required"} }
	page := `{"deliveries":[` + deadLetter + `]}`
	standard := edit(t, hook, `"events"`, `"secret":`+whsec+`,"signatureAlgorithms":["v1","standard-webhooks-1"],"events"`)
	checkSchemas(t, []schemaCase{
		{"webhook-delivery", []string{delivery, edit(t, delivery, `"event":`, `"workspaceId":"w-1","event":`)},
			[]invalidCase{unknown(delivery), {edit(t, delivery, `{"runId":`+runID+`,"event"`, `{"event"`), "", "required"}, {edit(t, delivery, runID+`,"event":`, `"run-without-tenant","event":`), "/runId", "pattern"},
				{edit(t, delivery, `"event":`, `"workspaceId":"","event":`), "/workspaceId", "pattern"}, {edit(t, delivery, `run.completed`, `run`), "/event/type", "pattern"}, {edit(t, delivery, `"sequence":3`, `"sequence":3,"also":1`), "/event", "additionalProperties"}}},
		{"webhook-verification", []string{`{"type":"openwop.webhook.verification","challenge":"abcdefghijklmnopqrstu_"}`},
			[]invalidCase{unknown(`{"type":"openwop.webhook.verification","challenge":"abcdefghijklmnopqrstu_"}`), {`{"type":"run.started","challenge":"abcdefghijklmnopqrstu_"}`, "/type", "const"},
				{`{"type":"openwop.webhook.verification","challenge":"abcdefghijklmnopqrst"}`, "/challenge", "pattern"}, {`{"type":"openwop.webhook.verification","challenge":"abcdefghijklmnopqrst+="}`, "/challenge", "pattern"}, {`{"challenge":"abcdefghijklmnopqrstu_"}`, "", "required"}}},
		{"webhook-create", []string{hook, standard, edit(t, hook, `"events"`, `"secret":"s","tags":[],"signatureAlgorithms":["v1"],"events"`)},
			[]invalidCase{unknown(hook), without(hook, `"url":"https://h.example/x",`), {edit(t, hook, `"run.completed"`, ``), "/events", "minItems"}, {edit(t, hook, `"events"`, `"signatureAlgorithms":["standard-webhooks-1"],"secret":`+whsec+`,"events"`), "/signatureAlgorithms", "contains"},
				{edit(t, standard, `"v1",`, `"v1","v1",`), "/signatureAlgorithms", "uniqueItems"}, {edit(t, standard, `"secret":`+whsec+`,`, ``), "", "required"}, {edit(t, standard, `whsec_`, `sec_`), "/secret", "pattern"}, {edit(t, hook, `"events"`, `"signatureAlgorithms":["v1","v2"],"events"`), "/signatureAlgorithms/1", "enum"}}},
		{"webhook-created", []string{`{"webhookId":` + runID + `}`, `{"webhookId":` + runID + `,"secret":"s","signatureAlgorithms":["v1"],"also":1}`}, []invalidCase{{`{}`, "", "required"}, {`{"webhookId":"bare-id-0123456789"}`, "/webhookId", "pattern"}, {`{"webhookId":` + runID + `,"secret":""}`, "/secret", "minLength"}}},
		{"webhook-rotate-request", []string{`{"secret":` + whsec + `}`}, []invalidCase{{`{}`, "", "required"}, {`{"secret":"plain"}`, "/secret", "pattern"}, unknown(`{"secret":` + whsec + `}`)}},
		{"webhook-rotated", []string{`{"rotatedAt":"2026-01-02T03:04:05Z","previousSecretExpiresAt":"2026-01-02T03:05:05Z"}`},
			[]invalidCase{{`{"rotatedAt":"2026-01-02T03:04:05Z"}`, "", "required"}, {`{"rotatedAt":"now","previousSecretExpiresAt":"2026-01-02T03:05:05Z"}`, "/rotatedAt", "format"}, {`{"rotatedAt":"2026-01-02T03:04:05Z","previousSecretExpiresAt":"2026-01-02T03:05:05Z","secret":` + whsec + `}`, "", "not"}}},
		{"webhook-dead-letter-page", []string{`{"deliveries":[]}`, page, edit(t, page, `"reason"`, `"lastStatus":500,"reason"`), edit(t, page, `]}`, `],"nextCursor":"c"}`)},
			[]invalidCase{{`{}`, "", "required"}, unknown(`{"deliveries":[]}`), {edit(t, page, `"reason"`, `"body":{},"reason"`), "/deliveries/0", "additionalProperties"}, {edit(t, page, `"attempts":3`, `"attempts":0`), "/deliveries/0/attempts", "minimum"},
				{edit(t, page, `retries_exhausted`, `gone`), "/deliveries/0/reason", "enum"}, {edit(t, page, `"expiresAt":"2026-01-09T03:04:05Z",`, ``), "/deliveries/0", "required"}, {`{"deliveries":[],"nextCursor":""}`, "/nextCursor", "minLength"}}},
	})
}
