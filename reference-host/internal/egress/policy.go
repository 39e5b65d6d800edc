// Package egress is the guarded way out of the reference host: the one place that opens connections to where a client
// said. A URL is judged when it is given to the host, and again whenever something is sent to it: the name is resolved,
// every address it resolves to is held to the same ranges, and the connection goes to an address that was judged. It
// follows no redirect, sends no credential of the host's callers, and bounds time and size.
package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrRefused is returned, wrapped, for a destination the policy does not allow.
var ErrRefused = errors.New("the destination is not allowed")

// Resolver turns a name into addresses; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Policy says where requests may go. The zero value is the public internet over https.
type Policy struct {
	// Trusted are origins, as scheme://host:port, that an operator exempts: http or https, whatever they resolve to.
	// Nothing else on their host is exempt. An exemption relaxes an obligation (security-defaults.md §Relaxations).
	Trusted []string
	// Routes say where this host's network carries connections to an address: to another one, given as HOST:PORT. An
	// address is judged before its route is looked up, so a route exempts from nothing.
	Routes map[netip.AddrPort]string
	// ExtraRoots are certificates that trusted origins and routed addresses may be certified by, beside the system's.
	ExtraRoots []*x509.Certificate
	// Denied are further destinations to refuse.
	Denied []netip.Prefix
	// Resolver resolves names, nil for the system's.
	Resolver Resolver
	// Timeout bounds one request; 0 is 10 s.
	Timeout time.Duration
	// MaxResponseBytes bounds the response body; 0 is 1 MiB.
	MaxResponseBytes int64
}

// maxURL bounds a URL, in bytes.
const maxURL = 8 << 10

// target is a URL that was judged.
type target struct {
	url *url.URL
	// host is the host in one spelling: lower case, no dot at its end, an address the way it is usually written and
	// without brackets. port is the port that is meant.
	host string
	port uint16
	// address is set for a host that is an address.
	address netip.Addr
	trusted bool
}

// judge refuses what nothing may be sent to whatever it resolves to: another scheme than https, a user, a name or an
// address that is not on the public internet.
func (s *Sender) judge(raw string) (*target, error) {
	t, err := parseTarget(raw)
	if err != nil {
		return nil, err
	}
	if t.trusted = slices.Contains(s.trusted, t.origin()); t.trusted {
		return t, nil
	}
	switch {
	case t.url.Scheme != "https":
		return nil, fmt.Errorf("%w: the scheme must be https", ErrRefused)
	case t.address.IsValid():
		return t, s.judgeAddress(t.address)
	case localName(t.host):
		return nil, fmt.Errorf("%w: %s is not a public name", ErrRefused, t.host)
	}
	return t, nil
}

func (s *Sender) judgeAddress(address netip.Addr) error {
	if s.Allowed(address) {
		return nil
	}
	return fmt.Errorf("%w: %s is not a public address", ErrRefused, address)
}

// Allowed reports whether a request that no trusted origin exempts may reach the address.
func (s *Sender) Allowed(address netip.Addr) bool {
	for _, prefix := range s.policy.Denied {
		if prefix.Contains(address.Unmap()) || prefix.Contains(embedded(address)) {
			return false
		}
	}
	return public(s.rows, address)
}

// CheckURL is the guard for a URL that is given to the host to be used later (webhooks.md §Egress). Names are not
// resolved: what they resolve to is judged when something is sent.
func (s *Sender) CheckURL(raw string) error {
	_, err := s.judge(raw)
	return err
}

func parseTarget(raw string) (*target, error) {
	malformed := func(what string) error { return fmt.Errorf("%w: %s", ErrRefused, what) }
	u, err := url.Parse(raw)
	switch {
	case err != nil || len(raw) > maxURL:
		return nil, malformed("not a URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, malformed("the scheme must be https")
	case u.Host == "" || u.Opaque != "" || u.User != nil:
		return nil, malformed("not an absolute URL without a user")
	}
	t := &target{url: u, port: 443}
	if u.Scheme == "http" {
		t.port = 80
	}
	if text := u.Port(); text != "" {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 {
			return nil, malformed("there is no such port")
		}
		t.port = uint16(port)
	}
	t.host = strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if strings.HasPrefix(u.Host, "[") {
		if t.address, err = netip.ParseAddr(u.Hostname()); err != nil {
			return nil, malformed("not an IPv6 address")
		}
		t.host = t.address.String()
		return t, nil
	}
	return t, t.parseName(malformed)
}

// parseName reads a host that is a name or, in any spelling, an IPv4 address.
func (t *target) parseName(malformed func(string) error) error {
	if len(t.host) > 253 {
		return malformed("the name is too long")
	}
	for label := range strings.SplitSeq(t.host, ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, func(c rune) bool { return !nameRune(c) }) {
			return malformed("not a host name in its ASCII form")
		}
	}
	address, numeric, ok := parseNumeric(t.host)
	switch {
	case numeric && !ok:
		return malformed("not an IPv4 address")
	case ok:
		t.address, t.host = address, address.String()
	}
	return nil
}

func nameRune(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// origin is the target's origin with its port written out.
func (t *target) origin() string {
	return t.url.Scheme + "://" + net.JoinHostPort(t.host, strconv.Itoa(int(t.port)))
}

// localName reports whether a name means something on this network alone: what serves a machine's own metadata, the
// names reserved for local use, and any name of one label.
func localName(host string) bool {
	switch host {
	case "metadata.goog", "metadata.tencentyun.com", "metadata.platformequinix.com":
		return true
	}
	if !strings.Contains(host, ".") {
		return true
	}
	for _, domain := range []string{".localhost", ".localdomain", ".local", ".internal", ".home.arpa"} {
		if strings.HasSuffix(host, domain) {
			return true
		}
	}
	return false
}

// checkTrusted reads the origins an operator exempts.
func checkTrusted(origins []string) ([]string, error) {
	var trusted []string
	for _, origin := range origins {
		t, err := parseTarget(origin)
		if err != nil || t.url.Path != "" && t.url.Path != "/" || t.url.RawQuery != "" || t.url.Fragment != "" {
			return nil, fmt.Errorf("trusted origin %q: it must be http or https, a host and, at need, a port, and nothing more", origin)
		}
		trusted = append(trusted, t.origin())
	}
	return trusted, nil
}
