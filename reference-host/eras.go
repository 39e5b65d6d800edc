package referencehost

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"wopcert/reference-host/internal/era"
	"wopcert/reference-host/internal/eventlog"
)

// What a run says that could not be taken over (persistence.md §Runs pinned to v1).
const (
	pinUnsupported = "v1_pin_unsupported"
	cutover        = "v2-cutover"
)

// unknownWorkflow is the workflow of a v1 run whose log does not name one.
const unknownWorkflow = "unknown"

// eraSeams are the seams that bring runs of a v1 host into the store.
func (h *Host) eraSeams() map[string]route {
	return map[string]route{"seedEra2EventLog": {answer: h.seedLog}}
}

// seedBody is the seedEra2EventLog body once the schema has accepted it.
type seedBody struct {
	Status string    `json:"status"`
	Events []seedRow `json:"events"`
}

// seedRow is one row as a v1 host stored it.
type seedRow struct {
	Type        string          `json:"type"`
	Sequence    int64           `json:"sequence"`
	Payload     json.RawMessage `json:"payload"`
	Timestamp   string          `json:"timestamp"`
	CausationID string          `json:"causationId"`
}

// seedLog stores a run as if a v1 host had left it, rows as they are, and takes it over like one that was found at the
// start of the host.
func (h *Host) seedLog(r *request) (*answer, error) {
	var body seedBody
	if err := h.requiredBody(r, "seams#/$defs/seedRequest", &body); err != nil {
		return nil, err
	}
	rows, err := h.seedRows(body.Events)
	if err != nil {
		return nil, err
	}
	if err := h.checkSeed(body.Status, rows); err != nil {
		return nil, err
	}
	run, err := h.seedRun(r, body.Status, rows)
	if err != nil {
		return nil, err
	}
	log, err := h.store.Create(r.Context(), run, false, rows...)
	if err != nil {
		return nil, err
	}
	if err := h.inherit(r.Context(), log); err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusCreated, map[string]string{"runId": run.ID}), nil
}

// seedRows makes drafts of the rows. A log has every sequence from 0 on once; a row is given what its store kept of it
// beside what the seam carries: an event id, the time, and the node the payload is about.
func (h *Host) seedRows(rows []seedRow) ([]eventlog.Draft, error) {
	slices.SortStableFunc(rows, func(a, b seedRow) int { return cmp.Compare(a.Sequence, b.Sequence) })
	drafts := make([]eventlog.Draft, len(rows))
	now := h.clock.Now()
	for i, row := range rows {
		if row.Sequence != int64(i) {
			return nil, h.codes.invalid("events", "The rows of a log have the sequences from 0 on, each of them once.")
		}
		var payload bytes.Buffer
		if err := json.Compact(&payload, row.Payload); err != nil {
			return nil, h.codes.malformed(err)
		}
		draft := eventlog.Draft{
			EventID: h.ids.Opaque(), Type: row.Type, Payload: payload.Bytes(), CausationID: row.CausationID,
			Timestamp: now, Written: row.Timestamp,
		}
		if row.Timestamp != "" {
			var err error
			if draft.Timestamp, err = time.Parse(time.RFC3339, row.Timestamp); err != nil {
				return nil, h.codes.invalid("events", "A timestamp is not an ISO 8601 time with a zone.")
			}
		}
		var about struct {
			NodeID any `json:"nodeId"`
		}
		if err := json.Unmarshal(draft.Payload, &about); err == nil {
			if node, ok := about.NodeID.(string); ok && isAuthorID(node) {
				draft.NodeID = node
			}
		}
		drafts[i] = draft
	}
	return drafts, nil
}

// checkSeed refuses a status that the log contradicts.
func (h *Host) checkSeed(status string, rows []eventlog.Draft) error {
	ends := map[string]string{
		eventlog.RunCompleted: eventlog.StatusCompleted, eventlog.RunFailed: eventlog.StatusFailed,
		eventlog.RunCancelled: eventlog.StatusCancelled,
	}
	ended := false
	for _, row := range rows {
		if ended && ends[row.Type] != "" {
			return h.codes.invalid("events", "A log ends once.")
		}
		if end := ends[row.Type]; end != "" {
			if ended = true; end != status {
				return h.codes.invalid("status", "The log ends in another status.")
			}
		}
	}
	return nil
}

// seedRun makes the record of a v1 run from its start event. Nothing stamps its era: it is the one without a stamp.
func (h *Host) seedRun(r *request, status string, rows []eventlog.Draft) (eventlog.Run, error) {
	owner, err := era.OwnerOf(rows, r.principal.tenant())
	if err != nil {
		return eventlog.Run{}, h.codes.invalid("events", "The start event names an owner that does not fit: "+err.Error()+".")
	}
	limits := h.config.Limits
	run := eventlog.Run{
		ID: h.mintRunID(owner.Tenant), Owner: owner, WorkflowID: unknownWorkflow, EngineVersion: engineVersion, CreatedAt: h.clock.Now(),
		Deadline: h.clock.Now().Add(limits.MaxRunDuration), MaxNodeExecutions: limits.MaxNodeExecutions,
		MaxLoopIterations: limits.MaxLoopIterations, Era: eventlog.EraV1, Held: status,
	}
	if rows[0].Type != eventlog.RunStarted {
		return run, nil
	}
	var started struct {
		WorkflowID string          `json:"workflowId"`
		Inputs     json.RawMessage `json:"inputs"`
		Tags       []string        `json:"tags"`
		Metadata   json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(rows[0].Payload, &started); err != nil {
		return run, nil //nolint:nilerr // a malformed row is refused where it is read
	}
	if isAuthorID(started.WorkflowID) {
		run.WorkflowID = started.WorkflowID
	}
	run.Inputs, run.Tags, run.Metadata = started.Inputs, started.Tags, started.Metadata
	if definition, ok := h.workflows[run.WorkflowID]; ok {
		var inputs map[string]json.RawMessage
		if err := json.Unmarshal([]byte(cmp.Or(string(run.Inputs), "{}")), &inputs); err == nil {
			run.Variables, _ = definition.Seed(inputs) // inputs that do not fit have their say when a node needs them
		}
		if definition.Loop != nil {
			run.Orchestrator = definition.Loop.AgentID
		}
	}
	return run, nil
}

// inherit takes over a v1 run that has not ended: it goes on, or it is cancelled because it is pinned to a change this
// host does not implement any more. It never follows a pin it cannot honour (persistence.md §Runs pinned to v1).
func (h *Host) inherit(ctx context.Context, log eventlog.Log) error {
	events, err := log.Read(-1)
	if unreadable(err) {
		return nil // no reader can have it, so nobody can take it on either
	}
	if err != nil {
		return err
	}
	if standing := eventlog.StandingOf(log.Run(), events); standing.Ended() {
		return nil
	}
	changes, err := era.Pins(events)
	if err != nil {
		return err
	}
	for _, change := range changes {
		if !slices.Contains(h.config.Changes, change) {
			err := h.engine.Cancel(ctx, log, pinUnsupported, cutover)
			if errors.Is(err, eventlog.ErrEnded) {
				return nil
			}
			return err
		}
	}
	return h.carryOn(log)
}

// unreadable reports whether an error says that a log cannot be read as it is stored.
func unreadable(err error) bool {
	var unmapped *era.UnmappedError
	var malformed *era.MalformedError
	return errors.As(err, &unmapped) || errors.As(err, &malformed)
}
