package referencehost_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

// seen is what a test knows of one run: its log as last read, which may only grow.
type seen struct {
	id, path string
	events   []json.RawMessage
	// source is what the run was forked from, and from how much of its log the run begins with.
	source *seen
	from   int
}

// TestRandomOperationsKeepTheLogsInvariants drives a host with random operations from several clients at once, reads
// logs in between and at the end, and holds every log to what events.md says of one.
func TestRandomOperationsKeepTheLogsInvariants(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			manual := manualClock()
			h := start(t, withClock(manual), withTalker, withReplay,
				withNode("test.flaky", failsTimes(20)), withWorkflow("flaky", "[]", []string{`f test.flaky {} {"retry":{"maxAttempts":3,"backoffMs":100}}`}), withFan)
			done := make(chan struct{})
			go func() { // time passes while the clients work
				for {
					select {
					case <-done:
						return
					default:
						manual.Advance(50 * time.Millisecond)
						time.Sleep(time.Millisecond)
					}
				}
			}()
			runs := make([][]*seen, 4)
			var group sync.WaitGroup
			for worker := range runs {
				random := rand.New(rand.NewPCG(seed, uint64(worker)))
				group.Go(func() {
					for range 40 {
						runs[worker] = operate(t, h, random, runs[worker])
					}
				})
			}
			group.Wait()
			var all []string
			for _, own := range runs {
				for _, run := range own {
					h.wind(t, run.path)
					run.read(t, h)
					run.check(t, h)
					all = append(all, run.id)
				}
			}
			close(done)
			listed, cursor := h.page("?limit=100")
			for cursor != "" {
				var more []string
				more, cursor = h.page("?limit=100&cursor=" + cursor)
				listed = append(listed, more...)
			}
			assert.Subset(t, listed, all)
			for _, id := range listed {
				if !slices.Contains(all, id) { // a child, which no client knows of
					child := &seen{id: id, path: runPath(id)}
					child.read(t, h)
					child.check(t, h)
				}
			}
		})
	}
}

// operate does one random thing.
func operate(t *testing.T, h *testHost, random *rand.Rand, runs []*seen) []*seen {
	if len(runs) == 0 || random.IntN(3) == 0 {
		bodies := []string{
			noop, `{"workflowId":"conformance-failure"}`, `{"workflowId":"conformance-multi-node"}`, `{"workflowId":"talk"}`,
			fmt.Sprintf(`{"workflowId":"conformance-delay","inputs":{"delayMs":%d}}`, random.IntN(2000)),
			fmt.Sprintf(`{"workflowId":"conformance-cancellable","configurable":{"version":1,"run":{"runTimeoutMs":%d}}}`, 1+random.IntN(3000)),
			`{"workflowId":"conformance-multi-node","configurable":{"version":1,"run":{"recursionLimit":1}}}`,
			fmt.Sprintf(`{"workflowId":"wopcert-two-delays","inputs":{"firstMs":%d,"secondMs":%d}}`, random.IntN(1000), random.IntN(1000)),
			`{"workflowId":"fan"}`, `{"workflowId":"flaky"}`, `{"workflowId":"conformance-interrupt-external-event","configurable":{"version":1,"run":{"runTimeoutMs":2000}}}`,
			`{"workflowId":"conformance-dispatch-loop"}`, `{"workflowId":"conformance-subworkflow-parent"}`,
			`{"workflowId":"wopcert-approval-then-fork","configurable":{"version":1,"run":{"runTimeoutMs":3000}}}`, measured(`{"timeoutMs":1000,"requiredApprovals":2}`),
			`{"workflowId":"wopcert-interrupt-pair","configurable":{"version":1,"run":{"runTimeoutMs":3000}}}`,
			`{"workflowId":"conformance-artifact-emit"}`, `{"workflowId":"conformance-conversation-lifecycle"}`, goldenEval, slowEval,
			`{"workflowId":"conformance-stream-text","configurable":{"version":1,"ai":{"mockProvider":{"id":"stream-text","config":{"delayMsPerToken":100}}}}}`,
			`{"workflowId":"wopcert-envelope-emit","inputs":{"emissions":[` + note("c-1", `{"schemaVersion":1}`) + `,` + modelRefuses + `]}}`,
		}
		id, path := h.create(bodies[random.IntN(len(bodies))])
		return append(runs, &seen{id: id, path: path})
	}
	run := runs[random.IntN(len(runs))]
	switch random.IntN(9) {
	case 0:
		r := h.call("POST", run.path+"/cancel", `{"reason":"random"}`)
		assert.Contains(t, []int{200, 409}, r.StatusCode)
	case 1:
		run.read(t, h)
	case 2:
		frames := h.stream(run.path + "/events?streamMode=" + []string{"updates", "values", "debug", "messages,updates"}[random.IntN(4)])
		if random.IntN(2) == 0 {
			next(t, frames)
		}
	case 3:
		h.call("GET", run.path, "")
	case 4, 5:
		r := h.call("POST", run.path+":pause", []string{"", `{"drainPolicy":"immediate"}`}[random.IntN(2)])
		assert.Contains(t, []int{202, 409}, r.StatusCode)
	case 6:
		r := h.call("POST", run.path+":resume", "")
		assert.Contains(t, []int{202, 409}, r.StatusCode)
	case 7:
		if run.read(t, h); len(run.events) == 0 {
			return runs
		}
		fork := &seen{source: run, from: random.IntN(len(run.events))}
		r := h.call("POST", run.path+":fork", fmt.Sprintf(`{"mode":"branch","fromSeq":%d}`, fork.from))
		if assert.Equal(t, 201, r.StatusCode, string(r.body)) {
			fork.id = r.json(t)["runId"].(string)
			fork.path = runPath(fork.id)
			return append(runs, fork)
		}
	case 8:
		node, value := "gate", []string{`{"action":"accept"}`, `{"action":"reject"}`}[random.IntN(2)]
		if random.IntN(3) == 0 {
			node, value = []string{"left", "right", "wait"}[random.IntN(3)], `1`
		}
		key := []string{referencehost.KeyTenantA, referencehost.KeyApprover1, referencehost.KeyApprover2}[random.IntN(3)]
		assert.Contains(t, []int{200, 404, 409}, h.resolve(run.path, node, value, key).StatusCode)
	}
	return runs
}

