package tamper

import (
	"bytes"
	"net/http"
	"strconv"
)

// Answer is a response as a whole. That of an event stream has no body here:
// only its status and headers can be edited before the frames follow.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Stream bool
}

// JSON decodes the body when it is a JSON object; numbers stay as they were
// written.
func (a *Answer) JSON() (map[string]any, bool) {
	if a.Stream {
		return nil, false
	}
	return decodeObject(a.Body)
}

// SetJSON makes a JSON value the body and application/json its type.
func (a *Answer) SetJSON(v any) {
	a.Body = Encode(v)
	a.Header.Set("Content-Type", "application/json")
}

// Refuse turns the answer into an error envelope. Headers that describe what
// was there before, such as an entity tag, are dropped.
func (a *Answer) Refuse(status int, code, message string) {
	for _, name := range []string{"ETag", "Content-Encoding", "Location"} {
		a.Header.Del(name)
	}
	a.Status = status
	a.SetJSON(map[string]any{"error": code, "message": message})
}

// Send writes the answer.
func (a *Answer) Send(w http.ResponseWriter) {
	h := w.Header()
	clear(h)
	for name, values := range a.Header {
		h[name] = values
	}
	h.Del("Content-Length")
	if !a.Stream && bodyAllowed(a.Status) {
		h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	}
	w.WriteHeader(a.Status)
	if !a.Stream && bodyAllowed(a.Status) {
		w.Write(a.Body) // the client is gone, and nobody is left to tell
	}
}

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// Record runs the handler and returns its answer instead of sending it. The
// handler must end by itself: an event stream of a live run does not.
func Record(next http.Handler, r *http.Request) *Answer {
	rec := &recorder{header: http.Header{}}
	next.ServeHTTP(rec, r)
	return rec.answer()
}

type recorder struct {
	header http.Header
	sent   http.Header // the headers as they were when the status went out
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status, r.sent = status, r.header.Clone()
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}

// FlushError lets a handler that insists on flushing run.
func (r *recorder) FlushError() error { return nil }

// Flush is FlushError for handlers that look for an http.Flusher.
func (r *recorder) Flush() {}

func (r *recorder) answer() *Answer {
	r.WriteHeader(http.StatusOK)
	return &Answer{Status: r.status, Header: r.sent, Body: r.body.Bytes()}
}

// Answers edits the answer to each selected request. An ordinary answer is
// held back and edited whole. Of an event stream the status and headers are
// edited, once, before the first byte goes out.
func Answers(m Match, edit func(*http.Request, *Answer)) Middleware {
	return Instead(m, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		h := &held{w: w, header: w.Header().Clone(), edit: func(a *Answer) { edit(r, a) }}
		next.ServeHTTP(h, r)
		h.finish()
	})
}

// JSON edits the body of each selected answer of one status that is a JSON
// object. A status of 0 selects all.
func JSON(m Match, status int, edit func(r *http.Request, doc map[string]any)) Middleware {
	return Answers(m, func(r *http.Request, a *Answer) {
		if status != 0 && a.Status != status {
			return
		}
		if doc, ok := a.JSON(); ok {
			edit(r, doc)
			a.SetJSON(doc)
		}
	})
}

// held keeps an answer back until it is complete, unless it is an event stream.
type held struct {
	w       http.ResponseWriter
	header  http.Header
	status  int
	body    bytes.Buffer
	streams bool
	edit    func(*Answer)
}

func (h *held) Header() http.Header { return h.header }

func (h *held) WriteHeader(status int) {
	if h.status != 0 {
		return
	}
	if status < 200 {
		h.w.WriteHeader(status)
		return
	}
	h.status = status
	if !isStream(h.header) {
		return
	}
	h.streams = true
	a := &Answer{Status: status, Header: h.header.Clone(), Stream: true}
	h.edit(a)
	if !a.Stream { // the edit made an ordinary answer of it; the frames are dropped
		a.Send(h.w)
		h.w = &sink{h.w}
		return
	}
	a.Send(h.w)
}

func (h *held) Write(p []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	if h.streams {
		return h.w.Write(p)
	}
	return h.body.Write(p)
}

// FlushError flushes what is being streamed; an ordinary answer waits.
func (h *held) FlushError() error {
	if h.streams {
		return http.NewResponseController(h.w).Flush()
	}
	return nil
}

// Flush is FlushError for handlers that look for an http.Flusher.
func (h *held) Flush() { h.FlushError() } // http.Flusher has no error

// Unwrap serves http.ResponseController.
func (h *held) Unwrap() http.ResponseWriter { return h.w }

func (h *held) finish() {
	h.WriteHeader(http.StatusOK)
	if h.streams {
		return
	}
	a := &Answer{Status: h.status, Header: h.header, Body: h.body.Bytes()}
	h.edit(a)
	a.Send(h.w)
}

// sink swallows what a handler writes after its answer has been replaced, and
// tells it that the client is gone, so that a stream ends.
type sink struct{ http.ResponseWriter }

func (s *sink) Write([]byte) (int, error) { return 0, http.ErrHandlerTimeout }
func (s *sink) WriteHeader(int)           {}

// Flush does nothing: the answer is complete.
func (s *sink) Flush() {}

// FlushError reports that nothing can be sent any more.
func (s *sink) FlushError() error { return http.ErrHandlerTimeout }
