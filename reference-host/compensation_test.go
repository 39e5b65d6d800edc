package referencehost_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/fixtures"
	referencehost "wopcert/reference-host"
)

func compensated(p *provider, workflow string, more string) string {
	return fmt.Sprintf(`{"workflowId":%q,"inputs":{"url":%q%s}}`, workflow, p.url, more)
}

// said are the nodes whose requests a provider got, ~ before an inverse one.
func said(p *provider) (nodes []string) {
	for _, body := range p.bodies() {
		var request struct {
			Node    string `json:"node"`
			Inverse bool   `json:"inverse"`
		}
		_ = json.Unmarshal([]byte(body), &request)
		if request.Inverse {
			request.Node = "~" + request.Node
		}
		nodes = append(nodes, request.Node)
	}
	return nodes
}

// tail are the types of the events behind the terminal one.
func tail(events []map[string]any) []string {
	all := types(events)
	end := slices.IndexFunc(all, func(t string) bool {
		return t == "run.failed" || t == "run.cancelled" || t == "run.completed"
	})
	return all[end+1:]
}

func TestWhatWasDoneIsUndone(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	h := start(t, p.trust)
	_, path := h.create(compensated(p, "wopcert-compensation", ""))
	h.finish(path)
	view := h.undone(path)
	assert.Equal(t, "completed", view["status"])
	assert.Equal(t, []string{"reserve", "charge", "~charge", "~reserve"}, said(p))
	assert.Contains(t, p.bodies()[2], `"undoes":200`, "the inputs are recorded facts")
	snapshot := h.call("GET", path, "").json(t)
	assert.Equal(t, "failed", snapshot["status"])
	assert.Equal(t, "completed", snapshot["compensationStatus"])
	events := h.events(path)
	assert.Equal(t, []string{"compensation.requested", "compensation.started", "compensation.completed"}, tail(events))
	plan := view["plan"].([]any)
	require.Len(t, plan, 2)
	assert.Equal(t, []any{"charge", 0.0}, []any{plan[0].(object)["nodeId"], plan[0].(object)["order"]})
	assert.Equal(t, "reverse-completion", plan[0].(object)["policy"].(object)["orderingModel"])
	var tried []any
	for _, made := range view["attempts"].([]any) {
		tried = append(tried, made.(object)["nodeId"], made.(object)["attempt"], made.(object)["outcome"])
	}
	assert.Equal(t, []any{"charge", 1.0, "succeeded", "reserve", 1.0, "succeeded"}, tried)
	rows := h.effects(path)
	require.Len(t, rows, 4)
	started := events[len(events)-2]["payload"].(object)
	assert.Equal(t, rows[2]["effectId"], started["effectId"])
	keys := p.keys()
	slices.Sort(keys)
	assert.Len(t, slices.Compact(keys), 4, "an inverse action is an effect of its own")

	// A run that comes to a good end undoes nothing.
	_, path = h.create(compensated(p, "wopcert-compensation", `,"fail":false`))
	snapshot = h.finish(path)
	assert.Equal(t, "completed", snapshot["status"])
	assert.Equal(t, "none", snapshot["compensationStatus"])
	assert.Equal(t, object{"runId": snapshot["runId"], "status": "none", "plan": []any{}, "attempts": []any{}}, h.undone(path))
}

func TestAReplayUndoesNothing(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	h := start(t, p.trust)
	_, path := h.create(compensated(p, "wopcert-compensation", ""))
	h.finish(path)
	want := h.undone(path)
	source := h.events(path)
	end := slices.Index(types(source), "run.failed")
	for from := range end + 1 {
		replay := h.fork(path, fmt.Sprintf(`{"mode":"replay","fromSeq":%d}`, from))
		assert.Equal(t, "completed", h.finish(replay)["compensationStatus"])
		view := h.undone(replay)
		assert.Equal(t, want["plan"], view["plan"], "the recorded plan")
		assert.Equal(t, want["attempts"], view["attempts"])
		assert.Equal(t, tail(source), tail(h.events(replay)))
		assert.Empty(t, h.effects(replay))
		assert.Empty(t, divergences(h.events(replay)))
	}
	assert.Len(t, p.requests(), 4)
	for from := end + 1; from < len(source)+1; from++ {
		for _, mode := range []string{"replay", "branch"} {
			r := h.call("POST", path+":fork", fmt.Sprintf(`{"mode":%q,"fromSeq":%d}`, mode, from))
			assert.Equal(t, "fork_point_invalid", r.code(t), "%s %d", mode, from)
		}
	}
	// A branch undoes what it did itself, under identities of its own.
	started := slices.IndexFunc(source, func(e map[string]any) bool { return e["type"] == "node.started" && e["nodeId"] == "charge" })
	branch := h.fork(path, fmt.Sprintf(`{"mode":"branch","fromSeq":%d}`, started))
	h.finish(branch)
	view := h.undone(branch)
	assert.Len(t, view["plan"], 1)
	assert.Equal(t, []string{"charge", "~charge"}, said(p)[4:])
	assert.Len(t, p.requests(), 6)
	keys := p.keys()
	slices.Sort(keys)
	assert.Len(t, slices.Compact(keys), 6)
}

