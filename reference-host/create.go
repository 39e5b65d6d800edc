package referencehost

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/workflow"
)

// createBody is the createRun body once the schema has accepted it.
type createBody struct {
	WorkflowID   string          `json:"workflowId"`
	Inputs       json.RawMessage `json:"inputs"`
	Residency    json.RawMessage `json:"residency"`
	TenantID     *string         `json:"tenantId"`
	ScopeID      string          `json:"scopeId"`
	CallbackURL  *string         `json:"callbackUrl"`
	Mode         string          `json:"mode"`
	EvalSuiteRef string          `json:"evalSuiteRef"`
	AgentID      string          `json:"agentId"`
	Configurable json.RawMessage `json:"configurable"`
	Tags         []string        `json:"tags"`
	Metadata     json.RawMessage `json:"metadata"`
}

// configurable holds the members of run options the host acts on (runs.md §Run options).
type configurable struct {
	Run struct {
		RecursionLimit    json.Number `json:"recursionLimit"`
		RunTimeoutMs      json.Number `json:"runTimeoutMs"`
		MaxLoopIterations json.Number `json:"maxLoopIterations"`
	} `json:"run"`
	AI         aiOptions                  `json:"ai"`
	Extensions map[string]json.RawMessage `json:"extensions"`
}

// created is the createRun response. The links are relative: they resolve under whatever origin the request was made
// to, behind a proxy too (runs.md §Response).
type created struct {
	RunID     string `json:"runId"`
	Status    string `json:"status"`
	EventsURL string `json:"eventsUrl"`
	StatusURL string `json:"statusUrl"`
}

func (h *Host) createRun(r *request) (*answer, error) {
	value, err := h.decodeBody(r.Request, r.body)
	if err != nil {
		return nil, err
	}
	if err := h.contract.ValidateValue("run-create", value); err != nil {
		return nil, h.codes.malformed(err)
	}
	var body createBody
	if err := json.Unmarshal(r.body, &body); err != nil {
		return nil, h.codes.malformed(err)
	}
	run := eventlog.Run{
		Owner: r.principal.owner, WorkflowID: body.WorkflowID, EngineVersion: engineVersion, CreatedAt: h.clock.Now(),
		ScopeID: body.ScopeID, Inputs: body.Inputs, Configurable: body.Configurable, Tags: body.Tags, Metadata: body.Metadata,
	}
	if err := h.checkCreate(r, &body, &run); err != nil {
		return nil, err
	}
	resolve := func() (*workflow.Definition, error) { return h.resolveWorkflow(&body, value, &run) }
	if body.Mode == modeEval {
		resolve = func() (*workflow.Definition, error) { return h.resolveEval(&body, &run) }
	}
	definition, err := resolve()
	if err != nil {
		return nil, err
	}
	exclusive, err := h.dedup(r, &body)
	if err != nil {
		return nil, err
	}
	return h.start(r, run, definition, exclusive)
}

// checkCreate refuses what this host does not do, before it looks for the workflow.
func (h *Host) checkCreate(r *request, body *createBody, run *eventlog.Run) error {
	switch {
	case body.TenantID != nil && *body.TenantID != r.principal.tenant():
		return h.codes.foreignTenant("tenantId") // the tenant comes from the credential, never from the body
	case body.Mode == modeEval && !h.advertises(evalCapability):
		return h.codes.needsCapability(evalCapability)
	}
	if err := h.checkCallback(body, run); err != nil {
		return err
	}
	if err := h.checkResidency(body.Residency); err != nil {
		return err
	}
	if err := h.forceEngine(r, run); err != nil {
		return err
	}
	return h.checkOptions(r, body, run)
}

// forceEngine honours OpenWOP-Force-Engine-Version for test keys (runs.md §Request headers).
func (h *Host) forceEngine(r *request, run *eventlog.Run) error {
	fields := r.Header.Values("OpenWOP-Force-Engine-Version")
	if len(fields) == 0 {
		return nil
	}
	if r.principal.production {
		return h.codes.forcedEngine()
	}
	forced, ok := parseNumber(fields[0])
	if len(fields) > 1 || !ok || forced < minForcedEngine || forced > maxForcedEngine {
		return h.codes.invalid("OpenWOP-Force-Engine-Version", "The engine version is not one this host can be forced to.")
	}
	run.EngineVersion = int(forced)
	return nil
}

