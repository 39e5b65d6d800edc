package referencehost_test

import (
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

// rebirth ends a host and starts another one on its store. died leaves the store as a host that was killed does.
func (h *testHost) rebirth(store *referencehost.FileStore, died bool, change ...func(*referencehost.Config)) *testHost {
	h.t.Helper()
	require.NoError(h.t, h.host.Close())
	if died {
		require.NoError(h.t, store.Update(h.t.Context(), "host", "stopped", func([]byte) ([]byte, error) { return nil, nil }))
	}
	return start(h.t, append([]func(*referencehost.Config){keptIn(h.t, store)}, change...)...)
}

func keptIn(t testing.TB, store *referencehost.FileStore) func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		c.Store = store
		require.NoError(t, c.KeepSecrets(t.Context()))
	}
}

const waiting = `{"workflowId":"conformance-delay","inputs":{"delayMs":30000}}`

func TestRunsGoOnAfterARestart(t *testing.T) {
	t.Parallel()
	store := openStore(t, filepath.Join(t.TempDir(), "store"))
	manual := manualClock()
	h := start(t, keptIn(t, store), withClock(manual))
	_, short := h.create(waiting)
	_, paused := h.create(waiting)
	require.Equal(t, http.StatusAccepted, h.call("POST", paused+":pause", `{"drainPolicy":"immediate"}`).StatusCode)
	_, parent := h.create(`{"workflowId":"conformance-subworkflow-parent"}`)
	_, asks := h.create(`{"workflowId":"conformance-interrupt-external-event"}`)
	_, ended := h.create(`{"workflowId":"conformance-noop"}`)
	before := h.finish(ended)
	manual.AwaitPending(1)
	key := []string{"Idempotency-Key", "0123456789012345678901"}
	made := h.call("POST", "/runs", waiting, key...)
	log := h.events(short)

	h = h.rebirth(store, true, withClock(manual))
	assert.Equal(t, before, h.call("GET", ended, "").json(t))
	again := h.call("POST", "/runs", waiting, key...)
	assert.Equal(t, "true", again.Header.Get("OpenWOP-Idempotent-Replay"))
	assert.Equal(t, made.body, again.body)
	assert.Equal(t, "paused", h.call("GET", paused, "").json(t)["status"])
	require.Eventually(t, func() bool {
		return h.call("GET", asks, "").json(t)["status"] == "waiting-external"
	}, 10*time.Second, time.Millisecond)
	require.Equal(t, http.StatusAccepted, h.call("POST", paused+":resume", `{}`).StatusCode)
	for range 40 { // the attempts are made anew, and the clock drives them
		manual.Advance(time.Second)
		time.Sleep(time.Millisecond)
	}
	for _, path := range []string{short, paused, parent, made.json(t)["statusUrl"].(string)} {
		assert.Equal(t, "completed", h.finish(path)["status"], path)
	}
	events := h.events(short)
	assert.Equal(t, log, events[:len(log)], "what was there is there unchanged")
	assert.Equal(t, []string{"run.started", "node.started", "node.started", "node.completed", "run.completed"}, types(events))
}

func TestARunTheHostDoesNotSurviveIsGivenUp(t *testing.T) {
	t.Parallel()
	store := openStore(t, filepath.Join(t.TempDir(), "store"))
	manual := manualClock()
	attempts := func(h *testHost, path string) (n int) {
		for _, name := range types(h.events(path)) {
			if name == "node.started" {
				n++
			}
		}
		return n
	}
	h := start(t, keptIn(t, store), withClock(manual), withFamilies(map[string]map[string]any{"deadLetter": {}}))
	_, poison := h.create(waiting)
	_, asks := h.create(`{"workflowId":"conformance-interrupt-external-event"}`)
	for _, died := range []bool{true, false, true, true} { // a stop is no death
		require.Eventually(t, func() bool { return attempts(h, poison) > 0 }, 10*time.Second, time.Millisecond)
		want := attempts(h, poison) + 1
		h = h.rebirth(store, died, withClock(manual), withFamilies(map[string]map[string]any{"deadLetter": {}}))
		if h.call("GET", poison, "").json(t)["status"] == "running" {
			require.Eventually(t, func() bool { return attempts(h, poison) == want }, 10*time.Second, time.Millisecond)
		}
	}
	snapshot := h.call("GET", poison, "").json(t)
	assert.Equal(t, "failed", snapshot["status"])
	assert.Equal(t, "recovery_exhausted", snapshot["error"].(map[string]any)["code"])
	assert.Equal(t, []string{"node.cancelled", "run.failed", "run.dead-lettered"}, types(h.events(poison))[5:])
	assert.Equal(t, 4, attempts(h, poison))
	assert.Equal(t, "waiting-external", h.call("GET", asks, "").json(t)["status"], "to wait is not to execute")
	_, fresh := h.create(`{"workflowId":"conformance-noop"}`)
	assert.Equal(t, "completed", h.finish(fresh)["status"])
	h = h.rebirth(store, true, withClock(manual))
	rows := 0
	require.NoError(t, store.Scan(t.Context(), "interrupted", "", func(string, []byte) error { rows++; return nil }))
	assert.Zero(t, rows, "a run that has ended is not counted any more")
	assert.Equal(t, 8, len(h.events(poison)))
}

