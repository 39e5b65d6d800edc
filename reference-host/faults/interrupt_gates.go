package faults

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

const (
	gateOfChoice  = "wopcert-approval"
	quorumOfThree = "conformance-interrupt-quorum"
)

// ofWorkflow selects answers about runs of a workflow.
func (k *insider) ofWorkflow(workflow string) func(r *http.Request, doc object, next http.Handler) bool {
	return func(r *http.Request, _ object, next http.Handler) bool {
		return k.run(next, r, segmentIn(r))["workflowId"] == workflow
	}
}

// saying selects refusals by what their message holds.
func saying(words ...string) func(r *http.Request, doc object, next http.Handler) bool {
	return func(_ *http.Request, doc object, _ http.Handler) bool {
		for _, w := range words {
			if strings.Contains(text(doc["message"]), w) {
				return true
			}
		}
		return false
	}
}

// whenGate selects answers about gates by the data of their interrupt.
func (k *insider) whenGate(holds func(data object) bool) func(r *http.Request, doc object, next http.Handler) bool {
	return func(r *http.Request, _ object, next http.Handler) bool {
		data := k.asked(next, r, segmentIn(r))
		return data != nil && holds(data)
	}
}

func has(data object, name string) bool {
	list, _ := data[name].([]any)
	return len(list) > 0
}

// onlyListed are gates that name principals and nothing else.
func onlyListed(data object) bool {
	return has(data, "approversList") && !has(data, "approverGroupRefs") && !has(data, "approverRoleRefs") && data["audience"] == nil
}

func approvalFaults() []Fault {
	actions, fields, ask := requirements.InterruptApprovalActionsEnforced, requirements.InterruptApprovalFieldsRequired, requirements.InterruptAskKeepsSuspended
	refusal := func(edit func(*tamper.Answer), when func(r *http.Request, doc object, next http.Handler) bool) tamper.Middleware {
		return settled(resolveByRun, 400, "validation_error", when, edit)
	}
	notOffered, incomplete := saying("does not take that action"), saying("refine needs", "edit-accept needs")
	return []Fault{
		wire("action-not-offered-accepted", "An approval takes an action that it does not offer.", "200", refusal(accepted, notOffered), actions),
		wire("action-not-offered-conflict", "An action that is not offered is refused with another code.", "409", refusal(recoded(409, "run_state_conflict"), notOffered), actions),
		wire("ask-always-offered", "A question may be asked at every gate.", "ask", refusal(accepted, func(r *http.Request, _ object, _ http.Handler) bool {
			return given(r)["action"] == "ask"
		}), actions),
		wire("timeout-offered", "Whoever resolves an approval may say that its time is over.", "timeout", refusal(accepted, func(r *http.Request, _ object, _ http.Handler) bool {
			return given(r)["action"] == "timeout"
		}), actions),
		wire("refine-without-feedback-accepted", "A refine or an edit-accept is taken without what belongs to it.", "200", refusal(accepted, incomplete), fields),
		wire("refine-scope-open", "The feedback of a refine may have any scope.", "everything", refusal(accepted, func(r *http.Request, _ object, _ http.Handler) bool {
			feedback, _ := given(r)["refineFeedback"].(object)
			return feedback["scope"] == "everything"
		}), fields),
		wire("incomplete-action-other-code", "An edit-accept without what was edited is refused with another status.", "422", refusal(recoded(422, "validation_error"), incomplete), fields),
		inside("ask-ends-the-wait", "A question ends the wait as an acceptance does.", "interrupt still pending", func(k *insider) tamper.Middleware {
			return tamper.Instead(resolveByRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				doc, ok := tamper.BodyJSON(r)
				if ok && given(r)["action"] == "ask" && k.ofWorkflow(gateOfChoice)(r, nil, next) {
					given(r)["action"] = "accept"
					doc["resumeValue"] = object{"action": "accept"}
					tamper.SetBodyJSON(r, doc)
				}
				next.ServeHTTP(w, r)
			})
		}, ask),
		wire("ask-refused", "No gate takes a question.", "400", settled(resolveByRun, 200, "", func(r *http.Request, _ object, _ http.Handler) bool {
			return given(r)["action"] == "ask"
		}, recoded(400, "validation_error")), ask),
	}
}

