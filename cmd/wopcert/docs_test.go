package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

//go:generate go test -run ^TestCommandReference$ -update

var update = flag.Bool("update", false, "write docs/commands.md from the commands")

// TestCommandReference holds docs/commands.md to what the commands say of themselves.
func TestCommandReference(t *testing.T) {
	t.Parallel()
	began := false
	root := newRoot(streams{strings.NewReader(""), io.Discard, io.Discard}, &began)
	var b strings.Builder
	b.WriteString("# Commands\n\nMade from the program's own help by `go generate ./cmd/wopcert`; not edited by hand.\n")
	for _, c := range root.Commands() {
		reference(&b, c)
	}
	name := filepath.Join("..", "..", "docs", "commands.md")
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(b.String()), 0o644))
	}
	held, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, b.String(), string(held), "run go generate ./cmd/wopcert")
}

func reference(b *strings.Builder, c *cobra.Command) {
	if c.Hidden || c.Name() == "help" {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n%s.\n\n    %s\n", c.CommandPath(), strings.TrimSuffix(c.Short, "."), c.UseLine())
	if c.Long != "" {
		fmt.Fprintf(b, "\n%s\n", fenced(c.Long))
	}
	if usages := c.LocalFlags().FlagUsages(); usages != "" {
		fmt.Fprintf(b, "\n%s\n", fenced(usages))
	}
	for _, sub := range c.Commands() {
		reference(b, sub)
	}
}

func fenced(text string) string { return "```\n" + strings.TrimRight(text, "\n") + "\n```" }
