package referencehost_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/fixtures"
	referencehost "wopcert/reference-host"
)

// without takes families out of what the host advertises.
func without(families ...string) func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		if c.Families == nil {
			c.Families = make(map[string]map[string]any)
		}
		for _, family := range families {
			c.Families[family] = nil
		}
	}
}

// facets lays facets over a family.
func facets(family string, values map[string]any) func(*referencehost.Config) {
	return withFamilies(map[string]map[string]any{family: values})
}

func payload(event map[string]any) map[string]any {
	p, _ := event["payload"].(map[string]any)
	return p
}

// ofType are the events of a type.
func ofType(events []map[string]any, eventType string) []map[string]any {
	var found []map[string]any
	for _, event := range events {
		if event["type"] == eventType {
			found = append(found, event)
		}
	}
	return found
}

func TestArtifact(t *testing.T) {
	t.Parallel()
	h := start(t)
	runID, path := h.create(`{"workflowId":"conformance-artifact-emit"}`)
	h.finish(path)
	created := ofType(h.events(path), "artifact.created")
	require.Len(t, created, 1)
	id := payload(created[0])["artifactId"].(string)
	assert.Equal(t, "conformance.artifact.brief", payload(created[0])["artifactType"])
	assert.Equal(t, "emit", payload(created[0])["nodeId"])

	for accept, want := range map[string]string{
		"": "application/json", "*/*": "application/json", "application/json": "application/json", "text/html": "application/json",
		"application/a2a+json": "application/a2a+json", "application/json;q=0.5, application/a2a+json": "application/a2a+json",
		"application/a2a+json;q=0.5, application/json": "application/json", "application/a2a+json;q=0": "application/json",
	} {
		r := h.call("GET", path+"/artifacts/"+id, "", "Accept", accept)
		require.Equal(t, http.StatusOK, r.StatusCode, "%s: %s", accept, r.body)
		assert.Equal(t, want, r.Header.Get("Content-Type"), accept)
		assert.Contains(t, r.Header.Values("Vary"), "Accept", accept)
		body := r.json(t)
		assert.Equal(t, id, body["artifactId"], accept)
		if want == "application/json" {
			assert.Equal(t, runID, body["runId"])
			assert.Equal(t, map[string]any{"title": "A brief", "points": []any{"one", "two"}}, body["data"])
			continue
		}
		part := body["parts"].([]any)[0].(map[string]any)
		assert.Equal(t, map[string]any{"title": "A brief", "points": []any{"one", "two"}}, part["data"])
		assert.Equal(t, "application/json", part["mediaType"])
		assert.Equal(t, "conformance.artifact.brief", body["metadata"].(map[string]any)["openwop"].(map[string]any)["artifactTypeId"])
	}
	assert.Equal(t, http.StatusOK, h.call("GET", path+"/artifacts/"+id, "", h.as(referencehost.KeyReadOnly)...).StatusCode)

	_, other := h.create(noop)
	assert.Equal(t, "not_found", h.call("GET", other+"/artifacts/"+id, "").code(t), "another run's artifact")
	assert.Equal(t, "not_found", h.call("GET", path+"/artifacts/nope", "").code(t))
	assert.Equal(t, "id_tenant_mismatch", h.call("GET", path+"/artifacts/"+id, "", h.as(referencehost.KeyTenantB)...).code(t))
	assert.Equal(t, "not_found", h.call("GET", "/runs/tenant-a~2F0000000000000000/artifacts/"+id, "").code(t))
	assert.Equal(t, "unauthenticated", h.call("GET", path+"/artifacts/"+id, "", "Authorization", "").code(t))
}

func TestArtifactNeedsItsScope(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *referencehost.Config) {
		c.Keys[0].Scopes = []string{referencehost.ScopeRunsCreate, referencehost.ScopeRunsRead}
	})
	_, path := h.create(noop)
	r := h.call("GET", path+"/artifacts/any", "")
	assert.Equal(t, "forbidden", r.code(t))
	assert.Equal(t, "artifacts:read", r.details(t)["requiredScope"])
}

func TestConversation(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, id := range []string{"conformance-conversation-lifecycle", "conformance-conversation-capability-negotiation"} {
		_, path := h.create(`{"workflowId":"` + id + `"}`)
		assert.Equal(t, "completed", h.finish(path)["status"])
		events := h.events(path)
		assert.Equal(t, []string{"run.started", "node.started", "conversation.opened", "conversation.exchanged", "conversation.closed",
			"node.completed", "run.completed"}, types(events))
		turn := payload(events[3])["turn"].(map[string]any)
		require.NoError(t, h.contract.ValidateValue("conversation-turn", turn))
		assert.Equal(t, "agent", turn["role"])
		assert.Equal(t, turn["content"], turn["parts"].([]any)[0].(map[string]any)["text"])
		assert.NotContains(t, turn["agent"], "model")
		assert.EqualValues(t, 1, payload(events[4])["turnCount"])
		for _, event := range events[3:5] {
			assert.Equal(t, payload(events[2])["conversationId"], payload(event)["conversationId"])
		}
	}
}

