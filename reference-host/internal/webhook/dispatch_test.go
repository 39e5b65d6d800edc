package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/webhook"
)

func TestADeliveryIsTheEventOfTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, status(204))
	s := w.subscribe("hook")
	log := w.run("run", func(r *eventlog.Run) { r.Owner.Workspace = "space" })
	sent := w.sink.wait(1)[0]
	events, err := log.Read(-1)
	require.NoError(t, err)
	event, err := json.Marshal(events[0])
	require.NoError(t, err)
	assert.Equal(t, `{"runId":"tenant-a/run.............","workspaceId":"space","event":`+string(event)+`}`, string(sent.Body))
	assert.Equal(t, s.URL, sent.URL)
	assert.Equal(t, "POST", sent.Method)
	w.settle()
	w.run("run-2")
	assert.True(t, strings.HasPrefix(string(w.sink.wait(2)[1].Body), `{"runId":"tenant-a/run-2...........","event":{`), "no workspace where there is none")
}

func TestWhatMatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t, status(200))
	w.subscribe("all")
	w.subscribe("tagged", func(s *webhook.Subscription) { s.Tags = []string{"red", "blue"} })
	w.subscribe("other", func(s *webhook.Subscription) { s.ID, s.Tenant = id("tenant-b", "other"), "tenant-b" })
	w.run("plain")
	w.run("tagged", func(r *eventlog.Run) { r.Tags = []string{"green", "blue"} })
	log := w.run("green", func(r *eventlog.Run) { r.Tags = []string{"green"} })
	_, err := log.Append(t.Context(), eventlog.AnySequence, draft(eventlog.NodeStarted, 1), draft(eventlog.RunCompleted, 2))
	require.NoError(t, err)
	got := map[string]int{}
	for _, e := range w.sink.wait(5) {
		got[e.URL[len("https://hooks.example.org/"):]+" "+e.RunID+" "+get(e, "OpenWOP-Event-Type")]++
	}
	assert.Equal(t, map[string]int{
		"all tenant-a/plain........... run.started": 1, "all tenant-a/tagged.......... run.started": 1, "all tenant-a/green........... run.started": 1,
		"all tenant-a/green........... run.completed": 1, "tagged tenant-a/tagged.......... run.started": 1,
	}, got)
	w.settle()
	assert.Equal(t, 5, w.sink.count())
}

func TestForksAreSilentAboutHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, status(200))
	w.subscribe("hook")
	fork := func(name, mode string) {
		log := w.run(name, func(r *eventlog.Run) { r.ForkOf, r.ForkMode, r.ForkPoint = "tenant-a/source", mode, 1 })
		_, err := log.Append(t.Context(), eventlog.AnySequence, draft(eventlog.RunCompleted, 1))
		require.NoError(t, err)
	}
	fork("replay", "replay")
	fork("branch", "branch")
	sent := w.sink.wait(1)
	w.settle()
	assert.Equal(t, 1, w.sink.count())
	assert.Equal(t, "tenant-a/branch..........", sent[0].RunID)
	assert.Equal(t, eventlog.RunCompleted, get(sent[0], "OpenWOP-Event-Type"))
}

