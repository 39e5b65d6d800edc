package referencehost_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle/jcs"
	"wopcert/corpus"
)

// checker looks at everything the host sends.
type checker struct {
	contract *corpus.Corpus
	mu       sync.Mutex
	seen     map[string]int
	problems []string
	checked  sync.Map // digests of events
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
	if r.URL.Path == "/host/durability/kill" && w.Header().Get("OpenWOP-Version") == "" {
		return nil // it is no path of the protocol
	}
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
	if artifact := strings.Contains(r.URL.EscapedPath(), "/artifacts/"); artifact && w.Header().Get("Content-Type") == "application/json" {
		return nil // an object of the host's own
	} else if artifact {
		return c.contract.Validate("artifact", body)
	}
	if strings.Contains(r.URL.EscapedPath(), "/interrupts/") && r.Method == http.MethodPost {
		return nil // the contract leaves the answer to the host
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
	for _, seam := range c.contract.SeamOperations() {
		if r.Method == seam.Method && r.URL.Path == seam.Path {
			return seam.Response
		}
	}
	switch path := strings.ReplaceAll(r.URL.EscapedPath(), "%3A", ":"); {
	case strings.HasPrefix(path, "/interrupts/"):
		return "suspend-request"
	case path == "/.well-known/openwop":
		return "capabilities"
	case strings.HasPrefix(path, "/workflows/"):
		return "workflow-definition"
	case strings.HasSuffix(path, "/annotations") && r.Method == http.MethodPost:
		return "annotation"
	case strings.HasSuffix(path, "/annotations"):
		return "annotation-list"
	case strings.HasSuffix(path, "/eval-summary"):
		return "eval-summary"
	case strings.HasSuffix(path, "/events/poll"):
		return "poll-response"
	case path == "/runs:bulk-cancel":
		return "bulk-cancel-response"
	case strings.HasSuffix(path, ":pause"):
		return "pause-response"
	case strings.HasSuffix(path, ":resume"):
		return "resume-response"
	case strings.HasSuffix(path, ":fork"):
		return "fork-response"
	case strings.HasSuffix(path, ":diff"):
		return "run-diff-response"
	case strings.HasSuffix(path, "/ancestry"):
		return "run-ancestry-response"
	case strings.HasSuffix(path, "/cancel"):
		return "cancel-response"
	case path == "/webhooks":
		return "webhook-created"
	case strings.HasSuffix(path, "/dead-letters"):
		return "webhook-dead-letter-page"
	case strings.HasSuffix(path, "/rotate-secret"):
		return "webhook-rotated"
	case strings.HasPrefix(path, "/conformance/seams/sample/webhooks/"):
		return "seams#/$defs/verdict"
	case path == "/host/effect-seams":
		return "effect-seam-manifest"
	case strings.HasSuffix(path, "/effects"):
		return "effect-ledger-projection"
	case strings.HasSuffix(path, "/compensation"):
		return "compensation-projection"
	case strings.HasSuffix(path, "/effect-seams/fire"):
		return "seams#/$defs/runReference"
	case strings.HasSuffix(path, "/idempotency/effect-retry"):
		return "seams#/$defs/effectReference"
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
	sum := sha256.Sum256(event)
	if _, done := c.checked.LoadOrStore(sum, nil); done {
		return nil // the same bytes, on another stream
	}
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
	if _, registered := c.contract.Event(doc["type"].(string)); !registered {
		return nil // a vendor's
	}
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
		case "heartbeat.evaluated", "heartbeat.state-changed":
			err = c.contract.Validate(strings.Replace(f.event, ".", "-", 1), []byte(f.data))
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
