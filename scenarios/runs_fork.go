package scenarios

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// runForkRefusals covers what forkRun refuses (runs.md, "Fork").
func runForkRefusals() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-run-fork-refusals",
		Title:    "A fork without its point, with an overlay it cannot have, or from beyond the log is refused",
		Document: "runs.md", Section: "Fork",
		Gates: []harness.Gate{harness.Advertises("replay"), endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "what a fork of a finished run cannot be",
				Witnesses: []requirements.ID{requirements.R0170RunForkRefusals},
				Run:       forksRefused,
			},
		},
	}
}

// runForkPrefix covers the history a fork shares with its source (runs.md,
// "Fork").
func runForkPrefix() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-run-fork-prefix",
		Title:    "A fork has its source's events below fromSeq and its own from there on",
		Document: "runs.md", Section: "Fork",
		Gates: []harness.Gate{harness.Advertises("replay"), harness.NeedsFixture(multiNode)},
		Tests: []harness.Test{
			{
				Name:      "a fork from the middle of a log",
				Witnesses: []requirements.ID{requirements.R0170ForkPrefixBoundary},
				Slow:      2 * time.Second,
				Run:       forkSharesPrefix,
			},
		},
	}
}

func fork(t *harness.T, runID string, body object) *harness.Response {
	return act(t, runID, "fork", body)
}

// forkModes are the modes of forkRun that the host serves.
func forkModes(t *harness.T) []string {
	facet, _ := t.Host().Discovery.Facet("replay", "modes")
	modes, _ := stringList(facet)
	return slices.DeleteFunc(modes, func(m string) bool { return m != "replay" && m != "branch" })
}

const noForkModes = "replay.modes lists neither replay nor branch"

// forkedFrom forks a run in a mode at a sequence and returns the child. The
// test ends when there is none.
func forkedFrom(t *harness.T, source, mode string, at int64) string {
	r := fork(t, source, object{"mode": mode, "fromSeq": at})
	id := r.Text("runId")
	if !r.Is(http.StatusCreated).OK || id == "" {
		t.Abort("no fork to observe: forkRun with mode %s and fromSeq %d gave %s", mode, at, answered(r))
	}
	return id
}

func forksRefused(t *harness.T) {
	modes := forkModes(t)
	if len(modes) == 0 {
		t.Inapplicable(requirements.R0170RunForkRefusals, noForkModes)
		return
	}
	id, l := settledEnding(t)
	last := highest(l.events)
	endRun(t, forkedFrom(t, id, modes[0], 0)) // what is refused below is not refused for being a fork
	if slices.Contains(modes, "branch") {
		t.Expect(requirements.R0170RunForkRefusals, refusesFork("branch without fromSeq", fork(t, id, object{"mode": "branch"}), "validation_error"))
		t.Expect(requirements.R0170RunForkRefusals, refusesFork("branch beyond the log",
			fork(t, id, object{"mode": "branch", "fromSeq": last + 1000}), "fork_point_invalid"))
	}
	if slices.Contains(modes, "replay") {
		t.Expect(requirements.R0170RunForkRefusals, replaysFromStart(t, id))
		for name, value := range map[string]any{"tags": []any{"x"}, "metadata": object{"x": 1}, "configurable": object{"version": 1}} {
			t.Expect(requirements.R0170RunForkRefusals, refusesFork("replay with an overlay of "+name,
				fork(t, id, object{"mode": "replay", "runOptionsOverlay": object{name: value}}), "validation_error"))
		}
		t.Expect(requirements.R0170RunForkRefusals, refusesFork("replay from just beyond the log",
			fork(t, id, object{"mode": "replay", "fromSeq": last + 1}), "fork_point_invalid"))
	}
}

// replaysFromStart checks a replay that names no point: it begins at 0, where
// its answer says from where.
func replaysFromStart(t *harness.T, source string) harness.Check {
	r := fork(t, source, object{"mode": "replay"})
	endRun(t, r.Text("runId"))
	at := r.Get("fromSeq")
	n, isNumber := wholeNumber(at)
	return harness.All(r.Is(http.StatusCreated),
		harness.That(at == nil || isNumber && n == 0, "fromSeq 0, or none, for a replay without fromSeq", "fromSeq %s", show(at))).At(r)
}

func refusesFork(what string, r *harness.Response, code string) harness.Check {
	check := r.Refuses(code)
	check.Expected += " for " + what
	return check
}