// checkOptions applies the rules of the sections of configurable that the schema cannot, and sets the run's limits.
func (h *Host) checkOptions(r *request, body *createBody, run *eventlog.Run) error {
	limits := h.config.Limits
	run.MaxNodeExecutions, run.MaxLoopIterations = limits.MaxNodeExecutions, limits.MaxLoopIterations
	run.Deadline = run.CreatedAt.Add(limits.MaxRunDuration)
	if body.Configurable == nil {
		return nil
	}
	var options configurable
	if err := json.Unmarshal(body.Configurable, &options); err != nil {
		return h.codes.malformed(err)
	}
	if err := h.checkAI(r, &options.AI); err != nil {
		return err
	}
	for org := range options.Extensions {
		if !h.registeredOrg(org) {
			return h.codes.invalid("configurable.extensions", "An extension is not under a registered organisation.")
		}
	}
	if wanted, ok := whole(options.Run.RecursionLimit); ok {
		run.MaxNodeExecutions = int(min(wanted, int64(limits.MaxNodeExecutions)))
	}
	if wanted, ok := whole(options.Run.MaxLoopIterations); ok {
		run.MaxLoopIterations = int(min(wanted, int64(limits.MaxLoopIterations)))
	}
	if wanted, ok := whole(options.Run.RunTimeoutMs); ok {
		limit := min(wanted, limits.MaxRunDuration.Milliseconds())
		run.Deadline = run.CreatedAt.Add(time.Duration(limit) * time.Millisecond)
	}
	return nil
}

// whole reads a number the schema has accepted as an integer; ok is false when it is absent.
func whole(n json.Number) (value int64, ok bool) {
	f, err := strconv.ParseFloat(string(n), 64)
	return int64(min(f, math.MaxInt32)), err == nil
}

// registeredOrg reports whether an extension may live under the organisation's name (runs.md §Run options).
func (h *Host) registeredOrg(org string) bool { return slices.Contains(h.orgs, org) }

// resolveWorkflow finds the definition and fits the run to it.
func (h *Host) resolveWorkflow(body *createBody, value any, run *eventlog.Run) (*workflow.Definition, error) {
	definition, ok := h.workflows[body.WorkflowID]
	if !ok {
		return nil, h.codes.missing("workflow")
	}
	if refusal := h.blocked[body.WorkflowID]; refusal != nil {
		return nil, refusal
	}
	if object, ok := value.(map[string]any); ok {
		if err := definition.CheckConfigurable(object["configurable"]); err != nil {
			return nil, h.codes.invalid("configurable", "The options do not match the workflow's configurableSchema.")
		}
	}
	var inputs map[string]json.RawMessage
	if body.Inputs != nil {
		if err := json.Unmarshal(body.Inputs, &inputs); err != nil {
			return nil, h.codes.malformed(err)
		}
	}
	var err error
	if run.Variables, err = definition.Seed(inputs); err != nil {
		var bad *workflow.InputError
		if errors.As(err, &bad) {
			return nil, h.codes.invalid("inputs."+bad.Name, "The input does not fit: "+bad.Reason+".")
		}
		return nil, err
	}
	limitByWorkflow(run, definition)
	if definition.Loop != nil {
		run.Orchestrator = definition.Loop.AgentID
	}
	return definition, nil
}

// limitByWorkflow shortens the run's time to the workflow's own.
func limitByWorkflow(run *eventlog.Run, definition *workflow.Definition) {
	if definition.TimeoutMs <= 0 {
		return
	}
	own := run.CreatedAt.Add(time.Duration(min(definition.TimeoutMs, math.MaxInt32)) * time.Millisecond)
	if own.Before(run.Deadline) {
		run.Deadline = own
	}
}

// dedup reads OpenWOP-Dedup (runs.md §Request headers). A run without a scopeId claims none, so it duplicates none.
func (h *Host) dedup(r *request, body *createBody) (bool, error) {
	fields := r.Header.Values("OpenWOP-Dedup")
	switch {
	case len(fields) == 0:
		return false, nil
	case len(fields) > 1 || fields[0] != "enforce":
		return false, h.codes.invalid("OpenWOP-Dedup", "The only value of OpenWOP-Dedup is enforce.")
	}
	return body.ScopeID != "", nil
}

// start records the run and hands it to the engine. The first event is in the log before anybody learns the id.
func (h *Host) start(r *request, run eventlog.Run, definition *workflow.Definition, exclusive bool) (*answer, error) {
	if !h.engine.Reserve() {
		return nil, h.codes.busy("active runs")
	}
	run.ID = h.mintRunID(run.Owner.Tenant)
	path := "/runs/" + project(run.ID)
	response := jsonAnswer(http.StatusCreated, created{
		RunID: run.ID, Status: eventlog.StatusRunning, EventsURL: path + "/events", StatusURL: path,
	})
	log, err := h.store.Create(h.answering(r, response), run, exclusive, h.engine.StartEvent(&run, "rest"))
	if err != nil {
		h.engine.Release()
		var held *eventlog.ScopeHeldError
		if errors.As(err, &held) {
			return nil, h.codes.scopeHeld(held.RunID, held.Until.Sub(h.clock.Now()))
		}
		return nil, err
	}
	h.engine.Start(log, definition)
	return response, nil
}
