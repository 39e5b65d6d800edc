package bundle

import (
	"crypto/ed25519"

	"wopcert/corpus"
)

// Options are what a verification may be given beside the bundle; the zero value is a plain one.
type Options struct {
	// Discovery is a document read apart from the bundle. It decides the attribution where it is given.
	Discovery *DiscoverySource
	// VerifierKey checks the verifier signature of an independent claim.
	VerifierKey ed25519.PublicKey
	// CompanionOf is the served-host bundle a colocated companion's is paired with.
	CompanionOf []byte
	// Require names profiles the caller needs; those that are not certified come back as MissingProfiles.
	Require []string
	// Canaries are texts that must not occur in the bundle.
	Canaries []string
	// Corpus is the contract; nil means the embedded one.
	Corpus *corpus.Corpus
}

// Verify judges a bundle, whatever the bytes are: it does not panic, and its time and memory are bounded by the limits
// of packages jcs and bundle. It reads no file and no network.
//
// The parts of the report stand apart. Soundness is about the file alone: the text, the schema, the rows, the digests,
// the attestation, and every claim that says more than the rows do. Attribution is about whose it is: the document
// captured in the bundle decides unless another one is given, and the reason says which one did. Certification is
// derived from the captured document and the rows; the flag in the file is only ever compared with the answer.
//
// A bundle of version 1 or 2 is named as what it is and judged by none of these rules ([Report.Older]).
func Verify(data []byte, opts Options) *Report {
	report, _ := verify(data, opts)
	return report
}

// verify also returns what was parsed, nil where the file could not be read that far.
func verify(data []byte, opts Options) (*Report, *parsed) {
	c := newCollector(newSecretScan(opts.Canaries))
	if opts.Corpus == nil {
		contract, err := corpus.Load()
		if err != nil {
			c.reject(KindContract, "the contract files of this program do not load: %v", err)
			return c.finish(), nil
		}
		opts.Corpus = contract
	}
	p := read(c, opts, data)
	if p != nil {
		judge(c, opts, p)
	}
	report := c.finish()
	report.require(opts.Require)
	if report.Companion != nil && !report.Sound {
		report.Companion.Evidence = []string{}
	}
	return report, p
}

// read takes the text as far as a bundle of version 3 that satisfies the schema, or returns nil.
func read(c *collector, opts Options, data []byte) *parsed {
	canonical, value := readValue(c, data)
	if value == nil {
		return nil
	}
	c.secrets.learnTestKeys(value)
	c.secrets.walk(value, func(pointer, what string) {
		c.reject(KindSecret, "%s holds %s", orElse(pointer, "the root"), what)
	})
	version, _ := value["bundleVersion"].(string)
	switch c.report.BundleVersion = clip(c.secrets.redact(version), 20); version {
	case Version:
	case "1", "2":
		c.reject(KindBundleVersion, "bundle version %s: evidence at its own version, never upgraded; no rule of version 3 was applied and it certifies nothing here", version)
		c.attribute(NotAttested, CodeNotRead, "bundle version %s carries no attestation a version 3 verifier reads", version)
		return nil
	case "":
		c.reject(KindNotABundle, "the object has no bundleVersion text; a bundle says \"3\"")
		return nil
	default:
		c.reject(KindBundleVersion, "bundle version %q is not one this program judges; it judges version 3", c.report.BundleVersion)
		return nil
	}
	if tooMany(c, value) || !checkSchema(c, opts.Corpus, value) {
		return nil
	}
	p, err := parse(canonical, value)
	if err != nil {
		c.reject(KindSchema, "a value is out of range: %v", err)
		return nil
	}
	return p
}

// judge applies the rules to a bundle that satisfies the schema.
func judge(c *collector, opts Options, p *parsed) {
	c.report.Suite, c.report.Host = &p.Suite, &p.Host
	checkRows(c, &p.Bundle)
	checkDetail(c, &p.Bundle)
	captured := checkDigests(c, p)
	document := p.document
	if !captured {
		document = nil
	}
	hostKey := checkAttribution(c, opts.Discovery, p, captured)
	checkTier(c, p, hostKey, opts.VerifierKey, document)

	l := newLedger(opts.Corpus, &p.Bundle, document)
	c.report.Totals = &l.totals
	checkOptOuts(c, l, p.Results.Requirements)
	checkClaims(c, l, p)
	if p.Durability != nil {
		r := deriveRung(p.Durability.Rung, l.rows)
		c.report.Durability = &r
		if !r.Derived {
			c.reject(KindRungUnderivable, "the rung %s is claimed: %s", p.Durability.Rung, summary(r.Reasons))
		}
		if l.deployment != "" {
			// The rung of what ran beside the suite is nobody's claim about the served host; rows that contradict it
			// are still a defect of the file.
			r.Derived, r.Reasons = false, append([]string{companionReason}, r.Reasons...)
			c.note("the rung %s is claimed, and this bundle cannot show it: %s", p.Durability.Rung, companionReason)
		}
	}
	checkCompanion(c, opts, p)
	noteRun(c, p, l.totals)
}
