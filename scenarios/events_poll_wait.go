package scenarios

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// pollWait covers how long a poll waits, and what it does not read (events.md,
// "Poll").
func pollWait() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-poll-wait",
		Title:    "A poll waits for events, as long as it is asked to and no longer than it has to",
		Document: "events.md", Section: "Poll",
		Tests: []harness.Test{
			{
				Name:      "a waiting poll answers when the run is cancelled",
				Witnesses: []requirements.ID{requirements.EventsPollWakes},
				Gates:     []harness.Gate{liveFixtures()},
				Slow:      time.Second,
				Run:       pollWakes,
			},
			{
				Name:      "a waiting poll answers when the run ends by itself",
				Witnesses: []requirements.ID{requirements.EventsPollWakes},
				Gates:     []harness.Gate{liveFixtures()},
				Slow:      time.Second,
				Run:       pollWakesAtEnd,
			},
			{
				Name:      "a poll of a quiet run answers by its timeout",
				Witnesses: []requirements.ID{requirements.EventsPollBounded},
				Gates:     []harness.Gate{liveFixtures()},
				Slow:      2 * time.Second,
				Run:       pollOfQuiet,
			},
			{
				Name:      "a poll of a finished run does not wait",
				Witnesses: []requirements.ID{requirements.EventsPollBounded},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       pollOfFinished,
			},
			{
				Name:      "other names for a cursor are none",
				Witnesses: []requirements.ID{requirements.EventsPollLegacyParameters},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       pollLegacyParameters,
			},
		},
	}
}

const (
	// pollFor is what a waiting poll asks for.
	pollFor = 20 * time.Second
	// wakesWithin is how long a waiting poll may take to answer an event.
	wakesWithin = 10 * time.Second
)

// waited is what a reader that polls a run to its end saw.
type waited struct {
	events []object
	last   *harness.Response
	at     time.Time // of the last answer
}

// pollToEnd polls after a cursor, again and again, until the run's end shows.
func pollToEnd(t *harness.T, runID string, cursor int64) waited {
	var w waited
	for {
		r := poll(t, runID, cursor, pollFor)
		w.last, w.at = r, time.Now()
		if !r.Is(http.StatusOK).OK {
			return w
		}
		fresh := newer(eventsOf(r), cursor)
		w.events = append(w.events, fresh...)
		cursor = max(cursor, highest(fresh))
		if r.Get("isTerminal") == true || slices.ContainsFunc(fresh, ofType(terminalTypes()...)) || t.Context().Err() != nil {
			return w
		}
		if len(fresh) == 0 && r.Elapsed < time.Second {
			pause(t, 50*time.Millisecond) // a poll need not wait, but must not be asked in a tight loop
		}
	}
}

// pollWakes cancels a run under a poll that waits on it.
func pollWakes(t *harness.T) {
	id := liveRun(t)
	waiting, ok := pollAside(t, id)
	if !ok {
		t.Abort("no active run to poll: its log has its end")
	}
	pause(t, 300*time.Millisecond) // so that the poll is waiting by then
	r := cancel(t, id, object{})
	visible := awaitEnd(t, id, settle)
	ended := time.Now()
	w := <-waiting
	if !r.Is(http.StatusOK).OK || !visible {
		t.Abort("the run did not end under the poll: cancelRun gave %s", answered(r))
	}
	t.Expect(requirements.EventsPollWakes, wokeUp(w, ended))
}

// pollWakesAtEnd has a run end by itself under the poll. A host that is slow to
// answer gets a run that lasts longer.
func pollWakesAtEnd(t *harness.T) {
	for _, work := range []time.Duration{800 * time.Millisecond, 5 * time.Second} {
		id := delayedRun(t, int(work.Milliseconds()), nil)
		waiting, ok := pollAside(t, id)
		if !ok {
			continue
		}
		visible := awaitEnd(t, id, work+settle)
		ended := time.Now()
		w := <-waiting
		if !visible {
			t.Abort("the run did not end by itself within %s", work+settle)
		}
		t.Expect(requirements.EventsPollWakes, wokeUp(w, ended))
		return
	}
	t.Abort("no active run to poll: every run ended before its log could be read")
}

