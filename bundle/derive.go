package bundle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"wopcert/corpus"
)

// Derivation is what the rows and the captured discovery document say of one claimed profile.
type Derivation struct {
	ID           string `json:"id"`
	EvidenceTier string `json:"evidenceTier"`
	// Claimed is the claim's own certified flag, which decides nothing.
	Claimed bool `json:"claimed"`
	// Certified is the derived answer.
	Certified bool `json:"certified"`
	// WitnessCount counts the floor rows that are executed-pass.
	WitnessCount int `json:"witnessCount"`
	// Floor lists the scenarios that count at the bundle's own contract version.
	Floor []string `json:"floor"`
	// Reasons say why the profile is not certified; empty when it is.
	Reasons []string `json:"reasons"`

	uncontradicted bool // neither rows nor document contradict the claim; the bundle is only no evidence for it
}

// ledger is what derivations read: the rows, the captured document and what the bundle declares of the run.
type ledger struct {
	corpus      *corpus.Corpus
	rows        map[string]Row
	totals      Totals
	document    map[string]any // nil when the bundle holds none, or one that does not match its digest
	suite       Suite
	relaxations []Relaxation
	deployment  string
}

func newLedger(c *corpus.Corpus, b *Bundle, document map[string]any) ledger {
	l := ledger{corpus: c, rows: make(map[string]Row, len(b.Results.Requirements)), document: document,
		suite: b.Suite, relaxations: b.Host.Relaxations, deployment: b.Host.Deployment}
	for _, row := range b.Results.Requirements {
		l.rows[row.ID] = row
		l.totals.Add(row.Result)
	}
	return l
}

// companionReason is why nothing but its trust-anchor rows counts of a companion's bundle (conformance.md §Colocated
// companion).
const companionReason = "the bundle is a colocated companion's, which is no evidence about the served host beyond the trust-anchor requirements"

// derive decides one claim. A colocated companion certifies no profile, whatever its rows say.
func (l ledger) derive(claim ClaimedProfile) Derivation {
	d := l.deriveServed(claim)
	if l.deployment != "" {
		d.uncontradicted = d.uncontradicted || d.Certified
		d.Certified = false
		d.Reasons = append([]string{companionReason}, d.Reasons...)
	}
	return d
}

// deriveServed decides a claim about the host that was measured (conformance.md §Certification; the notes of the profile registry; RFC 0148 §C). A profile
// is certified when
//
//   - the captured discovery document is in the bundle and fits the profile's predicate: every family it lists is a
//     record at the root, every metadata key is present;
//   - the run drove major 2 and no row of the bundle is blocked;
//   - no relaxation belongs to the profile;
//   - its floor at the bundle's contract version is not empty, and every floor scenario has its row, executed-pass
//     with at least one assertion. An inapplicable row is set aside only where the scenario is gated on a family that
//     the document does not advertise, and never for all of them: nothing certifies without a witnessed pass.
//
// A failed row outside the floor denies nothing. What is skipped, failed, missing or inapplicable for another reason
// on the floor denies.
func (l ledger) deriveServed(claim ClaimedProfile) Derivation {
	d := Derivation{ID: claim.ID, EvidenceTier: claim.EvidenceTier, Claimed: claim.Certified, Floor: []string{}, Reasons: []string{}}
	deny := func(format string, args ...any) { d.Reasons = append(d.Reasons, fmt.Sprintf(format, args...)) }

	profile, known := l.corpus.Profile(claim.ID)
	if !known {
		deny("the profile registry of contract version %s has no profile of this id, so there is no floor to hold it to", corpus.SpecArtifactsVersion)
		return d
	}
	if l.suite.TargetMajor != 2 {
		deny("the run drove major %d; the profile is one of major 2", l.suite.TargetMajor)
	}
	if n := l.totals.Blocked; n > 0 {
		deny("%d of the bundle's rows are blocked; a bundle with a blocked row certifies nothing", n)
	}
	d.Reasons = append(d.Reasons, l.relaxed(profile)...)

	floor, err := l.floor(profile)
	d.Floor = append(d.Floor, floor...)
	if err != nil {
		deny("no floor can be chosen: %v", err)
	} else if len(floor) == 0 {
		deny("the profile has no floor at contract version %s; an empty floor proves nothing", l.suite.SpecArtifactsVersion)
	}
	d.WitnessCount, d.Reasons = l.witness(floor, d.Reasons)

	// What the rows alone deny is decided by now; the rest needs the document.
	d.uncontradicted = l.document == nil && len(d.Reasons) == 0
	if l.document == nil {
		deny("the bundle holds no discovery document that matches its digest, so nothing shows which profile the host fits")
	} else {
		for _, missing := range unmet(profile, l.document) {
			deny("the captured discovery document lacks %s, which the profile requires", missing)
		}
	}
	d.Certified = len(d.Reasons) == 0
	return d
}

