package faults

import (
	"net/http"
	"strings"
	"sync"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
)

// The operations of webhooks.
func registerHook() tamper.Match   { return tamper.Op(http.MethodPost, "/webhooks") }
func unregisterHook() tamper.Match { return tamper.Op(http.MethodDelete, "/webhooks/{}") }
func deadLetters() tamper.Match    { return tamper.Op(http.MethodGet, "/webhooks/{}/dead-letters") }
func rotateSecret() tamper.Match   { return tamper.Op(http.MethodPost, "/webhooks/{}/rotate-secret") }

// askingHook edits the body of every registration.
func askingHook(edit func(doc object)) tamper.Middleware {
	return tamper.Requests(registerHook(), func(r *http.Request) {
		if doc, ok := tamper.BodyJSON(r); ok {
			edit(doc)
			tamper.SetBodyJSON(r, doc)
		}
	})
}

// answeringHook edits the answer to every registration that was accepted, knowing what was asked.
func answeringHook(edit func(asked object, a *tamper.Answer)) tamper.Middleware {
	return tamper.Instead(registerHook(), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		asked, _ := tamper.BodyJSON(r)
		a := tamper.Record(next, r)
		if a.Status == http.StatusCreated {
			edit(asked, a)
		}
		a.Send(w)
	})
}

// decorators makes one decorator of several.
func decorators(parts ...func(*referencehost.Config)) func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		for _, part := range parts {
			part(c)
		}
	}
}

// notes are a map that requests and deliveries share.
type notes[V any] struct {
	mu   sync.Mutex
	held map[string]V
}

func (m *notes[V]) put(key string, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held == nil {
		m.held = make(map[string]V)
	}
	m.held[key] = value
}

func (m *notes[V]) get(key string) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok := m.held[key]
	return value, ok
}

// hookSegment is the id of a webhook in a path.
func hookSegment(r *http.Request) string {
	segment, _, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/webhooks/"), "/")
	return strings.NewReplacer("~2F", "/", "%2F", "/", "%2f", "/").Replace(segment)
}
