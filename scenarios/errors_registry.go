package scenarios

import (
	"fmt"
	"net/http"

	"wopcert/harness"
	"wopcert/requirements"
)

// errorRegistry: errors.md, "The registry", "The envelope" and "Retry timing".
func errorRegistry() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-error-registry",
		Title:    "Every error response is the one envelope with a registered code under its status",
		Document: "errors.md",
		Section:  "The envelope",
		Gates:    []harness.Gate{endingFixtures()},
		Tests: []harness.Test{{
			Name: "refusals of many kinds",
			Witnesses: []requirements.ID{
				requirements.R0171ErrorRegistryEnvelope,
				requirements.R0171ErrorRegistryNoRetryDetails,
				requirements.R0171ErrorRegistryRetryAfter,
				requirements.ErrorsRegisteredStatus,
			},
			Run: func(t *harness.T) {
				limited := false
				for _, h := range refusals(t) {
					t.Expect(requirements.R0171ErrorRegistryEnvelope, envelope(t.Corpus(), h))
					t.Expect(requirements.R0171ErrorRegistryNoRetryDetails, noRetryDetails(h))
					if check, ok := registeredStatus(t.Corpus(), h); ok {
						t.Expect(requirements.ErrorsRegisteredStatus, check)
					}
					if h.response.Status == http.StatusTooManyRequests {
						limited = true
						t.Expect(requirements.R0171ErrorRegistryRetryAfter, harness.That(h.response.Header.Get("Retry-After") != "",
							"Retry-After on 429", "no Retry-After on the 429 to %s", h.what).At(h.response))
					}
				}
				if !limited {
					t.Inapplicable(requirements.R0171ErrorRegistryRetryAfter, "the host limited no request of this test")
				}
			},
		}, {
			Name:      "a scope that is taken",
			Witnesses: []requirements.ID{requirements.R0171ErrorRegistryNoRetryDetails},
			Gates:     []harness.Gate{liveFixtures()},
			Run: func(t *harness.T) { // the one refusal beside 429 that has to say when
				scope := newTag()
				held, refused := inScope(t, harness.Primary, scope, true), inScope(t, harness.Primary, scope, true)
				defer endRun(t, held.Text("runId"))
				defer endRun(t, refused.Text("runId"))
				if !refused.Refuses("run_already_active").OK {
					t.Abort("no refusal to observe: a second create in a scope gave %s", answered(refused))
				}
				t.Expect(requirements.R0171ErrorRegistryNoRetryDetails, noRetryDetails(heard{"createRun in a scope that is taken", refused}))
			},
		}},
	}
}

// malformedBodyEnvelope: errors.md, "The registry", and runs.md, "Create".
func malformedBodyEnvelope() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-malformed-body-envelope",
		Title:    "A createRun body the host cannot read is refused in the error envelope",
		Document: "errors.md",
		Section:  "The registry",
		Gates:    []harness.Gate{endingFixtures()},
		Tests: []harness.Test{{
			Name:      "malformed and wrongly typed bodies",
			Witnesses: []requirements.ID{requirements.R0172MalformedBodyEnvelope},
			Run: func(t *harness.T) {
				startEnding(t) // the same request with a sound body is served
				for _, body := range unreadableBodies(text(endingBody(t), "workflowId")) {
					r := t.Do(harness.Request{Method: http.MethodPost, Path: "/runs", RawBody: []byte(body),
						Header: headerOf("Idempotency-Key", newIdempotencyKey())})
					check := r.Refuses("validation_error")
					check.Observed += " for the body " + body
					t.Expect(requirements.R0172MalformedBodyEnvelope, check)
				}
			},
		}},
	}
}

// unreadableBodies are createRun bodies that are not JSON, not whole, not an
// object, or hold a member of another type or one that is not defined (runs.md,
// "Create").
func unreadableBodies(workflow string) []string {
	sound := fmt.Sprintf(`{"workflowId":%q`, workflow)
	return []string{
		`not json`,
		sound,
		sound + `,}`,
		fmt.Sprintf(`[%q]`, workflow),
		fmt.Sprintf(`%q`, workflow),
		`null`,
		`{"workflowId":7}`,
		sound + `,"inputs":"text"}`,
		sound + `,"tags":"text"}`,
		sound + `,"metadata":["text"]}`,
		sound + `,"wopcertUnknown":true}`,
		sound + `,"input":{}}`,
	}
}