func TestRetriesAndDeadLetters(t *testing.T) {
	t.Parallel()
	answers := []func() (*engine.Outcome, error){
		func() (*engine.Outcome, error) { return &engine.Outcome{Status: 302}, nil },
		func() (*engine.Outcome, error) { return nil, errors.New("connection refused") },
		func() (*engine.Outcome, error) { return &engine.Outcome{Status: 500}, nil },
	}
	w := newWorld(t, newSink(func(_ context.Context, _ engine.Effect, n int) (*engine.Outcome, error) { return answers[n-1]() }))
	s := w.subscribe("hook")
	w.run("run")
	w.sink.wait(1)
	w.clock.AwaitPending(1)
	w.clock.Advance(999 * time.Millisecond)
	assert.Equal(t, 1, w.sink.count(), "the backoff has not passed")
	w.clock.Advance(time.Millisecond)
	w.sink.wait(2)
	w.clock.AwaitPending(1)
	w.clock.Advance(1999 * time.Millisecond)
	assert.Equal(t, 2, w.sink.count(), "the backoff doubles")
	w.clock.Advance(time.Millisecond)
	sent := w.sink.wait(3)
	w.settle()
	for _, e := range sent {
		assert.Equal(t, string(sent[0].Body), string(e.Body))
	}
	page, next, err := w.DeadLetters(t.Context(), s.ID, "", 10)
	require.NoError(t, err)
	assert.Empty(t, next)
	require.Len(t, page, 1)
	at := time.Date(2026, 3, 1, 12, 0, 3, 0, time.UTC)
	assert.True(t, strings.HasPrefix(page[0].DeliveryID, "tenant-a/"))
	assert.Equal(t, webhook.DeadLetter{
		DeliveryID: page[0].DeliveryID, WebhookID: s.ID, RunID: "tenant-a/run.............", EventID: "event-0000000000", EventType: eventlog.RunStarted,
		Attempts: 3, DeadLetteredAt: at, ExpiresAt: at.Add(30 * 24 * time.Hour), Reason: webhook.ReasonExhausted, LastStatus: 500,
	}, page[0])
	row, err := json.Marshal(page[0])
	require.NoError(t, err)
	assert.NotContains(t, string(row), secret)
	w.clock.Advance(31 * 24 * time.Hour)
	page, _, err = w.DeadLetters(t.Context(), s.ID, "", 10)
	require.NoError(t, err)
	assert.Empty(t, page, "a dead letter ages out")
	assert.Empty(t, w.rows("webhook-deadletters"))
	assert.Equal(t, 3, w.sink.count())
}

func TestASuccessAfterAFailureEndsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newSink(func(_ context.Context, _ engine.Effect, n int) (*engine.Outcome, error) {
		if n == 1 {
			return &engine.Outcome{Status: 503}, nil
		}
		return &engine.Outcome{Status: 299}, errors.New("the body did not end")
	}), func(c *webhook.Config) { c.Retry.Backoff = webhook.BackoffNone })
	s := w.subscribe("hook")
	w.run("run")
	w.sink.wait(2)
	w.settle()
	page, _, err := w.DeadLetters(t.Context(), s.ID, "", 10)
	require.NoError(t, err)
	assert.Empty(t, page)
	assert.Equal(t, 2, w.sink.count())
}

func TestPagesOfDeadLetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, status(500), func(c *webhook.Config) { c.Retry.MaxAttempts = 1 })
	s := w.subscribe("hook")
	other := w.subscribe("hook-2")
	for n := range 5 {
		w.run(fmt.Sprintf("run-%d", n))
		w.settle()
		w.clock.Advance(time.Second)
	}
	var seen []string
	after := ""
	for pages := 1; ; pages++ {
		page, next, err := w.DeadLetters(t.Context(), s.ID, after, 2)
		require.NoError(t, err)
		for _, letter := range page {
			seen = append(seen, letter.RunID)
			assert.Equal(t, s.ID, letter.WebhookID)
		}
		if next == "" {
			assert.Equal(t, 3, pages)
			break
		}
		after = next
	}
	assert.Equal(t, []string{id("tenant-a", "run-4"), id("tenant-a", "run-3"), id("tenant-a", "run-2"), id("tenant-a", "run-1"), id("tenant-a", "run-0")}, seen)
	page, next, err := w.DeadLetters(t.Context(), other.ID, "", 5)
	require.NoError(t, err)
	assert.Len(t, page, 5)
	assert.Empty(t, next, "a page that is just full is the last")
}

func TestUnprojectableIsNeverRetried(t *testing.T) {
	t.Parallel()
	w := newWorld(t, status(200))
	s := w.subscribe("hook")
	w.store.failing(fmt.Errorf("reading: %w", errUnprojectable))
	w.run("run")
	w.settle()
	page, _, err := w.DeadLetters(t.Context(), s.ID, "", 10)
	require.NoError(t, err)
	require.Len(t, page, 1)
	assert.Equal(t, webhook.ReasonUnprojectable, page[0].Reason)
	assert.Equal(t, 1, page[0].Attempts)
	assert.Zero(t, page[0].LastStatus)
	assert.Zero(t, w.sink.count())
}

func TestAStoreOutOfOrderCostsNoAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, status(200))
	w.subscribe("hook")
	w.store.failing(errors.New("disk"))
	w.run("run")
	for range 10 {
		w.clock.AwaitPending(1)
		w.clock.Advance(time.Second)
	}
	w.clock.AwaitPending(1)
	assert.Zero(t, w.sink.count())
	w.store.failing(nil)
	w.clock.Advance(time.Second)
	assert.Equal(t, 1, w.sink.wait(1)[0].Attempt)
	w.settle()
}

func TestUnregisterEndsWhatIsScheduledAndUnderWay(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	w := newWorld(t, newSink(func(ctx context.Context, e engine.Effect, _ int) (*engine.Outcome, error) {
		if strings.HasSuffix(e.URL, "held") {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-hold:
			}
		}
		return &engine.Outcome{Status: 500}, nil
	}))
	defer close(hold)
	failing, held := w.subscribe("failing"), w.subscribe("held")
	w.run("run")
	w.sink.wait(2)
	w.clock.AwaitPending(1)
	require.NoError(t, w.Unsubscribe(t.Context(), failing.ID))
	require.NoError(t, w.Unsubscribe(t.Context(), held.ID))
	w.run("run-2")
	w.clock.Advance(time.Hour)
	assert.Equal(t, 2, w.sink.count())
	assert.Empty(t, w.rows("webhook-deliveries"))
	assert.Empty(t, w.rows("webhooks"))
	require.ErrorIs(t, w.Unsubscribe(t.Context(), failing.ID), eventlog.ErrNotFound)
	assert.False(t, w.Has(failing.ID))
}

func TestASubscriptionNobodyLoadedCanBeEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, status(200))
	s := webhook.Subscription{ID: id("tenant-a", "stray"), Tenant: "tenant-a"}
	row, err := json.Marshal(s)
	require.NoError(t, err)
	require.NoError(t, w.store.Update(t.Context(), "webhooks", s.ID, func([]byte) ([]byte, error) { return row, nil }))
	require.NoError(t, w.Unsubscribe(t.Context(), s.ID))
	require.ErrorIs(t, w.Unsubscribe(t.Context(), s.ID), eventlog.ErrNotFound)
	w.subscribe("hook")
	w.run("run")
	w.sink.wait(1)
}

func TestARestartTakesUpWhatWasLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newSink(func(ctx context.Context, e engine.Effect, _ int) (*engine.Outcome, error) {
		if get(e, "OpenWOP-Event-Type") == eventlog.RunCompleted {
			<-ctx.Done() // under way when the host goes
			return nil, ctx.Err()
		}
		return &engine.Outcome{Status: 500}, nil
	}))
	s := w.subscribe("hook", func(s *webhook.Subscription) { s.Standard, s.Secret = true, standardSecret })
	log := w.run("run")
	_, err := log.Append(t.Context(), eventlog.AnySequence, draft(eventlog.RunCompleted, 1))
	require.NoError(t, err)
	before := w.sink.wait(2)
	w.clock.AwaitPending(1)
	w.Close()
	require.Len(t, w.rows("webhook-deliveries"), 2)
	require.NoError(t, w.store.Update(t.Context(), "webhook-deliveries", "tenant-a/gone............/x/1", func([]byte) ([]byte, error) { return []byte(`{}`), nil }))
	w.sink.set(func(context.Context, engine.Effect, int) (*engine.Outcome, error) {
		return &engine.Outcome{Status: 200}, nil
	})
	w.start()
	w.sink.wait(3)
	w.clock.AwaitPending(1)
	assert.Equal(t, 3, w.sink.count(), "a retry that is not due waits for its time, after a restart too")
	w.clock.Advance(time.Second)
	sent := w.sink.wait(4)
	w.settle()
	ids := map[string]map[string]bool{}
	for _, e := range sent {
		key := get(e, "OpenWOP-Event-Type")
		if ids[key] == nil {
			ids[key] = map[string]bool{}
		}
		ids[key][get(e, "webhook-id")] = true
	}
	assert.Len(t, ids[eventlog.RunStarted], 1, "the id of a message survives")
	assert.Len(t, ids[eventlog.RunCompleted], 1)
	assert.NotEqual(t, ids[eventlog.RunStarted], ids[eventlog.RunCompleted])
	assert.Equal(t, 1, before[0].Attempt)
	assert.Equal(t, 2, sent[3].Attempt, "attempts are counted across a restart")
	assert.True(t, w.Has(s.ID))
}

