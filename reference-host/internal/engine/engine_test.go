package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/corpus"
	"wopcert/reference-host/internal/clock"
	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/workflow"
)

// bench is an engine over an empty store, with node types that tests steer.
type bench struct {
	t      *testing.T
	engine *engine.Engine
	store  *eventlog.Memory
	clock  *clock.Manual
	sent   []engine.Effect
	mu     sync.Mutex
	hold   chan struct{}
	n      int
}

func (b *bench) Send(_ context.Context, effect engine.Effect) (*engine.Outcome, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent = append(b.sent, effect)
	return &engine.Outcome{Status: 200, Body: []byte(`"sent"`)}, nil
}

func setUp(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, clock: clock.NewManual(time.Unix(1000, 0)), hold: make(chan struct{})}
	b.store = eventlog.NewMemory(func(string) bool { return false })
	emit := func(_ context.Context, call *engine.Call) (engine.Values, error) {
		var outputs engine.Values
		return outputs, call.DecodeConfig(&outputs)
	}
	wait := func(ctx context.Context, _ *engine.Call) (engine.Values, error) {
		select {
		case <-b.hold:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	send := func(ctx context.Context, call *engine.Call) (engine.Values, error) {
		for range 2 {
			if _, err := call.Send(ctx, engine.Effect{Method: "POST", URL: "https://example.org"}); err != nil {
				return nil, err
			}
		}
		return engine.Values{"output": json.RawMessage(`1`)}, nil
	}
	var ids int
	var mu sync.Mutex
	e, err := engine.New(engine.Config{
		Clock: b.clock, Sender: b, MaxActive: 100, Logger: slog.New(slog.DiscardHandler),
		EventID: func() string {
			mu.Lock()
			defer mu.Unlock()
			ids++
			return fmt.Sprintf("event-%016d", ids)
		},
		Nodes: append(engine.CoreTypes(),
			engine.NodeType{ID: "test.emit", Run: emit}, engine.NodeType{ID: "test.wait", Run: wait}, engine.NodeType{ID: "test.send", Run: send},
			engine.NodeType{ID: "test.panic", Run: func(context.Context, *engine.Call) (engine.Values, error) { panic("oh") }},
			engine.NodeType{ID: "test.broken", Run: func(context.Context, *engine.Call) (engine.Values, error) { return nil, errors.New("secret") }},
		),
	})
	require.NoError(t, err)
	b.engine = e
	t.Cleanup(e.Close)
	return b
}

// graph makes a definition of "id type [config] [inputs]" nodes and "a>b [rule] [condition]" edges.
func (b *bench) graph(nodes []string, edges ...string) *workflow.Definition {
	b.t.Helper()
	var n, e []string
	for _, text := range nodes {
		parts := append(strings.Split(text, " "), "", "")
		config, inputs := parts[2], parts[3]
		if config == "" {
			config = "{}"
		}
		if inputs == "" {
			inputs = "{}"
		}
		disabled := strings.HasSuffix(parts[0], "!")
		n = append(n, fmt.Sprintf(`{"id":%q,"typeId":%q,"name":"N","position":{"x":0,"y":0},"config":%s,"inputs":%s,"disabled":%v}`,
			strings.TrimSuffix(parts[0], "!"), parts[1], config, inputs, disabled))
	}
	for i, text := range edges {
		parts := append(strings.Split(text, " "), "", "")
		from, to, _ := strings.Cut(parts[0], ">")
		rule, condition := parts[1], parts[2]
		if rule == "" {
			rule = "all_success"
		}
		if condition != "" {
			condition = `,"condition":` + condition
		}
		e = append(e, fmt.Sprintf(`{"id":"e%d","sourceNodeId":%q,"targetNodeId":%q,"triggerRule":%q%s}`, i, from, to, rule, condition))
	}
	contract, err := corpus.Load()
	require.NoError(b.t, err)
	def, err := workflow.Parse(contract, []byte(`{"id":"w","name":"W","version":"1","nodes":[`+strings.Join(n, ",")+`],"edges":[`+strings.Join(e, ",")+
		`],"triggers":[],"variables":[{"name":"v","type":"number","defaultValue":7}],"metadata":{},"settings":{}}`))
	require.NoError(b.t, err)
	return def
}

func (b *bench) start(def *workflow.Definition, limit int) eventlog.Log {
	b.t.Helper()
	b.n++
	variables, err := def.Seed(nil)
	require.NoError(b.t, err)
	run := eventlog.Run{
		ID: fmt.Sprintf("t/run-%016d", b.n), Owner: eventlog.Owner{Tenant: "t"}, WorkflowID: def.ID, CreatedAt: b.clock.Now(),
		Deadline: b.clock.Now().Add(time.Minute), MaxNodeExecutions: limit, Variables: variables,
	}
	log, err := b.store.Create(b.t.Context(), run, false, b.engine.StartEvent(&run, "rest"))
	require.NoError(b.t, err)
	require.True(b.t, b.engine.Reserve())
	b.engine.Start(log, def)
	return log
}

// until waits for an event of the type and returns the log so far.
func until(t *testing.T, log eventlog.Log, eventType string) []eventlog.Event {
	t.Helper()
	limit := time.After(10 * time.Second)
	for {
		changed := log.Changed()
		events, err := log.Read(-1)
		require.NoError(t, err)
		for _, event := range events {
			if event.Type == eventType {
				return events
			}
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("no %s: %v", eventType, trace(events))
		}
	}
}

// trace writes a log as "type:node" words without the starts.
func trace(events []eventlog.Event) string {
	var words []string
	for _, event := range events {
		if event.Type == "run.started" || event.Type == "node.started" {
			continue
		}
		words = append(words, strings.TrimPrefix(event.Type, "node.")+":"+event.NodeID)
	}
	return strings.Join(words, " ")
}

func TestScheduling(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		nodes []string
		edges []string
		want  string
		ends  string
	}{
		{"condition holds", []string{`a test.emit {"x":1}`, "b core.noop"}, []string{`a>b all_success {"type":"equals","left":"x","right":1}`},
			"completed:a completed:b run.completed:", "run.completed"},
		{"condition fails", []string{`a test.emit {"x":1}`, "b core.noop", "c core.noop"}, []string{`a>b all_success {"type":"equals","left":"x","right":2}`, "b>c"},
			"completed:a skipped:b skipped:c run.completed:", "run.completed"},
		{"condition on output", []string{`a test.emit {"x":{"y":[5]}}`, "b core.noop"}, []string{`a>b all_success {"type":"equals","left":"output.x.y.0","right":5}`},
			"completed:a completed:b run.completed:", "run.completed"},
		{"condition on status", []string{"a core.noop", "b core.noop"}, []string{`a>b all_success {"type":"equals","left":"status","right":"completed"}`},
			"completed:a completed:b run.completed:", "run.completed"},
		{"condition on variable", []string{"a core.noop", "b core.noop"}, []string{`a>b all_success {"type":"equals","left":"variables.v","right":7}`},
			"completed:a completed:b run.completed:", "run.completed"},
		{"a failure ends the run", []string{"a core.fail", "b core.noop"}, []string{"a>b"}, "failed:a run.failed:", "run.failed"},
		{"a failure can be handled", []string{"a core.fail", "b core.noop"}, []string{"a>b any_failed"}, "failed:a completed:b run.completed:", "run.completed"},
		{"any_failed without failure", []string{"a core.noop", "b core.noop"}, []string{"a>b any_failed"}, "completed:a skipped:b run.completed:", "run.completed"},
		{"all_complete", []string{"a core.fail", "b core.noop", "c core.noop"}, []string{"a>c all_complete", "b>c all_complete"},
			"failed:a completed:b completed:c run.completed:", "run.completed"},
		{"any_success", []string{"a core.noop", `b test.emit {"x":0}`, "c core.noop", "d core.noop"},
			[]string{"a>d any_success", `b>c all_success {"type":"truthy","left":"x"}`, "c>d any_success"},
			"completed:a completed:b skipped:c completed:d run.completed:", "run.completed"},
		{"none_failed", []string{"a core.noop", "b! core.noop", "c core.noop"}, []string{"a>c none_failed", "b>c none_failed"},
			"skipped:b completed:a completed:c run.completed:", "run.completed"},
		{"all_success needs all", []string{"a core.noop", "b! core.noop", "c core.noop"}, []string{"a>c", "b>c"},
			"skipped:b completed:a skipped:c run.completed:", "run.completed"},
		{"disabled alone", []string{"a! core.noop"}, nil, "skipped:a run.completed:", "run.completed"},
		{"panic", []string{"a test.panic"}, nil, "failed:a run.failed:", "run.failed"},
		{"broken", []string{"a test.broken"}, nil, "failed:a run.failed:", "run.failed"},
		{"missing capability", []string{"a conformance.requiresMissing"}, nil, "failed:a run.failed:", "run.failed"},
		{"missing output", []string{"a core.noop", `b core.identity {} {"p":{"type":"connection","nodeId":"a","outputKey":"gone"}}`}, []string{"a>b"},
			"completed:a failed:b run.failed:", "run.failed"},
		{"optional output", []string{"a core.noop", `b core.identity {} {"p":{"type":"connection","nodeId":"a","outputKey":"gone","optional":true}}`}, []string{"a>b"},
			"completed:a completed:b run.completed:", "run.completed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setUp(t)
			events := until(t, b.start(b.graph(c.nodes, c.edges...), 100), c.ends)
			got := strings.Fields(trace(events))
			if want := strings.Fields(c.want); !assert.ObjectsAreEqual(want, got) {
				assert.ElementsMatch(t, want, got) // nodes side by side may end in either order
				assert.Equal(t, want[len(want)-1], got[len(got)-1])
			}
		})
	}
}

