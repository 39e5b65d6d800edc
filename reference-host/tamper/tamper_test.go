package tamper

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func fetch(t *testing.T, method, url string, body io.Reader, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	require.NoError(t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := (&http.Transport{DisableCompression: true, DisableKeepAlives: true}).RoundTrip(req)
	require.NoError(t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, string(data)
}

// echo answers JSON that says what it was asked.
func echo() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("ETag", `"e"`)
		w.Header().Set("X-Seen", r.Header.Get("X-Asked"))
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"path":%q,"query":%q,"body":%q,"n":9007199254740991.0,"html":"<&>"}`, r.URL.EscapedPath(), r.URL.RawQuery, data)
	})
}

// events streams the given blocks, flushing after each, and waits for a signal
// before the last one when there is one.
func events(wait <-chan struct{}, blocks ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.WriteHeader(http.StatusOK)
		for i, b := range blocks {
			if i == len(blocks)-1 && wait != nil {
				select {
				case <-wait:
				case <-r.Context().Done():
					return
				}
			}
			if _, err := io.WriteString(w, b); err != nil {
				return
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				return
			}
		}
	})
}

func TestOpMatchesSegmentsAsWritten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path, target string
		want                 bool
	}{
		{"GET", "/runs/{}", "/runs/a%2Fb", true},
		{"GET", "/runs/{}", "/runs/a~2Fb", true},
		{"GET", "/runs/{}", "/runs/a/b", false},
		{"GET", "/runs/{}", "/runs/", false},
		{"GET", "/runs/{}", "/runs", false},
		{"", "/runs/{}/events/poll", "/runs/a%2Fb/events/poll?timeout=1", true},
		{"POST", "/runs", "/runs", false},
		{"GET", "/.well-known/openwop", "/.well-known/openwop", true},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, c.target, nil)
		assert.Equal(t, c.want, Op(c.method, c.path)(r), "%s %s on %s", c.method, c.path, c.target)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/a", nil)
	r.Header.Set("X-H", "")
	assert.True(t, And(Any, HasHeader("x-h"), Not(HasHeader("x-other")), Or(Op("", "/b"), Op("", "/a")))(r))
}

func TestChainIsOutermostFirst(t *testing.T) {
	t.Parallel()
	mark := func(s string) Middleware {
		return JSON(Any, 0, func(_ *http.Request, d map[string]any) { d["path"] = d["path"].(string) + s })
	}
	_, body := fetch(t, "GET", serve(t, Chain(mark("1"), mark("2"))(echo()))+"/p", nil)
	assert.Contains(t, body, `"/p21"`, "the inner one edits first")
}

func TestRequestsAreEditedBeforeTheHandler(t *testing.T) {
	t.Parallel()
	url := serve(t, Requests(Op("POST", "/x"), func(r *http.Request) {
		r.Header.Del("X-Asked")
		doc, ok := BodyJSON(r)
		if ok {
			doc["a"] = 2
			SetBodyJSON(r, doc)
		}
		SetQuery(r, "q", "new")
		SetQuery(r, "gone", "")
		SetPath(r, "/a%2Fb")
	})(echo()))
	res, body := fetch(t, "POST", url+"/x?q=old&gone=1", strings.NewReader(`{"a":1,"n":12345678901234567890}`), "X-Asked", "yes")
	assert.Empty(t, res.Header.Get("X-Seen"))
	assert.Contains(t, body, `"path":"/a%2Fb"`)
	assert.Contains(t, body, `"query":"q=new"`)
	assert.Contains(t, body, `{\"a\":2,\"n\":12345678901234567890}`)
	_, body = fetch(t, "POST", url+"/other?q=old", strings.NewReader("not json"), "X-Asked", "yes")
	assert.Contains(t, body, `"path":"/other","query":"q=old","body":"not json"`)
}

func TestAnswersAreEditedWhole(t *testing.T) {
	t.Parallel()
	url := serve(t, Answers(Op("GET", "/edit"), func(_ *http.Request, a *Answer) {
		doc, ok := a.JSON()
		require.True(t, ok)
		doc["added"] = true
		a.SetJSON(doc)
		a.Status = http.StatusAccepted
		a.Header.Set("X-New", "1")
	})(echo()))
	res, body := fetch(t, "GET", url+"/edit", nil)
	assert.Equal(t, http.StatusAccepted, res.StatusCode)
	assert.Equal(t, "1", res.Header.Get("X-New"))
	assert.Equal(t, int64(len(body)), res.ContentLength)
	assert.Contains(t, body, `"n":9007199254740991.0`, "numbers keep their spelling")
	assert.Contains(t, body, `"<&>"`)
	res, body = fetch(t, "GET", url+"/as-is", nil)
	assert.Equal(t, http.StatusCreated, res.StatusCode)
	assert.NotContains(t, body, "added")
}

func TestRefuseDropsWhatWasThere(t *testing.T) {
	t.Parallel()
	url := serve(t, Answers(Any, func(_ *http.Request, a *Answer) { a.Refuse(409, "run_terminal", "over") })(echo()))
	res, body := fetch(t, "GET", url+"/", nil)
	assert.Equal(t, 409, res.StatusCode)
	assert.Empty(t, res.Header.Get("ETag"))
	assert.JSONEq(t, `{"error":"run_terminal","message":"over"}`, body)
}

func TestNotModifiedHasNoBody(t *testing.T) {
	t.Parallel()
	url := serve(t, Answers(Any, func(_ *http.Request, a *Answer) { a.Status = http.StatusNotModified })(echo()))
	res, body := fetch(t, "GET", url+"/", nil)
	assert.Equal(t, http.StatusNotModified, res.StatusCode)
	assert.Empty(t, body)
	assert.Empty(t, res.Header.Get("Content-Length"))
}

func TestAskSpeaksForTheSameCaller(t *testing.T) {
	t.Parallel()
	inner := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, `{"auth":%q,"key":%q,"uri":%q,"body":%q}`, r.Header.Get("Authorization"), r.Header.Get("Idempotency-Key"), r.Method+" "+r.URL.RequestURI(), data)
	})
	url := serve(t, Instead(Any, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		Ask(next, r, "POST", "/runs/a~2Fb/cancel?x=1", map[string]any{"reason": "r"}, "Idempotency-Key", "new").Send(w)
	})(inner))
	_, body := fetch(t, "GET", url+"/runs", nil, "Authorization", "Bearer k", "Idempotency-Key", "old")
	assert.JSONEq(t, `{"auth":"Bearer k","key":"new","uri":"POST /runs/a~2Fb/cancel?x=1","body":"{\"reason\":\"r\"}"}`, body)
}

