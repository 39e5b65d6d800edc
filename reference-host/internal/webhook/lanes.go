package webhook

import (
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

// lane is one subscription's own way through the dispatcher. What changes is guarded by the dispatcher's lock.
type lane struct {
	id     string
	events map[string]bool
	tags   map[string]bool
	tenant *tenant
	// ctx ends when the subscription does.
	ctx      context.Context
	cancel   context.CancelFunc
	attempts sync.WaitGroup

	subscription Subscription
	// held are the deliveries in memory: due, waiting for their time, or under way.
	held    map[string]bool
	due     []string
	waiting waiting
	running int
	listed  bool // among the tenant's ready lanes
	// behind says that the table may hold deliveries that memory does not; filling that somebody is fetching them.
	behind, filling bool
	stop            func() bool // of the alarm for the first waiting delivery
	alarm           time.Time
}

// tenant is what the lanes of one tenant share.
type tenant struct {
	ready   []*lane // with a delivery due and room to start it
	running int
	listed  bool // among the dispatcher's ready tenants
}

type retry struct {
	key string
	due time.Time
}

// waiting is a heap, the earliest first.
type waiting []retry

func (w waiting) Len() int           { return len(w) }
func (w waiting) Less(i, j int) bool { return w[i].due.Before(w[j].due) }
func (w waiting) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *waiting) Push(x any)        { *w = append(*w, x.(retry)) }
func (w *waiting) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return last
}

// enqueue takes a delivery in hand that is written in the table.
func (d *Dispatcher) enqueue(l *lane, key string, due time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.take(l, key, due)
	d.start()
}

// take reports whether there was room for the delivery, or no need for any; the lock is held.
func (d *Dispatcher) take(l *lane, key string, due time.Time) bool {
	if d.closed || l.ctx.Err() != nil || l.held[key] {
		return true
	}
	if len(l.held) >= d.config.Limits.Window {
		l.behind = true
		return false
	}
	l.held[key] = true
	d.schedule(l, key, due)
	return true
}

// schedule has a delivery in hand started when it is due; the lock is held.
func (d *Dispatcher) schedule(l *lane, key string, due time.Time) {
	if due.After(d.clock.Now()) {
		heap.Push(&l.waiting, retry{key, due})
		d.arm(l)
		return
	}
	l.due = append(l.due, key)
	d.list(l)
}

// list makes the dispatcher look at a lane that may have something to start; the lock is held.
func (d *Dispatcher) list(l *lane) {
	t := l.tenant
	if !l.listed && len(l.due) > 0 && l.running < d.config.Limits.PerSubscription && l.ctx.Err() == nil {
		l.listed = true
		t.ready = append(t.ready, l)
	}
	if !t.listed && len(t.ready) > 0 {
		t.listed = true
		d.ready = append(d.ready, t)
	}
}

// admits reports whether a tenant may have another attempt under way; the lock is held. A few it may have whatever the
// receivers of other tenants keep busy.
func (d *Dispatcher) admits(t *tenant) bool {
	return t.running < reserve || t.running < d.config.Limits.PerTenant && d.running < d.config.Limits.Attempts
}

// start begins every attempt there is room for, tenants and their lanes in turn; the lock is held.
func (d *Dispatcher) start() {
	var full []*tenant
	for len(d.ready) > 0 && !d.closed {
		t := d.ready[0]
		d.ready, t.listed = d.ready[1:], false
		switch {
		case len(t.ready) == 0:
		case !d.admits(t):
			full = append(full, t)
		default:
			l := t.ready[0]
			t.ready, l.listed = t.ready[1:], false
			if len(l.due) > 0 && l.ctx.Err() == nil {
				key := l.due[0]
				l.due = l.due[1:]
				l.running, t.running, d.running = l.running+1, t.running+1, d.running+1
				l.attempts.Add(1)
				d.workers.Add(1)
				go d.work(l, key)
			}
			d.list(l)
		}
	}
	for _, t := range full {
		t.listed = true
		d.ready = append(d.ready, t)
	}
}

// work makes one attempt and puts the delivery back when there has to be another.
func (d *Dispatcher) work(l *lane, key string) {
	defer d.workers.Done()
	defer l.attempts.Done()
	again, due := d.deliver(l, key)
	d.mu.Lock()
	defer d.mu.Unlock()
	l.running, l.tenant.running, d.running = l.running-1, l.tenant.running-1, d.running-1
	alive := !d.closed && l.ctx.Err() == nil
	if again && alive {
		d.schedule(l, key, due)
	} else {
		delete(l.held, key)
	}
	if alive && l.behind && !l.filling && len(l.held) <= d.config.Limits.Window/2 {
		l.filling = true
		d.workers.Add(1)
		go d.fill(l)
	}
	d.list(l)
	d.start()
}

var errFull = errors.New("the window is full")

// refillAfter is the pause after a table could not be read.
const refillAfter = time.Second

// fill fetches deliveries that wait in the table.
func (d *Dispatcher) fill(l *lane) {
	defer d.workers.Done()
	d.mu.Lock()
	l.behind = false // from here on take says when something has to stay behind
	d.mu.Unlock()
	err := d.store.Scan(l.ctx, tableDeliveries, l.id+"/", func(key string, value []byte) error {
		var held delivery
		if err := json.Unmarshal(value, &held); err != nil {
			return err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if !d.take(l, key, held.Due) {
			return errFull
		}
		d.start()
		return nil
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	l.filling = false
	if err == nil || errors.Is(err, errFull) || d.closed || l.ctx.Err() != nil {
		return
	}
	d.logger.Error("deliveries of a webhook could not be read", "webhook", l.id, "error", err)
	l.behind, l.filling = true, true
	d.clock.AfterFunc(refillAfter, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !d.closed && l.ctx.Err() == nil {
			d.workers.Add(1)
			go d.fill(l)
		}
	})
}

// arm sets the alarm for the first waiting delivery; the lock is held.
func (d *Dispatcher) arm(l *lane) {
	if len(l.waiting) == 0 || d.closed {
		return
	}
	first := l.waiting[0].due
	if l.stop != nil {
		if !first.Before(l.alarm) {
			return
		}
		l.stop()
	}
	l.alarm = first
	l.stop = d.clock.AfterFunc(first.Sub(d.clock.Now()), func() { d.ring(l, first) })
}

// disarm stops the alarm; the lock is held.
func (l *lane) disarm() {
	if l.stop != nil {
		l.stop()
		l.stop = nil
	}
}

// ring makes waiting deliveries due.
func (d *Dispatcher) ring(l *lane, alarm time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.stop == nil || !l.alarm.Equal(alarm) {
		return // stopped, or set anew, while this was on its way
	}
	l.stop = nil
	now := d.clock.Now()
	for len(l.waiting) > 0 && !l.waiting[0].due.After(now) {
		l.due = append(l.due, heap.Pop(&l.waiting).(retry).key)
	}
	d.arm(l)
	d.list(l)
	d.start()
}
