package scenarios

import (
	"net/http"
	"strings"
	"time"

	"wopcert/corpus"
	"wopcert/harness"
	"wopcert/requirements"
	"wopcert/seams"
)

// v1EventsTranslated: persistence.md, "The reader rule".
func v1EventsTranslated() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-v1-events-translated",
		Title:    "Every reader shows a log of era 2 through the codemap",
		Document: "persistence.md",
		Section:  "The reader rule",
		Gates:    []harness.Gate{harness.NeedsSeams(), harness.NeedsFixture(noop)},
		Tests: []harness.Test{
			{
				Name:      "a poll shows version 2 names",
				Witnesses: []requirements.ID{requirements.R0176V1EventsTranslatedPoll},
				Run:       translatedOnPoll,
			},
			{
				Name:      "a stream shows version 2 names",
				Witnesses: []requirements.ID{requirements.R0176V1EventsTranslatedSse},
				Run:       translatedOnStream,
			},
			{
				Name:      "a fork holds version 2 names",
				Witnesses: []requirements.ID{requirements.R0176V1EventsTranslatedFork},
				Gates:     []harness.Gate{harness.Advertises("replay")},
				Run:       translatedInFork,
			},
			{
				Name:      "sequences, times, causes and ids come through",
				Witnesses: []requirements.ID{requirements.PersistenceSequenceVerbatim, requirements.PersistenceFieldsPassThrough},
				Run:       passedThrough,
			},
			{
				Name:      "payloads come through",
				Witnesses: []requirements.ID{requirements.PersistencePayloadCarried},
				Run:       payloadsCarried,
			},
			{
				Name:      "a diff shows no version 1 name",
				Witnesses: []requirements.ID{requirements.PersistenceDiffTranslated},
				Run:       diffTranslated,
			},
		},
	}
}

// runOfCaller is the id of a run of the caller's, for payloads that name one.
func runOfCaller(t *harness.T) string { return startRun(t, object{"workflowId": noop}) }

// typicalLog seeds a completed run with rows that any reader has to carry.
func typicalLog(t *harness.T) seededLog { return seed(t, seams.Completed, finished(plainly()...)...) }

func translatedOnPoll(t *harness.T) {
	typical := typicalLog(t)
	r := poll(t, typical.id, -1, time.Second)
	t.Expect(requirements.R0176V1EventsTranslatedPoll, translated(t.Corpus(), typical, eventsOf(r), r))
	own := runOfCaller(t)
	for _, log := range []struct {
		status string
		rows   func(...seedRow) []seedRow
		odd    []seedRow
	}{{seams.Completed, finished, renamed(own)}, {seams.Failed, broken, afterward(own)}} {
		whole := seed(t, log.status, log.rows(log.odd...)...)
		r := poll(t, whole.id, -1, time.Second)
		if !r.Refuses("payload_unprojectable").OK {
			t.Expect(requirements.R0176V1EventsTranslatedPoll, translated(t.Corpus(), whole, eventsOf(r), r))
			continue
		}
		// A payload it takes for none of version 1 is no matter of names: each type by itself.
		for _, row := range log.odd {
			single := seed(t, log.status, log.rows(row)...)
			if r := poll(t, single.id, -1, time.Second); !r.Refuses("payload_unprojectable").OK {
				t.Expect(requirements.R0176V1EventsTranslatedPoll, translated(t.Corpus(), single, eventsOf(r), r))
			}
		}
	}
}

// translated checks that a reader shows every row, under its version 2 name.
func translated(c *corpus.Corpus, log seededLog, events []object, r *harness.Response) harness.Check {
	const expected = "every stored event, under the version 2 name of its type"
	if !r.Is(http.StatusOK).OK {
		return harness.That(false, expected, "%s", answered(r)).At(r)
	}
	shown := bySequence(events)
	for _, row := range log.rows {
		event := shown[row.Sequence]
		if want := expectedType(c, row.Type); event == nil || event["type"] != any(want) {
			return harness.That(false, expected, "%s at sequence %d, where %s, in version 2 %s, is stored", show(event["type"]), row.Sequence, row.Type, want).At(r)
		}
	}
	return harness.That(true, expected, "%d events", len(log.rows)).At(r)
}

func translatedOnStream(t *harness.T) {
	log := typicalLog(t)
	s := readMode(t, log.id, "debug")
	whole := !unservedMode(s)
	if !whole {
		s = readMode(t, log.id, "")
	}
	t.Expect(requirements.R0176V1EventsTranslatedSse, streamTranslated(t.Corpus(), log, s, whole))
}

