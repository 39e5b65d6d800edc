package referencehost_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wopcert/corpus"
	referencehost "wopcert/reference-host"
)

// ctx keeps the signatures of store decorators short.
type ctx = context.Context

// testHost is a host on loopback whose every response is checked against the contract on its way out.
type testHost struct {
	t        testing.TB
	url      string
	host     *referencehost.Host
	keys     map[string]string
	checker  *checker
	contract *corpus.Corpus
}

func start(t testing.TB, change ...func(*referencehost.Config)) *testHost {
	t.Helper()
	contract, err := corpus.Load()
	require.NoError(t, err)
	config, err := referencehost.DefaultConfig()
	require.NoError(t, err)
	for _, f := range change {
		f(&config)
	}
	check := &checker{contract: contract}
	config.Wrap = append(config.Wrap, check.wrap)
	host, err := referencehost.New(config)
	require.NoError(t, err)
	server := httptest.NewServer(host.Handler())
	t.Cleanup(func() {
		require.NoError(t, host.Close())
		server.Close()
		check.report(t)
	})
	keys := make(map[string]string)
	for _, key := range config.Keys {
		keys[key.Name] = key.Key
	}
	return &testHost{t: t, url: server.URL, host: host, keys: keys, checker: check, contract: contract}
}

// withClock makes the host run on a clock that stands still, with keep-alives far enough apart to stay out of sight.
func withClock(manual *referencehost.ManualClock) func(*referencehost.Config) {
	return func(c *referencehost.Config) { c.Clock, c.KeepAlive = manual, 20*time.Second }
}

func manualClock() *referencehost.ManualClock {
	return referencehost.NewManualClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
}

// reply is a response as a test sees it.
type reply struct {
	*http.Response
	body []byte
}

func (r *reply) json(t testing.TB) map[string]any {
	t.Helper()
	var value map[string]any
	require.NoError(t, json.Unmarshal(r.body, &value), string(r.body))
	return value
}

func (r *reply) code(t testing.TB) string {
	t.Helper()
	code, _ := r.json(t)["error"].(string)
	return code
}

func (r *reply) details(t testing.TB) map[string]any {
	t.Helper()
	details, _ := r.json(t)["details"].(map[string]any)
	return details
}

// call sends one request with the key of tenant A; header pairs override, and a "" value leaves the header out.
func (h *testHost) call(method, path, body string, header ...string) *reply {
	h.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	request, err := http.NewRequest(method, h.url+path, reader)
	require.NoError(h.t, err)
	request.Header.Set("Authorization", "Bearer "+h.keys[referencehost.KeyTenantA])
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i+1] == "" {
			request.Header.Del(header[i])
		} else {
			request.Header.Set(header[i], header[i+1])
		}
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	require.NoError(h.t, err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	require.NoError(h.t, err)
	return &reply{response, data}
}

func (h *testHost) as(key string) []string { return []string{"Authorization", "Bearer " + h.keys[key]} }

// create starts a run and returns its id and its path.
func (h *testHost) create(body string, header ...string) (id, path string) {
	h.t.Helper()
	r := h.call("POST", "/runs", body, header...)
	require.Equal(h.t, http.StatusCreated, r.StatusCode, string(r.body))
	return r.json(h.t)["runId"].(string), r.json(h.t)["statusUrl"].(string)
}

// finish waits until a run has ended and returns its snapshot.
func (h *testHost) finish(path string) map[string]any {
	h.t.Helper()
	after := ""
	for range 100 {
		r := h.call("GET", path+"/events/poll?timeout=5"+after, "")
		require.Equal(h.t, http.StatusOK, r.StatusCode, string(r.body))
		poll := r.json(h.t)
		if poll["isTerminal"] == true {
			return h.call("GET", path, "").json(h.t)
		}
		after = "&afterSequence=" + strconv.Itoa(int(poll["lastSequence"].(float64)))
	}
	h.t.Fatal("the run does not end")
	return nil
}

// events polls the whole log of a run as it stands.
func (h *testHost) events(path string) []map[string]any {
	h.t.Helper()
	r := h.call("GET", path+"/events/poll?timeout=1", "")
	require.Equal(h.t, http.StatusOK, r.StatusCode, string(r.body))
	var poll struct {
		Events []map[string]any `json:"events"`
	}
	require.NoError(h.t, json.Unmarshal(r.body, &poll))
	return poll.Events
}

func types(events []map[string]any) []string {
	var names []string
	for _, event := range events {
		names = append(names, event["type"].(string))
	}
	return names
}

// frame is one frame of a stream.
type frame struct {
	id, event, data string
	comment         string
}

// stream opens a stream and delivers its frames; the channel closes with the stream.
func (h *testHost) stream(path string, header ...string) <-chan frame {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h.t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, "GET", h.url+path, nil)
	require.NoError(h.t, err)
	request.Header.Set("Authorization", "Bearer "+h.keys[referencehost.KeyTenantA])
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	require.NoError(h.t, err)
	require.Equal(h.t, http.StatusOK, response.StatusCode)
	require.Equal(h.t, "text/event-stream", response.Header.Get("Content-Type"))
	require.Equal(h.t, "2.0", response.Header.Get("OpenWOP-Version"))
	frames := make(chan frame, 4096)
	go func() {
		defer close(frames)
		defer response.Body.Close()
		readFrames(response.Body, func(f frame) { frames <- f })
	}()
	return frames
}

func readFrames(body io.Reader, deliver func(frame)) {
	scanner := bufio.NewScanner(body)
	scanner.Buffer(nil, 16<<20)
	var f frame
	for scanner.Scan() {
		switch line := scanner.Text(); {
		case line == "":
			deliver(f)
			f = frame{}
		case strings.HasPrefix(line, ": "):
			f.comment = line[2:]
		case strings.HasPrefix(line, "id: "):
			f.id = line[4:]
		case strings.HasPrefix(line, "event: "):
			f.event = line[7:]
		case strings.HasPrefix(line, "data: "):
			f.data += line[6:]
		}
	}
}

// collect reads a stream to its end.
func collect(t testing.TB, frames <-chan frame) []frame {
	t.Helper()
	var all []frame
	limit := time.After(20 * time.Second)
	for {
		select {
		case f, open := <-frames:
			if !open {
				return all
			}
			all = append(all, f)
		case <-limit:
			t.Fatal("the stream does not end")
		}
	}
}

// next reads one frame.
func next(t testing.TB, frames <-chan frame) frame {
	t.Helper()
	select {
	case f, open := <-frames:
		require.True(t, open, "the stream has ended")
		return f
	case <-time.After(10 * time.Second):
		t.Fatal("no frame comes")
		return frame{}
	}
}
