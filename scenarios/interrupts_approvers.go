package scenarios

import (
	"net/http"
	"slices"

	"wopcert/harness"
	"wopcert/requirements"
)

// approverEnforced covers approversList (interrupt.md, "Approver
// enforcement").
func approverEnforced() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-approver-enforced",
		Title:    "Who is not on the list of a gate does not decide",
		Document: "interrupt.md", Section: "Approver enforcement",
		Gates: []harness.Gate{interruptFamily(), harness.NeedsFixture(gateOfChoice, approvesListed)},
		Tests: []harness.Test{
			{
				Name:      "the primary key at a gate of somebody else's",
				Witnesses: []requirements.ID{requirements.R0173ApproverEnforced},
				Gates:     []harness.Gate{harness.NeedsFixture(approves, gateOfChoice)},
				Run:       unlistedRefused,
			},
			{
				Name:      "an approver at a gate of the primary key's",
				Witnesses: []requirements.ID{requirements.R0173ApproverEnforced},
				Gates:     []harness.Gate{optIn(gateOfChoice), harness.NeedsCredential(harness.Approver)},
				Run: func(t *harness.T) {
					mine := principalOfPrimary(t)
					p := suspend(t, gateOf(object{"approversList": []any{mine}, "requiredApprovals": 1}))
					defer endRun(t, p.run)
					for _, action := range []string{"accept", "reject"} {
						t.Expect(requirements.R0173ApproverEnforced, refusedIneligible(t, "an "+action+" by an approver who is not listed", resolveAs(t, harness.Approver, p, decide(action))))
					}
					t.Expect(requirements.R0173ApproverEnforced, stillPending(t, p))
					mustResolve(t, harness.Primary, p, decide("accept"))
				},
			},
			{
				Name:      "the bearer of a token at a gate of nobody's",
				Witnesses: []requirements.ID{requirements.R0173ApproverEnforced},
				Gates:     []harness.Gate{optIn(gateOfChoice), delivers(), harness.NeedsReceiver()},
				Run:       bearerRefused,
			},
		},
	}
}

// bearerRefused resolves by token at a gate that lists only a principal who
// does not exist: whoever the token was made for is not on the list. A host
// may as well hand out no token to resolve with there.
func bearerRefused(t *harness.T) {
	nobody := newTag()
	e := t.Endpoint(nil)
	p := suspend(t, with(gateOf(object{"approversList": []any{nobody}}), "callbackUrl", e.URL()))
	defer endRun(t, p.run)
	tokens := slices.DeleteFunc(awaitTokens(t, e, settle/2), resumeToken.inspects)
	if len(tokens) == 0 {
		t.Inapplicable(requirements.R0173ApproverEnforced, "the host hands out no token to resolve with at a gate that lists nobody there is")
		return
	}
	for _, tok := range tokens {
		for _, value := range []object{decide("accept"), decide("accept", "decidedBy", nobody), decide("reject")} {
			t.Expect(requirements.R0173ApproverEnforced, refusedIneligible(t, "a resolve by token with "+show(value)+" at a gate that lists nobody there is", resolveBy(t, tok.raw, value)))
		}
	}
	t.Expect(requirements.R0173ApproverEnforced, stillPending(t, p))
}

// unlistedRefused uses the primary key at gates that name others. That the key
// may decide at all is shown at a gate that names nobody.
func unlistedRefused(t *harness.T) {
	open := object{"workflowId": oneOf(t, approves, gateOfChoice)}
	free := suspend(t, open)
	defer endRun(t, free.run)
	mustResolve(t, harness.Primary, free, decide("accept"))
	var bodies []object
	if listed(t, approvesListed) {
		bodies = append(bodies, object{"workflowId": approvesListed})
	}
	if listed(t, gateOfChoice) {
		bodies = append(bodies, gateOf(object{"approversList": []any{newTag()}}), gateOf(object{"approversList": []any{newTag(), newTag()}, "requiredApprovals": 2}))
	}
	for _, body := range bodies {
		p := suspend(t, body)
		defer endRun(t, p.run)
		names, _ := stringList(harness.Get(p.payload(), "data", "approversList"))
		if len(names) == 0 {
			t.Abort("the gate of %v has no approversList", body["workflowId"])
		}
		for _, action := range []string{"accept", "reject"} {
			t.Expect(requirements.R0173ApproverEnforced, refusedIneligible(t, "an "+action+" by a key whose principal is not listed", resolve(t, p, decide(action))))
		}
		// What a caller says of who decided is a text, and no credential.
		t.Expect(requirements.R0173ApproverEnforced, refusedIneligible(t, "an accept by such a key that names a listed principal in decidedBy",
			resolve(t, p, decide("accept", "decidedBy", names[0]))))
		t.Expect(requirements.R0173ApproverEnforced, stillPending(t, p))
	}
}

