package harness

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"sort"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Exchange is one request and what came back, with every credential and canary
// already replaced.
type Exchange struct {
	Number   int         `json:"number"`            // 1-based within its test
	Inbound  bool        `json:"inbound,omitempty"` // the host called, the suite's receiver answered
	Started  time.Time   `json:"started"`
	Method   string      `json:"method"`
	URL      string      `json:"url"`
	Request  Message     `json:"request"`
	Status   int         `json:"status,omitempty"`
	Response Message     `json:"response"`
	Error    string      `json:"error,omitempty"`
	Millis   float64     `json:"durationMs"`
	Stream   *StreamTape `json:"stream,omitempty"`
}

// Message is the headers and body of one direction.
type Message struct {
	Headers   []string `json:"headers"` // "Name: value", sorted
	Body      string   `json:"body,omitempty"`
	Encoding  string   `json:"bodyEncoding,omitempty"` // "base64" when the body is not UTF-8
	Truncated bool     `json:"truncated,omitempty"`
}

// StreamTape is an event stream as received.
type StreamTape struct {
	Frames   []FrameTape `json:"frames"`
	Tail     string      `json:"tail,omitempty"` // bytes after the last complete frame
	ClosedBy Closure     `json:"closedBy"`
	ClosedMs float64     `json:"closedMs"` // since the request started
}

// FrameTape is one frame of a stream.
type FrameTape struct {
	AtMs     float64  `json:"atMs"` // since the request started
	Raw      string   `json:"raw"`
	Encoding string   `json:"rawEncoding,omitempty"`
	LineEnds []string `json:"lineEnds"`
}

// TestTape is everything one test exchanged.
type TestTape struct {
	Scenario  string     `json:"scenario"`
	Test      string     `json:"test"`
	Exchanges []Exchange `json:"exchanges"`
}

// Capture collects the exchanges of a run.
type Capture struct {
	redact *redactor
	mu     sync.Mutex
	tapes  []*tape
	first  *Exchange // the discovery read
}

// DiscoveryExchange returns the read of the discovery document, nil when no
// answer came.
func (c *Capture) DiscoveryExchange() *Exchange { return c.first }

// Tests returns the tapes in a stable order: by scenario, then test.
func (c *Capture) Tests() []TestTape {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]TestTape, 0, len(c.tapes))
	for _, t := range c.tapes {
		t.open.Wait()
		t.mu.Lock()
		out = append(out, TestTape{Scenario: t.scenario, Test: t.test, Exchanges: t.exchanges})
		t.mu.Unlock()
	}
	sort.SliceStable(out, func(i, j int) bool {
		if out[i].Scenario != out[j].Scenario {
			return out[i].Scenario < out[j].Scenario
		}
		return out[i].Test < out[j].Test
	})
	return out
}

func (c *Capture) tape(scenario, test string) *tape {
	t := &tape{redact: c.redact, scenario: scenario, test: test}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tapes = append(c.tapes, t)
	return t
}

func (c *Capture) discovery(req *http.Request, d *Discovery, err error) {
	e := c.redact.exchange(req, nil, d.Header, d.Raw)
	e.Number, e.Started, e.Status, e.Millis = 1, d.CapturedAt, d.Status, millis(time.Since(d.CapturedAt))
	if err != nil {
		e.Error = c.redact.text(transportReason(err))
	}
	c.first = &e
}

// tape is the record of one test.
type tape struct {
	redact    *redactor
	scenario  string
	test      string
	mu        sync.Mutex
	open      sync.WaitGroup // streams whose end is still to be recorded
	exchanges []Exchange
	outbound  int // number of the last request to the host
}

func (t *tape) record(req *http.Request, sent []byte, r *Response, started time.Time) int {
	e := t.redact.exchange(req, sent, r.Header, r.Body)
	e.Started, e.Status, e.Millis = started, r.Status, millis(time.Since(started))
	e.Response.Truncated = r.Truncated
	if r.Err != nil {
		e.Error = t.redact.text(transportReason(r.Err))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e.Number = len(t.exchanges) + 1
	t.exchanges = append(t.exchanges, e)
	t.outbound = e.Number
	return e.Number
}

// last is the number of the most recent request to the host, which is what a check that
// names none is about.
func (t *tape) last() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.outbound
}

// streamed adds what a stream carried to its exchange once it has ended.
func (t *tape) streamed(number int, s *Stream) {
	defer t.open.Done()
	s.mu.Lock()
	if t.redact.drop {
		s.mu.Unlock()
		return
	}
	frames, tail, closure, ended := s.reader.Frames(), s.reader.Tail(), s.closure, s.ended
	s.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	e := &t.exchanges[number-1]
	st := &StreamTape{Frames: []FrameTape{}, ClosedBy: closure, ClosedMs: millis(ended.Sub(e.Started))}
	var whole bytes.Buffer
	for _, f := range frames {
		whole.Write(f.Raw)
	}
	divided := t.redact.hides(whole.String()) // over frames that each look harmless
	for _, f := range frames {
		raw, enc := t.redact.body(f.Raw)
		if divided {
			raw, enc = withheld, ""
		}
		ends := []string{}
		for _, l := range f.LineEnds() {
			ends = append(ends, string(l))
		}
		st.Frames = append(st.Frames, FrameTape{AtMs: millis(f.At.Sub(e.Started)), Raw: raw, Encoding: enc, LineEnds: ends})
	}
	st.Tail, _ = t.redact.body(tail)
	e.Stream = st
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// exchange redacts one exchange.
func (r *redactor) exchange(req *http.Request, sent []byte, header http.Header, received []byte) Exchange {
	e := Exchange{Method: req.Method}
	if !r.drop {
		e.URL = r.text(req.URL.String())
	}
	e.Request.Headers = r.headers(req.Header)
	e.Request.Body, e.Request.Encoding = r.body(sent)
	e.Response.Headers = r.headers(header)
	e.Response.Body, e.Response.Encoding = r.body(received)
	return e
}

func (r *redactor) headers(h http.Header) []string {
	out := []string{}
	if r.drop {
		return out
	}
	for name, values := range h {
		for _, v := range values {
			switch strings.ToLower(name) {
			case "authorization", "proxy-authorization", "cookie", "set-cookie":
				v = "[redacted]"
			}
			out = append(out, r.text(name)+": "+r.text(v)) // a host can echo in a name too
		}
	}
	sort.Strings(out)
	return out
}

// maxKept bounds what is kept of one body; a check has judged the whole.
const maxKept = 256 << 10

// body redacts first and cuts afterwards. Of a large body only the beginning
// is looked at, and the end of that, where the cut may have left a part of a
// secret, is left out.
func (r *redactor) body(b []byte) (text, encoding string) {
	window := b
	if r.drop {
		if bytes.Contains(b, []byte(`"secret"`)) {
			r.learned.learn(string(b)) // checks look for what a host handed over
		}
		return "", ""
	}
	if len(b) > maxKept+r.margin {
		window = b[:maxKept+r.margin]
	}
	s := r.text(r.learned.learn(r.replace.Replace(string(window))))
	if len(window) < len(b) {
		s = s[:max(0, len(s)-r.margin)]
	}
	if len(s) > maxKept || len(window) < len(b) {
		s = strings.ToValidUTF8(s[:min(len(s), maxKept)], "") + fmt.Sprintf("… (%d bytes in all)", len(b))
	}
	if !utf8.ValidString(s) {
		return base64.StdEncoding.EncodeToString([]byte(s)), "base64"
	}
	return s, ""
}
