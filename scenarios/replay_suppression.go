package scenarios

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"wopcert/harness"
	"wopcert/harness/receiver"
	"wopcert/requirements"
)

// replaySuppression: replay.md, "Suppression".
func replaySuppression() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-replay-suppression",
		Title:    "A replay takes the recorded outcome of an effect, or fails: it never performs it",
		Document: "replay.md", Section: "Suppression",
		Gates: []harness.Gate{harness.Advertises("replay"), servesMode("replay")},
		Tests: []harness.Test{
			{
				Name:      "a run that ended before its effect",
				Witnesses: []requirements.ID{requirements.ReplaySourceMissing, requirements.ReplaySourceMissingNoEffect},
				Gates:     []harness.Gate{harness.NeedsFixture(sideEffect)},
				Slow:      2 * time.Second,
				Run:       outcomeMissing,
			},
			{
				Name:      "a run that had its effect",
				Witnesses: []requirements.ID{requirements.ReplayRecordedOutcome},
				Gates:     []harness.Gate{harness.NeedsFixture(sideEffect)},
				Run: func(t *harness.T) {
					outcomeTaken(t, object{"workflowId": sideEffect, "inputs": object{"delayMs": 1}}, "effect")
				},
			},
			{
				Name:      "effects at a provider that answers differently each time",
				Witnesses: []requirements.ID{requirements.ReplayRecordedOutcome, requirements.ReplayEffectNotSentAgain},
				Gates:     []harness.Gate{optIn(httpEffect), harness.NeedsReceiver()},
				Run:       outcomesOfProvider,
			},
			{
				Name:      "an effect that was under way when its run was cancelled",
				Witnesses: []requirements.ID{requirements.ReplaySourceMissing, requirements.ReplayEffectNotSentAgain},
				Gates:     []harness.Gate{optIn(httpEffect), harness.NeedsReceiver()},
				Run:       outcomeCutOff,
			},
			{
				Name:      "a node that executes twice",
				Witnesses: []requirements.ID{requirements.ReplayOutcomeOrdinal},
				Gates:     []harness.Gate{optIn(ordinalLoop)},
				Slow:      2 * time.Second,
				Run:       outcomesByOrdinal,
			},
		},
	}
}

// cutShort is a run that was cancelled while a node waited, before another node
// began. The wait is made longer until the cancel is in time for it. The test
// ends when it never is.
func cutShort(t *harness.T, workflow, waits string, before func(log) bool) (string, log) {
	for _, ms := range []int{300, 2000, 10_000} {
		id := startRun(t, object{"workflowId": workflow, "inputs": object{"delayMs": ms}})
		awaitLogged(t, id, func(e object) bool { return ofNode(waits, "node.started")(e) || isTerminalType(e["type"]) }, settle)
		if r := cancel(t, id, object{}); !r.Is(http.StatusOK).OK && !r.Refuses("run_terminal").OK {
			t.Abort("no cancelled run to replay: cancelRun gave %s", answered(r))
		}
		if l := readLog(t, id, settle); l.terminal && before(l) {
			return id, l
		}
	}
	t.Abort("no run of %s could be cancelled while it waited at node %s", workflow, waits)
	return "", log{}
}

func outcomeMissing(t *harness.T) {
	source, _ := cutShort(t, sideEffect, "wait", func(l log) bool {
		return slices.ContainsFunc(l.events, ofNode("wait", "node.started")) && len(outcomesOf(l.events, "effect")) == 0
	})
	r := fork(t, source, object{"mode": "replay", "fromSeq": 0})
	child := r.Text("runId")
	if !t.Expect(requirements.ReplaySourceMissing, r.Is(http.StatusCreated)) || child == "" {
		return
	}
	defer endRun(t, child)
	l := readLog(t, child, 2*settle)
	if !l.terminal {
		t.Abort("the replay did not end within %s: it has status %q", 2*settle, l.status)
	}
	node := "effect"
	if !slices.ContainsFunc(l.events, ofNode(node, "node.started", "node.failed")) && len(outcomesOf(l.events, "wait")) > 0 {
		// A host may count a wait among the effects; this one, cut short, has no
		// recorded outcome either.
		switch code := failedWith(outcomesOf(l.events, "wait")[0]); code {
		case "replay_source_missing":
			node = "wait"
		case "":
		default:
			t.Abort("the replay never came to node effect: node wait failed with %s", code)
		}
	}
	t.Expect(requirements.ReplaySourceMissing, failedClosed(node, outcomesOf(l.events, node)).At(l.last))
	if !t.Host().Discovery.Advertises("idempotency") {
		t.Inapplicable(requirements.ReplaySourceMissingNoEffect, "the host does not advertise idempotency and so reports no effects")
		return
	}
	effects, ok := tryLedger(t, child)
	if !ok {
		t.Blocked(requirements.ReplaySourceMissingNoEffect, "the effects of the replay cannot be read: %s", answered(effects.of))
		return
	}
	t.Expect(requirements.ReplaySourceMissingNoEffect, nothingPerformed("effect", effects))
}

