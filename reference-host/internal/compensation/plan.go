// Package compensation keeps the plans by which the effects of a run are undone: what is to be done in which order, and
// what came of every attempt (security-defaults.md §Compensation).
package compensation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"wopcert/reference-host/internal/eventlog"
)

// table holds a row for each plan, by run id and plan id.
const table = "compensation-plans"

// The outcomes of an attempt (compensation-projection schema).
const (
	Succeeded = "succeeded"
	Failed    = "failed"
)

// How an entry ended. An open one has no state.
const (
	Undone       = "completed"
	Exhausted    = "failed"
	Irreversible = "irreversible"
)

// Why nobody goes on with a plan.
const (
	HoldPaused = "paused"
	HoldManual = "manual"
)

// The words of compensationStatus (run-snapshot schema).
const (
	StatusNone      = "none"
	StatusPending   = "pending"
	StatusRunning   = "running"
	StatusCompleted = "completed"
	StatusPartial   = "partial"
	StatusFailed    = "failed"
	StatusManual    = "manual"
)

// Plan is on record before the first inverse action is taken, and is what a host that was restarted goes on from: never
// the workflow's definition, which may be another by then.
type Plan struct {
	ID       string `json:"id"`
	RunID    string `json:"runId"`
	Ordering string `json:"ordering"`
	Profile  string `json:"profile"`
	// Policy is the workflow's policy as the definition had it.
	Policy         json.RawMessage `json:"policy"`
	Manual         bool            `json:"manual"`
	OnParentCancel string          `json:"onParentCancel"`
	TimeoutMs      int64           `json:"timeoutMs"`
	// Entries stand in the order of execution.
	Entries []Entry `json:"entries"`
	// Hold says why the plan rests, "" while it does not. Closed says that nothing more will be done.
	Hold   string `json:"hold,omitempty"`
	Closed bool   `json:"closed,omitempty"`
}

// Entry is the inverse action for one committed effect, or the note that there is none.
type Entry struct {
	NodeID    string `json:"nodeId"`
	Execution int    `json:"execution"`
	// Identity is the identity of the action, whatever attempt it is, and EffectID what the ledger calls it.
	Identity string `json:"identity,omitempty"`
	EffectID string `json:"effectId,omitempty"`
	TypeID   string `json:"typeId,omitempty"`
	// Inputs were made of recorded facts when the plan was; Unresolved says why they could not be.
	Inputs      map[string]json.RawMessage `json:"inputs,omitempty"`
	Unresolved  string                     `json:"unresolved,omitempty"`
	MaxAttempts int                        `json:"maxAttempts,omitempty"`
	BackoffMs   int64                      `json:"backoffMs,omitempty"`
	State       string                     `json:"state,omitempty"`
	Attempts    []Attempt                  `json:"attempts,omitempty"`
}

// Attempt is one attempt at an inverse action.
type Attempt struct {
	Number  int       `json:"number"`
	Outcome string    `json:"outcome"`
	At      time.Time `json:"at"`
	Reason  string    `json:"reason,omitempty"`
}

// Seen is what the log of a run says of its plan.
type Seen struct {
	// PlanID is what compensation.requested named, "" when it is not there.
	PlanID                     string
	Started, Completed, Manual bool
}

// Apply folds one event.
func (s *Seen) Apply(event *eventlog.Event) {
	switch event.Type {
	case eventlog.CompensationRequested:
		var payload struct {
			CompensationID string `json:"compensationId"`
		}
		if json.Unmarshal(event.Payload, &payload) == nil {
			s.PlanID = payload.CompensationID
		}
	case eventlog.CompensationStarted:
		s.Started = true
	case eventlog.CompensationCompleted:
		s.Completed = true
	case eventlog.CompensationManual:
		s.Manual = true
	}
}

// SeenIn folds a log.
func SeenIn(events []eventlog.Event) (s Seen) {
	for i := range events {
		s.Apply(&events[i])
	}
	return s
}

// Status is compensationStatus: the fold of the events over the plan. plan is nil when none was asked for.
func (s *Seen) Status(plan *Plan) string {
	switch {
	case s.PlanID == "" || plan == nil:
		return StatusNone
	case s.Manual:
		return StatusManual
	case s.Completed:
		return StatusCompleted
	case plan.Closed && plan.undone() > 0:
		return StatusPartial
	case plan.Closed:
		return StatusFailed
	case s.Started:
		return StatusRunning
	}
	return StatusPending
}

func (p *Plan) undone() (n int) {
	for i := range p.Entries {
		if p.Entries[i].State == Undone {
			n++
		}
	}
	return n
}

// AllUndone reports whether every effect of the plan was undone.
func (p *Plan) AllUndone() bool { return p.undone() == len(p.Entries) }

// Plans keeps plans in the tables of a store.
type Plans struct{ Tables eventlog.Tables }

func key(runID, planID string) string { return runID + "\x00" + planID }

// Save records a plan that is new.
func (p *Plans) Save(ctx context.Context, plan *Plan) error {
	return p.Tables.Update(ctx, table, key(plan.RunID, plan.ID), func([]byte) ([]byte, error) { return json.Marshal(plan) })
}

// Drop forgets a plan that nothing has asked for.
func (p *Plans) Drop(ctx context.Context, plan *Plan) error {
	return p.Tables.Update(ctx, table, key(plan.RunID, plan.ID), func([]byte) ([]byte, error) { return nil, nil })
}

// Get returns a plan, or eventlog.ErrNotFound.
func (p *Plans) Get(ctx context.Context, runID, planID string) (*Plan, error) {
	raw, err := p.Tables.Get(ctx, table, key(runID, planID))
	if err != nil {
		return nil, err
	}
	return decode(raw)
}

// Change changes a plan in one step and returns it as it is then.
func (p *Plans) Change(ctx context.Context, runID, planID string, change func(*Plan)) (changed *Plan, err error) {
	err = p.Tables.Update(ctx, table, key(runID, planID), func(raw []byte) ([]byte, error) {
		if raw == nil {
			return nil, eventlog.ErrNotFound
		}
		if changed, err = decode(raw); err != nil {
			return nil, err
		}
		change(changed)
		return json.Marshal(changed)
	})
	return changed, err
}

// Open lists the plans that somebody has to go on with.
func (p *Plans) Open(ctx context.Context) (open []*Plan, err error) {
	err = p.Tables.Scan(ctx, table, "", func(_ string, raw []byte) error {
		plan, err := decode(raw)
		if err == nil && !plan.Closed && plan.Hold == "" {
			open = append(open, plan)
		}
		return err
	})
	return open, err
}

// Of returns the plan the log of a run has asked for, nil when it has asked for none.
func (p *Plans) Of(ctx context.Context, runID string, seen *Seen) (*Plan, error) {
	if seen.PlanID == "" {
		return nil, nil
	}
	plan, err := p.Get(ctx, runID, seen.PlanID)
	if errors.Is(err, eventlog.ErrNotFound) {
		return nil, fmt.Errorf("run %s: the compensation plan that its log names is gone", runID)
	}
	return plan, err
}

func decode(raw []byte) (*Plan, error) {
	plan := new(Plan)
	if err := json.Unmarshal(raw, plan); err != nil {
		return nil, fmt.Errorf("a compensation plan cannot be read: %w", err)
	}
	return plan, nil
}
