package referencehost

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wopcert/corpus"
)

// FuzzRunID holds the reading of ids in paths against the grammar of the contract, and projection against its inverse
// (identity.md §5).
func FuzzRunID(f *testing.F) {
	contract, err := corpus.Load()
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		if back, ok := unproject(project(text)); text != "" && (!ok || back != text) {
			t.Fatalf("%q is projected as %q, and read back as %q, %v", text, project(text), back, ok)
		}
		if projected := project(text); strings.Trim(projected, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-~") != "" {
			t.Fatalf("%q is projected as %q, which is no path segment", text, projected)
		}
		if ours, contracts := isRunID(text), contract.ValidateValue("ids#/$defs/runId", text) == nil; ours != contracts {
			t.Fatalf("%q as a runId: %v, and the contract says %v", text, ours, contracts)
		}
		if id, ok := unproject(text); ok && isRunID(id) {
			if again, _ := unproject(project(id)); again != id {
				t.Fatalf("%q is read as %q, and again as %q", text, id, again)
			}
		}
	})
}