func TestConversationIsGated(t *testing.T) {
	t.Parallel()
	h := start(t, without("conversationPrimitive"))
	for _, id := range []string{"conformance-conversation-lifecycle", "conformance-conversation-capability-negotiation"} {
		r := h.call("POST", "/runs", `{"workflowId":"`+id+`"}`)
		assert.Equal(t, http.StatusUnprocessableEntity, r.StatusCode)
		assert.Equal(t, "capability_required", r.code(t))
		assert.Equal(t, "conversationPrimitive", r.details(t)["requiredCapability"])
		assert.Equal(t, http.StatusOK, h.call("GET", "/workflows/"+id, "").StatusCode, "it is held all the same")
	}
	assert.Empty(t, h.call("GET", "/runs", "").json(t)["runs"])
	assert.Contains(t, h.call("GET", "/.well-known/openwop", "").json(t)["fixtures"], "conformance-conversation-lifecycle")
}

func TestResidency(t *testing.T) {
	t.Parallel()
	create := func(region string) string {
		return `{"workflowId":"conformance-noop","residency":{"region":"` + region + `"}}`
	}
	h := start(t)
	for _, region := range []string{"eu-test-1", "us-test-1"} {
		_, path := h.create(create(region))
		snapshot := h.finish(path)
		text, err := json.Marshal([]any{snapshot, h.events(path)})
		require.NoError(t, err)
		assert.NotContains(t, string(text), region)
	}
	key := []string{"Idempotency-Key", strings.Repeat("k", 22)}
	for range 2 {
		r := h.call("POST", "/runs", create("mars-1"), key...)
		assert.Equal(t, "residency_unavailable", r.code(t))
		assert.Empty(t, r.Header.Get("OpenWOP-Idempotent-Replay"), "the refusal is retriable")
	}
	assert.Len(t, h.call("GET", "/runs", "").json(t)["runs"], 2)

	off := start(t, without("dataResidency"))
	assert.Equal(t, "residency_unavailable", off.call("POST", "/runs", create("eu-test-1")).code(t))
}

