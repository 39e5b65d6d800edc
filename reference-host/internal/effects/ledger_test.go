package effects_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/reference-host/internal/clock"
	"wopcert/reference-host/internal/effects"
	"wopcert/reference-host/internal/egress"
	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
)

// world is who effects go to: it answers by script and counts by key.
type world struct {
	mu     sync.Mutex
	keys   []string
	answer func(n int) (*engine.Outcome, error)
}

func (w *world) Send(_ context.Context, effect engine.Effect) (*engine.Outcome, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys = append(w.keys, effect.Header.Get("Idempotency-Key"))
	if w.answer == nil {
		return said(200, "text/plain", fmt.Sprint(len(w.keys))), nil
	}
	return w.answer(len(w.keys))
}

func said(status int, contentType, body string) *engine.Outcome {
	return &engine.Outcome{Status: status, Header: http.Header{"Content-Type": {contentType}}, Body: []byte(body)}
}

func tables() *eventlog.Memory { return eventlog.NewMemory(func(string) bool { return true }) }

func ledger(t *testing.T, w *world, store eventlog.Tables, change ...func(*effects.Config)) *effects.Ledger {
	config := effects.Config{Tables: store, Next: w, Clock: clock.Real{}, Incarnation: "one", Attempts: 3, Backoff: time.Microsecond}
	for _, f := range change {
		f(&config)
	}
	l := effects.New(config)
	t.Cleanup(l.Close)
	return l
}

func effect(change func(*engine.Effect)) engine.Effect {
	e := engine.Effect{
		Tenant: "t", RunID: "t/run-1", NodeID: "n", Execution: 1, Attempt: 1, Seam: engine.SeamHTTP, Method: "POST", URL: "https://example.org/pay", Body: []byte("1"),
	}
	if change != nil {
		change(&e)
	}
	return e
}

// What is part of an identity, and what is not.
func TestIdentity(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*engine.Effect)
		same   bool
	}{
		"another attempt":     {func(e *engine.Effect) { e.Attempt = 2 }, true},
		"another header":      {func(e *engine.Effect) { e.Header = http.Header{"X": {"y"}} }, true},
		"another path":        {func(e *engine.Effect) { e.URL = "https://example.org/refund" }, true},
		"another run":         {func(e *engine.Effect) { e.RunID = "t/run-2" }, false},
		"another node":        {func(e *engine.Effect) { e.NodeID = "m" }, false},
		"another execution":   {func(e *engine.Effect) { e.Execution = 2 }, false},
		"the second effect":   {func(e *engine.Effect) { e.Ordinal = 1 }, false},
		"another provider":    {func(e *engine.Effect) { e.URL = "https://example.com/pay" }, false},
		"another tenant":      {func(e *engine.Effect) { e.Tenant = "u" }, false},
		"a business key":      {func(e *engine.Effect) { e.Key = "order" }, false},
		"an inverse action":   {func(e *engine.Effect) { e.Inverse = "undo" }, false},
		"names that run over": {func(e *engine.Effect) { e.NodeID = "n.1" }, false},
	} {
		store := tables()
		l := ledger(t, new(world), store)
		_, err := l.Send(t.Context(), effect(nil))
		require.NoError(t, err)
		_, err = l.Send(t.Context(), effect(c.change))
		first, read := l.Of(t.Context(), "t/run-1")
		require.NoError(t, read)
		changed := effect(c.change)
		second, read := l.Of(t.Context(), changed.RunID)
		require.NoError(t, read)
		if c.same && strings.Contains(name, "path") {
			var mismatch *engine.NodeError
			require.ErrorAs(t, err, &mismatch, "one activity is one request")
			continue
		}
		require.NoError(t, err, name)
		all := append(first, second...)
		assert.Equal(t, c.same, all[0].EffectID == all[len(all)-1].EffectID, name)
		assert.True(t, strings.HasPrefix(all[0].EffectID, "t/fx-"))
	}
}

