package referencehost_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

// divergences are the payloads of replay.diverged in a log.
func divergences(events []map[string]any) (found []object) {
	for _, event := range events {
		if event["type"] == "replay.diverged" {
			found = append(found, event["payload"].(object))
		}
	}
	return found
}

func TestAReplayHasNoEffects(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.script(func(n int, _ received) (int, string) { return 200, fmt.Sprintf(`{"token":"t%d"}`, n) })
	h := start(t, p.trust)
	_, path := h.create(`{"workflowId":"wopcert-http-effects","inputs":{"url":"` + p.url + `"}}`)
	h.finish(path)
	source := h.events(path)
	want := outputs(h, path)
	require.Len(t, p.requests(), 3)
	for from := range source {
		replay := h.fork(path, fmt.Sprintf(`{"mode":"replay","fromSeq":%d}`, from))
		assert.Equal(t, "completed", h.finish(replay)["status"])
		assert.Equal(t, want, outputs(h, replay), "the outcome is the recorded one")
		assert.Empty(t, h.effects(replay))
		shared(t, source, h.events(replay), from)
	}
	assert.Len(t, p.requests(), 3)
	// A branch asks for the effects anew, behind its prefix.
	var last int
	for i, event := range source {
		if event["type"] == "node.started" {
			last = i
		}
	}
	branch := h.fork(path, fmt.Sprintf(`{"mode":"branch","fromSeq":%d}`, last))
	h.finish(branch)
	assert.Len(t, p.requests(), 4)
	assert.Len(t, h.effects(branch), 1)
	assert.NotEqual(t, want, outputs(h, branch))
	// A replay of a replay takes its outcomes from there.
	replay := h.fork(h.fork(path, `{"mode":"replay"}`), `{"mode":"replay","fromSeq":0}`)
	_ = h.finish(replay)
	assert.Len(t, p.requests(), 4)
}

func TestAReplayTakesAFailureToo(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.script(func(int, received) (int, string) { return 402, "" })
	h := start(t, p.trust)
	_, path := h.create(effectRun(p, ""))
	want := h.finish(path)["error"]
	replay := h.fork(path, `{"mode":"replay"}`)
	assert.Equal(t, want, h.finish(replay)["error"])
	assert.Empty(t, divergences(h.events(replay)))
	assert.Len(t, p.requests(), 1)
}

func TestAReplayWithoutARecord(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, workflow := range []string{"conformance-replay-side-effect", "conformance-delay"} {
		_, path := h.create(`{"workflowId":"` + workflow + `","inputs":{"delayMs":300}}`)
		require.Equal(t, http.StatusOK, h.call("POST", path+"/cancel", "").StatusCode)
		h.finish(path)
		replay := h.fork(path, `{"mode":"replay"}`)
		snapshot := h.finish(replay)
		assert.Equal(t, "failed", snapshot["status"])
		assert.Equal(t, "replay_source_missing", snapshot["error"].(object)["code"])
		events := h.events(replay)
		failed := events[slices.IndexFunc(events, func(e map[string]any) bool { return e["type"] == "node.failed" })]
		assert.Equal(t, "replay_source_missing", failed["payload"].(object)["error"].(object)["code"])
		assert.NotContains(t, types(events), "node.retried")
		found := divergences(events)
		require.NotEmpty(t, found)
		assert.NotEmpty(t, found[0]["originalEventId"])
		assert.NotEmpty(t, found[0]["replayEventId"])
		assert.NotEmpty(t, found[0]["divergencePoint"])
		assert.Empty(t, h.effects(replay))
	}
}