func TestFailuresSayWhatTheyMay(t *testing.T) {
	t.Parallel()
	b := setUp(t)
	for config, want := range map[string]string{
		`a core.fail {"code":"mine","message":"Mine."}`: `{"code":"mine","message":"Mine."}`,
		`a core.fail`:                  `{"code":"node_failed","message":"The node failed."}`,
		`a core.fail {"code":7}`:       `{"code":"node_config_invalid",`,
		`a test.broken`:                `{"code":"internal_error","message":"The node failed for a reason of the host's own."}`,
		`a test.panic`:                 `{"code":"internal_error",`,
		`a core.delay`:                 `{"code":"node_config_invalid",`,
		`a core.delay {"delayMs":"x"}`: `{"code":"node_config_invalid",`,
		`a core.delay {} {"delayMs":{"type":"static","value":"x"}}`:  `{"code":"validation_error",`,
		`a core.delay {} {"delayMs":{"type":"static","value":-1}}`:   `{"code":"validation_error",`,
		`a core.delay {} {"delayMs":{"type":"static","value":null}}`: `{"code":"node_config_invalid",`,
	} {
		events := until(t, b.start(b.graph([]string{config}), 100), "run.failed")
		last := events[len(events)-1]
		assert.Contains(t, string(last.Payload), `"error":`+want, config)
		assert.NotContains(t, string(last.Payload), "secret")
		assert.Contains(t, string(last.Payload), `"failedNodeId":"a"`)
	}
}

