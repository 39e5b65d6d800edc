package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/harness"
)

func TestCertificationText(t *testing.T) {
	t.Parallel()
	c := Certification{
		Verdict: Failed,
		Host:    HostFacts{URL: "http://h", Name: "host", Version: "1"},
		Profiles: []Profile{
			{ID: "openwop-discovery-core", Certified: true, WitnessCount: 3},
			{ID: "openwop-core-standard", Why: []string{"floor row openwop.floor.v2-run-cancel is executed-fail"}},
		},
		Totals:     bundle.Totals{ExecutedPass: 4, ExecutedFail: 1, Blocked: 1},
		DurationMs: 1234,
		Failures: []harness.Failure{{Requirement: "openwop.requirement.0170.run-cancel", Test: "a test", Expected: "status 409",
			Observed: "200", Exchange: 3, Reproduce: "wopcert certify --host http://h --scenario v2-run-cancel"}},
		Blocked:     []Reason{{Requirement: "openwop.requirement.x", Reason: "no key"}},
		Notes:       []string{"a note"},
		Out:         "evidence",
		Attribution: "integrity-only",
	}
	var out bytes.Buffer
	c.Text(&out)
	assert.Equal(t, `FAILED  http://h  host 1
  certified      openwop-discovery-core (3 floor scenarios witnessed)
  not certified  openwop-core-standard
                 floor row openwop.floor.v2-run-cancel is executed-fail
  rows: 4 passed, 1 failed, 1 blocked, 0 inapplicable, 0 skipped in 1.23s

FAILED openwop.requirement.0170.run-cancel  [a test]
  expected   status 409
  observed   200
  exchange   number 3 of this test's capture
  reproduce  wopcert certify --host http://h --scenario v2-run-cancel

blocked: the suite could not observe these
  no key
    x

note: a note

evidence: evidence (integrity-only); report.html in it shows every row
`, out.String())
}

// What the host ran under and how it recovers is said where it is claimed, and only
// there.
func TestCircumstances(t *testing.T) {
	t.Parallel()
	text := func(c Certification) string {
		var out bytes.Buffer
		c.Text(&out)
		return out.String()
	}
	assert.NotContains(t, text(Certification{}), "durability")
	assert.Contains(t, text(Certification{Durability: &Durability{Rung: "durable-single-instance"}}), "\n  durability     durable-single-instance\n")
	assert.Contains(t, text(Certification{Durability: &Durability{Why: []string{"row a is blocked"}}}),
		"\n  durability     no rung is claimed\n                 row a is blocked\n")
	relaxed := bundle.Relaxation{Obligation: "webhooks.egress-guard", Durability: "session", Reason: "a test"}
	assert.Contains(t, text(Certification{Relaxations: []bundle.Relaxation{relaxed}}), "\n  relaxed        webhooks.egress-guard (session): a test\n")
	var out bytes.Buffer
	Verification(&out, "b.json", &bundle.Report{Host: &bundle.Host{Relaxations: []bundle.Relaxation{relaxed}}})
	assert.Contains(t, out.String(), "\n  relaxed      webhooks.egress-guard (session): a test\n")
}

func TestVerificationText(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	Verification(&out, "b.json", &bundle.Report{
		BundleVersion: "3",
		Rejections:    []bundle.Rejection{{Kind: bundle.KindTotals, Detail: "totals say 1, the rows say 2"}, {Kind: bundle.KindVacuousPass, Detail: "no assertion", Requirement: "openwop.requirement.x"}},
		Attribution:   bundle.NotAttested, AttributionReason: "why",
		Profiles:        []bundle.Derivation{{ID: "openwop-discovery-core", Certified: true}},
		MissingProfiles: []string{"openwop-discovery-core"},
		Notes:           []string{"a note"},
	})
	assert.Equal(t, `REJECTED  b.json
  rejected     totals: totals say 1, the rows say 2
  rejected     vacuous-pass: no assertion (openwop.requirement.x)
  attribution  not-attested: why
  not          openwop-discovery-core: the evidence is not sound
  required     openwop-discovery-core is not certified
  note         a note
`, out.String())

	out.Reset()
	Verification(&out, "old.json", &bundle.Report{BundleVersion: "2", Rejections: []bundle.Rejection{{Kind: bundle.KindBundleVersion, Detail: "bundle version 2"}}})
	assert.True(t, strings.HasPrefix(out.String(), "BUNDLE VERSION 2  old.json\n"), out.String())
}

// Where the output is no terminal, progress is one plain line a scenario.
func TestProgressLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := NewProgress(&out, 2, 2)
	p.Started("v2-a", "one")
	p.Finished("v2-a", "one", []harness.Observed{{Requirement: "openwop.requirement.a.b", Outcome: "fail", Reason: "expected x"}})
	p.ScenarioDone(bundle.Row{Scenario: "v2-a", Result: bundle.ExecutedPass})
	p.ScenarioDone(bundle.Row{Scenario: "v2-b", Result: bundle.Blocked})
	p.Close()
	assert.Equal(t, "FAILED a.b  [one]\n       expected x\n[1/2] executed-pass v2-a\n[2/2] blocked       v2-b\n", out.String())
}

// On a terminal the last lines say what runs and for how long, and are gone at the end.
func TestProgressScreen(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	at := time.Unix(0, 0)
	p := &Progress{w: &out, terminal: true, scenarios: 2, tests: 9, now: func() time.Time { return at }, began: at, stop: make(chan struct{})}
	for i := range 6 {
		p.Started("v2-a", fmt.Sprint("test ", i))
		at = at.Add(time.Second)
	}
	p.draw()
	assert.Equal(t, noWrap+"0 of 2 scenarios, 0 not passed · 6 tests running, 3 waiting · 6s\n"+
		"      6s  v2-a: test 0\n      5s  v2-a: test 1\n      4s  v2-a: test 2\n      3s  v2-a: test 3\n      2s  v2-a: test 4\n"+wrap, out.String())
	out.Reset()
	p.ScenarioDone(bundle.Row{Scenario: "v2-b", Result: bundle.Blocked, Detail: "no key"})
	assert.Equal(t, "\r\x1b[6A\x1b[JBLOCKED v2-b: no key\n", out.String())
	p.draw()
	out.Reset()
	p.Close()
	assert.Equal(t, "\r\x1b[6A\x1b[J", out.String())
	p = &Progress{w: &out, terminal: true, paint: true, now: func() time.Time { return at }, stop: make(chan struct{})}
	p.Started("v2-a", strings.Repeat("long ", 60))
	p.draw()
	assert.Equal(t, strings.Count(out.String(), "\x1b[2m"), strings.Count(out.String(), "\x1b[0m"), "what is dimmed ends, however long it is")
	out.Reset()
	base, err := harness.ParseBaseURL("http://h")
	require.NoError(t, err)
	p.Discovered(&harness.Host{Base: base, Discovery: &harness.Discovery{Document: map[string]any{"implementation": map[string]any{"name": "\x1b[2J"}, "protocolVersions": []any{"\x1b[H2.0"}}}})
	assert.NotContains(t, strings.TrimPrefix(out.String(), "\r\x1b[2A\x1b[J"), "\x1b", "a host paints nothing")
}
