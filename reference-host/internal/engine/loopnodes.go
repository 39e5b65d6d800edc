package engine

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/workflow"
)

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// errNoChildren: the engine was made without what children need.
var errNoChildren = errors.New("this engine starts no children")

// encoded is a value of text, numbers and JSON, which always encodes.
func encoded(value any) json.RawMessage {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return raw
}

// runSubWorkflow starts a run of another workflow and waits for its end (execution.md §subWorkflow).
func runSubWorkflow(ctx context.Context, call *Call) (Values, error) {
	if call.driver.engine.children == nil {
		return nil, errNoChildren
	}
	config := call.driver.def.Nodes[call.node].Child
	logs, err := call.started(ctx)
	if err != nil {
		return nil, err
	}
	if len(logs) == 0 {
		log, err := call.child(ctx, config.WorkflowID, nil, call.seeds(config.Inputs))
		if err != nil {
			return nil, err
		}
		logs = append(logs, log)
	}
	child, err := await(ctx, logs[0])
	if err != nil {
		return nil, err
	}
	if child.status != eventlog.StatusCompleted && config.OnFailure == workflow.FailParent {
		return nil, child.failed()
	}
	if child.status == eventlog.StatusCompleted {
		for parent, name := range config.Outputs {
			value, set := child.variables[name]
			if !set {
				continue
			}
			if err := call.SetVariable(parent, value); err != nil {
				return nil, err
			}
		}
	}
	return Values{"childRunId": encoded(child.run.ID), "childStatus": encoded(child.status)}, nil
}

// seeds are the parent's variables under the names the child has for them; one that is not set seeds nothing.
func (c *Call) seeds(mapping map[string]string) map[string]json.RawMessage {
	c.driver.mu.Lock()
	defer c.driver.mu.Unlock()
	seeds := make(map[string]json.RawMessage, len(mapping))
	for child, parent := range mapping {
		if value, set := c.driver.x.variables[parent]; set {
			seeds[child] = value
		}
	}
	return seeds
}

// runSupervisor takes the next decision of the plan. A decision that an earlier attempt has recorded stands: a turn
// decides once.
func runSupervisor(_ context.Context, call *Call) (Values, error) {
	d := call.driver
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.x.deciding {
		if d.stopped != nil {
			return nil, d.stopped
		}
		turn := d.x.turns + 1
		decision := d.def.Loop.Turn(turn)
		_, err := d.log.Append(d.ctx, eventlog.AnySequence, d.engine.draft(call.NodeID, "", eventlog.OrchestratorDecided, decidedPayload{
			AgentID: d.def.Loop.AgentID, Decision: decision.Document, Iteration: turn,
		}))
		if err != nil {
			return nil, err
		}
		d.x.take(decision)
	}
	return Values{"decision": d.x.decision.Document}, nil
}

// dispatched is a child as the outputs of a dispatch name it.
type dispatched struct {
	ChildRunID      string `json:"childRunId"`
	ChildWorkflowID string `json:"childWorkflowId"`
	ChildStatus     string `json:"childStatus"`
}

// runDispatch starts a child for each worker of the decision and waits for all of them.
func runDispatch(ctx context.Context, call *Call) (Values, error) {
	d := call.driver
	if d.engine.children == nil {
		return nil, errNoChildren
	}
	d.mu.Lock()
	decision := d.x.decision
	d.mu.Unlock()
	logs, err := call.started(ctx)
	if err != nil {
		return nil, err
	}
	for i := len(logs); i < len(decision.Workers); i++ {
		var inputs json.RawMessage
		if i < len(decision.Inputs) {
			inputs = decision.Inputs[i]
		}
		log, err := call.child(ctx, decision.Workers[i], inputs, nil)
		if err != nil {
			return nil, err
		}
		logs = append(logs, log)
	}
	children := make([]dispatched, 0, len(logs))
	var failure *NodeError
	for _, log := range logs {
		child, err := await(ctx, log)
		if err != nil {
			return nil, err
		}
		if child.status != eventlog.StatusCompleted && failure == nil {
			failure = child.failed()
		}
		children = append(children, dispatched{child.run.ID, child.run.WorkflowID, child.status})
	}
	if failure != nil && d.def.Nodes[call.node].Child.OnFailure == workflow.FailParent {
		return nil, failure
	}
	return Values{"children": encoded(children)}, nil
}
