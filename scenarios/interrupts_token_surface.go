package scenarios

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// interruptTokenSurface covers the surface for callers without a credential
// (interrupt.md, "Resolve surfaces").
func interruptTokenSurface() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-interrupt-token-surface",
		Title:    "Whoever holds a token inspects and resolves its interrupt, under the same rules as everybody",
		Document: "interrupt.md", Section: "Resolve surfaces",
		Gates: []harness.Gate{interruptFamily(), harness.NeedsFixture(approves)},
		Tests: []harness.Test{
			{
				Name:      "the surface is there",
				Witnesses: []requirements.ID{requirements.InterruptTokenSurface},
				Run: func(t *harness.T) {
					p := suspend(t, object{"workflowId": approves})
					defer endRun(t, p.run)
					for _, r := range []*harness.Response{inspect(t, forged(p, "hs256", newTag())), resolveBy(t, forged(p, "hs256", newTag()), decide("accept"))} {
						t.Should(requirements.InterruptTokenSurface, harness.That(r.Text("error") == "interrupt_token_invalid",
							"/interrupts/{token} served, which a forged token is told by its refusal", "%s answered %s", r.Request, answered(r)).At(r))
					}
				},
			},
			{
				Name:      "inspection",
				Witnesses: []requirements.ID{requirements.InterruptTokenInspects},
				Gates:     []harness.Gate{delivers(), harness.NeedsReceiver()},
				Run: func(t *harness.T) {
					bodies := []object{{"workflowId": approves}}
					if listed(t, waitsForAny) { // an interrupt with every member there is
						bodies = append(bodies, askOf("external-event", object{"eventType": "wopcert.inspected", "correlation": object{"order": 7}},
							"key", "wopcert:inspected", "timeoutMs", 600_000, "resumeSchema", object{"type": "object", "required": []any{"sum"}}))
					}
					for _, body := range bodies {
						inspectedTwice(t, notified(t, body))
					}
				},
			},
			{
				Name:      "a resolve after an inspection",
				Witnesses: []requirements.ID{requirements.InterruptTokenResolves},
				Gates:     []harness.Gate{delivers(), harness.NeedsReceiver()},
				Run: func(t *harness.T) {
					n := notified(t, object{"workflowId": approves})
					defer endRun(t, n.run)
					inspect(t, n.mustToken().raw)
					if resolvedByToken(t, n, decide("accept")) {
						t.Expect(requirements.InterruptTokenResolves, endsCompleted(t, n.pending))
					}
				},
			},
			{
				Name:      "a refine and an edit-accept by token",
				Witnesses: []requirements.ID{requirements.InterruptTokenResolves, requirements.InterruptTokenResolveChecked},
				Gates:     []harness.Gate{delivers(), harness.NeedsReceiver(), harness.NeedsFixture(approvesRefining, approvesEdit)},
				Run: func(t *harness.T) {
					for _, x := range []struct {
						fixture        string
						without, whole object
					}{
						{approvesRefining, decide("refine"), decide("refine", "refineFeedback", object{"scope": "whole", "text": "Shorter."})},
						{approvesEdit, decide("edit-accept"), decide("edit-accept", "editedArtifactData", object{"n": 1, "none": nil})},
					} {
						if !listed(t, x.fixture) {
							continue
						}
						n := notified(t, object{"workflowId": x.fixture})
						defer endRun(t, n.run)
						t.Expect(requirements.InterruptTokenResolveChecked, refusedAsInvalid("the value "+show(x.without), resolveBy(t, n.mustToken().raw, x.without)))
						t.Expect(requirements.InterruptTokenResolveChecked, stillPending(t, n.pending))
						resolvedByToken(t, n, x.whole)
					}
				},
			},
			{
				Name:      "what a resolve by token may not hold",
				Witnesses: []requirements.ID{requirements.InterruptTokenResolveChecked},
				Gates:     []harness.Gate{delivers(), harness.NeedsReceiver()},
				Run:       tokenResolveChecked,
			},
			{
				Name:      "a resumeSchema by token",
				Witnesses: []requirements.ID{requirements.InterruptTokenResolveChecked},
				Gates:     []harness.Gate{delivers(), optIn(waitsForAny), harness.NeedsReceiver()},
				Run: func(t *harness.T) {
					schema := object{"type": "object", "required": []any{"verdict"}, "properties": object{"verdict": object{"enum": []any{"yes"}}}}
					n := notified(t, askOf("custom", object{"customKind": "wopcert.schema"}, "resumeSchema", schema))
					defer endRun(t, n.run)
					for _, value := range []any{object{}, object{"verdict": "no"}, "yes"} {
						t.Expect(requirements.InterruptTokenResolveChecked, refusedAsInvalid("the resume value "+show(value), resolveBy(t, n.mustToken().raw, value)))
					}
					t.Expect(requirements.InterruptTokenResolveChecked, stillPending(t, n.pending))
					r := resolveBy(t, n.mustToken().raw, object{"verdict": "yes"})
					t.Expect(requirements.InterruptTokenResolveChecked, harness.That(succeeded(r), "2xx for a valid resume value", "%s", answered(r)).At(r))
				},
			},
			{
				Name:      "a resolve by token sent twice",
				Witnesses: []requirements.ID{requirements.InterruptTokenResolveIdempotent},
				Gates:     []harness.Gate{delivers(), harness.NeedsReceiver()},
				Run: func(t *harness.T) {
					n := notified(t, object{"workflowId": approves})
					defer endRun(t, n.run)
					send := keyedTo(t, harness.Anonymous, n.mustToken().path(), object{"resumeValue": decide("accept")})
					first := send(nil)
					if !succeeded(first) {
						t.Abort("no resolve to repeat: it was answered %s", answered(first))
					}
					awaitEnd(t, n.run, settle)
					t.Expect(requirements.InterruptTokenResolveIdempotent, repeated("the resolve by token", first, send(nil)))
					t.Expect(requirements.InterruptTokenResolveIdempotent, send(object{"resumeValue": decide("reject")}).Refuses("idempotency_key_mismatch"))
					l := wholeLog(t, n.run)
					got := len(resolvedAt(l.events, n.node))
					t.Expect(requirements.InterruptTokenResolveIdempotent, harness.That(got == 1, "one interrupt.resolved for one key", "%d", got).At(l.last))
				},
			},
			{
				Name:      "a token and a key at once",
				Witnesses: []requirements.ID{requirements.InterruptOneWinnerAcrossSurfaces},
				Gates:     []harness.Gate{delivers(), harness.NeedsReceiver()},
				Run:       raceAcrossSurfaces,
			},
		},
	}
}

