package boltstore_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"wopcert/reference-host/internal/boltstore"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/storetest"
)

func draft(eventType string) eventlog.Draft {
	return eventlog.Draft{
		EventID: "event-0123456789", Type: eventType, NodeID: "n", CausationID: "c", Payload: json.RawMessage(`{"html":"<&>","n":1.50}`),
		Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.UTC),
	}
}

func fullRun(id string) eventlog.Run {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	return eventlog.Run{
		ID: id, Owner: eventlog.Owner{Tenant: "t", Workspace: "w", Subject: eventlog.Subject{Issuer: "i", SubjectID: "s", Tenant: "t", Lane: "l", Kind: "k"}},
		WorkflowID: "wf", EngineVersion: 2, CreatedAt: at, Deadline: at.Add(time.Hour), MaxNodeExecutions: 3, MaxLoopIterations: 4,
		Orchestrator: "o", ForkOf: "t/0", ForkPoint: 1, ForkMode: "replay", Parent: &eventlog.Parent{RunID: "t/p", Cause: "c"}, Depth: 1, ScopeID: "scope",
		Inputs: json.RawMessage(`{"a":"<b>"}`), Configurable: json.RawMessage(`{}`), Metadata: json.RawMessage(`{"x":1.0}`), Tags: []string{"<t>"},
		Variables: map[string]json.RawMessage{"v": json.RawMessage(`"&"`)}, Eval: &eventlog.Eval{SuiteID: "s", SuiteVersion: "1", AgentID: "a"}, Held: "running",
	}
}

// reopened closes a store and opens its file again.
func reopened(t *testing.T, s *boltstore.Store, path string) *boltstore.Store {
	t.Helper()
	require.NoError(t, s.Close())
	return open(t, path)
}

func TestEverythingIsThereAfterReopening(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	s := open(t, path)
	run := fullRun("t/1")
	log, err := s.Create(t.Context(), run, true, draft("run.started"))
	require.NoError(t, err)
	row := draft("run.dead_lettered")
	row.Written = "2026-01-02T04:04:05+01:00"
	old := eventlog.Run{ID: "t/2", Owner: eventlog.Owner{Tenant: "t"}, Era: eventlog.EraV1}
	_, err = s.Create(t.Context(), old, false, draft("run.started"), row)
	require.NoError(t, err)
	_, err = log.Append(t.Context(), 0, draft("node.started"))
	require.NoError(t, err)
	require.NoError(t, s.Annotate(t.Context(), "t/1", eventlog.Annotation{AnnotationID: "a", Signal: json.RawMessage(`"<"`)}))
	require.NoError(t, s.PutArtifact(t.Context(), "t", eventlog.Artifact{ID: "x", Data: json.RawMessage(`{"<":1.0}`)}))
	require.NoError(t, s.Update(t.Context(), "table", "k", func([]byte) ([]byte, error) { return []byte("v"), nil }))
	want, err := log.Read(-1)
	require.NoError(t, err)
	before := log.Run()

	s = reopened(t, s, path)
	again, err := s.Open(t.Context(), "t/1")
	require.NoError(t, err)
	assert.Equal(t, before, again.Run())
	events, err := again.Read(-1)
	require.NoError(t, err)
	assert.Equal(t, want, events)
	var held *eventlog.ScopeHeldError
	_, err = s.Create(t.Context(), fullRun("t/3"), true, draft("run.started"))
	require.ErrorAs(t, err, &held)
	assert.Equal(t, eventlog.ScopeHeldError{RunID: "t/1", Until: run.Deadline}, *held)
	added, err := again.Append(t.Context(), 1, draft("run.completed"))
	require.NoError(t, err)
	assert.Equal(t, int64(2), added[0].Sequence)
	third, err := s.Create(t.Context(), fullRun("t/3"), true, draft("run.started"))
	require.NoError(t, err)
	assert.Equal(t, int64(3), third.Run().Position)

	second, err := s.Open(t.Context(), "t/2")
	require.NoError(t, err)
	assert.Equal(t, eventlog.EraV1, second.Run().Era)
	rows, err := second.Read(0)
	require.NoError(t, err)
	assert.Equal(t, row, rows[0].Draft)
	annotations, err := s.Annotations(t.Context(), "t/1")
	require.NoError(t, err)
	assert.Equal(t, `"<"`, string(annotations[0].Signal))
	artifact, err := s.Artifact(t.Context(), "t", "x")
	require.NoError(t, err)
	assert.Equal(t, `{"<":1.0}`, string(artifact.Data))
	value, err := s.Get(t.Context(), "table", "k")
	require.NoError(t, err)
	assert.Equal(t, "v", string(value))
}

