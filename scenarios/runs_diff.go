package scenarios

import (
	"net/http"
	"net/url"
	"reflect"
	"slices"

	"wopcert/harness"
	"wopcert/requirements"
)

// runDiffIdentical covers the diff of equal logs (runs.md, "Diff and
// ancestry").
func runDiffIdentical() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-run-diff-identical",
		Title:    "A finished run does not differ from itself",
		Document: "runs.md", Section: "Diff and ancestry",
		Gates: []harness.Gate{endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "the diff of a run with itself",
				Witnesses: []requirements.ID{requirements.R0170RunDiffIdentical},
				Run:       diffOfItself,
			},
		},
	}
}

// runDiff covers the diff of two runs (runs.md, "Diff and ancestry").
func runDiff() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-run-diff",
		Title:    "A diff follows from the two logs alone, for a caller who may read both",
		Document: "runs.md", Section: "Diff and ancestry",
		Tests: []harness.Test{
			{
				Name:      "runs of different workflows differ, and the same way twice",
				Witnesses: []requirements.ID{requirements.RunsDiffPure},
				Gates:     []harness.Gate{harness.NeedsFixture(noop), harness.NeedsFixture(multiNode)},
				Run:       diffIsPure,
			},
			{
				Name:      "facts of the single run make no difference",
				Witnesses: []requirements.ID{requirements.RunsDiffRunScopedExcluded},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       diffLeavesRunOut,
			},
			{
				Name:      "a diff with a run in flight is truncated",
				Witnesses: []requirements.ID{requirements.RunsDiffTruncated},
				Gates:     []harness.Gate{liveFixtures(), endingFixtures()},
				Run:       diffInFlight,
			},
			{
				Name:      "a diff with a run of another tenant",
				Witnesses: []requirements.ID{requirements.RunsDiffAuthorization},
				Gates:     []harness.Gate{harness.NeedsCredential(harness.OtherTenant), endingFixtures()},
				Run:       diffIsAuthorized,
			},
		},
	}
}

func diff(t *harness.T, a, b string) *harness.Response {
	return t.Do(harness.Request{Path: runPath(a, ":diff"), Query: url.Values{"against": {b}}})
}

const noDiffRun = "the host serves no diffRun, which is optional"

// diffable is the diff of a finished run with itself: served, absent with 404,
// or a refusal that leaves nothing to observe, at which the test ends.
func diffable(t *harness.T, runID string) (served bool) {
	r := diff(t, runID, runID)
	switch {
	case r.Is(http.StatusOK).OK:
		return true
	case r.Is(http.StatusNotFound).OK && get(t, runID).Is(http.StatusOK).OK:
		return false
	}
	t.Abort("no diff to observe: diffRun of a run with itself gave %s", answered(r))
	return false
}

func diffOfItself(t *harness.T) {
	id, _ := settledEnding(t)
	r := diff(t, id, id)
	if r.Is(http.StatusNotFound).OK && get(t, id).Is(http.StatusOK).OK {
		t.Inapplicable(requirements.R0170RunDiffIdentical, noDiffRun)
		return
	}
	if !t.Expect(requirements.R0170RunDiffIdentical, harness.All(r.Is(http.StatusOK), r.Valid("run-diff-response")).At(r)) {
		return
	}
	t.Expect(requirements.R0170RunDiffIdentical, undiverged(r))
}

// undiverged checks a diff without a difference.
func undiverged(r *harness.Response) harness.Check {
	body, _ := r.JSON().(object)
	at, has := body["divergedAtSeq"]
	diffs, isList := body["eventDiffs"].([]any)
	what := show(at)
	if has && at == nil {
		what = "null"
	}
	return harness.That(has && at == nil && isList && len(diffs) == 0, "divergedAtSeq null and no eventDiffs",
		"%s with divergedAtSeq %s and %d eventDiffs", answered(r), what, len(diffs)).At(r)
}

// diffsOf are the entries of eventDiffs.
func diffsOf(r *harness.Response) []object {
	list, _ := r.Get("eventDiffs").([]any)
	var out []object
	for _, e := range list {
		doc, _ := e.(object)
		out = append(out, doc)
	}
	return out
}

