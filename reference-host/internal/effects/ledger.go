// Package effects is what stands between the nodes of a run and the world: the guard that lets no effect of a replay
// out, and the ledger that gives every effect one identity, records the intent before anything is sent, and has an
// effect happen once however often it is asked for (idempotency.md §Layer 2; replay.md §Suppression).
package effects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"wopcert/reference-host/internal/clock"
	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
)

// The tables of the ledger: records by effect id, and for every run the ids of the effects its nodes asked for.
const (
	tableEffects = "effects"
	tableRuns    = "effects-of-runs"
)

// MinRetention is how long a record is kept at the least (idempotency.md §Layer 2).
const MinRetention = 14 * 24 * time.Hour

// Config is what a ledger is made of.
type Config struct {
	Tables eventlog.Tables
	// Next is the way out.
	Next  engine.Sender
	Clock clock.Clock
	// Incarnation tells this process from those that wrote to the tables before it.
	Incarnation string
	// Retention is how long a record is kept after its last attempt; less than MinRetention is MinRetention.
	Retention time.Duration
	// Attempts bounds the attempts of one request at the transport, Backoff is the time before the second, and doubles.
	Attempts int
	Backoff  time.Duration
	Logger   *slog.Logger
}

// Ledger is an engine.Sender that has each effect happen once.
type Ledger struct {
	config Config

	mu      sync.Mutex
	flights map[string]*flight // by effect id
	ctx     context.Context
	stop    context.CancelFunc
	flying  sync.WaitGroup
}

// flight is an effect that is being performed. Who asks for the same effect meanwhile waits for it.
type flight struct {
	done    chan struct{}
	outcome *engine.Outcome
	err     error
}

