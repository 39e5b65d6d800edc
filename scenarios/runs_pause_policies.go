package scenarios

import (
	"net/http"
	"slices"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// pauseDrainPolicies covers what a pause does to the executing node (runs.md,
// "Pause and resume").
func pauseDrainPolicies() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-pause-drain-policies",
		Title:    "A pause cuts or drains the executing node as asked, and holds until it is ended",
		Document: "runs.md", Section: "Pause and resume",
		Tests: []harness.Test{
			{
				Name:      "an immediate pause leaves the cut attempt without an end",
				Witnesses: []requirements.ID{requirements.RunsPauseImmediateCut},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       cutsAttempt,
			},
			{
				Name:      "a pause that names no policy drains the node",
				Witnesses: []requirements.ID{requirements.RunsPauseDrains},
				Gates:     []harness.Gate{harness.NeedsFixture(delay, twoDelays)},
				Slow:      2 * time.Second,
				Run:       func(t *harness.T) { drainsNode(t, object{}) },
			},
			{
				Name:      "a pause with drain-current-node drains the node",
				Witnesses: []requirements.ID{requirements.RunsPauseDrains},
				Gates:     []harness.Gate{harness.NeedsFixture(delay, twoDelays)},
				Slow:      2 * time.Second,
				Run:       func(t *harness.T) { drainsNode(t, object{"drainPolicy": "drain-current-node"}) },
			},
			{
				Name:      "a paused run stays paused past the time of its node",
				Witnesses: []requirements.ID{requirements.RunsPausedHolds},
				Gates:     []harness.Gate{harness.NeedsFixture(delay)},
				Slow:      4 * time.Second,
				Run:       pauseHolds,
			},
		},
	}
}

func cutsAttempt(t *harness.T) {
	id, started := executing(t, liveBody(t))
	defer endRun(t, id)
	pauseNow(t, id)
	resumed := resumeNow(t, id)
	awaitLogged(t, id, func(e object) bool {
		return seqOf(e) > resumed && e["type"] == "node.started"
	}, settle)
	cancel(t, id, object{})
	l := readLog(t, id, settle)
	if !l.last.Is(http.StatusOK).OK {
		t.Abort("the log of the paused run cannot be read: %s", answered(l.last))
	}
	paused := slices.IndexFunc(l.events, ofType("run.paused"))
	if paused < 0 || !slices.ContainsFunc(l.events, ofType("run.resumed")) {
		t.Abort("no paused and resumed run to observe: the log of %d events lacks run.paused or run.resumed", len(l.events))
	}
	node := nodeOf(started)
	ends := func(e object) bool { return endsNode(e) && nodeOf(e) == node }
	cut := newer(l.events[:paused], seqOf(started))
	if slices.ContainsFunc(cut, func(e object) bool { return ends(e) && e["type"] == "node.completed" }) {
		t.Abort("no cut attempt to observe: the node completed before the pause took effect")
	}
	t.Expect(requirements.RunsPauseImmediateCut, noneOf("end of the cut attempt", cut, ends).At(l.last))
	t.Expect(requirements.RunsPauseImmediateCut, noneOf("node event between run.paused and run.resumed",
		between(l.events, ofType("run.paused"), ofType("run.resumed")), hasPrefix("node.")).At(l.last))
	t.Expect(requirements.RunsPauseImmediateCut, startsAfresh(l.events[paused:], node).At(l.last))
}

// startsAfresh checks what follows a pause for a node whose attempt was cut:
// the next of its events that starts or ends it starts it, after the resume.
func startsAfresh(events []object, node string) harness.Check {
	expected := "a fresh node.started of " + node + " after run.resumed, and no end of the attempt that was cut"
	resumed := false
	for _, e := range events {
		resumed = resumed || e["type"] == "run.resumed"
		if nodeOf(e) != node || e["type"] != "node.started" && !endsNode(e) {
			continue
		}
		return harness.That(resumed && e["type"] == "node.started", expected, "%s comes next", label(e))
	}
	return harness.That(false, expected, "neither start nor end of the node after the pause")
}

// drainsNode pauses a run while its first node executes. A host too slow to be
// paused in time gets a node that takes longer.
func drainsNode(t *harness.T, body object) {
	for _, work := range []time.Duration{1500 * time.Millisecond, 6 * time.Second, 15 * time.Second} {
		if drainsWithin(t, body, work) {
			return
		}
	}
	t.Abort("no drained node to observe: every run ended, or its first node did, before it could be paused")
}

