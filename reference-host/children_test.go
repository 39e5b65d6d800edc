package referencehost_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

func runPath(id string) string { return "/runs/" + strings.Replace(id, "/", "~2F", 1) }

// childOf is the path of the nth child a run has dispatched.
func (h *testHost) childOf(path string, n int) string {
	h.t.Helper()
	events := h.await(path, "node.dispatched", n)
	return runPath(payload(ofType(events, "node.dispatched")[n-1])["childRunId"].(string))
}

func TestSubWorkflow(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(`{"workflowId":"conformance-subworkflow-parent"}`)
	snapshot := h.finish(path)
	assert.Equal(t, "completed", snapshot["status"])
	assert.Equal(t, object{"childOutcome": "child-completed"}, snapshot["variables"])
	events := h.events(path)
	assert.Equal(t, "run.started node.started(parent-start) node.completed(parent-start) node.started(subwf-call) node.dispatched(subwf-call) "+
		"variable.changed(subwf-call) node.completed(subwf-call) node.started(parent-end) node.completed(parent-end) run.completed", trace(events))
	dispatched := payload(events[4])
	assert.Equal(t, "conformance-subworkflow-child", dispatched["childWorkflowId"])
	assert.Equal(t, object{"childRunId": dispatched["childRunId"], "childStatus": "completed"}, payload(events[6])["outputs"])
	child := h.finish(h.childOf(path, 1))
	assert.Equal(t, "completed", child["status"])
	assert.Equal(t, snapshot["owner"], child["owner"])
	assert.NotContains(t, child, "parentRunId", "that is fork lineage")
}

func TestChildFailures(t *testing.T) {
	t.Parallel()
	h := start(t,
		withWorkflow("strict", "[]", []string{`c core.subWorkflow {"workflowId":"conformance-failure"}`}),
		withWorkflow("lenient", "[]", []string{`c core.subWorkflow {"workflowId":"conformance-failure","onChildFailure":"absorb"}`}),
		withWorkflow("endless", "[]", []string{`c core.subWorkflow {"workflowId":"endless"}`}),
		withWorkflow("orphan", "[]", []string{`c core.subWorkflow {"workflowId":"not-here"}`}),
		withWorkflow("grand-orphan", "[]", []string{`c core.subWorkflow {"workflowId":"orphan"}`}),
		withWorkflow("needy", `[{"name":"v","type":"string","required":true}]`, []string{"n core.noop"}),
		withWorkflow("of-needy", "[]", []string{`c core.subWorkflow {"workflowId":"needy"}`}),
		withWorkflow("again", "[]", []string{`c core.subWorkflow {"workflowId":"conformance-failure"} {"retry":{"maxAttempts":2,"backoffMs":0}}`}),
	)
	_, path := h.create(`{"workflowId":"strict"}`)
	failure := h.finish(path)["error"].(object)
	assert.Equal(t, "conformance_failure", failure["code"])
	assert.Equal(t, "failed", failure["details"].(object)["childStatus"])
	_, path = h.create(`{"workflowId":"lenient"}`)
	assert.Equal(t, "completed", h.finish(path)["status"])
	assert.Equal(t, "failed", payload(ofType(h.events(path), "node.completed")[0])["outputs"].(object)["childStatus"])
	_, path = h.create(`{"workflowId":"endless"}`)
	assert.Equal(t, "sub_chain_depth_exceeded", h.finish(path)["error"].(object)["code"])
	_, path = h.create(`{"workflowId":"of-needy"}`)
	assert.Equal(t, "validation_error", h.finish(path)["error"].(object)["code"])
	_, path = h.create(`{"workflowId":"again"}`)
	h.finish(path)
	first, second := h.childOf(path, 1), h.childOf(path, 2)
	assert.NotEqual(t, first, second, "a retry runs a child of its own")
	for _, workflow := range []string{"orphan", "grand-orphan"} {
		r := h.call("POST", "/runs", `{"workflowId":"`+workflow+`"}`)
		assert.Equal(t, "node_config_invalid", r.code(t))
		assert.Equal(t, 422, r.StatusCode)
	}
}

