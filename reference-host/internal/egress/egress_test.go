package egress_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/reference-host/internal/egress"
	"wopcert/reference-host/internal/engine"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	guarded, local := egress.New(egress.Policy{}), egress.New(egress.Policy{AllowLoopback: true})
	for _, public := range []string{"8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8"} {
		assert.True(t, guarded.Allowed(netip.MustParseAddr(public)), public)
	}
	for _, private := range []string{
		"10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "0.1.2.3", "255.255.255.255", "224.0.0.1",
		"198.18.0.1", "192.0.2.1", "240.0.0.1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00::1", "ff02::1", "::ffff:10.0.0.1",
		"::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001:db8::1", "fec0::1", "2001::1",
	} {
		assert.False(t, guarded.Allowed(netip.MustParseAddr(private)), private)
		assert.False(t, local.Allowed(netip.MustParseAddr(private)), private)
	}
	for _, loopback := range []string{"127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"} {
		assert.False(t, guarded.Allowed(netip.MustParseAddr(loopback)), loopback)
		assert.True(t, local.Allowed(netip.MustParseAddr(loopback)), loopback)
	}
}

func TestURLs(t *testing.T) {
	t.Parallel()
	guarded := egress.New(egress.Policy{})
	require.NoError(t, guarded.CheckURL("https://example.org/x"))
	for _, refused := range []string{
		"", "x", "/x", "http://example.org", "ftp://example.org", "https://", "https://user@example.org", "https://u:p@example.org",
		"https://127.0.0.1", "https://[::1]", "https://10.0.0.1", "https://169.254.169.254/latest", "file:///etc/passwd", "https:example.org",
		"http://localhost", "https://[::ffff:10.0.0.1]", "https://%zz",
	} {
		require.ErrorIs(t, guarded.CheckURL(refused), egress.ErrRefused, refused)
	}
	local := egress.New(egress.Policy{AllowLoopback: true})
	require.NoError(t, local.CheckURL("http://127.0.0.1:8080"))
	require.NoError(t, local.CheckURL("http://localhost:8080"))
	require.ErrorIs(t, local.CheckURL("http://example.org"), egress.ErrRefused)
	require.ErrorIs(t, local.CheckURL("http://localhost.example.org"), egress.ErrRefused)
}

func TestANameThatResolvesToLoopbackIsRefusedAtTheDial(t *testing.T) {
	t.Parallel()
	_, err := egress.New(egress.Policy{}).Send(t.Context(), engine.Effect{Method: "GET", URL: "https://localhost:1/"})
	require.ErrorIs(t, err, egress.ErrRefused)
}

func TestSend(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		case "/large":
			_, _ = io.WriteString(w, strings.Repeat("x", 2000))
		case "/slow":
			<-release
		default:
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("X-Method", r.Method)
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write(append(body, r.Header.Get("X-Mine")...))
		}
	}))
	defer server.Close()
	defer close(release)
	sender := egress.New(egress.Policy{AllowLoopback: true, MaxResponseBytes: 1000, Timeout: 5 * time.Second})
	outcome, err := sender.Send(t.Context(), engine.Effect{Method: "PUT", URL: server.URL, Header: http.Header{"x-mine": {"!"}}, Body: []byte("hi")})
	require.NoError(t, err)
	assert.Equal(t, "hi!", string(outcome.Body))
	assert.Equal(t, http.StatusAccepted, outcome.Status)
	assert.Equal(t, "PUT", outcome.Header.Get("X-Method"))

	outcome, err = sender.Send(t.Context(), engine.Effect{Method: "GET", URL: server.URL + "/redirect"})
	require.NoError(t, err)
	assert.Equal(t, http.StatusFound, outcome.Status, "a redirect is an answer, not followed")
	_, err = sender.Send(t.Context(), engine.Effect{Method: "GET", URL: server.URL + "/large"})
	require.ErrorContains(t, err, "larger than")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = sender.Send(ctx, engine.Effect{Method: "GET", URL: server.URL + "/slow"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = sender.Send(t.Context(), engine.Effect{Method: "B AD", URL: server.URL})
	require.Error(t, err)
}
