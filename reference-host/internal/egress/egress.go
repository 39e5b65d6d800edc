// Package egress is the guarded way out of the reference host: the one place that opens connections a run asked for.
// It refuses addresses that are not on the public internet when it dials, so that neither a name that resolves to one
// nor a name that changes its mind between check and use gets through; it follows no redirect, sends no credential of
// the host's callers, and bounds time and size.
package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"wopcert/reference-host/internal/engine"
)

// ErrRefused is returned, wrapped, for a destination the policy does not allow.
var ErrRefused = errors.New("the destination is not allowed")

// Policy says where effects may go. The zero value is the public internet over https.
type Policy struct {
	// AllowLoopback admits this machine, and plain http to it: for tests and development.
	AllowLoopback bool
	// Timeout bounds one effect; 0 is 10 s.
	Timeout time.Duration
	// MaxResponseBytes bounds the response body; 0 is 1 MiB.
	MaxResponseBytes int64
}

// Sender is an engine.Sender that enforces a Policy.
type Sender struct {
	policy Policy
	client *http.Client
}

// New returns a Sender.
func New(policy Policy) *Sender {
	if policy.Timeout == 0 {
		policy.Timeout = 10 * time.Second
	}
	if policy.MaxResponseBytes == 0 {
		policy.MaxResponseBytes = 1 << 20
	}
	s := &Sender{policy: policy}
	dialer := &net.Dialer{Timeout: policy.Timeout, Control: s.control}
	s.client = &http.Client{
		Timeout:       policy.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  nil, // a proxy would dial for us, past the guard
			DialContext:            dialer.DialContext,
			TLSHandshakeTimeout:    policy.Timeout,
			ResponseHeaderTimeout:  policy.Timeout,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true,
			DisableKeepAlives:      true,
		},
	}
	return s
}

// control sees the address that is about to be connected to, after name resolution.
func (s *Sender) control(_, address string, _ syscall.RawConn) error {
	host, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s", ErrRefused, address)
	}
	if !s.Allowed(host.Addr()) {
		return fmt.Errorf("%w: %s is not a public address", ErrRefused, host.Addr())
	}
	return nil
}

// special are the ranges that netip has no predicate for and that do not lead to the public internet.
func special() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"),       // this network
		netip.MustParsePrefix("100.64.0.0/10"),   // carrier-grade NAT
		netip.MustParsePrefix("192.0.0.0/24"),    // protocol assignments
		netip.MustParsePrefix("192.0.2.0/24"),    // documentation
		netip.MustParsePrefix("192.88.99.0/24"),  // 6to4 relay
		netip.MustParsePrefix("198.18.0.0/15"),   // benchmarking
		netip.MustParsePrefix("198.51.100.0/24"), // documentation
		netip.MustParsePrefix("203.0.113.0/24"),  // documentation
		netip.MustParsePrefix("240.0.0.0/4"),     // reserved, broadcast
		netip.MustParsePrefix("64:ff9b::/96"),    // NAT64 reaches any IPv4 address
		netip.MustParsePrefix("64:ff9b:1::/48"),
		netip.MustParsePrefix("100::/64"),      // discard
		netip.MustParsePrefix("2001::/23"),     // protocol assignments, Teredo
		netip.MustParsePrefix("2001:db8::/32"), // documentation
		netip.MustParsePrefix("2002::/16"),     // 6to4 reaches any IPv4 address
		netip.MustParsePrefix("3fff::/20"),     // documentation
		netip.MustParsePrefix("fec0::/10"),     // site-local
	}
}

// Allowed reports whether the policy lets an effect reach the address.
func (s *Sender) Allowed(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	if address.IsLoopback() {
		return s.policy.AllowLoopback
	}
	if !address.IsGlobalUnicast() || address.IsPrivate() {
		return false
	}
	for _, prefix := range special() {
		if prefix.Contains(address) {
			return false
		}
	}
	return true
}

// CheckURL refuses what no effect may be sent to whatever it resolves to: another scheme than https, a user, an
// address outside the policy.
func (s *Sender) CheckURL(raw string) error {
	target, err := url.Parse(raw)
	if err != nil || target.Host == "" || target.User != nil || target.Opaque != "" {
		return fmt.Errorf("%w: not an absolute URL without a user", ErrRefused)
	}
	host := target.Hostname()
	address, err := netip.ParseAddr(host)
	literal := err == nil
	if literal && !s.Allowed(address) {
		return fmt.Errorf("%w: %s is not a public address", ErrRefused, host)
	}
	local := strings.EqualFold(host, "localhost") || literal && address.IsLoopback()
	if target.Scheme != "https" && !(target.Scheme == "http" && local && s.policy.AllowLoopback) {
		return fmt.Errorf("%w: the scheme must be https", ErrRefused)
	}
	return nil
}

// Send implements engine.Sender.
func (s *Sender) Send(ctx context.Context, effect engine.Effect) (*engine.Outcome, error) {
	if err := s.CheckURL(effect.URL); err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, effect.Method, effect.URL, strings.NewReader(string(effect.Body)))
	if err != nil {
		return nil, fmt.Errorf("effect: %w", err)
	}
	for name, values := range effect.Header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("effect: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, s.policy.MaxResponseBytes+1))
	if err != nil {
		return nil, fmt.Errorf("effect: %w", err)
	}
	if int64(len(body)) > s.policy.MaxResponseBytes {
		return nil, fmt.Errorf("effect: the response is larger than %d bytes", s.policy.MaxResponseBytes)
	}
	return &engine.Outcome{Status: response.StatusCode, Header: response.Header, Body: body}, nil
}
