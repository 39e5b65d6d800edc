package scenarios

import (
	"net/http"

	"wopcert/harness"
	"wopcert/requirements"
	"wopcert/seams"
)

// seamsOperations: conformance.md, "The seams profile".
func seamsOperations() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-seams-operations",
		Title:    "The seams a host names are there, exact, and for callers with a credential alone",
		Document: "conformance.md",
		Section:  "The seams profile",
		Gates:    []harness.Gate{harness.NeedsSeams(), harness.NeedsFixture(noop)},
		Tests: []harness.Test{
			{
				Name:      "a log in each status a run can have ended in",
				Witnesses: []requirements.ID{requirements.ConformanceSeamsServed},
				Run: func(t *harness.T) {
					own := runOfCaller(t)
					for status, rows := range map[string][]seedRow{
						seams.Completed: finished(), seams.Failed: broken(),
						seams.Cancelled: append(begun(noop, object{}), seedRow{"run.cancelled", object{"reason": "no longer needed"}}),
					} {
						t.Expect(requirements.ConformanceSeamsServed, seeded(t, own, status, rows))
					}
				},
			},
			{
				Name:      "bodies that the schemas do not admit",
				Witnesses: []requirements.ID{requirements.ConformanceSeamsRefusals},
				Run: func(t *harness.T) {
					seed(t, seams.Completed, finished()...) // what is refused below is not refused for being a seed
					for _, c := range malformedCalls(t) {
						check := t.Seam(c).Refuses("validation_error")
						check.Expected += " for " + show(plain(c.Body))
						t.Expect(requirements.ConformanceSeamsRefusals, check)
					}
				},
			},
			{
				Name:      "a caller without a credential",
				Witnesses: []requirements.ID{requirements.ConformanceSeamsAuthenticated},
				Run: func(t *harness.T) {
					seed(t, seams.Completed, finished()...)
					for _, c := range servedCalls(t) {
						r := t.Do(harness.Request{Method: c.Method, Path: c.Path, Body: c.Body, As: harness.Anonymous})
						t.Expect(requirements.ConformanceSeamsAuthenticated, harness.All(r.Is(http.StatusUnauthorized),
							harness.That(isEnvelope(r), "the error envelope", "%s", answered(r))).At(r))
					}
				},
			},
		},
	}
}

// seeded seeds a log and checks that the run is there in its status, in the
// tenant of a run of the caller's.
func seeded(t *harness.T, own, status string, rows []seedRow) harness.Check {
	call := seams.SeedLog(status, asStored(rows)...)
	r := t.Seam(call)
	if check := harness.All(r.Is(call.Success), r.Valid(call.Response)); !check.OK {
		return check
	}
	id := r.Text("runId")
	if tenantSegment(id) != tenantSegment(own) {
		return harness.That(false, "a run of the caller's tenant, as "+own, "run %s", id).At(r)
	}
	read := get(t, id)
	return harness.All(read.Is(http.StatusOK), harness.Equal("status", any(status), read.Get("status"))).At(read)
}

// malformedCalls are calls whose bodies the schemas of the seams do not admit.
func malformedCalls(t *harness.T) []seams.Call {
	row := object{"type": "run.started", "sequence": 0, "payload": object{"workflowId": noop}}
	seedOf := func(body object) seams.Call {
		c := seams.SeedLog(seams.Completed)
		c.Body = body
		return c
	}
	calls := []seams.Call{
		seedOf(object{}),
		seedOf(object{"eventLogSchemaVersion": 3, "status": "completed", "events": []any{row}}),
		seedOf(object{"eventLogSchemaVersion": 2, "status": "completed", "events": []any{}}),
		seedOf(object{"eventLogSchemaVersion": 2, "status": "asleep", "events": []any{row}}),
		seedOf(object{"eventLogSchemaVersion": 2, "status": "completed", "events": []any{row}, "wopcert": true}),
		seedOf(object{"eventLogSchemaVersion": 2, "status": "completed", "events": []any{object{"type": "run.started", "payload": object{}}}}),
	}
	for _, c := range servedCalls(t)[1:] {
		c.Body = object{"wopcert": true}
		calls = append(calls, c)
	}
	return calls
}

// servedCalls are well-formed calls of the seams that the host serves, the seed
// first. Another seam belongs to a family, and a host without it need not have
// the seam: it is asked with a body that no host acts on.
func servedCalls(t *harness.T) []seams.Call {
	d := t.Host().Discovery
	calls := []seams.Call{seams.SeedLog(seams.Completed, asStored(finished())...)}
	for _, c := range []struct {
		family string
		call   seams.Call
	}{
		{"replay", seams.FireEffect("wopcert.no-such-seam", "")},
		{"idempotency", seams.RetryEffect("https://" + newTag() + ".invalid/")},
		{"webhooks", seams.ReceiveWebhook("wopcert", nil, "{}")},
	} {
		if !d.Advertises(c.family) {
			continue
		}
		empty := c.call
		empty.Body = object{}
		if mounted(t.Corpus(), t.Seam(empty)) {
			calls = append(calls, c.call)
		}
	}
	return calls
}
