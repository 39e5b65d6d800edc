package eventlog

import (
	"encoding/json"
	"slices"
)

// The run states this host projects (runs.md §Snapshot).
const (
	StatusPending         = "pending"
	StatusRunning         = "running"
	StatusPaused          = "paused"
	StatusWaitingApproval = "waiting-approval"
	StatusWaitingInput    = "waiting-input"
	StatusWaitingExternal = "waiting-external"
	StatusCompleted       = "completed"
	StatusFailed          = "failed"
	StatusCancelled       = "cancelled"
)

// Standing is the fold of a log that tells where its run stands. Every reader and the engine use this one fold.
type Standing struct {
	base      string
	held      string
	forkPoint int64
	waits     []wait
}

// wait is a node that is suspended, and the status it gives the run.
type wait struct{ node, status string }

// NewStanding is where a run stands before its first event.
func NewStanding(run Run) Standing {
	s := Standing{base: StatusPending, forkPoint: run.ForkPoint}
	switch {
	case Ended(run.Held):
		s.held = run.Held
	case run.Held != "":
		s.base = run.Held
	}
	return s
}

// StandingOf folds a whole log.
func StandingOf(run Run, events []Event) Standing {
	s := NewStanding(run)
	for i := range events {
		s.Apply(&events[i])
	}
	return s
}

// Apply folds one event. Types it does not know change nothing.
func (s *Standing) Apply(event *Event) {
	switch event.Type {
	case RunStarted:
		s.base = StatusRunning
	case RunPaused, RunResumed:
		if event.Sequence < s.forkPoint {
			return // history of the run this one was forked from: it changes no projected state (runs.md §Pause and resume)
		}
		s.base = StatusPaused
		if event.Type == RunResumed {
			s.base = StatusRunning
		}
	case RunCompleted:
		s.base = StatusCompleted
	case RunFailed:
		s.base = StatusFailed
	case RunCancelled:
		s.base = StatusCancelled
	case NodeSuspended:
		s.waits = append(s.waits, wait{event.NodeID, waitingStatus(event.Payload)})
	case NodeResumed, InterruptResolved, NodeCompleted, NodeFailed, NodeSkipped, NodeCancelled, NodeRetried:
		if len(s.waits) > 0 {
			s.waits = slices.DeleteFunc(slices.Clone(s.waits), func(w wait) bool { return w.node == event.NodeID })
		}
	}
}

// waitingStatus tells from the kind of the interrupt what the run waits for.
func waitingStatus(payload json.RawMessage) string {
	var suspended struct {
		Kind string `json:"kind"`
	}
	_ = json.Unmarshal(payload, &suspended) // without a kind somebody has to answer something
	switch suspended.Kind {
	case "external-event":
		return StatusWaitingExternal
	case "approval", "low-confidence": // somebody has to ratify
		return StatusWaitingApproval
	}
	return StatusWaitingInput
}

// Status is the status of the run.
func (s *Standing) Status() string {
	if s.held != "" && !Ended(s.base) {
		return s.held
	}
	if s.base == StatusRunning && len(s.waits) > 0 {
		return s.waits[0].status
	}
	return s.base
}

// Node is the node the run waits at, "" when it is not suspended.
func (s *Standing) Node() string {
	if s.held == "" && s.base == StatusRunning && len(s.waits) > 0 {
		return s.waits[0].node
	}
	return ""
}

// Ended reports whether the terminal event is in the log, or the run came with an end of its own.
func (s *Standing) Ended() bool { return s.held != "" || Ended(s.base) }

// Ended reports whether a status is one that ends a run.
func Ended(status string) bool {
	return status == StatusCompleted || status == StatusFailed || status == StatusCancelled
}
