package scenarios

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// interruptTokens covers the life of a token (interrupt.md, "Tokens").
func interruptTokens() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-interrupt-tokens",
		Title:    "A token lives no longer than its interrupt, says when it ends, and cannot be made up",
		Document: "interrupt.md", Section: "Tokens",
		Gates: []harness.Gate{interruptFamily(), delivers(), harness.NeedsFixture(approves), harness.NeedsReceiver()},
		Tests: []harness.Test{
			{
				Name:      "when a token says it ends",
				Witnesses: []requirements.ID{requirements.InterruptTokenExpiresAt, requirements.InterruptTokenDefaultLifetime},
				Run:       tokenSaysWhen,
			},
			{
				Name:      "the token of an interrupt with a deadline",
				Witnesses: []requirements.ID{requirements.InterruptTokenCapped},
				Gates:     []harness.Gate{harness.NeedsFixture(waitsForAny, approvesLate)},
				Run:       tokensCapped,
			},
			{
				Name:      "a token past its end",
				Witnesses: []requirements.ID{requirements.InterruptTokenExpired},
				Gates:     []harness.Gate{harness.NeedsFixture(waitsForAny, approvesLate)},
				Slow:      2 * time.Second,
				Run:       tokenExpires,
			},
			{
				Name:      "the token of a resolved interrupt",
				Witnesses: []requirements.ID{requirements.InterruptTokenSpentResolved},
				Gates:     []harness.Gate{optIn(waitsTwice)},
				Run:       tokenSpentResolved,
			},
			{
				Name:      "the token of a cancelled run",
				Witnesses: []requirements.ID{requirements.InterruptTokenSpentCancelled},
				Run: func(t *harness.T) {
					n := notified(t, object{"workflowId": approves})
					mustWork(t, n.mustToken())
					if r := cancel(t, n.run, object{}); !succeeded(r) || awaitStatus(t, n.run, endedStatus, settle) != "cancelled" {
						t.Abort("no cancelled run to observe: cancelRun gave %s and the run has status %q", answered(r), get(t, n.run).Text("status"))
					}
					t.Expect(requirements.InterruptTokenSpentCancelled, spentToken(t, "after the cancel", n.mustToken(), decide("accept")))
				},
			},
			{
				Name:      "the token of a completed run",
				Witnesses: []requirements.ID{requirements.InterruptTokenSpentCompleted},
				Run: func(t *harness.T) {
					n := notified(t, object{"workflowId": approves})
					defer endRun(t, n.run)
					mustWork(t, n.mustToken())
					mustResolve(t, harness.Primary, n.pending, decide("accept"))
					if awaitStatus(t, n.run, endedStatus, settle) != "completed" {
						t.Abort("no completed run to observe: status %q", get(t, n.run).Text("status"))
					}
					t.Expect(requirements.InterruptTokenSpentCompleted, spentToken(t, "after the run completed", n.mustToken(), decide("accept")))
				},
			},
			{
				Name:      "tokens that were tampered with",
				Witnesses: []requirements.ID{requirements.InterruptTokenMacRefused},
				Run:       tamperedRefused,
			},
			{
				Name:      "a token for inspection",
				Witnesses: []requirements.ID{requirements.InterruptInspectToken},
				Run:       inspectOnly,
			},
		},
	}
}

// requestedTime is when an interrupt was raised by the host's clock.
func requestedTime(t *harness.T, p pending) time.Time {
	at, err := time.Parse(time.RFC3339Nano, text(p.requested, "timestamp"))
	if err != nil {
		t.Abort("interrupt.requested has no timestamp to measure by: %s", show(p.requested["timestamp"]))
	}
	return at
}

func tokenSaysWhen(t *harness.T) {
	n := notified(t, object{"workflowId": approves})
	defer endRun(t, n.run)
	if p := n.payload()["timeoutMs"]; p != nil {
		t.Abort("the interrupt of %s has a deadline, so that its tokens show no default", approves)
	}
	for _, tok := range n.tokens {
		at, ok := tok.expiry()
		if !t.Expect(requirements.InterruptTokenExpiresAt, harness.That(ok, "an expiresAt in the token's payload", "payload %s", show(tok.claims)).AtAttempt(tok.at)) {
			continue
		}
		life := at.Sub(requestedTime(t, n.pending))
		t.Should(requirements.InterruptTokenDefaultLifetime, harness.That(life >= 29*time.Minute && life <= 31*time.Minute,
			"a lifetime of 30 minutes", "%s", life.Round(time.Second)).AtAttempt(tok.at))
	}
}

func tokensCapped(t *harness.T) {
	if listed(t, waitsForAny) {
		for _, ms := range []int{90_000, 20 * 60_000, 24 * 60 * 60_000} {
			tokenCapped(t, notified(t, askOf("custom", object{"customKind": "wopcert.deadline"}, "timeoutMs", ms)))
		}
		return
	}
	n := noticed(t, object{"workflowId": approvesLate}, noticeWait)
	if len(n.tokens) == 0 {
		endRun(t, n.run)
		t.Abort("no token to observe: %d callbacks within %s", n.endpoint.Count(), noticeWait)
	}
	tokenCapped(t, n)
}

