package referencehost_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/fixtures"
	referencehost "wopcert/reference-host"
)

// await follows a run by long polls until its log holds n events of a type, and returns the log.
func (h *testHost) await(path, eventType string, n int) []map[string]any {
	h.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for after := ""; time.Now().Before(deadline); {
		r := h.call("GET", path+"/events/poll?timeout=1"+after, "")
		require.Equal(h.t, http.StatusOK, r.StatusCode, string(r.body))
		poll := r.json(h.t)
		events := h.events(path)
		if len(ofType(events, eventType)) >= n {
			return events
		}
		require.NotEqual(h.t, true, poll["isTerminal"], "the run ended without %s: %v", eventType, types(events))
		after = fmt.Sprintf("&afterSequence=%v", poll["lastSequence"])
	}
	h.t.Fatalf("no %s comes", eventType)
	return nil
}

// withWorkflow gives the host another workflow, of nodes "id typeId config-JSON" and edges "a>b".
func withWorkflow(id, variables string, nodes []string, edges ...string) func(*referencehost.Config) {
	document := map[string]any{
		"id": id, "name": id, "version": "1", "triggers": []any{}, "metadata": object{}, "settings": object{},
		"variables": json.RawMessage(variables),
	}
	list, joins := []any{}, []any{}
	for _, text := range nodes {
		part := strings.SplitN(text, " ", 4)
		node := object{
			"id": part[0], "typeId": part[1], "name": part[0], "position": object{"x": 0, "y": 0}, "inputs": object{}, "config": json.RawMessage("{}"),
		}
		if len(part) > 2 {
			node["config"] = json.RawMessage(part[2])
		}
		if len(part) > 3 {
			node["settings"] = json.RawMessage(part[3])
		}
		list = append(list, node)
	}
	for _, edge := range edges {
		source, target, _ := strings.Cut(edge, ">")
		joins = append(joins, object{"id": edge, "sourceNodeId": source, "targetNodeId": target})
	}
	document["nodes"], document["edges"] = list, joins
	encoded, err := json.Marshal(document)
	if err != nil {
		panic(err)
	}
	workflow, err := fixtures.Parse(encoded)
	if err != nil {
		panic(err)
	}
	return func(c *referencehost.Config) { c.Unlisted = append(c.Unlisted, workflow) }
}

type object = map[string]any

