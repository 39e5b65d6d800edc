package scenarios

import (
	"net/http"
	"slices"
	"strings"

	"wopcert/harness"
	"wopcert/requirements"
)

// runBulkCancel covers bulkCancelRuns as a whole (runs.md, "Bulk cancel").
func runBulkCancel() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-run-bulk-cancel",
		Title:    "Several runs can be cancelled in one request, each with a result of its own",
		Document: "runs.md", Section: "Bulk cancel",
		Tests: []harness.Test{
			{
				Name:      "two active runs, one finished and one unknown",
				Witnesses: []requirements.ID{requirements.R0170RunBulkCancel},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       bulkCancels,
			},
		},
	}
}

// bulkCancelEntries covers the rules about the single entries (runs.md, "Bulk
// cancel").
func bulkCancelEntries() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-bulk-cancel-entries",
		Title:    "A bulk cancel is bounded, keeps the order, and refuses entry by entry",
		Document: "runs.md", Section: "Bulk cancel",
		Gates: []harness.Gate{liveFixtures()},
		Tests: []harness.Test{
			{
				Name:      "too many ids and none at all are refused",
				Witnesses: []requirements.ID{requirements.RunsBulkCancelCap},
				Run:       bulkIsCapped,
			},
			{
				Name:      "results keep the order, and one failure stops no other",
				Witnesses: []requirements.ID{requirements.RunsBulkCancelOrder},
				Run:       bulkKeepsOrder,
			},
			{
				Name:      "a run of another tenant fails in its own entry",
				Witnesses: []requirements.ID{requirements.RunsBulkCancelAuthorization},
				Gates:     []harness.Gate{harness.NeedsCredential(harness.OtherTenant)},
				Run:       bulkAuthorizes,
			},
		},
	}
}

func bulkCancel(t *harness.T, ids ...string) *harness.Response {
	return t.Do(harness.Request{Method: http.MethodPost, Path: "/runs:bulk-cancel", Body: object{"runIds": append([]string{}, ids...)}})
}

// resultIDs are the runIds of the results, in their order.
func resultIDs(r *harness.Response) []string {
	var out []string
	results, _ := r.Get("results").([]any)
	for _, result := range results {
		id, _ := harness.Get(result, "runId").(string)
		out = append(out, id)
	}
	return out
}

// resultOf is the result for one id, nil when there is none.
func resultOf(r *harness.Response, id string) object {
	results, _ := r.Get("results").([]any)
	for _, result := range results {
		if doc, ok := result.(object); ok && text(doc, "runId") == id {
			return doc
		}
	}
	return nil
}

// entryAccepts checks a result for a run that was cancelled.
func entryAccepts(r *harness.Response, id string) harness.Check {
	result := resultOf(r, id)
	ok := result["ok"] == true && (text(result, "status") == "cancelling" || text(result, "status") == "cancelled")
	return harness.That(ok, "ok true with status cancelling or cancelled for an active run", "%s", show(any(result))).At(r)
}

// entryRefuses checks a result for a run that was not cancelled: one of the
// codes, in an envelope of its own.
func entryRefuses(t *harness.T, what string, r *harness.Response, id string, codes ...string) harness.Check {
	expected := "ok false with " + strings.Join(codes, " or ") + " for " + what
	result := resultOf(r, id)
	code, _ := harness.Get(result, "error", "error").(string)
	if result["ok"] != false || !slices.Contains(codes, code) {
		return harness.That(false, expected, "%s", show(any(result))).At(r)
	}
	why := violation(t.Corpus().ValidateValue("error-envelope", result["error"]))
	return harness.That(why == "", expected+" in an error envelope", "%s", cut(why)).At(r)
}

func bulkCancels(t *harness.T) {
	finished := terminalRun(t)
	first, second := liveRun(t), liveRun(t)
	defer endRun(t, first)
	defer endRun(t, second)
	unknown := absentRun(first)
	asked := []string{first, second, finished, unknown}
	r := bulkCancel(t, asked...)
	if !t.Expect(requirements.R0170RunBulkCancel, harness.All(r.Is(http.StatusOK), r.Valid("bulk-cancel-response"),
		harness.That(sameMembers(resultIDs(r), asked), "one result per requested id", "results for %v", resultIDs(r))).At(r)) {
		return
	}
	t.Expect(requirements.R0170RunBulkCancel, entryAccepts(r, first))
	t.Expect(requirements.R0170RunBulkCancel, entryAccepts(r, second))
	t.Expect(requirements.R0170RunBulkCancel, entryRefuses(t, "a finished run", r, finished, "run_terminal"))
	t.Expect(requirements.R0170RunBulkCancel, entryRefuses(t, "an unknown run", r, unknown, "not_found"))
	for _, id := range []string{first, second} {
		t.Expect(requirements.R0170RunBulkCancel, endsCancelled(t, id))
	}
}

// endsCancelled checks that a run ends, and ends cancelled.
func endsCancelled(t *harness.T, id string) harness.Check {
	ended := awaitEnd(t, id, settle)
	r := get(t, id)
	return harness.That(ended && r.Text("status") == "cancelled", "the run to end cancelled", "%s with status %s after %s",
		answered(r), show(r.Get("status")), settle).At(r)
}

