package egress_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/reference-host/internal/egress"
	"wopcert/reference-host/internal/engine"
)

func guard(t *testing.T, policy egress.Policy) *egress.Sender {
	t.Helper()
	sender, err := egress.New(policy)
	require.NoError(t, err)
	t.Cleanup(sender.Close)
	return sender
}

// names resolves names from a map; a function may change its mind.
type names map[string]func() []netip.Addr

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if found := n[host]; found != nil {
		return found(), nil
	}
	return nil, errors.New("no such name")
}

func always(addresses ...string) func() []netip.Addr {
	return func() []netip.Addr {
		var list []netip.Addr
		for _, a := range addresses {
			list = append(list, netip.MustParseAddr(a))
		}
		return list
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	guarded := guard(t, egress.Policy{Denied: []netip.Prefix{netip.MustParsePrefix("9.9.9.0/24"), netip.MustParsePrefix("2606:4700:1::/48")}})
	for _, public := range []string{
		"8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "172.15.0.1", "172.32.0.1", "100.63.255.255", "100.128.0.0",
		"192.0.0.9", "192.0.1.1", "223.255.255.255", "64:ff9b::808:808", "2002:808:808::1", "::8.8.8.8", "2001:1::1", "2001:4:112::1",
		"2001:200::1", "2a00::1",
	} {
		assert.True(t, guarded.Allowed(netip.MustParseAddr(public)), public)
	}
	for _, private := range []string{
		"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "168.63.129.16", "100.64.0.1", "100.100.100.200", "0.0.0.0",
		"0.1.2.3", "255.255.255.255", "224.0.0.1", "198.18.0.1", "198.19.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1", "198.51.100.7", "203.0.113.9", "240.0.0.1",
		"127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::", "fe80::1", "fe80::1%eth0", "2606:4700:4700::1111%eth0", "fc00::1", "fd00:ec2::254",
		"ff02::1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b:1::808:808", "::127.0.0.1", "::a00:1",
		"2002:7f00:1::", "2002:a9fe:a9fe::1", "2001:db8::1", "fec0::1", "2001::1", "2001:2::1", "3fff::1", "100::1", "5f00::1", "4000::1",
		"9.9.9.9", "::ffff:9.9.9.9", "64:ff9b::909:909", "2606:4700:1::1",
	} {
		assert.False(t, guarded.Allowed(netip.MustParseAddr(private)), private)
	}
}

func TestURLs(t *testing.T) {
	t.Parallel()
	guarded := guard(t, egress.Policy{})
	for _, admitted := range []string{
		"https://example.org/x", "https://hooks.example.com:8443/a?b=c", "HTTPS://EXAMPLE.ORG", "https://example.org.", "https://8.8.8.8/", "https://0x08080808/",
		"https://[2606:4700:4700::1111]/", "https://[64:ff9b::808:808]/", "https://xn--bcher-kva.example/", "https://0.0.0.0.example.org/", "https://localhost.example.org",
		"https://127.0.0.1.example.org",
	} {
		require.NoError(t, guarded.CheckURL(admitted), admitted)
	}
	for _, refused := range []string{
		"", "x", "/x", "http://example.org", "ftp://example.org", "https://", "https://:443", "https://user@example.org", "https://u:p@example.org",
		"file:///etc/passwd", "https:example.org", "https://%zz", "//example.org", "https://example.org:0", "https://example.org:70000", "https://a..b/",
		"https://127.0.0.1", "https://127.1", "https://0x7f.1", "https://0177.0.0.1", "https://2130706433", "https://0x7f000001/", "https://017700000001/",
		"https://127.0.0.1.", "https://0x7f.0x0.0x0.0x1", "https://127.0.1", "https://0", "https://0x", "https://256.256.256.256", "https://1.2.3.4.5", "https://0x100000000",
		"https://08.0.0.1", "https://[::1]", "https://[0:0:0:0:0:0:0:1]", "https://[::]", "https://10.0.0.1", "https://10.1", "https://169.254.169.254/latest",
		"https://0xa9fea9fe/latest", "https://2852039166/", "https://100.100.100.200/", "https://[fd00:ec2::254]/", "https://[fe80::1%25eth0]/", "https://[fe80::1]/",
		"https://[::ffff:10.0.0.1]", "https://[::ffff:7f00:1]", "https://[::FFFF:A9FE:A9FE]", "https://[0:0:0:0:0:ffff:7f00:1]", "https://[64:ff9b::7f00:1]", "https://[2002:7f00:1::]",
		"https://localhost", "https://LOCALHOST:443", "https://localhost.", "https://api.localhost", "https://localhost.localdomain", "https://printer.local",
		"https://metadata.google.internal/computeMetadata/v1/", "https://METADATA.google.internal./", "https://metadata/", "https://metadata.goog", "https://instance-data.ec2.internal",
		"https://intranet/", "https://ｌocalhost/", "https://127。0。0。1/", "https://１２７.0.0.1/", "https://a b/", "https://exa%6Dple.org/", "https://example.org\\@127.0.0.1/",
		"https://" + strings.Repeat("a", 64) + ".org", "https://" + strings.Repeat("a.", 130) + "org", "https://example.org/" + strings.Repeat("a", 9000),
	} {
		require.ErrorIs(t, guarded.CheckURL(refused), egress.ErrRefused, refused)
	}
}

func TestTrustedOrigins(t *testing.T) {
	t.Parallel()
	local := guard(t, egress.Policy{Trusted: []string{"http://127.0.0.1:8080", "https://localhost:9443/", "https://[::1]"}})
	for _, admitted := range []string{"http://127.0.0.1:8080/x", "http://0x7f.1:8080", "https://LOCALHOST:9443/y?z", "https://[::1]:443/", "https://example.org"} {
		require.NoError(t, local.CheckURL(admitted), admitted)
	}
	for _, refused := range []string{
		"https://127.0.0.1:8080", "http://127.0.0.1:8081", "http://127.0.0.1", "http://localhost:8080", "http://[::ffff:127.0.0.1]:8080", "http://127.0.0.2:8080",
		"https://localhost", "https://[::1]:444", "http://example.org", "http://user@127.0.0.1:8080/",
	} {
		require.ErrorIs(t, local.CheckURL(refused), egress.ErrRefused, refused)
	}
	for _, malformed := range []string{"", "127.0.0.1:8080", "ftp://a.example", "https://a.example/path", "https://a.example?x", "https://u@a.example"} {
		_, err := egress.New(egress.Policy{Trusted: []string{malformed}})
		require.ErrorContains(t, err, "trusted origin", malformed)
	}
}

func TestEveryAddressIsJudgedWhenItIsUsed(t *testing.T) {
	t.Parallel()
	asked := 0
	sender := guard(t, egress.Policy{Resolver: names{
		"inside.example.org":  always("127.0.0.1"),
		"mixed.example.org":   always("8.8.8.8", "10.0.0.1"),
		"mapped.example.org":  always("::ffff:127.0.0.1"),
		"nothing.example.org": always(),
		"rebinding.example.org": func() []netip.Addr {
			asked++
			return always("127.0.0.1")()
		},
	}})
	for _, name := range []string{"inside", "mixed", "mapped", "rebinding"} {
		require.NoError(t, sender.CheckURL("https://"+name+".example.org/"), "a name is judged when it is used")
		_, err := sender.Send(t.Context(), engine.Effect{Method: "POST", URL: "https://" + name + ".example.org/"})
		require.ErrorIs(t, err, egress.ErrRefused, name)
	}
	assert.Equal(t, 1, asked, "what was judged is what is dialed")
	_, err := sender.Send(t.Context(), engine.Effect{Method: "POST", URL: "https://nothing.example.org/"})
	require.ErrorContains(t, err, "no address")
	_, err = sender.Send(t.Context(), engine.Effect{Method: "POST", URL: "https://unknown.example.org/"})
	require.ErrorContains(t, err, "no such name")
	_, err = sender.Send(t.Context(), engine.Effect{Method: "GET", URL: "https://localhost:1/"})
	require.ErrorIs(t, err, egress.ErrRefused)
}

// counting counts the connections a server is reached by.
func counting(server *httptest.Server) *atomic.Int64 {
	count := new(atomic.Int64)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			count.Add(1)
		}
	}
	return count
}

