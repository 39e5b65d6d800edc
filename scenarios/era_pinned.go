package scenarios

import (
	"net/http"
	"slices"
	"time"

	"wopcert/corpus"
	"wopcert/harness"
	"wopcert/requirements"
	"wopcert/seams"
)

// versionPin is a fixture of this project's own: its runs take a version of a
// change, and log it.
const versionPin = "wopcert-version-pin"

// pinnedRunDisposition: persistence.md, "Runs pinned to v1".
func pinnedRunDisposition() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-pinned-run-disposition",
		Title:    "A run begun under version 1 goes on, or is cancelled for a change nobody implements any more",
		Document: "persistence.md",
		Section:  "Runs pinned to v1",
		Gates:    []harness.Gate{harness.NeedsSeams(), harness.NeedsFixture(noop)},
		Tests: []harness.Test{
			{
				Name:      "a run that is pinned to nothing",
				Witnesses: []requirements.ID{requirements.R0176PinnedRunDispositionContinued},
				Run: func(t *harness.T) {
					log := seed(t, seams.Running, begun(noop, object{})...)
					t.Expect(requirements.R0176PinnedRunDispositionContinued, continued(log, readLog(t, log.id, settle)))
				},
			},
			{
				Name:      "a run that is pinned to a change the host implements",
				Witnesses: []requirements.ID{requirements.R0176PinnedRunDispositionContinued, requirements.PersistencePinVerbatim},
				Gates:     []harness.Gate{optIn(versionPin)},
				Run: func(t *harness.T) {
					_, own := settledRun(t, object{"workflowId": versionPin})
					pins := eventsOfType(own.events, "version.pinned")
					if len(pins) == 0 {
						t.Abort("a run of %s logs no version.pinned, so that no implemented change is known", versionPin)
					}
					pin, _ := pins[0]["payload"].(object)
					log := seed(t, seams.Running, append(begun(versionPin, object{}), seedRow{"version.pinned", pin})...)
					l := readLog(t, log.id, settle)
					t.Expect(requirements.R0176PinnedRunDispositionContinued, continued(log, l))
					t.Expect(requirements.PersistencePinVerbatim, pinKept(log, l))
				},
			},
			{
				Name:      "a run that is pinned to two changes, of which one is implemented",
				Witnesses: []requirements.ID{requirements.R0176PinnedRunDispositionCancelled},
				Gates:     []harness.Gate{optIn(versionPin)},
				Run:       pinnedTwice,
			},
			{
				Name:      "a run that is pinned to a change nobody implements",
				Witnesses: []requirements.ID{requirements.R0176PinnedRunDispositionCancelled, requirements.PersistencePinVerbatim},
				Run: func(t *harness.T) {
					log := seed(t, seams.Running, append(begun(noop, object{}), seedRow{"version.pinned", object{"changeId": newTag(), "version": 7}})...)
					l := readLog(t, log.id, settle)
					t.Expect(requirements.R0176PinnedRunDispositionCancelled, cutOver(t, log, l))
					t.Expect(requirements.PersistencePinVerbatim, pinKept(log, l))
				},
			},
		},
	}
}

// pinnedTwice stores runs that are pinned to an implemented change and to one
// that is not, in either order: any pin that cannot be honored ends the run.
func pinnedTwice(t *harness.T) {
	_, own := settledRun(t, object{"workflowId": versionPin})
	pins := eventsOfType(own.events, "version.pinned")
	if len(pins) == 0 {
		t.Abort("a run of %s logs no version.pinned, so that no implemented change is known", versionPin)
	}
	held, _ := pins[0]["payload"].(object)
	for _, order := range [][]object{{held, {"changeId": newTag(), "version": 1}}, {{"changeId": newTag(), "version": 1}, held}} {
		rows := begun(versionPin, object{})
		for _, pin := range order {
			rows = append(rows, seedRow{"version.pinned", pin})
		}
		log := seed(t, seams.Running, rows...)
		t.Expect(requirements.R0176PinnedRunDispositionCancelled, cutOver(t, log, readLog(t, log.id, settle)))
	}
}

