// Package envelope decides about the AI envelopes a node emits: the contracts E1 to E5, the kind catalog, the schema
// versions and the node's own contract (events.md §AI envelopes, §The envelope-kind catalog, §Envelope contracts).
//
// It keeps nothing. What a run has recorded is read from the run's log, and what it is to record is returned.
package envelope

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"wopcert/reference-host/internal/eventlog"
)

// Policy is what a host advertises about envelopes, and what it needs to hold an envelope to it.
type Policy struct {
	// Kinds is the catalog; nil makes no catalog claim, and then only universal kinds are admitted.
	Kinds map[string]bool
	// Floors are the advertised schema versions; a kind that is not there has 0.
	Floors map[string]int64
	// Strict refuses an envelope below its floor; otherwise it is held to the advertised version and logged.
	Strict bool
	// Contracts enforces the contracts of nodes.
	Contracts bool
	// Orgs are the registered organisations.
	Orgs []string
	// Limits bound one attempt of a node.
	Limits Limits
	// Validate holds a decoded value to a schema of the contract.
	Validate func(schema string, value any) error
	// Mint makes the envelope id that an emission lacks.
	Mint func() string
}

// Limits are the limits of one attempt, which is one turn.
type Limits struct{ ClarificationRounds, SchemaRounds, EnvelopesPerTurn int64 }

// The outcomes of an emission.
const (
	// Accepted: the envelope is complete and recorded.
	Accepted = "accepted"
	// Partial: the chunk is recorded and the emission goes on.
	Partial = "partial"
)

// The messages of the log lines that record envelopes.
const (
	acceptedMessage = "envelope accepted"
	chunkMessage    = "envelope chunk recorded"
	driftMessage    = "envelope_schema_version_drift"
)

// Line is a line to record in the run's log, caused by the envelope with this correlation id.
type Line struct {
	Level, Message, CorrelationID string
	Fields                        map[string]any
}

// Refusal says why an envelope is not admitted. Code is registered (errors.md §The registry).
type Refusal struct {
	Code, Message string
	Details       map[string]any
	// Breach is set when a limit was reached.
	Breach *Breach
}

// Breach is what cap.breached reports.
type Breach struct {
	Kind            string
	Limit, Observed int64
}

func (r *Refusal) Error() string { return r.Code + ": " + r.Message }

// Decision is what becomes of one emission. Lines are recorded whether it is admitted or refused; a re-emission has
// none.
type Decision struct {
	CorrelationID, Outcome string
	Lines                  []Line
	Refused                *Refusal
}

// document is an ai-envelope once its schema has accepted it.
type document struct {
	Type          string  `json:"type"`
	SchemaVersion integer `json:"schemaVersion"`
	CorrelationID string  `json:"correlationId"`
	Partial       *struct {
		IsPartial bool    `json:"isPartial"`
		Index     integer `json:"index"`
		Total     integer `json:"total"`
	} `json:"partial"`
	payload any
}

// integer is a whole number however it is spelled: 2, 2.0 and 2e0 are one number to a schema.
type integer int64

// UnmarshalJSON reads what the schema has accepted as an integer.
func (n *integer) UnmarshalJSON(text []byte) error {
	value, err := strconv.ParseFloat(string(text), 64)
	*n = integer(min(value, math.MaxInt32))
	return err
}

// record is what a log tells about one correlation id.
type record struct {
	kind     string
	complete bool
	chunks   []any
}

// History is what the log of a run tells about its envelopes.
type History struct {
	byCorrelation map[string]*record
	// drifted are the correlation ids for which a drift is logged
	drifted map[string]bool
	// of the node's current attempt: complete envelopes by kind, and all of them
	turn  map[string]int64
	total int64
}

// Read folds a log as the node at nodeID sees it.
func Read(log []eventlog.Event, nodeID string) *History {
	h := &History{byCorrelation: make(map[string]*record), drifted: make(map[string]bool), turn: make(map[string]int64)}
	for _, event := range log {
		switch {
		case event.Type == eventlog.NodeStarted && event.NodeID == nodeID:
			h.turn, h.total = make(map[string]int64), 0
		case event.Type == eventlog.LogAppended && event.CausationID != "":
			h.fold(event, event.NodeID == nodeID)
		}
	}
	return h
}

func (h *History) fold(event eventlog.Event, own bool) {
	var line struct {
		Message string `json:"message"`
		Fields  struct {
			Type    string `json:"type"`
			Payload any    `json:"payload"`
		} `json:"fields"`
	}
	if json.Unmarshal(event.Payload, &line) != nil {
		return
	}
	if strings.HasPrefix(line.Message, driftMessage) {
		h.drifted[event.CausationID] = true
	}
	if line.Message != acceptedMessage && line.Message != chunkMessage {
		return
	}
	held := h.byCorrelation[event.CausationID]
	if held == nil {
		held = &record{kind: line.Fields.Type}
		h.byCorrelation[event.CausationID] = held
	}
	if line.Message == chunkMessage {
		held.chunks = append(held.chunks, line.Fields.Payload)
		return
	}
	held.complete = true
	if own {
		h.turn[held.kind]++
		h.total++
	}
}