// drainsWithin reports whether the run could be paused while its first node,
// which takes some time, executed.
func drainsWithin(t *harness.T, body object, work time.Duration) bool {
	create := object{"workflowId": twoDelays, "inputs": object{"firstMs": work.Milliseconds(), "secondMs": 200}}
	if !listed(t, twoDelays) {
		create = object{"workflowId": delay, "inputs": object{"delayMs": work.Milliseconds()}}
	}
	id, _ := executing(t, create)
	defer endRun(t, id)
	r := act(t, id, "pause", body)
	if r.Refuses("run_terminal").OK {
		return false
	}
	early := wholeLog(t, id) // what had happened when the pause was accepted
	inTime := early.last.Is(http.StatusOK).OK && countOf(early.events, endsNode) == 0
	if !t.Expect(requirements.RunsPauseDrains, r.Is(http.StatusAccepted)) {
		return true
	}
	awaitLogged(t, id, func(e object) bool { return e["type"] == "run.paused" || isTerminalType(e["type"]) }, work+settle)
	l := wholeLog(t, id)
	at := slices.IndexFunc(l.events, ofType("run.paused"))
	if at < 0 && endedStatus(get(t, id).Text("status")) {
		switch {
		case countOf(l.events, ofType("node.started")) == 1:
			t.Inapplicable(requirements.RunsPauseDrains, "the drained node was the run's last one, and the run ended with it")
		case !inTime:
			return false
		default:
			t.Expect(requirements.RunsPauseDrains, harness.That(false, "run.paused after the drained node", "the run went on to its end").At(l.last))
		}
		return true
	}
	if !t.Expect(requirements.RunsPauseDrains, harness.That(at >= 0, "run.paused in the log", "none within %s of the pause", work+settle).At(l.last)) {
		return true
	}
	t.Expect(requirements.RunsPauseDrains, drained(l.events, at).At(l.last))
	t.Expect(requirements.RunsPauseDrains, echoesPolicy(body, l.events[at]).At(l.last))
	if inTime {
		t.Expect(requirements.RunsPauseDrains, noneOf("node.started between the accepted pause and run.paused",
			newer(l.events[:at], highest(early.events)), ofType("node.started")).At(l.last))
	}
	// Half a second in which the next node would start if it were not held back.
	waitPast(t, id, highest(l.events), time.Now().Add(500*time.Millisecond))
	held := wholeLog(t, id)
	t.Expect(requirements.RunsPauseDrains, noneOf("node.started while paused", between(held.events, ofType("run.paused"), ofType("run.resumed")),
		ofType("node.started")).At(held.last))
	resumeNow(t, id)
	ended := awaitEnd(t, id, settle)
	s := get(t, id)
	t.Expect(requirements.RunsPauseDrains, harness.That(ended && s.Text("status") == "completed", "the drained run to complete after the resume",
		"status %s after %s", show(s.Get("status")), settle).At(s))
	return true
}

// echoesPolicy checks the policy that run.paused names: the one the request did,
// or the default, or none, where the request named none.
func echoesPolicy(request, paused object) harness.Check {
	policy := harness.Get(paused, "payload", "drainPolicy")
	asked, named := request["drainPolicy"]
	expected := "drainPolicy drain-current-node in run.paused"
	if !named {
		expected += ", or none"
	}
	return harness.That(named && policy == asked || !named && (policy == nil || policy == any("drain-current-node")), expected, "drainPolicy %s", show(policy))
}

// drained checks that every node that started before run.paused, at least one,
// has ended before it.
func drained(events []object, at int) harness.Check {
	open := openNodes(events[:at])
	return harness.All(
		harness.That(len(open) == 0, "every started node to end before run.paused", "%v started and not ended", open),
		harness.That(countOf(events[:at], endsNode) > 0, "the end of the drained node before run.paused", "no node ended before it"),
	)
}

// onward matches events by which a run goes on. How the attempt that was cut
// ends is a requirement of its own.
func onward(e object) bool {
	return hasPrefix("run.", "interrupt.")(e) || ofType("node.started", "node.completed")(e)
}

// pauseHolds pauses a run whose node would end soon after, and looks at it when
// that time has passed. A host too slow to be paused in time gets more of it.
func pauseHolds(t *harness.T) {
	for _, work := range []time.Duration{time.Second, 4 * time.Second, 12 * time.Second} {
		id, _ := executing(t, object{"workflowId": delay, "inputs": object{"delayMs": work.Milliseconds()}})
		began := time.Now()
		defer endRun(t, id)
		r := act(t, id, "pause", object{"drainPolicy": "immediate"})
		if r.Refuses("run_terminal").OK {
			continue
		}
		if !r.Is(http.StatusAccepted).OK {
			t.Abort("no paused run to observe: pauseRun gave %s", answered(r))
		}
		if _, ok := awaitLogged(t, id, ofType("run.paused"), settle); !ok {
			if endedStatus(get(t, id).Text("status")) {
				continue // it ended before the pause took effect
			}
			t.Abort("no paused run to observe: no run.paused within %s of the pause", settle)
		}
		waitPast(t, id, highest(wholeLog(t, id).events), began.Add(work+2*time.Second))
		l := wholeLog(t, id)
		t.Expect(requirements.RunsPausedHolds, harness.All(l.last.Is(http.StatusOK), noneOf("run going on after run.paused",
			between(l.events, ofType("run.paused"), func(object) bool { return false }), onward)).At(l.last))
		s := get(t, id)
		if !t.Expect(requirements.RunsPausedHolds, harness.Equal("status past the node's time", any("paused"), s.Get("status")).At(s)) {
			return
		}
		t.Expect(requirements.RunsPausedHolds, names(cancel(t, id, object{}), id))
		t.Expect(requirements.RunsPausedHolds, endsCancelled(t, id))
		return
	}
	t.Abort("no paused run to observe: every run ended before it could be paused")
}
