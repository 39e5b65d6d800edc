package scenarios

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"wopcert/harness"
	"wopcert/requirements"
	"wopcert/seams"
)

// legacyIssuer is the issuer of the Subject of a run from before there were
// Subjects (identity.md, "The legacy subject rule").
const legacyIssuer = "urn:openwop:legacy"

// forkAV1Run: persistence.md, "Forking a v1 run", and replay.md.
func forkAV1Run() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-fork-a-v1-run",
		Title:    "A fork of a run of era 2 takes over the translated log, and is a run of era 3",
		Document: "persistence.md",
		Section:  "Forking a v1 run",
		Gates:    []harness.Gate{harness.NeedsSeams(), harness.Advertises("replay"), harness.NeedsFixture(noop)},
		Tests: []harness.Test{
			{
				Name:      "the history of the fork",
				Witnesses: []requirements.ID{requirements.R0176ForkAV1RunPrefix},
				Run:       forkTakesOver,
			},
			{
				Name:      "the owner of the fork",
				Witnesses: []requirements.ID{requirements.R0176ForkAV1RunLegacySubject},
				Run:       forkIsLegacyOwned,
			},
			{
				Name:      "the era of the fork",
				Witnesses: []requirements.ID{requirements.PersistenceForkStamped},
				Run:       forkIsStamped,
			},
		},
	}
}

// v1Fork is a fork of a seeded run, and the logs of both.
type v1Fork struct {
	mode             string
	at               int64
	source, childID  string
	sourceLog, child []object
	read             *harness.Response
}

// v1Forks are forks of a seeded run at its end, one in each mode the host
// serves. The test ends when there is none.
func v1Forks(t *harness.T) []v1Fork {
	source := seed(t, seams.Completed, finished(
		seedRow{"run.resuming", object{"fromStatus": "paused", "x-wopcert": object{"b": 1, "a": "é"}}},
		seedRow{"agent.toolCalled", object{"agentId": "wopcert.agent", "toolName": "search", "callId": "call-1", "inputs": object{"q": "x", "n": 0.5}}},
		seedRow{"agent.toolReturned", object{"agentId": "wopcert.agent", "toolName": "search", "callId": "call-1"}},
	)...)
	read := wholeLog(t, source.id)
	needEvents(t, read.last)
	var forks []v1Fork
	for _, mode := range forkModes(t) {
		f := v1Fork{mode: mode, at: source.terminalAt(), source: source.id, sourceLog: read.events}
		f.childID = forkedFrom(t, source.id, mode, f.at)
		l := wholeLog(t, f.childID)
		needEvents(t, l.last)
		f.child, f.read = l.events, l.last
		forks = append(forks, f)
	}
	return forks
}

func forkTakesOver(t *harness.T) {
	forks := v1Forks(t)
	if len(forks) == 0 {
		t.Inapplicable(requirements.R0176ForkAV1RunPrefix, noForkModes)
	}
	for _, f := range forks {
		defer endRun(t, f.childID)
		t.Expect(requirements.R0176ForkAV1RunPrefix, prefixTranslated(f).At(f.read))
	}
}

// prefixTranslated checks the events below the fork point against those of the
// source as it is read. Ids and clocks are a fork's own, and so may be a cause
// that is an id; the owner that run.started gains is another requirement.
func prefixTranslated(f v1Fork) harness.Check {
	a, b := below(f.sourceLog, f.at), below(f.child, f.at)
	expected := fmt.Sprintf("the translated source's %d events below fromSeq %d in a %s fork", len(a), f.at, f.mode)
	if len(a) != len(b) {
		return harness.That(false, expected, "%d events", len(b))
	}
	ids := map[string]bool{}
	for _, e := range a {
		ids[text(e, "eventId")] = true
	}
	for i := range a {
		for _, member := range []string{"sequence", "type", "nodeId"} {
			if c := same(member, a[i][member], b[i][member]); !c.OK {
				return harness.That(false, expected, "%s with %s where the source has %s", label(b[i]), c.Observed, c.Expected)
			}
		}
		cause, has := a[i]["causationId"]
		if other, hasOther := b[i]["causationId"]; has != hasOther || !ids[text(a[i], "causationId")] && cause != other {
			return harness.That(false, expected, "%s with causationId %s where the source has %s", label(b[i]), show(other), show(cause))
		}
		if c := same("payload", ownerless(a[i]), ownerless(b[i])); !c.OK {
			return harness.That(false, expected, "%s with %s where the source has %s", label(b[i]), c.Observed, c.Expected)
		}
	}
	return harness.That(true, expected, "the same")
}

// ownerless is the payload of an event without the id of its run and, for the
// first event of a run, without the owner.
func ownerless(event object) any {
	payload, ok := event["payload"].(object)
	if !ok {
		return event["payload"]
	}
	payload = maps.Clone(payload)
	delete(payload, "runId")
	if event["type"] == "run.started" {
		delete(payload, "owner")
	}
	return payload
}

