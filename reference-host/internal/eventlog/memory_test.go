package eventlog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/reference-host/internal/eventlog"
)

func store() *eventlog.Memory {
	return eventlog.NewMemory(func(eventType string) bool { return strings.HasPrefix(eventType, "example.") })
}

func draft(eventType string) eventlog.Draft {
	return eventlog.Draft{EventID: "event-0123456789", Type: eventType, Payload: json.RawMessage(`{}`), Timestamp: time.Unix(1, 0)}
}

func create(t *testing.T, s eventlog.Store, id string) eventlog.Log {
	t.Helper()
	tenant, _, _ := strings.Cut(id, "/")
	log, err := s.Create(t.Context(), eventlog.Run{ID: id, Owner: eventlog.Owner{Tenant: tenant}}, false, draft("run.started"))
	require.NoError(t, err)
	return log
}

func TestSequencesStartAtZeroAndGrowByOne(t *testing.T) {
	t.Parallel()
	log := create(t, store(), "t/1")
	added, err := log.Append(t.Context(), 0, draft("node.started"), draft("node.completed"))
	require.NoError(t, err)
	require.Len(t, added, 2)
	events, err := log.Read(-1)
	require.NoError(t, err)
	for i, event := range events {
		assert.Equal(t, int64(i), event.Sequence)
		assert.Equal(t, "t/1", event.RunID)
	}
	for after, want := range map[int64]int{-5: 3, -1: 3, 0: 2, 1: 1, 2: 0, 3: 0, math.MaxInt64: 0, math.MinInt64: 3} {
		events, err := log.Read(after)
		require.NoError(t, err)
		assert.Len(t, events, want, after)
	}
}

func TestAppendIsAllOrNothing(t *testing.T) {
	t.Parallel()
	log := create(t, store(), "t/1")
	for _, drafts := range [][]eventlog.Draft{
		{draft("node.started"), draft("run.completed"), draft("node.completed")},
		{draft("run.completed"), draft("run.failed")},
	} {
		_, err := log.Append(t.Context(), eventlog.AnySequence, drafts...)
		require.ErrorIs(t, err, eventlog.ErrEnded)
	}
	_, err := log.Append(t.Context(), 7, draft("node.started"))
	require.ErrorIs(t, err, eventlog.ErrConflict)
	events, err := log.Read(-1)
	require.NoError(t, err)
	assert.Len(t, events, 1)
}

func TestWhatMayFollowTheTerminalEvent(t *testing.T) {
	t.Parallel()
	log := create(t, store(), "t/1")
	_, err := log.Append(t.Context(), eventlog.AnySequence, draft("run.completed"))
	require.NoError(t, err)
	for _, refused := range []string{
		"run.completed", "run.failed", "run.cancelled", "run.started", "run.resumed", "run.resume-started", "run.paused",
		"run.restored-from-snapshot", "node.started", "node.completed", "node.cancelled", "interrupt.requested", "interrupt.resolved",
		"log.appended", "variable.changed", "output.chunk",
	} {
		_, err := log.Append(t.Context(), 0, draft(refused)) // the sequence is not even looked at
		require.ErrorIs(t, err, eventlog.ErrEnded, refused)
	}
	for _, allowed := range []string{"compensation.started", "run.dead-lettered", "example.noted"} {
		_, err := log.Append(t.Context(), eventlog.AnySequence, draft(allowed))
		require.NoError(t, err, allowed)
	}
}

func TestTimeNeverRunsBackwardsInALog(t *testing.T) {
	t.Parallel()
	log := create(t, store(), "t/1")
	early := draft("node.started")
	early.Timestamp = time.Unix(0, 0)
	added, err := log.Append(t.Context(), eventlog.AnySequence, early)
	require.NoError(t, err)
	assert.Equal(t, time.Unix(1, 0), added[0].Timestamp)
}

