package scenarios

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"wopcert/corpus"
	"wopcert/harness"
	"wopcert/harness/sse"
	"wopcert/requirements"
)

// streamModes covers what each stream mode carries (events.md, "Stream modes").
func streamModes() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-stream-modes",
		Title:    "Each stream mode carries the events it is for, all of them and in order",
		Document: "events.md", Section: "Stream modes",
		Tests: []harness.Test{
			{
				Name:      "updates is served and is what a stream without a mode is",
				Witnesses: []requirements.ID{requirements.EventsUpdatesMode},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       updatesIsDefault,
			},
			{
				Name:      "the optional modes are served",
				Witnesses: []requirements.ID{requirements.EventsAllModes},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       optionalModes,
			},
			{
				Name:      "updates and debug streams of finished runs are their parts of the log",
				Witnesses: []requirements.ID{requirements.EventsUpdatesTier, requirements.EventsDebugComplete},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       tiersOfFinished,
			},
			{
				Name:      "an updates stream shows a pause and its end",
				Witnesses: []requirements.ID{requirements.EventsUpdatesTier},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       tierOfPaused,
			},
			{
				Name:      "a values stream of a finished run holds snapshots up to its end",
				Witnesses: []requirements.ID{requirements.EventsValuesSnapshots},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       snapshotsOfFinished,
			},
			{
				Name:      "a values stream of an active run shows each transition",
				Witnesses: []requirements.ID{requirements.EventsValuesSnapshots},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       snapshotsOfActive,
			},
		},
	}
}

func updatesIsDefault(t *harness.T) {
	id, _ := settledRun(t, endingFixtureOf(t))
	named, unnamed := readMode(t, id, "updates"), readMode(t, id, "")
	const expected = "the same events of the run with streamMode=updates and without a mode"
	describe := func(s streamed) string {
		var parts []string
		for _, e := range allEventsIn(s.frames) {
			parts = append(parts, fmt.Sprintf("%v %v", e["sequence"], e["type"]))
		}
		return strings.Join(parts, ", ")
	}
	t.Expect(requirements.EventsUpdatesMode, harness.All(
		named.open.Is(http.StatusOK),
		unnamed.open.Is(http.StatusOK),
		harness.That(len(named.frames) > 0, "events of the finished run in streamMode=updates", "none").At(named.open),
		harness.That(describe(named) == describe(unnamed), expected, "%s with it, %s without", describe(named), describe(unnamed)).At(unnamed.open),
	))
}

func optionalModes(t *harness.T) {
	id, _ := settledEnding(t)
	for _, mode := range []string{"values", "messages", "debug"} {
		t.Should(requirements.EventsAllModes, modeStatus(t, id, mode))
	}
}

// furtherSamples are finished runs of fixtures whose logs have events that
// those of samples lack: suspensions, dispatches, artifacts, chunks. A host
// that holds none of them, or does not end their runs, is judged without.
func furtherSamples(t *harness.T) []sample {
	bodies := []object{}
	for _, id := range []string{subWorkflowCalls, emitsArtifact, dispatchLoop} {
		if listed(t, id) {
			bodies = append(bodies, object{"workflowId": id})
		}
	}
	if listed(t, streamText) && mocksText(t.Host().Discovery) {
		bodies = append(bodies, spokenText())
	}
	var out []sample
	for _, body := range bodies {
		if r := create(t, body); r.Is(http.StatusCreated).OK && r.Text("runId") != "" {
			out = append(out, sample{id: r.Text("runId"), workflow: body["workflowId"].(string)})
		}
	}
	if listed(t, waitsForEvent) {
		if r := create(t, object{"workflowId": waitsForEvent}); r.Is(http.StatusCreated).OK && r.Text("runId") != "" {
			awaitLogged(t, r.Text("runId"), ofType("node.suspended"), 5*time.Second)
			cancel(t, r.Text("runId"), object{})
			out = append(out, sample{id: r.Text("runId"), workflow: waitsForEvent})
		}
	}
	var reading sync.WaitGroup
	for i := range out {
		reading.Go(func() {
			out[i].log = readLog(t, out[i].id, 5*time.Second)
			if !out[i].log.terminal {
				cancel(t, out[i].id, object{})
			}
		})
	}
	reading.Wait()
	return slices.DeleteFunc(out, func(s sample) bool { return !s.log.terminal || len(s.log.events) == 0 })
}

func tiersOfFinished(t *harness.T) {
	all := append(samples(t), furtherSamples(t)...)
	updates, debug := make([]streamed, len(all)), make([]streamed, len(all))
	var reading sync.WaitGroup // one after another they take a slow host too long
	for i, s := range all {
		reading.Go(func() {
			updates[i], debug[i] = readMode(t, s.id, "updates"), readMode(t, s.id, "debug")
		})
	}
	reading.Wait()
	for i, s := range all {
		t.Expect(requirements.EventsUpdatesTier, ofUpdatesTier(t.Corpus(), updates[i], s.log.events))
		if unservedMode(debug[i]) {
			t.Inapplicable(requirements.EventsDebugComplete, "the host does not serve the debug mode")
			continue
		}
		t.Expect(requirements.EventsDebugComplete, wholeLogIn(debug[i], s.log.events))
	}
}

