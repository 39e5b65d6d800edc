package referencehost_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

func withFamilies(families map[string]map[string]any) func(*referencehost.Config) {
	return func(c *referencehost.Config) { c.Families = families }
}

func discovered(t *testing.T, h *testHost) map[string]any {
	t.Helper()
	var document map[string]any
	require.NoError(t, json.Unmarshal(h.host.Discovery(), &document))
	return document
}

func TestFamiliesAreLaidOverTheHostsOwn(t *testing.T) {
	t.Parallel()
	h := start(t, withFamilies(map[string]map[string]any{
		"runList":    nil,
		"limits":     {"maxNodeExecutions": 2},
		"agents":     {"orchestrator": nil},
		"deadLetter": {"retentionDays": 30},
	}))
	document := discovered(t, h)
	assert.NotContains(t, document, "runList")
	limits := document["limits"].(map[string]any)
	assert.Equal(t, 2.0, limits["maxNodeExecutions"])
	assert.Equal(t, 100.0, limits["maxLoopIterations"], "the other facets stay")
	assert.NotContains(t, document["agents"], "orchestrator")
	assert.Equal(t, "experimental", document["deadLetter"].(map[string]any)["status"])

	r := h.call("GET", "/runs", "")
	assert.Equal(t, 404, r.StatusCode)
	assert.Equal(t, "not_found", r.code(t))
	assert.Equal(t, 401, h.call("GET", "/runs", "", "Authorization", "").StatusCode, "the credential comes before the gate")

	_, path := h.create(`{"workflowId":"conformance-multi-node"}`)
	assert.Equal(t, "recursion_limit_exceeded", h.finish(path)["error"].(map[string]any)["code"], "the host does what it advertises")
}

func TestFamiliesThatTheContractRefuses(t *testing.T) {
	t.Parallel()
	for name, families := range map[string]map[string]map[string]any{
		"unknown family": {"telepathy": {}},
		"unknown facet":  {"runList": {"telepathy": true}},
		"no JSON":        {"runList": {"maxPageSize": func() {}}},
	} {
		config, err := referencehost.DefaultConfig()
		require.NoError(t, err)
		config.Families = families
		_, err = referencehost.New(config)
		assert.Error(t, err, name)
	}
}
