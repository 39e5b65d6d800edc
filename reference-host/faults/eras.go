package faults

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// seedRun matches the seam that stores a log in version 1 vocabulary.
func seedRun(r *http.Request) bool {
	return tamper.Op(http.MethodPost, "/conformance/seams/sample/event-log/seed")(r)
}

// seededRuns remembers the rows of each run that was seeded, by its id.
type seededRuns struct{ notes[[]object] }

// watched is a middleware over what it knows of the seeded runs.
func watched(edits func(known *seededRuns) tamper.Middleware) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		known := &seededRuns{}
		return tamper.Chain(edits(known), tamper.Instead(seedRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			rows := rowsOf(r)
			a := tamper.Record(next, r)
			if doc, ok := a.JSON(); ok && a.Status == http.StatusCreated {
				known.put(text(doc["runId"]), rows)
			}
			a.Send(w)
		}))(next)
	}
}

func rowsOf(r *http.Request) (rows []object) {
	doc, _ := tamper.BodyJSON(r)
	list, _ := doc["events"].([]any)
	for _, row := range list {
		if row, ok := row.(object); ok {
			rows = append(rows, row)
		}
	}
	return rows
}

// mark tells seeded logs apart: by a row that one of them holds.
type mark func(row object) bool

// holds reports whether a run was seeded with a row that has the mark.
func (s *seededRuns) holds(runID any, m mark) bool {
	rows, _ := s.get(text(runID))
	return slices.ContainsFunc(rows, m)
}

func anyRow(object) bool { return true }

func rowOf(typ string) mark { return func(row object) bool { return row["type"] == typ } }

// everyRenamed marks the log that holds renamed types of many kinds, followed the one whose fields are followed, forkable the one
// that is forked to compare the logs.
func everyRenamed(row object) bool { return row["type"] == "voice.barge_in" }
func followed(row object) bool     { return payloadMember(row, "vendor.wopcert") != nil }
func forkable(row object) bool     { return payloadMember(row, "inputs", "q") != nil }

func payloadMember(row object, path ...string) (v any) {
	v = row["payload"]
	for _, step := range path {
		o, _ := v.(object)
		v = o[step]
	}
	return v
}

// polledSeeds edits the polls of seeded logs that have the mark.
func polledSeeds(m mark, edit func(e object) bool) tamper.Middleware {
	return watched(func(known *seededRuns) tamper.Middleware {
		return tamper.JSON(tamper.PollRun, http.StatusOK, func(_ *http.Request, doc map[string]any) {
			if known.holds(doc["runId"], m) {
				editEvents(doc, edit)
			}
		})
	})
}

func editEvents(doc object, edit func(e object) bool) {
	list, _ := doc["events"].([]any)
	left := []any{}
	for _, v := range list {
		if e, ok := v.(object); !ok || edit(e) {
			left = append(left, v)
		}
	}
	doc["events"] = left
}

// streamedSeeds edits the streams of seeded logs that have the mark.
func streamedSeeds(m mark, edit func(e object) bool) tamper.Middleware {
	return watched(func(known *seededRuns) tamper.Middleware {
		return func(next http.Handler) http.Handler {
			edited := tamper.Events(func(e map[string]any) bool { return !known.holds(e["runId"], m) || edit(e) })(next)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tamper.StreamRun(r) {
					edited.ServeHTTP(w, r)
					return
				}
				next.ServeHTTP(w, r)
			})
		}
	})
}

// seedRows edits the rows of a log before the host stores them.
func seedRows(edit func(doc, row object)) tamper.Middleware {
	return tamper.Requests(seedRun, func(r *http.Request) {
		doc, ok := tamper.BodyJSON(r)
		if !ok {
			return
		}
		list, _ := doc["events"].([]any)
		for _, row := range list {
			if row, ok := row.(object); ok {
				edit(doc, row)
			}
		}
		tamper.SetBodyJSON(r, doc)
	})
}

// readAs has the host store one type under the name of another.
func readAs(v1, stored string) tamper.Middleware {
	return seedRows(func(_, row object) {
		if row["type"] == v1 {
			row["type"] = stored
		}
	})
}

