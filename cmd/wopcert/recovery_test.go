package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/cmd/internal/supervised"
)

// TestMain lets the test program be the host that certify --reference-host starts: it
// is this program's own file.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervised.Command {
		os.Exit(run(context.Background(), os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
	}
	// Keys that whoever runs the tests has exported belong to no host of theirs.
	for _, name := range []string{envAPIKey, envOtherTenantKey, envReadOnlyKey, envProductionKey, envApproverKey, envSecondApproverKey, envOverrideKey} {
		_ = os.Unsetenv(name)
	}
	os.Exit(m.Run())
}

func TestRecoveryFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	bounds := write("bounds.json", `{"recoveryBounds":[{"class":"a","bound":1,"terms":[{"name":"n","ms":1}]}]}`)
	empty := write("empty.json", `{}`)
	relaxed := write("relaxed.json", `[{"obligation":"webhooks.egress-guard","durability":"always","reason":"r"}]`)
	for _, tc := range []struct {
		args     []string
		contains string
	}{
		{[]string{"--reference-host", "--recovery-bounds", bounds}, "are for --host"},
		{[]string{"--reference-host", "--relaxations", relaxed}, "are for --host"},
		{[]string{"--host", "http://127.0.0.1:1", "--restart-cmd", "true"}, "nothing kills"},
		{[]string{"--host", "http://127.0.0.1:1", "--kill-cmd", "true"}, "--kill-cmd needs --recovery-bounds"},
		{[]string{"--host", "http://127.0.0.1:1", "--recovery-bounds", empty}, `no bound of class ""`},
		{[]string{"--host", "http://127.0.0.1:1", "--recovery-bounds", filepath.Join(dir, "none.json")}, "no such file"},
		{[]string{"--host", "http://127.0.0.1:1", "--relaxations", relaxed}, "not session, deployment or persisted"},
	} {
		out := filepath.Join(t.TempDir(), "evidence")
		r := command(t, append([]string{"certify", "--out", out}, tc.args...)...)
		assert.Equal(t, exitUsage, r.code, tc.args)
		assert.Contains(t, r.err, tc.contains)
		assert.Contains(t, r.err, "hint:", tc.args)
		assert.NoDirExists(t, out)
	}
}

// The command the bundled host runs under is for this program alone.
func TestSupervisedHostIsHidden(t *testing.T) {
	t.Parallel()
	assert.NotContains(t, command(t, "--help").out, supervised.Command)
	r := command(t, supervised.Command)
	assert.Equal(t, exitUnknown, r.code)
	assert.Contains(t, r.err, "one line of JSON")
}
