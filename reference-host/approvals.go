package referencehost

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
)

// The actions of an approval and what they decide (interrupt.md §Approval).
const (
	actionAccept     = "accept"
	actionReject     = "reject"
	actionRefine     = "refine"
	actionEditAccept = "edit-accept"
	actionAsk        = "ask"

	decisionGranted    = "granted"
	decisionRejected   = "rejected"
	decisionOverridden = "overridden"

	policyMajority = "majority"
)

// approval is the data of an interrupt of the kind approval, as far as it decides anything.
type approval struct {
	Actions           []string `json:"actions"`
	RequiredApprovals int      `json:"requiredApprovals"`
	RejectionPolicy   string   `json:"rejectionPolicy"`
	OverrideBypasses  bool     `json:"overrideBypassesQuorum"`
	ApproversList     []string `json:"approversList"`
	ApproverGroupRefs []string `json:"approverGroupRefs"`
	ApproverRoleRefs  []string `json:"approverRoleRefs"`
}

// vote is one approver's last word.
type vote struct {
	action   string
	decision string
}

// approvalValue is the resume value of an approval.
type approvalValue struct {
	Action             string          `json:"action"`
	Feedback           *string         `json:"feedback"`
	RefineFeedback     json.RawMessage `json:"refineFeedback"`
	EditedArtifactData json.RawMessage `json:"editedArtifactData"`
	DecidedBy          *string         `json:"decidedBy"`
	DecidedAt          *string         `json:"decidedAt"`
}

// resolver is who answers an interrupt: an authenticated caller, or with a nil subject the bearer of a token, whom the
// host does not know.
type resolver struct{ subject *eventlog.Subject }

// id tells voters apart. All bearers of the tokens of one interrupt are one voter.
func (r resolver) id() string {
	if r.subject == nil {
		return ""
	}
	return r.subject.SubjectID
}

// approve decides what an answer to an approval comes to.
func (h *Host) approve(ctx context.Context, gate *gate, who resolver, raw json.RawMessage, value any) (*engine.Answer, error) {
	var data struct {
		Data approval `json:"data"`
	}
	if err := json.Unmarshal(gate.asked.Payload, &data); err != nil {
		return nil, err
	}
	rules := &data.Data
	if err := h.checkEligible(ctx, gate.run, rules, who); err != nil {
		return nil, err
	}
	given, err := h.checkApprovalValue(gate, rules, raw, value)
	if err != nil {
		return nil, err
	}
	recorded, err := h.stampDecision(raw, given)
	if err != nil {
		return nil, err
	}
	if given.Action == actionAsk {
		return &engine.Answer{Entries: []engine.Entry{{Type: eventlog.LogAppended, Payload: map[string]any{
			"level": "info", "message": "A question was asked at the gate.", "nodeId": gate.asked.NodeID,
			"fields": map[string]any{"interruptId": gate.asked.InterruptID, "ask": recorded},
		}}}}, nil
	}
	overrides, err := h.overrides(ctx, gate, rules, who, given.Action)
	if err != nil {
		return nil, err
	}
	decision := &engine.Resolution{
		NodeID: gate.asked.NodeID, InterruptID: gate.asked.InterruptID, Kind: kindApproval, ResumeValue: recorded,
		ResolvedBy: who.subject, Action: given.Action, Decision: decisionOf(given.Action),
		RefineFeedback: given.RefineFeedback, EditedArtifactData: given.EditedArtifactData,
	}
	if overrides {
		decision.Decision = decisionOverridden
	}
	return tally(gate, rules, who, decision)
}

// decisionOf is what an action counts as. A refinement grants nothing and rejects nothing: it ends the wait with the
// work still to do.
func decisionOf(action string) string {
	switch action {
	case actionAccept, actionEditAccept:
		return decisionGranted
	case actionReject:
		return decisionRejected
	}
	return ""
}

// tally adds a vote to those in the log. One that was given before in the same way is not recorded again, and the last
// one of each approver counts.
func tally(gate *gate, rules *approval, who resolver, decision *engine.Resolution) (*engine.Answer, error) {
	votes, err := votesFor(gate.asked.InterruptID, gate.events)
	if err != nil {
		return nil, err
	}
	answer := &engine.Answer{}
	if now := (vote{decision.Action, decision.Decision}); votes[who.id()] != now {
		votes[who.id()] = now
		answer.Entries = []engine.Entry{{Type: voteType(decision.Decision), Payload: decision}}
	}
	grants, refusals := 0, 0
	for _, v := range votes {
		if v.decision == decisionGranted || v.decision == decisionOverridden {
			grants++
		} else {
			refusals++
		}
	}
	required := max(rules.RequiredApprovals, 1)
	decided := decision.Decision == decisionOverridden || grants >= required
	if rules.RejectionPolicy == policyMajority {
		decided = decided || 2*refusals > required
	} else {
		decided = decided || refusals > 0
	}
	if decided {
		resolution := *decision
		answer.Resolution = &resolution
	}
	return answer, nil
}