func quorumFaults() []Fault {
	holds, veto, majority, once := requirements.InterruptQuorumHolds, requirements.InterruptSingleVeto, requirements.InterruptMajorityRejection, requirements.InterruptOverrideCountsOnce
	quorumOfTwo := func(inputs object) bool {
		return number(inputs["requiredApprovals"]) == "2" && inputs["override"] == nil && inputs["approversList"] == nil && inputs["rejectionPolicy"] != "majority"
	}
	return []Fault{
		wire("one-approval-is-enough", "One approval releases a gate that takes two.", "interrupt still pending", creating(gateOfChoice, func(_, inputs object) {
			if quorumOfTwo(inputs) {
				delete(inputs, "requiredApprovals")
			}
		}), holds).blocking(veto),
		inside("last-approval-not-counted", "The approval that completes the quorum is taken and does not count.", "waiting-approval", func(k *insider) tamper.Middleware {
			return tamper.Instead(resolveByRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if k.by(r, referencehost.KeyApprover1) && given(r)["action"] == "accept" && k.ofWorkflow(quorumOfThree)(r, nil, next) {
					a := &tamper.Answer{Header: http.Header{}}
					accepted(a)
					a.Send(w)
					return
				}
				next.ServeHTTP(w, r)
			})
		}, holds).slow(),
		wire("veto-needs-majority", "One reject of two does not end a gate whose policy is single-veto.", "the gate over", creating(gateOfChoice, func(_, inputs object) {
			if quorumOfTwo(inputs) {
				inputs["rejectionPolicy"] = "majority"
			}
		}), veto),
		wire("veto-by-default-only", "A gate that says single-veto takes a majority to end.", "the gate over", creating(gateOfChoice, func(_, inputs object) {
			if inputs["rejectionPolicy"] == "single-veto" {
				inputs["rejectionPolicy"] = "majority"
			}
		}), veto),
		{ID: "majority-of-one", Summary: "One reject of three ends a gate whose policy is majority.", Reason: "interrupt still pending", Breaks: []requirements.ID{majority},
			Decorate: redefined(quorumOfThree, `, "rejectionPolicy": "majority"`, ``), Wrap: raised(ofAsked("approval", func(_, data object) {
				if number(data["requiredApprovals"]) == "3" {
					data["rejectionPolicy"] = "majority"
				}
			}))},
		inside("majority-needs-all", "Two rejects of three do not end a gate whose policy is majority.", "the gate over", func(k *insider) tamper.Middleware {
			return tamper.Instead(resolveByRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if k.by(r, referencehost.KeyApprover1) && given(r)["action"] == "reject" && k.ofWorkflow(quorumOfThree)(r, nil, next) {
					a := &tamper.Answer{Header: http.Header{}}
					accepted(a)
					a.Send(w)
					return
				}
				next.ServeHTTP(w, r)
			})
		}, majority),
		wire("override-needs-no-permission", "An override principal releases every gate alone.", "interrupt still pending", creating(gateOfChoice, func(_, inputs object) {
			if inputs["override"] != nil {
				inputs["overrideBypassesQuorum"] = true
			}
		}), once),
		wire("override-frees-everybody", "Where an override principal may bypass the quorum, everybody does.", "interrupt still pending", creating(gateOfChoice, func(_, inputs object) {
			if inputs["overrideBypassesQuorum"] == true {
				delete(inputs, "requiredApprovals")
			}
		}), holds),
		inside("votes-counted-of-callers", "Whoever approves twice gives two approvals, unless it is an override principal.", "interrupt still pending", func(k *insider) tamper.Middleware {
			return k.again(referencehost.KeyTenantA, referencehost.KeyApprover2)
		}, holds),
		inside("veto-only-at-first", "A reject that comes after an approval is taken and ends nothing.", "the gate over", func(k *insider) tamper.Middleware {
			return tamper.Instead(resolveByRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if k.by(r, referencehost.KeyApprover1) && given(r)["action"] == "reject" && k.whenGate(func(data object) bool {
					return number(data["requiredApprovals"]) == "2" && !has(data, "approversList")
				})(r, nil, next) {
					a := &tamper.Answer{Header: http.Header{}}
					accepted(a)
					a.Send(w)
					return
				}
				next.ServeHTTP(w, r)
			})
		}, veto),
		inside("votes-counted-not-voters", "A principal that approves twice gives two approvals.", "interrupt still pending", func(k *insider) tamper.Middleware {
			return k.again(referencehost.KeyApprover3, referencehost.KeyApprover2)
		}, once),
	}
}

