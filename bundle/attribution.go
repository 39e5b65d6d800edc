package bundle

import (
	"crypto/ed25519"
	"fmt"
	"time"

	"wopcert/bundle/jcs"
)

// DiscoverySource is a discovery document read for the verification, apart from the one captured in the bundle.
type DiscoverySource struct {
	// Origin is "url" for a document read from the host and "file" for one somebody kept.
	Origin string
	// Location is the URL or path, for messages.
	Location string
	Document []byte
}

// documentInUse is the discovery document a key is resolved in.
type documentInUse struct {
	source   string // "captured", "url", "file"
	what     string // for messages
	document map[string]any
}

// chooseDocument picks the document that decides: the one given, or else the one captured in the bundle.
//
// They prove different things. Whoever can write a bundle can write the document captured in it, publish a key of his
// own there and sign with that key; discovery.url and host.name lie outside the attestation. A captured document
// therefore proves that one party stands behind rows, build and document alike, and shows which party it claims to
// be. A document read from the host's own URL over TLS proves that the holder of that host publishes the key: a forger
// would have to control the host. A file is worth what its reader knows of where it came from.
func chooseDocument(c *collector, given *DiscoverySource, p *parsed, captured bool) (documentInUse, bool) {
	if given == nil {
		if !captured {
			c.attribute(IntegrityOnly, CodeNoDocument, "no discovery document was read: the bundle holds none that matches its digest, and none was given")
			return documentInUse{}, false
		}
		return documentInUse{"captured", "the discovery document captured in the bundle", p.document}, true
	}
	use := documentInUse{source: given.Origin, what: fmt.Sprintf("the discovery document read from %s", given.Location)}
	v, err := jcs.Decode(given.Document)
	if err != nil {
		c.attribute(IntegrityOnly, CodeDocumentUnreadable, "%s cannot be used: %v", use.what, err)
		return use, false
	}
	document, ok := v.(map[string]any)
	if !ok {
		c.attribute(IntegrityOnly, CodeDocumentUnreadable, "%s cannot be used: it is not a JSON object", use.what)
		return use, false
	}
	use.document = document
	if digest, err := jcs.SHA256(given.Document); err == nil && digest != p.Discovery.SHA256 {
		c.note("%s is not the one the run captured; the host's document has changed since, or it is another host's", use.what)
	}
	if name := implementationName(document); name != "" && name != p.Host.Name {
		c.note("%s names the implementation %q; the bundle is about %q", use.what, name, p.Host.Name)
	}
	return use, true
}

func implementationName(document map[string]any) string {
	implementation, _ := document["implementation"].(map[string]any)
	name, _ := implementation["name"].(string)
	return name
}

func (c *collector) attribute(a Attribution, code AttributionCode, format string, args ...any) {
	c.report.Attribution, c.report.AttributionCode = a, code
	c.report.AttributionReason = fmt.Sprintf(format, args...)
}

// publishedKey is one entry of signingKeys[] that can be used.
type publishedKey struct {
	key       ed25519.PublicKey
	use       string
	retiredAt string
}

// resolveKey looks a key id up in a discovery document. problem says why a listed key cannot be used; ok is false, and
// problem empty, where it is not listed.
func resolveKey(document map[string]any, keyID string) (key publishedKey, problem string, ok bool) {
	entries, _ := document["signingKeys"].([]any)
	var found map[string]any
	for _, item := range entries {
		entry, _ := item.(map[string]any)
		if id, _ := entry["keyId"].(string); entry == nil || id != keyID {
			continue
		}
		if found != nil {
			return key, "is listed more than once, so nobody can tell which key it is", false
		}
		found = entry
	}
	if found == nil {
		return key, "", false
	}
	if alg, _ := found["alg"].(string); alg != "ed25519" {
		return key, fmt.Sprintf("is listed with the algorithm %q instead of ed25519", alg), false
	}
	if use, given := found["use"]; given {
		if key.use, _ = use.(string); key.use != "certification-bundle" {
			return key, fmt.Sprintf("is published for the use %v, not for certification-bundle", use), false
		}
	}
	text, _ := found["publicKey"].(string)
	public, err := decodePublicKey(text)
	if err != nil {
		return key, fmt.Sprintf("is listed with a publicKey that cannot be used: %v", err), false
	}
	key.key = public
	key.retiredAt, _ = found["retiredAt"].(string)
	return key, "", true
}

// checkAttribution settles who stands behind the bundle and returns the host's public key where it is known.
func checkAttribution(c *collector, given *DiscoverySource, p *parsed, captured bool) ed25519.PublicKey {
	c.report.KeyID = p.Signature.KeyID
	if p.Host.SigningKeyID != "" && p.Host.SigningKeyID != p.Signature.KeyID {
		c.reject(KindSigningKeyID, "host.signingKeyId is %q and the signature names %q", p.Host.SigningKeyID, p.Signature.KeyID)
	}
	use, ok := chooseDocument(c, given, p, captured)
	c.report.AttributionSource = use.source
	if !ok {
		return nil
	}
	id := p.Signature.KeyID
	key, problem, ok := resolveKey(use.document, id)
	switch {
	case problem != "":
		c.attribute(IntegrityOnly, CodeKeyUnusable, "the key %q %s in %s, so the signature shows that the file is whole and not whose it is", id, problem, use.what)
		return nil
	case !ok:
		c.attribute(IntegrityOnly, CodeKeyNotPublished, "read and the key is not published: %s lists no signing key %q, so the signature shows that the file is whole and not whose it is", use.what, id)
		return nil
	case !verifySignature(&p.Bundle, p.Signature.Sig, key.key):
		c.attribute(NotAttested, CodeDoesNotVerify, "the attestation does not verify under the key %q of %s", id, use.what)
		c.reject(KindAttestationInvalid, "the attestation does not verify under the key %q of %s", id, use.what)
		return key.key
	}
	code, retired := CodeVerified, ""
	if key.retiredAt != "" {
		code, retired = CodeVerifiedRetired, fmt.Sprintf(", a key retired at %s", key.retiredAt)
		noteRetirement(c, p.GeneratedAt, key.retiredAt)
	}
	reason := fmt.Sprintf("the attestation verifies under the key %q%s, published in %s", id, retired, use.what)
	if use.source == "captured" {
		reason += "; the bundle vouches for itself: reading the host's own document would tie the key to the host"
	}
	c.attribute(Attributable, code, "%s", reason)
	return key.key
}

func noteRetirement(c *collector, generatedAt, retiredAt string) {
	generated, err1 := time.Parse(time.RFC3339, generatedAt)
	retired, err2 := time.Parse(time.RFC3339, retiredAt)
	if err1 == nil && err2 == nil && generated.After(retired) {
		c.note("the bundle says it was generated at %s, after its signing key was retired at %s", generatedAt, retiredAt)
	}
}
