package proof

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/faults"
	"wopcert/reference-host/variants"
	"wopcert/requirements"
)

// Whatever is dealt comes into exactly one group, and no group holds what does not go
// together.
func TestDeal(t *testing.T) {
	t.Parallel()
	var changes []change
	for i := range 100 {
		c := change{id: fmt.Sprint(i), declares: []requirements.ID{requirements.ID(fmt.Sprint(i % 20))}}
		if i%4 == 0 {
			c.decorate = func(*referencehost.Config) {}
		}
		if i%10 == 0 {
			for n := range quietRows {
				c.declares = append(c.declares, requirements.ID(fmt.Sprintf("%d of %d", n, i)))
			}
		}
		c.mortal = i == 9
		if i == 7 {
			c.basePath = "/below"
		}
		changes = append(changes, c)
	}
	groups := deal(changes)
	assert.ElementsMatch(t, all(len(changes)), slices.Concat(groups...))
	assert.Less(t, len(groups), 45)
	for _, g := range groups {
		rows, decorated := map[requirements.ID]bool{}, 0
		for _, i := range g {
			c := changes[i]
			if c.decorate != nil {
				decorated++
			}
			for _, id := range c.declares {
				assert.False(t, rows[id], "%v share %s", g, id)
				rows[id] = true
			}
			if c.basePath != "" || c.mortal || len(c.declares) > quietRows {
				assert.Len(t, g, 1)
			}
		}
		assert.LessOrEqual(t, len(g), togetherAtMost)
		assert.LessOrEqual(t, decorated, decoratedAtMost)
	}
}

func all(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// One that breaks a row is found among many that do nothing.
func TestTheOneThatBreaksIsFound(t *testing.T) {
	t.Parallel()
	var list []variants.Variant
	for i := range 30 {
		list = append(list, variants.Variant{ID: fmt.Sprint(i)})
	}
	list[17].Wrap = set("host.x", true)
	var mu sync.Mutex
	measured := 0
	report, err := Variants(t.Context(), Options{Scenarios: rootScenario(), Variants: list, Progress: func(Step) {
		mu.Lock()
		defer mu.Unlock()
		measured++
	}})
	require.NoError(t, err)
	assert.Equal(t, len(list)-1, report.Held)
	require.NotEmpty(t, report.Broken)
	for _, b := range report.Broken {
		assert.Equal(t, "17", b.Variant)
	}
	assert.Less(t, measured, 15, "the others are measured together")
}

// A fault that turns more than it declares is found among those it shares a host with,
// though its own scenarios do not show it.
func TestCollateralIsFoundAmongMany(t *testing.T) {
	t.Parallel()
	suite := few("v2-capabilities-root-closed", "v2-discovery-caching", "v2-version-header-honored", "v2-preferred-version-default",
		"v2-capability-record-shape", "v2-no-transport-advertisement", "v2-min-client-version", "v2-well-known-one-resource")
	witnessed := map[requirements.ID]bool{}
	for _, s := range suite {
		for _, test := range s.Tests {
			for _, id := range test.Witnesses {
				witnessed[id] = true
			}
		}
	}
	list := slices.DeleteFunc(faults.All(), func(f faults.Fault) bool {
		return slices.ContainsFunc(declared(f), func(id requirements.ID) bool {
			return !witnessed[id] || id == requirements.R0169CapabilitiesRootClosedDottedKey
		})
	})
	require.Greater(t, len(list), fewChanges)
	at := slices.IndexFunc(list, func(f faults.Fault) bool { return f.ID == "discovery-without-etag" })
	require.GreaterOrEqual(t, at, 0)
	without := list[at].Wrap
	list[at].Wrap = func(h http.Handler) http.Handler { return set("host.x", true)(without(h)) }
	report, err := Faults(t.Context(), Options{Scenarios: suite, Faults: list})
	require.NoError(t, err)
	assert.Equal(t, len(list), report.Killed, "%+v", report.Survived)
	require.Len(t, report.Collateral, 1)
	assert.Equal(t, "discovery-without-etag", report.Collateral[0].Fault)
	assert.Equal(t, requirements.R0169CapabilitiesRootClosedDottedKey, report.Collateral[0].Requirement)
}
