package engine

import (
	"context"
	"encoding/json"
	"errors"
	"maps"

	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/workflow"
)

// Children lets nodes start other runs.
type Children interface {
	// Prepare makes the record of a child and its first event, without storing either. inputs may be nil; seeds go over
	// the defaults of the child's variables. The error is a *NodeError where the child is one that cannot be run.
	Prepare(parent *eventlog.Run, cause, workflowID string, inputs json.RawMessage, seeds map[string]json.RawMessage) (eventlog.Run, *workflow.Definition, error)
	// Create stores what Prepare made.
	Create(ctx context.Context, run eventlog.Run, first eventlog.Draft) (eventlog.Log, error)
	// Open returns the log of a run.
	Open(ctx context.Context, runID string) (eventlog.Log, error)
	// Workflow is the definition of that id, nil when there is none.
	Workflow(id string) *workflow.Definition
}

// child starts a run and records it, both or neither, and returns its log.
func (c *Call) child(ctx context.Context, workflowID string, inputs json.RawMessage, seeds map[string]json.RawMessage) (eventlog.Log, error) {
	d, e := c.driver, c.driver.engine
	if d.replays() { // a run is seen outside the log of the one that starts it
		c.denied = true
		return nil, SourceMissing(c.NodeID)
	}
	run, def, err := e.children.Prepare(c.Run, d.def.Nodes[c.node].TypeID, workflowID, inputs, seeds)
	if err != nil {
		return nil, err
	}
	if !e.Reserve() {
		return nil, &NodeError{Code: "rate_limited", Message: "This host has as many active runs as it takes."}
	}
	log, err := c.record(ctx, run)
	if err != nil {
		e.Release()
		return nil, err
	}
	e.Start(log, def)
	return log, nil
}

// record stores a child and its parent's node.dispatched, between two events of the parent. When the parent has ended
// meanwhile, so has the child.
func (c *Call) record(ctx context.Context, run eventlog.Run) (eventlog.Log, error) {
	d, e := c.driver, c.driver.engine
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped != nil {
		return nil, d.stopped
	}
	log, err := e.children.Create(ctx, run, e.StartEvent(&run, "rest"))
	if err != nil {
		return nil, err
	}
	_, err = d.log.Append(ctx, eventlog.AnySequence, e.draft(c.NodeID, "", eventlog.NodeDispatched, dispatchedPayload{
		ChildRunID: run.ID, ChildWorkflowID: run.WorkflowID, ChildStatus: eventlog.StatusRunning,
	}))
	if err != nil {
		orphan := cancelledPayload{Reason: reasonParentCancelled, ParentRunID: c.Run.ID}
		return nil, errors.Join(err, e.cancel(context.WithoutCancel(ctx), log, orphan))
	}
	d.x.nodes[c.node].children = append(d.x.nodes[c.node].children, run.ID)
	return log, nil
}

// started are the children an earlier attempt of this execution of the node has started: an attempt that was cut
// leaves them to the one that follows.
func (c *Call) started(ctx context.Context) ([]eventlog.Log, error) {
	c.driver.mu.Lock()
	ids := c.driver.x.nodes[c.node].children
	c.driver.mu.Unlock()
	logs := make([]eventlog.Log, 0, len(ids))
	for _, id := range ids {
		log, err := c.driver.engine.children.Open(ctx, id)
		if err != nil {
			return nil, err
		}
		logs = append(logs, log)
	}
	return logs, nil
}

// ended is a child at its end.
type ended struct {
	run       eventlog.Run
	status    string
	failure   ErrorPayload
	variables map[string]json.RawMessage
}

// await waits for the end of a child.
func await(ctx context.Context, log eventlog.Log) (*ended, error) {
	child := &ended{run: log.Run()}
	child.variables = maps.Clone(child.run.Variables)
	standing, last := eventlog.NewStanding(child.run), int64(-1)
	for {
		changed := log.Changed()
		events, err := log.Read(last)
		if err != nil {
			return nil, err
		}
		for i := range events {
			standing.Apply(&events[i])
			last = events[i].Sequence
			if err := child.apply(events[i]); err != nil {
				return nil, err
			}
		}
		if standing.Ended() {
			child.status = standing.Status()
			return child, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *ended) apply(event eventlog.Event) error {
	switch event.Type {
	case eventlog.VariableChanged:
		payload, err := readPayload[variablePayload](event)
		if err != nil {
			return err
		}
		if c.variables == nil {
			c.variables = make(map[string]json.RawMessage)
		}
		c.variables[payload.Name] = payload.Next
	case eventlog.RunFailed:
		payload, err := readPayload[failedPayload](event)
		if err != nil {
			return err
		}
		c.failure = payload.Error
	}
	return nil
}

// failed is what a child that did not complete does to its parent.
func (c *ended) failed() *NodeError {
	details := map[string]any{"childRunId": c.run.ID, "childStatus": c.status}
	if c.status == eventlog.StatusFailed {
		return &NodeError{Code: c.failure.Code, Message: "The child run failed: " + c.failure.Message, Details: details}
	}
	return &NodeError{Code: "child_cancelled", Message: "The child run was cancelled.", Details: details}
}

const reasonParentCancelled = "parent-cancelled"

// endChildren cancels the children of a run that has ended, and does nothing about those that have ended before it. A
// child that its node does not tie to the parent goes on.
func (e *Engine) endChildren(ctx context.Context, log eventlog.Log, terminal, by string) {
	events, err := log.Read(-1)
	if err != nil {
		e.logger.Error("the children of a run cannot be found", "run", log.Run().ID, "error", err)
		return
	}
	parent := log.Run()
	payload := cancelledPayload{Reason: "parent-failed", CancelledBy: by}
	if terminal == eventlog.RunCancelled {
		payload.Reason, payload.ParentRunID = reasonParentCancelled, parent.ID
	}
	for _, event := range events {
		if event.Type != eventlog.NodeDispatched || e.children == nil || !e.tied(parent.WorkflowID, event.NodeID) {
			continue
		}
		err := e.endChild(ctx, &parent, event, payload)
		if err != nil && !errors.Is(err, eventlog.ErrEnded) {
			e.logger.Error("a child cannot be cancelled", "run", parent.ID, "error", err)
		}
	}
}

func (e *Engine) endChild(ctx context.Context, parent *eventlog.Run, event eventlog.Event, payload cancelledPayload) error {
	dispatched, err := readPayload[dispatchedPayload](event)
	if err != nil {
		return err
	}
	log, err := e.children.Open(ctx, dispatched.ChildRunID)
	if err != nil {
		return err
	}
	if link := log.Run().Parent; link == nil || link.RunID != parent.ID {
		return nil // the history of a fork names children of the run it was forked from
	}
	err = e.cancel(ctx, log, payload)
	if errors.Is(err, eventlog.ErrEnded) && payload.ParentRunID != "" {
		return e.parentCancelled(ctx, log)
	}
	return err
}

func (e *Engine) tied(workflowID, nodeID string) bool {
	def := e.children.Workflow(workflowID)
	if def == nil {
		return false
	}
	i, known := def.NodeIndex(nodeID)
	return known && def.Nodes[i].Child != nil && def.Nodes[i].Child.Propagates()
}