func TestValuesFlow(t *testing.T) {
	t.Parallel()
	b := setUp(t)
	def := b.graph([]string{
		`a test.emit {"output":{"deep":1},"other":2}`,
		`b core.identity {} {"s":{"type":"static","value":[3]},"v":{"type":"variable","variableName":"v"},"c":{"type":"connection","nodeId":"a","outputKey":"other"},"n":{"type":"variable","variableName":"none"}}`,
	}, "a>b")
	events := until(t, b.start(def, 100), "run.completed")
	var payload struct{ Outputs json.RawMessage }
	require.NoError(t, json.Unmarshal(events[len(events)-1].Payload, &payload))
	assert.JSONEq(t, `{"input":{"deep":1},"s":[3],"v":7,"c":2}`, string(payload.Outputs))
}

func TestAFailureCutsTheNodesBesideIt(t *testing.T) {
	t.Parallel()
	b := setUp(t)
	log := b.start(b.graph([]string{"a test.wait", `b core.delay {"delayMs":10}`, "c core.fail"}, "b>c"), 100)
	b.clock.AwaitPending(2)
	b.clock.Advance(10 * time.Millisecond)
	events := until(t, log, "run.failed")
	assert.Equal(t, "completed:b failed:c cancelled:a run.failed:", trace(events))
}

func TestNodesSideBySide(t *testing.T) {
	t.Parallel()
	b := setUp(t)
	log := b.start(b.graph([]string{"a test.wait", "b test.wait", "c core.noop"}, "a>c", "b>c"), 100)
	events := until(t, log, "node.started")
	assert.Len(t, events, 3, "both have started before either ends")
	close(b.hold)
	until(t, log, "run.completed")
}

func TestCancelBeforeTheRunIsDriven(t *testing.T) {
	t.Parallel()
	b := setUp(t)
	def := b.graph([]string{"a core.noop"})
	run := eventlog.Run{ID: "t/run-0000000000000001", Owner: eventlog.Owner{Tenant: "t"}, WorkflowID: "w", CreatedAt: b.clock.Now(), Deadline: b.clock.Now(), MaxNodeExecutions: 1}
	log, err := b.store.Create(t.Context(), run, false, b.engine.StartEvent(&run, "rest"))
	require.NoError(t, err)
	require.NoError(t, b.engine.Cancel(t.Context(), log, "", "me"))
	require.ErrorIs(t, b.engine.Cancel(t.Context(), log, "", "me"), eventlog.ErrEnded)
	require.True(t, b.engine.Reserve())
	b.engine.Start(log, def)
	b.engine.Close()
	events, err := log.Read(-1)
	require.NoError(t, err)
	assert.Equal(t, "run.cancelled:", trace(events))
}

