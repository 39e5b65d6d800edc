package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/reference-host/internal/eventlog"
)

func testTables(t *testing.T, store func() eventlog.Store) {
	s := store()
	_, err := s.Get(t.Context(), "t", "absent")
	require.ErrorIs(t, err, eventlog.ErrNotFound)
	set := func(table, key string, want, value []byte) {
		t.Helper()
		require.NoError(t, s.Update(t.Context(), table, key, func(now []byte) ([]byte, error) {
			assert.Equal(t, want, bytes.Clone(now))
			return value, nil
		}))
	}
	set("t", "absent", nil, nil) // to delete what is not there is no error
	set("t", "a", nil, []byte("1"))
	set("t", "a", []byte("1"), []byte{}) // empty is not absent
	set("t", "a", []byte{}, []byte("2"))
	set("u", "a", nil, []byte("other"))
	value, err := s.Get(t.Context(), "t", "a")
	require.NoError(t, err)
	assert.Equal(t, "2", string(value))
	wrong := errors.New("no")
	require.ErrorIs(t, s.Update(t.Context(), "t", "a", func([]byte) ([]byte, error) { return []byte("3"), wrong }), wrong)
	set("t", "a", []byte("2"), nil)
	_, err = s.Get(t.Context(), "t", "a")
	require.ErrorIs(t, err, eventlog.ErrNotFound)
}

func testUpdateIsOneStep(t *testing.T, store func() eventlog.Store) {
	s := store()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 25 {
				assert.NoError(t, s.Update(context.Background(), "t", "counter", func(now []byte) ([]byte, error) {
					n, _ := strconv.Atoi(string(now))
					return strconv.AppendInt(nil, int64(n)+1, 10), nil
				}))
			}
		})
	}
	group.Wait()
	value, err := s.Get(t.Context(), "t", "counter")
	require.NoError(t, err)
	assert.Equal(t, "200", string(value))
}

func testScan(t *testing.T, store func() eventlog.Store) {
	s := store()
	const rows = 700 // more than two pages
	put := func(key string) error {
		return s.Update(t.Context(), "t", key, func([]byte) ([]byte, error) { return []byte("v" + key), nil })
	}
	var group sync.WaitGroup
	for i := range rows {
		group.Go(func() { assert.NoError(t, put(fmt.Sprintf("a/%03d", i))) })
	}
	group.Wait()
	require.NoError(t, put("a"))
	require.NoError(t, put("b/0"))
	scan := func(prefix string) (keys []string) {
		require.NoError(t, s.Scan(t.Context(), "t", prefix, func(key string, value []byte) error {
			assert.Equal(t, "v"+key, string(value))
			keys = append(keys, key)
			return nil
		}))
		return keys
	}
	assert.Len(t, scan("a/"), rows)
	assert.IsIncreasing(t, scan("a/"))
	assert.Len(t, scan(""), rows+2)
	assert.Equal(t, []string{"b/0"}, scan("b"))
	assert.Empty(t, scan("c"))
	stop := errors.New("enough")
	n := 0
	err := s.Scan(t.Context(), "t", "a/", func(key string, _ []byte) error {
		if n++; n == 300 {
			return stop
		}
		return s.Update(t.Context(), "t", key, func([]byte) ([]byte, error) { return nil, nil }) // visit may use the store
	})
	require.ErrorIs(t, err, stop)
	assert.Len(t, scan("a/"), rows-299)
	require.NoError(t, s.Scan(t.Context(), "none", "", func(string, []byte) error { return stop }))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Scan(ctx, "t", "", func(string, []byte) error { return nil }), context.Canceled)
}