func TestConcurrentAppendsLoseNothing(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 200
	log := create(t, store(), "t/1")
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for range each {
				if _, err := log.Append(context.Background(), eventlog.AnySequence, draft("log.appended")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 4 {
		group.Go(func() {
			last := int64(-1)
			for last < writers*each {
				changed := log.Changed()
				events, err := log.Read(last)
				if err != nil {
					t.Error(err)
					return
				}
				for _, event := range events {
					if last++; event.Sequence != last {
						t.Errorf("sequence %d after %d", event.Sequence, last-1)
						return
					}
				}
				if len(events) == 0 {
					<-changed
				}
			}
		})
	}
	group.Wait()
}

func TestOneTerminalEventWins(t *testing.T) {
	t.Parallel()
	log := create(t, store(), "t/1")
	wins := make(chan string, 3)
	var group sync.WaitGroup
	for _, terminal := range []string{"run.completed", "run.failed", "run.cancelled"} {
		group.Go(func() {
			if _, err := log.Append(context.Background(), eventlog.AnySequence, draft(terminal)); err == nil {
				wins <- terminal
			}
		})
	}
	group.Wait()
	assert.Len(t, wins, 1)
}

func TestCreateAndOpen(t *testing.T) {
	t.Parallel()
	s := store()
	log := create(t, s, "t/1")
	opened, err := s.Open(t.Context(), "t/1")
	require.NoError(t, err)
	assert.Equal(t, log, opened)
	_, err = s.Open(t.Context(), "t/2")
	require.ErrorIs(t, err, eventlog.ErrNotFound)
	_, err = s.Create(t.Context(), eventlog.Run{ID: "t/1", Owner: eventlog.Owner{Tenant: "t"}}, false, draft("run.started"))
	require.ErrorIs(t, err, eventlog.ErrExists)
	page, err := s.List(t.Context(), "t", 0, 10)
	require.NoError(t, err)
	assert.Len(t, page, 1, "a refused create leaves nothing")
}

func TestList(t *testing.T) {
	t.Parallel()
	s := store()
	for i := range 5 {
		create(t, s, fmt.Sprintf("t/%d", i))
	}
	create(t, s, "u/x")
	list := func(before int64, limit int) (ids []string) {
		logs, err := s.List(t.Context(), "t", before, limit)
		require.NoError(t, err)
		for _, log := range logs {
			ids = append(ids, log.Run().ID)
		}
		return ids
	}
	assert.Equal(t, []string{"t/4", "t/3"}, list(0, 2))
	assert.Equal(t, []string{"t/2", "t/1", "t/0"}, list(4, 10))
	assert.Empty(t, list(1, 10))
	assert.Equal(t, []string{"t/4"}, list(999, 1))
	nobody, err := s.List(t.Context(), "nobody", 0, 10)
	require.NoError(t, err)
	assert.Empty(t, nobody)
}

func TestScopes(t *testing.T) {
	t.Parallel()
	s := store()
	n := 0
	try := func(tenant, scope string, exclusive bool) (eventlog.Log, error) {
		n++
		return s.Create(t.Context(), eventlog.Run{
			ID: fmt.Sprintf("%s/%d", tenant, n), ScopeID: scope, Owner: eventlog.Owner{Tenant: tenant},
		}, exclusive, draft("run.started"))
	}
	first, err := try("t", "s", false)
	require.NoError(t, err)
	second, err := try("t", "s", false)
	require.NoError(t, err)
	_, err = try("t", "s", true)
	var held *eventlog.ScopeHeldError
	require.ErrorAs(t, err, &held)
	assert.Equal(t, "t/1", held.RunID)
	_, err = try("u", "s", true)
	require.NoError(t, err)
	for _, log := range []eventlog.Log{first, second} {
		_, err = try("t", "s", true)
		require.ErrorAs(t, err, &held)
		_, err = log.Append(t.Context(), eventlog.AnySequence, draft("run.cancelled"))
		require.NoError(t, err)
	}
	_, err = try("t", "s", true)
	require.NoError(t, err)
}

func TestRecords(t *testing.T) {
	t.Parallel()
	s := store()
	now := time.Unix(1000, 0)
	key := eventlog.RecordKey{Tenant: "t", Endpoint: "e", Key: "k"}
	begin := func(digest byte, at time.Time) eventlog.RecordState {
		state, _, err := s.Begin(t.Context(), key, [32]byte{digest}, at)
		require.NoError(t, err)
		return state
	}
	assert.Equal(t, eventlog.RecordNew, begin(1, now))
	assert.Equal(t, eventlog.RecordInFlight, begin(1, now))
	assert.Equal(t, eventlog.RecordMismatch, begin(2, now))
	require.NoError(t, s.Abandon(t.Context(), key))
	assert.Equal(t, eventlog.RecordNew, begin(2, now))
	require.NoError(t, s.Finish(t.Context(), key, &eventlog.Response{Status: 201}, now.Add(time.Hour)))
	require.NoError(t, s.Abandon(t.Context(), key), "what is finished is not given back")
	assert.Equal(t, eventlog.RecordDone, begin(2, now.Add(time.Hour)))
	assert.Equal(t, eventlog.RecordMismatch, begin(1, now.Add(time.Hour)))
	assert.Equal(t, eventlog.RecordNew, begin(1, now.Add(time.Hour+1)))
}

func TestExpiredRecordsAreDropped(t *testing.T) {
	t.Parallel()
	s := store()
	now := time.Unix(1000, 0)
	for i := range 200_000 { // some thousand to each shard, every one expired when the next comes
		key := eventlog.RecordKey{Tenant: "t", Endpoint: "e", Key: fmt.Sprint(i)}
		_, _, err := s.Begin(t.Context(), key, [32]byte{}, now)
		require.NoError(t, err)
		require.NoError(t, s.Finish(t.Context(), key, &eventlog.Response{}, now))
		now = now.Add(time.Second)
	}
	assert.Less(t, s.RecordCount(), 100_000)
}

func TestEventJSON(t *testing.T) {
	t.Parallel()
	event := eventlog.Event{
		Draft: eventlog.Draft{
			EventID: "e", Type: "node.started", Payload: json.RawMessage(`{"nodeId":"n"}`), NodeID: "n\"\\é\x01", CausationID: "c",
			Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 6_700_000, time.FixedZone("x", 3600)),
		},
		RunID: "t/1", Sequence: 4, EngineVersion: 1,
	}
	var got map[string]any
	data, err := json.Marshal(event)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &got))
	assert.Equal(t, map[string]any{
		"eventId": "e", "runId": "t/1", "type": "node.started", "payload": map[string]any{"nodeId": "n"}, "timestamp": "2026-01-02T02:04:05.006Z",
		"sequence": 4.0, "schemaVersion": 1.0, "nodeId": "n\"\\é\x01", "engineVersion": 1.0, "causationId": "c",
	}, got)
}
