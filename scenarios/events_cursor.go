package scenarios

import (
	"net/http"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// sseLastEventIDCursor covers the edges of Last-Event-ID (events.md, "Resuming
// with Last-Event-ID").
func sseLastEventIDCursor() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-sse-last-event-id-cursor",
		Title:    "A cursor at or past the end of the log waits or closes, and is read only after authorization",
		Document: "events.md", Section: "Resuming with Last-Event-ID",
		Tests: []harness.Test{
			{
				Name:      "a finished run's stream closes without a frame",
				Witnesses: []requirements.ID{requirements.R0213LastEventIdExclusiveCursor},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       cursorOfFinished,
			},
			{
				Name:      "an active run's stream is held open and delivers later events",
				Witnesses: []requirements.ID{requirements.R0213LastEventIdExclusiveCursor},
				Gates:     []harness.Gate{liveFixtures()},
				Slow:      3 * time.Second,
				Run:       cursorOfActive,
			},
			{
				Name:      "a caller without a credential is answered the same with and without the header",
				Witnesses: []requirements.ID{requirements.R0213LastEventIdAfterAuthorization},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       cursorOfAnonymous,
			},
			{
				Name:      "another tenant is answered the same with and without the header",
				Witnesses: []requirements.ID{requirements.R0213LastEventIdAfterAuthorization},
				Gates:     []harness.Gate{endingFixtures(), harness.NeedsCredential(harness.OtherTenant)},
				Run:       cursorOfOtherTenant,
			},
			{
				Name:      "a malformed Last-Event-ID is refused",
				Witnesses: []requirements.ID{requirements.R0213LastEventIdMalformed},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       cursorMalformed,
			},
		},
	}
}

func cursorOfFinished(t *harness.T) {
	id, l := settledEnding(t)
	last := highest(l.events)
	for _, at := range []struct {
		mode   string
		cursor int64
	}{{"", last}, {"", last + 1}, {"", last + 1_000_000}, {"", mostSafe}, {"debug", last}, {"debug", last + 1}} {
		s := stream(t, id, at.mode, decimal(at.cursor))
		if unserved(at.mode, s) {
			continue
		}
		held := t.Expect(requirements.R0213LastEventIdExclusiveCursor, closesEmpty(s, at.cursor, last))
		s.Close()
		if !held {
			return // the other cursors are the same to such a host, and cost as long a wait
		}
	}
}

// mostSafe is the largest integer that every JSON reader tells from the next.
const mostSafe = 1<<53 - 1

// closesEmpty checks a stream that has nothing to send. Comments are no frames.
func closesEmpty(s *harness.Stream, cursor, last int64) harness.Check {
	expected := "status 200 and a close without a frame, for cursor " + decimal(cursor) + " on a finished log up to " + decimal(last)
	if open := s.Response.Is(http.StatusOK); !open.OK {
		return harness.That(false, expected, "%s", open.Observed).At(s.Response)
	}
	if f, ok := s.Next(settle); ok {
		return harness.That(false, expected, "a frame with id %q and event %q", f.ID, f.Event).At(s.Response)
	}
	closure := s.AwaitClose(0)
	return harness.That(closure == harness.ClosedByHost, expected, "no frame, and the stream %s after %s", ended(closure), settle).At(s.Response)
}

func ended(c harness.Closure) string {
	if c == harness.Open {
		return "still open"
	}
	return "ended by " + string(c)
}

// hold is how long a stream without backlog has to stay open to count as held.
const hold = time.Second

func cursorOfActive(t *harness.T) {
	id := liveRun(t)
	last := highest(wholeLog(t, id).events)
	if last < 0 {
		t.Abort("no events of the active run to put a cursor at")
	}
	atEnd := streamSoon(t, streamRequest(id, "", decimal(last)))
	pastEnd := streamSoon(t, streamRequest(id, "", decimal(last+1000)))
	var at, past *harness.Stream
	until := time.After(hold)
	for waiting := true; waiting; {
		select {
		case at = <-atEnd:
		case past = <-pastEnd:
		case <-until:
			waiting = false
		}
	}
	early := []harness.Check{heldOpen(at, last), heldOpen(past, last+1000)}
	cancel(t, id, object{})
	if at == nil {
		at = <-atEnd
	}
	if past == nil {
		past = <-pastEnd
	}
	frames := at.Collect(endsRun, settle)
	t.Expect(requirements.R0213LastEventIdExclusiveCursor, harness.All(early[0], resumes(at, frames, last, nil)))
	t.Expect(requirements.R0213LastEventIdExclusiveCursor, harness.All(early[1], onlyAbove(past, last+1000)))
}

