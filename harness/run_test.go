package harness

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/requirements"
)

// silence answers nothing until the client gives up.
func silence(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestDeadlineBlocks(t *testing.T) {
	t.Parallel()
	host := newHost(t, nil, silence)
	began := time.Now()
	r := measure(t, Options{BaseURL: host.URL, Timeout: 200 * time.Millisecond, Scenarios: []Scenario{oneTest(func(tt *T) {
		tt.Expect(idA, tt.Do(Request{Path: "/x"}).Is(200))
		tt.Abort("a step failed")
	}, idA, idB)}})
	assert.Less(t, time.Since(began), 10*time.Second)
	assert.Equal(t, bundle.Blocked, rowOf(t, r, idA).Result, "a check that was overtaken says nothing about the host")
	assert.Equal(t, bundle.Blocked, rowOf(t, r, idB).Result)
	assert.Empty(t, r.Failures)
}

func TestExchangeTimeoutFails(t *testing.T) {
	t.Parallel()
	host := newHost(t, nil, silence)
	r := measure(t, Options{BaseURL: host.URL, Scenarios: []Scenario{oneTest(func(tt *T) {
		tt.Expect(idA, tt.Do(Request{Path: "/x", Timeout: 100 * time.Millisecond}).Is(200))
	})}})
	row := rowOf(t, r, idA)
	assert.Equal(t, bundle.ExecutedFail, row.Result, "a host that does not answer in time answers wrongly")
	assert.Contains(t, row.Detail, "no response")
}

func TestTestTimeoutExtends(t *testing.T) {
	t.Parallel()
	s := oneTest(func(tt *T) {
		left, ok := tt.Context().Deadline()
		tt.Expect(idA, That(ok && time.Until(left) > time.Minute, "", ""))
	})
	s.Tests[0].Timeout = time.Hour
	r := measure(t, Options{BaseURL: newHost(t, nil, nil).URL, Timeout: time.Second, Scenarios: []Scenario{s}})
	assert.Equal(t, bundle.ExecutedPass, rowOf(t, r, idA).Result)
}

func TestPanicIsASuiteFault(t *testing.T) {
	t.Parallel()
	secret := "primary-secret-key-1"
	s := oneTest(func(tt *T) {
		tt.Expect(idA, That(true, "", ""))
		panic("nil map " + secret)
	})
	s.Tests = append(s.Tests, Test{Name: "two", Witnesses: []requirements.ID{idB}, Run: func(tt *T) { tt.Expect(idB, That(true, "", "")) }})
	r := measure(t, Options{BaseURL: newHost(t, nil, nil).URL, Credentials: Credentials{Primary: secret}, Scenarios: []Scenario{s}})
	require.Len(t, r.SuiteFaults, 1)
	assert.Contains(t, r.SuiteFaults[0], "v2-run-cancel/one panicked: nil map")
	assert.NotContains(t, r.SuiteFaults[0], secret)
	assert.Equal(t, bundle.Blocked, rowOf(t, r, idA).Result)
	assert.Equal(t, "the test itself failed", rowOf(t, r, idA).Detail)
	assert.Equal(t, bundle.ExecutedPass, rowOf(t, r, idB).Result)
}

func TestInterruptedRunIsComplete(t *testing.T) {
	t.Parallel()
	host := newHost(t, nil, silence)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := oneTest(func(tt *T) { tt.Expect(idA, That(true, "", "")) })
	s.Tests = append(s.Tests,
		Test{Name: "two", Witnesses: []requirements.ID{idB}, Run: func(tt *T) {
			cancel()
			tt.Expect(idB, tt.Do(Request{Path: "/x"}).Is(200))
			tt.Abort("stopped")
		}},
		Test{Name: "three", Witnesses: []requirements.ID{idC}, Run: func(tt *T) { tt.Expect(idC, That(true, "", "")) }},
	)
	r := measureIn(t, ctx, Options{BaseURL: host.URL, Parallel: 1, Scenarios: []Scenario{s}})
	assert.True(t, r.Interrupted)
	assert.Equal(t, bundle.ExecutedPass, rowOf(t, r, idA).Result, "what was seen is kept")
	assert.Equal(t, bundle.Blocked, rowOf(t, r, idB).Result)
	assert.Equal(t, bundle.Blocked, rowOf(t, r, idC).Result)
	assert.Contains(t, rowOf(t, r, idC).Detail, "interrupted before this test")
	assert.Len(t, r.Rows, 4)
	assert.Empty(t, r.Failures)
}

func TestParallelAndExclusive(t *testing.T) {
	t.Parallel()
	var running, most, beside atomic.Int32
	work := func(alone bool) func(*T) {
		return func(tt *T) {
			n := running.Add(1)
			defer running.Add(-1)
			for {
				m := most.Load()
				if n <= m || most.CompareAndSwap(m, n) {
					break
				}
			}
			if alone && n > 1 {
				beside.Add(1)
			}
			time.Sleep(20 * time.Millisecond)
			tt.Expect(idA, That(true, "", ""))
		}
	}
	s := Scenario{ID: "v2-x", Tests: []Test{{Name: "alone", Exclusive: true, Witnesses: []requirements.ID{idA}, Run: work(true)}}}
	for range 8 {
		s.Tests = append(s.Tests, Test{Name: "shared", Witnesses: []requirements.ID{idA}, Run: work(false)})
	}
	r := measure(t, Options{BaseURL: newHost(t, nil, nil).URL, Parallel: 4, Scenarios: []Scenario{s}})
	assert.EqualValues(t, 9, rowOf(t, r, idA).Assertions)
	assert.LessOrEqual(t, most.Load(), int32(4))
	assert.Greater(t, most.Load(), int32(1))
	assert.Zero(t, beside.Load())
	assert.Equal(t, "openwop.scenario.v2-x", r.Rows[1].ID, "no profile's floor names it")
}

// recorder is a progress receiver.
type recorder struct {
	mu    sync.Mutex
	lines []string
}

func (p *recorder) add(s string) { p.mu.Lock(); defer p.mu.Unlock(); p.lines = append(p.lines, s) }

func (p *recorder) Discovered(h *Host)          { p.add("host " + h.Discovery.Preferred()) }
func (p *recorder) Started(scenario, _ string)  { p.add("started " + scenario) }
func (p *recorder) ScenarioDone(row bundle.Row) { p.add("done " + row.ID + " " + string(row.Result)) }
func (p *recorder) Finished(scenario, _ string, seen []Observed) {
	for _, o := range seen {
		p.add("finished " + scenario + " " + o.Outcome + " " + o.Reason)
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	p := &recorder{}
	key := "primary-secret-key-2"
	measure(t, Options{BaseURL: newHost(t, nil, nil).URL, Credentials: Credentials{Primary: key}, Progress: p, Scenarios: []Scenario{oneTest(func(tt *T) {
		tt.Expect(idA, That(false, "e", "%s", key))
	})}})
	assert.Equal(t, []string{
		"host 2.0",
		"started v2-run-cancel",
		"finished v2-run-cancel fail expected e; observed [redacted:primary-key]",
		"done openwop.floor.v2-run-cancel executed-fail",
	}, p.lines)
}

func TestFailures(t *testing.T) {
	t.Parallel()
	host := newHost(t, nil, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	r := measure(t, Options{BaseURL: host.URL, Scenarios: []Scenario{oneTest(func(tt *T) {
		first := tt.Do(Request{Path: "/x"})
		tt.Do(Request{Path: "/y"})
		tt.Expect(idA, first.Is(200))
		tt.Expect(idA, That(false, "e", "o"))
	})}})
	require.Len(t, r.Failures, 2)
	f := r.Failures[0]
	assert.Equal(t, Failure{Requirement: idA, Scenario: "v2-run-cancel", Test: "one", Expected: "status 200", Observed: "418", Exchange: 1,
		Reproduce: "wopcert certify --host " + host.URL + " --scenario v2-run-cancel"}, f)
	assert.Equal(t, 2, r.Failures[1].Exchange, "a check that names none is about the last exchange")
}

func TestBaseURL(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "host", "ftp://host", "http://", "http://user:pw@host", "http://host?x=1", "http://host#f", "http://ho st", "://x"} {
		_, err := ParseBaseURL(bad)
		assert.Error(t, err, "%q", bad)
		assert.NotContains(t, err.Error(), "pw")
	}
	for _, good := range []string{"http://host", "https://host:8443/prefix/", "HTTP://host"} {
		_, err := ParseBaseURL(good)
		assert.NoError(t, err, "%q", good)
	}
	_, err := Run(context.Background(), Options{BaseURL: "nowhere"})
	assert.Error(t, err)
}
