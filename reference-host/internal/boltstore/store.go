// Package boltstore is a Store in one file on disk. Whatever it has acknowledged survives the death of the process at
// any moment; what it has not is there whole or not at all. Every write of the host becomes part of a transaction of
// the file, and writes that come while one is being synced share the next.
package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"weak"

	bolt "go.etcd.io/bbolt"

	"wopcert/reference-host/internal/eventlog"
)

// The buckets of the file. Every value in them is sealed, see seal.
var (
	bucketMeta        = []byte("wopcert")     // format and version
	bucketRuns        = []byte("runs")        // run id -> run
	bucketEvents      = []byte("events")      // run id, 0, sequence -> event
	bucketTenants     = []byte("tenants")     // tenant, 0, position -> run id
	bucketActive      = []byte("active")      // tenant, 0, position -> run id, while the run has not ended
	bucketScopes      = []byte("scopes")      // tenant, 0, scope, 0, run id -> nothing, while the run has not ended
	bucketRecords     = []byte("records")     // tenant, 0, endpoint, 0, key -> finished idempotency record
	bucketExpiries    = []byte("expiries")    // expiry, record key -> nothing
	bucketAnnotations = []byte("annotations") // run id, 0, number -> annotation
	bucketArtifacts   = []byte("artifacts")   // tenant, 0, artifact id -> artifact
	bucketTables      = []byte("tables")      // a bucket for each table
)

// Store is an eventlog.Store in a file. Make it with Open and Close it.
type Store struct {
	db      *bolt.DB
	follows func(eventType string) bool
	outbox  eventlog.Outbox
	writer  *writer

	mu   sync.Mutex
	logs map[string]weak.Pointer[log] // one log for each run that somebody holds
	records
}

// Close ends the store. Writes that are under way are finished, later ones fail.
func (s *Store) Close() error {
	s.writer.close()
	return s.db.Close()
}

// Outbox implements eventlog.Store.
func (s *Store) Outbox(outbox eventlog.Outbox) { s.outbox = outbox }

