package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"wopcert/reference-host/internal/compensation"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/workflow"
)

// finish ends the run with what its nodes came to. When a failure ends it early, the nodes still in flight are
// recorded as cancelled and then cut.
func (d *driver) finish() error {
	duration := d.engine.since(d.run.CreatedAt)
	failure := d.x.failure
	if failure == nil {
		d.add(-1, d.lastID(), eventlog.RunCompleted, completedPayload{Outputs: d.x.results(), DurationMs: duration})
		return d.flush()
	}
	for i := range d.x.nodes {
		if state := d.x.nodes[i].state; state == running || state == suspendedNode {
			d.x.nodes[i].state = cut
			d.add(i, d.x.nodes[i].started, eventlog.NodeCancelled, nodeEndedPayload{NodeID: d.def.Nodes[i].ID, Reason: "another node failed"})
		}
	}
	last := d.lastID()
	if err := d.flush(); err != nil { // the log has everything the plan is made of
		return err
	}
	failure.DurationMs = duration
	cause := d.add(-1, last, eventlog.RunFailed, failure)
	if i, known := d.def.NodeIndex(failure.FailedNodeID); known && d.engine.deadLetters && d.def.Nodes[i].Retry.MaxAttempts > 0 {
		d.add(-1, cause, eventlog.RunDeadLettered, deadLetteredPayload{
			RunID: d.run.ID, NodeID: failure.FailedNodeID, Reason: failure.Error.Code, Attempts: d.x.nodes[i].attempts,
		})
	}
	plan, err := d.askForUnwind(cause)
	if err != nil {
		return err
	}
	if err := d.flush(); err != nil {
		d.engine.discard(d.ctx, plan)
		return err
	}
	d.engine.unwind(d.log, plan)
	d.engine.endChildren(context.WithoutCancel(d.ctx), d.log, eventlog.RunFailed, "")
	return nil
}

// askForUnwind queues what a failure says about undoing: the request, when something is to be undone, or what the source
// of a replay did about it.
func (d *driver) askForUnwind(cause string) (*compensation.Plan, error) {
	if d.replays() {
		tail, err := d.recordedTail(eventlog.RunFailed)
		d.pending = append(d.pending, tail...)
		return nil, err
	}
	events, err := d.log.Read(-1)
	if err != nil {
		return nil, err
	}
	plan, err := d.engine.plan(d.ctx, &d.run, events, workflow.OnNodeFailure)
	if plan != nil {
		d.pending = append(d.pending, d.engine.unwindRequested(plan, cause))
	}
	return plan, err
}

// breach is a limit that a run has reached.
type breach struct {
	payload    breachPayload
	code       string
	message    string
	nodeReason string
}

// exceeds reports the limit that starting the node would exceed (runs.md §run section).
func (d *driver) exceeds(i int) *breach {
	loop := d.def.Loop
	if loop != nil && i == loop.Supervisor && !d.x.deciding && d.x.turns >= d.run.MaxLoopIterations {
		limit := int64(d.run.MaxLoopIterations)
		return &breach{
			payload: breachPayload{Kind: "loop-iterations", Limit: limit, Observed: limit + 1, NodeID: d.def.Nodes[i].ID},
			code:    "loop_limit_exceeded", message: fmt.Sprintf("The orchestrator may take %d turns and wanted another.", limit),
			nodeReason: "the run reached its loop limit",
		}
	}
	if d.x.nodes[i].attempts == 0 && d.x.executions >= d.run.MaxNodeExecutions {
		limit := int64(d.run.MaxNodeExecutions)
		return &breach{
			payload: breachPayload{Kind: "node-executions", Limit: limit, Observed: limit + 1},
			code:    "recursion_limit_exceeded", message: fmt.Sprintf("The run may execute %d nodes and wanted another.", limit),
			nodeReason: "the run reached its recursion limit",
		}
	}
	return nil
}

// expire ends a run that has used up its time (runs.md §run section). A paused run stays paused: only a resume or a
// cancel takes it out of that.
func (d *driver) expire(limit time.Duration) {
	ms := limit.Milliseconds()
	err := d.fail(&breach{
		payload: breachPayload{Kind: "run-duration", Limit: ms, Observed: max(d.engine.since(d.run.CreatedAt), ms)},
		code:    "run_timeout", message: fmt.Sprintf("The run did not end within %d ms.", ms), nodeReason: "the run timed out",
	})
	if err != nil && !errors.Is(err, eventlog.ErrEnded) && !errors.Is(err, errPaused) {
		d.lost(err)
	}
}

