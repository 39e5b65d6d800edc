package harness

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
)

// mortal is a host that dies when it is told to: it ends its streams and answers
// nothing until it is started again.
type mortal struct {
	*httptest.Server
	dead atomic.Bool
}

func newMortal(t *testing.T) *mortal {
	m := &mortal{}
	inner := newHost(t, nil, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}).Config.Handler
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.dead.Load() {
			panic(http.ErrAbortHandler)
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *mortal) kill(context.Context) error {
	m.dead.Store(true)
	m.CloseClientConnections()
	return nil
}

func (m *mortal) restart(context.Context) error {
	m.dead.Store(false)
	return nil
}

// killing is a scenario that kills the host and says what came of it.
func killing(outage *Outage) Scenario {
	s := oneTest(func(tt *T) {
		*outage = tt.KillHost(func() *Stream { return tt.Lifeline("/events") })
		tt.Expect(idA, That(!outage.Back.IsZero(), "a host that is back", "none"))
	})
	s.Tests[0].Gates = []Gate{ClaimsDurability(), NeedsKill()}
	s.Tests[0].Last = true
	return s
}

func TestKillHost(t *testing.T) {
	t.Parallel()
	host := newMortal(t)
	var o Outage
	r := measure(t, Options{BaseURL: host.URL, Scenarios: []Scenario{killing(&o)}, Recovery: &Recovery{Kill: host.kill, Restart: host.restart}})
	assert.Equal(t, bundle.ExecutedPass, rowOf(t, r, idA).Result)
	assert.True(t, o.Began.Before(o.Dead) && o.Dead.Before(o.Back))
}

// A supervisor of the host's own brings it back.
func TestKillHostWithoutRestart(t *testing.T) {
	t.Parallel()
	host := newMortal(t)
	var o Outage
	kill := func(ctx context.Context) error {
		time.AfterFunc(50*time.Millisecond, func() { _ = host.restart(ctx) })
		return host.kill(ctx)
	}
	r := measure(t, Options{BaseURL: host.URL, Scenarios: []Scenario{killing(&o)}, Recovery: &Recovery{Kill: kill}})
	assert.Equal(t, bundle.ExecutedPass, rowOf(t, r, idA).Result)
}

func TestKillsThatAreNone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kill, restart func(context.Context) error
		detail        string
	}{
		"a command that does nothing": {func(context.Context) error { return nil }, nil, "the host was not killed"},
		"a command that fails":        {func(context.Context) error { return errors.New("exit status 7") }, nil, "could not be killed: exit status 7"},
		"a restart that fails":        {nil, func(context.Context) error { return errors.New("exit status 8") }, "could not be started again: exit status 8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := newMortal(t)
			kill, restart := tc.kill, tc.restart
			if kill == nil {
				kill = host.kill
			}
			if restart == nil {
				restart = host.restart
			}
			var o Outage
			r := measure(t, Options{BaseURL: host.URL, Scenarios: []Scenario{killing(&o)}, Recovery: &Recovery{Kill: kill, Restart: restart}})
			row := rowOf(t, r, idA)
			assert.Equal(t, bundle.Blocked, row.Result, "what the suite could not do says nothing about the host")
			assert.Contains(t, row.Detail, tc.detail)
			assert.Empty(t, r.SuiteFaults)
		})
	}
}

func TestRecoveryGates(t *testing.T) {
	t.Parallel()
	host := newMortal(t)
	var o Outage
	row := rowOf(t, measure(t, Options{BaseURL: host.URL, Scenarios: []Scenario{killing(&o)}}), idA)
	assert.Equal(t, bundle.Inapplicable, row.Result, "nobody claims durability")
	assert.Contains(t, row.Detail, "--recovery-bounds")
	row = rowOf(t, measure(t, Options{BaseURL: host.URL, Scenarios: []Scenario{killing(&o)}, Recovery: &Recovery{}}), idA)
	assert.Equal(t, bundle.Blocked, row.Result, "it is claimed, and the suite cannot kill")
	assert.Contains(t, row.Detail, "--kill-cmd")
}

func TestRelaxationGate(t *testing.T) {
	t.Parallel()
	s := oneTest(func(tt *T) { tt.Expect(idA, Equal("relaxations", 1, len(tt.Relaxations()))) })
	s.Tests[0].Gates = []Gate{RunsRelaxed()}
	url := newHost(t, nil, nil).URL
	assert.Equal(t, bundle.Inapplicable, rowOf(t, measure(t, Options{BaseURL: url, Scenarios: []Scenario{s}}), idA).Result)
	relaxed := []bundle.Relaxation{{Obligation: "packs.isolation", Durability: "session", Reason: "r"}}
	assert.Equal(t, bundle.ExecutedPass, rowOf(t, measure(t, Options{BaseURL: url, Scenarios: []Scenario{s}, Relaxations: relaxed}), idA).Result)
}

// Evidence rides on a row that is executed-pass, and on no other.
func TestAttest(t *testing.T) {
	t.Parallel()
	evidence := bundle.Evidence{Recovery: &bundle.Recovery{Class: "a", BoundMS: 2, ObservedMS: 1}}
	row := func(run func(*T)) bundle.Row {
		r := measure(t, Options{BaseURL: newHost(t, nil, nil).URL, Scenarios: []Scenario{oneTest(run)}})
		require.Empty(t, r.SuiteFaults)
		assert.Nil(t, r.Rows[1].Evidence, "the scenario's own row has none")
		return r.Rows[0]
	}
	got := row(func(tt *T) { tt.Expect(idA, That(true, "", "")); tt.Attest(idA, evidence) })
	assert.Equal(t, bundle.ExecutedPass, got.Result)
	assert.Equal(t, &evidence, got.Evidence)
	assert.Equal(t, int64(1), got.Assertions)
	got = row(func(tt *T) { tt.Attest(idA, evidence); tt.Expect(idA, That(false, "", "")) })
	assert.Equal(t, bundle.ExecutedFail, got.Result)
	assert.Nil(t, got.Evidence)
	got = row(func(tt *T) { tt.Attest(idA, evidence) })
	assert.Equal(t, bundle.Blocked, got.Result, "evidence alone observes nothing")
	assert.Nil(t, got.Evidence)
}

// A test that comes last runs after all others, and after the exclusive ones.
func TestLastRunsLast(t *testing.T) {
	t.Parallel()
	var order []string
	note := func(name string) func(*T) {
		return func(tt *T) { order = append(order, name); tt.Expect(idA, That(true, "", "")) }
	}
	s := oneTest(note("last"))
	s.Tests[0].Last = true
	s.Tests = append(s.Tests,
		Test{Name: "exclusive", Witnesses: s.Tests[0].Witnesses, Exclusive: true, Run: note("exclusive")},
		Test{Name: "shared", Witnesses: s.Tests[0].Witnesses, Run: note("shared")})
	measure(t, Options{BaseURL: newHost(t, nil, nil).URL, Scenarios: []Scenario{s}})
	assert.Equal(t, []string{"shared", "exclusive", "last"}, order)
}

func TestMillisRoundsUp(t *testing.T) {
	t.Parallel()
	assert.Equal(t, int64(0), Millis(-time.Second))
	assert.Equal(t, int64(0), Millis(0))
	assert.Equal(t, int64(1), Millis(1))
	assert.Equal(t, int64(2), Millis(time.Millisecond+1))
}
