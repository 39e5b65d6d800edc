package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	ordinary "github.com/r3labs/sse/v2"

	"wopcert/harness/sse"
)

// MaxReceived bounds, in bytes, one event an ordinary client can take. A longer
// one it refuses, which says nothing about the host.
const MaxReceived = 1 << 20

// Received is an event as an ordinary event stream client hands it over: with
// the id of an earlier event where its own frame had none, and without any
// trace of comments, of the tail or of who closed the stream.
type Received struct {
	ID    string
	Event string
	Data  string
}

// Subscribe opens an event stream with the client library that many programs
// use and returns what that library delivered, in order. It ends when until is
// satisfied, when the host closes the stream, or after the request's Timeout,
// headerTimeout when 0; nothing is retried. The error is the library's, nil
// for a stream that ended properly or that until ended. What crossed the wire
// is recorded like any stream.
//
// Frames are judged with Stream: this client merges, completes and hides. It
// shows only whether what a host sends reaches a client that is not ours.
func (t *T) Subscribe(r Request, until func(Received) bool) ([]Received, error) {
	within := headerTimeout
	if r.Timeout > 0 {
		within = r.Timeout
	}
	ctx, cancel := context.WithTimeout(t.ctx, within)
	defer cancel()
	req, _, err := t.run.client.build(ctx, r)
	if err != nil {
		return nil, err
	}
	w := &wiretap{t: t, next: t.run.client.stream.Transport, cancel: cancel}
	defer w.file()
	c := ordinary.NewClient(req.URL.String(), ordinary.ClientMaxBufferSize(MaxReceived))
	c.ReconnectStrategy = once{}
	c.Connection = &http.Client{Transport: w, CheckRedirect: t.run.client.stream.CheckRedirect}
	for name, values := range req.Header {
		c.Headers[name] = strings.Join(values, ", ")
	}
	c.Headers["Accept"] = "text/event-stream"
	if accept := r.Header.Get("Accept"); accept != "" {
		c.Headers["Accept"] = accept
	}
	var events []Received
	stopped := false
	err = c.SubscribeRawWithContext(ctx, func(e *ordinary.Event) {
		// A block without data is no event, whatever id the client lends it.
		if stopped || len(e.Data) == 0 {
			return
		}
		event := Received{ID: string(e.ID), Event: string(e.Event), Data: string(e.Data)}
		events = append(events, event)
		if until != nil && until(event) {
			stopped = true
			cancel()
		}
	})
	switch {
	case stopped:
		return events, nil
	case w.stream != nil && w.stream.closure == ClosedAtLimit:
		return events, fmt.Errorf("the stream exceeds %d bytes or %d frames", MaxStream, MaxFrames)
	}
	return events, err
}

// once is the reconnect strategy of a client that does not reconnect.
type once struct{}

// NextBackOff tells the client's retry loop to stop; -1 is its word for that.
func (once) NextBackOff() time.Duration { return -1 }

// Reset has nothing to forget.
func (once) Reset() {}

// wiretap is the transport of a foreign client: it bounds what the host can
// make it read and records the exchange.
type wiretap struct {
	t      *T
	next   http.RoundTripper
	cancel context.CancelFunc
	stream *Stream // what an answer 200 carried, nil for any other
}

// RoundTrip performs the one exchange of a subscription.
func (w *wiretap) RoundTrip(req *http.Request) (*http.Response, error) {
	started := time.Now()
	out := &Response{corpus: w.t.run.corpus, Request: req.Method + " " + req.URL.String(), url: req.URL}
	res, err := w.next.RoundTrip(req)
	if err != nil {
		out.Err = err
		w.t.tape.record(req, nil, out, started)
		return nil, err
	}
	out.Status, out.Header = res.StatusCode, res.Header
	if res.StatusCode != http.StatusOK {
		out.Body, out.Truncated, out.Err = readBounded(res.Body, MaxBody)
		res.Body.Close()
		res.Body = io.NopCloser(bytes.NewReader(out.Body))
		w.t.tape.record(req, nil, out, started)
		return res, nil
	}
	out.exchange = w.t.tape.record(req, nil, out, started)
	w.t.tape.open.Add(1)
	w.stream = &Stream{Response: out, cancel: w.cancel, tape: w.t.tape}
	res.Body = &tapped{ReadCloser: res.Body, ctx: req.Context(), stream: w.stream}
	return res, nil
}

// file adds what the stream carried to its exchange.
func (w *wiretap) file() {
	if w.stream != nil {
		w.stream.end(ClosedByClient) // where nothing else ended it
		w.t.tape.streamed(w.stream.Response.exchange, w.stream)
	}
}

// tapped is a response body that our own reader follows.
type tapped struct {
	io.ReadCloser
	ctx    context.Context
	stream *Stream
}

// errOverLimit ends a stream that has no end.
var errOverLimit = errors.New("more than a stream may hold")

// Read hands on what the host sent, within the bounds of every stream.
func (b *tapped) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	s := b.stream
	s.mu.Lock()
	s.reader.Feed(p[:n], time.Now())
	over := s.overLimit()
	s.mu.Unlock()
	switch {
	case over:
		s.end(ClosedAtLimit)
		s.cancel()
		return n, errOverLimit
	case err == nil:
	case errors.Is(err, io.EOF):
		s.end(ClosedByHost)
	case b.ctx.Err() != nil:
		s.end(ClosedByClient)
	default:
		s.end(BrokenByHost)
	}
	return n, err
}

// overLimit reports whether a stream holds more than it may; the mutex is held.
func (s *Stream) overLimit() bool {
	return s.reader.Size() > MaxStream || len(s.reader.Frames()) > MaxFrames || len(s.reader.Comments()) > MaxFrames
}

// Ordinary reports whether an ordinary client reads frames as they were sent.
// Where it would not, although the format allows it, the client is at fault:
// a byte order mark, line ends of two kinds, an event longer than MaxReceived.
func Ordinary(frames []sse.Frame) bool {
	var end sse.LineEnd
	for _, f := range frames {
		ends := f.LineEnds()
		if len(ends) != 1 || end != "" && ends[0] != end || len(f.Raw) >= MaxReceived || bytes.HasPrefix(f.Raw, []byte("\xEF\xBB\xBF")) {
			return false
		}
		end = ends[0]
	}
	return true
}
