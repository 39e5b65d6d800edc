package harness

import (
	"context"
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