// streamTranslated checks the frames of a stream: each shows its row's version
// 2 name, and no row is missing that the mode carries.
func streamTranslated(c *corpus.Corpus, log seededLog, s streamed, whole bool) harness.Check {
	const expected = "every stored event that the mode carries, under the version 2 name of its type"
	if !s.served() {
		return harness.That(false, expected, "%s", answered(s.open)).At(s.open)
	}
	shown := bySequence(allEventsIn(s.frames))
	for _, row := range log.rows {
		want := expectedType(c, row.Type)
		tier, _ := c.Event(want)
		event := shown[row.Sequence]
		if event == nil && !whole && tier.Tier != "updates" {
			continue
		}
		if event == nil || event["type"] != any(want) {
			return harness.That(false, expected, "%s at sequence %d, where %s, in version 2 %s, is stored", show(event["type"]), row.Sequence, row.Type, want).At(s.open)
		}
	}
	return harness.That(true, expected, "%d frames", len(s.frames)).At(s.open)
}

func translatedInFork(t *harness.T) {
	modes := forkModes(t)
	if len(modes) == 0 {
		t.Inapplicable(requirements.R0176V1EventsTranslatedFork, noForkModes)
		return
	}
	log := typicalLog(t)
	at := log.terminalAt()
	for _, mode := range modes {
		r := fork(t, log.id, object{"mode": mode, "fromSeq": at})
		if !t.Expect(requirements.R0176V1EventsTranslatedFork, r.Is(http.StatusCreated)) {
			continue
		}
		child := r.Text("runId")
		defer endRun(t, child)
		read := poll(t, child, -1, time.Second)
		inherited := seededLog{id: child, rows: log.rows[:len(log.rows)-1]}
		t.Expect(requirements.R0176V1EventsTranslatedFork, translated(t.Corpus(), inherited, eventsOf(read), read))
	}
}

func passedThrough(t *harness.T) {
	log := seed(t, seams.Completed, finished(
		seedRow{"run.resuming", object{"fromStatus": "paused", "x-wopcert": object{"note": "kept", "n": 2.5}, "openwop-wopcert": true}},
		seedRow{"agent.toolCalled", object{"agentId": "wopcert.agent", "toolName": "search", "callId": "call-1", "vendor.wopcert": "kept"}},
	)...)
	first, again := poll(t, log.id, -1, time.Second), poll(t, log.id, -1, time.Second)
	needEvents(t, first)
	needEvents(t, again)
	s := readMode(t, log.id, "debug")
	if unservedMode(s) {
		s = readMode(t, log.id, "")
	}
	if !s.served() {
		t.Abort("no stream of the seeded run to observe: %s", answered(s.open))
	}
	streamed := allEventsIn(s.frames)
	t.Expect(requirements.PersistenceSequenceVerbatim, sequencesKept("a poll", log, eventsOf(first), true).At(first))
	t.Expect(requirements.PersistenceSequenceVerbatim, sequencesKept("a stream", log, streamed, false).At(s.open))
	t.Expect(requirements.PersistenceFieldsPassThrough, fieldsKept("a poll", log, eventsOf(first), eventsOf(again)).At(again))
	t.Expect(requirements.PersistenceFieldsPassThrough, fieldsKept("a stream", log, eventsOf(first), streamed).At(s.open))
}

// needEvents ends a test that has no events to look at.
func needEvents(t *harness.T, r *harness.Response) {
	if !r.Is(http.StatusOK).OK || len(eventsOf(r)) == 0 {
		t.Abort("no events of the seeded run to observe: %s with %d events", answered(r), len(eventsOf(r)))
	}
}

// sequencesKept checks that events have the sequences they were stored with:
// all of them, or those that a mode shows.
func sequencesKept(reader string, log seededLog, events []object, all bool) harness.Check {
	expected := "the stored sequences from 0 on in " + reader
	stored := map[int64]string{}
	for _, row := range log.rows {
		stored[row.Sequence] = row.Type
	}
	shown := sequencesOf(events)
	for _, seq := range shown {
		if _, ok := stored[seq]; !ok {
			return harness.That(false, expected, "sequences %v", shown)
		}
	}
	first := len(shown) > 0 && shown[0] == 0
	return harness.That(first && (!all || len(shown) == len(log.rows)), expected, "sequences %v", shown)
}