// failedClosed checks that a node failed for want of a recorded outcome.
func failedClosed(node string, outcomes []object) harness.Check {
	expected := "node.failed of " + node + " with replay_source_missing"
	if len(outcomes) == 0 {
		return harness.That(false, expected, "no outcome of the node")
	}
	for _, e := range outcomes {
		if failedWith(e) != "replay_source_missing" {
			return harness.That(false, expected, "%s %s", label(e), show(e["payload"]))
		}
	}
	return harness.That(true, expected, "%s", label(outcomes[0]))
}

// nothingPerformed checks that a ledger has no attempt of a node that was made
// or may have been. One released was not.
func nothingPerformed(node string, l ledger) harness.Check {
	for _, e := range l.effects {
		if text(e, "nodeId") == node && text(e, "state") != "released" {
			return harness.That(false, "no effect of node "+node, "one that is %s, attempt %s", show(e["state"]), show(e["attempt"])).At(l.of)
		}
	}
	return harness.That(true, "no effect of node "+node, "%d records", len(l.effects)).At(l.of)
}

// outcomeTaken replays a run and checks that a node with an effect has the
// outcome it had. The test ends when the source has none.
func outcomeTaken(t *harness.T, body object, node string) (source string, l log) {
	source, l = settledRun(t, body)
	want := outcomesOf(l.events, node)
	if len(want) != 1 {
		t.Abort("the run of %v has %d outcomes of node %s", body["workflowId"], len(want), node)
	}
	for _, at := range []int64{0, seqOf(startOf(l.events, node))} {
		child := forkedFrom(t, source, "replay", at)
		defer endRun(t, child)
		forked := readLog(t, child, settle)
		got := outcomesOf(newer(forked.events, at-1), node)
		if len(got) == 0 && !forked.terminal {
			t.Abort("the replay from %d has not come to node %s after %s", at, node, settle)
		}
		t.Expect(requirements.ReplayRecordedOutcome, outcomeIs(fmt.Sprintf("the replay from %d", at), want[0], got).At(forked.last))
		if !forked.terminal || len(got) == 0 {
			continue
		}
		// A replay is a source like any other: its log has the outcome it took.
		grandchild := forkedFrom(t, child, "replay", 0)
		defer endRun(t, grandchild)
		again := readLog(t, grandchild, settle)
		t.Expect(requirements.ReplayRecordedOutcome, outcomeIs(fmt.Sprintf("the replay of the replay from %d", at), want[0],
			outcomesOf(again.events, node)).At(again.last))
	}
	return source, l
}

// outcomeIs checks that a node ended once, as it did in the source: in the same
// type, with the same outputs or the same error.
func outcomeIs(what string, want object, got []object) harness.Check {
	expected := fmt.Sprintf("the recorded %s of node %s", text(want, "type"), nodeOf(want))
	if len(got) != 1 || got[0]["type"] != want["type"] {
		var types []string
		for _, e := range got {
			types = append(types, text(e, "type")+" "+failedWith(e))
		}
		return harness.That(false, expected, "%s has %v", what, types)
	}
	if code := failedWith(want); code != "" {
		return harness.That(failedWith(got[0]) == code, expected+" with "+code, "%s has %s", what, show(failedWith(got[0])))
	}
	return same("outputs of the node in "+what, harness.Get(want, "payload", "outputs"), harness.Get(got[0], "payload", "outputs"))
}

// freshAnswers answers every attempt with another text.
func freshAnswers(receiver.Attempt) receiver.Answer {
	return receiver.JSON([]byte(`{"token":"` + rand.Text() + `"}`))
}

func outcomesOfProvider(t *harness.T) {
	for _, script := range []receiver.Script{freshAnswers, receiver.Always(http.StatusUnprocessableEntity)} {
		e := t.Endpoint(script)
		body := object{"workflowId": httpEffect, "inputs": object{"url": e.URL()}}
		sent := 0
		source, l := settledRun(t, body)
		if sent = e.Count(); sent == 0 {
			t.Abort("nothing of a run of %s reached the provider: it has status %q", httpEffect, l.status)
		}
		outcomes := outcomesOf(l.events, "effect")
		if len(outcomes) != 1 {
			t.Abort("the run of %s has %d outcomes of node effect", httpEffect, len(outcomes))
		}
		for _, at := range []int64{0, seqOf(startOf(l.events, "effect"))} {
			child, forked := replayed(t, source, at)
			t.Expect(requirements.ReplayRecordedOutcome, outcomeIs(fmt.Sprintf("the replay from %d", at), outcomes[0],
				outcomesOf(newer(forked.events, at-1), "effect")).At(forked.last))
			t.Expect(requirements.ReplayEffectNotSentAgain, noMoreSent(t, e, sent, "the replay "+child))
		}
	}
}