// trace is a log in short: the types, with the node where there is one.
func trace(events []map[string]any) string {
	var parts []string
	for _, event := range events {
		part := event["type"].(string)
		if node, ok := event["nodeId"].(string); ok {
			part += "(" + node + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

const twoDelays = `{"workflowId":"wopcert-two-delays","inputs":{"firstMs":1000,"secondMs":1000}}`

func TestImmediatePauseCutsTheAttempt(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual))
	id, path := h.create(twoDelays)
	manual.AwaitPending(2)
	r := h.call("POST", path+":pause", `{"drainPolicy":"immediate","reason":"lunch"}`)
	require.Equal(t, http.StatusAccepted, r.StatusCode, string(r.body))
	assert.Equal(t, "paused", r.json(t)["status"])
	assert.Equal(t, id, r.json(t)["runId"])
	assert.Equal(t, "2026-03-01T12:00:00.000Z", r.json(t)["pausedAt"])
	events := h.events(path)
	assert.Equal(t, "run.started node.started(a) run.paused", trace(events))
	assert.Equal(t, object{"reason": "lunch", "drainPolicy": "immediate", "interruptedNodeId": "a", "interruptedAttempt": 1.0}, payload(events[2]))
	assert.Equal(t, "paused", h.call("GET", path, "").json(t)["status"])

	for _, verb := range []string{":pause", "%3Apause"} {
		r = h.call("POST", path+verb, "")
		assert.Equal(t, "run_state_conflict", r.code(t))
		assert.Equal(t, "paused", r.details(t)["runStatus"])
	}
	manual.Advance(time.Minute) // the cut attempt's timer, if it were still set
	assert.Len(t, h.events(path), 3)

	r = h.call("POST", path+":resume", `{"reason":"back"}`)
	require.Equal(t, http.StatusAccepted, r.StatusCode, string(r.body))
	assert.Equal(t, "running", r.json(t)["status"])
	manual.AwaitPending(2)
	assert.Equal(t, "running", h.call("GET", path, "").json(t)["status"])
	r = h.call("POST", path+":resume", "")
	assert.Equal(t, "run_state_conflict", r.code(t))
	assert.Equal(t, "running", r.details(t)["runStatus"])
	manual.Advance(time.Second)
	h.await(path, "node.started", 3)
	manual.AwaitPending(2)
	manual.Advance(time.Second)
	assert.Equal(t, "completed", h.finish(path)["status"])
	events = h.events(path)
	assert.Equal(t, "run.started node.started(a) run.paused run.resumed node.started(a) node.completed(a) node.started(b) node.completed(b) run.completed", trace(events))
	assert.Equal(t, 2.0, payload(events[4])["attempt"], "the attempt is a fresh one")
	assert.Equal(t, object{"reason": "back"}, payload(events[3]))
	for _, verb := range []string{":pause", ":resume"} {
		r = h.call("POST", path+verb, "")
		assert.Equal(t, "run_terminal", r.code(t))
		assert.Equal(t, "completed", r.details(t)["runStatus"])
	}
}

func TestPauseDrainsTheCurrentNode(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "{}", `{"drainPolicy":"drain-current-node"}`} {
		manual := manualClock()
		h := start(t, withClock(manual))
		_, path := h.create(twoDelays)
		manual.AwaitPending(2)
		r := h.call("POST", path+":pause", body)
		require.Equal(t, http.StatusAccepted, r.StatusCode, string(r.body))
		assert.NotContains(t, r.json(t), "pausedAt", "it is not paused yet")
		assert.Equal(t, "running", h.call("GET", path, "").json(t)["status"])
		for _, verb := range []string{":pause", ":resume"} {
			r = h.call("POST", path+verb, "")
			assert.Equal(t, "run_state_conflict", r.code(t), verb)
			assert.Equal(t, "running", r.details(t)["runStatus"])
		}
		manual.Advance(time.Second)
		events := h.await(path, "run.paused", 1)
		assert.Equal(t, "run.started node.started(a) node.completed(a) run.paused", trace(events))
		assert.Equal(t, object{"drainPolicy": "drain-current-node"}, payload(events[3]))
		require.Equal(t, http.StatusAccepted, h.call("POST", path+":resume", "").StatusCode)
		manual.AwaitPending(2)
		manual.Advance(time.Second)
		h.finish(path)
		assert.Equal(t, "run.started node.started(a) node.completed(a) run.paused run.resumed node.started(b) node.completed(b) run.completed", trace(h.events(path)))
	}
}

func TestADrainedLastNodeDoesNotEndTheRun(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), withWorkflow("wait-and-fail", "[]",
		[]string{`wait core.delay {"delayMs":1000}`, "other core.fail {}"}, "wait>other"))
	for _, workflow := range []string{"conformance-delay", "wait-and-fail"} {
		_, path := h.create(`{"workflowId":"` + workflow + `"}`)
		manual.AwaitPending(2)
		require.Equal(t, http.StatusAccepted, h.call("POST", path+":pause", "").StatusCode)
		manual.Advance(time.Second)
		assert.Equal(t, "run.paused", h.await(path, "run.paused", 1)[3]["type"])
		manual.Advance(time.Hour)
		assert.Equal(t, "paused", h.call("GET", path, "").json(t)["status"], "its time is over, and it stays paused")
		require.Equal(t, http.StatusAccepted, h.call("POST", path+":resume", "").StatusCode)
		assert.Equal(t, "run_timeout", h.finish(path)["error"].(object)["code"], "the breach takes effect now")
		assert.Equal(t, "run.started node.started node.completed run.paused run.resumed cap.breached run.failed", strings.Join(types(h.events(path)), " "))
	}
}

func TestAFailureIsDrainedToo(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	h := start(t, withNode("test.failing", failing(gate)), withWorkflow("failing", "[]", []string{"f test.failing"}))
	_, path := h.create(`{"workflowId":"failing"}`)
	h.await(path, "node.started", 1)
	require.Equal(t, http.StatusAccepted, h.call("POST", path+":pause", "").StatusCode)
	close(gate)
	assert.Equal(t, "run.started node.started(f) node.failed(f) run.paused", trace(h.await(path, "run.paused", 1)))
	require.Equal(t, http.StatusAccepted, h.call("POST", path+":resume", "").StatusCode)
	assert.Equal(t, "failed", h.finish(path)["status"])
}

