package scenarios

import (
	"fmt"
	"net/http"
	"sync"

	"wopcert/harness"
	"wopcert/requirements"
)

// runDedup: runs.md, "Request headers".
func runDedup() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-run-dedup",
		Title:    "OpenWOP-Dedup keeps a scope to one active run",
		Document: "runs.md",
		Section:  "Request headers",
		Gates:    []harness.Gate{liveFixtures()},
		Tests: []harness.Test{
			{
				Name:      "a second run of a scope",
				Witnesses: []requirements.ID{requirements.RunsDedupEnforced},
				Run:       secondOfScope,
			},
			{
				Name:      "eight runs of a scope at once",
				Witnesses: []requirements.ID{requirements.RunsDedupEnforced},
				Run:       raceOfScope,
			},
		},
	}
}

// inScope creates a run that stays active, with or without the header.
func inScope(t *harness.T, who harness.Identity, scope string, enforce bool) *harness.Response {
	body := with(liveBody(t), "scopeId", scope)
	if enforce {
		return createAs(t, who, body, "OpenWOP-Dedup", "enforce")
	}
	return createAs(t, who, body)
}

func secondOfScope(t *harness.T) {
	scope := newTag()
	first := inScope(t, harness.Primary, scope, true)
	if first.Refuses("run_already_active").OK {
		t.Expect(requirements.RunsDedupEnforced, admitted("a scopeId that no run holds", first))
		return
	}
	if !first.Is(http.StatusCreated).OK {
		t.Abort("no run that holds a scope: createRun with OpenWOP-Dedup gave %s", answered(first))
	}
	defer endRun(t, first.Text("runId"))
	body, tag := tagged(with(liveBody(t), "scopeId", scope))
	second := create(t, body, "OpenWOP-Dedup", "enforce")
	if second.Is(http.StatusCreated).OK {
		defer endRun(t, second.Text("runId"))
		if status := get(t, first.Text("runId")).Text("status"); endedStatus(status) {
			t.Abort("no active run to hold a scope: the run is %s at once, though asked to wait %d ms", status, activeFor)
		}
	}
	t.Expect(requirements.RunsDedupEnforced, harness.All(second.Refuses("run_already_active"), saysWhen(second)))
	if !second.Is(http.StatusCreated).OK {
		t.Expect(requirements.RunsDedupEnforced, noRunTagged(t, harness.Primary, tag))
	}
	// The scope is the tenant's, whatever workflow a run in it is of.
	for _, ending := range endingBodies(t) {
		if ending["workflowId"] != body["workflowId"] {
			third := create(t, with(ending, "scopeId", scope), "OpenWOP-Dedup", "enforce")
			defer endRun(t, third.Text("runId"))
			t.Expect(requirements.RunsDedupEnforced, harness.All(third.Refuses("run_already_active"), saysWhen(third)))
			break
		}
	}
	other := inScope(t, harness.Primary, newTag(), true)
	defer endRun(t, other.Text("runId"))
	t.Expect(requirements.RunsDedupEnforced, admitted("another scopeId", other))
	plain := inScope(t, harness.Primary, scope, false)
	defer endRun(t, plain.Text("runId"))
	t.Expect(requirements.RunsDedupEnforced, admitted("the same scopeId without the header", plain))
	if t.Has(harness.OtherTenant) {
		foreign := inScope(t, harness.OtherTenant, scope, true)
		if id := foreign.Text("runId"); id != "" {
			defer t.Do(harness.Request{Method: http.MethodPost, Path: runPath(id, "/cancel"), Body: object{}, As: harness.OtherTenant})
			if tenantSegment(id) == tenantSegment(first.Text("runId")) {
				t.Abort("the key of the other tenant is of the same tenant")
			}
		}
		t.Expect(requirements.RunsDedupEnforced, admitted("the same scopeId of another tenant", foreign))
	}
}

func admitted(what string, r *harness.Response) harness.Check {
	check := harness.All(r.Is(http.StatusCreated), harness.That(r.Text("runId") != "", "a runId", "201 with runId %s", show(r.Get("runId"))).At(r))
	check.Observed = what + " was answered " + check.Observed
	return check
}

func raceOfScope(t *harness.T) {
	scope := newTag()
	answers := atOnce(8, func(int) *harness.Response { return inScope(t, harness.Primary, scope, true) })
	made := 0
	for _, r := range answers {
		if r.Is(http.StatusCreated).OK {
			made++
			defer endRun(t, r.Text("runId"))
		}
	}
	notLimited(t, answers)
	t.Expect(requirements.RunsDedupEnforced, harness.That(made == 1, "one 201 of eight creates for one scopeId at once", "%d of them", made))
	for _, r := range answers {
		if !r.Is(http.StatusCreated).OK {
			t.Expect(requirements.RunsDedupEnforced, r.Refuses("run_already_active"))
		}
	}
}

// atOnce sends n requests that are released together.
func atOnce(n int, send func(i int) *harness.Response) []*harness.Response {
	out := make([]*harness.Response, n)
	var wait sync.WaitGroup
	released := make(chan struct{})
	for i := range n {
		wait.Go(func() {
			<-released
			out[i] = send(i)
		})
	}
	close(released)
	wait.Wait()
	return out
}

// notLimited ends a test whose requests the host did not take at that pace.
func notLimited(t *harness.T, answers []*harness.Response) {
	for _, r := range answers {
		if r.Status == http.StatusTooManyRequests {
			t.Abort("%s", fmt.Sprintf("the host takes fewer than %d requests at once: %s", len(answers), answered(r)))
		}
	}
}
