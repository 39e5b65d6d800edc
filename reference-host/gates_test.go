package referencehost_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

func TestKinds(t *testing.T) {
	t.Parallel()
	h := start(t)
	for kind, c := range map[string]struct{ data, status string }{
		"approval":              {`{"artifactId":"a","artifactType":"t","title":"T","actions":["accept"]}`, "waiting-approval"},
		"clarification":         {`{"questions":[{"id":"q","question":"Why?"}]}`, "waiting-input"},
		"external-event":        {`{"eventType":"x.y","correlation":{"id":1}}`, "waiting-external"},
		"custom":                {`{"customKind":"mine","payload":[1,{"a":null}]}`, "waiting-input"},
		"conversation.start":    {`{"title":"Talk"}`, "waiting-input"},
		"conversation.exchange": {`{"prompt":"Well?","outcomeSchema":{"type":"string"}}`, "waiting-input"},
		"conversation.close":    {`{}`, "waiting-input"},
		"low-confidence":        {`{"agentId":"a.b","threshold":0.7,"observed":0.1}`, "waiting-approval"},
	} {
		_, path := h.asks(fmt.Sprintf(`{"workflowId":"wopcert-interrupt","inputs":{"kind":%q,"data":%s}}`, kind, c.data))
		assert.Equal(t, c.status, h.call("GET", path, "").json(t)["status"], kind)
		var want object
		require.NoError(t, json.Unmarshal([]byte(c.data), &want))
		got := payload(find(h.events(path), "interrupt.requested")[0])
		data := got["data"].(object)
		if strings.HasPrefix(kind, "conversation.") {
			assert.NotEmpty(t, data["conversationId"], kind)
			delete(data, "conversationId")
		}
		assert.Equal(t, object{"kind": kind, "key": "wait", "data": want}, got, kind)
		value := `"fine"`
		if kind == "approval" {
			value = `{"action":"accept"}`
		}
		if kind == "conversation.exchange" {
			assert.Equal(t, "validation_error", h.resolve(path, "wait", `7`, referencehost.KeyTenantA).code(t))
		}
		require.Equal(t, 200, h.resolve(path, "wait", value, referencehost.KeyTenantA).StatusCode, kind)
		assert.Equal(t, "completed", h.finish(path)["status"], kind)
	}
}

func TestRefusedInterrupts(t *testing.T) {
	t.Parallel()
	h := start(t)
	question := func(q string) string { return `{"questions":[` + q + `]}` }
	for name, inputs := range map[string]string{
		"a kind that is none":             `{"kind":"chat","data":{}}`,
		"the data of another kind":        `{"kind":"custom","data":{"questions":[]}}`,
		"a credential, ungated":           `{"kind":"credential","data":{"provider":"p","scopes":[],"reason":"missing","connectUrl":"https://h.example/"}}`,
		"a conversation id from outside":  `{"kind":"conversation.start","data":{"conversationId":"mine"}}`,
		"a resumeSchema that is none":     `{"kind":"custom","data":{"customKind":"x"},"resumeSchema":{"type":"thing"}}`,
		"a resumeSchema from elsewhere":   `{"kind":"custom","data":{"customKind":"x"},"resumeSchema":{"$ref":"https://example.org/s.json"}}`,
		"a question for a password":       `{"kind":"clarification","data":` + question(`{"id":"db_password","question":"?"}`) + `}`,
		"a schema for an API key":         `{"kind":"clarification","data":` + question(`{"id":"q","question":"?","schema":{"type":"object","properties":{"api-key":{"type":"string"}}}}`) + `}`,
		"a masked answer":                 `{"kind":"custom","data":{"customKind":"x"},"resumeSchema":{"anyOf":[{"type":"string","format":"password"}]}}`,
		"an outcome that is a credential": `{"kind":"conversation.exchange","data":{"prompt":"?","outcomeSchema":{"properties":{"clientSecret":{"type":"string"}}}}}`,
	} {
		_, path := h.create(`{"workflowId":"wopcert-interrupt","inputs":` + inputs + `}`)
		assert.Equal(t, "node_config_invalid", h.finish(path)["error"].(object)["code"], name)
		assert.NotContains(t, trace(h.events(path)), "interrupt.requested", name)
	}
	for name, inputs := range map[string]string{
		"a token count":       `{"kind":"custom","data":{"customKind":"x"},"resumeSchema":{"properties":{"tokenCount":{"type":"integer"},"secretary":{"type":"string"}}}}`,
		"a word in the prose": `{"kind":"clarification","data":` + question(`{"id":"q","question":"Has your password been reset?"}`) + `}`,
	} {
		_, path := h.create(`{"workflowId":"wopcert-interrupt","inputs":` + inputs + `}`)
		h.await(path, "interrupt.requested", 1)
		assert.Contains(t, h.call("GET", path, "").json(t)["status"], "waiting-", name)
	}
}

