package scenarios

import (
	"net/http"
	"slices"

	"wopcert/harness"
	"wopcert/requirements"
)

// compensationRead: security-defaults.md, "Compensation".
func compensationRead() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-compensation-read-projection",
		Title:    "How a run was undone, and how it is to be undone, can be read",
		Document: "security-defaults.md", Section: "Compensation",
		Gates: []harness.Gate{harness.Advertises("compensation")},
		Tests: []harness.Test{
			{
				Name:      "a run with nothing to undo",
				Witnesses: []requirements.ID{requirements.R0173CompensationReadProjection},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       nothingToUndo,
			},
			{
				Name:      "a run that was undone",
				Witnesses: []requirements.ID{requirements.R0173CompensationReadProjection},
				Gates:     compensates(unwinds),
				Run:       undoneRead,
			},
			{
				Name:      "a run that is not there",
				Witnesses: []requirements.ID{requirements.R0173CompensationReadProjectionNotFound},
				Gates:     []harness.Gate{endingFixtures()},
				Run: func(t *harness.T) {
					id, _ := settledEnding(t)
					if r := compensationOf(t, id); !r.Is(http.StatusOK).OK {
						t.Abort("the compensation of a run that is there cannot be read either: %s", answered(r))
					}
					t.Expect(requirements.R0173CompensationReadProjectionNotFound, compensationOf(t, absentRun(id)).Refuses("not_found"))
				},
			},
			{
				Name:      "the ordering models",
				Witnesses: []requirements.ID{requirements.SecurityDefaultsCompensationOrderingModels},
				Run: func(t *harness.T) {
					facet, _ := t.Host().Discovery.Facet("compensation", "orderingModels")
					models, _ := stringList(facet)
					t.Expect(requirements.SecurityDefaultsCompensationOrderingModels, harness.That(slices.Contains(models, "reverse-completion"),
						"compensation.orderingModels with reverse-completion", "%s", show(facet)))
				},
			},
		},
	}
}

// servesCompensation checks a projection for itself.
func servesCompensation(r *harness.Response, runID string) harness.Check {
	return harness.All(names(r, runID), r.Valid("compensation-projection")).At(r)
}

func nothingToUndo(t *harness.T) {
	id, _ := settledEnding(t)
	r := compensationOf(t, id)
	t.Expect(requirements.R0173CompensationReadProjection, harness.All(servesCompensation(r, id),
		harness.Equal("status", any("none"), r.Get("status")),
		harness.That(len(planned(r)) == 0, "an empty plan", "a plan for %v", planned(r)),
		harness.That(len(triedOf(r)) == 0, "no attempts", "%v", triedOf(r))).At(r))
}

func undoneRead(t *harness.T) {
	u := unwinding(t, unwinds, nil)
	u.rests(t)
	r := u.projection
	if len(inversesOf(u.provider.Attempts(), "")) == 0 {
		t.Abort("no inverse action reached the provider, so that there is no compensation to read")
	}
	nodes := slices.Sorted(slices.Values(planned(r)))
	t.Expect(requirements.R0173CompensationReadProjection, harness.All(servesCompensation(r, u.id),
		harness.Equal("status", any("completed"), r.Get("status")),
		harness.Equal("planned nodes", []string{"charge", "reserve"}, nodes)).At(r))
}