func tierOfPaused(t *harness.T) {
	id, _ := executing(t, liveBody(t))
	paused := act(t, id, "pause", object{"drainPolicy": "immediate"})
	if paused.Is(http.StatusAccepted).OK {
		awaitLogged(t, id, ofType("run.paused"), settle)
		act(t, id, "resume", object{})
		awaitLogged(t, id, ofType("run.resumed"), settle)
	}
	cancel(t, id, object{})
	l := readLog(t, id, settle)
	if !l.terminal || len(l.events) == 0 {
		t.Abort("no finished run to observe: status %q and %d events %s after the cancel", l.status, len(l.events), settle)
	}
	if countOf(l.events, ofType("run.paused", "run.resumed")) == 0 {
		t.Inapplicable(requirements.EventsUpdatesTier, "the host recorded no pause of the run: pauseRun gave %s", answered(paused))
	}
	t.Expect(requirements.EventsUpdatesTier, ofUpdatesTier(t.Corpus(), readMode(t, id, "updates"), l.events))
}

// ofUpdatesTier checks an updates stream against the log: the events whose
// registered type is of that tier, all of them, in log order, and no other
// registered one. A type this contract does not register says nothing, and
// approvals and clarifications, which the text's list reaches only through
// their payloads, may be there or not.
func ofUpdatesTier(c *corpus.Corpus, s streamed, logged []object) harness.Check {
	if open := s.open.Is(http.StatusOK); !open.OK {
		return open
	}
	judged := func(e object) bool {
		typ, _ := e["type"].(string)
		return tierOf(c, e) != "" && !strings.HasPrefix(typ, "approval.") && !strings.HasPrefix(typ, "clarification.")
	}
	var want []object
	for _, e := range untilEnd(logged) {
		if judged(e) && tierOf(c, e) == "updates" {
			want = append(want, e)
		}
	}
	var got []object
	for _, e := range untilEnd(allEventsIn(s.frames)) {
		if judged(e) {
			got = append(got, e)
		}
	}
	if len(want) == 0 {
		return harness.That(false, "transitions of the run in its log", "a log of %d events without any", len(logged)).At(s.open)
	}
	return sameEvents("the log's events of the updates tier, in order", want, got).At(s.open)
}

// wholeLogIn checks that a debug stream carries the log as polled.
func wholeLogIn(s streamed, logged []object) harness.Check {
	if open := s.open.Is(http.StatusOK); !open.OK {
		return open
	}
	return sameEvents("every event of the log, in order", untilEnd(logged), untilEnd(allEventsIn(s.frames))).At(s.open)
}

// sameEvents compares lists of events by sequence, type and id.
func sameEvents(expected string, want, got []object) harness.Check {
	for i, e := range want {
		if i >= len(got) {
			return harness.That(false, expected, "%d events, the next of which would be %s", len(got), label(e))
		}
		if same := harness.All(
			harness.Equal("sequence", e["sequence"], got[i]["sequence"]),
			harness.Equal("type", e["type"], got[i]["type"]),
			harness.Equal("eventId", e["eventId"], got[i]["eventId"]),
		); !same.OK {
			return harness.That(false, expected, "%s where %s would be", label(got[i]), label(e))
		}
	}
	if len(got) > len(want) {
		return harness.That(false, expected, "%s beyond them", label(got[len(want)]))
	}
	return harness.That(true, expected, "%d events", len(got))
}

func snapshotsOfFinished(t *harness.T) {
	for _, s := range samples(t) {
		values := readMode(t, s.id, "values")
		if unservedMode(values) {
			t.Inapplicable(requirements.EventsValuesSnapshots, "the host does not serve the values mode")
			return
		}
		final := get(t, s.id).Get("status")
		t.Expect(requirements.EventsValuesSnapshots, onlySnapshots(t.Corpus(), values, s.id, final))
		_, most := transitions(t.Corpus(), s.log.events, -1)
		t.Expect(requirements.EventsValuesSnapshots, snapshotCount(values, 1, most))
	}
}

// snapshotsOfActive opens the stream while the one node of the run waits, so
// that the transitions from there on happen under the stream's eyes.
func snapshotsOfActive(t *harness.T) {
	id := delayedRun(t, 600, nil)
	s := t.Stream(modeQuery(id, "values", -1))
	seen := highest(wholeLog(t, id).events)
	values := streamed{open: s.Response, frames: s.Collect(showsEnd, settle)}
	s.Close()
	if unservedMode(values) {
		t.Inapplicable(requirements.EventsValuesSnapshots, "the host does not serve the values mode")
		return
	}
	l := readLog(t, id, settle)
	if !l.terminal || len(l.events) == 0 {
		t.Abort("no finished run to compare with: status %q and %d events", l.status, len(l.events))
	}
	t.Expect(requirements.EventsValuesSnapshots, onlySnapshots(t.Corpus(), values, id, get(t, id).Get("status")))
	live, most := transitions(t.Corpus(), l.events, seen)
	t.Expect(requirements.EventsValuesSnapshots, snapshotCount(values, max(1, live), most))
}

