package eventlog

import (
	"context"
	"hash/maphash"
	"sync"
	"time"
)

// recordShards spreads the idempotency records over locks, so that unrelated requests do not meet.
const recordShards = 64

// sweepEvery is the number of claims in a shard after which its expired records are dropped.
const sweepEvery = 1024

type recordShard struct {
	mu     sync.Mutex
	held   map[RecordKey]*record
	claims int
}

type record struct {
	digest   [32]byte
	response *Response // nil while the request is in flight
	expiry   time.Time
}

func (m *Memory) shard(key RecordKey) *recordShard {
	return &m.records[maphash.Comparable(m.seed, key)%recordShards]
}

// Begin implements Records.
func (m *Memory) Begin(_ context.Context, key RecordKey, digest [32]byte, now time.Time) (RecordState, *Response, error) {
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims++; s.claims%sweepEvery == 0 {
		for k, r := range s.held {
			if r.expired(now) {
				delete(s.held, k)
			}
		}
	}
	held, ok := s.held[key]
	switch {
	case !ok || held.expired(now):
		s.held[key] = &record{digest: digest}
		return RecordNew, nil, nil
	case held.digest != digest:
		return RecordMismatch, nil, nil
	case held.response == nil:
		return RecordInFlight, nil, nil
	default:
		return RecordDone, held.response, nil
	}
}

func (r *record) expired(now time.Time) bool { return r.response != nil && now.After(r.expiry) }

// Finish implements Records.
func (m *Memory) Finish(_ context.Context, key RecordKey, response *Response, expiry time.Time) error {
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if held := s.held[key]; held != nil {
		held.response, held.expiry = response, expiry
	}
	return nil
}

// Abandon implements Records.
func (m *Memory) Abandon(_ context.Context, key RecordKey) error {
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if held := s.held[key]; held != nil && held.response == nil {
		delete(s.held, key)
	}
	return nil
}
