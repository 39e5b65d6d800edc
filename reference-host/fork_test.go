package referencehost_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

func withReplay(c *referencehost.Config) {
	withFamilies(map[string]map[string]any{"replay": {"modes": []string{"replay", "branch"}, "effectSeamsManifest": "/host/effect-seams"}})(c)
}

// fork forks a run and returns the path of the fork.
func (h *testHost) fork(path, body string) string {
	h.t.Helper()
	r := h.call("POST", path+":fork", body)
	require.Equal(h.t, http.StatusCreated, r.StatusCode, string(r.body))
	return runPath(r.json(h.t)["runId"].(string))
}

// shared compares the history of a fork with its source: the same events under other ids.
func shared(t *testing.T, source, fork []map[string]any, n int) {
	t.Helper()
	require.GreaterOrEqual(t, len(fork), n)
	ids := make(map[any]any)
	for i := range n {
		for _, member := range []string{"type", "payload", "timestamp", "sequence", "schemaVersion", "engineVersion", "nodeId"} {
			assert.Equal(t, source[i][member], fork[i][member], "%d %s", i, member)
		}
		assert.NotEqual(t, source[i]["eventId"], fork[i]["eventId"])
		assert.NotEqual(t, source[i]["runId"], fork[i]["runId"])
		assert.Equal(t, ids[source[i]["causationId"]], fork[i]["causationId"])
		ids[source[i]["eventId"]] = fork[i]["eventId"]
	}
}

func TestForkNeedsTheFamily(t *testing.T) {
	t.Parallel()
	h := start(t, withFamilies(map[string]map[string]any{"replay": nil}))
	_, path := h.create(noop)
	assert.Equal(t, "not_found", h.call("POST", path+":fork", `{"mode":"replay"}`).code(t))
}

func TestAForkIsItsSourceOnceMore(t *testing.T) {
	t.Parallel()
	h := start(t, withReplay, withTalker)
	for _, workflow := range []string{
		"conformance-multi-node", "conformance-failure", "talk", "conformance-dispatch-loop", "conformance-subworkflow-parent", "conformance-stream-text",
	} {
		id, path := h.create(`{"workflowId":"` + workflow + `","tags":["x"],"metadata":{"m":1}}`)
		want := h.finish(path)
		source := h.events(path)
		for from := range source {
			r := h.call("POST", path+":fork", fmt.Sprintf(`{"mode":"replay","fromSeq":%d}`, from))
			require.Equal(t, http.StatusCreated, r.StatusCode, string(r.body))
			answer := r.json(t)
			assert.Equal(t, id, answer["sourceRunId"])
			assert.Equal(t, "replay", answer["mode"])
			assert.Equal(t, float64(from), answer["fromSeq"])
			assert.Equal(t, "running", answer["status"])
			child := runPath(answer["runId"].(string))
			assert.Equal(t, child+"/events", answer["eventsUrl"])
			snapshot := h.finish(child)
			assert.Equal(t, id, snapshot["parentRunId"])
			for _, member := range []string{"owner", "status", "variables", "inputs", "tags", "metadata", "workflowId", "engineVersion"} {
				assert.Equal(t, want[member], snapshot[member], member)
			}
			events := h.events(child)
			shared(t, source, events, from)
			assert.Equal(t, trace(source), trace(events), "%s from %d", workflow, from)
			if workflow == "conformance-multi-node" || workflow == "talk" {
				diff := h.call("GET", path+":diff?against="+answer["runId"].(string), "").json(t)
				assert.Nil(t, diff["divergedAtSeq"], "%s from %d: %v", workflow, from, diff)
			}
		}
	}
}

func TestBranch(t *testing.T) {
	t.Parallel()
	h := start(t, withReplay)
	_, path := h.create(`{"workflowId":"conformance-multi-node","tags":["old"],"metadata":{"m":1},"configurable":{"version":1,"run":{"recursionLimit":9}}}`)
	h.finish(path)
	child := h.fork(path, `{"mode":"branch","fromSeq":3,"runOptionsOverlay":{"tags":["new"],"configurable":{"version":1,"run":{"recursionLimit":2}}}}`)
	snapshot := h.finish(child)
	assert.Equal(t, "recursion_limit_exceeded", snapshot["error"].(object)["code"], "the overlay is in force")
	assert.Equal(t, []any{"new"}, snapshot["tags"])
	assert.Equal(t, object{"m": 1.0}, snapshot["metadata"], "what the overlay does not give stays")
	assert.Equal(t, object{"version": 1.0, "run": object{"recursionLimit": 2.0}}, snapshot["configurable"])
}

