package scenarios

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"wopcert/bundle/jcs"
	"wopcert/harness"
	"wopcert/harness/sse"
	"wopcert/requirements"
)

// streamBatching covers bufferMs (events.md, "Batching and subscribers").
func streamBatching() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-stream-batching",
		Title:    "Buffered events arrive in batches that lose, repeat and delay nothing",
		Document: "events.md", Section: "Batching and subscribers",
		Tests: []harness.Test{
			{
				Name:      "batches hold the events of the unbuffered stream",
				Witnesses: []requirements.ID{requirements.EventsBatchFrames, requirements.EventsBatchId},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       batchesOfFinished,
			},
			{
				Name:      "the end of a run does not wait for the buffer",
				Witnesses: []requirements.ID{requirements.EventsBatchFlush},
				Gates:     []harness.Gate{liveFixtures()},
				Slow:      2 * time.Second,
				Run:       flushAtEnd,
			},
			{
				Name:      "a suspension does not wait for the buffer",
				Witnesses: []requirements.ID{requirements.EventsBatchFlush},
				Gates:     []harness.Gate{optIn(waitsForEvent)},
				Slow:      2 * time.Second,
				Run:       flushAtSuspension,
			},
			{
				Name:      "a stream resumes after a batch by its id",
				Witnesses: []requirements.ID{requirements.EventsBatchCursor},
				Gates:     []harness.Gate{liveFixtures()},
				Slow:      2 * time.Second,
				Run:       resumesAfterBatch,
			},
		},
	}
}

// fullestMode is the mode with the most events that a host serves.
func fullestMode(t *harness.T, runID string) string {
	if unservedMode(readMode(t, runID, "debug")) {
		return "updates"
	}
	return "debug"
}

func batchesOfFinished(t *harness.T) {
	id, _ := settledRun(t, endingFixtureOf(t))
	several := false
	for _, mode := range slices.Compact([]string{"updates", fullestMode(t, id)}) {
		plain := readMode(t, id, mode)
		if !plain.served() || len(plain.frames) == 0 {
			t.Abort("no unbuffered stream to compare with: streamMode=%s gave %s and %d frames", mode, answered(plain.open), len(plain.frames))
		}
		for _, bufferMs := range []int{300, 0} {
			buffered := readToClose(t, modeQuery(id, mode, bufferMs))
			t.Expect(requirements.EventsBatchFrames, batchesHold(plain, buffered, bufferMs))
			for _, f := range buffered.frames {
				if events, isBatch := batchOf(f); isBatch && len(events) > 1 {
					several = true
					t.Should(requirements.EventsBatchId, harness.Equal("id of a batch", decimal(highest(events)), f.ID).At(buffered.open))
				}
			}
		}
	}
	if !several {
		t.Inapplicable(requirements.EventsBatchId, "the host sent no batch of two or more events of a finished run")
	}
}

// readToClose is readFinished, and what comes after the end until the host closes the
// stream, as far as that comes soon.
func readToClose(t *harness.T, r harness.Request) streamed {
	s := t.Stream(r)
	defer s.Close()
	frames := s.Collect(showsEnd, 5*time.Second)
	return streamed{open: s.Response, frames: append(frames, s.Collect(nil, 500*time.Millisecond)...)}
}

// batchOf are the events of a frame whose data is an array.
func batchOf(f sse.Frame) (events []object, isBatch bool) {
	v, err := jcs.Decode([]byte(f.Data))
	if _, isBatch = v.([]any); err != nil || !isBatch {
		return nil, false
	}
	events, _ = eventsIn(f)
	return events, true
}

// batchesHold checks the frames of a buffered stream against those of the
// unbuffered one: batches of one or more events, or events alone, and together
// the same events once and in order. bufferMs 0 buffers nothing, and a batch
// is no way to send what is not buffered.
func batchesHold(plain, buffered streamed, bufferMs int) harness.Check {
	expected := fmt.Sprintf("with bufferMs=%d the events of the unbuffered stream, once and in order, in batches or alone", bufferMs)
	if open := buffered.open.Is(http.StatusOK); !open.OK {
		return open
	}
	var got []object
	for i, f := range buffered.frames {
		events, readable := eventsIn(f)
		_, isBatch := batchOf(f)
		switch {
		case !readable || len(events) == 0:
			return harness.That(false, expected, "frame %d with event %q and data that holds no events", i, f.Event).At(buffered.open)
		case isBatch != (f.Event == "batch"):
			return harness.That(false, expected, "frame %d with event %q and data of %d events in array %s", i, f.Event, len(events), strconv.FormatBool(isBatch)).At(buffered.open)
		case isBatch && bufferMs == 0 && len(events) > 1:
			return harness.That(false, expected, "frame %d with a batch of %d events", i, len(events)).At(buffered.open)
		}
		got = append(got, events...)
	}
	for i, e := range got {
		if slices.ContainsFunc(got[:i], func(earlier object) bool { return earlier["sequence"] == e["sequence"] }) {
			return harness.That(false, expected, "%s twice", label(e)).At(buffered.open)
		}
	}
	want := untilEnd(allEventsIn(plain.frames))
	got = untilEnd(got)
	if c := sameEvents(expected, want, got); !c.OK {
		return c.At(buffered.open)
	}
	for i, e := range want {
		if c := same("event "+decimal(int64(i))+" of the unbuffered stream", e, got[i]); !c.OK {
			return c.At(buffered.open)
		}
	}
	return harness.That(true, expected, "%d events in %d frames", len(got), len(buffered.frames)).At(buffered.open)
}

