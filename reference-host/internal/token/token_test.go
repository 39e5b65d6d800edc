package token

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func secret(keyID string, fill byte) Secret {
	return Secret{KeyID: keyID, Value: []byte(strings.Repeat(string(fill), MinSecretBytes))}
}

func claims() Claims {
	return Claims{
		RunID: "tenant-a/run-0123456789abcdef", NodeID: "gate", InterruptID: "tenant-a/interrupt-0123456789",
		ExpiresAt: time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC), Intent: Resolve,
	}
}

func ring(t *testing.T, secrets ...Secret) *Ring {
	t.Helper()
	r, err := NewRing(secrets)
	require.NoError(t, err)
	return r
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, keyID := range []string{"k1", "with.dots.in.it", "~tilde_-", strings.Repeat("k", 128)} {
		r := ring(t, secret(keyID, 'a'))
		made := r.Mint(claims())
		assert.Regexp(t, `^ow2\.hs256\..+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$`, made)
		opened, err := r.Open(made)
		require.NoError(t, err, keyID)
		assert.Equal(t, claims(), *opened)
		assert.False(t, opened.Expired(claims().ExpiresAt.Add(-time.Millisecond)))
		assert.True(t, opened.Expired(claims().ExpiresAt))
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	before := ring(t, secret("old", 'a')).Mint(claims())
	r := ring(t, secret("new", 'b'), secret("old", 'a'))
	_, err := r.Open(before)
	require.NoError(t, err, "a secret that is still held opens what it has made")
	assert.Contains(t, r.Mint(claims()), "ow2.hs256.new.")
	_, err = ring(t, secret("new", 'b')).Open(before)
	require.ErrorIs(t, err, ErrInvalid, "one that is not held any more opens nothing")
}

func TestRefused(t *testing.T) {
	t.Parallel()
	r := ring(t, secret("k1", 'a'), secret("k2", 'b'))
	good := r.Mint(claims())
	parts := strings.Split(good, ".")
	other := ring(t, secret("k1", 'z')).Mint(claims())
	spelled := func(changed ...string) string { return strings.Join(changed, ".") }
	changed := claims()
	changed.RunID = "tenant-b/run-0123456789abcdef"
	foreign := strings.Split(r.Mint(changed), ".")
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{}`))
	for name, text := range map[string]string{
		"empty": "", "prefix only": "ow2.", "dots": "....", "no segments": "ow2.hs256",
		"another algorithm":         spelled("ow2", "none", "k1", parts[3], parts[4]),
		"algorithm in another case": spelled("ow2", "HS256", "k1", parts[3], parts[4]),
		"unheld key":                spelled("ow2", "hs256", "k3", parts[3], parts[4]),
		"another held key":          spelled("ow2", "hs256", "k2", parts[3], parts[4]),
		"no key":                    spelled("ow2", "hs256", "", parts[3], parts[4]),
		"key outside the grammar":   spelled("ow2", "hs256", "k 1", parts[3], parts[4]),
		"re-signed":                 other,
		"payload of another token":  spelled("ow2", "hs256", "k1", foreign[3], parts[4]),
		"payload that says nothing": spelled("ow2", "hs256", "k1", unsigned, parts[4]),
		"no payload":                spelled("ow2", "hs256", "k1", "", parts[4]),
		"no mac":                    spelled("ow2", "hs256", "k1", parts[3], ""),
		"mac cut short":             good[:len(good)-4],
		"last character gone":       good[:len(good)-1],
		"more behind":               good + "A",
		"padded":                    good + "=",
		"a newline":                 good + "\n",
		"another prefix":            "ow1" + good[3:],
		"no prefix":                 good[4:],
		"two segments":              spelled(parts[3], parts[4]),
		"three segments":            spelled("x", parts[3], parts[4]),
		"huge":                      "ow2.hs256.k1." + strings.Repeat("A", 5000) + ".AAAA",
	} {
		_, err := r.Open(text)
		assert.ErrorIs(t, err, ErrInvalid, name)
	}
}

func TestATokenHasOneSpelling(t *testing.T) {
	t.Parallel()
	r := ring(t, secret("k1", 'a'))
	good := r.Mint(claims())
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	opened := 0
	for _, last := range alphabet {
		if _, err := r.Open(good[:len(good)-1] + string(last)); err == nil {
			opened++
		}
	}
	assert.Equal(t, 1, opened)
}

func TestTokensOfAV1Host(t *testing.T) {
	t.Parallel()
	legacy := Secret{KeyID: LegacyKeyID, Value: secret("x", 'l').Value}
	made := strings.Split(ring(t, Secret{KeyID: "x", Value: legacy.Value}).Mint(claims()), ".")
	old := made[3] + "." + made[4]
	opened, err := ring(t, secret("k1", 'a'), legacy).Open(old)
	require.NoError(t, err)
	assert.Equal(t, claims(), *opened)
	_, err = ring(t, secret("k1", 'a')).Open(old)
	require.ErrorIs(t, err, ErrInvalid, "a host without the secret gave out none")
}

func TestRefusedSecrets(t *testing.T) {
	t.Parallel()
	short := secret("k1", 'a')
	short.Value = short.Value[1:]
	for name, secrets := range map[string][]Secret{
		"none": nil, "too short": {short}, "twice": {secret("k1", 'a'), secret("k1", 'b')}, "no id": {secret("", 'a')},
		"outside the grammar": {secret("a b", 'a')}, "only the v1 one": {secret(LegacyKeyID, 'a')},
	} {
		_, err := NewRing(secrets)
		assert.Error(t, err, name)
	}
}

func FuzzOpen(f *testing.F) {
	r, err := NewRing([]Secret{secret("k1", 'a')})
	require.NoError(f, err)
	good := r.Mint(claims())
	f.Add(good)
	f.Add("ow2.hs256.k1..")
	f.Add("a.b")
	f.Fuzz(func(t *testing.T, text string) {
		if opened, err := r.Open(text); err == nil {
			require.Equal(t, good, r.Mint(*opened), "only what the host has made opens")
			require.Equal(t, good, text)
		}
	})
}
