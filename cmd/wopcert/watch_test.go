package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	referencehost "wopcert/reference-host"
	"wopcert/report"
)

// A host that fails, goes away and comes back mended: what failed is run again, and then, when nothing does, all of it.
func TestWatch(t *testing.T) {
	config, err := referencehost.DefaultConfig()
	require.NoError(t, err)
	broken := config
	require.NoError(t, changeHost(&broken, []string{"cancel-of-completed-echoes"}, nil))
	server, err := referencehost.Listen(context.Background(), "127.0.0.1:0", broken)
	require.NoError(t, err)
	address, err := url.Parse(server.URL())
	require.NoError(t, err)
	for _, k := range config.Keys {
		if k.Name == referencehost.KeyTenantA {
			t.Setenv("WATCH_PRIMARY", k.Key)
		}
	}
	out := filepath.Join(t.TempDir(), "evidence")
	require.NoError(t, os.Mkdir(out+"-2", 0o755), "evidence is never overwritten")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	said, errs, done := newWritten(), newWritten(), make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"certify", "--host", server.URL(), "--api-key-env", "WATCH_PRIMARY", "--scenario", "v2-run-cancel", "--scenario", "v2-capabilities-*",
			"--watch", "--out", out}, streams{in: strings.NewReader(""), out: said, err: errs})
	}()
	restart := func(n int) {
		require.NoError(t, server.Close())
		errs.awaitTimes(t, "the host went away", n)
		server, err = referencehost.Listen(context.Background(), address.Host, config)
		require.NoError(t, err)
		errs.awaitTimes(t, "waiting for "+server.URL(), n+1)
	}
	errs.await(t, "waiting for "+server.URL())
	restart(1)
	restart(2)
	stop()
	select {
	case code := <-done:
		assert.Equal(t, exitYes, code, "%s", errs.String())
	case <-time.After(30 * time.Second):
		t.Fatal("the watch does not end")
	}
	require.NoError(t, server.Close())
	scenarios := func(dir string) map[string]bool {
		ran := map[string]bool{}
		for _, test := range decode[report.Results](t, readFile(t, filepath.Join(dir, "results.json"))).Tests {
			ran[test.Scenario] = true
		}
		return ran
	}
	first := scenarios(out)
	assert.Greater(t, len(first), 1)
	assert.Equal(t, map[string]bool{"v2-run-cancel": true}, scenarios(out+"-3"), "only what failed")
	assert.Equal(t, first, scenarios(out+"-4"), "all of it")
	assert.Contains(t, errs.String(), "running 1 scenario again")
	for dir, failed := range map[string]bool{out: true, out + "-3": false} {
		b := decode[bundle.Bundle](t, readFile(t, filepath.Join(dir, "bundle.json")))
		assert.Equal(t, failed, b.Results.Totals.ExecutedFail > 0, dir)
	}
}

func TestWatchIsRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--reference-host"}, {"--host", "http://127.0.0.1:1", "--format", "json"}, {"--host", "http://127.0.0.1:1", "--shard", "1/2"}} {
		r := command(t, append([]string{"certify", "--watch"}, args...)...)
		assert.Equal(t, exitUsage, r.code)
		assert.Contains(t, r.err, "exclude each other")
	}
}

// What the wait takes for a change: another document twice over, and a host that is back. A document that never
// repeats itself is no change.
func TestWaitForAChange(t *testing.T) {
	t.Parallel()
	var reading atomic.Int64
	var mode atomic.Value
	mode.Store("same")
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := reading.Add(1)
		w.Header().Set("Content-Type", "application/json")
		switch mode.Load() {
		case "fickle":
			_, _ = fmt.Fprintf(w, `{"protocolVersions":["2.0"],"reading":%d}`, n)
		case "changed":
			_, _ = io.WriteString(w, `{"protocolVersions":["2.0"],"more":1}`)
		case "gone":
			w.WriteHeader(http.StatusBadGateway)
		default:
			_, _ = io.WriteString(w, `{"protocolVersions":["2.0"]}`)
		}
	}))
	defer host.Close()
	begin := func() (*written, chan bool, context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		said, done := newWritten(), make(chan bool, 1)
		w := watcher{url: host.URL, every: 5 * time.Millisecond, say: func(format string, args ...any) { fmt.Fprintf(said, format+"\n", args...) }}
		seen := []byte(`{"protocolVersions":["2.0"]}`)
		go func() { done <- w.wait(ctx, seen) }()
		return said, done, cancel
	}
	ended := func(done chan bool) bool {
		select {
		case changed := <-done:
			return changed
		case <-time.After(30 * time.Second):
			t.Fatal("the wait does not end")
			return false
		}
	}
	said, done, cancel := begin()
	mode.Store("changed")
	assert.True(t, ended(done))
	assert.Contains(t, said.String(), "the discovery document changed")
	cancel()

	mode.Store("gone")
	said, done, cancel = begin()
	said.await(t, "the host went away (status 502)")
	mode.Store("same")
	assert.True(t, ended(done))
	assert.Contains(t, said.String(), "the host is back")
	cancel()

	mode.Store("fickle")
	said, done, cancel = begin()
	said.await(t, "another one at every reading")
	before := reading.Load()
	assert.Eventually(t, func() bool { return reading.Load() > before+5 }, 10*time.Second, time.Millisecond, "it waits on")
	cancel()
	assert.False(t, ended(done))
}
