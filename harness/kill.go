package harness

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// Bounds on a kill and what follows it.
const (
	commandTimeout = 60 * time.Second // for the command that kills, and for the one that starts
	backTimeout    = 60 * time.Second // from there until the host answers
	deathTimeout   = 2 * time.Second  // until a dead host's connections are known to be gone
)

// Outage is one kill of the host. Began is before the kill, Dead when the host
// was gone, Back when it answered again; the zero time when it did not.
type Outage struct{ Began, Dead, Back time.Time }

// Lifeline is a stream that ends when the host dies: the proof that a kill was one.
// The run it shows has to outlast the kill.
func (t *T) Lifeline(events string) *Stream {
	s := t.Stream(Request{Path: events})
	if s.Response.Status != http.StatusOK {
		t.Abort("no stream to see the host die by: %s gave %s", s.Response.Request, s.Response.describe())
	}
	return s
}

// KillHost kills the host, has it started again and waits until it answers. The
// tests that kill share each kill: it comes once every one of them that has not
// ended asks for it, so that none loses the host while it looks at what came of
// the kill before. prepare is called right before the kill, for what must not be
// older, and returns the lifeline.
//
// The test ends when a command fails, or when the lifeline shows that the host did
// not die of it. A host that stays away is its own fault: Back is zero then. A run
// that is interrupted meanwhile does not leave the host dead.
func (t *T) KillHost(prepare func() *Stream) Outage {
	r := t.Recovery()
	if r.Kill == nil {
		t.Abort("there is no way to kill the host")
	}
	k := t.run.kills
	if _, ok := k.meet(t.ctx, nil); !ok {
		t.Abort("another test that kills the host did not get ready for it")
	}
	lifeline := prepare()
	if lifeline.AwaitClose(0) != Open {
		t.Abort("the stream to see the host die by ended before it was killed")
	}
	e, ok := k.meet(t.ctx, t.run.endHost)
	if !ok {
		t.Abort("another test that kills the host did not get ready for it")
	}
	died := lifeline.AwaitClose(deathTimeout) != Open
	switch {
	case e.killed != nil:
		t.Abort("the host could not be killed: %v", e.killed)
	case e.restarted != nil:
		t.Abort("the host could not be started again: %v", e.restarted)
	case !died:
		t.Abort("the host was not killed: a stream that was open before is still open %s after the command came back", deathTimeout)
	}
	return e.Outage
}

// ending is what came of one kill.
type ending struct {
	Outage
	killed, restarted error // of the two commands
}

// endHost kills the host and has it started again. What has begun is brought to
// its end; only the wait for the host's answer is cut short.
func (r *run) endHost(ctx context.Context) *ending {
	e := &ending{Outage: Outage{Began: time.Now()}}
	unbroken := context.WithoutCancel(ctx)
	if e.killed = within(unbroken, commandTimeout, r.recovery.Kill); e.killed != nil {
		return e
	}
	e.Dead = time.Now()
	r.client.close() // what the host left behind is of no use to the next request
	if r.recovery.Restart != nil {
		if e.restarted = within(unbroken, commandTimeout, r.recovery.Restart); e.restarted != nil {
			return e
		}
	}
	for end := time.Now().Add(backTimeout); time.Now().Before(end) && ctx.Err() == nil; {
		if r.alive(ctx) {
			e.Back = time.Now()
			break
		}
	}
	return e
}

func within(ctx context.Context, d time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return f(ctx)
}

// alive asks for the discovery document, without leaving a trace in the capture:
// it is asked until it is there. It takes its time to say no.
func (r *run) alive(ctx context.Context) bool {
	asking, cancel := context.WithTimeout(ctx, headerTimeout)
	defer cancel()
	req, _, err := r.client.build(asking, Request{Path: WellKnown, As: Anonymous})
	if err != nil {
		return false
	}
	res, err := r.client.do(r.client.plain, req)
	if err == nil {
		res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return true
		}
	}
	timer := time.NewTimer(10 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// kills is where the tests that kill the host meet.
type kills struct {
	mu      sync.Mutex
	members int // tests that may still kill
	waiting int // those of them at the meeting
	next    *meeting
}

type meeting struct {
	act     func(context.Context) *ending // nil when they only wait for each other
	ctx     context.Context
	begun   bool
	outcome *ending
	done    chan struct{}
}

// meet waits until every member is there, has one of them act, and returns what
// came of it. It reports false when the context ended before all were there. The
// members always meet for the same thing, since none gets on without the others.
func (k *kills) meet(ctx context.Context, act func(context.Context) *ending) (*ending, bool) {
	k.mu.Lock()
	if k.next == nil {
		k.next = &meeting{done: make(chan struct{})}
	}
	m := k.next
	m.act, m.ctx = act, ctx
	k.waiting++
	k.beginIfComplete()
	k.mu.Unlock()
	select {
	case <-m.done:
		return m.outcome, true
	case <-ctx.Done():
	}
	k.mu.Lock()
	if !m.begun {
		k.waiting--
		k.mu.Unlock()
		return nil, false
	}
	k.mu.Unlock()
	<-m.done // a host that is being killed is started again before anything else
	return m.outcome, true
}

// leave takes a test that has ended from the members.
func (k *kills) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.members--
	k.beginIfComplete()
}

func (k *kills) beginIfComplete() {
	if k.waiting == 0 || k.waiting < k.members {
		return
	}
	m := k.next
	k.next, k.waiting, m.begun = nil, 0, true
	if m.act == nil {
		close(m.done)
		return
	}
	go func() {
		defer close(m.done)
		m.outcome = m.act(m.ctx)
	}()
}
