package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"wopcert/reference-host/internal/clock"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/workflow"
)

// driver takes one run from where its log stands to its end, or to where the run is paused. It is the only goroutine
// that schedules the run; nodes that run side by side have goroutines of their own and report to it.
type driver struct {
	engine *Engine
	log    eventlog.Log
	run    eventlog.Run
	def    *workflow.Definition
	ctx    context.Context
	cancel context.CancelFunc
	after  <-chan struct{} // the end of the driver this one takes the run over from, nil for none
	done   chan struct{}   // closed at the end

	// mu is held for every append of this driver and of its nodes, and guards what follows. Whoever holds it and sets
	// stopped knows that nothing of this driver comes behind what is in the log.
	mu      sync.Mutex
	stopped error // why the driver may append no more; nil while it may
	drain   *drain
	x       *execution
	due     []int           // nodes whose next attempt is due
	looked  int64           // the last sequence that was looked at for resolutions
	changed <-chan struct{} // nil unless a node waits for an interrupt: closed when the log has grown since it was looked at
	alarm   time.Time       // when the first of those interrupts runs out of time, zero when none does
	pending []eventlog.Draft

	recording *recording // the source of a replay, nil for any other run
}

// errPaused stops a driver: the run is paused, or the driver's work was taken from it.
var errPaused = errors.New("the run is paused")

// result is the end of one attempt, or of the wait before the next one.
type result struct {
	node    int
	outputs Values
	// recorded is what a replay takes from its source instead of outputs.
	recorded []eventlog.Event
	err      error
	began    time.Time
	waited   bool
}

func (d *driver) drive() {
	defer d.engine.running.Done()
	defer d.engine.Release()
	defer close(d.done)
	defer d.engine.drivers.CompareAndDelete(d.run.ID, d)
	defer d.cancel()
	if d.after != nil {
		<-d.after // every node of the other driver has been cut, and returns
	}
	if err := d.restore(); err != nil {
		if !errors.Is(err, eventlog.ErrEnded) && !errors.Is(err, errPaused) {
			d.lost(err)
		}
		return
	}
	limit := d.run.Deadline.Sub(d.run.CreatedAt)
	left := d.run.Deadline.Sub(d.engine.clock.Now())
	if left <= 0 { // it passed while the run was paused, and takes effect now
		d.expire(limit)
		return
	}
	stop := d.engine.clock.AfterFunc(left, func() { d.expire(limit) })
	defer stop()
	err := d.loop()
	if err != nil && !errors.Is(err, eventlog.ErrEnded) && !errors.Is(err, errPaused) && d.ctx.Err() == nil {
		d.lost(err)
	}
}

// restore rebuilds the execution from the log.
func (d *driver) restore() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped != nil {
		return d.stopped
	}
	d.x = newExecution(d.def, d.run)
	if err := d.open(); err != nil {
		return err
	}
	events, err := d.log.Read(-1)
	if err != nil {
		return err
	}
	switch standing := eventlog.StandingOf(d.run, events); {
	case standing.Ended():
		d.stopped = eventlog.ErrEnded
	case standing.Status() == eventlog.StatusPaused:
		d.stopped = errPaused
	}
	if d.stopped != nil {
		return d.stopped
	}
	for _, event := range events {
		if err := d.x.apply(event); err != nil {
			return err
		}
	}
	d.looked = int64(len(events)) - 1
	d.reenter()
	if d.run.ForkPoint == 0 || int64(len(events)) > d.run.ForkPoint {
		d.x.interrupted()
		return nil
	}
	// The history of a fork may end within an attempt: that attempt goes on, it is not made anew.
	for _, event := range inFlight(events) {
		i, known := d.def.NodeIndex(event.NodeID)
		if known && d.x.nodes[i].state == running {
			d.x.nodes[i].skip = recordedSince(events, event)
			d.due = append(d.due, i)
		}
	}
	d.x.interrupted()
	return nil
}

