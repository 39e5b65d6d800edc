package referencehost_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

// withSleeper adds a workflow whose one node says something, suspends, says something more and waits for good.
func withSleeper(t testing.TB) func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		c.NodeTypes = append(c.NodeTypes, referencehost.NodeType{
			ID: "test.sleep",
			Run: func(ctx context.Context, call *referencehost.Call) (referencehost.Values, error) {
				if err := call.Chunk("going", false, nil); err != nil {
					return nil, err
				}
				err := call.Emit(referencehost.Entry{Type: "node.suspended", Payload: map[string]any{
					"nodeId": call.NodeID, "interruptId": call.Run.ID, "kind": "external-event", "key": "k",
				}})
				if err != nil {
					return nil, err
				}
				if err := call.Chunk("gone", true, nil); err != nil {
					return nil, err
				}
				<-ctx.Done()
				return nil, ctx.Err()
			},
		})
		c.Unlisted = append(c.Unlisted, oneNode(t, "sleeper", `{"id":"s","typeId":"test.sleep","name":"S","position":{"x":0,"y":0},"config":{},"inputs":{}}`))
	}
}

// batch reads the types in a batch frame.
func batch(t testing.TB, f frame) []string {
	t.Helper()
	require.Equal(t, "batch", f.event, f.data)
	var events []map[string]any
	require.NoError(t, json.Unmarshal([]byte(f.data), &events))
	require.NotEmpty(t, events)
	last := events[len(events)-1]["sequence"].(float64)
	assert.Equal(t, strconv.Itoa(int(last)), f.id, "the id is the highest sequence")
	return types(events)
}

// The clock stands still, so a frame comes because of the rule under test and not because a window has closed.
func TestABatchIsFlushed(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]struct{ suspended, terminal []string }{
		"updates":          {[]string{"run.started", "node.suspended"}, []string{"node.cancelled", "run.cancelled"}},
		"debug":            {[]string{"run.started", "node.started", "output.chunk", "node.suspended"}, []string{"output.chunk", "node.cancelled", "run.cancelled"}},
		"messages":         {[]string{"output.chunk"}, []string{"output.chunk"}},
		"updates,messages": {[]string{"run.started", "output.chunk", "node.suspended"}, []string{"output.chunk", "node.cancelled", "run.cancelled"}},
	} {
		manual := manualClock()
		h := start(t, withClock(manual), quiet, withSleeper(t))
		_, path := h.create(`{"workflowId":"sleeper"}`)
		frames := h.stream(path + "/events?bufferMs=5000&streamMode=" + mode)
		assert.Equal(t, want.suspended, batch(t, next(t, frames)), "on node.suspended: %s", mode)
		require.Equal(t, http.StatusOK, h.call("POST", path+"/cancel", "").StatusCode)
		assert.Equal(t, want.terminal, batch(t, next(t, frames)), "on the terminal event: %s", mode)
		assert.Empty(t, collect(t, frames), mode)
	}
}

func TestABatchIsFlushedOnClose(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), quiet)
	_, path := h.create(`{"workflowId":"conformance-cancellable"}`)
	manual.AwaitPending(2)
	frames := h.stream(path + "/events?bufferMs=5000&streamMode=debug")
	manual.AwaitPending(4) // the keep-alive and the window: both events are queued
	require.NoError(t, h.host.Close())
	assert.Equal(t, []string{"run.started", "node.started"}, batch(t, next(t, frames)))
	assert.Empty(t, collect(t, frames))
}

func TestABatchIsResumedByItsID(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), quiet)
	_, path := h.create(`{"workflowId":"conformance-delay","inputs":{"delayMs":1000}}`)
	manual.AwaitPending(2)
	frames := h.stream(path + "/events?bufferMs=100&streamMode=debug")
	manual.AwaitPending(4)
	manual.Advance(100 * time.Millisecond)
	first := next(t, frames)
	batch(t, first)
	resumed := h.stream(path+"/events?bufferMs=100&streamMode=debug", "Last-Event-ID", first.id)
	manual.AwaitPending(4)
	manual.Advance(900 * time.Millisecond)
	rest := collect(t, resumed)
	require.Len(t, rest, 1)
	assert.Equal(t, []string{"node.completed", "run.completed"}, batch(t, rest[0]))
}

// A resumed values stream begins with the state, and nothing in it is at or before the cursor while there is more.
func TestValuesAreResumed(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), quiet)
	_, path := h.create(`{"workflowId":"conformance-delay","inputs":{"delayMs":1000}}`)
	manual.AwaitPending(2)
	live := map[string]<-chan frame{}
	for _, cursor := range []string{"0", "1", "7"} {
		live[cursor] = h.stream(path+"/events?streamMode=values", "Last-Event-ID", cursor)
	}
	manual.AwaitPending(5)
	for cursor, frames := range live {
		f := next(t, frames)
		assert.Equal(t, "state.snapshot", f.event, cursor)
		assert.Equal(t, "1", f.id, "%s: the state as it is now", cursor)
		assert.Contains(t, f.data, `"status":"running"`)
	}
	manual.Advance(time.Second)
	for cursor, frames := range live {
		var ids []string
		for _, f := range collect(t, frames) {
			ids = append(ids, f.id)
		}
		want := map[string][]string{"0": {"2", "3"}, "1": {"2", "3"}, "7": nil}[cursor]
		assert.Equal(t, want, ids, cursor)
	}
	for cursor, want := range map[string]int{"0": 2, "1": 2, "2": 1, "3": 0, "99": 0} {
		assert.Len(t, collect(t, h.stream(path+"/events?streamMode=values", "Last-Event-ID", cursor)), want, cursor)
	}
}

func TestTooManyStreamsAreRefusedBeforeTheyBegin(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), quiet, func(c *referencehost.Config) { c.Limits.MaxStreams = 2 })
	_, path := h.create(`{"workflowId":"conformance-cancellable"}`)
	manual.AwaitPending(2)
	h.stream(path + "/events")
	h.stream("/host/events")
	manual.AwaitPending(5)
	for _, target := range []string{path + "/events", "/host/events"} {
		r := h.call("GET", target, "")
		assert.Equal(t, http.StatusTooManyRequests, r.StatusCode)
		assert.Equal(t, "rate_limited", r.code(t))
		assert.Equal(t, "1", r.Header.Get("Retry-After"))
		assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
	}
}
