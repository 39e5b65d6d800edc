package scenarios

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"wopcert/bundle"
	"wopcert/harness"
	"wopcert/requirements"
)

// durabilityRecovery: conformance.md, "Recovery evidence", and idempotency.md,
// "Layer 2: effect identity".
func durabilityRecovery() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-durability-recovery",
		Title:    "What was accepted outlasts the host, within the bound declared for it, and happens once",
		Document: "conformance.md",
		Section:  "Recovery evidence",
		Tests: []harness.Test{
			{
				Name:      "a second delivery during a run and after it",
				Witnesses: []requirements.ID{requirements.R0158DuplicateDelivery},
				Gates:     []harness.Gate{harness.Advertises("idempotency"), harness.NeedsFixture(sideEffect)},
				Run:       duplicateDelivery,
			},
			{
				Name:      "a second delivery while a provider takes its time over the effect",
				Witnesses: []requirements.ID{requirements.R0158DuplicateDelivery},
				Gates:     []harness.Gate{harness.Advertises("idempotency"), optIn(httpEffect), harness.NeedsReceiver()},
				Run:       duplicateAtProvider,
			},
			{
				Name:      "the declared bounds",
				Witnesses: []requirements.ID{requirements.R0158BoundIsDerived},
				Gates:     []harness.Gate{harness.ClaimsDurability()},
				Public:    true,
				Run: func(t *harness.T) {
					bounds := t.Recovery().Bounds
					if t.Expect(requirements.R0158BoundIsDerived, derived(bounds)) {
						t.Attest(requirements.R0158BoundIsDerived, bundle.Evidence{RecoveryBounds: bounds})
					}
				},
			},
			{
				Name:      "a kill right after runs were accepted",
				Witnesses: []requirements.ID{requirements.R0158KillAfterAccept},
				Gates:     []harness.Gate{harness.ClaimsDurability(), harness.NeedsKill(), harness.NeedsFixture(delay)},
				Last:      true,
				Timeout:   recoveryTimeout,
				Run:       killAfterAccept,
			},
			{
				Name:      "a kill while runs execute",
				Witnesses: []requirements.ID{requirements.R0158KillDuringExecution},
				Gates:     []harness.Gate{harness.ClaimsDurability(), harness.NeedsKill(), harness.NeedsFixture(delay)},
				Last:      true,
				Timeout:   recoveryTimeout,
				Run:       killDuringExecution,
			},
			{
				Name:      "a run whose execution the host does not survive",
				Witnesses: []requirements.ID{requirements.R0158PoisonExhaustion},
				Gates:     []harness.Gate{harness.ClaimsDurability(), harness.NeedsKill(), harness.NeedsFixture(delay), harness.NeedsFixture(noop)},
				Last:      true,
				Timeout:   recoveryTimeout,
				Run:       poisonExhaustion,
			},
		},
	}
}

// recoveryTimeout leaves room for operators' commands and supervisors.
const recoveryTimeout = 5 * time.Minute

// derived checks declared recovery bounds: every class once, every bound the
// sum of its terms.
func derived(bounds []bundle.RecoveryBound) harness.Check {
	const expected = "every recovery class once, each bound the sum of its terms"
	var faults []string
	seen := map[string]bool{}
	for _, b := range bounds {
		if b.Class == "" || seen[b.Class] {
			faults = append(faults, fmt.Sprintf("class %q without a name or twice", b.Class))
		}
		seen[b.Class] = true
		sum := int64(0)
		for _, term := range b.Terms {
			if term.Name == "" || term.MS < 0 {
				faults = append(faults, fmt.Sprintf("term %q of %d ms in class %q", term.Name, term.MS, b.Class))
			}
			sum += term.MS
		}
		if len(b.Terms) == 0 || sum != b.Bound || b.Bound <= 0 {
			faults = append(faults, fmt.Sprintf("class %q with a bound of %d ms and %d terms of %d ms in all", b.Class, b.Bound, len(b.Terms), sum))
		}
	}
	if len(bounds) == 0 {
		faults = append(faults, "no recovery class at all")
	}
	return harness.That(len(faults) == 0, expected, "%s", orNone(strings.Join(faults, "; ")))
}

func orNone(s string) string {
	if s == "" {
		return "just that"
	}
	return s
}

// victim is a run that the host has accepted and that lasts a known time.
type victim struct {
	id    string
	lasts time.Duration
	sent  time.Time // before the host was asked for it
	seen  []object  // its log before the kill, where that was read
}

// victims creates runs that last from a moment on up to longer than a slow kill
// takes. Those that cannot have ended before the host was dead are what a test
// goes by.
//
// The longest one comes first, and the stream that shows when the host dies is its.
func victims(t *harness.T) ([]victim, *harness.Stream) {
	var out []victim
	var lifeline *harness.Stream
	for _, lasts := range []time.Duration{25 * time.Second, 9 * time.Second, 3 * time.Second, time.Second, 600 * time.Millisecond, 300 * time.Millisecond, 300 * time.Millisecond, 300 * time.Millisecond} {
		v := victim{lasts: lasts, sent: time.Now()}
		v.id = startRun(t, object{"workflowId": delay, "inputs": object{"delayMs": lasts.Milliseconds()}})
		out = append(out, v)
		if lifeline == nil {
			lifeline = t.Lifeline(runPath(v.id, "/events"))
		}
	}
	return out, lifeline
}

