package harness

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Hop is one step on the way to a host. Failed says why it is the last one.
type Hop struct {
	Name    string        // name, connection, tls or discovery
	Detail  string        // what was found
	Elapsed time.Duration // 0 for a step that there was no need for
	Failed  bool
}

// way is what the connection of a discovery request tells of itself. Its callbacks
// come from several goroutines, and may come late.
type way struct {
	mu                              sync.Mutex
	began, lookedUp                 time.Time
	lookupErr                       error
	addresses                       []string
	dialled                         map[string]time.Time
	tried                           []string // addresses that did not connect, with the reason
	connected                       string
	connectTook                     time.Duration
	tlsBegan, tlsDone, wrote, heard time.Time
	tlsState                        *tls.ConnectionState
	tlsErr                          error
}

func newWay() *way { return &way{dialled: map[string]time.Time{}} }

func (w *way) locked(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *way) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSStart: func(httptrace.DNSStartInfo) { w.locked(func() { w.began = time.Now() }) },
		DNSDone: func(info httptrace.DNSDoneInfo) {
			w.locked(func() {
				w.lookedUp, w.lookupErr = time.Now(), info.Err
				for _, a := range info.Addrs {
					w.addresses = append(w.addresses, a.String())
				}
			})
		},
		ConnectStart: func(_, address string) { w.locked(func() { w.dialled[address] = time.Now() }) },
		ConnectDone: func(_, address string, err error) {
			w.locked(func() {
				switch {
				case err != nil && w.connected == "":
					w.tried = append(w.tried, address+" ("+dialReason(err)+")")
				case err == nil && w.connected == "":
					w.connected, w.connectTook = address, time.Since(w.dialled[address])
				}
			})
		},
		TLSHandshakeStart: func() { w.locked(func() { w.tlsBegan = time.Now() }) },
		TLSHandshakeDone: func(state tls.ConnectionState, err error) {
			w.locked(func() { w.tlsDone, w.tlsState, w.tlsErr = time.Now(), &state, err })
		},
		WroteRequest:         func(httptrace.WroteRequestInfo) { w.locked(func() { w.wrote = time.Now() }) },
		GotFirstResponseByte: func() { w.locked(func() { w.heard = time.Now() }) },
	}
}

// dialReason is why a connection was not made, without the address.
func dialReason(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err.Error()
	}
	return err.Error()
}

// hops tells the way in steps, as far as it led. The one that failed is the last.
func (w *way) hops(base *url.URL, host *Host, err error) []Hop {
	w.mu.Lock()
	defer w.mu.Unlock()
	var hops []Hop
	step := func(name, detail string, took time.Duration, failed bool) bool {
		hops = append(hops, Hop{Name: name, Detail: detail, Elapsed: took, Failed: failed})
		return failed
	}
	switch {
	case w.began.IsZero():
		step("name", "an address, with nothing to look up", 0, false)
	case w.lookedUp.IsZero():
		step("name", "the resolver did not answer", time.Since(w.began), true)
	case w.lookupErr != nil:
		step("name", w.lookupErr.Error(), w.lookedUp.Sub(w.began), true)
	default:
		step("name", strings.Join(w.addresses, ", "), w.lookedUp.Sub(w.began), false)
	}
	if hops[0].Failed {
		return hops
	}
	if w.connected == "" {
		step("connection", w.unconnected(err), 0, true)
		return hops
	}
	detail := w.connected
	if len(w.tried) > 0 {
		detail += "; not " + strings.Join(w.tried, ", ")
	}
	step("connection", detail, w.connectTook, false)
	if base.Scheme != "https" {
		step("tls", "none: the address is plain http", 0, false)
	} else if step(w.handshake()) {
		return hops
	}
	if err != nil {
		step("discovery", err.Error(), 0, true)
		return hops
	}
	d := host.Discovery
	step("discovery", fmt.Sprintf("%d bytes at %s", len(d.Raw), d.URL), w.heard.Sub(w.wrote), false)
	return hops
}

// unconnected is why no connection came about.
func (w *way) unconnected(err error) string {
	if len(w.tried) > 0 {
		return strings.Join(w.tried, ", ")
	}
	var pending []string
	for address := range w.dialled {
		pending = append(pending, address+" (no answer)")
	}
	if len(pending) > 0 {
		return strings.Join(pending, ", ")
	}
	return fmt.Sprint(err)
}

func (w *way) handshake() (name, detail string, took time.Duration, failed bool) {
	switch {
	case w.tlsDone.IsZero():
		return "tls", "the handshake did not end", 0, true
	case w.tlsErr != nil:
		return "tls", w.tlsErr.Error(), w.tlsDone.Sub(w.tlsBegan), true
	}
	detail = tls.VersionName(w.tlsState.Version)
	if chain := w.tlsState.PeerCertificates; len(chain) > 0 {
		detail += ", certificate valid until " + chain[0].NotAfter.UTC().Format(time.DateOnly)
	}
	return "tls", detail, w.tlsDone.Sub(w.tlsBegan), false
}

// clock is by how much the host's clock is ahead of ours: its date, which is cut to
// the second, less the middle of the exchange.
func (w *way) clock(date string) *time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, err := http.ParseTime(date)
	if err != nil || w.wrote.IsZero() || w.heard.IsZero() {
		return nil
	}
	ahead := at.Add(500 * time.Millisecond).Sub(w.wrote.Add(w.heard.Sub(w.wrote) / 2)).Round(100 * time.Millisecond)
	return &ahead
}
