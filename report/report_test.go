package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

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

evidence: evidence (integrity-only)
`, out.String())
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
	p := NewProgress(&out, 2)
	p.Started("v2-a", "one")
	p.Finished("v2-a", "one", nil)
	p.ScenarioDone(bundle.Row{Scenario: "v2-a", Result: bundle.ExecutedPass})
	p.ScenarioDone(bundle.Row{Scenario: "v2-b", Result: bundle.Blocked})
	assert.Equal(t, "[1/2] executed-pass v2-a\n[2/2] blocked       v2-b\n", out.String())
}
