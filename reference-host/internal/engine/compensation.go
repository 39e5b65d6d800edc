package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"wopcert/reference-host/internal/compensation"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/workflow"
)

// CompensationTriggers are the triggers this engine fires.
func CompensationTriggers() []string {
	return []string{workflow.OnNodeFailure, workflow.OnRunCancel, workflow.OnCapBreach}
}

// Undoes reports whether the engine can run a node type as an inverse action.
func (e *Engine) Undoes(typeID string) bool { return e.nodes[typeID].Inverse }

// compensationPayload serves every compensation event. It says nothing of what is undone but the ids.
type compensationPayload struct {
	CompensationID string `json:"compensationId"`
	NodeID         string `json:"nodeId,omitempty"`
	EffectID       string `json:"effectId,omitempty"`
	Attempt        int    `json:"attempt,omitempty"`
	OrderingModel  string `json:"orderingModel"`
	Reason         string `json:"reason,omitempty"`
}

const reasonExhausted = "retries-exhausted"

// plan makes and records the plan that the end of a run asks for, nil when nothing is to be undone. Nothing is undone
// unless the policy says so, in a replay, or for what a fork has inherited.
func (e *Engine) plan(ctx context.Context, run *eventlog.Run, events []eventlog.Event, trigger string) (*compensation.Plan, error) {
	if e.plans == nil || e.children == nil || run.ForkMode == forkReplay {
		return nil, nil
	}
	def := e.children.Workflow(run.WorkflowID)
	if def == nil || def.Policy == nil || !slices.Contains(def.Policy.Triggers, trigger) {
		return nil, nil
	}
	committed, err := committedBy(def, run, events)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(committed, func(c commit) bool { return def.Nodes[c.node].Compensation != nil }) {
		return nil, nil
	}
	order(def, committed)
	plan := &compensation.Plan{
		ID: e.eventID(), RunID: run.ID, Ordering: def.Policy.Ordering, Profile: cmp.Or(def.Policy.ProfileVersion, e.profile),
		Policy: def.Policy.Document, Manual: def.Policy.Exhausted == workflow.ManualIntervention,
		OnParentCancel: def.Policy.OnParentCancel, TimeoutMs: def.Policy.Timeout().Milliseconds(),
	}
	facts, err := factsOf(run, events)
	if err != nil {
		return nil, err
	}
	for i, c := range committed {
		plan.Entries = append(plan.Entries, e.entry(plan, run, def, c, i, facts))
	}
	return plan, e.plans.Save(ctx, plan)
}

// commit is an execution of a node that has completed, and what it did.
type commit struct {
	node, execution int
	sequence        int64
}

// committedBy lists the committed effects of nodes that say how they are undone, or that they cannot be, oldest first.
func committedBy(def *workflow.Definition, run *eventlog.Run, events []eventlog.Event) (committed []commit, err error) {
	executions := make(map[int]int)
	for _, event := range events {
		i, known := def.NodeIndex(event.NodeID)
		if !known || !settlesNode(event.Type) {
			continue
		}
		executions[i]++
		node := &def.Nodes[i]
		if event.Type == eventlog.NodeCompleted && event.Sequence >= run.ForkPoint && (node.Compensation != nil || node.Irreversible) {
			committed = append(committed, commit{i, executions[i], event.Sequence})
		}
	}
	return committed, nil
}

// order puts what was done into the order in which it is undone: the last completion first, or what depends on others
// before what it depends on.
func order(def *workflow.Definition, committed []commit) {
	if def.Policy.Ordering == workflow.ReverseCompletion {
		slices.SortFunc(committed, func(a, b commit) int { return cmp.Compare(b.sequence, a.sequence) })
		return
	}
	depth := make([]int, len(def.Nodes))
	for range def.Nodes { // the longest way from a start settles within as many rounds as there are nodes
		for i := range def.Nodes {
			for _, edge := range def.Nodes[i].Incoming {
				depth[i] = max(depth[i], depth[edge.Source]+1)
			}
		}
	}
	slices.SortStableFunc(committed, func(a, b commit) int {
		return cmp.Or(cmp.Compare(b.execution, a.execution), cmp.Compare(depth[b.node], depth[a.node]))
	})
}

// recorded facts of a run: the outputs of every execution of its nodes, and its inputs.
type recordedFacts struct {
	outputs map[string][]Values // by node, one for each outcome
	inputs  map[string]json.RawMessage
}