// outcomeCutOff replays a run whose effect reached its provider, and that was
// cancelled before the answer: the source has no outcome to take, and the
// provider is not asked again for one.
func outcomeCutOff(t *harness.T) {
	answers := make(chan struct{})
	release := sync.OnceFunc(func() { close(answers) })
	defer release()
	e := t.Endpoint(func(receiver.Attempt) receiver.Answer {
		select {
		case <-answers:
		case <-t.Context().Done():
		}
		return done()
	})
	source := startRun(t, object{"workflowId": httpEffect, "inputs": object{"url": e.URL()}})
	defer endRun(t, source)
	if !wasCalled(t, e, settle) {
		t.Abort("nothing of a run of %s reached the provider", httpEffect)
	}
	if r := cancel(t, source, object{}); !r.Is(http.StatusOK).OK {
		t.Abort("no cancelled run to replay: cancelRun gave %s", answered(r))
	}
	release()
	l := readLog(t, source, settle)
	if !l.terminal {
		t.Abort("no cancelled run to replay: it has status %q after its cancel", l.status)
	}
	if len(outcomesOf(l.events, "effect")) > 0 {
		const fact = "the host lets an effect come to its outcome that is under way when its run is cancelled"
		t.Inapplicable(requirements.ReplaySourceMissing, fact)
		t.Inapplicable(requirements.ReplayEffectNotSentAgain, fact)
		return
	}
	sent := e.Count()
	child, forked := replayed(t, source, 0)
	t.Expect(requirements.ReplaySourceMissing, failedClosed("effect", outcomesOf(forked.events, "effect")).At(forked.last))
	t.Expect(requirements.ReplayEffectNotSentAgain, noMoreSent(t, e, sent, "the replay "+child))
}

// noMoreSent checks that no more reached an endpoint than before. What another run
// sends afterwards shows that what was on its way has come.
func noMoreSent(t *harness.T, e *receiver.Endpoint, sent int, what string) harness.Check {
	expected := fmt.Sprintf("the %d requests of the source and no more", sent)
	after := t.Endpoint(freshAnswers)
	settledRun(t, object{"workflowId": httpEffect, "inputs": object{"url": after.URL()}})
	ctx, cancel := patience(t)
	defer cancel()
	if _, ok := after.Wait(ctx, 1); !ok {
		t.Abort("a later run reached the provider no more, so that silence shows nothing")
	}
	attempts := e.Attempts()
	if len(attempts) > sent {
		return harness.That(false, expected, "%s sent %d", what, len(attempts)-sent).AtAttempt(attempts[sent])
	}
	return harness.That(true, expected, "%d", len(attempts))
}

func outcomesByOrdinal(t *harness.T) {
	source, l := cutShort(t, ordinalLoop, "wait", func(l log) bool {
		return len(outcomesOf(l.events, "effect")) == 1 && slices.ContainsFunc(l.events, ofNode("wait", "node.started"))
	})
	want := outcomesOf(l.events, "effect")
	at := seqOf(startOf(l.events, "effect"))
	child := forkedFrom(t, source, "replay", at)
	defer endRun(t, child)
	forked := readLog(t, child, 2*settle)
	if !forked.terminal {
		t.Abort("the replay did not end within %s: it has status %q", 2*settle, forked.status)
	}
	got := outcomesOf(newer(forked.events, at-1), "effect")
	if len(got) < 2 {
		if i := slices.IndexFunc(forked.events, ofNode("wait", "node.failed")); i >= 0 && failedWith(forked.events[i]) == "replay_source_missing" {
			t.Inapplicable(requirements.ReplayOutcomeOrdinal, "the host counts the wait of %s among the effects, so that its replay ends there", ordinalLoop)
			return
		}
	}
	if !t.Expect(requirements.ReplayOutcomeOrdinal, outcomeIs("the first execution", want[0], got[:min(len(got), 1)]).At(forked.last)) {
		return
	}
	t.Expect(requirements.ReplayOutcomeOrdinal, failedClosed("effect", got[1:]).At(forked.last))
	secondOutcome(t)
}

// secondOutcome replays a run from the second execution of a node: the
// inherited first one counts, so that the second recorded outcome is taken.
func secondOutcome(t *harness.T) {
	source, l := settledRun(t, object{"workflowId": ordinalLoop, "inputs": object{"delayMs": 1}})
	want := outcomesOf(l.events, "effect")
	starts := slices.DeleteFunc(slices.Clone(l.events), func(e object) bool { return !ofNode("effect", "node.started")(e) })
	if len(want) != 2 || len(starts) != 2 {
		t.Abort("a run of %s executes node effect %d times, not twice", ordinalLoop, len(want))
	}
	at := seqOf(starts[1])
	_, forked := replayed(t, source, at)
	t.Expect(requirements.ReplayOutcomeOrdinal, outcomeIs("the replay from its second execution", want[1],
		outcomesOf(newer(forked.events, at-1), "effect")).At(forked.last))
}
