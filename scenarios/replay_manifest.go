package scenarios

import (
	"net/http"
	"slices"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
	"wopcert/seams"
)

// effectSeamManifest: replay.md, "The effect-seam manifest".
func effectSeamManifest() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-effect-seam-manifest",
		Title:    "A host that replays lists every path its effects take, each one guarded",
		Document: "replay.md", Section: "The effect-seam manifest",
		Gates: []harness.Gate{harness.Advertises("replay")},
		Tests: []harness.Test{
			{
				Name:      "the manifest",
				Witnesses: []requirements.ID{requirements.R0173EffectSeamManifest},
				Run:       manifestServed,
			},
			{
				Name:      "where discovery says that it is",
				Witnesses: []requirements.ID{requirements.R0173EffectSeamManifestFacet},
				Run: func(t *harness.T) {
					place, _ := t.Host().Discovery.Facet("replay", "effectSeamsManifest")
					t.Expect(requirements.R0173EffectSeamManifestFacet, harness.Equal("replay.effectSeamsManifest", any("/host/effect-seams"), place))
				},
			},
		},
	}
}

func manifestServed(t *harness.T) {
	r := t.Do(harness.Request{Path: "/host/effect-seams"})
	if !t.Expect(requirements.R0173EffectSeamManifest, harness.All(r.Is(http.StatusOK), r.Valid("effect-seam-manifest")).At(r)) {
		return
	}
	listed, _ := r.Get("seams").([]any)
	d := t.Host().Discovery
	if len(listed) > 0 || !d.Advertises("idempotency") || !slices.Contains(d.Fixtures(), sideEffect) {
		return
	}
	// An empty list is right for a host whose nodes have no effects.
	id, _ := settledRun(t, object{"workflowId": sideEffect, "inputs": object{"delayMs": 1}})
	effects := readLedger(t, id).effects
	t.Expect(requirements.R0173EffectSeamManifest, harness.That(len(effects) == 0, "a seam for the effects that runs have",
		"no seam, and a run with %d records of an effect", len(effects)).At(r))
}

// effectSeamNoRefire: replay.md, "Suppression".
func effectSeamNoRefire() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-effect-seam-no-refire",
		Title:    "A replay drives no effect seam again",
		Document: "replay.md", Section: "Suppression",
		Gates: []harness.Gate{harness.Advertises("replay"), servesMode("replay"), harness.NeedsSeams(),
			harness.Advertises("idempotency")}, // the ledger is the witness
		Tests: []harness.Test{{
			Name:      "one guarded seam of each kind, fired and replayed",
			Witnesses: []requirements.ID{requirements.R0173EffectSeamNoRefire},
			Slow:      2 * time.Second,
			Run:       seamsNotRefired,
		}},
	}
}

func seamsNotRefired(t *harness.T) {
	kinds, rows := manifestRows(t)
	if len(kinds) == 0 {
		t.Inapplicable(requirements.R0173EffectSeamNoRefire, "the manifest has no guarded seam")
		return
	}
	driven := 0
	for _, kind := range kinds {
		source, why := fireOne(t, rows[kind])
		if source == "" {
			t.Inapplicable(requirements.R0173EffectSeamNoRefire, "%s", why)
			continue
		}
		driven++
		seamNotRefired(t, kind, source)
	}
	if driven == 0 {
		t.Blocked(requirements.R0173EffectSeamNoRefire, "no seam of the manifest could be driven, of %d kinds", len(kinds))
	}
}

// fireOne fires the first seam of a kind that can be driven, and returns its
// run, or why none can: a fact about the host, which names the mechanism.
func fireOne(t *harness.T, rows []effectRow) (runID, why string) {
	for _, row := range rows {
		r := t.Seam(seams.FireEffect(row.seam, ""))
		if id := r.Text("runId"); r.Is(http.StatusCreated).OK && id != "" {
			return id, ""
		}
		if why == "" {
			mechanism := row.kind
			if row.note != "" {
				mechanism += " (" + cut(row.note) + ")"
			}
			why = "seam " + row.seam + " leaves by " + mechanism + " and cannot be driven: " + answered(r)
		}
	}
	return "", why
}

// seamNotRefired replays the run that fired a seam.
func seamNotRefired(t *harness.T, kind, source string) {
	// The host's own destination need not answer, and a host may be patient.
	if !awaitEnd(t, source, 2*settle) {
		endRun(t, source)
		t.Abort("the run that fires a seam of kind %s did not end within %s", kind, 2*settle)
	}
	before := readLedger(t, source)
	nodes := nodesWithEffects(before.effects)
	if len(nodes) == 0 {
		t.Blocked(requirements.R0173EffectSeamNoRefire, "the ledger of the run that fires a seam of kind %s has no record to tell a second effect by", kind)
		return
	}
	child, l := replayed(t, source, 0)
	if !slices.ContainsFunc(l.events, func(e object) bool { return slices.Contains(nodes, nodeOf(e)) }) {
		t.Abort("the replay of the run that fires a seam of kind %s never came to a node with an effect", kind)
	}
	t.Expect(requirements.R0173EffectSeamNoRefire, noNewAttempts("the replay of a seam of kind "+kind, before, readLedger(t, child)))
	t.Expect(requirements.R0173EffectSeamNoRefire, noNewAttempts("the source after the replay of a seam of kind "+kind, before, readLedger(t, source)))
}

// noNewAttempts checks that a later ledger has no record that an earlier one
// has not. A host may report what it took over beside what it did.
func noNewAttempts(what string, before, after ledger) harness.Check {
	known := map[string]bool{}
	key := func(e object) string { return show(e["effectId"]) + " " + show(e["attempt"]) + " " + show(e["at"]) }
	for _, e := range before.effects {
		known[key(e)] = true
	}
	for _, e := range after.effects {
		if !known[key(e)] {
			return harness.That(false, "no effect attempt beside those of the source", "%s has %s attempt %s, %s",
				what, show(e["effectId"]), show(e["attempt"]), show(e["state"])).At(after.of)
		}
	}
	return harness.That(true, "no effect attempt beside those of the source", "%d records", len(after.effects)).At(after.of)
}
