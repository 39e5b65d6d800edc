package certify

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/harness"
	"wopcert/scenarios"
)

func TestParseShard(t *testing.T) {
	t.Parallel()
	i, n, err := ParseShard("2/3")
	require.NoError(t, err)
	assert.Equal(t, [2]int{2, 3}, [2]int{i, n})
	for text, contains := range map[string]string{
		"": "not I/N", "2": "not I/N", "/": "not I/N", "a/b": "not I/N", "1/2/3": "not I/N", "1/ 2": "not I/N", "+1/2": "not I/N",
		"01/2": "not I/N", "1/99999999999999999999": "not I/N", "0/2": "1 to 2", "3/2": "1 to 2", "-1/2": "1 to 2", "1/0": "at least one", "1/-1": "at least one",
	} {
		_, _, err := ParseShard(text)
		var refused *SelectionError
		require.ErrorAs(t, err, &refused, text)
		assert.Contains(t, refused.Text, contains, text)
	}
}

// Every scenario is in one part, no part is empty, and no part is dearer than the dearest
// scenario above an even share.
func TestDivision(t *testing.T) {
	t.Parallel()
	costs, err := MeasuredCosts()
	require.NoError(t, err)
	var ids []string
	total, dearest := int64(0), int64(0)
	for _, sc := range scenarios.All() {
		ids = append(ids, sc.ID)
		total += costs.of(sc.ID)
		dearest = max(dearest, costs.of(sc.ID))
	}
	for _, count := range []int{1, 2, 3, 7, 40, len(ids)} {
		parts := divide(ids, count, costs)
		require.Len(t, parts, count)
		var seen []string
		for _, part := range parts {
			load := int64(0)
			for _, id := range part {
				load += costs.of(id)
			}
			assert.NotEmpty(t, part)
			assert.LessOrEqual(t, load, total/int64(count)+dearest)
			seen = append(seen, part...)
		}
		assert.ElementsMatch(t, ids, seen)
		assert.Equal(t, parts, divide(ids, count, costs), "the same for every part")
	}
	assert.Equal(t, [][]string{{"a"}, {"b", "d", "c"}}, divide([]string{"a", "b", "c", "d"}, 2, Costs{"a": 9, "b": 4, "c": 0, "d": 4}))
}

// The table holds the scenarios there are, so that it is made anew when they change.
func TestMeasuredCostsAreOfThisSuite(t *testing.T) {
	t.Parallel()
	costs, err := MeasuredCosts()
	require.NoError(t, err)
	for id, ms := range costs {
		assert.True(t, slices.ContainsFunc(scenarios.All(), func(sc harness.Scenario) bool { return sc.ID == id }), "%s is no scenario", id)
		assert.Less(t, ms, maxCost)
	}
	assert.GreaterOrEqual(t, len(costs)*10, len(scenarios.All())*8, "too many scenarios without a cost: go run ./cmd/internal/certify/internal/costs")
}

func TestReadCosts(t *testing.T) {
	t.Parallel()
	c, err := ReadCosts([]byte(`{"tests":[{"scenario":"a","elapsedNs":1500000},{"scenario":"a","elapsedNs":2000000},{"scenario":"b","elapsedNs":-5},{"scenario":"c","elapsedNs":9000000000000000000}]}`))
	require.NoError(t, err)
	assert.Equal(t, Costs{"a": 4, "b": 0, "c": 3600_000}, c)
	assert.Equal(t, []int64{4, 1, defaultCost}, []int64{c.of("a"), c.of("b"), c.of("z")})
	for _, text := range []string{"", "[]", "{}", `{"tests":[]}`, `{"tests":1}`} {
		_, err := ReadCosts([]byte(text))
		assert.Error(t, err, text)
	}
}

func TestDivideNarrowsTheRequest(t *testing.T) {
	t.Parallel()
	all := scenarios.All()[:5]
	var ran []string
	for i := 1; i <= 2; i++ {
		q := Request{Scenarios: all}
		require.NoError(t, q.Divide(i, 2, Costs{}))
		for _, sc := range q.Scenarios {
			ran = append(ran, sc.ID)
		}
		assert.True(t, slices.IsSortedFunc(q.Scenarios, func(a, b harness.Scenario) int {
			at := func(sc harness.Scenario) int {
				return slices.IndexFunc(all, func(o harness.Scenario) bool { return o.ID == sc.ID })
			}
			return at(a) - at(b)
		}), "in the order of the suite")
	}
	assert.Len(t, ran, 5)
	assert.Len(t, scenarios.All()[:5], 5)
	q := Request{Scenarios: all}
	require.ErrorContains(t, q.Divide(1, 6, nil), fmt.Sprintf("6 parts of %d scenarios", len(all)))
}
