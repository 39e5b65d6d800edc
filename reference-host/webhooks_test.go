package referencehost_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

func TestWebhooksDeliverTheEventsOfRuns(t *testing.T) {
	onEveryStore(t, func(t *testing.T, onStore func(*referencehost.Config)) {
		receiver := sink(t, nil)
		h := start(t, onStore, receiver.reach)
		made := h.register(map[string]any{"url": receiver.url("/a"), "events": []string{"run.started", "node.completed", "run.completed"}, "secret": "mine and nobody else's"})
		assert.Len(t, made, 1, "a supplied secret is not echoed")
		own := h.register(map[string]any{"url": receiver.url("/b"), "events": []string{"run.completed"}, "tags": []string{"red"}, "signatureAlgorithms": []string{"v1"}})
		assert.Equal(t, []any{"v1"}, own["signatureAlgorithms"])
		h.register(map[string]any{"url": receiver.url("/other"), "events": []string{"run.started"}}, h.as(referencehost.KeyTenantB)...)

		_, plain := h.create(`{"workflowId":"conformance-noop"}`)
		_, tagged := h.create(`{"workflowId":"conformance-noop","tags":["blue","red"]}`)
		h.finish(plain)
		h.finish(tagged)
		byRun := map[string][]any{}
		for _, a := range receiver.wait("/a", 6) {
			assert.True(t, signedV1(a, "OpenWOP-", "mine and nobody else's"))
			assert.Equal(t, made["webhookId"], a.header.Get("OpenWOP-Webhook-Id"))
			assert.Equal(t, a.eventOf(t)["type"], a.header.Get("OpenWOP-Event-Type"))
			assert.Equal(t, "v1", a.header.Get("OpenWOP-Signature-Algorithm"))
			assert.Empty(t, a.header.Get("Authorization"))
			require.NoError(t, h.contract.Validate("webhook-delivery", a.body))
			event := a.eventOf(t)
			byRun[event["runId"].(string)] = append(byRun[event["runId"].(string)], event)
		}
		for _, path := range []string{plain, tagged} {
			var want []any
			for _, event := range h.events(path) {
				if event["type"] != "node.started" {
					want = append(want, event)
				}
			}
			assert.ElementsMatch(t, want, byRun[want[0].(map[string]any)["runId"].(string)])
		}
		b := receiver.wait("/b", 1)
		assert.True(t, signedV1(b[0], "OpenWOP-", own["secret"].(string)))
		assert.Equal(t, strings.Replace(strings.TrimPrefix(tagged, "/runs/"), "~2F", "/", 1), b[0].eventOf(t)["runId"])
		assert.Len(t, receiver.wait("/b", 0), 1)
		assert.Empty(t, receiver.wait("/other", 0))
	})
}

func TestRegistrationsThatAreRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	good := func(change func(map[string]any)) string {
		body := map[string]any{"url": "https://hooks.example.com/x", "events": []string{"run.started"}}
		change(body)
		encoded, err := json.Marshal(body)
		require.NoError(t, err)
		return string(encoded)
	}
	set := func(member string, value any) func(map[string]any) {
		return func(body map[string]any) { body[member] = value }
	}
	for name, c := range map[string]struct {
		body, code, field string
	}{
		"no JSON":          {"{", "validation_error", "body"},
		"no url":           {good(func(b map[string]any) { delete(b, "url") }), "validation_error", "body"},
		"no events":        {good(func(b map[string]any) { delete(b, "events") }), "validation_error", "body"},
		"empty events":     {good(set("events", []string{})), "validation_error", "events"},
		"unknown event":    {good(set("events", []string{"run.started", "run.exploded"})), "validation_error", "events"},
		"v1 name":          {good(set("events", []string{"cap.breached", "node.suspended", "log.appended", "replay_diverged"})), "validation_error", "events"},
		"unregistered org": {good(set("events", []string{"nobody.did-this"})), "validation_error", "events"},
		"unknown member":   {good(set("headers", map[string]any{})), "validation_error", "body"},
		"empty secret":     {good(set("secret", "")), "validation_error", "secret"},
		"http":             {good(set("url", "http://hooks.example.com/x")), "webhook_url_rejected", "url"},
		"loopback":         {good(set("url", "https://127.0.0.1/x")), "webhook_url_rejected", "url"},
		"mapped":           {good(set("url", "https://[::ffff:7f00:1]/x")), "webhook_url_rejected", "url"},
		"metadata":         {good(set("url", "https://169.254.169.254/x")), "webhook_url_rejected", "url"},
		"localhost":        {good(set("url", "https://localhost/x")), "webhook_url_rejected", "url"},
		"ula":              {good(set("url", "https://[fd00::1]/x")), "webhook_url_rejected", "url"},
		"only standard": {good(func(b map[string]any) {
			b["signatureAlgorithms"], b["secret"] = []string{"standard-webhooks-1"}, hookSecret
		}), "validation_error", "signatureAlgorithms"},
		"twice":          {good(set("signatureAlgorithms", []string{"v1", "v1"})), "validation_error", "signatureAlgorithms"},
		"unlisted":       {good(set("signatureAlgorithms", []string{"v1", "v1a"})), "validation_error", "signatureAlgorithms"},
		"standard, none": {good(set("signatureAlgorithms", []string{"v1", "standard-webhooks-1"})), "validation_error", "body"},
		"standard, plain": {good(func(b map[string]any) {
			b["signatureAlgorithms"], b["secret"] = []string{"v1", "standard-webhooks-1"}, "plain"
		}), "validation_error", "secret"},
		"standard, short": {good(func(b map[string]any) {
			b["signatureAlgorithms"], b["secret"] = []string{"v1", "standard-webhooks-1"}, "whsec_c2hvcnQ="
		}), "validation_error", "secret"},
		"standard, loopback": {good(func(b map[string]any) {
			b["signatureAlgorithms"], b["secret"], b["url"] = []string{"v1", "standard-webhooks-1"}, hookSecret, "https://127.0.0.1"
		}), "webhook_url_rejected", "url"},
	} {
		r := h.call("POST", "/webhooks", c.body)
		require.Equal(t, http.StatusBadRequest, r.StatusCode, name)
		assert.Equal(t, c.code, r.code(t), name)
		assert.Equal(t, c.field, r.details(t)["field"], name)
		assert.NotContains(t, string(r.body), hookSecret)
	}
	for _, path := range []string{"/webhooks", "/webhooks/tenant-a~2F0123456789abcdef/rotate-secret"} {
		r := h.call("POST", path, good(func(map[string]any) {}), h.as(referencehost.KeyReadOnly)...)
		assert.Equal(t, http.StatusForbidden, r.StatusCode)
		assert.Equal(t, "webhooks:manage", r.details(t)["requiredScope"])
	}
}

func TestVendorEventsCanBeSubscribedTo(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.register(map[string]any{"url": "https://hooks.example.com/x", "events": []string{"example.order-placed", "run.started"}})
}

func TestWebhookIDsAreHeldToTheirTenant(t *testing.T) {
	t.Parallel()
	h := start(t)
	made := h.register(map[string]any{"url": "https://hooks.example.com/x", "events": []string{"run.started"}})
	path := hookPath(made["webhookId"])
	foreign := "/webhooks/tenant-b~2F0123456789abcdef"
	unknown := "/webhooks/tenant-a~2F0123456789abcdef"
	rotate := `{"secret":"` + hookSecret + `"}`
	type request struct{ method, path, body string }
	for _, c := range []struct {
		to     []request
		status int
		code   string
		header []string
	}{
		{[]request{{"DELETE", foreign, ""}, {"GET", foreign + "/dead-letters", ""}, {"POST", foreign + "/rotate-secret", rotate}}, 403, "id_tenant_mismatch", nil},
		{[]request{{"DELETE", path, ""}, {"GET", path + "/dead-letters", ""}, {"POST", path + "/rotate-secret", rotate}}, 403, "id_tenant_mismatch", h.as(referencehost.KeyTenantB)},
		{[]request{{"DELETE", unknown, ""}, {"GET", unknown + "/dead-letters", ""}, {"POST", unknown + "/rotate-secret", rotate}}, 404, "not_found", nil},
		{[]request{{"DELETE", "/webhooks/bare", ""}, {"GET", "/webhooks/bare/dead-letters", ""}, {"DELETE", "/webhooks/tenant-a~2f0123456789abcdef", ""}}, 400, "validation_error", nil},
		{[]request{{"POST", path + "/rotate-secret", rotate}, {"POST", path + "/rotate-secret", `{"secret":"whsec_c2hvcnQ="}`}, {"POST", path + "/rotate-secret", `{}`}}, 400, "validation_error", nil},
		{[]request{{"GET", path + "/dead-letters?limit=0", ""}, {"GET", path + "/dead-letters?cursor=x", ""}, {"GET", path + "/dead-letters?limit=1&limit=2", ""}}, 400, "validation_error", nil},
	} {
		for _, to := range c.to {
			r := h.call(to.method, to.path, to.body, c.header...)
			assert.Equal(t, c.status, r.StatusCode, to)
			assert.Equal(t, c.code, r.code(t), to)
		}
	}
	assert.Equal(t, http.StatusNoContent, h.call("DELETE", strings.Replace(path, "~2F", "%2F", 1), "").StatusCode)
	for _, to := range []request{{"DELETE", path, ""}, {"GET", path + "/dead-letters", ""}} {
		assert.Equal(t, http.StatusNotFound, h.call(to.method, to.path, to.body).StatusCode)
	}
}