// tokenCapped checks every token of a notice against the interrupt's deadline,
// with a second for hosts that count in seconds.
func tokenCapped(t *harness.T, n notice) {
	defer endRun(t, n.run)
	ms, ok := numeric(n.payload()["timeoutMs"])
	if !ok || ms <= 0 {
		t.Abort("the interrupt has no deadline: timeoutMs %s", show(n.payload()["timeoutMs"]))
	}
	deadline := requestedTime(t, n.pending).Add(time.Duration(ms) * time.Millisecond)
	for _, tok := range n.tokens {
		at, ok := tok.expiry()
		if !ok {
			t.Abort("the token has no expiresAt that can be read")
		}
		t.Expect(requirements.InterruptTokenCapped, harness.That(!at.After(deadline.Add(time.Second)), "expiresAt no later than the interrupt's own deadline",
			"expiresAt %s after it", at.Sub(deadline).Round(time.Millisecond)).AtAttempt(tok.at))
	}
}

// shortLives are the lifetimes asked of the fixture that lets a test choose
// one. A host that is slow today may find the first one over before it delivers.
func shortLives() []time.Duration { return []time.Duration{1200 * time.Millisecond, 6 * time.Second} }

// noticed is a run that has raised an interrupt and the tokens that came within
// a time, if any did.
func noticed(t *harness.T, body object, within time.Duration) notice {
	e := t.Endpoint(nil)
	p := raised(t, with(body, "callbackUrl", e.URL()))
	return notice{pending: p, endpoint: e, tokens: awaitTokens(t, e, within)}
}

// shortLived is a notice with a token that expires soon.
func shortLived(t *harness.T, chosen bool) notice {
	var n notice
	if !chosen {
		n = noticed(t, object{"workflowId": approvesLate}, noticeWait)
	} else {
		for _, life := range shortLives() {
			endRun(t, n.run)
			n = noticed(t, askOf("custom", object{"customKind": "wopcert.expiry"}, "tokenLifetimeMs", life.Milliseconds()), life+settle/5)
			if _, ok := n.resolver(); ok {
				break
			}
		}
	}
	if _, ok := n.resolver(); !ok {
		endRun(t, n.run)
		t.Abort("no token to observe: %d callbacks and %d tokens in them", n.endpoint.Count(), len(n.tokens))
	}
	return n
}

// tokenExpires waits until a token has expired. Where the interrupt itself ends
// then, 409 is as right as 410.
func tokenExpires(t *harness.T) {
	chosen := listed(t, waitsForAny)
	n := shortLived(t, chosen)
	defer endRun(t, n.run)
	tok := n.mustToken()
	at, ok := tok.expiry()
	if left := time.Until(at); !ok || left > settle {
		t.Abort("the token does not expire soon: expiresAt %s", show(tok.claims["expiresAt"]))
	}
	first := inspect(t, tok.raw)
	if !first.Is(http.StatusOK).OK && time.Now().Before(at) {
		t.Abort("the token does not work before it expires, so that its refusal shows nothing: %s", answered(first))
	}
	pause(t, time.Until(at)+50*time.Millisecond)
	r := inspect(t, tok.raw)
	for end := at.Add(settle / 4); succeeded(r) && time.Now().Before(end); r = inspect(t, tok.raw) {
		pause(t, 100*time.Millisecond) // the host's clock may be behind
	}
	if !chosen && r.Refuses("interrupt_already_resolved").OK {
		t.Inapplicable(requirements.InterruptTokenExpired, "the interrupt of %s ends together with its tokens", approvesLate)
		return
	}
	t.Expect(requirements.InterruptTokenExpired, refusedAsExpired("inspection", r))
	t.Expect(requirements.InterruptTokenExpired, refusedAsExpired("a resolve", resolveBy(t, tok.raw, decide("accept"))))
	if chosen {
		t.Expect(requirements.InterruptTokenExpired, stillPending(t, n.pending))
		mustResolve(t, harness.Primary, n.pending, object{"by": "the run-scoped surface"})
	}
}

func refusedAsExpired(what string, r *harness.Response) harness.Check {
	check := r.Refuses("interrupt_expired")
	check.Observed = what + " past expiresAt was answered " + check.Observed
	return check
}

// tokenSpentResolved resolves one of two interrupts, so that the run goes on
// waiting, and uses the token of that one.
func tokenSpentResolved(t *harness.T) {
	e := t.Endpoint(nil)
	left, right := twoPending(t, with(object{"workflowId": waitsTwice}, "callbackUrl", e.URL()))
	defer endRun(t, left.run)
	tok, ok := tokenOf(t, e, left)
	if !ok {
		t.Abort("no token to observe: %d callbacks, and in none a token that inspects the left of two interrupts", e.Count())
	}
	mustResolve(t, harness.Primary, left, object{"side": "left"})
	awaitResolved(t, left)
	if check := stillPending(t, right); !check.OK {
		t.Abort("the run does not wait on its other interrupt, so that the token shows nothing of a resolved one: %s", check.Observed)
	}
	t.Expect(requirements.InterruptTokenSpentResolved, spentToken(t, "after the interrupt was resolved", tok, object{"side": "left again"}))
	t.Expect(requirements.InterruptTokenSpentResolved, stillPending(t, right))
}

