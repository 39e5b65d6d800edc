package eventlog

import (
	"context"
	"hash/maphash"
	"sync"
)

// Memory is a Store in the memory of the process. Use NewMemory.
type Memory struct {
	follows     func(eventType string) bool
	seed        maphash.Seed
	runs        sync.Map // run id -> *memoryLog
	tenants     sync.Map // tenant -> *tenantRuns
	scopes      sync.Map // tenant, scope -> *scopeHolders
	annotations sync.Map // run id -> *annotationList
	artifacts   sync.Map // tenant, artifact id -> Artifact
	tables      sync.Map // table name -> *memoryTable
	outbox      Outbox
	records     [recordShards]recordShard
}

// NewMemory returns an empty store. follows says whether an event of a type may stand after the terminal one.
func NewMemory(follows func(eventType string) bool) *Memory {
	m := &Memory{follows: follows, seed: maphash.MakeSeed()}
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
	log.mu.Lock() // who finds the log waits until everything that belongs to its creation is there
	defer log.mu.Unlock()
	events, err := log.append(-1, first)
	if err != nil {
		return nil, err
	}
	log.ended = log.ended || Ended(log.run.Held)
	runs := load(&m.tenants, log.run.Owner.Tenant, func() *tenantRuns { return new(tenantRuns) })
	runs.mu.Lock()
	defer runs.mu.Unlock()
	log.run.Position = int64(len(runs.logs)) + 1
	if _, taken := m.runs.LoadOrStore(log.run.ID, log); taken {
		return nil, ErrExists
	}
	runs.logs = append(runs.logs, log)
	log.send(events)
	if outcome := OutcomeOf(ctx); outcome != nil {
		return log, m.Finish(ctx, outcome.Key, outcome.Response, outcome.Expiry)
	}
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

// ActiveRuns implements Store.
func (m *Memory) ActiveRuns(ctx context.Context, visit func(Log) error) (err error) {
	m.tenants.Range(func(_, held any) bool {
		runs := held.(*tenantRuns)
		runs.mu.RLock()
		logs := runs.logs[:len(runs.logs):len(runs.logs)]
		runs.mu.RUnlock()
		for _, log := range logs {
			if log.hasEnded() {
				continue
			}
			if err = ctx.Err(); err == nil {
				err = visit(log)
			}
			if err != nil {
				return false
			}
		}
		return true
	})
	return err
}

// Outbox implements Store.
func (m *Memory) Outbox(outbox Outbox) { m.outbox = outbox }

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
	events, err := l.append(expected, drafts)
	if err != nil {
		return nil, err
	}
	l.send(events)
	if l.changed != nil && len(drafts) > 0 {
		close(l.changed)
		l.changed = nil
	}
	return events, nil
}

// send writes what the outbox makes of new events; the lock is held.
func (l *memoryLog) send(events []Event) {
	if outbox := l.store.outbox; outbox != nil && len(events) > 0 {
		l.store.write(outbox(l.run, events))
	}
}

// append adds events; the lock is held.
func (l *memoryLog) append(expected int64, drafts []Draft) ([]Event, error) {
	ended := l.ended
	for _, draft := range drafts {
		if ended && !l.store.follows(draft.Type) {
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
		if n := len(l.events); n > 0 {
			draft.Settle(&l.events[n-1])
		}
		l.events = append(l.events, Event{
			Draft: draft, RunID: l.run.ID, Sequence: int64(first + i), EngineVersion: l.run.EngineVersion,
		})
	}
	l.ended = ended
	return l.events[first:len(l.events):len(l.events)], nil
}
