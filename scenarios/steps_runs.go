package scenarios

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"wopcert/harness"
	"wopcert/harness/sse"
)

// activeFor is how long, in milliseconds, a run that a test means to end
// itself would go on: the longest that every waiting fixture takes.
const activeFor = 30_000

// listed reports whether the host says it holds a fixture.
func listed(t *harness.T, fixture string) bool {
	return slices.Contains(t.Host().Discovery.Fixtures(), fixture)
}

// endingBodies are createRun bodies of the fixtures that end by themselves and
// at once, as far as the host holds them.
func endingBodies(t *harness.T) []object {
	var bodies []object
	for _, body := range []object{
		{"workflowId": noop},
		{"workflowId": multiNode},
		{"workflowId": failure},
		{"workflowId": identity, "inputs": object{"payload": object{"text": "grün", "list": []any{1, nil, true}}}},
		{"workflowId": delay, "inputs": object{"delayMs": 20}},
	} {
		if listed(t, body["workflowId"].(string)) {
			bodies = append(bodies, body)
		}
	}
	return bodies
}

// endingFixtures gates a test that any run which ends by itself serves.
func endingFixtures() harness.Gate {
	return harness.NeedsFixture(noop, multiNode, failure, identity, delay)
}

// startEnding creates a run that ends by itself.
func startEnding(t *harness.T) string { return startRun(t, endingBodies(t)[0]) }

// settledEnding is a run that ended by itself, and its log.
func settledEnding(t *harness.T) (string, log) { return settledRun(t, endingBodies(t)[0]) }

// liveFixtures gates a test that needs a run which stays active.
func liveFixtures() harness.Gate { return harness.NeedsFixture(cancellable, delay) }

// liveBody is the createRun body of a run that stays active, nil where the
// host holds no such fixture.
func liveBody(t *harness.T) object {
	for _, id := range []string{cancellable, delay} {
		if listed(t, id) {
			return object{"workflowId": id, "inputs": object{"delayMs": activeFor}}
		}
	}
	return nil
}

// liveRun creates a run that stays active and waits for its first event. The
// test ends when the run does not stay active.
func liveRun(t *harness.T) string {
	body := liveBody(t)
	id := startRun(t, body)
	poll(t, id, -1, 5*time.Second)
	if status := get(t, id).Text("status"); endedStatus(status) {
		t.Abort("no active run to observe: run of %v is %s at once, though asked to wait %d ms", body["workflowId"], status, activeFor)
	}
	return id
}

func cancel(t *harness.T, runID string, body object) *harness.Response {
	return t.Do(harness.Request{Method: http.MethodPost, Path: runPath(runID, "/cancel"), Body: body})
}

// cancelledRun is a run that was cancelled while active, and its log. ok is
// false where the host holds no fixture for it or did not cancel it.
func cancelledRun(t *harness.T) (id string, l log, ok bool) {
	body := liveBody(t)
	if body == nil {
		return "", log{}, false
	}
	r := create(t, body)
	if !r.Is(http.StatusCreated).OK || !cancel(t, r.Text("runId"), object{}).Is(http.StatusOK).OK {
		return "", log{}, false
	}
	id = r.Text("runId")
	l = readLog(t, id, settle)
	return id, l, l.terminal && len(l.events) > 0
}

// sample is a finished run of one fixture.
type sample struct {
	id       string
	workflow string
	log      log
}

// samples are finished runs of every fixture the host holds that ends by
// itself, and a cancelled one where that can be had. The test ends when there
// is none.
func samples(t *harness.T) []sample {
	var out []sample
	for _, body := range endingBodies(t) {
		if r := create(t, body); r.Is(http.StatusCreated).OK && r.Text("runId") != "" {
			out = append(out, sample{id: r.Text("runId"), workflow: body["workflowId"].(string)})
		}
	}
	var reading sync.WaitGroup
	for i := range out {
		reading.Go(func() { out[i].log = readLog(t, out[i].id, settle) })
	}
	reading.Wait()
	out = slices.DeleteFunc(out, func(s sample) bool { return !s.log.terminal || len(s.log.events) == 0 })
	if id, l, ok := cancelledRun(t); ok {
		out = append(out, sample{id: id, workflow: liveBody(t)["workflowId"].(string), log: l})
	}
	if len(out) == 0 {
		t.Abort("no finished run to observe: of the fixtures the host lists, none could be run to its end and its log read")
	}
	return out
}

// stream opens a run's event stream; an empty mode or cursor is left out.
func stream(t *harness.T, runID, mode, lastEventID string) *harness.Stream {
	return t.Stream(streamRequest(runID, mode, lastEventID))
}

func streamRequest(runID, mode, lastEventID string) harness.Request {
	r := harness.Request{Path: runPath(runID, "/events"), Header: http.Header{}}
	if mode != "" {
		r.Query = map[string][]string{"streamMode": {mode}}
	}
	if lastEventID != "" {
		r.Header.Set("Last-Event-ID", lastEventID)
	}
	return r
}

// streamSoon opens a stream on the side: a host may hold back the headers of a
// live stream until it has something to send. The receiver must take what
// comes before its test ends.
func streamSoon(t *harness.T, r harness.Request) <-chan *harness.Stream {
	opened := make(chan *harness.Stream, 1)
	go func() { opened <- t.Stream(r) }()
	return opened
}

// endsRun reports whether a frame carries the event that ends the run. It goes
// by the event itself, so that a frame without its name is still recognised.
func endsRun(f sse.Frame) bool {
	event, err := frameEvent(f)
	if err != nil {
		return isTerminalType(f.Event)
	}
	return isTerminalType(event["type"])
}

// sequences are the sequences of the events a list of frames carries, -1 for a
// frame that carries none.
func sequences(frames []sse.Frame) []int64 {
	var out []int64
	for _, f := range frames {
		n := int64(-1)
		if event, err := frameEvent(f); err == nil {
			if seq, ok := sequenceOf(event); ok {
				n = seq
			}
		}
		out = append(out, n)
	}
	return out
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