// tamperedRefused uses tokens made from a true one. The last characters are
// left alone, since base64 has bits there that mean nothing.
func tamperedRefused(t *harness.T) {
	n := notified(t, object{"workflowId": approves})
	defer endRun(t, n.run)
	other := notified(t, object{"workflowId": approves})
	defer endRun(t, other.run)
	tok, foreign := n.mustToken(), other.mustToken()
	mustWork(t, tok)
	mustWork(t, foreign)
	cases := map[string]string{
		"another character in the MAC":      tok.with(tok.alg, tok.kid, tok.payload, flipped(tok.mac, 3)),
		"another character late in the MAC": tok.with(tok.alg, tok.kid, tok.payload, flipped(tok.mac, max(len(tok.mac)-6, 0))),
		"a MAC cut short":                   tok.with(tok.alg, tok.kid, tok.payload, tok.mac[:len(tok.mac)/2]),
		"a MAC with more after it":          tok.with(tok.alg, tok.kid, tok.payload, tok.mac+"AAAA"),
		"an empty MAC":                      tok.with(tok.alg, tok.kid, tok.payload, ""),
		"the MAC of another token":          tok.with(tok.alg, tok.kid, tok.payload, foreign.mac),
		"the payload of another token":      tok.with(tok.alg, tok.kid, foreign.payload, tok.mac),
		"another character in the payload":  tok.with(tok.alg, tok.kid, flipped(tok.payload, len(tok.payload)/2), tok.mac),
		"a MAC of zeros":                    tok.with(tok.alg, tok.kid, tok.payload, base64.RawURLEncoding.EncodeToString(make([]byte, 32))),
	}
	if later, ok := tok.claiming("expiresAt", postponed(tok)); ok {
		cases["a later expiresAt under the same MAC"] = later
	}
	for what, raw := range cases {
		t.Expect(requirements.InterruptTokenMacRefused, invalidToken(t, what, raw, decide("accept")))
	}
	t.Expect(requirements.InterruptTokenMacRefused, stillPending(t, n.pending))
	t.Expect(requirements.InterruptTokenMacRefused, works(t, tok))
}

// flipped is a text with another character at a place, of the same alphabet.
func flipped(s string, at int) string {
	if at >= len(s) {
		return s + "A"
	}
	other := byte('A')
	if s[at] == other {
		other = 'B'
	}
	return s[:at] + string(other) + s[at+1:]
}

// postponed is the token's expiresAt a day later, in the form it has.
func postponed(tok resumeToken) any {
	at, ok := tok.expiry()
	if !ok {
		return nil
	}
	at = at.Add(24 * time.Hour)
	if _, isText := tok.claims["expiresAt"].(string); isText {
		return at.UTC().Format(time.RFC3339)
	}
	if n, _ := numeric(tok.claims["expiresAt"]); n > 1e11 {
		return at.UnixMilli()
	}
	return at.Unix()
}

// claiming is the token with another claim in its payload and the MAC it had.
func (tok resumeToken) claiming(name string, value any) (string, bool) {
	if tok.claims == nil || value == nil {
		return "", false
	}
	claims := maps.Clone(tok.claims)
	claims[name] = value
	b, err := json.Marshal(claims)
	return tok.with(tok.alg, tok.kid, base64.RawURLEncoding.EncodeToString(b), tok.mac), err == nil
}

func inspectOnly(t *harness.T) {
	n := notified(t, object{"workflowId": approves})
	defer endRun(t, n.run)
	i := slices.IndexFunc(n.tokens, resumeToken.inspects)
	if i < 0 {
		t.Inapplicable(requirements.InterruptInspectToken, "the host hands out no token of intent inspect")
		return
	}
	tok := n.tokens[i]
	r := inspect(t, tok.raw)
	t.Expect(requirements.InterruptInspectToken, harness.All(r.Is(http.StatusOK), r.Valid("suspend-request")))
	t.Expect(requirements.InterruptInspectToken, refusedForbidden(t, "a resolve with a token of intent inspect", resolveBy(t, tok.raw, decide("accept"))))
	t.Expect(requirements.InterruptInspectToken, stillPending(t, n.pending))
	if resolver, ok := tok.claiming("intent", "resolve"); ok {
		t.Expect(requirements.InterruptInspectToken, resolveBy(t, resolver, decide("accept")).Refuses("interrupt_token_invalid"))
	}
	mustResolve(t, harness.Primary, n.pending, decide("accept"))
}
