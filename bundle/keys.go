package bundle

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
)

// SigningKey is an Ed25519 key a bundle is signed with. An ephemeral key belongs to no host: no discovery document
// publishes it, and a bundle signed with it proves integrity only.
type SigningKey struct {
	ID        string
	Private   ed25519.PrivateKey
	Ephemeral bool
}

// Public is the half that verifies.
func (k SigningKey) Public() ed25519.PublicKey {
	if len(k.Private) != ed25519.PrivateKeySize {
		return nil
	}
	return k.Private.Public().(ed25519.PublicKey)
}

// NewEphemeralKey makes a key for one bundle. Its id is its thumbprint.
func NewEphemeralKey() (SigningKey, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return SigningKey{}, fmt.Errorf("making an ephemeral key: %w", err)
	}
	key := SigningKey{Private: private, Ephemeral: true}
	key.ID = Thumbprint(key.Public())
	return key, nil
}

// maxKeyFile bounds what is read of a key file, in bytes.
const maxKeyFile = 1 << 20

// LoadPrivateKey reads an Ed25519 private key from a file, PEM PKCS#8 or OpenSSH. An empty keyID means the key's
// thumbprint. Errors name the file, what it holds instead, and what to do; they never hold key bytes.
func LoadPrivateKey(path, keyID string) (SigningKey, error) {
	data, err := readKeyFile(path)
	if err != nil {
		return SigningKey{}, err
	}
	private, err := ParsePrivateKey(data)
	if err != nil {
		return SigningKey{}, fmt.Errorf("signing key %s: %w", path, err)
	}
	key := SigningKey{ID: keyID, Private: private}
	if key.ID == "" {
		key.ID = Thumbprint(key.Public())
	}
	if !ValidKeyID(key.ID) {
		return SigningKey{}, fmt.Errorf("key id %q is not 1 to 128 of the characters A-Z a-z 0-9 . _ ~ -", keyID)
	}
	return key, nil
}

func readKeyFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading a key: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading a key: %w", err)
	}
	if len(data) > maxKeyFile {
		return nil, fmt.Errorf("key file %s is longer than %d bytes; a key file holds one key", path, maxKeyFile)
	}
	return data, nil
}

const makeOne = "make one with `wopcert keygen` or `openssl genpkey -algorithm ed25519`"

// ParsePrivateKey reads an Ed25519 private key, PEM PKCS#8 or OpenSSH.
func ParsePrivateKey(data []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, notPEM(data)
	}
	if strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
		return nil, encrypted("openssl pkey -in KEY -out DECRYPTED")
	}
	switch block.Type {
	case "PRIVATE KEY":
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("a PEM PKCS#8 key that cannot be read (%w); %s", err, makeOne)
		}
		return ed25519Key(key)
	case "OPENSSH PRIVATE KEY":
		key, err := ssh.ParseRawPrivateKey(data)
		var missing *ssh.PassphraseMissingError
		if errors.As(err, &missing) {
			return nil, encrypted("ssh-keygen -p -N '' -f COPY")
		}
		if err != nil {
			return nil, fmt.Errorf("an OpenSSH key that cannot be read (%w); %s", err, makeOne)
		}
		return ed25519Key(key)
	case "ENCRYPTED PRIVATE KEY":
		return nil, encrypted("openssl pkcs8 -in KEY -out DECRYPTED")
	case "RSA PRIVATE KEY", "EC PRIVATE KEY", "DSA PRIVATE KEY":
		return nil, wrongType(strings.TrimSuffix(block.Type, " PRIVATE KEY"))
	case "PUBLIC KEY", "CERTIFICATE":
		return nil, fmt.Errorf("it holds a %s, which cannot sign; give the private key", strings.ToLower(block.Type))
	default:
		return nil, fmt.Errorf("it holds a PEM block of type %q, not a private key; %s", block.Type, makeOne)
	}
}

func encrypted(how string) error {
	return fmt.Errorf("the private key is encrypted, and no passphrase is asked for; decrypt a copy with `%s`", how)
}

func wrongType(name string) error {
	return fmt.Errorf("the key is of type %s; bundles are signed with Ed25519 only: %s", name, makeOne)
}

func notPEM(data []byte) error {
	text := bytes.TrimSpace(data)
	switch {
	case len(text) == 0:
		return fmt.Errorf("the file is empty; %s", makeOne)
	case bytes.HasPrefix(text, []byte("ssh-")):
		return errors.New("it holds an OpenSSH public key, which cannot sign; give the private key")
	case bytes.HasPrefix(text, []byte("PuTTY-User-Key-File")):
		return errors.New("it holds a PuTTY key; export it as an OpenSSH key with puttygen")
	case bytes.HasPrefix(text, []byte("{")):
		return fmt.Errorf("it holds JSON, perhaps a JWK; a PEM PKCS#8 or OpenSSH key is read: %s", makeOne)
	case text[0] == 0x30:
		return errors.New("it holds DER; convert it with `openssl pkey -inform DER -in KEY -out KEY.pem`")
	}
	return fmt.Errorf("it is neither PEM nor an OpenSSH key; %s", makeOne)
}

func ed25519Key(key any) (ed25519.PrivateKey, error) {
	var private ed25519.PrivateKey
	switch k := key.(type) {
	case ed25519.PrivateKey:
		private = k
	case *ed25519.PrivateKey:
		private = *k
	default:
		return nil, wrongType(typeName(key))
	}
	if len(private) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("the Ed25519 key has %d bytes instead of %d; %s", len(private), ed25519.PrivateKeySize, makeOne)
	}
	// An OpenSSH file carries the public half beside the seed; signing with a pair that does not match leaks the key.
	derived := ed25519.NewKeyFromSeed(private.Seed())
	if !derived.Equal(private) {
		return nil, errors.New("the public half in the file does not belong to the private half; the file is damaged")
	}
	return derived, nil
}

// typeName names the type of a key, private or public, in the words people use.
func typeName(key any) string {
	switch key.(type) {
	case *rsa.PrivateKey, *rsa.PublicKey:
		return "RSA"
	case *ecdsa.PrivateKey, *ecdsa.PublicKey:
		return "ECDSA"
	case *ecdh.PrivateKey, *ecdh.PublicKey:
		return "X25519"
	default:
		return fmt.Sprintf("another algorithm (%T)", key)
	}
}
