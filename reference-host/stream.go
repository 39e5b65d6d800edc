package referencehost

import (
	"net/http"
	"strings"
	"time"

	"wopcert/reference-host/internal/clock"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/sse"
)

// maxBufferMs is the longest batching window (events.md §Batching and subscribers).
const maxBufferMs = 5000

// streamQuery is a streamRunEvents request.
type streamQuery struct {
	modes  []string
	buffer time.Duration
	// after is the exclusive cursor; resumed says that the client gave one.
	after   int64
	resumed bool
}

// streamRunEvents serves a run's log as Server-Sent Events. A subscriber is a cursor into the log and a goroutine of
// its own, so none can hold up another, and none can miss the terminal event: it is in the log like every other.
func (h *Host) streamRunEvents(w http.ResponseWriter, r *request) error {
	log, err := h.openRun(r)
	if err != nil {
		return err
	}
	query, err := h.streamQuery(r)
	if err != nil {
		return err
	}
	if _, err := log.Read(query.after); err != nil {
		return err // a log that cannot be read is refused, before there is a stream to break off
	}
	return h.stream(w, func(writer *sse.Writer) {
		s := &subscriber{host: h, log: log, query: query, writer: writer, state: newProjection(log.Run())}
		if err := s.serve(r); err != nil {
			h.logger.Debug("a stream ended early", "run", r.id, "error", err)
		}
	})
}

// stream begins one of the streams that the host has at a time, and gives it back when serve returns.
func (h *Host) stream(w http.ResponseWriter, serve func(*sse.Writer)) error {
	defer h.streams.Add(-1)
	if h.streams.Add(1) > h.config.Limits.MaxStreams {
		return h.codes.busy("streams")
	}
	if writer, err := sse.Start(w, h.config.Limits.WriteTimeout); err == nil { // else the reader is gone
		serve(writer)
	}
	return nil
}

// streamQuery validates, the mode first: nothing is negotiated before it (events.md §Stream modes). The cursor is read
// last, when the caller is known to be allowed to read the run (§Resuming with Last-Event-ID).
func (h *Host) streamQuery(r *request) (streamQuery, error) {
	query := streamQuery{modes: []string{modeUpdates}, after: -1}
	values, err := h.query(r, "streamMode", "bufferMs")
	if err != nil {
		return query, err
	}
	if text, given := values["streamMode"]; given {
		var ok bool
		if query.modes, ok = parseModes(text); !ok {
			return query, h.codes.streamMode(servedModes())
		}
	}
	if text, given := values["bufferMs"]; given {
		window, ok := parseNumber(text)
		if !ok || window > maxBufferMs {
			return query, h.codes.invalid("bufferMs", "The window must be a whole number from 0 to 5000.")
		}
		query.buffer = time.Duration(window) * time.Millisecond
	}
	if fields := r.Header.Values("Last-Event-ID"); len(fields) > 0 {
		cursor, ok := parseCursor(strings.TrimSpace(fields[0]))
		if !ok || len(fields) > 1 {
			return query, h.codes.invalid("Last-Event-ID", "The cursor must be a whole number of at least 0.")
		}
		query.after, query.resumed = cursor, true
	}
	return query, nil
}

// parseCursor reads a non-negative integer of any length: one beyond every sequence is as good as the largest.
func parseCursor(text string) (int64, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	text = strings.TrimLeft(text, "0")
	if len(text) > 18 {
		return maxCursor, true
	}
	var n int64
	for _, digit := range text {
		n = n*10 + int64(digit-'0')
	}
	return n, true
}

const maxCursor = int64(1) << 62

// subscriber is one open stream.
type subscriber struct {
	host   *Host
	log    eventlog.Log
	query  streamQuery
	writer *sse.Writer
	// state is the fold up to the cursor; the values mode shows it, and every mode learns from it that the run ended.
	state *projection
	batch []eventlog.Event
	// shown says that a values stream has shown the state once.
	shown bool
}

