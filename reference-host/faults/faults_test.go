package faults

import (
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/requirements"
)

func TestFaultsAreWellFormed(t *testing.T) {
	t.Parallel()
	kebab := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)+$`)
	seen := map[string]bool{}
	for _, f := range All() {
		assert.Regexp(t, kebab, f.ID)
		assert.False(t, seen[f.ID], "%s is there twice", f.ID)
		seen[f.ID] = true
		require.NotEmpty(t, f.Breaks, f.ID)
		assert.NotEmpty(t, f.Reason, f.ID)
		assert.Regexp(t, `\.$`, f.Summary, f.ID)
		assert.True(t, f.Wrap != nil || f.Decorate != nil, "%s changes nothing", f.ID)
		assert.NotEmpty(t, f.Document, f.ID)
		assert.NotEmpty(t, f.Section, f.ID)
		named := map[requirements.ID]bool{}
		for _, id := range slices.Concat(f.Breaks, f.Blocks, f.Closes) {
			_, known := requirements.Get(id)
			assert.True(t, known, "%s names %s, which is no requirement", f.ID, id)
			assert.False(t, named[id], "%s names %s twice", f.ID, id)
			named[id] = true
		}
	}
}

func TestEveryRequirementHasAFault(t *testing.T) {
	t.Parallel()
	broken := ByRequirement()
	for _, r := range requirements.All() {
		assert.NotEmpty(t, broken[r.ID], "no fault breaks %s", r.ID)
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	f, ok := Get("cancel-status-misspelt")
	assert.True(t, ok)
	assert.Contains(t, f.Breaks, requirements.R0170RunCancel)
	_, ok = Get("no-such-fault")
	assert.False(t, ok)
}

func TestExplainsAnyAlternative(t *testing.T) {
	t.Parallel()
	f := Fault{Reason: "404 not_found|gone"}
	assert.True(t, f.Explains("observed 404 not_found"))
	assert.True(t, f.Explains("observed it gone"))
	assert.False(t, f.Explains("observed 200"))
}

func TestAFaultKeepsItsStateToOneHost(t *testing.T) {
	t.Parallel()
	f, ok := Get("foreign-run-served")
	require.True(t, ok)
	require.NotNil(t, f.Wrap)
	one, two := newTenants(), newTenants()
	one.tenant["a"] = "t"
	assert.Empty(t, two.tenant)
}

func TestBefore(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "", "0": "", "1": "0", "10": "9", "none": "none", "-1": "-2", "1.5": "1.5", "01": "01"} {
		assert.Equal(t, want, before(in), in)
	}
}

func TestUnknownKeysTakesOnlyWhatIsUnknown(t *testing.T) {
	t.Parallel()
	c := object{
		"version": 1, "mystery": 1, "ai.model": "x",
		"ai":         object{"temperature": 1, "topP": 1, "ai.topP": 1},
		"extensions": object{"example": object{"anything": 1}},
	}
	unknownKeys(c, false)
	assert.Equal(t, object{
		"version": 1, "ai.model": "x", "ai": object{"temperature": 1, "ai.topP": 1},
		"extensions": object{"example": object{"anything": 1}},
	}, c)
	unknownKeys(c, true)
	assert.Equal(t, object{"version": 1, "ai": object{"temperature": 1}, "extensions": object{"example": object{"anything": 1}}}, c)
}