// forged is a token of the grammar for a pending interrupt, with everything a
// true one says and a MAC that no secret gives.
func forged(p pending, alg, kid string) string {
	return "ow2." + alg + "." + kid + "." + forgedPayload(p) + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 32))
}

func forgedPayload(p pending) string {
	id := ""
	for _, s := range eventsOfType(p.log.events, "node.suspended") {
		if nodeOf(s) == p.node {
			id, _ = harness.Get(s, "payload", "interruptId").(string)
		}
	}
	claims, _ := json.Marshal(object{"runId": p.run, "nodeId": p.node, "interruptId": id, "intent": "resolve",
		"expiresAt": time.Now().UTC().Add(10 * time.Minute).Format(time.RFC3339)})
	return base64.RawURLEncoding.EncodeToString(claims)
}

func tokenResolveChecked(t *harness.T) {
	n := notified(t, object{"workflowId": approves})
	defer endRun(t, n.run)
	tok := n.mustToken()
	for _, body := range notResolves(decide("accept")) {
		t.Expect(requirements.InterruptTokenResolveChecked, refusedAsInvalid("the body "+show(body), postResolve(t, harness.Anonymous, tok.path(), body, newIdempotencyKey())))
	}
	t.Expect(requirements.InterruptTokenResolveChecked, refusedAsInvalid("the action refine, which is not offered",
		resolveBy(t, tok.raw, decide("refine", "refineFeedback", object{"scope": "whole"}))))
	if t.Expect(requirements.InterruptTokenResolveChecked, stillPending(t, n.pending)) {
		r := resolveBy(t, tok.raw, decide("accept"))
		t.Expect(requirements.InterruptTokenResolveChecked, harness.That(succeeded(r), "2xx for a valid resolve", "%s", answered(r)).At(r))
	}
}

func raceAcrossSurfaces(t *harness.T) {
	for range 3 {
		n := notified(t, object{"workflowId": approves})
		defer endRun(t, n.run)
		answers := atOnce(8, func(i int) *harness.Response {
			if i%2 == 0 {
				return resolve(t, n.pending, decide("accept"))
			}
			return resolveBy(t, n.mustToken().raw, decide("accept"))
		})
		notLimited(t, answers)
		awaitEnd(t, n.run, settle)
		t.Expect(requirements.InterruptOneWinnerAcrossSurfaces, oneWinner(answers))
		l := wholeLog(t, n.run)
		got := len(resolvedAt(l.events, n.node))
		t.Expect(requirements.InterruptOneWinnerAcrossSurfaces, harness.That(got == 1 && slices.ContainsFunc(answers, succeeded), "one interrupt.resolved after a race", "%d", got).At(l.last))
	}
}

// resolvedByToken resolves an approval by token and checks that the log holds
// what it would after a run-scoped resolve.
func resolvedByToken(t *harness.T, n notice, value object) bool {
	r := resolveBy(t, n.mustToken().raw, value)
	if !t.Expect(requirements.InterruptTokenResolves, r.Is(http.StatusOK)) {
		return false
	}
	awaitLogged(t, n.run, ofType("interrupt.resolved"), settle)
	l := wholeLog(t, n.run)
	if !t.Expect(requirements.InterruptTokenResolves, recordsResolve(t, n.pending, value, l).At(l.last)) {
		return false
	}
	resolved := resolvedAt(l.events, n.node)
	if len(resolved) != 1 {
		return false
	}
	checks := []harness.Check{harness.Equal("action of interrupt.resolved", value["action"], harness.Get(resolved[0], "payload", "action"))}
	for _, name := range []string{"refineFeedback", "editedArtifactData"} {
		if given, has := value[name]; has {
			checks = append(checks, same(name+" of interrupt.resolved", given, harness.Get(resolved[0], "payload", name)))
		}
	}
	return t.Expect(requirements.InterruptTokenResolves, harness.All(checks...).At(l.last))
}

// inspectedTwice expects the interrupt of a token as it was requested, which inspection
// leaves as it is.
func inspectedTwice(t *harness.T, n notice) {
	defer endRun(t, n.run)
	for range 2 {
		r := inspect(t, n.mustToken().raw)
		t.Expect(requirements.InterruptTokenInspects, harness.All(r.Is(http.StatusOK), r.Valid("suspend-request"),
			same("InterruptPayload", n.requested["payload"], r.JSON())).At(r))
	}
	t.Expect(requirements.InterruptTokenInspects, stillPending(t, n.pending))
}
