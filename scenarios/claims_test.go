package scenarios

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/harness"
	referencehost "wopcert/reference-host"
	"wopcert/requirements"
)

// claimsEverything is the discovery document of a host that advertises all
// that opens a row of a create, an id or a key.
func claimsEverything(t *testing.T) []byte {
	t.Helper()
	config, err := referencehost.DefaultConfig()
	require.NoError(t, err)
	host, err := referencehost.New(config)
	require.NoError(t, err)
	doc := map[string]any{}
	require.NoError(t, json.Unmarshal(host.Discovery(), &doc))
	record := func(facets map[string]any) map[string]any {
		out := map[string]any{"status": "stable", "since": "2.0", "witness": "claims-check"}
		maps.Copy(out, facets)
		return out
	}
	doc["webhooks"] = record(map[string]any{"signatureAlgorithms": []string{"v1"}})
	doc["idempotency"] = record(nil)
	doc["memory"] = record(map[string]any{"distillation": map[string]any{"maxTokenBudget": 100}})
	fixtures, _ := doc["fixtures"].([]any)
	doc["fixtures"] = append(fixtures, distill, sideEffect)
	raw, err := json.Marshal(doc)
	require.NoError(t, err)
	return raw
}

// TestClaimsWithoutSubstance: a host that advertises everything and answers
// every request alike passes what its document alone establishes, and no more.
func TestClaimsWithoutSubstance(t *testing.T) {
	t.Parallel()
	raw := claimsEverything(t)
	for name, handler := range knowsNothing() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results, err := harness.Run(t.Context(), harness.Options{
				BaseURL: claiming(t, raw, handler).URL, Corpus: contract(t), Scenarios: contractScenarios(), Timeout: 2 * time.Second, Parallel: 64,
				Credentials: harness.Credentials{Primary: "key-of-tenant-a", OtherTenant: "key-of-tenant-b", ReadOnly: "key-that-reads", Production: "key-of-production"},
			})
			require.NoError(t, err)
			assert.Empty(t, results.SuiteFaults)
			alone := append(established(), requirements.VersioningSingleMajorTwin)
			for _, row := range results.Rows {
				if row.Result == bundle.ExecutedPass && strings.HasPrefix(row.ID, "openwop.requirement.") {
					assert.True(t, slices.Contains(alone, requirements.ID(row.ID)), "%s passes: %d assertions %s", row.ID, row.Assertions, row.Detail)
				}
			}
		})
	}
}