func TestABreachCutsWhatHasStarted(t *testing.T) {
	t.Parallel()
	b := setUp(t)
	log := b.start(b.graph([]string{"a test.wait", "b test.wait", "c test.wait"}), 2)
	events := until(t, log, "run.failed")
	assert.Equal(t, "cap.breached: cancelled:a cancelled:b run.failed:", trace(events))
	close(b.hold)
	b.engine.Close()
	after, err := log.Read(-1)
	require.NoError(t, err)
	assert.Len(t, after, len(events), "a late worker adds nothing")
}

func TestARunIsPickedUpFromItsLogAlone(t *testing.T) {
	t.Parallel()
	first := setUp(t)
	nodes := []string{`a test.emit {"output":5}`, "b test.wait", "c core.identity"}
	log := first.start(first.graph(nodes, "a>b", "a>c", "b>c"), 100)
	limit := time.Now().Add(10 * time.Second)
	for {
		events := until(t, log, "node.started")
		if len(events) == 4 || time.Now().After(limit) {
			break // a is done, b has started
		}
	}
	first.engine.Close()
	require.True(t, first.engine.Reserve())
	first.engine.Start(log, first.graph(nodes, "a>b", "a>c", "b>c"))
	events, err := log.Read(-1)
	require.NoError(t, err)
	require.Equal(t, "completed:a", trace(events), "a closed engine ends nothing and starts nothing")

	second := setUp(t)
	close(second.hold)
	require.True(t, second.engine.Reserve())
	second.engine.Start(log, second.graph(nodes, "a>b", "a>c", "b>c"))
	events = until(t, log, "run.completed")
	assert.Equal(t, "completed:a completed:b completed:c run.completed:", trace(events))
	var starts int
	for _, event := range events {
		if event.Type == "node.started" && event.NodeID == "b" {
			assert.Contains(t, string(event.Payload), fmt.Sprintf(`"attempt":%d`, starts+1))
			starts++
		}
	}
	assert.Equal(t, 2, starts, "the cut attempt is made again")
	assert.Contains(t, string(events[len(events)-1].Payload), `"input":5`)
}

func TestEffectsLeaveThroughTheSender(t *testing.T) {
	t.Parallel()
	b := setUp(t)
	log := b.start(b.graph([]string{"a test.send"}), 100)
	until(t, log, "run.completed")
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Len(t, b.sent, 2)
	for i, effect := range b.sent {
		assert.Equal(t, engine.Effect{
			Tenant: "t", RunID: log.Run().ID, NodeID: "a", Attempt: 1, Execution: 1, Ordinal: i, Seam: engine.SeamHTTP, Method: "POST", URL: "https://example.org",
		}, effect)
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	e, err := engine.New(engine.Config{Clock: clock.Real{}, MaxActive: 2, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	assert.True(t, e.Reserve())
	assert.True(t, e.Reserve())
	assert.False(t, e.Reserve())
	e.Release()
	assert.True(t, e.Reserve())
	_, err = engine.New(engine.Config{Nodes: append(engine.CoreTypes(), engine.CoreTypes()...)})
	require.Error(t, err)
}

// racingLog lets an event in between a look at the log and the append that rests on it, once.
type racingLog struct {
	eventlog.Log
	once sync.Once
}

func (l *racingLog) Append(ctx context.Context, expected int64, drafts ...eventlog.Draft) ([]eventlog.Event, error) {
	l.once.Do(func() {
		_, _ = l.Log.Append(ctx, eventlog.AnySequence, eventlog.Draft{
			EventID: "event-racing-00000", Type: "node.started", NodeID: "a", Payload: json.RawMessage(`{}`),
		})
	})
	return l.Log.Append(ctx, expected, drafts...)
}

func TestACancelThatLosesARaceLooksAgain(t *testing.T) {
	t.Parallel()
	b := setUp(t)
	run := eventlog.Run{ID: "t/run-0000000000000001", Owner: eventlog.Owner{Tenant: "t"}, CreatedAt: b.clock.Now()}
	log, err := b.store.Create(t.Context(), run, false, b.engine.StartEvent(&run, "rest"))
	require.NoError(t, err)
	require.NoError(t, b.engine.Cancel(t.Context(), &racingLog{Log: log}, "", "me"))
	events, err := log.Read(-1)
	require.NoError(t, err)
	assert.Equal(t, "cancelled:a run.cancelled:", trace(events))
}
