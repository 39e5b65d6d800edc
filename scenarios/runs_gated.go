package scenarios

import (
	"net/http"
	"strings"

	"wopcert/harness"
	"wopcert/requirements"
)

// gatedOperations: runs.md, "Surface".
func gatedOperations() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-gated-operations",
		Title:    "An operation that the host does not advertise is not there",
		Document: "runs.md",
		Section:  "Surface",
		Gates:    []harness.Gate{endingFixtures()},
		Tests: []harness.Test{{
			Name:      "the operations of a finished run that are not advertised",
			Witnesses: []requirements.ID{requirements.RunsGatedOperationsAbsent},
			Run: func(t *harness.T) {
				id, _ := settledEnding(t)
				snapshot(t, id)
				// Whether error responses have a sound body at all is the row of the envelope.
				missing := get(t, tenantSegment(id)+"/"+newOpaque())
				if !missing.Is(http.StatusNotFound).OK {
					t.Abort("the host does not answer 404 for what is not there: getRun of no run gave %s", answered(missing))
				}
				sound := envelope(t.Corpus(), heard{"getRun of no run", missing}).OK
				judged := 0
				for _, op := range ungated(t) {
					r := t.Do(harness.Request{Method: op.method, Path: runsPath(id, op.path), Body: op.body})
					judged++
					check := r.Is(http.StatusNotFound)
					check.Observed = op.id + " answered " + check.Observed
					checks := []harness.Check{check}
					if sound {
						checks = append(checks, envelope(t.Corpus(), heard{op.id, r}))
						if op.gate == "feedback" {
							checks = append(checks, r.Refuses("not_found"))
						}
					}
					t.Expect(requirements.RunsGatedOperationsAbsent, harness.All(checks...).At(r))
				}
				if judged == 0 {
					t.Inapplicable(requirements.RunsGatedOperationsAbsent, "the host advertises what gates any operation of a run")
				}
			},
		}},
	}
}

// gated is an operation of the run surface with a gate.
type gated struct {
	id, gate, method, path string // path below the run, "" for the list
	body                   any
}

// ungated are the gated operations whose gate the host does not advertise.
func ungated(t *harness.T) []gated {
	var out []gated
	for _, op := range []gated{
		{id: "forkRun", path: ":fork", body: object{"mode": "replay"}},
		{id: "listRuns"},
		{id: "getRunAncestry", path: "/ancestry"},
		{id: "createAnnotation", path: "/annotations", body: object{"signal": object{"kind": "flag"}}},
		{id: "listAnnotations", path: "/annotations"},
		{id: "getEvalSummary", path: "/eval-summary"},
		{id: "getRunCompensation", path: "/compensation"},
		{id: "getRunEffects", path: "/effects"},
	} {
		known, ok := t.Corpus().Operation(op.id)
		if !ok || gateOpen(t.Host().Discovery, known.Gate) {
			continue
		}
		op.gate, op.method = known.Gate, known.Method
		out = append(out, op)
	}
	return out
}

// gateOpen reports whether a host advertises a gate: a family, or a facet that
// is there and not false.
func gateOpen(d *harness.Discovery, gate string) bool {
	family, facet, nested := strings.Cut(gate, ".")
	if !nested {
		return d.Advertises(family)
	}
	v, ok := d.Facet(family, strings.Split(facet, ".")...)
	return ok && v != false
}

// runsPath is a path below a run, or that of all runs.
func runsPath(runID, below string) string {
	if below == "" {
		return "/runs"
	}
	return runPath(runID, below)
}

// operationScopes: runs.md, "Surface".
func operationScopes() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-operation-scopes",
		Title:    "A key that may only read changes no run",
		Document: "runs.md",
		Section:  "Surface",
		Gates:    []harness.Gate{harness.NeedsCredential(harness.ReadOnly), liveFixtures()},
		Tests: []harness.Test{{
			Name:      "a reader beside an active run",
			Witnesses: []requirements.ID{requirements.RunsOperationScopes},
			Run:       readerActs,
		}},
	}
}

func readerActs(t *harness.T) {
	id := liveRun(t)
	defer endRun(t, id)
	if r := t.Do(harness.Request{Path: runPath(id, ""), As: harness.ReadOnly}); !r.Is(http.StatusOK).OK || !isActive(r.Text("status")) {
		t.Abort("the read-only key reads no run of the primary key, so that what else it may not do shows nothing: %s", answered(r))
	}
	polled := t.Do(harness.Request{Path: runPath(id, "/events/poll"), As: harness.ReadOnly})
	t.Expect(requirements.RunsOperationScopes, harness.All(polled.Is(http.StatusOK),
		harness.That(len(eventsOf(polled)) > 0, "the events of the run", "%d events", len(eventsOf(polled)))).At(polled))
	post := func(path string, body any) *harness.Response {
		return t.Do(harness.Request{Method: http.MethodPost, Path: path, Body: body, As: harness.ReadOnly,
			Header: headerOf("Idempotency-Key", newIdempotencyKey())})
	}
	created := post("/runs", liveBody(t))
	endRun(t, created.Text("runId"))
	t.Expect(requirements.RunsOperationScopes, forbids(t, "createRun", created))
	t.Expect(requirements.RunsOperationScopes, forbids(t, "pauseRun", post(runPath(id, ":pause"), object{"drainPolicy": "immediate"})))
	t.Expect(requirements.RunsOperationScopes, forbidsEntry(t, id, post("/runs:bulk-cancel", object{"runIds": []string{id}})))
	t.Expect(requirements.RunsOperationScopes, forbids(t, "cancelRun", post(runPath(id, "/cancel"), object{})))
	after := get(t, id)
	t.Expect(requirements.RunsOperationScopes, harness.That(after.Is(http.StatusOK).OK && isActive(after.Text("status")),
		"the run still active", "%s with status %q", answered(after), after.Text("status")).At(after))
}

// isActive reports whether a run in a status goes on by itself.
func isActive(status string) bool { return status == "pending" || status == "running" }

// forbids checks a refusal for want of a scope.
func forbids(t *harness.T, what string, r *harness.Response) harness.Check {
	return harness.That(r.Err == nil && r.Status == http.StatusForbidden && permittedCode(t.Corpus(), r.Text("error")),
		"403 with a code the host may use", "%s by a key that may only read was answered %s", what, answered(r)).At(r)
}

// forbidsEntry checks a bulk cancel, which a host may refuse as a whole for
// want of the scope or run by run.
func forbidsEntry(t *harness.T, runID string, r *harness.Response) harness.Check {
	whole := forbids(t, "bulkCancelRuns", r)
	if whole.OK || !r.Is(http.StatusOK).OK {
		return whole
	}
	results, _ := r.Get("results").([]any)
	ok := len(results) == 1
	if ok {
		code, _ := harness.Get(results[0], "error", "error").(string)
		ok = harness.Get(results[0], "ok") == false && harness.Get(results[0], "runId") == any(runID) &&
			(code == "run_forbidden" || code == "forbidden")
	}
	return harness.That(ok, whole.Expected+", or 200 whose entry is ok: false with run_forbidden", "bulkCancelRuns answered %s with %s",
		answered(r), show(r.Get("results"))).At(r)
}