func TestAnInverseActionIsRetriedUnderItsIdentity(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	failures := 0
	p.script(func(_ int, r received) (int, string) {
		if strings.Contains(r.body, `"inverse":true,"node":"charge"`) && failures < 2 {
			failures++
			return 422, ""
		}
		return 200, `{}`
	})
	h := start(t, p.trust)
	_, path := h.create(compensated(p, "wopcert-compensation", ""))
	h.finish(path)
	view := h.undone(path)
	assert.Equal(t, "completed", view["status"])
	assert.Equal(t, []string{"reserve", "charge", "~charge", "~charge", "~charge", "~reserve"}, said(p))
	assert.Len(t, slices.Compact(p.keys()[2:5]), 1)
	assert.Equal(t, []any{"released", "released", "completed"}, column(h.effects(path), "state")[2:5])
}

func TestAnInverseActionThatRecovers(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	failures := 0
	p.script(func(_ int, r received) (int, string) {
		if strings.Contains(r.body, `"inverse":true,"node":"charge"`) {
			if failures++; failures <= 5 {
				return 503, ""
			}
		}
		return 200, `{}`
	})
	h := start(t, p.trust)
	_, path := h.create(compensated(p, "wopcert-compensation", ""))
	h.finish(path)
	view := h.undone(path)
	assert.Equal(t, "completed", view["status"])
	var tried []any
	for _, made := range view["attempts"].([]any) {
		tried = append(tried, made.(object)["nodeId"], made.(object)["attempt"], made.(object)["outcome"])
	}
	assert.Equal(t, []any{"charge", 1.0, "failed", "charge", 2.0, "succeeded", "reserve", 1.0, "succeeded"}, tried)
	var keys []string
	for _, r := range p.requests()[2:] {
		keys = append(keys, r.key)
	}
	require.Len(t, keys, 7)
	assert.Len(t, slices.Compact(keys[:6]), 1)
	assert.NotEqual(t, keys[0], keys[6])
}

func TestAnInverseActionThatFails(t *testing.T) {
	t.Parallel()
	for workflow, want := range map[string]struct {
		status, snapshot string
		said             []string
		tail             []string
	}{
		"wopcert-compensation": {"partial", "partial", []string{"~charge", "~charge", "~charge", "~reserve"},
			[]string{"compensation.requested", "compensation.started", "compensation.failed"}},
		"wopcert-compensation-manual": {"manual-intervention", "manual", []string{"~charge"},
			[]string{"compensation.requested", "compensation.started", "compensation.failed", "compensation.manual-intervention-required"}},
	} {
		t.Run(workflow, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t)
			p.script(func(_ int, r received) (int, string) {
				if strings.Contains(r.body, "charge") && strings.Contains(r.body, "inverse") {
					return 503, "a secret of the provider"
				}
				return 200, `{}`
			})
			h := start(t, p.trust, func(c *referencehost.Config) { c.Effects.Attempts = 1 })
			_, path := h.create(compensated(p, workflow, ""))
			before := h.finish(path)
			view := h.undone(path)
			assert.Equal(t, want.status, view["status"])
			r := h.call("GET", path, "")
			assert.Equal(t, want.snapshot, r.json(t)["compensationStatus"])
			assert.Equal(t, "failed", before["status"])
			assert.Equal(t, append([]string{"reserve", "charge"}, want.said...), said(p))
			events := h.events(path)
			left := slices.DeleteFunc(tail(events), func(t string) bool { return t == "run.dead-lettered" })
			assert.Equal(t, want.tail, left)
			assert.Equal(t, "retries-exhausted", events[slices.Index(types(events), "compensation.failed")]["payload"].(object)["reason"])
			body := string(h.call("GET", path+"/events/poll?timeout=0", "").body) + string(h.call("GET", path+"/compensation", "").body)
			assert.NotContains(t, body, "secret")
			assert.NotContains(t, body, p.url+`","inverse`)
			assert.Equal(t, want.snapshot, h.listing()[0]["compensationStatus"])
		})
	}
}

