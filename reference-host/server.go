package referencehost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// DefaultAddr is where Listen binds when it is given no address: loopback, on a free port.
const DefaultAddr = "127.0.0.1:0"

// shutdownGrace is how long requests in flight may take once the server stops.
const shutdownGrace = 3 * time.Second

// writeTimeout bounds a response that is not a stream; the longest poll has to fit in.
const writeTimeout = (maxPollSeconds + 30) * time.Second

// Server is a Host on a port.
type Server struct {
	host   *Host
	keys   []Credential
	url    string
	server *http.Server
	done   chan struct{}
	err    error // of serving; read after done
	once   sync.Once
}

// Listen makes a host of config and serves it at addr, a HOST:PORT; "" is DefaultAddr, and a missing host is loopback.
// An address that other machines reach is refused unless config.AllowNonLoopback says so. The server stops when ctx
// ends or Close is called.
func Listen(ctx context.Context, addr string, config Config) (*Server, error) {
	bind, err := bindAddress(ctx, addr, config.AllowNonLoopback)
	if err != nil {
		return nil, fmt.Errorf("reference host: %w", err)
	}
	host, err := New(config)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", bind)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reference host: %w", err), host.Close())
	}
	s := &Server{
		host: host,
		keys: slices.Clone(config.Keys),
		url:  "http://" + listener.Addr().String(),
		done: make(chan struct{}),
		server: &http.Server{
			Handler:           host.Handler(),
			ReadHeaderTimeout: 10 * time.Second,
			WriteTimeout:      writeTimeout, // a stream sets its own for every write
			IdleTimeout:       2 * time.Minute,
			MaxHeaderBytes:    64 << 10,
			ErrorLog:          log.New(io.Discard, "", 0), // complaints about hostile clients are no news
		},
	}
	go func() {
		defer close(s.done)
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.err = err
		}
	}()
	stop := context.AfterFunc(ctx, func() { _ = s.Close() }) // Wait reports what serving came to
	go func() { <-s.done; stop() }()
	return s, nil
}

// bindAddress resolves addr and refuses what is not loopback.
func bindAddress(ctx context.Context, addr string, anywhere bool) (string, error) {
	if addr == "" {
		addr = DefaultAddr
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("address %q: it must be HOST:PORT", addr)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	addresses, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil || len(addresses) == 0 {
		return "", fmt.Errorf("address %q: the host cannot be resolved", addr)
	}
	for _, address := range addresses {
		if !anywhere && !address.IP.IsLoopback() {
			return "", fmt.Errorf("address %q: other machines reach it; allow that explicitly or use 127.0.0.1", addr)
		}
	}
	return net.JoinHostPort(addresses[0].String(), port), nil
}

// URL is the origin the host is served at, without a slash at its end.
func (s *Server) URL() string { return s.url }

// Host is the host that is served.
func (s *Server) Host() *Host { return s.host }

// Keys are the credentials the host was configured with, keys included, for whoever started it to print.
func (s *Server) Keys() []Credential { return slices.Clone(s.keys) }

// Key is the key of that name, or "".
func (s *Server) Key(name string) string {
	for _, credential := range s.keys {
		if credential.Name == name {
			return credential.Key
		}
	}
	return ""
}

// Fixtures are the ids of the workflows discovery lists, sorted.
func (s *Server) Fixtures() []string {
	ids := make([]string, 0, len(s.host.config.Fixtures))
	for _, held := range s.host.config.Fixtures {
		ids = append(ids, held.ID)
	}
	slices.Sort(ids)
	return ids
}

// Close stops the host: streams end, waiting polls answer, requests in flight get a moment, and every connection and
// goroutine is gone when it returns. It is safe to call it again.
func (s *Server) Close() error {
	s.once.Do(func() {
		_ = s.host.Close() // it has nothing to report
		ctx, cancel := context.WithTimeout(context.Background(), shutdownGrace)
		defer cancel()
		if s.server.Shutdown(ctx) != nil {
			_ = s.server.Close() // whoever still hangs on is cut
		}
	})
	return s.Wait()
}

// Wait blocks until the server has stopped and returns why, nil when it was asked to.
func (s *Server) Wait() error {
	<-s.done
	return s.err
}
