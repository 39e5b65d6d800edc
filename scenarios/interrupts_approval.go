package scenarios

import (
	"net/http"

	"wopcert/harness"
	"wopcert/requirements"
)

// interruptApproval covers what an approval takes and what it takes to end it
// (interrupt.md, "Approval").
func interruptApproval() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-interrupt-approval",
		Title:    "A gate takes the actions it offers, whole, and ends when enough of them have come",
		Document: "interrupt.md", Section: "Approval",
		Gates: []harness.Gate{interruptFamily()},
		Tests: []harness.Test{
			{
				Name:      "actions that are not offered",
				Witnesses: []requirements.ID{requirements.InterruptApprovalActionsEnforced},
				Gates:     []harness.Gate{harness.NeedsFixture(approves)},
				Run: func(t *harness.T) {
					onlyOffered(t, object{"workflowId": approves}, decide("accept"), decide("refine", "refineFeedback", object{"scope": "whole", "text": "again"}),
						decide("edit-accept", "editedArtifactData", object{}), decide("ask"), decide("timeout"), decide("approve"), object{"decidedAt": decide("")["decidedAt"]})
				},
			},
			{
				Name:      "actions that a gate of choice does not offer",
				Witnesses: []requirements.ID{requirements.InterruptApprovalActionsEnforced},
				Gates:     []harness.Gate{optIn(gateOfChoice)},
				Run: func(t *harness.T) {
					onlyOffered(t, gateOf(object{"actions": []any{"reject"}}), decide("reject"), decide("accept"), decide("ask"))
					onlyOffered(t, gateOf(object{"actions": []any{"refine", "accept"}}), decide("accept"), decide("reject"))
				},
			},
			{
				Name:      "a refine without its feedback",
				Witnesses: []requirements.ID{requirements.InterruptApprovalFieldsRequired},
				Gates:     []harness.Gate{harness.NeedsFixture(approvesRefining)},
				Run: func(t *harness.T) {
					p := suspend(t, object{"workflowId": approvesRefining})
					defer endRun(t, p.run)
					for _, value := range []object{decide("refine"), decide("refine", "refineFeedback", object{"text": "no scope"}),
						decide("refine", "refineFeedback", object{"scope": "everything"}), decide("refine", "feedback", "of another action")} {
						t.Expect(requirements.InterruptApprovalFieldsRequired, refusedAsInvalid("the value "+show(value), resolve(t, p, value)))
					}
					t.Expect(requirements.InterruptApprovalFieldsRequired, stillPending(t, p))
					mustResolve(t, harness.Primary, p, decide("refine", "refineFeedback", object{"scope": "whole", "text": "again"}))
				},
			},
			{
				Name:      "an edit-accept without what was edited",
				Witnesses: []requirements.ID{requirements.InterruptApprovalFieldsRequired},
				Gates:     []harness.Gate{harness.NeedsFixture(approvesEdit)},
				Run: func(t *harness.T) {
					p := suspend(t, object{"workflowId": approvesEdit})
					defer endRun(t, p.run)
					t.Expect(requirements.InterruptApprovalFieldsRequired, refusedAsInvalid("an edit-accept alone", resolve(t, p, decide("edit-accept"))))
					t.Expect(requirements.InterruptApprovalFieldsRequired, stillPending(t, p))
					mustResolve(t, harness.Primary, p, decide("edit-accept", "editedArtifactData", object{"n": 1}))
				},
			},
			{
				Name:      "ask",
				Witnesses: []requirements.ID{requirements.InterruptAskKeepsSuspended},
				Gates:     []harness.Gate{optIn(gateOfChoice)},
				Run: func(t *harness.T) {
					p := suspend(t, gateOf(object{"actions": []any{"accept", "ask"}}))
					defer endRun(t, p.run)
					for range 2 {
						r := resolve(t, p, decide("ask"))
						t.Expect(requirements.InterruptAskKeepsSuspended, harness.That(succeeded(r), "2xx for ask where it is offered", "%s", answered(r)).At(r))
						t.Expect(requirements.InterruptAskKeepsSuspended, stillPending(t, p))
					}
					mustResolve(t, harness.Primary, p, decide("accept"))
					t.Expect(requirements.InterruptAskKeepsSuspended, endsCompleted(t, p))
				},
			},
			{
				Name:      "two approvals",
				Witnesses: []requirements.ID{requirements.InterruptQuorumHolds},
				Gates:     []harness.Gate{optIn(gateOfChoice), harness.NeedsCredential(harness.Approver)},
				Run: func(t *harness.T) {
					// Who may not bypass a quorum counts the same where others may.
					for _, members := range []object{{"requiredApprovals": 2}, {"requiredApprovals": 2, "overrideBypassesQuorum": true}} {
						p := suspend(t, gateOf(members))
						defer endRun(t, p.run)
						quorum(t, p, "accept", harness.Primary, harness.Approver)
					}
				},
			},
			{
				Name:      "three approvals",
				Witnesses: []requirements.ID{requirements.InterruptQuorumHolds},
				Gates:     []harness.Gate{harness.NeedsFixture(quorumOfThree), harness.NeedsCredential(harness.Approver), harness.NeedsCredential(harness.SecondApprover)},
				Run: func(t *harness.T) {
					p := suspend(t, object{"workflowId": quorumOfThree})
					defer endRun(t, p.run)
					quorum(t, p, "accept", harness.SecondApprover, harness.Primary, harness.Approver)
				},
			},
			{
				Name:      "one reject of two",
				Witnesses: []requirements.ID{requirements.InterruptSingleVeto},
				Gates:     []harness.Gate{optIn(gateOfChoice)},
				Run:       singleVeto,
			},
			{
				Name:      "one reject after an accept",
				Witnesses: []requirements.ID{requirements.InterruptSingleVeto},
				Gates:     []harness.Gate{optIn(gateOfChoice), harness.NeedsCredential(harness.Approver)},
				Run: func(t *harness.T) {
					p := suspend(t, gateOf(object{"requiredApprovals": 2}))
					defer endRun(t, p.run)
					mustResolve(t, harness.Primary, p, decide("accept"))
					if check := stillPending(t, p); !check.OK {
						t.Abort("one accept of two ends the gate, so that no reject can: %s", check.Observed)
					}
					mustResolve(t, harness.Approver, p, decide("reject"))
					awaitStatus(t, p.run, func(s string) bool { return !isWaiting(s) }, settle/4)
					t.Expect(requirements.InterruptSingleVeto, rejectedNow(t, p))
				},
			},
			{
				Name:      "two rejects of three",
				Witnesses: []requirements.ID{requirements.InterruptMajorityRejection},
				Gates:     []harness.Gate{harness.NeedsFixture(quorumOfThree), harness.NeedsCredential(harness.Approver)},
				Run:       majorityRejects,
			},
			{
				Name:      "an override principal without the override",
				Witnesses: []requirements.ID{requirements.InterruptOverrideCountsOnce},
				Gates:     []harness.Gate{optIn(gateOfChoice), harness.NeedsCredential(harness.Override), harness.NeedsCredential(harness.Approver)},
				Run:       overrideCounts,
			},
		},
	}
}