func TestFramesAreEditedWhileTheyStream(t *testing.T) {
	t.Parallel()
	wait := make(chan struct{})
	h := events(wait, "id: 0\nevent: a\ndata: {\"n\":1}\n\n", ": ping\n", "id: 1\nevent: drop\ndata: {}\n\nid: 2\n", "event: b\ndata: {}\n\n")
	url := serve(t, Frames(Any, func(*http.Request) FrameEdit {
		seen := 0
		return func(f Frame, out *Out) {
			if typ, _ := f.Field("event"); typ == "drop" {
				return
			}
			if f.IsEvent() {
				seen++
				f = f.Set("n", fmt.Sprint(seen))
			}
			out.Send(f)
		}
	})(h))
	res, err := http.Get(url) // closed below
	require.NoError(t, err)
	defer res.Body.Close()
	br := bufio.NewReader(res.Body)
	first := ""
	for !strings.Contains(first, "ping") {
		line, err := br.ReadString('\n')
		require.NoError(t, err)
		first += line
	}
	assert.Equal(t, "id: 0\nevent: a\ndata: {\"n\":1}\nn: 1\n\n: ping\n", first, "both came before the handler went on")
	close(wait)
	rest, err := io.ReadAll(br)
	require.NoError(t, err)
	assert.Equal(t, "\nid: 2\nevent: b\ndata: {}\nn: 2\n\n", string(rest))
}

func TestFrameFields(t *testing.T) {
	t.Parallel()
	f := NewFrame("7", "run.started", `{"a":1}`)
	id, ok := f.Field("id")
	assert.True(t, ok)
	assert.Equal(t, "7", id)
	doc, ok := f.JSON()
	assert.True(t, ok)
	assert.Equal(t, "1", fmt.Sprint(doc["a"]))
	assert.Equal(t, "event: run.started\ndata: {\"a\":1}\n\n", string(f.Without("id").Bytes()))
	assert.False(t, Frame{Lines: []string{": c"}}.IsEvent())
	two := Frame{Lines: []string{"data: x", "data: y"}}
	v, _ := two.Field("data")
	assert.Equal(t, "x\ny", v)
	assert.Equal(t, "data: z\n\n", string(two.Set("data", "z").Bytes()))
}

func TestLinesAreRewritten(t *testing.T) {
	t.Parallel()
	url := serve(t, Lines(Any, func(l string) string { return l + "\r\n" })(events(nil, "id: 0\ndata: {}\n\n", ": c\n\n")))
	_, body := fetch(t, "GET", url, nil)
	assert.Equal(t, "id: 0\r\ndata: {}\r\n\r\n: c\r\n\r\n", body)
}

func TestEndStopsTheHandler(t *testing.T) {
	t.Parallel()
	stopped := make(chan error, 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		events(nil, "data: 1\n\n").ServeHTTP(w, r)
		<-r.Context().Done()
		stopped <- r.Context().Err()
	})
	url := serve(t, Frames(Any, func(*http.Request) FrameEdit {
		return func(f Frame, out *Out) { out.Send(f); out.End(); out.Send(f) }
	})(h))
	_, body := fetch(t, "GET", url, nil)
	assert.Equal(t, "data: 1\n\n", body)
	assert.ErrorIs(t, <-stopped, context.Canceled)
}