func TestChildrenThatTheHostRefusesToHold(t *testing.T) {
	t.Parallel()
	supervise := func(config string) []string {
		return []string{"s core.orchestrator.supervisor " + config, "d core.dispatch"}
	}
	loop := []string{"s>d", "d>s"}
	plan := `{"agentId":"a","mockDispatchPlan":[{"kind":"terminate"}]}`
	for name, change := range map[string]func(*referencehost.Config){
		"inputMapping":    withWorkflow("w", "[]", []string{`c core.subWorkflow {"workflowId":"conformance-noop","inputMapping":{"a":"b"}}`}),
		"no wait":         withWorkflow("w", "[]", []string{`c core.subWorkflow {"workflowId":"conformance-noop","waitForCompletion":false}`}),
		"no workflow":     withWorkflow("w", "[]", []string{`c core.subWorkflow {}`}),
		"policy":          withWorkflow("w", "[]", []string{`c core.subWorkflow {"workflowId":"conformance-noop","onChildFailure":"shrug"}`}),
		"unknown member":  withWorkflow("w", "[]", []string{`c core.subWorkflow {"workflowId":"conformance-noop","await":true}`}),
		"retry":           withWorkflow("w", "[]", []string{`c core.noop {} {"retry":{"maxAttempts":0}}`}),
		"retry shape":     withWorkflow("w", "[]", []string{`c core.noop {} {"retry":3}`}),
		"no way back":     withWorkflow("w", "[]", supervise(plan), "s>d"),
		"no dispatch":     withWorkflow("w", "[]", supervise(plan)[:1]),
		"dispatch alone":  withWorkflow("w", "[]", []string{"d core.dispatch"}),
		"agent":           withWorkflow("w", "[]", supervise(`{"agentId":"no/agent","mockDispatchPlan":[{"kind":"terminate"}]}`), loop...),
		"no plan":         withWorkflow("w", "[]", supervise(`{"agentId":"a"}`), loop...),
		"no decision":     withWorkflow("w", "[]", supervise(`{"agentId":"a","mockDispatchPlan":[{"kind":"stop"}]}`), loop...),
		"asks":            withWorkflow("w", "[]", supervise(`{"agentId":"a","mockDispatchPlan":[{"kind":"ask-user","prompt":"?"}]}`), loop...),
		"other loop":      withWorkflow("w", "[]", []string{"a core.noop", "b core.noop"}, "a>b", "b>a"),
		"dispatch mapped": withWorkflow("w", "[]", []string{"s core.orchestrator.supervisor " + plan, `d core.dispatch {"workflowId":"x"}`}, loop...),
		"branching loop":  withWorkflow("w", "[]", append(supervise(plan), "x core.noop"), append(loop, "d>x")...),
	} {
		config, err := referencehost.DefaultConfig()
		require.NoError(t, err)
		change(&config)
		_, err = referencehost.New(config)
		assert.ErrorContains(t, err, "workflow w", name)
	}
}

func TestInputMapping(t *testing.T) {
	t.Parallel()
	h := start(t, facets("subWorkflow", object{"inputMapping": true}),
		withWorkflow("outer", `[{"name":"given","type":"string"},{"name":"unset","type":"string"}]`,
			[]string{`c core.subWorkflow {"workflowId":"inner","inputMapping":{"seeded":"given","kept":"unset"}}`}),
		withWorkflow("inner", `[{"name":"seeded","type":"string","defaultValue":"d1"},{"name":"kept","type":"string","defaultValue":"d2"}]`, []string{"n core.noop"}),
	)
	_, path := h.create(`{"workflowId":"outer","inputs":{"given":"from the parent"}}`)
	h.finish(path)
	assert.Equal(t, object{"seeded": "from the parent", "kept": "d2"}, h.finish(h.childOf(path, 1))["variables"])
}