func TestABusinessKeyHoldsNothingOfTheRun(t *testing.T) {
	t.Parallel()
	w, store := new(world), tables()
	l := ledger(t, w, store)
	for run := range 3 {
		outcome, err := l.Send(t.Context(), effect(func(e *engine.Effect) {
			e.Key, e.RunID, e.NodeID, e.Execution, e.Ordinal = "order", fmt.Sprint("t/run-", run), fmt.Sprint("n", run), run+1, run
		}))
		require.NoError(t, err)
		assert.Equal(t, "1", string(outcome.Body))
		rows, err := l.Of(t.Context(), fmt.Sprint("t/run-", run))
		require.NoError(t, err)
		require.Len(t, rows, 1)
		assert.Equal(t, effects.ByBusiness, rows[0].Keying)
		assert.Equal(t, 1, rows[0].Attempt)
		assert.Equal(t, effects.Completed, rows[0].State)
	}
	assert.Len(t, w.keys, 1)
}

func TestStates(t *testing.T) {
	t.Parallel()
	broken := errors.New("the connection broke")
	for name, c := range map[string]struct {
		answers []any // errors and statuses
		states  []string
		status  int
		fails   bool
	}{
		"done":              {[]any{200}, []string{"completed"}, 200, false},
		"redirected":        {[]any{302}, []string{"completed"}, 302, false},
		"refused":           {[]any{404}, []string{"released"}, 404, false},
		"busy, then done":   {[]any{503, 429, 201}, []string{"released", "released", "completed"}, 201, false},
		"busy throughout":   {[]any{500, 500, 500}, []string{"released", "released", "released"}, 500, false},
		"broken, then done": {[]any{broken, 200}, []string{"escaped", "completed"}, 200, false},
		"not allowed":       {[]any{egress.ErrRefused}, []string{"released"}, 0, true},
		"not sent":          {[]any{engine.ErrNotSent}, []string{"released"}, 0, true},
		"broken throughout": {[]any{broken, broken, broken}, []string{"escaped", "escaped", "escaped"}, 0, true},
	} {
		w := &world{answer: func(n int) (*engine.Outcome, error) {
			if n > len(c.answers) {
				return nil, errors.New("one request too many")
			}
			if err, ok := c.answers[n-1].(error); ok {
				return nil, err
			}
			return said(c.answers[n-1].(int), "text/plain", "x"), nil
		}}
		l := ledger(t, w, tables())
		outcome, err := l.Send(t.Context(), effect(nil))
		assert.Equal(t, c.fails, err != nil, "%s: %v", name, err)
		if !c.fails {
			assert.Equal(t, c.status, outcome.Status, name)
		}
		rows, err := l.Of(t.Context(), "t/run-1")
		require.NoError(t, err)
		var states []string
		for i, row := range rows {
			states = append(states, row.State)
			assert.Equal(t, i+1, row.Attempt)
			assert.Equal(t, w.keys[0], w.keys[i], name)
		}
		assert.Equal(t, c.states, states, name)
	}
}

func TestConcurrentExecutors(t *testing.T) {
	t.Parallel()
	w, gate := new(world), make(chan struct{})
	w.answer = func(n int) (*engine.Outcome, error) {
		<-gate
		return said(200, "text/plain", fmt.Sprint(n)), nil
	}
	l := ledger(t, w, tables())
	var done sync.WaitGroup
	for i := range 50 {
		done.Go(func() {
			outcome, err := l.Send(t.Context(), effect(func(e *engine.Effect) { e.Key, e.RunID = "order", fmt.Sprint("t/run-", i) }))
			assert.NoError(t, err)
			assert.Equal(t, "1", string(outcome.Body))
		})
	}
	close(gate)
	done.Wait()
	assert.Len(t, w.keys, 1)
}

