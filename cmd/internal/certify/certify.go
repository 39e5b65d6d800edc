// Package certify runs the suite against a host and turns what it saw into
// signed evidence on disk.
package certify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"wopcert/bundle"
	"wopcert/corpus"
	"wopcert/harness"
	"wopcert/harness/receiver"
	"wopcert/internal/testnet"
	"wopcert/report"
)

// SuiteVersion is suite.version of the bundles of runs against this program's own
// contract. The contract version rides along as build metadata, so that the
// attestation covers it.
const SuiteVersion = programVersion + "+" + corpus.SpecArtifactsVersion

const programVersion = "0.1.0"

// Request is one certification.
type Request struct {
	Corpus        *corpus.Corpus
	HostURL       string
	ReferenceHost bool // start the bundled host and certify that
	Credentials   harness.Credentials
	Approver      harness.ApproverRefs
	Scenarios     []harness.Scenario // what Selection chose
	Selection     Selection
	OptOuts       []string
	Parallel      int
	Timeout       time.Duration
	SigningKey    *bundle.SigningKey // nil for an ephemeral one
	KeyIDGiven    bool               // the operator named the key's id
	HostBuild     *bundle.HostBuild  // nil when the operator did not say
	Receiver      *receiver.Config   // where the host's own calls arrive, nil for nowhere
	Trusted       bool               // the host has been told to accept the receiver
	// Relaxations are the settings under which the host runs relaxed, as its operator
	// declares them.
	Relaxations []bundle.Relaxation
	// Recovery is what is claimed of the host's durability and how to put it to the
	// test, nil for no claim.
	Recovery *harness.Recovery
	Out      string
	Progress harness.Progress
	// Again is what certify was given to reach the host, as a shell reads it: part of the
	// command that reproduces a failure. Empty for --host with its URL.
	Again string
	// Shard is which part of a divided run this is, nil for a whole one; see Divide.
	Shard *Shard
	// Judge may add to the result before it is written, nil for none.
	Judge func(*report.Certification, []bundle.Row)
}

