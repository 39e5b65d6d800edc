package main

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What --env prints is what a shell reads, under the names that certify looks keys up by, the last one last.
func TestHostPrintsAnEnvironment(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	out := newWritten()
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"host", "--addr", "127.0.0.1:0", "--env"}, streams{in: strings.NewReader(""), out: out, err: out})
	}()
	text := out.await(t, envProductionKey)
	cancel()
	select {
	case code := <-done:
		assert.Equal(t, exitYes, code)
	case <-time.After(30 * time.Second):
		t.Fatal("the host does not stop")
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	names := []string{envHost, envAPIKey, envOtherTenantKey, envReadOnlyKey, envApproverKey, envSecondApproverKey, envOverrideKey, envProductionKey}
	require.Len(t, lines, len(names))
	for i, name := range names {
		assert.Regexp(t, `^export `+name+`='[^']{8,}'$`, lines[i])
	}
	if shell, err := exec.LookPath("sh"); err == nil {
		read, err := exec.Command(shell, "-euc", text+`printf %s "$WOPCERT_HOST"`).CombinedOutput()
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(string(read), "http://127.0.0.1:"), "%s", read)
	}

	assert.Equal(t, exitUsage, command(t, "host", "--env", "--format", "json").code)
	assert.Equal(t, `'it'\''s $x'`, shellQuoted("it's $x"))
}
