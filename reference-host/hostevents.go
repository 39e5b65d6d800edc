package referencehost

import (
	"net/http"
	"sync"
	"time"

	"wopcert/reference-host/internal/sse"
)

// heartbeatID names the one heartbeat of this host: whether it takes new runs.
const heartbeatID = "accepting-runs"

// tick is one look at the predicate.
type tick struct{ from, to bool }

func (t tick) changed() bool { return t.from != t.to }

// heartbeat looks at the predicate once in an interval for as long as anybody listens, and tells all of them the same.
// The state of the last look is kept when nobody does.
type heartbeat struct {
	clock     Clock
	interval  time.Duration
	predicate func() bool

	mu        sync.Mutex
	listeners map[chan tick]struct{}
	state     bool
	looked    bool
	stop      func() bool
}

// tickBuffer is how many ticks a listener may be behind before it is let go.
const tickBuffer = 16

// listen begins to deliver ticks. The channel is closed for a listener that does not keep up. leave is called once.
func (b *heartbeat) listen() (ticks <-chan tick, leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	channel := make(chan tick, tickBuffer)
	if b.listeners == nil {
		b.listeners = make(map[chan tick]struct{})
	}
	b.listeners[channel] = struct{}{}
	if len(b.listeners) == 1 {
		b.stop = b.clock.AfterFunc(b.interval, b.beat)
	}
	return channel, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.drop(channel)
	}
}

// drop forgets a listener, and stops looking after the last one. It is called with the lock held.
func (b *heartbeat) drop(channel chan tick) {
	if _, ok := b.listeners[channel]; !ok {
		return
	}
	delete(b.listeners, channel)
	if len(b.listeners) == 0 {
		b.stop()
	}
}

func (b *heartbeat) beat() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.listeners) == 0 {
		return // the last one left while this look was due
	}
	now := b.predicate()
	t := tick{from: b.state, to: now}
	if !b.looked {
		t.from = now // there is nothing to compare the first look with
	}
	b.state, b.looked = now, true
	b.stop = b.clock.AfterFunc(b.interval, b.beat)
	for channel := range b.listeners {
		select {
		case channel <- t:
		default:
			b.drop(channel)
			close(channel)
		}
	}
}

type heartbeatEvaluated struct {
	HeartbeatID string `json:"heartbeatId"`
	Status      string `json:"status"`
	Changed     bool   `json:"changed"`
}

type heartbeatChanged struct {
	HeartbeatID string         `json:"heartbeatId"`
	From        heartbeatState `json:"from"`
	To          heartbeatState `json:"to"`
}

type heartbeatState struct {
	Accepting bool `json:"accepting"`
}

// streamHostEvents serves the heartbeat (events.md §Host events): what was seen at every look, and the change when
// there was one. It says nothing of any run. Its frames have no id, since there is nothing to resume, and it goes on
// until the listener leaves or the host closes.
func (h *Host) streamHostEvents(w http.ResponseWriter, r *request) error {
	return h.stream(w, func(writer *sse.Writer) { h.beat(writer, r) })
}

// beat writes what the heartbeat sees until the listener leaves or the host closes.
func (h *Host) beat(writer *sse.Writer, r *request) {
	ticks, leave := h.heartbeat.listen()
	defer leave()
	beat := newAlarm(h.clock)
	defer beat.stop()
	beat.set(h.config.KeepAlive)
	for {
		select {
		case t, open := <-ticks:
			if !open {
				return
			}
			if err := writeTick(writer, t); err != nil {
				return
			}
		case <-beat.rung:
			writer.Comment("keep-alive")
			if err := writer.Flush(); err != nil {
				return
			}
			beat.set(h.config.KeepAlive)
		case <-h.closing.Done():
			return
		case <-r.Context().Done():
			return
		}
	}
}

func writeTick(writer *sse.Writer, t tick) error {
	evaluated, err := encode(heartbeatEvaluated{HeartbeatID: heartbeatID, Status: "ok", Changed: t.changed()})
	if err != nil {
		return err
	}
	writer.Message("heartbeat.evaluated", evaluated)
	if t.changed() {
		changed, err := encode(heartbeatChanged{HeartbeatID: heartbeatID, From: heartbeatState{t.from}, To: heartbeatState{t.to}})
		if err != nil {
			return err
		}
		writer.Message("heartbeat.state-changed", changed)
	}
	return writer.Flush()
}