// renamingFixture gates on the one fixture whose runs log a type that the
// codemap renames. No host has to hold it.
func renamingFixture() harness.Gate {
	return harness.HostFact("the host does not list the fixture "+dispatchLoop+", and no other makes a host append a renamed type",
		func(d *harness.Discovery) bool { return slices.Contains(d.Fixtures(), dispatchLoop) })
}

// added are the events of a log after the seeded ones.
func added(log seededLog, l log) []object { return newer(l.events, log.terminalAt()) }

// continued checks that the host has taken a run further than it was found,
// and not to a cancel or a failure.
func continued(log seededLog, l log) harness.Check {
	const expected = "the run to go on: further events, and none that cancels or fails it"
	more := added(log, l)
	for _, e := range more {
		if e["type"] == "run.cancelled" || e["type"] == "run.failed" {
			return harness.That(false, expected, "%s with payload %s", label(e), show(e["payload"])).At(l.last)
		}
	}
	return harness.That(len(more) > 0, expected, "%s with %d events after the stored ones, status %q", answered(l.last), len(more), l.status).At(l.last)
}

// cutOver checks the end of a run that cannot be continued.
func cutOver(t *harness.T, log seededLog, l log) harness.Check {
	const expected = "run.cancelled with reason v1_pin_unsupported and cancelledBy v2-cutover at the end of the log, and status cancelled"
	more := added(log, l)
	i := slices.IndexFunc(more, ofType("run.cancelled"))
	if i < 0 || countOf(more, ofType(terminalTypes()...)) != 1 {
		return harness.That(false, expected, "%s with status %q and the events %v after the stored ones", answered(l.last), l.status, typeNames(more)).At(l.last)
	}
	payload := more[i]["payload"]
	if harness.Get(payload, "reason") != any("v1_pin_unsupported") || harness.Get(payload, "cancelledBy") != any("v2-cutover") {
		return harness.That(false, expected, "run.cancelled with payload %s", show(payload)).At(l.last)
	}
	r := snapshot(t, log.id)
	return harness.That(r.Text("status") == "cancelled", expected, "status %s", show(r.Get("status"))).At(r)
}

// pinKept checks that the pin reads as it was stored.
func pinKept(log seededLog, l log) harness.Check {
	const expected = "version.pinned as it was stored"
	at := slices.IndexFunc(log.rows, func(row seams.SeedEvent) bool { return row.Type == "version.pinned" })
	event := bySequence(l.events)[log.rows[at].Sequence]
	if event == nil || event["type"] != any("version.pinned") {
		return harness.That(false, expected, "%s: %s where it was stored", answered(l.last), show(event["type"])).At(l.last)
	}
	for _, member := range []string{"changeId", "version"} {
		if c := same(member, plain(log.rows[at].Payload[member]), harness.Get(event, "payload", member)); !c.OK {
			return harness.That(false, expected, "%s, stored as %s", c.Observed, c.Expected).At(l.last)
		}
	}
	return harness.That(true, expected, "the same").At(l.last)
}

// era2AppendVocabulary: persistence.md, "The writer rule".
func era2AppendVocabulary() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-era-2-append-vocabulary",
		Title:    "What is appended to a log of era 2 is of era 2",
		Document: "persistence.md",
		Section:  "The writer rule",
		Gates:    []harness.Gate{harness.NeedsSeams()},
		Tests: []harness.Test{
			{
				Name:      "a run that is cancelled",
				Witnesses: []requirements.ID{requirements.R0176Era2AppendVocabulary},
				Gates:     []harness.Gate{liveFixtures()},
				Run: func(t *harness.T) {
					log := seed(t, seams.Running, liveRows(t)...)
					defer endRun(t, log.id)
					r := cancel(t, log.id, object{})
					if !r.Is(http.StatusOK).OK {
						t.Abort("the seeded run could not be cancelled: %s", answered(r))
					}
					t.Expect(requirements.R0176Era2AppendVocabulary, wholeAfterAppend(t.Corpus(), log, readLog(t, log.id, settle), "run.cancelled"))
				},
			},
			{
				Name:      "a run that goes on to append a type the codemap renames",
				Witnesses: []requirements.ID{requirements.R0176Era2AppendVocabulary},
				Gates:     []harness.Gate{renamingFixture()},
				Run: func(t *harness.T) {
					log := seed(t, seams.Running, begun(dispatchLoop, object{})...)
					defer endRun(t, log.id)
					l := readLog(t, log.id, settle)
					if l.last.Is(http.StatusOK).OK && len(added(log, l)) == 0 {
						t.Abort("the seeded run did not go on within %s: status %q", settle, l.status)
					}
					t.Expect(requirements.R0176Era2AppendVocabulary, wholeAfterAppend(t.Corpus(), log, l, "orchestrator.decided"))
				},
			},
		},
	}
}

