package proof

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/harness"
	"wopcert/reference-host/faults"
	"wopcert/reference-host/tamper"
	"wopcert/reference-host/variants"
	"wopcert/requirements"
	"wopcert/scenarios"
)

// TestEveryFaultIsKilled is what the trust in a green result rests on: every check the
// suite makes can fail, for its own reason, and none fails with another.
func TestEveryFaultIsKilled(t *testing.T) {
	chosen := sample(faults.All(), 120)
	report, err := Faults(t.Context(), Options{Faults: chosen, Progress: func(s Step) {
		if !s.Proved || s.Elapsed > 2*time.Minute {
			t.Logf("[%d/%d] %s took %s, proved: %v", s.Done, s.Total, s.ID, s.Elapsed.Round(time.Second), s.Proved)
		}
	}})
	require.NoError(t, err)
	for _, s := range report.Survived {
		t.Errorf("%s survived\n  requirement %s\n  expected %s\n  observed %s", s.Fault, s.Requirement, s.Expected, s.Observed)
	}
	for _, c := range report.Collateral {
		t.Errorf("%s turned more than it breaks\n  requirement %s\n  from %s to %s\n  %s", c.Fault, c.Requirement, c.Before, c.After, c.Detail)
	}
	assert.Equal(t, len(chosen), report.Total)
	assert.Equal(t, report.Total, report.Killed)
}

// TestEveryVariantHolds is the other half: no check fails a host for using a
// freedom it has.
func TestEveryVariantHolds(t *testing.T) {
	chosen := sample(variants.All(), 60)
	report, err := Variants(t.Context(), Options{Variants: chosen})
	require.NoError(t, err)
	for _, b := range report.Broken {
		t.Errorf("%s changed what it must not\n  requirement %s\n  from %s to %s\n  %s", b.Variant, b.Requirement, b.Before, b.After, b.Detail)
	}
	assert.Equal(t, len(chosen), report.Total)
	assert.Equal(t, report.Total, report.Held)
}

// sample is everything, or under the race detector an even part of it.
func sample[V any](all []V, part int) []V {
	if !raceDetector {
		return all
	}
	var out []V
	for i := 0; i < len(all); i += max(1, len(all)/part) {
		out = append(out, all[i])
	}
	return out
}

// TestEveryWitnessedRequirementHasAFault closes the chain from a sentence of
// the specification to a way to break it.
func TestEveryWitnessedRequirementHasAFault(t *testing.T) {
	t.Parallel()
	broken := faults.ByRequirement()
	for _, s := range scenarios.All() {
		for _, id := range s.Requirements() {
			assert.NotEmpty(t, broken[id], "no fault breaks %s", id)
		}
	}
}

// few is the part of the suite that the tests of the prover itself need.
func few(ids ...string) []harness.Scenario {
	var out []harness.Scenario
	for _, s := range scenarios.All() {
		for _, id := range ids {
			if s.ID == id {
				out = append(out, s)
			}
		}
	}
	return out
}

func rootScenario() []harness.Scenario { return few("v2-capabilities-root-closed") }

func set(name string, value any) func(http.Handler) http.Handler {
	return tamper.JSON(tamper.Discovery, 200, func(_ *http.Request, doc map[string]any) { doc[name] = value })
}

func TestASurvivorIsReported(t *testing.T) {
	t.Parallel()
	report, err := Faults(t.Context(), Options{Scenarios: rootScenario(), Faults: []faults.Fault{{
		ID: "nothing", Breaks: []requirements.ID{requirements.R0169CapabilitiesRootClosedDottedKey}, Reason: "host.x",
	}}})
	require.NoError(t, err)
	assert.False(t, report.OK())
	assert.Equal(t, &FaultReport{
		Total: 1, Collateral: []Collateral{},
		Survived: []Survivor{{
			Fault: "nothing", Requirement: requirements.R0169CapabilitiesRootClosedDottedKey,
			Expected: "executed-fail with \u201chost.x\u201d", Observed: "executed-pass",
		}},
	}, report)
}

func TestAWrongReasonDoesNotKill(t *testing.T) {
	t.Parallel()
	report, err := Faults(t.Context(), Options{Scenarios: rootScenario(), Faults: []faults.Fault{{
		ID: "dotted", Breaks: []requirements.ID{requirements.R0169CapabilitiesRootClosedDottedKey},
		Reason: "something else", Wrap: set("host.x", true),
	}}})
	require.NoError(t, err)
	require.Len(t, report.Survived, 1)
	assert.Zero(t, report.Killed)
	assert.Empty(t, report.Collateral)
	assert.Contains(t, report.Survived[0].Observed, "executed-fail: ")
	assert.Contains(t, report.Survived[0].Observed, "host.x")
}

