package scenarios

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"wopcert/harness"
	"wopcert/harness/receiver"
	"wopcert/requirements"
	"wopcert/seams"
)

// effectIdentity: idempotency.md, "Layer 2: effect identity".
func effectIdentity() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-effect-identity-business-key",
		Title:    "An effect has one identity through all its attempts, of the business and not of the run",
		Document: "idempotency.md", Section: "Layer 2: effect identity",
		Gates: []harness.Gate{harness.Advertises("idempotency"), harness.NeedsSeams(), harness.NeedsReceiver()},
		Tests: []harness.Test{{
			Name:      "an effect whose first attempt gets no answer",
			Witnesses: []requirements.ID{requirements.R0173EffectIdentityBusinessKey, requirements.R0173EffectIdentityBusinessKeyRetry},
			Run:       identityOfEffect,
		}},
	}
}

// sentEffect is an effect that a host was made to send to the suite's provider.
type sentEffect struct {
	run, id  string
	attempts []receiver.Attempt
	of       *harness.Response
}

// sendEffect makes a host send an effect, with at least so many attempts. The
// test ends when it does not.
func sendEffect(t *harness.T, attempts int, script receiver.Script, headers ...string) sentEffect {
	e := t.Endpoint(script)
	call := seams.RetryEffect(e.URL())
	r := t.Do(harness.Request{Method: call.Method, Path: call.Path, Body: call.Body, Header: headerOf(headers...)})
	out := sentEffect{run: r.Text("runId"), id: r.Text("effectId"), of: r}
	if !r.Is(call.Success).OK || out.run == "" || out.id == "" {
		t.Abort("no effect to observe: the seam that sends one gave %s", answered(r))
	}
	ctx, cancel := patience(t)
	defer cancel()
	var enough bool
	if out.attempts, enough = e.Wait(ctx, attempts); !enough {
		t.Abort("%d attempts at an effect reached the provider in time, not %d", len(out.attempts), attempts)
	}
	awaitEnd(t, out.run, settle)
	out.attempts = e.Attempts()
	return out
}

// providerKey is the idempotency key an attempt shows: in the header of that
// name, or under what a provider's convention makes of it.
func providerKey(a receiver.Attempt) string {
	if key := a.Header.Get("Idempotency-Key"); key != "" {
		return key
	}
	for _, name := range headerNames(a.Header) {
		if strings.Contains(strings.ToLower(name), "idempotency-key") {
			return a.Header.Get(name)
		}
	}
	return ""
}

// hungUpOnce gives the first attempt no answer, and a later one success.
func hungUpOnce() receiver.Script {
	return receiver.Sequence(receiver.Answer{HangUp: true}, receiver.JSON([]byte(`{"accepted":true}`)))
}

func identityOfEffect(t *harness.T) {
	s := sendEffect(t, 2, hungUpOnce())
	t.Expect(requirements.R0173EffectIdentityBusinessKeyRetry, oneKey(s.attempts))
	l := readLedger(t, s.run)
	if len(l.effects) == 0 {
		t.Abort("the ledger of the run that sent the effect has no record")
	}
	i := slices.IndexFunc(l.effects, func(e object) bool { return text(e, "effectId") == s.id })
	t.Expect(requirements.R0173EffectIdentityBusinessKey, harness.That(i >= 0, "a record of the effect "+s.id, "records of %v", effectIDs(l.effects)).At(l.of))
	t.Expect(requirements.R0173EffectIdentityBusinessKeyRetry, harness.That(len(effectIDs(l.effects)) == 1,
		"one identity in the ledger for all attempts at the effect", "%v", effectIDs(l.effects)).At(l.of))
	if i < 0 {
		return
	}
	record := l.effects[i]
	t.Expect(requirements.R0173EffectIdentityBusinessKey, boundIn(t, "effectId", record["effectId"], "effectId", tenantSegment(s.run)).At(l.of))
	t.Expect(requirements.R0173EffectIdentityBusinessKey, harness.Equal("keying", any("business-identity"), record["keying"]).At(l.of))
	node := text(record, "nodeId")
	t.Expect(requirements.R0173EffectIdentityBusinessKey, harness.All(ofNoRun("effectId", opaqueOf(s.id), s.run, node),
		ofNoRun("the provider's key", providerKey(s.attempts[0]), s.run, node)).At(l.of))
}