const (
	// longBuffer is the longest buffer a client may ask for, in milliseconds.
	longBuffer = 5000
	// promptly is how long what must not wait for the buffer may take.
	promptly = 3 * time.Second
	// flushTries is how often a flush is waited for: a busy machine may be late
	// once, and a host that waits for its buffer is late each time.
	flushTries = 3
)

// withoutHaste makes a check again while it fails and there are tries left.
func withoutHaste(check func() harness.Check) harness.Check {
	for range flushTries - 1 {
		if c := check(); c.OK {
			return c
		}
	}
	return check()
}

func flushAtEnd(t *harness.T) {
	t.Expect(requirements.EventsBatchFlush, withoutHaste(func() harness.Check { return endFlushed(t) }))
}

func endFlushed(t *harness.T) harness.Check {
	id := delayedRun(t, 300, nil)
	opened := streamSoon(t, modeQuery(id, "updates", longBuffer))
	if !awaitEnd(t, id, settle) {
		cancel(t, id, object{})
		(<-opened).Close()
		t.Abort("the run did not end by itself within %s", settle)
	}
	logged := time.Now()
	s := <-opened
	defer s.Close()
	return flushed(t, s, id, logged, func(e object) bool { return isTerminalType(e["type"]) })
}

func flushAtSuspension(t *harness.T) {
	t.Expect(requirements.EventsBatchFlush, withoutHaste(func() harness.Check { return suspensionFlushed(t) }))
}

func suspensionFlushed(t *harness.T) harness.Check {
	id := startRun(t, object{"workflowId": waitsForEvent})
	opened := streamSoon(t, modeQuery(id, "updates", longBuffer))
	_, ok := awaitLogged(t, id, ofType("node.suspended"), settle)
	logged := time.Now()
	if !ok {
		cancel(t, id, object{})
		(<-opened).Close()
		t.Abort("the run did not suspend within %s", settle)
	}
	var s *harness.Stream
	select {
	case s = <-opened:
	case <-time.After(promptly):
	}
	check := harness.That(false, "node.suspended at once", "no answer to the stream request %s after the run had suspended", promptly)
	if s != nil {
		check = flushed(t, s, id, logged, ofType("node.suspended"))
	}
	cancel(t, id, object{})
	if s == nil {
		s = <-opened
	}
	s.Close()
	return check
}

// flushed waits for an event on a buffered stream and checks that it came
// promptly after the log had it, with everything of the mode before it.
func flushed(t *harness.T, s *harness.Stream, runID string, logged time.Time, is func(object) bool) harness.Check {
	expected := fmt.Sprintf("the event that must not wait at most %s after the log had it, and what comes before it", promptly)
	if open := s.Response.Is(http.StatusOK); !open.OK {
		return open
	}
	holds := func(f sse.Frame) bool {
		events, _ := eventsIn(f)
		return slices.ContainsFunc(events, is)
	}
	frames := s.Collect(holds, time.Until(logged.Add(longBuffer*time.Millisecond+promptly)))
	if len(frames) == 0 || !holds(frames[len(frames)-1]) {
		return harness.That(false, expected, "%d frames without it, and the stream %s", len(frames), ended(s.AwaitClose(0))).At(s.Response)
	}
	last := frames[len(frames)-1]
	if late := last.At.Sub(logged); late > promptly {
		return harness.That(false, expected, "it came %s later", late.Round(time.Millisecond)).At(s.Response)
	}
	got := sequencesOf(allEventsIn(frames))
	for _, e := range wholeLog(t, runID).events {
		seq, _ := sequenceOf(e)
		if tierOf(t.Corpus(), e) == "updates" && seq < slices.Max(got) && !slices.Contains(got, seq) {
			return harness.That(false, expected, "sequences %v without %s", got, label(e)).At(s.Response)
		}
	}
	return harness.That(true, expected, "sequences %v", got).At(s.Response)
}

