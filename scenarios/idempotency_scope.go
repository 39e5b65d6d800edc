package scenarios

import (
	"net/http"
	"reflect"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// idempotencyScope: idempotency.md, "Layer 1: Idempotency-Key".
func idempotencyScope() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-idempotency-scope",
		Title:    "A key stands for one request of one tenant to one operation, and for no refusal",
		Document: "idempotency.md",
		Section:  "Layer 1: Idempotency-Key",
		Tests: []harness.Test{
			{
				Name:      "a cancel, a pause and a resume sent twice",
				Witnesses: []requirements.ID{requirements.IdempotencyMutatingOperations},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       operationsTwice,
			},
			{
				Name:      "a bulk cancel sent twice",
				Witnesses: []requirements.ID{requirements.IdempotencyMutatingOperations},
				Gates:     []harness.Gate{liveFixtures()},
				Run: func(t *harness.T) {
					id := liveRun(t)
					defer endRun(t, id)
					send := keyed(t, "/runs:bulk-cancel", object{"runIds": []string{id}})
					first := send()
					results, _ := first.Get("results").([]any)
					if !first.Is(http.StatusOK).OK || len(results) != 1 || harness.Get(results[0], "ok") != true {
						t.Abort("no bulk cancel to repeat: it was answered %s with %s", answered(first), show(first.Get("results")))
					}
					awaitEnd(t, id, settle)
					t.Expect(requirements.IdempotencyMutatingOperations, repeated("bulkCancelRuns", first, send()))
				},
			},
			{
				Name:      "one key for two runs",
				Witnesses: []requirements.ID{requirements.IdempotencyKeyScopedToOperation},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       keyOfTwoRuns,
			},
			{
				Name:      "one key for two operations",
				Witnesses: []requirements.ID{requirements.IdempotencyKeyScopedToOperation},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       keyOfTwoOperations,
			},
			{
				Name:      "one key of two tenants",
				Witnesses: []requirements.ID{requirements.IdempotencyKeyTenantScope},
				Gates:     []harness.Gate{harness.NeedsCredential(harness.OtherTenant), endingFixtures()},
				Run:       keyOfTwoTenants,
			},
			{
				Name:      "a refused request under a key",
				Witnesses: []requirements.ID{requirements.IdempotencyRefusalsNotCached},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       refusalsForgotten,
			},
			{
				Name:      "a read with a key",
				Witnesses: []requirements.ID{requirements.IdempotencyGetIgnoresKey},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       readsWithKey,
			},
		},
	}
}

// keyed sends the same request with the same new key each time.
func keyed(t *harness.T, path string, body any) func() *harness.Response {
	key := newIdempotencyKey()
	return func() *harness.Response {
		return t.Do(harness.Request{Method: http.MethodPost, Path: path, Body: body, Header: headerOf("Idempotency-Key", key)})
	}
}

// repeated checks that a repeated request got the first one's response again.
func repeated(what string, first, again *harness.Response) harness.Check {
	expected := what + " answered as the first time, with OpenWOP-Idempotent-Replay: true"
	ok := again.Err == nil && again.Status == first.Status && replayMark(again) == "true" && reflect.DeepEqual(first.JSON(), again.JSON())
	return harness.That(ok, expected, "%s with OpenWOP-Idempotent-Replay %q and %s, after %s and %s", answered(again), replayMark(again),
		show(again.JSON()), answered(first), show(first.JSON())).At(again)
}

