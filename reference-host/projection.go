package referencehost

import (
	"encoding/json"
	"maps"
	"strconv"
	"time"

	"wopcert/reference-host/internal/eventlog"
)

// The run states this host projects (runs.md §Snapshot).
const (
	statusPending   = "pending"
	statusRunning   = "running"
	statusCompleted = "completed"
	statusFailed    = "failed"
	statusCancelled = "cancelled"
)

// projection is the fold of a log that every reader of a run shares: snapshot, list, poll and the values stream.
type projection struct {
	run       eventlog.Run
	status    string
	started   time.Time
	ended     time.Time
	last      int64
	failure   json.RawMessage
	variables map[string]json.RawMessage
	copied    bool // variables is this projection's own
}

func newProjection(run eventlog.Run) *projection {
	return &projection{run: run, status: statusPending, last: -1, variables: run.Variables}
}

// project folds a whole log.
func projectLog(log eventlog.Log) (*projection, error) {
	events, err := log.Read(-1)
	if err != nil {
		return nil, err
	}
	p := newProjection(log.Run())
	for _, event := range events {
		if err := p.apply(event); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// apply folds one event. Types it does not know change nothing but the sequence.
func (p *projection) apply(event eventlog.Event) error {
	p.last = event.Sequence
	switch event.Type {
	case eventlog.RunStarted:
		p.status, p.started = statusRunning, event.Timestamp
	case eventlog.RunCompleted:
		p.status, p.ended = statusCompleted, event.Timestamp
	case eventlog.RunCancelled:
		p.status, p.ended = statusCancelled, event.Timestamp
	case eventlog.RunFailed:
		p.status, p.ended = statusFailed, event.Timestamp
		var payload struct {
			Error json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(event.Payload, &payload); err != nil {
			return err
		}
		p.failure = payload.Error
	case eventlog.VariableChanged:
		var payload struct {
			Name string          `json:"name"`
			Next json.RawMessage `json:"next"`
		}
		if err := json.Unmarshal(event.Payload, &payload); err != nil {
			return err
		}
		p.setVariable(payload.Name, payload.Next)
	}
	return nil
}

// setVariable copies the run's own map before it writes: the run is shared.
func (p *projection) setVariable(name string, value json.RawMessage) {
	if !p.copied {
		p.variables, p.copied = maps.Clone(p.variables), true
		if p.variables == nil {
			p.variables = make(map[string]json.RawMessage)
		}
	}
	p.variables[name] = value
}

func (p *projection) terminal() bool {
	return p.status == statusCompleted || p.status == statusFailed || p.status == statusCancelled
}

// etag is derived from the latest sequence: every observable change of a run is an event (runs.md §Caching and
// encoding).
func (p *projection) etag() string { return `"` + strconv.FormatInt(p.last, 10) + `"` }

// snapshot is the RunSnapshot of the schema, with the members this host has something to say about.
type snapshot struct {
	RunID                 string                     `json:"runId"`
	WorkflowID            string                     `json:"workflowId"`
	Status                string                     `json:"status"`
	Owner                 eventlog.Owner             `json:"owner"`
	EventLogSchemaVersion int                        `json:"eventLogSchemaVersion"`
	EngineVersion         int                        `json:"engineVersion"`
	StartedAt             string                     `json:"startedAt,omitempty"`
	CompletedAt           string                     `json:"completedAt,omitempty"`
	Inputs                json.RawMessage            `json:"inputs,omitempty"`
	Variables             map[string]json.RawMessage `json:"variables,omitempty"`
	Configurable          json.RawMessage            `json:"configurable,omitempty"`
	Tags                  []string                   `json:"tags,omitzero"`
	Metadata              json.RawMessage            `json:"metadata,omitempty"`
	Error                 json.RawMessage            `json:"error,omitempty"`
}

func (p *projection) snapshot() snapshot {
	return snapshot{
		RunID: p.run.ID, WorkflowID: p.run.WorkflowID, Status: p.status, Owner: p.run.Owner,
		EventLogSchemaVersion: eventLogSchemaVersion, EngineVersion: p.run.EngineVersion,
		StartedAt: stamp(p.started), CompletedAt: stamp(p.ended),
		Inputs: p.run.Inputs, Variables: p.variables, Configurable: p.run.Configurable,
		Tags: p.run.Tags, Metadata: p.run.Metadata, Error: p.failure,
	}
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(eventlog.TimestampFormat)
}
