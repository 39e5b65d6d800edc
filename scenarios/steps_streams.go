package scenarios

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"wopcert/bundle/jcs"
	"wopcert/corpus"
	"wopcert/harness"
	"wopcert/harness/sse"
)

// Fixture ids that the scenarios of streams use beside the ones every test
// does.
const (
	streamText   = "conformance-stream-text"
	conversation = "conformance-conversation-lifecycle"
)

// endingFixtureOf is the fixture with the most events among those that end by
// themselves.
func endingFixtureOf(t *harness.T) object {
	if listed(t, multiNode) {
		return object{"workflowId": multiNode}
	}
	return endingBody(t)
}

// streamed is what one stream request of a run showed.
type streamed struct {
	open   *harness.Response
	frames []sse.Frame
}

// served reports whether the stream was opened at all.
func (s streamed) served() bool { return s.open.Is(http.StatusOK).OK }

// modeQuery is a stream request in a mode, "" for none, with a buffer time,
// negative for none.
func modeQuery(runID, mode string, bufferMs int) harness.Request {
	r := harness.Request{Path: runPath(runID, "/events"), Query: url.Values{}, Header: http.Header{}}
	if mode != "" {
		r.Query.Set("streamMode", mode)
	}
	if bufferMs >= 0 {
		r.Query.Set("bufferMs", strconv.Itoa(bufferMs))
	}
	return r
}

// readFinished reads a finished run's stream up to the end of the run, or to
// the close where the mode does not show that end.
func readFinished(t *harness.T, r harness.Request) streamed {
	s := t.Stream(r)
	defer s.Close()
	return streamed{open: s.Response, frames: s.Collect(showsEnd, 5*time.Second)}
}

// readMode is readFinished in a mode, unbuffered.
func readMode(t *harness.T, runID, mode string) streamed {
	return readFinished(t, modeQuery(runID, mode, -1))
}

// unservedMode reports whether a host refused an optional mode as one it does
// not serve.
func unservedMode(s streamed) bool { return s.open.Refuses("unsupported_stream_mode").OK }

// showsEnd reports whether a frame of any mode shows that the run has ended:
// by its terminal event, alone or in a batch, or by a snapshot of its status.
func showsEnd(f sse.Frame) bool {
	v, err := jcs.Decode([]byte(f.Data))
	if err != nil {
		return false
	}
	ends := func(v any) bool {
		if typ, has := harness.Get(v, "type").(string); has {
			return isTerminalType(typ)
		}
		status, _ := harness.Get(v, "status").(string)
		return endedStatus(status)
	}
	if list, ok := v.([]any); ok {
		return slices.ContainsFunc(list, ends)
	}
	return ends(v)
}

// eventsIn are the events a frame carries, one or a batch of them. ok is false
// for data that is neither.
func eventsIn(f sse.Frame) (events []object, ok bool) {
	v, err := jcs.Decode([]byte(f.Data))
	if err != nil {
		return nil, false
	}
	list, batch := v.([]any)
	if !batch {
		list = []any{v}
	}
	for _, e := range list {
		event, ok := e.(object)
		if !ok {
			return nil, false
		}
		events = append(events, event)
	}
	return events, true
}

// allEventsIn are the events of all frames, those of unreadable ones left out.
func allEventsIn(frames []sse.Frame) []object {
	var out []object
	for _, f := range frames {
		events, _ := eventsIn(f)
		out = append(out, events...)
	}
	return out
}

// frameSequence is the sequence a frame stands for: its id, or where it has
// none that of the event it carries; -1 where neither is an integer.
func frameSequence(f sse.Frame) int64 {
	if n, err := strconv.ParseInt(f.ID, 10, 64); err == nil && f.HasID {
		return n
	}
	event, err := frameEvent(f)
	if err != nil {
		return -1
	}
	if n, ok := sequenceOf(event); ok {
		return n
	}
	return -1
}

// frameSequences are the sequences of frames, in their order.
func frameSequences(frames []sse.Frame) []int64 {
	out := []int64{}
	for _, f := range frames {
		out = append(out, frameSequence(f))
	}
	return out
}

// untilEnd are the events of a log up to the one that ended the run: a stream
// is closed there, whatever follows.
func untilEnd(events []object) []object {
	for i, e := range events {
		if isTerminalType(e["type"]) {
			return events[:i+1]
		}
	}
	return events
}

// tierOf is the stream mode of a registered type, "" for a type that is not
// registered in this contract.
func tierOf(c *corpus.Corpus, event object) string {
	typ, _ := event["type"].(string)
	e, _ := c.Event(typ)
	return e.Tier
}

// isVendorEvent reports whether an event's type is a vendor's.
func isVendorEvent(c *corpus.Corpus, event object) bool {
	return tierOf(c, event) == "" && allowedType(c, event["type"]).OK
}

// delayedRun creates a run that waits some milliseconds and then ends by
// itself. The caller's gate is liveFixtures.
func delayedRun(t *harness.T, delayMs int, more object) string {
	body := liveBody(t)
	if listed(t, delay) {
		body = object{"workflowId": delay}
	}
	body["inputs"] = object{"delayMs": delayMs}
	for name, value := range more {
		body[name] = value
	}
	return startRun(t, body)
}
