// Package proof proves the suite with the reference host: that every check can
// fail, by breaking the host in each way it knows, and that none is too strict,
// by letting the host use each freedom it has.
package proof

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"wopcert/bundle"
	"wopcert/corpus"
	"wopcert/harness"
	referencehost "wopcert/reference-host"
	"wopcert/reference-host/faults"
	"wopcert/reference-host/variants"
	"wopcert/requirements"
	"wopcert/scenarios"
)

// DefaultParallel is the number of hosts measured at a time. A measurement
// mostly waits, so that this is well above the number of processors.
const DefaultParallel = 24

// Options says what to prove.
type Options struct {
	Scenarios []harness.Scenario // nil for the whole suite
	Faults    []faults.Fault     // what Faults proves, nil for all
	Variants  []variants.Variant // what Variants proves, nil for all
	Parallel  int                // hosts at a time, DefaultParallel when 0
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
	slow     bool // started first, so that nothing waits for a late starter
}

// prover measures hosts.
type prover struct {
	options  Options
	corpus   *corpus.Corpus
	baseline *measurement
	mu       sync.Mutex
	done     int
	total    int
}

// newProver measures the unchanged host.
func newProver(ctx context.Context, o Options) (*prover, error) {
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
	p := &prover{options: o, corpus: c}
	started := time.Now()
	p.baseline = p.measure(ctx, change{})
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

// measure starts a host of its own with the change and runs the suite on it.
func (p *prover) measure(ctx context.Context, c change) *measurement {
	config, err := referencehost.DefaultConfig()
	if err != nil {
		return &measurement{err: err}
	}
	if c.decorate != nil {
		c.decorate(&config)
	}
	if c.wrap != nil {
		config.Wrap = append(config.Wrap, c.wrap)
	}
	server, err := referencehost.Listen(ctx, "", config)
	if err != nil {
		return &measurement{err: err}
	}
	defer server.Close()
	results, err := harness.Run(ctx, harness.Options{
		BaseURL:     server.URL() + c.basePath,
		Credentials: credentials(config.Keys),
		Corpus:      p.corpus,
		Scenarios:   p.options.Scenarios,
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

func credentials(keys []referencehost.Credential) harness.Credentials {
	var c harness.Credentials
	for _, k := range keys {
		switch k.Name {
		case referencehost.KeyTenantA:
			c.Primary = k.Key
		case referencehost.KeyTenantB:
			c.OtherTenant = k.Key
		case referencehost.KeyReadOnly:
			c.ReadOnly = k.Key
		}
	}
	return c
}

// each measures the changes side by side and hands each measurement to judge,
// which says whether the proof holds. It ends early with the context.
func (p *prover) each(ctx context.Context, changes []change, judge func(i int, m *measurement) bool) error {
	p.total = len(changes)
	queue := make(chan int)
	var workers sync.WaitGroup
	for range min(p.options.Parallel, max(len(changes), 1)) {
		workers.Go(func() {
			for i := range queue {
				if ctx.Err() != nil {
					continue
				}
				started := time.Now()
				m := p.measure(ctx, changes[i])
				if ctx.Err() == nil {
					proved := judge(i, m)
					p.report(Step{ID: changes[i].id, Proved: proved, Elapsed: time.Since(started)})
				}
			}
		})
	}
	for _, early := range []bool{true, false} {
		for i := range changes {
			if changes[i].slow == early {
				queue <- i
			}
		}
	}
	close(queue)
	workers.Wait()
	return ctx.Err()
}

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
