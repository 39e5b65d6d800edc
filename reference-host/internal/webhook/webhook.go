// Package webhook delivers the events of runs to the subscriptions of their tenant (webhooks.md). What has to be
// delivered is written into a table in the same step as the event into its log, and leaves the table when the receiver
// has taken it or its attempts are used up; so nothing is lost to a crash, and nothing that was delivered twice differs.
// What is under way is bounded for the host, for a tenant and for a subscription, and no subscription waits for the
// receiver of another.
package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"wopcert/reference-host/internal/clock"
	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
)

// The tables of this package.
const (
	tableSubscriptions = "webhooks"            // webhookId -> Subscription
	tableDeliveries    = "webhook-deliveries"  // webhookId/run/sequence -> delivery
	tableDeadLetters   = "webhook-deadletters" // webhookId/newest first/delivery -> DeadLetter
)

// The signature schemes (webhooks.md §Standard Webhooks).
const (
	SchemeV1       = "v1"
	SchemeStandard = "standard-webhooks-1"
)

// The values of a retry policy's backoff (webhooks facet).
const (
	BackoffNone        = "none"
	BackoffFixed       = "fixed"
	BackoffExponential = "exponential"
)

// maxDelay is the longest time between two attempts.
const maxDelay = time.Hour

// RetryPolicy says how often a delivery is attempted and how long to wait between attempts.
type RetryPolicy struct {
	MaxAttempts int
	Backoff     string
	// Base is the wait after the first attempt; under exponential backoff it doubles with every attempt.
	Base time.Duration
}

// delay is the wait after so many attempts.
func (p RetryPolicy) delay(attempts int) time.Duration {
	switch p.Backoff {
	case BackoffNone:
		return 0
	case BackoffFixed:
		return p.Base
	}
	if shift := attempts - 1; shift < 32 && p.Base < maxDelay>>shift {
		return p.Base << shift
	}
	return maxDelay
}

// Limits bound what is under way at a time.
type Limits struct {
	// Attempts is for the host, PerTenant and PerSubscription for one of each.
	Attempts, PerTenant, PerSubscription int
	// Window is how many deliveries of a subscription are held in memory; the others wait in the table.
	Window int
}

// reserve is how many attempts of a tenant start whatever the other tenants' receivers are doing, and at least how many
// subscriptions have to be served while the receivers of others do not answer (webhooks.md §Durability: 8).
const reserve = 16

// DefaultLimits are generous for one process.
func DefaultLimits() Limits {
	return Limits{Attempts: 1024, PerTenant: 256, PerSubscription: 8, Window: 1024}
}

// Config is what a Dispatcher is made of.
type Config struct {
	Store  eventlog.Store
	Sender engine.Sender
	Clock  clock.Clock
	Logger *slog.Logger
	Retry  RetryPolicy
	Limits Limits
	// AttemptTimeout bounds one attempt.
	AttemptTimeout time.Duration
	// Retention is how long a dead letter can be read, Overlap how long a secret signs on after its rotation.
	Retention, Overlap time.Duration
	// Legacy adds the X-openwop header family, as a host serving both majors does.
	Legacy bool
	// Unprojectable reports whether an error of reading an event says that it never will be readable.
	Unprojectable func(error) bool
}

// Subscription is one registered webhook.
type Subscription struct {
	// ID is tenant-bound (identity.md §5).
	ID     string   `json:"id"`
	Tenant string   `json:"tenant"`
	URL    string   `json:"url"`
	Events []string `json:"events"`
	// Tags narrow the runs, unless there are none.
	Tags []string `json:"tags,omitempty"`
	// Standard is set when the subscription opted into Standard Webhooks.
	Standard bool `json:"standard,omitempty"`
	// Secret signs. Previous signs on until PreviousUntil.
	Secret        string    `json:"secret"`
	Previous      string    `json:"previous,omitempty"`
	PreviousUntil time.Time `json:"previousUntil,omitzero"`
	// Rotations counts them: two may fall into one tick of the clock.
	Rotations int `json:"rotations,omitempty"`
}