// Run measures the host and writes the evidence. It returns an error only when
// there is nothing to write: the output directory cannot be used, or the host
// could not be measured at all.
func Run(ctx context.Context, q Request) (*report.Certification, error) {
	evidence, err := PrepareEvidence(q.Out)
	if err != nil {
		return nil, err
	}
	defer evidence.Discard()
	target, err := q.startReceiver()
	if err != nil {
		return nil, err
	}
	if target.Server != nil {
		defer target.Server.Close()
	}
	if q.ReferenceHost {
		stop, err := q.startReferenceHost(ctx, target.Server)
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	results, err := harness.Run(ctx, q.options(target))
	if err != nil {
		return nil, err
	}
	for i, f := range results.Failures {
		results.Failures[i].Reproduce = q.reproduce(f.Scenario)
	}
	return q.conclude(evidence, results, nil, exchanges(results.Capture))
}

// reproduce is a command that runs one scenario again as this run did. Evidence is never
// overwritten, so it names a place of its own.
func (q *Request) reproduce(scenario string) string {
	return fmt.Sprintf(`wopcert certify %s --scenario %s --out "$(mktemp -d)"`, cmp.Or(q.Again, "--host "+q.HostURL), scenario)
}

// conclude turns what was seen into a bundle and a result and writes the evidence. The
// captures are what tapes stages.
func (q *Request) conclude(evidence *Evidence, results *harness.Results, notes []string, tapes func(*Evidence) error) (*report.Certification, error) {
	c := q.summarize(results)
	c.Notes = append(c.Notes, notes...)
	switch {
	case len(results.SuiteFaults) > 0:
	case !slices.ContainsFunc(results.Rows, func(row bundle.Row) bool { return row.Assertions > 0 }):
		c.Notes = append(c.Notes, "no bundle was written: the run observed nothing, so there is nothing to attest")
	default:
		if err := q.seal(evidence, results, c); err != nil {
			return nil, err
		}
	}
	if q.Shard != nil {
		var err error
		if c.Shard, err = q.shardFacts(results.Host.Discovery.Raw); err != nil {
			return nil, err
		}
		c.Notes = append(c.Notes, fmt.Sprintf("this is shard %d of %d, with %d scenarios: wopcert merge puts the parts together", q.Shard.Index, q.Shard.Count, len(q.Scenarios)))
	}
	c.Verdict = q.verdict(results, c)
	c.Out = evidence.Dir()
	if q.Judge != nil {
		q.Judge(c, results.Rows)
	}
	if err := write(evidence, results, c, q.suiteVersion(), tapes); err != nil {
		return nil, &EvidenceError{Text: fmt.Sprintf("the evidence cannot be written: %v", err)}
	}
	return c, nil
}

// options are what the request comes to for the harness.
func (q *Request) options(target harness.Receiver) harness.Options {
	return harness.Options{
		BaseURL: q.HostURL, Credentials: q.Credentials, Approver: q.Approver, Corpus: q.Corpus, Scenarios: q.Scenarios,
		OptOuts: q.OptOuts, Parallel: q.Parallel, Timeout: q.Timeout, Progress: q.Progress, Preflight: true, Receiver: target,
		Relaxations: q.Relaxations, Recovery: q.Recovery,
	}
}

// ReceiverError is a receiver that cannot be started as the operator asks.
type ReceiverError struct{ Text, Hint string }

func (e *ReceiverError) Error() string { return e.Text }

// startReceiver starts what the host's own calls reach. The bundled host gets
// one on loopback that it is told to accept; any other host one where the
// operator says, if anywhere.
func (q *Request) startReceiver() (harness.Receiver, error) {
	config := q.Receiver
	if q.ReferenceHost {
		config, q.Trusted = testnet.Config(), true
	}
	if config == nil {
		return harness.Receiver{}, nil
	}
	server, err := receiver.Start(*config)
	if err != nil {
		return harness.Receiver{}, &ReceiverError{err.Error(), "give --receiver-listen an address that is free, and --receiver-url the https address at which the host reaches it"}
	}
	return harness.Receiver{Server: server, Trusted: q.Trusted}, nil
}

// summarize copies what the run saw into the result model.
func (q *Request) summarize(r *harness.Results) *report.Certification {
	d := r.Host.Discovery
	c := &report.Certification{
		Profiles: []report.Profile{}, Failures: []harness.Failure{}, Blocked: []report.Reason{}, Partial: []report.Reason{}, Notes: []string{},
		DurationMs: r.Duration.Milliseconds(), LongestMs: r.Longest.Milliseconds(),
		Interrupted: r.Interrupted, SuiteFaults: r.SuiteFaults,
		Host: report.HostFacts{URL: r.Host.Base.String(), Name: text(d, "name"), Version: text(d, "version"), Build: bundle.BuildUnstated},
	}
	if q.HostBuild != nil {
		c.Host.Build = q.HostBuild.Kind + ":" + q.HostBuild.ID
	}
	c.Relaxations = q.Relaxations
	c.Failures = append(c.Failures, r.Failures...)
	for _, row := range r.Rows {
		c.Totals.Add(row.Result)
		if !strings.HasPrefix(row.ID, "openwop.requirement.") {
			continue
		}
		reason := report.Reason{Requirement: row.ID, Scenario: row.Scenario, Reason: row.Detail}
		switch {
		case row.Result == bundle.Blocked:
			c.Blocked = append(c.Blocked, reason)
		case strings.HasPrefix(row.Detail, harness.PartialWitness):
			c.Partial = append(c.Partial, reason)
		}
	}
	for _, family := range q.OptOuts {
		if q.Shard == nil && !slices.ContainsFunc(r.Rows, func(row bundle.Row) bool { return row.Detail == bundle.OptOutDetail(family) }) {
			c.Notes = append(c.Notes, fmt.Sprintf("nothing in this run belongs to %s: its opt-out changed nothing", family))
		}
	}
	q.noteContract(c)
	if r.Interrupted {
		c.Notes = append(c.Notes, "the run was interrupted; what it did not reach is blocked")
	}
	return c
}

func text(d *harness.Discovery, member string) string {
	s, _ := harness.Get(d.Document, "implementation", member).(string)
	return s
}

// claims are the profiles asked for by name, or else those whose predicate the
// discovery document meets, which is what claiming means (capabilities.md §7): a run
// of one profile's floor says nothing of the others.
func (q *Request) claims(d *harness.Discovery) []bundle.Claim {
	var claims []bundle.Claim
	if q.Shard != nil {
		return nil // a part of a floor is nobody's claim; the merged bundle makes it
	}
	for _, p := range q.Corpus.Profiles() {
		asked := slices.Contains(q.Selection.Profiles, p.ID)
		fits := !slices.ContainsFunc(p.Families, func(f string) bool { return !d.Advertises(f) }) &&
			!slices.ContainsFunc(p.Metadata, func(k string) bool { return d.Document[k] == nil })
		if floor, err := p.FloorAt(q.Corpus.Version()); err != nil || len(floor) == 0 {
			fits = false // the contract in use does not have the profile yet
		}
		if asked || fits && len(q.Selection.Profiles) == 0 {
			claims = append(claims, bundle.Claim{ID: p.ID, EvidenceTier: bundle.TierSelf})
		}
	}
	return claims
}

// seal builds and signs the bundle, verifies it as a stranger would, and puts
// what the verifier derived into the result.
func (q *Request) seal(evidence *Evidence, r *harness.Results, c *report.Certification) error {
	d := r.Host.Discovery
	in := bundle.Input{
		GeneratedAt: time.Now(),
		Suite: bundle.Suite{Name: bundle.SuiteName, Version: q.suiteVersion(), TargetMajor: 2,
			SpecArtifactsVersion: q.Corpus.Version(), StampSHA256: q.Corpus.StampSHA256()},
		Host:         bundle.Host{Name: orUnstated(c.Host.Name), Version: orUnstated(c.Host.Version), Vendor: text(d, "vendor"), Relaxations: q.Relaxations},
		DiscoveryURL: d.URL, Discovery: d.Raw, Rows: r.Rows, Claims: q.claims(d), Corpus: q.Corpus,
		Canaries: q.Credentials.Values(),
	}
	in.Host.Build = bundle.HostBuild{Kind: "commit", ID: bundle.BuildUnstated}
	if q.HostBuild != nil {
		in.Host.Build = *q.HostBuild
	} else {
		c.Notes = append(c.Notes, "the bundle does not say which build of the host it is about: give --host-build KIND:ID")
	}
	in.Rung = q.rung(r.Rows, c)
	b, err := bundle.Build(in)
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	key, err := q.key(d, c)
	if err != nil {
		return err
	}
	if err := bundle.Sign(b, key); err != nil {
		return err
	}
	data, err := bundle.Encode(b)
	if err != nil {
		return err
	}
	verified := bundle.Verify(data, bundle.Options{Corpus: q.Corpus, Canaries: in.Canaries, Require: q.Selection.Profiles})
	if !verified.Sound {
		// The verifier has the last word: what it would reject is not written.
		return fmt.Errorf("the bundle just made would be rejected: %s", verified.Rejections[0].Detail)
	}
	c.Attribution = string(verified.Attribution)
	for _, p := range verified.Profiles {
		why := p.Reasons
		if why == nil {
			why = []string{}
		}
		c.Profiles = append(c.Profiles, report.Profile{ID: p.ID, Certified: p.Certified, WitnessCount: p.WitnessCount, Why: why})
	}
	return evidence.Write("bundle.json", data)
}

// rung is the recovery rung to claim: the one the rows support, where durability is
// claimed at all.
func (q *Request) rung(rows []bundle.Row, c *report.Certification) string {
	if q.Recovery == nil {
		return ""
	}
	derived, reasons := bundle.DeriveRung(rows)
	if !derived && q.Shard != nil {
		return "" // its rows may be in another part
	}
	if !derived {
		c.Durability = &report.Durability{Why: reasons}
		return ""
	}
	c.Durability = &report.Durability{Rung: bundle.RungSingleInstance, Why: []string{}}
	return bundle.RungSingleInstance
}

func orUnstated(s string) string {
	if s == "" {
		return bundle.BuildUnstated
	}
	return s
}

// key chooses the signing key and the id to sign under: the one given, or the
// one under which the host's discovery document publishes the key.
func (q *Request) key(d *harness.Discovery, c *report.Certification) (bundle.SigningKey, error) {
	if q.SigningKey == nil {
		c.Notes = append(c.Notes, "no signing key was given: an ephemeral one signed, and the bundle proves integrity only")
		return bundle.NewEphemeralKey()
	}
	key := *q.SigningKey
	published, _ := d.Document["signingKeys"].([]any)
	public := bundle.EncodePublicKey(key.Public())
	found := false
	for _, entry := range published {
		id, _ := harness.Get(entry, "keyId").(string)
		if harness.Get(entry, "publicKey") != public {
			continue
		}
		found = found || id == key.ID
		if !q.KeyIDGiven && !found {
			key.ID, found = id, true
		}
	}
	if !found {
		c.Notes = append(c.Notes, fmt.Sprintf("the host's discovery document does not publish the signing key as %q: the bundle proves integrity only", key.ID))
	}
	return key, nil
}

// verdict is the answer in one word. Only what was asked for and observed can
// end well.
func (q *Request) verdict(r *harness.Results, c *report.Certification) report.Verdict {
	observed, certified := false, len(c.Profiles) > 0
	for _, row := range r.Rows {
		observed = observed || row.Result == bundle.ExecutedPass
	}
	for _, p := range c.Profiles {
		certified = certified && p.Certified
	}
	switch {
	case len(r.SuiteFaults) > 0:
		return report.SuiteFault
	case len(r.Failures) > 0:
		return report.Failed
	case r.Interrupted, len(c.Blocked) > 0, !observed:
		return report.Incomplete
	case q.Shard != nil, !q.Selection.Empty() && len(q.Selection.Profiles) == 0:
		return report.Passed
	case certified:
		return report.Certified
	}
	return report.NotCertified
}
