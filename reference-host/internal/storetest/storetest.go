// Package storetest holds what every Store has to do, as tests for each implementation to run.
package storetest

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

// Follows treats types that begin with "example." as a vendor's.
func Follows(eventType string) bool {
	return eventlog.MayFollowTerminal(eventType, func(name string) (string, bool) {
		return name, !strings.HasPrefix(name, "example.")
	})
}

// Run runs the tests. open makes an empty store that decides with Follows.
func Run(t *testing.T, open func(t *testing.T) eventlog.Store) {
	for name, test := range map[string]func(*testing.T, func() eventlog.Store){
		"SequencesStartAtZeroAndGrowByOne": testSequencesStartAtZeroAndGrowByOne,
		"AppendIsAllOrNothing":             testAppendIsAllOrNothing,
		"WhatMayFollowTheTerminalEvent":    testWhatMayFollowTheTerminalEvent,
		"TimeNeverRunsBackwardsInALog":     testTimeNeverRunsBackwardsInALog,
		"ConcurrentAppendsLoseNothing":     testConcurrentAppendsLoseNothing,
		"OneTerminalEventWins":             testOneTerminalEventWins,
		"CreateAndOpen":                    testCreateAndOpen,
		"List":                             testList,
		"Scopes":                           testScopes,
		"Records":                          testRecords,
		"AnnotationsAreKeptInOrder":        testAnnotationsAreKeptInOrder,
		"AnnotationsFromManySides":         testAnnotationsFromManySides,
		"ArtifactsBelongToTenants":         testArtifactsBelongToTenants,
		"Tables":                           testTables, "UpdateIsOneStep": testUpdateIsOneStep, "Scan": testScan, "Outbox": testOutbox,
		"ActiveRuns": testActiveRuns, "Outcomes": testOutcomes,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func() eventlog.Store { return open(t) })
		})
	}
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

func testSequencesStartAtZeroAndGrowByOne(t *testing.T, store func() eventlog.Store) {
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

func testAppendIsAllOrNothing(t *testing.T, store func() eventlog.Store) {
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

func testWhatMayFollowTheTerminalEvent(t *testing.T, store func() eventlog.Store) {
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

func testTimeNeverRunsBackwardsInALog(t *testing.T, store func() eventlog.Store) {
	log := create(t, store(), "t/1")
	early := draft("node.started")
	early.Timestamp = time.Unix(0, 0)
	added, err := log.Append(t.Context(), eventlog.AnySequence, early)
	require.NoError(t, err)
	assert.Equal(t, time.Unix(1, 0), added[0].Timestamp)
}

func testConcurrentAppendsLoseNothing(t *testing.T, store func() eventlog.Store) {
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

func testOneTerminalEventWins(t *testing.T, store func() eventlog.Store) {
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

func testCreateAndOpen(t *testing.T, store func() eventlog.Store) {
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

func testList(t *testing.T, store func() eventlog.Store) {
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

func testScopes(t *testing.T, store func() eventlog.Store) {
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

func testRecords(t *testing.T, store func() eventlog.Store) {
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
