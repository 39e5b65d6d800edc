package scenarios

import (
	"maps"
	"net/http"

	"wopcert/harness"
	"wopcert/requirements"
)

// configurableClosed covers the run configuration of createRun (runs.md, "Run
// options" and "Validation and persistence").
func configurableClosed() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-configurable-closed",
		Title:    "The configuration of a run is closed, versioned and kept as it was given",
		Document: "runs.md", Section: "Run options",
		Gates: []harness.Gate{endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "a valid configurable surfaces unchanged and its version is checked",
				Witnesses: []requirements.ID{requirements.R0171ConfigurableClosedSchema},
				Run:       configurableVersion,
			},
			{
				Name:      "an unknown key is refused at the root and in a section",
				Witnesses: []requirements.ID{requirements.R0171ConfigurableClosedUnknownKey},
				Run:       configurableUnknown,
			},
			{
				Name:      "a dotted key is refused",
				Witnesses: []requirements.ID{requirements.R0171ConfigurableClosedDottedKey},
				Run:       configurableDotted,
			},
		},
	}
}

// validConfigurable has members whose value no limit of a host clamps and that
// need no capability.
func validConfigurable() object {
	return object{
		"version": 1,
		"run":     object{"escalationThreshold": 0.5},
		"ai":      object{"temperature": 0.25, "maxRefusals": 2, "reasoningVerbosity": "summary"},
	}
}

// configured creates a run that ends by itself with a configurable.
func configured(t *harness.T, configurable any) *harness.Response {
	return create(t, with(endingBodies(t)[0], "configurable", configurable))
}

// with is a copy of a body with one more member, or another value of one it has.
func with(body object, name string, value any) object {
	out := maps.Clone(body)
	out[name] = value
	return out
}

// needConfigurable ends the test where a valid configurable is not accepted:
// a refusal of an invalid one would then say nothing.
func needConfigurable(t *harness.T) {
	if r := configured(t, validConfigurable()); !r.Is(http.StatusCreated).OK {
		t.Abort("a valid configurable is not accepted, so a refusal shows nothing: createRun gave %s", r.Is(http.StatusCreated).Observed)
	}
}

// refusesConfigurable checks that a configurable is refused and no run made.
func refusesConfigurable(t *harness.T, configurable any) harness.Check {
	check := refusedCreate(t, with(endingBody(t), "configurable", configurable), "validation_error")
	check.Observed += " for the configurable " + show(configurable)
	return check
}

func configurableVersion(t *harness.T) {
	for _, configurable := range []object{
		{"version": 1}, validConfigurable(),
		{"version": 1, "ai": object{"temperature": 0, "reasoningVerbosity": "none"}},
		{"version": 1, "ai": object{"temperature": 2, "reasoningVerbosity": "full"}},
	} {
		r := configured(t, configurable)
		if !t.Expect(requirements.R0171ConfigurableClosedSchema, r.Is(http.StatusCreated)) {
			continue
		}
		snapshot := get(t, r.Text("runId"))
		t.Expect(requirements.R0171ConfigurableClosedSchema, harness.All(
			snapshot.Is(http.StatusOK),
			same("configurable", configurable, snapshot.Get("configurable")),
		).At(snapshot))
	}
	for _, configurable := range []any{
		object{"run": object{"escalationThreshold": 0.5}},
		object{"version": 2},
		object{"version": "1"},
		object{"version": 1, "ai": "fast"},
		object{"version": 1, "ai": object{"temperature": 2.5}},
		object{"version": 1, "ai": object{"temperature": -0.5}},
		object{"version": 1, "ai": object{"reasoningVerbosity": "wopcert"}},
		[]any{},
	} {
		t.Expect(requirements.R0171ConfigurableClosedSchema, refusesConfigurable(t, configurable))
	}
}

func configurableUnknown(t *harness.T) {
	needConfigurable(t)
	for _, configurable := range []object{
		{"version": 1, "wopcertUnknown": true},
		{"version": 1, "temperature": 0.5},
		{"version": 1, "run": object{"escalationThreshold": 0.5, "wopcertUnknown": 1}},
		{"version": 1, "ai": object{"topP": 0.5}},
		{"version": 1, "distillation": object{"wopcertUnknown": 1}},
		{"version": 1, "budget": object{"wopcertUnknown": 1}},
	} {
		t.Expect(requirements.R0171ConfigurableClosedUnknownKey, refusesConfigurable(t, configurable))
	}
}

func configurableDotted(t *harness.T) {
	needConfigurable(t)
	for _, configurable := range []object{
		{"version": 1, "ai.temperature": 0.25},
		{"version": 1, "run.escalationThreshold": 0.5},
		{"version": 1, "ai": object{"ai.temperature": 0.25}},
	} {
		t.Expect(requirements.R0171ConfigurableClosedDottedKey, refusesConfigurable(t, configurable))
	}
}