func factsOf(run *eventlog.Run, events []eventlog.Event) (*recordedFacts, error) {
	// A child has its inputs as the variables it starts with.
	facts := &recordedFacts{outputs: make(map[string][]Values), inputs: maps.Clone(run.Variables)}
	if run.Inputs != nil {
		if err := json.Unmarshal(run.Inputs, &facts.inputs); err != nil {
			return nil, err
		}
	}
	for _, event := range events {
		if !settlesNode(event.Type) {
			continue
		}
		var outputs Values
		if event.Type == eventlog.NodeCompleted {
			payload, err := readPayload[nodeCompletedPayload](event)
			if err != nil {
				return nil, err
			}
			outputs = payload.Outputs
		}
		facts.outputs[event.NodeID] = append(facts.outputs[event.NodeID], outputs)
	}
	return facts, nil
}

// output is what a node gave out in an execution, or in its last when there were fewer.
func (f *recordedFacts) output(nodeID, port string, execution int) (json.RawMessage, bool) {
	executions := f.outputs[nodeID]
	if len(executions) == 0 {
		return nil, false
	}
	value, ok := executions[min(execution, len(executions))-1][port]
	return value, ok
}

// entry is what is planned for one committed effect.
func (e *Engine) entry(plan *compensation.Plan, run *eventlog.Run, def *workflow.Definition, c commit, ordinal int, facts *recordedFacts) compensation.Entry {
	node := &def.Nodes[c.node]
	entry := compensation.Entry{NodeID: node.ID, Execution: c.execution}
	if node.Compensation == nil {
		entry.State = compensation.Irreversible
		return entry
	}
	bounds := def.Policy.Bounds(node.Compensation)
	entry.TypeID, entry.MaxAttempts, entry.BackoffMs = node.Compensation.TypeID, bounds.MaxAttempts, bounds.BackoffMs
	entry.Identity = fmt.Sprintf("%s %s.%d %d %s", run.ID, node.ID, c.execution, ordinal, plan.Profile)
	entry.EffectID = e.inverseID(run.Owner.Tenant, entry.Identity)
	inputs, err := node.Compensation.Resolve(workflow.Facts{
		Output: func(id, port string) (json.RawMessage, bool) { return facts.output(id, port, c.execution) },
		Inputs: facts.inputs,
	})
	if err != nil {
		entry.Unresolved = err.Error()
	}
	entry.Inputs = inputs
	return entry
}

// unwindRequested is the event that says that the plan is on record.
func (e *Engine) unwindRequested(plan *compensation.Plan, cause string) eventlog.Draft {
	return e.draft("", cause, eventlog.CompensationRequested, compensationPayload{CompensationID: plan.ID, OrderingModel: plan.Ordering})
}

// discard drops a plan whose event did not get into the log.
func (e *Engine) discard(ctx context.Context, plan *compensation.Plan) {
	if plan == nil {
		return
	}
	if err := e.plans.Drop(context.WithoutCancel(ctx), plan); err != nil {
		e.logger.Error("a compensation plan that nobody asked for cannot be dropped", "run", plan.RunID, "error", err)
	}
}

// recordedTail is what the source of a replay did about its failure, for the replay's own log: it is not done again
// (security-defaults.md §Compensation). The plan goes with it.
func (d *driver) recordedTail(terminal string) ([]eventlog.Draft, error) {
	if d.engine.plans == nil || d.recording == nil {
		return nil, nil
	}
	events, err := d.recording.load()
	if err != nil {
		return nil, err
	}
	end := slices.IndexFunc(events, func(e eventlog.Event) bool { return eventlog.Terminal(e.Type) })
	if end < 0 || events[end].Type != terminal {
		return nil, nil
	}
	seen := compensation.SeenIn(events[end:])
	plan, err := d.engine.plans.Get(d.ctx, d.run.ForkOf, seen.PlanID)
	if errors.Is(err, eventlog.ErrNotFound) || err == nil && !plan.Closed && plan.Hold == "" {
		return nil, nil // none, or one that has not come to an end
	}
	if err != nil {
		return nil, err
	}
	plan.RunID = d.run.ID
	if err := d.engine.plans.Save(d.ctx, plan); err != nil {
		return nil, err
	}
	var tail []eventlog.Draft
	for _, event := range events[end+1:] {
		if compensates(event.Type) {
			draft := event.Draft
			draft.EventID, draft.CausationID, draft.Timestamp = d.engine.eventID(), "", d.engine.clock.Now()
			tail = append(tail, draft)
		}
	}
	return tail, nil
}
