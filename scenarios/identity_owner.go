package scenarios

import (
	"maps"
	"reflect"
	"slices"

	"wopcert/bundle/jcs"
	"wopcert/corpus"
	"wopcert/harness"
	"wopcert/requirements"
)

// ownerSubjectRequired: identity.md §1.1, "Shape", and runs.md, "The start
// event".
func ownerSubjectRequired() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-owner-subject-required",
		Title:    "A run belongs to a subject, on its snapshot and on its start event",
		Document: "identity.md",
		Section:  "1.1 Shape",
		Gates:    []harness.Gate{endingFixtures()},
		Tests: []harness.Test{
			{
				Name: "the owner of a snapshot",
				Witnesses: []requirements.ID{
					requirements.R0170OwnerSubjectRequiredSubject,
					requirements.R0170OwnerSubjectRequiredNoPrincipal,
				},
				Run: func(t *harness.T) {
					r := snapshot(t, startEnding(t))
					t.Expect(requirements.R0170OwnerSubjectRequiredSubject, ownerBlock(t.Corpus(), r.Get("owner")).At(r))
					if lanes, ok := t.Host().Discovery.Facet("auth", "lanes"); ok {
						t.Expect(requirements.R0170OwnerSubjectRequiredSubject, issuerOfLane(lanes, r.Get("owner", "subject")).At(r))
					}
					if _, ok := r.Get("owner").(object); !ok {
						t.Abort("the snapshot has no owner to look for a principal in")
					}
					t.Expect(requirements.R0170OwnerSubjectRequiredNoPrincipal, noPrincipal(r).At(r))
				},
			},
			{
				Name:      "the owner of the start event",
				Witnesses: []requirements.ID{requirements.RunsStartEventOwner},
				Run: func(t *harness.T) {
					id, l := settledEnding(t)
					owner, ok := snapshot(t, id).Get("owner").(object)
					if !ok {
						t.Abort("the snapshot has no owner to compare with")
					}
					started := startEvent(t, id, l)
					if started == nil {
						t.Abort("the log of the finished run has no run.started")
					}
					payload, _ := started["payload"].(object)
					t.Expect(requirements.RunsStartEventOwner, harness.That(reflect.DeepEqual(payload["owner"], any(owner)),
						"owner of run.started equal to the snapshot's "+show(owner), "owner %s", show(payload["owner"])).At(l.last))
					transport := harness.That(payload["transport"] == "rest", "transport rest for a run created over REST",
						"transport %s", show(payload["transport"])).At(l.last)
					if _, recorded := payload["transport"]; recorded {
						t.Expect(requirements.RunsStartEventOwner, transport)
					} else {
						t.Should(requirements.RunsStartEventOwner, transport)
					}
				},
			},
		},
	}
}

// startEvent is a run's run.started, out of its polled log or, when the poll
// leaves it out, its stream.
func startEvent(t *harness.T, runID string, l log) object {
	isStart := func(e object) bool { return e["type"] == "run.started" }
	if i := slices.IndexFunc(l.events, isStart); i >= 0 {
		return l.events[i]
	}
	s := stream(t, runID, "debug", "")
	defer s.Close()
	for _, f := range s.Collect(nil, settle) {
		v, _ := jcs.Decode([]byte(f.Data))
		if event, ok := v.(object); ok && isStart(event) {
			return event
		}
	}
	return nil
}

// ownerBlock checks an owner and its subject. The members version 2 removed
// have a row of their own and are taken out first.
func ownerBlock(c *corpus.Corpus, value any) harness.Check {
	const expected = "owner {tenant, workspace?, subject} with a valid subject of the same tenant"
	owner, ok := value.(object)
	if !ok {
		return harness.That(false, expected, "owner %s", show(value))
	}
	owner = maps.Clone(owner)
	for _, name := range principalMembers() {
		delete(owner, name)
	}
	if why := violation(c.ValidateValue("owner", owner)); why != "" {
		return harness.That(false, expected, "owner %s", cut(why))
	}
	tenant, ofSubject := text(owner, "tenant"), harness.Get(owner, "subject", "tenant")
	return harness.That(ofSubject == any(tenant), expected, "tenant %q, subject.tenant %s", tenant, show(ofSubject))
}

func principalMembers() []string { return []string{"principal", "principalKind"} }

// issuerOfLane checks that a subject's issuer is one its lane advertises
// (identity.md §2.2).
func issuerOfLane(lanes, subject any) harness.Check {
	lane, _ := harness.Get(subject, "lane").(string)
	issuer, _ := harness.Get(subject, "issuer").(string)
	var issuers []string
	list, _ := lanes.([]any)
	for _, l := range list {
		if of, _ := l.(object); lane != "" && text(of, "lane") == lane {
			advertised, _ := stringList(of["issuers"])
			issuers = append(issuers, advertised...)
		}
	}
	return harness.That(issuer != "" && slices.Contains(issuers, issuer),
		"an issuer that auth.lanes advertises for the subject's lane", "lane %q, issuer %q, advertised %q", lane, issuer, issuers)
}

// noPrincipal checks that neither the snapshot nor its owner has the members
// version 2 removed.
func noPrincipal(r *harness.Response) harness.Check {
	var found []string
	for _, name := range principalMembers() {
		for _, at := range []struct {
			where string
			value any
		}{{"owner.", r.Get("owner")}, {"", r.JSON()}} {
			if m, ok := at.value.(object); ok {
				if _, has := m[name]; has {
					found = append(found, at.where+name)
				}
			}
		}
	}
	return none("principal or principalKind", found)
}
