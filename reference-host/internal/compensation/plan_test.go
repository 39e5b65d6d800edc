package compensation_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/reference-host/internal/compensation"
	"wopcert/reference-host/internal/eventlog"
)

func event(typ, payload string) eventlog.Event {
	return eventlog.Event{Draft: eventlog.Draft{Type: typ, Payload: json.RawMessage(payload)}}
}

// TestStatus: compensationStatus for what a log says over what became of the
// entries of its plan.
func TestStatus(t *testing.T) {
	t.Parallel()
	asked := event(eventlog.CompensationRequested, `{"compensationId":"plan-1"}`)
	started, completed, manual := event(eventlog.CompensationStarted, `{}`), event(eventlog.CompensationCompleted, `{}`), event(eventlog.CompensationManual, `{}`)
	plan := func(closed bool, states ...string) *compensation.Plan {
		p := &compensation.Plan{ID: "plan-1", Closed: closed}
		for _, state := range states {
			p.Entries = append(p.Entries, compensation.Entry{State: state})
		}
		return p
	}
	open, undone, given := plan(false, "", ""), compensation.Undone, compensation.Exhausted
	for name, c := range map[string]struct {
		events []eventlog.Event
		plan   *compensation.Plan
		want   string
	}{
		"nothing was asked for":              {nil, nil, "none"},
		"a plan nobody has asked for":        {[]eventlog.Event{started}, open, "none"},
		"a request whose plan is not there":  {[]eventlog.Event{asked}, nil, "none"},
		"asked for":                          {[]eventlog.Event{asked}, open, "pending"},
		"under way":                          {[]eventlog.Event{asked, started}, plan(false, undone, ""), "running"},
		"everything undone":                  {[]eventlog.Event{asked, started, completed}, plan(true, undone, undone), "completed"},
		"one undone and one given up":        {[]eventlog.Event{asked, started}, plan(true, undone, given), "partial"},
		"one undone and one not to be":       {[]eventlog.Event{asked, started}, plan(true, undone, compensation.Irreversible), "partial"},
		"nothing undone":                     {[]eventlog.Event{asked, started}, plan(true, given, given), "failed"},
		"closed before anything was started": {[]eventlog.Event{asked}, plan(true, "", ""), "failed"},
		"left to an operator":                {[]eventlog.Event{asked, started, manual}, plan(true, undone, given), "manual"},
		"a request that cannot be read":      {[]eventlog.Event{event(eventlog.CompensationRequested, `[]`)}, open, "none"},
	} {
		seen := compensation.SeenIn(c.events)
		assert.Equal(t, c.want, seen.Status(c.plan), name)
	}
	assert.True(t, plan(true, undone, undone).AllUndone())
	assert.False(t, plan(true, undone, given).AllUndone())
	assert.True(t, plan(true).AllUndone(), "nothing was to be undone")
}

// TestPlans: plans outlast who made them, change in one step, and are listed while
// somebody has to go on with them.
func TestPlans(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	plans := &compensation.Plans{Tables: eventlog.NewMemory(func(string) bool { return false })}
	first := &compensation.Plan{ID: "plan-1", RunID: "t/run-1", Ordering: "reverse-completion", Policy: json.RawMessage(`{"profileVersion":"1"}`),
		Entries: []compensation.Entry{{NodeID: "charge", Execution: 1, Identity: "i", MaxAttempts: 3, Inputs: map[string]json.RawMessage{"url": json.RawMessage(`"u"`)}}}}
	require.NoError(t, plans.Save(ctx, first))
	require.NoError(t, plans.Save(ctx, &compensation.Plan{ID: "plan-1", RunID: "t/run-2", Hold: compensation.HoldManual}))
	require.NoError(t, plans.Save(ctx, &compensation.Plan{ID: "plan-1", RunID: "t/run-3", Closed: true}))
	got, err := plans.Get(ctx, "t/run-1", "plan-1")
	require.NoError(t, err)
	assert.Equal(t, first, got)
	open, err := plans.Open(ctx)
	require.NoError(t, err)
	require.Len(t, open, 1)
	assert.Equal(t, "t/run-1", open[0].RunID)

	var done sync.WaitGroup
	for range 20 {
		done.Go(func() {
			_, err := plans.Change(ctx, "t/run-1", "plan-1", func(p *compensation.Plan) {
				p.Entries[0].Attempts = append(p.Entries[0].Attempts, compensation.Attempt{Number: len(p.Entries[0].Attempts) + 1, Outcome: compensation.Failed})
			})
			assert.NoError(t, err)
		})
	}
	done.Wait()
	got, err = plans.Get(ctx, "t/run-1", "plan-1")
	require.NoError(t, err)
	require.Len(t, got.Entries[0].Attempts, 20)
	assert.Equal(t, 20, got.Entries[0].Attempts[19].Number)

	_, err = plans.Change(ctx, "t/run-1", "plan-2", func(*compensation.Plan) { t.Error("there is nothing to change") })
	assert.ErrorIs(t, err, eventlog.ErrNotFound)
	require.NoError(t, plans.Drop(ctx, first))
	_, err = plans.Get(ctx, "t/run-1", "plan-1")
	assert.ErrorIs(t, err, eventlog.ErrNotFound)
}

// TestOf: the plan a log names, and what is said where it is gone.
func TestOf(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	memory := eventlog.NewMemory(func(string) bool { return false })
	plans := &compensation.Plans{Tables: memory}
	none := compensation.Seen{}
	plan, err := plans.Of(ctx, "t/run-1", &none)
	require.NoError(t, err)
	assert.Nil(t, plan)
	seen := compensation.Seen{PlanID: "plan-1"}
	_, err = plans.Of(ctx, "t/run-1", &seen)
	assert.ErrorContains(t, err, "the compensation plan that its log names is gone")
	require.NoError(t, plans.Save(ctx, &compensation.Plan{ID: "plan-1", RunID: "t/run-1"}))
	plan, err = plans.Of(ctx, "t/run-1", &seen)
	require.NoError(t, err)
	assert.Equal(t, "plan-1", plan.ID)
	require.NoError(t, memory.Update(ctx, "compensation-plans", "t/run-1\x00plan-1", func([]byte) ([]byte, error) { return []byte(`{"id":`), nil }))
	_, err = plans.Of(ctx, "t/run-1", &seen)
	assert.ErrorContains(t, err, "cannot be read")
	_, err = plans.Open(ctx)
	assert.False(t, err == nil || errors.Is(err, eventlog.ErrNotFound), "a plan that cannot be read is not passed over")
}