// New makes a ledger over tables that may hold the records of an earlier process.
func New(config Config) *Ledger {
	config.Retention, config.Attempts = max(config.Retention, MinRetention), max(config.Attempts, 1)
	l := &Ledger{config: config, flights: make(map[string]*flight)}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// Close cuts what is being sent and waits until its records say so.
func (l *Ledger) Close() {
	l.mu.Lock()
	l.stop()
	l.mu.Unlock()
	l.flying.Wait()
}

// errClosed: the host is going down. The effect keeps its record.
var errClosed = errors.New("the ledger is closed")

// Send implements engine.Sender. What it returns is the outcome of the effect, whoever caused it to happen. A request
// that is on its way goes on when ctx ends: only its end can be recorded.
func (l *Ledger) Send(ctx context.Context, effect engine.Effect) (*engine.Outcome, error) {
	id := identify(&effect)
	for {
		f, joined, err := l.take(&effect, &id)
		if err != nil {
			return nil, err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !joined {
			return f.outcome, f.err
		}
		// Somebody else's attempt has ended. With an outcome on record the next turn finds it, else makes its own.
	}
}

// take joins the flight of an effect, or begins it.
func (l *Ledger) take(effect *engine.Effect, id *identity) (f *flight, joined bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return nil, false, errClosed
	}
	if f, flying := l.flights[id.id]; flying {
		return f, true, nil
	}
	f = &flight{done: make(chan struct{})}
	l.flights[id.id] = f
	l.flying.Add(1)
	go func() {
		defer l.flying.Done()
		f.outcome, f.err = l.perform(effect, id)
		l.mu.Lock()
		delete(l.flights, id.id)
		l.mu.Unlock()
		close(f.done)
	}()
	return f, false, nil
}

// perform makes attempts until one has an outcome or a refusal that another would not change. Before each of them the claim is on record.
func (l *Ledger) perform(effect *engine.Effect, id *identity) (*engine.Outcome, error) {
	if err := l.mark(effect, id); err != nil {
		return nil, err
	}
	lost := effect.Resend
	for n := 1; ; n++ {
		known, err := l.claim(effect, id)
		if err != nil || known != nil {
			return known, err
		}
		request := *effect
		request.Header = effect.Header.Clone()
		if request.Header == nil {
			request.Header = make(http.Header)
		}
		request.Header.Set("Idempotency-Key", id.key)
		got, err := l.config.Next.Send(l.ctx, request)
		if err != nil && got != nil && happened(got.Status) { // the answer has begun, and says that the effect has happened
			got, err = &engine.Outcome{Status: got.Status, Header: got.Header}, nil
		}
		resend := err == nil && lost > 0
		if resend {
			lost-- // as if the answer had not arrived
		}
		done := err == nil && !resend && happened(got.Status)
		if settled := l.settle(id, got, err, done, resend); settled != nil {
			return nil, settled
		}
		again := resend || err != nil && !refused(err) || err == nil && transient(got.Status)
		if done || !again || n >= l.config.Attempts+effect.Resend || l.ctx.Err() != nil {
			return got, err
		}
		if err := clock.Sleep(l.ctx, l.config.Clock, l.config.Backoff<<min(n-1, 10)); err != nil {
			return got, err
		}
	}
}

// mark notes that the run has asked for the effect. It stands before the claim: a mark without an attempt says nothing.
func (l *Ledger) mark(effect *engine.Effect, id *identity) error {
	return l.config.Tables.Update(l.ctx, tableRuns, effect.RunID+"\x00"+id.id, func([]byte) ([]byte, error) {
		return l.config.Clock.Now().Add(l.config.Retention).UTC().AppendFormat(nil, time.RFC3339), nil
	})
}

// claim records the intent, which of all that try only one can. An effect that has an outcome is not claimed: the
// outcome is returned. A claim of a process that is gone is taken over under the same key: what it sent may have
// arrived.
func (l *Ledger) claim(effect *engine.Effect, id *identity) (known *engine.Outcome, err error) {
	now := l.config.Clock.Now()
	expires := now.Add(l.config.Retention)
	err = l.config.Tables.Update(l.ctx, tableEffects, id.id, func(raw []byte) ([]byte, error) {
		known = nil
		r := &record{Keying: id.keying, Key: id.key, Digest: id.digest[:]}
		if raw != nil {
			held, err := decodeRecord(raw)
			if err != nil {
				return nil, err
			}
			if now.Before(held.Expires) {
				r = held
			}
		}
		switch {
		case !slices.Equal(r.Digest, id.digest[:]):
			return nil, &engine.NodeError{
				Code: "idempotency_key_mismatch", Message: "The business key was used for a different request.",
			}
		case r.Outcome != nil:
			known = r.Outcome.again()
			if r.has(effect.RunID) {
				return raw, nil
			}
			r.add(effect, id, Completed, now)
		case r.Holder == l.config.Incarnation:
			return nil, fmt.Errorf("effect %s: it is claimed and nobody performs it", id.id)
		default:
			r.settle(Escaped, nil, now, expires) // if anybody held it
			r.begin(effect, id, l.config.Incarnation, now, expires)
		}
		return json.Marshal(r)
	})
	return known, err
}

// settle records what became of the attempt.
func (l *Ledger) settle(id *identity, got *engine.Outcome, sent error, done, resend bool) error {
	state := Released
	switch {
	case done:
		state = Completed
	case resend, sent != nil && !unsent(sent):
		state = Escaped
	}
	now := l.config.Clock.Now()
	// The record of what has been sent outlasts whoever wants the host to stop.
	return l.config.Tables.Update(context.WithoutCancel(l.ctx), tableEffects, id.id, func(raw []byte) ([]byte, error) {
		if raw == nil {
			return nil, fmt.Errorf("effect %s: its record is gone", id.id)
		}
		r, err := decodeRecord(raw)
		if err != nil {
			return nil, err
		}
		var outcome *outcome
		if done {
			outcome = keep(got)
		}
		r.settle(state, outcome, now, now.Add(l.config.Retention))
		return json.Marshal(r)
	})
}

// Row is one attempt as getRunEffects shows it: nothing of what was sent or came back (effect-ledger-projection
// schema).
type Row struct {
	EffectID     string `json:"effectId"`
	NodeID       string `json:"nodeId"`
	Attempt      int    `json:"attempt"`
	InvocationID string `json:"invocationId,omitempty"`
	Keying       string `json:"keying"`
	ProviderKey  string `json:"providerKey,omitempty"`
	State        string `json:"state"`
	At           string `json:"at"`
	at           time.Time
}

// Of lists the attempts of a run, in the order they were made.
func (l *Ledger) Of(ctx context.Context, runID string) ([]Row, error) {
	rows := []Row{}
	err := l.config.Tables.Scan(ctx, tableRuns, runID+"\x00", func(key string, _ []byte) error {
		_, id, _ := strings.Cut(key, "\x00")
		raw, err := l.config.Tables.Get(ctx, tableEffects, id)
		if errors.Is(err, eventlog.ErrNotFound) {
			return nil // marked, and the claim did not come to pass or has expired
		}
		if err != nil {
			return err
		}
		r, err := decodeRecord(raw)
		if err != nil {
			return err
		}
		for _, made := range r.Attempts {
			if made.RunID == runID {
				rows = append(rows, Row{
					EffectID: id, NodeID: made.NodeID, Attempt: made.Number, InvocationID: made.Invocation, Keying: r.Keying,
					ProviderKey: r.Key, State: made.State, At: made.At.UTC().Format(eventlog.TimestampFormat), at: made.At,
				})
			}
		}
		return nil
	})
	slices.SortStableFunc(rows, func(a, b Row) int { return a.at.Compare(b.at) })
	return rows, err
}

// Sweep drops what has been kept for as long as it is kept. A host calls it when it starts.
func (l *Ledger) Sweep(ctx context.Context) error {
	now := l.config.Clock.Now()
	expired := func(raw []byte) (bool, error) {
		r, err := decodeRecord(raw)
		return err == nil && !now.Before(r.Expires), err
	}
	marked := func(raw []byte) (bool, error) {
		until, err := time.Parse(time.RFC3339, string(raw))
		return err == nil && !now.Before(until), err
	}
	return errors.Join(l.drop(ctx, tableEffects, expired), l.drop(ctx, tableRuns, marked))
}

func (l *Ledger) drop(ctx context.Context, table string, gone func([]byte) (bool, error)) error {
	var keys []string
	err := l.config.Tables.Scan(ctx, table, "", func(key string, value []byte) error {
		over, err := gone(value)
		if over {
			keys = append(keys, key)
		}
		return err
	})
	for _, key := range keys {
		if err != nil {
			break
		}
		err = l.config.Tables.Update(ctx, table, key, func(now []byte) ([]byte, error) {
			if now == nil {
				return nil, nil
			}
			if over, err := gone(now); err != nil || !over {
				return now, err
			}
			return nil, nil
		})
	}
	return err
}
