package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wopcert/reference-host/internal/clock"
	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/webhook"
)

const secret = "a secret of the subscriber"

var errUnprojectable = errors.New("no payload")

// sink is the world: it records what is sent and answers by a function.
type sink struct {
	mu      sync.Mutex
	changed *sync.Cond
	sent    []engine.Effect
	answer  func(ctx context.Context, effect engine.Effect, n int) (*engine.Outcome, error)
}

func newSink(answer func(context.Context, engine.Effect, int) (*engine.Outcome, error)) *sink {
	s := &sink{answer: answer}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// status answers everything with one status.
func status(code int) *sink {
	return newSink(func(context.Context, engine.Effect, int) (*engine.Outcome, error) {
		return &engine.Outcome{Status: code}, nil
	})
}

func (s *sink) Send(ctx context.Context, effect engine.Effect) (*engine.Outcome, error) {
	s.mu.Lock()
	s.sent = append(s.sent, effect)
	n := len(s.sent)
	answer := s.answer
	s.changed.Broadcast()
	s.mu.Unlock()
	return answer(ctx, effect, n)
}

func (s *sink) set(answer func(context.Context, engine.Effect, int) (*engine.Outcome, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// wait returns what was sent once it is n requests or more.
func (s *sink) wait(n int) []engine.Effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.sent) < n {
		s.changed.Wait()
	}
	return append([]engine.Effect(nil), s.sent...)
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sent)
}

// world is a store, a clock that tests move, and a dispatcher.
type world struct {
	t      testing.TB
	store  *store
	clock  *clock.Manual
	sink   *sink
	config webhook.Config
	*webhook.Dispatcher
}

// store is a memory store in which reading a run can be made to fail.
type store struct {
	*eventlog.Memory
	mu   sync.Mutex
	fail error
}

func (s *store) failing(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *store) Open(ctx context.Context, runID string) (eventlog.Log, error) {
	s.mu.Lock()
	err := s.fail
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.Memory.Open(ctx, runID)
}

func newWorld(t testing.TB, out *sink, change ...func(*webhook.Config)) *world {
	t.Helper()
	w := &world{t: t, sink: out, clock: clock.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
	w.store = &store{Memory: eventlog.NewMemory(func(string) bool { return false })}
	w.config = webhook.Config{
		Store: w.store, Sender: out, Clock: w.clock, Logger: slog.New(slog.DiscardHandler), Limits: webhook.DefaultLimits(),
		Retry:          webhook.RetryPolicy{MaxAttempts: 3, Backoff: webhook.BackoffExponential, Base: time.Second},
		AttemptTimeout: time.Minute, Retention: 30 * 24 * time.Hour, Overlap: time.Hour,
		Unprojectable: func(err error) bool { return errors.Is(err, errUnprojectable) },
	}
	for _, c := range change {
		c(&w.config)
	}
	w.start()
	w.store.Outbox(func(run eventlog.Run, events []eventlog.Event) []eventlog.TableWrite { return w.Outbox(run, events) })
	t.Cleanup(func() { w.Close() })
	return w
}

// start makes the dispatcher, again after a Close.
func (w *world) start() {
	w.t.Helper()
	d, err := webhook.New(w.config)
	require.NoError(w.t, err)
	w.Dispatcher = d
}

func id(tenant, name string) string {
	return fmt.Sprintf("%s/%s", tenant, (name + "................")[:16])
}

func (w *world) subscribe(name string, change ...func(*webhook.Subscription)) webhook.Subscription {
	w.t.Helper()
	s := webhook.Subscription{
		ID: id("tenant-a", name), Tenant: "tenant-a", URL: "https://hooks.example.org/" + name, Events: []string{eventlog.RunStarted, eventlog.RunCompleted},
		Secret: secret,
	}
	for _, c := range change {
		c(&s)
	}
	require.NoError(w.t, w.Subscribe(w.t.Context(), s))
	return s
}

func draft(eventType string, n int) eventlog.Draft {
	return eventlog.Draft{
		EventID: fmt.Sprintf("event-%010d", n), Type: eventType, Payload: json.RawMessage(`{"n":` + fmt.Sprint(n) + `}`),
		Timestamp: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
}

// run makes a run with one run.started, and returns its log.
func (w *world) run(name string, change ...func(*eventlog.Run)) eventlog.Log {
	w.t.Helper()
	run := eventlog.Run{ID: id("tenant-a", name), Owner: eventlog.Owner{Tenant: "tenant-a"}, EngineVersion: 1}
	for _, c := range change {
		c(&run)
	}
	log, err := w.store.Create(w.t.Context(), run, false, draft(eventlog.RunStarted, 0))
	require.NoError(w.t, err)
	return log
}

func (w *world) rows(table string) []string {
	w.t.Helper()
	var keys []string
	require.NoError(w.t, w.store.Scan(context.Background(), table, "", func(key string, _ []byte) error {
		keys = append(keys, key)
		return nil
	}))
	return keys
}

// settle waits until no delivery is left in the table.
func (w *world) settle() {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return len(w.rows("webhook-deliveries")) == 0 }, 10*time.Second, time.Millisecond)
}

func get(e engine.Effect, name string) string { return http.Header(e.Header).Get(name) }
