package referencehost_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/fixtures"
	referencehost "wopcert/reference-host"
)

func TestFixturesBehaveAsPublished(t *testing.T) {
	t.Parallel()
	h := start(t)
	cases := []struct {
		body   string
		status string
		types  []string
	}{
		{`{"workflowId":"conformance-noop"}`, "completed", []string{"run.started", "node.started", "node.completed", "run.completed"}},
		{`{"workflowId":"conformance-identity","inputs":{"payload":{"a":[1,"x",null]}}}`, "completed",
			[]string{"run.started", "node.started", "node.completed", "run.completed"}},
		{`{"workflowId":"conformance-delay","inputs":{"delayMs":5}}`, "completed",
			[]string{"run.started", "node.started", "node.completed", "run.completed"}},
		{`{"workflowId":"conformance-failure"}`, "failed", []string{"run.started", "node.started", "node.failed", "run.failed"}},
		{`{"workflowId":"conformance-multi-node"}`, "completed", []string{"run.started", "node.started", "node.completed",
			"node.started", "node.completed", "node.started", "node.completed", "run.completed"}},
		{`{"workflowId":"conformance-idempotent","inputs":{"nonce":"n"}}`, "completed",
			[]string{"run.started", "node.started", "node.completed", "run.completed"}},
		{`{"workflowId":"conformance-cancellable","inputs":{"delayMs":1}}`, "completed",
			[]string{"run.started", "node.started", "node.completed", "run.completed"}},
		{`{"workflowId":"conformance-cancellable","inputs":{"delayMs":0}}`, "failed",
			[]string{"run.started", "node.started", "node.failed", "run.failed"}},
		{`{"workflowId":"conformance-delay","inputs":{"delayMs":30001}}`, "failed",
			[]string{"run.started", "node.started", "node.failed", "run.failed"}},
		{`{"workflowId":"conformance-delay","inputs":{"delayMs":1.5}}`, "failed",
			[]string{"run.started", "node.started", "node.failed", "run.failed"}},
		{`{"workflowId":"conformance-capability-missing"}`, "failed", []string{"run.started", "node.started", "node.failed", "run.failed"}},
		{`{"workflowId":"conformance-version-fold"}`, "completed", []string{"run.started", "node.started", "node.completed", "run.completed"}},
	}
	for _, c := range cases {
		_, path := h.create(c.body)
		snapshot := h.finish(path)
		assert.Equal(t, c.status, snapshot["status"], c.body)
		assert.Equal(t, c.types, types(h.events(path)), c.body)
		assert.Equal(t, c.status == "failed", snapshot["error"] != nil, c.body)
	}
}

func TestIdentityPassesItsPayloadThrough(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(`{"workflowId":"conformance-identity","inputs":{"payload":{"a":[1,"<x>",null]}}}`)
	snapshot := h.finish(path)
	want := map[string]any{"a": []any{1.0, "<x>", nil}}
	assert.Equal(t, want, snapshot["variables"].(map[string]any)["payload"])
	events := h.events(path)
	outputs := events[len(events)-1]["payload"].(map[string]any)["outputs"].(map[string]any)
	assert.Equal(t, want, outputs["payload"])
}

func TestMissingCapabilityIsNamed(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(`{"workflowId":"conformance-capability-missing"}`)
	failure := h.finish(path)["error"].(map[string]any)
	assert.Equal(t, "capability_not_provided", failure["code"])
	assert.Contains(t, failure["message"], "conformance.never-provided")
}

func TestNodesOfARowCompleteInOrder(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(`{"workflowId":"conformance-multi-node"}`)
	h.finish(path)
	var order []string
	for _, event := range h.events(path) {
		if event["type"] == "node.completed" {
			order = append(order, event["nodeId"].(string))
		}
	}
	assert.Equal(t, []string{"a", "b", "c"}, order)
}