func TestPauseRefusals(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(`{"workflowId":"conformance-interrupt-external-event"}`)
	h.await(path, "interrupt.requested", 1)
	for _, body := range []string{`{"drainPolicy":"later"}`, `{"x":1}`, `[]`, `{"reason":7}`, `{`} {
		assert.Equal(t, "validation_error", h.call("POST", path+":pause", body).code(t), body)
	}
	assert.Equal(t, "validation_error", h.call("POST", path+":resume", `{"drainPolicy":"immediate"}`).code(t))
	assert.Equal(t, "validation_error", h.call("POST", path+":pause", `{"reason":"`+strings.Repeat("x", 1025)+`"}`).code(t))
	for _, verb := range []string{":pause", ":resume"} {
		r := h.call("POST", path+verb, "")
		assert.Equal(t, "run_state_conflict", r.code(t))
		assert.Equal(t, "waiting-external", r.details(t)["runStatus"])
		assert.Equal(t, "forbidden", h.call("POST", path+verb, "", h.as(referencehost.KeyReadOnly)...).code(t))
		assert.Equal(t, "id_tenant_mismatch", h.call("POST", path+verb, "", h.as(referencehost.KeyTenantB)...).code(t))
		assert.Equal(t, "not_found", h.call("POST", "/runs/tenant-a~2F0123456789abcdef"+verb, "").code(t))
		assert.Equal(t, "validation_error", h.call("POST", "/runs/nothing"+verb, "").code(t))
	}
	assert.Equal(t, 4, len(h.events(path)), "a refusal writes nothing")
	require.Equal(t, 200, h.call("POST", path+"/cancel", "").StatusCode)
	assert.Equal(t, "run_terminal", h.call("POST", path+":resume", "").code(t))
}

func TestPauseIsIdempotentByKey(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual))
	_, path := h.create(twoDelays)
	manual.AwaitPending(2)
	for _, verb := range []string{":pause", ":resume"} {
		key := []string{"Idempotency-Key", "0123456789012345678901" + verb[1:]}
		body := map[string]string{":pause": `{"drainPolicy":"immediate"}`, ":resume": "{}"}[verb]
		first, second := h.call("POST", path+verb, body, key...), h.call("POST", path+verb, body, key...)
		assert.Equal(t, http.StatusAccepted, second.StatusCode)
		assert.Equal(t, first.body, second.body)
		assert.Equal(t, "true", second.Header.Get("OpenWOP-Idempotent-Replay"))
	}
	assert.Len(t, ofType(h.events(path), "run.paused"), 1)
	assert.Len(t, ofType(h.events(path), "run.resumed"), 1)
}

func TestCancelLeavesAPause(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual))
	for _, policy := range []string{"immediate", "drain-current-node"} {
		_, path := h.create(twoDelays)
		manual.AwaitPending(2)
		require.Equal(t, http.StatusAccepted, h.call("POST", path+":pause", `{"drainPolicy":"`+policy+`"}`).StatusCode)
		require.Equal(t, http.StatusOK, h.call("POST", path+"/cancel", `{"reason":"enough"}`).StatusCode)
		events := h.events(path)
		last := events[len(events)-1]
		assert.Equal(t, "run.cancelled", last["type"])
		assert.Equal(t, "enough", payload(last)["reason"])
		assert.Equal(t, "operator-a", payload(last)["cancelledBy"])
		if policy == "immediate" {
			assert.Equal(t, "run.started node.started(a) run.paused run.cancelled", trace(events), "the cut attempt has no event of its own")
		}
	}
}

