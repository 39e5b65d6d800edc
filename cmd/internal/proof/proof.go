// Package proof proves the suite with the reference host: that every check can
// fail, by breaking the host in each way it knows, and that none is too strict,
// by letting the host use each freedom it has.
package proof

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"wopcert/bundle"
	"wopcert/corpus"
	"wopcert/harness"
	"wopcert/harness/receiver"
	"wopcert/internal/testnet"
	referencehost "wopcert/reference-host"
	"wopcert/reference-host/faults"
	"wopcert/reference-host/variants"
	"wopcert/requirements"
	"wopcert/scenarios"
)

// A measurement works hard at first and then waits for the tests that take their
// time. So few hosts work at a time, which keeps each of them nearly as quick to
// answer as it is alone, and many wait.
const (
	// DefaultParallel is the number of hosts that work at a time.
	DefaultParallel = 4
	// waitingPerWorking is how many hosts exist at a time for each that works.
	waitingPerWorking = 12
	// testsAtATime is wide enough for every test of the suite that waits.
	testsAtATime = 64
	// stillWaiting is how many quick tests a host may have before it that only
	// waits: a fault makes some of them wait for what never comes.
	stillWaiting = 8
	// collectAt is how far, in percent, the heap may grow between collections.
	collectAt = 300
	// againAtATime hosts are looked at once more at a time: so few that none is late
	// for the others.
	againAtATime = 4
	// workingAtMost ends the work of a host on which most tests wait.
	workingAtMost = 8 * time.Second
)

// Options says what to prove.
type Options struct {
	Scenarios []harness.Scenario // nil for the whole suite
	Faults    []faults.Fault     // what Faults proves, nil for all
	Variants  []variants.Variant // what Variants proves, nil for all
	Parallel  int                // hosts that work at a time, DefaultParallel when 0
	Alone     bool               // every change by itself with the whole suite, see Faults and Variants
	Progress  func(Step)         // nil for none; calls are serialized
}

// Step is one measurement that ended.
type Step struct {
	ID      string // of the fault or variant, "" for the unchanged host
	Done    int    // measurements so far, the unchanged host's not counted
	Total   int
	Proved  bool
	Elapsed time.Duration
}

// row is what one measurement found about one requirement.
type row struct {
	id     requirements.ID
	result bundle.Disposition
	detail string
}

// measurement is what one host was found to be.
type measurement struct {
	rows  []row // in the suite's order
	byID  map[requirements.ID]row
	suite []string // defects of the suite itself
	err   error    // the host could not be measured at all
}

// change is what is different about a host.
type change struct {
	id       string
	basePath string
	wrap     func(http.Handler) http.Handler
	decorate func(*referencehost.Config)
	slow     bool               // started first, so that nothing waits for a late starter
	suite    []harness.Scenario // what is run, nil for everything the options name
	mortal   bool               // measured on a host that is killed
	declares []requirements.ID  // rows it says something about
}

// prover measures hosts.
type prover struct {
	options    Options
	corpus     *corpus.Corpus
	baseline   *measurement
	mortal     func() *measurement // the unchanged host when it is killed, measured once
	receiver   *receiver.Server    // what every host's calls reach
	afterKills map[requirements.ID]bool
	mu         sync.Mutex
	done       int
	total      int
}

// newProver measures the unchanged host. The caller closes what it returns.
func newProver(ctx context.Context, o Options) (_ *prover, failed error) {
	c, err := corpus.Load()
	if err != nil {
		return nil, err
	}
	if o.Scenarios == nil {
		o.Scenarios = scenarios.All()
	}
	if o.Parallel <= 0 {
		o.Parallel = DefaultParallel
	}
	target, err := receiver.Start(*testnet.Config())
	if err != nil {
		return nil, err
	}
	p := &prover{options: o, corpus: c, receiver: target, afterKills: onlyAfterKills(o.Scenarios)}
	defer func() {
		if failed != nil {
			p.close()
		}
	}()
	p.mortal = sync.OnceValue(func() *measurement { return p.measure(ctx, change{mortal: true}, func() {}) })
	started := time.Now()
	p.baseline = p.measure(ctx, change{}, func() {})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case p.baseline.err != nil:
		return nil, fmt.Errorf("the unchanged reference host could not be measured: %w", p.baseline.err)
	case len(p.baseline.suite) > 0:
		return nil, fmt.Errorf("the suite itself is at fault: %s", strings.Join(p.baseline.suite, "; "))
	}
	p.report(Step{Proved: true, Elapsed: time.Since(started)})
	return p, nil
}