// voteType is the event that records a vote (RFC 0223).
func voteType(decision string) string {
	switch decision {
	case decisionGranted:
		return eventlog.ApprovalGranted
	case decisionOverridden:
		return eventlog.ApprovalOverridden
	}
	return eventlog.ApprovalRejected
}

// votesFor reads the votes for one interrupt.
func votesFor(interruptID string, events []eventlog.Event) (map[string]vote, error) {
	votes := make(map[string]vote)
	for _, event := range events {
		switch event.Type {
		case eventlog.ApprovalGranted, eventlog.ApprovalRejected, eventlog.ApprovalOverridden:
		default:
			continue
		}
		var payload engine.Resolution
		if err := json.Unmarshal(event.Payload, &payload); err != nil {
			return nil, err
		}
		if payload.InterruptID == interruptID {
			votes[resolver{payload.ResolvedBy}.id()] = vote{payload.Action, payload.Decision}
		}
	}
	return votes, nil
}

// overrides reports whether this vote releases the gate alone: the gate allows it, and the caller holds the role the
// gate names for it.
func (h *Host) overrides(ctx context.Context, gate *gate, rules *approval, who resolver, action string) (bool, error) {
	role := gate.option("override")
	if !rules.OverrideBypasses || role == "" || who.subject == nil || decisionOf(action) != decisionGranted {
		return false, nil
	}
	return h.directory.Holds(ctx, *who.subject, RefRole, role)
}

// checkApprovalValue holds a resume value to the actions of the gate and to what each action needs.
func (h *Host) checkApprovalValue(gate *gate, rules *approval, raw json.RawMessage, value any) (*approvalValue, error) {
	refused := func(message string) error { return h.codes.invalid("resumeValue", message) }
	object, ok := value.(map[string]any)
	if !ok {
		return nil, refused("The resume value of an approval is an object with an action.")
	}
	given := new(approvalValue)
	if err := json.Unmarshal(raw, given); err != nil {
		return nil, refused("A member of the resume value is of the wrong type.")
	}
	if !slices.Contains(rules.Actions, given.Action) {
		return nil, refused("The gate does not take that action.")
	}
	if given.DecidedAt != nil {
		if _, err := time.Parse(time.RFC3339, *given.DecidedAt); err != nil {
			return nil, refused("decidedAt is not an RFC 3339 time.")
		}
	}
	members := []string{"action", "decidedBy", "decidedAt"}
	switch given.Action {
	case actionAsk:
		return given, nil
	case actionRefine:
		members = append(members, "refineFeedback")
		if err := h.checkFeedback(gate, object["refineFeedback"]); err != nil {
			return nil, refused("refine needs refineFeedback with a scope.")
		}
	case actionEditAccept:
		members = append(members, "editedArtifactData")
		if _, given := object["editedArtifactData"]; !given {
			return nil, refused("edit-accept needs editedArtifactData.")
		}
	default:
		members = append(members, "feedback")
	}
	for name := range object {
		if !slices.Contains(members, name) {
			return nil, refused("The action takes no member " + name + ".")
		}
	}
	return given, nil
}

// checkFeedback holds the feedback to the one place the contract describes it in: the event it is recorded in.
func (h *Host) checkFeedback(gate *gate, feedback any) error {
	return h.contract.ValidateValue("run-event-payloads#/$defs/interruptResolved", map[string]any{
		"nodeId": gate.asked.NodeID, "interruptId": gate.asked.InterruptID, "refineFeedback": feedback,
	})
}

// stampDecision adds the time to a value that does not say when it was decided: every recorded decision does.
func (h *Host) stampDecision(raw json.RawMessage, given *approvalValue) (json.RawMessage, error) {
	if given.DecidedAt != nil {
		return raw, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, err
	}
	var err error
	if members["decidedAt"], err = encode(stamp(h.clock.Now())); err != nil {
		return nil, err
	}
	return encode(members)
}
