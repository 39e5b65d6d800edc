package bundle

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
)

// Sign attests b with key: Ed25519 over the RFC 8785 bytes of the object of the four attested members. It sets
// signature and, for a key that is the host's, host.signingKeyId. A bundle without its digests, a key of the wrong
// length and a key id a bundle cannot carry are refused, and b is left as it was.
func Sign(b *Bundle, key SigningKey) error {
	sig, err := signature(b, key)
	if err != nil {
		return err
	}
	b.Host.SigningKeyID = key.ID
	if key.Ephemeral {
		b.Host.SigningKeyID = ""
	}
	b.Signature = &Signature{Alg: "ed25519", KeyID: key.ID, Sig: sig, Over: attestedMembers()}
	return nil
}

// Countersign adds a verifier's signature, which the evidence tier "independent" needs. The key has to be another than
// the one the bundle is signed with.
func Countersign(b *Bundle, key SigningKey) error {
	if b.Signature == nil {
		return errors.New("countersigning: the bundle is not signed yet; sign it with the host's key first")
	}
	if b.Signature.KeyID == key.ID {
		return fmt.Errorf("countersigning: key id %q is the host's; an independent verifier needs a key of its own", key.ID)
	}
	sig, err := signature(b, key)
	if err != nil {
		return err
	}
	b.VerifierSignature = &VerifierSignature{Alg: "ed25519", KeyID: key.ID, Sig: sig}
	return nil
}

func signature(b *Bundle, key SigningKey) (string, error) {
	if len(key.Private) != ed25519.PrivateKeySize {
		return "", fmt.Errorf("signing: the Ed25519 private key has %d bytes instead of %d", len(key.Private), ed25519.PrivateKeySize)
	}
	if !ValidKeyID(key.ID) {
		return "", fmt.Errorf("signing: key id %q is not 1 to 128 of the characters A-Z a-z 0-9 . _ ~ -", key.ID)
	}
	if b.WitnessSHA256 == "" || b.Discovery.SHA256 == "" || b.Suite.Version == "" || b.Host.Build.ID == "" {
		return "", errors.New("signing: the bundle lacks one of witnessSha256, host.build, suite.version, discovery.sha256")
	}
	payload, err := attestation(b)
	if err != nil {
		return "", fmt.Errorf("signing: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(ed25519.Sign(key.Private, payload)), nil
}

// verifySignature checks a base64url signature over b's attested members. It never panics, whatever the key and the
// text are.
func verifySignature(b *Bundle, sig string, key ed25519.PublicKey) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(sig)
	if err != nil || len(raw) != ed25519.SignatureSize || checkPublicKey(key) != nil {
		return false
	}
	payload, err := attestation(b)
	return err == nil && ed25519.Verify(key, payload, raw)
}