func TestCancelReachesTheChildren(t *testing.T) {
	t.Parallel()
	h := start(t,
		withWorkflow("grandparent", "[]", []string{`c core.subWorkflow {"workflowId":"conformance-interrupt-parent-child-cancel"}`}),
		withWorkflow("free", "[]", []string{`c core.subWorkflow {"workflowId":"conformance-interrupt-parent-child-cancel-child","propagateCancellation":false}`}),
		withWorkflow("losing", "[]", []string{`c core.subWorkflow {"workflowId":"conformance-cancellable"}`, `x core.delay {"delayMs":50}`, "f core.fail"}, "x>f"),
	)
	id, path := h.create(`{"workflowId":"grandparent"}`)
	middle := h.childOf(path, 1)
	leaf := h.childOf(middle, 1)
	h.await(leaf, "interrupt.requested", 1)
	require.Equal(t, http.StatusOK, h.call("POST", path+"/cancel", `{"reason":"all of it"}`).StatusCode)
	parent := id
	for _, child := range []string{middle, leaf} {
		events := ofType(h.events(child), "run.cancelled")
		require.Len(t, events, 1, "the child has ended when the cancel answers")
		assert.Equal(t, "parent-cancelled", payload(events[0])["reason"])
		assert.Equal(t, parent, payload(events[0])["parentRunId"])
		parent = events[0]["runId"].(string)
	}
	assert.Equal(t, "all of it", payload(ofType(h.events(path), "run.cancelled")[0])["reason"])

	_, path = h.create(`{"workflowId":"free"}`)
	child := h.childOf(path, 1)
	h.await(child, "interrupt.requested", 1)
	require.Equal(t, http.StatusOK, h.call("POST", path+"/cancel", "").StatusCode)
	assert.Equal(t, "waiting-external", h.call("GET", child, "").json(t)["status"])

	_, path = h.create(`{"workflowId":"losing"}`)
	child = h.childOf(path, 1)
	assert.Equal(t, "failed", h.finish(path)["status"])
	assert.Equal(t, "cancelled", h.finish(child)["status"], "a failed parent leaves no child behind")
	assert.NotContains(t, payload(ofType(h.events(child), "run.cancelled")[0]), "parentRunId")

	_, path = h.create(`{"workflowId":"conformance-interrupt-parent-child-cancel"}`)
	child = h.childOf(path, 1)
	require.Equal(t, http.StatusOK, h.call("POST", child+"/cancel", "").StatusCode)
	assert.Equal(t, "child_cancelled", h.finish(path)["error"].(object)["code"])
}

func TestAPausedParentKeepsItsChild(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), withWorkflow("outer", "[]", []string{`c core.subWorkflow {"workflowId":"conformance-delay"}`}))
	_, path := h.create(`{"workflowId":"outer"}`)
	child := h.childOf(path, 1)
	manual.AwaitPending(3)
	require.Equal(t, http.StatusAccepted, h.call("POST", path+":pause", `{"drainPolicy":"immediate"}`).StatusCode)
	manual.Advance(time.Second)
	assert.Equal(t, "completed", h.finish(child)["status"], "a pause of the parent does not reach it")
	require.Equal(t, http.StatusAccepted, h.call("POST", path+":resume", "").StatusCode)
	assert.Equal(t, "completed", h.finish(path)["status"])
	assert.Len(t, ofType(h.events(path), "node.dispatched"), 1, "the fresh attempt takes the child over")
}

func TestSupervisorLoop(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(`{"workflowId":"conformance-dispatch-loop"}`)
	assert.Equal(t, object{"agentId": "wopcert.supervisor"}, h.call("GET", path, "").json(t)["runOrchestrator"], "from the start on")
	snapshot := h.finish(path)
	assert.Equal(t, "completed", snapshot["status"])
	assert.Equal(t, object{"agentId": "wopcert.supervisor"}, snapshot["runOrchestrator"])
	events := h.events(path)
	assert.Equal(t, "run.started node.started(supervisor) orchestrator.decided(supervisor) node.completed(supervisor) "+
		"node.started(dispatch) node.dispatched(dispatch) node.completed(dispatch) "+
		"node.started(supervisor) orchestrator.decided(supervisor) node.completed(supervisor) run.completed", trace(events))
	for i, decided := range ofType(events, "orchestrator.decided") {
		assert.Equal(t, float64(i+1), payload(decided)["iteration"])
		assert.Equal(t, []string{"next-worker", "terminate"}[i], payload(decided)["decision"].(object)["kind"])
	}
	for _, started := range ofType(events, "node.started") {
		assert.Equal(t, 1.0, payload(started)["attempt"], "a turn is no attempt")
	}
	assert.Equal(t, "completed", h.finish(h.childOf(path, 1))["status"])
	outputs := payload(events[len(events)-1])["outputs"].(object)
	assert.Len(t, outputs["children"], 1)
}

