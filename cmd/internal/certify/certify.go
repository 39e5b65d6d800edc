// Package certify runs the suite against a host and turns what it saw into
// signed evidence on disk.
package certify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"wopcert/bundle"
	"wopcert/corpus"
	"wopcert/harness"
	referencehost "wopcert/reference-host"
	"wopcert/report"
)

// SuiteVersion is suite.version of the bundles. The contract version rides
// along as build metadata, so that the attestation covers it.
const SuiteVersion = "0.1.0+" + corpus.SpecArtifactsVersion

// Request is one certification.
type Request struct {
	Corpus        *corpus.Corpus
	HostURL       string
	ReferenceHost bool // start the bundled host and certify that
	Credentials   harness.Credentials
	Scenarios     []harness.Scenario // what Selection chose
	Selection     Selection
	OptOuts       []string
	Parallel      int
	Timeout       time.Duration
	SigningKey    *bundle.SigningKey // nil for an ephemeral one
	KeyIDGiven    bool               // the operator named the key's id
	HostBuild     *bundle.HostBuild  // nil when the operator did not say
	Out           string
	Progress      harness.Progress
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
	if q.ReferenceHost {
		stop, err := q.startReferenceHost(ctx)
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	results, err := harness.Run(ctx, harness.Options{
		BaseURL: q.HostURL, Credentials: q.Credentials, Corpus: q.Corpus, Scenarios: q.Scenarios,
		OptOuts: q.OptOuts, Parallel: q.Parallel, Timeout: q.Timeout, Progress: q.Progress, Preflight: true,
	})
	if err != nil {
		return nil, err
	}
	c := q.summarize(results)
	switch {
	case len(results.SuiteFaults) > 0:
	case !slices.ContainsFunc(results.Rows, func(row bundle.Row) bool { return row.Assertions > 0 }):
		c.Notes = append(c.Notes, "no bundle was written: the run observed nothing, so there is nothing to attest")
	default:
		if err := q.seal(evidence, results, c); err != nil {
			return nil, err
		}
	}
	c.Verdict = q.verdict(results, c)
	c.Out = evidence.Dir()
	if err := write(evidence, results, c); err != nil {
		return nil, &EvidenceError{Text: fmt.Sprintf("the evidence cannot be written: %v", err)}
	}
	return c, nil
}

// startReferenceHost starts the bundled host with a signing key that its
// discovery document publishes, and points the request at it.
func (q *Request) startReferenceHost(ctx context.Context) (stop func(), err error) {
	config, err := referencehost.DefaultConfig()
	if err != nil {
		return nil, err
	}
	if q.SigningKey == nil {
		key, err := bundle.NewEphemeralKey()
		if err != nil {
			return nil, err
		}
		key.Ephemeral = false // this host publishes it
		q.SigningKey = &key
	}
	config.SigningKeys = append(config.SigningKeys, referencehost.SigningKey{KeyID: q.SigningKey.ID, PublicKey: q.SigningKey.Public()})
	for _, k := range config.Keys {
		switch k.Name {
		case referencehost.KeyTenantA:
			q.Credentials.Primary = k.Key
		case referencehost.KeyTenantB:
			q.Credentials.OtherTenant = k.Key
		case referencehost.KeyReadOnly:
			q.Credentials.ReadOnly = k.Key
		case referencehost.KeyProduction:
			q.Credentials.Production = k.Key
		}
	}
	if q.HostBuild == nil {
		if q.HostBuild, err = ownBuild(); err != nil {
			return nil, err
		}
	}
	// The host outlives an interrupt, so that what is already under way ends
	// with the suite's own deadline and not with refused connections.
	server, err := referencehost.Listen(context.WithoutCancel(ctx), "127.0.0.1:0", config)
	if err != nil {
		return nil, err
	}
	q.HostURL = server.URL()
	return func() { _ = server.Close() }, nil
}

// ownBuild names the bundled host by the digest of the program it is part of.
func ownBuild() (*bundle.HostBuild, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("this program's own file: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("this program's own file: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, fmt.Errorf("this program's own file: %w", err)
	}
	return &bundle.HostBuild{Kind: "artifact-sha256", ID: hex.EncodeToString(h.Sum(nil))}, nil
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
		if !slices.ContainsFunc(r.Rows, func(row bundle.Row) bool { return row.Detail == bundle.OptOutDetail(family) }) {
			c.Notes = append(c.Notes, fmt.Sprintf("nothing in this run belongs to %s: its opt-out changed nothing", family))
		}
	}
	if r.Interrupted {
		c.Notes = append(c.Notes, "the run was interrupted; what it did not reach is blocked")
	}
	return c
}

func text(d *harness.Discovery, member string) string {
	s, _ := harness.Get(d.Document, "implementation", member).(string)
	return s
}

// claims are the profiles whose predicate the discovery document meets, which
// is what claiming means (capabilities.md §7), and those asked for by name.
func (q *Request) claims(d *harness.Discovery) []bundle.Claim {
	var claims []bundle.Claim
	for _, p := range q.Corpus.Profiles() {
		asked := slices.Contains(q.Selection.Profiles, p.ID)
		fits := !slices.ContainsFunc(p.Families, func(f string) bool { return !d.Advertises(f) }) &&
			!slices.ContainsFunc(p.Metadata, func(k string) bool { return d.Document[k] == nil })
		if fits || asked {
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
		Suite: bundle.Suite{Name: bundle.SuiteName, Version: SuiteVersion, TargetMajor: 2,
			SpecArtifactsVersion: corpus.SpecArtifactsVersion, StampSHA256: q.Corpus.StampSHA256()},
		Host:         bundle.Host{Name: orUnstated(c.Host.Name), Version: orUnstated(c.Host.Version), Vendor: text(d, "vendor")},
		DiscoveryURL: d.URL, Discovery: d.Raw, Rows: r.Rows, Claims: q.claims(d), Corpus: q.Corpus,
		Canaries: q.secrets(),
	}
	in.Host.Build = bundle.HostBuild{Kind: "commit", ID: bundle.BuildUnstated}
	if q.HostBuild != nil {
		in.Host.Build = *q.HostBuild
	} else {
		c.Notes = append(c.Notes, "the bundle does not say which build of the host it is about: give --host-build KIND:ID")
	}
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

func orUnstated(s string) string {
	if s == "" {
		return bundle.BuildUnstated
	}
	return s
}

func (q *Request) secrets() []string {
	var out []string
	for _, s := range []string{q.Credentials.Primary, q.Credentials.OtherTenant, q.Credentials.ReadOnly, q.Credentials.Production} {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
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
	case !q.Selection.Empty() && len(q.Selection.Profiles) == 0:
		return report.Passed
	case certified:
		return report.Certified
	}
	return report.NotCertified
}
