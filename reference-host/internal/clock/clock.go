// Package clock is the one source of time in the reference host: the wall clock, and one that tests drive by hand.
package clock

import (
	"context"
	"sync"
	"time"
)

// Clock tells the time and runs things later. Every deadline, delay and keep-alive of the host goes through one Clock;
// only network deadlines, which the kernel keeps, do not.
type Clock interface {
	// Now is the current time.
	Now() time.Time
	// AfterFunc runs f on its own goroutine once d has passed. stop reports whether it came in time to prevent that.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// Real is the wall clock.
type Real struct{}

// Now is time.Now.
func (Real) Now() time.Time { return time.Now() }

// AfterFunc is time.AfterFunc.
func (Real) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

// Sleep waits until d has passed on c or ctx ends; it returns ctx.Err in the second case.
func Sleep(ctx context.Context, c Clock, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	passed, stop := After(c, d)
	defer stop()
	select {
	case <-passed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// After returns a channel that is closed once d has passed.
func After(c Clock, d time.Duration) (<-chan struct{}, func() bool) {
	passed := make(chan struct{})
	return passed, c.AfterFunc(d, func() { close(passed) })
}

// Manual is a Clock that stands still until it is told to move. The zero value is not usable; use NewManual.
type Manual struct {
	mu      sync.Mutex
	changed *sync.Cond
	now     time.Time
	pending map[*alarm]struct{}
}

type alarm struct {
	at time.Time
	f  func()
}

// NewManual returns a clock that stands at start.
func NewManual(start time.Time) *Manual {
	m := &Manual{now: start, pending: make(map[*alarm]struct{})}
	m.changed = sync.NewCond(&m.mu)
	return m
}

// Now is the time the clock stands at.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// AfterFunc sets an alarm. One that is due at once rings at once.
func (m *Manual) AfterFunc(d time.Duration, f func()) func() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := &alarm{at: m.now.Add(d), f: f}
	if d <= 0 {
		go f()
		return func() bool { return false }
	}
	m.pending[a] = struct{}{}
	m.changed.Broadcast()
	return func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		_, waiting := m.pending[a]
		delete(m.pending, a)
		m.changed.Broadcast()
		return waiting
	}
}

// Advance moves the clock forward by d and rings, in order of time, every alarm that has come due.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	end := m.now.Add(d)
	for {
		var next *alarm
		for a := range m.pending {
			if !a.at.After(end) && (next == nil || a.at.Before(next.at)) {
				next = a
			}
		}
		if next == nil {
			break
		}
		delete(m.pending, next)
		m.now = next.at
		m.mu.Unlock()
		next.f()
		m.mu.Lock()
	}
	m.now = end
	m.changed.Broadcast()
	m.mu.Unlock()
}

// Pending is the number of alarms that are set.
func (m *Manual) Pending() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pending)
}

// AwaitPending returns once at least n alarms are set. It is how a test knows that the code under test has begun to
// wait; it blocks for as long as that takes.
func (m *Manual) AwaitPending(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.pending) < n {
		m.changed.Wait()
	}
}
