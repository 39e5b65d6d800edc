package harness

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/harness/sse"
)

// streaming answers with an event stream that a function writes.
func streaming(write func(send func(string), r *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		control := http.NewResponseController(w)
		_ = control.Flush()
		write(func(s string) {
			_, _ = w.Write([]byte(s))
			_ = control.Flush()
		}, r)
	}
}

func TestStreamFrames(t *testing.T) {
	t.Parallel()
	host := newHost(t, nil, streaming(func(send func(string), _ *http.Request) {
		send(": hi\n\n")
		send("id: 1\nevent: a\nda")
		send("ta: x\r\n\r\nretry: 10\n\n")
		send("data: y\n\ndata: lost")
	}))
	r := during(t, host, Credentials{}, func(tt *T) {
		s := tt.Stream(Request{Path: "/x"})
		assert.True(t, s.Response.Is(200).OK)
		first, ok := s.Next(settleTime)
		require.True(t, ok)
		assert.Equal(t, "1 a x", first.ID+" "+first.Event+" "+first.Data)
		second, ok := s.Next(settleTime)
		require.True(t, ok)
		assert.Equal(t, "y", second.Data)
		_, ok = s.Next(settleTime)
		assert.False(t, ok, "what a client would not dispatch is no next event")
		assert.Equal(t, ClosedByHost, s.AwaitClose(settleTime))
		assert.Len(t, s.Frames(), 4, "but it is kept")
		assert.Equal(t, "data: lost", string(s.Tail()))
		assert.Len(t, s.AwaitComment(0, settleTime), 1)
	})
	tape := r.Capture.Tests()[0].Exchanges[0].Stream
	require.NotNil(t, tape)
	assert.Equal(t, ClosedByHost, tape.ClosedBy)
	assert.Equal(t, "data: lost", tape.Tail)
	require.Len(t, tape.Frames, 4)
	assert.Equal(t, "id: 1\nevent: a\ndata: x\r\n\r\n", tape.Frames[1].Raw)
	assert.Equal(t, []string{"LF", "CRLF"}, tape.Frames[1].LineEnds)
	assert.LessOrEqual(t, tape.Frames[0].AtMs, tape.Frames[3].AtMs)
	assert.LessOrEqual(t, tape.Frames[3].AtMs, tape.ClosedMs)
}

func TestStreamClosures(t *testing.T) {
	t.Parallel()
	forever := func(line string) http.HandlerFunc {
		return streaming(func(send func(string), r *http.Request) {
			for r.Context().Err() == nil {
				send(line)
			}
		})
	}
	hold := streaming(func(send func(string), r *http.Request) {
		send("data: x\n\n")
		<-r.Context().Done()
	})
	broke := func(head string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + head))
				_ = conn.Close()
			}
		}
	}
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		close   bool
		want    Closure
	}{
		{"the host ends it", streaming(func(send func(string), _ *http.Request) { send("data: x\n\n") }), false, ClosedByHost},
		{"the host closes a connection without a length", broke("Connection: close\r\n\r\ndata: x\n\n"), false, ClosedByHost},
		{"the connection breaks inside a chunk", broke("Transfer-Encoding: chunked\r\n\r\nff\r\ndata: x\n\n"), false, BrokenByHost},
		{"the connection breaks between chunks", broke("Transfer-Encoding: chunked\r\n\r\n9\r\ndata: x\n\n\r\n"), false, BrokenByHost},
		{"the test closes it", hold, true, ClosedByClient},
		{"endless comments", forever(": x\n"), false, ClosedAtLimit},
		{"endless frames", forever("data: x\n\n"), false, ClosedAtLimit},
		{"an endless line", forever(strings.Repeat("x", 1<<18)), false, ClosedAtLimit},
		{"a refusal", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, false, ClosedByHost},
		{"an endless refusal", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte(strings.Repeat("x", 1<<16)))
			}
		}, false, ClosedByHost},
		{"a hang-up", func(w http.ResponseWriter, _ *http.Request) {
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				_ = conn.Close()
			}
		}, false, RefusedByHost},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := during(t, newHost(t, nil, c.handler), Credentials{}, func(tt *T) {
				s := tt.Stream(Request{Path: "/x"})
				if c.close {
					_, ok := s.Next(settleTime)
					assert.True(t, ok)
					assert.Equal(t, Open, s.AwaitClose(time.Millisecond))
					s.Close()
				}
				assert.Equal(t, c.want, s.AwaitClose(3*settleTime))
				assert.LessOrEqual(t, len(s.Frames()), MaxFrames+streamChunkSize)
				s.Close() // closing twice is harmless
			})
			if e := r.Capture.Tests()[0].Exchanges[0]; e.Stream != nil {
				assert.Equal(t, c.want, e.Stream.ClosedBy)
			}
		})
	}
}