// inPayload edits the payload of the events of one type and drops none.
func inPayload(typ string, edit func(payload object)) func(e object) bool {
	return func(e object) bool {
		if payload, ok := e["payload"].(object); ok && e["type"] == typ {
			edit(payload)
		}
		return true
	}
}

// renamedTo edits the type of the events of one type.
func renamedTo(typ, name string) func(e object) bool {
	return func(e object) bool {
		if e["type"] == typ {
			e["type"] = name
		}
		return true
	}
}

func translationFaults() []Fault {
	poll, sse, fork := requirements.R0176V1EventsTranslatedPoll, requirements.R0176V1EventsTranslatedSse, requirements.R0176V1EventsTranslatedFork
	carried := requirements.PersistencePayloadCarried
	return []Fault{
		wire("seeded-poll-keeps-a-v1-name", "A poll shows one type of a log of era 2 by its version 1 name.",
			`"voice.barge_in" at sequence`, polledSeeds(everyRenamed, renamedTo("voice.barge-in", "voice.barge_in")), poll),
		wire("seeded-poll-normalises-names", "A poll makes version 2 names by rule, where the codemap has a name of its own.",
			`"core.dispatch-fan-out" at sequence`, polledSeeds(rowOf("core.dispatch.fanOut"), renamedTo("dispatch.fanned-out", "core.dispatch-fan-out")), poll),
		wire("seeded-poll-leaves-out-a-renamed-type", "A poll shows no event of a type the codemap renames.",
			"at sequence", polledSeeds(rowOf("roster.run.initiated"), func(e object) bool { return e["type"] != "roster.run-initiated" }), poll),
		wire("seeded-tail-keeps-a-v1-name", "What follows the end of a log of era 2 is not translated.",
			`"run.dead_lettered" at sequence`, polledSeeds(rowOf("run.dead_lettered"), renamedTo("run.dead-lettered", "run.dead_lettered")), poll),
		wire("seeded-stream-keeps-a-v1-name", "The stream shows one type of a log of era 2 by its version 1 name.",
			`"voice.barge_in" at sequence`, streamedSeeds(everyRenamed, renamedTo("voice.barge-in", "voice.barge_in")), sse),
		wire("seeded-stream-leaves-out-a-renamed-type", "The stream shows no event of a type the codemap renames.",
			"at sequence", streamedSeeds(everyRenamed, func(e object) bool { return e["type"] != "connector.auth-expired" }), sse),
		wire("fork-inherits-a-v1-name", "A fork of a run of era 2 takes over one type untranslated.",
			`"voice.barge_in" at sequence`, forksOfSeeds(everyRenamed, renamedTo("voice.barge-in", "voice.barge_in")), fork),
		wire("fork-loses-a-renamed-type", "A fork of a run of era 2 leaves out a type the codemap renames.",
			"at sequence", forksOfSeeds(everyRenamed, func(e object) bool { return e["type"] != "voice.speech-start" }), fork),
		wire("seeded-payload-trimmed", "A member of a stored payload does not come through.",
			"callId of", polledSeeds(everyRenamed, inPayload("agent.tool-called", func(p object) { delete(p, "callId") })), carried),
		wire("seeded-payload-number-as-text", "A number of a stored payload comes through as text.",
			"atMs of", polledSeeds(everyRenamed, inPayload("voice.speech-start", func(p object) { p["atMs"] = "10" })), carried),
		wire("seeded-payload-keeps-an-unknown-member", "The payload of a translated event has a member its version 2 definition does not know.",
			"fromV1", polledSeeds(everyRenamed, inPayload("voice.barge-in", func(p object) { p["fromV1"] = true })), carried),
		wire("diff-names-v1-types", "A diff of logs of era 2 names their types as version 1 did.",
			"version 1 name in the answer", tamper.Answers(tamper.DiffRun, func(_ *http.Request, a *tamper.Answer) {
				a.Body = bytes.ReplaceAll(a.Body, []byte(`"agent.tool-called"`), []byte(`"agent.toolCalled"`))
			}), requirements.PersistenceDiffTranslated),
	}
}

