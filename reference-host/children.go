package referencehost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/workflow"
)

// maxDepth bounds how deep runs start runs, so that workflows that start each other come to an end.
const maxDepth = 8

// children makes the runs that nodes start. It implements engine.Children.
type children struct{ host *Host }

func (c children) Workflow(id string) *workflow.Definition { return c.host.workflows[id] }

func (c children) Open(ctx context.Context, runID string) (eventlog.Log, error) {
	return c.host.store.Open(ctx, runID)
}

func (c children) Create(ctx context.Context, run eventlog.Run, first eventlog.Draft) (eventlog.Log, error) {
	return c.host.store.Create(ctx, run, false, first)
}

// Prepare makes a child: a run of its own with the owner, the engine version and the deadline of its parent, and none of
// its options, tags or metadata.
func (c children) Prepare(
	parent *eventlog.Run, cause, workflowID string, inputs json.RawMessage, seeds map[string]json.RawMessage,
) (eventlog.Run, *workflow.Definition, error) {
	h := c.host
	definition, refused := h.workflows[workflowID], h.blocked[workflowID]
	switch {
	case definition == nil:
		return eventlog.Run{}, nil, &engine.NodeError{Code: h.codes.nodeConfig.Code, Message: "There is no workflow " + workflowID + "."}
	case refused != nil:
		return eventlog.Run{}, nil, &engine.NodeError{Code: refused.code.Code, Message: refused.message, Details: refused.details}
	case parent.Depth >= maxDepth:
		return eventlog.Run{}, nil, &engine.NodeError{
			Code: h.codes.tooDeep.Code, Message: fmt.Sprintf("Runs start runs no deeper than %d.", maxDepth),
		}
	}
	var given map[string]json.RawMessage
	if inputs != nil {
		if err := json.Unmarshal(inputs, &given); err != nil {
			return eventlog.Run{}, nil, err
		}
	}
	if len(seeds) > 0 { // over the defaults, where the child declares the variable
		given = maps.Clone(seeds)
	}
	variables, err := definition.Seed(given)
	if err != nil {
		var bad *workflow.InputError
		if errors.As(err, &bad) {
			return eventlog.Run{}, nil, &engine.NodeError{Code: h.codes.validation.Code, Message: "The child run cannot be started: " + bad.Error() + "."}
		}
		return eventlog.Run{}, nil, err
	}
	run := eventlog.Run{
		ID: h.mintRunID(parent.Owner.Tenant), Owner: parent.Owner, WorkflowID: workflowID, EngineVersion: parent.EngineVersion,
		CreatedAt: h.clock.Now(), Deadline: parent.Deadline, Inputs: inputs, Variables: variables,
		MaxNodeExecutions: h.config.Limits.MaxNodeExecutions, MaxLoopIterations: h.config.Limits.MaxLoopIterations,
		Parent: &eventlog.Parent{RunID: parent.ID, Cause: cause}, Depth: parent.Depth + 1,
	}
	if definition.Loop != nil {
		run.Orchestrator = definition.Loop.AgentID
	}
	limitByWorkflow(&run, definition)
	return run, definition, nil
}

// block finds out, once, why no run of a workflow can be created: it, or a workflow its runs start, needs what this
// host does not advertise (runs.md §Refusals) or does not hold (execution.md §subWorkflow).
func (h *Host) block(id string, seen map[string]bool) *refusal {
	definition := h.workflows[id]
	if definition == nil {
		return h.codes.noChildWorkflow(id)
	}
	if seen[id] {
		return nil
	}
	seen[id] = true
	if capability := h.capabilityFor(definition); capability != "" {
		return h.codes.needsCapability(capability)
	}
	for _, child := range definition.Children() {
		if refusal := h.block(child, seen); refusal != nil {
			return refusal
		}
	}
	return nil
}

// held is the workflow of a run that exists.
func (h *Host) held(log eventlog.Log) (*workflow.Definition, error) {
	run := log.Run()
	definition := h.definition(run)
	if definition == nil {
		return nil, fmt.Errorf("run %s: its workflow %s is not held any more", run.ID, run.WorkflowID)
	}
	return definition, nil
}