func forkIsLegacyOwned(t *harness.T) {
	forks := v1Forks(t)
	if len(forks) == 0 {
		t.Inapplicable(requirements.R0176ForkAV1RunLegacySubject, noForkModes)
	}
	for _, f := range forks {
		defer endRun(t, f.childID)
		i := slices.IndexFunc(f.child, ofType("run.started"))
		if i < 0 {
			t.Abort("no run.started in the log of the fork")
		}
		t.Expect(requirements.R0176ForkAV1RunLegacySubject, legacySubject("run.started of the fork",
			harness.Get(f.child[i], "payload", "owner", "subject")).At(f.read))
	}
}

// legacySubject checks a Subject of a run that nothing attests anything about.
func legacySubject(where string, v any) harness.Check {
	expected := "the legacy Subject in " + where + ": issuer " + legacyIssuer + ", lane api-key, kind user"
	return harness.That(harness.Get(v, "issuer") == any(legacyIssuer) && harness.Get(v, "lane") == any("api-key") && harness.Get(v, "kind") == any("user"),
		expected, "%s", show(v))
}

func forkIsStamped(t *harness.T) {
	forks := v1Forks(t)
	if len(forks) == 0 {
		t.Inapplicable(requirements.PersistenceForkStamped, noForkModes)
	}
	for _, f := range forks {
		defer endRun(t, f.childID)
		t.Expect(requirements.PersistenceForkStamped, stamped("a "+f.mode+" fork of a run of era 2", snapshot(t, f.childID)))
	}
}

// eraAbsent: persistence.md, "The era key" and "Everything else a v1 host
// persisted".
func eraAbsent() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-era-absent",
		Title:    "A run without an era stamp and without a Subject reads as one of version 1, each time",
		Document: "persistence.md",
		Section:  "The era key",
		Gates:    []harness.Gate{harness.NeedsSeams(), harness.NeedsFixture(noop)},
		Tests: []harness.Test{
			{
				Name:      "the snapshot of a seeded run",
				Witnesses: []requirements.ID{requirements.PersistenceAbsentEraReads2, requirements.PersistenceLegacyOwner},
				Run: func(t *harness.T) {
					log := seed(t, seams.Completed, finished()...)
					first, again := snapshot(t, log.id), snapshot(t, log.id)
					era, ok := eraOf(first)
					t.Expect(requirements.PersistenceAbsentEraReads2, harness.That(ok && era == 2, "eventLogSchemaVersion 2",
						"eventLogSchemaVersion %s", show(first.Get("eventLogSchemaVersion"))).At(first))
					t.Expect(requirements.PersistenceLegacyOwner, legacySubject("the snapshot", first.Get("owner", "subject")).At(first))
					t.Expect(requirements.PersistenceLegacyOwner, same("owner at the next read", first.Get("owner"), again.Get("owner")).At(again))
				},
			},
			{
				Name:      "the log of a seeded run, before and after an append",
				Witnesses: []requirements.ID{requirements.PersistenceReadsAlike},
				Gates:     []harness.Gate{liveFixtures()},
				Run: func(t *harness.T) {
					log := seed(t, seams.Running, liveRows(t)...)
					defer endRun(t, log.id)
					first := wholeLog(t, log.id)
					needEvents(t, first.last)
					if r := cancel(t, log.id, object{}); !r.Is(http.StatusOK).OK || !awaitEnd(t, log.id, settle) {
						t.Abort("the seeded run could not be cancelled: %s", answered(r))
					}
					later := wholeLog(t, log.id)
					needEvents(t, later.last)
					t.Expect(requirements.PersistenceReadsAlike, readAlike(log, first.events, later.events).At(later.last))
				},
			},
		},
	}
}

// liveRows are the rows of a run that has begun and stays active.
func liveRows(t *harness.T) []seedRow {
	body := liveBody(t)
	inputs, _ := body["inputs"].(object)
	return append(begun(text(body, "workflowId"), inputs), seedRow{"run.resuming", object{"fromStatus": "paused"}})
}

// readAlike checks that the stored rows read the same the second time.
func readAlike(log seededLog, first, later []object) harness.Check {
	const expected = "the stored events as they were read before"
	a, b := bySequence(first), bySequence(later)
	for _, row := range log.rows {
		if c := same(fmt.Sprintf("event at %d", row.Sequence), a[row.Sequence], b[row.Sequence]); !c.OK || a[row.Sequence] == nil {
			return harness.That(false, expected, "%s, before %s", c.Observed, c.Expected)
		}
	}
	return harness.That(len(later) > len(log.rows), expected+", and what was appended", "%d events", len(later))
}
