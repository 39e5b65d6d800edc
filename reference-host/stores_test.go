package referencehost_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

// onEveryStore runs a test on a host of each kind of store.
func onEveryStore(t *testing.T, test func(t *testing.T, onStore func(*referencehost.Config))) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, func(*referencehost.Config) {})
	})
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		store := openStore(t, filepath.Join(t.TempDir(), "store"))
		test(t, func(c *referencehost.Config) { c.Store = store })
	})
}

// openStore opens a store that is closed at the end of the test.
func openStore(t testing.TB, path string) *referencehost.FileStore {
	t.Helper()
	store, err := referencehost.OpenFileStore(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}