// wind brings a run to its end, out of every pause it is in or comes to.
func (h *testHost) wind(t *testing.T, path string) {
	for {
		switch status := h.call("GET", path, "").json(t)["status"]; status {
		case "completed", "failed", "cancelled":
			return
		case "paused":
			r := h.call("POST", path+":resume", "")
			assert.Contains(t, []int{202, 409}, r.StatusCode)
		default:
			after := len(h.events(path)) - 1
			h.call("GET", fmt.Sprintf("%s/events/poll?timeout=1&afterSequence=%d", path, after), "")
		}
	}
}

// read takes the log and holds it to what was read before.
func (s *seen) read(t *testing.T, h *testHost) {
	r := h.call("GET", s.path+"/events/poll?timeout=1", "")
	var poll struct{ Events []json.RawMessage }
	if !assert.NoError(t, json.Unmarshal(r.body, &poll)) || !assert.GreaterOrEqual(t, len(poll.Events), len(s.events), "a log shrank") {
		return
	}
	for i, event := range s.events {
		assert.Equal(t, string(event), string(poll.Events[i]), "a persisted event changed")
	}
	s.events = poll.Events
}

// check holds the finished log to its invariants, and the snapshot to a fold of the log made here.
func (s *seen) check(t *testing.T, h *testHost) {
	require.NotEmpty(t, s.events)
	s.checkHistory(t)
	status, ids, open := "pending", map[string]bool{}, map[string]bool{}
	variables := map[string]any{}
	var last time.Time
	for i, raw := range s.events {
		var event struct {
			EventID, RunID, Type, NodeID, Timestamp, CausationID string
			Sequence                                             int
			Payload                                              map[string]any
		}
		require.NoError(t, json.Unmarshal(raw, &event))
		assert.Equal(t, i, event.Sequence)
		assert.Equal(t, s.id, event.RunID)
		assert.False(t, ids[event.EventID], "an event id came twice")
		if event.CausationID != "" && event.CausationID != "c-1" { // the correlationId of an envelope is a cause too
			assert.True(t, ids[event.CausationID], "%s was caused by an event that does not precede it", event.Type)
		}
		ids[event.EventID] = true
		at, err := time.Parse(time.RFC3339, event.Timestamp)
		require.NoError(t, err)
		assert.False(t, at.Before(last), "time ran backwards")
		last = at
		assert.Contains(t, []string{"pending", "running", "paused"}, status, "%s follows the terminal event", event.Type)
		if status == "paused" && i >= s.from {
			assert.Contains(t, []string{"run.resumed", "run.cancelled"}, event.Type, "a pause was left by something else")
		}
		switch event.Type {
		case "run.paused", "run.resumed":
			if i >= s.from { // else it is history and changes nothing
				status = map[string]string{"run.paused": "paused", "run.resumed": "running"}[event.Type]
			}
			open = map[string]bool{}
		case "node.retried":
			assert.True(t, open[event.NodeID], "a node was tried again that had not started")
			delete(open, event.NodeID)
		case "run.started":
			assert.Zero(t, i)
			status = "running"
		case "run.completed", "run.failed", "run.cancelled":
			assert.Empty(t, open, "a node is still open")
			status = strings.TrimPrefix(event.Type, "run.")
		case "node.started":
			assert.False(t, open[event.NodeID], "a node started twice")
			open[event.NodeID] = true
		case "node.completed", "node.failed", "node.cancelled":
			assert.True(t, open[event.NodeID], "a node ended that had not started")
			delete(open, event.NodeID)
		case "variable.changed":
			variables[event.Payload["name"].(string)] = event.Payload["next"]
		}
	}
	r := h.call("GET", s.path, "")
	snapshot := r.json(t)
	assert.Equal(t, status, snapshot["status"])
	for name, value := range variables {
		assert.Equal(t, value, snapshot["variables"].(map[string]any)[name])
	}
	assert.Equal(t, `"`+strconv.Itoa(len(s.events)-1)+`"`, r.Header.Get("ETag"))
	assert.Equal(t, status == "failed", snapshot["error"] != nil)
}

// checkHistory holds the beginning of a fork to the log it was taken from, byte for byte but for the ids of the run.
func (s *seen) checkHistory(t *testing.T) {
	if s.source == nil {
		return
	}
	require.GreaterOrEqual(t, len(s.events), s.from)
	for i := range s.from {
		assert.Equal(t, anonymous(t, s.source.events[i]), anonymous(t, s.events[i]))
	}
}

// anonymous is an event without the ids that belong to its run.
func anonymous(t *testing.T, event json.RawMessage) string {
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(event, &members))
	for _, name := range []string{"eventId", "runId", "causationId"} {
		delete(members, name)
	}
	encoded, err := json.Marshal(members)
	require.NoError(t, err)
	return string(encoded)
}
