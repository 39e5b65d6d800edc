package referencehost_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

const (
	goldenEval = `{"mode":"eval","evalSuiteRef":"core.wopcert.evals.golden","agentId":"wopcert.echo"}`
	slowEval   = `{"mode":"eval","evalSuiteRef":"core.wopcert.evals.slow","agentId":"wopcert.echo"}`
)

// canaries are the texts of the suites that must show nowhere, as the workflow tells them.
func canaries(t testing.TB, h *testHost) []string {
	t.Helper()
	var definition struct {
		Metadata struct {
			CustomProperties struct {
				EvalSuiteRef     string   `json:"evalSuiteRef"`
				SlowEvalSuiteRef string   `json:"slowEvalSuiteRef"`
				AgentID          string   `json:"agentId"`
				Canaries         []string `json:"canaries"`
			} `json:"customProperties"`
		} `json:"metadata"`
	}
	require.NoError(t, json.Unmarshal(h.call("GET", "/workflows/wopcert-eval", "").body, &definition))
	custom := definition.Metadata.CustomProperties
	assert.Equal(t, "core.wopcert.evals.golden", custom.EvalSuiteRef)
	assert.Equal(t, "core.wopcert.evals.slow", custom.SlowEvalSuiteRef)
	assert.Equal(t, "wopcert.echo", custom.AgentID)
	require.Len(t, custom.Canaries, 5)
	return custom.Canaries
}

func TestEvalRun(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(goldenEval)
	snapshot := h.finish(path)
	assert.Equal(t, "completed", snapshot["status"])
	assert.Equal(t, "wopcert-eval", snapshot["workflowId"])
	assert.Equal(t, map[string]any{"agentId": "wopcert.echo"}, snapshot["agent"])
	events := h.events(path)
	assert.Equal(t, []string{"run.started", "node.started", "eval.started",
		"agent.invocation-started", "agent.invocation-completed", "eval.scored",
		"agent.invocation-started", "agent.invocation-completed", "eval.scored",
		"eval.completed", "node.completed", "run.completed"}, types(events))
	assert.Equal(t, map[string]any{"suiteId": "core.wopcert.evals.golden", "suiteVersion": "1.0.0", "taskCount": 2.0, "modes": []any{"golden"}}, payload(events[2]))
	assert.Equal(t, map[string]any{"aggregateScore": 0.5, "passed": false, "taskCount": 2.0, "passedCount": 1.0}, payload(events[9]))

	r := h.call("GET", path+"/eval-summary", "")
	require.Equal(t, http.StatusOK, r.StatusCode, string(r.body))
	summary := r.json(t)
	assert.Equal(t, "core.wopcert.evals.golden", summary["suiteId"])
	assert.Equal(t, false, summary["passed"])
	assert.InDelta(t, 0.5, summary["aggregateScore"], 0)
	assert.Equal(t, summary, payload(events[11])["outputs"])
	tasks := summary["tasks"].([]any)
	assert.Equal(t, "says-it-back", tasks[0].(map[string]any)["taskId"])
	assert.Equal(t, true, tasks[0].(map[string]any)["passed"])
	assert.Equal(t, false, tasks[1].(map[string]any)["passed"])

	log, err := json.Marshal(events)
	require.NoError(t, err)
	for _, canary := range canaries(t, h) {
		assert.NotContains(t, string(log), canary)
		assert.NotContains(t, string(r.body), canary)
	}
	assert.Equal(t, http.StatusCreated, h.call("POST", path+"/annotations", `{"signal":{"kind":"flag"},"target":{"nodeId":"suite"}}`).StatusCode)
}