func TestForkRefusals(t *testing.T) {
	t.Parallel()
	h := start(t, withReplay)
	_, path := h.create(noop)
	h.finish(path)
	last := len(h.events(path)) - 1
	for body, code := range map[string]string{
		`{"mode":"branch"}`: "validation_error",
		`{"mode":"replay","runOptionsOverlay":{"tags":["x"]}}`: "validation_error",
		`{"mode":"rewind"}`:               "validation_error",
		`{}`:                              "validation_error",
		``:                                "validation_error",
		`{"mode":"replay","fromSeq":-1}`:  "validation_error",
		`{"mode":"replay","fromSeq":0.5}`: "validation_error",
		`{"mode":"replay","x":1}`:         "validation_error",
		`{"mode":"branch","fromSeq":0,"runOptionsOverlay":{"x":1}}`:                        "validation_error",
		`{"mode":"branch","fromSeq":0,"runOptionsOverlay":{"configurable":{"version":2}}}`: "validation_error",
		`{"mode":"replay","fromSeq":` + strconv.Itoa(last+1) + `}`:                         "fork_point_invalid",
		`{"mode":"branch","fromSeq":` + strconv.Itoa(last+1000) + `}`:                      "fork_point_invalid",
	} {
		assert.Equal(t, code, h.call("POST", path+":fork", body).code(t), body)
	}
	assert.Equal(t, "forbidden", h.call("POST", path+":fork", `{"mode":"replay"}`, h.as(referencehost.KeyReadOnly)...).code(t))
	assert.Equal(t, "id_tenant_mismatch", h.call("POST", path+":fork", `{"mode":"replay"}`, h.as(referencehost.KeyTenantB)...).code(t))
	listed, _ := h.page("")
	assert.Len(t, listed, 1, "a refusal creates nothing")
	for _, body := range []string{`{"mode":"replay"}`, `{"mode":"replay","runOptionsOverlay":{}}`, `{"mode":"branch","fromSeq":0}`} {
		h.finish(h.fork(path, body))
	}

	h = start(t, withFamilies(map[string]map[string]any{"replay": {"modes": []string{"replay"}, "effectSeamsManifest": "/host/effect-seams"}}))
	_, path = h.create(noop)
	assert.Equal(t, "mode", h.call("POST", path+":fork", `{"mode":"branch","fromSeq":0}`).details(t)["field"])
	_, path = h.create(`{"workflowId":"conformance-configurable-schema"}`)
	h.finish(h.fork(path, `{"mode":"replay"}`))
}

func TestAForkFoldsThePauseAway(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), withReplay)
	_, path := h.create(`{"workflowId":"conformance-delay"}`)
	manual.AwaitPending(2)
	require.Equal(t, http.StatusAccepted, h.call("POST", path+":pause", `{"drainPolicy":"immediate"}`).StatusCode)
	paused := h.fork(path, `{"mode":"branch","fromSeq":2}`)
	manual.AwaitPending(2)
	assert.Equal(t, "run.started node.started(delay)", trace(h.events(paused)), "the attempt goes on")
	require.Equal(t, http.StatusAccepted, h.call("POST", path+":resume", "").StatusCode)
	manual.AwaitPending(4)
	manual.Advance(time.Second)
	h.finish(path)
	h.finish(paused)
	source := h.events(path)
	child := h.fork(path, `{"mode":"branch","fromSeq":3}`) // run.paused is the last of its history
	assert.Equal(t, "running", h.call("GET", child, "").json(t)["status"])
	manual.AwaitPending(2)
	// The fork can be paused like any run.
	require.Equal(t, http.StatusAccepted, h.call("POST", child+":pause", `{"drainPolicy":"immediate"}`).StatusCode)
	assert.Equal(t, "paused", h.call("GET", child, "").json(t)["status"])
	require.Equal(t, http.StatusAccepted, h.call("POST", child+":resume", "").StatusCode)
	manual.AwaitPending(2)
	manual.Advance(time.Second)
	assert.Equal(t, "completed", h.finish(child)["status"])
	events := h.events(child)
	shared(t, source, events, 3)
	assert.Equal(t, "run.started node.started(delay) run.paused node.started(delay) run.paused run.resumed node.started(delay) node.completed(delay) run.completed", trace(events))
}

