package scenarios

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/harness"
	"wopcert/harness/receiver"
	"wopcert/internal/testnet"
	referencehost "wopcert/reference-host"
)

// TestWebhooks holds the reference host to the webhook scenarios alone.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	config, err := referencehost.DefaultConfig()
	require.NoError(t, err)
	config.Seams = true
	results := certified(t, config, webhookScenarios())
	for _, row := range results.Rows {
		assert.NotContains(t, []bundle.Disposition{bundle.ExecutedFail, bundle.Blocked}, row.Result, "%s: %s", row.ID, row.Detail)
	}
	t.Logf("%d rows in %s, longest test %s", len(results.Rows), results.Duration, results.Longest)
}

// TestWebhooksOfHostsThatKnowNothing: hosts that claim every part of webhooks
// and implement none of it, though some accept whatever is posted, pass nothing
// but what their discovery document says by itself.
func TestWebhooksOfHostsThatKnowNothing(t *testing.T) {
	t.Parallel()
	target, err := receiver.Start(*testnet.Config())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, target.Close()) })
	raw, err := json.Marshal(map[string]any{
		"protocolVersions": []string{"2.0"}, "preferredVersion": "2.0", "fixtures": []string{noop, identity, multiNode, approval},
		"conformance": map[string]any{"seamsProfile": seamsProfile},
		"replay":      map[string]any{"modes": []string{"replay", "branch"}},
		"interrupt":   map[string]any{"callbackDelivery": true},
		"webhooks": map[string]any{"signatureAlgorithms": []string{"v1", standardWebhooks}, "retryPolicy": map[string]any{"maxAttempts": 4, "backoff": "exponential"},
			"deadLetter": map[string]any{"retentionDays": 7, "maxPageSize": 10}, "secretRotation": map[string]any{"overlapSeconds": 60}},
	})
	require.NoError(t, err)
	hosts := knowsNothing()
	hosts["201 with a webhook id"] = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"webhookId":"t/0123456789abcdef","runId":"t/0123456789abcdef","status":"pending","eventsUrl":"/e","signatureAlgorithms":["v1","standard-webhooks-1"]}`))
	}
	for name, handler := range hosts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results, err := harness.Run(t.Context(), harness.Options{
				BaseURL: claiming(t, raw, handler).URL, Corpus: contract(t), Scenarios: webhookScenarios(), Timeout: 2 * time.Second, Parallel: 64,
				Credentials: harness.Credentials{Primary: "key-of-tenant-a", OtherTenant: "key-of-tenant-b"},
				Receiver:    harness.Receiver{Server: target, Trusted: true},
			})
			require.NoError(t, err)
			assert.Empty(t, results.SuiteFaults)
			var passed []string
			for _, row := range results.Rows {
				if row.Result == bundle.ExecutedPass && strings.HasPrefix(row.ID, "openwop.requirement.") {
					passed = append(passed, strings.TrimPrefix(row.ID, "openwop.requirement."))
				}
			}
			want := []string{"0176.v1-signed-webhook-accepted.facet"}
			if name == "201 with a webhook id" {
				want = append(want, "webhooks.registered", "webhooks.secret-not-echoed") // all there is to them
			}
			assert.ElementsMatch(t, want, passed)
		})
	}
}
