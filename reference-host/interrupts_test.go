package referencehost_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

// asks creates a run and waits until it asks; node is where.
func (h *testHost) asks(body string) (id, path string) {
	h.t.Helper()
	id, path = h.create(body)
	h.await(path, "interrupt.requested", 1)
	return id, path
}

// resolve answers the interrupt of a node as the caller with the key.
func (h *testHost) resolve(path, node, value, key string, header ...string) *reply {
	h.t.Helper()
	return h.call("POST", path+"/interrupts/"+node, `{"resumeValue":`+value+`}`, append(h.as(key), header...)...)
}

func (h *testHost) accept(path string) {
	h.t.Helper()
	r := h.resolve(path, "gate", `{"action":"accept"}`, referencehost.KeyTenantA)
	require.Equal(h.t, http.StatusOK, r.StatusCode, string(r.body))
}

func find(events []map[string]any, eventType string) []map[string]any {
	var found []map[string]any
	for _, event := range events {
		if event["type"] == eventType {
			found = append(found, event)
		}
	}
	return found
}

func measured(inputs string) string {
	return `{"workflowId":"wopcert-approval","inputs":` + inputs + `}`
}

func TestApproval(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.asks(`{"workflowId":"conformance-approval"}`)
	snapshot := h.call("GET", path, "").json(t)
	assert.Equal(t, "waiting-approval", snapshot["status"])
	assert.Equal(t, "gate", snapshot["currentNodeId"])
	r := h.resolve(path, "gate", `{"action":"accept","feedback":"fine","decidedAt":"2026-03-01T12:00:00Z"}`, referencehost.KeyTenantA)
	require.Equal(t, http.StatusOK, r.StatusCode, string(r.body))
	assert.Equal(t, "gate", r.json(t)["nodeId"])
	assert.Equal(t, "completed", h.finish(path)["status"])
	events := h.events(path)
	assert.Equal(t, "run.started node.started(gate) node.suspended(gate) interrupt.requested(gate) approval.requested(gate) "+
		"approval.granted(gate) interrupt.resolved(gate) approval.received(gate) node.resumed(gate) node.completed(gate) run.completed", trace(events))
	request, resolution := payload(events[3]), payload(events[6])
	assert.Equal(t, request, payload(events[4]))
	assert.Equal(t, resolution, payload(events[7]))
	assert.Equal(t, object{
		"artifactId": "gate", "artifactType": "decision", "title": "Conformance approval", "actions": []any{"accept", "reject"},
	}, request["data"])
	assert.Equal(t, "accept", resolution["action"])
	assert.Equal(t, "granted", resolution["decision"])
	assert.Equal(t, "operator-a", resolution["resolvedBy"].(object)["subjectId"])
	assert.Equal(t, object{"action": "accept", "feedback": "fine", "decidedAt": "2026-03-01T12:00:00Z"}, resolution["resumeValue"])
	assert.Equal(t, resolution["resumeValue"], payload(events[8])["resumeValue"])
}

func TestApprovalActions(t *testing.T) {
	t.Parallel()
	h := start(t)
	for name, c := range map[string]struct{ value, status, action string }{
		"reject":      {`{"action":"reject"}`, "failed", "reject"},
		"refine":      {`{"action":"refine","refineFeedback":{"scope":"items","itemIds":["a"],"text":"more"}}`, "completed", "refine"},
		"edit-accept": {`{"action":"edit-accept","editedArtifactData":{"x":1}}`, "completed", "edit-accept"},
	} {
		_, path := h.asks(measured(`{"artifactData":{"x":0}}`))
		r := h.resolve(path, "gate", c.value, referencehost.KeyTenantA)
		require.Equal(t, http.StatusOK, r.StatusCode, name+string(r.body))
		snapshot := h.finish(path)
		assert.Equal(t, c.status, snapshot["status"], name)
		events := h.events(path)
		resolution := payload(find(events, "interrupt.resolved")[0])
		assert.Equal(t, c.action, resolution["action"], name)
		assert.NotEmpty(t, resolution["resumeValue"].(object)["decidedAt"], name)
		switch name {
		case "reject":
			assert.Equal(t, "approval_rejected", snapshot["error"].(object)["code"])
			failed := payload(find(events, "node.failed")[0])["error"].(object)
			assert.Equal(t, false, failed["retryable"])
			assert.Equal(t, "gate", payload(find(events, "run.failed")[0])["failedNodeId"])
		case "refine":
			assert.Equal(t, object{"scope": "items", "itemIds": []any{"a"}, "text": "more"}, resolution["refineFeedback"])
		default:
			assert.Equal(t, object{"x": 1.0}, resolution["editedArtifactData"])
			assert.Equal(t, object{"x": 1.0}, payload(find(events, "node.completed")[0])["outputs"].(object)["artifactData"])
		}
	}
}

