package egress

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"wopcert/reference-host/internal/engine"
)

// maxIdlePerAddress bounds the connections that are kept for further requests to one address.
const maxIdlePerAddress = 32

// userAgent is what requests of the host say they come from.
const userAgent = "wopcert-reference-host"

// Sender is an engine.Sender that enforces a Policy.
type Sender struct {
	policy    Policy
	rows      []allocation
	trusted   []string
	transport *http.Transport
	public    *tls.Config // for destinations on the internet
	private   *tls.Config // for trusted origins and routed addresses
}

// New returns a Sender. It fails for a trusted origin that is none.
func New(policy Policy) (*Sender, error) {
	if policy.Timeout == 0 {
		policy.Timeout = 10 * time.Second
	}
	if policy.MaxResponseBytes == 0 {
		policy.MaxResponseBytes = 1 << 20
	}
	if policy.Resolver == nil {
		policy.Resolver = net.DefaultResolver
	}
	trusted, err := checkTrusted(policy.Trusted)
	if err != nil {
		return nil, err
	}
	s := &Sender{policy: policy, rows: allocations(), trusted: trusted, public: &tls.Config{MinVersion: tls.VersionTLS12}}
	s.private = s.public.Clone()
	if len(policy.ExtraRoots) > 0 {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool() // a machine without certificates of its own
		}
		for _, certificate := range policy.ExtraRoots {
			roots.AddCert(certificate)
		}
		s.private.RootCAs = roots
	}
	s.transport = &http.Transport{
		Proxy:                  nil, // a proxy would dial for us, past the guard
		DialContext:            s.dial,
		DialTLSContext:         s.dialTLS,
		MaxIdleConnsPerHost:    maxIdlePerAddress,
		MaxIdleConns:           8 * maxIdlePerAddress,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
	}
	return s, nil
}

// Close gives up the connections that are kept for further requests.
func (s *Sender) Close() { s.transport.CloseIdleConnections() }

// Send implements engine.Sender. When the response has begun, the outcome holds its status even if an error says that
// its body was too large or did not arrive.
func (s *Sender) Send(ctx context.Context, effect engine.Effect) (*engine.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, s.policy.Timeout)
	defer cancel()
	destination, err := s.judge(effect.URL)
	if err != nil {
		return nil, err
	}
	to, err := s.resolve(ctx, destination)
	if err != nil {
		return nil, err
	}
	request, err := to.request(ctx, effect, destination.url)
	if err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	response, err := s.transport.RoundTrip(request) // no client: a redirect is an answer, and no cookie is kept
	if err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	defer response.Body.Close()
	outcome := &engine.Outcome{Status: response.StatusCode, Header: response.Header}
	outcome.Body, err = io.ReadAll(io.LimitReader(response.Body, s.policy.MaxResponseBytes+1))
	if err != nil {
		return outcome, fmt.Errorf("send: %w", err)
	}
	if int64(len(outcome.Body)) > s.policy.MaxResponseBytes {
		outcome.Body = outcome.Body[:s.policy.MaxResponseBytes]
		return outcome, fmt.Errorf("send: the response is larger than %d bytes", s.policy.MaxResponseBytes)
	}
	return outcome, nil
}

// pinned is where a request goes, decided before the transport sees it.
type pinned struct {
	addresses []netip.Addr
	port      uint16
	name      string // for the certificate
	trusted   bool
}

type pinnedKey struct{}

// resolve judges every address of the destination; each is one the request may go to.
func (s *Sender) resolve(ctx context.Context, destination *target) (*pinned, error) {
	to := &pinned{port: destination.port, name: destination.host, trusted: destination.trusted}
	if destination.address.IsValid() {
		to.addresses = []netip.Addr{destination.address}
		return to, nil
	}
	var err error
	if to.addresses, err = s.policy.Resolver.LookupNetIP(ctx, "ip", destination.host); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	if len(to.addresses) == 0 {
		return nil, fmt.Errorf("send: %s has no address", destination.host)
	}
	for i, address := range to.addresses {
		if err := s.judgeAddress(address); err != nil && !destination.trusted {
			return nil, fmt.Errorf("%w, and %s resolves to it", err, destination.host)
		}
		to.addresses[i] = address.Unmap()
	}
	return to, nil
}

// pool names the connections that may be reused: those to the same host and port while it resolves to the same
// addresses.
func (p *pinned) pool() string {
	hash := sha256.New()
	for _, address := range slices.SortedFunc(slices.Values(p.addresses), netip.Addr.Compare) {
		bytes := address.As16()
		_, _ = hash.Write(bytes[:]) // a hash takes every byte
	}
	return strings.ReplaceAll(p.name, ":", "-") + "." + hex.EncodeToString(hash.Sum(nil)[:16]) + ":" + strconv.Itoa(int(p.port))
}

// request makes the request. Its URL names the pool instead of the host, since the transport keeps connections by the
// host of the URL and a name may have come to mean another address.
func (p *pinned) request(ctx context.Context, effect engine.Effect, to *url.URL) (*http.Request, error) {
	ctx = context.WithValue(ctx, pinnedKey{}, p)
	request, err := http.NewRequestWithContext(ctx, effect.Method, effect.URL, bytes.NewReader(effect.Body))
	if err != nil {
		return nil, err
	}
	request.Host, request.URL.Host = to.Host, p.pool()
	request.Header.Set("User-Agent", userAgent)
	for name, values := range effect.Header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	return request, nil
}

// dial connects to an address the request was pinned to, whatever name the transport asks for.
func (s *Sender) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	to, ok := ctx.Value(pinnedKey{}).(*pinned)
	if !ok {
		return nil, errors.New("the request has no judged address")
	}
	dialer := net.Dialer{Timeout: s.policy.Timeout / time.Duration(len(to.addresses))}
	var failed error
	for _, address := range to.addresses {
		destination := netip.AddrPortFrom(address, to.port)
		conn, err := dialer.DialContext(ctx, network, cmp.Or(s.policy.Routes[destination], destination.String()))
		if err == nil {
			return conn, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

// routed reports whether the destination is one this host's network carries elsewhere.
func (s *Sender) routed(to *pinned) bool {
	return slices.ContainsFunc(to.addresses, func(address netip.Addr) bool {
		return s.policy.Routes[netip.AddrPortFrom(address, to.port)] != ""
	})
}

func (s *Sender) dialTLS(ctx context.Context, network, name string) (net.Conn, error) {
	conn, err := s.dial(ctx, network, name)
	if err != nil {
		return nil, err
	}
	to := ctx.Value(pinnedKey{}).(*pinned) // dial has seen it
	config := s.public
	if to.trusted || s.routed(to) {
		config = s.private
	}
	config = config.Clone()
	config.ServerName = to.name
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secure, nil
}