func TestAConnectionIsReusedOnlyWhileTheNameMeansTheSame(t *testing.T) {
	t.Parallel()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) })
	first := httptest.NewUnstartedServer(handler)
	connections := counting(first)
	first.Start()
	defer first.Close()
	port := first.URL[strings.LastIndex(first.URL, ":"):]
	address := "127.0.0.1"
	origin := "http://hooks.example.org" + port
	sender := guard(t, egress.Policy{Trusted: []string{origin}, Resolver: names{"hooks.example.org": func() []netip.Addr { return always(address)() }}})
	for range 5 {
		outcome, err := sender.Send(t.Context(), engine.Effect{Method: "POST", URL: origin + "/x", Body: []byte("x")})
		require.NoError(t, err)
		assert.Equal(t, "hooks.example.org"+port, string(outcome.Body), "the receiver sees the name")
	}
	assert.EqualValues(t, 1, connections.Load())
	address = "127.0.0.9" // nobody listens there
	_, err := sender.Send(t.Context(), engine.Effect{Method: "POST", URL: origin + "/x"})
	require.Error(t, err, "a connection to an address the name no longer means is not used")
	address = "127.0.0.1"
	_, err = sender.Send(t.Context(), engine.Effect{Method: "POST", URL: origin + "/x"})
	require.NoError(t, err)
}

func TestTheSecondAddressIsTried(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	origin := strings.Replace(server.URL, "127.0.0.1", "hooks.example.org", 1)
	sender := guard(t, egress.Policy{Trusted: []string{origin}, Resolver: names{"hooks.example.org": always("127.0.0.9", "127.0.0.1")}})
	outcome, err := sender.Send(t.Context(), engine.Effect{Method: "POST", URL: origin})
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, outcome.Status)
}

