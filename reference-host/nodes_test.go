package referencehost_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

type runNode = func(context.Context, *referencehost.Call) (referencehost.Values, error)

func withNode(id string, run runNode) func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		c.NodeTypes = append(c.NodeTypes, referencehost.NodeType{ID: id, Run: run})
	}
}

// failing is a node that fails once the gate is open.
func failing(gate <-chan struct{}) runNode {
	return func(ctx context.Context, _ *referencehost.Call) (referencehost.Values, error) {
		select {
		case <-gate:
			return nil, &referencehost.NodeError{Code: "test_failure", Message: "as asked"}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// failsTimes is a node that fails the first n attempts.
func failsTimes(n int64) runNode {
	var made atomic.Int64
	return func(context.Context, *referencehost.Call) (referencehost.Values, error) {
		if made.Add(1) <= n {
			return nil, &referencehost.NodeError{Code: "test_failure", Message: "not yet"}
		}
		return nil, nil
	}
}

const retryThrice = `{"retry":{"maxAttempts":3,"backoffMs":500}}`

func TestRetries(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), withNode("test.flaky", failsTimes(2)), withWorkflow("flaky", "[]", []string{"f test.flaky {} " + retryThrice}))
	_, path := h.create(`{"workflowId":"flaky","configurable":{"version":1,"run":{"recursionLimit":1}}}`)
	for range 2 {
		manual.AwaitPending(2)
		manual.Advance(500 * time.Millisecond)
	}
	assert.Equal(t, "completed", h.finish(path)["status"], "attempts are no executions")
	events := h.events(path)
	assert.Equal(t, "run.started node.started(f) node.retried(f) node.started(f) node.retried(f) node.started(f) node.completed(f) run.completed", trace(events))
	assert.Equal(t, object{"nodeId": "f", "attempt": 2.0, "delayMs": 500.0, "lastError": object{"code": "test_failure", "message": "not yet"}}, payload(events[2]))
	assert.Equal(t, 3.0, payload(events[5])["attempt"])
}

func TestRetriesComeToAnEnd(t *testing.T) {
	t.Parallel()
	for _, advertised := range []bool{false, true} {
		change := []func(*referencehost.Config){
			withNode("test.flaky", failsTimes(9)),
			withWorkflow("flaky", "[]", []string{`f test.flaky {} {"retry":{"maxAttempts":2,"backoffMs":0}}`}),
		}
		if advertised {
			change = append(change, facets("deadLetter", object{"retentionDays": 7}))
		}
		h := start(t, change...)
		id, path := h.create(`{"workflowId":"flaky"}`)
		assert.Equal(t, "failed", h.finish(path)["status"])
		events := h.events(path)
		want := "run.started node.started(f) node.retried(f) node.started(f) node.failed(f) run.failed"
		if advertised {
			want += " run.dead-lettered"
			assert.Equal(t, object{"runId": id, "nodeId": "f", "reason": "test_failure", "attempts": 2.0}, payload(events[len(events)-1]))
		}
		assert.Equal(t, want, trace(events))
		assert.Equal(t, 2.0, payload(events[4])["attempts"])
		assert.Equal(t, "failed", h.call("GET", path, "").json(t)["status"])
	}
}

func TestARetryIsPausedCutAndCancelled(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), withNode("test.flaky", failsTimes(1)), withWorkflow("flaky", "[]", []string{"f test.flaky {} " + retryThrice}))
	_, path := h.create(`{"workflowId":"flaky"}`)
	manual.AwaitPending(2) // it waits for the second attempt
	require.Equal(t, http.StatusAccepted, h.call("POST", path+":pause", `{"drainPolicy":"immediate"}`).StatusCode)
	events := h.events(path)
	assert.NotContains(t, payload(events[len(events)-1]), "interruptedNodeId", "between attempts there is none to cut")
	require.Equal(t, http.StatusAccepted, h.call("POST", path+":resume", "").StatusCode)
	assert.Equal(t, "completed", h.finish(path)["status"])
	events = h.events(path)
	assert.Equal(t, "run.started node.started(f) node.retried(f) run.paused run.resumed node.started(f) node.completed(f) run.completed", trace(events))
	assert.Equal(t, 2.0, payload(events[5])["attempt"])

	h = start(t, withClock(manual), withNode("test.flaky", failsTimes(9)), withWorkflow("flaky", "[]", []string{"f test.flaky {} " + retryThrice}))
	_, path = h.create(`{"workflowId":"flaky"}`)
	manual.AwaitPending(2)
	require.Equal(t, http.StatusOK, h.call("POST", path+"/cancel", "").StatusCode)
	assert.Equal(t, "run.started node.started(f) node.retried(f) run.cancelled", trace(h.events(path)))
}

func TestADrainWaitsForTheRetries(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), withNode("test.flaky", failsTimes(1)),
		withWorkflow("flaky", "[]", []string{"f test.flaky {} " + retryThrice, "g core.noop"}, "f>g"))
	_, path := h.create(`{"workflowId":"flaky"}`)
	manual.AwaitPending(2)
	require.Equal(t, http.StatusAccepted, h.call("POST", path+":pause", "").StatusCode)
	manual.Advance(500 * time.Millisecond)
	assert.Equal(t, "run.started node.started(f) node.retried(f) node.started(f) node.completed(f) run.paused", trace(h.await(path, "run.paused", 1)))
}

