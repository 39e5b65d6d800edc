package referencehost

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"wopcert/reference-host/internal/compensation"
	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/workflow"
)

// compensationProfile is the version of the ordering rules this host undoes by. It is part of the identity of every
// inverse action.
const compensationProfile = "1"

func orderingModels() []any { return []any{workflow.ReverseCompletion, workflow.DependencyGraph} }

// plans is where the engine keeps compensation plans, nil when the host undoes nothing.
func (h *Host) plans() *compensation.Plans {
	if !h.advertises("compensation") {
		return nil
	}
	return &compensation.Plans{Tables: h.store}
}

// checkPolicy refuses, when a workflow is loaded, a compensation policy that would fail when it is needed
// (security-defaults.md §Compensation). A host that does not advertise the family refuses the runs instead.
func (h *Host) checkPolicy(definition *workflow.Definition) error {
	policy := definition.Policy
	if policy == nil || !h.advertises("compensation") {
		return nil
	}
	if !slices.Contains(h.facetWords("compensation", "orderingModels"), policy.Ordering) {
		return fmt.Errorf("settings.compensation: this host does not undo by the ordering model %s", policy.Ordering)
	}
	if profile := h.profile(); policy.ProfileVersion != "" && policy.ProfileVersion != profile {
		return fmt.Errorf("settings.compensation: the profile version is %s here and not %s", profile, policy.ProfileVersion)
	}
	for _, trigger := range policy.Triggers {
		if !slices.Contains(engine.CompensationTriggers(), trigger) {
			return fmt.Errorf("settings.compensation: nothing fires the trigger %s here", trigger)
		}
	}
	if policy.Exhausted == workflow.ManualIntervention && !h.advertises("compensation.manualIntervention") {
		return fmt.Errorf("settings.compensation: this host hands nothing to an operator")
	}
	if policy.ApprovalScope == "all" {
		return fmt.Errorf("settings.compensation: this host has nobody approve an inverse action")
	}
	for _, node := range definition.Nodes {
		if node.Compensation != nil && !h.engine.Undoes(node.Compensation.TypeID) {
			return fmt.Errorf("node %s: compensation: %s is no node type that undoes anything", node.ID, node.Compensation.TypeID)
		}
	}
	return nil
}

func (h *Host) profile() string {
	profile, _ := h.facet("compensation", "profileVersion").(string)
	return profile
}

// planOf finds the plan of a run, nil when it has none.
func (h *Host) planOf(ctx context.Context, runID string, seen *compensation.Seen) (*compensation.Plan, error) {
	plans := h.plans()
	if plans == nil {
		return nil, nil
	}
	return plans.Of(ctx, runID, seen)
}

// view is the snapshot of a run with its compensation, and the entity tag of both.
func (h *Host) view(ctx context.Context, p *projection) (shown snapshot, etag string, err error) {
	shown, etag = p.snapshot(), p.etag()
	if !h.advertises("compensation") {
		return shown, etag, nil
	}
	plan, err := h.planOf(ctx, p.run.ID, &p.seen)
	if err != nil {
		return shown, etag, err
	}
	shown.CompensationStatus = p.seen.Status(plan)
	if shown.CompensationStatus != compensation.StatusNone {
		// What ends a plan that was not carried out whole is no event.
		etag = etag[:len(etag)-1] + "-" + shown.CompensationStatus + `"`
	}
	return shown, etag, nil
}

// compensationView is the getRunCompensation response.
type compensationView struct {
	RunID    string              `json:"runId"`
	Status   string              `json:"status"`
	Plan     []plannedView       `json:"plan"`
	Attempts []compensationTried `json:"attempts"`
}

type plannedView struct {
	NodeID       string          `json:"nodeId"`
	Order        int             `json:"order"`
	Policy       json.RawMessage `json:"policy,omitempty"`
	Irreversible bool            `json:"irreversibleEffect,omitempty"`
}

type compensationTried struct {
	NodeID  string `json:"nodeId"`
	Attempt int    `json:"attempt"`
	Outcome string `json:"outcome"`
	At      string `json:"at"`
	Reason  string `json:"reason,omitempty"`
}

// getRunCompensation serves the plan of a run and every attempt (security-defaults.md §Compensation).
func (h *Host) getRunCompensation(r *request) (*answer, error) {
	log, err := h.openRun(r)
	if err != nil {
		return nil, err
	}
	events, err := log.Read(-1)
	if err != nil {
		return nil, err
	}
	seen := compensation.SeenIn(events)
	plan, err := h.planOf(r.Context(), log.Run().ID, &seen)
	if err != nil {
		return nil, err
	}
	view := compensationView{RunID: log.Run().ID, Status: seen.Status(plan), Plan: []plannedView{}, Attempts: []compensationTried{}}
	if view.Status == compensation.StatusManual {
		view.Status = "manual-intervention" // the projection's word for it
	}
	if plan == nil {
		return jsonAnswer(http.StatusOK, view), nil
	}
	for i, entry := range plan.Entries {
		view.Plan = append(view.Plan, plannedView{
			NodeID: entry.NodeID, Order: i, Policy: plan.Policy, Irreversible: entry.State == compensation.Irreversible,
		})
		for _, made := range entry.Attempts {
			view.Attempts = append(view.Attempts, compensationTried{
				NodeID: entry.NodeID, Attempt: made.Number, Outcome: made.Outcome, At: made.At.UTC().Format(eventlog.TimestampFormat), Reason: made.Reason,
			})
		}
	}
	return jsonAnswer(http.StatusOK, view), nil
}
