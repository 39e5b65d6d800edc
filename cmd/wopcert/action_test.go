package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/faults"
)

// action is what of action.yml is held to the program.
type action struct {
	Inputs map[string]struct {
		Default  string
		Required bool
	}
	Runs struct {
		Steps []struct {
			ID, Shell, Run, Uses string
			Env                  map[string]string
		}
	}
}

func readYAML[V any](t *testing.T, name string) V {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
	require.NoError(t, err)
	var v V
	require.NoError(t, yaml.Unmarshal(data, &v), name)
	return v
}

var (
	inputExpr = regexp.MustCompile(`\$\{\{ inputs\.([a-z-]+) \}\}`)
	otherExpr = regexp.MustCompile(`\$\{\{[^}]*\}\}`)
)

// certifyStep gives the script of the step that certifies and its environment for some inputs.
func (a action) certifyStep(t *testing.T, with map[string]string) (script string, env []string) {
	t.Helper()
	for _, step := range a.Runs.Steps {
		if step.ID != "certify" {
			continue
		}
		require.Equal(t, "bash", step.Shell)
		require.NotRegexp(t, otherExpr, step.Run, "an input inside a script would be run as one")
		for name, value := range step.Env {
			value = inputExpr.ReplaceAllStringFunc(value, func(expr string) string {
				input := inputExpr.FindStringSubmatch(expr)[1]
				declared, ok := a.Inputs[input]
				require.True(t, ok, "%s: there is no input %s", name, input)
				given, ok := with[input]
				require.True(t, ok || !declared.Required, "%s is required", input)
				if !ok {
					return declared.Default
				}
				return given
			})
			env = append(env, name+"="+otherExpr.ReplaceAllString(value, "0123abc"))
		}
		return step.Run, env
	}
	t.Fatal("action.yml has no step certify")
	return "", nil
}

// ran is what a step left behind.
type ran struct {
	code                    int
	stdout, output, summary string
	dir                     string
}

// runAction runs the step as GitHub does, in a folder of its own.
func runAction(t *testing.T, bash, bin, dir string, keys, with map[string]string) ran {
	t.Helper()
	script, env := readYAML[action](t, "action.yml").certifyStep(t, with)
	file := filepath.Join(dir, "step.sh")
	require.NoError(t, os.WriteFile(file, []byte(script), 0o600))
	r := ran{dir: dir}
	c := exec.CommandContext(t.Context(), bash, "--noprofile", "--norc", "-e", "-o", "pipefail", file)
	c.Dir, c.WaitDelay = dir, 10*time.Second
	c.Env = append(env, "PATH="+os.Getenv("PATH"), "HOME="+dir, "RUNNER_TEMP="+bin,
		"GITHUB_OUTPUT="+filepath.Join(dir, "output"), "GITHUB_STEP_SUMMARY="+filepath.Join(dir, "step-summary"),
		envAPIKey+"="+keys[referencehost.KeyTenantA], envOtherTenantKey+"="+keys[referencehost.KeyTenantB], envReadOnlyKey+"="+keys[referencehost.KeyReadOnly])
	var out, errs strings.Builder
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	r.code, r.stdout = c.ProcessState.ExitCode(), out.String()
	if err != nil {
		require.IsType(t, &exec.ExitError{}, err)
	}
	t.Logf("%s", errs.String())
	for name, into := range map[string]*string{"output": &r.output, "step-summary": &r.summary} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
		}
		*into = string(text)
	}
	return r
}

