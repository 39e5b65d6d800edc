// Package harness drives conformance scenarios against a host over the wire
// and records what it saw. It knows how a test is gated, run, bounded, watched
// and resolved to a disposition; it knows nothing of any host's inside.
package harness

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"wopcert/bundle"
	"wopcert/corpus"
	"wopcert/requirements"
)

// Defaults of a run.
const (
	DefaultParallel = 24
	DefaultTimeout  = 60 * time.Second
)

// Options says what to run against which host.
type Options struct {
	BaseURL     string // scheme, host and optional path prefix of the host
	Credentials Credentials
	Approver    ApproverRefs
	Canaries    map[string]string // further values that must not be kept, by label
	Corpus      *corpus.Corpus
	Scenarios   []Scenario
	OptOuts     []string      // families the operator leaves out
	Parallel    int           // tests at a time, DefaultParallel when 0
	Timeout     time.Duration // deadline of one test, DefaultTimeout when 0
	Progress    Progress      // nil for none
	TLS         *tls.Config   // nil for the machine's trust roots
	Receiver    Receiver      // what the host's own calls reach

	// Relaxations are the operator settings under which the host runs, as the
	// bundle of this run records them.
	Relaxations []bundle.Relaxation
	// Recovery says how the host is killed and started again, and what bounds its
	// operator declares; nil when no durability is claimed for it.
	Recovery *Recovery

	// Preflight ends the run before its first test when what the operator gave
	// cannot be right: with a *CredentialError when the host refuses a key, since
	// most rows would be blocked for a reason that is not the host's, and with an
	// *OptOutError when the host advertises a family that is opted out of.
	Preflight bool

	// Unrecorded leaves the capture empty but for its numbers, where nobody reads it.
	// What the rows say is the same.
	Unrecorded bool
}

// Results is what a run saw. Rows are complete: every requirement of every
// scenario has one, whatever happened.
type Results struct {
	Host        *Host
	Rows        []bundle.Row // requirements in scenario order, each scenario's summary after its own
	Failures    []Failure
	Tests       []TestResult
	Capture     *Capture
	Duration    time.Duration
	Longest     time.Duration // of a single test
	Interrupted bool
	SuiteFaults []string // defects of the suite itself; such a run certifies nothing
}

// Failure is one check that did not hold.
type Failure struct {
	Requirement requirements.ID `json:"requirement"`
	Scenario    string          `json:"scenario"`
	Test        string          `json:"test"`
	Expected    string          `json:"expected"`
	Observed    string          `json:"observed"`
	Exchange    int             `json:"exchange,omitempty"` // number within the test's capture
	Reproduce   string          `json:"reproduce"`
}

// TestResult is the timing of one test.
type TestResult struct {
	Scenario string        `json:"scenario"`
	Test     string        `json:"test"`
	Started  time.Time     `json:"started"`
	Elapsed  time.Duration `json:"elapsedNs"`
	Ran      bool          `json:"ran"` // false when a gate kept it from running
}

// Progress is told what happens while it happens. Calls are serialized.
type Progress interface {
	Discovered(*Host)
	Started(scenario, test string)
	Finished(scenario, test string, rows []Observed)
	ScenarioDone(bundle.Row)
}

// Observed is one thing a test found, for progress output.
type Observed struct {
	Requirement requirements.ID
	Outcome     string
	Reason      string
}

// Failed reports whether a check did not hold.
func (o Observed) Failed() bool { return o.Outcome == string(failed) }

// run is the state of one Run.
type run struct {
	host        *Host
	corpus      *corpus.Corpus
	client      *client
	credentials Credentials
	approver    ApproverRefs
	capture     *Capture
	optOuts     []string
	timeout     time.Duration
	receiver    Receiver
	secrets     signingSecrets
	reach       reachability
	relaxations []bundle.Relaxation
	recovery    *Recovery
	kills       *kills // where the tests that come last meet

	mu       sync.Mutex
	progress Progress
	results  *Results
	entries  map[string][]observation // by scenario
	pending  map[string]int           // tests still to finish, by scenario
}

// Run reads discovery and drives the scenarios. It returns an error only when
// the host cannot be measured at all (*DiscoveryError) or the options are
// wrong; everything a host does wrong afterwards is a row. When the context
// ends early the results hold what was seen and blocked rows for the rest.
func Run(ctx context.Context, o Options) (*Results, error) {
	base, err := ParseBaseURL(o.BaseURL)
	if err != nil {
		return nil, err
	}
	r := newRun(base, o)
	defer r.client.close()
	started := time.Now()
	if err := r.meet(ctx); err != nil {
		return nil, err
	}
	if r.progress != nil {
		r.progress.Discovered(r.host)
	}
	if o.Preflight {
		if i := slices.IndexFunc(o.OptOuts, r.host.Discovery.Advertises); i >= 0 {
			return nil, &OptOutError{Family: o.OptOuts[i]}
		}
		if err := r.checkCredentials(ctx); err != nil {
			return nil, err
		}
	}
	r.drive(ctx, o)
	r.finish(o.Scenarios, ctx.Err() != nil)
	r.results.Duration = time.Since(started)
	return r.results, nil
}

// meet reads the discovery document and takes the host for what it says.
func (r *run) meet(ctx context.Context) error {
	d, err := r.discover(ctx)
	if err != nil {
		return err
	}
	if hidden := r.capture.redact.text(string(d.Raw)); hidden != string(d.Raw) {
		return &DiscoveryError{URL: d.URL, Why: "the document holds a credential",
			Hint: "discovery is public and is captured byte for byte; nothing was written"}
	}
	r.host = &Host{Base: r.client.base, Discovery: d}
	r.results.Host = r.host
	return nil
}