// resumesAfterBatch stops reading at the first batch of a run that goes on,
// and takes the stream up again with the id of that batch.
func resumesAfterBatch(t *harness.T) {
	id := delayedRun(t, 1200, nil)
	mode := "debug"
	s := t.Stream(modeQuery(id, mode, 200))
	if unservedMode(streamed{open: s.Response}) {
		mode = "updates"
		s = t.Stream(modeQuery(id, mode, 200))
	}
	var batch sse.Frame
	s.Collect(func(f sse.Frame) bool {
		_, isBatch := batchOf(f)
		if isBatch && batch.Data == "" {
			batch = f
		}
		return isBatch
	}, settle)
	s.Close()
	if c := s.Response.Is(http.StatusOK); !c.OK {
		t.Abort("no buffered stream to resume: %s", c.Observed)
	}
	events, isBatch := batchOf(batch)
	if !isBatch {
		awaitEnd(t, id, settle)
		t.Inapplicable(requirements.EventsBatchCursor, "the host sent the events of a buffered stream one by one")
		return
	}
	cursor, err := strconv.ParseInt(batch.ID, 10, 64)
	if err != nil || len(events) == 0 {
		t.Abort("no id to resume with: a batch of %d events with id %q", len(events), batch.ID)
	}
	l := readLog(t, id, settle)
	full := untilEnd(allEventsIn(readMode(t, id, mode).frames))
	if !l.terminal || len(full) == 0 {
		t.Abort("no whole stream to compare with: status %q and %d events", l.status, len(full))
	}
	r := modeQuery(id, mode, -1)
	r.Header.Set("Last-Event-ID", batch.ID)
	t.Expect(requirements.EventsBatchCursor, resumesAfter(readFinished(t, r), full, cursor, highest(events)))
}

// resumesAfter checks what a stream resumed with a batch's id sends: the
// events after the batch. Where the id is not the batch's highest sequence, as
// is only recommended, the cursor's own rule may be followed instead.
func resumesAfter(s streamed, full []object, cursor, last int64) harness.Check {
	if open := s.open.Is(http.StatusOK); !open.OK {
		return open
	}
	got := untilEnd(allEventsIn(s.frames))
	check := sameEvents("the events above "+decimal(last)+", the last of the batch", newer(full, last), got).At(s.open)
	if !check.OK && cursor != last {
		return sameEvents("the events above the cursor "+decimal(cursor)+" or after its batch", newer(full, cursor), got).At(s.open)
	}
	return check
}

// streamSubscribers covers many subscribers of one run (events.md, "Batching
// and subscribers").
func streamSubscribers() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-stream-subscribers",
		Title:    "Every subscriber of a run is served whole or told to come back",
		Document: "events.md", Section: "Batching and subscribers",
		Tests: []harness.Test{
			{
				Name:      "many streams of one run each show its end or are refused",
				Witnesses: []requirements.ID{requirements.EventsSubscribersServed},
				Gates:     []harness.Gate{liveFixtures()},
				Slow:      2 * time.Second,
				Run:       manySubscribers,
			},
		},
	}
}

const subscribers = 25

func manySubscribers(t *harness.T) {
	id := delayedRun(t, 1500, nil)
	results := make(chan streamed, subscribers)
	for range subscribers {
		go func() {
			s := t.Stream(modeQuery(id, "updates", -1))
			results <- streamed{open: s.Response, frames: s.Collect(endsRun, settle)}
			s.Close()
		}()
	}
	var all []streamed
	for range subscribers {
		all = append(all, <-results)
	}
	l := readLog(t, id, settle)
	if !l.terminal {
		t.Abort("no end of the run for a subscriber to see: status %q", l.status)
	}
	full := sequencesOf(allEventsIn(readMode(t, id, "updates").frames))
	served := 0
	for _, s := range all {
		if s.open.Status == http.StatusTooManyRequests {
			t.Expect(requirements.EventsSubscribersServed, harness.All(s.open.Refuses("rate_limited"), saysWhen(s.open)).At(s.open))
			continue
		}
		served++
		t.Expect(requirements.EventsSubscribersServed, servedWhole(s, full))
	}
	t.Expect(requirements.EventsSubscribersServed, harness.That(served > 0, "a subscriber that is served", "%d refused", len(all)))
}

// servedWhole checks that a subscriber got the run's events to its end.
func servedWhole(s streamed, full []int64) harness.Check {
	expected := fmt.Sprintf("200 and the run's events %v to the terminal one, or 429 rate_limited", full)
	if open := s.open.Is(http.StatusOK); !open.OK {
		return harness.That(false, expected, "%s", open.Observed).At(s.open)
	}
	got := sequencesOf(allEventsIn(s.frames))
	whole := len(s.frames) > 0 && endsRun(s.frames[len(s.frames)-1]) && slices.Equal(got, full)
	return harness.That(whole, expected, "events %v", got).At(s.open)
}