// The step of the action ends as the certification does, annotates what failed and writes the step summary.
func TestActionCertifies(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash to run the step of action.yml with")
	}
	bin := built(t)
	good, goodKeys := startHost(t, nil)
	fault, ok := faults.Get("list-cursor-ignored")
	require.True(t, ok)
	bad, badKeys := startHost(t, func(c *referencehost.Config) { change(c, fault.Decorate, fault.Wrap) })
	const arguments = "--scenario\nv2-run-list*\n\n--parallel=4\n"
	const id = "0182.run-list.cursor-refused"

	t.Run("conforming", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		key := filepath.Join(dir, "k.pem")
		require.Equal(t, exitYes, command(t, "keygen", "--out", key).code)
		r := runAction(t, bash, bin, dir, goodKeys, map[string]string{"host": good.URL(), "arguments": arguments, "signing-key": key})
		assert.Equal(t, exitYes, r.code, r.stdout)
		assert.Equal(t, "exit-code=0\n", r.output)
		assert.Contains(t, r.stdout, "PASSED")
		assert.NotContains(t, r.stdout, "::error")
		assert.Contains(t, r.summary, "passed")
		held, err := os.ReadFile(filepath.Join(dir, defaultOut, "bundle.json"))
		require.NoError(t, err)
		assert.Contains(t, string(held), `"id": "0123abc"`, "the build is the commit")
		assert.NotContains(t, r.stdout+r.summary, goodKeys[referencehost.KeyTenantA])
	})
	t.Run("failing", func(t *testing.T) {
		t.Parallel()
		r := runAction(t, bash, bin, t.TempDir(), badKeys, map[string]string{"host": bad.URL(), "arguments": arguments, "out": "evidence of it"})
		assert.Equal(t, exitNo, r.code, r.stdout)
		assert.Equal(t, "exit-code=1\n", r.output)
		assert.Contains(t, r.stdout, "::error title="+id+"::expected ")
		assert.Contains(t, r.summary, id)
		assert.FileExists(t, filepath.Join(r.dir, "evidence of it", "report.html"))
	})
	t.Run("expected", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		list := "- requirement: " + id + "\n  reason: a test\n  until: 2999-01-01\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "expected.yaml"), []byte(list), 0o600))
		r := runAction(t, bash, bin, dir, badKeys, map[string]string{"host": bad.URL(), "arguments": arguments, "expected-failures": "expected.yaml"})
		assert.Equal(t, exitYes, r.code, r.stdout)
		assert.NotContains(t, r.stdout, "::error")
		assert.Contains(t, r.stdout, "::notice title="+id+"::")
		assert.Contains(t, r.summary, id)
	})
	t.Run("evidence of another run", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, defaultOut), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, defaultOut, "summary.md"), []byte("of another run"), 0o600))
		r := runAction(t, bash, bin, dir, goodKeys, map[string]string{"host": good.URL(), "arguments": arguments})
		assert.Equal(t, exitUsage, r.code, r.stdout)
		assert.Equal(t, "exit-code=2\n", r.output)
		assert.Empty(t, r.summary)
		assert.NotContains(t, r.stdout, "::")
	})
	t.Run("no host, and arguments that are no script", func(t *testing.T) {
		t.Parallel()
		r := runAction(t, bash, bin, t.TempDir(), nil, map[string]string{"host": "http://127.0.0.1:1/$(touch a);`touch b`", "arguments": "--scenario\n$(touch c)*;touch d"})
		assert.Contains(t, []int{exitUsage, exitUnknown}, r.code, r.stdout)
		assert.Empty(t, r.summary)
		for _, name := range []string{"a", "b", "c", "d"} {
			assert.NoFileExists(t, filepath.Join(r.dir, name))
		}
	})
}

// What the pages tell a CI job to say, the program and the action understand.
func TestCIExamples(t *testing.T) {
	t.Parallel()
	type job struct {
		Script    []string
		Artifacts struct {
			When    string
			Paths   []string
			Reports struct{ JUnit string }
		}
	}
	certify, ok := readYAML[map[string]job](t, "docs/ci/gitlab.yml")["certify"]
	require.True(t, ok)
	programs := 0
	for _, line := range certify.Script {
		if words := strings.Fields(line); words[0] == "./wopcert-bin" {
			programs++
			knowsFlags(t, words[1:])
		}
	}
	assert.Equal(t, []string{defaultOut}, certify.Artifacts.Paths)
	assert.Equal(t, defaultOut+"/junit.xml", certify.Artifacts.Reports.JUnit)
	assert.Equal(t, "always", certify.Artifacts.When, "a build that fails is the one to look at")

	a := readYAML[action](t, "action.yml")
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "ci.md"))
	require.NoError(t, err)
	help := command(t, "certify", "--help").out
	steps := 0
	for _, block := range strings.Split(string(page), "```yaml\n")[1:] {
		example, _, _ := strings.Cut(block, "```")
		var v any
		require.NoError(t, yaml.Unmarshal([]byte(example), &v))
		eachStep(v, func(step map[string]any) {
			steps++
			script, _ := step["run"].(string)
			for line := range strings.Lines(script) {
				if words := strings.Fields(line); words[0] == "./wopcert-bin" {
					programs++
					knowsFlags(t, words[1:])
				}
			}
			if uses, _ := step["uses"].(string); !strings.HasPrefix(uses, "OWNER/wopcert@") {
				return
			}
			with, _ := step["with"].(map[string]any)
			for name := range with {
				assert.Contains(t, a.Inputs, name)
			}
			for name, input := range a.Inputs {
				_, given := with[name]
				assert.True(t, given || !input.Required, "%s is required", name)
			}
			if words, ok := with["arguments"].(string); ok {
				knowsFlags(t, append([]string{"certify"}, strings.Fields(words)...))
			}
			env, _ := step["env"].(map[string]any)
			for name := range env {
				assert.Contains(t, help, name)
			}
		})
	}
	assert.Equal(t, 5, steps)
	assert.Equal(t, 2, programs)
}

// eachStep finds the steps of a workflow, or of a part of one.
func eachStep(v any, visit func(map[string]any)) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			eachStep(item, visit)
		}
	case map[string]any:
		if v["uses"] != nil || v["run"] != nil {
			visit(v)
			return
		}
		for _, item := range v {
			eachStep(item, visit)
		}
	}
}

// knowsFlags holds a command line to the commands there are.
func knowsFlags(t *testing.T, words []string) {
	t.Helper()
	began := false
	c, rest, err := newRoot(streams{strings.NewReader(""), io.Discard, io.Discard}, &began).Find(words)
	require.NoError(t, err)
	flags := 0
	for _, word := range rest {
		if name, ok := strings.CutPrefix(word, "--"); ok {
			flags++
			name, _, _ = strings.Cut(name, "=")
			assert.NotNil(t, c.Flags().Lookup(name), "%s has no flag --%s", c.Name(), name)
		}
	}
	assert.Positive(t, flags)
}
