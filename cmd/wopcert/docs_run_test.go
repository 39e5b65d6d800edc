package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDocs runs every command of the pages in docs/, page by page, from the top, in an empty folder each.
func TestDocs(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh to run the commands of the pages with")
	}
	bin := built(t)
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	require.NoError(t, err)
	ran := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		script := shellBlocks(string(text))
		if script == "" {
			continue
		}
		ran++
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			runPage(t, shell, bin, script)
		})
	}
	assert.GreaterOrEqual(t, ran, 6)
}

// built is a folder that holds the program.
func built(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "wopcert"), ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return bin
}

// runPage runs a script in a process group of its own, all of which is ended afterwards.
func runPage(t *testing.T, shell, bin, script string) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, shell, "-euc", script)
	c.Dir = t.TempDir()
	c.Env = []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + c.Dir}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	require.NoError(t, err)
	defer output.Close()
	c.Stdout, c.Stderr = output, output
	err = c.Run()
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // hosts the page started
	said, _ := os.ReadFile(output.Name())
	require.NoError(t, err, "%s", said)
}

// shellBlocks joins what stands between ```sh and ``` in a page, without the indentation of a list.
func shellBlocks(page string) string {
	var script strings.Builder
	inside, indent := false, ""
	for line := range strings.Lines(page) {
		trimmed := strings.TrimSpace(line)
		switch {
		case !inside && trimmed == "```sh":
			inside, indent = true, line[:strings.Index(line, "`")]
		case inside && trimmed == "```":
			inside = false
		case inside:
			script.WriteString(strings.TrimPrefix(line, indent))
		}
	}
	return script.String()
}
