package harness

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDiscoveryErrors(t *testing.T) {
	t.Parallel()
	answer := func(status int, body string, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i+1 < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"404", answer(404, ""), "status 404"},
		{"500", answer(500, "{}"), "status 500"},
		{"a redirect", answer(302, "", "Location", "https://elsewhere.invalid/"), "redirects to https://elsewhere.invalid/"},
		{"a redirect loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, 307) }, "redirects to"},
		{"HTML", answer(200, "<html></html>", "Content-Type", "text/html; charset=utf-8"), "not JSON"},
		{"nothing", answer(200, ""), "not JSON"},
		{"a duplicate member", answer(200, `{"protocolVersions":["2.0"],"protocolVersions":["2.0"]}`), "not I-JSON"},
		{"bytes that are not UTF-8", answer(200, "{\"a\":\"\xff\"}"), "I-JSON"},
		{"an array", answer(200, `["2.0"]`), "not a JSON object"},
		{"no versions", answer(200, `{}`), "no version it names"},
		{"major 1 alone", answer(200, `{"protocolVersions":["1.4","1.3"]}`), "it speaks 1.4, 1.3"},
		{"a version 1 document", answer(200, `{"protocolVersion":"1.2"}`), "it speaks 1.2"},
		{"major 20", answer(200, `{"protocolVersions":["20.0"]}`), "it speaks 20.0"},
		{"406", answer(406, `{"error":"protocol_version_unsupported","message":"m","details":{"protocolVersions":["1.1"]}}`), "it speaks 1.1"},
		{"too much", func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write([]byte(strings.Repeat(" ", 1<<16))); err != nil {
					return
				}
			}
		}, "larger than"},
		{"a hang-up", func(w http.ResponseWriter, _ *http.Request) {
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				_ = conn.Close()
			}
		}, "EOF"},
		{"a credential in it", answer(200, `{"protocolVersions":["2.0"],"preferredVersion":"2.0","note":"p-key-1"}`), "holds a credential"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			host := httptest.NewServer(c.handler)
			t.Cleanup(func() { host.CloseClientConnections(); host.Close() })
			results, err := Run(context.Background(), Options{BaseURL: host.URL, Corpus: loaded(t), Credentials: Credentials{Primary: "p-key-1"}})
			var d *DiscoveryError
			require.ErrorAs(t, err, &d)
			assert.Nil(t, results)
			assert.Contains(t, err.Error(), c.want)
			assert.Contains(t, err.Error(), host.URL+WellKnown)
			assert.NotContains(t, err.Error(), "p-key-1")
		})
	}
}

func TestDiscoveryNobodyListens(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	_, err = Run(context.Background(), Options{BaseURL: "http://" + address, Corpus: loaded(t)})
	var d *DiscoveryError
	require.ErrorAs(t, err, &d)
	assert.Contains(t, err.Error(), "nothing listens there")
}

func TestDiscoveryCertificate(t *testing.T) {
	t.Parallel()
	host := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(document(nil))
	}))
	host.Config.ErrorLog = quiet()
	host.StartTLS()
	t.Cleanup(host.Close)
	_, err := Run(context.Background(), Options{BaseURL: host.URL, Corpus: loaded(t)})
	var d *DiscoveryError
	require.ErrorAs(t, err, &d)
	assert.Contains(t, err.Error(), "trust roots")
	_, err = Run(context.Background(), Options{BaseURL: host.URL, Corpus: loaded(t), TLS: host.Client().Transport.(*http.Transport).TLSClientConfig})
	assert.NoError(t, err)
}

// A host that accepts and says nothing: the run ends with its context.
func TestDiscoverySilence(t *testing.T) {
	t.Parallel()
	host := httptest.NewServer(http.HandlerFunc(silence))
	t.Cleanup(func() { host.CloseClientConnections(); host.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err := Run(ctx, Options{BaseURL: host.URL, Corpus: loaded(t)})
	var d *DiscoveryError
	require.ErrorAs(t, err, &d)
}

func TestDiscoveryReading(t *testing.T) {
	t.Parallel()
	host := newHost(t, map[string]any{
		"protocolVersions": []string{"1.4", "2.0", "2.1"}, "preferredVersion": "1.4", "fixtures": []any{"a", 1, "b"},
		"replay": map[string]any{"status": "stable", "modes": []string{"replay"}, "deep": map[string]any{"er": true}}, "feedback": true,
	}, nil)
	r := measure(t, Options{BaseURL: host.URL, Scenarios: []Scenario{oneTest(func(tt *T) { tt.Expect(idA, That(true, "", "")) })}})
	d := r.Host.Discovery
	assert.Equal(t, []string{"1.4", "2.0", "2.1"}, d.Versions())
	assert.Equal(t, "1.4", d.Preferred())
	assert.True(t, d.ListsMajor("1"))
	assert.True(t, d.ListsMajor("2"))
	assert.False(t, d.ListsMajor("3"))
	assert.Equal(t, []string{"a", "b"}, d.Fixtures())
	assert.True(t, d.Advertises("replay"))
	assert.False(t, d.Advertises("feedback"), "a claim is a record")
	assert.False(t, d.Advertises("webhooks"))
	_, ok := d.Facet("replay", "deep", "er")
	assert.True(t, ok)
	_, ok = d.Facet("replay", "deep", "est")
	assert.False(t, ok)
	_, ok = d.Facet("feedback", "x")
	assert.False(t, ok)
	assert.Contains(t, string(d.Raw), `"preferredVersion":"1.4"`)
}
