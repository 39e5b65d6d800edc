package referencehost

import (
	"context"
	"slices"

	"wopcert/reference-host/internal/eventlog"
)

// RefKind is a kind of reference to approvers (interrupt.refKinds).
type RefKind string

// The kinds a Directory resolves. The third, principal, needs no directory.
const (
	RefGroup RefKind = "group"
	RefRole  RefKind = "role"
)

// Subject is who acts.
type Subject = eventlog.Subject

// Directory is the identity model that the refs of approval gates are resolved against. It is asked at every decision
// and never about a decision that has been taken (interrupt.md §Approver enforcement).
type Directory interface {
	// Holds reports whether the subject is a member of the group, or holds the role, in its tenant.
	Holds(ctx context.Context, subject Subject, kind RefKind, ref string) (bool, error)
}

// keyDirectory knows the groups and roles of the configured keys.
type keyDirectory []*principal

func (d keyDirectory) Holds(_ context.Context, subject Subject, kind RefKind, ref string) (bool, error) {
	for _, p := range d {
		if p.owner.Subject != subject {
			continue
		}
		held := p.groups
		if kind == RefRole {
			held = p.roles
		}
		if slices.Contains(held, ref) {
			return true, nil
		}
	}
	return false, nil
}

// checkEligible refuses who may not decide. Without any ref that binds, everybody with the scope may; a kind of ref
// that the host does not advertise binds nobody.
func (h *Host) checkEligible(ctx context.Context, run *eventlog.Run, rules *approval, who resolver) error {
	kinds := h.facetWords("interrupt", "refKinds")
	bound := len(rules.ApproversList) > 0
	refs := map[RefKind][]string{}
	if slices.Contains(kinds, string(RefGroup)) {
		refs[RefGroup] = rules.ApproverGroupRefs
	}
	if slices.Contains(kinds, string(RefRole)) {
		refs[RefRole] = rules.ApproverRoleRefs
	}
	for _, list := range refs {
		bound = bound || len(list) > 0
	}
	if !bound {
		return nil
	}
	if who.subject == nil || who.subject.Tenant != run.Owner.Tenant {
		return h.codes.ineligible()
	}
	if slices.Contains(rules.ApproversList, who.subject.SubjectID) {
		return nil
	}
	for kind, list := range refs {
		for _, ref := range list {
			held, err := h.directory.Holds(ctx, *who.subject, kind, ref)
			if held || err != nil {
				return err
			}
		}
	}
	return h.codes.ineligible()
}
