package bundle

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/crypto/ssh"
)

// ValidKeyID reports whether a bundle and a discovery document can carry the key id.
func ValidKeyID(id string) bool {
	if len(id) < 1 || len(id) > 128 {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '.', c == '_', c == '~', c == '-':
		default:
			return false
		}
	}
	return true
}

// Thumbprint is the RFC 7638 thumbprint of the key as RFC 8037 writes it: 43 characters that depend on the key alone
// and are a valid key id. It is "" for a key that is not 32 bytes.
func Thumbprint(key ed25519.PublicKey) string {
	if len(key) != ed25519.PublicKeySize {
		return ""
	}
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + EncodePublicKey(key) + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// EncodePublicKey is the form a discovery document publishes: base64url, unpadded.
func EncodePublicKey(key ed25519.PublicKey) string {
	return base64.RawURLEncoding.EncodeToString(key)
}

// LoadPublicKey reads an Ed25519 public key from a file.
func LoadPublicKey(path string) (ed25519.PublicKey, error) {
	data, err := readKeyFile(path)
	if err != nil {
		return nil, err
	}
	key, err := ParsePublicKey(data)
	if err != nil {
		return nil, fmt.Errorf("public key %s: %w", path, err)
	}
	return key, nil
}

// ParsePublicKey reads an Ed25519 public key: PEM SubjectPublicKeyInfo, an OpenSSH line, or the 32 bytes in base64url
// as signingKeys[].publicKey has them. A key of small order is refused: signatures under it prove nothing.
func ParsePublicKey(data []byte) (ed25519.PublicKey, error) {
	text := bytes.TrimSpace(data)
	if block, _ := pem.Decode(text); block != nil {
		return parsePublicPEM(block)
	}
	if bytes.HasPrefix(text, []byte("ssh-")) || bytes.HasPrefix(text, []byte("ecdsa-")) {
		return parseOpenSSH(text)
	}
	key, err := decodePublicKey(string(text))
	if err != nil {
		return nil, fmt.Errorf("neither PEM nor an OpenSSH public key, and as base64url: %w", err)
	}
	return key, nil
}

func parsePublicPEM(block *pem.Block) (ed25519.PublicKey, error) {
	if block.Type != "PUBLIC KEY" {
		return nil, fmt.Errorf("it holds a PEM block of type %q; give the public half, `openssl pkey -in KEY -pubout`", block.Type)
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("a PEM public key that cannot be read: %w", err)
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("the key is of type %s; bundles are signed with Ed25519 only", typeName(parsed))
	}
	return key, checkPublicKey(key)
}

func parseOpenSSH(line []byte) (ed25519.PublicKey, error) {
	parsed, _, _, _, err := ssh.ParseAuthorizedKey(line)
	if err != nil {
		return nil, fmt.Errorf("an OpenSSH public key that cannot be read: %w", err)
	}
	if holder, ok := parsed.(ssh.CryptoPublicKey); ok {
		if key, ok := holder.CryptoPublicKey().(ed25519.PublicKey); ok {
			return key, checkPublicKey(key)
		}
	}
	return nil, fmt.Errorf("the key is of type %s; bundles are signed with Ed25519 only", parsed.Type())
}

// decodePublicKey reads signingKeys[].publicKey.
func decodePublicKey(text string) (ed25519.PublicKey, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, errors.New("not base64url without padding")
	}
	key := ed25519.PublicKey(raw)
	return key, checkPublicKey(key)
}

// smallOrder are the y coordinates of the points whose order divides eight, in little-endian order, without the sign
// bit. For such a key one signature verifies for many messages, or for every one.
func smallOrder() []string {
	return []string{
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	}
}

// checkPublicKey refuses keys that cannot attribute anything: of another length, not canonically encoded (two texts
// for one key), or of small order.
func checkPublicKey(key ed25519.PublicKey) error {
	if len(key) != ed25519.PublicKeySize {
		return fmt.Errorf("an Ed25519 public key has %d bytes, this one %d", ed25519.PublicKeySize, len(key))
	}
	y := slices.Clone(key)
	y[31] &= 0x7f
	if y[31] == 0x7f && y[0] >= 0xed && bytes.Count(y[1:31], []byte{0xff}) == 30 {
		return errors.New("the public key is not canonically encoded")
	}
	if slices.Contains(smallOrder(), hex.EncodeToString(y)) {
		return errors.New("the public key is a point of small order, under which forged signatures verify")
	}
	return nil
}
