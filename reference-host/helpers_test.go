package referencehost_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle/jcs"
	"wopcert/corpus"
	referencehost "wopcert/reference-host"
)

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

// withClock makes the host run on a clock that stands still.
func withClock(manual *referencehost.ManualClock) func(*referencehost.Config) {
	return func(c *referencehost.Config) { c.Clock = manual }
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

// checker looks at everything the host sends.
type checker struct {
	contract *corpus.Corpus
	mu       sync.Mutex
	seen     map[string]int
	problems []string
}

func (c *checker) wrap(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tee := &teeWriter{ResponseWriter: w}
		inner.ServeHTTP(tee, r)
		if err := c.check(r, tee); err != nil {
			c.mu.Lock()
			c.problems = append(c.problems, fmt.Sprintf("%s %s: %d: %v: %.300s", r.Method, r.URL, tee.status, err, tee.body.Bytes()))
			c.mu.Unlock()
		}
	})
}

func (c *checker) report(t testing.TB) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, problem := range c.problems {
		t.Error(problem)
	}
}

func (c *checker) check(r *http.Request, w *teeWriter) error {
	if w.Header().Get("OpenWOP-Version") != corpus.ProtocolVersion {
		return fmt.Errorf("no OpenWOP-Version")
	}
	body := w.body.Bytes()
	if w.Header().Get("Content-Encoding") != "" || r.Method == http.MethodHead {
		return nil
	}
	switch {
	case w.status >= 400:
		return c.checkError(w.status, body)
	case w.status == http.StatusNotModified || w.status == http.StatusNoContent:
		if len(body) > 0 {
			return fmt.Errorf("a body")
		}
		return nil
	case w.Header().Get("Content-Type") == "text/event-stream":
		return c.checkStream(body)
	}
	schema := c.schemaOf(r)
	if err := c.contract.Validate(schema, body); err != nil {
		return err
	}
	if schema == "poll-response" {
		var poll struct{ Events []json.RawMessage }
		if err := json.Unmarshal(body, &poll); err != nil {
			return err
		}
		for _, event := range poll.Events {
			if err := c.checkEvent(event); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *checker) schemaOf(r *http.Request) string {
	switch path := r.URL.EscapedPath(); {
	case path == "/.well-known/openwop":
		return "capabilities"
	case strings.HasPrefix(path, "/workflows/"):
		return "workflow-definition"
	case strings.HasSuffix(path, "/events/poll"):
		return "poll-response"
	case strings.HasSuffix(path, "/cancel"):
		return "cancel-response"
	case path == "/runs" && r.Method == http.MethodPost:
		return "run-created"
	case path == "/runs":
		return "run-list"
	default:
		return "run-snapshot"
	}
}

func (c *checker) checkError(status int, body []byte) error {
	if err := c.contract.Validate("error-envelope", body); err != nil {
		return err
	}
	var envelope struct{ Error string }
	if err := json.Unmarshal(body, &envelope); err != nil {
		return err
	}
	row, ok := c.contract.Error(envelope.Error)
	if !ok || row.HTTPStatus != status {
		return fmt.Errorf("code %s under status %d", envelope.Error, status)
	}
	return nil
}

func (c *checker) checkEvent(event []byte) error {
	if err := c.contract.Validate("run-event", event); err != nil {
		return err
	}
	value, err := jcs.Decode(event)
	if err != nil {
		return err
	}
	doc := value.(map[string]any)
	c.mu.Lock()
	if c.seen == nil {
		c.seen = make(map[string]int)
	}
	c.seen[doc["type"].(string)]++
	c.mu.Unlock()
	return c.contract.ValidatePayload(doc["type"].(string), doc["payload"])
}

func (c *checker) checkStream(body []byte) (err error) {
	readFrames(bytes.NewReader(body), func(f frame) {
		if err != nil || f.data == "" {
			return
		}
		switch f.event {
		case "state.snapshot":
			err = c.contract.Validate("run-snapshot", []byte(f.data))
		case "ai.message.chunk", "messages":
			err = c.contract.Validate("run-event-payloads#/$defs/outputChunk", []byte(f.data))
		case "batch":
			var batch []json.RawMessage
			if err = json.Unmarshal([]byte(f.data), &batch); err != nil {
				return
			}
			for _, event := range batch {
				if err = c.checkEvent(event); err != nil {
					return
				}
			}
		default:
			err = c.checkEvent([]byte(f.data))
		}
	})
	return err
}

// teeWriter keeps a copy of the response.
type teeWriter struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (w *teeWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *teeWriter) Write(data []byte) (int, error) {
	w.body.Write(data)
	return w.ResponseWriter.Write(data)
}

func (w *teeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestTheCheckerSeesDefects(t *testing.T) {
	t.Parallel()
	contract, err := corpus.Load()
	require.NoError(t, err)
	c := &checker{contract: contract}
	handler := c.wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("OpenWOP-Version", corpus.ProtocolVersion)
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error":"run_terminal","message":"m"}`))
	}))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/runs/x", nil))
	assert.Len(t, c.problems, 1)
}