// ofNoRun checks that an identity is not spelt from the run or the node.
func ofNoRun(what, id, runID, node string) harness.Check {
	parts := strings.FieldsFunc(id, func(r rune) bool { return strings.ContainsRune("/:._~-", r) })
	// A short word can stand in an id by chance.
	held := strings.Contains(id, opaqueOf(runID)) || len(node) > 3 && slices.Contains(parts, node)
	return harness.That(!held, what+" without the run and the node", "%s %q of node %q in run %s", what, id, node, runID)
}

// oneKey checks that every attempt shows one and the same key.
func oneKey(attempts []receiver.Attempt) harness.Check {
	const expected = "one idempotency key through all attempts"
	for _, a := range attempts {
		if key := providerKey(a); key == "" || key != providerKey(attempts[0]) {
			return harness.That(false, expected, "attempt %d with key %q after %q", a.Number, key, providerKey(attempts[0])).AtAttempt(a)
		}
	}
	return harness.That(true, expected, "%d attempts with %q", len(attempts), providerKey(attempts[0]))
}

func effectIDs(effects []object) []string {
	var ids []string
	for _, e := range effects {
		if id := text(e, "effectId"); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// effectProvider: idempotency.md, "Layer 2: effect identity", at the provider's
// end.
func effectProvider() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-effect-provider",
		Title:    "A provider is shown which effect a request is of, and the ledger keeps nothing of what was said",
		Document: "idempotency.md", Section: "Layer 2: effect identity",
		Gates: []harness.Gate{harness.Advertises("idempotency")},
		Tests: []harness.Test{
			{
				Name:      "the requests of two effects",
				Witnesses: []requirements.ID{requirements.IdempotencyProviderKey, requirements.IdempotencyDistinctInvocations},
				Gates:     []harness.Gate{harness.NeedsSeams(), harness.NeedsReceiver()},
				Run:       twoEffects,
			},
			{
				Name:      "an answer that holds what is nobody's business",
				Witnesses: []requirements.ID{requirements.IdempotencyEffectsContentFree},
				Gates:     []harness.Gate{harness.NeedsSeams(), harness.NeedsReceiver()},
				Run:       ledgerContentFree,
			},
			{
				Name:      "one effect of the business in two runs",
				Witnesses: []requirements.ID{requirements.IdempotencyBusinessIdentityStable, requirements.IdempotencyDistinctInvocations},
				Gates:     []harness.Gate{optIn(httpEffect), harness.NeedsReceiver()},
				Run:       sameBusiness,
			},
			{
				Name:      "one effect of the business in several runs at once",
				Witnesses: []requirements.ID{requirements.IdempotencyOneClaim},
				Gates:     []harness.Gate{optIn(httpEffect), harness.NeedsReceiver()},
				Run:       oneClaim,
			},
			{
				Name:      "a node that has its effect twice",
				Witnesses: []requirements.ID{requirements.IdempotencyDistinctInvocations},
				Gates:     []harness.Gate{optIn(ordinalLoop)},
				Run:       twiceInARun,
			},
			{
				Name:      "one business key in two tenants",
				Witnesses: []requirements.ID{requirements.IdempotencyDistinctInvocations},
				Gates:     []harness.Gate{optIn(httpEffect), harness.NeedsReceiver(), harness.NeedsCredential(harness.OtherTenant)},
				Run:       apartByTenant,
			},
		},
	}
}

func twoEffects(t *harness.T) {
	a, b := sendEffect(t, 1, hungUpOnce()), sendEffect(t, 1, hungUpOnce())
	for _, attempt := range slices.Concat(a.attempts, b.attempts) {
		t.Expect(requirements.IdempotencyProviderKey, harness.That(providerKey(attempt) != "", "an idempotency key on the request of an effect",
			"attempt %d with the headers %v", attempt.Number, headerNames(attempt.Header)).AtAttempt(attempt))
	}
	t.Expect(requirements.IdempotencyDistinctInvocations, harness.That(a.id != b.id, "two identities for two effects", "%s for both", a.id).At(b.of))
	if key := providerKey(a.attempts[0]); key != "" {
		t.Expect(requirements.IdempotencyDistinctInvocations, harness.That(key != providerKey(b.attempts[0]), "two keys for two effects",
			"%q for both", key).AtAttempt(b.attempts[0]))
	}
}

