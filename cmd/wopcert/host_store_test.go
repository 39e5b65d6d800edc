package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

// A store that is not one ends with 3 and a sentence that says what to do, and is left as it was.
func TestHostOnAFileItCannotUse(t *testing.T) {
	t.Parallel()
	whole := filepath.Join(t.TempDir(), "store")
	held, err := referencehost.OpenFileStore(whole)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, held.Close()) })
	content, err := os.ReadFile(whole)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"text":      {bytes.Repeat([]byte("no store\n"), 4000), "name another file"},
		"cut short": {content[:len(content)/2], "restore it from a copy"},
		"tiny":      {[]byte("x"), "cut short or damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "store")
			require.NoError(t, os.WriteFile(path, c.content, 0o600))
			r := command(t, "host", "--addr", "127.0.0.1:0", "--store", path)
			assert.Equal(t, exitUnknown, r.code, r.err)
			assert.Contains(t, r.err, c.want)
			assert.Empty(t, r.out)
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, c.content, after)
		})
	}
	r := command(t, "host", "--addr", "127.0.0.1:0", "--store", whole)
	assert.Equal(t, exitUnknown, r.code)
	assert.Contains(t, r.err, "another process has it open")
}
