package scenarios

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"wopcert/harness"
	"wopcert/requirements"
)

// streamMixedModes covers combinations of modes (events.md, "Stream modes").
func streamMixedModes() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-stream-mixed-modes",
		Title:    "Combined modes carry what each of them admits, in log order",
		Document: "events.md", Section: "Stream modes",
		Gates: []harness.Gate{endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "a combined stream is the union of its modes",
				Witnesses: []requirements.ID{requirements.EventsMixedOrder, requirements.EventsMixedFrameNames},
				Run:       mixedModes,
			},
		},
	}
}

// mixedRuns are finished runs to read in combined modes: one of several nodes,
// and one with a streaming node where the host can be made to hold it.
func mixedRuns(t *harness.T) []string {
	id, _ := settledRun(t, endingFixtureOf(t))
	runs := []string{id}
	if listed(t, streamText) && mocksText(t.Host().Discovery) {
		if r := create(t, spokenText()); r.Is(http.StatusCreated).OK && r.Text("runId") != "" && awaitEnd(t, r.Text("runId"), settle) {
			runs = append(runs, r.Text("runId"))
		}
	}
	return runs
}

func mixedModes(t *harness.T) {
	tried := false
	for _, id := range mixedRuns(t) {
		alone := map[string][]int64{}
		for _, mode := range []string{"updates", "messages", "debug"} {
			if s := readMode(t, id, mode); s.served() {
				alone[mode] = frameSequences(s.frames)
			}
		}
		for _, combination := range [][]string{{"updates", "debug"}, {"updates", "messages"}, {"messages", "debug"}, {"debug", "messages", "updates"}} {
			parts := map[string][]int64{}
			for _, mode := range combination {
				if ids, served := alone[mode]; served {
					parts[mode] = ids
				}
			}
			if len(parts) < len(combination) {
				continue // a mode that is not served cannot be combined
			}
			tried = true
			s := readMode(t, id, strings.Join(combination, ","))
			t.Expect(requirements.EventsMixedOrder, union(s, parts))
			if s.served() && len(s.frames) > 0 {
				t.Should(requirements.EventsMixedFrameNames, admittingNames(s, parts))
			}
		}
	}
	if !tried {
		t.Inapplicable(requirements.EventsMixedOrder, "the host serves no two modes that can be combined")
		t.Inapplicable(requirements.EventsMixedFrameNames, "the host serves no two modes that can be combined")
	}
}

// union checks that a combined stream carries the sequences of its modes, each
// at least once and none besides, and never goes back in the log.
func union(s streamed, parts map[string][]int64) harness.Check {
	if open := s.open.Is(http.StatusOK); !open.OK {
		return open
	}
	all := slices.Concat(slices.Collect(maps.Values(parts))...)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) == 0 {
		return harness.That(false, "events of the run in the modes alone", "none").At(s.open)
	}
	got := frameSequences(s.frames)
	once := slices.Compact(slices.Clone(got))
	return harness.That(slices.IsSorted(got) && slices.Equal(once, all),
		fmt.Sprintf("the sequences %v of %s, in order", all, strings.Join(slices.Sorted(maps.Keys(parts)), " and ")),
		"%v", got).At(s.open)
}

// admittingNames checks that each frame names a mode that admits its event.
func admittingNames(s streamed, parts map[string][]int64) harness.Check {
	expected := "event naming the mode that admitted the frame, one of " + strings.Join(slices.Sorted(maps.Keys(parts)), ", ")
	for _, f := range s.frames {
		if n := frameSequence(f); !slices.Contains(parts[f.Event], n) {
			return harness.That(false, expected, "event %q in the frame of sequence %d", f.Event, n).At(s.open)
		}
	}
	return harness.That(true, expected, "%d frames so named", len(s.frames)).At(s.open)
}
