package coverage

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/harness"
	"wopcert/requirements"
)

// A chain broken on purpose, link by link.
func TestGaps(t *testing.T) {
	t.Parallel()
	scenarios := []harness.Scenario{{ID: "v2-x", Tests: []harness.Test{{Witnesses: []requirements.ID{requirements.R0170RunCancel, "openwop.requirement.x.unknown"}}}}}
	faulted := map[requirements.ID][]string{requirements.EventsSequence: {"f"}, "openwop.requirement.y.unknown": {"g"}}
	r := Compute(scenarios, faulted)
	kinds := map[string][]string{}
	for _, g := range r.Gaps {
		kinds[g.Kind] = append(kinds[g.Kind], g.ID)
	}
	assert.Contains(t, kinds[RequirementWithoutCheck], string(requirements.EventsSequence))
	assert.NotContains(t, kinds[RequirementWithoutCheck], string(requirements.R0170RunCancel))
	assert.Contains(t, kinds[RequirementWithoutFault], string(requirements.R0170RunCancel))
	assert.NotContains(t, kinds[RequirementWithoutFault], string(requirements.EventsSequence))
	assert.Equal(t, []string{"openwop.requirement.x.unknown"}, kinds[CheckWithoutRequirement])
	assert.Equal(t, []string{"openwop.requirement.y.unknown"}, kinds[FaultWithoutRequirement])
	assert.Equal(t, 1, r.Requirements.Witnessed)
	assert.Equal(t, 1, r.Requirements.Faulted)
	assert.Equal(t, len(requirements.All()), r.Requirements.Total)
}

func TestDocumentsAddUp(t *testing.T) {
	t.Parallel()
	r := Compute(nil, nil)
	total, unmapped := 0, 0
	for _, d := range r.Documents {
		total += d.Obligations
		unmapped += d.Obligations - d.Mapped - d.Reasoned
		assert.LessOrEqual(t, d.Witnessed, d.Mapped)
		assert.Zero(t, d.Witnessed, "no scenario, nothing witnessed")
	}
	assert.Equal(t, len(requirements.Obligations()), total)
	listed := 0
	for _, g := range r.Gaps {
		if g.Kind == UnmappedObligation {
			listed++
		}
	}
	assert.Equal(t, unmapped, listed)
	var out bytes.Buffer
	require.NoError(t, r.Text(&out))
	assert.Contains(t, out.String(), "runs.md")
}