const busyPlan = `{"agentId":"a","mockDispatchPlan":[{"kind":"next-worker","nextWorkerIds":["conformance-identity","conformance-noop"],"nextWorkerInputs":[{"payload":{"n":1}}]}]}`

func TestLoopLimit(t *testing.T) {
	t.Parallel()
	h := start(t, facets("limits", object{"maxLoopIterations": 3}),
		withWorkflow("busy", "[]", []string{"s core.orchestrator.supervisor " + busyPlan, "d core.dispatch"}, "s>d", "d>s"))
	for asked, limit := range map[int]int{1: 1, 2: 2, 50: 3} {
		_, path := h.create(fmt.Sprintf(`{"workflowId":"busy","configurable":{"version":1,"run":{"maxLoopIterations":%d}}}`, asked))
		assert.Equal(t, "loop_limit_exceeded", h.finish(path)["error"].(object)["code"])
		events := h.events(path)
		assert.Len(t, ofType(events, "orchestrator.decided"), limit)
		assert.Len(t, ofType(events, "node.dispatched"), 2*limit)
		breach := payload(ofType(events, "cap.breached")[0])
		assert.Equal(t, "loop-iterations", breach["kind"])
		assert.Equal(t, float64(limit), breach["limit"])
		assert.Equal(t, float64(limit+1), breach["observed"])
		first := h.finish(h.childOf(path, 1))
		assert.Equal(t, object{"payload": object{"n": 1.0}}, first["inputs"])
	}
	_, path := h.create(`{"workflowId":"busy","configurable":{"version":1,"run":{"recursionLimit":3}}}`)
	assert.Equal(t, "recursion_limit_exceeded", h.finish(path)["error"].(object)["code"], "every turn executes its nodes")
}

func TestALoopGoesOnAfterAPause(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	plan := `{"agentId":"a","mockDispatchPlan":[{"kind":"next-worker","nextWorkerIds":["conformance-delay"]},{"kind":"next-worker","nextWorkerIds":["conformance-noop"]},{"kind":"terminate"}]}`
	h := start(t, withClock(manual), withWorkflow("loop", "[]", []string{"s core.orchestrator.supervisor " + plan, "d core.dispatch", "x core.noop"}, "s>d", "d>s", "s>x"))
	_, path := h.create(`{"workflowId":"loop"}`)
	h.childOf(path, 1)
	manual.AwaitPending(3)
	require.Equal(t, http.StatusAccepted, h.call("POST", path+":pause", `{"drainPolicy":"immediate"}`).StatusCode)
	require.Equal(t, http.StatusAccepted, h.call("POST", path+":resume", "").StatusCode)
	h.await(path, "node.started", 3)
	manual.Advance(time.Second)
	assert.Equal(t, "completed", h.finish(path)["status"])
	events := h.events(path)
	assert.Len(t, ofType(events, "node.dispatched"), 2)
	var turns []float64
	for _, decided := range ofType(events, "orchestrator.decided") {
		turns = append(turns, payload(decided)["iteration"].(float64))
	}
	assert.Equal(t, []float64{1, 2, 3}, turns)
	assert.True(t, strings.HasSuffix(trace(events), "orchestrator.decided(s) node.completed(s) node.started(x) node.completed(x) run.completed"), trace(events))
}

