package referencehost_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

func TestStandardWebhooksOptIn(t *testing.T) {
	t.Parallel()
	receiver := sink(t, nil)
	manual := manualClock()
	h := start(t, withClock(manual), receiver.reach)
	optIn := map[string]any{"url": receiver.url("/std"), "events": []string{"run.started"}, "secret": hookSecret, "signatureAlgorithms": []string{"standard-webhooks-1", "v1"}}
	made := h.register(optIn)
	assert.Equal(t, []any{"standard-webhooks-1", "v1"}, made["signatureAlgorithms"])
	assert.NotContains(t, made, "secret")
	asked := receiver.wait("/std", 1)[0]
	require.NoError(t, h.contract.Validate("webhook-verification", asked.body))
	assert.Empty(t, asked.header.Get("OpenWOP-Event-Type"))
	entry := func(a arrival, secret string) string {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		require.NoError(t, err)
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(a.header.Get("webhook-id") + "." + a.header.Get("webhook-timestamp") + "." + string(a.body)))
		return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	assert.Equal(t, entry(asked, hookSecret), asked.header.Get("webhook-signature"))

	h.create(`{"workflowId":"conformance-noop"}`)
	first := receiver.wait("/std", 2)[1]
	assert.Equal(t, entry(first, hookSecret), first.header.Get("webhook-signature"))
	assert.True(t, signedV1(first, "OpenWOP-", hookSecret))

	second := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("n", 24)))
	r := h.call("POST", hookPath(made["webhookId"])+"/rotate-secret", `{"secret":"`+second+`"}`)
	require.Equal(t, http.StatusOK, r.StatusCode, string(r.body))
	require.NoError(t, h.contract.Validate("webhook-rotated", r.body))
	assert.NotContains(t, string(r.body), "whsec_")
	assert.Equal(t, "2026-03-01T12:00:00.000Z", r.json(t)["rotatedAt"])
	assert.Equal(t, "2026-03-01T13:00:00.000Z", r.json(t)["previousSecretExpiresAt"])
	h.create(`{"workflowId":"conformance-noop"}`)
	during := receiver.wait("/std", 3)[2]
	assert.Equal(t, entry(during, second)+" "+entry(during, hookSecret), during.header.Get("webhook-signature"))
	assert.True(t, signedV1(during, "OpenWOP-", hookSecret))
	manual.Advance(time.Hour)
	h.create(`{"workflowId":"conformance-noop"}`)
	after := receiver.wait("/std", 4)[3]
	assert.Equal(t, entry(after, second), after.header.Get("webhook-signature"))
	assert.True(t, signedV1(after, "OpenWOP-", second))

	receiver.set(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"challenge":"something else"}`)
	})
	optIn["url"] = receiver.url("/unwilling")
	encoded, err := json.Marshal(optIn)
	require.NoError(t, err)
	r = h.call("POST", "/webhooks", string(encoded), "Idempotency-Key", "0123456789012345678901")
	require.Equal(t, http.StatusBadRequest, r.StatusCode)
	assert.Equal(t, "webhook_endpoint_unverified", r.code(t))
	r = h.call("POST", "/webhooks", string(encoded), "Idempotency-Key", "0123456789012345678901")
	assert.Equal(t, "webhook_endpoint_unverified", r.code(t))
	assert.Len(t, receiver.wait("/unwilling", 0), 1, "an endpoint is asked once, and not again for the same request")
	h.create(`{"workflowId":"conformance-noop"}`)
	receiver.wait("/std", 5)
	assert.Len(t, receiver.wait("/unwilling", 0), 1, "nothing was subscribed")
}

func TestForksAndWebhooks(t *testing.T) {
	t.Parallel()
	receiver := sink(t, nil)
	h := start(t, receiver.reach)
	_, source := h.create(`{"workflowId":"conformance-noop"}`)
	h.finish(source)
	h.register(map[string]any{"url": receiver.url("/a"), "events": []string{"run.started", "node.started", "node.completed", "run.completed"}})
	fork := func(mode string) (id, path string) {
		r := h.call("POST", source+":fork", `{"mode":"`+mode+`","fromSeq":2}`)
		require.Equal(t, http.StatusCreated, r.StatusCode, string(r.body))
		id = r.json(t)["runId"].(string)
		path = "/runs/" + strings.Replace(id, "/", "~2F", 1)
		h.finish(path)
		return id, path
	}
	fork("replay")
	branch, path := fork("branch")
	_, later := h.create(`{"workflowId":"conformance-noop"}`)
	h.finish(later)
	own := h.events(path)[2:]
	for _, a := range receiver.wait("/a", len(own)+4) {
		event := a.eventOf(t)
		if event["runId"] == branch {
			assert.GreaterOrEqual(t, event["sequence"], 2.0)
		} else {
			assert.Equal(t, later, "/runs/"+strings.Replace(event["runId"].(string), "/", "~2F", 1))
		}
	}
	assert.Len(t, receiver.wait("/a", 0), len(own)+4)
}

func TestDeliveriesSurviveTheHost(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "store")
	receiver := sink(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	keys := []referencehost.Credential{}
	config := func(store *referencehost.FileStore) referencehost.Config {
		c, err := referencehost.DefaultConfig()
		require.NoError(t, err)
		receiver.reach(&c)
		c.Store, c.Webhooks.Delay = store, 20*time.Millisecond
		if len(keys) == 0 {
			keys = c.Keys
		}
		c.Keys = keys
		c.Webhooks.MaxAttempts = 100
		return c
	}
	store, err := referencehost.OpenFileStore(file)
	require.NoError(t, err)
	host, err := referencehost.New(config(store))
	require.NoError(t, err)
	server := httptest.NewServer(host.Handler())
	h := &testHost{t: t, url: server.URL, host: host, keys: map[string]string{referencehost.KeyTenantA: keys[0].Key}}
	made := h.register(map[string]any{"url": receiver.url("/a"), "events": []string{"run.started"}, "secret": "kept with the store"})
	id, _ := h.create(`{"workflowId":"conformance-noop"}`)
	receiver.wait("/a", 2)
	require.NoError(t, host.Close())
	server.Close()
	require.NoError(t, store.Close())
	before := receiver.wait("/a", 0)

	receiver.set(nil)
	store, err = referencehost.OpenFileStore(file)
	require.NoError(t, err)
	host, err = referencehost.New(config(store))
	require.NoError(t, err)
	after := receiver.wait("/a", len(before)+1)
	last := after[len(after)-1]
	assert.Equal(t, id, last.eventOf(t)["runId"])
	assert.Equal(t, string(before[0].body), string(last.body))
	assert.Equal(t, made["webhookId"], last.header.Get("OpenWOP-Webhook-Id"))
	assert.True(t, signedV1(last, "OpenWOP-", "kept with the store"))
	require.NoError(t, host.Close())
	require.NoError(t, store.Close())
}

func TestAnUnprojectableEventIsDeadLettered(t *testing.T) {
	onEveryStore(t, func(t *testing.T, onStore func(*referencehost.Config)) {
		receiver := sink(t, nil)
		h := start(t, onStore, receiver.reach, func(c *referencehost.Config) { c.Seams = true })
		made := h.register(map[string]any{"url": receiver.url("/a"), "events": []string{"run.completed"}})
		seed := func(outputs string) {
			r := h.call("POST", "/conformance/seams/sample/event-log/seed", `{"eventLogSchemaVersion":2,"status":"completed","events":[`+
				`{"type":"run.started","sequence":0,"payload":{"workflowId":"conformance-noop","transport":"rest"}},`+
				`{"type":"run.completed","sequence":1,"payload":`+outputs+`}]}`)
			require.Equal(t, http.StatusCreated, r.StatusCode, string(r.body))
		}
		seed(`{"outputs":{}}`)
		assert.Equal(t, "run.completed", receiver.wait("/a", 1)[0].eventOf(t)["type"])
		seed(`{"outputs":{},"nobodyKnows":1}`)
		require.Eventually(t, func() bool {
			letters := h.call("GET", hookPath(made["webhookId"])+"/dead-letters", "").json(t)["deliveries"].([]any)
			if len(letters) == 0 {
				return false
			}
			letter := letters[0].(map[string]any)
			assert.Equal(t, "payload_unprojectable", letter["reason"])
			assert.Equal(t, 1.0, letter["attempts"])
			return true
		}, 10*time.Second, 5*time.Millisecond)
		assert.Len(t, receiver.wait("/a", 0), 1)
	})
}

func TestTheHostAsASubscriber(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *referencehost.Config) { c.Seams = true })
	const body = `{"runId":"tenant-a/0123456789abcdef"}`
	now := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte("shared"))
	mac.Write([]byte(now + "." + body))
	headers := map[string]string{
		"X-openwop-Webhook-Id": "wh_1", "X-openwop-Event-Type": "run.started", "X-openwop-Timestamp": now, "X-openwop-Signature-Algorithm": "v1",
		"X-openwop-Signature": "sha256=" + hex.EncodeToString(mac.Sum(nil)),
	}
	receive := func(secret, body string) map[string]any {
		encoded, err := json.Marshal(map[string]any{"secret": secret, "headers": headers, "body": body})
		require.NoError(t, err)
		r := h.call("POST", "/conformance/seams/sample/webhooks/receive", string(encoded))
		require.Equal(t, http.StatusOK, r.StatusCode, string(r.body))
		require.NoError(t, h.contract.Validate("seams#/$defs/verdict", r.body))
		return r.json(t)
	}
	assert.Equal(t, map[string]any{"accepted": true}, receive("shared", body))
	assert.Equal(t, false, receive("shared", body+" ")["accepted"])
	assert.Equal(t, false, receive("other", body)["accepted"])
	assert.Equal(t, http.StatusBadRequest, h.call("POST", "/conformance/seams/sample/webhooks/receive", `{"secret":"x"}`).StatusCode)
}

func TestWhatIsNotAdvertisedIsNotServed(t *testing.T) {
	t.Parallel()
	without := func(facets map[string]any) func(*referencehost.Config) {
		return func(c *referencehost.Config) { c.Families = map[string]map[string]any{"webhooks": facets} }
	}
	h := start(t, without(nil))
	assert.Equal(t, http.StatusNotFound, h.call("POST", "/webhooks", `{}`).StatusCode)
	_, path := h.create(`{"workflowId":"conformance-noop"}`)
	h.finish(path)
	h = start(t, without(map[string]any{"deadLetter": nil, "secretRotation": nil, "retryPolicy": nil, "signatureAlgorithms": []any{"v1"}}))
	made := h.register(map[string]any{"url": "https://hooks.example.com/x", "events": []string{"run.started"}})
	for _, r := range []*reply{
		h.call("GET", hookPath(made["webhookId"])+"/dead-letters", ""),
		h.call("POST", hookPath(made["webhookId"])+"/rotate-secret", `{"secret":"`+hookSecret+`"}`),
	} {
		assert.Equal(t, http.StatusNotFound, r.StatusCode)
		assert.Equal(t, "not_found", r.code(t))
	}
	r := h.call("POST", "/webhooks", `{"url":"https://hooks.example.com/x","events":["run.started"],"signatureAlgorithms":["v1","standard-webhooks-1"],"secret":"`+hookSecret+`"}`)
	assert.Equal(t, "validation_error", r.code(t))
}

// safeBuffer is a buffer that several goroutines write to.
type safeBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func TestSecretsAreNeverLogged(t *testing.T) {
	t.Parallel()
	receiver := sink(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	logged := new(safeBuffer)
	h := start(t, receiver.reach, func(c *referencehost.Config) {
		c.Logger = slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.Webhooks.Delay = time.Millisecond
	})
	for _, url := range []string{receiver.url("/a?token=in-the-url"), "https://inside.example.com/?token=in-the-url", "https://nowhere.example.com/?token=in-the-url"} {
		made := h.register(map[string]any{"url": url, "events": []string{"run.started"}, "secret": hookSecret})
		h.create(`{"workflowId":"conformance-noop"}`)
		require.Eventually(t, func() bool {
			return len(h.call("GET", hookPath(made["webhookId"])+"/dead-letters", "").json(t)["deliveries"].([]any)) > 0
		}, 10*time.Second, 5*time.Millisecond)
	}
	assert.Contains(t, logged.String(), "given up")
	assert.NotContains(t, logged.String(), hookSecret[10:])
	assert.NotContains(t, logged.String(), "in-the-url")
}
