package harness

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
)

// settleTime is how long a test of this package waits for what is to come.
const settleTime = 10 * time.Second

// echo answers with what it was sent.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"method": r.Method, "uri": r.RequestURI, "header": r.Header, "body": string(body), "length": r.ContentLength})
}

func TestRequests(t *testing.T) {
	t.Parallel()
	host := newHost(t, nil, echo)
	keys := Credentials{Primary: "p-key-1", OtherTenant: "o-key-1", ReadOnly: "r-key-1"}
	during(t, host, keys, func(tt *T) {
		header := func(r *Response, name string) any { return Get(r.JSON(), "header", name) }
		r := tt.Do(Request{Path: "/runs"})
		assert.Equal(t, "GET", r.Text("method"))
		assert.Equal(t, "/runs", r.Text("uri"))
		assert.Equal(t, []any{"2"}, header(r, "Openwop-Version"))
		assert.Equal(t, []any{"application/json"}, header(r, "Accept"))
		assert.Equal(t, []any{"Bearer [redacted:primary-key]"}, []any{strings.ReplaceAll(header(r, "Authorization").([]any)[0].(string), "p-key-1", "[redacted:primary-key]")})
		assert.Nil(t, header(r, "Accept-Encoding"), "compression is not asked for")
		assert.Nil(t, header(r, "Content-Type"), "no body, no content type")
		assert.Equal(t, "GET "+host.URL+"/runs", r.Request)

		for who, want := range map[Identity]any{
			OtherTenant: []any{"Bearer o-key-1"}, ReadOnly: []any{"Bearer r-key-1"}, Anonymous: nil, Unknown: []any{"Bearer " + unknownKey},
		} {
			assert.Equal(t, want, header(tt.Do(Request{Path: "/", As: who}), "Authorization"), who)
		}
		assert.Nil(t, header(tt.Do(Request{Path: "/", Version: NoVersion}), "Openwop-Version"))
		assert.Equal(t, []any{"9.9"}, header(tt.Do(Request{Path: "/", Version: "9.9"}), "Openwop-Version"))

		r = tt.Do(Request{Method: "POST", Path: "/runs/a~2Fb%2Fc", Query: url.Values{"q": {"a b"}}, Body: map[string]any{"html": "<&>"}})
		assert.Equal(t, "/runs/a~2Fb%2Fc?q=a+b", r.Text("uri"), "an escaped path stays as it is")
		assert.Equal(t, `{"html":"<&>"}`, r.Text("body"))
		assert.Equal(t, []any{"application/json"}, header(r, "Content-Type"))
		r = tt.Do(Request{Method: "POST", Path: "/", RawBody: []byte("{not json"), Header: http.Header{"content-type": {"text/plain"}, "ACCEPT": {"*/*"}}})
		assert.Equal(t, "{not json", r.Text("body"))
		assert.Equal(t, []any{"text/plain"}, header(r, "Content-Type"))
		assert.Equal(t, []any{"*/*"}, header(r, "Accept"))
		r = tt.Do(Request{Method: "POST", Path: "/", RawBody: []byte{}})
		assert.Equal(t, json.Number("0"), r.Get("length"))
	})
}

func TestPathPrefix(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"/api/wop", "/api/wop/"} {
		mux := http.NewServeMux()
		mux.HandleFunc("/api/wop"+WellKnown, func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(document(nil))
		})
		mux.HandleFunc("/", echo)
		host := httptest.NewServer(mux)
		t.Cleanup(host.Close)
		measure(t, Options{BaseURL: host.URL + base, Scenarios: []Scenario{oneTest(func(tt *T) {
			assert.Equal(t, "/api/wop/runs", tt.Do(Request{Path: "/runs"}).Text("uri"))
			assert.Equal(t, "/api/wop/runs?x=1", tt.Do(Request{Path: "runs?x=1"}).Text("uri"))
			assert.Equal(t, "/other?x=1", tt.Do(Request{Path: host.URL + "/other?x=1"}).Text("uri"), "a link on the origin is taken as it is")
		})}})
	}
}