// v1WireOfEra3: persistence.md, "The v1 wire of an era-3 log".
func v1WireOfEra3() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-v1-wire-of-era-3",
		Title:    "Under version 1 a log of era 3 reads by version 1 names",
		Document: "persistence.md",
		Section:  "The v1 wire of an era-3 log",
		Gates:    []harness.Gate{bothMajors(), renamingFixture()},
		Tests: []harness.Test{{
			Name:      "a poll under /v1",
			Witnesses: []requirements.ID{requirements.PersistenceV1WireInverted},
			Run: func(t *harness.T) {
				id, l := settledRun(t, object{"workflowId": dispatchLoop})
				if len(eventsOfType(l.events, "orchestrator.decided")) == 0 {
					t.Abort("a run of %s logs no orchestrator.decided", dispatchLoop)
				}
				r := t.Do(harness.Request{Path: "/v1/runs/" + id[len(tenantSegment(id))+1:] + "/events/poll", Version: harness.NoVersion, Timeout: 15 * time.Second})
				if !r.Is(http.StatusOK).OK {
					t.Abort("the log cannot be read under major 1: %s gave %s", r.Request, answered(r))
				}
				t.Expect(requirements.PersistenceV1WireInverted, inverted(t.Corpus(), l.events, r))
			},
		}},
	}
}

// wholeAfterAppend checks that a seeded log still reads whole after the host
// has appended to it: a name of the wrong vocabulary fails the read, or shows
// under no registered name.
func wholeAfterAppend(c *corpus.Corpus, log seededLog, l log, appended string) harness.Check {
	expected := "the stored events, then the appended ones in sequence and under registered names, " + appended + " among them"
	if check := translated(c, log, l.events, l.last); !check.OK {
		return harness.That(false, expected, "%s", check.Observed).At(l.last)
	}
	more := added(log, l)
	next := log.terminalAt() + 1
	for _, e := range more {
		if allowed := allowedType(c, e["type"]); !allowed.OK || seqOf(e) != next {
			return harness.That(false, expected, "%s after sequence %d", label(e), next-1).At(l.last)
		}
		next++
	}
	return harness.That(slices.ContainsFunc(more, ofType(appended)), expected, "the events %v after the stored ones", typeNames(more)).At(l.last)
}

// typeNames are the types of events, in their order.
func typeNames(events []object) []string {
	out := []string{}
	for _, e := range events {
		out = append(out, text(e, "type"))
	}
	return out
}

// inverted checks a log as version 1 shows it against the log of the same run
// as version 2 does: the same sequences, under the version 1 names.
func inverted(c *corpus.Corpus, events []object, r *harness.Response) harness.Check {
	const expected = "every event under the version 1 name of its type"
	shown := bySequence(eventsOf(r))
	for _, e := range events {
		want, registered := c.EventToV1(text(e, "type"))
		if other := shown[seqOf(e)]; registered && (other == nil || other["type"] != any(want)) {
			return harness.That(false, expected, "%s where version 1 calls it %s", show(other["type"]), want).At(r)
		}
	}
	return harness.That(len(events) > 0, expected, "%d events", len(events)).At(r)
}
