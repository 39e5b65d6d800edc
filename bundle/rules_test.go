package bundle

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOptOutTargets(t *testing.T) {
	t.Parallel()
	for detail, want := range map[string][]string{
		OptOutDetail("forms"): {"forms"},
		"operator opt-out: family.memory, connections.packs.":   {"family.memory", "connections.packs"},
		"operator opt-out: forms (set in the configuration)":    {"forms"},
		"operator opt-out: forms, forms":                        {"forms"},
		"operator declared an honest opt-out via X: family.a":   {"family.a"},
		"operator declared an honest opt-out via X: a.b, c-d_e": {"a.b", "c-d_e"},
		"operator declared an honest opt-out via X":             nil,
		"operator opt-out: ":                                    nil,
		"operator opted the profile or family out (X)":          nil,
		"no operator opt-out: forms":                            nil,
		"":                                                      nil,
		"Operator opt-out:eventLog":                             {"eventLog"},
		"OPERATOR  OPT-OUT : eventLog":                          {"eventLog"},
		"opted out: x":                                          {"x"},
		"the operator opted out of the forms family":            {"forms"},
		"operator opt-out: family forms":                        {"forms"},
		"operator opt-out — forms":                              {"forms"},
		"operator optout=`forms`":                               {"forms"},
		"operator opt-out: forms; replay and memory":            {"forms", "replay", "memory"},
		"operator opt-out: forms; replay is not affected":       {"forms"},
		"operator opt-out: forms; operator opt-out: b":          {"forms", "b"},
		"every test returned early: operator opt-out: forms":    {"forms"},
		"operator opted out (OPENWOP_OPTED_OUT_PROFILES)":       nil,
		"not run": nil,
	} {
		assert.Equal(t, want, optOutTargets(detail), detail)
	}
}

func TestUnnamedOptOutsAreCoveredByTheirScenario(t *testing.T) {
	t.Parallel()
	targets, unnamed, silent := optOuts([]Row{
		{ID: "summary", Scenario: "a", Result: Skipped, Detail: "operator opted out"},
		{ID: "row", Scenario: "a", Result: Skipped, Detail: OptOutDetail("memory")},
		{ID: "alone", Scenario: "b", Result: Skipped, Detail: "operator opted out"},
		{ID: "openwop.requirement.x", Scenario: "a", Result: Skipped, Detail: "operator opted out"},
		{ID: "openwop.it.x.y", Scenario: "c", Result: Skipped, Detail: "not run"},
		{ID: "not skipped", Scenario: "c", Result: Inapplicable, Detail: OptOutDetail("forms")},
	})
	assert.Equal(t, []string{"memory"}, targets)
	assert.Equal(t, []string{"alone"}, unnamed)
	assert.Equal(t, []string{"openwop.requirement.x", "openwop.it.x.y"}, silent, "a requirement names its own")
}

func TestWithoutOrigin(t *testing.T) {
	t.Parallel()
	const origin = "http://127.0.0.1:38"
	for text, want := range map[string]string{
		"http://127.0.0.1:38/a":                      "origin:/a",
		"http://127.0.0.1:38":                        "origin:",
		"http://127.0.0.1:38?x http://127.0.0.1:38#": "origin:?x origin:#",
		"http://127.0.0.1:3838/a":                    "http://127.0.0.1:3838/a",
		"http://127.0.0.1:38.example":                "http://127.0.0.1:38.example",
		"https://127.0.0.1:38/":                      "https://127.0.0.1:38/",
		"":                                           "",
	} {
		assert.Equal(t, want, withoutOrigin(text, origin), text)
	}
	assert.Equal(t, map[string]any{origin: []any{"origin:/x", true, nil}}, withoutOrigin(map[string]any{origin: []any{origin + "/x", true, nil}}, origin),
		"member names stay")
	assert.Equal(t, "text", withoutOrigin("text", ""))
}

func TestSumTerms(t *testing.T) {
	t.Parallel()
	const most = int64(1<<63 - 1)
	_, ok := sumTerms([]BoundTerm{{MS: most}, {MS: 1}})
	assert.False(t, ok, "an overflow is no sum")
	_, ok = sumTerms([]BoundTerm{{MS: -1}})
	assert.False(t, ok)
	_, ok = sumTerms(nil)
	assert.False(t, ok)
	sum, ok := sumTerms([]BoundTerm{{MS: most}, {MS: 0}})
	assert.True(t, ok)
	assert.Equal(t, most, sum)
}

func TestCountValuesIsAnUpperLimit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"": 0, "1": 0, "[]": 1, "[1,2]": 2, `{"a":[1,{"b":","}]}`: 4, `["a\",",[],"\\"]`: 4,
	} {
		assert.Equal(t, want, countValues([]byte(text)), text)
	}
}

func TestDeploymentAndRelaxationsEnterTheDigestOnlyWhenPresent(t *testing.T) {
	t.Parallel()
	rows := []Row{{ID: "openwop.requirement.b", Scenario: "s", Result: ExecutedPass, Assertions: 1}, {ID: "openwop.requirement.a", Scenario: "s", Result: Blocked, Detail: "d"}}
	list := `[{"assertions":0,"detail":"d","id":"openwop.requirement.a","result":"blocked","scenario":"s"},` +
		`{"assertions":1,"id":"openwop.requirement.b","result":"executed-pass","scenario":"s"}]`
	relaxed := []Relaxation{{"x.y", "session", "r"}, {"a.b", "persisted", "r"}}
	relaxations := `[{"durability":"session","obligation":"x.y","reason":"r"},{"durability":"persisted","obligation":"a.b","reason":"r"}]`
	for _, c := range []struct {
		relaxations []Relaxation
		deployment  string
		preimage    string
	}{
		{nil, "", list},
		{[]Relaxation{}, "", list},
		{relaxed, "", `{"relaxations":` + relaxations + `,"rows":` + list + `}`},
		{nil, ColocatedCompanion, `{"deployment":"colocated-companion","rows":` + list + `}`},
		{relaxed, ColocatedCompanion, `{"deployment":"colocated-companion","relaxations":` + relaxations + `,"rows":` + list + `}`},
	} {
		digest, err := WitnessSHA256(rows, c.relaxations, c.deployment)
		assert.NoError(t, err)
		assert.Equal(t, hexDigest([]byte(c.preimage)), digest)
	}
	assert.Equal(t, "openwop.requirement.b", rows[0].ID, "the caller's rows stay in order")
}
