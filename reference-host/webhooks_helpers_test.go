package referencehost_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

// hookSecret is what subscriptions of these tests sign with.
var hookSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))

// hookHost is the name of the sink, and hookAddress where it resolves to: a public address, so that the guard has
// nothing to exempt.
const hookHost, hookAddress = "hooks.example.com", "8.8.8.8"

// arrival is one request that reached a sink.
type arrival struct {
	path   string
	header http.Header
	body   []byte
	tenant string
}

// eventOf is the event of a delivery.
func (a arrival) eventOf(t testing.TB) map[string]any {
	t.Helper()
	var body struct{ Event map[string]any }
	require.NoError(t, json.Unmarshal(a.body, &body), string(a.body))
	return body.Event
}

// hookSink is a receiver on loopback.
type hookSink struct {
	t       testing.TB
	server  *httptest.Server
	mu      sync.Mutex
	changed *sync.Cond
	seen    []arrival
	answer  http.HandlerFunc
}

// sink starts a receiver; nil answers 204. verification requests are answered as asked.
func sink(t testing.TB, answer http.HandlerFunc) *hookSink {
	s := &hookSink{t: t, answer: answer}
	s.changed = sync.NewCond(&s.mu)
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.server.StartTLS()
	t.Cleanup(s.server.Close)
	return s
}

func (s *hookSink) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.seen = append(s.seen, arrival{path: r.URL.Path, header: r.Header.Clone(), body: body})
	answer := s.answer
	s.changed.Broadcast()
	s.mu.Unlock()
	var asked map[string]string
	switch {
	case answer != nil:
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer(w, r)
	case json.Unmarshal(body, &asked) == nil && asked["challenge"] != "":
		_, _ = w.Write([]byte(`{"challenge":"` + asked["challenge"] + `"}`))
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *hookSink) set(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// wait returns what has arrived under a path once it is n requests or more.
func (s *hookSink) wait(path string, n int) []arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		var found []arrival
		for _, a := range s.seen {
			if a.path == path {
				found = append(found, a)
			}
		}
		if len(found) >= n {
			return found
		}
		s.changed.Wait()
	}
}

// reach makes the sink what hookHost leads to.
func (s *hookSink) reach(c *referencehost.Config) {
	c.Egress.Resolver = hookNames{hookHost: hookAddress, "inside.example.com": "10.0.0.1"}
	c.Egress.Routes = map[netip.AddrPort]string{netip.MustParseAddrPort(hookAddress + ":443"): s.server.Listener.Addr().String()}
	c.Egress.ExtraRoots = []*x509.Certificate{s.server.Certificate()}
}

// certified is the sink under the name its certificate is for.
func (s *hookSink) url(path string) string { return "https://example.com" + path }

type hookNames map[string]string

func (n hookNames) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if host == "example.com" {
		host = hookHost
	}
	if address := n[host]; address != "" {
		return []netip.Addr{netip.MustParseAddr(address)}, nil
	}
	return nil, errors.New("no such name")
}

// register makes a subscription and returns its answer.
func (h *testHost) register(body map[string]any, header ...string) map[string]any {
	h.t.Helper()
	encoded, err := json.Marshal(body)
	require.NoError(h.t, err)
	r := h.call("POST", "/webhooks", string(encoded), header...)
	require.Equal(h.t, http.StatusCreated, r.StatusCode, string(r.body))
	return r.json(h.t)
}

func hookPath(id any) string { return "/webhooks/" + strings.Replace(id.(string), "/", "~2F", 1) }

func signedV1(a arrival, family, secret string) bool {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(a.header.Get(family+"Timestamp") + "." + string(a.body)))
	return a.header.Get(family+"Signature") == "sha256="+hex.EncodeToString(mac.Sum(nil))
}
