package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"wopcert/reference-host/internal/clock"
	"wopcert/reference-host/internal/compensation"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/workflow"
)

func compensates(eventType string) bool { return strings.HasPrefix(eventType, "compensation.") }

// ResumeUnwinds goes on with the plans an earlier process has left. A plan whose log does not ask for it is dropped.
func (e *Engine) ResumeUnwinds(ctx context.Context) error {
	if e.plans == nil || e.children == nil {
		return nil
	}
	open, err := e.plans.Open(ctx)
	if err != nil {
		return err
	}
	for _, plan := range open {
		log, err := e.children.Open(ctx, plan.RunID)
		if err != nil {
			return fmt.Errorf("the run of a compensation plan: %w", err)
		}
		events, err := log.Read(-1)
		if err != nil {
			return err
		}
		if seen := compensation.SeenIn(events); seen.PlanID != plan.ID {
			e.discard(ctx, plan)
			continue
		}
		e.unwind(log, plan)
	}
	return nil
}

// unwind has a plan carried out. After Close it does nothing: the plan stays for a later host to pick up.
func (e *Engine) unwind(log eventlog.Log, plan *compensation.Plan) {
	if plan == nil {
		return
	}
	e.closing.RLock()
	defer e.closing.RUnlock()
	if e.closed {
		return
	}
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		u := &unwinding{engine: e, log: log, run: log.Run(), plan: plan}
		if err := u.carryOut(); err != nil && e.ctx.Err() == nil {
			e.logger.Error("a compensation cannot go on", "run", plan.RunID, "error", err)
		}
	}()
}

// unwinding carries out one plan, one inverse action after the other. What it has done is on record before it goes on,
// so that whoever takes it over does nothing twice.
type unwinding struct {
	engine *Engine
	log    eventlog.Log
	run    eventlog.Run
	plan   *compensation.Plan
}

// errHeld: the plan rests until somebody decides about it.
var errHeld = errors.New("the compensation rests")

func (u *unwinding) carryOut() error {
	for i := range u.plan.Entries {
		err := u.undo(i)
		if errors.Is(err, errHeld) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	if u.plan.AllUndone() {
		if err := u.note("", eventlog.CompensationCompleted, compensationPayload{}); err != nil {
			return err
		}
	}
	return u.change(func(p *compensation.Plan) { p.Closed = true })
}

// undo takes one inverse action to its end.
func (u *unwinding) undo(i int) error {
	entry := &u.plan.Entries[i]
	for entry.State == "" {
		// Somebody may have put the plan to rest meanwhile.
		if err := u.reload(); err != nil {
			return err
		}
		entry = &u.plan.Entries[i]
		if u.plan.Hold != "" {
			return errHeld
		}
		number := len(entry.Attempts) + 1
		if number > 1 {
			if err := clock.Sleep(u.engine.ctx, u.engine.clock, milliseconds(entry.BackoffMs)); err != nil {
				return err
			}
		}
		if err := u.note("", eventlog.CompensationStarted, u.about(entry, number, "")); err != nil {
			return err
		}
		failed := u.attempt(entry, number)
		if u.engine.ctx.Err() != nil {
			return u.engine.ctx.Err() // the attempt has no outcome; it is made again under its identity
		}
		done := compensation.Attempt{Number: number, Outcome: compensation.Succeeded, At: u.engine.clock.Now()}
		if failed != nil {
			done.Outcome, done.Reason = compensation.Failed, reasonOf(failed)
		}
		err := u.change(func(p *compensation.Plan) {
			e := &p.Entries[i]
			e.Attempts = append(e.Attempts, done)
			switch {
			case failed == nil:
				e.State = compensation.Undone
			case e.Unresolved != "" || number >= e.MaxAttempts:
				e.State = compensation.Exhausted
			}
		})
		if err != nil {
			return err
		}
		entry = &u.plan.Entries[i]
	}
	if entry.State == compensation.Exhausted {
		return u.exhausted(entry)
	}
	return nil
}

// attempt runs the inverse action once. What it sends carries the identity of the action, not of the attempt.
func (u *unwinding) attempt(entry *compensation.Entry, number int) (err error) {
	if entry.Unresolved != "" {
		return errors.New(entry.Unresolved)
	}
	nodeType := u.engine.nodes[entry.TypeID]
	if nodeType.Run == nil {
		return fmt.Errorf("there is no node type %s", entry.TypeID)
	}
	ctx, cancel := context.WithTimeout(u.engine.ctx, time.Duration(u.plan.TimeoutMs)*time.Millisecond)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the node type panicked: %v", r)
		}
	}()
	_, err = nodeType.Run(ctx, &Call{
		Run: &u.run, NodeID: entry.NodeID, Attempt: number, Config: []byte(`{}`), Inputs: Values(entry.Inputs), Clock: u.engine.clock,
		engine: u.engine, inverse: entry.Identity, execution: entry.Execution,
	})
	return err
}

