package bundle

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"wopcert/bundle/jcs"
)

// CompanionReport says what a colocated companion's bundle is evidence for: the requirements that need a trust anchor
// the suite holds, and those only where it pairs with a served host's bundle (conformance.md §Colocated companion).
type CompanionReport struct {
	Paired bool `json:"paired"`
	// Reasons say why it does not pair.
	Reasons []string `json:"reasons"`
	// Evidence lists the requirements it witnesses, empty unless paired and sound.
	Evidence []string `json:"evidence"`
	// Discarded counts its other executed-pass rows, which count toward nothing.
	Discarded int `json:"discarded"`
}

// checkCompanion judges a bundle that is marked as a companion's, or pairs one that is not with what it was given.
func checkCompanion(c *collector, opts Options, p *parsed) {
	if p.Host.Deployment == "" {
		if opts.CompanionOf != nil {
			c.report.Companion = &CompanionReport{Evidence: []string{}, Reasons: []string{
				"the bundle is not marked host.deployment colocated-companion; it measures the served host and pairs with nothing"}}
		}
		return
	}
	r := &CompanionReport{Reasons: []string{}, Evidence: []string{}}
	c.report.Companion = r
	if opts.CompanionOf == nil {
		r.Reasons = append(r.Reasons, "no served-host bundle was given to pair it with, so it is evidence for nothing")
	} else {
		r.Reasons = append(r.Reasons, pairing(opts, p)...)
	}
	r.Paired = len(r.Reasons) == 0
	anchors := opts.Corpus.TrustAnchorRequirements()
	for _, row := range p.Results.Requirements {
		switch {
		case row.Result != ExecutedPass:
		case r.Paired && slices.Contains(anchors, row.ID):
			r.Evidence = append(r.Evidence, row.ID)
		default:
			r.Discarded++
		}
	}
}

// pairing lists what keeps companion p from pairing with the served-host bundle (RFC 0216 §C.9).
func pairing(opts Options, p *parsed) []string {
	servedReport, served := verify(opts.CompanionOf, Options{Corpus: opts.Corpus, VerifierKey: opts.VerifierKey, Canaries: opts.Canaries})
	var reasons []string
	deny := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	switch {
	case !servedReport.Sound:
		deny("the served-host bundle is not sound: %s", servedReport.Rejections[0].Detail)
		return reasons
	case served.Host.Deployment != "":
		deny("the other bundle is a colocated companion's too, not the served host's")
	case len(servedReport.CertifiedProfiles) == 0:
		deny("the served-host bundle certifies no profile")
	case servedReport.Attribution != Attributable:
		deny("the served-host bundle is not attributable: %s", servedReport.AttributionReason)
	}
	if served.Host.Name != p.Host.Name || served.Host.Vendor != p.Host.Vendor {
		deny("it is about %q by %q, the served-host bundle about %q by %q", p.Host.Name, p.Host.Vendor, served.Host.Name, served.Host.Vendor)
	}
	if p.Host.Build != served.Host.Build || p.Host.Build.Kind != "image-digest" {
		deny("it ran %s %s, the served host %s %s; both have to be the same image-digest",
			p.Host.Build.Kind, p.Host.Build.ID, served.Host.Build.Kind, served.Host.Build.ID)
	}
	if p.Host.Build.unstated() {
		deny("host.build.id is %q, which names no image", p.Host.Build.ID)
	}
	if served.document == nil {
		deny("the served-host bundle holds no discovery document")
		return reasons
	}
	key, _, ok := resolveKey(served.document, p.Signature.KeyID)
	switch {
	case !ok || key.use != "certification-bundle":
		deny("the served host's discovery document publishes no certification-bundle key %q", p.Signature.KeyID)
	case !verifySignature(&p.Bundle, p.Signature.Sig, key.key):
		deny("its attestation does not verify under the key %q the served host publishes", p.Signature.KeyID)
	}
	if p.document == nil {
		deny("it holds no discovery document to compare with the served host's")
		return reasons
	}
	mine, err1 := comparable(p)
	theirs, err2 := comparable(served)
	if err1 != nil || err2 != nil || !bytes.Equal(mine, theirs) {
		deny("its discovery document differs from the served host's by more than the origin and the issuers of the oidc lane")
	}
	return reasons
}

// comparable is the canonical form of a captured document with its origin and the issuers of its oidc lane set aside.
func comparable(p *parsed) ([]byte, error) {
	origin := ""
	if u, err := url.Parse(p.Discovery.URL); err == nil && u.Host != "" {
		origin = u.Scheme + "://" + u.Host
	}
	document, _ := withoutOrigin(p.document, origin).(map[string]any)
	if auth, ok := document["auth"].(map[string]any); ok {
		lanes, _ := auth["lanes"].([]any)
		for _, item := range lanes {
			if lane, ok := item.(map[string]any); ok && lane["lane"] == "oidc" {
				delete(lane, "issuers")
			}
		}
	}
	return jcs.CanonicalizeValue(document)
}

// withoutOrigin copies v and replaces the origin in every string value. An origin ends where no character follows that
// could belong to a longer host name or a port.
func withoutOrigin(v any, origin string) any {
	switch v := v.(type) {
	case string:
		if origin == "" {
			return v
		}
		var out strings.Builder
		for {
			i := strings.Index(v, origin)
			if i < 0 {
				out.WriteString(v)
				return out.String()
			}
			rest := v[i+len(origin):]
			if rest != "" && strings.IndexByte(":.-_@", rest[0]) >= 0 || startsAlphanumeric(rest) {
				out.WriteString(v[:i+len(origin)])
			} else {
				out.WriteString(v[:i] + "origin:")
			}
			v = rest
		}
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = withoutOrigin(item, origin)
		}
		return list
	case map[string]any:
		record := make(map[string]any, len(v))
		for name, item := range v {
			record[name] = withoutOrigin(item, origin)
		}
		return record
	}
	return v
}

func startsAlphanumeric(s string) bool {
	return s != "" && ('a' <= s[0]|0x20 && s[0]|0x20 <= 'z' || '0' <= s[0] && s[0] <= '9' || s[0] >= 0x80)
}
