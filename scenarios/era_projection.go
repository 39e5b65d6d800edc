package scenarios

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
	"wopcert/seams"
)

// era2Projection: events.md, "Era-2 logs", and persistence.md, "The reader
// rule".
func era2Projection() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-era-2-projection",
		Title:    "A reader of a log of era 2 neither drops what is stored nor makes up what is not",
		Document: "events.md",
		Section:  "Era-2 logs",
		Gates:    []harness.Gate{harness.NeedsSeams(), harness.NeedsFixture(noop)},
		Tests: []harness.Test{
			{
				Name:      "a member that no version 2 payload has",
				Witnesses: []requirements.ID{requirements.EventsEra2NothingDropped},
				Run: func(t *harness.T) {
					needTranslation(t)
					mark := newTag()
					log := seed(t, seams.Completed, finished(seedRow{"run.resuming", object{"fromStatus": "paused", "v1Remark": mark}})...)
					r := poll(t, log.id, -1, time.Second)
					t.Expect(requirements.EventsEra2NothingDropped, carriedOrRefused(r, 1, mark))
				},
			},
			{
				Name:      "a row without a member it should have",
				Witnesses: []requirements.ID{requirements.PersistenceMalformedNotDefaulted},
				Run: func(t *harness.T) {
					needTranslation(t)
					log := seed(t, seams.Completed, finished(seedRow{"version.pinned", object{"changeId": newTag()}})...)
					r := poll(t, log.id, -1, time.Second)
					t.Expect(requirements.PersistenceMalformedNotDefaulted, notMadeUp(r, 1, "version"))
				},
			},
		},
	}
}

// needTranslation ends a test of what a reader does with odd rows on a host
// that cannot read a log of era 2 without any.
func needTranslation(t *harness.T) {
	log := seed(t, seams.Completed, finished()...)
	r := poll(t, log.id, -1, time.Second)
	if !r.Is(http.StatusOK).OK || len(eventsOf(r)) != len(log.rows) {
		t.Abort("a seeded log without any oddity cannot be read: %s with %d of %d events", answered(r), len(eventsOf(r)), len(log.rows))
	}
}

// carriedOrRefused checks that a reader shows a stored text somewhere in the
// payload of an event, or says that it cannot project it.
func carriedOrRefused(r *harness.Response, seq int64, stored string) harness.Check {
	const expected = "the stored member somewhere in the payload, or 500 payload_unprojectable"
	if !r.Is(http.StatusOK).OK {
		refused := r.Refuses("payload_unprojectable")
		return harness.That(refused.OK, expected, "%s", refused.Observed).At(r)
	}
	payload, _ := json.Marshal(harness.Get(bySequence(eventsOf(r))[seq], "payload"))
	return harness.That(strings.Contains(string(payload), stored), expected, "payload %s", cut(string(payload))).At(r)
}

// notMadeUp checks that a reader refuses a row, or shows it without a member
// that is not stored.
func notMadeUp(r *harness.Response, seq int64, member string) harness.Check {
	expected := "a read that fails with 500, or the event without the " + member + " that is not stored"
	if r.Err == nil && r.Status == http.StatusInternalServerError {
		return harness.That(isEnvelope(r), expected, "%s", answered(r)).At(r)
	}
	event := bySequence(eventsOf(r))[seq]
	if !r.Is(http.StatusOK).OK || event == nil {
		return harness.That(false, expected, "%s without the event", answered(r)).At(r)
	}
	value := harness.Get(event, "payload", member)
	return harness.That(value == nil, expected, "%s with %s %s", label(event), member, show(value)).At(r)
}