// fieldsKept checks what a reader shows against the stored rows, and against
// what another reader, or the same one before, showed as ids.
func fieldsKept(reader string, log seededLog, before, events []object) harness.Check {
	expected := "timestamp, causationId, vendor members and one eventId in " + reader
	ids, shown := bySequence(before), bySequence(events)
	for _, row := range log.rows {
		event := shown[row.Sequence]
		if event == nil {
			continue // a mode may leave it out; that it is there is another requirement
		}
		switch {
		case !sameInstant(event["timestamp"], row.Timestamp):
			return harness.That(false, expected, "%s with timestamp %s, stored as %s", label(event), show(event["timestamp"]), row.Timestamp)
		case text(event, "causationId") != row.CausationID:
			return harness.That(false, expected, "%s with causationId %s, stored as %q", label(event), show(event["causationId"]), row.CausationID)
		case text(event, "eventId") == "" || ids[row.Sequence] == nil || ids[row.Sequence]["eventId"] != event["eventId"]:
			return harness.That(false, expected, "%s with eventId %s, first seen with %s", label(event), show(event["eventId"]), show(ids[row.Sequence]["eventId"]))
		}
		for name, value := range row.Payload {
			if !strings.HasPrefix(name, "x-") && !strings.HasPrefix(name, "openwop-") && !strings.HasPrefix(name, "vendor.") {
				continue
			}
			if c := same("vendor member "+name+" of "+label(event), plain(value), harness.Get(event, "payload", name)); !c.OK {
				return harness.That(false, expected, "%s, stored as %s", c.Observed, c.Expected)
			}
		}
	}
	return harness.That(len(shown) > 0, expected, "%d events", len(shown))
}

func sameInstant(v any, stored string) bool {
	s, _ := v.(string)
	a, errA := time.Parse(time.RFC3339Nano, s)
	b, errB := time.Parse(time.RFC3339Nano, stored)
	return errA == nil && errB == nil && a.Equal(b)
}

func payloadsCarried(t *harness.T) {
	for _, log := range []seededLog{typicalLog(t), seed(t, seams.Failed, broken()...)} {
		r := poll(t, log.id, -1, time.Second)
		needEvents(t, r)
		t.Expect(requirements.PersistencePayloadCarried, payloadsKept(t.Corpus(), log, eventsOf(r)).At(r))
	}
}

// payloadsKept checks that each payload holds what was stored, whatever a
// projection adds, and is one of its version 2 type. Types are not its matter:
// an event is judged by the row of its sequence.
func payloadsKept(c *corpus.Corpus, log seededLog, events []object) harness.Check {
	const expected = "every stored payload member with its value, in a payload valid for the version 2 type"
	shown := bySequence(events)
	for _, row := range log.rows {
		event := shown[row.Sequence]
		if event == nil {
			return harness.That(false, expected, "no event at sequence %d", row.Sequence)
		}
		for name, value := range row.Payload {
			if check := same(name+" of "+label(event), plain(value), harness.Get(event, "payload", name)); !check.OK {
				return harness.That(false, expected, "%s, stored as %s", check.Observed, check.Expected)
			}
		}
		if err := c.ValidatePayload(expectedType(c, row.Type), event["payload"]); err != nil {
			return harness.That(false, expected, "%s: %v", label(event), err)
		}
	}
	return harness.That(true, expected, "%d payloads", len(log.rows))
}

func diffTranslated(t *harness.T) {
	call := func(tool string) seedRow {
		return seedRow{"agent.toolCalled", object{"agentId": "wopcert.agent", "toolName": tool, "callId": "call-1"}}
	}
	a := seed(t, seams.Completed, finished(call("search"), seedRow{"run.resuming", object{}})...)
	b := seed(t, seams.Completed, finished(call("browse"), seedRow{"voice.barge_in", object{"atMs": 3}})...)
	if done, _ := settledEnding(t); !diffable(t, done) {
		t.Inapplicable(requirements.PersistenceDiffTranslated, noDiffRun)
		return
	}
	r := diff(t, a.id, b.id)
	t.Expect(requirements.PersistenceDiffTranslated, harness.All(r.Is(http.StatusOK), r.Valid("run-diff-response"), parts(r), withoutV1Names(t.Corpus(), r)).At(r))
}

// parts checks that a diff shows a difference at all.
func parts(r *harness.Response) harness.Check {
	_, ok := wholeNumber(r.Get("divergedAtSeq"))
	return harness.That(ok, "a diff of logs that differ", "divergedAtSeq %s", show(r.Get("divergedAtSeq")))
}

// withoutV1Names checks that an answer holds no name that is version 1's alone.
func withoutV1Names(c *corpus.Corpus, r *harness.Response) harness.Check {
	var found []string
	for _, row := range c.EventCodemap() {
		if row.V1 != row.V2 && strings.Contains(string(r.Body), `"`+row.V1+`"`) {
			found = append(found, row.V1)
		}
	}
	return none("version 1 name in the answer", found)
}