func TestCredentialsStayOnTheOrigin(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(other.Close)
	host := newHost(t, nil, echo)
	during(t, host, Credentials{Primary: "p-key-1"}, func(tt *T) {
		for _, link := range []string{other.URL + "/x", strings.Replace(host.URL, "http://", "https://", 1) + "/x", "ftp://" + host.Listener.Addr().String() + "/x"} {
			r := tt.Do(Request{Path: link})
			assert.ErrorContains(t, r.Err, "leaves the origin")
			assert.False(t, r.Is(200).OK)
			s := tt.Stream(Request{Path: link})
			assert.Equal(t, RefusedByHost, s.AwaitClose(settleTime))
		}
	})
	assert.Zero(t, asked.Load())
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var followed atomic.Int32
	host := newHost(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/target" {
			followed.Add(1)
			return
		}
		http.Redirect(w, r, "/target", http.StatusTemporaryRedirect)
	})
	during(t, host, Credentials{}, func(tt *T) {
		assert.Equal(t, 307, tt.Do(Request{Path: "/x"}).Status)
		assert.Equal(t, 307, tt.Do(Request{Method: "POST", Path: "/x", Body: map[string]any{}}).Status)
		s := tt.Stream(Request{Path: "/x"})
		assert.Equal(t, 307, s.Response.Status)
		assert.False(t, s.Response.Is(200).OK)
	})
	assert.Zero(t, followed.Load())
}

// A host that hangs up has answered wrongly: the check fails, the suite goes on.
func TestTransportFailureFailsTheCheck(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"hangs up": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		},
		"no HTTP": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = conn.Write([]byte("hello\r\n\r\n"))
				_ = conn.Close()
			}
		},
		"a body cut short": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{}"))
		},
		"endless headers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", maxHeaderSize+1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := measure(t, Options{BaseURL: newHost(t, nil, handler).URL, Scenarios: []Scenario{oneTest(func(tt *T) {
				got := tt.Do(Request{Method: "POST", Path: "/x", Body: map[string]any{}})
				tt.Expect(idA, got.Is(200))
				for _, c := range []Check{got.Valid("run-snapshot"), got.Refuses("validation_error"), got.HeaderIs("X", "")} {
					assert.False(t, c.OK)
				}
				assert.Nil(t, got.JSON())
				assert.Error(t, got.Err)
				tt.Expect(idB, That(true, "", ""))
			}, idA, idB)}})
			assert.Equal(t, bundle.ExecutedFail, rowOf(t, r, idA).Result)
			assert.Equal(t, bundle.ExecutedPass, rowOf(t, r, idB).Result)
			assert.NotEmpty(t, r.Capture.Tests()[0].Exchanges[0].Error)
		})
	}
}

func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	host := newHost(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fits" {
			_, _ = w.Write([]byte(`"` + strings.Repeat("x", MaxBody-2) + `"`))
			return
		}
		for {
			if _, err := w.Write([]byte(strings.Repeat(" ", 1<<16))); err != nil {
				return
			}
		}
	})
	r := during(t, host, Credentials{}, func(tt *T) {
		fits := tt.Do(Request{Path: "/fits"})
		assert.False(t, fits.Truncated)
		assert.Len(t, fits.Body, MaxBody)
		endless := tt.Do(Request{Path: "/endless"})
		assert.True(t, endless.Truncated)
		assert.Len(t, endless.Body, MaxBody)
		assert.Nil(t, endless.JSON())
		c := endless.Valid("run-snapshot")
		assert.False(t, c.OK)
		assert.Contains(t, c.Observed, "exceeds")
	})
	kept := r.Capture.Tests()[0].Exchanges
	require.Len(t, kept, 2)
	assert.True(t, kept[1].Response.Truncated)
	for _, e := range kept {
		assert.Less(t, len(e.Response.Body), maxKept+100, "what is kept is cut further")
	}
}

func TestCaptureNumbersExchanges(t *testing.T) {
	t.Parallel()
	host := newHost(t, nil, echo)
	s := Scenario{ID: "v2-b", Tests: []Test{oneTest(func(tt *T) {
		tt.Do(Request{Path: "/1", Header: http.Header{"Last-Event-Id": {"3"}}})
		tt.Do(Request{Method: "POST", Path: "/2", RawBody: []byte{0xff}})
		tt.Expect(idA, That(true, "", ""))
	}).Tests[0]}}
	first := s
	first.ID = "v2-a"
	r := measure(t, Options{BaseURL: host.URL, Scenarios: []Scenario{s, first}})
	tapes := r.Capture.Tests()
	require.Len(t, tapes, 2)
	assert.Equal(t, "v2-a", tapes[0].Scenario, "tapes are in a stable order")
	e := tapes[1].Exchanges
	require.Len(t, e, 2)
	assert.Equal(t, []int{1, 2}, []int{e[0].Number, e[1].Number})
	assert.Contains(t, e[0].Request.Headers, "Last-Event-Id: 3")
	assert.Equal(t, "/w==", e[1].Request.Body)
	assert.Equal(t, "base64", e[1].Request.Encoding)
	assert.Equal(t, 200, e[1].Status)
	assert.Equal(t, host.URL+"/2", e[1].URL)
	d := r.Capture.DiscoveryExchange()
	require.NotNil(t, d)
	assert.Contains(t, d.Response.Body, `"preferredVersion":"2.0"`)
	assert.Equal(t, 200, d.Status)
}