// recordedSince counts the events an attempt has recorded of itself.
func recordedSince(events []eventlog.Event, started eventlog.Event) (n int) {
	for _, event := range events[started.Sequence+1:] {
		switch event.Type {
		case eventlog.NodeDispatched, eventlog.OrchestratorDecided: // the execution knows of these
		default:
			if event.NodeID == started.NodeID {
				n++
			}
		}
	}
	return n
}

// loop schedules until the run has ended or is paused.
func (d *driver) loop() error {
	results := make(chan result, len(d.def.Nodes))
	flying := 0
	for {
		ready, over, err := d.step(flying)
		if over || err != nil {
			d.cut(results, flying)
			return err
		}
		var done result
		if flying == 0 && len(ready) == 1 && d.changed == nil {
			done = d.attempt(ready[0]) // one node at a time needs no goroutine
		} else {
			for _, call := range ready {
				flying++
				go func() { results <- d.attempt(call) }()
			}
			over, stop := d.ring()
			ended := false
			select {
			case done = <-results:
				flying--
				ended = true
			case <-d.changed:
			case <-over:
			case <-d.ctx.Done():
			}
			if stop(); !ended && d.ctx.Err() == nil {
				continue
			}
		}
		if err := d.ctx.Err(); err != nil {
			d.cut(results, flying)
			return err
		}
		if wait, again := d.settle(done); again {
			flying++
			go func() {
				_ = clock.Sleep(d.ctx, d.engine.clock, wait) // who ends the context also ends the wait for results
				results <- result{node: done.node, waited: true}
			}()
		}
	}
}

// cut ends the nodes that still run and waits for them.
func (d *driver) cut(results <-chan result, flying int) {
	for d.cancel(); flying > 0; flying-- {
		<-results
	}
}

// step decides what comes next and records it: the attempts to make now, or the end of the run, or its pause. The
// decision and the record are one, so a pause that was accepted before is honoured.
func (d *driver) step(flying int) (ready []*scheduled, over bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped != nil {
		return nil, true, d.stopped
	}
	if err := d.awaken(); err != nil {
		return nil, true, err
	}
	var breach *breach
	if d.x.failure == nil || d.drain != nil {
		ready = d.continued()
	}
	if d.drain == nil && d.x.failure == nil {
		var more []*scheduled
		more, breach = d.schedule()
		ready = append(ready, more...)
	}
	idle := flying == 0 && len(ready) == 0
	switch {
	case breach != nil:
		if err := d.flush(); err != nil {
			return nil, true, err
		}
		return nil, true, d.fail(breach)
	case d.drain != nil && idle:
		return nil, true, d.pause()
	case d.drain == nil && (d.x.failure != nil || idle && d.changed == nil):
		return nil, true, d.finish()
	}
	return ready, false, d.flush()
}

// continued are the next attempts of nodes that execute already.
func (d *driver) continued() (ready []*scheduled) {
	for _, i := range d.due {
		if d.x.nodes[i].state == backoff {
			ready = append(ready, d.start(i))
		} else {
			d.x.nodes[i].state, d.x.nodes[i].due = running, false
			ready = append(ready, d.call(i))
		}
	}
	d.due = d.due[:0]
	return ready
}

// schedule starts and skips what can be, in document order, and returns the attempts to make; or the limit that one
// more start would exceed.
func (d *driver) schedule() (ready []*scheduled, exceeded *breach) {
	for again := true; again; {
		again = false
		for i := range d.def.Nodes {
			switch d.x.decide(i) {
			case skip:
				d.x.nodes[i].state = skipped
				d.add(i, "", eventlog.NodeSkipped, nodeEndedPayload{NodeID: d.def.Nodes[i].ID, Reason: d.skipReason(i)})
				again = true // what comes after a skipped node may be decided now
			case run:
				if exceeded := d.exceeds(i); exceeded != nil {
					return nil, exceeded
				}
				ready = append(ready, d.start(i))
			}
		}
	}
	return ready, nil
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
	d.x.start(i)
	node := &d.def.Nodes[i]
	d.x.nodes[i].started = d.add(i, "", eventlog.NodeStarted, nodeStartedPayload{NodeID: node.ID, TypeID: node.TypeID, Attempt: d.x.nodes[i].attempts})
	return d.call(i)
}

