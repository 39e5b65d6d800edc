package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/faults"
	"wopcert/report"
)

// TestReproduceReproduces pastes the command that a report gives into a shell, where the run was started.
func TestReproduceReproduces(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh to paste into")
	}
	fault, ok := faults.Get("list-cursor-ignored")
	require.True(t, ok)
	host, keys := startHost(t, func(c *referencehost.Config) { change(c, fault.Decorate, fault.Wrap) })
	dir, bin := t.TempDir(), built(t)
	sh := func(script string) (string, int) {
		c := exec.CommandContext(context.Background(), shell, "-c", script)
		c.Dir = dir
		c.Env = []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "TMPDIR=" + t.TempDir(),
			"MY_KEY=" + keys[referencehost.KeyTenantA], envOtherTenantKey + "=" + keys[referencehost.KeyTenantB]}
		out, _ := c.CombinedOutput()
		return string(out), c.ProcessState.ExitCode()
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "wopcert.yaml"), []byte("host: "+host.URL()+"\n"), 0o600))
	said, code := sh("wopcert certify --api-key-env MY_KEY --scenario 'v2-run-list*' --opt-out 'memory' --timeout 30s")
	require.Equal(t, exitNo, code, said)
	evidence := decode[report.Results](t, readFile(t, filepath.Join(dir, "wopcert-evidence", "results.json")))
	require.NotEmpty(t, evidence.Failures)
	first := evidence.Failures[0]
	assert.Equal(t, "wopcert certify --host "+host.URL()+" --api-key-env MY_KEY --opt-out memory --timeout 30s --scenario "+first.Scenario+` --out "$(mktemp -d)"`, first.Reproduce)
	said, code = sh(first.Reproduce)
	assert.Equal(t, exitNo, code, said)
	assert.Regexp(t, "FAILED "+regexp.QuoteMeta(string(first.Requirement)), said)
}

// The words of a command line come back as a shell reads them, and nothing in them that only the operator may know.
func TestAgain(t *testing.T) {
	t.Parallel()
	began := false
	root := newRoot(streams{}, &began)
	c, _, err := root.Find([]string{"certify"})
	require.NoError(t, err)
	require.NoError(t, c.ParseFlags([]string{"--reference-host", "--kill-cmd", "curl -H 'Authorization: x' h", "--corpus", "a dir/it's", "--out", "x", "--opt-out", "a", "--opt-out", "b", "--watch"}))
	f := certifyFlags{given: map[string]bool{"reference-host": true, "kill-cmd": true, "corpus": true, "out": true, "opt-out": true, "watch": true}}
	assert.Equal(t, `--corpus 'a dir/it'\''s' --kill-cmd "$WOPCERT_KILL_CMD" --opt-out a --opt-out b --reference-host`, f.again(c.Flags(), ""))
	for word, want := range map[string]string{"": "''", "a b": "'a b'", "$x": "'$x'", "v2-*": "'v2-*'", "http://h:1/a": "http://h:1/a"} {
		assert.Equal(t, want, shellWord(word))
	}
}
