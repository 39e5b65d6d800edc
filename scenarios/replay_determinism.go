package scenarios

import (
	"slices"

	"wopcert/harness"
	"wopcert/requirements"
	"wopcert/seams"
)

// replayDeterminism: replay.md, "Determinism caveats" and "Declared
// nondeterminism".
func replayDeterminism() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-replay-determinism",
		Title:    "A replay takes what its source recorded of people and of chance",
		Document: "replay.md", Section: "Determinism caveats",
		Gates: []harness.Gate{harness.Advertises("replay"), servesMode("replay")},
		Tests: []harness.Test{
			{
				Name:      "a run whose interrupt was resolved",
				Witnesses: []requirements.ID{requirements.ReplayInterruptShortCircuits},
				Gates:     []harness.Gate{interruptFamily(), harness.NeedsFixture(approves, clarifies)},
				Run:       interruptNotRaised,
			},
			{
				Name:      "a run that drew from declared sources",
				Witnesses: []requirements.ID{requirements.ReplayNondeterminismReplayed},
				Gates: []harness.Gate{harness.HostFact("the host declares no nondeterministic source", func(d *harness.Discovery) bool {
					declared, _ := d.Facet("nondeterminismPolicy", "declared")
					return declared == true
				}), harness.NeedsFixture(nondeterminism)},
				Run: drawsReplayed,
			},
			{
				Name:      "a run that recorded another version of a change than runs take today",
				Witnesses: []requirements.ID{requirements.ReplayVersionPin},
				Gates:     []harness.Gate{harness.NeedsSeams(), optIn(versionPin)},
				Run:       pinTaken,
			},
		},
	}
}

// resolvable is a createRun body of a run that waits, and what ends the wait.
func resolvable(t *harness.T) (body, value object) {
	if listed(t, approves) {
		return object{"workflowId": approves}, decide("accept")
	}
	return object{"workflowId": clarifies}, object{"answers": object{"q1": "green"}}
}

func interruptNotRaised(t *harness.T) {
	body, value := resolvable(t)
	p := suspend(t, body)
	mustResolve(t, harness.Primary, p, value)
	source := readLog(t, p.run, settle)
	if !source.terminal {
		t.Abort("no finished run to replay: its status is %q after its interrupt was resolved", source.status)
	}
	ended := get(t, p.run).Text("status")
	for _, at := range []int64{0, seqOf(startOf(source.events, p.node))} {
		child := forkedFrom(t, p.run, "replay", at)
		defer endRun(t, child)
		// A replay that waits does so for ever; nobody resolves its interrupt.
		status := awaitStatus(t, child, func(s string) bool { return endedStatus(s) || isWaiting(s) }, settle)
		l := wholeLog(t, child)
		t.Expect(requirements.ReplayInterruptShortCircuits, harness.That(status == ended, "a replay that comes to the end of its source by itself, "+ended,
			"the fork from %d has status %q", at, status).At(l.last))
		t.Expect(requirements.ReplayInterruptShortCircuits, noNewInterrupt(source.events, l.events).At(l.last))
	}
}

// startOf is the first node.started of a node, or an event without a sequence.
func startOf(events []object, node string) object {
	if i := slices.IndexFunc(events, ofNode(node, "node.started")); i >= 0 {
		return events[i]
	}
	return object{}
}

// noNewInterrupt checks that a fork requested no interrupt its source did not.
// The source's may stand in the history it shares.
func noNewInterrupt(source, child []object) harness.Check {
	ids := func(events []object) []string {
		var out []string
		for _, e := range eventsOfType(events, "interrupt.requested") {
			out = append(out, show(harness.Get(e, "payload", "interruptId"))+" "+show(harness.Get(e, "payload", "key")))
		}
		return out
	}
	known, got := ids(source), ids(child)
	i := slices.IndexFunc(got, func(id string) bool { return !slices.Contains(known, id) })
	if i < 0 && len(got) <= len(known) {
		return harness.That(true, "no interrupt.requested of the replay's own", "%d of the source's", len(got))
	}
	return harness.That(false, "no interrupt.requested of the replay's own", "%v where the source has %v", got, known)
}

func drawsReplayed(t *harness.T) {
	body := object{"workflowId": nondeterminism}
	source, l := settledRun(t, body)
	_, other := settledRun(t, body)
	node, drawn := drawOf(l.events)
	if _, again := drawOf(other.events); drawn == nil || same("", drawn, again).OK {
		t.Abort("two runs of %s draw the same values, %s, so that a replay that does shows nothing", nondeterminism, show(drawn))
	}
	for _, at := range []int64{0, seqOf(startOf(l.events, node))} {
		_, forked := replayed(t, source, at)
		_, got := drawOf(forked.events)
		check := same("the drawn values", drawn, got).At(forked.last)
		t.Expect(requirements.ReplayNondeterminismReplayed, check)
	}
}

// drawOf is the node of a run that drew values, and its outputs.
func drawOf(events []object) (node string, outputs any) {
	for _, e := range eventsOfType(events, "node.completed") {
		if out, ok := harness.Get(e, "payload", "outputs").(object); ok && len(out) > 0 {
			return nodeOf(e), out
		}
	}
	return "", nil
}

// pinTaken replays a stored run whose version.pinned names the version before
// the one that the workflow takes.
func pinTaken(t *harness.T) {
	_, today := settledRun(t, object{"workflowId": versionPin})
	i := slices.IndexFunc(today.events, ofType("version.pinned"))
	if i < 0 {
		t.Abort("a run of %s records no version.pinned", versionPin)
	}
	version, _ := integer(harness.Get(today.events[i], "payload", "version"))
	if version < 2 {
		t.Abort("a run of %s takes version %d of its change, which has none before it", versionPin, version)
	}
	source := t.NeedSeam(seams.SeedLog(seams.Completed, v1Rows(t, today.events, func(typ string, payload object) {
		if typ == "version.pinned" {
			payload["version"] = version - 1
		}
	})...)).Text("runId")
	stored := wholeLog(t, source)
	started := startedFirst(stored.events)
	j := slices.IndexFunc(stored.events, ofType("version.pinned"))
	if j < 0 || seqOf(started) >= seqOf(stored.events[j]) {
		t.Abort("the stored run reads without a node that pins a version: %d events, %s", len(stored.events), answered(stored.last))
	}
	for _, at := range []int64{seqOf(started), seqOf(stored.events[j]) + 1} {
		_, l := replayed(t, source, at)
		pins := eventsOfType(l.events, "version.pinned")
		if len(pins) == 0 {
			t.Abort("the replay from %d records no version.pinned to judge by", at)
		}
		for _, pin := range pins {
			t.Expect(requirements.ReplayVersionPin, isNumber("the version that the replay takes", float64(version-1),
				harness.Get(pin, "payload", "version")).At(l.last))
		}
	}
}

// startedFirst is the first node.started of a log.
func startedFirst(events []object) object {
	if i := slices.IndexFunc(events, ofType("node.started")); i >= 0 {
		return events[i]
	}
	return object{}
}