func TestCancellingUndoesToo(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	h := start(t, p.trust)
	_, path := h.create(compensated(p, "wopcert-compensation-hold", ""))
	stream := h.stream(path + "/events?streamMode=debug")
	for f := next(t, stream); f.event != "node.started" || !strings.Contains(f.data, `"nodeId":"ship"`); f = next(t, stream) {
	}
	assert.Equal(t, "none", h.call("GET", path, "").json(t)["compensationStatus"])
	require.Equal(t, http.StatusOK, h.call("POST", path+"/cancel", "").StatusCode)
	assert.Equal(t, "run_terminal", h.call("POST", path+"/cancel", "").code(t))
	view := h.undone(path)
	assert.Equal(t, "completed", view["status"])
	assert.Equal(t, "cancelled", h.call("GET", path, "").json(t)["status"])
	assert.Equal(t, []string{"reserve", "charge", "~charge", "~reserve"}, said(p))
}

func TestOrderByDependency(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	h := start(t, p.trust)
	_, path := h.create(compensated(p, "wopcert-compensation-graph", ""))
	h.finish(path)
	assert.Equal(t, "completed", h.undone(path)["status"])
	inverse := said(p)[3:]
	require.Len(t, inverse, 3)
	assert.Equal(t, "~a", inverse[2])
}

func TestWhatCannotBeUndone(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	h := start(t, p.trust)
	_, path := h.create(compensated(p, "wopcert-compensation-irreversible", ""))
	h.finish(path)
	view := h.undone(path)
	assert.Equal(t, "partial", view["status"])
	plan := view["plan"].([]any)
	assert.Equal(t, []any{true, nil}, []any{plan[0].(object)["irreversibleEffect"], plan[1].(object)["irreversibleEffect"]})

	_, path = h.create(compensated(p, "wopcert-compensation-untriggered", ""))
	assert.Equal(t, "none", h.finish(path)["compensationStatus"])
	assert.Empty(t, tail(h.events(path)))
}

// A parent that is cancelled does not give up what its child is undoing (runs.md §Cancel).
func TestCancellingAParentKeepsTheCompensationOfAChild(t *testing.T) {
	t.Parallel()
	for choice, want := range map[string]string{"continue": "completed", "pause": "running", "manual": "manual-intervention"} {
		t.Run(choice, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t)
			gate := make(chan struct{})
			p.script(func(_ int, r received) (int, string) {
				return 200, `{}`
			})
			all, err := fixtures.All()
			require.NoError(t, err)
			var child fixtures.Workflow
			for _, held := range all {
				if held.ID == "wopcert-compensation" {
					document := strings.ReplaceAll(string(held.Document), `"onParentCancel": "continue"`, `"onParentCancel": "`+choice+`"`)
					child = fixtures.Workflow{ID: "the-child", Document: []byte(strings.Replace(document, `"id": "wopcert-compensation"`, `"id": "the-child"`, 1))}
				}
			}
			parent := `{"id":"child","typeId":"core.subWorkflow","name":"N","position":{"x":0,"y":0},"config":{"workflowId":"the-child","onChildFailure":"absorb","inputMapping":{"url":"url"}},"inputs":{}},
				{"id":"wait","typeId":"core.conformance.hold","name":"N","position":{"x":0,"y":0},"config":{"delayMs":60000},"inputs":{}}`
			document := strings.Replace(string(workflow("the-parent", parent, `[{"id":"e","sourceNodeId":"child","targetNodeId":"wait"}]`).Document),
				`"variables":[]`, `"variables":[{"name":"url","type":"string","required":true}]`, 1)
			h := start(t, p.trust, withFamilies(map[string]map[string]any{"subWorkflow": {"inputMapping": true}}), func(c *referencehost.Config) {
				c.Unlisted = append(c.Unlisted, child, fixtures.Workflow{ID: "the-parent", Document: []byte(document)})
				c.WrapSender = append(c.WrapSender, func(next referencehost.Sender) referencehost.Sender { return gatedFrom{next, 3, gate, new(counter)} })
			})
			_, path := h.create(compensated(p, "the-parent", ""))
			p.await(3) // the first inverse action is under way
			stream := h.stream(path + "/events?streamMode=debug")
			var childPath string
			for f := next(t, stream); f.event != "node.started" || !strings.Contains(f.data, `"nodeId":"wait"`); f = next(t, stream) {
				if f.event == "node.dispatched" {
					var event struct{ Payload struct{ ChildRunID string } }
					require.NoError(t, json.Unmarshal([]byte(f.data), &event))
					childPath = runPath(event.Payload.ChildRunID)
				}
			}
			assert.Equal(t, "running", h.call("GET", childPath, "").json(t)["compensationStatus"])
			require.Equal(t, http.StatusOK, h.call("POST", path+"/cancel", "").StatusCode)
			close(gate)
			if choice == "pause" {
				assert.Contains(t, tail(h.events(childPath)), "compensation.paused")
				assert.Equal(t, "running", h.call("GET", childPath+"/compensation", "").json(t)["status"])
				return
			}
			assert.Equal(t, want, h.undone(childPath)["status"])
		})
	}
}