func forkSharesPrefix(t *harness.T) {
	modes := forkModes(t)
	if len(modes) == 0 {
		t.Inapplicable(requirements.R0170ForkPrefixBoundary, noForkModes)
		return
	}
	id, l := settledRun(t, object{"workflowId": multiNode})
	at := forkPoint(l)
	// Longer than the coarsest clock, so that a copied event and a new one differ.
	waitPast(t, id, highest(l.events), time.Now().Add(1100*time.Millisecond))
	for _, mode := range modes {
		child := forkedFrom(t, id, mode, at)
		defer endRun(t, child)
		forked := readLog(t, child, settle)
		if !forked.terminal || len(forked.events) == 0 {
			t.Abort("no finished fork to observe: %s with status %q and %d events", child, forked.status, len(forked.events))
		}
		t.Expect(requirements.R0170ForkPrefixBoundary, harness.That(child != id, "a fork with a runId of its own", "the source's, %s", id))
		t.Expect(requirements.R0170ForkPrefixBoundary, prefixShared(mode, l.events, forked.events, at).At(forked.last))
		t.Expect(requirements.R0170ForkPrefixBoundary, ownSince(mode, l.events, forked.events, at).At(forked.last))
	}
}

// forkPoint is the sequence of the second node.started, or of an event in the
// middle of a log that has no two.
func forkPoint(l log) int64 {
	starts := slices.DeleteFunc(slices.Clone(l.events), func(e object) bool { return e["type"] != "node.started" })
	event := l.events[len(l.events)/2]
	if len(starts) > 1 {
		event = starts[1]
	}
	seq, _ := sequenceOf(event)
	return seq
}

// below are the events with a sequence less than one.
func below(events []object, at int64) []object {
	return slices.DeleteFunc(slices.Clone(events), func(e object) bool { seq, ok := sequenceOf(e); return ok && seq >= at })
}

// prefixShared checks the events below the fork point: the source's by type,
// sequence and payload, what names the run apart.
func prefixShared(mode string, source, child []object, at int64) harness.Check {
	a, b := below(source, at), below(child, at)
	expected := fmt.Sprintf("the source's %d events below fromSeq %d in a %s fork", len(a), at, mode)
	if len(a) != len(b) {
		return harness.That(false, expected, "%d events", len(b))
	}
	for i := range a {
		seqA, _ := sequenceOf(a[i])
		seqB, _ := sequenceOf(b[i])
		if seqA != seqB || a[i]["type"] != b[i]["type"] {
			return harness.That(false, expected, "%s where the source has %s", label(b[i]), label(a[i]))
		}
		if c := same("payload of "+label(a[i]), withoutRun(a[i]["payload"]), withoutRun(b[i]["payload"])); !c.OK {
			return harness.That(false, expected, "%s where the source has %s", c.Observed, c.Expected)
		}
	}
	return harness.That(true, expected, "the same")
}

// withoutRun is a payload without the id of the run it belongs to.
func withoutRun(payload any) any {
	doc, ok := payload.(object)
	if !ok {
		return payload
	}
	doc = maps.Clone(doc)
	delete(doc, "runId")
	return doc
}

// ownSince checks the events from the fork point on: there are some, each node
// takes the course it took in the source, and no event of a branch is the
// source's, as an equal timestamp would show.
func ownSince(mode string, source, child []object, at int64) harness.Check {
	expected := fmt.Sprintf("the execution of a %s fork from fromSeq %d on, its own", mode, at)
	a, b := newer(source, at-1), newer(child, at-1)
	if len(b) == 0 {
		return harness.That(false, expected, "no event from there on")
	}
	if x, y := nodeCourse(a), nodeCourse(b); !slices.Equal(x, y) {
		return harness.That(false, expected, "%v where the source has %v", y, x)
	}
	stamps := bySequence(a)
	for _, e := range b {
		seq, _ := sequenceOf(e)
		if mode == "branch" && stamps[seq] != nil && stamps[seq]["timestamp"] == e["timestamp"] {
			return harness.That(false, expected, "%s with the timestamp of the source's event, %s", label(e), show(e["timestamp"]))
		}
	}
	return harness.That(true, expected, "%d events", len(b))
}

// nodeCourse is what happens to the nodes, in the order of the log.
func nodeCourse(events []object) []string {
	var out []string
	for _, e := range events {
		if e["type"] == "node.started" || endsNode(e) {
			out = append(out, text(e, "type")+" "+nodeOf(e))
		}
	}
	return out
}