// witness counts the floor rows that are witnessed and adds a reason for each that denies.
func (l ledger) witness(floor, reasons []string) (int, []string) {
	count := 0
	for _, scenario := range floor {
		row, ok := l.rows[FloorRowID(scenario)]
		switch {
		case !ok:
			reasons = append(reasons, fmt.Sprintf("floor row %s is missing", FloorRowID(scenario)))
		case row.Result == ExecutedPass && row.Assertions > 0:
			count++
		case row.Result == ExecutedPass:
			reasons = append(reasons, fmt.Sprintf("floor row %s passed without an assertion", row.ID))
		case row.Result == Inapplicable && l.gatedOff(scenario):
		default:
			reasons = append(reasons, fmt.Sprintf("floor row %s is %s", row.ID, row.Result))
		}
	}
	if count == 0 && len(floor) > 0 {
		reasons = append(reasons, "no floor row is a witnessed pass")
	}
	return count, reasons
}

// gatedOff reports whether a floor scenario does not bind this host: it is gated on a family the captured document
// does not advertise. Without a document nobody can tell, and derive says so.
func (l ledger) gatedOff(scenario string) bool {
	family := floorGate(scenario)
	return family != "" && !isRecord(l.document[family])
}

// floorGate is the family a floor scenario is gated on beyond its profile's predicate (profile registry, note of
// openwop-conformance-seams-v2). Every other floor scenario binds each host its profile fits.
func floorGate(scenario string) string {
	switch scenario {
	case "v2-fork-a-v1-run", "v2-effect-seam-no-refire":
		return "replay"
	case "v2-effect-identity-business-key":
		return "idempotency"
	case "v2-v1-signed-webhook-accepted":
		return "webhooks"
	}
	return ""
}

// floor is the profile's floor at the contract version the bundle names. That version lies outside the attestation, so
// lowering it could shed a scenario; where the signed suite.version says which contract was tested, what that version
// asks for counts too.
func (l ledger) floor(profile corpus.Profile) ([]string, error) {
	floor, err := profile.FloorAt(l.suite.SpecArtifactsVersion)
	if err != nil {
		return nil, err
	}
	_, signed := l.suite.contractVersions()
	if more, err := profile.FloorAt(signed); err == nil {
		for _, scenario := range more {
			if !slices.Contains(floor, scenario) {
				floor = append(floor, scenario)
			}
		}
	}
	return floor, nil
}

// unmet lists what of the profile's predicate the document does not hold.
func unmet(profile corpus.Profile, document map[string]any) []string {
	var missing []string
	for _, family := range profile.Families {
		if !isRecord(document[family]) {
			missing = append(missing, "the capability family "+family)
		}
	}
	for _, key := range profile.Metadata {
		if document[key] == nil {
			missing = append(missing, "the member "+key)
		}
	}
	return missing
}

func isRecord(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

// relaxed gives the reasons for which relaxations deny the profile (security-defaults.md §Relaxations; RFC 0173 §A.2).
// An obligation begins with the surface it belongs to, and denies the profiles whose predicate lists that surface. One
// that begins with nothing the registries know cannot be placed and denies every profile: free text must not be a way
// around the rule.
func (l ledger) relaxed(profile corpus.Profile) []string {
	var reasons []string
	for _, r := range l.relaxations {
		surface, _, _ := strings.Cut(r.Obligation, ".")
		_, family := l.corpus.Family(surface)
		switch {
		case r.Obligation == profile.ID, slices.Contains(profile.Families, surface), slices.Contains(profile.Metadata, surface):
			reasons = append(reasons, fmt.Sprintf("the host ran with %q relaxed, which belongs to this profile", r.Obligation))
		case family || slices.Contains(l.corpus.MetadataKeys(), surface):
		default:
			if _, other := l.corpus.Profile(r.Obligation); other {
				continue
			}
			reasons = append(reasons, fmt.Sprintf("the host ran with %q relaxed, which begins with no registered surface and may belong to any profile", r.Obligation))
		}
	}
	return reasons
}

// advertised reports whether the document advertises what an operator opted out of: a family, a dotted facet of one,
// or a profile by its id. Names are compared in any case: a slip in spelling must not hide an opt-out.
func (l ledger) advertised(target string) bool {
	target = bareTarget(target)
	if profile, ok := l.corpus.Profile(strings.ToLower(target)); ok {
		return len(unmet(profile, l.document)) == 0
	}
	var v any = l.document
	for name := range strings.SplitSeq(target, ".") {
		record, ok := v.(map[string]any)
		if !ok {
			return false
		}
		v = memberFold(record, name)
	}
	list, isList := v.([]any)
	return v != nil && v != false && !(isList && len(list) == 0)
}

// memberFold is the member of a name, or else the first one whose name differs in case alone.
func memberFold(record map[string]any, name string) any {
	if v, ok := record[name]; ok {
		return v
	}
	for _, other := range slices.Sorted(maps.Keys(record)) {
		if strings.EqualFold(other, name) {
			return record[other]
		}
	}
	return nil
}