func TestAIOptions(t *testing.T) {
	t.Parallel()
	h := start(t)
	body := func(ai string) string {
		return `{"workflowId":"conformance-noop","configurable":{"version":1,"ai":` + ai + `}}`
	}
	for _, accepted := range []string{
		`{}`, `{"provider":"mock"}`, `{"credentialRef":"mock"}`, `{"credentialRef":"mock:mine"}`, `{"temperature":2,"maxRefusals":0}`,
		`{"mockProvider":{"id":"stream-text"}}`, `{"mockProvider":{"id":"stream-text","config":{"tokens":[""],"delayMsPerToken":0,"finishReason":"length"}}}`,
		`{"provider":"mock","credentialRef":"mock","mockProvider":{"id":"stream-text","config":{}}}`,
	} {
		assert.Equal(t, http.StatusCreated, h.call("POST", "/runs", body(accepted)).StatusCode, accepted)
	}
	for _, c := range []struct{ ai, code, field string }{
		{`{"provider":"openai"}`, "validation_error", "configurable.ai.provider"},
		{`{"provider":"Mock"}`, "validation_error", "configurable.ai.provider"},
		{`{"credentialRef":"vault:mine"}`, "credential_forbidden", "configurable.ai.credentialRef"},
		{`{"credentialRef":"mock:"}`, "credential_forbidden", "configurable.ai.credentialRef"},
		{`{"credentialRef":""}`, "credential_forbidden", "configurable.ai.credentialRef"},
		{`{"provider":"openai","credentialRef":"x"}`, "validation_error", "configurable.ai.provider"},
		{`{"temperature":2.1}`, "validation_error", "configurable"},
		{`{"mockProvider":{}}`, "validation_error", "configurable.ai.mockProvider"},
		{`{"mockProvider":{"id":"other"}}`, "validation_error", "configurable.ai.mockProvider"},
		{`{"mockProvider":{"id":"stream-text","extra":1}}`, "validation_error", "configurable.ai.mockProvider"},
		{`{"mockProvider":{"id":"stream-text","config":[]}}`, "validation_error", "configurable.ai.mockProvider"},
		{`{"mockProvider":{"id":"stream-text","config":{"tokens":[]}}}`, "validation_error", "configurable.ai.mockProvider"},
		{`{"mockProvider":{"id":"stream-text","config":{"tokens":[1]}}}`, "validation_error", "configurable.ai.mockProvider"},
		{`{"mockProvider":{"id":"stream-text","config":{"delayMsPerToken":-1}}}`, "validation_error", "configurable.ai.mockProvider"},
		{`{"mockProvider":{"id":"stream-text","config":{"delayMsPerToken":60001}}}`, "validation_error", "configurable.ai.mockProvider"},
		{`{"mockProvider":{"id":"stream-text","config":{"finishReason":"tired"}}}`, "validation_error", "configurable.ai.mockProvider"},
		{`{"mockProvider":{"id":"stream-text","config":{"usage":{"totalTokens":-1}}}}`, "validation_error", "configurable.ai.mockProvider"},
	} {
		r := h.call("POST", "/runs", body(c.ai))
		assert.Equal(t, c.code, r.code(t), c.ai)
		assert.Equal(t, c.field, r.details(t)["field"], c.ai)
	}
	assert.NotContains(t, string(h.call("POST", "/runs", body(`{"credentialRef":"vault:mine"}`)).body), "vault", "a reference is not repeated")

	production := h.as(referencehost.KeyProduction)
	r := h.call("POST", "/runs", body(`{"provider":"openai","credentialRef":"x","mockProvider":{"id":"other"}}`), production...)
	assert.Equal(t, "mock_provider_forbidden", r.code(t), "it comes before all else in the section")
	assert.Equal(t, http.StatusCreated, h.call("POST", "/runs", body(`{"provider":"mock"}`), production...).StatusCode)

	off := start(t, without("aiProviders"))
	assert.Equal(t, "validation_error", off.call("POST", "/runs", body(`{"provider":"mock"}`)).code(t))
	assert.Equal(t, "credential_forbidden", off.call("POST", "/runs", body(`{"credentialRef":"mock"}`)).code(t))
	assert.Equal(t, "validation_error", off.call("POST", "/runs", body(`{"mockProvider":{"id":"stream-text"}}`)).code(t))
	assert.Equal(t, "mock_provider_forbidden", off.call("POST", "/runs", body(`{"mockProvider":{"id":"stream-text"}}`), off.as(referencehost.KeyProduction)...).code(t))
	assert.Empty(t, off.call("GET", "/.well-known/openwop", "").json(t)["testing"].(map[string]any)["mockProviders"])
	_, path := off.create(`{"workflowId":"conformance-stream-text"}`)
	code, _ := failure(off.finish(path))
	assert.Equal(t, "capability_not_provided", code)
}

// node makes a workflow of one node.
func oneNode(t testing.TB, id, node string) fixtures.Workflow {
	t.Helper()
	workflow, err := fixtures.Parse([]byte(`{"id":"` + id + `","name":"W","version":"1","nodes":[` + node + `],"edges":[],"triggers":[],"variables":[],"metadata":{},"settings":{}}`))
	require.NoError(t, err)
	return workflow
}

func TestContentNodesRefuseABadConfig(t *testing.T) {
	t.Parallel()
	const end = `"name":"N","position":{"x":0,"y":0},"inputs":{},"config":`
	h := start(t, func(c *referencehost.Config) {
		c.Unlisted = []fixtures.Workflow{
			oneNode(t, "artifact-type", `{"id":"n","typeId":"conformance.artifact.emit",`+end+`{"artifactType":"Not a type","data":1}}`),
			oneNode(t, "artifact-data", `{"id":"n","typeId":"conformance.artifact.emit",`+end+`{"artifactType":"a.b"}}`),
			oneNode(t, "mute", `{"id":"n","typeId":"core.conversationGate",`+end+`{"replies":[]}}`),
			oneNode(t, "eval-alone", `{"id":"n","typeId":"wopcert.eval",`+end+`{}}`),
		}
	})
	for _, workflow := range []string{"artifact-type", "artifact-data", "mute", "eval-alone"} {
		_, path := h.create(`{"workflowId":"` + workflow + `"}`)
		snapshot := h.finish(path)
		assert.Equal(t, "failed", snapshot["status"], workflow)
		assert.Equal(t, "node_config_invalid", snapshot["error"].(map[string]any)["code"], workflow)
		assert.Equal(t, []string{"run.started", "node.started", "node.failed", "run.failed"}, types(h.events(path)), workflow)
	}
}