func TestStreamRefusal(t *testing.T) {
	t.Parallel()
	host := newHost(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"validation_error","message":"m"}`))
	})
	during(t, host, Credentials{}, func(tt *T) {
		s := tt.Stream(Request{Path: "/x"})
		assert.True(t, s.Response.Refuses("validation_error").OK)
		assert.NotEqual(t, Open, s.AwaitClose(0))
		_, ok := s.Next(settleTime)
		assert.False(t, ok)
		assert.Empty(t, s.Collect(nil, settleTime))
	})
}

func TestStreamHeaders(t *testing.T) {
	t.Parallel()
	host := newHost(t, nil, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s|%s|%s|%s\n\n", r.Header.Get("Accept"), r.Header.Get("Last-Event-ID"), r.Header.Get("Accept-Encoding"), r.URL.RawQuery)
	})
	during(t, host, Credentials{}, func(tt *T) {
		f, ok := tt.Stream(Request{Path: "/x?streamMode=debug", Header: http.Header{"Last-Event-Id": {"4"}}}).Next(settleTime)
		require.True(t, ok)
		assert.Equal(t, "text/event-stream|4||streamMode=debug", f.Data)
		f, ok = tt.Stream(Request{Path: "/x", Header: http.Header{"Accept": {"application/json"}}}).Next(settleTime)
		require.True(t, ok)
		assert.Equal(t, "application/json|||", f.Data)
	})
}

// Waiting ends when the time is up, and when something arrives.
func TestStreamWaits(t *testing.T) {
	t.Parallel()
	proceed := make(chan struct{})
	host := newHost(t, nil, streaming(func(send func(string), r *http.Request) {
		send(": one\n")
		select {
		case <-proceed:
		case <-r.Context().Done():
		}
		send("data: x\n\n: two\n")
		<-r.Context().Done()
	}))
	during(t, host, Credentials{}, func(tt *T) {
		s := tt.Stream(Request{Path: "/x"})
		assert.Len(t, s.AwaitComment(0, settleTime), 1)
		_, ok := s.Next(10 * time.Millisecond)
		assert.False(t, ok)
		assert.Empty(t, s.Collect(nil, 10*time.Millisecond))
		assert.Len(t, s.AwaitComment(1, 10*time.Millisecond), 1)
		assert.Equal(t, Open, s.AwaitClose(10*time.Millisecond))
		close(proceed)
		got := s.Collect(func(f sse.Frame) bool { return f.Data == "x" }, settleTime)
		assert.Len(t, got, 1)
		assert.Len(t, s.AwaitComment(1, settleTime), 2)
	})
}

// A stream a test leaves open ends with the test, and its record is complete.
func TestStreamEndsWithItsTest(t *testing.T) {
	t.Parallel()
	host := newHost(t, nil, streaming(func(send func(string), r *http.Request) {
		send("data: x\n\n")
		<-r.Context().Done()
	}))
	r := measure(t, Options{BaseURL: host.URL, Scenarios: []Scenario{oneTest(func(tt *T) {
		s := tt.Stream(Request{Path: "/x"})
		_, ok := s.Next(settleTime)
		tt.Expect(idA, That(ok, "", ""))
		tt.Abort("left open")
	})}})
	tape := r.Capture.Tests()[0].Exchanges[0].Stream
	require.NotNil(t, tape)
	assert.Equal(t, ClosedByClient, tape.ClosedBy)
	assert.Len(t, tape.Frames, 1)
}

// A stream that never begins, or never ends, costs a test its deadline.
func TestStreamDeadline(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"no headers": silence,
		"no frames":  streaming(func(_ func(string), r *http.Request) { <-r.Context().Done() }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			r := measure(t, Options{BaseURL: newHost(t, nil, handler).URL, Timeout: 200 * time.Millisecond, Scenarios: []Scenario{oneTest(func(tt *T) {
				s := tt.Stream(Request{Path: "/x"})
				_, ok := s.Next(time.Minute)
				tt.Expect(idA, That(ok, "a frame", "none"))
			})}})
			assert.Less(t, time.Since(began), settleTime)
			assert.Equal(t, bundle.Blocked, rowOf(t, r, idA).Result)
		})
	}
}

func TestStreamsSideBySide(t *testing.T) {
	t.Parallel()
	host := newHost(t, nil, streaming(func(send func(string), r *http.Request) { send("data: " + r.URL.Path + "\n\n") }))
	r := during(t, host, Credentials{}, func(tt *T) {
		opened := make(chan *Stream)
		for i := range 8 {
			go func() { opened <- tt.Stream(Request{Path: fmt.Sprintf("/%d", i)}) }()
		}
		for range 8 {
			s := <-opened
			f, ok := s.Next(settleTime)
			assert.True(t, ok)
			assert.Equal(t, s.Response.URL().Path, f.Data)
		}
	})
	assert.Len(t, r.Capture.Tests()[0].Exchanges, 8)
}