func TestWorkflowsOfUnadvertisedFamilies(t *testing.T) {
	t.Parallel()
	h := start(t, withFamilies(map[string]map[string]any{"subWorkflow": nil, "agents": {"orchestrator": nil}}),
		withWorkflow("outer", "[]", []string{`c core.subWorkflow {"workflowId":"conformance-noop"}`}))
	for workflow, capability := range map[string]string{
		"outer": "subWorkflow", "conformance-subworkflow-parent": "subWorkflow", "conformance-dispatch-loop": "agents.orchestrator",
	} {
		r := h.call("POST", "/runs", `{"workflowId":"`+workflow+`"}`)
		assert.Equal(t, "capability_required", r.code(t))
		assert.Equal(t, capability, r.details(t)["requiredCapability"])
	}
}

func TestAncestry(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(noop)
	assert.Equal(t, "not_found", h.call("GET", path+"/ancestry", "").code(t))

	h = start(t, facets("multiAgent", object{"executionModel": object{
		"version": 3, "crossHostCausation": object{"hostId": "here", "ancestryEndpointSupported": true},
	}}))
	id, path := h.create(noop)
	assert.Equal(t, object{"runId": id, "hostId": "here", "parent": nil}, h.call("GET", path+"/ancestry", "").json(t))
	for workflow, cause := range map[string]string{"conformance-subworkflow-parent": "core.subWorkflow", "conformance-dispatch-loop": "core.dispatch"} {
		id, path = h.create(`{"workflowId":"` + workflow + `"}`)
		child := h.call("GET", h.childOf(path, 1)+"/ancestry", "").json(t)
		assert.Equal(t, object{"runId": id, "hostId": "here", "cause": cause}, child["parent"])
	}
	assert.Equal(t, "id_tenant_mismatch", h.call("GET", path+"/ancestry", "", h.as(referencehost.KeyTenantB)...).code(t))
}

func TestDuplicateDeliveryChangesNothing(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual))
	redeliver := func(id string) {
		t.Helper()
		r := h.call("POST", "/host/durability/kill", `{"mode":"duplicate-delivery","runId":"`+id+`"}`)
		require.Equal(t, http.StatusAccepted, r.StatusCode, string(r.body))
		assert.Equal(t, id, r.json(t)["runId"])
		assert.Empty(t, r.Header.Get("OpenWOP-Version"))
	}
	id, path := h.create(twoDelays)
	manual.AwaitPending(2)
	before := h.events(path)
	redeliver(id)
	assert.Equal(t, before, h.events(path))
	require.Equal(t, http.StatusAccepted, h.call("POST", path+":pause", `{"drainPolicy":"immediate"}`).StatusCode)
	for range 5 {
		redeliver(id)
	}
	manual.Advance(time.Minute)
	assert.Equal(t, "paused", h.call("GET", path, "").json(t)["status"])
	require.Equal(t, http.StatusAccepted, h.call("POST", path+":resume", "").StatusCode)
	redeliver(id)
	for range 2 {
		manual.AwaitPending(2)
		manual.Advance(time.Second)
		redeliver(id)
	}
	h.finish(path)
	before = h.events(path)
	redeliver(id)
	assert.Equal(t, before, h.events(path))
	assert.Equal(t, "run.started node.started(a) run.paused run.resumed node.started(a) node.completed(a) node.started(b) node.completed(b) run.completed", trace(before))

	for _, body := range []string{"", "{}", `{"mode":"kill","runId":"` + id + `"}`, `{"mode":"duplicate-delivery"}`, `{"mode":"duplicate-delivery","runId":7}`, `{"mode":"duplicate-delivery","runId":"` + id + `","x":1}`} {
		assert.Equal(t, 400, h.call("POST", "/host/durability/kill", body).StatusCode, body)
	}
	assert.Equal(t, 401, h.call("POST", "/host/durability/kill", "{}", "Authorization", "").StatusCode)
	body := `{"mode":"duplicate-delivery","runId":"` + id + `"}`
	assert.Equal(t, 403, h.call("POST", "/host/durability/kill", body, h.as(referencehost.KeyTenantB)...).StatusCode)
	h = start(t, func(c *referencehost.Config) { c.DurabilityHook = false })
	assert.Equal(t, "not_found", h.call("POST", "/host/durability/kill", body).code(t))
}