// operationsTwice sends every step of a run's control twice. By the second
// time the run is past the state the step needs.
func operationsTwice(t *harness.T) {
	id := startRun(t, liveBody(t))
	defer endRun(t, id)
	awaitLogged(t, id, func(e object) bool { return nodeOf(e) != "" }, settle) // a run that has not begun may not be pausable
	early := keyed(t, runPath(id, ":resume"), object{})
	refused := early()
	for _, step := range []struct {
		what, path, event string
		body              object
	}{
		{"pauseRun", ":pause", "run.paused", object{"drainPolicy": "immediate"}},
		{"resumeRun", ":resume", "run.resumed", object{}},
		{"cancelRun", "/cancel", "run.cancelled", object{}},
	} {
		send := keyed(t, runPath(id, step.path), step.body)
		first := send()
		if !succeeded(first) {
			t.Abort("no %s to repeat: it was answered %s", step.what, answered(first))
		}
		acted := func(e object) bool { return e["type"] == step.event || isTerminalType(e["type"]) }
		if _, ok := awaitLogged(t, id, acted, settle); !ok {
			t.Abort("no %s within %s of an accepted %s", step.event, settle, step.what)
		}
		t.Expect(requirements.IdempotencyMutatingOperations, repeated(step.what, first, send()))
		if step.event == "run.paused" && refused.Refuses("run_state_conflict").OK { // which was final, though a resume would be in place by now
			t.Expect(requirements.IdempotencyMutatingOperations, repeated("a refused resumeRun", refused, early()))
		}
		l := wholeLog(t, id)
		n := len(eventsOfType(l.events, step.event))
		t.Expect(requirements.IdempotencyMutatingOperations, harness.That(n <= 1, "one "+step.event+" for one key", "%d", n).At(l.last))
	}
}

// keyOfTwoRuns cancels two runs with one key. Whether the run belongs to the record or
// to the request in it, the second run is not answered for with the first one.
func keyOfTwoRuns(t *harness.T) {
	key, runs := newIdempotencyKey(), []string{liveRun(t), liveRun(t)}
	var answers []*harness.Response
	for _, id := range runs {
		defer endRun(t, id)
		answers = append(answers, t.Do(harness.Request{Method: http.MethodPost, Path: runPath(id, "/cancel"), Body: object{}, Header: headerOf("Idempotency-Key", key)}))
	}
	first, second := answers[0], answers[1]
	if !succeeded(first) {
		t.Abort("no cancel to tell another one from: it was answered %s", answered(first))
	}
	if second.Refuses("idempotency_key_mismatch").OK {
		t.Expect(requirements.IdempotencyKeyScopedToOperation, second.Refuses("idempotency_key_mismatch"))
		return
	}
	t.Expect(requirements.IdempotencyKeyScopedToOperation, harness.All(
		harness.That(succeeded(second) && second.Text("runId") == runs[1], "the cancel of another run carried out, or refused with 409 idempotency_key_mismatch",
			"%s with runId %s", answered(second), show(second.Get("runId"))), unmarkedBeside(first, second)).At(second))
}

// keyOfTwoOperations creates a run and cancels it with the same key.
func keyOfTwoOperations(t *harness.T) {
	key := newIdempotencyKey()
	made := create(t, liveBody(t), "Idempotency-Key", key)
	id := made.Text("runId")
	if !made.Is(http.StatusCreated).OK || id == "" {
		t.Abort("no run to cancel: createRun gave %s", answered(made))
	}
	defer endRun(t, id)
	poll(t, id, -1, 5*time.Second)
	r := t.Do(harness.Request{Method: http.MethodPost, Path: runPath(id, "/cancel"), Body: object{}, Header: headerOf("Idempotency-Key", key)})
	if !t.Expect(requirements.IdempotencyKeyScopedToOperation, harness.All(
		harness.That(succeeded(r), "2xx for the cancel", "%s", answered(r)), unmarkedBeside(made, r)).At(r)) {
		return
	}
	ended := awaitEnd(t, id, settle)
	t.Expect(requirements.IdempotencyKeyScopedToOperation, harness.That(ended, "a run that ends, as it was cancelled",
		"status %q after %s", get(t, id).Text("status"), settle))
}

func succeeded(r *harness.Response) bool { return r.Err == nil && r.Status >= 200 && r.Status <= 299 }

// unmarkedBeside checks that a response is not said to be a replay, where a
// first response under a new key is not said to be one either.
func unmarkedBeside(first, r *harness.Response) harness.Check {
	if replayMark(first) != "" {
		return harness.That(true, "no OpenWOP-Idempotent-Replay", "the host marks every response")
	}
	return unmarked(r)
}

// unmarked checks that a response is not said to be a replay.
func unmarked(r *harness.Response) harness.Check {
	return harness.That(replayMark(r) == "", "no OpenWOP-Idempotent-Replay", "OpenWOP-Idempotent-Replay %q on %s", replayMark(r), answered(r)).At(r)
}

