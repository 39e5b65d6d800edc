package harness

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
)

// killers are tests that come last, each with a requirement's row of its own test.
func killers(runs ...func(*T)) Scenario {
	s := oneTest(nil)
	one := s.Tests[0]
	s.Tests = nil
	for i, run := range runs {
		one.Name, one.Run, one.Last = string(rune('a'+i)), run, true
		one.Gates = []Gate{ClaimsDurability(), NeedsKill()}
		s.Tests = append(s.Tests, one)
	}
	return s
}

func counting(host *mortal, kills *atomic.Int32) *Recovery {
	return &Recovery{Restart: host.restart, Kill: func(ctx context.Context) error {
		kills.Add(1)
		return host.kill(ctx)
	}}
}

func lifeline(tt *T) func() *Stream {
	return func() *Stream { return tt.Lifeline("/events") }
}

// One kill serves all that are ready for it, and the next one waits until those
// that kill once have looked at what came of it.
func TestKillsAreShared(t *testing.T) {
	t.Parallel()
	host := newMortal(t)
	var kills, looking, disturbed atomic.Int32
	once := func(tt *T) {
		o := tt.KillHost(lifeline(tt))
		looking.Add(1)
		before := kills.Load()
		time.Sleep(50 * time.Millisecond)
		disturbed.Add(kills.Load() - before)
		looking.Add(-1)
		tt.Expect(idA, That(!o.Back.IsZero(), "a host that is back", "none"))
	}
	r := measure(t, Options{BaseURL: host.URL, Recovery: counting(host, &kills), Scenarios: []Scenario{killers(once, once, func(tt *T) {
		for range 3 {
			tt.KillHost(lifeline(tt))
		}
		tt.Expect(idA, That(looking.Load() == 0, "nobody who looks at an earlier kill", "some"))
	})}})
	require.Empty(t, r.SuiteFaults)
	assert.Equal(t, bundle.ExecutedPass, rowOf(t, r, idA).Result, rowOf(t, r, idA).Detail)
	assert.Equal(t, int32(3), kills.Load())
	assert.Zero(t, disturbed.Load())
}

// A test that ends before it kills, in whatever way, holds no other up.
func TestAKillWaitsForNobodyWhoEnded(t *testing.T) {
	t.Parallel()
	host := newMortal(t)
	var kills atomic.Int32
	kill := func(tt *T) {
		tt.Expect(idA, That(!tt.KillHost(lifeline(tt)).Back.IsZero(), "a host that is back", "none"))
	}
	r := measure(t, Options{BaseURL: host.URL, Recovery: counting(host, &kills), Scenarios: []Scenario{killers(kill,
		func(tt *T) { tt.Expect(idA, That(true, "", "")) },
		func(tt *T) { tt.Inapplicable(idA, "no need"); tt.Abort("before the first meeting") },
		func(tt *T) { tt.KillHost(func() *Stream { tt.Abort("between the meetings"); return nil }) },
		kill)}})
	require.Empty(t, r.SuiteFaults)
	row := rowOf(t, r, idA)
	assert.Equal(t, bundle.Blocked, row.Result)
	assert.Contains(t, row.Detail, "before the first meeting")
	assert.Equal(t, int32(1), kills.Load())
}

// A kill that somebody never gets ready for does not come.
func TestAKillNotEverybodyIsReadyFor(t *testing.T) {
	t.Parallel()
	host := newMortal(t)
	var kills atomic.Int32
	s := killers(
		func(tt *T) { tt.KillHost(lifeline(tt)) },
		func(tt *T) { <-tt.Context().Done() })
	s.Tests[1].Timeout = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	r := measureIn(t, ctx, Options{BaseURL: host.URL, Recovery: counting(host, &kills), Scenarios: []Scenario{s}})
	assert.Equal(t, bundle.Blocked, rowOf(t, r, idA).Result)
	assert.Zero(t, kills.Load())
}
