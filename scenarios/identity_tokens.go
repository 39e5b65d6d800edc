package scenarios

import (
	"encoding/base64"
	"net/http"
	"regexp"
	"slices"

	"wopcert/harness"
	"wopcert/requirements"
)

// interruptTokenScheme covers tokens of another form and of another key
// (identity.md, "4. Resume tokens").
func interruptTokenScheme() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-interrupt-token-scheme",
		Title:    "A token of another scheme, or under a key the host does not hold, opens nothing",
		Document: "identity.md", Section: "4. Resume tokens",
		Gates: []harness.Gate{interruptFamily(), harness.NeedsFixture(approves, clarifies, waitsForEvent)},
		Tests: []harness.Test{
			{
				Name:      "tokens that nobody issued",
				Witnesses: []requirements.ID{requirements.R0170InterruptTokenSchemeUnprefixedRefused, requirements.R0170InterruptTokenSchemeUnheldKidRefused},
				Run:       forgedRefused,
			},
			{
				Name:      "an issued token without its prefix, and under another kid",
				Witnesses: []requirements.ID{requirements.R0170InterruptTokenSchemeUnprefixedRefused, requirements.R0170InterruptTokenSchemeUnheldKidRefused},
				Gates:     []harness.Gate{delivers(), harness.NeedsReceiver()},
				Run:       rekeyedRefused,
			},
		},
	}
}

// forgedRefused presents tokens that say everything a true one does. The run
// they name waits all the while, and a request for what is not there gets
// another answer.
func forgedRefused(t *harness.T) {
	p := anyPending(t)
	defer endRun(t, p.run)
	if r := get(t, absentRun(p.run)); r.Text("error") == "interrupt_token_invalid" {
		t.Abort("the host answers whatever it is asked with interrupt_token_invalid: getRun of no run gave %s", answered(r))
	}
	if !tokenSurfaceServed(t, p) {
		const fact = "the host serves no /interrupts/{token}"
		t.Inapplicable(requirements.R0170InterruptTokenSchemeUnprefixedRefused, fact)
		t.Inapplicable(requirements.R0170InterruptTokenSchemeUnheldKidRefused, fact)
		return
	}
	zeros := base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	for what, raw := range map[string]string{
		"a token of two segments":   forgedPayload(p) + "." + zeros,
		"a token of the scheme ow1": "ow1.hs256." + newTag() + "." + forgedPayload(p) + "." + zeros,
	} {
		t.Expect(requirements.R0170InterruptTokenSchemeUnprefixedRefused, invalidToken(t, what, raw, answerOf(t, p)))
	}
	for what, raw := range map[string]string{
		"a kid nobody holds": forged(p, "hs256", newTag()),
		"a short kid":        forged(p, "hs256", "0"),
		"a kid with dots":    forged(p, "hs256", "wopcert.unheld.kid"),
	} {
		t.Expect(requirements.R0170InterruptTokenSchemeUnheldKidRefused, invalidToken(t, what, raw, answerOf(t, p)))
	}
	t.Expect(requirements.R0170InterruptTokenSchemeUnprefixedRefused, stillPending(t, p))
	t.Expect(requirements.R0170InterruptTokenSchemeUnheldKidRefused, stillPending(t, p))
	mustResolve(t, harness.Primary, p, answerOf(t, p))
}

// tokenSurfaceServed reports whether there is a token surface at all, which a
// host need not have unless it delivers callbacks.
func tokenSurfaceServed(t *harness.T, p pending) bool {
	if v, _ := t.Host().Discovery.Facet("interrupt", "callbackDelivery"); v == true {
		return true
	}
	absent := func(r *harness.Response) bool {
		return slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}, r.Status)
	}
	raw := forged(p, "hs256", newTag())
	return !absent(inspect(t, raw)) || !absent(resolveBy(t, raw, answerOf(t, p)))
}

