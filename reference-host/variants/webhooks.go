package variants

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// subscriptions are the webhooks of a host, by their ids. Nothing is ever sent.
type subscriptions struct {
	mu      sync.Mutex
	minted  int
	held    map[string]bool
	tenants map[string]string // by Authorization
}

// webhooks puts registrations of webhooks in front of a host.
func webhooks() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		s := &subscriptions{held: map[string]bool{}, tenants: map[string]string{}}
		return tamper.Chain(
			document(func(doc object) {
				doc["webhooks"] = object{"status": "stable", "since": "2.0", "witness": "seam-gated", "signatureAlgorithms": []any{"v1"}}
			}),
			tamper.Instead(tamper.Op(http.MethodPost, "/webhooks"), s.register),
			tamper.Instead(tamper.Op(http.MethodDelete, "/webhooks/{}"), s.unregister),
		)(next)
	}
}

// tenant is that of the caller, as the id of a run of the caller's says.
func (s *subscriptions) tenant(next http.Handler, r *http.Request) string {
	key := r.Header.Get("Authorization")
	s.mu.Lock()
	tenant, known := s.tenants[key]
	s.mu.Unlock()
	if known {
		return tenant
	}
	made, _ := tamper.Ask(next, r, http.MethodPost, "/runs", object{"workflowId": "conformance-noop"}).JSON()
	tenant, _, _ = strings.Cut(text(made["runId"]), "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tenants[key] = tenant
	return tenant
}

// reply is an answer with the headers every answer of the host has.
func reply(next http.Handler, r *http.Request) *tamper.Answer {
	a := tamper.Ask(next, r, http.MethodGet, "/workflows/conformance-noop", nil)
	a.Header.Del("ETag")
	return a
}

func (s *subscriptions) register(w http.ResponseWriter, r *http.Request, next http.Handler) {
	a := reply(next, r)
	doc, ok := tamper.BodyJSON(r)
	switch {
	case a.Status != http.StatusOK: // the caller is nobody
	case !ok:
		a.Refuse(http.StatusBadRequest, "validation_error", "the body is no object")
	case !public(text(doc["url"])):
		a.Refuse(http.StatusBadRequest, "webhook_url_rejected", "the address is not one of the public network")
	default:
		tenant := s.tenant(next, r)
		s.mu.Lock()
		s.minted++
		id := tenant + "/" + pad(uint64(s.minted), 20, "0")
		s.held[id] = true
		s.mu.Unlock()
		a.Status = http.StatusCreated
		a.SetJSON(object{"webhookId": id, "url": doc["url"], "events": doc["events"], "secret": "whsec_" + strconv.Itoa(s.minted) + "0123456789abcdef"})
	}
	a.Send(w)
}

// public reports whether an address leads to the public network over TLS.
func public(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Hostname() == "localhost" {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return net.ParseIP(u.Hostname()) == nil && strings.Contains(u.Hostname(), ".")
	}
	ip = ip.Unmap()
	return ip.IsGlobalUnicast() && !ip.IsPrivate()
}

func (s *subscriptions) unregister(w http.ResponseWriter, r *http.Request, next http.Handler) {
	a := reply(next, r)
	segment := strings.TrimPrefix(r.URL.EscapedPath(), "/webhooks/")
	id := strings.NewReplacer("~2F", "/", "%2F", "/", "%2f", "/").Replace(segment)
	tenant := ""
	if a.Status == http.StatusOK {
		tenant = s.tenant(next, r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	named, _, bound := strings.Cut(id, "/")
	switch {
	case a.Status != http.StatusOK:
	case !bound:
		a.Refuse(http.StatusBadRequest, "validation_error", "the id is not bound to a tenant")
	case named != tenant:
		a.Refuse(http.StatusForbidden, "id_tenant_mismatch", "the id is of another tenant")
	case !s.held[id]:
		a.Refuse(http.StatusNotFound, "not_found", "no such webhook")
	default:
		delete(s.held, id)
		a.Status, a.Body = http.StatusNoContent, nil
	}
	a.Send(w)
}

// ledger reports one effect for each node that has completed in a run of the
// fixture about effects.
func ledger() tamper.Middleware {
	return tamper.Chain(
		document(func(doc object) {
			doc["idempotency"] = object{"status": "stable", "since": "2.0", "witness": "seam-gated", "crossRegion": "single-region"}
		}),
		tamper.Instead(tamper.Op(http.MethodGet, "/runs/{}/effects"), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			run := tamper.Ask(next, r, http.MethodGet, "/runs/"+tamper.RunSegment(r), nil)
			doc, _ := run.JSON()
			if run.Status != http.StatusOK {
				run.Send(w)
				return
			}
			log, _ := tamper.Ask(next, r, http.MethodGet, "/runs/"+tamper.RunSegment(r)+"/events/poll", nil).JSON()
			list, _ := log["events"].([]any)
			effects := []any{}
			for _, v := range list {
				e, _ := v.(object)
				payload, _ := e["payload"].(object)
				if e["type"] == "node.completed" && doc["workflowId"] == "conformance-replay-side-effect" {
					tenant, _, _ := strings.Cut(text(doc["runId"]), "/")
					effects = append(effects, object{
						"effectId": tenant + "/" + text(e["eventId"]), "nodeId": payload["nodeId"], "state": "completed", "kind": "http",
					})
				}
			}
			run.Header.Del("ETag")
			run.SetJSON(object{"runId": doc["runId"], "effects": effects})
			run.Send(w)
		}),
	)
}

func registrationVariants() []Variant {
	return []Variant{
		grant("webhooks-on", "webhooks.md", "Registration", "The host takes registrations of webhooks.", webhooks()).opening(
			requirements.R0187BoundIdKindsWebhook, requirements.R0187BoundIdKindsWebhookEmitted, requirements.R0171WebhookEgressRefused),
		made("idempotency-on", "idempotency.md", "Layer 2: effect identity", "The host reports the effects of runs.",
			holding(oneNode("conformance-replay-side-effect", "Has one effect after delayMs milliseconds.", "core.delay", "delayMs",
				object{"type": "number", "defaultValue": 50}, object{"minDelayMs": 0, "maxDelayMs": 30000}),
			)).front(ledger()).opening(requirements.R0158DuplicateDelivery),
	}
}
