package scenarios

import (
	"net/http"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
	"wopcert/seams"
)

// unmappedTypeRefused: persistence.md, "The codemap is data" and "The reader
// rule".
func unmappedTypeRefused() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-unmapped-type-refused",
		Title:    "A type the codemap does not name is refused, a registered vendor's is not",
		Document: "persistence.md",
		Section:  "The reader rule",
		Gates:    []harness.Gate{harness.NeedsSeams(), harness.NeedsFixture(noop)},
		Tests: []harness.Test{
			{
				Name:      "a poll of a log with an unmapped type",
				Witnesses: []requirements.ID{requirements.R0176UnmappedTypeRefused},
				Run: func(t *harness.T) {
					needTranslation(t)
					for _, typ := range []string{"run.vanished", "core.dispatch.unheard", "openwop.internal.note"} {
						t.Expect(requirements.R0176UnmappedTypeRefused, unreadable(t, typ))
					}
				},
			},
			{
				Name:      "a fork of a run with an unmapped type",
				Witnesses: []requirements.ID{requirements.R0176UnmappedTypeRefusedFork},
				Gates:     []harness.Gate{harness.Advertises("replay")},
				Run:       unmappedFork,
			},
			{
				Name:      "a stream of a log with an unmapped type",
				Witnesses: []requirements.ID{requirements.PersistenceUnmappedRefusedOnStream},
				Run: func(t *harness.T) {
					clean := seed(t, seams.Completed, finished()...)
					if s := readMode(t, clean.id, ""); !s.served() {
						t.Abort("a seeded log without any oddity has no stream: %s", answered(s.open))
					}
					log := seed(t, seams.Completed, finished(seedRow{"run.vanished", object{}})...)
					t.Expect(requirements.PersistenceUnmappedRefusedOnStream, streamEndsBefore(readMode(t, log.id, ""), 1))
				},
			},
			{
				Name:      "a type of an organisation nobody registered",
				Witnesses: []requirements.ID{requirements.PersistenceUnregisteredOrgRefused},
				Run: func(t *harness.T) {
					needTranslation(t)
					t.Expect(requirements.PersistenceUnregisteredOrgRefused, unreadable(t, "wopcert-unregistered.widget-made"))
				},
			},
			{
				Name:      "a version 2 name in a version 1 log",
				Witnesses: []requirements.ID{requirements.PersistenceV2NameRefused},
				Run: func(t *harness.T) {
					needTranslation(t)
					for _, typ := range []string{"run.resume-started", "orchestrator.decided"} {
						t.Expect(requirements.PersistenceV2NameRefused, unreadable(t, typ))
					}
				},
			},
			{
				Name:      "a type of a registered organisation",
				Witnesses: []requirements.ID{requirements.R0176VendorTypePassthrough},
				Run: func(t *harness.T) {
					log := seed(t, seams.Completed, finished(seedRow{"example.widget-made", object{"size": 3}}, seedRow{"example.widget.painted", object{"colour": "red"}})...)
					r := poll(t, log.id, -1, time.Second)
					t.Expect(requirements.R0176VendorTypePassthrough, translated(t.Corpus(), log, eventsOf(r), r))
				},
			},
		},
	}
}

// unreadable seeds a log that holds one row of a type and checks that a poll
// refuses it.
func unreadable(t *harness.T, typ string) harness.Check {
	log := seed(t, seams.Completed, finished(seedRow{typ, object{}})...)
	check := poll(t, log.id, -1, time.Second).Refuses("event_type_unmapped")
	check.Expected += " for a log that holds " + typ
	return check
}

func unmappedFork(t *harness.T) {
	modes := forkModes(t)
	if len(modes) == 0 {
		t.Inapplicable(requirements.R0176UnmappedTypeRefusedFork, noForkModes)
		return
	}
	clean := seed(t, seams.Completed, finished()...)
	log := seed(t, seams.Completed, finished(seedRow{"run.vanished", object{}})...)
	for _, mode := range modes {
		endRun(t, forkedFrom(t, clean.id, mode, clean.terminalAt()))
		r := fork(t, log.id, object{"mode": mode, "fromSeq": log.terminalAt()})
		if r.Is(http.StatusCreated).OK {
			endRun(t, r.Text("runId"))
		}
		check := r.Refuses("event_type_unmapped")
		check.Expected += " for a fork in mode " + mode
		t.Expect(requirements.R0176UnmappedTypeRefusedFork, check)
	}
}

// streamEndsBefore checks that a stream of a log that cannot be read whole is
// refused, or breaks off before what cannot be read.
func streamEndsBefore(s streamed, seq int64) harness.Check {
	const expected = "500 event_type_unmapped, or no event from the unmapped one on"
	if !s.served() {
		refused := s.open.Refuses("event_type_unmapped")
		return harness.That(refused.OK, expected, "%s", refused.Observed).At(s.open)
	}
	for _, f := range s.frames {
		if showsEnd(f) {
			return harness.That(false, expected, "a frame that shows the end of the run").At(s.open)
		}
	}
	if late := newer(allEventsIn(s.frames), seq-1); len(late) > 0 {
		return harness.That(false, expected, "%s", label(late[0])).At(s.open)
	}
	return harness.That(true, expected, "200 and %d frames", len(s.frames)).At(s.open)
}