func TestWhatIsStreamedIsNotKept(t *testing.T) {
	t.Parallel()
	for contentType, kept := range map[string]bool{"application/json": true, "text/event-stream; charset=utf-8": false, "application/x-ndjson": false} {
		w := &world{answer: func(int) (*engine.Outcome, error) { return said(200, contentType, "data: the answer"), nil }}
		store := tables()
		l := ledger(t, w, store)
		for range 2 {
			_, err := l.Send(t.Context(), effect(nil))
			require.NoError(t, err)
		}
		assert.Len(t, w.keys, 1, "the outcome is on record all the same")
		again, err := l.Send(t.Context(), effect(nil))
		require.NoError(t, err)
		assert.Equal(t, kept, len(again.Body) > 0, contentType)
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	manual := clock.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	w, store := new(world), tables()
	l := ledger(t, w, store, func(c *effects.Config) { c.Clock, c.Retention = manual, time.Hour })
	send := func() {
		_, err := l.Send(t.Context(), effect(func(e *engine.Effect) { e.Key = "order" }))
		require.NoError(t, err)
	}
	send()
	manual.Advance(effects.MinRetention - time.Second)
	require.NoError(t, l.Sweep(t.Context()))
	send()
	assert.Len(t, w.keys, 1, "no record is kept for less than 14 days")
	manual.Advance(effects.MinRetention + time.Second)
	require.NoError(t, l.Sweep(t.Context()))
	rows, err := l.Of(t.Context(), "t/run-1")
	require.NoError(t, err)
	assert.Empty(t, rows)
	for _, table := range []string{"effects", "effects-of-runs"} {
		require.NoError(t, store.Scan(t.Context(), table, "", func(key string, _ []byte) error {
			return fmt.Errorf("%s is still in %s", key, table)
		}))
	}
	send()
	assert.Len(t, w.keys, 2)
}

func TestTheNextProcessTakesAClaimOver(t *testing.T) {
	t.Parallel()
	store, sent := tables(), make(chan struct{})
	stuck := &world{}
	stuck.answer = func(int) (*engine.Outcome, error) { close(sent); select {} }
	dead := effects.New(effects.Config{Tables: store, Next: stuck, Clock: clock.Real{}, Incarnation: "one"})
	go func() { _, _ = dead.Send(context.Background(), effect(nil)) }()
	<-sent
	w := new(world)
	l := ledger(t, w, store, func(c *effects.Config) { c.Incarnation = "two" })
	rows, err := l.Of(t.Context(), "t/run-1")
	require.NoError(t, err)
	require.Len(t, rows, 1)
	assert.Equal(t, effects.Claimed, rows[0].State)
	_, err = l.Send(t.Context(), effect(func(e *engine.Effect) { e.Attempt = 2 }))
	require.NoError(t, err)
	rows, err = l.Of(t.Context(), "t/run-1")
	require.NoError(t, err)
	assert.Equal(t, []string{effects.Escaped, effects.Completed}, []string{rows[0].State, rows[1].State})
	assert.Equal(t, []string{rows[0].ProviderKey}, w.keys)
}

func TestALedgerThatIsNone(t *testing.T) {
	t.Parallel()
	w, store := new(world), tables()
	l := ledger(t, w, store)
	_, err := l.Send(t.Context(), effect(nil))
	require.NoError(t, err)
	rows, err := l.Of(t.Context(), "t/run-1")
	require.NoError(t, err)
	require.NoError(t, store.Update(t.Context(), "effects", rows[0].EffectID, func([]byte) ([]byte, error) { return []byte(`{"key":`), nil }))
	_, err = l.Send(t.Context(), effect(nil))
	require.ErrorContains(t, err, "cannot be read")
	_, err = l.Of(t.Context(), "t/run-1")
	require.ErrorContains(t, err, "cannot be read")
	require.ErrorContains(t, l.Sweep(t.Context()), "cannot be read")
	assert.Len(t, w.keys, 1, "nothing is sent by a record that cannot be read")
}

func TestGuard(t *testing.T) {
	t.Parallel()
	w := new(world)
	guard := effects.Guard{Next: effects.Seams{engine.SeamHTTP: w}}
	_, err := guard.Send(t.Context(), effect(func(e *engine.Effect) { e.Replay = true }))
	var failure *engine.NodeError
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, "replay_source_missing", failure.Code)
	assert.True(t, failure.Final)
	assert.Empty(t, w.keys)
	_, err = guard.Send(t.Context(), effect(nil))
	require.NoError(t, err)
	_, err = guard.Send(t.Context(), effect(func(e *engine.Effect) { e.Seam = "smtp.send" }))
	require.ErrorIs(t, err, engine.ErrNotSent)
}

func TestClose(t *testing.T) {
	t.Parallel()
	l := effects.New(effects.Config{Tables: tables(), Next: new(world), Clock: clock.Real{}})
	l.Close()
	_, err := l.Send(t.Context(), effect(nil))
	require.Error(t, err)
}
