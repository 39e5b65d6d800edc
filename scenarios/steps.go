package scenarios

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"wopcert/harness"
)

// Fixture ids of the published conformance workflows.
const (
	noop        = "conformance-noop"
	identity    = "conformance-identity"
	delay       = "conformance-delay"
	failure     = "conformance-failure"
	multiNode   = "conformance-multi-node"
	cancellable = "conformance-cancellable"
)

// settle is how long a run of a fixture that ends by itself may take: the
// published bound of 5 s for the fastest fixtures, twice.
const settle = 10 * time.Second

// object is a JSON object to send.
type object = map[string]any

// newIdempotencyKey is a fresh key of the grammar of idempotency.md Layer 1,
// 26 characters of base32 and thus 130 bits.
func newIdempotencyKey() string { return rand.Text() }

// create sends createRun and returns whatever came.
func create(t *harness.T, body any, headers ...string) *harness.Response {
	return createAs(t, harness.Primary, body, headers...)
}

func createAs(t *harness.T, who harness.Identity, body any, headers ...string) *harness.Response {
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	if h.Get("Idempotency-Key") == "" {
		h.Set("Idempotency-Key", newIdempotencyKey())
	}
	return t.Do(harness.Request{Method: http.MethodPost, Path: "/runs", Body: body, Header: h, As: who})
}

// startRun is the step most tests begin with: a run of a fixture. The test
// ends when the host creates none, since the rest stands on it.
func startRun(t *harness.T, body object) string {
	return startRunAs(t, harness.Primary, body)
}

func startRunAs(t *harness.T, who harness.Identity, body object) string {
	r := createAs(t, who, body)
	id := r.Text("runId")
	if r.Is(http.StatusCreated).OK && id != "" {
		return id
	}
	t.Abort("no run to observe: createRun of %v gave %s", body["workflowId"], r.Is(http.StatusCreated).Observed)
	return ""
}

// runPath is the path of a run with its id projected onto one segment.
func runPath(runID, rest string) string { return "/runs/" + projectID(runID) + rest }

// projectID writes a tenant-bound id as one path segment: every byte outside
// [A-Za-z0-9._-] becomes ~ and two upper-case hex digits (identity.md §5).
func projectID(id string) string {
	var b strings.Builder
	for i := range len(id) {
		c := id[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
			b.WriteByte(c)
		default:
			b.WriteString("~" + strings.ToUpper(strconv.FormatUint(uint64(c)+0x100, 16)[1:]))
		}
	}
	return b.String()
}

func get(t *harness.T, runID string) *harness.Response {
	return t.Do(harness.Request{Path: runPath(runID, "")})
}

// poll reads events after a sequence; after < 0 leaves the cursor out. The
// wait is the long poll's own, so that a test waits on the host and not on a
// timer.
func poll(t *harness.T, runID string, after int64, wait time.Duration) *harness.Response {
	q := url.Values{}
	if after >= 0 {
		q.Set("afterSequence", strconv.FormatInt(after, 10))
	}
	seconds := max(1, int(wait/time.Second))
	q.Set("timeout", strconv.Itoa(seconds))
	return t.Do(harness.Request{Path: runPath(runID, "/events/poll"), Query: q, Timeout: wait + 10*time.Second})
}

// log is a run's events as one poll without a cursor gave them.
type log struct {
	events   []object // a nil entry is an event that is no object
	terminal bool     // the run ended in time
	status   string
	last     *harness.Response
}

// readLog waits until a run has ended and reads its log whole.
func readLog(t *harness.T, runID string, within time.Duration) log {
	ended := awaitEnd(t, runID, within)
	l := wholeLog(t, runID)
	l.terminal = ended
	return l
}

// wholeLog reads a run's events with one poll that has no cursor.
func wholeLog(t *harness.T, runID string) log {
	r := poll(t, runID, -1, time.Second)
	l := log{last: r, status: r.Text("status")}
	if !r.Is(http.StatusOK).OK {
		return l
	}
	l.events = eventsOf(r)
	return l
}

// eventsOf returns the events of a poll response.
func eventsOf(r *harness.Response) []object {
	list, _ := r.Get("events").([]any)
	var events []object
	for _, e := range list {
		event, _ := e.(object)
		events = append(events, event)
	}
	return events
}

// awaitEnd waits until a run's log or its snapshot says that the run ended. It
// asks both, and leans on neither the cursor nor isTerminal, so that a host
// that errs in one of them still has its other obligations measured.
func awaitEnd(t *harness.T, runID string, within time.Duration) bool {
	end := time.Now().Add(within)
	after := int64(-1)
	for {
		r := poll(t, runID, after, min(max(time.Until(end), time.Second), 5*time.Second))
		before := after
		for _, event := range eventsOf(r) {
			if seq, ok := sequenceOf(event); ok {
				after = max(after, seq)
			}
			if isTerminalType(event["type"]) {
				return true
			}
		}
		if endedStatus(get(t, runID).Text("status")) {
			return true
		}
		if time.Now().After(end) || t.Context().Err() != nil {
			return false
		}
		if after == before && r.Elapsed < time.Second {
			pause(t, 50*time.Millisecond) // a poll that did not wait must not be asked in a tight loop
		}
	}
}

func pause(t *harness.T, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// endedStatus reports whether a snapshot status is one a run ends in.
func endedStatus(status string) bool {
	return slices.Contains([]string{"completed", "failed", "cancelled"}, status)
}

// isTerminalType reports whether an event's type is one that ends a run.
func isTerminalType(v any) bool {
	typ, ok := v.(string)
	return ok && slices.Contains(terminalTypes(), typ)
}

// settledRun creates a run and reads its log to the end; the test ends when
// the run does not.
func settledRun(t *harness.T, body object) (string, log) {
	id := startRun(t, body)
	l := readLog(t, id, settle)
	if !l.terminal || len(l.events) == 0 {
		t.Abort("no finished run to observe: run of %v has status %q and %d events after %s: %s",
			body["workflowId"], l.status, len(l.events), settle, l.last.Is(http.StatusOK).Observed)
	}
	return id, l
}

// sequenceOf is an event's sequence when it is an integer.
func sequenceOf(event object) (int64, bool) { return integer(event["sequence"]) }

func lastSequence(r *harness.Response) int64 {
	n, ok := integer(r.Get("lastSequence"))
	if !ok {
		return -1
	}
	return n
}

// integer reads a JSON number written as an integer.
func integer(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := n.Int64()
	return i, err == nil
}

// terminalTypes are the events that end a run (events.md, "The terminal event").
func terminalTypes() []string { return []string{"run.completed", "run.failed", "run.cancelled"} }