// secrets are the current secret and, during an overlap, the one before it, else "".
func (s *Subscription) secrets(now time.Time) (current, previous string) {
	if s.Previous != "" && now.Before(s.PreviousUntil) {
		return s.Secret, s.Previous
	}
	return s.Secret, ""
}

// Dispatcher delivers. Make it with New and Close it.
type Dispatcher struct {
	config Config
	store  eventlog.Store
	clock  clock.Clock
	logger *slog.Logger

	root    context.Context
	cancel  context.CancelFunc
	workers sync.WaitGroup

	// index is what Outbox reads: the lanes of a tenant. It is replaced, never changed.
	index atomic.Pointer[map[string][]*lane]

	mu      sync.Mutex
	lanes   map[string]*lane // by webhookId
	tenants map[string]*tenant
	ready   []*tenant // those that may have something to start
	running int
	closed  bool
}

// New returns a Dispatcher with the subscriptions of the store, and takes up the deliveries a former one has left.
func New(config Config) (*Dispatcher, error) {
	if config.Limits.PerTenant < reserve || config.Limits.Attempts < config.Limits.PerTenant || config.Limits.PerSubscription < 1 ||
		config.Limits.Window < 2*config.Limits.PerSubscription || config.Retry.MaxAttempts < 1 || config.AttemptTimeout <= 0 {
		return nil, errors.New("webhooks: the limits leave no room to deliver")
	}
	d := &Dispatcher{
		config: config, store: config.Store, clock: config.Clock, logger: config.Logger,
		lanes: make(map[string]*lane), tenants: make(map[string]*tenant),
	}
	d.root, d.cancel = context.WithCancel(context.Background())
	err := d.store.Scan(d.root, tableSubscriptions, "", func(key string, value []byte) error {
		var held Subscription
		if err := json.Unmarshal(value, &held); err != nil || held.ID != key {
			return fmt.Errorf("webhooks: the subscription %s cannot be read", key)
		}
		d.add(held)
		return nil
	})
	if err != nil {
		d.cancel()
		return nil, err
	}
	d.reindex()
	d.workers.Add(1)
	go d.recover()
	return d, nil
}

// Close stops delivering. Attempts under way are given up without counting, and everything undelivered stays in the
// table. It is safe to call it again.
func (d *Dispatcher) Close() {
	d.mu.Lock()
	d.closed = true
	for _, l := range d.lanes {
		l.disarm()
	}
	d.mu.Unlock()
	d.cancel()
	d.workers.Wait()
}

// recover takes up what a former process has left: deliveries of subscriptions that are still there. Others, and dead
// letters past their time, are dropped.
func (d *Dispatcher) recover() {
	defer d.workers.Done()
	err := d.store.Scan(d.root, tableDeliveries, "", func(key string, value []byte) error {
		var held delivery
		l := d.lane(owner(key))
		if l == nil || json.Unmarshal(value, &held) != nil {
			return d.drop(d.root, tableDeliveries, key)
		}
		d.enqueue(l, key, held.Due)
		return nil
	})
	if err == nil {
		err = d.store.Scan(d.root, tableDeadLetters, "", func(key string, value []byte) error {
			var held DeadLetter
			if d.lane(owner(key)) != nil && json.Unmarshal(value, &held) == nil && held.ExpiresAt.After(d.clock.Now()) {
				return nil
			}
			return d.drop(d.root, tableDeadLetters, key)
		})
	}
	if err != nil && d.root.Err() == nil {
		d.logger.Error("the deliveries of webhooks were not all taken up", "error", err)
	}
}

// owner is the webhookId a row's key begins with.
func owner(key string) string {
	tenant, rest, _ := strings.Cut(key, "/")
	opaque, _, _ := strings.Cut(rest, "/")
	return tenant + "/" + opaque
}

// drop deletes a row.
func (d *Dispatcher) drop(ctx context.Context, table, key string) error {
	return d.store.Update(ctx, table, key, func([]byte) ([]byte, error) { return nil, nil })
}
