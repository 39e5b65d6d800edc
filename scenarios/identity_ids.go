package scenarios

import (
	"net/http"
	"net/url"
	"strings"

	"wopcert/harness"
	"wopcert/requirements"
)

// idGrammar: identity.md §5, "Identifier grammars", and runs.md, "Identity".
func idGrammar() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-id-grammar",
		Title:    "Ids follow the grammar of their kind and are bound to the caller's tenant",
		Document: "identity.md",
		Section:  "5. Identifier grammars",
		Gates:    []harness.Gate{endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "the ids of a run",
				Witnesses: []requirements.ID{requirements.R0170IdGrammarSnapshot},
				Run: func(t *harness.T) {
					made := create(t, endingBody(t))
					if !made.Is(http.StatusCreated).OK {
						t.Abort("no run to observe: createRun gave %s", answered(made))
					}
					t.Expect(requirements.R0170IdGrammarSnapshot, idIs(t, "runId of the create response", made.Get("runId"), "runId").At(made))
					r := snapshot(t, made.Text("runId"))
					for _, check := range snapshotIDs(t, r) {
						t.Expect(requirements.R0170IdGrammarSnapshot, check.At(r))
					}
					t.Expect(requirements.R0170IdGrammarSnapshot, claimedTenant(t, tenantSegment(made.Text("runId"))))
				},
			},
			{
				Name:      "the ids of events",
				Witnesses: []requirements.ID{requirements.R0170IdGrammarEvents},
				Run: func(t *harness.T) {
					id, l := settledEnding(t)
					if len(l.events) == 0 {
						t.Abort("the finished run has no events to judge")
					}
					for _, event := range l.events {
						t.Expect(requirements.R0170IdGrammarEvents, eventIDs(t, id, event))
					}
				},
			},
			{
				Name:      "a run of another tenant",
				Witnesses: []requirements.ID{requirements.R0170IdGrammarTenantBinding},
				Gates:     []harness.Gate{harness.NeedsCredential(harness.OtherTenant)},
				Run:       tenantBinding,
			},
			{
				Name:      "the bare form of a run id",
				Witnesses: []requirements.ID{requirements.R0170IdGrammarBareId},
				Run:       bareRunID,
			},
		},
	}
}

// claimedTenant creates a run whose body names another tenant. Whether a host refuses
// that or goes by the credential alone is its own affair; a run in a tenant that is not
// the caller's is not.
func claimedTenant(t *harness.T, own string) harness.Check {
	claimed := "no-such-tenant"
	if t.Has(harness.OtherTenant) {
		claimed = tenantSegment(startRunAs(t, harness.OtherTenant, endingBody(t)))
	}
	r := create(t, with(endingBody(t), "tenantId", claimed))
	return harness.That(!r.Is(http.StatusCreated).OK || tenantSegment(r.Text("runId")) == own,
		"a create whose body names another tenant refused, or a run of the tenant "+own, "%s with runId %q", answered(r), r.Text("runId")).At(r)
}

// bareRunID asks for a run by its opaque segment alone.
func bareRunID(t *harness.T) {
	id := startEnding(t)
	snapshot(t, id) // the bound form reaches the run
	_, bare, ok := strings.Cut(id, "/")
	if !ok {
		t.Abort("runId %q has no tenant segment to leave out", id)
	}
	r := t.Do(harness.Request{Path: "/runs/" + url.PathEscape(bare)})
	if t.Host().Discovery.ListsMajor("1") {
		t.Expect(requirements.R0170IdGrammarBareId, harness.That(r.Is(http.StatusOK).OK && r.Text("runId") == id,
			"200 with the bound runId while a 1.x is listed", "%s with runId %q", answered(r), r.Text("runId")).At(r))
		return
	}
	t.Expect(requirements.R0170IdGrammarBareId, r.Refuses("validation_error"))
}