func TestAskDoesNotEndTheWait(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.asks(measured(`{}`))
	r := h.resolve(path, "gate", `{"action":"ask","question":"Who wrote this?"}`, referencehost.KeyTenantA)
	require.Equal(t, http.StatusOK, r.StatusCode, string(r.body))
	assert.Equal(t, "waiting-approval", r.json(t)["status"])
	events := h.events(path)
	assert.Empty(t, find(events, "interrupt.resolved"))
	assert.Equal(t, "Who wrote this?", payload(find(events, "log.appended")[0])["fields"].(object)["ask"].(object)["question"])
	h.accept(path)
	assert.Equal(t, "completed", h.finish(path)["status"])
}

func TestRejectionIsRoutedOrEndsTheRunAndIsNotRetried(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.asks(`{"workflowId":"conformance-approval-reject-routed"}`)
	require.Equal(t, 200, h.resolve(path, "gate", `{"action":"reject"}`, referencehost.KeyTenantA).StatusCode)
	assert.Equal(t, "completed", h.finish(path)["status"])
	assert.Contains(t, trace(h.events(path)), "node.completed(on-reject)")
	assert.Contains(t, trace(h.events(path)), "node.skipped(on-accept)")

	_, path = h.asks(`{"workflowId":"wopcert-approval-retry"}`)
	require.Equal(t, 200, h.resolve(path, "gate", `{"action":"reject"}`, referencehost.KeyTenantA).StatusCode)
	assert.Equal(t, "approval_rejected", h.finish(path)["error"].(object)["code"])
	assert.NotContains(t, trace(h.events(path)), "node.retried")
}

func TestRefusedResolves(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.asks(`{"workflowId":"conformance-approval"}`)
	_, schema := h.asks(`{"workflowId":"wopcert-interrupt","inputs":{"kind":"custom","data":{"customKind":"x"},"resumeSchema":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}}}`)
	_, measure := h.asks(measured(`{}`))
	_, clear := h.asks(`{"workflowId":"conformance-clarification"}`)
	_, noop := h.create(`{"workflowId":"conformance-noop"}`)
	h.finish(noop)
	body := func(value string) string { return `{"resumeValue":` + value + `}` }
	for _, c := range []struct{ name, path, body, code string }{
		{"no body", path + "/interrupts/gate", "", "validation_error"},
		{"no resumeValue", path + "/interrupts/gate", `{}`, "validation_error"},
		{"another member", path + "/interrupts/gate", `{"resumeValue":{"action":"accept"},"x":1}`, "validation_error"},
		{"the value itself", path + "/interrupts/gate", `{"action":"accept"}`, "validation_error"},
		{"an action outside actions", path + "/interrupts/gate", body(`{"action":"refine","refineFeedback":{"scope":"whole"}}`), "validation_error"},
		{"ask outside actions", path + "/interrupts/gate", body(`{"action":"ask"}`), "validation_error"},
		{"no action", path + "/interrupts/gate", body(`{}`), "validation_error"},
		{"no object", path + "/interrupts/gate", body(`"accept"`), "validation_error"},
		{"another shape", path + "/interrupts/gate", body(`{"action":"accept","approved":true}`), "validation_error"},
		{"the action of a timeout", path + "/interrupts/gate", body(`{"action":"timeout"}`), "validation_error"},
		{"a decidedAt that is no time", path + "/interrupts/gate", body(`{"action":"accept","decidedAt":"yesterday"}`), "validation_error"},
		{"refine without feedback", measure + "/interrupts/gate", body(`{"action":"refine"}`), "validation_error"},
		{"refine without a scope", measure + "/interrupts/gate", body(`{"action":"refine","refineFeedback":{"text":"x"}}`), "validation_error"},
		{"refine with a scope of its own", measure + "/interrupts/gate", body(`{"action":"refine","refineFeedback":{"scope":"page"}}`), "validation_error"},
		{"edit-accept without data", measure + "/interrupts/gate", body(`{"action":"edit-accept"}`), "validation_error"},
		{"a value outside the resumeSchema", schema + "/interrupts/wait", body(`{"n":"one"}`), "validation_error"},
		{"an answer that is missing", clear + "/interrupts/ask", body(`{"answers":{}}`), "validation_error"},
		{"no such node", path + "/interrupts/other", body(`{"action":"accept"}`), "not_found"},
		{"no such run", "/runs/tenant-a~2F0123456789abcdef0123/interrupts/gate", body(`{"action":"accept"}`), "not_found"},
		{"another tenant's run", "/runs/tenant-b~2F0123456789abcdef0123/interrupts/gate", body(`{"action":"accept"}`), "id_tenant_mismatch"},
		{"a run that is over", noop + "/interrupts/noop", body(`{}`), "interrupt_already_resolved"},
	} {
		r := h.call("POST", c.path, c.body)
		assert.Equal(t, c.code, r.code(t), c.name+string(r.body))
	}
	r := h.resolve(path, "gate", `{"action":"accept"}`, referencehost.KeyReadOnly)
	assert.Equal(t, "forbidden", r.code(t))
	assert.Equal(t, "approvals:respond", r.details(t)["requiredScope"])
	assert.Equal(t, "unauthenticated", h.call("POST", path+"/interrupts/gate", body(`{"action":"accept"}`), "Authorization", "").code(t))
	for _, waiting := range []string{path, schema, measure, clear} {
		assert.Contains(t, h.call("GET", waiting, "").json(t)["status"], "waiting-")
	}
	require.Equal(t, 200, h.resolve(schema, "wait", `{"n":1}`, referencehost.KeyTenantA).StatusCode)
	require.Equal(t, 200, h.resolve(clear, "ask", `{"answers":{"q1":"blue"}}`, referencehost.KeyTenantA).StatusCode)
	assert.Equal(t, "completed", h.finish(schema)["status"])
	assert.Equal(t, "completed", h.finish(clear)["status"])
}