func TestCertificatesOfTrustedOrigins(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	roots := []*x509.Certificate{server.Certificate()}
	_, err := guard(t, egress.Policy{Trusted: []string{server.URL}}).Send(t.Context(), engine.Effect{Method: "GET", URL: server.URL})
	var unknown *tls.CertificateVerificationError
	require.ErrorAs(t, err, &unknown)
	_, err = guard(t, egress.Policy{Trusted: []string{server.URL}, ExtraRoots: roots}).Send(t.Context(), engine.Effect{Method: "GET", URL: server.URL})
	require.NoError(t, err)
	_, err = guard(t, egress.Policy{ExtraRoots: roots}).Send(t.Context(), engine.Effect{Method: "GET", URL: server.URL})
	require.ErrorIs(t, err, egress.ErrRefused, "a root is no exemption")
	named := strings.Replace(server.URL, "127.0.0.1", "other.example.org", 1)
	_, err = guard(t, egress.Policy{Trusted: []string{named}, ExtraRoots: roots, Resolver: names{"other.example.org": always("127.0.0.1")}}).
		Send(t.Context(), engine.Effect{Method: "GET", URL: named})
	var wrongName x509.HostnameError
	require.ErrorAs(t, err, &wrongName)
}

func TestARouteExemptsFromNothing(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) }))
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	listener := server.Listener.Addr().String()
	sender := guard(t, egress.Policy{
		ExtraRoots: []*x509.Certificate{server.Certificate()},
		Resolver:   names{"example.com": always("8.8.8.8"), "inside.example.com": always("10.0.0.1")},
		Routes: map[netip.AddrPort]string{
			netip.MustParseAddrPort("8.8.8.8:443"): listener, netip.MustParseAddrPort("10.0.0.1:443"): listener,
			netip.MustParseAddrPort("127.0.0.1:443"): listener,
		},
	})
	outcome, err := sender.Send(t.Context(), engine.Effect{Method: "POST", URL: "https://example.com/x"})
	require.NoError(t, err)
	assert.Equal(t, "example.com", string(outcome.Body))
	for _, refused := range []string{"https://inside.example.com/", "https://10.0.0.1/", "https://127.0.0.1/", "http://example.com/", server.URL} {
		_, err = sender.Send(t.Context(), engine.Effect{Method: "POST", URL: refused})
		require.ErrorIs(t, err, egress.ErrRefused, refused)
	}
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
		case "/drip":
			w.WriteHeader(http.StatusNoContent + 1)
			_ = http.NewResponseController(w).Flush()
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
	sender := guard(t, egress.Policy{Trusted: []string{server.URL}, MaxResponseBytes: 1000, Timeout: 5 * time.Second})
	outcome, err := sender.Send(t.Context(), engine.Effect{Method: "PUT", URL: server.URL, Header: http.Header{"x-mine": {"!"}}, Body: []byte("hi")})
	require.NoError(t, err)
	assert.Equal(t, "hi!", string(outcome.Body))
	assert.Equal(t, http.StatusAccepted, outcome.Status)
	assert.Equal(t, "PUT", outcome.Header.Get("X-Method"))

	outcome, err = sender.Send(t.Context(), engine.Effect{Method: "GET", URL: server.URL + "/redirect"})
	require.NoError(t, err)
	assert.Equal(t, http.StatusFound, outcome.Status, "a redirect is an answer, not followed")
	outcome, err = sender.Send(t.Context(), engine.Effect{Method: "GET", URL: server.URL + "/large"})
	require.ErrorContains(t, err, "larger than")
	assert.Equal(t, http.StatusOK, outcome.Status, "the status is known all the same")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = sender.Send(ctx, engine.Effect{Method: "GET", URL: server.URL + "/slow"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	dripping, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	outcome, err = sender.Send(dripping, engine.Effect{Method: "GET", URL: server.URL + "/drip"})
	require.Error(t, err)
	require.NotNil(t, outcome)
	assert.Equal(t, http.StatusNoContent+1, outcome.Status)
	_, err = sender.Send(t.Context(), engine.Effect{Method: "B AD", URL: server.URL})
	require.Error(t, err)
}

func FuzzCheckURL(f *testing.F) {
	for _, seed := range []string{"https://example.org", "https://127.1", "https://[::ffff:7f00:1]:1/", "http://0x7f.1", "https://[fe80::1%25lo]", "https://a.b.c.0x"} {
		f.Add(seed)
	}
	sender, err := egress.New(egress.Policy{})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, raw string) {
		if sender.CheckURL(raw) != nil {
			return
		}
		u, err := url.Parse(raw)
		require.NoError(t, err)
		assert.Equal(t, "https", u.Scheme)
		assert.Nil(t, u.User)
		if address, err := netip.ParseAddr(u.Hostname()); err == nil {
			assert.True(t, sender.Allowed(address), raw)
		}
	})
}