func TestAContractThatIsNone(t *testing.T) {
	t.Parallel()
	for _, contract := range []string{`{}`, `{"accepts":"all"}`, `{"accepts":[1]}`, `{"accepts":[],"also":1}`} {
		config, err := referencehost.DefaultConfig()
		require.NoError(t, err)
		config.Unlisted = []fixtures.Workflow{oneNode(t, "c", `{"id":"n","typeId":"core.noop","name":"N","position":{"x":0,"y":0},"inputs":{},"config":{},"envelopeContract":`+contract+`}`)}
		_, err = referencehost.New(config)
		assert.ErrorContains(t, err, "envelopeContract", contract)
	}
}

func TestStreamedText(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), func(c *referencehost.Config) { c.KeepAlive = 30 * time.Second })
	_, path := h.create(`{"workflowId":"conformance-stream-text","configurable":{"version":1,"ai":{"model":"mock-2","mockProvider":{"id":"stream-text","config":{
		"tokens":["Hello"," ","world","!"],"delayMsPerToken":10,"finishReason":"stop","usage":{"promptTokens":5,"completionTokens":4,"totalTokens":9}}}}}}`)
	manual.AwaitPending(2) // the deadline and the first token
	frames := h.stream(path + "/events?streamMode=messages")
	manual.AwaitPending(3) // the keep-alive
	for i, token := range []string{"Hello", " ", "world", "!"} {
		manual.AwaitPending(3)
		manual.Advance(10 * time.Millisecond)
		f := next(t, frames)
		assert.Equal(t, "ai.message.chunk", f.event)
		var chunk map[string]any
		require.NoError(t, json.Unmarshal([]byte(f.data), &chunk))
		assert.Equal(t, token, chunk["chunk"])
		assert.Equal(t, i == 3, chunk["isLast"])
		meta := chunk["meta"].(map[string]any)
		assert.Equal(t, "mock", meta["provider"])
		assert.Equal(t, "mock-2", meta["model"])
		assert.Equal(t, i == 3, meta["usage"] != nil)
		if i == 3 {
			assert.Equal(t, "stop", meta["finishReason"])
			assert.EqualValues(t, 4, meta["usage"].(map[string]any)["completionTokens"])
		}
	}
	assert.Empty(t, collect(t, frames))
	h.finish(path)
	events := h.events(path)
	assert.Equal(t, []string{"run.started", "node.started", "output.chunk", "output.chunk", "output.chunk", "output.chunk", "provider.usage",
		"node.completed", "run.completed"}, types(events))
	usage := payload(events[6])
	assert.Equal(t, map[string]any{"provider": "mock", "model": "mock-2", "nodeId": "say", "inputTokens": 5.0, "outputTokens": 4.0,
		"totalTokens": 9.0, "costEstimateUsd": 0.000013, "currency": "USD"}, usage)
	assert.Equal(t, map[string]any{"text": "Hello world!"}, payload(events[8])["outputs"])
}

func TestUsageWithoutAnEstimate(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*referencehost.Config){without("providerUsage"), facets("providerUsage", map[string]any{"costEstimates": false})} {
		h := start(t, change)
		_, path := h.create(`{"workflowId":"conformance-stream-text"}`)
		assert.Equal(t, "completed", h.finish(path)["status"])
		usage := ofType(h.events(path), "provider.usage")
		require.Len(t, usage, 1)
		assert.NotContains(t, payload(usage[0]), "costEstimateUsd")
		assert.NotContains(t, payload(usage[0]), "currency")
	}
}

// brokenSides is a store that keeps logs and nothing beside them.
type brokenSides struct{ referencehost.Store }

func (brokenSides) Annotate(ctx, string, referencehost.Annotation) error { return errNoSpace }

func (brokenSides) Annotations(ctx, string) ([]referencehost.Annotation, error) {
	return nil, errNoSpace
}

func (brokenSides) PutArtifact(ctx, string, referencehost.Artifact) error { return errNoSpace }

var errNoSpace = errors.New("no space")

func TestAStoreThatIsOutOfOrder(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *referencehost.Config) { c.Store = brokenSides{c.Store} })
	_, path := h.create(`{"workflowId":"conformance-artifact-emit"}`)
	code, _ := failure(h.finish(path))
	assert.Equal(t, "internal_error", code)
	assert.Empty(t, ofType(h.events(path), "artifact.created"), "nothing is announced that is not there")
	for _, method := range []string{"GET", "POST"} {
		r := h.call(method, path+"/annotations", `{"signal":{"kind":"flag"}}`)
		assert.Equal(t, http.StatusInternalServerError, r.StatusCode)
		assert.NotContains(t, string(r.body), "space")
	}
}