// heldOpen checks a stream of an active run that has no backlog. nil is a
// stream whose headers the host holds back, which is open too.
func heldOpen(s *harness.Stream, cursor int64) harness.Check {
	expected := "status 200 and a stream held open, for cursor " + decimal(cursor) + " of an active run"
	if s == nil {
		return harness.That(true, expected, "no answer yet")
	}
	if open := s.Response.Is(http.StatusOK); !open.OK {
		return harness.That(false, expected, "%s", open.Observed).At(s.Response)
	}
	closure := s.AwaitClose(0)
	return harness.That(closure == harness.Open, expected, "a stream %s within %s", ended(closure), hold).At(s.Response)
}

// onlyAbove checks that a stream sends nothing at or below its cursor.
func onlyAbove(s *harness.Stream, cursor int64) harness.Check {
	expected := "status 200, and only events above " + decimal(cursor)
	if open := s.Response.Is(http.StatusOK); !open.OK {
		return harness.That(false, expected, "%s", open.Observed).At(s.Response)
	}
	got := sequences(s.Collect(nil, 2*time.Second))
	for _, seq := range got {
		if seq <= cursor {
			return harness.That(false, expected, "sequences %v", got).At(s.Response)
		}
	}
	return harness.That(true, expected, "sequences %v", got).At(s.Response)
}

func cursorOfAnonymous(t *harness.T) {
	id, _ := settledEnding(t)
	for _, who := range []harness.Identity{harness.Anonymous, harness.Unknown} {
		for _, c := range sameAnswers(t, id, who) {
			t.Expect(requirements.R0213LastEventIdAfterAuthorization, c)
		}
	}
}

func cursorOfOtherTenant(t *harness.T) {
	id, _ := settledEnding(t)
	for _, c := range sameAnswers(t, id, harness.OtherTenant) {
		t.Expect(requirements.R0213LastEventIdAfterAuthorization, c)
	}
}

// sameAnswers compares what a caller who cannot read a run gets with and
// without the header: the status and the code, since a message or a
// correlation id may differ between any two answers.
func sameAnswers(t *harness.T, runID string, who harness.Identity) []harness.Check {
	ask := func(lastEventID string) *harness.Response {
		r := streamRequest(runID, "", lastEventID)
		r.As = who
		s := t.Stream(r)
		s.Close()
		return s.Response
	}
	without := ask("")
	if without.Err != nil || without.Status < 400 {
		t.Abort("the %s is not refused the run, so nothing is to be compared: %s", who, without.Is(http.StatusForbidden).Observed)
	}
	var checks []harness.Check
	for _, cursor := range []string{"0", "1000000", "wopcert"} {
		with := ask(cursor)
		checks = append(checks, harness.All(
			harness.Equal("status for the "+who.String()+" with Last-Event-ID "+cursor, without.Status, with.Status),
			harness.Equal("error for the "+who.String()+" with Last-Event-ID "+cursor, without.Get("error"), with.Get("error")),
		).At(with))
	}
	return checks
}

func cursorMalformed(t *harness.T) {
	id, _ := settledEnding(t)
	control := stream(t, id, "", "0")
	control.Close()
	if c := control.Response.Is(http.StatusOK); !c.OK {
		t.Abort("a well-formed Last-Event-ID is not accepted, so a refusal shows nothing: %s", c.Observed)
	}
	for _, cursor := range []string{"wopcert", "-1", "1.5", "0x1"} {
		s := stream(t, id, "", cursor)
		s.Close()
		t.Should(requirements.R0213LastEventIdMalformed, s.Response.Refuses("validation_error"))
	}
}
