package scenarios

import (
	"net/http"
	"slices"
	"strings"

	"wopcert/harness"
	"wopcert/requirements"
)

// replayRefusals: replay.md, "The surface".
func replayRefusals() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-replay-refusals",
		Title:    "A fork from nowhere, of nothing, or from beyond the end of its source is refused",
		Document: "replay.md", Section: "The surface",
		Gates: []harness.Gate{harness.Advertises("replay")},
		Tests: []harness.Test{
			{
				Name:      "a fromSeq that is no sequence",
				Witnesses: []requirements.ID{requirements.ReplayFromSeqOutOfRange},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       outOfRange,
			},
			{
				Name:      "a source that is not there",
				Witnesses: []requirements.ID{requirements.ReplaySourceNotVisible},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       noSource,
			},
			{
				Name:      "the compensation that follows the end of a run",
				Witnesses: []requirements.ID{requirements.ReplayForkBeyondTerminal},
				Gates:     compensates(unwinds),
				Run:       beyondTerminal,
			},
		},
	}
}

// forkable is a finished run that can be forked from its first event, so that a
// refusal of another fork of it is not one of every fork. The test ends when
// there is none.
func forkable(t *harness.T) (string, log) {
	modes := forkModes(t)
	if len(modes) == 0 {
		t.Abort(noForkModes)
	}
	id, l := settledEnding(t)
	endRun(t, forkedFrom(t, id, modes[0], 0))
	return id, l
}

func outOfRange(t *harness.T) {
	id, _ := forkable(t)
	for _, mode := range forkModes(t) {
		r := fork(t, id, object{"mode": mode, "fromSeq": -1})
		endRun(t, r.Text("runId"))
		t.Expect(requirements.ReplayFromSeqOutOfRange, refusesFork(mode+" from -1", r, "validation_error"))
	}
}

func noSource(t *harness.T) {
	id, _ := forkable(t)
	for _, mode := range forkModes(t) {
		r := fork(t, absentRun(id), object{"mode": mode, "fromSeq": 0})
		t.Expect(requirements.ReplaySourceNotVisible, isMissing(t, mode+" of a run that is not there", r))
	}
}

// isMissing checks a 404 under any code that is registered for one: the text
// names the status alone.
func isMissing(t *harness.T, what string, r *harness.Response) harness.Check {
	row, registered := t.Corpus().Error(r.Text("error"))
	check := harness.All(r.Is(http.StatusNotFound), r.Valid("error-envelope"),
		harness.That(registered && row.HTTPStatus == http.StatusNotFound, "a code that is registered for 404", "%s", answered(r)))
	check.Observed = what + ": " + check.Observed
	return check.At(r)
}

func beyondTerminal(t *harness.T) {
	u := unwound(t, unwinds, nil)
	end := slices.IndexFunc(u.log.events, func(e object) bool { return isTerminalType(e["type"]) })
	if end < 0 || end+1 >= len(u.log.events) {
		t.Inapplicable(requirements.ReplayForkBeyondTerminal, "no event of the compensation follows the terminal event of its run")
		return
	}
	at, beyond := seqOf(u.log.events[end]), seqOf(u.log.events[end+1])
	for _, mode := range forkModes(t) {
		endRun(t, forkedFrom(t, u.id, mode, at)) // the terminal event itself is no part of the prefix
		r := fork(t, u.id, object{"mode": mode, "fromSeq": beyond})
		endRun(t, r.Text("runId"))
		t.Expect(requirements.ReplayForkBeyondTerminal, refusesFork(mode+" from just beyond the terminal event", r, "fork_point_invalid"))
	}
}

// replayBranch: replay.md, "Modes".
func replayBranch() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-replay-branch",
		Title:    "A branch runs under the options of its overlay",
		Document: "replay.md", Section: "Modes",
		Gates: []harness.Gate{harness.Advertises("replay"), servesMode("branch"), endingFixtures()},
		Tests: []harness.Test{{
			Name:      "the tags of an overlay",
			Witnesses: []requirements.ID{requirements.ReplayBranchOverlay},
			Run:       branchOverlaid,
		}},
	}
}

func branchOverlaid(t *harness.T) {
	own, other := []any{strings.ToLower(newTag())}, []any{strings.ToLower(newTag())}
	source, _ := settledRun(t, with(endingBodies(t)[0], "tags", own))
	if s := get(t, source); !same("", own, s.Get("tags")).OK {
		t.Abort("the source does not show the tags it was created with, so that those of a branch show nothing: %s", answered(s))
	}
	endRun(t, forkedFrom(t, source, "branch", 0)) // a refusal below is one of the overlay
	r := fork(t, source, object{"mode": "branch", "fromSeq": 0, "runOptionsOverlay": object{"tags": other}})
	child := r.Text("runId")
	defer endRun(t, child)
	if !t.Expect(requirements.ReplayBranchOverlay, admitted("a branch with an overlay", r)) {
		return
	}
	s := get(t, child)
	t.Expect(requirements.ReplayBranchOverlay, harness.All(names(s, child), same("tags of the branch", other, s.Get("tags"))).At(s))
	s = get(t, source)
	t.Expect(requirements.ReplayBranchOverlay, harness.All(names(s, source), same("tags of the source", own, s.Get("tags"))).At(s))
}
