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
	for _, ask := range []struct {
		what   string
		method string
		rest   string
	}{
		{"getRun", http.MethodGet, ""},
		{"pollRunEvents", http.MethodGet, "/events/poll?timeout=1"},
		{"cancelRun", http.MethodPost, "/cancel"},
	} {
		send := func(id string) *harness.Response {
			r := harness.Request{Method: ask.method, Path: runPath(id, ask.rest)}
			if ask.method == http.MethodPost {
				r.Body, r.Header = object{}, headerOf("Idempotency-Key", newIdempotencyKey())
			}
			return t.Do(r)
		}
		held, again, missing := send(theirs), send(theirs), send(absent)
		check := held.Refuses("id_tenant_mismatch")
		check.Observed = ask.what + ": " + check.Observed
		t.Expect(requirements.R0170IdGrammarTenantBinding, check)
		t.Expect(requirements.R0170IdGrammarTenantBinding, sameRefusal(ask.what, held, again, theirs, missing, absent))
	}
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
