package harness

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"wopcert/harness/sse"
)

// Closure says how a stream ended.
type Closure string

// The ways a stream ends.
const (
	Open            Closure = ""           // it has not ended
	ClosedByHost    Closure = "host"       // the host ended the response properly
	BrokenByHost    Closure = "host-broke" // the connection broke inside the response
	ClosedByClient  Closure = "client"     // the test closed it or its deadline passed
	ClosedAtLimit   Closure = "limit"      // more than MaxStream bytes or MaxFrames frames or comments came
	RefusedByHost   Closure = "no-stream"  // no stream was ever open
	streamChunkSize         = 32 << 10
)

// Stream is an event stream read as it crossed the wire.
type Stream struct {
	Response *Response // status and headers; the body when the stream was refused

	cancel  context.CancelFunc
	tape    *tape
	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever something arrives
	reader  sse.Reader
	next    int
	closure Closure
	ended   time.Time
}

func (s *Stream) refuse(err error) {
	s.Response.Err = err
	s.cancel()
	s.end(RefusedByHost)
}

func (s *Stream) end(c Closure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closure == Open {
		s.closure, s.ended = c, time.Now()
	}
	s.signal()
}

// signal wakes the waiters; the mutex is held.
func (s *Stream) signal() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

func (s *Stream) start(ctx context.Context, body io.ReadCloser) {
	go func() {
		defer body.Close()
		s.end(s.pump(ctx, body))
		s.tape.streamed(s.Response.exchange, s)
	}()
}

func (s *Stream) pump(ctx context.Context, body io.Reader) Closure {
	buf := make([]byte, streamChunkSize)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			s.mu.Lock()
			s.reader.Feed(buf[:n], time.Now())
			over := s.overLimit()
			s.signal()
			s.mu.Unlock()
			if over {
				s.cancel()
				return ClosedAtLimit
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return ClosedByHost
		case ctx.Err() != nil:
			return ClosedByClient
		default:
			return BrokenByHost
		}
	}
}

// Next returns the next frame that a client would dispatch as an event. It
// waits at most the given time; ok is false when none came, because time ran
// out or because the stream ended.
func (s *Stream) Next(within time.Duration) (frame sse.Frame, ok bool) {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	for {
		s.mu.Lock()
		for frames := s.reader.Frames(); s.next < len(frames); {
			f := frames[s.next]
			s.next++
			if f.Dispatches() {
				s.mu.Unlock()
				return f, true
			}
		}
		wait, over := s.wait()
		s.mu.Unlock()
		if over {
			return sse.Frame{}, false
		}
		select {
		case <-wait:
		case <-deadline.C:
			return sse.Frame{}, false
		}
	}
}

// wait returns what to wait on; the mutex is held.
func (s *Stream) wait() (<-chan struct{}, bool) {
	if s.closure != Open {
		return nil, true
	}
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed, false
}

// Collect reads frames until one satisfies the condition, the stream ends or
// time runs out. A nil condition collects until the end.
func (s *Stream) Collect(until func(sse.Frame) bool, within time.Duration) []sse.Frame {
	var out []sse.Frame
	end := time.Now().Add(within)
	for {
		f, ok := s.Next(time.Until(end))
		if !ok {
			return out
		}
		out = append(out, f)
		if until != nil && until(f) {
			return out
		}
	}
}

// AwaitClose waits for the end of the stream and says who ended it, or Open
// when it is still open after the given time.
func (s *Stream) AwaitClose(within time.Duration) Closure {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	for {
		s.mu.Lock()
		wait, over := s.wait()
		closure := s.closure
		s.mu.Unlock()
		if over {
			return closure
		}
		select {
		case <-wait:
		case <-deadline.C:
			return Open
		}
	}
}

// AwaitComment waits until more than n comment lines have arrived and returns
// all of them so far.
func (s *Stream) AwaitComment(n int, within time.Duration) []sse.Comment {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	for {
		s.mu.Lock()
		wait, over := s.wait()
		comments := append([]sse.Comment(nil), s.reader.Comments()...)
		s.mu.Unlock()
		if len(comments) > n || over {
			return comments
		}
		select {
		case <-wait:
		case <-deadline.C:
			return comments
		}
	}
}

// Frames returns every frame so far, comment-only blocks included.
func (s *Stream) Frames() []sse.Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]sse.Frame(nil), s.reader.Frames()...)
}

// Tail returns the bytes after the last complete frame.
func (s *Stream) Tail() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reader.Tail()
}

// Close ends the stream from the client's side.
func (s *Stream) Close() { s.cancel() }