// fail ends the run for a limit. It needs no lock: the log decides, and takes nothing behind its terminal event.
func (d *driver) fail(b *breach) error {
	e := d.engine
	lead := e.draft("", "", eventlog.CapBreached, b.payload)
	return e.end(context.WithoutCancel(d.ctx), d.log, &ending{
		nodeReason: b.nodeReason, lead: []eventlog.Draft{lead}, notPaused: true, trigger: workflow.OnCapBreach,
		terminal: func() eventlog.Draft {
			return e.draft("", lead.EventID, eventlog.RunFailed, failedPayload{
				Error: ErrorPayload{Code: b.code, Message: b.message}, DurationMs: e.since(d.run.CreatedAt),
			})
		},
	})
}

// ending is a terminal event that does not come from the run's own nodes, and what leads up to it.
type ending struct {
	nodeReason string
	lead       []eventlog.Draft
	terminal   func() eventlog.Draft
	// by is who asked for it, "" for nobody.
	by string
	// notPaused leaves a paused run alone.
	notPaused bool
	// trigger is what the ending means to a compensation policy.
	trigger string
}

// Cancel ends a run as cancelled, and its children after it. The log decides between it and whatever else wants to end
// the run: exactly one terminal event is appended, and eventlog.ErrEnded says that it was not this one.
func (e *Engine) Cancel(ctx context.Context, log eventlog.Log, reason, by string) error {
	return e.cancel(ctx, log, cancelledPayload{Reason: reason, CancelledBy: by})
}

func (e *Engine) cancel(ctx context.Context, log eventlog.Log, payload cancelledPayload) error {
	run := log.Run()
	return e.end(ctx, log, &ending{nodeReason: "run cancelled", by: payload.CancelledBy, trigger: workflow.OnRunCancel, terminal: func() eventlog.Draft {
		payload.DurationMs = e.since(run.CreatedAt)
		return e.draft("", "", eventlog.RunCancelled, payload)
	}})
}

// end appends the ending, with a node.cancelled for each node in flight before it, cuts the driver, and ends the
// children.
func (e *Engine) end(ctx context.Context, log eventlog.Log, ending *ending) error {
	run := log.Run()
	for {
		events, err := log.Read(-1)
		if err != nil {
			return err
		}
		if ending.notPaused {
			if standing := eventlog.StandingOf(run, events); standing.Status() == eventlog.StatusPaused {
				return errPaused
			}
		}
		drafts := append([]eventlog.Draft(nil), ending.lead...)
		for _, started := range inFlight(events) {
			drafts = append(drafts, e.draft(started.NodeID, started.EventID, eventlog.NodeCancelled,
				nodeEndedPayload{NodeID: started.NodeID, Reason: ending.nodeReason}))
		}
		terminal := ending.terminal()
		drafts = append(drafts, terminal)
		plan, err := e.plan(ctx, &run, events, ending.trigger)
		if err != nil {
			return err
		}
		if plan != nil {
			drafts = append(drafts, e.unwindRequested(plan, terminal.EventID))
		}
		if _, err = log.Append(ctx, int64(len(events))-1, drafts...); err != nil {
			e.discard(ctx, plan)
		}
		if errors.Is(err, eventlog.ErrConflict) {
			continue // a node ended meanwhile: look again
		}
		if err != nil {
			return err
		}
		e.unwind(log, plan)
		if d, ok := e.drivers.Load(run.ID); ok {
			d.(*driver).cancel()
		}
		e.endChildren(ctx, log, terminal.Type, ending.by)
		return nil
	}
}

// inFlight are the node.started events of attempts that nothing has ended. A pause that cut an attempt has ended it
// without an event of its own (runs.md §Pause and resume); one that waits for an interrupt is not cut by it.
func inFlight(events []eventlog.Event) []eventlog.Event {
	var open []eventlog.Event
	waiting := make(map[string]bool)
	for _, event := range events {
		switch event.Type {
		case eventlog.NodeStarted:
			// An attempt that is made anew leaves none behind: the host died in the one before it.
			open = append(slices.DeleteFunc(open, func(other eventlog.Event) bool { return other.NodeID == event.NodeID }), event)
			delete(waiting, event.NodeID)
		case eventlog.NodeSuspended:
			waiting[event.NodeID] = true
		case eventlog.RunPaused:
			open = slices.DeleteFunc(open, func(e eventlog.Event) bool { return !waiting[e.NodeID] })
		case eventlog.NodeCompleted, eventlog.NodeFailed, eventlog.NodeSkipped, eventlog.NodeCancelled, eventlog.NodeRetried:
			for i := range open {
				if open[i].NodeID == event.NodeID {
					open = append(open[:i:i], open[i+1:]...)
					break
				}
			}
		}
	}
	return open
}