// tenantBinding asks for runs of the other tenant, one that exists and one
// that does not.
func tenantBinding(t *harness.T) {
	own := startEnding(t)
	snapshot(t, own)
	theirs := startRunAs(t, harness.OtherTenant, endingBody(t))
	if r := t.Do(harness.Request{Path: runPath(theirs, ""), As: harness.OtherTenant}); !r.Is(http.StatusOK).OK {
		t.Abort("the other tenant cannot read its own run: %s", answered(r))
	}
	if tenantSegment(theirs) == tenantSegment(own) {
		t.Blocked(requirements.R0170IdGrammarTenantBinding,
			"the credential given for the other tenant belongs to the tenant %s as well; give one of another tenant", tenantSegment(own))
		return
	}
	absent := tenantSegment(theirs) + "/" + newOpaque()
	asks := ofForeignRun(t)
	answers := atOnce(3*len(asks), func(i int) *harness.Response {
		ask, id := asks[i/3], []string{theirs, theirs, absent}[i%3]
		r := harness.Request{Method: ask.method, Path: runPath(id, ask.rest)}
		if ask.method == http.MethodPost {
			r.Body, r.Header = ask.body, headerOf("Idempotency-Key", newIdempotencyKey())
		}
		if ask.what == "streamRunEvents" {
			s := t.Stream(r)
			s.Close()
			return s.Response
		}
		return t.Do(r)
	})
	for i, ask := range asks {
		held, again, missing := answers[3*i], answers[3*i+1], answers[3*i+2]
		check := held.Refuses("id_tenant_mismatch")
		check.Observed = ask.what + ": " + check.Observed
		t.Expect(requirements.R0170IdGrammarTenantBinding, check)
		t.Expect(requirements.R0170IdGrammarTenantBinding, sameRefusal(ask.what, held, again, theirs, missing, absent))
	}
}

// foreignAsk is a request about a run of another tenant.
type foreignAsk struct {
	what, method, rest string
	body               any
}

// ofForeignRun are requests of the operations that name a run in their path, as
// far as the host has them.
func ofForeignRun(t *harness.T) []foreignAsk {
	out := []foreignAsk{
		{"getRun", http.MethodGet, "", nil},
		{"pollRunEvents", http.MethodGet, "/events/poll?timeout=1", nil},
		{"streamRunEvents", http.MethodGet, "/events", nil},
		{"cancelRun", http.MethodPost, "/cancel", object{}},
		{"pauseRun", http.MethodPost, ":pause", object{}},
		{"resumeRun", http.MethodPost, ":resume", object{}},
		{"getArtifact", http.MethodGet, "/artifacts/" + newOpaque(), nil},
	}
	signal := object{"signal": object{"kind": "flag"}}
	for _, gated := range []foreignAsk{
		{"forkRun", http.MethodPost, ":fork", object{"mode": "replay"}},
		{"getRunAncestry", http.MethodGet, "/ancestry", nil},
		{"createAnnotation", http.MethodPost, "/annotations", signal},
		{"listAnnotations", http.MethodGet, "/annotations", nil},
		{"getEvalSummary", http.MethodGet, "/eval-summary", nil},
		{"getRunCompensation", http.MethodGet, "/compensation", nil},
		{"getRunEffects", http.MethodGet, "/effects", nil},
	} {
		if op, ok := t.Corpus().Operation(gated.what); ok && gateOpen(t.Host().Discovery, op.Gate) {
			out = append(out, gated)
		}
	}
	return out
}

// boundIDPathProjection: identity.md §5, on ids as path segments.
func boundIDPathProjection() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-bound-id-path-projection",
		Title:    "A run id is one path segment, projected or percent-encoded",
		Document: "identity.md",
		Section:  "5. Identifier grammars",
		Gates:    []harness.Gate{endingFixtures()},
		Tests: []harness.Test{{
			Name:      "both forms and the links",
			Witnesses: []requirements.ID{requirements.R0184BoundIdPathProjection},
			Run: func(t *harness.T) {
				made := create(t, endingBody(t))
				id := made.Text("runId")
				if !made.Is(http.StatusCreated).OK || !strings.Contains(id, "/") {
					t.Abort("no run with a bound id to observe: createRun gave %s with runId %q", answered(made), id)
				}
				for _, form := range []string{projectID(id), url.PathEscape(id)} {
					r := t.Do(harness.Request{Path: "/runs/" + form})
					t.Expect(requirements.R0184BoundIdPathProjection, harness.That(r.Is(http.StatusOK).OK && sameOpaque(r.Text("runId"), id),
						"200 for the run "+id, "/runs/%s was answered %s with runId %q", form, answered(r), r.Text("runId")).At(r))
					p := t.Do(harness.Request{Path: "/runs/" + form + "/events/poll", Query: url.Values{"timeout": {"1"}}})
					t.Expect(requirements.R0184BoundIdPathProjection, harness.That(p.Is(http.StatusOK).OK,
						"200 for the run "+id, "/runs/%s/events/poll was answered %s", form, answered(p)).At(p))
				}
				links := 0
				for _, name := range []string{"eventsUrl", "statusUrl"} {
					if link, ok := made.Get(name).(string); ok {
						links++
						t.Expect(requirements.R0184BoundIdPathProjection, linkProjects(t.Corpus(), name, link).At(made))
					}
				}
				if links == 0 {
					t.Abort("the create response has no link to judge")
				}
			},
		}},
	}
}