// reasonOf says no more of a failure than its code: what a provider answered goes into no record.
func reasonOf(err error) string {
	var own *NodeError
	if errors.As(err, &own) {
		return own.Code
	}
	return "internal_error"
}

// exhausted records that an inverse action has failed for good, and hands the plan to an operator where the policy says
// so.
func (u *unwinding) exhausted(entry *compensation.Entry) error {
	about := u.about(entry, len(entry.Attempts), reasonExhausted)
	if err := u.note(entry.NodeID, eventlog.CompensationFailed, about); err != nil {
		return err
	}
	if u.engine.deadLetters {
		if err := u.deadLetter(entry); err != nil {
			return err
		}
	}
	if !u.plan.Manual {
		return nil
	}
	if err := u.note("", eventlog.CompensationManual, about); err != nil {
		return err
	}
	if err := u.change(func(p *compensation.Plan) { p.Hold = compensation.HoldManual }); err != nil {
		return err
	}
	return errHeld
}

func (u *unwinding) deadLetter(entry *compensation.Entry) error {
	return u.appendUnless(func(e *eventlog.Event) bool { return e.Type == eventlog.RunDeadLettered },
		u.engine.draft("", "", eventlog.RunDeadLettered, deadLetteredPayload{
			RunID: u.run.ID, NodeID: entry.NodeID, Reason: reasonExhausted, Attempts: len(entry.Attempts),
		}))
}

func (u *unwinding) about(entry *compensation.Entry, attempt int, reason string) compensationPayload {
	return compensationPayload{NodeID: entry.NodeID, EffectID: entry.EffectID, Attempt: attempt, Reason: reason}
}

// note appends an event that the log has once: of the plan, or of a node when nodeID is given.
func (u *unwinding) note(nodeID, eventType string, payload compensationPayload) error {
	payload.CompensationID, payload.OrderingModel = u.plan.ID, u.plan.Ordering
	noted := func(e *eventlog.Event) bool {
		if e.Type != eventType || nodeID == "" {
			return e.Type == eventType
		}
		earlier, err := readPayload[compensationPayload](*e)
		return err == nil && earlier.EffectID == payload.EffectID
	}
	return u.appendUnless(noted, u.engine.draft("", "", eventType, payload))
}

func (u *unwinding) appendUnless(there func(*eventlog.Event) bool, draft eventlog.Draft) error {
	for {
		events, err := u.log.Read(-1)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(events, func(e eventlog.Event) bool { return there(&e) }) {
			return nil
		}
		_, err = u.log.Append(u.engine.ctx, int64(len(events))-1, draft)
		if !errors.Is(err, eventlog.ErrConflict) {
			return err
		}
	}
}

func (u *unwinding) reload() error {
	plan, err := u.engine.plans.Get(u.engine.ctx, u.run.ID, u.plan.ID)
	if err == nil {
		u.plan = plan
	}
	return err
}

func (u *unwinding) change(change func(*compensation.Plan)) error {
	plan, err := u.engine.plans.Change(context.WithoutCancel(u.engine.ctx), u.run.ID, u.plan.ID, change)
	if err == nil {
		u.plan = plan
	}
	return err
}

// parentCancelled is what the cancellation of a parent does to the compensation of a child that has ended before:
// what the policy says, and never that it is given up (runs.md §Cancel).
func (e *Engine) parentCancelled(ctx context.Context, log eventlog.Log) error {
	if e.plans == nil {
		return nil
	}
	events, err := log.Read(-1)
	if err != nil {
		return err
	}
	run, seen := log.Run(), compensation.SeenIn(events)
	plan, err := e.plans.Of(ctx, run.ID, &seen)
	if err != nil || plan == nil || plan.Closed || plan.Hold != "" {
		return err
	}
	eventType, hold := eventlog.CompensationPaused, compensation.HoldPaused
	switch plan.OnParentCancel {
	case workflow.ParentPause:
	case workflow.ParentManual:
		eventType, hold = eventlog.CompensationManual, compensation.HoldManual
	default:
		return nil
	}
	plan, err = e.plans.Change(ctx, run.ID, plan.ID, func(p *compensation.Plan) {
		if !p.Closed && p.Hold == "" {
			p.Hold = hold
		}
	})
	if err != nil || plan.Closed {
		return err
	}
	u := &unwinding{engine: e, log: log, run: run, plan: plan}
	return u.note("", eventType, compensationPayload{})
}