func TestOneCodePerState(t *testing.T) {
	t.Parallel()
	h := start(t)
	const value = `{"action":"accept"}`
	_, cancelled := h.asks(`{"workflowId":"conformance-approval"}`)
	require.Equal(t, 200, h.call("POST", cancelled+"/cancel", "").StatusCode)
	_, completed := h.asks(`{"workflowId":"conformance-approval"}`)
	h.accept(completed)
	h.finish(completed)
	_, pair := h.asks(`{"workflowId":"wopcert-interrupt-pair"}`)
	h.await(pair, "interrupt.requested", 2)
	require.Equal(t, 200, h.resolve(pair, "left", `1`, referencehost.KeyTenantA).StatusCode)
	for name, at := range map[string]string{"cancelled": cancelled + "/interrupts/gate", "completed": completed + "/interrupts/gate", "resolved": pair + "/interrupts/left"} {
		r := h.call("POST", at, `{"resumeValue":`+value+`}`)
		assert.Equal(t, "interrupt_already_resolved", r.code(t), name)
		assert.Equal(t, 409, r.StatusCode, name)
	}
	assert.Equal(t, "waiting-external", h.call("GET", pair, "").json(t)["status"])
	require.Equal(t, 200, h.resolve(pair, "right", `2`, referencehost.KeyTenantA).StatusCode)
	assert.Equal(t, "completed", h.finish(pair)["status"])
}

func TestOneWinner(t *testing.T) {
	t.Parallel()
	h := start(t)
	for range 20 {
		_, path := h.asks(`{"workflowId":"conformance-approval"}`)
		var group sync.WaitGroup
		codes := make([]string, 8)
		for i := range codes {
			group.Go(func() {
				r := h.resolve(path, "gate", []string{`{"action":"accept"}`, `{"action":"reject"}`}[i%2], referencehost.KeyTenantA)
				codes[i] = fmt.Sprint(r.StatusCode)
				if r.StatusCode != 200 {
					codes[i] = r.code(t)
				}
			})
		}
		group.Wait()
		won := 0
		for _, code := range codes {
			if code == "200" {
				won++
			} else {
				assert.Equal(t, "interrupt_already_resolved", code)
			}
		}
		assert.Equal(t, 1, won)
		h.finish(path)
		assert.Len(t, find(h.events(path), "interrupt.resolved"), 1)
	}
}