func TestAnotherExecutionCountsAnew(t *testing.T) {
	t.Parallel()
	store := openStore(t, filepath.Join(t.TempDir(), "store"))
	h := start(t, keptIn(t, store))
	_, path := h.create(`{"workflowId":"wopcert-two-delays","inputs":{"firstMs":0,"secondMs":30000}}`)
	for range 2 { // the first node has ended both times, so it is the second one that is interrupted
		require.Eventually(t, func() bool { return slices.Contains(types(h.events(path)), "node.completed") }, 10*time.Second, time.Millisecond)
		h = h.rebirth(store, true)
	}
	assert.Equal(t, "running", h.call("GET", path, "").json(t)["status"])
}

func TestSeededRunsAfterARestart(t *testing.T) {
	t.Parallel()
	store := openStore(t, filepath.Join(t.TempDir(), "store"))
	pinned := []string{"run.started", `{"workflowId":"conformance-interrupt-external-event"}`, "version.pinned", `{"changeId":"` + referencehost.DefaultChange + `","version":1}`}
	h := start(t, keptIn(t, store), withSeams)
	path := h.seed("running", pinned...)
	lost := h.seed("running", "run.started", started, "nobody.knows", `{}`)
	require.Eventually(t, func() bool { return slices.Contains(types(h.events(path)), "node.suspended") }, 10*time.Second, time.Millisecond)
	h = h.rebirth(store, true, withSeams, func(c *referencehost.Config) { c.Changes = nil })
	assert.Equal(t, "cancelled", h.call("GET", path, "").json(t)["status"], "what implemented the change is gone")
	assert.Equal(t, 2.0, h.call("GET", path, "").json(t)["eventLogSchemaVersion"])
	assert.Equal(t, "event_type_unmapped", h.call("GET", lost, "").code(t))
}

func TestSecretsAreKept(t *testing.T) {
	t.Parallel()
	store := openStore(t, filepath.Join(t.TempDir(), "store"))
	keep := func() referencehost.Config {
		config, err := referencehost.DefaultConfig()
		require.NoError(t, err)
		keptIn(t, store)(&config)
		return config
	}
	first, second := keep(), keep()
	assert.Equal(t, first.Keys, second.Keys)
	assert.Equal(t, first.TokenSecrets, second.TokenSecrets)
}

func TestRecoveryHasABound(t *testing.T) {
	t.Parallel()
	config, err := referencehost.DefaultConfig()
	require.NoError(t, err)
	for _, bound := range config.Recovery.Bounds() {
		assert.Equal(t, config.Recovery.Start+config.Recovery.Reentry, bound.Bound())
		assert.NotEmpty(t, bound.Class)
	}
	store := openStore(t, filepath.Join(t.TempDir(), "store"))
	h := start(t, keptIn(t, store))
	h.create(waiting)
	require.NoError(t, h.host.Close())
	config.Store, config.Recovery.Reentry = store, time.Nanosecond
	_, err = referencehost.New(config)
	require.ErrorContains(t, err, "raise Recovery.Reentry")
}

// A list that was begun before a restart goes on after it.
func TestCursorsAreKept(t *testing.T) {
	t.Parallel()
	store := openStore(t, filepath.Join(t.TempDir(), "store"))
	h := start(t, keptIn(t, store))
	for range 3 {
		h.create(`{"workflowId":"conformance-noop"}`)
	}
	cursor := h.call("GET", "/runs?limit=2", "").json(t)["nextCursor"].(string)
	h = h.rebirth(store, false)
	assert.Len(t, h.call("GET", "/runs?limit=2&cursor="+cursor, "").json(t)["runs"], 1)
}
