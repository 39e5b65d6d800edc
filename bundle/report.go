package bundle

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"wopcert/bundle/jcs"
)

// Kind says which rule a rejection is about. The values are part of the published test vectors.
type Kind string

// The kinds of rejection. A text that is not I-JSON within the limits is rejected as "json-" and the kind of package
// jcs: json-size, json-utf8, json-syntax, json-duplicate-member, json-lone-surrogate, json-number-range,
// json-unsafe-integer, json-depth.
const (
	KindNotABundle            Kind = "not-a-bundle"             // JSON, but no object with a bundleVersion
	KindBundleVersion         Kind = "bundle-version"           // a version this program does not judge
	KindTooLarge              Kind = "too-large"                // more values, rows or claims than are judged
	KindSchema                Kind = "schema"                   // departs from the certification-bundle schema
	KindDuplicateRow          Kind = "duplicate-row"            // two rows of one id
	KindDuplicateProfile      Kind = "duplicate-profile"        // two claims of one id
	KindVacuousPass           Kind = "vacuous-pass"             // executed-pass without an assertion
	KindMissingReason         Kind = "missing-reason"           // a row that is not executed-pass, without a reason
	KindMissingDetail         Kind = "missing-detail"           // such rows, and no detail
	KindDetailMismatch        Kind = "detail-mismatch"          // detail lists what the rows do not say
	KindMisplacedEvidence     Kind = "misplaced-evidence"       // evidence on a row that is not executed-pass
	KindTotals                Kind = "totals"                   // totals are not the count of the rows
	KindAssertionCount        Kind = "assertion-count"          // assertionCount is not the sum over the rows
	KindWitnessDigest         Kind = "witness-digest"           // witnessSha256 is not that of the rows
	KindDiscoveryDigest       Kind = "discovery-digest"         // discovery.sha256 is not that of the document
	KindSecret                Kind = "secret-in-bundle"         // a credential or canary in the text
	KindSigningKeyID          Kind = "signing-key-id"           // host.signingKeyId is not signature.keyId
	KindAttestationInvalid    Kind = "attestation-invalid"      // does not verify under the published key
	KindIndependentUnsigned   Kind = "independent-unsigned"     // independent, without a verifier signature
	KindIndependentSelfSigned Kind = "independent-self-signed"  // the verifier's key is the host's
	KindIndependentUnverified Kind = "independent-unverified"   // no verifier key was given to check it with
	KindVerifierSignature     Kind = "verifier-signature"       // does not verify under the verifier key given
	KindCertifiedUnderivable  Kind = "certified-not-derivable"  // claimed as certified, and rows or document deny it
	KindWitnessCount          Kind = "witness-count"            // claims more floor passes than there are
	KindOptedOutAdvertised    Kind = "opted-out-but-advertised" // the operator opted out of what the host advertises
	KindOptOutUnnamed         Kind = "opt-out-unnamed"          // a skipped requirement or test that names no opt-out
	KindRungUnderivable       Kind = "rung-not-derivable"       // claimed rung that the rows do not support
	KindContract              Kind = "contract-unavailable"     // the program's own contract files do not load
)

// Rejection is one reason why the evidence is not sound. Detail is a sentence that holds no secret of the file.
type Rejection struct {
	Kind        Kind   `json:"kind"`
	Detail      string `json:"detail"`
	Requirement string `json:"requirement,omitempty"`
	Profile     string `json:"profile,omitempty"`
}

// Attribution says whose evidence it is.
type Attribution string

// The attributions (conformance.md §Signature and attribution).
const (
	// Attributable: the attestation verifies under a key the host's discovery document publishes.
	Attributable Attribution = "attributable"
	// IntegrityOnly: the key cannot be resolved to a published one, so nobody is behind the evidence.
	IntegrityOnly Attribution = "integrity-only"
	// NotAttested: the attestation does not verify, or the file was rejected before it could be read.
	NotAttested Attribution = "not-attested"
)

// AttributionCode is the case behind an attribution.
type AttributionCode string

// The cases. The specification demands that the first three failures be told apart.
const (
	CodeVerified           AttributionCode = "verified"
	CodeVerifiedRetired    AttributionCode = "verified-retired-key"
	CodeNoDocument         AttributionCode = "no-discovery-document"
	CodeKeyNotPublished    AttributionCode = "key-not-published"
	CodeDoesNotVerify      AttributionCode = "attestation-invalid"
	CodeDocumentUnreadable AttributionCode = "discovery-unreadable"
	CodeKeyUnusable        AttributionCode = "key-unusable"
	CodeNotRead            AttributionCode = "not-read"
)

// Report is what Verify found. Its parts stand apart: evidence can be sound and attributable to nobody, or
// attributable and certify nothing.
type Report struct {
	// BundleVersion is the file's own, "" when the text could not be read that far.
	BundleVersion string `json:"bundleVersion"`
	// Sound is true exactly when there are no rejections.
	Sound      bool        `json:"sound"`
	Rejections []Rejection `json:"rejections"`

	Attribution       Attribution     `json:"attribution"`
	AttributionReason string          `json:"attributionReason"`
	AttributionCode   AttributionCode `json:"attributionCode"`
	// AttributionSource says which discovery document was used: "captured", "url", "file" or "".
	AttributionSource string `json:"attributionSource,omitempty"`
	// KeyID is the key the bundle is signed with.
	KeyID string `json:"keyId,omitempty"`

	// CertifiedProfiles are the claimed profiles the evidence certifies, in the order claimed; none when not sound.
	CertifiedProfiles []string     `json:"certifiedProfiles"`
	Profiles          []Derivation `json:"profiles"`
	// MissingProfiles are the required profiles that are not certified.
	MissingProfiles []string `json:"missingProfiles,omitempty"`

	OptOuts    []string          `json:"optOuts,omitempty"`
	Durability *DurabilityReport `json:"durability,omitempty"`
	Companion  *CompanionReport  `json:"companion,omitempty"`
	// Suite and Host are repeated from the bundle for a reader, Totals are counted.
	Suite  *Suite  `json:"suite,omitempty"`
	Host   *Host   `json:"host,omitempty"`
	Totals *Totals `json:"totals,omitempty"`
	// Notes are true things that decide nothing.
	Notes []string `json:"notes"`
}

