package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

func TestReceiverFlags(t *testing.T) {
	t.Parallel()
	const host, listen, url = "--host=http://127.0.0.1:1", "--receiver-listen=127.0.0.1:0", "--receiver-url=https://ci.example:8443"
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"a receiver of the bundled host", []string{"--reference-host", listen, url}, "has a receiver of its own"},
		{"an address to listen at alone", []string{host, listen}, "needs --receiver-listen and --receiver-url"},
		{"an address to call alone", []string{host, url}, "needs --receiver-listen and --receiver-url"},
		{"trust in nothing", []string{host, "--receiver-trusted"}, "needs --receiver-listen and --receiver-url"},
		{"a certificate without its key", []string{host, listen, url, "--receiver-cert=x.pem"}, "go together"},
		{"a key without its certificate", []string{host, listen, url, "--receiver-key=x.pem"}, "go together"},
		{"files that are not there", []string{host, listen, url, "--receiver-cert=no.pem", "--receiver-key=no.pem"}, "cannot be used"},
		{"an address that is not https", []string{host, listen, "--receiver-url=http://ci.example"}, "no https address"},
		{"an address with a query", []string{host, listen, "--receiver-url=https://ci.example/?a"}, "no https address"},
		{"an address to listen at that is none", []string{host, "--receiver-listen=nowhere", url}, "receiver"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "ev")
			r := command(t, append([]string{"certify", "--out=" + out}, c.args...)...)
			assert.Equal(t, exitUsage, r.code, r.err)
			assert.Contains(t, r.err, c.want)
			assert.NoDirExists(t, out)
		})
	}
}

// TestCertifyWithReceiver certifies a host that is not the bundled one, as far
// as the command knows: it reaches the receiver where its operator lets it.
func TestCertifyWithReceiver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		trust bool
		code  int
		want  string
	}{
		{"a host that accepts the receiver", true, exitYes, "PASSED"},
		{"a host that refuses its address", false, exitUnknown, "the host refuses the receiver's address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			root, cert, key := certificate(t)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			addr := l.Addr().String()
			require.NoError(t, l.Close())
			server, keys := startHost(t, func(config *referencehost.Config) {
				if c.trust {
					config.Egress.Trusted = append(config.Egress.Trusted, "https://"+addr)
					config.Egress.ExtraRoots = append(config.Egress.ExtraRoots, root)
				}
			})
			name := "WOPCERT_TEST_RECEIVER_KEY_" + c.want[:3]
			require.NoError(t, os.Setenv(name, keys[referencehost.KeyTenantA]))
			t.Cleanup(func() { _ = os.Unsetenv(name) })
			r := command(t, "certify", "--host="+server.URL(), "--api-key-env="+name, "--scenario=v2-webhook-delivery-shape", "--out="+filepath.Join(t.TempDir(), "ev"),
				"--receiver-listen="+addr, "--receiver-url=https://"+addr, "--receiver-cert="+cert, "--receiver-key="+key)
			assert.Equal(t, c.code, r.code, "%s%s", r.out, r.err)
			assert.Contains(t, r.out, c.want)
		})
	}
}

// certificate writes a certificate of its own root for the loopback address.
func certificate(t *testing.T) (root *x509.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames: []string{"receiver.wopcert.example"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	root, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	certFile, keyFile = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	return root, certFile, keyFile
}