func TestResolveHonoursIdempotencyKey(t *testing.T) {
	t.Parallel()
	h := start(t)
	key := func(n int) []string {
		return []string{"Idempotency-Key", fmt.Sprintf("resolve-key-0123456789-%d", n)}
	}
	_, path := h.asks(`{"workflowId":"wopcert-interrupt-pair"}`)
	h.await(path, "interrupt.requested", 2)
	first := h.resolve(path, "left", `1`, referencehost.KeyTenantA, key(1)...)
	again := h.resolve(path, "left", `1`, referencehost.KeyTenantA, key(1)...)
	require.Equal(t, 200, first.StatusCode)
	assert.Equal(t, first.body, again.body)
	assert.Equal(t, "true", again.Header.Get("OpenWOP-Idempotent-Replay"))
	assert.Equal(t, "idempotency_key_mismatch", h.resolve(path, "left", `2`, referencehost.KeyTenantA, key(1)...).code(t))
	assert.Equal(t, "idempotency_key_mismatch", h.resolve(path, "right", `1`, referencehost.KeyTenantA, key(1)...).code(t), "another node is another request")
	require.Equal(t, 200, h.resolve(path, "right", `1`, referencehost.KeyTenantA, key(2)...).StatusCode)
	h.finish(path)
	assert.Len(t, find(h.events(path), "interrupt.resolved"), 2)
}

func TestOneKeyAsksOnce(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.asks(`{"workflowId":"wopcert-interrupt-same-key"}`)
	require.Equal(t, 200, h.resolve(path, "first", `{"n":1}`, referencehost.KeyTenantA).StatusCode)
	assert.Equal(t, "completed", h.finish(path)["status"])
	events := h.events(path)
	assert.Len(t, find(events, "interrupt.requested"), 1)
	for _, event := range find(events, "node.completed") {
		assert.Equal(t, object{"n": 1.0}, payload(event)["outputs"].(object)["resumeValue"], event["nodeId"])
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual))
	for _, workflow := range []string{"conformance-approval-timeout", "conformance-approval-timeout-approve"} {
		pending := manual.Pending()
		_, path := h.asks(`{"workflowId":"` + workflow + `"}`)
		manual.AwaitPending(pending + 2)
		manual.Advance(1500 * time.Millisecond)
		snapshot := h.finish(path)
		assert.Equal(t, "approval_rejected", snapshot["error"].(object)["code"], workflow)
		resolution := payload(find(h.events(path), "interrupt.resolved")[0])
		assert.Equal(t, "timeout", resolution["action"])
		assert.Equal(t, "timeout", resolution["reason"])
		assert.Equal(t, "rejected", resolution["decision"])
		assert.NotContains(t, resolution, "resumeValue")
		assert.NotContains(t, resolution, "resolvedBy")
		r := h.resolve(path, "gate", `{"action":"accept"}`, referencehost.KeyTenantA)
		assert.Equal(t, "interrupt_already_resolved", r.code(t))
	}
	_, path := h.asks(measured(`{"timeoutMs":0}`))
	manual.Advance(time.Minute)
	assert.Equal(t, "waiting-approval", h.call("GET", path, "").json(t)["status"], "0 is no timer")
}

// TestNobodyAnswersLate: the driver need not have come round to the timeout for it to be one.
func TestNobodyAnswersLate(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), withWorkflow("both", "[]",
		[]string{`gate core.approvalGate {"timeoutMs":1000}`, `work core.delay {"delayMs":1}`}))
	_, path := h.asks(`{"workflowId":"both"}`)
	manual.Advance(1100 * time.Millisecond)
	r := h.resolve(path, "gate", `{"action":"accept"}`, referencehost.KeyTenantA)
	assert.Equal(t, "interrupt_already_resolved", r.code(t))
	assert.Equal(t, "approval_rejected", h.finish(path)["error"].(object)["code"])
}

// TestPauseWhileSomethingWaits: what waits for an answer executes nothing that would have to be drained.
func TestPauseWhileSomethingWaits(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), withWorkflow("late", "[]",
		[]string{`gate core.approvalGate {}`, `work core.delay {"delayMs":1000}`}))
	_, path := h.asks(`{"workflowId":"late"}`)
	r := h.call("POST", path+":pause", "")
	assert.Equal(t, "run_state_conflict", r.code(t), "a run that waits is not running")
	h.accept(path)
	h.await(path, "node.completed", 1)
	require.Equal(t, 202, h.call("POST", path+":pause", `{"drainPolicy":"immediate"}`).StatusCode)
	require.Equal(t, 202, h.call("POST", path+":resume", "").StatusCode)
	manual.AwaitPending(2)
	manual.Advance(time.Second)
	assert.Equal(t, "completed", h.finish(path)["status"])
}
