package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/workflow"
)

// driver takes one run from where its log stands to its end. It is the only goroutine that schedules the run; nodes
// that run side by side have goroutines of their own and report to it.
type driver struct {
	engine *Engine
	log    eventlog.Log
	run    eventlog.Run
	def    *workflow.Definition
	ctx    context.Context
	cancel context.CancelFunc

	mu sync.Mutex // guards x.variables against nodes that run side by side
	x  *execution

	started []string // event id of the last start of each node
	pending []eventlog.Draft
}

// result is the end of one attempt.
type result struct {
	node    int
	outputs Values
	err     error
	began   time.Time
}

func (d *driver) drive() {
	defer d.engine.running.Done()
	defer d.engine.Release()
	defer d.engine.drivers.Delete(d.run.ID)
	defer d.cancel()
	if err := d.restore(); err != nil {
		if !errors.Is(err, eventlog.ErrEnded) { // cancelled before it was driven
			d.lost(err)
		}
		return
	}
	limit := d.run.Deadline.Sub(d.run.CreatedAt)
	stop := d.engine.clock.AfterFunc(d.run.Deadline.Sub(d.engine.clock.Now()), func() { d.expire(limit) })
	defer stop()
	if err := d.loop(); err != nil && !errors.Is(err, eventlog.ErrEnded) && d.ctx.Err() == nil {
		d.lost(err)
	}
}

// restore rebuilds the execution from the log.
func (d *driver) restore() error {
	d.x = newExecution(d.def, d.run)
	d.started = make([]string, len(d.def.Nodes))
	events, err := d.log.Read(-1)
	if err != nil {
		return err
	}
	for _, event := range events {
		if eventlog.Terminal(event.Type) {
			return eventlog.ErrEnded
		}
		if err := d.x.apply(event); err != nil {
			return err
		}
	}
	d.x.interrupted()
	return nil
}

// loop schedules until the run has ended.
func (d *driver) loop() error {
	results := make(chan result, len(d.def.Nodes))
	flying := 0
	for {
		ready, breached := d.schedule()
		switch {
		case breached:
			return errors.Join(d.breach(), d.drain(results, flying))
		case d.x.failure != nil || flying == 0 && len(ready) == 0:
			return errors.Join(d.finish(), d.drain(results, flying))
		}
		if err := d.flush(); err != nil {
			return errors.Join(err, d.drain(results, flying))
		}
		var done result
		if flying == 0 && len(ready) == 1 {
			done = d.attempt(ready[0]) // one node at a time needs no goroutine
		} else {
			for _, call := range ready {
				flying++
				go func() { results <- d.attempt(call) }()
			}
			select {
			case done = <-results:
				flying--
			case <-d.ctx.Done():
			}
		}
		if err := d.ctx.Err(); err != nil {
			return errors.Join(err, d.drain(results, flying))
		}
		d.settle(done)
	}
}

// drain cuts the nodes that still run and waits for them.
func (d *driver) drain(results <-chan result, flying int) error {
	for d.cancel(); flying > 0; flying-- {
		<-results
	}
	return nil
}