func TestADelayedRunReadsAsRunning(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual))
	_, path := h.create(`{"workflowId":"conformance-delay","inputs":{"delayMs":30000}}`)
	manual.AwaitPending(2) // the run's deadline and the delay
	assert.Equal(t, "running", h.call("GET", path, "").json(t)["status"])
	manual.Advance(29999 * time.Millisecond)
	assert.Equal(t, "running", h.call("GET", path, "").json(t)["status"])
	manual.Advance(time.Millisecond)
	snapshot := h.finish(path)
	assert.Equal(t, "completed", snapshot["status"])
	assert.Equal(t, "2026-03-01T12:00:00.000Z", snapshot["startedAt"])
	assert.Equal(t, "2026-03-01T12:00:30.000Z", snapshot["completedAt"])
}

func TestEveryListedFixtureIsServed(t *testing.T) {
	t.Parallel()
	h := start(t)
	var discovery struct{ Fixtures []string }
	require.NoError(t, json.Unmarshal(h.host.Discovery(), &discovery))
	require.NotEmpty(t, discovery.Fixtures)
	for _, id := range discovery.Fixtures {
		r := h.call("GET", "/workflows/"+id, "")
		require.Equal(t, http.StatusOK, r.StatusCode, id)
		assert.Equal(t, id, r.json(t)["id"])
	}
	assert.Equal(t, "not_found", h.call("GET", "/workflows/no-such", "").code(t))
	assert.Equal(t, "validation_error", h.call("GET", "/workflows/no%20such", "").code(t))
	assert.Contains(t, h.call("GET", "/workflows/conformance-configurable-schema", "").json(t), "configurableSchema")
}

func TestCreateAnswers(t *testing.T) {
	t.Parallel()
	h := start(t)
	r := h.call("POST", "/runs", `{"workflowId":"conformance-noop"}`)
	require.Equal(t, http.StatusCreated, r.StatusCode)
	body := r.json(t)
	id := body["runId"].(string)
	assert.Regexp(t, `^tenant-a/[A-Za-z0-9._-]{16,128}$`, id)
	assert.Equal(t, "running", body["status"])
	assert.Equal(t, "/runs/"+strings.Replace(id, "/", "~2F", 1), body["statusUrl"])
	assert.Equal(t, body["statusUrl"].(string)+"/events", body["eventsUrl"])
	assert.Empty(t, r.Header.Get("OpenWOP-Idempotent-Replay"))
}

func TestOptionsSurfaceUnchanged(t *testing.T) {
	t.Parallel()
	h := start(t)
	options := `"configurable":{"version":1,"run":{"recursionLimit":5,"runTimeoutMs":60000},"ai":{"temperature":0.5},` +
		`"extensions":{"example":{"k":[1]}}},"tags":["a","","<b>","a"],"metadata":{"x":{"y":[1,2.5,"é"]},"z":null}`
	_, path := h.create(`{"workflowId":"conformance-noop","inputs":{"free":true},` + options + `}`)
	snapshot := h.finish(path)
	var want map[string]any
	require.NoError(t, json.Unmarshal([]byte("{"+options+"}"), &want))
	for name, value := range want {
		assert.Equal(t, value, snapshot[name], name)
	}
	assert.Equal(t, map[string]any{"free": true}, snapshot["inputs"])
	started := h.events(path)[0]["payload"].(map[string]any)
	assert.Equal(t, snapshot["owner"], started["owner"])
	assert.Equal(t, "rest", started["transport"])
	assert.Equal(t, want["tags"], started["tags"])

	_, path = h.create(`{"workflowId":"conformance-noop","tags":[],"metadata":{}}`)
	snapshot = h.finish(path)
	assert.Equal(t, []any{}, snapshot["tags"])
	assert.Equal(t, map[string]any{}, snapshot["metadata"])
	assert.NotContains(t, snapshot, "configurable")
	assert.Equal(t, 3.0, snapshot["eventLogSchemaVersion"])
}