func TestUnregisteredMeansNoFurtherAttempt(t *testing.T) {
	t.Parallel()
	receiver := sink(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	manual := manualClock()
	h := start(t, withClock(manual), receiver.reach)
	made := h.register(map[string]any{"url": receiver.url("/a"), "events": []string{"run.started"}})
	h.create(`{"workflowId":"conformance-noop"}`)
	receiver.wait("/a", 1)
	manual.AwaitPending(1)
	assert.Equal(t, http.StatusNoContent, h.call("DELETE", hookPath(made["webhookId"]), "").StatusCode)
	h.create(`{"workflowId":"conformance-noop"}`)
	manual.Advance(time.Hour)
	assert.Len(t, receiver.wait("/a", 1), 1)
}

func TestDeadLettersOfASubscription(t *testing.T) {
	onEveryStore(t, func(t *testing.T, onStore func(*referencehost.Config)) {
		receiver := sink(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "redirect") {
				http.Redirect(w, r, "https://example.com/elsewhere", http.StatusTemporaryRedirect)
				return
			}
			w.WriteHeader(http.StatusBadGateway)
		})
		h := start(t, onStore, receiver.reach, func(c *referencehost.Config) { c.Webhooks.Delay, c.Webhooks.MaxPageSize = time.Millisecond, 2 })
		made := h.register(map[string]any{"url": receiver.url("/down"), "events": []string{"run.started", "run.completed"}, "secret": hookSecret})
		moved := h.register(map[string]any{"url": receiver.url("/redirect"), "events": []string{"run.completed"}})
		inside := h.register(map[string]any{"url": "https://inside.example.com/", "events": []string{"run.completed"}})
		for range 2 {
			_, path := h.create(`{"workflowId":"conformance-noop"}`)
			h.finish(path)
		}
		receiver.wait("/down", 16)
		list := func(id any, query string) (letters []any, next string) {
			r := h.call("GET", hookPath(id)+"/dead-letters"+query, "")
			require.Equal(t, http.StatusOK, r.StatusCode, string(r.body))
			require.NoError(t, h.contract.Validate("webhook-dead-letter-page", r.body))
			assert.NotContains(t, string(r.body), hookSecret)
			next, _ = r.json(t)["nextCursor"].(string)
			return r.json(t)["deliveries"].([]any), next
		}
		var all []any
		require.Eventually(t, func() bool {
			page, next := list(made["webhookId"], "?limit=1000")
			assert.LessOrEqual(t, len(page), 2, "limit is clamped")
			all = page
			for next != "" {
				page, next = list(made["webhookId"], "?limit=1&cursor="+next)
				all = append(all, page...)
			}
			return len(all) == 4
		}, 10*time.Second, 5*time.Millisecond)
		ids := map[any]bool{}
		for i, v := range all {
			letter := v.(map[string]any)
			ids[letter["deliveryId"]] = true
			assert.Equal(t, 4.0, letter["attempts"])
			assert.Equal(t, 502.0, letter["lastStatus"])
			assert.Equal(t, "retries_exhausted", letter["reason"])
			if i > 0 {
				assert.LessOrEqual(t, letter["deadLetteredAt"], all[i-1].(map[string]any)["deadLetteredAt"], "newest first")
			}
			at, err := time.Parse(time.RFC3339, letter["deadLetteredAt"].(string))
			require.NoError(t, err)
			assert.Equal(t, at.Add(30*24*time.Hour).Format("2006-01-02T15:04:05.000Z"), letter["expiresAt"])
		}
		assert.Len(t, ids, 4)
		_, next := list(made["webhookId"], "?limit=1")
		r := h.call("GET", hookPath(moved["webhookId"])+"/dead-letters?cursor="+next, "")
		assert.Equal(t, "validation_error", r.code(t), "a cursor is good for its own subscription")
		for id, status := range map[any]any{moved["webhookId"]: 307.0, inside["webhookId"]: nil} {
			require.Eventually(t, func() bool { letters, _ := list(id, ""); return len(letters) == 2 }, 10*time.Second, 5*time.Millisecond)
			letters, _ := list(id, "")
			assert.Equal(t, status, letters[0].(map[string]any)["lastStatus"])
		}
		assert.Empty(t, receiver.wait("/elsewhere", 0))
		assert.Len(t, receiver.wait("/down", 0), 16)
	})
}