// interrupted are the shortest runs that had not ended when the host was dead.
// The test ends when every run may have.
func interrupted(t *harness.T, all []victim, o harness.Outage) []victim {
	var out []victim
	for _, v := range all {
		if v.lasts <= o.Dead.Sub(v.sent) {
			continue
		}
		if len(out) > 0 && v.lasts < out[0].lasts {
			out = nil
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		t.Abort("the kill took %s, longer than any run lasts: the command has to return as soon as the host is dead", o.Dead.Sub(o.Began).Round(time.Millisecond))
	}
	return out
}

// back checks that the host came back at all.
func back(o harness.Outage) harness.Check {
	return harness.That(!o.Back.IsZero(), "a host that answers again after the kill", "no answer within a minute of its restart")
}

// declaredBound is the declared bound of a class; the test ends when there is none.
func declaredBound(t *harness.T, class string) bundle.RecoveryBound {
	b, ok := t.Recovery().Bound(class)
	if !ok {
		t.Abort("no recovery bound is declared for class %q", class)
	}
	return b
}

// recovered waits until runs have ended and returns how they ended and the
// moment of the first end.
func recovered(t *harness.T, runs []victim, bound bundle.RecoveryBound) (logs []log, first time.Time) {
	for _, v := range runs {
		logs = append(logs, readLog(t, v.id, time.Duration(bound.Bound)*time.Millisecond+v.lasts+settle))
		if first.IsZero() {
			first = time.Now()
		}
	}
	return logs, first
}

// resumedAfter is the time from the kill until the work went on: what the end
// of a run says less what its own work took, yet not before the host answered.
func resumedAfter(o harness.Outage, v victim, end time.Time) time.Duration {
	resumed := end.Add(-v.lasts)
	if resumed.Before(o.Back) {
		resumed = o.Back
	}
	return resumed.Sub(o.Dead)
}

// inTime checks an observed recovery against its bound.
func inTime(bound bundle.RecoveryBound, observed time.Duration) harness.Check {
	return harness.That(harness.Millis(observed) <= bound.Bound, fmt.Sprintf("work that goes on within %d ms of the kill, the bound of class %q", bound.Bound, bound.Class),
		"%d ms", harness.Millis(observed))
}

// completesItself checks that a run has ended by itself as it should.
func completesItself(v victim, l log) harness.Check {
	expected := fmt.Sprintf("the run of %s, accepted before the kill, to complete by itself", v.lasts)
	return harness.That(l.terminal && len(eventsOfType(l.events, "run.completed")) == 1, expected,
		"%s with status %q and the events %v", answered(l.last), l.status, typeNames(l.events)).At(l.last)
}

// present checks that accepted runs are there, and ends those that go on.
func present(t *harness.T, runs []victim) harness.Check {
	last := harness.That(false, "the accepted runs", "none")
	for _, v := range runs {
		r := get(t, v.id)
		last = harness.That(r.Is(http.StatusOK).OK && r.Text("status") != "failed" && r.Text("status") != "cancelled", "a run accepted before the kill, there and well",
			"%s with status %q", answered(r), r.Text("status")).At(r)
		if !last.OK {
			return last
		}
	}
	return last
}

func killAfterAccept(t *harness.T) {
	bound := declaredBound(t, t.Recovery().AfterAccept)
	var runs []victim
	o := t.KillHost(func() (lifeline *harness.Stream) {
		runs, lifeline = victims(t)
		return lifeline
	})
	if !t.Expect(requirements.R0158KillAfterAccept, back(o)) {
		return
	}
	defer endAll(t, runs)
	t.Expect(requirements.R0158KillAfterAccept, present(t, runs))
	cut := interrupted(t, runs, o)
	logs, first := recovered(t, cut, bound)
	for i, l := range logs {
		t.Expect(requirements.R0158KillAfterAccept, completesItself(cut[i], l))
	}
	observed := resumedAfter(o, cut[0], first)
	t.Expect(requirements.R0158KillAfterAccept, inTime(bound, observed))
	t.Attest(requirements.R0158KillAfterAccept, recoveryOf(bound, observed))
}

func recoveryOf(bound bundle.RecoveryBound, observed time.Duration) bundle.Evidence {
	return bundle.Evidence{Recovery: &bundle.Recovery{Class: bound.Class, BoundMS: bound.Bound, ObservedMS: harness.Millis(observed)}}
}

func endAll(t *harness.T, runs []victim) {
	for _, v := range runs {
		if v.lasts > time.Second {
			endRun(t, v.id)
		}
	}
}