func TestWithoutTheFamily(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *referencehost.Config) {
		c.Families = map[string]map[string]any{"interrupt": nil}
	}, withWorkflow("talk-kind", "[]", []string{`w core.interrupt {"kind":"conversation.start","data":{}}`}))
	r := h.call("POST", "/runs", `{"workflowId":"conformance-approval"}`)
	assert.Equal(t, "capability_required", r.code(t))
	assert.Equal(t, "interrupt", r.details(t)["requiredCapability"])
	_, path := h.asks(`{"workflowId":"conformance-interrupt-external-event"}`)
	assert.Equal(t, "not_found", h.call("POST", path+"/interrupts/wait", `{"resumeValue":1}`).code(t))
	assert.Equal(t, "not_found", h.call("GET", "/interrupts/ow2.hs256.k1.a.b", "").code(t))
	assert.Equal(t, "callbackUrl", h.call("POST", "/runs", `{"workflowId":"conformance-noop","callbackUrl":"https://example.org/"}`).details(t)["field"])

	h = start(t, func(c *referencehost.Config) {
		c.Families = map[string]map[string]any{"conversationPrimitive": nil}
	}, withWorkflow("talk-kind", "[]", []string{`w core.interrupt {"kind":"conversation.start","data":{}}`}))
	assert.Equal(t, "conversationPrimitive", h.call("POST", "/runs", `{"workflowId":"talk-kind"}`).details(t)["requiredCapability"])
}

func TestLowConfidence(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.asks(`{"workflowId":"conformance-agent-low-confidence"}`)
	events := h.events(path)
	assert.Equal(t, "run.started node.started(low-conf-decider) agent.decided(low-conf-decider) node.suspended(low-conf-decider) interrupt.requested(low-conf-decider)", trace(events))
	assert.Equal(t, "low-confidence", payload(events[3])["reason"])
	assert.Equal(t, object{"agentId": "core.conformance.low-conf-decider", "threshold": 0.7, "observed": 0.5, "decision": object{"action": "proceed"}}, payload(events[4])["data"])
	assert.Equal(t, "waiting-approval", h.call("GET", path, "").json(t)["status"])
	require.Equal(t, 200, h.resolve(path, "low-conf-decider", `{"action":"proceed"}`, referencehost.KeyTenantA).StatusCode)
	assert.Equal(t, "completed", h.finish(path)["status"])
	assert.Len(t, find(h.events(path), "agent.decided"), 1)
	for threshold, waits := range map[string]bool{"0.5": false, "0.51": true, "0": false} {
		_, path := h.create(`{"workflowId":"conformance-agent-low-confidence","configurable":{"version":1,"run":{"escalationThreshold":` + threshold + `}}}`)
		if waits {
			h.await(path, "interrupt.requested", 1)
			continue
		}
		assert.Equal(t, "completed", h.finish(path)["status"], threshold)
	}
}

func TestConversationWithAUser(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.asks(`{"workflowId":"wopcert-conversation"}`)
	assert.Equal(t, "validation_error", h.resolve(path, "talk", `{"text":""}`, referencehost.KeyTenantA).code(t))
	require.Equal(t, 200, h.resolve(path, "talk", `{"text":"At five."}`, referencehost.KeyTenantA).StatusCode)
	assert.Equal(t, "completed", h.finish(path)["status"])
	events := h.events(path)
	assert.Equal(t, "run.started node.started(talk) conversation.opened(talk) conversation.exchanged(talk) node.suspended(talk) interrupt.requested(talk) "+
		"interrupt.resolved(talk) node.resumed(talk) conversation.exchanged(talk) conversation.closed(talk) node.completed(talk) run.completed", trace(events))
	assert.Equal(t, "At five.", payload(events[8])["turn"].(object)["content"])
	assert.Equal(t, payload(events[2])["conversationId"], payload(events[5])["data"].(object)["conversationId"])
}
