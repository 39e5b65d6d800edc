// Package era is the one place where a log that a v1 host has begun meets this host (persistence.md §The seat). Its
// Store stands in front of whatever keeps the rows, every reader and every writer of the host goes through it, and the
// rows behind it stay in the vocabulary they were written in.
package era

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"wopcert/corpus"
	"wopcert/reference-host/internal/eventlog"
)

// UnmappedError is the refusal to read a log with a type the codemap does not name and no registered organisation owns.
type UnmappedError struct {
	Type     string
	Sequence int64
}

func (e *UnmappedError) Error() string {
	return fmt.Sprintf("event %d has the type %q, which the codemap does not name", e.Sequence, e.Type)
}

// MalformedError is the refusal to read a log with a row that does not make an event.
type MalformedError struct {
	// Type is the type's version 2 name.
	Type     string
	EventID  string
	Sequence int64
	// Keys are the members of the payload that its version 2 definition cannot seat, sorted; none when something else
	// is wrong with the row.
	Keys []string
	Err  error
}

func (e *MalformedError) Error() string {
	return fmt.Sprintf("event %d (%s) is malformed: %v", e.Sequence, e.Type, e.Err)
}

func (e *MalformedError) Unwrap() error { return e.Err }

// Store shows every log in the vocabulary of major 2.
type Store struct {
	eventlog.Store
	contract *corpus.Corpus
	orgs     []string
}

// Over puts the adapter in front of a store. The mapping is the contract's codemap and nothing else.
func Over(store eventlog.Store, contract *corpus.Corpus) *Store {
	return &Store{Store: store, contract: contract, orgs: contract.Orgs()}
}

// show puts the adapter on a log that needs it.
func (s *Store) show(held eventlog.Log) eventlog.Log {
	if run := held.Run(); run.Era == eventlog.EraV1 {
		return &log{Log: held, store: s}
	}
	return held
}

// Create implements eventlog.Store. The first events of a run of era 2 are rows of that era and are stored as they are.
func (s *Store) Create(ctx context.Context, run eventlog.Run, exclusive bool, first ...eventlog.Draft) (eventlog.Log, error) {
	held, err := s.Store.Create(ctx, run, exclusive, first...)
	if err != nil {
		return nil, err
	}
	return s.show(held), nil
}

// Open implements eventlog.Store.
func (s *Store) Open(ctx context.Context, runID string) (eventlog.Log, error) {
	held, err := s.Store.Open(ctx, runID)
	if err != nil {
		return nil, err
	}
	return s.show(held), nil
}

// List implements eventlog.Store.
func (s *Store) List(ctx context.Context, tenant string, before int64, limit int) ([]eventlog.Log, error) {
	page, err := s.Store.List(ctx, tenant, before, limit)
	if err != nil {
		return nil, err
	}
	page = slices.Clone(page)
	for i := range page {
		page[i] = s.show(page[i])
	}
	return page, nil
}

// ActiveRuns implements eventlog.Store.
func (s *Store) ActiveRuns(ctx context.Context, visit func(eventlog.Log) error) error {
	return s.Store.ActiveRuns(ctx, func(held eventlog.Log) error { return visit(s.show(held)) })
}

// Outbox implements eventlog.Store. What has no name here does not go out, as nobody can read it either; an event whose
// payload cannot be projected goes out with the payload as it is stored, so that somebody hears of it.
func (s *Store) Outbox(outbox eventlog.Outbox) {
	s.Store.Outbox(func(run eventlog.Run, rows []eventlog.Event) []eventlog.TableWrite {
		if run.Era != eventlog.EraV1 {
			return outbox(run, rows)
		}
		events := make([]eventlog.Event, 0, len(rows))
		for _, row := range rows {
			event, err := s.event(run, row)
			var malformed *MalformedError
			if errors.As(err, &malformed) {
				event, err = row, nil
				event.Type = malformed.Type
			}
			if err == nil {
				events = append(events, event)
			}
		}
		if len(events) == 0 {
			return nil
		}
		return outbox(run, events)
	})
}

// name is the name a type of era 2 has for every reader.
func (s *Store) name(v1 string) (v2 string, ok bool) {
	if v2, ok := s.contract.EventFromV1(v1); ok {
		return v2, true
	}
	return v1, s.vendor(v1)
}

// vendor reports whether the first segment is a registered organisation (persistence.md §The codemap is data).
func (s *Store) vendor(eventType string) bool {
	org, _, more := strings.Cut(eventType, ".")
	return more && slices.Contains(s.orgs, org)
}

// log shows the rows of a v1 log.
type log struct {
	eventlog.Log
	store *Store
}

// Read implements eventlog.Log. A log with a row that cannot be translated cannot be read, from whatever sequence on.
func (l *log) Read(after int64) ([]eventlog.Event, error) {
	rows, err := l.Log.Read(-1)
	if err != nil {
		return nil, err
	}
	events, err := l.store.translate(l.Run(), rows)
	if err != nil {
		return nil, err
	}
	from := min(max(after, -1), int64(len(events))-1) + 1
	return events[from:], nil
}

// Append implements eventlog.Log: the era of a run fixes the vocabulary of its log for good (persistence.md §The writer
// rule).
func (l *log) Append(ctx context.Context, expected int64, drafts ...eventlog.Draft) ([]eventlog.Event, error) {
	rows := slices.Clone(drafts)
	for i := range rows {
		if v1, ok := l.store.contract.EventToV1(rows[i].Type); ok {
			rows[i].Type = v1
		}
	}
	appended, err := l.Log.Append(ctx, expected, rows...)
	if err != nil {
		return nil, err
	}
	return l.store.translate(l.Run(), appended)
}
