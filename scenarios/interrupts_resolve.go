package scenarios

import (
	"fmt"
	"net/http"
	"slices"

	"wopcert/harness"
	"wopcert/requirements"
)

// interruptResolve covers the run-scoped surface (interrupt.md, "Resolve
// surfaces" and "Errors").
func interruptResolve() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-interrupt-resolve",
		Title:    "Who may resolves an interrupt of a run, once, and with a body that says what with",
		Document: "interrupt.md", Section: "Resolve surfaces",
		Gates: []harness.Gate{interruptFamily(), harness.NeedsFixture(approves, clarifies, waitsForEvent)},
		Tests: []harness.Test{
			{
				Name:      "a resolve lets the run go on",
				Witnesses: []requirements.ID{requirements.InterruptRunSurface},
				Run: func(t *harness.T) {
					p := anyPending(t)
					defer endRun(t, p.run)
					r := resolve(t, p, answerOf(t, p))
					if t.Expect(requirements.InterruptRunSurface, r.Is(http.StatusOK)) {
						t.Expect(requirements.InterruptRunSurface, endsCompleted(t, p))
					}
				},
			},
			{
				Name:      "a key that may only read",
				Witnesses: []requirements.ID{requirements.InterruptResolveScope},
				Gates:     []harness.Gate{harness.NeedsCredential(harness.ReadOnly)},
				Run: func(t *harness.T) {
					p := anyPending(t)
					defer endRun(t, p.run)
					if r := t.Do(harness.Request{Path: runPath(p.run, ""), As: harness.ReadOnly}); !r.Is(http.StatusOK).OK {
						t.Abort("the read-only key reads no run of the primary key, so that its refusal shows nothing: %s", answered(r))
					}
					t.Expect(requirements.InterruptResolveScope, refusedForbidden(t, "a resolve by a key that may only read", resolveAs(t, harness.ReadOnly, p, answerOf(t, p))))
					t.Expect(requirements.InterruptResolveScope, stillPending(t, p))
					mustResolve(t, harness.Primary, p, answerOf(t, p))
				},
			},
			{
				Name:      "no credential, and one nobody issued",
				Witnesses: []requirements.ID{requirements.InterruptResolveScope},
				Run: func(t *harness.T) {
					p := anyPending(t)
					defer endRun(t, p.run)
					for _, who := range []harness.Identity{harness.Anonymous, harness.Unknown} {
						r := resolveAs(t, who, p, answerOf(t, p))
						t.Expect(requirements.InterruptResolveScope, harness.That(r.Err == nil && r.Status == http.StatusUnauthorized && permittedCode(t.Corpus(), r.Text("error")),
							"401 with a code the host may use", "a resolve by the %s was answered %s", who, answered(r)).At(r))
					}
					t.Expect(requirements.InterruptResolveScope, stillPending(t, p))
					mustResolve(t, harness.Primary, p, answerOf(t, p))
				},
			},
			{
				Name:      "bodies that are no resolve",
				Witnesses: []requirements.ID{requirements.InterruptResolveBodyClosed},
				Run: func(t *harness.T) {
					p := anyPending(t)
					defer endRun(t, p.run)
					for _, body := range notResolves(answerOf(t, p)) {
						t.Expect(requirements.InterruptResolveBodyClosed, refusedAsInvalid("the body "+show(body), postResolve(t, harness.Primary, p.path(), body, newIdempotencyKey())))
					}
					t.Expect(requirements.InterruptResolveBodyClosed, stillPending(t, p))
					mustResolve(t, harness.Primary, p, answerOf(t, p))
				},
			},
			{
				Name:      "a resolve sent twice",
				Witnesses: []requirements.ID{requirements.InterruptResolveIdempotent},
				Run:       resolvedTwice,
			},
			{
				Name:      "eight resolves at once",
				Witnesses: []requirements.ID{requirements.InterruptOneWinner},
				Run:       resolveRace,
			},
			{
				Name:      "a node the run does not have",
				Witnesses: []requirements.ID{requirements.InterruptUnknownNode},
				Run: func(t *harness.T) {
					p := anyPending(t)
					defer endRun(t, p.run)
					absent := p
					absent.node = newTag()
					t.Expect(requirements.InterruptUnknownNode, resolve(t, absent, answerOf(t, p)).Refuses("not_found"))
					mustResolve(t, harness.Primary, p, answerOf(t, p))
				},
			},
			{
				Name:      "a full key of another tenant",
				Witnesses: []requirements.ID{requirements.InterruptForeignTenant},
				Gates:     []harness.Gate{harness.NeedsCredential(harness.OtherTenant)},
				Run: func(t *harness.T) {
					p := anyPending(t)
					defer endRun(t, p.run)
					t.Expect(requirements.InterruptForeignTenant, resolveAs(t, harness.OtherTenant, p, answerOf(t, p)).Refuses("id_tenant_mismatch"))
					t.Expect(requirements.InterruptForeignTenant, stillPending(t, p))
					mustResolve(t, harness.Primary, p, answerOf(t, p))
				},
			},
		},
	}
}

