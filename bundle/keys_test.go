package bundle

import (
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
)

func pkcs8(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func openSSH(t *testing.T, key crypto.PrivateKey, passphrase string) []byte {
	t.Helper()
	var block *pem.Block
	var err error
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(key, "test")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "test", []byte(passphrase))
	}
	require.NoError(t, err)
	return pem.EncodeToMemory(block)
}

func TestParsePrivateKey(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	for name, data := range map[string][]byte{
		"PKCS#8": pkcs8(t, private), "OpenSSH": openSSH(t, private, ""),
		"text before": append([]byte("comment\n"), pkcs8(t, private)...),
	} {
		key, err := ParsePrivateKey(data)
		require.NoError(t, err, name)
		assert.True(t, private.Equal(key), name)
		assert.True(t, public.Equal(key.Public()), name)
	}
}

func TestParsePrivateKeyRefuses(t *testing.T) {
	t.Parallel()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	xKey, err := ecdh.X25519().GenerateKey(rand.Reader)
	require.NoError(t, err)
	ecDER, err := x509.MarshalECPrivateKey(ecKey)
	require.NoError(t, err)
	spki, err := x509.MarshalPKIXPublicKey(private.Public())
	require.NoError(t, err)
	sshPublic, err := ssh.NewPublicKey(private.Public())
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	block := func(typ string, data []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: data})
	}
	for name, c := range map[string]struct {
		data []byte
		want []string
	}{
		"empty":               {nil, []string{"empty", "wopcert keygen"}},
		"text":                {[]byte("hello"), []string{"neither PEM nor an OpenSSH key"}},
		"JWK":                 {[]byte(`{"kty":"OKP"}`), []string{"JWK"}},
		"DER":                 {der, []string{"DER", "openssl pkey"}},
		"PuTTY":               {[]byte("PuTTY-User-Key-File-3: ssh-ed25519"), []string{"puttygen"}},
		"RSA":                 {pkcs8(t, rsaKey), []string{"type RSA", "Ed25519 only"}},
		"ECDSA":               {pkcs8(t, ecKey), []string{"type ECDSA"}},
		"X25519":              {pkcs8(t, xKey), []string{"type X25519"}},
		"OpenSSH RSA":         {openSSH(t, rsaKey, ""), []string{"type RSA"}},
		"OpenSSH ECDSA":       {openSSH(t, ecKey, ""), []string{"type ECDSA"}},
		"SEC 1":               {block("EC PRIVATE KEY", ecDER), []string{"type EC"}},
		"PKCS#1":              {block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey)), []string{"type RSA"}},
		"encrypted OpenSSH":   {openSSH(t, private, "secret"), []string{"encrypted", "ssh-keygen -p"}},
		"encrypted PKCS#8":    {block("ENCRYPTED PRIVATE KEY", []byte{1}), []string{"encrypted", "openssl pkcs8"}},
		"encrypted PEM":       {[]byte("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"), []string{"encrypted"}},
		"public PEM":          {block("PUBLIC KEY", spki), []string{"public key", "give the private key"}},
		"public OpenSSH":      {ssh.MarshalAuthorizedKey(sshPublic), []string{"public key", "give the private key"}},
		"other block":         {block("X509 CRL", []byte{1}), []string{`"X509 CRL"`}},
		"damaged PKCS#8":      {block("PRIVATE KEY", der[:20]), []string{"cannot be read"}},
		"damaged OpenSSH":     {block("OPENSSH PRIVATE KEY", []byte("openssh-key-v1\x00")), []string{"cannot be read"}},
		"halves do not match": {openSSH(t, ed25519.PrivateKey(append(slices.Clone(private[:32]), make([]byte, 32)...)), ""), []string{"public half"}},
	} {
		key, err := ParsePrivateKey(c.data)
		assert.Nil(t, key, name)
		if assert.Error(t, err, name) {
			for _, want := range c.want {
				assert.Contains(t, err.Error(), want, name)
			}
			assert.NotContains(t, err.Error(), base64.StdEncoding.EncodeToString(private.Seed()), name)
		}
	}
}

