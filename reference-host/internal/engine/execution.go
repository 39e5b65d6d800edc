package engine

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/workflow"
)

// nodeState is where a node stands in one run.
type nodeState uint8

const (
	waiting nodeState = iota
	running
	backoff       // between two attempts
	turning       // a supervisor whose decision is being carried out
	suspendedNode // it waits for an interrupt
	completed
	failed
	skipped
	cut // cancelled, or interrupted before it ended: it may be started again
)

func (s nodeState) settled() bool { return s == completed || s == failed || s == skipped }

// nodeRun is what has happened to one node. In a loop it is about the present turn.
type nodeRun struct {
	state   nodeState
	outputs Values
	// attempts counts the attempts of this execution of the node, and failures those of them that failed and were
	// tried again.
	attempts, failures int
	// children are the runs this execution of the node has started.
	children []string
	// started is the event id of the last start.
	started string
	// skip counts the events of the present attempt that a fork has in its history.
	skip int
	// awaits is the interrupt a suspended node waits for, and due says that the driver is about to enter it again.
	awaits   string
	deadline time.Time
	due      bool
}

// execution is the fold of a log that scheduling needs: what has happened to each node. The driver moves it along as
// it appends, and rebuilds it from the log alone when it picks a run up.
type execution struct {
	def   *workflow.Definition
	nodes []nodeRun
	// rounds counts how often each loopback was taken.
	rounds []int
	// outcomes counts the completions and failures of each node.
	outcomes  []int
	variables map[string]json.RawMessage
	// executions counts executions of nodes, against the recursion limit. Another attempt is no other execution.
	executions int
	failure    *failedPayload
	// turns counts the decisions of the supervisor, and decision is the last one; deciding says that the supervisor
	// has not completed with it.
	turns    int
	decision workflow.Decision
	deciding bool
	// resolved are the interrupts known to have a resolution.
	resolved map[string]bool
}

func newExecution(def *workflow.Definition, run eventlog.Run) *execution {
	return &execution{def: def, nodes: make([]nodeRun, len(def.Nodes)), outcomes: make([]int, len(def.Nodes)), rounds: make([]int, len(def.Loopbacks)), variables: maps.Clone(run.Variables)}
}

// apply folds one event of the log.
func (x *execution) apply(event eventlog.Event) error {
	switch event.Type {
	case eventlog.VariableChanged:
		payload, err := readPayload[variablePayload](event)
		if err != nil {
			return err
		}
		x.setVariable(payload.Name, payload.Next)
		return nil
	case eventlog.RunPaused:
		x.interrupted()
		return nil
	case eventlog.InterruptResolved:
		return x.note(event)
	}
	if i, known := x.def.NodeIndex(event.NodeID); known {
		return x.applyNode(i, event)
	}
	return nil
}

func (x *execution) applyNode(i int, event eventlog.Event) error {
	node := &x.nodes[i]
	switch event.Type {
	case eventlog.NodeStarted:
		x.start(i)
		node.started = event.EventID
	case eventlog.NodeSuspended:
		payload, err := readPayload[suspendedPayload](event)
		if err != nil {
			return err
		}
		x.suspend(i, payload.InterruptID, time.Time{}) // who enters it again learns of a deadline
	case eventlog.NodeSkipped:
		node.state = skipped
	case eventlog.NodeCancelled:
		node.state = cut
	case eventlog.NodeRetried:
		x.retry(i)
		node.state = cut
	case eventlog.NodeDispatched:
		payload, err := readPayload[dispatchedPayload](event)
		if err != nil {
			return err
		}
		node.children = append(node.children, payload.ChildRunID)
	case eventlog.OrchestratorDecided:
		payload, err := readPayload[decidedPayload](event)
		if err != nil {
			return err
		}
		decision, err := workflow.ParseDecision(payload.Decision)
		if err != nil {
			return err
		}
		x.take(decision)
	case eventlog.NodeCompleted:
		payload, err := readPayload[nodeCompletedPayload](event)
		if err != nil {
			return err
		}
		x.complete(i, payload.Outputs)
	case eventlog.NodeFailed:
		payload, err := readPayload[nodeFailedPayload](event)
		if err != nil {
			return err
		}
		x.fail(i, payload.Error)
	}
	return nil
}

func (x *execution) start(i int) {
	node := &x.nodes[i]
	if node.attempts == 0 {
		x.executions++
	}
	node.state, node.skip = running, 0
	node.attempts++
}

// suspend leaves a node until its interrupt has a resolution. The attempt goes on then; it is not made anew.
func (x *execution) suspend(i int, interruptID string, deadline time.Time) {
	node := &x.nodes[i]
	node.state, node.awaits, node.deadline, node.due = suspendedNode, interruptID, deadline, false
}