// The second execution of a node takes the second outcome, not the last or the first (replay.md §Suppression).
func TestOutcomesAreKeyedOnTheExecution(t *testing.T) {
	t.Parallel()
	h := start(t)
	create := func(ms int) string {
		_, path := h.create(fmt.Sprintf(`{"workflowId":"conformance-replay-ordinal-loop","inputs":{"delayMs":%d}}`, ms))
		return path
	}
	receipts := func(path string) (values []any) {
		for _, event := range h.events(path) {
			if event["type"] == "node.completed" && event["nodeId"] == "effect" {
				values = append(values, event["payload"].(object)["outputs"].(object)["receipt"])
			}
		}
		return values
	}
	path := create(1)
	assert.Equal(t, "completed", h.finish(path)["status"])
	both := receipts(path)
	require.Len(t, both, 2)
	assert.NotEqual(t, both[0], both[1])
	assert.Len(t, h.effects(path), 2)
	for from := range h.events(path) {
		replay := h.fork(path, fmt.Sprintf(`{"mode":"replay","fromSeq":%d}`, from))
		assert.Equal(t, "completed", h.finish(replay)["status"])
		assert.Equal(t, both, receipts(replay), "from %d", from)
		assert.Empty(t, h.effects(replay))
	}

	path = create(300)
	stream := h.stream(path + "/events?streamMode=debug")
	for f := next(t, stream); f.event != "node.completed" || !strings.Contains(f.data, `"nodeId":"effect"`); f = next(t, stream) {
	}
	require.Equal(t, http.StatusOK, h.call("POST", path+"/cancel", "").StatusCode)
	h.finish(path)
	require.Len(t, receipts(path), 1)
	replay := h.fork(path, `{"mode":"replay"}`)
	assert.Equal(t, "replay_source_missing", h.finish(replay)["error"].(object)["code"])
	assert.Equal(t, receipts(path), receipts(replay), "the first execution has its outcome, the second has none")
}

// A node nobody classified still has no effect in a replay, and takes the recorded outcome where there is one.
func TestTheGuardDeniesWhateverTheClassification(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	sly := referencehost.NodeType{ID: "example.sly", Run: func(ctx context.Context, call *referencehost.Call) (referencehost.Values, error) {
		_, err := call.Send(ctx, referencehost.Effect{Method: "POST", URL: p.url})
		_ = err // it goes on as if nothing had happened
		return referencehost.Values{"sent": json.RawMessage(`true`)}, nil
	}}
	late := referencehost.NodeType{ID: "example.late", Run: func(ctx context.Context, call *referencehost.Call) (referencehost.Values, error) {
		if call.Run.ForkMode == "" {
			return nil, nil // it had no effect in the source
		}
		_, err := call.Send(ctx, referencehost.Effect{Method: "POST", URL: p.url})
		return nil, err
	}}
	h := start(t, p.trust, func(c *referencehost.Config) {
		c.NodeTypes = append(c.NodeTypes, sly, late)
		c.Unlisted = append(c.Unlisted, workflow("sly", wnode("s", "example.sly")), workflow("late", wnode("s", "example.late")))
	})
	_, path := h.create(`{"workflowId":"sly"}`)
	h.finish(path)
	replay := h.fork(path, `{"mode":"replay"}`)
	assert.Equal(t, "completed", h.finish(replay)["status"])
	assert.Equal(t, outputs(h, path), outputs(h, replay))
	cut := h.fork(path, `{"mode":"replay","fromSeq":2}`)
	h.finish(cut)
	assert.Len(t, p.requests(), 1)

	_, path = h.create(`{"workflowId":"late"}`)
	h.finish(path)
	replay = h.fork(path, `{"mode":"replay"}`)
	assert.Equal(t, "completed", h.finish(replay)["status"], "the recorded outcome stands")
	assert.Len(t, p.requests(), 1)
}

func wnode(id, typeID string) string {
	return `{"id":"` + id + `","typeId":"` + typeID + `","name":"N","position":{"x":0,"y":0},"config":{},"inputs":{}}`
}

