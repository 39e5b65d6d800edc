package bundle

import (
	"crypto/ed25519"
	"slices"
)

// checkTier holds claims of the evidence tier "independent" to a verifier's own signature (conformance.md §Signature
// and attribution). A claim without one is refused, and so is one made with the host's key, whether the id, the key
// given for the verifier, or the signature itself gives that away. Without the verifier's key the signature is only a
// text nobody checked, and the claim is refused as well.
func checkTier(c *collector, p *parsed, hostKey, verifierKey ed25519.PublicKey, document map[string]any) {
	independent := slices.ContainsFunc(p.ClaimedProfiles, func(claim ClaimedProfile) bool { return claim.EvidenceTier == TierIndependent })
	sig := p.VerifierSignature
	if sig == nil {
		if independent {
			c.reject(KindIndependentUnsigned, "a claim is of tier independent and the bundle has no verifierSignature")
		}
		if verifierKey != nil {
			c.note("a verifier key was given and the bundle has no verifierSignature to check with it")
		}
		return
	}
	for _, claim := range p.ClaimedProfiles {
		if id := claim.VerifierKeyID; id != "" && id != sig.KeyID && claim.EvidenceTier == TierIndependent {
			c.add(Rejection{Kind: KindIndependentUnsigned, Profile: claim.ID}, "%s names the verifier key %q and the verifier signature is by %q", claim.ID, id, sig.KeyID)
			return
		}
	}
	selfSigned := selfSignedBy(p, hostKey, verifierKey, document)
	if independent && selfSigned != "" {
		c.reject(KindIndependentSelfSigned, "the verifier signature of an independent claim is not independent: %s", selfSigned)
		return
	}
	switch {
	case verifierKey != nil && !verifySignature(&p.Bundle, sig.Sig, verifierKey):
		c.reject(KindVerifierSignature, "the verifier signature by %q does not verify under the verifier key given", sig.KeyID)
	case verifierKey != nil:
		c.note("the verifier signature by %q verifies under the verifier key given", sig.KeyID)
	case independent:
		c.reject(KindIndependentUnverified, "a claim is of tier independent and no verifier key was given to check the signature by %q with", sig.KeyID)
	default:
		c.note("the verifier signature by %q was not checked: no verifier key was given, and no claim rests on it", sig.KeyID)
	}
}

// selfSignedBy says what shows that the verifier's key is the host's, or "".
func selfSignedBy(p *parsed, hostKey, verifierKey ed25519.PublicKey, document map[string]any) string {
	id := p.VerifierSignature.KeyID
	if id == p.Signature.KeyID || id == p.Host.SigningKeyID {
		return "it names the host's signing key"
	}
	if _, problem, ok := resolveKey(document, id); ok || problem != "" {
		return "the host publishes the key it names"
	}
	if hostKey != nil && verifySignature(&p.Bundle, p.VerifierSignature.Sig, hostKey) {
		return "it verifies under the host's key"
	}
	if hostKey != nil && verifierKey != nil && hostKey.Equal(verifierKey) {
		return "the verifier key given is the host's key"
	}
	if verifierKey != nil && publishes(document, verifierKey) {
		return "the host publishes the verifier key given"
	}
	return ""
}

// publishes reports whether a document lists the key under any id.
func publishes(document map[string]any, key ed25519.PublicKey) bool {
	entries, _ := document["signingKeys"].([]any)
	return slices.ContainsFunc(entries, func(item any) bool {
		entry, _ := item.(map[string]any)
		text, _ := entry["publicKey"].(string)
		return text == EncodePublicKey(key)
	})
}
