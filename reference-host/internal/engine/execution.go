package engine

import (
	"encoding/json"
	"maps"

	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/workflow"
)

// nodeState is where a node stands in one run.
type nodeState uint8

const (
	waiting nodeState = iota
	running
	completed
	failed
	skipped
	cut // cancelled, or interrupted before it ended: it may be started again
)

func (s nodeState) settled() bool { return s == completed || s == failed || s == skipped }

// execution is the fold of a log that scheduling needs: what has happened to each node. The driver moves it along as
// it appends, and rebuilds it from the log alone when it picks a run up.
type execution struct {
	def       *workflow.Definition
	states    []nodeState
	outputs   []Values
	attempts  []int
	variables map[string]json.RawMessage
	// executions counts node starts, against the recursion limit.
	executions int
	failure    *failedPayload
}

func newExecution(def *workflow.Definition, run eventlog.Run) *execution {
	n := len(def.Nodes)
	return &execution{
		def: def, states: make([]nodeState, n), outputs: make([]Values, n), attempts: make([]int, n),
		variables: maps.Clone(run.Variables),
	}
}

// apply folds one event of the log.
func (x *execution) apply(event eventlog.Event) error {
	i, known := x.def.NodeIndex(event.NodeID)
	switch event.Type {
	case eventlog.VariableChanged:
		var payload variablePayload
		if err := json.Unmarshal(event.Payload, &payload); err != nil {
			return err
		}
		x.setVariable(payload.Name, payload.Next)
	case eventlog.NodeStarted, eventlog.NodeCompleted, eventlog.NodeFailed, eventlog.NodeSkipped, eventlog.NodeCancelled:
		if !known {
			return nil
		}
		return x.applyNode(i, event)
	}
	return nil
}

func (x *execution) applyNode(i int, event eventlog.Event) error {
	switch event.Type {
	case eventlog.NodeStarted:
		x.start(i)
	case eventlog.NodeSkipped:
		x.states[i] = skipped
	case eventlog.NodeCancelled:
		x.states[i] = cut
	case eventlog.NodeCompleted:
		var payload nodeCompletedPayload
		if err := json.Unmarshal(event.Payload, &payload); err != nil {
			return err
		}
		x.complete(i, payload.Outputs)
	case eventlog.NodeFailed:
		var payload nodeFailedPayload
		if err := json.Unmarshal(event.Payload, &payload); err != nil {
			return err
		}
		x.fail(i, payload.Error)
	}
	return nil
}

func (x *execution) start(i int) {
	x.states[i] = running
	x.attempts[i]++
	x.executions++
}

func (x *execution) complete(i int, outputs Values) {
	x.states[i], x.outputs[i] = completed, outputs
}

// fail settles a node as failed, and the run with it unless a node behind it is there to handle the failure.
func (x *execution) fail(i int, reason ErrorPayload) {
	x.states[i] = failed
	for _, target := range x.def.Nodes[i].Outgoing {
		if x.def.Nodes[target].Rule.HandlesFailure() {
			return
		}
	}
	if x.failure == nil {
		x.failure = &failedPayload{Error: reason, FailedNodeID: x.def.Nodes[i].ID}
	}
}

func (x *execution) setVariable(name string, value json.RawMessage) {
	if x.variables == nil {
		x.variables = make(map[string]json.RawMessage)
	}
	x.variables[name] = value
}

// interrupted takes back the starts that have no end: their attempts were cut when the host stopped.
func (x *execution) interrupted() {
	for i, state := range x.states {
		if state == running {
			x.states[i] = cut
		}
	}
}

// decision is what the scheduler wants for a node now.
type decision uint8

const (
	undecided decision = iota
	run
	skip
)

// decide looks at a node that is not settled and not running.
func (x *execution) decide(i int) decision {
	node := &x.def.Nodes[i]
	if x.states[i] != waiting && x.states[i] != cut {
		return undecided
	}
	var contributing, failures int
	for _, edge := range node.Incoming {
		state := x.states[edge.Source]
		if !state.settled() {
			return undecided
		}
		if state == failed {
			failures++
		} else if x.contributes(edge) {
			contributing++
		}
	}
	if !node.Disabled && (len(node.Incoming) == 0 || triggered(node.Rule, len(node.Incoming), contributing, failures)) {
		return run
	}
	return skip
}

func triggered(rule workflow.Rule, edges, contributing, failures int) bool {
	switch rule {
	case workflow.AnySuccess:
		return contributing > 0
	case workflow.AllComplete:
		return contributing+failures > 0
	case workflow.NoneFailed:
		return failures == 0 && contributing > 0
	case workflow.AnyFailed:
		return failures > 0
	default:
		return contributing == edges
	}
}

// contributes: the source completed and the edge's condition, if it has one, holds.
func (x *execution) contributes(edge workflow.Edge) bool {
	if x.states[edge.Source] != completed {
		return false
	}
	return edge.Condition == nil || edge.Condition.Holds(func(path []string) any { return x.operand(edge, path) })
}

// operand resolves the left operand of a condition. "status" is the source's outcome, "variables.…" a variable of the
// run, "output.…" or a bare name the source's outputs.
func (x *execution) operand(edge workflow.Edge, path []string) any {
	outputs := x.outputs[edge.Source]
	switch head := path[0]; {
	case outputs[head] != nil:
		return workflow.Descend(decode(outputs[head]), path[1:])
	case head == "status":
		return "completed"
	case len(path) > 1 && head == "variables":
		return workflow.Descend(decode(x.variables[path[1]]), path[2:])
	case len(path) > 1 && head == "output":
		return workflow.Descend(decode(outputs[path[1]]), path[2:])
	}
	return nil
}

func decode(raw json.RawMessage) (value any) {
	_ = json.Unmarshal(raw, &value) // what is not there, or not JSON, is nil
	return value
}

// results merges the outputs of the nodes nothing comes after, in document order.
func (x *execution) results() Values {
	merged := Values{}
	for i, node := range x.def.Nodes {
		if len(node.Outgoing) == 0 {
			maps.Copy(merged, x.outputs[i])
		}
	}
	return merged
}

// resolve gives a node its inputs.
func (x *execution) resolve(i int) (Values, *NodeError) {
	node := &x.def.Nodes[i]
	inputs := make(Values, len(node.Inputs))
	for _, edge := range node.Incoming {
		if value, ok := x.outputs[edge.Source][edge.Output]; ok {
			inputs[edge.Input] = value
		}
	}
	for name, port := range node.Inputs {
		value, ok := x.port(port)
		if ok {
			inputs[name] = value
		} else if !port.Optional && port.Type == "connection" {
			return nil, &NodeError{Code: "validation_error", Message: "input " + name + " is connected to an output that is not there"}
		}
	}
	return inputs, nil
}

func (x *execution) port(port workflow.Port) (json.RawMessage, bool) {
	switch port.Type {
	case "static":
		return port.Value, true
	case "variable":
		value, ok := x.variables[port.VariableName]
		return value, ok
	default: // connection; workflow.Parse lets nothing else through
		source, _ := x.def.NodeIndex(port.NodeID)
		value, ok := x.outputs[source][port.OutputKey]
		return value, ok
	}
}
