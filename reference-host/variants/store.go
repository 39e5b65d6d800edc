package variants

import (
	"context"
	"encoding/json"
	"slices"

	referencehost "wopcert/reference-host"
)

// vendorStore writes events of a vendor into every log: one after the event
// that starts the run, or one after the event that ends it.
type vendorStore struct {
	referencehost.Store
	ids   referencehost.IDs
	atEnd bool
}

// vendorEvents puts a vendorStore in front of the configured store.
func vendorEvents(atEnd bool) func(*referencehost.Config) {
	return func(c *referencehost.Config) { c.Store = &vendorStore{Store: c.Store, ids: c.IDs, atEnd: atEnd} }
}

// note is an event of the organisation that documentation may use.
func (s *vendorStore) note(like referencehost.Draft) referencehost.Draft {
	return referencehost.Draft{
		EventID: s.ids.Opaque(), Type: "example.run-noted", Timestamp: like.Timestamp,
		Payload: json.RawMessage(`{"note":"seen","weight":1.5}`),
	}
}

// Create implements referencehost.Store.
func (s *vendorStore) Create(ctx context.Context, run referencehost.Run, exclusive bool, first ...referencehost.Draft) (referencehost.Log, error) {
	// What a fork or a stored log begins with is history, and stays as it is.
	if !s.atEnd && run.ForkOf == "" && len(first) > 0 && first[len(first)-1].Type == "run.started" {
		first = append(slices.Clone(first), s.note(first[0]))
	}
	log, err := s.Store.Create(ctx, run, exclusive, first...)
	return s.wrap(log), err
}

// Open implements referencehost.Store.
func (s *vendorStore) Open(ctx context.Context, runID string) (referencehost.Log, error) {
	log, err := s.Store.Open(ctx, runID)
	return s.wrap(log), err
}

func (s *vendorStore) wrap(log referencehost.Log) referencehost.Log {
	if log == nil || !s.atEnd {
		return log
	}
	return &vendorLog{Log: log, store: s}
}

type vendorLog struct {
	referencehost.Log
	store *vendorStore
}

// Append implements referencehost.Log.
func (l *vendorLog) Append(ctx context.Context, expected int64, drafts ...referencehost.Draft) ([]referencehost.Event, error) {
	if n := len(drafts); n > 0 {
		switch drafts[n-1].Type {
		case "run.completed", "run.failed", "run.cancelled":
			drafts = append(slices.Clone(drafts), l.store.note(drafts[n-1]))
		}
	}
	return l.Log.Append(ctx, expected, drafts...)
}
