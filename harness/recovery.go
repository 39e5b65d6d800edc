package harness

import (
	"context"
	"net/http"
	"time"

	"wopcert/bundle"
	"wopcert/requirements"
)

// Recovery is what is claimed about the host's durability, and the means to put
// it to the test (conformance.md, "Recovery evidence").
type Recovery struct {
	// Kill ends the host at once and without warning, and returns when it is dead.
	// Without it the tests that kill are blocked.
	Kill func(context.Context) error
	// Restart starts the host again, at the same address and on what it had stored.
	// It is nil where something of the host's own starts it again.
	Restart func(context.Context) error
	// Bounds are the declared recovery bounds. Their classes and terms are the
	// host's own names.
	Bounds []bundle.RecoveryBound
	// AfterAccept and DuringExecution are the classes the two kills belong to; ""
	// means the first one declared.
	AfterAccept, DuringExecution string
	// MaxAttempts is how often the host attempts a run whose execution it does not
	// survive; 0 where nothing is declared.
	MaxAttempts int
}

// Bound is the declared bound of a recovery class, the first one for "".
func (r *Recovery) Bound(class string) (bundle.RecoveryBound, bool) {
	for _, b := range r.Bounds {
		if class == "" || b.Class == class {
			return b, true
		}
	}
	return bundle.RecoveryBound{}, false
}

// Bounds on a kill and what follows it.
const (
	commandTimeout = 60 * time.Second // for the command that kills, and for the one that starts
	backTimeout    = 60 * time.Second // from there until the host answers
	deathTimeout   = 2 * time.Second  // until a dead host's connections are known to be gone
)

// ClaimsDurability gates on a claim that the host recovers. It is the host's
// operator who makes it, by declaring the host's recovery bounds; without it the
// rung is not claimed, and nothing of it binds.
func ClaimsDurability() Gate {
	return Gate{need: need{kind: NeedDurability}, explain: func(e *Env) (string, bool) {
		return "no durability is claimed for the host: its operator declared no recovery bounds (--recovery-bounds FILE)", e.recovery != nil
	}}
}

// NeedsKill gates on a way to kill the host.
func NeedsKill() Gate {
	return Gate{suite: true, need: need{kind: NeedMeans, what: "a way to kill the host"}, explain: func(e *Env) (string, bool) {
		return "durability is claimed for the host, and there is no way to kill it; give --kill-cmd COMMAND, and --restart-cmd COMMAND where nothing else starts the host again",
			e.recovery != nil && e.recovery.Kill != nil
	}}
}

// Recovery is what is claimed and declared; tests that call it are gated on
// ClaimsDurability.
func (t *T) Recovery() *Recovery {
	if t.run.recovery == nil {
		t.Abort("no durability is claimed for the host")
	}
	return t.run.recovery
}

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
// test ends when a command fails, or when the lifeline shows that the host did not
// die of it. A host that stays away is its own fault: Back is zero then. A run that
// is interrupted meanwhile does not leave the host dead.
func (t *T) KillHost(lifeline *Stream) Outage {
	r := t.Recovery()
	if r.Kill == nil {
		t.Abort("there is no way to kill the host")
	}
	if lifeline.AwaitClose(0) != Open {
		t.Abort("the stream to see the host die by ended before it was killed")
	}
	ctx := context.WithoutCancel(t.ctx)
	o := Outage{Began: time.Now()}
	if err := within(ctx, commandTimeout, r.Kill); err != nil {
		t.Abort("the host could not be killed: %v", err)
	}
	o.Dead = time.Now()
	died := lifeline.AwaitClose(deathTimeout) != Open
	t.run.client.close() // what the host left behind is of no use to the next request
	if r.Restart != nil {
		if err := within(ctx, commandTimeout, r.Restart); err != nil {
			t.Abort("the host could not be started again: %v", err)
		}
	}
	if !died {
		t.Abort("the host was not killed: a stream that was open before is still open %s after the command came back", deathTimeout)
	}
	for end := time.Now().Add(backTimeout); time.Now().Before(end) && t.ctx.Err() == nil; {
		if t.alive() {
			o.Back = time.Now()
			break
		}
	}
	return o
}

func within(ctx context.Context, d time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return f(ctx)
}

// alive asks for the discovery document, without leaving a trace in the capture:
// it is asked until it is there. It takes its time to say no.
func (t *T) alive() bool {
	ctx, cancel := context.WithTimeout(t.ctx, headerTimeout)
	defer cancel()
	req, _, err := t.run.client.build(ctx, Request{Path: WellKnown, As: Anonymous})
	if err != nil {
		return false
	}
	res, err := t.run.client.do(t.run.client.plain, req)
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
	case <-t.ctx.Done():
	}
	return false
}

// Attest puts evidence on the row of a requirement. It counts only where the row
// is executed-pass.
func (t *T) Attest(id requirements.ID, evidence bundle.Evidence) {
	t.log.add(observation{id: id, outcome: attested, evidence: &evidence})
}

// Millis is a duration in whole milliseconds, rounded up, and never negative.
func Millis(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
