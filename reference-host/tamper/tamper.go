// Package tamper changes what an http.Handler receives and answers without the
// handler knowing: the means by which a correct host is broken on purpose, or
// made to use a freedom it does not use by itself.
//
// Every function returns a middleware. What a middleware has to remember
// between requests belongs to the handler it wrapped, so that two hosts never
// share it. Event streams are never buffered: what the handler flushes is
// flushed to the client, and a client that goes away is seen by the handler.
package tamper

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Middleware wraps a handler in another one.
type Middleware = func(http.Handler) http.Handler

// Chain joins middlewares; the first one is the outermost, which sees a
// request first and an answer last.
func Chain(parts ...Middleware) Middleware {
	return func(h http.Handler) http.Handler {
		for i := len(parts) - 1; i >= 0; i-- {
			h = parts[i](h)
		}
		return h
	}
}

// Match selects requests.
type Match func(*http.Request) bool

// Any selects every request.
func Any(*http.Request) bool { return true }

// Op selects one operation by method and path. A "{}" segment of the path
// stands for exactly one segment as it was written on the wire, so that an id
// with an escaped slash is one segment. An empty method selects all.
func Op(method, path string) Match {
	want := strings.Split(path, "/")
	return func(r *http.Request) bool {
		if method != "" && r.Method != method {
			return false
		}
		got := strings.Split(r.URL.EscapedPath(), "/")
		if len(got) != len(want) {
			return false
		}
		for i, w := range want {
			if w != got[i] && (w != "{}" || got[i] == "") {
				return false
			}
		}
		return true
	}
}

// Or selects what any of the given ones selects.
func Or(matches ...Match) Match {
	return func(r *http.Request) bool {
		for _, m := range matches {
			if m(r) {
				return true
			}
		}
		return false
	}
}

// And selects what all of the given ones select.
func And(matches ...Match) Match {
	return func(r *http.Request) bool {
		for _, m := range matches {
			if !m(r) {
				return false
			}
		}
		return true
	}
}

// Not selects what the given one does not.
func Not(m Match) Match { return func(r *http.Request) bool { return !m(r) } }

// HasHeader selects requests that carry a header.
func HasHeader(name string) Match {
	return func(r *http.Request) bool { return len(r.Header.Values(name)) > 0 }
}

// Requests edits a copy of each selected request before the handler sees it.
func Requests(m Match, edit func(*http.Request)) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if m(r) {
				r = r.Clone(r.Context())
				edit(r)
			}
			next.ServeHTTP(w, r)
		})
	}
}

// Instead hands each selected request to a function that may use the handler
// or answer without it.
func Instead(m Match, serve func(w http.ResponseWriter, r *http.Request, next http.Handler)) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if m(r) {
				serve(w, r, next)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// Body reads the whole body of a request and leaves an equal one in its place.
func Body(r *http.Request) []byte {
	if r.Body == nil {
		return nil
	}
	data, _ := io.ReadAll(r.Body) // what did not come is the handler's to judge, and it sees the same end
	SetBody(r, data)
	return data
}

// SetBody replaces the body of a request.
func SetBody(r *http.Request, data []byte) {
	r.Body = io.NopCloser(bytes.NewReader(data))
	r.ContentLength = int64(len(data))
	if r.Header.Get("Content-Length") != "" {
		r.Header.Set("Content-Length", strconv.Itoa(len(data)))
	}
}

// BodyJSON decodes the body of a request when it is a JSON object, and leaves
// the body in place.
func BodyJSON(r *http.Request) (map[string]any, bool) { return decodeObject(Body(r)) }

// SetBodyJSON replaces the body of a request by a JSON value.
func SetBodyJSON(r *http.Request, v any) { SetBody(r, Encode(v)) }

// SetQuery sets one query parameter of a request, or removes it when the value
// is empty.
func SetQuery(r *http.Request, name, value string) {
	q := r.URL.Query()
	if value == "" {
		q.Del(name)
	} else {
		q.Set(name, value)
	}
	u := *r.URL
	u.RawQuery = q.Encode()
	r.URL = &u
}

// SetPath sets the path of a request from its escaped form. A path that is not
// well formed is left as it was.
func SetPath(r *http.Request, escaped string) {
	path, err := url.PathUnescape(escaped)
	if err != nil {
		return
	}
	u := *r.URL
	u.Path, u.RawPath = path, escaped
	r.URL = &u
}

// Ask sends the handler a request of its own with the credential and the
// protocol version of the given one, and returns the answer. A nil body sends
// none. The header pairs are added.
func Ask(next http.Handler, like *http.Request, method, escapedPath string, body any, headers ...string) *Answer {
	return ask(like.Context(), next, like, method, escapedPath, body, headers)
}

func ask(ctx context.Context, next http.Handler, like *http.Request, method, escapedPath string, body any, headers []string) *Answer {
	r := like.Clone(ctx)
	r.Method = method
	r.Header = http.Header{}
	for _, name := range []string{"Authorization", "OpenWOP-Version"} {
		if v := like.Header.Values(name); len(v) > 0 {
			r.Header[http.CanonicalHeaderKey(name)] = v
		}
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	path, query, _ := strings.Cut(escapedPath, "?")
	SetPath(r, path)
	r.URL.RawQuery = query
	r.RequestURI = escapedPath
	r.Body, r.ContentLength = http.NoBody, 0
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
		SetBodyJSON(r, body)
	}
	return Record(next, r)
}

// Encode writes a value as compact JSON without HTML escapes. A value that is
// no JSON is a defect of the caller and panics.
func Encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("tamper: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Decode reads one JSON value with its numbers as they were written, nil when
// it is none.
func Decode(data []byte) any {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return nil
	}
	return v
}

func decodeObject(data []byte) (map[string]any, bool) {
	m, ok := Decode(data).(map[string]any)
	return m, ok
}

func isStream(h http.Header) bool {
	ct, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return ct == "text/event-stream"
}