// pollAside begins to poll after what a run's log has so far. ok is false for
// a log that has nothing more to come, or cannot be read.
func pollAside(t *harness.T, runID string) (w <-chan waited, ok bool) {
	l := wholeLog(t, runID)
	if len(l.events) == 0 || slices.ContainsFunc(l.events, ofType(terminalTypes()...)) {
		return nil, false
	}
	out := make(chan waited, 1)
	go func() { out <- pollToEnd(t, runID, highest(l.events)) }()
	return out, true
}

// wokeUp checks that a reader that polls saw the end of the run, and when.
func wokeUp(w waited, ended time.Time) harness.Check {
	expected := fmt.Sprintf("a waiting poll to answer with the run's terminal event within %s of it", wakesWithin)
	if c := w.last.Is(http.StatusOK); !c.OK {
		return harness.That(false, expected, "%s", c.Observed).At(w.last)
	}
	if !slices.ContainsFunc(w.events, ofType(terminalTypes()...)) {
		return harness.That(false, expected, "events %v after the cursor, none terminal", sequencesOf(w.events)).At(w.last)
	}
	late := w.at.Sub(ended)
	return harness.That(late <= wakesWithin, expected, "an answer %s after it", late.Round(time.Millisecond)).At(w.last)
}

// tolerance is what a poll may take beyond the time it was asked to wait.
const tolerance = 5 * time.Second

func pollOfQuiet(t *harness.T) {
	id := liveRun(t)
	defer cancel(t, id, object{})
	for range 3 {
		cursor := highest(wholeLog(t, id).events)
		r := timedPoll(t, id, cursor, 1, time.Second+tolerance)
		if r.Is(http.StatusOK).OK && len(newer(eventsOf(r), cursor)) > 0 {
			continue // the run was not quiet
		}
		t.Expect(requirements.EventsPollBounded, answersEmpty(r, time.Second+tolerance))
		return
	}
	t.Abort("the run is never quiet: three polls in a row had events after the cursor")
}

func pollOfFinished(t *harness.T) {
	id, l := settledEnding(t)
	for _, seconds := range []int{1, 30, 60} { // the least and the most there are, and the default
		r := timedPoll(t, id, highest(l.events), seconds, tolerance)
		t.Expect(requirements.EventsPollBounded, harness.All(answersEmpty(r, tolerance),
			harness.Equal("isTerminal", any(true), r.Get("isTerminal")).At(r)))
	}
}

// timedPoll polls with a timeout in seconds, and gives up soon after the time
// an answer may take.
func timedPoll(t *harness.T, runID string, cursor int64, seconds int, within time.Duration) *harness.Response {
	q := url.Values{"afterSequence": {decimal(cursor)}, "timeout": {decimal(int64(seconds))}}
	return t.Do(harness.Request{Path: runPath(runID, "/events/poll"), Query: q, Timeout: within + time.Second})
}

// answersEmpty checks a poll that has nothing to return.
func answersEmpty(r *harness.Response, within time.Duration) harness.Check {
	return harness.All(
		noEvents(r),
		harness.That(r.Elapsed <= within, fmt.Sprintf("an answer within %s", within), "one after %s", r.Elapsed.Round(time.Millisecond)).At(r),
	)
}

func pollLegacyParameters(t *harness.T) {
	id, _ := settledEnding(t)
	plain := wholeLog(t, id)
	if len(plain.events) < 2 {
		t.Abort("a poll without a cursor shows %d events, too few to tell whether another parameter is one", len(plain.events))
	}
	for _, name := range []string{"lastSequence", "since"} {
		q := url.Values{name: {decimal(highest(plain.events))}, "timeout": {"1"}}
		r := t.Do(harness.Request{Path: runPath(id, "/events/poll"), Query: q})
		if r.Refuses("validation_error").OK {
			t.Expect(requirements.EventsPollLegacyParameters, r.Refuses("validation_error"))
			continue
		}
		t.Expect(requirements.EventsPollLegacyParameters, harness.All(r.Is(http.StatusOK),
			harness.Equal("sequences of a poll with "+name, sequencesOf(plain.events), sequencesOf(eventsOf(r)))).At(r))
	}
}
