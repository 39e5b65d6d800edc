package tamper

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"time"
)

// Frame is one block of an event stream. Lines are the fields and comments in
// the order they were written, without line ends.
type Frame struct{ Lines []string }

// NewFrame is a frame of the three fields an OpenWOP event frame has.
func NewFrame(id, event, data string) Frame {
	return Frame{Lines: []string{"id: " + id, "event: " + event, "data: " + data}}
}

// Field returns the value of a field, its lines joined by a line feed, and
// whether the frame has it.
func (f Frame) Field(name string) (string, bool) {
	var values []string
	for _, l := range f.Lines {
		n, v, _ := strings.Cut(l, ":")
		if n == name {
			values = append(values, strings.TrimPrefix(v, " "))
		}
	}
	return strings.Join(values, "\n"), values != nil
}

// Set replaces the first line of a field and drops its further ones; a field
// the frame does not have is added at its end.
func (f Frame) Set(name, value string) Frame {
	out := Frame{}
	done := false
	for _, l := range f.Lines {
		n, _, _ := strings.Cut(l, ":")
		switch {
		case n != name:
			out.Lines = append(out.Lines, l)
		case !done:
			out.Lines, done = append(out.Lines, name+": "+value), true
		}
	}
	if !done {
		out.Lines = append(out.Lines, name+": "+value)
	}
	return out
}

// Without drops a field.
func (f Frame) Without(name string) Frame {
	out := Frame{}
	for _, l := range f.Lines {
		if n, _, _ := strings.Cut(l, ":"); n != name {
			out.Lines = append(out.Lines, l)
		}
	}
	return out
}

// IsEvent reports whether the frame carries data. Comments do not.
func (f Frame) IsEvent() bool {
	_, ok := f.Field("data")
	return ok
}

// JSON decodes the data of the frame when it is a JSON object.
func (f Frame) JSON() (map[string]any, bool) {
	data, ok := f.Field("data")
	if !ok {
		return nil, false
	}
	return decodeObject([]byte(data))
}

// Bytes writes the frame with line feeds and the blank line that ends it.
func (f Frame) Bytes() []byte { return []byte(strings.Join(f.Lines, "\n") + "\n\n") }

// Out takes what a frame edit sends on.
type Out struct {
	w      http.ResponseWriter
	cancel context.CancelFunc
	ended  bool
	err    error
}

// Send sends a frame.
func (o *Out) Send(f Frame) { o.Raw(f.Bytes()) }

// Raw sends bytes as they are.
func (o *Out) Raw(p []byte) {
	if o.ended || o.err != nil || len(p) == 0 {
		return
	}
	_, o.err = o.w.Write(p)
	if o.err == nil {
		o.err = http.NewResponseController(o.w).Flush()
	}
}

// End ends the stream: nothing more is sent and the handler sees its request
// cancelled.
func (o *Out) End() {
	o.ended = true
	o.cancel()
}

// FrameEdit says what becomes of one frame of a stream. A frame it does not
// send is dropped.
type FrameEdit func(f Frame, out *Out)

// Frames edits each selected event stream frame by frame while it streams. The
// edit is made anew for each stream, so it can remember what it saw. Answers
// that are no event stream pass unchanged. The handler is expected to write
// line feeds; a bare CR is part of a line.
func Frames(m Match, edit func(*http.Request) FrameEdit) Middleware {
	return streams(m, func(r *http.Request) func(block []byte, out *Out) {
		e := edit(r)
		return func(block []byte, out *Out) {
			text := strings.TrimRight(strings.ReplaceAll(string(block), "\r\n", "\n"), "\n")
			if text == "" {
				return
			}
			e(Frame{Lines: strings.Split(text, "\n")}, out)
		}
	})
}

// Lines rewrites each selected event stream line by line, blank lines included,
// while it streams. The edit gets a line without its line feed and returns the
// bytes to send instead, line end included.
func Lines(m Match, edit func(line string) string) Middleware {
	return streams(m, func(*http.Request) func([]byte, *Out) {
		return func(block []byte, out *Out) {
			var b strings.Builder
			for _, l := range strings.SplitAfter(string(block), "\n") {
				if line, ok := strings.CutSuffix(l, "\n"); ok {
					b.WriteString(edit(line))
				}
			}
			out.Raw([]byte(b.String()))
		}
	})
}

func streams(m Match, edit func(*http.Request) func(block []byte, out *Out)) Middleware {
	return Instead(m, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		s := &splitter{w: w, out: &Out{w: w, cancel: cancel}, edit: edit(r)}
		next.ServeHTTP(s, r.WithContext(ctx))
		s.finish()
	})
}

// splitter cuts an event stream into blocks.
type splitter struct {
	w      http.ResponseWriter
	out    *Out
	edit   func([]byte, *Out)
	stream bool
	begun  bool
	buf    []byte
}

func (s *splitter) Header() http.Header { return s.w.Header() }

func (s *splitter) WriteHeader(status int) {
	if !s.begun && status >= 200 {
		s.begun, s.stream = true, isStream(s.w.Header())
	}
	s.w.WriteHeader(status)
}

func (s *splitter) Write(p []byte) (int, error) {
	if !s.begun {
		s.begun, s.stream = true, isStream(s.w.Header())
	}
	if !s.stream {
		return s.w.Write(p)
	}
	s.buf = append(s.buf, p...)
	for {
		end := blockEnd(s.buf)
		if end < 0 {
			break
		}
		s.edit(s.buf[:end], s.out)
		s.buf = bytes.Clone(s.buf[end:])
	}
	if s.out.ended {
		return 0, context.Canceled
	}
	if s.out.err != nil {
		return 0, s.out.err
	}
	return len(p), nil
}

// blockEnd finds the end of the first block of a stream with line feeds, -1
// when it is incomplete. A comment that begins a block is a block of its own,
// since a keep-alive need not be followed by a blank line.
func blockEnd(b []byte) int {
	separator := "\n\n"
	if bytes.HasPrefix(b, []byte(":")) || bytes.HasPrefix(b, []byte("\n")) {
		separator = "\n"
	}
	i := bytes.Index(b, []byte(separator))
	if i < 0 {
		return -1
	}
	return i + len(separator)
}

func (s *splitter) finish() {
	if s.stream && !s.out.ended {
		s.out.Raw(s.buf)
	}
}

// FlushError flushes whole blocks only; what is incomplete waits.
func (s *splitter) FlushError() error { return http.NewResponseController(s.w).Flush() }

// Flush is FlushError for handlers that look for an http.Flusher.
func (s *splitter) Flush() { s.FlushError() } // http.Flusher has no error

// Unwrap serves http.ResponseController.
func (s *splitter) Unwrap() http.ResponseWriter { return s.w }

// Hold keeps each selected event stream open after the handler has ended it,
// until the client goes away or the time is up.
func Hold(m Match, atMost time.Duration) Middleware {
	return Instead(m, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(w, r)
		if !isStream(w.Header()) {
			return
		}
		http.NewResponseController(w).Flush() // a client that is gone ends the wait below
		Pause(r.Context(), atMost)
	})
}

// Pause waits, and returns early when the context ends.
func Pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
