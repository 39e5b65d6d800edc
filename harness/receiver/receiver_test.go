package receiver

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func start(t *testing.T, c Config) *Server {
	t.Helper()
	s, err := Start(c)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// client trusts the receiver's root and nothing else, and follows no redirect.
func client(t *testing.T, s *Server) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	if s.CA() != nil {
		roots.AddCert(s.CA())
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 10 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func open(t *testing.T, s *Server, script Script) *Endpoint {
	t.Helper()
	e, err := s.Endpoint(script)
	require.NoError(t, err)
	return e
}

func post(t *testing.T, c *http.Client, url, body string) (*http.Response, error) {
	t.Helper()
	res, err := c.Post(url, "text/plain", strings.NewReader(body))
	if err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	return res, err
}

func TestAttemptsAreRecordedAsTheyCame(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	e, other := open(t, s, nil), open(t, s, nil)
	require.True(t, strings.HasPrefix(e.URL(), s.Origin()+"/"))
	assert.NotEqual(t, e.URL(), other.URL())
	body := "\x00\xff {\"a\": 1}\n"
	req, err := http.NewRequest(http.MethodPut, e.URL()+"/below?x=1&y", strings.NewReader(body))
	require.NoError(t, err)
	req.Header["X-Twice"] = []string{"1", "2"}
	res, err := client(t, s).Do(req)
	require.NoError(t, err)
	res.Body.Close()
	assert.Equal(t, http.StatusNoContent, res.StatusCode)
	all, ok := e.Wait(t.Context(), 1)
	require.True(t, ok)
	a := all[0]
	assert.Equal(t, []any{1, http.MethodPut, "/below", "x=1&y", body, []string{"1", "2"}, false, false},
		[]any{a.Number, a.Method, a.Path, a.Query, string(a.Body), a.Header["X-Twice"], a.Truncated, a.Broken})
	assert.Empty(t, other.Attempts())
	assert.Zero(t, s.Strays())
}

func TestScripts(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	c := client(t, s)
	e := open(t, s, Sequence(Answer{Status: 500}, Answer{HangUp: true}, JSON([]byte(`{"ok":true}`))))
	res, err := post(t, c, e.URL(), "1")
	require.NoError(t, err)
	assert.Equal(t, 500, res.StatusCode)
	_, err = post(t, c, e.URL(), "2")
	assert.Error(t, err, "the connection is closed without an answer")
	for range 2 {
		res, err = post(t, c, e.URL(), "3")
		require.NoError(t, err)
		assert.Equal(t, []any{200, "application/json"}, []any{res.StatusCode, res.Header.Get("Content-Type")})
	}
	e.Script(Redirect(307, "https://elsewhere.example/"))
	res, err = post(t, c, e.URL(), "4")
	require.NoError(t, err)
	assert.Equal(t, []any{307, "https://elsewhere.example/"}, []any{res.StatusCode, res.Header.Get("Location")})
	e.Script(Always(204))
	res, err = post(t, c, e.URL(), "5")
	require.NoError(t, err)
	assert.Equal(t, 204, res.StatusCode)
	// A client may have sent the request that was hung up on once more.
	assert.GreaterOrEqual(t, e.Count(), 6)
}

func TestDelayEndsWithTheEndpoint(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	e := open(t, s, func(Attempt) Answer { return Answer{Delay: MaxDelay} })
	ended := make(chan error, 1)
	c := client(t, s)
	go func() {
		res, err := c.Get(e.URL())
		if err == nil {
			res.Body.Close()
		}
		ended <- err
	}()
	_, ok := e.Wait(t.Context(), 1)
	require.True(t, ok, "an attempt is recorded before it is answered")
	e.Close()
	e.Close()
	assert.Error(t, <-ended)
	res, err := post(t, c, e.URL(), "")
	require.NoError(t, err)
	assert.Equal(t, http.StatusNotFound, res.StatusCode)
	assert.Equal(t, 1, s.Strays())
	_, ok = e.Wait(t.Context(), 99)
	assert.False(t, ok, "waiting for a closed endpoint ends")
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	e := open(t, start(t, Config{}), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, ok := e.Wait(ctx, 1)
	assert.False(t, ok)
}

func TestBounds(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	c := client(t, s)
	e := open(t, s, nil)
	res, err := c.Post(e.URL(), "text/plain", bytes.NewReader(make([]byte, MaxBody+1)))
	require.NoError(t, err)
	res.Body.Close()
	a := e.Attempts()[0]
	assert.True(t, a.Truncated)
	assert.Len(t, a.Body, MaxBody)
	e.Close()
	assert.Zero(t, s.kept.Load(), "what an endpoint held is let go with it")
	full := &Server{base: s.base, endpoints: make(map[string]*Endpoint, MaxEndpoints)}
	for range MaxEndpoints {
		open(t, full, nil)
	}
	_, err = full.Endpoint(nil)
	assert.ErrorIs(t, err, ErrTooMany)
}

func TestManyCallers(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	c := client(t, s)
	e := open(t, s, nil)
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			res, err := c.Get(e.URL())
			if assert.NoError(t, err) {
				res.Body.Close()
			}
		})
	}
	all, ok := e.Wait(t.Context(), 20)
	callers.Wait()
	require.True(t, ok)
	for i, a := range all {
		assert.Equal(t, i+1, a.Number)
	}
}

func TestUntrustedCertificateIsCounted(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	_, err := (&http.Client{Transport: transport}).Get(s.Origin())
	require.Error(t, err)
	assert.Eventually(t, func() bool { return s.HandshakeFailures() == 1 }, 5*time.Second, 5*time.Millisecond)
}

func TestBehindSomethingThatEndsTLS(t *testing.T) {
	t.Parallel()
	s := start(t, Config{URL: "https://front.example:8443/deliveries/"})
	assert.Nil(t, s.CA())
	assert.Equal(t, "https://front.example:8443", s.Origin())
	e := open(t, s, nil)
	require.True(t, strings.HasPrefix(e.URL(), "https://front.example:8443/deliveries/"))
	path := strings.TrimPrefix(e.URL(), "https://front.example:8443")
	for _, p := range []string{path, strings.TrimPrefix(path, "/deliveries"), path + "/x/y"} {
		res, err := post(t, http.DefaultClient, "http://"+s.listener.Addr().String()+p, "b")
		require.NoError(t, err)
		assert.Equal(t, http.StatusNoContent, res.StatusCode, p)
	}
	assert.Equal(t, "/x/y", e.Attempts()[2].Path)
}

func TestOwnCertificateForAName(t *testing.T) {
	t.Parallel()
	s := start(t, Config{URL: "https://receiver.example", SelfMade: true})
	c := client(t, s)
	c.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, s.Addr())
	}
	e := open(t, s, nil)
	res, err := post(t, c, e.URL(), "")
	require.NoError(t, err)
	assert.Equal(t, http.StatusNoContent, res.StatusCode)
	assert.Equal(t, "receiver.example", e.Attempts()[0].Host)
}

func TestRefusedConfigurations(t *testing.T) {
	t.Parallel()
	for _, c := range []Config{{URL: "ftp://x"}, {URL: "https://"}, {URL: "https://u:p@x"}, {URL: "https://x/?q"}, {URL: "https://x/#f"}, {URL: "::"}, {Listen: "no such address"}} {
		s, err := Start(c)
		assert.Nil(t, s, "%v", c)
		assert.ErrorContains(t, err, "receiver", "%v", c)
	}
}
