package harness

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"wopcert/harness/receiver"
)

// reachability is whether the host can reach the receiver, found out once.
type reachability struct {
	once   sync.Once
	reason string
	called bool // the host's own call arrived
}

// reachWait is how long the probe's delivery may take, in all, where the
// receiver leaves it open.
const reachWait = 20 * time.Second

// reachFixture is the workflow whose run the probe subscribes to.
const reachFixture = "conformance-noop"

// reachable reports whether tests may rely on the receiver, and why not. Only
// what shows that the host cannot get there closes the gate: a host that could
// and does not is for the tests to find.
func (r *run) reachable(ctx context.Context) (reason string, open bool) {
	r.reach.once.Do(func() { r.reach.reason = r.probe(ctx) })
	return r.reach.reason, r.reach.reason == ""
}

func (r *run) probe(ctx context.Context) string {
	server := r.receiver.Server
	switch {
	case server == nil:
		return noReceiver
	case r.receiver.Trusted:
		return ""
	case loopback(server.URL()) && !loopback(r.host.Base):
		return fmt.Sprintf("the receiver at %s is on this machine's loopback, where the host at %s cannot reach it; give --receiver-url with an address the host can reach",
			server.Origin(), r.host.Base.Host)
	case !r.host.Discovery.Advertises("webhooks") || !r.credentials.Has(Primary) || !slices.Contains(r.host.Discovery.Fixtures(), reachFixture):
		return "" // nothing to probe with
	}
	t := &T{run: r, scenario: "receiver", test: "reachability", log: &observations{}, tape: r.capture.tape("receiver", "reachability")}
	defer t.log.close("")
	patience := reachWait
	if r.receiver.Patience > 0 {
		patience = r.receiver.Patience
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	t.ctx = ctx
	e, err := server.Endpoint(nil)
	if err != nil {
		return err.Error()
	}
	e.Record(inbound{t.tape, e.URL()})
	defer e.Close()
	return t.probeWith(e, server)
}

// probeWith subscribes the endpoint to the events of a run and waits for the
// first delivery.
func (t *T) probeWith(e *receiver.Endpoint, server *receiver.Server) string {
	registered := t.Do(Request{Method: "POST", Path: "/webhooks", Body: map[string]any{
		"url": e.URL(), "events": []string{"run.started", "run.completed"}, "secret": t.SigningSecret(0)}})
	if registered.Refuses("webhook_url_rejected").OK {
		if why := refusable(t.ctx, server.URL()); why != "" {
			return fmt.Sprintf("the host refuses the receiver's address: %s is %s; give --receiver-url with a public https address, or let the host's operator exempt it and say so with --receiver-trusted",
				server.Origin(), why)
		}
	}
	if registered.Status != http.StatusCreated {
		return ""
	}
	if id := registered.Text("webhookId"); id != "" {
		defer t.Do(Request{Method: "DELETE", Path: "/webhooks/" + url.PathEscape(id)})
	}
	if made := t.Do(Request{Method: "POST", Path: "/runs", Body: map[string]any{"workflowId": reachFixture}}); made.Status != http.StatusCreated {
		return ""
	}
	if _, ok := e.Wait(t.ctx, 1); ok {
		t.run.reach.called = true
		return ""
	}
	if n := server.HandshakeFailures(); n > 0 {
		return fmt.Sprintf("%d connections reached the receiver and ended in the TLS handshake: the host does not trust the receiver's certificate; give --receiver-cert and --receiver-key of a certificate it trusts", n)
	}
	if err := leadsHere(e); err != nil {
		return fmt.Sprintf("nothing reached the receiver in time, and its own address does not lead to it (%v); give --receiver-url with an address that does", err)
	}
	return ""
}

// leadsHere sends a request to an endpoint from this side.
func leadsHere(e *receiver.Endpoint) error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // only where it leads is asked
	}}
	defer client.CloseIdleConnections()
	before := e.Count()
	res, err := client.Get(e.URL())
	if err != nil {
		return err
	}
	res.Body.Close()
	if e.Count() == before {
		return fmt.Errorf("something else answered %d there", res.StatusCode)
	}
	return nil
}

func loopback(u *url.URL) bool {
	if u.Hostname() == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.Unmap().IsLoopback()
}

// refusable says why webhooks.md §Egress lets a host refuse an address, "" when
// nothing there does.
func refusable(ctx context.Context, u *url.URL) string {
	if u.Scheme != "https" {
		return "not https"
	}
	if u.Hostname() == "localhost" {
		return "localhost"
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return "a name that does not resolve"
	}
	for _, ip := range ips {
		ip = ip.Unmap()
		if ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsUnspecified() {
			return "a loopback, private or link-local address"
		}
	}
	return ""
}