// note remembers that an interrupt has its resolution.
func (x *execution) note(event eventlog.Event) error {
	resolution, err := readPayload[Resolution](event)
	if err == nil && x.resolved == nil {
		x.resolved = make(map[string]bool)
	}
	if err == nil {
		x.resolved[resolution.InterruptID] = true
	}
	return err
}

// waits reports whether a node waits for an interrupt.
func (x *execution) waits() bool {
	return slices.ContainsFunc(x.nodes, func(n nodeRun) bool { return n.state == suspendedNode && !n.due })
}

// complete settles a node. In a loop the supervisor's completion is the dispatch's turn, and the other way round.
func (x *execution) complete(i int, outputs Values) {
	x.outcomes[i]++
	node := &x.nodes[i]
	node.state, node.outputs = completed, outputs
	loop := x.def.Loop
	switch {
	case loop == nil:
	case i == loop.Supervisor:
		x.deciding = false
		if x.decision.Kind == workflow.KindNextWorker {
			node.state = turning
		} else if dispatch := &x.nodes[loop.Dispatch]; dispatch.outputs != nil {
			dispatch.state = completed
		}
	case i == loop.Dispatch:
		*node = nodeRun{outputs: outputs}
		x.nodes[loop.Supervisor] = nodeRun{}
	}
	x.loopBack(i)
}

// loopBack starts over what an edge that leads back from a completed node encloses.
func (x *execution) loopBack(i int) {
	for k, back := range x.def.Loopbacks {
		if back.Source != i || x.rounds[k]+1 >= x.def.MaxLoopback || !x.contributes(back.Edge) {
			continue
		}
		x.rounds[k]++
		for _, n := range back.Body {
			x.nodes[n] = nodeRun{}
		}
	}
}

// take records a decision of the supervisor.
func (x *execution) take(decision workflow.Decision) {
	x.turns++
	x.decision, x.deciding = decision, true
}

// retries reports whether the node may be tried once more after the attempt that has just failed.
func (x *execution) retries(i int) bool {
	return x.nodes[i].failures+1 < x.def.Nodes[i].Retry.MaxAttempts
}

// retry is the failure of an attempt that another one follows. What the attempt has started is no longer the node's.
func (x *execution) retry(i int) {
	x.nodes[i].failures++
	x.nodes[i].state, x.nodes[i].children = backoff, nil
}

// fail settles a node as failed, and the run with it unless a node behind it is there to handle the failure.
func (x *execution) fail(i int, reason ErrorPayload) {
	x.outcomes[i]++
	x.nodes[i].state, reason.Retryable = failed, nil // the run's own error has no such member
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

// interrupted takes back the starts that have no end: their attempts were cut.
func (x *execution) interrupted() {
	for i := range x.nodes {
		if state := x.nodes[i].state; state == running || state == backoff {
			x.nodes[i].state = cut
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
	if state := x.nodes[i].state; state != waiting && state != cut {
		return undecided
	}
	if loop := x.def.Loop; loop != nil && i == loop.Dispatch {
		return x.decideDispatch(x.nodes[loop.Supervisor].state)
	}
	var contributing, failures int
	for _, edge := range node.Incoming {
		state := x.nodes[edge.Source].state
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

// decideDispatch runs the dispatch on the supervisor's decision to go on, and only then.
func (x *execution) decideDispatch(supervisor nodeState) decision {
	switch {
	case supervisor == turning:
		return run
	case supervisor.settled():
		return skip
	}
	return undecided
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
	if x.nodes[edge.Source].state != completed {
		return false
	}
	return edge.Condition == nil || edge.Condition.Holds(func(path []string) any { return x.operand(edge, path) })
}

// operand resolves the left operand of a condition. "status" is the source's outcome, "variables.…" a variable of the
// run, "output.…" or a bare name the source's outputs.
func (x *execution) operand(edge workflow.Edge, path []string) any {
	outputs := x.nodes[edge.Source].outputs
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
			maps.Copy(merged, x.nodes[i].outputs)
		}
	}
	return merged
}

// resolve gives a node its inputs.
func (x *execution) resolve(i int) (Values, *NodeError) {
	node := &x.def.Nodes[i]
	inputs := make(Values, len(node.Inputs))
	for _, edge := range node.Incoming {
		if value, ok := x.nodes[edge.Source].outputs[edge.Output]; ok {
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
		value, ok := x.nodes[source].outputs[port.OutputKey]
		return value, ok
	}
}
