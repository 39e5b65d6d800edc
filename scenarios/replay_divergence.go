package scenarios

import (
	"slices"

	"wopcert/harness"
	"wopcert/requirements"
	"wopcert/seams"
)

// replayDivergence: replay.md, "Divergence" and "Suppression". What a node of
// today makes and what a log recorded differ where the log is one that the
// suite stored: every other way to part the two is the host's own.
func replayDivergence() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-replay-divergence",
		Title:    "A replay executes what has no effects, says where that differs from its source, and goes on",
		Document: "replay.md", Section: "Divergence",
		Gates: []harness.Gate{harness.Advertises("replay"), servesMode("replay"), harness.NeedsSeams(), harness.NeedsFixture(identity)},
		Tests: []harness.Test{
			{
				Name:      "a log with another outcome than its node has",
				Witnesses: []requirements.ID{requirements.ReplayDivergedReported},
				Run:       divergenceReported,
			},
			{
				Name: "the rest of a replay that diverged",
				Witnesses: []requirements.ID{requirements.ReplayDivergedContinues, requirements.ReplayDivergedStreamed,
					requirements.ReplayPureNodesLive},
				Run: divergedGoesOn,
			},
		},
	}
}

// diverging is a stored run whose recorded outcome its node does not have, and
// the run it was made from.
type diverging struct {
	honestID string
	honest   log
	source   string // the stored run
	stored   log
	outcome  object // its node.completed, as the host reads it
	node     string
	outputs  any // what the node has by its inputs
}

// diverge stores such a run. The test ends when it cannot be had.
func diverge(t *harness.T) diverging {
	d := diverging{}
	d.honestID, d.honest = settledRun(t, object{"workflowId": identity,
		"inputs": object{"payload": object{"text": "as it is", "list": []any{1, nil, true}}}})
	i := slices.IndexFunc(d.honest.events, ofType("node.completed"))
	if i < 0 {
		t.Abort("a run of %s has no node.completed", identity)
	}
	d.node, d.outputs = nodeOf(d.honest.events[i]), harness.Get(d.honest.events[i], "payload", "outputs")
	if d.outputs == nil {
		t.Abort("node.completed of a run of %s has no outputs to differ in", identity)
	}
	d.source = t.NeedSeam(seams.SeedLog(seams.Completed, v1Rows(t, d.honest.events, func(typ string, payload object) {
		if out, has := payload["outputs"]; has {
			payload["outputs"] = otherLeaves(out)
		}
	})...)).Text("runId")
	d.stored = wholeLog(t, d.source)
	j := slices.IndexFunc(d.stored.events, ofType("node.completed"))
	if j < 0 {
		t.Abort("the stored run reads without its node.completed: %d events, %s", len(d.stored.events), answered(d.stored.last))
	}
	d.outcome = d.stored.events[j]
	if same("", d.outputs, harness.Get(d.outcome, "payload", "outputs")).OK {
		t.Abort("the stored run reads with the outcome of the node instead of the one stored")
	}
	return d
}

// replay forks the stored run at its node and reads the fork.
func (d diverging) replay(t *harness.T) (string, log) {
	child := forkedFrom(t, d.source, "replay", seqOf(startOf(d.stored.events, d.node)))
	return child, readLog(t, child, settle)
}

// v1Rows are a run's events as rows of a version 1 log, their payloads changed
// as the caller likes.
func v1Rows(t *harness.T, events []object, change func(typ string, payload object)) []seams.SeedEvent {
	var rows []seams.SeedEvent
	for _, e := range events {
		typ := text(e, "type")
		v1, ok := t.Corpus().EventToV1(typ)
		if !ok {
			continue // a type version 1 had not
		}
		payload := object{}
		given, _ := e["payload"].(object)
		for name, v := range given {
			// Who owns a run, version 1 recorded elsewhere.
			if typ != "run.started" || name == "workflowId" || name == "inputs" {
				payload[name] = v
			}
		}
		change(typ, payload)
		rows = append(rows, seams.SeedEvent{Type: v1, Sequence: int64(len(rows)), Timestamp: text(e, "timestamp"), Payload: payload})
	}
	return rows
}

