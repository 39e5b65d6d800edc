package variants

import (
	"net/http"
	"strings"
	"sync"

	"wopcert/corpus"
	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// olderVersion is the version of major 1 that a host of both majors lists.
const olderVersion = "1.9"

// DualStack serves major 1 below /v1 and at the well-known resource, beside
// major 2. A run of either is a run of the other; under major 1 its id is bare.
func DualStack() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		contract, err := corpus.Load()
		if err != nil {
			panic(err) // the host before it has loaded the same contract
		}
		host := &dualHost{contract: contract, tenants: map[string]string{}}
		return tamper.Chain(host.majorOne, host.listing)(next)
	}
}

// dualHost remembers which tenant a credential belongs to.
type dualHost struct {
	contract *corpus.Corpus
	mu       sync.Mutex
	tenants  map[string]string // by Authorization
}

// listing makes the host list both majors, in every place where that shows.
func (h *dualHost) listing(next http.Handler) http.Handler {
	versions := func(own any) []any {
		list, _ := own.([]any)
		return append([]any{olderVersion}, list...)
	}
	return tamper.Chain(
		document(func(doc object) {
			doc["protocolVersions"], doc["preferredVersion"] = versions(doc["protocolVersions"]), olderVersion
			delete(doc, "protocolVersion")
		}),
		tamper.JSON(tamper.Any, http.StatusNotAcceptable, func(_ *http.Request, doc map[string]any) {
			if details, ok := doc["details"].(object); ok {
				details["protocolVersions"] = versions(details["protocolVersions"])
			}
		}),
	)(next)
}

// majorOne answers what is asked under major 1.
func (h *dualHost) majorOne(next http.Handler) http.Handler {
	next = tamper.JSON(tamper.CreateRun, http.StatusCreated, func(r *http.Request, doc map[string]any) {
		tenant, _, _ := strings.Cut(text(doc["runId"]), "/")
		h.mu.Lock()
		defer h.mu.Unlock()
		h.tenants[r.Header.Get("Authorization")] = tenant
	})(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		major, _, _ := strings.Cut(r.Header.Get("OpenWOP-Version"), ".")
		rest, older := strings.CutPrefix(r.URL.EscapedPath(), "/v1/")
		switch {
		case tamper.Discovery(r) && (major == "" || major == "1"):
			olderDocument(tamper.Ask(next, major2(r), http.MethodGet, "/.well-known/openwop", nil)).Send(w)
		case older && (major == "" || major == "1"):
			h.serve(w, r, "/"+rest, next)
		case major == "1":
			a := tamper.Record(next, major2(r))
			a.Refuse(http.StatusBadRequest, "protocol_version_mismatch", "what is asked for under major 1 is below /v1")
			a.Header.Set("OpenWOP-Version", olderVersion)
			a.Send(w)
		default:
			next.ServeHTTP(w, h.bound(r))
		}
	})
}

// olderDocument is the discovery document as major 1 has it.
func olderDocument(a *tamper.Answer) *tamper.Answer {
	doc, _ := a.JSON()
	a.Header.Del("ETag")
	a.Header.Set("OpenWOP-Version", olderVersion)
	a.Status = http.StatusOK
	a.SetJSON(object{
		"protocolVersion": olderVersion, "protocolVersions": doc["protocolVersions"], "preferredVersion": olderVersion,
		"supportedEnvelopes": []any{"error"}, "schemaVersions": object{},
		"limits": object{"clarificationRounds": 1, "schemaRounds": 1, "envelopesPerTurn": 1},
	})
	return a
}

// major2 is a request as a client of major 2 would make it.
func major2(r *http.Request) *http.Request {
	r = r.Clone(r.Context())
	r.Header.Set("OpenWOP-Version", "2")
	return r
}

// bound resolves a bare run id under the caller's tenant, as a host does while
// it serves major 1 (identity.md §5).
func (h *dualHost) bound(r *http.Request) *http.Request {
	bare := tamper.RunSegment(r)
	h.mu.Lock()
	tenant := h.tenants[r.Header.Get("Authorization")]
	h.mu.Unlock()
	if bare == "" || tenant == "" || strings.ContainsAny(bare, "~%") {
		return r
	}
	r = r.Clone(r.Context())
	tamper.SetRunSegment(r, tenant+"~2F"+bare)
	return r
}

// serve answers a request below /v1, where ids are bare and events go by their
// version 1 names (persistence.md, "The v1 wire of an era-3 log").
func (h *dualHost) serve(w http.ResponseWriter, r *http.Request, path string, next http.Handler) {
	next = tamper.Events(func(e map[string]any) bool {
		if v1, ok := h.contract.EventToV1(text(e["type"])); ok {
			e["type"] = v1
		}
		return true
	})(next)
	r = major2(r)
	tamper.SetPath(r, path)
	r = h.bound(r)
	if strings.HasSuffix(path, "/events") { // a stream has no end to wait for
		next.ServeHTTP(w, r)
		return
	}
	a := tamper.Record(next, r)
	a.Header.Set("OpenWOP-Version", olderVersion)
	if doc, ok := a.JSON(); ok {
		if _, opaque, bound := strings.Cut(text(doc["runId"]), "/"); bound {
			doc["runId"] = opaque
			a.SetJSON(doc)
		}
	}
	a.Send(w)
}

func overlapVariants() []Variant {
	v := grant("dual-stack", "versioning.md", "1.1 Advertisement", "The host serves majors 1 and 2 side by side.", DualStack(),
		requirements.VersioningSingleMajorTwin)
	v.Decorate = func(c *referencehost.Config) { c.Webhooks.LegacyHeaders = true }
	return []Variant{v.opening(
		requirements.R0172PreferredVersionDefaultOverlap, requirements.R0172AdvertisedPathSpaceServed,
		requirements.R0172DualStackNegotiationCrossMajorRead, requirements.WebhooksDualEmission, requirements.PersistenceV1WireInverted,
	)}
}
