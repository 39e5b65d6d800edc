package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/workflow"
)

// codeGivenUp is the error of a run whose execution the host did not survive often enough.
const codeGivenUp = "recovery_exhausted"

// Recover drives a run that was accepted before this host was started, from where its log stands. It was given a place
// then, and takes one now however many are taken.
func (e *Engine) Recover(log eventlog.Log, def *workflow.Definition) bool {
	e.active.Add(1)
	return e.Start(log, def)
}

// Executing are the node.started events of the attempts that were being made when a log stopped. A node that waits, for
// an interrupt or for a run it has started, is not executing.
func Executing(events []eventlog.Event) []eventlog.Event {
	waiting := make(map[string]bool)
	for _, event := range events {
		switch event.Type {
		case eventlog.NodeStarted, eventlog.NodeResumed:
			waiting[event.NodeID] = false
		case eventlog.NodeSuspended, eventlog.NodeDispatched:
			waiting[event.NodeID] = true
		}
	}
	var executing []eventlog.Event
	for _, started := range inFlight(events) {
		if !waiting[started.NodeID] {
			executing = append(executing, started)
		}
	}
	return executing
}

// GiveUp ends a run as failed because its execution was interrupted by the death of the host that many times. It fails
// with eventlog.ErrEnded when the run has ended.
func (e *Engine) GiveUp(ctx context.Context, log eventlog.Log, nodeID string, attempts int) error {
	run := log.Run()
	reason := ErrorPayload{
		Code:    codeGivenUp,
		Message: fmt.Sprintf("The host ended in the middle of this run's node %d times in a row.", attempts),
	}
	var terminal eventlog.Draft
	err := e.end(ctx, log, &ending{nodeReason: "given up", trigger: workflow.OnNodeFailure, terminal: func() eventlog.Draft {
		terminal = e.draft("", "", eventlog.RunFailed, failedPayload{Error: reason, FailedNodeID: nodeID, DurationMs: e.since(run.CreatedAt)})
		return terminal
	}})
	if err != nil || !e.deadLetters {
		return err
	}
	_, err = log.Append(ctx, eventlog.AnySequence, e.draft("", terminal.EventID, eventlog.RunDeadLettered, deadLetteredPayload{
		RunID: run.ID, NodeID: nodeID, Reason: codeGivenUp, Attempts: attempts,
	}))
	return err
}

// runPinVersion takes a version of a change: the one the run is pinned to, or else the node's own, to which it pins the
// run.
func runPinVersion(_ context.Context, call *Call) (Values, error) {
	var change struct {
		ChangeID string `json:"changeId"`
		Version  int64  `json:"version"`
	}
	if err := call.DecodeConfig(&change); err != nil {
		return nil, err
	}
	taken, err := call.Version(change.ChangeID, 0, change.Version)
	if err != nil {
		return nil, err
	}
	version, err := json.Marshal(taken)
	return Values{"version": version}, err
}
