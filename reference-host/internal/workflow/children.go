package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"wopcert/corpus"
)

// The reserved types that start other runs or decide about them (execution.md).
const (
	TypeSubWorkflow = "core.subWorkflow"
	TypeSupervisor  = "core.orchestrator.supervisor"
	TypeDispatch    = "core.dispatch"
)

// What a failed child does to its parent.
const (
	FailParent = "fail-parent"
	Absorb     = "absorb"
)

// Child is the configuration of a node that starts children: a core.subWorkflow, or a core.dispatch, which has neither
// a workflow of its own nor mappings.
type Child struct {
	WorkflowID string `json:"workflowId"`
	// Wait is waitForCompletion; nil is true, and false is refused.
	Wait *bool `json:"waitForCompletion"`
	// OnFailure is onChildFailure.
	OnFailure string `json:"onChildFailure"`
	// Inputs maps variables of the child to variables of the parent, Outputs the other way round.
	Inputs  map[string]string `json:"inputMapping"`
	Outputs map[string]string `json:"outputMapping"`
	// Propagate is propagateCancellation; nil is true.
	Propagate *bool `json:"propagateCancellation"`
}

// Propagates reports whether the children end with their parent.
func (c *Child) Propagates() bool { return c.Propagate == nil || *c.Propagate }

func parseChild(typeID string, config json.RawMessage) (*Child, error) {
	if typeID != TypeSubWorkflow && typeID != TypeDispatch {
		return nil, nil
	}
	child := &Child{OnFailure: FailParent}
	decoder := json.NewDecoder(bytes.NewReader(config))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(child); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	switch {
	case child.OnFailure != FailParent && child.OnFailure != Absorb:
		return nil, fmt.Errorf("onChildFailure: it is %s or %s", FailParent, Absorb)
	case child.Wait != nil && !*child.Wait:
		return nil, errors.New("waitForCompletion: this host waits for every child")
	case typeID == TypeSubWorkflow && child.WorkflowID == "":
		return nil, errors.New("config: it names no workflowId")
	case typeID == TypeDispatch && (child.WorkflowID != "" || len(child.Inputs) > 0 || len(child.Outputs) > 0):
		return nil, errors.New("config: the decision names the workers of a dispatch, and nothing is mapped")
	}
	return child, nil
}

// MapsInputs reports whether a node seeds its child from the parent's variables.
func (d *Definition) MapsInputs() bool {
	return slices.ContainsFunc(d.Nodes, func(n Node) bool { return n.Child != nil && len(n.Child.Inputs) > 0 })
}

// Children are the workflows that runs of this one may start, as far as the definition says.
func (d *Definition) Children() []string {
	var ids []string
	for _, node := range d.Nodes {
		if node.Child != nil && node.Child.WorkflowID != "" {
			ids = append(ids, node.Child.WorkflowID)
		}
	}
	if d.Loop != nil {
		for _, decision := range d.Loop.Plan {
			ids = append(ids, decision.Workers...)
		}
	}
	return ids
}

// Retry bounds the attempts of one execution of a node. The zero value is one attempt.
type Retry struct {
	MaxAttempts int   `json:"maxAttempts"`
	BackoffMs   int64 `json:"backoffMs"`
}

// Backoff is the time between two attempts.
func (r Retry) Backoff() time.Duration { return time.Duration(r.BackoffMs) * time.Millisecond }

// maxBackoffMs keeps a backoff within what a run can last.
const maxBackoffMs = 24 * 60 * 60 * 1000

// parseRetry reads the retry member of a node's settings; what else is there is for the tools of authors.
func parseRetry(settings json.RawMessage) (Retry, error) {
	var all struct {
		Retry *Retry `json:"retry"`
	}
	if len(settings) == 0 {
		return Retry{}, nil
	}
	if err := json.Unmarshal(settings, &all); err != nil {
		return Retry{}, fmt.Errorf("settings.retry: %w", err)
	}
	if all.Retry == nil {
		return Retry{}, nil
	}
	if all.Retry.MaxAttempts < 1 || all.Retry.BackoffMs < 0 || all.Retry.BackoffMs > maxBackoffMs {
		return Retry{}, fmt.Errorf("settings.retry: maxAttempts is at least 1, and backoffMs from 0 to %d", maxBackoffMs)
	}
	return *all.Retry, nil
}