func headerNames(h http.Header) []string {
	var names []string
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// businessEffect is a run that asks for an effect under a key of the business,
// "" for none, and the identities its ledger has.
func businessEffect(t *harness.T, url, key string) (ids []string, l ledger) {
	inputs := object{"url": url}
	if key != "" {
		inputs["key"] = key
	}
	id, run := settledRun(t, object{"workflowId": httpEffect, "inputs": inputs})
	if len(eventsOfType(run.events, "run.completed")) == 0 {
		t.Abort("a run of %s did not complete: it has status %q", httpEffect, run.status)
	}
	l = readLedger(t, id)
	ids = effectIDs(l.effects)
	if len(ids) != 1 {
		t.Abort("the ledger of a run of %s has the effects %v, not one", httpEffect, ids)
	}
	return ids, l
}

func sameBusiness(t *harness.T) {
	e := t.Endpoint(func(receiver.Attempt) receiver.Answer { return done() })
	key, other := newTag(), newTag()
	first, _ := businessEffect(t, e.URL(), key)
	again, l := businessEffect(t, e.URL(), key)
	t.Expect(requirements.IdempotencyBusinessIdentityStable, harness.Equal("effectId in a second run", first[0], again[0]).At(l.of))
	t.Expect(requirements.IdempotencyBusinessIdentityStable, harness.Equal("keying", any("business-identity"), l.effects[0]["keying"]).At(l.of))
	t.Expect(requirements.IdempotencyBusinessIdentityStable, oneKey(e.Attempts()))
	apart, l := businessEffect(t, e.URL(), other)
	t.Expect(requirements.IdempotencyBusinessIdentityStable, harness.That(apart[0] != first[0], "another effectId for another key of the business",
		"%s for both", first[0]).At(l.of))
	// Without a business identity the run, the node and the execution tell effects apart.
	bare, _ := businessEffect(t, e.URL(), "")
	second, l := businessEffect(t, e.URL(), "")
	t.Expect(requirements.IdempotencyDistinctInvocations, harness.That(bare[0] != second[0], "another effectId in another run, where the business names none",
		"%s for both", bare[0]).At(l.of))
}

// twiceInARun looks at the identities of an effect that one node has twice.
// Where the business names none, the execution tells them apart.
func twiceInARun(t *harness.T) {
	id, l := settledRun(t, object{"workflowId": ordinalLoop, "inputs": object{"delayMs": 1}})
	if n := len(outcomesOf(l.events, "effect")); n != 2 {
		t.Abort("a run of %s executes node effect %d times, not twice", ordinalLoop, n)
	}
	effects := readLedger(t, id)
	performed := map[string]bool{}
	for _, e := range effects.effects {
		if text(e, "nodeId") == "effect" && e["keying"] == "business-identity" {
			t.Inapplicable(requirements.IdempotencyDistinctInvocations, "the effect of %s has a business identity, so that both executions may be one", ordinalLoop)
			return
		}
		if text(e, "nodeId") == "effect" && e["state"] != "released" {
			performed[text(e, "effectId")] = true
		}
	}
	t.Expect(requirements.IdempotencyDistinctInvocations, harness.That(len(performed) >= 2, "an identity for each of two executions of one node",
		"%d in %d records", len(performed), len(effects.effects)).At(effects.of))
}

// apartByTenant asks for an effect under one business key in two tenants, which
// are two businesses.
func apartByTenant(t *harness.T) {
	e := t.Endpoint(freshAnswers)
	body := object{"workflowId": httpEffect, "inputs": object{"url": e.URL(), "key": newTag()}}
	first, _ := settledRun(t, body)
	if e.Count() != 1 {
		t.Abort("%d requests of a run of %s reached the provider, not one", e.Count(), httpEffect)
	}
	other := startRunAs(t, harness.OtherTenant, body)
	read := func() *harness.Response {
		return t.Do(harness.Request{Path: runPath(other, ""), As: harness.OtherTenant})
	}
	for end := time.Now().Add(settle); !endedStatus(read().Text("status")) && time.Now().Before(end) && t.Context().Err() == nil; {
		pause(t, 30*time.Millisecond)
	}
	if r := read(); r.Text("status") != "completed" {
		t.Abort("no run of the other tenant to observe: %s with status %s", answered(r), show(r.Get("status")))
	}
	t.Expect(requirements.IdempotencyDistinctInvocations, harness.That(e.Count() == 2, "an effect of each tenant at the provider",
		"%d requests of the runs %s and %s", e.Count(), first, other))
}

// rivals is how many runs come to one effect at once.
const rivals = 4

func oneClaim(t *harness.T) {
	e := t.Endpoint(func(receiver.Attempt) receiver.Answer {
		answer := done()
		answer.Delay = 100 * time.Millisecond
		return answer
	})
	body := object{"workflowId": httpEffect, "inputs": object{"url": e.URL(), "key": newTag()}}
	for _, r := range atOnce(rivals, func(int) *harness.Response { return create(t, body) }) {
		id := r.Text("runId")
		if !r.Is(http.StatusCreated).OK || !awaitEnd(t, id, settle) {
			t.Abort("a run of %s that shares its effect with others was answered %s and has status %q", httpEffect, answered(r), get(t, id).Text("status"))
		}
	}
	if e.Count() == 0 {
		t.Abort("nothing of %d runs of %s reached the provider", rivals, httpEffect)
	}
	t.Expect(requirements.IdempotencyOneClaim, harness.That(e.Count() == 1, "one request of the effect at the provider", "%d from %d runs at once", e.Count(), rivals))
}

func ledgerContentFree(t *harness.T) {
	secret := t.Canary(0)
	answer := receiver.JSON([]byte(`{"balance":"` + secret + `","secret":"` + secret + `"}`))
	answer.Header.Set("X-Session", secret)
	s := sendEffect(t, 1, func(receiver.Attempt) receiver.Answer { return answer })
	l := readLedger(t, s.run)
	if len(l.effects) == 0 {
		t.Abort("the ledger of the run that sent the effect has no record")
	}
	t.Expect(requirements.IdempotencyEffectsContentFree, harness.That(!t.Discloses(string(l.of.Body)),
		"a ledger without what the provider said, and without credentials", "a ledger that holds one of them").At(l.of))
}

// onwardHopEffect: security-defaults.md, "Onward hops".
func onwardHopEffect() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-onward-hop-effect",
		Title:    "An effect takes no credential of the caller along",
		Document: "security-defaults.md", Section: "Onward hops",
		Gates: []harness.Gate{harness.NeedsSeams(), harness.Advertises("idempotency"), harness.NeedsReceiver()},
		Tests: []harness.Test{{
			Name:      "an effect asked for with a key and a cookie",
			Witnesses: []requirements.ID{requirements.SecurityDefaultsOnwardHopEffect},
			Slow:      time.Second,
			Run: func(t *harness.T) {
				s := sendEffect(t, 1, hungUpOnce(), "Cookie", "session="+t.Canary(1))
				for _, a := range s.attempts {
					t.Expect(requirements.SecurityDefaultsOnwardHopEffect, takesNothing(t, a))
				}
			},
		}},
	}
}

// takesNothing checks that a request holds no credential of the run, in any
// spelling, anywhere.
func takesNothing(t *harness.T, a receiver.Attempt) harness.Check {
	const expected = "a request without any credential the host was shown"
	for name, values := range a.Header {
		for _, v := range values {
			if t.Discloses(v) {
				return harness.That(false, expected, "one in the header %s", name).AtAttempt(a)
			}
		}
	}
	if t.Discloses(string(a.Body)) || t.Discloses(a.Path+"?"+a.Query) {
		return harness.That(false, expected, "one in the body or the address").AtAttempt(a)
	}
	return harness.That(true, expected, "%d headers", len(a.Header)).AtAttempt(a)
}