func TestEvalSummaryRefusals(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual))
	_, plain := h.create(noop)
	h.finish(plain)
	assert.Equal(t, "not_found", h.call("GET", plain+"/eval-summary", "").code(t))

	_, path := h.create(slowEval)
	manual.AwaitPending(2)
	r := h.call("GET", path+"/eval-summary", "")
	assert.Equal(t, "run_state_conflict", r.code(t))
	assert.Equal(t, "running", r.details(t)["runStatus"])
	assert.Equal(t, "id_tenant_mismatch", h.call("GET", path+"/eval-summary", "", h.as(referencehost.KeyTenantB)...).code(t))
	manual.Advance(3 * time.Second)
	h.finish(path)
	summary := h.call("GET", path+"/eval-summary", "").json(t)
	assert.Equal(t, true, summary["passed"])
	assert.EqualValues(t, 3000, summary["tasks"].([]any)[0].(map[string]any)["latencyMs"])

	_, cancelled := h.create(slowEval)
	manual.AwaitPending(2)
	require.Equal(t, http.StatusOK, h.call("POST", cancelled+"/cancel", "").StatusCode)
	h.finish(cancelled)
	summary = h.call("GET", cancelled+"/eval-summary", "").json(t)
	assert.Equal(t, false, summary["passed"])
	assert.Empty(t, summary["tasks"], "a run that ended early has the scores it came to")
	assert.EqualValues(t, 0, summary["aggregateScore"])
}

func TestEvalCreateRefusals(t *testing.T) {
	t.Parallel()
	h := start(t)
	for body, field := range map[string]string{
		`{"mode":"eval"}`: "body",
		`{"mode":"eval","evalSuiteRef":"core.wopcert.evals.golden"}`:                                   "body",
		`{"mode":"eval","agentId":"wopcert.echo"}`:                                                     "body",
		`{"mode":"eval","evalSuiteRef":"core.other.evals.none","agentId":"wopcert.echo"}`:              "evalSuiteRef",
		`{"mode":"eval","evalSuiteRef":"core.wopcert.evals.golden","agentId":"wopcert.other"}`:         "agentId",
		`{"mode":"live","evalSuiteRef":"core.wopcert.evals.golden","agentId":"wopcert.echo"}`:          "mode",
		`{"mode":"eval","evalSuiteRef":"","agentId":"wopcert.echo"}`:                                   "evalSuiteRef",
		`{"mode":"eval","evalSuiteRef":"core.wopcert.evals.golden","agentId":"wopcert.echo","x":true}`: "body",
	} {
		r := h.call("POST", "/runs", body)
		assert.Equal(t, "validation_error", r.code(t), body)
		assert.Equal(t, field, r.details(t)["field"], body)
	}
	assert.Empty(t, h.call("GET", "/runs", "").json(t)["runs"])

	rubric := start(t, facets("agents", map[string]any{"evalSuite": map[string]any{"modes": []any{"rubric"}}}))
	assert.Equal(t, "evalSuiteRef", rubric.call("POST", "/runs", goldenEval).details(t)["field"], "a mode that is not advertised")
	one := start(t, facets("agents", map[string]any{"evalSuite": map[string]any{"modes": []any{"golden"}, "maxTasksPerSuite": 1}}))
	assert.Equal(t, "evalSuiteRef", one.call("POST", "/runs", goldenEval).details(t)["field"], "too many tasks")

	off := start(t, facets("agents", map[string]any{"evalSuite": nil}))
	r := off.call("POST", "/runs", goldenEval)
	assert.Equal(t, http.StatusUnprocessableEntity, r.StatusCode)
	assert.Equal(t, "agents.evalSuite", r.details(t)["requiredCapability"])
	_, path := off.create(noop)
	assert.Equal(t, "not_found", off.call("GET", path+"/eval-summary", "").code(t))
	assert.Len(t, off.call("GET", "/runs", "").json(t)["runs"], 1)
}

func TestTheWorkflowOfEvalRunsIsAWorkflow(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(`{"workflowId":"wopcert-eval"}`)
	h.finish(path)
	assert.Equal(t, []string{"run.started", "node.started", "node.completed", "run.completed"}, types(h.events(path)))
	assert.Equal(t, "not_found", h.call("GET", path+"/eval-summary", "").code(t))
}