// goesOnRunning checks that nothing has cancelled a run.
func goesOnRunning(what string, r *harness.Response) harness.Check {
	status := r.Text("status")
	return harness.That(r.Is(http.StatusOK).OK && !endedStatus(status) && status != "cancelling", what+" to go on", "%s with status %s",
		answered(r), show(r.Get("status"))).At(r)
}

// tooManyRuns is more than a bulk cancel can take: its schema ends at 100.
const tooManyRuns = 101

func bulkIsCapped(t *harness.T) {
	id := liveRun(t)
	defer endRun(t, id)
	ids := []string{id}
	for len(ids) < tooManyRuns {
		ids = append(ids, absentRun(id))
	}
	r := bulkCancel(t, ids...)
	t.Expect(requirements.RunsBulkCancelCap, r.Refuses("validation_error"))
	most, ok := wholeNumber(r.Get("details", "maxRunIds"))
	t.Expect(requirements.RunsBulkCancelCap, harness.That(ok && most >= 1 && most < tooManyRuns, "details.maxRunIds, an integer from 1 to 100",
		"%s with details.maxRunIds %s", answered(r), show(r.Get("details", "maxRunIds"))).At(r))
	t.Expect(requirements.RunsBulkCancelCap, goesOnRunning("the run in a refused bulk cancel", get(t, id)))
	t.Expect(requirements.RunsBulkCancelCap, bulkCancel(t).Refuses("validation_error"))
	if control := bulkCancel(t, id); !control.Is(http.StatusOK).OK {
		t.Abort("a bulk cancel of one run is not accepted either, so that the refusals show nothing: %s", answered(control))
	}
}

func bulkKeepsOrder(t *harness.T) {
	finished, live := terminalRun(t), liveRun(t)
	defer endRun(t, live)
	// Neither sorted, nor by outcome: the active run is amid those that fail.
	tenant := tenantSegment(live)
	asked := []string{tenant + "/zz" + newOpaque(), live, tenant + "/AA" + newOpaque(), finished, tenant + "/mm" + newOpaque()}
	r := bulkCancel(t, asked...)
	t.Expect(requirements.RunsBulkCancelOrder, harness.That(r.Is(http.StatusOK).OK && slices.Equal(resultIDs(r), asked),
		"200 with the results in the order of the request", "%s with results for %v of %v", answered(r), resultIDs(r), asked).At(r))
	t.Expect(requirements.RunsBulkCancelOrder, entryAccepts(r, live))
	t.Expect(requirements.RunsBulkCancelOrder, endsCancelled(t, live))
	failing := []string{absentRun(live), absentRun(live)}
	all := bulkCancel(t, failing...)
	t.Expect(requirements.RunsBulkCancelOrder, harness.That(all.Is(http.StatusOK).OK && slices.Equal(resultIDs(all), failing),
		"200 with a result per id when every one fails", "%s with results for %v of %v", answered(all), resultIDs(all), failing).At(all))
	// What is no id at all may be refused as such, as a whole or as an entry.
	garbage := bulkCancel(t, failing[0], "x")
	if !garbage.Refuses("validation_error").OK {
		result := resultOf(garbage, "x")
		t.Expect(requirements.RunsBulkCancelOrder, harness.That(garbage.Is(http.StatusOK).OK && result["ok"] == false,
			"an entry with ok false, or 400 validation_error, for what is no run id", "%s with %s", answered(garbage), show(any(result))).At(garbage))
	}
}

func bulkAuthorizes(t *harness.T) {
	own := liveRun(t)
	defer endRun(t, own)
	foreign := startRunAs(t, harness.OtherTenant, liveBody(t))
	defer t.Do(harness.Request{Method: http.MethodPost, Path: runPath(foreign, "/cancel"), Body: object{}, As: harness.OtherTenant})
	if tenantSegment(foreign) == tenantSegment(own) {
		t.Blocked(requirements.RunsBulkCancelAuthorization,
			"the credential given for the other tenant belongs to the tenant %s as well; give one of another tenant", tenantSegment(own))
		return
	}
	absent := absentRun(foreign)
	r := bulkCancel(t, foreign, absent, own)
	if !t.Expect(requirements.RunsBulkCancelAuthorization, r.Is(http.StatusOK)) {
		return
	}
	t.Expect(requirements.RunsBulkCancelAuthorization, entryRefuses(t, "a run of another tenant", r, foreign, "id_tenant_mismatch", "not_found"))
	t.Expect(requirements.RunsBulkCancelAuthorization, entryRefuses(t, "a run another tenant does not have", r, absent, "id_tenant_mismatch", "not_found"))
	code := func(id string) any { return harness.Get(resultOf(r, id), "error", "error") }
	t.Expect(requirements.RunsBulkCancelAuthorization, harness.That(code(foreign) == code(absent), "the same code whether or not the run exists",
		"%s for one that exists, %s for one that does not", show(code(foreign)), show(code(absent))).At(r))
	t.Expect(requirements.RunsBulkCancelAuthorization, entryAccepts(r, own))
	t.Expect(requirements.RunsBulkCancelAuthorization, goesOnRunning("the other tenant's run",
		t.Do(harness.Request{Path: runPath(foreign, ""), As: harness.OtherTenant})))
}