func TestRecordsAfterReopening(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	s := open(t, path)
	now := time.Unix(1000, 0)
	begin := func(key string) eventlog.RecordState {
		state, _, err := s.Begin(t.Context(), eventlog.RecordKey{Tenant: "t", Endpoint: "e", Key: key}, [32]byte{1}, now)
		require.NoError(t, err)
		return state
	}
	for _, key := range []string{"finished", "in flight", "with its run"} {
		require.Equal(t, eventlog.RecordNew, begin(key))
	}
	require.NoError(t, s.Finish(t.Context(), eventlog.RecordKey{Tenant: "t", Endpoint: "e", Key: "finished"}, &eventlog.Response{Status: 200}, now.Add(time.Hour)))
	_, err := s.Create(eventlog.WithOutcome(t.Context(), eventlog.Outcome{
		Key: eventlog.RecordKey{Tenant: "t", Endpoint: "e", Key: "with its run"}, Response: &eventlog.Response{Status: 201}, Expiry: now.Add(time.Hour),
	}), eventlog.Run{ID: "t/1", Owner: eventlog.Owner{Tenant: "t"}}, false, draft("run.started"))
	require.NoError(t, err)
	s = reopened(t, s, path) // as after a crash: the requests are gone
	assert.Equal(t, eventlog.RecordDone, begin("finished"))
	assert.Equal(t, eventlog.RecordDone, begin("with its run"))
	assert.Equal(t, eventlog.RecordNew, begin("in flight"))
}

func TestLogsNobodyHoldsCostNoMemory(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	s := open(t, path)
	for _, id := range []string{"t/1", "t/2"} {
		_, err := s.Create(t.Context(), eventlog.Run{ID: id, Owner: eventlog.Owner{Tenant: "t"}}, false, draft("run.started"))
		require.NoError(t, err)
	}
	held, err := s.Open(t.Context(), "t/2")
	require.NoError(t, err)
	require.Eventually(t, func() bool { runtime.GC(); return s.Held() == 1 }, 10*time.Second, time.Millisecond)
	same, err := s.Open(t.Context(), "t/2")
	require.NoError(t, err)
	assert.Same(t, held, same)
	back, err := s.Open(t.Context(), "t/1")
	require.NoError(t, err)
	events, err := back.Read(-1)
	require.NoError(t, err)
	assert.Len(t, events, 1)
	runtime.KeepAlive(held)
}

func TestAClosedStoreWritesNothing(t *testing.T) {
	t.Parallel()
	s, err := boltstore.Open(filepath.Join(t.TempDir(), "store"), storetest.Follows)
	require.NoError(t, err)
	log, err := s.Create(t.Context(), eventlog.Run{ID: "t/1", Owner: eventlog.Owner{Tenant: "t"}}, false, draft("run.started"))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, err = log.Append(t.Context(), 0, draft("run.completed"))
	require.ErrorIs(t, err, boltstore.ErrClosed)
	_, err = s.Open(t.Context(), "t/2")
	require.Error(t, err)
}

