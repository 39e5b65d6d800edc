package vectorset

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"math/big"
	"slices"
	"strings"

	"wopcert/bundle"
	"wopcert/bundle/bundletest"
)

// KeysFile is attestation/keys.json.
type KeysFile struct {
	Description string    `json:"description"`
	Keys        []TestKey `json:"keys"`
}

// TestKey is a key whose seed anybody can compute.
type TestKey struct {
	KeyID     string `json:"keyId"`
	SeedLabel string `json:"seedLabel"`
	SeedHex   string `json:"seedHex"`
	PublicKey string `json:"publicKey"`
}

func attestationKeys() KeysFile {
	file := KeysFile{Description: "TEST-ONLY Ed25519 keys. They are public: seedHex is the SHA-256 of seedLabel. Never sign anything real with one, and never publish one as a host's. publicKey is as in signingKeys[].publicKey: base64url without padding."}
	for _, name := range []string{"host", "other", "verifier"} {
		seed := sha256.Sum256([]byte(bundletest.KeyLabel(name)))
		key := bundletest.Key(name)
		file.Keys = append(file.Keys, TestKey{key.ID, bundletest.KeyLabel(name), hex.EncodeToString(seed[:]), bundle.EncodePublicKey(key.Public())})
	}
	return file
}

// AttestationFile is attestation/cases.json.
type AttestationFile struct {
	Description string        `json:"description"`
	Attested    Attested      `json:"attested"`
	Payload     string        `json:"payload"`
	Cases       []Attestation `json:"cases"`
}

// Attested are the four values of a bundle.
type Attested struct {
	WitnessSHA256   string           `json:"witnessSha256"`
	HostBuild       bundle.HostBuild `json:"host.build"`
	SuiteVersion    string           `json:"suite.version"`
	DiscoverySHA256 string           `json:"discovery.sha256"`
}

// Attestation is a signature, the discovery document it is resolved in, and what a verifier must say.
type Attestation struct {
	ID          string         `json:"id"`
	Description string         `json:"description"`
	KeyID       string         `json:"keyId"`
	Sig         string         `json:"sig"`
	Document    map[string]any `json:"document"` // null: none was read
	Attribution string         `json:"attribution"`
	Code        string         `json:"code"`
}

func attested() Attested {
	return Attested{strings.Repeat("0123456789abcdef", 4), bundle.HostBuild{Kind: "commit", ID: "5aa8686e/\"quoted\" é \U0001F600"},
		"1.2.3", strings.Repeat("fedcba9876543210", 4)}
}

const attestedPayload = `{"discovery.sha256":"fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210",` +
	`"host.build":{"id":"5aa8686e/\"quoted\" é 😀","kind":"commit"},"suite.version":"1.2.3",` +
	`"witnessSha256":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}`

func sign(name, payload string) string {
	return base64.RawURLEncoding.EncodeToString(ed25519.Sign(bundletest.Key(name).Private, []byte(payload)))
}

func publishing(entries ...map[string]any) map[string]any {
	list := make([]any, len(entries))
	for i, entry := range entries {
		list[i] = entry
	}
	return map[string]any{"protocolVersions": []any{"2.0"}, "preferredVersion": "2.0", "signingKeys": list}
}

// entry is the published host key with members replaced; a nil value removes one.
func entry(changes map[string]any) map[string]any {
	e := bundletest.Published(bundletest.Key("host"))
	for name, value := range changes {
		if value == nil {
			delete(e, name)
		} else {
			e[name] = value
		}
	}
	return e
}

