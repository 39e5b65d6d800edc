package referencehost_test

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/internal/clock"
	"wopcert/reference-host/internal/engine"
)

// question is an interrupt a test node raises.
func question(key string) engine.Interrupt {
	return engine.Interrupt{Kind: "custom", Key: key, Data: json.RawMessage(`{"customKind":"test"}`)}
}

// TestRetriedNodeIsNotAskedAgain: another attempt finds the answer of the one before.
func TestRetriedNodeIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	var attempts atomic.Int32
	h := start(t, withNode("test.asks-then-fails", func(ctx context.Context, call *referencehost.Call) (referencehost.Values, error) {
		resolution, err := call.Interrupt(ctx, question("k"))
		if err != nil {
			return nil, err
		}
		if attempts.Add(1) < 3 {
			return nil, &referencehost.NodeError{Code: "node_failed", Message: "not yet"}
		}
		return referencehost.Values{"value": resolution.ResumeValue}, nil
	}), withWorkflow("asks", "[]", []string{`n test.asks-then-fails {} {"retry":{"maxAttempts":3,"backoffMs":1}}`}))
	_, path := h.asks(`{"workflowId":"asks"}`)
	require.Equal(t, 200, h.resolve(path, "n", `{"a":[1,null]}`, referencehost.KeyTenantA).StatusCode)
	assert.Equal(t, "completed", h.finish(path)["status"])
	events := h.events(path)
	assert.Len(t, find(events, "node.retried"), 2)
	assert.Len(t, find(events, "interrupt.requested"), 1)
	assert.Len(t, find(events, "interrupt.resolved"), 1)
	assert.Equal(t, object{"a": []any{1.0, nil}}, payload(find(events, "node.completed")[0])["outputs"].(object)["value"])
}

// TestOneNodeAsksTwice: each key is a question of its own, and each re-entry runs through those that are answered.
func TestOneNodeAsksTwice(t *testing.T) {
	t.Parallel()
	h := start(t, withNode("test.asks-twice", func(ctx context.Context, call *referencehost.Call) (referencehost.Values, error) {
		values := referencehost.Values{}
		for _, key := range []string{"one", "two"} {
			resolution, err := call.Interrupt(ctx, question(key))
			if err != nil {
				return nil, err
			}
			values[key] = resolution.ResumeValue
		}
		return values, nil
	}), withWorkflow("asks", "[]", []string{`n test.asks-twice`}))
	_, path := h.asks(`{"workflowId":"asks"}`)
	require.Equal(t, 200, h.resolve(path, "n", `1`, referencehost.KeyTenantA).StatusCode)
	h.await(path, "interrupt.requested", 2)
	require.Equal(t, 200, h.resolve(path, "n", `2`, referencehost.KeyTenantA).StatusCode)
	assert.Equal(t, "completed", h.finish(path)["status"])
	events := h.events(path)
	assert.Len(t, find(events, "node.started"), 1)
	assert.Equal(t, object{"one": 1.0, "two": 2.0}, payload(find(events, "node.completed")[0])["outputs"])
}