func diffIsPure(t *harness.T) {
	a, logA := settledRun(t, object{"workflowId": noop})
	b, logB := settledRun(t, object{"workflowId": multiNode})
	if !diffable(t, a) {
		t.Inapplicable(requirements.RunsDiffPure, noDiffRun)
		return
	}
	first, second := diff(t, a, b), diff(t, a, b)
	if !t.Expect(requirements.RunsDiffPure, harness.All(first.Is(http.StatusOK), first.Valid("run-diff-response")).At(first)) {
		return
	}
	t.Expect(requirements.RunsDiffPure, harness.All(second.Is(http.StatusOK), same("a second diff of the same runs", first.JSON(), second.JSON())).At(second))
	at, isSeq := wholeNumber(first.Get("divergedAtSeq"))
	if !t.Expect(requirements.RunsDiffPure, harness.That(isSeq, "divergedAtSeq, a number, for runs of different workflows",
		"divergedAtSeq %s", show(first.Get("divergedAtSeq"))).At(first)) {
		return
	}
	t.Expect(requirements.RunsDiffPure, divergesAt(logA.events, logB.events, at).At(first))
	var order []int64
	for _, d := range diffsOf(first) {
		seq, _ := wholeNumber(d["seq"])
		order = append(order, seq)
	}
	t.Expect(requirements.RunsDiffPure, harness.That(len(order) > 0 && order[0] == at && slices.IsSorted(order),
		"eventDiffs in order of sequence, the first at divergedAtSeq", "divergedAtSeq %d and eventDiffs at %v", at, order).At(first))
	if listed(t, identity) {
		divergeInOutputs(t)
	}
}

// divergeInOutputs compares runs of one workflow with the same events and other outputs.
func divergeInOutputs(t *harness.T) {
	a, logA := settledRun(t, object{"workflowId": identity, "inputs": object{"payload": object{"side": "left"}}})
	b, logB := settledRun(t, object{"workflowId": identity, "inputs": object{"payload": object{"side": "right"}}})
	others := bySequence(logB.events)
	i := slices.IndexFunc(logA.events, func(e object) bool {
		other := others[seqOf(e)]
		mine, theirs := harness.Get(e, "payload", "outputs"), harness.Get(other, "payload", "outputs")
		return e["type"] == other["type"] && mine != nil && theirs != nil && !reflect.DeepEqual(mine, theirs)
	})
	if i < 0 {
		return // the host records no outputs to differ in
	}
	most := seqOf(logA.events[i])
	r := diff(t, a, b)
	at, isSeq := wholeNumber(r.Get("divergedAtSeq"))
	t.Expect(requirements.RunsDiffPure, harness.That(r.Is(http.StatusOK).OK && isSeq && at <= most,
		"divergedAtSeq no later than "+decimal(most)+", where the outputs of the runs differ", "%s with divergedAtSeq %s", answered(r), show(r.Get("divergedAtSeq"))).At(r))
}

// divergesAt checks the sequence at which two logs are said to part: they
// differ there, and the types agree below it.
func divergesAt(a, b []object, at int64) harness.Check {
	const expected = "divergedAtSeq to be the first sequence at which the logs differ"
	inA, inB := bySequence(a), bySequence(b)
	for seq := range at {
		if (inA[seq] == nil) != (inB[seq] == nil) || inA[seq] != nil && inA[seq]["type"] != inB[seq]["type"] {
			return harness.That(false, expected, "%d, while the events at %d are %v and %v", at, seq, inA[seq]["type"], inB[seq]["type"])
		}
	}
	if x, y := inA[at], inB[at]; x == nil && y == nil || x != nil && y != nil && sameBut(x, y) {
		return harness.That(false, expected, "%d, where the events do not differ", at)
	}
	return harness.That(true, expected, "%d", at)
}

