package harness

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"wopcert/bundle"
	"wopcert/requirements"
)

func TestGates(t *testing.T) {
	t.Parallel()
	more := map[string]any{
		"fixtures": []string{"conformance-noop"},
		"replay":   map[string]any{"status": "stable", "modes": []string{"replay"}},
	}
	refuse := HostFact("the host says no", func(*Discovery) bool { return false })
	for _, c := range []struct {
		name   string
		gates  []Gate
		creds  Credentials
		optOut []string
		want   bundle.Disposition
		detail string
	}{
		{name: "no gate", want: bundle.ExecutedPass},
		{name: "an advertised family", gates: []Gate{Advertises("replay")}, want: bundle.ExecutedPass},
		{name: "a family that is not advertised", gates: []Gate{Advertises("feedback")}, want: bundle.Inapplicable, detail: "the host does not advertise feedback"},
		{name: "an advertised facet", gates: []Gate{AdvertisesFacet("replay", "modes")}, want: bundle.ExecutedPass},
		{name: "a facet that is not advertised", gates: []Gate{AdvertisesFacet("replay", "fork")}, want: bundle.Inapplicable, detail: "the host does not advertise replay.fork"},
		{name: "another fact", gates: []Gate{refuse}, want: bundle.Inapplicable, detail: "the host says no"},
		{name: "a fixture that is listed", gates: []Gate{NeedsFixture("conformance-noop")}, want: bundle.ExecutedPass},
		{name: "a fixture that is not", gates: []Gate{NeedsFixture("conformance-delay")}, want: bundle.Blocked, detail: "conformance-delay"},
		{name: "any of several fixtures", gates: []Gate{NeedsFixture("conformance-delay", "conformance-noop")}, want: bundle.ExecutedPass},
		{name: "none of several fixtures", gates: []Gate{NeedsFixture("conformance-a", "conformance-b")}, want: bundle.Blocked, detail: "conformance-a or conformance-b"},
		{name: "a credential that was given", gates: []Gate{NeedsCredential(OtherTenant)}, creds: Credentials{OtherTenant: "k-other-1"}, want: bundle.ExecutedPass},
		{name: "a credential that was not", gates: []Gate{NeedsCredential(OtherTenant)}, want: bundle.Blocked, detail: "--other-tenant-key-env"},
		{name: "a group that was not named", gates: []Gate{NeedsGroup()}, want: bundle.Blocked, detail: "--approver-group"},
		{name: "a role that was not named", gates: []Gate{NeedsRole()}, want: bundle.Blocked, detail: "--approver-role"},
		{name: "the anonymous caller needs none", gates: []Gate{NeedsCredential(Anonymous)}, want: bundle.ExecutedPass},
		{name: "a host gate comes before a suite gate", gates: []Gate{NeedsFixture("conformance-delay"), Advertises("feedback")},
			want: bundle.Inapplicable, detail: "the host does not advertise feedback"},
		{name: "an opt-out comes before both", gates: []Gate{NeedsFixture("conformance-delay"), refuse, Advertises("replay")}, optOut: []string{"replay"},
			want: bundle.Skipped, detail: "operator opt-out: replay"},
		{name: "an opt-out of a family the test does not need", optOut: []string{"replay"}, want: bundle.ExecutedPass},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ran := false
			for _, place := range []string{"scenario", "test"} {
				s := oneTest(func(tt *T) {
					ran = true
					tt.Expect(idA, That(true, "a", "b"))
				})
				if place == "scenario" {
					s.Gates = c.gates
				} else {
					s.Tests[0].Gates = c.gates
				}
				r := measure(t, Options{BaseURL: newHost(t, more, nil).URL, Credentials: c.creds, OptOuts: c.optOut, Scenarios: []Scenario{s}})
				row := rowOf(t, r, idA)
				assert.Equal(t, c.want, row.Result, place)
				assert.Contains(t, row.Detail, c.detail, place)
				assert.Equal(t, c.want == bundle.ExecutedPass, ran, "a gate that does not hold keeps the test from running")
				assert.Equal(t, ran, r.Tests[0].Ran)
				assert.Equal(t, c.want, r.Rows[1].Result, "the summary row says the same")
			}
		})
	}
}

// A requirement of which one test is gated away and another fails or passes.
func TestGatedTestBesideAnother(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		gate Gate
		ok   bool
		want bundle.Disposition
	}{
		{Advertises("feedback"), true, bundle.ExecutedPass},
		{Advertises("feedback"), false, bundle.ExecutedFail},
		{NeedsFixture("conformance-x"), true, bundle.Blocked},
		{NeedsFixture("conformance-x"), false, bundle.ExecutedFail},
	} {
		s := oneTest(func(tt *T) { tt.Expect(idA, That(c.ok, "a", "b")) })
		s.Tests = append(s.Tests, Test{Name: "two", Witnesses: []requirements.ID{idA}, Gates: []Gate{c.gate},
			Run: func(tt *T) { tt.Expect(idA, That(true, "a", "b")) }})
		r := measure(t, Options{BaseURL: newHost(t, nil, nil).URL, Scenarios: []Scenario{s}})
		assert.Equal(t, c.want, rowOf(t, r, idA).Result)
	}
}