// onlyOffered sends actions that a gate does not offer, and then one it does.
func onlyOffered(t *harness.T, body object, offered object, others ...object) {
	p := suspend(t, body)
	defer endRun(t, p.run)
	for _, value := range others {
		t.Expect(requirements.InterruptApprovalActionsEnforced, refusedAsInvalid("the action "+show(value["action"]), resolve(t, p, value)))
	}
	t.Expect(requirements.InterruptApprovalActionsEnforced, stillPending(t, p))
	mustResolve(t, harness.Primary, p, offered)
	awaitResolved(t, p)
}

// quorum lets principals accept in turn: the gate holds until the last. Before
// that the first accepts once more, which is no further approval, however it is
// answered.
func quorum(t *harness.T, p pending, action string, voters ...harness.Identity) {
	for i, who := range voters {
		if i == len(voters)-1 {
			resolveAs(t, voters[0], p, decide(action))
			if !t.Expect(requirements.InterruptQuorumHolds, stillPending(t, p)) {
				return
			}
		}
		mustResolve(t, who, p, decide(action))
		if i < len(voters)-1 && !t.Expect(requirements.InterruptQuorumHolds, stillPending(t, p)) {
			return
		}
	}
	t.Expect(requirements.InterruptQuorumHolds, endsCompleted(t, p))
}

func singleVeto(t *harness.T) {
	for _, members := range []object{{"requiredApprovals": 2}, {"requiredApprovals": 2, "rejectionPolicy": "single-veto"}} {
		p := suspend(t, gateOf(members))
		defer endRun(t, p.run)
		mustResolve(t, harness.Primary, p, decide("reject"))
		awaitStatus(t, p.run, func(s string) bool { return !isWaiting(s) }, settle/4)
		t.Expect(requirements.InterruptSingleVeto, rejectedNow(t, p))
	}
}

// rejectedNow checks that a gate has ended with a reject.
func rejectedNow(t *harness.T, p pending) harness.Check {
	l := wholeLog(t, p.run)
	resolved := resolvedAt(l.events, p.node)
	status := get(t, p.run).Text("status")
	ok := len(resolved) == 1 && tookAction(resolved[0], "reject") && !isWaiting(status)
	return harness.That(ok, "the gate over, with one interrupt.resolved for a reject", "%d interrupt.resolved and status %q", len(resolved), status).At(l.last)
}

func majorityRejects(t *harness.T) {
	p := suspend(t, object{"workflowId": quorumOfThree})
	defer endRun(t, p.run)
	if harness.Get(p.payload(), "data", "rejectionPolicy") != any("majority") {
		t.Abort("the gate of %s has the rejectionPolicy %s", quorumOfThree, show(harness.Get(p.payload(), "data", "rejectionPolicy")))
	}
	mustResolve(t, harness.Primary, p, decide("reject"))
	if !t.Expect(requirements.InterruptMajorityRejection, stillPending(t, p)) {
		return
	}
	mustResolve(t, harness.Approver, p, decide("reject"))
	awaitStatus(t, p.run, func(s string) bool { return !isWaiting(s) }, settle/4)
	t.Expect(requirements.InterruptMajorityRejection, rejectedNow(t, p))
}

// overrideCounts lets the override principal vote twice, which is one vote.
// How a host answers the second one is its own affair.
func overrideCounts(t *harness.T) {
	for _, bypasses := range []any{nil, false} {
		members := object{"requiredApprovals": 2}
		if bypasses != nil {
			members["overrideBypassesQuorum"] = bypasses
		}
		if role := t.ApproverRefs().Override; role != "" {
			members["override"] = role
		}
		p := suspend(t, gateOf(members))
		defer endRun(t, p.run)
		mustResolve(t, harness.Override, p, decide("accept"))
		if !t.Expect(requirements.InterruptOverrideCountsOnce, stillPending(t, p)) {
			continue
		}
		resolveAs(t, harness.Override, p, decide("accept"))
		if !t.Expect(requirements.InterruptOverrideCountsOnce, stillPending(t, p)) {
			continue
		}
		r := resolveAs(t, harness.Approver, p, decide("accept"))
		if t.Expect(requirements.InterruptOverrideCountsOnce, r.Is(http.StatusOK)) {
			t.Expect(requirements.InterruptOverrideCountsOnce, endsCompleted(t, p))
		}
	}
}