func fieldFaults() []Fault {
	fields, sequence := requirements.PersistenceFieldsPassThrough, requirements.PersistenceSequenceVerbatim
	var drawn atomic.Int64
	always := func(edit func(e object)) func(e object) bool {
		return func(e object) bool { edit(e); return true }
	}
	return []Fault{
		wire("seeded-poll-drops-sequence-zero", "A poll of a log of era 2 takes the sequence 0 for none and leaves the event out.",
			"sequences [1|timestamp, causationId", polledSeeds(followed, func(e object) bool { return integer(e["sequence"]) != 0 }), sequence, fields),
		wire("seeded-stream-skips-a-sequence", "The stream of a log of era 2 numbers the last event anew.",
			"stored sequences from 0 on in a stream", streamedSeeds(followed, func(e object) bool {
				if e["type"] == "run.completed" {
					e["sequence"] = integer(e["sequence"]) + 7
				}
				return true
			}), sequence),
		wire("seeded-timestamp-rounded", "The times of a log of era 2 are cut to seconds.",
			"with timestamp", polledSeeds(followed, always(func(e object) { e["timestamp"] = strings.Replace(text(e["timestamp"]), ".123Z", "Z", 1) })), fields),
		wire("seeded-timestamp-of-the-read", "The events of a log of era 2 carry the time they were stored here.",
			"with timestamp", polledSeeds(followed, always(func(e object) { e["timestamp"] = "2026-01-01T00:00:00.000Z" })), fields),
		wire("seeded-cause-dropped", "The causationId of a stored event does not come through.",
			"with causationId", polledSeeds(followed, always(func(e object) { delete(e, "causationId") })), fields),
		wire("seeded-ids-made-at-each-read", "The eventId of a stored event is made up at each read.",
			"with eventId", polledSeeds(followed, always(func(e object) {
				e["eventId"] = fmt.Sprintf("made-up-event-id-%d", drawn.Add(1))
			})), fields),
		wire("seeded-vendor-member-dropped", "A member of a stored payload below x- does not come through.",
			"vendor member x-wopcert", polledSeeds(followed, inPayload("run.resume-started", func(p object) { delete(p, "x-wopcert") })), fields),
		wire("seeded-vendor-dot-member-dropped", "A member of a stored payload below vendor. does not come through.",
			"vendor member vendor.wopcert", polledSeeds(followed, inPayload("agent.tool-called", func(p object) { delete(p, "vendor.wopcert") })), fields),
		wire("unknown-member-trimmed", "A member of a stored payload that version 2 has no place for goes missing.",
			"the stored member somewhere", seedRows(func(_, row object) {
				if payload, ok := row["payload"].(object); ok {
					delete(payload, "v1Remark")
				}
			}), requirements.EventsEra2NothingDropped),
		wire("unknown-member-refused-as-unmapped", "A payload that version 2 has no place for is refused as if its type were unknown.",
			"payload_unprojectable", tamper.Answers(tamper.PollRun, func(_ *http.Request, a *tamper.Answer) {
				if doc, ok := a.JSON(); ok && doc["error"] == "payload_unprojectable" {
					a.Refuse(500, "event_type_unmapped", "the payload is not known")
				}
			}), requirements.EventsEra2NothingDropped).
			closing(requirements.WebhooksUnprojectableDeadLettered),
		wire("missing-version-defaulted", "A stored pin without a version reads as one of version 0.",
			"with version", seedRows(func(_, row object) {
				if payload, ok := row["payload"].(object); ok && row["type"] == "version.pinned" && payload["version"] == nil {
					payload["version"] = 0
				}
			}), requirements.PersistenceMalformedNotDefaulted),
	}
}

// forksOfSeeds edits the polls of the forks of seeded logs that have the mark.
func forksOfSeeds(m mark, edit func(e object) bool) tamper.Middleware {
	return watched(func(known *seededRuns) tamper.Middleware {
		forks := &notes[bool]{}
		return tamper.Chain(
			tamper.JSON(tamper.PollRun, http.StatusOK, func(_ *http.Request, doc map[string]any) {
				if made, _ := forks.get(text(doc["runId"])); made {
					editEvents(doc, edit)
				}
			}),
			forked(func(doc object) {
				if known.holds(doc["sourceRunId"], m) {
					forks.put(text(doc["runId"]), true)
				}
			}),
		)
	})
}
