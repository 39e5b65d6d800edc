// Package receiver is the other end of a host's outward calls: an HTTPS server
// that hands out endpoints, records every attempt that reaches one and answers
// as a test's script says. It knows nothing of webhooks, callbacks or effects.
package receiver

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds on what callers can make the receiver keep or wait for.
const (
	MaxBody      = 1 << 20 // bytes kept of one request body
	MaxAttempts  = 2000    // attempts kept per endpoint; further ones are answered and counted only
	MaxEndpoints = 8192    // endpoints open at a time
	MaxDelay     = 30 * time.Second
	maxHeader    = 64 << 10
	maxKeptBytes = 256 << 20 // of all bodies together
	readTimeout  = 30 * time.Second
)

// Config says where the receiver listens and how hosts reach it.
type Config struct {
	// Listen is the address to listen on, "127.0.0.1:0" when empty.
	Listen string
	// URL is how hosts reach the listener: scheme, host, optional port and path
	// prefix. When empty it is https at the address listened on.
	URL string
	// Certificate is what the listener presents. When nil and URL is empty, or
	// SelfMade is set, the receiver makes a root and a certificate of its own;
	// when nil otherwise the listener speaks plain HTTP, behind whatever ends TLS
	// for it.
	Certificate *tls.Certificate
	SelfMade    bool
}

// Server is a running receiver.
type Server struct {
	base      *url.URL
	ca        *x509.Certificate
	listener  net.Listener
	http      *http.Server
	done      chan struct{}
	closing   sync.Once
	handshake atomic.Int64
	strays    atomic.Int64
	kept      atomic.Int64

	mu        sync.Mutex
	endpoints map[string]*Endpoint
}

// Start listens and serves until Close. Errors are of the configuration or of
// the listener.
func Start(c Config) (*Server, error) {
	listen := c.Listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	base, err := parseURL(c.URL)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("receiver: %w", err)
	}
	s := &Server{base: base, listener: l, done: make(chan struct{}), endpoints: map[string]*Endpoint{}}
	secure := c.Certificate
	if base == nil {
		s.base = &url.URL{Scheme: "https", Host: l.Addr().String()}
	}
	if secure == nil && (base == nil || c.SelfMade) {
		made, root, err := selfMade(l.Addr(), s.base.Hostname())
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("receiver: %w", err)
		}
		secure, s.ca = made, root
	}
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(&countHandshakes{s}, "", 0),
	}
	if secure != nil {
		s.http.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*secure}, MinVersion: tls.VersionTLS12}
	}
	go s.run(secure != nil)
	return s, nil
}

// run serves until the listener closes.
func (s *Server) run(secure bool) {
	if secure {
		_ = s.http.ServeTLS(s.listener, "", "")
	} else {
		_ = s.http.Serve(s.listener)
	}
}

func parseURL(s string) (*url.URL, error) {
	if s == "" {
		return nil, nil
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("receiver address %q: %w", s, err)
	case u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "":
		return nil, fmt.Errorf("receiver address %q: want https://HOST", s)
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return nil, fmt.Errorf("receiver address %q: an address has no credential, no query and no fragment", s)
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	return u, nil
}

// URL is the address of the receiver as hosts reach it, without a final slash.
func (s *Server) URL() *url.URL { u := *s.base; return &u }

// Origin is scheme://host:port of URL, the port left out where URL does.
func (s *Server) Origin() string { return s.base.Scheme + "://" + s.base.Host }

// Addr is the address listened on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// CA is the root that the receiver made for itself; nil when the operator
// supplied a certificate or TLS ends elsewhere.
func (s *Server) CA() *x509.Certificate { return s.ca }

// HandshakeFailures counts connections whose TLS handshake did not complete,
// as when a client does not trust the certificate.
func (s *Server) HandshakeFailures() int { return int(s.handshake.Load()) }

// Strays counts requests to no endpoint that is open.
func (s *Server) Strays() int { return int(s.strays.Load()) }

// Close ends every connection and every script that is still waiting.
func (s *Server) Close() error {
	var err error
	s.closing.Do(func() {
		close(s.done)
		err = s.http.Close()
		s.mu.Lock()
		open := maps.Clone(s.endpoints)
		s.mu.Unlock()
		for _, e := range open {
			e.Close()
		}
	})
	return err
}

// ErrTooMany is returned when more endpoints are open than the receiver keeps.
var ErrTooMany = errors.New("receiver: too many endpoints are open")

// Endpoint opens an endpoint at an address nobody else knows. The script says
// what each attempt is answered; nil answers 204.
func (s *Server) Endpoint(script Script) (*Endpoint, error) {
	var id [16]byte
	rand.Read(id[:]) // never fails (crypto/rand)
	if script == nil {
		script = Always(http.StatusNoContent)
	}
	e := &Endpoint{server: s, id: hex.EncodeToString(id[:]), script: script, closed: make(chan struct{}), changed: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.endpoints) >= MaxEndpoints {
		return nil, ErrTooMany
	}
	s.endpoints[e.id] = e
	return e, nil
}

// find looks an endpoint up by the segment of a path that is its id, so that a
// prefix before it, kept or stripped on the way, changes nothing.
func (s *Server) find(path string) (*Endpoint, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := path
	for rest != "" {
		var segment string
		segment, rest, _ = strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		if e := s.endpoints[segment]; e != nil {
			if rest != "" {
				rest = "/" + rest
			}
			return e, rest
		}
	}
	return nil, ""
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	arrived := time.Now()
	e, below := s.find(r.URL.Path)
	if e == nil {
		s.strays.Add(1)
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxBody+1))
	a := Attempt{At: arrived, Method: r.Method, Path: below, Query: r.URL.RawQuery, Host: r.Host, Proto: r.Proto, Header: r.Header.Clone(), Body: body}
	if len(body) > MaxBody {
		a.Body, a.Truncated = body[:MaxBody], true
	}
	a.Broken = err != nil
	e.opened(1)
	defer e.opened(-1)
	a = e.record(a)
	e.reply(r.Context(), w, e.answer(a))
}

// countHandshakes is the server's error log: the one thing worth knowing of it
// is that a client gave up in the handshake.
type countHandshakes struct{ s *Server }

func (c *countHandshakes) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "TLS handshake error") {
		c.s.handshake.Add(1)
	}
	return len(p), nil
}

// wait sleeps for d, or until one of the ends comes. It reports whether the
// whole time passed.
func wait(ctx context.Context, d time.Duration, ends ...<-chan struct{}) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(min(d, MaxDelay))
	defer timer.Stop()
	first, second := ends[0], ends[1]
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-first:
	case <-second:
	}
	return false
}
