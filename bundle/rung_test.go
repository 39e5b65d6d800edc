package bundle_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/bundle/bundletest"
)

// What DeriveRung says of rows is what a verifier says of a bundle that claims the rung.
func TestDeriveRung(t *testing.T) {
	t.Parallel()
	derived, reasons := bundle.DeriveRung(bundletest.Recovery())
	require.True(t, derived, reasons)
	assert.Empty(t, reasons)
	rows := bundletest.Recovery()
	for i := range rows {
		missing := append(append([]bundle.Row{}, rows[:i]...), rows[i+1:]...)
		derived, reasons = bundle.DeriveRung(missing)
		assert.False(t, derived, rows[i].ID)
		assert.NotEmpty(t, reasons)
	}
	derived, _ = bundle.DeriveRung(nil)
	assert.False(t, derived)
}
