package referencehost_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/fixtures"
	referencehost "wopcert/reference-host"
)

func names(frames []frame) []string {
	var list []string
	for _, f := range frames {
		list = append(list, f.event)
	}
	return list
}

func TestModes(t *testing.T) {
	t.Parallel()
	h := start(t, withTalker)
	_, path := h.create(`{"workflowId":"talk"}`)
	h.finish(path)
	cases := map[string][]string{
		"":                   {"run.started", "node.completed", "run.completed"},
		"updates":            {"run.started", "node.completed", "run.completed"},
		"updates,updates":    {"run.started", "node.completed", "run.completed"},
		"values":             {"state.snapshot", "state.snapshot", "state.snapshot"},
		"messages":           {"ai.message.chunk", "ai.message.chunk"},
		"debug":              {"run.started", "node.started", "log.appended", "output.chunk", "variable.changed", "output.chunk", "node.completed", "run.completed"},
		"updates,messages":   {"updates", "messages", "messages", "updates", "updates"},
		"debug,messages":     {"debug", "debug", "debug", "debug", "debug", "debug", "debug", "debug"},
		"messages,debug":     {"debug", "debug", "debug", "messages", "debug", "messages", "debug", "debug"},
		"updates,debug":      {"updates", "debug", "debug", "debug", "debug", "debug", "updates", "updates"},
		"messages,messages":  {"ai.message.chunk", "ai.message.chunk"},
		"debug,debug,debug":  {"run.started", "node.started", "log.appended", "output.chunk", "variable.changed", "output.chunk", "node.completed", "run.completed"},
		"messages%2Cupdates": {"updates", "messages", "messages", "updates", "updates"},
	}
	for mode, want := range cases {
		query := "/events"
		if mode != "" {
			query += "?streamMode=" + mode
		}
		assert.Equal(t, want, names(collect(t, h.stream(path+query))), mode)
	}
	chunks := collect(t, h.stream(path+"/events?streamMode=messages"))
	assert.Equal(t, "3", chunks[0].id)
	assert.Contains(t, chunks[0].data, `"chunk":"Hello"`)
	assert.Contains(t, chunks[1].data, `"isLast":true`)

	snapshots := collect(t, h.stream(path+"/events?streamMode=values"))
	for i, want := range []string{"running", "running", "completed"} {
		var s map[string]any
		require.NoError(t, json.Unmarshal([]byte(snapshots[i].data), &s))
		assert.Equal(t, want, s["status"])
		assert.Equal(t, i > 0, s["variables"] != nil, "the fold is as of the event")
	}
	assert.Equal(t, []string{"0", "6", "7"}, []string{snapshots[0].id, snapshots[1].id, snapshots[2].id})
}

// withTalker adds a workflow whose one node emits what most nodes do not.
func withTalker(c *referencehost.Config) {
	c.NodeTypes = append(c.NodeTypes, referencehost.NodeType{
		ID: "test.talk",
		Run: func(_ context.Context, call *referencehost.Call) (referencehost.Values, error) {
			for _, step := range []func() error{
				func() error { return call.Log("info", "about to talk") },
				func() error { return call.Chunk("Hello", false, nil) },
				func() error { return call.SetVariable("greeted", json.RawMessage(`true`)) },
				func() error { return call.Chunk("!", true, map[string]any{"finishReason": "stop"}) },
			} {
				if err := step(); err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
	})
	workflow, err := fixtures.Parse([]byte(`{"id":"talk","name":"Talk","version":"1","nodes":[{"id":"t","typeId":"test.talk","name":"T",
		"position":{"x":0,"y":0},"config":{},"inputs":{}}],"edges":[],"triggers":[],"variables":[],"metadata":{},"settings":{}}`))
	if err != nil {
		panic(err)
	}
	c.Unlisted = append(c.Unlisted, workflow)
}

func TestModeRefusals(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(noop)
	for _, mode := range []string{"", "everything", "values,updates", "updates,values", "updates,", ",updates", "Updates", "updates updates", "updates;debug", "%zz", "updates%00"} {
		for _, accept := range []string{"text/event-stream", "text/html", "application/json"} {
			r := h.call("GET", path+"/events?streamMode="+strings.ReplaceAll(mode, " ", "%20"), "", "Accept", accept)
			assert.Equal(t, "unsupported_stream_mode", r.code(t), mode)
			assert.Equal(t, []any{"values", "updates", "messages", "debug"}, r.details(t)["supported"])
		}
	}
	for _, query := range []string{"bufferMs=-1", "bufferMs=5001", "bufferMs=x", "bufferMs=", "bufferMs=1.5", "bufferMs=1&bufferMs=1", "streamMode=debug&streamMode=debug"} {
		assert.Equal(t, "validation_error", h.call("GET", path+"/events?"+query, "").code(t), query)
	}
}

func TestFramesEqualPolledEvents(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(`{"workflowId":"conformance-identity","inputs":{"payload":{"text":"two\nlines <&> é"}}}`)
	h.finish(path)
	frames := collect(t, h.stream(path+"/events?streamMode=debug"))
	var poll struct{ Events []json.RawMessage }
	require.NoError(t, json.Unmarshal(h.call("GET", path+"/events/poll", "").body, &poll))
	require.Len(t, frames, len(poll.Events))
	for i, f := range frames {
		assert.JSONEq(t, string(poll.Events[i]), f.data)
		assert.Equal(t, strconv.Itoa(i), f.id)
	}
}

func TestCursor(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(noop)
	h.finish(path)
	for cursor, want := range map[string][]string{
		"0": {"1", "2", "3"}, "1": {"2", "3"}, "2": {"3"}, "3": nil, "4": nil, "99999999999999999999999999": nil, "000": {"1", "2", "3"},
	} {
		var ids []string
		for _, f := range collect(t, h.stream(path+"/events?streamMode=debug", "Last-Event-ID", cursor)) {
			ids = append(ids, f.id)
		}
		assert.Equal(t, want, ids, cursor)
	}
	assert.Empty(t, collect(t, h.stream(path+"/events?streamMode=values", "Last-Event-ID", "3")), "a run that ended says nothing more")
	assert.Equal(t, []string{"state.snapshot", "state.snapshot"}, names(collect(t, h.stream(path+"/events?streamMode=values", "Last-Event-ID", "0"))))
	for _, bad := range []string{"-1", "x", "1.0", "+1", "1 2", "0x1"} {
		assert.Equal(t, "validation_error", h.call("GET", path+"/events", "", "Last-Event-ID", bad).code(t), bad)
	}
	foreign := h.as(referencehost.KeyTenantB)
	without := h.call("GET", path+"/events", "", foreign...)
	for _, cursor := range []string{"0", "bad"} {
		with := h.call("GET", path+"/events", "", append(foreign, "Last-Event-ID", cursor)...)
		assert.Equal(t, without.body, with.body)
		assert.Equal(t, without.StatusCode, with.StatusCode)
	}
}

func TestLiveStreamsFollowTheRun(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual))
	_, path := h.create(`{"workflowId":"conformance-delay","inputs":{"delayMs":1000}}`)
	manual.AwaitPending(2)
	all := h.stream(path + "/events?streamMode=debug")
	resumed := h.stream(path+"/events?streamMode=debug", "Last-Event-ID", "1")
	beyond := h.stream(path+"/events?streamMode=debug", "Last-Event-ID", "2")
	values := h.stream(path+"/events?streamMode=values", "Last-Event-ID", "1")
	assert.Equal(t, "run.started", next(t, all).event)
	assert.Equal(t, "node.started", next(t, all).event)
	assert.Equal(t, "state.snapshot", next(t, values).event, "a resumed values stream begins with the state")
	manual.Advance(time.Second)
	assert.Equal(t, []string{"node.completed", "run.completed"}, names(collect(t, all)))
	assert.Equal(t, []string{"node.completed", "run.completed"}, names(collect(t, resumed)))
	assert.Equal(t, []string{"run.completed"}, names(collect(t, beyond)), "sequence 2 is not above the cursor")
	assert.Equal(t, []string{"state.snapshot", "state.snapshot"}, names(collect(t, values)))
}