// rekeyedRefused changes what stands around the payload and the MAC of a token
// that works.
func rekeyedRefused(t *harness.T) {
	n := notified(t, object{"workflowId": oneOf(t, approves, clarifies, waitsForEvent)})
	defer endRun(t, n.run)
	tok := n.mustToken()
	mustWork(t, tok)
	for what, raw := range map[string]string{
		"payload and MAC alone":      tok.payload + "." + tok.mac,
		"everything but the prefix":  tok.alg + "." + tok.kid + "." + tok.payload + "." + tok.mac,
		"the prefix of another kind": "ow3" + tok.raw[len("ow2"):],
	} {
		t.Expect(requirements.R0170InterruptTokenSchemeUnprefixedRefused, invalidToken(t, what, raw, answerOf(t, n.pending)))
	}
	for what, kid := range map[string]string{"a kid nobody holds": newTag(), "its kid and more": tok.kid + "-2"} {
		t.Expect(requirements.R0170InterruptTokenSchemeUnheldKidRefused,
			invalidToken(t, "the same payload and MAC under "+what, tok.with(tok.alg, kid, tok.payload, tok.mac), answerOf(t, n.pending)))
	}
	t.Expect(requirements.R0170InterruptTokenSchemeUnprefixedRefused, stillPending(t, n.pending))
	t.Expect(requirements.R0170InterruptTokenSchemeUnheldKidRefused, harness.All(stillPending(t, n.pending), works(t, tok)))
}

// interruptTokenGrammar covers the form of tokens and their algorithm
// (identity.md, "4. Resume tokens").
func interruptTokenGrammar() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-interrupt-token-grammar",
		Title:    "Tokens have five parts and an algorithm that the host advertises",
		Document: "identity.md", Section: "4. Resume tokens",
		Gates: []harness.Gate{interruptFamily(), delivers(), harness.NeedsFixture(approves, clarifies, waitsForEvent), harness.NeedsReceiver()},
		Tests: []harness.Test{
			{
				Name:      "another algorithm in a token that works",
				Witnesses: []requirements.ID{requirements.IdentityTokenAlgRefused},
				Run: func(t *harness.T) {
					n := notified(t, object{"workflowId": oneOf(t, approves, clarifies, waitsForEvent)})
					defer endRun(t, n.run)
					tok := n.mustToken()
					mustWork(t, tok)
					for _, alg := range []string{"none", "hs512", "rs256", "hs1"} {
						if slices.Contains(advertisedAlgs(t), alg) {
							continue
						}
						t.Expect(requirements.IdentityTokenAlgRefused, invalidToken(t, "the alg "+alg, tok.with(alg, tok.kid, tok.payload, tok.mac), answerOf(t, n.pending)))
					}
					t.Expect(requirements.IdentityTokenAlgRefused, harness.All(stillPending(t, n.pending), works(t, tok)))
				},
			},
			{
				Name:      "the form of what is handed out",
				Witnesses: []requirements.ID{requirements.IdentityTokenGrammar},
				Run:       tokensWellFormed,
			},
		},
	}
}

// advertisedAlgs are interrupt.tokenAlgs.
func advertisedAlgs(t *harness.T) []string {
	v, _ := t.Host().Discovery.Facet("interrupt", "tokenAlgs")
	algs, _ := stringList(v)
	return algs
}

var base64url = regexp.MustCompile(`^[A-Za-z0-9_-]+={0,2}$`)

// tokensWellFormed looks at every token of a notice, and finds those that work
// although they have another form by the addresses that lead to them.
func tokensWellFormed(t *harness.T) {
	n := notified(t, object{"workflowId": oneOf(t, approves, clarifies, waitsForEvent)})
	defer endRun(t, n.run)
	for _, tok := range n.tokens {
		t.Expect(requirements.IdentityTokenGrammar, harness.All(
			harness.OneOf("alg", tok.alg, advertisedAlgs(t)...), idIs(t, "kid", tok.kid, "keyId"),
			harness.That(base64url.MatchString(tok.payload) && base64url.MatchString(tok.mac), "payload and MAC in base64url",
				"a payload of %d characters and a MAC of %d", len(tok.payload), len(tok.mac))).AtAttempt(tok.at))
		r := inspect(t, tok.raw)
		t.Expect(requirements.IdentityTokenGrammar, r.Is(http.StatusOK))
	}
}