// transitions counts the events of the updates tier: those with a sequence
// above the given one for certain, and all there may be, unknown types and one
// snapshot at the opening included.
func transitions(c *corpus.Corpus, logged []object, after int64) (live, most int) {
	most = 1
	for _, e := range untilEnd(logged) {
		seq, _ := sequenceOf(e)
		switch tierOf(c, e) {
		case "updates":
			most++
			if typ, _ := e["type"].(string); seq > after && !strings.HasPrefix(typ, "approval.") && !strings.HasPrefix(typ, "clarification.") {
				live++
			}
		case "":
			most++
		}
	}
	return live, most
}

// frameID is the sequence that a frame names as its id, -1 for none.
func frameID(f sse.Frame) int64 {
	n, err := strconv.ParseInt(f.ID, 10, 64)
	if err != nil || !f.HasID {
		return -1
	}
	return n
}

func snapshotCount(s streamed, least, most int) harness.Check {
	n := len(s.frames)
	return harness.That(least <= n && n <= most, fmt.Sprintf("from %d to %d snapshots, one after each transition", least, most),
		"%d frames", n).At(s.open)
}

// onlySnapshots checks the frames of a values stream: valid snapshots of the
// run and nothing else, none older than the one before, and the last one of
// the status the run ended in.
func onlySnapshots(c *corpus.Corpus, s streamed, runID string, final any) harness.Check {
	const expected = "state.snapshot frames with a sequence as id and a valid RunSnapshot of the run, in order, the last one of the run as it ended"
	if open := s.open.Is(http.StatusOK); !open.OK {
		return open
	}
	if len(s.frames) == 0 {
		return harness.That(false, expected, "a stream without any frame").At(s.open)
	}
	var last any
	for i, f := range s.frames {
		snapshot, err := frameEvent(f)
		switch {
		case f.Event != "state.snapshot":
			return harness.That(false, expected, "frame %d with event %q", i, f.Event).At(s.open)
		case err != nil:
			return harness.That(false, expected, "frame %d with data that is no object: %v", i, err).At(s.open)
		case !f.HasID || frameID(f) < 0:
			return harness.That(false, expected, "frame %d with id %q, which is no sequence", i, f.ID).At(s.open)
		case snapshot["runId"] != any(runID):
			return harness.That(false, expected, "frame %d of run %v", i, snapshot["runId"]).At(s.open)
		}
		if why := violation(c.ValidateValue("run-snapshot", snapshot)); why != "" {
			return harness.That(false, expected, "frame %d: %s", i, cut(why)).At(s.open)
		}
		last = snapshot["status"]
	}
	ids := []int64{}
	for _, f := range s.frames {
		ids = append(ids, frameID(f))
	}
	return harness.All(
		harness.That(slices.IsSorted(ids), "ids that never go back", "ids %v", ids),
		harness.Equal("status of the last snapshot", final, last),
	).At(s.open)
}

// streamVendorEvents covers where vendor events appear (events.md, "Stream
// modes").
func streamVendorEvents() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-stream-vendor-events",
		Title:    "A vendor's events appear in the debug mode and in no other",
		Document: "events.md", Section: "Stream modes",
		Tests: []harness.Test{
			{
				Name:      "the vendor events of finished runs are in debug alone",
				Witnesses: []requirements.ID{requirements.EventsVendorDebugOnly},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       vendorEventsInDebug,
			},
		},
	}
}

func vendorEventsInDebug(t *harness.T) {
	seen := false
	for _, s := range samples(t) {
		var vendor []object
		for _, e := range untilEnd(s.log.events) {
			if isVendorEvent(t.Corpus(), e) {
				vendor = append(vendor, e)
			}
		}
		if len(vendor) == 0 {
			continue
		}
		seen = true
		for _, mode := range []string{"updates", "messages", "updates,messages", "debug"} {
			read := readMode(t, s.id, mode)
			if unservedMode(read) {
				continue
			}
			t.Expect(requirements.EventsVendorDebugOnly, vendorEventsIn(t.Corpus(), mode, read, vendor))
		}
	}
	if !seen {
		t.Inapplicable(requirements.EventsVendorDebugOnly, "no run the suite made has an event of a vendor's type before its end")
	}
}

// vendorEventsIn checks that a mode shows all vendor events of a log when it
// is debug, and none otherwise.
func vendorEventsIn(c *corpus.Corpus, mode string, s streamed, vendor []object) harness.Check {
	if open := s.open.Is(http.StatusOK); !open.OK {
		return open
	}
	if mode != "debug" {
		vendor = nil
	}
	var got []object
	for _, e := range untilEnd(allEventsIn(s.frames)) {
		if isVendorEvent(c, e) {
			got = append(got, e)
		}
	}
	return sameEvents(fmt.Sprintf("%d vendor events in streamMode=%s", len(vendor), mode), vendor, got).At(s.open)
}