func TestKeepAlive(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), func(c *referencehost.Config) { c.KeepAlive = 20 * time.Second })
	_, path := h.create(`{"workflowId":"conformance-cancellable","inputs":{"delayMs":60000}}`)
	manual.AwaitPending(2)
	frames := h.stream(path + "/events")
	assert.Equal(t, "run.started", next(t, frames).event)
	for range 2 {
		manual.AwaitPending(3)
		manual.Advance(20 * time.Second)
		assert.Equal(t, frame{comment: "keep-alive"}, next(t, frames))
	}
}

func TestBatching(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual))
	_, path := h.create(`{"workflowId":"conformance-delay","inputs":{"delayMs":1000}}`)
	manual.AwaitPending(2)
	frames := h.stream(path + "/events?streamMode=debug&bufferMs=100")
	manual.AwaitPending(4) // keep-alive and window
	manual.Advance(99 * time.Millisecond)
	select {
	case f := <-frames:
		t.Fatalf("%v came before the window closed", f)
	case <-time.After(10 * time.Millisecond):
	}
	manual.Advance(time.Millisecond)
	f := next(t, frames)
	assert.Equal(t, "batch", f.event)
	assert.Equal(t, "1", f.id)
	var batch []map[string]any
	require.NoError(t, json.Unmarshal([]byte(f.data), &batch))
	assert.Equal(t, []string{"run.started", "node.started"}, types(batch))
	manual.Advance(900 * time.Millisecond)
	rest := collect(t, frames)
	require.Len(t, rest, 1, "the terminal event does not wait for the window")
	assert.Equal(t, "3", rest[0].id)

	unbuffered := collect(t, h.stream(path+"/events?bufferMs=0"))
	assert.Equal(t, []string{"run.started", "node.completed", "run.completed"}, names(unbuffered))
	resumed := collect(t, h.stream(path+"/events?bufferMs=5000&streamMode=debug", "Last-Event-ID", "1"))
	require.Len(t, resumed, 1)
	assert.NotContains(t, resumed[0].data, "run.started")
	assert.Equal(t, []string{"state.snapshot", "state.snapshot", "state.snapshot"},
		names(collect(t, h.stream(path+"/events?bufferMs=5000&streamMode=values"))), "snapshots are not events and are not batched")
}

func TestASuspensionDoesNotWaitForTheWindow(t *testing.T) {
	t.Parallel()
	var store referencehost.Store
	h := start(t, func(c *referencehost.Config) { store = c.Store })
	id, path := h.create(`{"workflowId":"conformance-cancellable"}`)
	frames := h.stream(path + "/events?streamMode=debug&bufferMs=5000")
	log, err := store.Open(t.Context(), id)
	require.NoError(t, err)
	_, err = log.Append(t.Context(), referencehost.AnySequence, referencehost.Draft{
		EventID: "event-0123456789abcdef", Type: "node.suspended", NodeID: "wait", Timestamp: time.Now(),
		Payload: json.RawMessage(`{"nodeId":"wait","interruptId":"tenant-a/interrupt-0123456789"}`),
	})
	require.NoError(t, err)
	f := next(t, frames)
	assert.Equal(t, "batch", f.event)
	assert.Contains(t, f.data, "node.suspended")
	h.call("POST", path+"/cancel", "")
	collect(t, frames)
}
