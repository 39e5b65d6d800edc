package eventlog

import (
	"context"
	"hash/maphash"
	"sync"
)

// Memory is a Store in the memory of the process. Use NewMemory.
type Memory struct {
	vendor      func(eventType string) bool
	seed        maphash.Seed
	runs        sync.Map // run id -> *memoryLog
	tenants     sync.Map // tenant -> *tenantRuns
	scopes      sync.Map // tenant, scope -> *scopeHolders
	annotations sync.Map // run id -> *annotationList
	artifacts   sync.Map // tenant, artifact id -> Artifact
	records     [recordShards]recordShard
}

// NewMemory returns an empty store. vendor says whether a type is a vendor's rather than the protocol's.
func NewMemory(vendor func(eventType string) bool) *Memory {
	m := &Memory{vendor: vendor, seed: maphash.MakeSeed()}
	for i := range m.records {
		m.records[i].held = make(map[RecordKey]*record)
	}
	return m
}

type tenantRuns struct {
	mu   sync.RWMutex
	logs []*memoryLog // creation order
}

type scopeHolders struct {
	mu   sync.Mutex
	logs []*memoryLog
}

type scopeKey struct{ tenant, scope string }

// Create implements Store.
func (m *Memory) Create(ctx context.Context, run Run, exclusive bool, first ...Draft) (Log, error) {
	log := &memoryLog{store: m, run: run}
	if run.ScopeID == "" {
		return m.create(ctx, log, first)
	}
	holders := load(&m.scopes, scopeKey{run.Owner.Tenant, run.ScopeID}, func() *scopeHolders { return new(scopeHolders) })
	holders.mu.Lock()
	defer holders.mu.Unlock()
	active := holders.logs[:0]
	for _, holder := range holders.logs {
		if !holder.hasEnded() {
			active = append(active, holder)
		}
	}
	clear(holders.logs[len(active):])
	holders.logs = active
	if exclusive && len(active) > 0 {
		return nil, &ScopeHeldError{RunID: active[0].run.ID, Until: active[0].run.Deadline}
	}
	created, err := m.create(ctx, log, first)
	if err == nil {
		holders.logs = append(holders.logs, log)
	}
	return created, err
}

func (m *Memory) create(ctx context.Context, log *memoryLog, first []Draft) (Log, error) {
	if _, err := log.Append(ctx, -1, first...); err != nil {
		return nil, err
	}
	runs := load(&m.tenants, log.run.Owner.Tenant, func() *tenantRuns { return new(tenantRuns) })
	runs.mu.Lock()
	defer runs.mu.Unlock()
	log.run.Position = int64(len(runs.logs)) + 1
	if _, taken := m.runs.LoadOrStore(log.run.ID, log); taken {
		return nil, ErrExists
	}
	runs.logs = append(runs.logs, log)
	return log, nil
}

func load[V any](m *sync.Map, key any, make func() V) V {
	if v, ok := m.Load(key); ok {
		return v.(V)
	}
	v, _ := m.LoadOrStore(key, make())
	return v.(V)
}

// Open implements Store.
func (m *Memory) Open(_ context.Context, runID string) (Log, error) {
	log, ok := m.runs.Load(runID)
	if !ok {
		return nil, ErrNotFound
	}
	return log.(*memoryLog), nil
}

// List implements Store.
func (m *Memory) List(_ context.Context, tenant string, before int64, limit int) ([]Log, error) {
	held, ok := m.tenants.Load(tenant)
	if !ok {
		return nil, nil
	}
	runs := held.(*tenantRuns)
	runs.mu.RLock()
	defer runs.mu.RUnlock()
	end := len(runs.logs)
	if before > 0 {
		end = min(end, int(before)-1)
	}
	var page []Log
	for i := end - 1; i >= 0 && len(page) < limit; i-- {
		page = append(page, runs.logs[i])
	}
	return page, nil
}

// memoryLog keeps the events of one run. Its lock is held for the few instructions of an append or of taking a slice,
// never while anybody reads or writes elsewhere, so that no reader can hold up another or the run.
type memoryLog struct {
	store *Memory
	run   Run

	mu      sync.Mutex
	events  []Event
	changed chan struct{} // nil while nobody waits
	ended   bool
}

func (l *memoryLog) Run() Run { return l.run }

func (l *memoryLog) hasEnded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

func (l *memoryLog) Read(after int64) ([]Event, error) {
	l.mu.Lock()
	events := l.events
	l.mu.Unlock()
	from := max(after+1, 0)
	if after > int64(len(events)) || from >= int64(len(events)) {
		return nil, nil
	}
	return events[from:len(events):len(events)], nil
}

func (l *memoryLog) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

func (l *memoryLog) Append(_ context.Context, expected int64, drafts ...Draft) ([]Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ended := l.ended
	for _, draft := range drafts {
		if ended && !MayFollowTerminal(draft.Type, l.store.vendor) {
			return nil, ErrEnded
		}
		ended = ended || Terminal(draft.Type)
	}
	first := len(l.events)
	if expected != AnySequence && expected != int64(first)-1 {
		return nil, ErrConflict
	}
	if l.events == nil {
		l.events = make([]Event, 0, 4) // the shortest run writes four
	}
	for i, draft := range drafts {
		if n := len(l.events); n > 0 && draft.Timestamp.Before(l.events[n-1].Timestamp) {
			draft.Timestamp = l.events[n-1].Timestamp // two writers, or a clock set back, must not reorder a log
		}
		l.events = append(l.events, Event{
			Draft: draft, RunID: l.run.ID, Sequence: int64(first + i), EngineVersion: l.run.EngineVersion,
		})
	}
	l.ended = ended
	if l.changed != nil && len(drafts) > 0 {
		close(l.changed)
		l.changed = nil
	}
	return l.events[first:len(l.events):len(l.events)], nil
}
