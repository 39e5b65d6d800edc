package harness

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/harness/receiver"
)

func receiving(t *testing.T, c receiver.Config) *receiver.Server {
	t.Helper()
	s, err := receiver.Start(c)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// hookHost is a host that registers webhooks, or refuses to, and calls them
// when a run is made, or does not.
type hookHost struct {
	refuse string         // code to refuse a registration with
	roots  *x509.CertPool // nil for no call at all

	mu  sync.Mutex
	url string
}

func (h *hookHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := func(status int, body string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case r.Method == "POST" && r.URL.Path == "/webhooks" && h.refuse != "":
		answer(400, `{"error":"`+h.refuse+`","message":"no"}`)
	case r.Method == "POST" && r.URL.Path == "/webhooks":
		var body struct{ URL string }
		_ = json.NewDecoder(r.Body).Decode(&body)
		h.url = body.URL
		answer(201, `{"webhookId":"t/0123456789abcdef"}`)
	case r.Method == "POST" && r.URL.Path == "/runs":
		if h.roots != nil {
			go func(url string) {
				transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: h.roots}}
				defer transport.CloseIdleConnections()
				if res, err := (&http.Client{Transport: transport}).Post(url, "application/json", strings.NewReader("{}")); err == nil {
					res.Body.Close()
				}
			}(h.url)
		}
		answer(201, `{}`)
	default:
		answer(204, "")
	}
}

// Only what shows that the host cannot reach the receiver blocks a test.
func TestReceiverGate(t *testing.T) {
	t.Parallel()
	advertised := map[string]any{"fixtures": []string{reachFixture},
		"webhooks": map[string]any{"status": "stable", "signatureAlgorithms": []string{"v1"}}}
	own := receiving(t, receiver.Config{})
	roots := x509.NewCertPool()
	roots.AddCert(own.CA())
	distrusted := receiving(t, receiver.Config{})
	for _, c := range []struct {
		name     string
		receiver Receiver
		host     *hookHost
		more     map[string]any
		blocked  string
	}{
		{name: "none", host: &hookHost{}, blocked: "--receiver-listen"},
		{name: "trusted, and nothing is probed", receiver: Receiver{Server: own, Trusted: true}, host: &hookHost{refuse: "webhook_url_rejected"}},
		{name: "reached", receiver: Receiver{Server: own}, host: &hookHost{roots: roots}},
		{name: "no webhooks to probe with", receiver: Receiver{Server: own}, host: &hookHost{refuse: "not_found"}, more: map[string]any{}},
		{name: "refused, and it may be", receiver: Receiver{Server: own}, host: &hookHost{refuse: "webhook_url_rejected"}, blocked: "refuses the receiver's address"},
		{name: "refused for another reason", receiver: Receiver{Server: own}, host: &hookHost{refuse: "validation_error"}},
		{name: "never called, and could be", receiver: Receiver{Server: own, Patience: 100 * time.Millisecond}, host: &hookHost{}},
		{name: "the certificate is not trusted", receiver: Receiver{Server: distrusted, Patience: 2 * time.Second}, host: &hookHost{roots: x509.NewCertPool()}, blocked: "TLS handshake"},
		{name: "its address leads elsewhere", receiver: Receiver{Server: receiving(t, receiver.Config{URL: "https://127.0.0.1:1"}), Patience: 100 * time.Millisecond},
			host: &hookHost{}, blocked: "does not lead to it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			more := c.more
			if more == nil {
				more = advertised
			}
			s := oneTest(func(tt *T) { tt.Expect(idA, That(true, "a", "b")) })
			s.Gates = []Gate{NeedsReceiver()}
			s.Tests = append(s.Tests, s.Tests[0])
			s.Tests[1].Name = "two"
			r := measure(t, Options{BaseURL: newHost(t, more, c.host.ServeHTTP).URL, Receiver: c.receiver, Scenarios: []Scenario{s}})
			row := rowOf(t, r, idA)
			if c.blocked == "" {
				assert.Equal(t, bundle.ExecutedPass, row.Result, row.Detail)
				return
			}
			assert.Equal(t, bundle.Blocked, row.Result)
			assert.Contains(t, row.Detail, c.blocked)
		})
	}
}

// A host that is elsewhere cannot reach a receiver on loopback.
func TestLoopbackReceiverOfARemoteHost(t *testing.T) {
	t.Parallel()
	base, err := ParseBaseURL("https://host.example")
	require.NoError(t, err)
	r := newRun(base, Options{Receiver: Receiver{Server: receiving(t, receiver.Config{})}})
	r.host = &Host{Base: base}
	why, open := r.reachable(t.Context())
	assert.False(t, open)
	assert.Contains(t, why, "loopback")
}

// What reaches an endpoint is kept, without secrets, and is no exchange that a
// check is bound to unless it says so.
func TestInboundCapture(t *testing.T) {
	t.Parallel()
	own := receiving(t, receiver.Config{})
	roots := x509.NewCertPool()
	roots.AddCert(own.CA())
	secrets := make(chan string, 3)
	host := newHost(t, nil, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(418) })
	r := measure(t, Options{BaseURL: host.URL, Receiver: Receiver{Server: own, Trusted: true}, Scenarios: []Scenario{oneTest(func(tt *T) {
		e := tt.Endpoint(func(receiver.Attempt) receiver.Answer {
			return receiver.JSON([]byte(`{"echo":"` + tt.StandardSecret(1) + `"}`))
		})
		tt.Do(Request{Path: "/first"})
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
		defer transport.CloseIdleConnections()
		req, _ := http.NewRequest("POST", e.URL()+"/sub?q=1", strings.NewReader(`{"s":"`+tt.SigningSecret(0)+`"}`))
		req.Header.Set("Authorization", "Bearer "+tt.Canary(2))
		if res, err := (&http.Client{Transport: transport}).Do(req); err == nil {
			res.Body.Close()
		}
		secrets <- tt.SigningSecret(0)
		secrets <- tt.StandardSecret(1)
		secrets <- tt.Canary(2)
		all, ok := e.Wait(tt.Context(), 1)
		tt.Expect(idA, That(ok, "an attempt", "none"))
		tt.Expect(idA, That(false, "a", "b"))
		tt.Expect(idA, That(false, "c", "d").AtAttempt(all[0]))
	})}})
	tape := r.Capture.Tests()[0]
	require.Len(t, tape.Exchanges, 2)
	in := tape.Exchanges[1]
	assert.True(t, in.Inbound)
	assert.Equal(t, []any{"POST", 200}, []any{in.Method, in.Status})
	assert.Contains(t, in.URL, "/sub?q=1")
	assert.Contains(t, in.Request.Body, "[redacted:signing-secret-1]")
	raw, err := json.Marshal(tape)
	require.NoError(t, err)
	for range 3 {
		assert.NotContains(t, string(raw), <-secrets)
	}
	require.Len(t, r.Failures, 2)
	assert.Equal(t, []int{1, 2}, []int{r.Failures[0].Exchange, r.Failures[1].Exchange})
}