// Older reports whether the file is a bundle of version 1 or 2: evidence at its own version, which no rule of version
// 3 was applied to.
func (r *Report) Older() bool { return r.BundleVersion == "1" || r.BundleVersion == "2" }

// maxPerKind bounds how often one kind is listed; a file with a million defects needs no million lines.
const maxPerKind = 20

// collector gathers rejections and notes in order.
type collector struct {
	report  *Report
	counts  map[Kind]int
	secrets *secretScan
}

func newCollector(secrets *secretScan) *collector {
	return &collector{counts: map[Kind]int{}, secrets: secrets, report: &Report{
		Rejections: []Rejection{}, CertifiedProfiles: []string{}, Profiles: []Derivation{}, Notes: []string{},
		Attribution: NotAttested, AttributionCode: CodeNotRead,
		AttributionReason: "the file was rejected before its attestation could be read",
	}}
}

func (c *collector) reject(kind Kind, format string, args ...any) {
	c.add(Rejection{Kind: kind}, format, args...)
}

func (c *collector) add(r Rejection, format string, args ...any) {
	if c.counts[r.Kind]++; c.counts[r.Kind] <= maxPerKind {
		r.Detail = fmt.Sprintf(format, args...)
		c.report.Rejections = append(c.report.Rejections, r)
	}
}

func (c *collector) note(format string, args ...any) {
	c.report.Notes = append(c.report.Notes, fmt.Sprintf(format, args...))
}

// finish settles what follows from the whole, and makes sure that no message repeats a secret.
func (c *collector) finish() *Report {
	r := c.report
	for kind, n := range c.counts {
		if n > maxPerKind {
			i := len(r.Rejections) - 1
			for r.Rejections[i].Kind != kind {
				i--
			}
			r.Rejections[i].Detail += fmt.Sprintf(" (and %d more of this kind)", n-maxPerKind)
		}
	}
	r.Sound = len(r.Rejections) == 0
	if !r.Sound {
		r.CertifiedProfiles = []string{}
	}
	for i := range r.Rejections {
		c.clean(&r.Rejections[i].Detail, &r.Rejections[i].Requirement, &r.Rejections[i].Profile)
	}
	c.cleanAll(r.Notes)
	c.cleanAll(r.OptOuts)
	for i := range r.Profiles {
		c.clean(&r.Profiles[i].ID)
		c.cleanAll(r.Profiles[i].Reasons)
	}
	if r.Durability != nil {
		c.cleanAll(r.Durability.Reasons)
	}
	if r.Companion != nil {
		c.cleanAll(r.Companion.Reasons)
		c.cleanAll(r.Companion.Evidence)
	}
	c.clean(&r.BundleVersion, &r.AttributionReason, &r.KeyID)
	if c.counts[KindSecret] > 0 {
		r.Suite, r.Host = nil, nil // repeated from the file word for word
	}
	return r
}

// clean redacts texts and keeps them to a length people read: they quote a file of any size.
func (c *collector) clean(texts ...*string) {
	const most = 1000
	for _, text := range texts {
		*text = clip(c.secrets.redact(*text), most) // in this order, or half a secret could stay
	}
}

func (c *collector) cleanAll(texts []string) {
	for i := range texts {
		c.clean(&texts[i])
	}
}

// clip cuts a text between characters.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

// require lists the required profiles that are not certified.
func (r *Report) require(profiles []string) {
	for _, id := range profiles {
		if !slices.Contains(r.CertifiedProfiles, id) {
			r.MissingProfiles = append(r.MissingProfiles, id)
		}
	}
}

// Kinds lists every kind of rejection.
func Kinds() []Kind {
	kinds := []Kind{
		KindNotABundle, KindBundleVersion, KindTooLarge, KindSchema, KindDuplicateRow, KindDuplicateProfile, KindVacuousPass,
		KindMissingReason, KindMissingDetail, KindDetailMismatch, KindMisplacedEvidence, KindTotals, KindAssertionCount,
		KindWitnessDigest, KindDiscoveryDigest, KindSecret, KindSigningKeyID, KindAttestationInvalid, KindIndependentUnsigned,
		KindIndependentSelfSigned, KindIndependentUnverified, KindVerifierSignature, KindCertifiedUnderivable,
		KindWitnessCount, KindOptedOutAdvertised, KindOptOutUnnamed, KindRungUnderivable, KindContract,
	}
	for _, kind := range []jcs.Kind{
		jcs.KindSize, jcs.KindUTF8, jcs.KindSyntax, jcs.KindDuplicateMember, jcs.KindLoneSurrogate, jcs.KindNumberRange,
		jcs.KindUnsafeInteger, jcs.KindDepth,
	} {
		kinds = append(kinds, textKind(kind))
	}
	return kinds
}

// textKind is the kind of rejection of a text that is not I-JSON.
func textKind(kind jcs.Kind) Kind { return "json-" + Kind(kind) }
