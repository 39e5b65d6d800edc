package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/bundle/bundletest"
)

func bundleFile(t *testing.T, change func(bundletest.Tree)) string {
	t.Helper()
	tree := bundletest.TreeOf(bundletest.Signed(bundletest.Small(), bundletest.Key("host")))
	if change != nil {
		change(tree)
	}
	name := filepath.Join(t.TempDir(), "bundle.json")
	require.NoError(t, os.WriteFile(name, tree.Bytes(), 0o600))
	return name
}

// Reports of a bundle alone, sound or rejected, and of what is none.
func TestReportCommand(t *testing.T) {
	t.Parallel()
	sound := bundleFile(t, nil)
	r := command(t, "report", sound)
	require.Equal(t, exitYes, r.code, r.err)
	dir := strings.TrimSuffix(sound, ".json") + "-report"
	for _, name := range strings.Fields(r.out) {
		assert.FileExists(t, name)
		assert.True(t, strings.HasPrefix(name, dir), name)
	}
	assert.Contains(t, r.out, "report.html")

	rejected := bundleFile(t, func(tree bundletest.Tree) { tree["assertionCount"] = 7 })
	out := t.TempDir()
	r = command(t, "report", rejected, "--out", out, "--only", "html", "--format", "json")
	require.Equal(t, exitRejected, r.code, r.err)
	answer := decode[struct {
		Files    []string
		Rejected bool
	}](t, r.out)
	assert.True(t, answer.Rejected)
	assert.Equal(t, []string{"report.html"}, answer.Files)
	page, err := os.ReadFile(filepath.Join(out, "report.html"))
	require.NoError(t, err)
	assert.Contains(t, string(page), "The verifier rejects this bundle")

	r = command(t, "report", rejected, "--annotations")
	assert.Equal(t, exitRejected, r.code)
	assert.Contains(t, r.out, "::error title=bundle rejected::")

	assert.Equal(t, exitUnknown, command(t, "report", filepath.Join(out, "nothing")).code)
	assert.Equal(t, exitUnknown, command(t, "report", t.TempDir()).code)
	assert.Equal(t, exitUsage, command(t, "report", sound, "--only", "pdf").code)
}

// What is the same, what is worse, and what cannot be compared.
func TestDiffCommand(t *testing.T) {
	t.Parallel()
	a := bundleFile(t, nil)
	r := command(t, "diff", a, a)
	assert.Equal(t, exitYes, r.code, r.err)
	assert.Contains(t, r.out, "no difference")

	page := filepath.Join(t.TempDir(), "diff.html")
	worse := bundleFile(t, func(tree bundletest.Tree) {
		for _, row := range tree["results"].(map[string]any)["requirements"].([]any) {
			if row := row.(map[string]any); strings.HasPrefix(row["id"].(string), "openwop.requirement.") && row["result"] == "executed-pass" {
				row["result"], row["detail"] = "executed-fail", "it broke"
				return
			}
		}
	})
	r = command(t, "diff", a, worse, "--html", page)
	assert.Equal(t, exitRejected, r.code, "the digests no longer fit")
	assert.Contains(t, r.out, "passed in A, fails in B (1)")
	assert.Contains(t, r.out, "it broke")
	assert.Contains(t, r.out, "REJECTED")
	assert.FileExists(t, page)

	r = command(t, "diff", a, worse, "--format", "json")
	compared := decode[bundle.Comparison](t, r.out)
	require.Len(t, compared.Rows, 1)
	assert.Equal(t, bundle.Regressed, compared.Rows[0].Change)

	older := filepath.Join(t.TempDir(), "old.json")
	require.NoError(t, os.WriteFile(older, []byte(`{"bundleVersion":"2"}`), 0o600))
	r = command(t, "diff", a, older)
	assert.Equal(t, exitRejected, r.code)
	assert.Contains(t, r.err, "B cannot be compared")
	assert.Equal(t, exitUnknown, command(t, "diff", a, filepath.Join(t.TempDir(), "none")).code)
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		r := command(t, "completion", shell)
		assert.Equal(t, exitYes, r.code)
		assert.Contains(t, r.out, "wopcert")
	}
	assert.Equal(t, exitUsage, command(t, "completion", "nope").code)
	assert.Equal(t, exitUsage, command(t, "completion").code)
	for _, c := range [][]string{
		{"explain", "0170.run-c", "0170.run-cancel"}, {"certify", "--scenario", "v2-run-c", "v2-run-cancel"},
		{"certify", "--profile", "openwop-d", "openwop-discovery-core"}, {"host", "--fault", "frame-", "frame-event-is-message"},
	} {
		r := command(t, append([]string{"__complete"}, c[:len(c)-1]...)...)
		assert.Contains(t, r.out, c[len(c)-1], c)
	}
}

// TestCompletionInBash sources the script in a bash and asks it, as the tab key does.
func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash to complete in")
	}
	bin := built(t)
	script := `compopt() { :; }
source <(wopcert completion bash)
complete -p wopcert
COMP_WORDS=(wopcert certify --scenario v2-run-ca) COMP_CWORD=3 COMP_LINE="${COMP_WORDS[*]}" COMP_POINT=${#COMP_LINE}
__start_wopcert
printf '%s\n' "${COMPREPLY[@]}"`
	c := exec.Command(bash, "--norc", "--noprofile", "-c", script)
	c.Env = []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")}
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "-F __start_wopcert wopcert\nv2-run-cancel\n")
}
