package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"wopcert/reference-host/internal/eventlog"
)

// ErrTooMany is returned for a subscription more than a tenant may have.
var ErrTooMany = errors.New("the tenant has as many subscriptions as it may")

// ErrNotStandard is returned for the rotation of a secret that signs under v1 alone: its header holds one signature, so
// two secrets cannot overlap.
var ErrNotStandard = errors.New("the subscription did not opt into standard-webhooks-1")

// maxSubscriptions bounds those of one tenant.
const maxSubscriptions = 10_000

// Subscribe records a subscription. Every matching event that is appended after it returns is delivered.
func (d *Dispatcher) Subscribe(ctx context.Context, s Subscription) error {
	if index := *d.index.Load(); len(index[s.Tenant]) >= maxSubscriptions {
		return ErrTooMany
	}
	row, err := json.Marshal(s)
	if err != nil {
		return err
	}
	err = d.store.Update(ctx, tableSubscriptions, s.ID, func(now []byte) ([]byte, error) {
		if now != nil {
			return nil, eventlog.ErrExists
		}
		return row, nil
	})
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.add(s)
	d.reindex()
	return nil
}

// Has reports whether there is such a subscription.
func (d *Dispatcher) Has(id string) bool { return d.lane(id) != nil }

// Unsubscribe ends a subscription: when it has returned, no attempt for it starts. What was not delivered, and its dead
// letters, go with it (webhooks.md §Unregister). It returns eventlog.ErrNotFound when there is no such subscription.
func (d *Dispatcher) Unsubscribe(ctx context.Context, id string) error {
	err := d.store.Update(ctx, tableSubscriptions, id, func(now []byte) ([]byte, error) {
		if now == nil {
			return nil, eventlog.ErrNotFound
		}
		return nil, nil
	})
	if err != nil {
		return err
	}
	if l := d.remove(id); l != nil {
		l.attempts.Wait() // they end at once
	}
	for _, table := range []string{tableDeliveries, tableDeadLetters} {
		err := d.store.Scan(ctx, table, id+"/", func(key string, _ []byte) error { return d.drop(ctx, table, key) })
		if err != nil {
			return err
		}
	}
	return nil
}

// remove takes the lane of a subscription out and stops it; nil when there is none.
func (d *Dispatcher) remove(id string) *lane {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lanes[id]
	if l != nil {
		delete(d.lanes, id)
		d.reindex()
		l.disarm()
		l.cancel()
	}
	return l
}

// Rotate makes a secret the current one and lets the current one sign on for the overlap, and retires the one before.
// It returns when it did and until when both sign, eventlog.ErrNotFound or ErrNotStandard.
func (d *Dispatcher) Rotate(ctx context.Context, id, secret string) (at, until time.Time, err error) {
	var rotated Subscription
	err = d.store.Update(ctx, tableSubscriptions, id, func(now []byte) ([]byte, error) {
		if now == nil {
			return nil, eventlog.ErrNotFound
		}
		rotated = Subscription{}
		if err := json.Unmarshal(now, &rotated); err != nil {
			return nil, err
		}
		if !rotated.Standard {
			return nil, ErrNotStandard
		}
		at = d.clock.Now().UTC().Truncate(time.Millisecond)
		until = at.Add(d.config.Overlap)
		rotated.Previous, rotated.PreviousUntil, rotated.Secret = rotated.Secret, until, secret
		rotated.Rotations++
		return json.Marshal(rotated)
	})
	if err != nil {
		return time.Time{}, time.Time{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.lanes[id]; l != nil && rotated.Rotations > l.subscription.Rotations {
		l.subscription = rotated
	}
	return at, until, nil
}

// add makes the lane of a subscription; the lock is held or nobody else is there yet.
func (d *Dispatcher) add(s Subscription) {
	t := d.tenants[s.Tenant]
	if t == nil {
		t = new(tenant)
		d.tenants[s.Tenant] = t
	}
	l := &lane{id: s.ID, events: set(s.Events), tags: set(s.Tags), subscription: s, tenant: t, held: make(map[string]bool)}
	l.ctx, l.cancel = context.WithCancel(d.root)
	d.lanes[s.ID] = l
}

// reindex publishes the lanes to Outbox; the lock is held or nobody else is there yet.
func (d *Dispatcher) reindex() {
	index := make(map[string][]*lane)
	for _, l := range d.lanes {
		index[l.subscription.Tenant] = append(index[l.subscription.Tenant], l)
	}
	d.index.Store(&index)
}

// lane returns the lane of a subscription, or nil.
func (d *Dispatcher) lane(id string) *lane {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lanes[id]
}

// matches reports whether a subscription wants events of the type from the run.
func (l *lane) matches(run *eventlog.Run, eventType string) bool {
	if !l.events[eventType] {
		return false
	}
	return len(l.tags) == 0 || slices.ContainsFunc(run.Tags, func(tag string) bool { return l.tags[tag] })
}

func set(words []string) map[string]bool {
	all := make(map[string]bool, len(words))
	for _, word := range words {
		all[word] = true
	}
	return all
}