// principalOfPrimary is the primary key's principal as runs show it.
func principalOfPrimary(t *harness.T) string {
	r := get(t, startRun(t, gateOf(object{})))
	defer endRun(t, r.Text("runId"))
	id := r.Text("owner", "subject", "subjectId")
	if id == "" {
		t.Abort("the owner of a run names no subject: %s", show(r.Get("owner")))
	}
	return id
}

// principalOfApprover is the approver as approversList names it: what the
// operator says, or the subject the host shows where the approver acted. The
// test ends where it shows none.
func principalOfApprover(t *harness.T) string {
	if id := t.ApproverRefs().Principal; id != "" {
		return id
	}
	if made := createAs(t, harness.Approver, gateOf(object{})); made.Is(http.StatusCreated).OK {
		defer endRun(t, made.Text("runId"))
		if id := get(t, made.Text("runId")).Text("owner", "subject", "subjectId"); id != "" {
			return id
		}
	}
	p := suspend(t, gateOf(object{}))
	defer endRun(t, p.run)
	mustResolve(t, harness.Approver, p, decide("accept"))
	id, _ := harness.Get(awaitResolved(t, p), "payload", "resolvedBy", "subjectId").(string)
	if id == "" {
		t.Abort("how the host names the approver is not known: say so with --approver-id")
	}
	return id
}

// approverRefs covers who else may decide (interrupt.md, "Approver
// enforcement").
func approverRefs() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-approver-refs",
		Title:    "Listed principals, members of groups and holders of roles decide, and nobody else does",
		Document: "interrupt.md", Section: "Approver enforcement",
		Gates: []harness.Gate{interruptFamily(), optIn(gateOfChoice)},
		Tests: []harness.Test{
			{
				Name:      "a principal on the list",
				Witnesses: []requirements.ID{requirements.InterruptListedApproverResolves},
				Gates:     []harness.Gate{harness.NeedsCredential(harness.Approver)},
				Run: func(t *harness.T) {
					p := suspend(t, gateOf(object{"approversList": []any{newTag(), principalOfApprover(t)}}))
					defer endRun(t, p.run)
					r := resolveAs(t, harness.Approver, p, decide("accept"))
					if t.Expect(requirements.InterruptListedApproverResolves, harness.That(succeeded(r), "2xx for a listed approver", "%s", answered(r)).At(r)) {
						t.Expect(requirements.InterruptListedApproverResolves, endsCompleted(t, p))
					}
				},
			},
			{
				Name:      "groups and roles in the log",
				Witnesses: []requirements.ID{requirements.InterruptApproverRefsSurfaced},
				Gates:     []harness.Gate{refKind("group", "role")},
				Run: func(t *harness.T) {
					for kind, member := range map[string]string{"group": "approverGroupRefs", "role": "approverRoleRefs"} {
						if !slices.Contains(refKinds(t.Host().Discovery), kind) {
							continue
						}
						refs := []any{newTag(), "grün/éàü #1", newTag()}
						p := suspend(t, gateOf(object{member: refs}))
						endRun(t, p.run)
						t.Expect(requirements.InterruptApproverRefsSurfaced, same(member, refs, harness.Get(p.payload(), "data", member)).At(p.log.last))
					}
				},
			},
			{
				Name:      "a member of a group",
				Witnesses: []requirements.ID{requirements.InterruptGroupEnforced},
				Gates:     []harness.Gate{refKind("group"), harness.NeedsCredential(harness.Approver), harness.NeedsGroup()},
				Run: func(t *harness.T) {
					for _, members := range []object{
						{"approverGroupRefs": []any{t.ApproverRefs().Group}},
						{"approverGroupRefs": []any{newTag(), t.ApproverRefs().Group}, "approversList": []any{newTag()}},
					} {
						p := suspend(t, gateOf(members))
						defer endRun(t, p.run)
						t.Expect(requirements.InterruptGroupEnforced, refusedIneligible(t, "a resolve from outside the group", resolve(t, p, decide("accept"))))
						t.Expect(requirements.InterruptGroupEnforced, stillPending(t, p))
						r := resolveAs(t, harness.Approver, p, decide("accept"))
						t.Expect(requirements.InterruptGroupEnforced, harness.That(succeeded(r), "2xx for a member of the group", "%s", answered(r)).At(r))
					}
				},
			},
			{
				Name:      "a holder of a role",
				Witnesses: []requirements.ID{requirements.InterruptRoleEnforced},
				Gates:     []harness.Gate{refKind("role"), harness.NeedsCredential(harness.SecondApprover), harness.NeedsRole()},
				Run: func(t *harness.T) {
					p := suspend(t, gateOf(object{"approverRoleRefs": []any{newTag(), t.ApproverRefs().Role}}))
					defer endRun(t, p.run)
					t.Expect(requirements.InterruptRoleEnforced, refusedIneligible(t, "a resolve without the role", resolve(t, p, decide("accept"))))
					t.Expect(requirements.InterruptRoleEnforced, stillPending(t, p))
					r := resolveAs(t, harness.SecondApprover, p, decide("accept"))
					t.Expect(requirements.InterruptRoleEnforced, harness.That(succeeded(r), "2xx for a holder of the role", "%s", answered(r)).At(r))
				},
			},
			{
				Name:      "the audience of a gate",
				Witnesses: []requirements.ID{requirements.InterruptAudienceNotEligibility},
				Run: func(t *harness.T) {
					told := suspend(t, gateOf(object{"audience": object{"subjects": []any{newTag()}, "groups": []any{newTag()}, "roles": []any{newTag()}}}))
					defer endRun(t, told.run)
					r := resolve(t, told, decide("accept"))
					t.Expect(requirements.InterruptAudienceNotEligibility, harness.That(succeeded(r), "2xx for somebody whom the audience leaves out", "%s", answered(r)).At(r))
					p := suspend(t, gateOf(object{"approversList": []any{newTag()}, "audience": object{"subjects": []any{principalOfPrimary(t)}}}))
					defer endRun(t, p.run)
					t.Expect(requirements.InterruptAudienceNotEligibility, refusedIneligible(t, "a resolve by somebody whom the audience names and the list does not", resolve(t, p, decide("accept"))))
					t.Expect(requirements.InterruptAudienceNotEligibility, stillPending(t, p))
				},
			},
			{
				Name:      "refs of a kind the host does not know",
				Witnesses: []requirements.ID{requirements.InterruptUnadvertisedRefIgnored},
				Gates: []harness.Gate{harness.HostFact("the host advertises both group and role in interrupt.refKinds", func(d *harness.Discovery) bool {
					return !slices.Contains(refKinds(d), "group") || !slices.Contains(refKinds(d), "role")
				})},
				Run: func(t *harness.T) {
					for kind, member := range map[string]string{"group": "approverGroupRefs", "role": "approverRoleRefs"} {
						if slices.Contains(refKinds(t.Host().Discovery), kind) {
							continue
						}
						p := suspend(t, gateOf(object{member: []any{newTag()}}))
						defer endRun(t, p.run)
						r := resolve(t, p, decide("accept"))
						t.Expect(requirements.InterruptUnadvertisedRefIgnored, harness.That(succeeded(r), "2xx whatever "+member+" holds", "%s", answered(r)).At(r))
					}
				},
			},
			{
				Name:      "a decision that is history",
				Witnesses: []requirements.ID{requirements.InterruptEligibilityFixed},
				Gates: []harness.Gate{harness.HostFact("the host does not advertise replay with the mode replay", func(d *harness.Discovery) bool {
					v, _ := d.Facet("replay", "modes")
					modes, _ := stringList(v)
					return slices.Contains(modes, "replay")
				}), harness.NeedsCredential(harness.Approver)},
				Run: eligibilityFixed,
			},
		},
	}
}