func TestPlacesForRuns(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), func(c *referencehost.Config) { c.Limits.MaxActiveRuns = 1 })
	_, path := h.create(twoDelays)
	manual.AwaitPending(2)
	require.Equal(t, http.StatusAccepted, h.call("POST", path+":pause", `{"drainPolicy":"immediate"}`).StatusCode)
	var other string
	require.Eventually(t, func() bool { // the paused run has given its place back
		r := h.call("POST", "/runs", twoDelays)
		if r.StatusCode == http.StatusCreated {
			other = r.json(t)["statusUrl"].(string)
		}
		return r.StatusCode == http.StatusCreated
	}, 5*time.Second, time.Millisecond)
	r := h.call("POST", path+":resume", "")
	assert.Equal(t, "rate_limited", r.code(t))
	assert.NotEmpty(t, r.Header.Get("Retry-After"))
	assert.Equal(t, "paused", h.call("GET", path, "").json(t)["status"])
	require.Equal(t, http.StatusOK, h.call("POST", other+"/cancel", "").StatusCode)
	require.Eventually(t, func() bool { return h.call("POST", path+":resume", "").StatusCode == http.StatusAccepted }, 5*time.Second, time.Millisecond)
	require.Equal(t, http.StatusOK, h.call("POST", path+"/cancel", "").StatusCode)
	require.Eventually(t, func() bool {
		r := h.call("POST", "/runs", `{"workflowId":"conformance-subworkflow-parent"}`)
		if r.StatusCode == http.StatusCreated {
			other = r.json(t)["statusUrl"].(string)
		}
		return r.StatusCode == http.StatusCreated
	}, 5*time.Second, time.Millisecond)
	assert.Equal(t, "rate_limited", h.finish(other)["error"].(object)["code"], "there is no place for the child")
}

func TestOutputsOfChildrenAndFailedWorkers(t *testing.T) {
	t.Parallel()
	worker := func(config string) []string {
		return []string{`s core.orchestrator.supervisor {"agentId":"a","mockDispatchPlan":[{"kind":"next-worker","nextWorkerIds":["conformance-failure"]},{"kind":"terminate"}]}`, "d core.dispatch " + config}
	}
	h := start(t, withTalker,
		withWorkflow("listener", `[{"name":"heard","type":"boolean"}]`, []string{`c core.subWorkflow {"workflowId":"talk","outputMapping":{"heard":"greeted","nothing":"unset"}}`}),
		withWorkflow("strict-loop", "[]", worker("{}"), "s>d", "d>s"),
		withWorkflow("lenient-loop", "[]", worker(`{"onChildFailure":"absorb"}`), "s>d", "d>s"),
		withWorkflow("idle-loop", "[]", []string{`s core.orchestrator.supervisor {"agentId":"a","mockDispatchPlan":[{"kind":"terminate"}]}`, "d core.dispatch"}, "s>d", "d>s"),
	)
	_, path := h.create(`{"workflowId":"listener"}`)
	assert.Equal(t, object{"heard": true}, h.finish(path)["variables"], "as the child left it, and what it has not set is not copied")
	_, path = h.create(`{"workflowId":"strict-loop"}`)
	assert.Equal(t, "conformance_failure", h.finish(path)["error"].(object)["code"])
	_, path = h.create(`{"workflowId":"lenient-loop"}`)
	assert.Equal(t, "completed", h.finish(path)["status"])
	children := payload(ofType(h.events(path), "node.completed")[1])["outputs"].(object)["children"].([]any)
	assert.Equal(t, "failed", children[0].(object)["childStatus"])
	_, path = h.create(`{"workflowId":"idle-loop"}`)
	h.finish(path)
	assert.Equal(t, "run.started node.started(s) orchestrator.decided(s) node.completed(s) node.skipped(d) run.completed", trace(h.events(path)))
}
