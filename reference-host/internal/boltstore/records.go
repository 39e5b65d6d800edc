package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"wopcert/reference-host/internal/eventlog"
)

// sweepMost bounds how many expired records one write removes.
const sweepMost = 16

// records are the idempotency records. One that is being processed is in memory only: with the process, the request it
// belongs to is gone too.
type records struct {
	recordsMu sync.Mutex
	claimed   map[eventlog.RecordKey]*claim
	now       time.Time // the latest time a Begin has seen
}

// claim is a record that is being processed. done says that its outcome is on disk already.
type claim struct {
	digest [32]byte
	done   bool
}

// recordRow is a finished record as it is stored.
type recordRow struct {
	Digest   []byte             `json:"digest"`
	Response *eventlog.Response `json:"response"`
	Expiry   time.Time          `json:"expiry"`
}

// Begin implements eventlog.Records.
func (s *Store) Begin(_ context.Context, key eventlog.RecordKey, digest [32]byte, now time.Time) (eventlog.RecordState, *eventlog.Response, error) {
	s.recordsMu.Lock()
	defer s.recordsMu.Unlock()
	if now.After(s.now) {
		s.now = now
	}
	if claim, ok := s.claimed[key]; ok {
		if claim.digest != digest {
			return eventlog.RecordMismatch, nil, nil
		}
		return eventlog.RecordInFlight, nil, nil
	}
	var held *recordRow
	err := s.db.View(func(tx *bolt.Tx) (err error) { // not writer.view: the writer may wait for the lock held here
		held, err = readRecord(tx, key)
		return err
	})
	switch {
	case err != nil:
		return 0, nil, err
	case held == nil || now.After(held.Expiry):
		s.claimed[key] = &claim{digest: digest}
		return eventlog.RecordNew, nil, nil
	case !bytes.Equal(held.Digest, digest[:]):
		return eventlog.RecordMismatch, nil, nil
	}
	return eventlog.RecordDone, held.Response, nil
}

// Finish implements eventlog.Records.
func (s *Store) Finish(_ context.Context, key eventlog.RecordKey, response *eventlog.Response, expiry time.Time) error {
	held, done := s.claim(key)
	if held == nil {
		return nil
	}
	if !done {
		if err := s.writer.do(func(tx *bolt.Tx) error { return s.finish(tx, key, held.digest, response, expiry) }, nil); err != nil {
			return err
		}
	}
	s.recordsMu.Lock()
	defer s.recordsMu.Unlock()
	delete(s.claimed, key)
	return nil
}

func (s *Store) claim(key eventlog.RecordKey) (held *claim, done bool) {
	s.recordsMu.Lock()
	defer s.recordsMu.Unlock()
	held = s.claimed[key]
	return held, held != nil && held.done
}

// finishWith finishes the record whose outcome a write is the cause of, in the same transaction: a process that dies
// behind it has done the work once and answers for it once.
func (s *Store) finishWith(outcome *eventlog.Outcome, tx *bolt.Tx) error {
	if outcome == nil {
		return nil
	}
	held, _ := s.claim(outcome.Key)
	if held == nil {
		return nil
	}
	return s.finish(tx, outcome.Key, held.digest, outcome.Response, outcome.Expiry)
}

// finished says that the outcome is on disk.
func (s *Store) finished(outcome *eventlog.Outcome) {
	if outcome == nil {
		return
	}
	s.recordsMu.Lock()
	defer s.recordsMu.Unlock()
	if held := s.claimed[outcome.Key]; held != nil {
		held.done = true
	}
}

// Abandon implements eventlog.Records.
func (s *Store) Abandon(_ context.Context, key eventlog.RecordKey) error {
	s.recordsMu.Lock()
	defer s.recordsMu.Unlock()
	delete(s.claimed, key)
	return nil
}

func (s *Store) finish(tx *bolt.Tx, key eventlog.RecordKey, digest [32]byte, response *eventlog.Response, expiry time.Time) error {
	row, err := encode(recordRow{Digest: digest[:], Response: response, Expiry: expiry})
	if err != nil {
		return err
	}
	id := recordID(key)
	if err := put(tx.Bucket(bucketRecords), id, row); err != nil {
		return err
	}
	if err := put(tx.Bucket(bucketExpiries), expiryKey(expiry, id), nil); err != nil {
		return err
	}
	return s.sweep(tx)
}

// sweep removes records that have expired, the oldest first.
func (s *Store) sweep(tx *bolt.Tx) error {
	s.recordsMu.Lock()
	now := s.now
	s.recordsMu.Unlock()
	expiries, records := tx.Bucket(bucketExpiries), tx.Bucket(bucketRecords)
	for range sweepMost {
		first, _ := expiries.Cursor().First()
		if len(first) < 8 || now.UnixMilli() <= int64(binary.BigEndian.Uint64(first)) {
			return nil
		}
		id := bytes.Clone(first[8:])
		if err := expiries.Delete(first); err != nil {
			return err
		}
		held, err := decodeRecord(id, records.Get(id))
		if err != nil {
			return err
		}
		if held != nil && now.After(held.Expiry) { // else the key was used again since
			if err := records.Delete(id); err != nil {
				return err
			}
		}
	}
	return nil
}

func readRecord(tx *bolt.Tx, key eventlog.RecordKey) (*recordRow, error) {
	id := recordID(key)
	return decodeRecord(id, tx.Bucket(bucketRecords).Get(id))
}

func decodeRecord(id, sealed []byte) (*recordRow, error) {
	if sealed == nil {
		return nil, nil
	}
	value, err := unseal(id, sealed)
	if err != nil {
		return nil, err
	}
	held := new(recordRow)
	return held, json.Unmarshal(value, held)
}

func recordID(key eventlog.RecordKey) []byte {
	return []byte(key.Tenant + "\x00" + key.Endpoint + "\x00" + key.Key)
}

func expiryKey(expiry time.Time, id []byte) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(expiry.UnixMilli())), id...)
}