// refKinds are interrupt.refKinds.
func refKinds(d *harness.Discovery) []string {
	v, _ := d.Facet("interrupt", "refKinds")
	kinds, _ := stringList(v)
	return kinds
}

// refKind gates on a host that resolves refs of one of some kinds.
func refKind(kinds ...string) harness.Gate {
	return harness.HostFact("interrupt.refKinds lists none of the kinds in question", func(d *harness.Discovery) bool {
		return slices.ContainsFunc(kinds, func(k string) bool { return slices.Contains(refKinds(d), k) })
	})
}

// eligibilityFixed replays a decided run as somebody who could not have decided
// it.
func eligibilityFixed(t *harness.T) {
	p := suspend(t, gateOf(object{"approversList": []any{principalOfApprover(t)}}))
	defer endRun(t, p.run)
	if r := resolve(t, p, decide("accept")); succeeded(r) {
		t.Abort("the primary key may decide at a gate that does not list it, so that a replay by it shows nothing: %s", answered(r))
	}
	mustResolve(t, harness.Approver, p, decide("accept"))
	if status := awaitStatus(t, p.run, endedStatus, settle); status != "completed" {
		t.Abort("no completed run to replay: status %q", status)
	}
	source := wholeLog(t, p.run)
	child := forkedFrom(t, p.run, "replay", 0)
	defer endRun(t, child)
	status := awaitStatus(t, child, func(s string) bool { return endedStatus(s) || isWaiting(s) }, settle)
	t.Expect(requirements.InterruptEligibilityFixed, harness.Equal("status of the replay", "completed", status))
	l := wholeLog(t, child)
	was, is := resolvedAt(source.events, p.node), resolvedAt(l.events, p.node)
	if len(was) != 1 {
		t.Abort("the source records %d decisions, so that there is none to keep", len(was))
	}
	// Whether a replay writes the decision down again is a matter of replay.md.
	check := harness.That(len(is) <= 1, "no other decision than the source's", "%d of them in the replay", len(is))
	if len(is) == 1 {
		check = harness.All(
			harness.Equal("action", harness.Get(was[0], "payload", "action"), harness.Get(is[0], "payload", "action")),
			same("resolvedBy", harness.Get(was[0], "payload", "resolvedBy"), harness.Get(is[0], "payload", "resolvedBy")))
	}
	t.Expect(requirements.InterruptEligibilityFixed, check.At(l.last))
}