func testOutbox(t *testing.T, store func() eventlog.Store) {
	s := store()
	s.Outbox(func(run eventlog.Run, events []eventlog.Event) (writes []eventlog.TableWrite) {
		for _, event := range events {
			writes = append(writes, eventlog.TableWrite{
				Table: "out", Key: fmt.Sprintf("%s/%d", run.ID, event.Sequence), Value: []byte(event.Type + strconv.FormatInt(run.Position, 10)),
			})
			if event.Type == "run.completed" {
				writes = append(writes, eventlog.TableWrite{Table: "out", Key: run.ID + "/0"})
			}
		}
		return writes
	})
	log := create(t, s, "t/1")
	value, err := s.Get(t.Context(), "out", "t/1/0")
	require.NoError(t, err)
	assert.Equal(t, "run.started1", string(value))
	_, err = log.Append(t.Context(), 7, draft("node.started"))
	require.ErrorIs(t, err, eventlog.ErrConflict)
	_, err = s.Create(t.Context(), eventlog.Run{ID: "t/1", Owner: eventlog.Owner{Tenant: "t"}}, false, draft("run.started"), draft("node.started"))
	require.ErrorIs(t, err, eventlog.ErrExists)
	_, err = s.Get(t.Context(), "out", "t/1/1")
	require.ErrorIs(t, err, eventlog.ErrNotFound, "what is refused sends nothing")
	_, err = log.Append(t.Context(), eventlog.AnySequence, draft("node.started"), draft("run.completed"))
	require.NoError(t, err)
	var keys []string
	require.NoError(t, s.Scan(t.Context(), "out", "", func(key string, _ []byte) error {
		keys = append(keys, key)
		return nil
	}))
	assert.Equal(t, []string{"t/1/1", "t/1/2"}, keys)
}

func testActiveRuns(t *testing.T, store func() eventlog.Store) {
	s := store()
	for i := range 300 {
		log := create(t, s, fmt.Sprintf("t/%03d", i))
		if i%3 == 0 {
			_, err := log.Append(t.Context(), eventlog.AnySequence, draft("run.failed"))
			require.NoError(t, err)
		}
	}
	create(t, s, "u/1")
	held, err := s.Create(t.Context(), eventlog.Run{ID: "u/2", Owner: eventlog.Owner{Tenant: "u"}, Held: "completed", Era: eventlog.EraV1}, false, draft("run.started"))
	require.NoError(t, err)
	_, err = held.Append(t.Context(), eventlog.AnySequence, draft("run.cancelled"))
	require.ErrorIs(t, err, eventlog.ErrEnded, "it came with its end")
	seen := make(map[string][]string)
	require.NoError(t, s.ActiveRuns(t.Context(), func(log eventlog.Log) error {
		run := log.Run()
		seen[run.Owner.Tenant] = append(seen[run.Owner.Tenant], run.ID)
		_, err := log.Append(t.Context(), eventlog.AnySequence, draft("run.completed")) // visit may use the store
		return err
	}))
	assert.Len(t, seen["t"], 200)
	assert.IsIncreasing(t, seen["t"])
	assert.Equal(t, []string{"u/1"}, seen["u"])
	require.NoError(t, s.ActiveRuns(t.Context(), func(log eventlog.Log) error { return errors.New(log.Run().ID) }))
}

func testOutcomes(t *testing.T, store func() eventlog.Store) {
	s := store()
	now := time.Unix(1000, 0)
	key := eventlog.RecordKey{Tenant: "t", Endpoint: "createRun", Key: "k"}
	state, _, err := s.Begin(t.Context(), key, [32]byte{1}, now)
	require.NoError(t, err)
	require.Equal(t, eventlog.RecordNew, state)
	outcome := eventlog.Outcome{Key: key, Response: &eventlog.Response{Status: 201, Body: []byte("x")}, Expiry: now.Add(time.Hour)}
	run := eventlog.Run{ID: "t/1", Owner: eventlog.Owner{Tenant: "t"}}
	_, err = s.Create(eventlog.WithOutcome(t.Context(), outcome), run, false, draft("run.started"))
	require.NoError(t, err)
	require.NoError(t, s.Finish(t.Context(), key, outcome.Response, outcome.Expiry))
	require.NoError(t, s.Abandon(t.Context(), key))
	state, response, err := s.Begin(t.Context(), key, [32]byte{1}, now)
	require.NoError(t, err)
	assert.Equal(t, eventlog.RecordDone, state)
	assert.Equal(t, outcome.Response, response)
}
