package harness

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/harness/sse"
)

func TestSubscribe(t *testing.T) {
	t.Parallel()
	var got *http.Request
	host := newHost(t, nil, streaming(func(send func(string), r *http.Request) {
		got = r.Clone(r.Context())
		send(": hi\n\nid: 1\nevent: a\ndata: x\n\n: quiet\n\nretry: 10\n\nevent: b\ndata: y\ndata: z\n\n")
	}))
	r := during(t, host, Credentials{Primary: "secret-key-of-this-test"}, func(tt *T) {
		events, err := tt.Subscribe(Request{Path: "/x", Header: http.Header{"Last-Event-Id": {"7"}}}, nil)
		require.NoError(t, err)
		assert.Equal(t, []Received{{ID: "1", Event: "a", Data: "x"}, {ID: "1", Event: "b", Data: "y\nz"}}, events)
	})
	assert.Equal(t, "Bearer secret-key-of-this-test", got.Header.Get("Authorization"))
	assert.Equal(t, "text/event-stream", got.Header.Get("Accept"))
	assert.Equal(t, "2", got.Header.Get("OpenWOP-Version"))
	assert.Equal(t, "7", got.Header.Get("Last-Event-ID"))
	require.Len(t, r.Capture.Tests()[0].Exchanges, 1)
	exchange := r.Capture.Tests()[0].Exchanges[0]
	require.NotNil(t, exchange.Stream)
	assert.Equal(t, ClosedByHost, exchange.Stream.ClosedBy)
	assert.Len(t, exchange.Stream.Frames, 5)
	assert.NotContains(t, strings.Join(exchange.Request.Headers, "\n"), "secret-key")
}

func TestSubscribeEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		until   func(Received) bool
		events  int
		fails   bool
		closure Closure
	}{
		"when the caller has seen enough": {
			handler: streaming(func(send func(string), r *http.Request) {
				send("data: 1\n\ndata: 2\n\n")
				<-r.Context().Done()
			}),
			until: func(e Received) bool { return e.Data == "2" }, events: 2, closure: ClosedByClient,
		},
		"when time is up": {
			handler: streaming(func(send func(string), r *http.Request) {
				send("data: 1\n\n")
				<-r.Context().Done()
			}),
			events: 1, fails: true, closure: ClosedByClient,
		},
		"when the connection breaks": {
			handler: streaming(func(send func(string), _ *http.Request) {
				send("data: 1\n\n")
				panic(http.ErrAbortHandler)
			}),
			events: 1, fails: true, closure: BrokenByHost,
		},
		"when the stream is endless": {
			handler: streaming(func(send func(string), r *http.Request) {
				chunk := strings.Repeat(":\n\n", 1000)
				for r.Context().Err() == nil {
					send(chunk)
				}
			}),
			fails: true, closure: ClosedAtLimit,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := newHost(t, nil, c.handler)
			r := during(t, host, Credentials{}, func(tt *T) {
				started := time.Now()
				events, err := tt.Subscribe(Request{Path: "/x", Timeout: 500 * time.Millisecond}, c.until)
				assert.Equal(t, c.fails, err != nil, "%v", err)
				assert.Len(t, events, c.events)
				assert.Less(t, time.Since(started), settleTime)
			})
			tape := r.Capture.Tests()[0].Exchanges[0].Stream
			require.NotNil(t, tape)
			assert.Equal(t, c.closure, tape.ClosedBy)
		})
	}
}

func TestSubscribeRefused(t *testing.T) {
	t.Parallel()
	calls := 0
	host := newHost(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"error":"rate_limited","message":"m"}`))
	})
	r := during(t, host, Credentials{}, func(tt *T) {
		events, err := tt.Subscribe(Request{Path: "/x"}, nil)
		assert.Error(t, err)
		assert.Empty(t, events)
		_, err = tt.Subscribe(Request{Path: "https://elsewhere.example/x"}, nil)
		assert.ErrorContains(t, err, "leaves the origin")
	})
	assert.Equal(t, 1, calls, "nothing is retried")
	exchange := r.Capture.Tests()[0].Exchanges[0]
	assert.Equal(t, 429, exchange.Status)
	assert.Contains(t, exchange.Response.Body, "rate_limited")
}

func TestOrdinary(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"data: 1\n\ndata: 2\n\n":                             true,
		"data: 1\r\n\r\ndata: 2\r\n\r\n":                     true,
		"data: 1\r\rdata: 2\r\r":                             true,
		"data: 1\n\ndata: 2\r\n\r\n":                         false,
		"data: 1\r\n\n":                                      false,
		"\xEF\xBB\xBFdata: 1\n\n":                            false,
		"data: " + strings.Repeat("x", MaxReceived) + "\n\n": false,
	} {
		var r sse.Reader
		r.Feed([]byte(text), time.Now())
		assert.Equal(t, want, Ordinary(r.Frames()), "%.30q", text)
	}
}
