package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestGeneratedFilesAreFresh regenerates from the registry and compares.
func TestGeneratedFilesAreFresh(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..")
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(data)
	}
	entries, err := parseRegistry([]byte(read(registryFile)))
	require.NoError(t, err)
	source, err := constants(entries)
	require.NoError(t, err)
	const stale = "%s is stale; run go generate ./requirements"
	assert.Equal(t, string(source), read(constantsFile), stale, constantsFile)
	lock := read(lockFile)
	assert.Equal(t, string(extendLock([]byte(lock), entries)), lock, stale, lockFile)
}

func TestConstantName(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"openwop.requirement.0170.run-cancel":                             "R0170RunCancel",
		"openwop.requirement.events.sequence":                             "EventsSequence",
		"openwop.requirement.0172.dual-stack-negotiation.response-header": "R0172DualStackNegotiationResponseHeader",
		"openwop.requirement.0171.poll-cursor-v2.past-end":                "R0171PollCursorV2PastEnd",
		"openwop.requirement.0173.pack-isolation.fs-read":                 "R0173PackIsolationFsRead",
	} {
		name, err := constantName(id)
		require.NoError(t, err)
		assert.Equal(t, want, name)
	}
	for _, id := range []string{"", "run-cancel", "openwop.requirement.", "openwop.requirement.-", "openwop.requirement.0170.Run", "openwop.requirement.a b"} {
		_, err := constantName(id)
		assert.Error(t, err, id)
	}
}

func TestCollidingNamesAreRefused(t *testing.T) {
	t.Parallel()
	_, err := constants([]entry{{ID: "openwop.requirement.runs.a-b"}, {ID: "openwop.requirement.runs.a.b"}})
	require.ErrorContains(t, err, "RunsAB")
}

func TestLockOnlyGrows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	write(registryFile, `[{"id":"openwop.requirement.runs.new","statement":"A host does it."}]`)
	write(lockFile, "openwop.requirement.runs.old\n")
	require.NoError(t, run(dir))
	lock, err := os.ReadFile(filepath.Join(dir, lockFile))
	require.NoError(t, err)
	assert.Equal(t, "openwop.requirement.runs.new\nopenwop.requirement.runs.old\n", string(lock))

	source, err := os.ReadFile(filepath.Join(dir, constantsFile))
	require.NoError(t, err)
	assert.Contains(t, string(source), `RunsNew ID = "openwop.requirement.runs.new"`)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 3, "no file is left behind")
}

func TestBadRegistryWritesNothing(t *testing.T) {
	t.Parallel()
	for _, registry := range []string{"", "{", "[]", `[{"id":"runs.new"}]`} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, registryFile), []byte(registry), 0o644))
		err := run(dir)
		require.Error(t, err)
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Len(t, left, 1)
	}
}