// unchanged is the measurement that one of a change is held against.
func (p *prover) unchanged(c change) *measurement {
	if c.mortal {
		return p.mortal()
	}
	return p.baseline
}

// close ends what the hosts' calls reached.
func (p *prover) close() { _ = p.receiver.Close() }

// configure makes the configuration of a host with a change, around the store it
// is given or, for nil, one in memory. The keys are the same each time.
type configure func(store referencehost.Store) (referencehost.Config, error)

func (p *prover) configure(c change) (configure, error) {
	first, err := referencehost.DefaultConfig()
	if err != nil {
		return nil, err
	}
	return func(store referencehost.Store) (referencehost.Config, error) {
		config, err := referencehost.DefaultConfig()
		if err != nil {
			return config, err
		}
		config.Keys, config.TokenSecrets, config.Seams = slices.Clone(first.Keys), slices.Clone(first.TokenSecrets), true
		if store != nil {
			config.Store = store
		}
		if c.decorate != nil {
			c.decorate(&config)
		}
		if c.wrap != nil {
			config.Wrap = append(config.Wrap, c.wrap)
		}
		testnet.Connect(&config, p.receiver)
		return config, nil
	}, nil
}

// measure starts a host of its own with the change and runs the suite on it. It
// calls waiting once the host has little left to do but wait.
func (p *prover) measure(ctx context.Context, c change, waiting func()) *measurement {
	made, err := p.configure(c)
	if err != nil {
		return &measurement{err: err}
	}
	config, err := made(nil)
	if err != nil {
		return &measurement{err: err}
	}
	suite := c.suite
	if suite == nil {
		suite = p.options.Scenarios
	}
	var recovery *harness.Recovery
	var url string
	if c.mortal {
		host, err := startMortal(ctx, made)
		if err != nil {
			return &measurement{err: err}
		}
		defer host.close()
		url, recovery = host.server.URL(), host.recovery(config)
	} else {
		server, err := referencehost.Listen(ctx, "", config)
		if err != nil {
			return &measurement{err: err}
		}
		defer server.Close()
		url = server.URL()
	}
	results, err := harness.Run(ctx, harness.Options{
		BaseURL:     url + c.basePath,
		Credentials: testnet.Credentials(config),
		Approver:    testnet.Approvers(config),
		Corpus:      p.corpus,
		Scenarios:   suite,
		Parallel:    testsAtATime,
		Receiver:    harness.Receiver{Server: p.receiver, Trusted: true},
		Recovery:    recovery,
		Relaxations: testnet.Relaxations(config),
		Progress:    newWork(suite, waiting),
		Unrecorded:  true,
	})
	if err != nil {
		return &measurement{err: err}
	}
	m := &measurement{byID: map[requirements.ID]row{}, suite: results.SuiteFaults}
	for _, r := range results.Rows {
		if !strings.HasPrefix(r.ID, "openwop.requirement.") {
			continue
		}
		found := row{id: requirements.ID(r.ID), result: r.Result, detail: r.Detail}
		m.rows = append(m.rows, found)
		m.byID[found.id] = found
	}
	return m
}

