package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"weak"

	bolt "go.etcd.io/bbolt"

	"wopcert/reference-host/internal/eventlog"
)

// log is the log of one run. Its events are read from the file once and then kept for as long as somebody holds the
// log; what is appended is shown when it is on disk, and not before.
type log struct {
	store *Store
	run   eventlog.Run

	// writing is held by the one append under way, mu for a few instructions by everybody, so that a reader never
	// waits for the disk.
	writing sync.Mutex
	mu      sync.Mutex
	loaded  bool
	events  []eventlog.Event
	changed chan struct{} // nil while nobody waits
	ended   bool
}

// keep makes the log the one that everybody gets for its run; the store's lock is held. The store itself holds it
// weakly: a run nobody looks at costs no memory.
func (s *Store) keep(l *log) {
	pointer := weak.Make(l)
	s.logs[l.run.ID] = pointer
	runtime.AddCleanup(l, func(id string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.logs[id] == pointer {
			delete(s.logs, id)
		}
	}, l.run.ID)
}

// Run implements eventlog.Log.
func (l *log) Run() eventlog.Run { return l.run }

// Read implements eventlog.Log.
func (l *log) Read(after int64) ([]eventlog.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.load(); err != nil {
		return nil, err
	}
	from := max(after+1, 0)
	if after > int64(len(l.events)) || from >= int64(len(l.events)) {
		return nil, nil
	}
	return l.events[from:len(l.events):len(l.events)], nil
}

// load reads the events from the file; mu is held.
func (l *log) load() error {
	if l.loaded {
		return nil
	}
	var events []eventlog.Event
	err := l.store.db.View(func(tx *bolt.Tx) error {
		prefix := append([]byte(l.run.ID), 0)
		cursor := tx.Bucket(bucketEvents).Cursor()
		for key, value := cursor.Seek(prefix); bytes.HasPrefix(key, prefix) && len(key) == len(prefix)+8; key, value = cursor.Next() {
			row, err := unseal(key, value)
			if err != nil {
				return err
			}
			event, err := decodeEvent(row)
			if err != nil {
				return fmt.Errorf("run %s, event %d: %w", l.run.ID, len(events), err)
			}
			event.RunID, event.Sequence = l.run.ID, int64(binary.BigEndian.Uint64(key[len(prefix):]))
			if event.Sequence != int64(len(events)) {
				return fmt.Errorf("run %s: event %d is missing", l.run.ID, len(events))
			}
			events = append(events, event)
		}
		return nil
	})
	if err == nil {
		l.events, l.loaded = events, true
	}
	return err
}

// Changed implements eventlog.Log.
func (l *log) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

// Append implements eventlog.Log. It waits for the disk whatever ctx says: an append that was given up might be there.
func (l *log) Append(_ context.Context, expected int64, drafts ...eventlog.Draft) ([]eventlog.Event, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	err := l.load()
	var events []eventlog.Event
	var ended bool
	if err == nil {
		events, ended, err = l.place(expected, drafts)
	}
	l.mu.Unlock()
	if err != nil || len(events) == 0 {
		return nil, err
	}
	ends, added := ended && !l.ended, events
	var sent []func()
	err = l.store.writer.do(func(tx *bolt.Tx) (err error) {
		if ends {
			if err := l.endIn(tx); err != nil {
				return err
			}
		}
		sent, err = l.store.write(tx, l, events)
		return err
	}, func() {
		added = l.show(events, ended)
		call(sent)
	})
	if err != nil {
		return nil, err
	}
	return added, nil
}

// endIn takes the run off the active ones.
func (l *log) endIn(tx *bolt.Tx) error {
	if err := tx.Bucket(bucketActive).Delete(positionKey(l.run.Owner.Tenant, l.run.Position)); err != nil {
		return err
	}
	return tx.Bucket(bucketScopes).Delete(scopeKey(&l.run))
}

// show makes events that are on disk part of what is read, and wakes who waits for them.
func (l *log) show(events []eventlog.Event, ended bool) []eventlog.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := len(l.events)
	l.events, l.ended = append(l.events, events...), ended
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
	return l.events[first:len(l.events):len(l.events)]
}

// place gives drafts their places in the log, and tells whether the run has ended with them.
func (l *log) place(expected int64, drafts []eventlog.Draft) (events []eventlog.Event, ended bool, err error) {
	ended = l.ended
	for _, draft := range drafts {
		if ended && !l.store.follows(draft.Type) {
			return nil, false, eventlog.ErrEnded
		}
		ended = ended || eventlog.Terminal(draft.Type)
	}
	first := len(l.events)
	if expected != eventlog.AnySequence && expected != int64(first)-1 {
		return nil, false, eventlog.ErrConflict
	}
	var before *eventlog.Event
	if first > 0 {
		before = &l.events[first-1]
	}
	events = make([]eventlog.Event, len(drafts))
	for i, draft := range drafts {
		draft.Settle(before)
		events[i] = eventlog.Event{Draft: draft, RunID: l.run.ID, Sequence: int64(first + i), EngineVersion: l.run.EngineVersion}
		before = &events[i]
	}
	return events, ended, nil
}
