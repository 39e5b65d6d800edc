package faults

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/internal/token"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// insider knows what the host it breaks is made with: its keys and the secrets
// of its tokens.
type insider struct {
	mu   sync.Mutex
	keys map[string]string
	ring *token.Ring
}

func (k *insider) learn(c *referencehost.Config) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys = map[string]string{}
	for _, key := range c.Keys {
		k.keys[key.Name] = key.Key
	}
	k.ring, _ = token.NewRing(c.TokenSecrets) // a host without any does not start
}

// bearer is the credential of a key by its name.
func (k *insider) bearer(name string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return "Bearer " + k.keys[name]
}

func (k *insider) mint(claims token.Claims) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ring.Mint(claims)
}

// genuine reports whether the host has made a token.
func (k *insider) genuine(text string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, err := k.ring.Open(text)
	return err == nil
}

// by reports whether a request comes with a key.
func (k *insider) by(r *http.Request, name string) bool {
	return r.Header.Get("Authorization") == k.bearer(name)
}

// run is the snapshot of a run, by its path segment, as tenant A sees it.
func (k *insider) run(next http.Handler, r *http.Request, segment string) object {
	doc, _ := tamper.Ask(next, r, http.MethodGet, "/runs/"+segment, nil, "Authorization", k.bearer(referencehost.KeyTenantA)).JSON()
	return doc
}

// asked is the data of the first interrupt of a run.
func (k *insider) asked(next http.Handler, r *http.Request, segment string) object {
	doc, _ := tamper.Ask(next, r, http.MethodGet, "/runs/"+segment+"/events/poll?timeout=1", nil, "Authorization", k.bearer(referencehost.KeyTenantA)).JSON()
	events, _ := doc["events"].([]any)
	for _, v := range events {
		if e, _ := v.(object); e["type"] == "interrupt.requested" {
			p, _ := e["payload"].(object)
			data, _ := p["data"].(object)
			return data
		}
	}
	return nil
}

// inside is a fault on the wire that takes an insider.
func inside(id, summary, reason string, wrap func(k *insider) tamper.Middleware, breaks ...requirements.ID) Fault {
	k := new(insider)
	return Fault{ID: id, Summary: summary, Reason: reason, Wrap: wrap(k), Decorate: k.learn, Breaks: breaks}
}

// The operations on interrupts.
func resolveByRun(r *http.Request) bool {
	return tamper.Op(http.MethodPost, "/runs/{}/interrupts/{}")(r)
}
func inspectByToken(r *http.Request) bool { return tamper.Op(http.MethodGet, "/interrupts/{}")(r) }
func resolveByToken(r *http.Request) bool { return tamper.Op(http.MethodPost, "/interrupts/{}")(r) }
func byToken(r *http.Request) bool        { return inspectByToken(r) || resolveByToken(r) }
func resolving(r *http.Request) bool      { return resolveByRun(r) || resolveByToken(r) }

// nodeIn is the node in the path of a run-scoped resolve.
func nodeIn(r *http.Request) string {
	_, node, _ := strings.Cut(r.URL.EscapedPath(), "/interrupts/")
	node, _ = url.PathUnescape(node)
	return node
}

// at selects resolves at a node.
func at(node string) tamper.Match {
	return func(r *http.Request) bool { return resolveByRun(r) && nodeIn(r) == node }
}

// presented is the token in the path of a request.
func presented(r *http.Request) string {
	text, _ := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), "/interrupts/"))
	return text
}

// claimed is what a token says, whether or not it is to be believed.
func claimed(text string) (claims token.Claims, ok bool) {
	parts := strings.Split(text, ".")
	if len(parts) < 2 {
		return claims, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[len(parts)-2])
	return claims, err == nil && json.Unmarshal(payload, &claims) == nil && claims.RunID != ""
}

// segmentFor is the path segment of a run id.
func segmentFor(runID string) string { return strings.ReplaceAll(runID, "/", "~2F") }

// segmentIn is the path segment of the run that a request on an interrupt is
// about.
func segmentIn(r *http.Request) string {
	if byToken(r) {
		claims, _ := claimed(presented(r))
		return segmentFor(claims.RunID)
	}
	return tamper.RunSegment(r)
}

// given is the resume value of a resolve.
func given(r *http.Request) object {
	doc, _ := tamper.BodyJSON(r)
	value, _ := doc["resumeValue"].(object)
	return value
}

// settled selects answers of a status and, for a refusal, a code, and edits
// them; when looks at the request, its body included.
func settled(m tamper.Match, status int, code string, when func(r *http.Request, doc object, next http.Handler) bool, edit func(a *tamper.Answer)) tamper.Middleware {
	return tamper.Instead(m, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		body := tamper.Body(r)
		a := tamper.Record(next, r)
		tamper.SetBody(r, body)
		doc, _ := a.JSON()
		if a.Status == status && (code == "" || doc["error"] == code) && (when == nil || when(r, doc, next)) {
			edit(a)
		}
		a.Send(w)
	})
}

// accepted makes an answer one of success that changes nothing.
func accepted(a *tamper.Answer) {
	a.Status = http.StatusOK
	a.SetJSON(object{"status": "running"})
}

// recoded makes an answer another refusal.
func recoded(status int, code string) func(*tamper.Answer) {
	return func(a *tamper.Answer) { a.Refuse(status, code, "no") }
}

// raised edits the payload of every interrupt the host shows: in its events and to
// who inspects.
func raised(edit func(p object)) tamper.Middleware {
	return tamper.Chain(
		tamper.Events(func(e map[string]any) bool {
			switch e["type"] {
			case "interrupt.requested", "approval.requested", "clarification.requested":
				if p, ok := e["payload"].(object); ok {
					edit(p)
				}
			}
			return true
		}),
		tamper.JSON(inspectByToken, http.StatusOK, func(_ *http.Request, doc map[string]any) { edit(doc) }),
	)
}

// shown edits the payload of events of a type.
func shown(edit func(p object), types ...string) tamper.Middleware {
	return tamper.Events(func(e map[string]any) bool {
		for _, typ := range types {
			if p, ok := e["payload"].(object); ok && e["type"] == typ {
				edit(p)
			}
		}
		return true
	})
}

// dataOf is the data of an interrupt's payload.
func dataOf(p object) object {
	data, _ := p["data"].(object)
	return data
}