func TestPureNodesAreReplayedLive(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	var other atomic.Bool
	pure := referencehost.NodeType{ID: "example.pure", Run: func(context.Context, *referencehost.Call) (referencehost.Values, error) {
		runs.Add(1)
		if other.Load() {
			return referencehost.Values{"v": json.RawMessage(`2`)}, nil
		}
		return referencehost.Values{"v": json.RawMessage(`1`)}, nil
	}}
	h := start(t, func(c *referencehost.Config) {
		c.NodeTypes = append(c.NodeTypes, pure)
		c.Unlisted = append(c.Unlisted, workflow("pure", wnode("a", "example.pure")+","+wnode("b", "core.noop"), `[{"id":"e","sourceNodeId":"a","targetNodeId":"b"}]`))
	})
	_, path := h.create(`{"workflowId":"pure"}`)
	h.finish(path)
	replay := h.fork(path, `{"mode":"replay"}`)
	h.finish(replay)
	assert.Equal(t, int64(2), runs.Load())
	assert.Empty(t, divergences(h.events(replay)))

	other.Store(true) // other code now
	replay = h.fork(path, `{"mode":"replay"}`)
	assert.Equal(t, "completed", h.finish(replay)["status"], "a replay that diverges goes on")
	events, source := h.events(replay), h.events(path)
	found := divergences(events)
	require.Len(t, found, 1)
	assert.Equal(t, object{
		"sourceRunId": source[0]["runId"], "atSequence": 2.0, "originalEventId": source[2]["eventId"], "replayEventId": events[2]["eventId"],
		"divergenceKind": "output", "divergencePoint": "/payload",
	}, found[0])
	assert.Equal(t, "replay.diverged", events[3]["type"])
	var debug []string
	for _, f := range collect(t, h.stream(replay+"/events?streamMode=debug")) {
		debug = append(debug, f.event)
	}
	assert.Contains(t, debug, "replay.diverged")
	branch := h.fork(path, `{"mode":"branch","fromSeq":0}`)
	h.finish(branch)
	assert.Empty(t, divergences(h.events(branch)), "a branch is not held against its source")
}

func TestARefusalThatDiffersEndsTheReplay(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool
	model := referencehost.NodeType{ID: "example.model", Run: func(_ context.Context, call *referencehost.Call) (referencehost.Values, error) {
		if refuse.Load() {
			return nil, call.Emit(referencehost.Entry{Type: "envelope.refusal", Payload: map[string]any{
				"nodeId": call.NodeID, "provider": "mock", "model": "mock-1", "refusalText": nil, "safetyCategory": nil,
			}})
		}
		return nil, call.Emit(call.LogEntry("info", "envelope accepted", "", nil))
	}}
	h := start(t, func(c *referencehost.Config) {
		c.NodeTypes = append(c.NodeTypes, model)
		c.Unlisted = append(c.Unlisted, workflow("model", wnode("m", "example.model")+","+wnode("b", "core.noop"),
			`[{"id":"e","sourceNodeId":"m","targetNodeId":"b","triggerRule":"all_complete"}]`))
	})
	for _, first := range []bool{false, true} {
		refuse.Store(first)
		_, path := h.create(`{"workflowId":"model"}`)
		h.finish(path)
		same := h.fork(path, `{"mode":"replay"}`)
		assert.Equal(t, "completed", h.finish(same)["status"])
		refuse.Store(!first)
		replay := h.fork(path, `{"mode":"replay"}`)
		snapshot := h.finish(replay)
		assert.Equal(t, "failed", snapshot["status"], "no node behind it makes up for that")
		assert.Equal(t, "replay_diverged_at_refusal", snapshot["error"].(object)["code"])
		events := h.events(replay)
		i := slices.Index(types(events), "replay.diverged-at-refusal")
		require.Positive(t, i)
		payload := events[i]["payload"].(object)
		assert.Equal(t, "m", payload["nodeId"])
		kinds := []any{"valid", "refusal"}
		if first {
			slices.Reverse(kinds)
		}
		assert.Equal(t, kinds, []any{payload["originalEnvelopeKind"], payload["replayEnvelopeKind"]})
	}
}

func TestDeclaredNondeterminism(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(`{"workflowId":"conformance-nondeterminism"}`)
	h.finish(path)
	want, source := outputs(h, path), h.events(path)
	require.Len(t, want, 2)
	var recorded []any
	for _, event := range source {
		if event["type"] == "log.appended" {
			fields := event["payload"].(object)["fields"].(object)
			recorded = append(recorded, fields["source"], fields["value"])
		}
	}
	assert.Equal(t, []any{"random", want["random"], "id", want["id"]}, recorded)
	for from := range source {
		replay := h.fork(path, fmt.Sprintf(`{"mode":"replay","fromSeq":%d}`, from))
		h.finish(replay)
		assert.Equal(t, want, outputs(h, replay), "from %d", from)
		assert.Empty(t, divergences(h.events(replay)), "from %d", from)
	}
	// A branch within the attempt has what was drawn before and draws the rest.
	branch := h.fork(path, `{"mode":"branch","fromSeq":3}`)
	h.finish(branch)
	assert.Equal(t, want["random"], outputs(h, branch)["random"])
	assert.NotEqual(t, want["id"], outputs(h, branch)["id"])
	_, other := h.create(`{"workflowId":"conformance-nondeterminism"}`)
	h.finish(other)
	assert.NotEqual(t, want, outputs(h, other))
}