func TestParsePublicKey(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	spki, err := x509.MarshalPKIXPublicKey(public)
	require.NoError(t, err)
	sshPublic, err := ssh.NewPublicKey(public)
	require.NoError(t, err)
	for name, data := range map[string][]byte{
		"SPKI":    pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki}),
		"OpenSSH": ssh.MarshalAuthorizedKey(sshPublic), "base64url": []byte(" " + EncodePublicKey(public) + "\n"),
	} {
		key, err := ParsePublicKey(data)
		require.NoError(t, err, name)
		assert.True(t, public.Equal(key), name)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	ecSPKI, err := x509.MarshalPKIXPublicKey(ecKey.Public())
	require.NoError(t, err)
	ecSSH, err := ssh.NewPublicKey(ecKey.Public())
	require.NoError(t, err)
	for name, data := range map[string][]byte{
		"empty": nil, "private": pkcs8(t, private), "ECDSA": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: ecSPKI}),
		"OpenSSH ECDSA": ssh.MarshalAuthorizedKey(ecSSH), "padded": []byte(base64.URLEncoding.EncodeToString(public)),
		"standard base64": []byte("////////////////////////////////////////+/8"), "31 bytes": []byte(EncodePublicKey(public[:31])),
		"33 bytes": []byte(EncodePublicKey(append(slices.Clone(public), 0))), "damaged OpenSSH": []byte("ssh-ed25519 AAAA"),
	} {
		_, err := ParsePublicKey(data)
		assert.Error(t, err, name)
	}
}

// The identity key verifies one signature for every message; that is what refusing small orders is about.
func TestSmallOrderKeysAreRefused(t *testing.T) {
	t.Parallel()
	identity := make(ed25519.PublicKey, 32)
	identity[0] = 1
	forged := make([]byte, 64)
	forged[0] = 1
	require.True(t, ed25519.Verify(identity, []byte("anything"), forged), "the library accepts it, so we have to refuse it")
	require.Error(t, checkPublicKey(identity))

	// Each listed y belongs to a point of which eight times is the identity, and the eight such points have no other y.
	ys := map[string]bool{}
	for _, text := range smallOrder() {
		raw, err := hex.DecodeString(text)
		require.NoError(t, err)
		assert.True(t, eightTimesIsIdentity(raw), text)
		ys[text] = true
		for _, sign := range []byte{0, 0x80} {
			key := ed25519.PublicKey(slices.Clone(raw))
			key[31] |= sign
			assert.Error(t, checkPublicKey(key), text)
		}
	}
	assert.Len(t, ys, 5)
	for _, text := range []string{"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"} {
		raw, _ := hex.DecodeString(text)
		assert.ErrorContains(t, checkPublicKey(raw), "not canonically encoded", text)
	}
	for range 50 {
		public, _, err := ed25519.GenerateKey(rand.Reader)
		require.NoError(t, err)
		assert.NoError(t, checkPublicKey(public))
	}
}

// eightTimesIsIdentity doubles the point three times with the affine law of edwards25519, over big integers.
func eightTimesIsIdentity(raw []byte) bool {
	p := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	mod := func(v *big.Int) *big.Int { return v.Mod(v, p) }
	inverse := func(v *big.Int) *big.Int { return new(big.Int).ModInverse(v, p) }
	mul := func(a, b *big.Int) *big.Int { return mod(new(big.Int).Mul(a, b)) }
	d := mul(new(big.Int).Neg(big.NewInt(121665)), inverse(big.NewInt(121666)))
	reversed := slices.Clone(raw)
	slices.Reverse(reversed)
	y := new(big.Int).SetBytes(reversed)
	one := big.NewInt(1)
	yy := mul(y, y)
	xx := mul(mod(new(big.Int).Sub(yy, one)), inverse(mod(new(big.Int).Add(mul(d, yy), one))))
	x := new(big.Int).ModSqrt(xx, p)
	if x == nil {
		return false
	}
	for range 3 {
		product := mul(d, mul(mul(x, x), mul(y, y)))
		nextX := mul(mul(big.NewInt(2), mul(x, y)), inverse(mod(new(big.Int).Add(one, product))))
		nextY := mul(mod(new(big.Int).Add(mul(y, y), mul(x, x))), inverse(mod(new(big.Int).Sub(one, product))))
		x, y = nextX, nextY
	}
	return x.Sign() == 0 && y.Cmp(one) == 0
}

func TestGenerateKeyFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "host.pem")
	made, err := GenerateKeyFile(path)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	loaded, err := LoadPrivateKey(path, "")
	require.NoError(t, err)
	assert.True(t, made.Private.Equal(loaded.Private))
	assert.Equal(t, Thumbprint(made.Public()), loaded.ID)
	assert.True(t, ValidKeyID(loaded.ID))

	before, err := os.ReadFile(path)
	require.NoError(t, err)
	_, err = GenerateKeyFile(path)
	assert.ErrorIs(t, err, fs.ErrExist)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, before, after)

	_, err = GenerateKeyFile(filepath.Join(folder, "missing", "host.pem"))
	assert.Error(t, err)
	link := filepath.Join(folder, "dangling")
	require.NoError(t, os.Symlink(filepath.Join(folder, "elsewhere"), link))
	_, err = GenerateKeyFile(link)
	assert.ErrorIs(t, err, fs.ErrExist)
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Len(t, entries, 2, "nothing half-written is left")
}

func TestCreateExclusive(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, createExclusive(path, []byte("a")))
	assert.ErrorIs(t, createExclusive(path, []byte("b")), fs.ErrExist)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "a", string(data))
}

func TestLoadPrivateKeyNamesTheFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	_, err := LoadPrivateKey(filepath.Join(folder, "none"), "")
	assert.ErrorIs(t, err, fs.ErrNotExist)
	path := filepath.Join(folder, "text")
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	_, err = LoadPrivateKey(path, "")
	assert.ErrorContains(t, err, path)
	require.NoError(t, os.WriteFile(path, make([]byte, maxKeyFile+1), 0o600))
	_, err = LoadPublicKey(path)
	assert.ErrorContains(t, err, "longer than")
	good := filepath.Join(folder, "good")
	_, err = GenerateKeyFile(good)
	require.NoError(t, err)
	_, err = LoadPrivateKey(good, "bad id")
	assert.ErrorContains(t, err, `"bad id"`)
}

func TestKeyIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a", "v2-reference-4", "A.b_c~d-9", strings.Repeat("x", 128)} {
		assert.True(t, ValidKeyID(id), id)
	}
	for _, id := range []string{"", "a b", "é", "a/b", "a\n", strings.Repeat("x", 129)} {
		assert.False(t, ValidKeyID(id), id)
	}
	// The example of RFC 8037 appendix A.3.
	key, err := ParsePublicKey([]byte("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"))
	require.NoError(t, err)
	assert.Equal(t, "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k", Thumbprint(key))
	assert.Empty(t, Thumbprint(nil))
}

func TestSignRefuses(t *testing.T) {
	t.Parallel()
	key, err := NewEphemeralKey()
	require.NoError(t, err)
	full := Bundle{WitnessSHA256: "w", Suite: Suite{Version: "1"}, Host: Host{Build: HostBuild{Kind: "commit", ID: "c"}}, Discovery: Discovery{SHA256: "d"}}
	assert.Error(t, Sign(&Bundle{}, key))
	for name, bad := range map[string]SigningKey{"no key": {ID: "a"}, "short key": {ID: "a", Private: make([]byte, 10)}, "bad id": {ID: "a b", Private: key.Private}} {
		b := full
		assert.Error(t, Sign(&b, bad), name)
		assert.Nil(t, b.Signature, name)
	}
	b := full
	assert.Error(t, Countersign(&b, key), "not signed yet")
	require.NoError(t, Sign(&b, key))
	assert.Empty(t, b.Host.SigningKeyID, "an ephemeral key is not the host's")
	assert.Error(t, Countersign(&b, key), "the same key")
	bad := full
	bad.Host.Build.ID = "a\xff"
	assert.Error(t, Sign(&bad, key), "not UTF-8")
	assert.False(t, verifySignature(&b, "short", key.Public()))
	assert.False(t, verifySignature(&b, b.Signature.Sig, nil))
	assert.True(t, verifySignature(&b, b.Signature.Sig, key.Public()))
}