// refused opens a file that must not open, and returns why.
func refused(t *testing.T, path string) *boltstore.FileError {
	t.Helper()
	s, err := boltstore.Open(path, storetest.Follows)
	var file *boltstore.FileError
	if !assert.ErrorAs(t, err, &file, path) && s != nil {
		require.NoError(t, s.Close())
	}
	return file
}

func TestAFileIsOpenOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	open(t, path)
	assert.Contains(t, refused(t, path).Error(), "another process has it open; stop that process")
}

func TestFilesOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, content []byte, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, mode))
		return path
	}
	assert.Contains(t, refused(t, write("text", []byte("hello\n"), 0o600)).Error(), "cut short or damaged; restore it from a copy, or name another file")
	assert.Contains(t, refused(t, write("long", bytes.Repeat([]byte("hello\n"), 10_000), 0o600)).Error(), "not a store of this program")
	assert.Contains(t, refused(t, dir).Error(), "not a regular file")
	assert.Contains(t, refused(t, filepath.Join(dir, "none", "store")).Error(), "check the path")
	assert.Contains(t, refused(t, write("open", bytes.Repeat([]byte("x"), 1<<15), 0o644)).Error(), "chmod 600")

	other := filepath.Join(dir, "other")
	db, err := bolt.Open(other, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bolt.Tx) error {
		bucket, err := tx.CreateBucket([]byte("theirs"))
		return errors.Join(err, bucket.Put([]byte("k"), []byte("v")))
	}))
	require.NoError(t, db.Close())
	assert.Contains(t, refused(t, other).Error(), "belongs to another program")

	newer := filepath.Join(dir, "newer")
	require.NoError(t, boltstore.WriteFormat(newer, 2))
	assert.Contains(t, refused(t, newer).Error(), "it has format 2 and this program reads up to 1; open it with the newer version")

	begun := filepath.Join(dir, "begun") // its maker died before it wrote anything
	db, err = bolt.Open(begun, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	open(t, begun)
	open(t, write("empty", nil, 0o600))
	info, err := os.Stat(filepath.Join(dir, "begun"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// sample writes a store with enough rows for a tree of some depth and returns the file's bytes.
func sample(t *testing.T, path string) []byte {
	t.Helper()
	s, err := boltstore.Open(path, storetest.Follows)
	require.NoError(t, err)
	for _, id := range []string{"t/1", "t/2"} {
		log, err := s.Create(t.Context(), eventlog.Run{ID: id, Owner: eventlog.Owner{Tenant: "t"}}, false, draft("run.started"))
		require.NoError(t, err)
		drafts := make([]eventlog.Draft, 60)
		for i := range drafts {
			drafts[i] = draft("log.appended")
		}
		_, err = log.Append(t.Context(), 0, drafts...)
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content
}

func TestATruncatedFileIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	content := sample(t, path)
	for size := 1; size < len(content); size += 1021 {
		require.NoError(t, os.WriteFile(path, content[:size], 0o600))
		if size < boltstore.Used(content) {
			require.NotNil(t, refused(t, path), size)
		}
	}
}

// TestADamagedFileNeverShowsAnythingElse flips bytes all over a file: it is refused, or what it shows is what was
// written.
func TestADamagedFileNeverShowsAnythingElse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	content := sample(t, path)
	rejected := 0
	for at := 2 * 4096; at < len(content); at += 97 { // behind the two heads, which stand in for each other
		damaged := bytes.Clone(content)
		damaged[at] ^= 0x5a
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		s, err := boltstore.Open(path, storetest.Follows)
		var file *boltstore.FileError
		if errors.As(err, &file) {
			rejected++
			continue
		}
		require.NoError(t, err, at)
		for _, id := range []string{"t/1", "t/2"} {
			log, err := s.Open(t.Context(), id)
			require.NoError(t, err, at)
			events, err := log.Read(-1)
			require.NoError(t, err, at)
			require.Len(t, events, 61, at)
		}
		require.NoError(t, s.Close())
	}
	assert.Positive(t, rejected)
}
