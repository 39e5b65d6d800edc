package scenarios

import (
	"net/http"
	"strings"

	"wopcert/corpus"
	"wopcert/harness"
	"wopcert/requirements"
)

// bothMajors gates on a host that serves majors 1 and 2 side by side.
func bothMajors() harness.Gate {
	return harness.HostFact("the host does not list a version of major 1 beside one of major 2", listsBoth)
}

// advertisedPathSpace: versioning.md §1.2, "Paths".
func advertisedPathSpace() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-advertised-path-space-served",
		Title:    "What a host answers under /v1 it reaches under major 2",
		Document: "versioning.md",
		Section:  "1.2 Paths",
		Gates:    []harness.Gate{bothMajors()},
		Tests: []harness.Test{{
			Name:      "every path without a parameter under both majors",
			Witnesses: []requirements.ID{requirements.R0172AdvertisedPathSpaceServed},
			Run: func(t *harness.T) {
				judged := 0
				for _, op := range t.Corpus().Operations() {
					if op.Method != http.MethodGet || strings.Contains(op.Path, "{") {
						continue
					}
					old := probePath(t, op, "/v1", harness.NoVersion)
					if !answers(old) {
						continue
					}
					judged++
					t.Expect(requirements.R0172AdvertisedPathSpaceServed, reached(op, old, probePath(t, op, "", "2")))
				}
				if judged == 0 {
					t.Inapplicable(requirements.R0172AdvertisedPathSpaceServed, "the host answers no operation without a path parameter under /v1")
				}
			},
		}},
	}
}

// answers reports whether an operation is served there: a page is not one.
func answers(r *harness.Response) bool {
	switch r.Status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone:
		return false
	}
	return r.Err == nil && r.Status < http.StatusInternalServerError && mediaType(r) != "text/html"
}

// reached checks the twin of an operation that /v1 answers.
func reached(op corpus.Operation, old, r *harness.Response) harness.Check {
	return harness.That(r.Err == nil && r.Status != http.StatusNotFound && mediaType(r) != "text/html",
		op.Path+" reached under major 2, as /v1"+op.Path+" answers "+answered(old), "%s answered %s", op.Path, answered(r)).At(r)
}

// probePath asks for an operation under a prefix. One that streams is read no
// further than its headers.
func probePath(t *harness.T, op corpus.Operation, prefix, version string) *harness.Response {
	request := harness.Request{Path: prefix + op.Path, Version: version}
	if op.ID != "streamHostEvents" {
		return t.Do(request)
	}
	s := t.Stream(request)
	s.Close()
	return s.Response
}

// mismatchedPath asks /v1 paths for major 2: a host serves nothing there under
// another major, and one without major 1 may not have them at all.
func mismatchedPath(t *harness.T) {
	id := startEnding(t)
	snapshot(t, id) // the same operations are served without the prefix
	absent := listedVersion(t.Host().Discovery, "1") == ""
	for _, r := range []*harness.Response{
		t.Do(harness.Request{Path: "/v1" + runPath(id, ""), Version: "2"}),
		t.Do(harness.Request{Method: http.MethodPost, Path: "/v1/runs", Version: "2", Body: endingBody(t),
			Header: headerOf("Idempotency-Key", newIdempotencyKey())}),
	} {
		check := r.Refuses("protocol_version_mismatch")
		if absent {
			check.OK = check.OK || r.Err == nil && r.Status == http.StatusNotFound
			check.Expected += ", or 404 where no version of major 1 is listed"
		}
		check.Observed = r.Request + " under OpenWOP-Version: 2 was answered " + check.Observed
		t.Expect(requirements.R0172DualStackNegotiationV1PathMismatch, check)
	}
}

// crossMajorRead creates a run as a client of major 1 and reads it as one of
// major 2, by the id bound to the caller's tenant.
func crossMajorRead(t *harness.T) {
	tenant := tenantSegment(startRun(t, object{"workflowId": noop}))
	old := t.Do(harness.Request{Method: http.MethodPost, Path: "/v1/runs", Version: harness.NoVersion,
		Body: object{"workflowId": noop}, Header: headerOf("Idempotency-Key", newIdempotencyKey())})
	id := old.Text("runId")
	if old.Err != nil || old.Status < 200 || old.Status > 299 || id == "" {
		t.Abort("no run of major 1 to read: POST /v1/runs gave %s", answered(old))
	}
	if !strings.Contains(id, "/") {
		id = tenant + "/" + id
	}
	r := get(t, id)
	version, _ := versionHeader(r)
	t.Expect(requirements.R0172DualStackNegotiationCrossMajorRead, harness.All(
		names(r, id),
		harness.That(majorOf(version) == "2", "OpenWOP-Version 2.x on the read under major 2", "OpenWOP-Version %q", version),
	).At(r))
	if version, has := versionHeader(old); has {
		t.Expect(requirements.R0172DualStackNegotiationCrossMajorRead, harness.That(majorOf(version) == "1",
			"OpenWOP-Version 1.x on the create under /v1", "OpenWOP-Version %q", version).At(old))
	}
}
