package tamper

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// Split cuts everything the handler writes into pieces of at most size bytes
// and flushes each, so that a client meets a cut at any place. The pause goes
// between two pieces. The stated length of an answer is dropped.
func Split(m Match, size int, pause time.Duration) Middleware {
	return Instead(m, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(&cutter{w: w, ctx: r.Context(), size: max(size, 1), pause: pause}, r)
	})
}

type cutter struct {
	w     http.ResponseWriter
	ctx   context.Context // lives as long as the one response it writes
	size  int
	pause time.Duration
	begun bool
}

func (c *cutter) Header() http.Header { return c.w.Header() }

func (c *cutter) WriteHeader(status int) {
	if status >= 200 {
		c.begun = true
		c.w.Header().Del("Content-Length")
	}
	c.w.WriteHeader(status)
}

func (c *cutter) Write(p []byte) (int, error) {
	if !c.begun {
		c.WriteHeader(http.StatusOK)
	}
	done := 0
	for done < len(p) {
		if err := c.ctx.Err(); err != nil {
			return done, err
		}
		n, err := c.w.Write(p[done:min(done+c.size, len(p))])
		done += n
		if err != nil {
			return done, err
		}
		if err := c.FlushError(); err != nil {
			return done, err
		}
		if c.pause > 0 {
			Pause(c.ctx, c.pause)
		}
	}
	return done, nil
}

// FlushError flushes what was written.
func (c *cutter) FlushError() error { return http.NewResponseController(c.w).Flush() }

// Flush is FlushError for handlers that look for an http.Flusher.
func (c *cutter) Flush() { c.FlushError() } // http.Flusher has no error

// Unwrap serves http.ResponseController.
func (c *cutter) Unwrap() http.ResponseWriter { return c.w }

// Gzip compresses each selected ordinary answer for a client that accepts it,
// and says so in Vary to one that does not. Event streams pass unchanged.
func Gzip(m Match) Middleware {
	return Answers(m, func(r *http.Request, a *Answer) {
		if a.Stream || !bodyAllowed(a.Status) {
			return
		}
		a.Header.Add("Vary", "Accept-Encoding")
		if !acceptsGzip(r.Header.Get("Accept-Encoding")) {
			return
		}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(a.Body) // a bytes.Buffer takes everything
		z.Close()       // as above
		a.Body = b.Bytes()
		a.Header.Set("Content-Encoding", "gzip")
	})
}

func acceptsGzip(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		refused := strings.TrimSpace(params) == "q=0"
		if strings.EqualFold(strings.TrimSpace(name), "gzip") && !refused {
			return true
		}
	}
	return false
}

// Events edits each run event the handler returns, in a poll answer and in an
// event stream alike, batches included, so that they keep agreeing. Id and event of a frame
// follow the sequence and, where they did before, the type of the edited event. An edit that returns
// false drops the event from both.
func Events(edit func(event map[string]any) bool) Middleware {
	return Chain(
		JSON(Op(http.MethodGet, "/runs/{}/events/poll"), http.StatusOK, func(_ *http.Request, doc map[string]any) {
			list, ok := doc["events"].([]any)
			if !ok {
				return
			}
			doc["events"] = kept(list, edit)
		}),
		Frames(Op(http.MethodGet, "/runs/{}/events"), func(*http.Request) FrameEdit {
			return func(f Frame, out *Out) {
				if batch, ok := f.Batch(); ok {
					if batch = kept(batch, edit); len(batch) > 0 {
						out.Send(f.WithBatch(batch))
					}
					return
				}
				event, ok := f.JSON()
				if _, has := event["sequence"]; !ok || !has { // a snapshot or a chunk is no event
					out.Send(f)
					return
				}
				typ, _ := event["type"].(string)
				if edit(event) {
					out.Send(withEvent(f, typ, event))
				}
			}
		}),
	)
}

// kept edits events and returns those that stay.
func kept(events []any, edit func(event map[string]any) bool) []any {
	left := []any{}
	for _, e := range events {
		if event, ok := e.(map[string]any); !ok || edit(event) {
			left = append(left, e)
		}
	}
	return left
}

// Batch returns the events of a frame that holds a batch of them.
func (f Frame) Batch() ([]any, bool) {
	data, _ := f.Field("data")
	events, ok := Decode([]byte(data)).([]any)
	return events, ok
}

// WithBatch puts another batch into the frame. Its id becomes the sequence of
// the last event, where that is a number.
func (f Frame) WithBatch(events []any) Frame {
	f = f.Set("data", string(Encode(events)))
	if last, ok := events[len(events)-1].(map[string]any); ok {
		if n, ok := last["sequence"].(json.Number); ok {
			f = f.Set("id", n.String())
		}
	}
	return f
}

// withEvent puts an edited event into the frame it came in. A frame that was
// named by the type of its event is named by that type again.
func withEvent(f Frame, was string, event map[string]any) Frame {
	f = f.Set("data", string(Encode(event)))
	if n, ok := event["sequence"].(json.Number); ok {
		f = f.Set("id", n.String())
	}
	name, _ := f.Field("event")
	if typ, ok := event["type"].(string); ok && name == was {
		f = f.Set("event", typ)
	}
	return f
}

// Late holds back the status and headers of each selected event stream until
// there is a first byte to send with them.
func Late(m Match) Middleware {
	return Instead(m, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		l := &late{w: w}
		next.ServeHTTP(l, r)
		l.begin()
	})
}

type late struct {
	w      http.ResponseWriter
	status int
	begun  bool
}

func (l *late) Header() http.Header { return l.w.Header() }

func (l *late) WriteHeader(status int) {
	if l.begun || status < 200 {
		return
	}
	l.status = status
	if !isStream(l.w.Header()) {
		l.begin()
	}
}

func (l *late) begin() {
	if !l.begun && l.status != 0 {
		l.begun = true
		l.w.WriteHeader(l.status)
	}
}

func (l *late) Write(p []byte) (int, error) {
	if l.status == 0 {
		l.WriteHeader(http.StatusOK)
	}
	if len(p) > 0 {
		l.begin()
	}
	return l.w.Write(p)
}

// FlushError flushes once something was sent.
func (l *late) FlushError() error {
	if !l.begun {
		return nil
	}
	return http.NewResponseController(l.w).Flush()
}

// Flush is FlushError for handlers that look for an http.Flusher.
func (l *late) Flush() { l.FlushError() } // http.Flusher has no error

// Unwrap serves http.ResponseController.
func (l *late) Unwrap() http.ResponseWriter { return l.w }