// otherLeaves is a value of the same shape with other texts in it.
func otherLeaves(v any) any {
	switch x := v.(type) {
	case object:
		out := object{}
		for name, member := range x {
			out[name] = otherLeaves(member)
		}
		return out
	case []any:
		out := []any{}
		for _, member := range x {
			out = append(out, otherLeaves(member))
		}
		return out
	}
	return "as it was recorded"
}

func divergenceReported(t *harness.T) {
	d := diverge(t)
	_, faithful := replayed(t, d.honestID, seqOf(startOf(d.honest.events, d.node)))
	t.Expect(requirements.ReplayDivergedReported, noneOf("replay.diverged in a replay that reproduces its source",
		faithful.events, ofType("replay.diverged")).At(faithful.last))
	_, l := d.replay(t)
	reports := eventsOfType(l.events, "replay.diverged")
	t.Expect(requirements.ReplayDivergedReported, d.reported(t, reports).At(l.last))
}

// reported checks that one of the reports names an event of the node that
// differs: its outcome, or its start where a host adds to what it records and
// the stored run so differs earlier.
func (d diverging) reported(t *harness.T, reports []object) harness.Check {
	expected := "replay.diverged with originalEventId " + text(d.outcome, "eventId") + " at sequence " + decimal(seqOf(d.outcome)) + " of the source"
	if len(reports) == 0 {
		return harness.That(false, expected, "no replay.diverged in the log of the fork")
	}
	bySeq := bySequence(d.stored.events)
	for _, e := range reports {
		if check, judged := validPayload(t.Corpus(), e); judged && !check.OK {
			return check
		}
		seq, ok := integer(harness.Get(e, "payload", "atSequence"))
		original := bySeq[seq]
		if ok && original != nil && nodeOf(original) == d.node && textAt(e, "payload", "originalEventId") == text(original, "eventId") &&
			textAt(e, "payload", "sourceRunId") == d.source {
			return harness.That(true, expected, "%s", label(e))
		}
	}
	return harness.That(false, expected, "%s", show(reports[0]["payload"]))
}

func divergedGoesOn(t *harness.T) {
	d := diverge(t)
	child, l := d.replay(t)
	defer endRun(t, child)
	t.Expect(requirements.ReplayDivergedContinues, harness.That(l.terminal && len(eventsOfType(l.events, "run.completed")) == 1,
		"a fork that completes", "status %q with %d run.completed after %s", l.status, len(eventsOfType(l.events, "run.completed")), settle).At(l.last))
	outcomes := outcomesOf(newer(l.events, seqOf(startOf(d.stored.events, d.node))-1), d.node)
	if len(outcomes) == 0 {
		t.Abort("the fork has no outcome of node %s", d.node)
	}
	t.Expect(requirements.ReplayPureNodesLive, same("outputs of the node in the fork", d.outputs,
		harness.Get(outcomes[0], "payload", "outputs")).At(l.last))
	if len(eventsOfType(l.events, "replay.diverged")) == 0 {
		t.Blocked(requirements.ReplayDivergedStreamed, "the log of the fork holds no replay.diverged to look for in a stream")
		return
	}
	s := readMode(t, child, "debug")
	if unservedMode(s) {
		t.Inapplicable(requirements.ReplayDivergedStreamed, "the host does not serve the debug mode")
		return
	}
	if !s.served() {
		t.Blocked(requirements.ReplayDivergedStreamed, "no debug stream to observe: %s", answered(s.open))
		return
	}
	n := countOf(allEventsIn(s.frames), ofType("replay.diverged"))
	t.Expect(requirements.ReplayDivergedStreamed, harness.That(n > 0, "replay.diverged in the debug stream", "%d frames without it", len(s.frames)).At(s.open))
}
