package engine

import (
	"encoding/json"

	"wopcert/reference-host/internal/eventlog"
)

// The payloads this engine writes, one type for each definition of the payload registry (events.md §Payloads).

type startedPayload struct {
	WorkflowID    string          `json:"workflowId"`
	Inputs        json.RawMessage `json:"inputs,omitempty"`
	Transport     string          `json:"transport"`
	EngineVersion int             `json:"engineVersion"`
	Owner         eventlog.Owner  `json:"owner"`
	Tags          []string        `json:"tags,omitempty"`
	Metadata      json.RawMessage `json:"metadata,omitempty"`
}

type completedPayload struct {
	Outputs    Values `json:"outputs"` // required even when empty
	DurationMs int64  `json:"durationMs"`
}

// ErrorPayload is the error of a failed node or run.
type ErrorPayload struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
	// Retryable is nil where the node leaves open whether another attempt could do better.
	Retryable *bool `json:"retryable,omitempty"`
}

type failedPayload struct {
	Error        ErrorPayload `json:"error"`
	FailedNodeID string       `json:"failedNodeId,omitempty"`
	DurationMs   int64        `json:"durationMs"`
}

type cancelledPayload struct {
	Reason      string `json:"reason,omitempty"`
	CancelledBy string `json:"cancelledBy,omitempty"`
	DurationMs  int64  `json:"durationMs"`
	ParentRunID string `json:"parentRunId,omitempty"`
}

type pausedPayload struct {
	Reason             string `json:"reason,omitempty"`
	DrainPolicy        string `json:"drainPolicy"`
	InterruptedNodeID  string `json:"interruptedNodeId,omitempty"`
	InterruptedAttempt int    `json:"interruptedAttempt,omitempty"`
}

type resumedPayload struct {
	Reason string `json:"reason,omitempty"`
}

type deadLetteredPayload struct {
	RunID    string `json:"runId"`
	NodeID   string `json:"nodeId,omitempty"`
	Reason   string `json:"reason"`
	Attempts int    `json:"attempts"`
}

// nodeRetriedPayload names the attempt that is made next.
type nodeRetriedPayload struct {
	NodeID    string       `json:"nodeId"`
	Attempt   int          `json:"attempt"`
	DelayMs   int64        `json:"delayMs"`
	LastError ErrorPayload `json:"lastError"`
}

type dispatchedPayload struct {
	ChildRunID      string `json:"childRunId"`
	ChildWorkflowID string `json:"childWorkflowId"`
	ChildStatus     string `json:"childStatus,omitempty"`
}

type decidedPayload struct {
	AgentID   string          `json:"agentId"`
	Decision  json.RawMessage `json:"decision"`
	Iteration int             `json:"iteration"`
}

type suspendedPayload struct {
	NodeID      string `json:"nodeId"`
	InterruptID string `json:"interruptId"`
	Kind        string `json:"kind"`
	Key         string `json:"key"`
	Reason      string `json:"reason,omitempty"`
}

type resumedNodePayload struct {
	NodeID      string          `json:"nodeId"`
	InterruptID string          `json:"interruptId"`
	ResumeValue json.RawMessage `json:"resumeValue,omitempty"`
}

// readPayload decodes the payload of an event this engine wrote.
func readPayload[P any](event eventlog.Event) (payload P, err error) {
	err = json.Unmarshal(event.Payload, &payload)
	return payload, err
}

type nodeStartedPayload struct {
	NodeID  string `json:"nodeId"`
	TypeID  string `json:"typeId"`
	Attempt int    `json:"attempt"`
}

type nodeCompletedPayload struct {
	NodeID     string `json:"nodeId"`
	Outputs    Values `json:"outputs,omitempty"`
	DurationMs int64  `json:"durationMs"`
}

type nodeFailedPayload struct {
	NodeID   string       `json:"nodeId"`
	Error    ErrorPayload `json:"error"`
	Attempts int          `json:"attempts"`
}

// nodeEndedPayload serves node.skipped and node.cancelled.
type nodeEndedPayload struct {
	NodeID string `json:"nodeId"`
	Reason string `json:"reason,omitempty"`
}

type breachPayload struct {
	Kind     string `json:"kind"`
	Limit    int64  `json:"limit"`
	Observed int64  `json:"observed"`
	NodeID   string `json:"nodeId,omitempty"`
}

type logPayload struct {
	Level   string         `json:"level"`
	Message string         `json:"message"`
	NodeID  string         `json:"nodeId"`
	Fields  map[string]any `json:"fields,omitempty"`
}

type chunkPayload struct {
	NodeID string         `json:"nodeId"`
	RunID  string         `json:"runId"`
	Chunk  string         `json:"chunk"`
	IsLast bool           `json:"isLast"`
	Meta   map[string]any `json:"meta,omitempty"`
}

type variablePayload struct {
	Name     string          `json:"name"`
	Previous json.RawMessage `json:"previous,omitempty"`
	Next     json.RawMessage `json:"next,omitempty"`
	NodeID   string          `json:"nodeId,omitempty"`
}
