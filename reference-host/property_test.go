package referencehost_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// seen is what a test knows of one run: its log as last read, which may only grow.
type seen struct {
	id, path string
	events   []json.RawMessage
}

// TestRandomOperationsKeepTheLogsInvariants drives a host with random operations from several clients at once, reads
// logs in between and at the end, and holds every log to what events.md says of one.
func TestRandomOperationsKeepTheLogsInvariants(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			manual := manualClock()
			h := start(t, withClock(manual), withTalker)
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
					h.finish(run.path)
					run.read(t, h)
					run.check(t, h)
					all = append(all, run.id)
				}
			}
			close(done)
			listed, _ := h.page("?limit=100")
			for cursor := ""; len(listed) < len(all); {
				var more []string
				more, cursor = h.page("?limit=100&cursor=" + cursor)
				listed = append(listed, more...)
			}
			assert.ElementsMatch(t, all, listed)
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
		}
		id, path := h.create(bodies[random.IntN(len(bodies))])
		return append(runs, &seen{id: id, path: path})
	}
	run := runs[random.IntN(len(runs))]
	switch random.IntN(4) {
	case 0:
		r := h.call("POST", run.path+"/cancel", `{"reason":"random"}`)
		assert.Contains(t, []int{200, 409}, r.StatusCode)
	case 1:
		run.read(t, h)
	case 2:
		frames := h.stream(run.path + "/events?streamMode=" + []string{"updates", "values", "debug", "messages,updates"}[random.IntN(4)])
		if random.IntN(2) == 0 {
			collect(t, frames)
		}
	case 3:
		h.call("GET", run.path, "")
	}
	return runs
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
		if event.CausationID != "" {
			assert.True(t, ids[event.CausationID], "an event was caused by one that does not precede it")
		}
		ids[event.EventID] = true
		at, err := time.Parse(time.RFC3339, event.Timestamp)
		require.NoError(t, err)
		assert.False(t, at.Before(last), "time ran backwards")
		last = at
		assert.Contains(t, []string{"pending", "running"}, status, "%s follows the terminal event", event.Type)
		switch event.Type {
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