func TestCreateRefusals(t *testing.T) {
	t.Parallel()
	h := start(t, without("agents", "conversationPrimitive"), func(c *referencehost.Config) { c.Unlisted = []fixtures.Workflow{conversation(t)} })
	long := strings.Repeat("x", 257)
	cases := []struct {
		name, body string
		code       string
		field      string
		header     []string
	}{
		{"no workflow", `{}`, "validation_error", "body", nil},
		{"unknown workflow", `{"workflowId":"nope"}`, "not_found", "", nil},
		{"unknown member", `{"workflowId":"conformance-noop","extra":1}`, "validation_error", "body", nil},
		{"wrong type", `{"workflowId":7}`, "validation_error", "workflowId", nil},
		{"array", `[]`, "validation_error", "body", nil},
		{"string", `"x"`, "validation_error", "body", nil},
		{"null", `null`, "validation_error", "body", nil},
		{"not JSON", `{"workflowId":`, "validation_error", "body", nil},
		{"duplicate member", `{"workflowId":"conformance-noop","workflowId":"conformance-noop"}`, "validation_error", "body", nil},
		{"inputs of wrong type", `{"workflowId":"conformance-noop","inputs":[]}`, "validation_error", "inputs", nil},
		{"required input missing", `{"workflowId":"conformance-identity"}`, "validation_error", "inputs.payload", nil},
		{"input of wrong type", `{"workflowId":"conformance-delay","inputs":{"delayMs":"1"}}`, "validation_error", "inputs.delayMs", nil},
		{"null input", `{"workflowId":"conformance-delay","inputs":{"delayMs":null}}`, "validation_error", "inputs.delayMs", nil},
		{"callback", `{"workflowId":"conformance-noop","callbackUrl":"https://10.0.0.1/"}`, "validation_error", "callbackUrl", nil},
		{"eval", `{"mode":"eval","evalSuiteRef":"s","agentId":"a"}`, "capability_required", "", nil},
		{"eval without suite", `{"mode":"eval"}`, "validation_error", "body", nil},
		{"residency", `{"workflowId":"conformance-noop","residency":{"region":"eu"}}`, "residency_unavailable", "residency.region", nil},
		{"foreign tenant", `{"workflowId":"conformance-noop","tenantId":"tenant-b"}`, "forbidden", "tenantId", nil},
		{"gated node type", `{"workflowId":"gated"}`, "capability_required", "", nil},
		{"101 tags", `{"workflowId":"conformance-noop","tags":[` + strings.Repeat(`"t",`, 100) + `"t"]}`, "validation_error", "tags", nil},
		{"long tag", `{"workflowId":"conformance-noop","tags":["` + long + `"]}`, "validation_error", "tags", nil},
		{"metadata is array", `{"workflowId":"conformance-noop","metadata":[]}`, "validation_error", "metadata", nil},
		{"no version", `{"workflowId":"conformance-noop","configurable":{}}`, "validation_error", "configurable", nil},
		{"version 2", `{"workflowId":"conformance-noop","configurable":{"version":2}}`, "validation_error", "configurable", nil},
		{"unknown section", `{"workflowId":"conformance-noop","configurable":{"version":1,"x":{}}}`, "validation_error", "configurable", nil},
		{"unknown key", `{"workflowId":"conformance-noop","configurable":{"version":1,"run":{"x":1}}}`, "validation_error", "configurable", nil},
		{"dotted key", `{"workflowId":"conformance-noop","configurable":{"version":1,"ai.provider":"x"}}`, "validation_error", "configurable", nil},
		{"timeout 0", `{"workflowId":"conformance-noop","configurable":{"version":1,"run":{"runTimeoutMs":0}}}`, "validation_error", "configurable", nil},
		{"fractional timeout", `{"workflowId":"conformance-noop","configurable":{"version":1,"run":{"runTimeoutMs":1.5}}}`, "validation_error", "configurable", nil},
		{"provider", `{"workflowId":"conformance-noop","configurable":{"version":1,"ai":{"provider":"x"}}}`, "validation_error", "configurable.ai.provider", nil},
		{"credential", `{"workflowId":"conformance-noop","configurable":{"version":1,"ai":{"credentialRef":"x"}}}`, "credential_forbidden", "configurable.ai.credentialRef", nil},
		{"mock provider", `{"workflowId":"conformance-noop","configurable":{"version":1,"ai":{"mockProvider":{"id":"x"}}}}`, "validation_error", "configurable.ai.mockProvider", nil},
		{"mock provider in production", `{"workflowId":"conformance-noop","configurable":{"version":1,"ai":{"mockProvider":{"id":"x"}}}}`,
			"mock_provider_forbidden", "configurable.ai.mockProvider", h.as(referencehost.KeyProduction)},
		{"unregistered org", `{"workflowId":"conformance-noop","configurable":{"version":1,"extensions":{"acme":{}}}}`, "validation_error", "configurable.extensions", nil},
		{"workflow's own schema", `{"workflowId":"conformance-configurable-schema","configurable":{"version":1,"ai":{}}}`, "validation_error", "configurable", nil},
		{"forced engine out of range", `{"workflowId":"conformance-noop"}`, "validation_error", "OpenWOP-Force-Engine-Version", []string{"OpenWOP-Force-Engine-Version", "3"}},
		{"forced engine no number", `{"workflowId":"conformance-noop"}`, "validation_error", "OpenWOP-Force-Engine-Version", []string{"OpenWOP-Force-Engine-Version", "-1"}},
		{"forced engine in production", `{"workflowId":"conformance-noop"}`, "force_engine_version_forbidden", "",
			append(h.as(referencehost.KeyProduction), "OpenWOP-Force-Engine-Version", "1")},
		{"dedup of another kind", `{"workflowId":"conformance-noop","scopeId":"s"}`, "validation_error", "OpenWOP-Dedup", []string{"OpenWOP-Dedup", "maybe"}},
		{"read-only key", `{"workflowId":"conformance-noop"}`, "forbidden", "", h.as(referencehost.KeyReadOnly)},
		{"media type", `{"workflowId":"conformance-noop"}`, "unsupported_media_type", "", []string{"Content-Type", "text/plain"}},
		{"content coding", `{"workflowId":"conformance-noop"}`, "unsupported_media_type", "", []string{"Content-Encoding", "gzip"}},
		{"not JSON under another type", `<run/>`, "validation_error", "body", []string{"Content-Type", "application/xml"}},
	}
	before := len(h.call("GET", "/runs", "").json(t)["runs"].([]any))
	for _, c := range cases {
		r := h.call("POST", "/runs", c.body, c.header...)
		assert.Equal(t, c.code, r.code(t), "%s: %s", c.name, r.body)
		if c.field != "" {
			assert.Equal(t, c.field, r.details(t)["field"], c.name)
		}
	}
	assert.Len(t, h.call("GET", "/runs", "").json(t)["runs"], before, "a refusal creates nothing")

	for _, accepted := range []string{
		`{"workflowId":"conformance-noop","tenantId":"tenant-a"}`,
		`{"workflowId":"conformance-noop","tags":[` + strings.Repeat(`"t",`, 99) + `"` + long[:256] + `"]}`,
		`{"workflowId":"conformance-noop","configurable":{"version":1,"run":{"runTimeoutMs":1000000000}}}`,
		`{"workflowId":"conformance-configurable-schema","configurable":{"version":1,"run":{"recursionLimit":1}}}`,
		` {"workflowId":"conformance-noop"} `,
	} {
		h.create(accepted)
	}
	h.create(`{"workflowId":"conformance-noop"}`, "Content-Type", "application/json; charset=utf-8")
	h.create(`{"workflowId":"conformance-noop"}`, "Content-Type", "")
}

// conversation is a workflow that needs a family this host does not advertise.
func conversation(t testing.TB) fixtures.Workflow {
	t.Helper()
	return parse(t, `{"id":"gated","name":"Gated","version":"1","nodes":[{"id":"n","typeId":"core.conversationGate","name":"N",
		"position":{"x":0,"y":0},"config":{},"inputs":{}}],"edges":[],"triggers":[],"variables":[],"metadata":{},"settings":{}}`)
}

func parse(t testing.TB, document string) fixtures.Workflow {
	t.Helper()
	workflow, err := fixtures.Parse([]byte(document))
	require.NoError(t, err)
	return workflow
}