func TestASlowReceiverDelaysNobodyAndIsBounded(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var underway, most atomic.Int64
	w := newWorld(t, newSink(func(ctx context.Context, e engine.Effect, _ int) (*engine.Outcome, error) {
		if strings.Contains(e.URL, "slow") {
			for now := underway.Add(1); ; {
				if peak := most.Load(); now <= peak || most.CompareAndSwap(peak, now) {
					break
				}
			}
			select {
			case <-release:
			case <-ctx.Done():
			}
			underway.Add(-1)
		}
		return &engine.Outcome{Status: 200}, nil
	}), func(c *webhook.Config) {
		c.Limits = webhook.Limits{Attempts: 32, PerTenant: 32, PerSubscription: 4, Window: 16}
	})
	for n := range 7 {
		w.subscribe(fmt.Sprintf("slow-%d", n))
	}
	for n := range 30 {
		w.run(fmt.Sprintf("before-%d", n))
	}
	w.sink.wait(28)
	w.subscribe("quick")
	for n := range 100 {
		w.run(fmt.Sprintf("run-%d", n))
	}
	quick := func(sent []engine.Effect) (n int) {
		for _, e := range sent {
			if strings.HasSuffix(e.URL, "quick") {
				n++
			}
		}
		return n
	}
	require.Eventually(t, func() bool { return quick(w.sink.wait(0)) == 100 }, 10*time.Second, time.Millisecond)
	assert.EqualValues(t, 28, most.Load(), "seven slow receivers have four attempts each, and no more")

	// Another tenant has its own reserve even when the first one fills what there is.
	w.subscribe("slow-7")
	w.run("more")
	w.subscribe("other", func(s *webhook.Subscription) { s.ID, s.Tenant = id("tenant-b", "other"), "tenant-b" })
	w.run("other", func(r *eventlog.Run) { r.ID, r.Owner.Tenant = id("tenant-b", "run"), "tenant-b" })
	require.Eventually(t, func() bool {
		for _, e := range w.sink.wait(0) {
			if e.Tenant == "tenant-b" {
				return true
			}
		}
		return false
	}, 10*time.Second, time.Millisecond)

	close(release)
	w.settle()
	seen := map[string]int{}
	for _, e := range w.sink.wait(7*131 + 101 + 1 + 1) {
		seen[e.URL+e.RunID]++
	}
	assert.Len(t, seen, 7*131+101+1+1, "what did not fit into memory was fetched from the table")
	for key, n := range seen {
		assert.Equal(t, 1, n, key)
	}
}

func TestConfigurationsThatCannotDeliver(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*webhook.Config){
		func(c *webhook.Config) { c.Retry.MaxAttempts = 0 },
		func(c *webhook.Config) { c.Limits.PerTenant = 8 },
		func(c *webhook.Config) { c.Limits.Attempts = 9 },
		func(c *webhook.Config) { c.Limits.PerSubscription = 0 },
		func(c *webhook.Config) { c.Limits.Window = 1 },
		func(c *webhook.Config) { c.AttemptTimeout = 0 },
	} {
		w := newWorld(t, status(200))
		config := w.config
		change(&config)
		_, err := webhook.New(config)
		require.ErrorContains(t, err, "no room")
	}
}

func TestAStoreThatCannotBeReadStartsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, status(200))
	require.NoError(t, w.store.Update(t.Context(), "webhooks", "tenant-a/x", func([]byte) ([]byte, error) { return []byte("{"), nil }))
	_, err := webhook.New(w.config)
	require.ErrorContains(t, err, "the subscription tenant-a/x cannot be read")
}