// keyOfTwoTenants sends one request with one key as two tenants.
func keyOfTwoTenants(t *harness.T) {
	key, body := newIdempotencyKey(), endingBody(t)
	mine := create(t, body, "Idempotency-Key", key)
	theirs := control(t, harness.OtherTenant, body)
	if !mine.Is(http.StatusCreated).OK || mine.Text("runId") == "" {
		t.Abort("no run under the key: createRun gave %s", answered(mine))
	}
	tenant := tenantSegment(theirs.Text("runId"))
	if tenant == tenantSegment(mine.Text("runId")) {
		t.Abort("the key of the other tenant is of the same tenant: both get runs of %s", tenant)
	}
	r := createAs(t, harness.OtherTenant, body, "Idempotency-Key", key)
	t.Expect(requirements.IdempotencyKeyTenantScope, harness.All(r.Is(http.StatusCreated), unmarkedBeside(theirs, r),
		harness.That(tenantSegment(r.Text("runId")) == tenant, "a run of the tenant "+tenant, "runId %q", r.Text("runId"))).At(r))
	// The record is the tenant's, whichever of its principals asks who may create and read the run.
	for _, who := range []harness.Identity{harness.Approver, harness.Production} {
		if !t.Has(who) || !t.Do(harness.Request{Path: runPath(mine.Text("runId"), ""), As: who}).Is(http.StatusOK).OK {
			continue
		}
		if c := createAs(t, who, body); c.Is(http.StatusCreated).OK && tenantSegment(c.Text("runId")) == tenantSegment(mine.Text("runId")) {
			t.Expect(requirements.IdempotencyKeyTenantScope, repeated("a create by another key of the tenant", mine, createAs(t, who, body, "Idempotency-Key", key)))
		}
	}
}

// refusalsForgotten sends what is refused, and then what is not, with one key.
func refusalsForgotten(t *harness.T) {
	sound := control(t, harness.Primary, endingBody(t))
	judged := 0
	for _, body := range []object{{}, with(endingBody(t), "tags", manyTags(maxTags+1))} {
		key := newIdempotencyKey()
		if !create(t, body, "Idempotency-Key", key).Refuses("validation_error").OK {
			continue // what such a create gets is a requirement of its own
		}
		judged++
		again := create(t, body, "Idempotency-Key", key)
		t.Expect(requirements.IdempotencyRefusalsNotCached, harness.All(again.Is(http.StatusBadRequest), unmarked(again)))
		t.Expect(requirements.IdempotencyRefusalsNotCached, carriedOut("the corrected create", sound, create(t, endingBody(t), "Idempotency-Key", key)))
	}
	if judged == 0 {
		t.Abort("no invalid create is refused with validation_error")
	}
	if !t.Has(harness.ReadOnly) {
		return
	}
	key := newIdempotencyKey()
	if r := createAs(t, harness.ReadOnly, endingBody(t), "Idempotency-Key", key); r.Status == http.StatusForbidden {
		t.Expect(requirements.IdempotencyRefusalsNotCached, carriedOut("the create by a key that may", sound, create(t, endingBody(t), "Idempotency-Key", key)))
	}
}

func carriedOut(what string, first, r *harness.Response) harness.Check {
	return harness.All(admitted(what, r), unmarkedBeside(first, r))
}

// readsWithKey reads a run before and after it ended with one key.
func readsWithKey(t *harness.T) {
	id := liveRun(t)
	defer endRun(t, id)
	key := newIdempotencyKey()
	read := func() *harness.Response {
		return t.Do(harness.Request{Path: runPath(id, ""), Header: headerOf("Idempotency-Key", key)})
	}
	first := read()
	t.Expect(requirements.IdempotencyGetIgnoresKey, harness.All(first.Is(http.StatusOK), unmarked(first)))
	if r := cancel(t, id, object{}); !succeeded(r) || !awaitEnd(t, id, settle) {
		t.Abort("the run did not end after its cancel, so that two reads of it would be alike: %s", answered(r))
	}
	plain, second := get(t, id), read()
	t.Expect(requirements.IdempotencyGetIgnoresKey, harness.All(second.Is(http.StatusOK), unmarked(second),
		harness.Equal("status", plain.Get("status"), second.Get("status"))).At(second))
}
