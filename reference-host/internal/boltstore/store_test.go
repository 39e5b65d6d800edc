package boltstore_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"wopcert/reference-host/internal/boltstore"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/storetest"
)

func open(t testing.TB, path string) *boltstore.Store {
	t.Helper()
	s, err := boltstore.Open(path, storetest.Follows)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) eventlog.Store { return open(t, filepath.Join(t.TempDir(), "store")) })
}
