package scenarios

import (
	"net/http"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// configurableConstant: runs.md, "Validation and persistence".
func configurableConstant() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-configurable-constant",
		Title:    "The configurable of a run is the one it was created with, to the end",
		Document: "runs.md",
		Section:  "Validation and persistence",
		Gates:    []harness.Gate{liveFixtures()},
		Tests: []harness.Test{{
			Name:      "a run that is paused, resumed and cancelled",
			Witnesses: []requirements.ID{requirements.RunsConfigurableConstant},
			Run:       configurableThroughout,
		}},
	}
}

// configurableThroughout reads a run's configurable in every state it can be
// brought to. That it surfaces at all is a requirement of its own.
func configurableThroughout(t *harness.T) {
	given := object{"version": 1, "run": object{"recursionLimit": nodesInRange(t), "runTimeoutMs": timeoutInRange(t)}}
	id := startRun(t, with(liveBody(t), "configurable", given))
	defer endRun(t, id)
	values := streamSoon(t, streamRequest(id, "values", ""))
	first := get(t, id)
	shown, ok := first.Get("configurable").(object)
	if !ok {
		t.Abort("the configurable of a new run is not on its snapshot, so that it cannot be seen to stay: %s", answered(first))
	}
	if !t.Expect(requirements.RunsConfigurableConstant, keepsGiven(shown, given).At(first)) {
		return
	}
	read := func(state string) {
		r := get(t, id)
		check := harness.All(r.Is(http.StatusOK), same("configurable", shown, r.Get("configurable")))
		check.Observed = state + ": " + check.Observed
		t.Expect(requirements.RunsConfigurableConstant, check.At(r))
	}
	awaitLogged(t, id, ofType("node.started"), settle)
	read("running")
	pauseNow(t, id)
	read("paused")
	resumeNow(t, id)
	read("resumed")
	cancel(t, id, object{})
	if !awaitEnd(t, id, settle) {
		t.Abort("the run did not end within %s of its cancel", settle)
	}
	read("cancelled")
	streamedConfigurable(t, <-values, shown)
}

// nodesInRange is fifty node executions, or fewer where the host allows no run
// that many and clamps what is more.
func nodesInRange(t *harness.T) int64 {
	if limit, ok := t.Host().Discovery.Facet("limits", "maxNodeExecutions"); ok {
		if most, ok := integer(limit); ok && most > 0 {
			return min(most, 50)
		}
	}
	return 50
}

// keepsGiven checks that a configurable has what was given, as it was given. What a
// host adds of its own is for the row that asks for an unchanged one.
func keepsGiven(shown, given object) harness.Check {
	for _, name := range []string{"recursionLimit", "runTimeoutMs"} {
		check := same("configurable.run."+name+" of the new run", harness.Get(given, "run", name), harness.Get(shown, "run", name))
		if !check.OK {
			return check
		}
	}
	return same("configurable.version of the new run", given["version"], shown["version"])
}

// streamedConfigurable checks every snapshot of a values stream, where the
// host serves that mode.
func streamedConfigurable(t *harness.T, s *harness.Stream, given object) {
	defer s.Close()
	if !s.Response.Is(http.StatusOK).OK {
		return
	}
	for _, f := range s.Collect(nil, 2*time.Second) {
		snapshot, err := frameEvent(f)
		if f.Event != "state.snapshot" || err != nil {
			return // what such a stream holds is a requirement of its own
		}
		check := same("configurable", given, snapshot["configurable"])
		check.Observed = "a snapshot of the values stream: " + check.Observed
		t.Expect(requirements.RunsConfigurableConstant, check.At(s.Response))
	}
}
