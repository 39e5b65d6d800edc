package bundle

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Version is the bundle version this package makes and judges.
const Version = "3"

// SuiteName is suite.name of the bundles this program makes.
const SuiteName = "wopcert"

// publishedSuite is suite.name of the published OpenWOP suite. Its corpus is an exact-pinned peer of the same version
// (conformance.md §Two products, two ledgers), so its signed suite.version also says which contract it tested.
const publishedSuite = "@openwop/openwop-conformance"

// Disposition is what a run resolved for one requirement.
type Disposition string

// The dispositions (schema certification-bundle, results.requirements[].result).
const (
	ExecutedPass Disposition = "executed-pass"
	ExecutedFail Disposition = "executed-fail"
	Skipped      Disposition = "skipped"
	Inapplicable Disposition = "inapplicable"
	Blocked      Disposition = "blocked"
)

// Bundle is a certification bundle of version 3. The order of its members is the order they are written in.
type Bundle struct {
	BundleVersion     string             `json:"bundleVersion"`
	GeneratedAt       string             `json:"generatedAt"` // RFC 3339
	Suite             Suite              `json:"suite"`
	Host              Host               `json:"host"`
	Discovery         Discovery          `json:"discovery"`
	ClaimedProfiles   []ClaimedProfile   `json:"claimedProfiles"`
	Results           Results            `json:"results"`
	WitnessSHA256     string             `json:"witnessSha256"`
	AssertionCount    int64              `json:"assertionCount"`
	Detail            *Detail            `json:"detail,omitempty"`
	Durability        *Durability        `json:"durability,omitempty"`
	Signature         *Signature         `json:"signature,omitempty"`
	VerifierSignature *VerifierSignature `json:"verifierSignature,omitempty"`
}

// Suite names the suite that ran and the contract it tested.
//
// SpecArtifactsVersion decides which floor counts and lies outside the attestation; Version lies inside. A suite whose
// version numbers are its own binds the two by carrying the contract version as build metadata, "0.1.0+2.44.6".
type Suite struct {
	Name                 string `json:"name"`
	Version              string `json:"version"`
	TargetMajor          int    `json:"targetMajor"`
	SpecArtifactsVersion string `json:"specArtifactsVersion"`
	StampSHA256          string `json:"stampSha256,omitempty"`
}

// Host names the host under test.
type Host struct {
	Name         string       `json:"name"`
	Version      string       `json:"version"`
	Vendor       string       `json:"vendor,omitempty"`
	Build        HostBuild    `json:"build"`
	SigningKeyID string       `json:"signingKeyId,omitempty"`
	Relaxations  []Relaxation `json:"relaxations,omitempty"`
	Deployment   string       `json:"deployment,omitempty"`
}

// HostBuild identifies the bytes that ran. Kind is "image-digest", "commit" or "artifact-sha256".
type HostBuild struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

// BuildUnstated is the HostBuild.ID of a bundle whose operator named no build.
const BuildUnstated = "unstated"

func (b HostBuild) unstated() bool { return strings.EqualFold(strings.TrimSpace(b.ID), BuildUnstated) }

// ColocatedCompanion is the only value of host.deployment (conformance.md §Colocated companion).
const ColocatedCompanion = "colocated-companion"

// Relaxation is one operator setting under which the host ran (security-defaults.md §Relaxations). Obligation begins
// with the surface it belongs to, as in "webhooks.egress-guard"; Durability is "session", "deployment" or "persisted".
type Relaxation struct {
	Obligation string `json:"obligation"`
	Durability string `json:"durability"`
	Reason     string `json:"reason"`
}

// Discovery is the discovery document as the run captured it.
type Discovery struct {
	URL              string          `json:"url"`
	SHA256           string          `json:"sha256"` // over the RFC 8785 bytes of the document
	ProtocolVersions []string        `json:"protocolVersions"`
	PreferredVersion string          `json:"preferredVersion"`
	Document         json.RawMessage `json:"document,omitempty"`
}

// The evidence tiers a claim can name.
const (
	TierSelf        = "self"
	TierSteward     = "steward"
	TierIndependent = "independent"
)