func TestPoliciesAreCheckedWhenTheyAreLoaded(t *testing.T) {
	t.Parallel()
	node := wnode("a", "core.noop")
	for settings, says := range map[string]string{
		`{"compensation":{"triggers":["node-failure"],"profileVersion":"2"}}`:                         "profile version",
		`{"compensation":{"triggers":["operator-request"]}}`:                                          "nothing fires the trigger",
		`{"compensation":{"triggers":["node-failure"],"approvalScope":"all"}}`:                        "approve",
		`{"compensation":{"triggers":["node-failure"],"orderingModel":"by-name"}}`:                    "workflow definition",
		`{"compensation":{"triggers":[]}}`:                                                            "workflow definition",
		`{"compensation":{"triggers":["node-failure"],"orderingModel":"dependency-graph"}}`:           "ordering model",
		`{"compensation":{"triggers":["node-failure"],"exhaustedDisposition":"manual-intervention"}}`: "operator",
	} {
		config, err := referencehost.DefaultConfig()
		require.NoError(t, err)
		withFamilies(map[string]map[string]any{"compensation": {"orderingModels": []string{"reverse-completion"}, "manualIntervention": false}})(&config)
		config.Fixtures, config.Unlisted = nil, []fixtures.Workflow{workflow("w", node, `[]`, settings)}
		_, err = referencehost.New(config)
		require.ErrorContains(t, err, says, settings)
	}
	for compensation, says := range map[string]string{
		`{"nodeTypeId":"core.nothing"}`:                                                                 "no node type that undoes",
		`{"nodeTypeId":"conformance.http.request","requiresApproval":true}`:                             "approve",
		`{"nodeTypeId":"conformance.http.request","inputMapping":{"url":"${nodes.gone.output.x}"}}`:     "there is no node gone",
		`{"nodeTypeId":"conformance.http.request","inputMapping":{"url":"${variables.x}"}}`:             "neither",
		`{"nodeTypeId":"conformance.http.request","inputMapping":{"url":["${nodes.gone.output.x}",1]}}`: "there is no node gone",
	} {
		config, err := referencehost.DefaultConfig()
		require.NoError(t, err)
		with := strings.TrimSuffix(node, "}") + `,"compensation":` + compensation + `}`
		config.Fixtures, config.Unlisted = nil, []fixtures.Workflow{workflow("w", with, `[]`, `{"compensation":{"triggers":["node-failure"]}}`)}
		_, err = referencehost.New(config)
		require.ErrorContains(t, err, says, compensation)
	}
	h := start(t, withFamilies(map[string]map[string]any{"compensation": nil}))
	r := h.call("POST", "/runs", `{"workflowId":"wopcert-compensation","inputs":{"url":"https://example.org"}}`)
	assert.Equal(t, "capability_required", r.code(t))
	assert.Equal(t, "compensation", r.details(t)["requiredCapability"])
}
