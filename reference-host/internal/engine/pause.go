package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/workflow"
)

// The words of drainPolicy (runs.md §Pause and resume).
const (
	DrainCurrentNode = "drain-current-node"
	DrainImmediate   = "immediate"
)

// StateError is the refusal of what a run's status does not permit.
type StateError struct{ Status string }

func (e *StateError) Error() string { return fmt.Sprintf("the run is %s", e.Status) }

// ErrFull: as many runs execute as the engine takes.
var ErrFull = errors.New("too many active runs")

// drain is a pause that waits for the nodes that execute.
type drain struct{ payload pausedPayload }

// Pause pauses a run. With DrainImmediate the attempts in flight are cut and leave no event of their own; the run is
// paused when Pause returns, at the time it returns. With DrainCurrentNode nothing new is started, and the run is
// paused when the nodes that execute have ended; the time is zero unless that is so already. It fails with a
// *StateError, or with eventlog.ErrEnded.
func (e *Engine) Pause(ctx context.Context, log eventlog.Log, policy, reason string) (time.Time, error) {
	run := log.Run()
	payload := pausedPayload{Reason: reason, DrainPolicy: policy}
	if held, ok := e.drivers.Load(run.ID); ok {
		d := held.(*driver)
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.stopped == nil {
			return d.requestPause(ctx, payload)
		}
	}
	return e.pauseLog(ctx, log, payload) // nothing drives it, so nothing has to be drained
}

func (d *driver) requestPause(ctx context.Context, payload pausedPayload) (time.Time, error) {
	if d.drain != nil {
		return time.Time{}, &StateError{eventlog.StatusRunning} // one pause is under way
	}
	if payload.DrainPolicy == DrainImmediate {
		at, err := d.engine.pauseLog(ctx, d.log, payload)
		if err == nil {
			d.stopped = errPaused
			d.cancel()
		}
		return at, err
	}
	if _, err := pausable(d.log); err != nil {
		return time.Time{}, err
	}
	d.drain = &drain{payload}
	return time.Time{}, nil
}

// pause records that the nodes have been drained.
func (d *driver) pause() error {
	d.add(-1, d.lastID(), eventlog.RunPaused, d.drain.payload)
	err := d.flush()
	d.stopped = errPaused
	return errors.Join(err, d.stopped)
}

// pausable reads a log whose run can be paused.
func pausable(log eventlog.Log) ([]eventlog.Event, error) {
	events, err := log.Read(-1)
	if err != nil {
		return nil, err
	}
	standing := eventlog.StandingOf(log.Run(), events)
	switch {
	case standing.Ended():
		return nil, eventlog.ErrEnded
	case standing.Status() != eventlog.StatusRunning:
		return nil, &StateError{standing.Status()}
	}
	return events, nil
}

func (e *Engine) pauseLog(ctx context.Context, log eventlog.Log, payload pausedPayload) (time.Time, error) {
	for {
		events, err := pausable(log)
		if err != nil {
			return time.Time{}, err
		}
		payload.InterruptedNodeID, payload.InterruptedAttempt = "", 0
		if open := inFlight(events); len(open) > 0 {
			started, err := readPayload[nodeStartedPayload](open[0])
			if err != nil {
				return time.Time{}, err
			}
			payload.InterruptedNodeID, payload.InterruptedAttempt = started.NodeID, started.Attempt
		}
		appended, err := log.Append(ctx, int64(len(events))-1, e.draft("", "", eventlog.RunPaused, payload))
		if errors.Is(err, eventlog.ErrConflict) {
			continue
		}
		if err != nil {
			return time.Time{}, err
		}
		return appended[0].Timestamp, nil
	}
}

// Resume takes a paused run on: attempts that were cut are made anew. It fails with a *StateError, with
// eventlog.ErrEnded, or with ErrFull.
func (e *Engine) Resume(ctx context.Context, log eventlog.Log, def *workflow.Definition, reason string) (time.Time, error) {
	if !e.Reserve() {
		return time.Time{}, ErrFull
	}
	at, err := e.resumeLog(ctx, log, resumedPayload{Reason: reason})
	if err != nil {
		e.Release()
		return at, err
	}
	e.Start(log, def)
	return at, nil
}

func (e *Engine) resumeLog(ctx context.Context, log eventlog.Log, payload resumedPayload) (time.Time, error) {
	for {
		events, err := log.Read(-1)
		if err != nil {
			return time.Time{}, err
		}
		standing := eventlog.StandingOf(log.Run(), events)
		switch {
		case standing.Ended():
			return time.Time{}, eventlog.ErrEnded
		case standing.Status() != eventlog.StatusPaused:
			return time.Time{}, &StateError{standing.Status()}
		}
		appended, err := log.Append(ctx, int64(len(events))-1, e.draft("", "", eventlog.RunResumed, payload))
		if errors.Is(err, eventlog.ErrConflict) {
			continue
		}
		if err != nil {
			return time.Time{}, err
		}
		return appended[0].Timestamp, nil
	}
}