// OptOutError is an opt-out of a family that the host advertises, which every
// verifier would reject (conformance.md, "Certification").
type OptOutError struct{ Family string }

func (e *OptOutError) Error() string {
	return fmt.Sprintf("the host advertises %s, so it cannot be opted out of", e.Family)
}

// Discover reads a host's discovery document and nothing else. The address may
// be the host's base URL or that of the document itself.
func Discover(ctx context.Context, address string) (*Discovery, error) {
	base, err := ParseBaseURL(strings.TrimSuffix(address, WellKnown))
	if err != nil {
		return nil, err
	}
	r := newRun(base, Options{})
	defer r.client.close()
	return r.discover(ctx)
}

func newRun(base *url.URL, o Options) *run {
	secrets := map[string]string{
		"primary-key":         o.Credentials.Primary,
		"other-tenant-key":    o.Credentials.OtherTenant,
		"read-only-key":       o.Credentials.ReadOnly,
		"production-key":      o.Credentials.Production,
		"approver-key":        o.Credentials.Approver,
		"second-approver-key": o.Credentials.SecondApprover,
		"override-key":        o.Credentials.Override,
	}
	for label, value := range o.Canaries {
		secrets[label] = value
	}
	signing := newSigningSecrets()
	signing.conceal(secrets)
	capture := &Capture{redact: newRedactor(secrets)}
	capture.redact.drop = o.Unrecorded
	timeout := o.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	return &run{
		corpus:      o.Corpus,
		client:      newClient(base, o.Credentials, o.TLS),
		credentials: o.Credentials,
		approver:    o.Approver,
		capture:     capture,
		optOuts:     o.OptOuts,
		timeout:     timeout,
		receiver:    o.Receiver,
		secrets:     signing,
		relaxations: o.Relaxations,
		recovery:    o.Recovery,
		progress:    o.Progress,
		results:     &Results{Capture: capture},
		entries:     map[string][]observation{},
		pending:     map[string]int{},
	}
}

// ParseBaseURL checks the address of a host.
func ParseBaseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("host address %q: %w", s, err)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, fmt.Errorf("host address %q: want http://HOST or https://HOST", s)
	case u.User != nil:
		return nil, fmt.Errorf("host address holds a credential: give keys through the environment")
	case u.RawQuery != "", u.Fragment != "":
		return nil, fmt.Errorf("host address %q: a base address has no query and no fragment", s)
	}
	return u, nil
}

func (r *run) suiteFault(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results.SuiteFaults = append(r.results.SuiteFaults, r.capture.redact.text(text))
}

func (r *run) notify(f func(Progress)) {
	if r.progress == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r.progress)
}

func (r *run) file(j job, entries []observation, stray []string, result TestResult) {
	for _, s := range stray {
		r.suiteFault(s)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := j.scenario.ID
	for i := range entries {
		// What is kept is what is published: hide credentials here, once.
		e := &entries[i]
		e.reason = r.capture.redact.text(e.reason)
		e.check.Expected, e.check.Observed = r.capture.redact.text(e.check.Expected), r.capture.redact.text(e.check.Observed)
	}
	r.entries[id] = append(r.entries[id], entries...)
	r.results.Tests = append(r.results.Tests, result)
	r.results.Longest = max(r.results.Longest, result.Elapsed)
	r.pending[id]--
	if r.progress == nil {
		return
	}
	seen := make([]Observed, 0, len(entries))
	for _, e := range entries {
		if e.outcome != attested {
			seen = append(seen, Observed{Requirement: e.id, Outcome: string(e.outcome), Reason: e.reason})
		}
	}
	r.progress.Finished(id, j.test.Name, seen)
	if r.pending[id] == 0 {
		rows := r.rowsOf(*j.scenario)
		r.progress.ScenarioDone(rows[len(rows)-1])
	}
}

// rowsOf resolves a scenario's requirement rows and, last, its summary.
func (r *run) rowsOf(s Scenario) []bundle.Row {
	var rows []bundle.Row
	for _, id := range s.Requirements() {
		rows = append(rows, resolve(s.ID, id, r.entries[s.ID]))
	}
	return append(rows, summarize(s.ID, isFloor(r.corpus, s.ID), rows))
}

func isFloor(c *corpus.Corpus, scenario string) bool {
	for _, p := range c.Profiles() {
		for _, f := range p.Floor {
			if f.Scenario == scenario {
				return true
			}
		}
	}
	return false
}

func (r *run) finish(scenarios []Scenario, interrupted bool) {
	r.results.Interrupted = interrupted
	for _, s := range scenarios {
		r.results.Rows = append(r.results.Rows, r.rowsOf(s)...)
		for _, e := range r.entries[s.ID] {
			if e.outcome != failed {
				continue
			}
			r.results.Failures = append(r.results.Failures, Failure{
				Requirement: e.id, Scenario: s.ID, Test: e.test,
				Expected: e.check.Expected, Observed: e.check.Observed, Exchange: e.check.exchange,
				Reproduce: fmt.Sprintf("wopcert certify --host %s --scenario %s", r.host.Base, s.ID),
			})
		}
	}
	sort.SliceStable(r.results.Tests, func(i, j int) bool {
		return r.results.Tests[i].Started.Before(r.results.Tests[j].Started)
	})
}