func TestAClientThatLeavesReachesTheHandler(t *testing.T) {
	t.Parallel()
	stopped := make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		events(nil, "data: 1\n\n").ServeHTTP(w, r)
		<-r.Context().Done()
		close(stopped)
	})
	all := Chain(Split(Any, 3, 0), Answers(Any, func(_ *http.Request, a *Answer) { a.Header.Set("X-New", "1") }),
		Frames(Any, func(*http.Request) FrameEdit { return func(f Frame, out *Out) { out.Send(f) } }))
	url := serve(t, all(h))
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	assert.Equal(t, "1", res.Header.Get("X-New"), "headers of a stream are edited")
	_, err = io.ReadFull(res.Body, make([]byte, len("data: 1\n\n")))
	require.NoError(t, err)
	cancel()
	<-stopped
}

func TestAStreamCanBecomeAnOrdinaryAnswer(t *testing.T) {
	t.Parallel()
	url := serve(t, Answers(Any, func(_ *http.Request, a *Answer) {
		a.Stream = false
		a.Refuse(404, "not_found", "no")
	})(events(nil, "data: 1\n\n")))
	res, body := fetch(t, "GET", url, nil)
	assert.Equal(t, 404, res.StatusCode)
	assert.JSONEq(t, `{"error":"not_found","message":"no"}`, body)
}

func TestHoldKeepsStreamsOpen(t *testing.T) {
	t.Parallel()
	url := serve(t, Hold(Any, 50*time.Millisecond)(events(nil, "data: 1\n\n")))
	started := time.Now()
	_, body := fetch(t, "GET", url, nil)
	assert.Equal(t, "data: 1\n\n", body)
	assert.GreaterOrEqual(t, time.Since(started), 50*time.Millisecond)
	url = serve(t, Hold(Any, time.Hour)(echo()))
	fetch(t, "GET", url, nil) // an ordinary answer is not held
}

func TestSplitKeepsTheBytes(t *testing.T) {
	t.Parallel()
	url := serve(t, Split(Any, 1, time.Microsecond)(echo()))
	res, body := fetch(t, "GET", url+"/p", nil)
	assert.Contains(t, body, `"path":"/p"`)
	assert.Equal(t, []string{"chunked"}, res.TransferEncoding)
}

func TestGzipOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	url := serve(t, Gzip(Any)(echo()))
	res, body := fetch(t, "GET", url, nil)
	assert.Empty(t, res.Header.Get("Content-Encoding"))
	assert.Equal(t, "Accept-Encoding", res.Header.Get("Vary"))
	assert.Contains(t, body, "path")
	res, body = fetch(t, "GET", url, nil, "Accept-Encoding", "br;q=1, GZIP")
	assert.Equal(t, "gzip", res.Header.Get("Content-Encoding"))
	z, err := gzip.NewReader(strings.NewReader(body))
	require.NoError(t, err)
	plain, err := io.ReadAll(z)
	require.NoError(t, err)
	assert.Contains(t, string(plain), "path")
	res, _ = fetch(t, "GET", url, nil, "Accept-Encoding", "gzip;q=0")
	assert.Empty(t, res.Header.Get("Content-Encoding"))
}

func TestEventsAgreeBetweenPollAndStream(t *testing.T) {
	t.Parallel()
	mux := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/poll") {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"events":[{"sequence":0,"type":"run.started"},{"sequence":1,"type":"gone"}],"lastSequence":1}`)
			return
		}
		events(nil, "id: 0\nevent: run.started\ndata: {\"sequence\":0,\"type\":\"run.started\"}\n\n", ": c\n\n",
			"id: 1\nevent: gone\ndata: {\"sequence\":1,\"type\":\"gone\"}\n\n").ServeHTTP(w, r)
	})
	url := serve(t, Events(func(e map[string]any) bool {
		if e["type"] == "gone" {
			return false
		}
		e["type"] = "run.begun"
		return true
	})(mux))
	_, body := fetch(t, "GET", url+"/runs/a~2Fb/events/poll", nil)
	assert.JSONEq(t, `{"events":[{"sequence":0,"type":"run.begun"}],"lastSequence":1}`, body)
	_, body = fetch(t, "GET", url+"/runs/a~2Fb/events", nil)
	assert.Equal(t, "id: 0\nevent: run.begun\ndata: {\"sequence\":0,\"type\":\"run.begun\"}\n\n: c\n\n", body)
}

func TestOneWrappedHandlerServesManyAtOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	count := 0
	url := serve(t, Answers(Any, func(*http.Request, *Answer) { mu.Lock(); count++; mu.Unlock() })(echo()))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			res, err := http.Get(url) // the server is local
			if assert.NoError(t, err) {
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		})
	}
	wg.Wait()
	assert.Equal(t, 20, count)
}
