// Package eventlog holds the event log of each run, which is the only state a run has (events.md §Why this exists),
// and the records that outlive a request: the index of runs, the holders of a scope, the idempotency records.
package eventlog

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// The run and node types the host itself reasons about (events.md §Types).
const (
	RunStarted      = "run.started"
	RunCompleted    = "run.completed"
	RunFailed       = "run.failed"
	RunCancelled    = "run.cancelled"
	RunPaused       = "run.paused"
	RunResumed      = "run.resumed"
	RunDeadLettered = "run.dead-lettered"
	NodeStarted     = "node.started"
	NodeCompleted   = "node.completed"
	NodeFailed      = "node.failed"
	NodeSkipped     = "node.skipped"
	NodeCancelled   = "node.cancelled"
	NodeSuspended   = "node.suspended"
	NodeResumed     = "node.resumed"
	NodeRetried     = "node.retried"
	NodeDispatched  = "node.dispatched"
	CapBreached     = "cap.breached"
	OutputChunk     = "output.chunk"
	LogAppended     = "log.appended"
	VariableChanged = "variable.changed"

	InterruptRequested     = "interrupt.requested"
	InterruptResolved      = "interrupt.resolved"
	NodeSuspendFailed      = "node.suspend-failed"
	ApprovalRequested      = "approval.requested"
	ApprovalReceived       = "approval.received"
	ApprovalGranted        = "approval.granted"
	ApprovalRejected       = "approval.rejected"
	ApprovalOverridden     = "approval.overridden"
	ClarificationRequested = "clarification.requested"
	ClarificationResolved  = "clarification.resolved"
	AgentDecided           = "agent.decided"
	OrchestratorDecided    = "orchestrator.decided"
	VersionPinned          = "version.pinned"

	EnvelopeRefusal         = "envelope.refusal"
	ReplayDiverged          = "replay.diverged"
	ReplayDivergedAtRefusal = "replay.diverged-at-refusal"

	CompensationRequested = "compensation.requested"
	CompensationStarted   = "compensation.started"
	CompensationCompleted = "compensation.completed"
	CompensationFailed    = "compensation.failed"
	CompensationPaused    = "compensation.paused"
	CompensationManual    = "compensation.manual-intervention-required"
)

// PayloadSchemaVersion is the schemaVersion of every event this host writes.
const PayloadSchemaVersion = 1

// Draft is an event before the log has given it its place.
type Draft struct {
	// EventID is host-minted (identity.md §5).
	EventID string
	Type    string
	// Payload is the encoded payload, compact JSON. It is not changed after Append.
	Payload     json.RawMessage
	NodeID      string
	CausationID string
	Timestamp   time.Time
	// Written is the timestamp as the row of a v1 host spells it, "" for how this host writes Timestamp. A log never
	// moves it.
	Written string
}

// Settle moves the time of a draft to that of the event before it where it lies behind: two writers, or a clock set
// back, must not reorder a log.
func (d *Draft) Settle(before *Event) {
	if before != nil && d.Written == "" && d.Timestamp.Before(before.Timestamp) {
		d.Timestamp = before.Timestamp
	}
}

// Event is one entry of a log. It never changes.
type Event struct {
	Draft
	RunID         string
	Sequence      int64
	EngineVersion int
}

// TimestampFormat is how the host writes a time: UTC with milliseconds (ISO 8601).
const TimestampFormat = "2006-01-02T15:04:05.000Z"

// AppendJSON appends the event as a RunEventDoc (events.md §The envelope), compact and without a line end.
func (e Event) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"eventId":`...)
	dst = appendString(dst, e.EventID)
	dst = append(dst, `,"runId":`...)
	dst = appendString(dst, e.RunID)
	dst = append(dst, `,"type":`...)
	dst = appendString(dst, e.Type)
	dst = append(dst, `,"payload":`...)
	dst = append(dst, e.Payload...)
	dst = append(dst, `,"timestamp":`...)
	if e.Written != "" {
		dst = appendString(dst, e.Written)
	} else {
		dst = append(dst, '"')
		dst = e.Timestamp.UTC().AppendFormat(dst, TimestampFormat)
		dst = append(dst, '"')
	}
	dst = append(dst, `,"sequence":`...)
	dst = strconv.AppendInt(dst, e.Sequence, 10)
	dst = append(dst, `,"schemaVersion":`...)
	dst = strconv.AppendInt(dst, PayloadSchemaVersion, 10)
	if e.NodeID != "" {
		dst = append(dst, `,"nodeId":`...)
		dst = appendString(dst, e.NodeID)
	}
	dst = append(dst, `,"engineVersion":`...)
	dst = strconv.AppendInt(dst, int64(e.EngineVersion), 10)
	if e.CausationID != "" {
		dst = append(dst, `,"causationId":`...)
		dst = appendString(dst, e.CausationID)
	}
	return append(dst, '}')
}

// MarshalJSON makes an Event encode as its RunEventDoc.
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

// appendString quotes text from a grammar that needs no escapes, and falls back to encoding/json for the rest.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // a string always encodes
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// Terminal reports whether an event of this type ends its run (events.md §The terminal event).
func Terminal(eventType string) bool {
	return eventType == RunCompleted || eventType == RunFailed || eventType == RunCancelled
}

// MayFollowTerminal reports whether an event of this type may stand after the terminal one: what a compensation
// records, the dead-letter notice, and the types that are no registered one of the protocol. Registered types beyond
// those are forward execution and are refused, also the ones events.md does not list by name, because nothing may still
// execute. registered gives a type its version 2 name, for a log of either era.
func MayFollowTerminal(eventType string, registered func(eventType string) (v2 string, ok bool)) bool {
	v2, ok := registered(eventType)
	return !ok || strings.HasPrefix(v2, "compensation.") || v2 == RunDeadLettered
}