// schedule starts and skips what can be, in document order, and returns the attempts to make. breached says that the
// run wants a node execution it no longer has.
func (d *driver) schedule() (ready []*scheduled, breached bool) {
	if d.x.failure != nil {
		return nil, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for again := true; again; {
		again = false
		for i := range d.def.Nodes {
			switch d.x.decide(i) {
			case skip:
				d.x.states[i] = skipped
				d.add(i, "", eventlog.NodeSkipped, nodeEndedPayload{NodeID: d.def.Nodes[i].ID, Reason: d.skipReason(i)})
				again = true // what comes after a skipped node may be decided now
			case run:
				if d.x.executions >= d.run.MaxNodeExecutions {
					return nil, true
				}
				ready = append(ready, d.start(i))
			}
		}
	}
	return ready, false
}

func (d *driver) skipReason(i int) string {
	if d.def.Nodes[i].Disabled {
		return "disabled"
	}
	return "not triggered"
}

// scheduled is an attempt about to be made.
type scheduled struct {
	node    int
	call    Call
	refused *NodeError
}

func (d *driver) start(i int) *scheduled {
	node := &d.def.Nodes[i]
	inputs, refused := d.x.resolve(i)
	s := &scheduled{node: i, refused: refused, call: Call{
		Run: &d.run, NodeID: node.ID, Attempt: d.x.attempts[i], Config: node.Config, Inputs: inputs, Clock: d.engine.clock, driver: d,
	}}
	d.x.start(i)
	d.started[i] = d.add(i, "", eventlog.NodeStarted, nodeStartedPayload{NodeID: node.ID, TypeID: node.TypeID, Attempt: s.call.Attempt})
	return s
}

// attempt runs one node. A panic in a node type fails the node, not the host.
func (d *driver) attempt(s *scheduled) (done result) {
	done = result{node: s.node, began: d.engine.clock.Now()}
	if s.refused != nil {
		done.err = s.refused
		return done
	}
	nodeType := d.engine.nodes[d.def.Nodes[s.node].TypeID]
	for _, capability := range nodeType.Requires {
		if !d.engine.capabilities[capability] {
			done.err = &NodeError{
				Code:    "capability_not_provided",
				Message: fmt.Sprintf("The node needs the capability %s, which this host does not provide.", capability),
				Details: map[string]any{"capability": capability},
			}
			return done
		}
	}
	defer func() {
		if r := recover(); r != nil {
			d.engine.logger.Error("a node type panicked", "type", nodeType.ID, "panic", r, "stack", string(debug.Stack()))
			done.err = errors.New("the node type panicked")
		}
	}()
	done.outputs, done.err = nodeType.Run(d.ctx, &s.call)
	return done
}

// settle records how an attempt ended.
func (d *driver) settle(done result) {
	node := &d.def.Nodes[done.node]
	if done.err == nil {
		d.x.complete(done.node, done.outputs)
		d.add(done.node, d.started[done.node], eventlog.NodeCompleted, nodeCompletedPayload{
			NodeID: node.ID, Outputs: done.outputs, DurationMs: d.engine.since(done.began),
		})
		return
	}
	reason := ErrorPayload{Code: "internal_error", Message: "The node failed for a reason of the host's own."}
	var own *NodeError
	if errors.As(done.err, &own) {
		reason = ErrorPayload{Code: own.Code, Message: own.Message, Details: own.Details}
	} else {
		d.engine.logger.Error("a node failed", "run", d.run.ID, "node", node.ID, "error", done.err)
	}
	d.x.fail(done.node, reason)
	d.add(done.node, d.started[done.node], eventlog.NodeFailed, nodeFailedPayload{
		NodeID: node.ID, Error: reason, Attempts: d.x.attempts[done.node],
	})
}

// finish ends the run with what its nodes came to. When a failure ends it early, the nodes still in flight are
// recorded as cancelled and then cut.
func (d *driver) finish() error {
	duration := d.engine.since(d.run.CreatedAt)
	if failure := d.x.failure; failure != nil {
		for i, state := range d.x.states {
			if state == running {
				d.x.states[i] = cut
				d.add(i, d.started[i], eventlog.NodeCancelled, nodeEndedPayload{NodeID: d.def.Nodes[i].ID, Reason: "another node failed"})
			}
		}
		failure.DurationMs = duration
		d.add(-1, d.lastID(), eventlog.RunFailed, failure)
	} else {
		d.add(-1, d.lastID(), eventlog.RunCompleted, completedPayload{Outputs: d.x.results(), DurationMs: duration})
	}
	return d.flush()
}

// breach ends a run that wants one node execution too many (runs.md §run section).
func (d *driver) breach() error {
	if err := d.flush(); err != nil {
		return err
	}
	limit := int64(d.run.MaxNodeExecutions)
	return d.fail("the run reached its recursion limit", ErrorPayload{
		Code: "recursion_limit_exceeded", Message: fmt.Sprintf("The run may execute %d nodes and wanted another.", limit),
	}, breachPayload{Kind: "node-executions", Limit: limit, Observed: limit + 1})
}

// expire ends a run that has used up its time (runs.md §run section).
func (d *driver) expire(limit time.Duration) {
	err := d.fail("the run timed out", ErrorPayload{
		Code: "run_timeout", Message: fmt.Sprintf("The run did not end within %d ms.", limit.Milliseconds()),
	}, breachPayload{Kind: "run-duration", Limit: limit.Milliseconds(), Observed: max(d.engine.since(d.run.CreatedAt), limit.Milliseconds())})
	if err != nil && !errors.Is(err, eventlog.ErrEnded) {
		d.lost(err)
	}
}

func (d *driver) fail(nodeReason string, reason ErrorPayload, breach breachPayload) error {
	e := d.engine
	lead := e.draft("", "", eventlog.CapBreached, breach)
	return e.end(context.WithoutCancel(d.ctx), d.log, nodeReason, func() eventlog.Draft {
		return e.draft("", lead.EventID, eventlog.RunFailed, failedPayload{Error: reason, DurationMs: e.since(d.run.CreatedAt)})
	}, lead)
}

// add queues an event; node -1 is the run itself. It returns the event's id.
func (d *driver) add(node int, cause, eventType string, payload any) string {
	var nodeID string
	if node >= 0 {
		nodeID = d.def.Nodes[node].ID
	}
	draft := d.engine.draft(nodeID, cause, eventType, payload)
	d.pending = append(d.pending, draft)
	return draft.EventID
}

func (d *driver) lastID() string {
	if len(d.pending) == 0 {
		return ""
	}
	return d.pending[len(d.pending)-1].EventID
}

// flush appends what is queued. The log's own rule keeps a late driver from writing behind the terminal event.
func (d *driver) flush() error {
	if len(d.pending) == 0 {
		return nil
	}
	_, err := d.log.Append(d.ctx, eventlog.AnySequence, d.pending...)
	d.pending = d.pending[:0]
	return err
}

// emit appends an event of a node in flight.
func (d *driver) emit(nodeID, eventType string, payload any) error {
	_, err := d.log.Append(d.ctx, eventlog.AnySequence, d.engine.draft(nodeID, "", eventType, payload))
	return err
}

func (d *driver) setVariable(nodeID, name string, value json.RawMessage) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	change := variablePayload{Name: name, Previous: d.x.variables[name], Next: value, NodeID: nodeID}
	if err := d.emit(nodeID, eventlog.VariableChanged, change); err != nil {
		return err
	}
	d.x.setVariable(name, value)
	return nil
}

// lost is the end of a driver that cannot go on: the refusal goes to the operational log, never into the run's
// (events.md §The terminal event).
func (d *driver) lost(err error) {
	d.engine.logger.Error("a run cannot go on", "run", d.run.ID, "error", err)
}
