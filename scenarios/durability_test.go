package scenarios

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"wopcert/bundle"
	"wopcert/harness"
)

func TestDerivedBounds(t *testing.T) {
	t.Parallel()
	bound := func(class string, sum int64, ms ...int64) bundle.RecoveryBound {
		b := bundle.RecoveryBound{Class: class, Bound: sum}
		for _, n := range ms {
			b.Terms = append(b.Terms, bundle.BoundTerm{Name: "term", MS: n})
		}
		return b
	}
	for name, tc := range map[string]struct {
		bounds []bundle.RecoveryBound
		ok     bool
	}{
		"one":             {[]bundle.RecoveryBound{bound("a", 3, 1, 2)}, true},
		"two":             {[]bundle.RecoveryBound{bound("a", 3, 3), bound("b.c", 5, 5, 0)}, true},
		"none":            {nil, false},
		"a wrong sum":     {[]bundle.RecoveryBound{bound("a", 4, 1, 2)}, false},
		"no terms":        {[]bundle.RecoveryBound{bound("a", 0)}, false},
		"a class twice":   {[]bundle.RecoveryBound{bound("a", 1, 1), bound("a", 1, 1)}, false},
		"no name":         {[]bundle.RecoveryBound{bound("", 1, 1)}, false},
		"a negative term": {[]bundle.RecoveryBound{bound("a", 1, 2, -1)}, false},
		"an unnamed term": {[]bundle.RecoveryBound{{Class: "a", Bound: 1, Terms: []bundle.BoundTerm{{MS: 1}}}}, false},
	} {
		assert.Equal(t, tc.ok, derived(tc.bounds).OK, name)
	}
}

func TestResumedAfter(t *testing.T) {
	t.Parallel()
	dead := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	o := harness.Outage{Dead: dead, Back: dead.Add(400 * time.Millisecond)}
	v := victim{lasts: 300 * time.Millisecond}
	assert.Equal(t, 500*time.Millisecond, resumedAfter(o, v, dead.Add(800*time.Millisecond)), "executed anew, after a while")
	assert.Equal(t, 400*time.Millisecond, resumedAfter(o, v, dead.Add(450*time.Millisecond)), "not before the host answered")
	bound := bundle.RecoveryBound{Class: "a", Bound: 400}
	assert.True(t, inTime(bound, 400*time.Millisecond).OK)
	assert.False(t, inTime(bound, 400*time.Millisecond+1).OK)
}

// The runs a test goes by are the shortest of those that cannot have ended before the
// host was dead.
func TestInterruptedRuns(t *testing.T) {
	t.Parallel()
	sent := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	all := []victim{{"c", 9 * time.Second, sent, nil}, {"b", time.Second, sent, nil}, {"a1", 300 * time.Millisecond, sent, nil}, {"a2", 300 * time.Millisecond, sent, nil}}
	ids := func(after time.Duration) (out []string) {
		for _, v := range interrupted(nil, all, harness.Outage{Dead: sent.Add(after)}) {
			out = append(out, v.id)
		}
		return out
	}
	assert.Equal(t, []string{"a1", "a2"}, ids(10*time.Millisecond))
	assert.Equal(t, []string{"b"}, ids(300*time.Millisecond))
	assert.Equal(t, []string{"c"}, ids(2*time.Second))
}

func TestGivenUpAfterTheDeclaredAttempts(t *testing.T) {
	t.Parallel()
	logged := func(types ...string) log {
		l := log{last: &harness.Response{Status: 200}}
		for i, typ := range types {
			l.events = append(l.events, object{"type": typ, "sequence": plain(i), "payload": object{"nodeId": "n"}})
		}
		return l
	}
	for name, tc := range map[string]struct {
		l        log
		attempts int
		ok       bool
	}{
		"three starts":            {logged("run.started", "node.started", "node.started", "node.started", "node.failed", "run.failed"), 3, true},
		"a start and two retries": {logged("run.started", "node.started", "node.retried", "node.retried", "run.failed"), 3, true},
		"one too many":            {logged("run.started", "node.started", "node.started", "node.started", "node.started", "run.failed"), 3, false},
		"too early":               {logged("run.started", "node.started", "run.failed"), 1, false},
		"never":                   {logged("run.started", "node.started", "node.started", "node.started"), 3, false},
		"cancelled":               {logged("run.started", "node.started", "node.started", "node.started", "run.cancelled"), 3, false},
		"failed twice":            {logged("run.started", "node.started", "node.started", "node.started", "run.failed", "run.failed"), 3, false},
	} {
		assert.Equal(t, tc.ok, gaveUpOn(tc.l, tc.attempts, 3).OK, name)
	}
}

func TestLogsThatAKillDamaged(t *testing.T) {
	t.Parallel()
	event := func(seq int, typ string) object {
		return object{"type": typ, "sequence": plain(seq), "payload": object{"nodeId": "n"}}
	}
	seen := []object{event(0, "run.started"), event(1, "node.started")}
	v := victim{seen: seen}
	whole := log{events: append(append([]object{}, seen...), event(2, "node.completed"), event(3, "run.completed"))}
	assert.True(t, harness.All(kept(v, whole), once(whole)).OK)
	assert.False(t, kept(v, log{events: whole.events[1:]}).OK, "an event that is gone")
	assert.False(t, kept(v, log{events: []object{event(0, "run.started"), event(1, "node.retried")}}).OK, "one that changed")
	assert.False(t, once(log{events: append(append([]object{}, whole.events...), event(4, "node.completed"))}).OK, "a node twice")
	assert.False(t, once(log{events: append(append([]object{}, seen...), event(1, "node.started"))}).OK, "a sequence twice")
}