func diffLeavesRunOut(t *harness.T) {
	body := endingBody(t)
	a, logA := settledRun(t, body)
	b, logB := settledRun(t, body)
	if !diffable(t, a) {
		t.Inapplicable(requirements.RunsDiffRunScopedExcluded, noDiffRun)
		return
	}
	r := diff(t, a, b)
	_, isList := r.Get("eventDiffs").([]any)
	if !t.Expect(requirements.RunsDiffRunScopedExcluded, harness.That(r.Is(http.StatusOK).OK && isList, "200 with eventDiffs", "%s", answered(r)).At(r)) {
		return
	}
	t.Expect(requirements.RunsDiffRunScopedExcluded, onlyRealChanges(r, logA.events, logB.events))
	if sameLogs(logA.events, logB.events) {
		t.Expect(requirements.RunsDiffRunScopedExcluded, undiverged(r))
	}
}

// onlyRealChanges checks that the events of every changed entry differ in more
// than what belongs to the single run.
func onlyRealChanges(r *harness.Response, a, b []object) harness.Check {
	const expected = "no entry for a difference in eventId, runId, timestamp or other facts of the run alone"
	inA, inB := bySequence(a), bySequence(b)
	entries := diffsOf(r)
	for _, d := range entries {
		seq, _ := wholeNumber(d["seq"])
		if x, y := inA[seq], inB[seq]; d["op"] == "changed" && x != nil && y != nil && sameBut(x, y) {
			return harness.That(false, expected, "a changed entry for %s", label(x)).At(r)
		}
	}
	return harness.That(true, expected, "%d entries", len(entries)).At(r)
}

func diffInFlight(t *harness.T) {
	done, _ := settledEnding(t)
	again, _ := settledEnding(t)
	if !diffable(t, done) {
		t.Inapplicable(requirements.RunsDiffTruncated, noDiffRun)
		return
	}
	live := liveRun(t)
	defer endRun(t, live)
	for _, pair := range [][2]string{{live, done}, {done, live}} {
		r := diff(t, pair[0], pair[1])
		if status := get(t, live).Text("status"); endedStatus(status) {
			t.Abort("no run in flight to observe: its status is %q", status)
		}
		t.Expect(requirements.RunsDiffTruncated, harness.That(r.Is(http.StatusOK).OK && r.Get("truncated") == true,
			"200 with truncated true while one run is in flight", "%s with truncated %s", answered(r), show(r.Get("truncated"))).At(r))
	}
	r := diff(t, done, again)
	t.Expect(requirements.RunsDiffTruncated, harness.That(r.Is(http.StatusOK).OK && r.Get("truncated") != true,
		"200 without truncated true for two finished runs", "%s with truncated %s", answered(r), show(r.Get("truncated"))).At(r))
}

func diffIsAuthorized(t *harness.T) {
	own, _ := settledEnding(t)
	if !diffable(t, own) {
		t.Inapplicable(requirements.RunsDiffAuthorization, noDiffRun)
		return
	}
	foreign := startRunAs(t, harness.OtherTenant, endingBody(t))
	if tenantSegment(foreign) == tenantSegment(own) {
		t.Blocked(requirements.RunsDiffAuthorization,
			"the credential given for the other tenant belongs to the tenant %s as well; give one of another tenant", tenantSegment(own))
		return
	}
	absent := absentRun(foreign)
	for _, ask := range []struct {
		what            string
		held, again, no *harness.Response
	}{
		{"a diff against a run of another tenant", diff(t, own, foreign), diff(t, own, foreign), diff(t, own, absent)},
		{"a diff of a run of another tenant", diff(t, foreign, own), diff(t, foreign, own), diff(t, absent, own)},
	} {
		t.Expect(requirements.RunsDiffAuthorization, refusedWith(t.Corpus(), ask.what, ask.held, http.StatusForbidden))
		t.Expect(requirements.RunsDiffAuthorization, refusedWith(t.Corpus(), ask.what+" that does not exist", ask.no, http.StatusForbidden))
		t.Expect(requirements.RunsDiffAuthorization, sameRefusal(ask.what, ask.held, ask.again, foreign, ask.no, absent))
	}
}