func TestAlternativeReasons(t *testing.T) {
	t.Parallel()
	report, err := Faults(t.Context(), Options{Scenarios: rootScenario(), Faults: []faults.Fault{{
		ID: "both", Reason: "something else|host.x|features",
		Breaks: []requirements.ID{requirements.R0169CapabilitiesRootClosedDottedKey, requirements.R0169CapabilitiesRootClosedUnknownRootKey},
		Wrap:   tamper.Chain(set("host.x", true), set("features", 1)),
	}}})
	require.NoError(t, err)
	assert.True(t, report.OK(), "%+v", report)
}

func TestCollateralIsReported(t *testing.T) {
	t.Parallel()
	report, err := Faults(t.Context(), Options{Scenarios: rootScenario(), Faults: []faults.Fault{{
		ID: "two-things", Breaks: []requirements.ID{requirements.R0169CapabilitiesRootClosedDottedKey},
		Reason: "host.x", Wrap: tamper.Chain(set("host.x", true), set("profiles", []any{})),
	}}})
	require.NoError(t, err)
	assert.False(t, report.OK())
	assert.Equal(t, 1, report.Killed)
	assert.Empty(t, report.Survived)
	require.Len(t, report.Collateral, 1)
	c := report.Collateral[0]
	assert.Equal(t, requirements.R0169CapabilitiesRootClosedProfiles, c.Requirement)
	assert.Equal(t, bundle.ExecutedPass, c.Before)
	assert.Equal(t, bundle.ExecutedFail, c.After)
	assert.Contains(t, c.Detail, "profiles")
}

func TestAFaultMustBlockWhatItSaysItBlocks(t *testing.T) {
	t.Parallel()
	fault, ok := faults.Get("discovery-without-etag")
	require.True(t, ok)
	suite := few("v2-discovery-caching")
	report, err := Faults(t.Context(), Options{Scenarios: suite, Faults: []faults.Fault{fault}})
	require.NoError(t, err)
	assert.True(t, report.OK(), "%+v", report)

	fault.Blocks = nil
	report, err = Faults(t.Context(), Options{Scenarios: suite, Faults: []faults.Fault{fault}})
	require.NoError(t, err)
	require.Len(t, report.Collateral, 1)
	assert.Equal(t, bundle.Blocked, report.Collateral[0].After)

	fault.Wrap, fault.Blocks = nil, []requirements.ID{requirements.CapabilitiesDiscoveryIfNoneMatch}
	report, err = Faults(t.Context(), Options{Scenarios: suite, Faults: []faults.Fault{fault}})
	require.NoError(t, err)
	require.Len(t, report.Survived, 2)
	assert.Equal(t, "blocked", report.Survived[1].Expected)
	assert.Equal(t, "executed-pass", report.Survived[1].Observed)
}

func TestAHostThatCannotBeMeasuredSurvives(t *testing.T) {
	t.Parallel()
	wrap := set("protocolVersions", []any{"1.0"})
	report, err := Faults(t.Context(), Options{Scenarios: rootScenario(), Faults: []faults.Fault{{
		ID: "v1-only", Breaks: []requirements.ID{requirements.R0169CapabilitiesRootClosedValid}, Reason: "x", Wrap: wrap,
	}}})
	require.NoError(t, err)
	require.Len(t, report.Survived, 1)
	assert.Contains(t, report.Survived[0].Observed, "the host could not be measured: the host speaks no 2.x version")

	held, err := Variants(t.Context(), Options{Scenarios: rootScenario(), Variants: []variants.Variant{{ID: "v1-only", Wrap: wrap}}})
	require.NoError(t, err)
	require.Len(t, held.Broken, 1)
	assert.Contains(t, held.Broken[0].Detail, "could not be measured")
}

func TestARecommendationTurnsPartial(t *testing.T) {
	t.Parallel()
	fault, ok := faults.Get("malformed-cursor-ignored")
	require.True(t, ok)
	report, err := Faults(t.Context(), Options{Scenarios: few("v2-sse-last-event-id-cursor"), Faults: []faults.Fault{fault}})
	require.NoError(t, err)
	assert.True(t, report.OK(), "%+v", report)

	fault.Wrap = nil
	report, err = Faults(t.Context(), Options{Scenarios: few("v2-sse-last-event-id-cursor"), Faults: []faults.Fault{fault}})
	require.NoError(t, err)
	require.Len(t, report.Survived, 1)
	assert.True(t, strings.HasPrefix(report.Survived[0].Expected, harness.PartialWitness))
}