// Loop is the supervisor loop of a workflow: the supervisor decides, the dispatch carries the decision out, and the
// supervisor decides again, until it decides to terminate (execution.md §multiAgent).
type Loop struct {
	// Supervisor and Dispatch are positions of nodes.
	Supervisor, Dispatch int
	AgentID              string
	// Plan holds the decisions turn by turn. The last one is taken again when turns go beyond it.
	Plan []Decision
}

// Decision is one orchestrator decision.
type Decision struct {
	// Document is the decision as the schema has it.
	Document json.RawMessage
	Kind     string
	// Workers are workflow ids; Inputs belong to the workers one by one and may be fewer.
	Workers []string
	Inputs  []json.RawMessage
}

// KindNextWorker is the decision that goes on; any other ends the loop.
const KindNextWorker = "next-worker"

// ParseDecision reads a decision that the schema has accepted.
func ParseDecision(document json.RawMessage) (Decision, error) {
	var doc struct {
		Kind    string            `json:"kind"`
		Workers []string          `json:"nextWorkerIds"`
		Inputs  []json.RawMessage `json:"nextWorkerInputs"`
	}
	err := json.Unmarshal(document, &doc)
	return Decision{Document: document, Kind: doc.Kind, Workers: doc.Workers, Inputs: doc.Inputs}, err
}

// Turn is the decision of a turn, counted from 1.
func (l *Loop) Turn(n int) Decision { return l.Plan[min(n, len(l.Plan))-1] }

// findLoop ties a supervisor and a dispatch together. backs are the edges that lead from a dispatch back to a
// supervisor; they are no part of the graph otherwise.
func (d *Definition) findLoop(contract *corpus.Corpus, backs [][2]int) error {
	var supervisors, dispatches []int
	for i, node := range d.Nodes {
		switch node.TypeID {
		case TypeSupervisor:
			supervisors = append(supervisors, i)
		case TypeDispatch:
			dispatches = append(dispatches, i)
		}
	}
	if len(supervisors) == 0 && len(dispatches) == 0 {
		return nil
	}
	if len(supervisors) != 1 || len(dispatches) != 1 || len(backs) != 1 {
		return fmt.Errorf("one %s and one %s, with one edge in each direction, make a loop; this host runs no other use of them",
			TypeSupervisor, TypeDispatch)
	}
	loop := &Loop{Supervisor: supervisors[0], Dispatch: dispatches[0]}
	supervisor, dispatch := &d.Nodes[loop.Supervisor], &d.Nodes[loop.Dispatch]
	if len(dispatch.Incoming) != 1 || dispatch.Incoming[0].Source != loop.Supervisor || dispatch.Incoming[0].Condition != nil ||
		len(dispatch.Outgoing) > 0 || dispatch.Disabled || supervisor.Disabled || dispatch.Rule != AllSuccess {
		return fmt.Errorf("node %s: it is fed by the supervisor alone, feeds it alone, and cannot be disabled", dispatch.ID)
	}
	if err := loop.configure(contract, supervisor.Config); err != nil {
		return fmt.Errorf("node %s: %w", supervisor.ID, err)
	}
	d.Loop = loop
	return nil
}

func (l *Loop) configure(contract *corpus.Corpus, raw json.RawMessage) error {
	var config struct {
		AgentID string            `json:"agentId"`
		Plan    []json.RawMessage `json:"mockDispatchPlan"`
	}
	if err := json.Unmarshal(raw, &config); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if err := contract.ValidateValue("ids#/$defs/agentId", config.AgentID); err != nil {
		return fmt.Errorf("config.agentId: %w", err)
	}
	if len(config.Plan) == 0 {
		return errors.New("config.mockDispatchPlan: it holds no decision; this host decides by plan")
	}
	l.AgentID = config.AgentID
	for i, document := range config.Plan {
		if err := contract.Validate("orchestrator-decision", document); err != nil {
			return fmt.Errorf("config.mockDispatchPlan[%d]: %w", i, err)
		}
		decision, err := ParseDecision(document)
		if err != nil {
			return fmt.Errorf("config.mockDispatchPlan[%d]: %w", i, err)
		}
		if decision.Kind == "ask-user" {
			return fmt.Errorf("config.mockDispatchPlan[%d]: this host has nobody to ask", i)
		}
		l.Plan = append(l.Plan, decision)
	}
	return nil
}