// Create implements eventlog.Store.
func (s *Store) Create(ctx context.Context, run eventlog.Run, exclusive bool, first ...eventlog.Draft) (eventlog.Log, error) {
	l := &log{store: s, run: run, loaded: true}
	events, ended, err := l.place(-1, first)
	if err != nil {
		return nil, err
	}
	l.events, l.ended = events, ended || eventlog.Ended(run.Held)
	outcome := eventlog.OutcomeOf(ctx)
	var sent []func()
	err = s.writer.do(func(tx *bolt.Tx) (err error) {
		if sent, err = s.insert(tx, l, exclusive); err != nil {
			return err
		}
		return s.finishWith(outcome, tx)
	}, func() {
		s.finished(outcome)
		l = s.register(l)
		call(sent)
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// register makes a new log the one for its run, unless somebody has found the run in the file already.
func (s *Store) register(l *log) *log {
	s.mu.Lock()
	defer s.mu.Unlock()
	if opened := s.logs[l.run.ID].Value(); opened != nil {
		return opened
	}
	s.keep(l)
	return l
}

func call(all []func()) {
	for _, f := range all {
		f()
	}
}

// insert writes a new run. Nothing is written when it is refused.
func (s *Store) insert(tx *bolt.Tx, l *log, exclusive bool) (sent []func(), err error) {
	run := &l.run
	if tx.Bucket(bucketRuns).Get([]byte(run.ID)) != nil {
		return nil, refused{eventlog.ErrExists}
	}
	if exclusive && run.ScopeID != "" {
		if err := s.scopeFree(tx, run); err != nil {
			return nil, err
		}
	}
	run.Position = lastPosition(tx, run.Owner.Tenant) + 1
	record, err := encodeRun(run)
	if err != nil {
		return nil, err
	}
	position := positionKey(run.Owner.Tenant, run.Position)
	if err := errors.Join(put(tx.Bucket(bucketRuns), []byte(run.ID), record), put(tx.Bucket(bucketTenants), position, []byte(run.ID))); err != nil {
		return nil, err
	}
	if !l.ended {
		err = put(tx.Bucket(bucketActive), position, []byte(run.ID))
		if run.ScopeID != "" {
			err = errors.Join(err, put(tx.Bucket(bucketScopes), scopeKey(run), nil))
		}
		if err != nil {
			return nil, err
		}
	}
	return s.write(tx, l, l.events)
}

// scopeFree fails when an active run holds the scope.
func (s *Store) scopeFree(tx *bolt.Tx, run *eventlog.Run) error {
	prefix := append(append([]byte(run.Owner.Tenant), 0), append([]byte(run.ScopeID), 0)...)
	key, _ := tx.Bucket(bucketScopes).Cursor().Seek(prefix)
	if !bytes.HasPrefix(key, prefix) {
		return nil
	}
	id := string(key[len(prefix):])
	holder, err := readRun(tx, id)
	if err != nil {
		return err
	}
	return refused{&eventlog.ScopeHeldError{RunID: id, Until: holder.Deadline}}
}

// write adds events to the file, and what the outbox makes of them; sent is what wants to be told once it is there.
func (s *Store) write(tx *bolt.Tx, l *log, events []eventlog.Event) (sent []func(), err error) {
	bucket := tx.Bucket(bucketEvents)
	for i := range events {
		if err := put(bucket, eventKey(l.run.ID, events[i].Sequence), encodeEvent(&events[i])); err != nil {
			return nil, err
		}
	}
	if s.outbox == nil || len(events) == 0 {
		return nil, nil
	}
	for _, w := range s.outbox(l.run, events) {
		table, err := tx.Bucket(bucketTables).CreateBucketIfNotExists([]byte(w.Table))
		if err != nil {
			return nil, err
		}
		if err := putOrDelete(table, w.Key, w.Value); err != nil {
			return nil, err
		}
		if w.Written != nil {
			sent = append(sent, w.Written)
		}
	}
	return sent, nil
}

// Open implements eventlog.Store.
func (s *Store) Open(_ context.Context, runID string) (eventlog.Log, error) { return s.open(runID) }

func (s *Store) open(runID string) (*log, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.logs[runID].Value(); l != nil {
		return l, nil
	}
	l := &log{store: s}
	err := s.db.View(func(tx *bolt.Tx) (err error) {
		if l.run, err = readRun(tx, runID); err != nil {
			return err
		}
		l.ended = tx.Bucket(bucketActive).Get(positionKey(l.run.Owner.Tenant, l.run.Position)) == nil
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.keep(l)
	return l, nil
}

// List implements eventlog.Store.
func (s *Store) List(_ context.Context, tenant string, before int64, limit int) ([]eventlog.Log, error) {
	var ids []string
	err := s.writer.view(func(tx *bolt.Tx) error {
		prefix := append([]byte(tenant), 0)
		cursor := tx.Bucket(bucketTenants).Cursor()
		for key, value := last(cursor, prefix, before); bytes.HasPrefix(key, prefix) && len(ids) < limit; key, value = cursor.Prev() {
			id, err := unseal(key, value)
			if err != nil {
				return err
			}
			ids = append(ids, string(id))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	page := make([]eventlog.Log, len(ids))
	for i, id := range ids {
		if page[i], err = s.open(id); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// last places the cursor on the last position of a tenant before the given one, 0 being behind them all.
func last(cursor *bolt.Cursor, prefix []byte, before int64) (key, value []byte) {
	end := append(bytes.Clone(prefix[:len(prefix)-1]), 1)
	if before > 0 {
		end = binary.BigEndian.AppendUint64(bytes.Clone(prefix), uint64(before))
	}
	if key, _ := cursor.Seek(end); key == nil {
		return cursor.Last()
	}
	return cursor.Prev()
}

func lastPosition(tx *bolt.Tx, tenant string) int64 {
	prefix := append([]byte(tenant), 0)
	key, _ := last(tx.Bucket(bucketTenants).Cursor(), prefix, 0)
	if !bytes.HasPrefix(key, prefix) {
		return 0
	}
	return int64(binary.BigEndian.Uint64(key[len(prefix):]))
}

// ActiveRuns implements eventlog.Store.
func (s *Store) ActiveRuns(ctx context.Context, visit func(eventlog.Log) error) error {
	return s.scan(ctx, func(tx *bolt.Tx) *bolt.Bucket { return tx.Bucket(bucketActive) }, nil, func(_, id []byte) error {
		l, err := s.open(string(id))
		if err != nil {
			return err
		}
		return visit(l)
	})
}

func positionKey(tenant string, position int64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(tenant), 0), uint64(position))
}

func scopeKey(run *eventlog.Run) []byte {
	return []byte(run.Owner.Tenant + "\x00" + run.ScopeID + "\x00" + run.ID)
}

func eventKey(runID string, sequence int64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(runID), 0), uint64(sequence))
}
