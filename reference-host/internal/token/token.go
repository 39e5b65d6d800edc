// Package token makes and opens the resume tokens of interrupts: ow2.<alg>.<kid>.<payload>.<mac> (identity.md §4).
// payload is base64url JSON, and mac is base64url of HMAC-SHA-256 over that JSON with the secret that kid selects.
package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// Algorithm is the one algorithm of this host's tokens (interrupt.tokenAlgs).
	Algorithm = "hs256"
	// LegacyKeyID selects the secret of tokens a v1 host has given out; those have no prefix and name no key.
	LegacyKeyID = "legacy"
	// MinSecretBytes is the shortest secret that is as strong as the MAC.
	MinSecretBytes = 32

	prefix      = "ow2."
	maxLength   = 4096
	maxKeyIDLen = 128
)

// The intents of a token (interrupt.md §Tokens). A token to resolve with serves to inspect as well.
const (
	Resolve = "resolve"
	Inspect = "inspect"
)

// ErrInvalid is the refusal of a token: it is none, its algorithm or key is not accepted, or its MAC does not match.
// Which of these it was is for the operational log, not for who presents it.
var ErrInvalid = errors.New("the token is not accepted")

// Claims are what a token says.
type Claims struct {
	RunID       string    `json:"runId"`
	NodeID      string    `json:"nodeId"`
	InterruptID string    `json:"interruptId"`
	ExpiresAt   time.Time `json:"expiresAt"`
	Intent      string    `json:"intent"`
}

// Expired reports whether the token is past its time.
func (c *Claims) Expired(now time.Time) bool { return !now.Before(c.ExpiresAt) }

// Secret is one secret a host holds.
type Secret struct {
	KeyID string
	Value []byte
}

// Ring are the secrets of a host. New tokens are made with the first one; those made with any of the others stay good.
type Ring struct{ secrets []Secret }

// NewRing checks the secrets. It fails without any, for a key id outside the grammar or given twice, and for a secret
// that is too short.
func NewRing(secrets []Secret) (*Ring, error) {
	if len(secrets) == 0 {
		return nil, errors.New("token secrets: there must be at least one")
	}
	seen := make(map[string]bool)
	for _, s := range secrets {
		switch {
		case !isKeyID(s.KeyID):
			return nil, fmt.Errorf("token secret %q: a key id is 1 to %d characters from A-Z a-z 0-9 . _ ~ -", s.KeyID, maxKeyIDLen)
		case seen[s.KeyID]:
			return nil, fmt.Errorf("token secret %q: there are two of the same key id", s.KeyID)
		case len(s.Value) < MinSecretBytes:
			return nil, fmt.Errorf("token secret %q: it must be at least %d bytes long", s.KeyID, MinSecretBytes)
		}
		seen[s.KeyID] = true
	}
	if secrets[0].KeyID == LegacyKeyID {
		return nil, fmt.Errorf("token secret %q: it opens the tokens of a v1 host and makes none; put another one first", LegacyKeyID)
	}
	return &Ring{secrets}, nil
}

// Mint makes a token.
func (r *Ring) Mint(claims Claims) string {
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err) // it is text and a time
	}
	secret := r.secrets[0]
	return prefix + Algorithm + "." + secret.KeyID + "." + encode(payload) + "." + encode(mac(secret.Value, payload))
}

// Open checks a token and returns what it says. Whether it has expired is for the caller to look at. The error is
// ErrInvalid.
func (r *Ring) Open(token string) (*Claims, error) {
	keyID, payload, sum, ok := split(token)
	if !ok {
		return nil, ErrInvalid
	}
	secret, held := r.secret(keyID)
	if !held || !hmac.Equal(mac(secret, payload), sum) {
		return nil, ErrInvalid
	}
	claims := new(Claims)
	if err := json.Unmarshal(payload, claims); err != nil || claims.ExpiresAt.IsZero() {
		return nil, ErrInvalid
	}
	return claims, nil
}

func (r *Ring) secret(keyID string) ([]byte, bool) {
	for _, s := range r.secrets {
		if s.KeyID == keyID {
			return s.Value, true
		}
	}
	return nil, false
}

// split takes a token apart. A key id may hold dots; no other part can. What does not begin with the prefix is a token
// of a v1 host, whatever it consists of.
func split(token string) (keyID string, payload, sum []byte, ok bool) {
	if len(token) > maxLength {
		return "", nil, nil, false
	}
	rest, current := strings.CutPrefix(token, prefix)
	rest, encodedSum := cutLast(rest)
	rest, encodedPayload := cutLast(rest)
	keyID = LegacyKeyID
	if current {
		var algorithm string
		algorithm, keyID, _ = strings.Cut(rest, ".")
		if algorithm != Algorithm || !isKeyID(keyID) {
			return "", nil, nil, false
		}
	} else if rest != "" {
		return "", nil, nil, false
	}
	payload, okPayload := decode(encodedPayload)
	sum, okSum := decode(encodedSum)
	return keyID, payload, sum, okPayload && okSum
}

func cutLast(s string) (before, last string) {
	i := strings.LastIndexByte(s, '.')
	return s[:max(i, 0)], s[i+1:]
}

func mac(secret, payload []byte) []byte {
	h := hmac.New(sha256.New, secret)
	_, _ = h.Write(payload) // a hash takes every byte
	return h.Sum(nil)
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// decode takes the one spelling of the bytes and no other, so that a token has no second form.
func decode(text string) ([]byte, bool) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return data, err == nil && len(data) > 0 && len(text) == base64.RawURLEncoding.EncodedLen(len(data)) // no line ends
}

func isKeyID(s string) bool {
	if s == "" || len(s) > maxKeyIDLen {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '~' || c == '-') {
			return false
		}
	}
	return true
}
