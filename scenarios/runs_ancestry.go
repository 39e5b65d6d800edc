package scenarios

import (
	"net/http"

	"wopcert/harness"
	"wopcert/requirements"
)

// runAncestry covers getRunAncestry (runs.md, "Diff and ancestry").
func runAncestry() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-run-ancestry",
		Title:    "A run names the run that dispatched it, and that there is none",
		Document: "runs.md", Section: "Diff and ancestry",
		Gates: []harness.Gate{
			harness.HostFact("the host does not advertise multiAgent.executionModel.crossHostCausation.ancestryEndpointSupported",
				func(d *harness.Discovery) bool {
					v, _ := d.Facet("multiAgent", "executionModel", "crossHostCausation", "ancestryEndpointSupported")
					return v == true
				}),
			endingFixtures(),
		},
		Tests: []harness.Test{
			{
				Name:      "a run that nothing dispatched, and a child run",
				Witnesses: []requirements.ID{requirements.RunsAncestry},
				Run:       ancestryIsNamed,
			},
		},
	}
}

func ancestry(t *harness.T, runID string) *harness.Response {
	return t.Do(harness.Request{Path: runPath(runID, "/ancestry")})
}

// hostIDAs checks the hostId of a run against the advertised one, where there
// is one.
func hostIDAs(t *harness.T, what string, got any) harness.Check {
	advertised, ok := t.Host().Discovery.Facet("multiAgent", "executionModel", "crossHostCausation", "hostId")
	return harness.That(!ok || got == advertised, what+" "+show(advertised), "%s %s", what, show(got))
}

func ancestryIsNamed(t *harness.T) {
	id, _ := settledEnding(t)
	r := ancestry(t, id)
	body, _ := r.JSON().(object)
	parent, has := body["parent"]
	t.Expect(requirements.RunsAncestry, harness.All(r.Is(http.StatusOK), r.Valid("run-ancestry-response"), names(r, id),
		hostIDAs(t, "hostId", r.Get("hostId")),
		harness.That(has && parent == nil, "parent null for a run that nothing dispatched", "parent %s", show(parent))).At(r))
	if !listed(t, subWorkflowCalls) {
		return
	}
	caller, child := childOf(t, subWorkflowCalls, subWorkflowCalled)
	defer endRun(t, caller)
	r = ancestry(t, child)
	cause, _ := r.Get("parent", "cause").(string)
	t.Expect(requirements.RunsAncestry, harness.All(r.Is(http.StatusOK), r.Valid("run-ancestry-response"), names(r, child),
		hostIDAs(t, "hostId", r.Get("hostId")),
		harness.Equal("runId of the parent", any(caller), r.Get("parent", "runId")),
		harness.Equal("hostId of the parent, which is the child's", r.Get("hostId"), r.Get("parent", "hostId")),
		harness.OneOf("cause", cause, "core.subWorkflow", "core.dispatch")).At(r))
	t.Expect(requirements.RunsAncestry, harness.That(r.Get("parent", "wellKnownUrl") == nil, "no wellKnownUrl for a parent on the same host",
		"wellKnownUrl %s", show(r.Get("parent", "wellKnownUrl"))).At(r))
}
