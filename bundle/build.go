package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"wopcert/bundle/jcs"
	"wopcert/corpus"
)

// Input is what a run hands over. Everything derived from it is Build's: totals, counts, digests, detail, witness
// counts and certified flags.
type Input struct {
	GeneratedAt time.Time
	Suite       Suite
	Host        Host
	// DiscoveryURL is where the document was read, Discovery its bytes as captured.
	DiscoveryURL string
	Discovery    []byte
	Rows         []Row
	Claims       []Claim
	// Rung is the recovery rung the host claims, "" for none.
	Rung string
	// Canaries are texts that must not get into the bundle.
	Canaries []string
	// Corpus is the contract; nil means the embedded one.
	Corpus *corpus.Corpus
}

// Claim is a profile the host claims, and the tier of its evidence.
type Claim struct {
	ID           string
	EvidenceTier string
}

// RejectedError says that a bundle of this input would be rejected by Verify.
type RejectedError struct{ Rejections []Rejection }

// Error names the first rejection and counts the rest.
func (e *RejectedError) Error() string {
	first := e.Rejections[0]
	text := fmt.Sprintf("the bundle would be rejected (%s): %s", first.Kind, first.Detail)
	if n := len(e.Rejections) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return text
}

// Build makes an unsigned bundle. Rows are put in id order. What Verify would reject is refused here, with its words:
// the error is a *RejectedError. A discovery document that is no I-JSON object cannot be captured and is an error too.
func Build(in Input) (*Bundle, error) {
	if in.Corpus == nil {
		contract, err := corpus.Load()
		if err != nil {
			return nil, err
		}
		in.Corpus = contract
	}
	document, err := readDocument(in.Discovery)
	if err != nil {
		return nil, err
	}
	b := &Bundle{
		BundleVersion: Version,
		GeneratedAt:   in.GeneratedAt.UTC().Format("2006-01-02T15:04:05.000Z"),
		Suite:         in.Suite,
		Host:          in.Host,
		Discovery:     captureDiscovery(in, document),
		Results:       Results{Requirements: slices.Clone(in.Rows)},
	}
	slices.SortStableFunc(b.Results.Requirements, func(x, y Row) int { return jcs.CompareUTF16(x.ID, y.ID) })
	if err := b.count(); err != nil {
		return nil, err
	}
	if b.Discovery.SHA256, err = jcs.SHA256(in.Discovery); err != nil {
		return nil, fmt.Errorf("discovery document: %w", err)
	}
	if b.WitnessSHA256, err = WitnessSHA256(b.Results.Requirements, b.Host.Relaxations, b.Host.Deployment); err != nil {
		return nil, err
	}
	b.claim(in, document)
	if in.Rung != "" {
		b.Durability = &Durability{Rung: in.Rung}
	}
	return b, b.selfCheck(in)
}

func readDocument(data []byte) (map[string]any, error) {
	v, err := jcs.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("discovery document: %w", err)
	}
	document, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("discovery document: it is JSON but not an object")
	}
	return document, nil
}

// captureDiscovery keeps the document's bytes and repeats its versions. A host that gets those members wrong is still
// measured, so they are left empty rather than refused.
func captureDiscovery(in Input, document map[string]any) Discovery {
	d := Discovery{URL: in.DiscoveryURL, ProtocolVersions: []string{}, Document: json.RawMessage(in.Discovery)}
	d.PreferredVersion, _ = document["preferredVersion"].(string)
	versions, _ := document["protocolVersions"].([]any)
	for _, item := range versions {
		if text, ok := item.(string); ok {
			d.ProtocolVersions = append(d.ProtocolVersions, text)
		}
	}
	return d
}

// count fills in what the rows add up to, and detail.
func (b *Bundle) count() error {
	var nonPass []NonPass
	for _, row := range b.Results.Requirements {
		if !b.Results.Totals.Add(row.Result) {
			return fmt.Errorf("row %s: %q is not a disposition", row.ID, row.Result)
		}
		if row.Assertions < 0 {
			return fmt.Errorf("row %s: %d assertions", row.ID, row.Assertions)
		}
		b.AssertionCount += row.Assertions
		if row.Result != ExecutedPass {
			nonPass = append(nonPass, NonPass{row.ID, row.Result, row.Detail})
		}
	}
	if nonPass != nil {
		b.Detail = &Detail{NonPass: nonPass}
	}
	return nil
}

// claim writes the claims as the derivation answers them.
func (b *Bundle) claim(in Input, document map[string]any) {
	l := newLedger(in.Corpus, b, document)
	b.ClaimedProfiles = make([]ClaimedProfile, 0, len(in.Claims))
	for _, claim := range in.Claims {
		c := ClaimedProfile{ID: claim.ID, EvidenceTier: claim.EvidenceTier}
		d := l.derive(c)
		c.WitnessCount, c.Certified = d.WitnessCount, d.Certified
		b.ClaimedProfiles = append(b.ClaimedProfiles, c)
	}
}

// selfCheck encodes the bundle, signed with a key made for the purpose, and holds it against the verifier. The
// verifier's signature of an independent claim comes later, so its absence is no reason.
func (b *Bundle) selfCheck(in Input) error {
	trial := *b
	key, err := NewEphemeralKey()
	if err != nil {
		return err
	}
	if err := Sign(&trial, key); err != nil {
		return err
	}
	data, err := Encode(&trial)
	if err != nil {
		return err
	}
	report := Verify(data, Options{Corpus: in.Corpus, Canaries: in.Canaries})
	rejections := slices.DeleteFunc(report.Rejections, func(r Rejection) bool { return r.Kind == KindIndependentUnsigned })
	if len(rejections) > 0 {
		return &RejectedError{rejections}
	}
	return nil
}

// Encode gives the bytes to write: the same for the same bundle, indented, ending in a line feed. The discovery
// document keeps its numbers as captured. An unsigned bundle is refused, because nobody could tell what it is.
func Encode(b *Bundle) ([]byte, error) {
	if b.Signature == nil {
		return nil, errors.New("encoding a bundle: it is not signed")
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(b); err != nil {
		return nil, fmt.Errorf("encoding a bundle: %w", err)
	}
	if err := jcs.Check(buf.Bytes()); err != nil {
		return nil, fmt.Errorf("encoding a bundle: %w", err)
	}
	return buf.Bytes(), nil
}

// ContractVersion names the contract a suite tested inside its signed version: "0.1.0" becomes "0.1.0+2.44.6".
func ContractVersion(suiteVersion string) string {
	base, _, _ := strings.Cut(suiteVersion, "+")
	return base + "+" + corpus.SpecArtifactsVersion
}