// call makes the call of the node's present attempt.
func (d *driver) call(i int) *scheduled {
	node := &d.def.Nodes[i]
	inputs, refused := d.x.resolve(i)
	return &scheduled{node: i, refused: refused, call: Call{
		Run: &d.run, NodeID: node.ID, Attempt: d.x.nodes[i].attempts, Config: node.Config, Inputs: inputs, Clock: d.engine.clock,
		engine: d.engine, driver: d, node: i, execution: d.x.outcomes[i] + 1,
	}}
}

// attempt runs one node. A panic in a node type fails the node, not the host.
func (d *driver) attempt(s *scheduled) (done result) {
	done = result{node: s.node, began: d.engine.clock.Now()}
	nodeType := d.engine.nodes[d.def.Nodes[s.node].TypeID]
	if nodeType.SideEffect && d.replays() {
		done.recorded, done.err = d.recorded(s.node)
		return done
	}
	if s.refused != nil {
		done.err = s.refused
		return done
	}
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
	if s.call.denied { // whatever the node makes of it
		done.recorded, done.err = d.recorded(s.node)
	}
	return done
}

// settle records how an attempt ended. again says that the node is tried once more after the wait.
func (d *driver) settle(done result) (wait time.Duration, again bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	node, started := &d.def.Nodes[done.node], d.x.nodes[done.node].started
	var open *suspended
	switch {
	case errors.As(done.err, &open):
		d.x.suspend(done.node, open.interruptID, open.deadline)
		return 0, false
	case done.waited:
		d.due = append(d.due, done.node)
		return 0, false
	case done.recorded != nil:
		done.err = d.take(done.node, done.recorded)
	case done.err == nil:
		d.x.complete(done.node, done.outputs)
		d.add(done.node, started, eventlog.NodeCompleted, nodeCompletedPayload{
			NodeID: node.ID, Outputs: done.outputs, DurationMs: d.engine.since(done.began),
		})
		return 0, false
	}
	if done.err == nil {
		return 0, false
	}
	reason := ErrorPayload{Code: "internal_error", Message: "The node failed for a reason of the host's own."}
	var own *NodeError
	if errors.As(done.err, &own) {
		reason = ErrorPayload{Code: own.Code, Message: own.Message, Details: own.Details}
		if own.Final {
			reason.Retryable = new(bool)
		}
	} else {
		d.engine.logger.Error("a node failed", "run", d.run.ID, "node", node.ID, "error", done.err)
	}
	if d.x.retries(done.node) && (own == nil || !own.Final) {
		d.x.retry(done.node)
		d.add(done.node, started, eventlog.NodeRetried, nodeRetriedPayload{
			NodeID: node.ID, Attempt: d.x.nodes[done.node].attempts + 1, DelayMs: node.Retry.BackoffMs, LastError: reason,
		})
		return node.Retry.Backoff(), true
	}
	d.x.fail(done.node, reason)
	if own != nil && own.Code == codeDivergedAtRefusal && d.x.failure == nil { // no node behind it makes up for that
		d.x.failure = &failedPayload{Error: ErrorPayload{Code: reason.Code, Message: reason.Message, Details: reason.Details}, FailedNodeID: node.ID}
	}
	d.add(done.node, started, eventlog.NodeFailed, nodeFailedPayload{
		NodeID: node.ID, Error: reason, Attempts: d.x.nodes[done.node].attempts,
	})
	return 0, false
}

// lost is the end of a driver that cannot go on: the refusal goes to the operational log, never into the run's
// (events.md §The terminal event).
func (d *driver) lost(err error) {
	d.engine.logger.Error("a run cannot go on", "run", d.run.ID, "error", err)
}
