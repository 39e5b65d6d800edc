package eventlog

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// Tables are keyed records that belong to no log: the deliveries, the ledger of effects, and what else the parts of a
// host keep. Values are opaque; each part wraps its tables in types of its own. All methods are safe for concurrent
// use, and a value handed out or in is nobody's to change.
type Tables interface {
	// Get returns the value of a key, or ErrNotFound.
	Get(ctx context.Context, table, key string) ([]byte, error)
	// Update reads and writes one key in one step: no other write of the key comes between. change gets nil for a key
	// that is absent and returns nil to have it absent. An error of change is returned and nothing is written. change
	// may be called more than once, must not call the Store, and must not keep or change what it gets.
	Update(ctx context.Context, table, key string, change func(now []byte) ([]byte, error)) error
	// Scan visits the keys that begin with prefix in ascending byte order, until visit fails; that error is returned.
	// visit may use the Store. What is written while the scan goes on may or may not be visited.
	Scan(ctx context.Context, table, prefix string, visit func(key string, value []byte) error) error
}

// TableWrite is one write into a table. A nil Value deletes the key.
type TableWrite struct {
	Table, Key string
	Value      []byte
	// Written, when it is set, is called once the step is done and the row can be read. It must be quick and must not
	// call the Store.
	Written func()
}

// Outbox says what is written into tables in the same atomic step as events into a log: the events of a run's creation
// as well as those of Append, history of a fork included. It must be quick and must not call the Store.
type Outbox func(run Run, events []Event) []TableWrite

// scanPage is how many rows a scan takes at a time.
const scanPage = 256

// memoryTable keeps its keys sorted beside the map. Most keys grow with time, so that an insert is at the end.
type memoryTable struct {
	mu     sync.RWMutex
	keys   []string
	values map[string][]byte
}

func (m *Memory) table(name string) *memoryTable {
	return load(&m.tables, name, func() *memoryTable { return &memoryTable{values: make(map[string][]byte)} })
}

// Get implements Tables.
func (m *Memory) Get(_ context.Context, table, key string) ([]byte, error) {
	t := m.table(table)
	t.mu.RLock()
	defer t.mu.RUnlock()
	value, ok := t.values[key]
	if !ok {
		return nil, ErrNotFound
	}
	return value, nil
}

// Update implements Tables.
func (m *Memory) Update(_ context.Context, table, key string, change func(now []byte) ([]byte, error)) error {
	t := m.table(table)
	t.mu.Lock()
	defer t.mu.Unlock()
	value, err := change(t.values[key])
	if err != nil {
		return err
	}
	t.put(key, value)
	return nil
}

// put writes one row; the lock is held.
func (t *memoryTable) put(key string, value []byte) {
	_, held := t.values[key]
	switch {
	case value == nil && held:
		delete(t.values, key)
		i, _ := slices.BinarySearch(t.keys, key)
		t.keys = slices.Delete(t.keys, i, i+1)
	case value == nil:
	case held:
		t.values[key] = value
	default:
		t.values[key] = value
		i, _ := slices.BinarySearch(t.keys, key)
		t.keys = slices.Insert(t.keys, i, key)
	}
}

// Scan implements Tables.
func (m *Memory) Scan(ctx context.Context, table, prefix string, visit func(key string, value []byte) error) error {
	t := m.table(table)
	var keys []string
	var values [][]byte
	for from := prefix; ; from = keys[len(keys)-1] + "\x00" {
		keys, values = t.page(from, prefix, keys[:0], values[:0])
		for i := range keys {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := visit(keys[i], values[i]); err != nil {
				return err
			}
		}
		if len(keys) < scanPage {
			return nil
		}
	}
}

// page copies the rows from a key on, at most scanPage of them.
func (t *memoryTable) page(from, prefix string, keys []string, values [][]byte) ([]string, [][]byte) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	i, _ := slices.BinarySearch(t.keys, from)
	for ; i < len(t.keys) && len(keys) < scanPage && strings.HasPrefix(t.keys[i], prefix); i++ {
		keys, values = append(keys, t.keys[i]), append(values, t.values[t.keys[i]])
	}
	return keys, values
}

// write applies what an outbox asked for.
func (m *Memory) write(writes []TableWrite) {
	for _, w := range writes {
		t := m.table(w.Table)
		t.mu.Lock()
		t.put(w.Key, w.Value)
		t.mu.Unlock()
		if w.Written != nil {
			w.Written()
		}
	}
}