// serve follows the log until the run has ended, the reader is gone or the host closes.
func (s *subscriber) serve(r *request) error {
	h := s.host
	beat := newAlarm(h.clock)
	defer beat.stop()
	beat.set(h.config.KeepAlive)
	window := newAlarm(h.clock)
	defer window.stop()
	for first := true; ; first = false {
		changed := s.log.Changed()
		if err := s.advance(first); err != nil {
			return err
		}
		if len(s.batch) > 0 && !window.armed {
			window.set(s.query.buffer)
		} else if len(s.batch) == 0 {
			window.stop()
		}
		if s.state.terminal() {
			return nil
		}
		select {
		case <-changed:
		case <-beat.rung:
			s.writer.Comment("keep-alive")
			if err := s.writer.Flush(); err != nil {
				return err
			}
			beat.set(h.config.KeepAlive)
		case <-window.rung:
			window.stop()
			if err := s.flushBatch(); err != nil {
				return err
			}
		case <-h.closing.Done():
			return s.flushBatch()
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
}

// advance folds what the log has grown by and writes what the cursor and the modes admit.
func (s *subscriber) advance(first bool) error {
	events, err := s.log.Read(s.state.last)
	if err != nil {
		return err
	}
	for i := range events {
		event := &events[i]
		if err := s.state.apply(*event); err != nil {
			return err
		}
		if event.Sequence <= s.query.after {
			continue
		}
		if err := s.take(event); err != nil {
			return err
		}
	}
	if s.state.terminal() {
		if err := s.flushBatch(); err != nil {
			return err
		}
	}
	if first {
		if err := s.openValues(); err != nil {
			return err
		}
	}
	if len(events) > 0 || first {
		return s.writer.Flush()
	}
	return nil
}

// openValues begins a resumed values stream with the state, unless the backlog has shown it already. A run that had
// ended before the cursor has nothing more to say (events.md §Resuming with Last-Event-ID).
func (s *subscriber) openValues() error {
	ended := s.state.terminal() && s.state.last <= s.query.after
	if s.query.modes[0] != modeValues || !s.query.resumed || s.shown || ended {
		return nil
	}
	return s.showState()
}

// take writes or queues one event.
func (s *subscriber) take(event *eventlog.Event) error {
	if s.query.modes[0] == modeValues {
		if s.host.tiers[event.Type] == modeUpdates {
			return s.showState()
		}
		return nil
	}
	admitted := s.host.admittedBy(s.query.modes, event.Type)
	if admitted == "" {
		if event.Type == eventlog.NodeSuspended {
			return s.flushBatch() // whoever waits for the run learns of it without delay, whatever the modes
		}
		return nil
	}
	if s.query.buffer > 0 {
		s.batch = append(s.batch, *event)
		if event.Type == eventlog.NodeSuspended { // the terminal event flushes when the backlog is folded
			return s.flushBatch()
		}
		return nil
	}
	name, data := frameOf(event, admitted, len(s.query.modes) > 1)
	return s.writer.Frame(event.Sequence, name, data)
}

func (s *subscriber) showState() error {
	shown, _, err := s.host.view(s.host.closing, s.state)
	if err != nil {
		return err
	}
	data, err := encode(shown)
	if err != nil {
		return err
	}
	s.shown = true
	return s.writer.Frame(s.state.last, "state.snapshot", data)
}

// flushBatch writes the queued events as one frame (events.md §Batching and subscribers).
func (s *subscriber) flushBatch() error {
	if len(s.batch) == 0 {
		return nil
	}
	data := []byte{'['}
	for i, event := range s.batch {
		if i > 0 {
			data = append(data, ',')
		}
		data = event.AppendJSON(data)
	}
	last := s.batch[len(s.batch)-1].Sequence
	s.batch = s.batch[:0]
	if err := s.writer.Frame(last, "batch", append(data, ']')); err != nil {
		return err
	}
	return s.writer.Flush()
}

// alarm is a timer that can be set again; rung is readable once it has gone off.
type alarm struct {
	clock  clock.Clock
	rung   <-chan struct{}
	armed  bool
	cancel func() bool
}

func newAlarm(c clock.Clock) *alarm { return &alarm{clock: c} }

func (a *alarm) set(d time.Duration) {
	a.stop()
	a.rung, a.cancel = clock.After(a.clock, d)
	a.armed = true
}

func (a *alarm) stop() {
	if a.armed {
		a.cancel()
		a.rung, a.armed = nil, false
	}
}
