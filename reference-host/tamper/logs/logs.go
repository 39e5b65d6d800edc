// Package logs changes what a host writes into the event logs of its runs,
// without the host knowing: package tamper does the same on the wire.
package logs

import (
	"context"
	"slices"
	"sync"

	referencehost "wopcert/reference-host"
)

// Edit says what becomes of the events that a host is about to write. A nil
// member changes nothing. The edits are called by many runs at a time.
type Edit struct {
	// Create edits a run and the first events of its log; it may change the run
	// and gets a copy of the events.
	Create func(ctx context.Context, run *referencehost.Run, first []referencehost.Draft) []referencehost.Draft
	// Append edits events that follow; it gets a copy of them.
	Append func(log referencehost.Log, drafts []referencehost.Draft) []referencehost.Draft
	// Appended is told what was written, the first events included.
	Appended func(log referencehost.Log, events []referencehost.Draft)
	// Read edits what a log shows. It must show the same every time.
	Read func(log referencehost.Log, events []referencehost.Event) []referencehost.Event
}

// Edited is a store that makes the edit in front of another one.
func Edited(store referencehost.Store, edit Edit) referencehost.Store {
	return &edited{Store: store, edit: edit}
}

// Decorating makes a store edit of a configuration.
func Decorating(edit Edit) func(*referencehost.Config) {
	return func(c *referencehost.Config) { c.Store = Edited(c.Store, edit) }
}

type edited struct {
	referencehost.Store
	edit Edit
}

// Create implements referencehost.Store.
func (s *edited) Create(ctx context.Context, run referencehost.Run, exclusive bool, first ...referencehost.Draft) (referencehost.Log, error) {
	if s.edit.Create != nil {
		first = s.edit.Create(ctx, &run, slices.Clone(first))
	}
	log, err := s.Store.Create(ctx, run, exclusive, first...)
	if err != nil {
		return nil, err
	}
	if s.edit.Appended != nil {
		s.edit.Appended(log, first)
	}
	return &editedLog{Log: log, edit: &s.edit}, nil
}

// Open implements referencehost.Store.
func (s *edited) Open(ctx context.Context, runID string) (referencehost.Log, error) {
	log, err := s.Store.Open(ctx, runID)
	if err != nil {
		return nil, err
	}
	return &editedLog{Log: log, edit: &s.edit}, nil
}

type editedLog struct {
	referencehost.Log
	edit *Edit
}

// Append implements referencehost.Log.
func (l *editedLog) Append(ctx context.Context, expected int64, drafts ...referencehost.Draft) ([]referencehost.Event, error) {
	if l.edit.Append != nil {
		drafts = l.edit.Append(l.Log, slices.Clone(drafts))
	}
	events, err := l.Log.Append(ctx, expected, drafts...)
	if err == nil && l.edit.Appended != nil {
		l.edit.Appended(l.Log, drafts)
	}
	return events, err
}

// Read implements referencehost.Log.
func (l *editedLog) Read(after int64) ([]referencehost.Event, error) {
	if l.edit.Read == nil {
		return l.Log.Read(after)
	}
	all, err := l.Log.Read(-1)
	if err != nil {
		return nil, err
	}
	all = l.edit.Read(l.Log, slices.Clone(all))
	from := slices.IndexFunc(all, func(e referencehost.Event) bool { return e.Sequence > after })
	if from < 0 {
		return nil, nil
	}
	return all[from:], nil
}

// Behind is a store that shows events behind the end of a log, which no log
// takes.
type Behind struct {
	referencehost.Store
	mu    sync.Mutex
	extra map[string][]referencehost.Draft // by run id
}

// NewBehind puts a Behind in front of a store.
func NewBehind(store referencehost.Store) *Behind {
	b := &Behind{extra: map[string][]referencehost.Draft{}}
	b.Store = Edited(store, Edit{Read: b.shown})
	return b
}

// Add shows an event behind all others of a run's log.
func (b *Behind) Add(runID string, draft referencehost.Draft) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.extra[runID] = append(b.extra[runID], draft)
}

func (b *Behind) shown(log referencehost.Log, events []referencehost.Event) []referencehost.Event {
	run := log.Run()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, draft := range b.extra[run.ID] {
		events = append(events, referencehost.Event{
			Draft: draft, RunID: run.ID, Sequence: int64(len(events)), EngineVersion: run.EngineVersion,
		})
	}
	return events
}