func attestationCases() AttestationFile {
	good := sign("host", attestedPayload)
	published := publishing(entry(nil))
	a := attested()
	file := AttestationFile{
		Description: "Build the payload from attested: the RFC 8785 bytes of one object whose member names are literally those four. It must be payload. Then resolve keyId in document.signingKeys and check sig over the payload; the answer must be attribution, for the reason code.",
		Attested:    a, Payload: attestedPayload,
	}
	add := func(id, description, sig string, document map[string]any, attribution, code string) {
		file.Cases = append(file.Cases, Attestation{id, description, bundletest.Key("host").ID, sig, document, attribution, code})
	}
	const yes, only, no = "attributable", "integrity-only", "not-attested"

	add("verifies", "the key is published and the signature is over the four members", good, published, yes, "verified")
	add("verifies-second-key", "the key is one of several", good, publishing(bundletest.Published(bundletest.Key("other")), entry(nil)), yes, "verified")
	add("verifies-without-use", "use is optional", good, publishing(entry(map[string]any{"use": nil})), yes, "verified")
	add("verifies-retired", "a retired key that stays listed verifies what it signed", good, publishing(entry(map[string]any{"retiredAt": "2026-09-30T00:00:00Z"})), yes, "verified-retired-key")
	add("no-document", "no discovery document was read", good, nil, only, "no-discovery-document")
	add("not-published", "read, and the key is not published", good, publishing(bundletest.Published(bundletest.Key("other"))), only, "key-not-published")
	add("no-signing-keys", "the document publishes no keys at all", good, map[string]any{"preferredVersion": "2.0"}, only, "key-not-published")
	add("key-id-case", "key ids are compared byte for byte", good, publishing(entry(map[string]any{"keyId": "TEST-ONLY-HOST"})), only, "key-not-published")
	add("other-algorithm", "the listed key is of another algorithm", good, publishing(entry(map[string]any{"alg": "es256"})), only, "key-unusable")
	add("other-use", "the listed key has another use", good, publishing(entry(map[string]any{"use": "webhooks"})), only, "key-unusable")
	add("listed-twice", "the key id is listed for two keys", good, publishing(entry(nil), entry(map[string]any{"publicKey": bundle.EncodePublicKey(bundletest.Key("other").Public())})), only, "key-unusable")
	add("short-key", "the listed key has 31 bytes", good, publishing(entry(map[string]any{"publicKey": strings.Repeat("A", 42)})), only, "key-unusable")
	add("identity-key", "the listed key is the identity point, under which this signature verifies for every message", forged(), publishing(entry(map[string]any{"publicKey": "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"})), only, "key-unusable")
	add("wrong-key", "another key is published under the id", good, publishing(entry(map[string]any{"publicKey": bundle.EncodePublicKey(bundletest.Key("other").Public())})), no, "attestation-invalid")
	add("flipped-bit", "one bit of the signature is flipped", flip(good), published, no, "attestation-invalid")
	add("malleable", "the group order is added to the second half of the signature", malleate(good), published, no, "attestation-invalid")
	add("other-witness", "signed over another witness digest", sign("host", strings.Replace(attestedPayload, `"0123`, `"1123`, 1)), published, no, "attestation-invalid")
	add("other-build", "signed over another build", sign("host", strings.Replace(attestedPayload, "5aa8", "5aa9", 1)), published, no, "attestation-invalid")
	add("other-suite-version", "signed over another suite version", sign("host", strings.Replace(attestedPayload, "1.2.3", "1.2.4", 1)), published, no, "attestation-invalid")
	add("other-discovery", "signed over another discovery digest", sign("host", strings.Replace(attestedPayload, `"fedc`, `"eedc`, 1)), published, no, "attestation-invalid")
	add("nested-names", "signed with host.build and the others as nested objects", sign("host", `{"discovery":{"sha256":"`+a.DiscoverySHA256+
		`"},"host":{"build":{"id":"5aa8686e/\"quoted\" é 😀","kind":"commit"}},"suite":{"version":"1.2.3"},"witnessSha256":"`+a.WitnessSHA256+`"}`), published, no, "attestation-invalid")
	add("written-order", "signed in the order the members are listed in over, not in canonical order", sign("host", `{"witnessSha256":"`+a.WitnessSHA256+
		`","host.build":{"kind":"commit","id":"5aa8686e/\"quoted\" é 😀"},"suite.version":"1.2.3","discovery.sha256":"`+a.DiscoverySHA256+`"}`), published, no, "attestation-invalid")
	add("escaped", "signed with characters escaped that RFC 8785 writes out", sign("host", strings.Replace(attestedPayload, "é", `\u00e9`, 1)), published, no, "attestation-invalid")
	add("with-line-feed", "signed with a line feed at the end", sign("host", attestedPayload+"\n"), published, no, "attestation-invalid")
	return file
}

func rawSignature(text string) []byte {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return raw
}

func flip(sig string) string {
	raw := rawSignature(sig)
	raw[0] ^= 1
	return base64.RawURLEncoding.EncodeToString(raw)
}

// forged is the signature of no one: R is the identity and S is zero.
func forged() string {
	raw := make([]byte, 64)
	raw[0] = 1
	return base64.RawURLEncoding.EncodeToString(raw)
}

// malleate adds the order of the group to S, which satisfies the same equation and is not canonical.
func malleate(sig string) string {
	raw := rawSignature(sig)
	s := slices.Clone(raw[32:])
	slices.Reverse(s)
	order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	sum := new(big.Int).Add(new(big.Int).SetBytes(s), order).FillBytes(make([]byte, 32))
	slices.Reverse(sum)
	return base64.RawURLEncoding.EncodeToString(append(raw[:32:32], sum...))
}