// anyPending is an interrupt of a published workflow that one answer resolves.
func anyPending(t *harness.T) pending {
	return suspend(t, object{"workflowId": oneOf(t, approves, clarifies, waitsForEvent)})
}

// notResolves are bodies that the closed {resumeValue} does not allow.
func notResolves(value any) []any {
	return []any{
		object{}, object{"value": value}, object{"resumeValue": value, "decidedBy": "wopcert"}, object{"resumeValue": value, "": 1}, []any{value},
	}
}

// resolvedTwice repeats a resolve with its key, and then with another body.
func resolvedTwice(t *harness.T) {
	p := anyPending(t)
	defer endRun(t, p.run)
	send := keyedTo(t, harness.Primary, p.path(), object{"resumeValue": answerOf(t, p)})
	first := send(nil)
	if !succeeded(first) {
		t.Abort("no resolve to repeat: it was answered %s", answered(first))
	}
	awaitEnd(t, p.run, settle)
	t.Expect(requirements.InterruptResolveIdempotent, repeated("the resolve", first, send(nil)))
	t.Expect(requirements.InterruptResolveIdempotent, send(object{"resumeValue": otherAnswer(p)}).Refuses("idempotency_key_mismatch"))
	l := wholeLog(t, p.run)
	n := len(resolvedAt(l.events, p.node))
	t.Expect(requirements.InterruptResolveIdempotent, harness.That(n == 1, "one interrupt.resolved for one key", "%d", n).At(l.last))
}

// otherAnswer is another value that would resolve the interrupt of a published
// workflow.
func otherAnswer(p pending) any {
	if p.payload()["kind"] == "approval" {
		return decide("reject", "feedback", "another")
	}
	return raceValue(p, 99)
}

// keyedTo sends a request with one new key each time, with another body where
// one is given.
func keyedTo(t *harness.T, who harness.Identity, path string, body any) func(other any) *harness.Response {
	key := newIdempotencyKey()
	return func(other any) *harness.Response {
		if other == nil {
			other = body
		}
		return postResolve(t, who, path, other, key)
	}
}

// resolveRace resolves one interrupt many times at once, in several rounds,
// since one race may fall to one request by chance.
func resolveRace(t *harness.T) {
	for range 3 {
		p := suspend(t, raceBody(t))
		defer endRun(t, p.run)
		answers := atOnce(8, func(i int) *harness.Response { return resolve(t, p, raceValue(p, i)) })
		notLimited(t, answers)
		awaitEnd(t, p.run, settle)
		t.Expect(requirements.InterruptOneWinner, oneWinner(answers))
		t.Expect(requirements.InterruptOneWinner, winnerRecorded(t, p, answers))
	}
}

// raceBody is a createRun body whose interrupt takes any of several answers.
func raceBody(t *harness.T) object {
	if listed(t, waitsForAny) {
		return askOf("custom", object{"customKind": "wopcert.race"})
	}
	return object{"workflowId": oneOf(t, clarifies, waitsForEvent, approves)}
}

// raceValue is the i-th of the answers that race.
func raceValue(p pending, i int) any {
	mark := fmt.Sprintf("contender %d", i)
	switch p.payload()["kind"] {
	case "approval":
		return decide("accept", "feedback", mark)
	case "clarification":
		return object{"answers": object{"q1": mark}}
	}
	return object{"contender": mark}
}

// oneWinner checks the answers to resolves that raced.
func oneWinner(answers []*harness.Response) harness.Check {
	const expected = "one 2xx, and 409 interrupt_already_resolved for each of the others"
	won := 0
	for _, r := range answers {
		if succeeded(r) {
			won++
			continue
		}
		if check := r.Refuses("interrupt_already_resolved"); !check.OK {
			return harness.That(false, expected, "%s", check.Observed).At(r)
		}
	}
	return harness.That(won == 1, expected, "%d of %d resolves succeeded", won, len(answers))
}

// winnerRecorded checks that the log holds one resolve, and the winner's.
func winnerRecorded(t *harness.T, p pending, answers []*harness.Response) harness.Check {
	l := wholeLog(t, p.run)
	all := resolvedAt(l.events, p.node)
	if len(all) != 1 {
		return harness.That(false, "one interrupt.resolved after a race", "%d", len(all)).At(l.last)
	}
	i := slices.IndexFunc(answers, succeeded)
	value, has := harness.Get(all[0], "payload").(object)["resumeValue"]
	if i < 0 || !has || p.payload()["kind"] == "approval" {
		return harness.That(i >= 0, "one interrupt.resolved after a race", "none of the resolves succeeded, and one is recorded").At(l.last)
	}
	return same("resumeValue of the winner", raceValue(p, i), value).At(l.last)
}