// again has whoever resolves an interrupt a second time by a key do so as
// somebody else, in gates of a quorum.
func (k *insider) again(key, other string) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		var mu sync.Mutex
		seen := map[string]bool{}
		return tamper.Requests(tamper.And(resolveByRun, func(r *http.Request) bool { return k.by(r, key) && given(r)["action"] == "accept" }), func(r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			if seen[r.URL.EscapedPath()] && number(k.asked(next, r, segmentIn(r))["requiredApprovals"]) == "2" {
				r.Header.Set("Authorization", k.bearer(other))
			}
			seen[r.URL.EscapedPath()] = true
		})(next)
	}
}

// directory knows the groups and roles of the keys, but for one kind of ref, of
// which it says the same of everybody.
type directory struct {
	keys []referencehost.Credential
	kind referencehost.RefKind
	says bool
}

// Holds implements referencehost.Directory.
func (d directory) Holds(_ context.Context, subject referencehost.Subject, kind referencehost.RefKind, ref string) (bool, error) {
	if kind == d.kind {
		return d.says, nil
	}
	return slices.ContainsFunc(d.keys, func(key referencehost.Credential) bool {
		held := key.Groups
		if kind == referencehost.RefRole {
			held = key.Roles
		}
		return key.SubjectID == subject.SubjectID && key.Tenant == subject.Tenant && slices.Contains(held, ref)
	}), nil
}