func TestDiff(t *testing.T) {
	t.Parallel()
	h := start(t)
	a, pathA := h.create(noop)
	b, pathB := h.create(noop)
	other, pathOther := h.create(`{"workflowId":"conformance-failure"}`)
	for _, path := range []string{pathA, pathB, pathOther} {
		h.finish(path)
	}
	same := h.call("GET", pathA+":diff?against="+b, "")
	require.Equal(t, http.StatusOK, same.StatusCode, string(same.body))
	assert.Equal(t, object{"a": a, "b": b, "divergedAtSeq": nil, "eventDiffs": []any{}, "stateDiff": object{}}, same.json(t))
	first := h.call("GET", pathA+"%3Adiff?against="+pathOther[len("/runs/"):], "")
	assert.Equal(t, first.body, h.call("GET", pathA+":diff?against="+other, "").body, "projected or bound, the bytes are the same")
	diff := first.json(t)
	assert.Equal(t, 0.0, diff["divergedAtSeq"])
	for i, item := range diff["eventDiffs"].([]any) {
		assert.Equal(t, float64(i), item.(object)["seq"])
		assert.Equal(t, "changed", item.(object)["op"])
		assert.Equal(t, a, item.(object)["aEvent"].(object)["runId"])
		assert.Equal(t, other, item.(object)["bEvent"].(object)["runId"])
	}
	assert.Equal(t, object{"a": "completed", "b": "failed"}, diff["stateDiff"].(object)["status"])
	assert.NotContains(t, diff, "truncated")

	longer, pathLonger := h.create(`{"workflowId":"conformance-multi-node"}`)
	h.finish(pathLonger)
	for against, op := range map[string]string{pathA + ":diff?against=" + longer: "added", pathLonger + ":diff?against=" + a: "removed"} {
		entries := h.call("GET", against, "").json(t)["eventDiffs"].([]any)
		assert.Equal(t, op, entries[len(entries)-1].(object)["op"])
	}
}

func TestDiffOfChildrenAndOfLiveRuns(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(`{"workflowId":"conformance-dispatch-loop"}`)
	twin, pathTwin := h.create(`{"workflowId":"conformance-dispatch-loop"}`)
	h.finish(path)
	h.finish(pathTwin)
	assert.Nil(t, h.call("GET", path+":diff?against="+twin, "").json(t)["divergedAtSeq"], "the ids of children belong to the run")

	seen, pathSeen := h.create(`{"workflowId":"conformance-identity","inputs":{"payload":{"durationMs":1,"at":"2026-01-01T00:00:00Z"}}}`)
	h.finish(pathSeen)
	_, pathOther := h.create(`{"workflowId":"conformance-identity","inputs":{"payload":{"durationMs":2,"at":"2026-01-02T00:00:00Z"}}}`)
	h.finish(pathOther)
	assert.Equal(t, 0.0, h.call("GET", pathOther+":diff?against="+seen, "").json(t)["divergedAtSeq"], "what a client chose is compared whatever its name")

	live, pathLive := h.create(`{"workflowId":"conformance-cancellable"}`)
	assert.Equal(t, true, h.call("GET", path+":diff?against="+live, "").json(t)["truncated"])
	assert.Equal(t, true, h.call("GET", pathLive+":diff?against="+twin, "").json(t)["truncated"])
}

func TestDiffRefusals(t *testing.T) {
	t.Parallel()
	h := start(t)
	own, path := h.create(noop)
	foreign, foreignPath := h.create(noop, h.as(referencehost.KeyTenantB)...)
	for _, query := range []string{"", "?against=", "?against=x", "?against=tenant-a", "?against=" + own + "&against=" + own} {
		r := h.call("GET", path+":diff"+query, "")
		assert.Equal(t, "validation_error", r.code(t), query)
		assert.Equal(t, "against", r.details(t)["field"])
	}
	for _, id := range []string{foreign, "tenant-b/0123456789abcdef"} {
		assert.Equal(t, "id_tenant_mismatch", h.call("GET", path+":diff?against="+id, "").code(t))
	}
	assert.Equal(t, "id_tenant_mismatch", h.call("GET", foreignPath+":diff?against="+own, "").code(t))
	assert.Equal(t, "not_found", h.call("GET", path+":diff?against=tenant-a/0123456789abcdef", "").code(t))
	assert.Equal(t, "not_found", h.call("GET", "/runs/tenant-a~2F0123456789abcdef:diff?against="+own, "").code(t))
	h = start(t, func(c *referencehost.Config) {
		c.NoDiff = true
		c.Keys[0].Scopes = []string{referencehost.ScopeRunsCreate}
	})
	own, path = h.create(noop)
	assert.Equal(t, "not_found", h.call("GET", path+":diff?against="+own, "").code(t))
	h = start(t, func(c *referencehost.Config) { c.Keys[0].Scopes = []string{referencehost.ScopeRunsCreate} })
	own, path = h.create(noop)
	assert.Equal(t, "forbidden", h.call("GET", path+":diff?against="+own, "").code(t))
}
