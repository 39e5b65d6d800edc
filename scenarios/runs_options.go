package scenarios

import (
	"fmt"
	"net/http"
	"strings"

	"wopcert/harness"
	"wopcert/requirements"
)

// runOptionsLimits covers the limits of the run options and how they surface
// (runs.md, "tags and metadata" and "run section").
func runOptionsLimits() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-run-options-limits",
		Title:    "Run options are held to their limits and come back as they were given",
		Document: "runs.md", Section: "tags and metadata",
		Gates: []harness.Gate{endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "options at their limits are accepted and beyond them refused",
				Witnesses: []requirements.ID{requirements.R0171RunOptionsLimits},
				Run:       optionsLimits,
			},
			{
				Name:      "tags and metadata surface unchanged",
				Witnesses: []requirements.ID{requirements.RunsRunOptionsSurfaced},
				Run:       optionsSurface,
			},
		},
	}
}

// Limits of tags (runs.md, "tags and metadata").
const (
	maxTags   = 100
	maxTagLen = 256
)

func manyTags(n int) []any {
	tags := make([]any, n)
	for i := range tags {
		tags[i] = fmt.Sprintf("tag-%d", i)
	}
	return tags
}

// timeoutInRange is a minute, or less where the host allows no run that long.
func timeoutInRange(t *harness.T) int64 {
	if limit, ok := t.Host().Discovery.Facet("limits", "maxRunDurationMs"); ok {
		if most, ok := integer(limit); ok && most > 0 {
			return min(most, 60_000)
		}
	}
	return 60_000
}

func optionsLimits(t *harness.T) {
	body := endingBodies(t)[0]
	for _, accepted := range []object{
		with(body, "tags", manyTags(maxTags)),
		with(body, "tags", []any{strings.Repeat("x", maxTagLen), strings.Repeat("é", maxTagLen)}),
		with(body, "tags", []any{"two words", "UPPER", "a/b?c=d#e", "<b>&\"'", "日本語", "🙂"}),
		with(body, "configurable", object{"version": 1, "run": object{"runTimeoutMs": timeoutInRange(t)}}),
	} {
		t.Expect(requirements.R0171RunOptionsLimits, create(t, accepted).Is(http.StatusCreated))
	}
	for _, refused := range []object{
		with(body, "tags", manyTags(maxTags+1)),
		with(body, "tags", []any{strings.Repeat("x", maxTagLen+1)}),
		with(body, "configurable", object{"version": 1, "run": object{"runTimeoutMs": 0}}),
		with(body, "configurable", object{"version": 1, "run": object{"runTimeoutMs": -1}}),
	} {
		r := create(t, refused)
		endRun(t, r.Text("runId"))
		t.Expect(requirements.R0171RunOptionsLimits, r.Refuses("validation_error"))
	}
}

// shownElsewhere are the snapshots of a run on the newest pages of the run list
// and in the values stream, as far as the host has those and the run is there.
func shownElsewhere(t *harness.T, runID string) []seen {
	var out []seen
	if t.Host().Discovery.Advertises("runList") {
		for _, run := range morePages(t, harness.Primary, widePage(t), mostPages(t)/10).runs {
			if sameOpaque(run.id(), runID) {
				out = append(out, seen{where: "listRuns", doc: run.doc, of: run.page})
			}
		}
	}
	values := readMode(t, runID, "values")
	for _, f := range values.frames {
		if doc, err := frameEvent(f); err == nil && f.Event == "state.snapshot" {
			out = append(out, seen{where: "a state.snapshot", doc: doc, of: values.open})
		}
	}
	return out
}

func optionsSurface(t *harness.T) {
	body := endingBodies(t)[0]
	tags := []any{"b", "a", "Two Words", "日本語", "b"}
	metadata := object{
		"ticket": "OPS-1", "count": 3, "ratio": 0.5, "flag": true, "nothing": nil,
		"nested": object{"list": []any{1, "two", object{"three": []any{}}}}, "clé": "é",
	}
	r := create(t, with(with(body, "tags", tags), "metadata", metadata))
	if t.Expect(requirements.RunsRunOptionsSurfaced, r.Is(http.StatusCreated)) {
		snapshot := get(t, r.Text("runId"))
		t.Expect(requirements.RunsRunOptionsSurfaced, harness.All(
			snapshot.Is(http.StatusOK),
			same("tags", tags, snapshot.Get("tags")),
			same("metadata", metadata, snapshot.Get("metadata")),
		).At(snapshot))
		for _, s := range shownElsewhere(t, r.Text("runId")) {
			check := harness.All(same("tags", tags, s.doc["tags"]), same("metadata", metadata, s.doc["metadata"])).At(s.of)
			check.Observed = s.where + ": " + check.Observed
			t.Expect(requirements.RunsRunOptionsSurfaced, check)
		}
	}
	plain := create(t, body)
	t.Expect(requirements.RunsRunOptionsSurfaced, plain.Is(http.StatusCreated))
}