func TestExternalWait(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), withWorkflow("patient", "[]", []string{`w core.externalEvent {"eventType":"x.y","timeoutMs":1000}`}))
	_, path := h.create(`{"workflowId":"conformance-interrupt-external-event"}`)
	events := h.await(path, "interrupt.requested", 1)
	assert.Equal(t, "run.started node.started(wait) node.suspended(wait) interrupt.requested(wait)", trace(events))
	suspended := payload(events[2])
	assert.Equal(t, "external-event", suspended["kind"])
	assert.Contains(t, suspended["interruptId"], "tenant-a/")
	assert.Equal(t, object{
		"kind": "external-event", "key": suspended["key"],
		"data": object{"eventType": "conformance.event", "correlation": object{"fixture": "conformance-interrupt-external-event"}},
	}, payload(events[3]))
	snapshot := h.call("GET", path, "").json(t)
	assert.Equal(t, "waiting-external", snapshot["status"])
	assert.Equal(t, "wait", snapshot["currentNodeId"])
	listed := h.call("GET", "/runs?status=waiting-external", "").json(t)["runs"].([]any)
	assert.Len(t, listed, 1)
	require.Equal(t, http.StatusOK, h.call("POST", path+"/cancel", "").StatusCode)
	snapshot = h.call("GET", path, "").json(t)
	assert.Equal(t, "cancelled", snapshot["status"])
	assert.NotContains(t, snapshot, "currentNodeId")

	_, path = h.create(`{"workflowId":"patient"}`)
	h.await(path, "interrupt.requested", 1)
	manual.AwaitPending(2)
	manual.Advance(time.Second)
	assert.Equal(t, "interrupt_expired", h.finish(path)["error"].(object)["code"])
	assert.Equal(t, "run.started node.started(w) node.suspended(w) interrupt.requested(w) interrupt.resolved(w) node.failed(w) run.failed", trace(h.events(path)))
}

func TestLimitsOfARunAreNumbersInRange(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, name := range []string{"runTimeoutMs", "recursionLimit", "maxLoopIterations"} {
		for _, value := range []string{"0", "-1", "1.5", `"5"`, "null"} {
			r := h.call("POST", "/runs", `{"workflowId":"conformance-noop","configurable":{"version":1,"run":{"`+name+`":`+value+`}}}`)
			assert.Equal(t, "validation_error", r.code(t), "%s %s", name, value)
		}
		_, path := h.create(`{"workflowId":"conformance-noop","configurable":{"version":1,"run":{"` + name + `":9007199254740991}}}`)
		assert.Equal(t, "completed", h.finish(path)["status"], "what is too much is clamped")
	}
}

func TestConfigurableIsTheSameForEveryAttempt(t *testing.T) {
	t.Parallel()
	const configurable = `{"version":1,"run":{"recursionLimit":7},"ai":{"temperature":0.5}}`
	seen := make(chan string, 8)
	gate := make(chan struct{})
	h := start(t, withNode("test.look", func(ctx context.Context, call *referencehost.Call) (referencehost.Values, error) {
		seen <- string(call.Run.Configurable)
		select {
		case <-gate:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}), withWorkflow("look", "[]", []string{"l test.look"}))
	_, path := h.create(`{"workflowId":"look","configurable":` + configurable + `}`)
	assert.Equal(t, configurable, <-seen)
	for _, verb := range []string{":pause", ":resume"} {
		body := map[string]string{":pause": `{"drainPolicy":"immediate"}`}[verb]
		require.Equal(t, http.StatusAccepted, h.call("POST", path+verb, body).StatusCode)
		assert.Contains(t, string(h.call("GET", path, "").body), `"configurable":`+configurable)
	}
	assert.Equal(t, configurable, <-seen, "of the fresh attempt too")
	close(gate)
	assert.Equal(t, object{"version": 1.0, "run": object{"recursionLimit": 7.0}, "ai": object{"temperature": 0.5}}, h.finish(path)["configurable"])
}

func TestWithoutAScopeThereIsNothingToClaim(t *testing.T) {
	t.Parallel()
	h := start(t)
	for range 2 {
		h.create(`{"workflowId":"conformance-cancellable"}`, "OpenWOP-Dedup", "enforce")
	}
}

func TestCapBreach(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual))
	_, path := h.create(`{"workflowId":"conformance-cap-breach","configurable":{"version":1,"run":{"recursionLimit":4}}}`)
	assert.Equal(t, "recursion_limit_exceeded", h.finish(path)["error"].(object)["code"])
	assert.Equal(t, object{"kind": "node-executions", "limit": 4.0, "observed": 5.0}, payload(ofType(h.events(path), "cap.breached")[0]))
	_, path = h.create(`{"workflowId":"conformance-cap-breach"}`)
	assert.Equal(t, "completed", h.finish(path)["status"])

	_, path = h.create(`{"workflowId":"conformance-run-duration-breach","configurable":{"version":1,"run":{"runTimeoutMs":250}}}`)
	manual.AwaitPending(2)
	manual.Advance(time.Second)
	assert.Equal(t, "run_timeout", h.finish(path)["error"].(object)["code"])
	events := h.events(path)
	assert.Equal(t, object{"kind": "run-duration", "limit": 250.0, "observed": 250.0}, payload(ofType(events, "cap.breached")[0]))
	assert.Empty(t, ofType(events, "node.completed"))
}