func approverFaults() []Fault {
	enforced, listed, surfaced := requirements.R0173ApproverEnforced, requirements.InterruptListedApproverResolves, requirements.InterruptApproverRefsSurfaced
	group, role, audience := requirements.InterruptGroupEnforced, requirements.InterruptRoleEnforced, requirements.InterruptAudienceNotEligibility
	directed := func(id, summary, reason string, kind referencehost.RefKind, says bool, row requirements.ID) Fault {
		return made(id, summary, reason, func(c *referencehost.Config) { c.Directory = directory{slices.Clone(c.Keys), kind, says} }, row)
	}
	refused := func(when func(k *insider) func(*http.Request, object, http.Handler) bool, edit func(*tamper.Answer)) func(k *insider) tamper.Middleware {
		return func(k *insider) tamper.Middleware { return settled(resolveByRun, 403, "forbidden", when(k), edit) }
	}
	unlisted := func(k *insider) func(*http.Request, object, http.Handler) bool { return k.whenGate(onlyListed) }
	told := func(k *insider) func(*http.Request, object, http.Handler) bool {
		return k.whenGate(func(data object) bool { return data["audience"] != nil && has(data, "approversList") })
	}
	barred := func(when func(k *insider, r *http.Request, data object) bool) func(k *insider) tamper.Middleware {
		return func(k *insider) tamper.Middleware {
			return tamper.Instead(resolveByRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if data := k.asked(next, r, segmentIn(r)); data != nil && when(k, r, data) {
					a := &tamper.Answer{Header: http.Header{}}
					a.Refuse(403, "forbidden", "not for you")
					a.Send(w)
					return
				}
				next.ServeHTTP(w, r)
			})
		}
	}
	return []Fault{
		inside("unlisted-accepted", "Whoever may resolve interrupts may decide at a gate that names others.", "200", refused(unlisted, accepted), enforced).blocking(requirements.InterruptEligibilityFixed),
		inside("unlisted-told-resolved", "Who is not named at a gate is told that it is resolved.", "409", refused(unlisted, recoded(409, alreadyResolved)), enforced),
		inside("unlisted-reject-accepted", "Whoever may resolve interrupts may reject at a gate that names others.", "reject", refused(func(k *insider) func(*http.Request, object, http.Handler) bool {
			gate := unlisted(k)
			return func(r *http.Request, doc object, next http.Handler) bool {
				return given(r)["action"] == "reject" && gate(r, doc, next)
			}
		}, accepted), enforced),
		inside("decider-believed", "Who says that a listed principal has decided may decide.", "decidedBy", func(k *insider) tamper.Middleware {
			return settled(resolveByRun, 403, "forbidden", func(r *http.Request, _ object, next http.Handler) bool {
				list, _ := k.asked(next, r, segmentIn(r))["approversList"].([]any)
				return slices.Contains(list, given(r)["decidedBy"])
			}, accepted)
		}, enforced),
		inside("bearers-all-listed", "The bearer of a token decides at every gate.", "a resolve by token", func(k *insider) tamper.Middleware {
			return settled(resolveByToken, 403, "forbidden", k.whenGate(onlyListed), accepted)
		}, enforced),
		inside("second-listed-refused", "Only the first principal of a list may decide.", "403", barred(func(k *insider, r *http.Request, data object) bool {
			list, _ := data["approversList"].([]any)
			return onlyListed(data) && len(list) == 2 && k.by(r, referencehost.KeyApprover1)
		}), listed),
		wire("group-refs-not-shown", "The groups of a gate are kept, and not shown.", "approverGroupRefs", raised(ofAsked("approval", func(_, data object) { delete(data, "approverGroupRefs") })), surfaced),
		wire("role-refs-normalized", "The roles of a gate are shown in lower case and ASCII.", "approverRoleRefs", raised(ofAsked("approval", func(_, data object) {
			list, _ := data["approverRoleRefs"].([]any)
			for i, v := range list {
				list[i] = strings.Map(func(c rune) rune {
					if c > 127 {
						return '-'
					}
					return c
				}, text(v))
			}
		})), surfaced),
		directed("everybody-in-every-group", "Everybody is a member of every group.", "200", referencehost.RefGroup, true, group),
		directed("nobody-in-any-group", "Nobody is a member of any group.", "403", referencehost.RefGroup, false, group),
		directed("everybody-in-every-role", "Everybody holds every role.", "200", referencehost.RefRole, true, role),
		directed("nobody-in-any-role", "Nobody holds any role.", "403", referencehost.RefRole, false, role),
		inside("audience-limits", "Only the audience of a gate may decide.", "403", barred(func(_ *insider, _ *http.Request, data object) bool {
			return data["audience"] != nil && !has(data, "approversList")
		}), audience),
		inside("audience-admits", "Whoever is told of a gate may decide.", "200", refused(told, accepted), audience),
		inside("unknown-group-refused", "Groups that the host does not know of keep everybody out.", "403", barred(func(_ *insider, _ *http.Request, data object) bool {
			return has(data, "approverGroupRefs")
		}), requirements.InterruptUnadvertisedRefIgnored).on("approver-refs-principals-only"),
		inside("replay-asks-the-approvers", "A replay of a decided gate asks its approvers again.", "waiting-approval", func(k *insider) tamper.Middleware {
			return tamper.Instead(tamper.ForkRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				segment := tamper.RunSegment(r)
				doc, ok := tamper.BodyJSON(r)
				swap := ok && doc["mode"] == "replay" && k.run(next, r, segment)["workflowId"] == gateOfChoice
				if swap {
					doc["mode"] = "branch"
					tamper.SetBodyJSON(r, doc)
				}
				a := tamper.Record(next, r)
				if made, ok := a.JSON(); swap && ok && a.Status == http.StatusCreated {
					made["mode"] = "replay"
					a.SetJSON(made)
				}
				a.Send(w)
			})
		}, requirements.InterruptEligibilityFixed),
	}
}