func TestBulkCancel(t *testing.T) {
	t.Parallel()
	h := start(t)
	live, livePath := h.create(`{"workflowId":"conformance-cancellable"}`)
	other, otherPath := h.create(`{"workflowId":"conformance-cancellable"}`)
	ended, endedPath := h.create(noop)
	h.finish(endedPath)
	foreign, _ := h.create(`{"workflowId":"conformance-cancellable"}`, h.as(referencehost.KeyTenantB)...)
	ids := []string{"tenant-a/0123456789abcdef", live, foreign, ended, "tenant-b/0123456789abcdef", "x", strings.Replace(other, "/", "~2F", 1), other, live}
	encoded, err := json.Marshal(object{"runIds": ids, "reason": "closing"})
	require.NoError(t, err)
	r := h.call("POST", "/runs:bulk-cancel", string(encoded))
	require.Equal(t, http.StatusOK, r.StatusCode, string(r.body))
	var results []string
	for i, item := range r.json(t)["results"].([]any) {
		entry := item.(object)
		assert.Equal(t, ids[i], entry["runId"])
		if entry["ok"] == true {
			results = append(results, entry["status"].(string))
		} else {
			results = append(results, entry["error"].(object)["error"].(string))
		}
	}
	assert.Equal(t, []string{
		"not_found", "cancelled", "id_tenant_mismatch", "run_terminal", "id_tenant_mismatch", "not_found", "not_found", "cancelled", "run_terminal",
	}, results)
	for _, path := range []string{livePath, otherPath} {
		cancelled := ofType(h.events(path), "run.cancelled")
		require.Len(t, cancelled, 1)
		assert.Equal(t, "closing", payload(cancelled[0])["reason"])
	}
	assert.Equal(t, "running", h.call("GET", "/runs/"+strings.Replace(foreign, "/", "~2F", 1), "", h.as(referencehost.KeyTenantB)...).json(t)["status"])
}

func TestBulkCancelRefusals(t *testing.T) {
	t.Parallel()
	h := start(t)
	live, path := h.create(`{"workflowId":"conformance-cancellable"}`)
	many := `"` + live + `"` + strings.Repeat(`,"tenant-a/0123456789abcdef"`, 100)
	r := h.call("POST", "/runs:bulk-cancel", `{"runIds":[`+many+`]}`)
	assert.Equal(t, "validation_error", r.code(t))
	assert.Equal(t, 100.0, r.details(t)["maxRunIds"])
	for _, body := range []string{"", `{}`, `{"runIds":[]}`, `{"runIds":"x"}`, `{"runIds":[1]}`, `{"runIds":["x"],"force":true}`, `{"runIds":["x"],"reason":"` + strings.Repeat("x", 513) + `"}`} {
		assert.Equal(t, "validation_error", h.call("POST", "/runs:bulk-cancel", body).code(t), body)
	}
	assert.Equal(t, "forbidden", h.call("POST", "/runs:bulk-cancel", `{"runIds":["`+live+`"]}`, h.as(referencehost.KeyReadOnly)...).code(t))
	assert.Equal(t, "running", h.call("GET", path, "").json(t)["status"])
}

// withFan gives the host a workflow whose nodes b and c run side by side.
var withFan = withWorkflow("fan", "[]", []string{
	"a core.noop", `b core.delay {"delayMs":500}`, `c core.delay {"delayMs":900}`, "d core.noop",
}, "a>b", "a>c", "b>d", "c>d")

func TestPauseOfNodesSideBySide(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), withFan)
	_, path := h.create(`{"workflowId":"fan"}`)
	manual.AwaitPending(3)
	require.Equal(t, http.StatusAccepted, h.call("POST", path+":pause", "").StatusCode)
	manual.Advance(500 * time.Millisecond)
	h.await(path, "node.completed", 2)
	assert.Equal(t, "running", h.call("GET", path, "").json(t)["status"], "one node still executes")
	manual.Advance(400 * time.Millisecond)
	events := h.await(path, "run.paused", 1)
	assert.Equal(t, "run.started node.started(a) node.completed(a) node.started(b) node.started(c) node.completed(b) node.completed(c) run.paused", trace(events))
	require.Equal(t, http.StatusAccepted, h.call("POST", path+":resume", "").StatusCode)
	assert.Equal(t, "completed", h.finish(path)["status"])

	_, path = h.create(`{"workflowId":"fan"}`)
	manual.AwaitPending(3)
	manual.Advance(500 * time.Millisecond)
	h.await(path, "node.completed", 2)
	require.Equal(t, http.StatusAccepted, h.call("POST", path+":pause", `{"drainPolicy":"immediate"}`).StatusCode)
	require.Equal(t, http.StatusAccepted, h.call("POST", path+":resume", "").StatusCode)
	manual.AwaitPending(2)
	manual.Advance(900 * time.Millisecond)
	h.finish(path)
	assert.Equal(t, "run.started node.started(a) node.completed(a) node.started(b) node.started(c) node.completed(b) run.paused run.resumed "+
		"node.started(c) node.completed(c) node.started(d) node.completed(d) run.completed", trace(h.events(path)), "what has completed is not done again")
}