func TestPinnedVersions(t *testing.T) {
	t.Parallel()
	var newest atomic.Int64
	newest.Store(1)
	branching := referencehost.NodeType{ID: "example.branching", Run: func(_ context.Context, call *referencehost.Call) (referencehost.Values, error) {
		var versions []int64
		for range 2 {
			version, err := call.Version("change-1", 0, newest.Load())
			if err != nil {
				return nil, err
			}
			versions = append(versions, version)
		}
		encoded, err := json.Marshal(versions)
		return referencehost.Values{"took": encoded}, err
	}}
	h := start(t, func(c *referencehost.Config) {
		c.NodeTypes = append(c.NodeTypes, branching)
		c.Unlisted = append(c.Unlisted, workflow("branching", wnode("a", "example.branching")))
	})
	_, path := h.create(`{"workflowId":"branching"}`)
	h.finish(path)
	assert.Equal(t, []any{1.0, 1.0}, outputs(h, path)["took"])
	newest.Store(2)
	for _, body := range []string{`{"mode":"replay"}`, `{"mode":"replay","fromSeq":2}`, `{"mode":"replay","fromSeq":3}`, `{"mode":"branch","fromSeq":3}`} {
		replay := h.fork(path, body)
		h.finish(replay)
		assert.Equal(t, []any{1.0, 1.0}, outputs(h, replay)["took"], body)
		assert.Empty(t, divergences(h.events(replay)))
	}
	branch := h.fork(path, `{"mode":"branch","fromSeq":2}`)
	h.finish(branch)
	assert.Equal(t, []any{2.0, 2.0}, outputs(h, branch)["took"], "a branch before the pin takes the newest")
}

func TestAReplayStartsNoChild(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, workflow := range []string{"conformance-subworkflow-parent", "conformance-dispatch-loop"} {
		_, path := h.create(`{"workflowId":"` + workflow + `"}`)
		want := h.finish(path)
		before, _ := h.page("")
		replay := h.fork(path, `{"mode":"replay"}`)
		snapshot := h.finish(replay)
		assert.Equal(t, want["status"], snapshot["status"])
		assert.Equal(t, want["variables"], snapshot["variables"])
		assert.Equal(t, outputs(h, path), outputs(h, replay))
		assert.Empty(t, divergences(h.events(replay)))
		after, _ := h.page("")
		assert.Len(t, after, len(before)+1, "the replay is the only new run")
	}
}

func TestAnArtifactIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(`{"workflowId":"conformance-artifact-emit"}`)
	h.finish(path)
	id := outputs(h, path)["artifactId"]
	require.NotEmpty(t, id)
	replay := h.fork(path, `{"mode":"replay"}`)
	h.finish(replay)
	assert.Equal(t, id, outputs(h, replay)["artifactId"])
	assert.Equal(t, http.StatusOK, h.call("GET", replay+"/artifacts/"+id.(string), "").StatusCode)
	branch := h.fork(path, `{"mode":"branch","fromSeq":0}`)
	h.finish(branch)
	assert.NotEqual(t, id, outputs(h, branch)["artifactId"])
}

func TestForksExpire(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), withFamilies(map[string]map[string]any{"replay": {"retention": map[string]any{"days": 2}}}))
	_, path := h.create(noop)
	h.finish(path)
	manual.Advance(2*24*time.Hour - time.Second)
	h.finish(h.fork(path, `{"mode":"replay"}`))
	manual.Advance(2 * time.Second)
	r := h.call("POST", path+":fork", `{"mode":"replay"}`)
	assert.Equal(t, http.StatusGone, r.StatusCode)
	assert.Equal(t, "run_expired", r.code(t))
	assert.Equal(t, 0.0, r.details(t)["fromSeq"])
	assert.NotEmpty(t, r.details(t)["sourceRunId"])
}
