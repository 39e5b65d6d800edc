package referencehost

import (
	"encoding/json"
	"maps"
	"strconv"
	"time"

	"wopcert/reference-host/internal/compensation"
	"wopcert/reference-host/internal/eventlog"
)

// projection is the fold of a log that every reader of a run shares: snapshot, list, poll and the values stream.
type projection struct {
	run       eventlog.Run
	standing  eventlog.Standing
	started   time.Time
	ended     time.Time
	last      int64
	failure   json.RawMessage
	variables map[string]json.RawMessage
	copied    bool // variables is this projection's own
	seen      compensation.Seen
}

func newProjection(run eventlog.Run) *projection {
	return &projection{run: run, standing: eventlog.NewStanding(run), last: -1, variables: run.Variables}
}

// project folds a whole log.
func projectLog(log eventlog.Log) (*projection, error) {
	events, err := log.Read(-1)
	if err != nil {
		return nil, err
	}
	return foldEvents(log.Run(), events)
}

func foldEvents(run eventlog.Run, events []eventlog.Event) (*projection, error) {
	p := newProjection(run)
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
	p.standing.Apply(&event)
	p.seen.Apply(&event)
	switch event.Type {
	case eventlog.RunStarted:
		p.started = event.Timestamp
	case eventlog.RunCompleted, eventlog.RunCancelled:
		p.ended = event.Timestamp
	case eventlog.RunFailed:
		p.ended = event.Timestamp
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

func (p *projection) status() string { return p.standing.Status() }

func (p *projection) terminal() bool { return p.standing.Ended() }

// etag is derived from the latest sequence: every observable change of a run is an event (runs.md §Caching and
// encoding).
func (p *projection) etag() string { return `"` + strconv.FormatInt(p.last, 10) + `"` }

// snapshot is the RunSnapshot of the schema, with the members this host has something to say about.
type snapshot struct {
	RunID                 string                     `json:"runId"`
	WorkflowID            string                     `json:"workflowId"`
	Status                string                     `json:"status"`
	Owner                 eventlog.Owner             `json:"owner"`
	CurrentNodeID         string                     `json:"currentNodeId,omitempty"`
	Agent                 *agentRef                  `json:"agent,omitempty"`
	RunOrchestrator       *agentRef                  `json:"runOrchestrator,omitempty"`
	ParentRunID           string                     `json:"parentRunId,omitempty"`
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
	CompensationStatus    string                     `json:"compensationStatus,omitempty"`
}

// agentRef names an agent (agent-ref schema).
type agentRef struct {
	AgentID string `json:"agentId"`
}

func (p *projection) snapshot() snapshot {
	var agent, orchestrator *agentRef
	if p.run.Eval != nil {
		agent = &agentRef{p.run.Eval.AgentID}
	}
	if p.run.Orchestrator != "" {
		orchestrator = &agentRef{p.run.Orchestrator}
	}
	return snapshot{
		RunID: p.run.ID, WorkflowID: p.run.WorkflowID, Status: p.status(), Owner: p.run.Owner,
		CurrentNodeID: p.standing.Node(), Agent: agent, RunOrchestrator: orchestrator, ParentRunID: p.run.ForkOf,
		EventLogSchemaVersion: p.run.LogSchemaVersion(), EngineVersion: p.run.EngineVersion,
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