// TestADrainDoesNotWaitForAnAnswer: the node that executes comes to wait, the run is paused at that, and takes the
// answer while it is.
func TestADrainDoesNotWaitForAnAnswer(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), withNode("test.works-then-asks", func(ctx context.Context, call *referencehost.Call) (referencehost.Values, error) {
		if asked, err := call.Recorded("interrupt.requested"); err != nil || len(asked) == 0 {
			if err := clock.Sleep(ctx, call.Clock, time.Second); err != nil {
				return nil, err
			}
		}
		resolution, err := call.Interrupt(ctx, question("k"))
		if err != nil {
			return nil, err
		}
		return referencehost.Values{"value": resolution.ResumeValue}, nil
	}), withWorkflow("asks", "[]", []string{`n test.works-then-asks`, `after core.noop`}, "n>after"))
	_, path := h.create(`{"workflowId":"asks"}`)
	h.await(path, "node.started", 1)
	manual.AwaitPending(2)
	require.Equal(t, 202, h.call("POST", path+":pause", "").StatusCode)
	manual.Advance(time.Second)
	h.await(path, "run.paused", 1)
	assert.Equal(t, "paused", h.call("GET", path, "").json(t)["status"])
	r := h.resolve(path, "n", `7`, referencehost.KeyTenantA)
	require.Equal(t, 200, r.StatusCode, string(r.body))
	assert.Equal(t, "paused", r.json(t)["status"])
	require.Equal(t, 202, h.call("POST", path+":resume", "").StatusCode)
	assert.Equal(t, "completed", h.finish(path)["status"])
	events := h.events(path)
	assert.Len(t, find(events, "node.started"), 2, "the attempt that waited was not cut")
	assert.Equal(t, 7.0, payload(find(events, "node.completed")[0])["outputs"].(object)["value"])
}

func TestVotesAtOnce(t *testing.T) {
	t.Parallel()
	h := start(t)
	for range 10 {
		_, path := h.asks(`{"workflowId":"conformance-interrupt-quorum"}`)
		var group sync.WaitGroup
		for _, key := range []string{referencehost.KeyApprover1, referencehost.KeyApprover2, referencehost.KeyApprover3} {
			group.Go(func() {
				r := h.resolve(path, "gate", `{"action":"accept"}`, key)
				assert.Equal(t, http.StatusOK, r.StatusCode, string(r.body))
			})
		}
		group.Wait()
		assert.Equal(t, "completed", h.finish(path)["status"])
		assert.Len(t, find(h.events(path), "approval.granted"), 3)
		assert.Len(t, find(h.events(path), "interrupt.resolved"), 1)
	}
}

// TestNoticesOutliveTheHost: what could not be delivered before a host ended is delivered by the one that follows.
func TestNoticesOutliveTheHost(t *testing.T) {
	onEveryStore(t, func(t *testing.T, onStore func(*referencehost.Config)) {
		receiver := newReceiver(t)
		receiver.script(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
		var config referencehost.Config
		h := start(t, receiver.egress, onStore, func(c *referencehost.Config) { config = *c })
		_, notice := h.called(receiver, `{"workflowId":"conformance-approval"}`)
		h = again(t, h, config, receiver.egress)
		receiver.script(nil)
		for {
			if next := receiver.next(); next["interruptId"] == notice["interruptId"] && h.present(next["token"].(string), "").StatusCode == 200 {
				return
			}
		}
	})
}

// TestGateOfALoop: a gate that a loop leads back to asks anew, under another key, and is not answered by what was decided
// before; a replay takes both decisions.
func TestGateOfALoop(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.asks(`{"workflowId":"conformance-approval-reject-loopback"}`)
	r := h.resolve(path, "gate", `{"action":"reject"}`, referencehost.KeyTenantA)
	require.Equal(t, http.StatusOK, r.StatusCode, string(r.body))
	events := h.await(path, "interrupt.requested", 2)
	asked := find(events, "interrupt.requested")
	keys := []any{asked[0]["payload"].(map[string]any)["key"], asked[1]["payload"].(map[string]any)["key"]}
	assert.Equal(t, []any{"gate", "gate.2"}, keys)
	assert.Equal(t, "waiting-approval", h.call("GET", path, "").json(t)["status"])
	h.accept(path)
	assert.Equal(t, "completed", h.finish(path)["status"])

	for _, mode := range []string{"replay", "branch"} {
		child := h.forked(path, mode, 0)
		if mode == "branch" { // it asks again from where it begins
			h.await(child, "interrupt.requested", 1)
			continue
		}
		assert.Equal(t, "completed", h.finish(child)["status"])
		assert.LessOrEqual(t, len(find(h.events(child), "interrupt.requested")), 2)
	}
}
