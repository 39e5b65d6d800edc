package referencehost

import (
	"encoding/json"
	"net/http"
	"slices"

	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/workflow"
)

// The modes of a fork (runs.md §Fork).
const (
	forkReplay = "replay"
	forkBranch = "branch"
)

// forkBody is the forkRun body once the schema has accepted it.
type forkBody struct {
	Mode    string `json:"mode"`
	FromSeq *int64 `json:"fromSeq"`
	Overlay struct {
		Configurable json.RawMessage `json:"configurable"`
		Tags         []string        `json:"tags"`
		Metadata     json.RawMessage `json:"metadata"`
	} `json:"runOptionsOverlay"`
}

// forked is the forkRun response.
type forked struct {
	RunID       string `json:"runId"`
	SourceRunID string `json:"sourceRunId"`
	FromSeq     int64  `json:"fromSeq"`
	Mode        string `json:"mode"`
	Status      string `json:"status"`
	EventsURL   string `json:"eventsUrl"`
}

// forkRun starts a run that shares the history of another one up to a sequence and executes from there on.
func (h *Host) forkRun(r *request) (*answer, error) {
	source, err := h.openRun(r)
	if err != nil {
		return nil, err
	}
	var body forkBody
	if err := h.requiredBody(r, "fork-request", &body); err != nil {
		return nil, err
	}
	if !slices.Contains(h.facetWords("replay", "modes"), body.Mode) {
		return nil, h.codes.invalid("mode", "This host does not fork in that mode.")
	}
	var from int64
	if body.FromSeq != nil {
		from = *body.FromSeq
	}
	history, err := h.history(source, from)
	if err != nil {
		return nil, err
	}
	run, definition, err := h.forkOf(r, source, &body)
	if err != nil {
		return nil, err
	}
	run.ForkPoint, run.ForkMode = from, body.Mode
	if origin := source.Run(); body.Mode == forkReplay {
		run.Seed = origin.Origin()
	}
	if len(history) == 0 {
		history = []eventlog.Draft{h.engine.StartEvent(&run, "rest")}
	}
	if !h.engine.Reserve() {
		return nil, h.codes.busy("active runs")
	}
	response := jsonAnswer(http.StatusCreated, forked{
		RunID: run.ID, SourceRunID: r.id, FromSeq: from, Mode: body.Mode, Status: standsAt(run, history),
		EventsURL: "/runs/" + project(run.ID) + "/events",
	})
	log, err := h.store.Create(h.answering(r, response), run, false, history...)
	if err != nil {
		h.engine.Release()
		return nil, err
	}
	h.engine.Start(log, definition)
	return response, nil
}

// standsAt is the status of a run whose log holds these events and nothing of its own.
func standsAt(run eventlog.Run, history []eventlog.Draft) string {
	standing := eventlog.NewStanding(run)
	for i, draft := range history {
		standing.Apply(&eventlog.Event{Draft: draft, RunID: run.ID, Sequence: int64(i)})
	}
	return standing.Status()
}

// history copies the events before the fork point. They are the same events under other ids: type, payload, sequence,
// time and cause stay.
func (h *Host) history(source eventlog.Log, from int64) ([]eventlog.Draft, error) {
	events, err := source.Read(-1)
	if err != nil {
		return nil, err
	}
	if err := h.checkRetention(source, events, from); err != nil {
		return nil, err
	}
	last := int64(len(events)) - 1
	if i := slices.IndexFunc(events, func(e eventlog.Event) bool { return eventlog.Terminal(e.Type) }); i >= 0 {
		last = int64(i) // a run is not forked from behind its end
	}
	if from > last {
		return nil, h.codes.noForkPoint(last)
	}
	ids := make(map[string]string, from)
	drafts := make([]eventlog.Draft, 0, from)
	for _, event := range events[:from] {
		draft := event.Draft
		draft.EventID = h.ids.Opaque()
		ids[event.EventID] = draft.EventID
		if copied, ok := ids[event.CausationID]; ok { // else it names an envelope, which has no other id in the fork
			draft.CausationID = copied
		}
		drafts = append(drafts, draft)
	}
	return drafts, nil
}

// forkOf makes the record of the fork. The owner is the source's whoever asks (runs.md §Fork).
func (h *Host) forkOf(r *request, source eventlog.Log, body *forkBody) (eventlog.Run, *workflow.Definition, error) {
	run := source.Run()
	definition, err := h.held(source)
	if err != nil {
		return run, nil, err
	}
	run.ForkOf, run.ID = run.ID, h.mintRunID(run.Owner.Tenant)
	run.Parent, run.Depth, run.ScopeID, run.Position, run.Seed = nil, 0, "", 0, ""
	run.CallbackURL = ""      // nobody asked to be told about this run
	run.Era, run.Held = 0, "" // the history was translated when it was read: the fork is this host's own
	run.CreatedAt = h.clock.Now()
	if body.Overlay.Configurable != nil {
		run.Configurable = body.Overlay.Configurable
	}
	if body.Overlay.Tags != nil {
		run.Tags = body.Overlay.Tags
	}
	if body.Overlay.Metadata != nil {
		run.Metadata = body.Overlay.Metadata
	}
	if err := h.checkOptions(r, &createBody{Configurable: run.Configurable}, &run); err != nil {
		return run, nil, err
	}
	var configurable any
	if run.Configurable != nil {
		if err := json.Unmarshal(run.Configurable, &configurable); err != nil {
			return run, nil, err
		}
	}
	if err := definition.CheckConfigurable(configurable); err != nil {
		return run, nil, h.codes.invalid("runOptionsOverlay", "The options do not match the workflow's configurableSchema.")
	}
	limitByWorkflow(&run, definition)
	return run, definition, nil
}