// each measures the changes side by side and hands each measurement to judge,
// which says whether the proof holds. What does not hold is measured once more
// with little beside it: a machine under load makes hosts late, and only what a
// change does on its own counts. It ends early with the context.
func (p *prover) each(ctx context.Context, changes []change, judge func(i int, m *measurement) bool) error {
	p.mu.Lock()
	p.total += len(changes)
	p.mu.Unlock()
	// Much of the time would go into collecting what hosts leave behind.
	defer debug.SetGCPercent(debug.SetGCPercent(collectAt))
	working := make(chan struct{}, p.options.Parallel)
	existing := make(chan struct{}, p.options.Parallel*waitingPerWorking)
	var hosts sync.WaitGroup
	var mu sync.Mutex
	var again []int
	for _, i := range startOrder(changes) {
		if ctx.Err() != nil {
			break
		}
		existing <- struct{}{}
		working <- struct{}{}
		rest := sync.OnceFunc(func() { <-working })
		tooLong := time.AfterFunc(workingAtMost, rest)
		hosts.Go(func() {
			defer func() { tooLong.Stop(); rest(); <-existing }()
			started := time.Now()
			m := p.measure(ctx, changes[i], rest)
			if ctx.Err() != nil {
				return
			}
			if judge(i, m) {
				p.report(Step{ID: changes[i].id, Proved: true, Elapsed: time.Since(started)})
				return
			}
			mu.Lock()
			defer mu.Unlock()
			again = append(again, i)
		})
	}
	hosts.Wait()
	slices.Sort(again)
	few := make(chan struct{}, againAtATime)
	for _, i := range again {
		few <- struct{}{}
		hosts.Go(func() {
			defer func() { <-few }()
			if ctx.Err() != nil {
				return
			}
			started := time.Now()
			m := p.measure(ctx, changes[i], func() {})
			if ctx.Err() == nil {
				p.report(Step{ID: changes[i].id, Proved: judge(i, m), Elapsed: time.Since(started)})
			}
		})
	}
	hosts.Wait()
	return ctx.Err()
}

// startOrder puts the slow changes first, and those of hosts that are killed.
func startOrder(changes []change) []int {
	var order []int
	for _, slow := range []bool{true, false} {
		for i := range changes {
			if (changes[i].slow || changes[i].mortal) == slow {
				order = append(order, i)
			}
		}
	}
	return order
}

// work calls done once all but a few of the quick tests of a suite have ended.
type work struct {
	left int
	slow map[[2]string]bool
	done func()
}

func newWork(suite []harness.Scenario, done func()) *work {
	w := &work{slow: map[[2]string]bool{}, done: done}
	for _, s := range suite {
		for _, t := range s.Tests {
			if t.Slow > 0 {
				w.slow[[2]string{s.ID, t.Name}] = true
			} else {
				w.left++
			}
		}
	}
	return w
}

// Finished implements harness.Progress.
func (w *work) Finished(scenario, test string, _ []harness.Observed) {
	if w.slow[[2]string{scenario, test}] {
		return
	}
	if w.left--; w.left <= stillWaiting {
		w.done()
	}
}

// Started implements harness.Progress.
func (w *work) Started(string, string) {}

// Discovered implements harness.Progress.
func (w *work) Discovered(*harness.Host) {}

// ScenarioDone implements harness.Progress.
func (w *work) ScenarioDone(bundle.Row) {}

func (p *prover) report(s Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.ID != "" {
		p.done++
	}
	s.Done, s.Total = p.done, p.total
	if p.options.Progress != nil {
		p.options.Progress(s)
	}
}

// text is a row's disposition with its reason.
func (r row) text() string {
	if r.result == "" {
		return "no row"
	}
	if r.detail == "" {
		return string(r.result)
	}
	return string(r.result) + ": " + r.detail
}

// why says what a measurement found instead of rows, "" when it has rows.
func (m *measurement) why() string {
	var refused *harness.DiscoveryError
	switch {
	case errors.As(m.err, &refused):
		return "the host could not be measured: " + refused.Why
	case m.err != nil:
		return "the host could not be measured: " + m.err.Error()
	}
	return ""
}
