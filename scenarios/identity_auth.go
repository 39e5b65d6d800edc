package scenarios

import (
	"net/http"

	"wopcert/harness"
	"wopcert/requirements"
)

// authRequired: identity.md §2.1, "The pipeline", and §6.
func authRequired() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-auth-required",
		Title:    "Without a credential the host knows, nothing is served",
		Document: "identity.md",
		Section:  "2.1 The pipeline",
		Gates:    []harness.Gate{endingFixtures()},
		Tests: []harness.Test{{
			Name:      "no credential and an unknown one",
			Witnesses: []requirements.ID{requirements.IdentityUnauthenticatedRefused},
			Run: func(t *harness.T) {
				id := startEnding(t)
				snapshot(t, id) // with the credential both requests are served
				for _, who := range []harness.Identity{harness.Anonymous, harness.Unknown} {
					made := createAs(t, who, endingBody(t))
					t.Expect(requirements.IdentityUnauthenticatedRefused,
						refusedWith(t.Corpus(), "createRun as "+who.String(), made, http.StatusUnauthorized))
					read := t.Do(harness.Request{Path: runPath(id, ""), As: who})
					t.Expect(requirements.IdentityUnauthenticatedRefused,
						refusedWith(t.Corpus(), "getRun as "+who.String(), read, http.StatusUnauthorized))
				}
			},
		}},
	}
}
