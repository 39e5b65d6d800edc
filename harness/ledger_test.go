package harness

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/requirements"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	ok := That(true, "e", "o")
	bad := That(false, "a cat", "a dog")
	for _, c := range []struct {
		name       string
		run        func(*T)
		want       bundle.Disposition
		assertions int64
		detail     string
	}{
		{"one that holds", func(tt *T) { tt.Expect(idA, ok) }, bundle.ExecutedPass, 1, ""},
		{"two that hold", func(tt *T) { tt.Expect(idA, ok); tt.Expect(idA, ok) }, bundle.ExecutedPass, 2, ""},
		{"one that does not", func(tt *T) { tt.Expect(idA, ok); tt.Expect(idA, bad) }, bundle.ExecutedFail, 2, "expected a cat; observed a dog"},
		{"the same twice is said once", func(tt *T) { tt.Expect(idA, bad); tt.Expect(idA, bad) }, bundle.ExecutedFail, 2, "expected a cat; observed a dog"},
		{"nothing", func(*T) {}, bundle.Blocked, 0, "the test ended without observing it"},
		{"blocked", func(tt *T) { tt.Blocked(idA, "no %s", "tool") }, bundle.Blocked, 0, "no tool"},
		{"blocked beside a pass", func(tt *T) { tt.Expect(idA, ok); tt.Blocked(idA, "no tool") }, bundle.Blocked, 0, "no tool"},
		{"blocked beside a failure", func(tt *T) { tt.Blocked(idA, "no tool"); tt.Expect(idA, bad) }, bundle.ExecutedFail, 1, "expected a cat; observed a dog"},
		{"inapplicable", func(tt *T) { tt.Inapplicable(idA, "no wheels") }, bundle.Inapplicable, 0, "no wheels"},
		{"inapplicable beside a pass", func(tt *T) { tt.Inapplicable(idA, "no wheels"); tt.Expect(idA, ok) }, bundle.ExecutedPass, 1,
			"partial-witness: inapplicable: no wheels"},
		{"a recommendation followed", func(tt *T) { tt.Should(idA, ok) }, bundle.ExecutedPass, 1, ""},
		{"one not followed", func(tt *T) { tt.Should(idA, bad) }, bundle.Inapplicable, 1, "partial-witness: recommended: a cat; observed a dog"},
		{"one not followed beside a pass", func(tt *T) { tt.Should(idA, bad); tt.Expect(idA, ok) }, bundle.ExecutedPass, 2,
			"partial-witness: recommended: a cat; observed a dog"},
		{"abort", func(tt *T) { tt.Abort("no run: %d", 500) }, bundle.Blocked, 0, "no run: 500"},
		{"abort after a pass", func(tt *T) { tt.Expect(idA, ok); tt.Abort("no run") }, bundle.Blocked, 0, "no run"},
		{"abort after a failure", func(tt *T) { tt.Expect(idA, bad); tt.Abort("no run") }, bundle.ExecutedFail, 1, "expected a cat; observed a dog"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := measure(t, Options{BaseURL: newHost(t, nil, nil).URL, Scenarios: []Scenario{oneTest(c.run)}})
			require.Len(t, r.Rows, 2)
			assert.Equal(t, bundle.Row{ID: string(idA), Scenario: "v2-run-cancel", Result: c.want, Assertions: c.assertions, Detail: c.detail}, r.Rows[0])
			assert.Equal(t, "openwop.floor.v2-run-cancel", r.Rows[1].ID)
			assert.Equal(t, c.want, r.Rows[1].Result)
			assert.Equal(t, c.assertions, r.Rows[1].Assertions)
			assert.Empty(t, r.SuiteFaults)
		})
	}
}

func TestExpectSaysWhetherItHeld(t *testing.T) {
	t.Parallel()
	measure(t, Options{BaseURL: newHost(t, nil, nil).URL, Scenarios: []Scenario{oneTest(func(tt *T) {
		assert.True(t, tt.Expect(idA, That(true, "", "")))
		assert.False(t, tt.Expect(idA, That(false, "", "")))
		assert.False(t, tt.Should(idA, That(false, "", "")))
	})}})
}

func TestAbortBlocksWhatTheTestDeclared(t *testing.T) {
	t.Parallel()
	s := oneTest(func(tt *T) {
		tt.Expect(idB, That(false, "e", "o"))
		tt.Abort("no run")
	}, idA, idB)
	s.Tests = append(s.Tests, Test{Name: "two", Witnesses: []requirements.ID{idC}, Run: func(tt *T) { tt.Expect(idC, That(true, "", "")) }})
	r := measure(t, Options{BaseURL: newHost(t, nil, nil).URL, Scenarios: []Scenario{s}})
	assert.Equal(t, bundle.Blocked, rowOf(t, r, idA).Result)
	assert.Equal(t, bundle.ExecutedFail, rowOf(t, r, idB).Result, "a failure stands")
	assert.Equal(t, bundle.ExecutedPass, rowOf(t, r, idC).Result, "another test goes on")
	sum := r.Rows[len(r.Rows)-1]
	assert.Equal(t, bundle.ExecutedFail, sum.Result)
	assert.EqualValues(t, 2, sum.Assertions)
	assert.Contains(t, sum.Detail, "0172.created-run-readable: expected e; observed o")
}

func TestStrayAssertionsAreSuiteFaults(t *testing.T) {
	t.Parallel()
	r := measure(t, Options{BaseURL: newHost(t, nil, nil).URL, Scenarios: []Scenario{oneTest(func(tt *T) {
		tt.Expect(idA, That(true, "", ""))
		tt.Expect(idB, That(true, "", ""))
		tt.Blocked(idC, "x")
	})}})
	require.Len(t, r.SuiteFaults, 2)
	assert.Contains(t, r.SuiteFaults[0], string(idB)+" without declaring it")
	assert.Contains(t, r.SuiteFaults[1], string(idC))
	assert.Len(t, r.Rows, 2, "an id nobody declared has no row")
}

// What a goroutine says after its test has ended no longer counts.
func TestLateWordsDoNotCount(t *testing.T) {
	t.Parallel()
	o := &observations{declared: []requirements.ID{idA}}
	o.expect(idA, That(true, "", ""), false)
	require.Len(t, o.close(""), 1)
	o.expect(idA, That(false, "", ""), false)
	assert.Len(t, o.entries, 1)
}

func TestSummaryIsTheWorst(t *testing.T) {
	t.Parallel()
	rows := []bundle.Row{
		{ID: "openwop.requirement.a", Result: bundle.Inapplicable, Detail: "no family"},
		{ID: "openwop.requirement.b", Result: bundle.ExecutedPass, Assertions: 2},
		{ID: "openwop.requirement.c", Result: bundle.Blocked, Detail: "no key"},
		{ID: "openwop.requirement.d", Result: bundle.ExecutedFail, Assertions: 1, Detail: "bad"},
	}
	assert.Equal(t, bundle.Row{ID: "openwop.floor.s", Scenario: "s", Result: bundle.ExecutedFail, Assertions: 3, Detail: "d: bad"}, summarize("s", true, rows))
	assert.Equal(t, bundle.Row{ID: "openwop.scenario.s", Scenario: "s", Result: bundle.Blocked, Assertions: 2, Detail: "c: no key"}, summarize("s", false, rows[:3]))
	assert.Equal(t, bundle.Row{ID: "openwop.scenario.s", Scenario: "s", Result: bundle.ExecutedPass, Assertions: 2}, summarize("s", false, rows[:2]))
	assert.Equal(t, bundle.Inapplicable, summarize("s", false, rows[:1]).Result)
}