// ClaimedProfile is a claim, outside the attestation. WitnessCount counts the profile's floor rows that are
// executed-pass; Certified is what the emitter says, which Verify never believes.
type ClaimedProfile struct {
	ID           string `json:"id"`
	EvidenceTier string `json:"evidenceTier"`
	WitnessCount int    `json:"witnessCount"`
	Certified    bool   `json:"certified"`
	// VerifierKeyID may name the verifier's key beside an independent claim; the signature itself is
	// Bundle.VerifierSignature.
	VerifierKeyID string `json:"verifierKeyId,omitempty"`
}

// Results is the ledger: its rows are what witnessSha256 digests.
type Results struct {
	Totals       Totals `json:"totals"`
	Requirements []Row  `json:"requirements"`
}

// Totals counts the rows by disposition.
type Totals struct {
	ExecutedPass int `json:"executedPass"`
	ExecutedFail int `json:"executedFail"`
	Skipped      int `json:"skipped"`
	Inapplicable int `json:"inapplicable"`
	Blocked      int `json:"blocked"`
}

// Add counts one disposition and reports whether there is such a disposition.
func (t *Totals) Add(d Disposition) bool {
	switch d {
	case ExecutedPass:
		t.ExecutedPass++
	case ExecutedFail:
		t.ExecutedFail++
	case Skipped:
		t.Skipped++
	case Inapplicable:
		t.Inapplicable++
	case Blocked:
		t.Blocked++
	default:
		return false
	}
	return true
}

// Row is one requirement and what was observed of it. Detail is the reason of a row that is not executed-pass, and
// "partial-witness: …" on a pass that left an optional extra unobserved.
type Row struct {
	ID         string      `json:"id"`
	Scenario   string      `json:"scenario"`
	Result     Disposition `json:"result"`
	Assertions int64       `json:"assertions"`
	Detail     string      `json:"detail,omitempty"`
	Evidence   *Evidence   `json:"evidence,omitempty"`
}

// Evidence is structured evidence on an executed-pass row (conformance.md §Recovery evidence).
type Evidence struct {
	Recovery       *Recovery       `json:"recovery,omitempty"`
	RecoveryBounds []RecoveryBound `json:"recoveryBounds,omitempty"`
}

// Recovery is what a kill row observed, in milliseconds.
type Recovery struct {
	Class      string `json:"class"`
	BoundMS    int64  `json:"boundMs"`
	ObservedMS int64  `json:"observedMs"`
}

// RecoveryBound is the declared bound of one recovery class, in milliseconds, and the terms it is the sum of.
type RecoveryBound struct {
	Class string      `json:"class"`
	Bound int64       `json:"bound"`
	Terms []BoundTerm `json:"terms"`
}

// BoundTerm is one summand of a recovery bound.
type BoundTerm struct {
	Name string `json:"name"`
	MS   int64  `json:"ms"`
}

// Detail repeats, for a reader, the rows that are not executed-pass with their reasons. It lies outside the
// attestation and is never counted.
type Detail struct {
	NonPass []NonPass `json:"nonPass"`
}

// NonPass is one row of Detail.
type NonPass struct {
	ID     string      `json:"id"`
	Result Disposition `json:"result"`
	Reason string      `json:"reason"`
}

// Durability is the recovery rung the host claims.
type Durability struct {
	Rung string `json:"rung"`
}

// RungSingleInstance is the only rung that can be derived from a bundle (conformance.md §Recovery evidence).
const RungSingleInstance = "durable-single-instance"

// Signature is the attestation. Sig is base64url without padding; Over names what it covers, always the same four.
type Signature struct {
	Alg   string   `json:"alg"`
	KeyID string   `json:"keyId"`
	Sig   string   `json:"sig"`
	Over  []string `json:"over"`
}

// VerifierSignature is a second party's signature over the same four values as the attestation.
type VerifierSignature struct {
	Alg   string `json:"alg"`
	KeyID string `json:"keyId"`
	Sig   string `json:"sig"`
}

// FloorRowID is the id of the row that records a floor scenario, named without suffix: "v2-run-cancel".
func FloorRowID(scenario string) string { return "openwop.floor." + scenario }

// ScenarioRowID is the id of the summary row of a scenario no profile's floor names.
func ScenarioRowID(scenario string) string { return "openwop.scenario." + scenario }

// String writes the totals in the order of the schema.
func (t Totals) String() string {
	return fmt.Sprintf("%d executed-pass, %d executed-fail, %d skipped, %d inapplicable, %d blocked",
		t.ExecutedPass, t.ExecutedFail, t.Skipped, t.Inapplicable, t.Blocked)
}
