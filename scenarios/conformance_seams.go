package scenarios

import (
	"net/http"

	"wopcert/corpus"
	"wopcert/harness"
	"wopcert/requirements"
)

// seamsProfile is the profile a host with test seams names.
const seamsProfile = "openwop-conformance-seams-v2"

// seamsAdvertised: conformance.md, "The seams profile".
func seamsAdvertised() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-seams-advertised",
		Title:    "A host that mounts test seams says so",
		Document: "conformance.md",
		Section:  "The seams profile",
		Gates:    []harness.Gate{endingFixtures()},
		Tests: []harness.Test{{
			Name:      "operations of the seams profile",
			Witnesses: []requirements.ID{requirements.ConformanceSeamsAdvertised},
			Run: func(t *harness.T) {
				snapshot(t, startEnding(t)) // a host that serves nothing at all mounts no seams either
				c := t.Corpus()
				for _, r := range []*harness.Response{
					seam(t, http.MethodGet, "/workspace/files-"+newOpaque(), nil),
					seam(t, http.MethodPost, "/sample/event-log/seed-"+newOpaque(), object{}),
				} {
					if mounted(c, r) {
						t.Abort("the host answers any path below /conformance/seams: %s gave %s", r.Request, answered(r))
					}
				}
				advertised := harness.Get(t.Host().Discovery.Document, "conformance", "seamsProfile") == any(seamsProfile)
				for _, r := range []*harness.Response{
					seam(t, http.MethodGet, "/workspace/files", nil),
					seam(t, http.MethodPost, "/sample/event-log/seed", object{}),
					seam(t, http.MethodGet, "/packs-test/wopcert.none/-/1.0.0.tgz", nil),
				} {
					t.Expect(requirements.ConformanceSeamsAdvertised, harness.That(advertised || !mounted(c, r),
						"conformance.seamsProfile "+seamsProfile+", or no answer from a seam",
						"%s answered %s, with conformance.seamsProfile %s", r.Request, answered(r),
						show(harness.Get(t.Host().Discovery.Document, "conformance", "seamsProfile"))).At(r))
				}
			},
		}},
	}
}

func seam(t *harness.T, method, path string, body any) *harness.Response {
	return t.Do(harness.Request{Method: method, Path: "/conformance/seams" + path, Body: body})
}

// mounted reports whether a seam answered: with a success that is no page, or
// with a refusal of what it was asked, in a registered code.
func mounted(c *corpus.Corpus, r *harness.Response) bool {
	switch r.Status {
	case http.StatusBadRequest, http.StatusConflict, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		_, registered := c.Error(r.Text("error"))
		return r.Err == nil && registered
	}
	return r.Err == nil && r.Status >= 200 && r.Status <= 299 && mediaType(r) != "text/html"
}
