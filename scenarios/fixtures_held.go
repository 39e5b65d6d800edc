package scenarios

import (
	"fmt"
	"net/url"
	"sync"

	"wopcert/harness"
	"wopcert/requirements"
)

// advertisedFixturesExist: fixtures.md, "Seeding contract".
func advertisedFixturesExist() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-advertised-fixtures-exist",
		Title:    "The host holds every workflow its discovery document lists as a fixture",
		Document: "fixtures.md",
		Section:  "Seeding contract",
		Gates: []harness.Gate{harness.HostFact("the host's discovery document lists no fixtures",
			func(d *harness.Discovery) bool { return len(d.Fixtures()) > 0 })},
		Tests: []harness.Test{{
			Name:      "getWorkflow of every listed fixture",
			Witnesses: []requirements.ID{requirements.R0168AdvertisedFixturesExist},
			Run: func(t *harness.T) {
				// A host that answers any id with a workflow shows nothing.
				absent := "conformance-not-seeded-" + newOpaque()
				if control := getWorkflow(t, absent); holds(control, absent).OK {
					t.Abort("getWorkflow answers 200 for a workflow nobody seeded")
				}
				ids := t.Host().Discovery.Fixtures()
				checks := make([]harness.Check, len(ids))
				var wait sync.WaitGroup
				turn := make(chan struct{}, 4)
				for i, id := range ids {
					wait.Go(func() {
						turn <- struct{}{}
						defer func() { <-turn }()
						checks[i] = holds(getWorkflow(t, id), id)
					})
				}
				wait.Wait()
				for _, check := range checks {
					t.Expect(requirements.R0168AdvertisedFixturesExist, check)
				}
			},
		}},
	}
}

func getWorkflow(t *harness.T, id string) *harness.Response {
	return t.Do(harness.Request{Path: "/workflows/" + url.PathEscape(id)})
}

// holds checks that getWorkflow answered with the definition of the workflow,
// whose own id is its member id (or workflowId, the name the parameter has).
func holds(r *harness.Response, id string) harness.Check {
	got := r.Text("id")
	if got == "" {
		got = r.Text("workflowId")
	}
	return harness.That(r.Is(200).OK && got == id, fmt.Sprintf("200 with the workflow %s", id),
		"%s with id %q", answered(r), got).At(r)
}