func TestABrokenVariantIsReported(t *testing.T) {
	t.Parallel()
	suite := few("v2-capabilities-root-closed", "v2-capability-record-shape")
	none := tamper.JSON(tamper.Discovery, 200, func(_ *http.Request, doc map[string]any) {
		for name := range doc {
			if name != "protocolVersions" && name != "preferredVersion" {
				delete(doc, name)
			}
		}
	})
	relaxed := []requirements.ID{
		requirements.R0169CapabilityRecordShapeRequiredFields, requirements.R0169CapabilityRecordShapeUntilIffNotStable,
		requirements.R0169CapabilityRecordShapeUntilNotPast, requirements.R0169CapabilitiesRootClosedProfiles,
	}
	report, err := Variants(t.Context(), Options{Scenarios: suite, Variants: []variants.Variant{
		{ID: "nothing"},
		{ID: "relaxed", Wrap: none, Relaxes: relaxed},
		{ID: "not-relaxed", Wrap: none, Relaxes: relaxed[1:]},
		{ID: "fails-what-it-relaxes", Wrap: set("profiles", []any{}), Relaxes: relaxed},
	}})
	require.NoError(t, err)
	assert.False(t, report.OK())
	assert.Equal(t, 4, report.Total)
	assert.Equal(t, 2, report.Held)
	require.Len(t, report.Broken, 2)
	assert.Equal(t, Broken{
		Variant: "not-relaxed", Requirement: relaxed[0], Before: bundle.ExecutedPass, After: bundle.Inapplicable,
		Detail: report.Broken[0].Detail,
	}, report.Broken[0])
	assert.Equal(t, "fails-what-it-relaxes", report.Broken[1].Variant)
	assert.Equal(t, bundle.ExecutedFail, report.Broken[1].After)
}

func TestReportsAreOrderedAndCounted(t *testing.T) {
	t.Parallel()
	var list []faults.Fault
	for i := range 12 {
		list = append(list, faults.Fault{
			ID: fmt.Sprintf("nothing-%d", i), Breaks: []requirements.ID{requirements.R0169CapabilitiesRootClosedDottedKey},
			Reason: "x", Slow: i%3 == 0,
		})
	}
	var mu sync.Mutex
	var steps []Step
	report, err := Faults(t.Context(), Options{Scenarios: rootScenario(), Faults: list, Parallel: 5, Progress: func(s Step) {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, s)
	}})
	require.NoError(t, err)
	require.Len(t, report.Survived, len(list))
	for i, s := range report.Survived {
		assert.Equal(t, list[i].ID, s.Fault)
	}
	require.Len(t, steps, len(list)+1, "the unchanged host and each fault")
	assert.Empty(t, steps[0].ID)
	for i, s := range steps {
		assert.Equal(t, i, s.Done)
		assert.Equal(t, i == 0, s.Proved)
	}
	assert.Equal(t, len(list), steps[len(list)].Total)
}

func TestACancelledProofSaysSo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	done := 0
	report, err := Faults(ctx, Options{Scenarios: rootScenario(), Faults: faults.All(), Parallel: 1, Progress: func(s Step) {
		if done = s.Done; s.Done == 2 {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	assert.Less(t, done, 5)
	require.NotNil(t, report)
	assert.LessOrEqual(t, report.Killed, done)
	_, err = Variants(ctx, Options{Scenarios: rootScenario()})
	require.ErrorIs(t, err, context.Canceled)
}

func TestReportsEncodeWithoutNulls(t *testing.T) {
	t.Parallel()
	report, err := Faults(t.Context(), Options{Scenarios: rootScenario(), Faults: []faults.Fault{}})
	require.NoError(t, err)
	data, err := json.Marshal(report)
	require.NoError(t, err)
	assert.JSONEq(t, `{"total":0,"killed":0,"survived":[],"collateral":[]}`, string(data))
	held, err := Variants(t.Context(), Options{Scenarios: rootScenario(), Variants: []variants.Variant{}})
	require.NoError(t, err)
	data, err = json.Marshal(held)
	require.NoError(t, err)
	assert.JSONEq(t, `{"total":0,"held":0,"broken":[]}`, string(data))
}
