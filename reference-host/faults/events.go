package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

func number(v any) string {
	n, _ := v.(json.Number)
	return n.String()
}

func integer(v any) int64 {
	n, _ := v.(json.Number)
	i, _ := n.Int64()
	return i
}

// everyEvent edits every event, in poll and stream alike.
func everyEvent(edit func(e object)) tamper.Middleware {
	return tamper.Events(func(e map[string]any) bool { edit(e); return true })
}

// ofType edits the events of one type, in poll and stream alike.
func ofType(typ string, edit func(e object)) tamper.Middleware {
	return everyEvent(func(e object) {
		if e["type"] == typ {
			edit(e)
		}
	})
}

// afterTerminal adds an event of a type to a log that ended with one of the
// given events, where a poll reads it.
func afterTerminal(typ string, payload object, ends ...string) tamper.Middleware {
	return tamper.Instead(tamper.PollRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := tamper.Record(next, r)
		doc, ok := a.JSON()
		last := integer(doc["lastSequence"])
		if ok && a.Status == http.StatusOK && doc["isTerminal"] == true {
			cursor := cursorOf(r)
			if extra := following(next, r, last, ends); extra != nil {
				extra["type"], extra["payload"], extra["sequence"] = typ, payload, last+1
				extra["eventId"] = fmt.Sprintf("%.100s-after", text(extra["eventId"]))
				doc["lastSequence"] = last + 1
				if list, isList := doc["events"].([]any); isList && cursor <= last {
					doc["events"] = append(list, extra)
				}
				a.SetJSON(doc)
			}
		}
		a.Send(w)
	})
}

// marked is afterTerminal for the runs a cancel of which was answered with a
// status, once some time has passed since.
func marked(status int, after time.Duration, typ string, payload object, end string) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		runs := newMarks()
		plain := runs.marking(tamper.CancelRun, status)(next)
		extended := afterTerminal(typ, payload, end)(plain)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if d, ok := runs.since(tamper.RunSegment(r)); ok && d >= after {
				extended.ServeHTTP(w, r)
				return
			}
			plain.ServeHTTP(w, r)
		})
	}
}

// compacted leaves the node events out of the log of a run once it was
// cancelled.
func compacted() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		cancelled := newMarks()
		return tamper.Chain(cancelled.marking(tamper.CancelRun, http.StatusOK), polled(func(r *http.Request, doc object) {
			if _, ok := cancelled.since(tamper.RunSegment(r)); !ok {
				return
			}
			list, _ := doc["events"].([]any)
			doc["events"] = slices.DeleteFunc(list, func(v any) bool {
				e, _ := v.(object)
				return e["type"] == "node.started"
			})
		}))(next)
	}
}

// following returns the terminal event of the run a request names, for one
// after it to be made of, nil when the run ended otherwise.
func following(next http.Handler, r *http.Request, last int64, ends []string) object {
	path := fmt.Sprintf("/runs/%s/events/poll?timeout=1&afterSequence=%d", tamper.RunSegment(r), max(last-1, 0))
	doc, _ := tamper.Ask(next, r, http.MethodGet, path, nil).JSON()
	list, _ := doc["events"].([]any)
	if len(list) == 0 {
		return nil
	}
	event, _ := list[len(list)-1].(object)
	if !slices.Contains(ends, text(event["type"])) || !plainRun(next, r) {
		return nil
	}
	return event
}

// plainRun reports whether the run a request names is of one of the plainest
// fixtures, so that a broken end is not met by whoever runs another.
func plainRun(next http.Handler, r *http.Request) bool {
	doc, _ := tamper.Ask(next, r, http.MethodGet, "/runs/"+tamper.RunSegment(r), nil).JSON()
	switch doc["workflowId"] {
	case "conformance-noop", "conformance-failure", "conformance-cancellable":
		return true
	}
	return false
}

// failedNode edits node.failed of the fixture that fails.
func failedNode(edit func(e object)) tamper.Middleware {
	return ofType("node.failed", func(e object) {
		if e["nodeId"] == failingNode {
			edit(e)
		}
	})
}

// failingNode is the node of conformance-failure.
const failingNode = "fail"

func eventFaults() []Fault {
	envelope := requirements.R0171EventTypeClosedEnvelope
	typ := requirements.R0171EventTypeClosedType
	payload := requirements.R0171PayloadRegistryClosed
	outputs := requirements.R0171RunCompletedOutputs
	sequence := requirements.EventsSequence
	once, again := requirements.R0194TerminalOnce, requirements.R0194TerminalOnceDuplicateDelivery
	return []Fault{
		wire("event-extra-member", "An event has a member the envelope does not know.",
			"actor", everyEvent(func(e object) { e["actor"] = "engine" }), envelope),
		wire("event-without-schema-version", "An event has no schemaVersion.",
			"schemaVersion", everyEvent(func(e object) { delete(e, "schemaVersion") }), envelope),
		wire("event-timestamp-is-number", "The timestamp of an event is a number of milliseconds.",
			"timestamp", everyEvent(func(e object) { e["timestamp"] = 1767225600000 }), envelope).
			also("event 3 node.started with the timestamp of the source's|event 0 run.started with timestamp 1767225600000, stored as", requirements.R0170ForkPrefixBoundary, requirements.PersistenceFieldsPassThrough).
			blocking(requirements.InterruptTokenExpiresAt, requirements.InterruptTokenDefaultLifetime, requirements.InterruptTokenCapped),
		wire("event-engine-version-is-text", "The engineVersion of an event is a string, as in version 1.",
			"engineVersion", everyEvent(func(e object) { e["engineVersion"] = "1" }), envelope, requirements.VersioningEngineVersionInteger,
			requirements.HeadersForceEngineVersionHonored),
		wire("event-type-unregistered", "A node that failed is reported with a type nobody registered.",
			"node.broken", failedNode(func(e object) { e["type"] = "node.broken" }), typ),
		wire("event-type-of-unregistered-org", "A node is reported with a type of an organisation that is not registered.",
			"acme-unregistered.node-failed", failedNode(func(e object) { e["type"] = "acme-unregistered.node-failed" }), typ),
		wire("event-type-reserved-prefix", "A node is reported with a type under the reserved prefix.",
			"openwop.node-failed", failedNode(func(e object) { e["type"] = "openwop.node-failed" }), typ),
		wire("event-type-v1-name", "A node is reported under a camel-case name.",
			"nodeFailed", failedNode(func(e object) { e["type"] = "nodeFailed" }), typ),
		wire("payload-extra-member", "The payload of an event has a member its definition does not know.",
			"startedBy", ofType("node.started", func(e object) { e["payload"].(object)["startedBy"] = "engine" }), payload, requirements.R0185PayloadVendorHatch).
			also("delivery of \"node.started|event 8 node.started: does not match", requirements.WebhooksEventVerbatim, requirements.PersistencePayloadCarried).
			blocking(storedReplays()...),
		wire("payload-wrong-kind", "The payload of an event gives a number as text.",
			"attempt", ofType("node.started", func(e object) { e["payload"].(object)["attempt"] = "1" }), payload).
			also("delivery of \"node.started|event 8 node.started: does not match", requirements.WebhooksEventVerbatim, requirements.PersistencePayloadCarried).
			blocking(storedReplays()...),
		wire("payload-cancelled-extra-member", "The payload of run.cancelled has a member its definition does not know.",
			"by", ofType("run.cancelled", func(e object) { e["payload"].(object)["by"] = "caller" }), payload),
		wire("outputs-absent", "run.completed of a run without outputs has none.",
			"outputs", payloadOf("run.completed", func(p object) {
				if o, _ := p["outputs"].(object); len(o) == 0 {
					delete(p, "outputs")
				}
			}), outputs, payload).
			also("outputs of event 10 run.completed null, stored as outputs", requirements.PersistencePayloadCarried),
		wire("outputs-null", "The outputs of run.completed are null.",
			"outputs", payloadOf("run.completed", func(p object) { p["outputs"] = nil }), outputs, payload).
			also("delivery of \"run.completed|outputs of event 10 run.completed null, stored as outputs", requirements.WebhooksEventVerbatim, requirements.PersistencePayloadCarried).
			blocking(storedReplays()...),
		wire("outputs-is-list", "The outputs of run.completed are a list.",
			"outputs", payloadOf("run.completed", func(p object) { p["outputs"] = []any{} }), outputs, payload).
			also("delivery of \"run.completed|outputs of event 10 run.completed [], stored as outputs of", requirements.WebhooksEventVerbatim, requirements.PersistencePayloadCarried).
			blocking(storedReplays()...),
		wire("sequence-starts-at-one", "The first event of a run has sequence 1.",
			"1|divergedAtSeq|frame 0", shifted(), sequence, requirements.R0171PollCursorV2FromFirst, requirements.RunsDiffPure, requirements.EventsMixedOrder,
			requirements.EventsMessagesChunks).
			also("event 4 node.started with the timestamp of the source's|delivery of \"run.started|event 8 run.completed|event 3 node.completed, event 4 run.completed|replay.diverged with originalEventId|absent at sequence 0, where run.started, in version 2|sequences [1 2 3 4 5 6]|event 1 run.started with timestamp|no event at sequence 0|event at 0 null, before event at 0 null|200 application/json: \"run.started\" where it was stored", requirements.R0170ForkPrefixBoundary, requirements.WebhooksEventVerbatim, requirements.WebhooksAtLeastOnce, requirements.WebhooksBranchDelivered, requirements.ReplayDivergedReported, requirements.R0176V1EventsTranslatedPoll, requirements.R0176V1EventsTranslatedSse, requirements.R0176V1EventsTranslatedFork, requirements.PersistenceSequenceVerbatim, requirements.PersistenceFieldsPassThrough, requirements.PersistencePayloadCarried, requirements.R0176VendorTypePassthrough, requirements.PersistenceReadsAlike, requirements.PersistencePinVerbatim).
			blocking(requirements.WebhooksReplaySilent, requirements.ReplayForkBeyondTerminal, requirements.ReplayPrefixEnvelope).
			also("absent at sequence 0, where run.started", requirements.R0176Era2AppendVocabulary),
		wire("log-compacted-on-cancel", "The log of a cancelled run no longer holds all that was read from it before.",
			"event 1 of the log|the attempt that was cut|every event of the log", compacted(), sequence, requirements.RunsPauseImmediateCut,
			requirements.EventsDebugComplete).
			blocking(requirements.ReplaySourceMissing, requirements.ReplaySourceMissingNoEffect, requirements.ReplayOutcomeOrdinal).
			also("node.cancelled after sequence", requirements.R0176Era2AppendVocabulary),
		wire("event-node-id-malformed", "The nodeId of an event holds a space.",
			"nodeId", ofType("node.started", func(e object) { e["nodeId"] = "node 1" }),
			requirements.R0170IdGrammarEvents, envelope),
		wire("refused-cancel-is-logged", "A cancel of a completed run is refused and yet recorded.",
			"run.cancelled", marked(http.StatusConflict, 0, "run.cancelled", object{}, "run.completed"), once),
		wire("late-work-is-logged", "The node that a cancel cut off is recorded as completed when its work comes in.",
			"node.completed", marked(http.StatusOK, 600*time.Millisecond, "node.completed", object{"nodeId": "late"}, "run.cancelled"), once, again),
		wire("two-terminal-events", "A failed run is also recorded as cancelled.",
			"run.cancelled", afterTerminal("run.cancelled", object{}, "run.failed"), once),
		wire("completed-twice", "A completed run is recorded as completed twice.",
			"run.completed", afterTerminal("run.completed", object{"outputs": object{}}, "run.completed"), once, again).
			also("event 4 run.completed|sequences [0 1 2 3 4 5 6]", requirements.WebhooksBranchDelivered, requirements.PersistenceSequenceVerbatim).
			blocking(oddLogs()...),
		wire("node-ends-after-cancel", "A node is reported completed after the run was cancelled.",
			"node.completed", afterTerminal("node.completed", object{"nodeId": "late"}, "run.cancelled"), once, again),
		wire("node-ends-after-failure", "A node is reported failed after the run has failed.",
			"node.failed", afterTerminal("node.failed", object{"nodeId": "late", "error": object{"code": "x", "message": "x"}}, "run.failed"), once),
		wire("run-restarts-after-completion", "A completed run is reported as started again.",
			"run.started", afterTerminal("run.started", object{"workflowId": "conformance-noop"}, "run.completed"), once, again).
			also("event 4 run.started|sequences [0 1 2 3 4 5 6]", requirements.WebhooksBranchDelivered, requirements.PersistenceSequenceVerbatim).
			blocking(oddLogs()...),
	}
}

// shifted counts every sequence of the host one higher, wherever it shows or
// is asked for.
func shifted() tamper.Middleware {
	return tamper.Chain(
		everyEvent(func(e object) { e["sequence"] = json.Number(fmt.Sprint(integer(e["sequence"]) + 1)) }),
		tamper.JSON(tamper.PollRun, http.StatusOK, func(_ *http.Request, doc map[string]any) {
			doc["lastSequence"] = integer(doc["lastSequence"]) + 1
		}),
		tamper.Requests(tamper.PollRun, func(r *http.Request) {
			tamper.SetQuery(r, "afterSequence", before(r.URL.Query().Get("afterSequence")))
		}),
		tamper.Requests(tamper.And(tamper.StreamRun, tamper.HasHeader("Last-Event-ID")), func(r *http.Request) {
			if id := before(r.Header.Get("Last-Event-ID")); id != "" {
				r.Header.Set("Last-Event-ID", id)
			} else {
				r.Header.Del("Last-Event-ID")
			}
		}),
	)
}

// before is the number before n, "" before zero; what is no number stays.
func before(n string) string {
	var i int64
	if _, err := fmt.Sscanf(n, "%d", &i); err != nil || fmt.Sprint(i) != n {
		return n
	}
	if i == 0 {
		return ""
	}
	return fmt.Sprint(i - 1)
}

// polled edits every poll answer.
func polled(edit func(r *http.Request, doc object)) tamper.Middleware {
	return tamper.JSON(tamper.PollRun, http.StatusOK, func(r *http.Request, doc map[string]any) { edit(r, doc) })
}

func hasCursor(r *http.Request) bool { return r.URL.Query().Has("afterSequence") }

// finished remembers which runs a caller has read to their end.
type finished struct {
	mu   sync.Mutex
	runs map[string]int64 // last sequence by run segment
}

func (f *finished) last(r *http.Request) (int64, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, ok := f.runs[tamper.RunSegment(r)]
	return n, ok
}

func (f *finished) note(r *http.Request, doc object) {
	if doc["isTerminal"] == true {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.runs[tamper.RunSegment(r)] = integer(doc["lastSequence"])
	}
}

// archived serves a cursor poll of a run that was read to its end before in
// another way, as a host does that keeps finished runs elsewhere.
func archived(serve func(w http.ResponseWriter, r *http.Request, next http.Handler, last int64)) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		ended := &finished{runs: map[string]int64{}}
		noting := polled(func(r *http.Request, doc object) { ended.note(r, doc) })(next)
		return tamper.Instead(tamper.And(tamper.PollRun, hasCursor), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if last, ok := ended.last(r); ok {
				serve(w, r, next, last)
				return
			}
			next.ServeHTTP(w, r)
		})(noting)
	}
}

func cursorOf(r *http.Request) int64 {
	var n int64 = -1
	fmt.Sscan(r.URL.Query().Get("afterSequence"), &n) // no number stays -1
	return n
}

// pastEnd edits the answer to a poll at or past the end of a finished run.
func pastEnd(edit func(a *tamper.Answer, last int64)) tamper.Middleware {
	return archived(func(w http.ResponseWriter, r *http.Request, next http.Handler, last int64) {
		a := tamper.Record(next, r)
		if cursorOf(r) >= last {
			edit(a, last)
		}
		a.Send(w)
	})
}

func pollFaults() []Fault {
	shape := requirements.R0171PollCursorV2Shape
	return []Fault{
		wire("poll-extra-member", "A poll answer has a member the schema does not know.",
			"hasMore", polled(func(_ *http.Request, doc object) { doc["hasMore"] = false }), shape),
		wire("poll-last-sequence-off-by-one", "The lastSequence of a poll is the sequence the next event will have.",
			"lastSequence", polled(func(_ *http.Request, doc object) {
				if doc["isTerminal"] != true {
					return
				}
				doc["lastSequence"] = integer(doc["lastSequence"]) + 1
			}), shape),
		wire("poll-last-sequence-of-cursor", "The lastSequence of a poll without events is the cursor it was asked with.",
			"lastSequence", polled(func(r *http.Request, doc object) {
				if list, _ := doc["events"].([]any); len(list) == 0 && hasCursor(r) && doc["isTerminal"] == true {
					doc["lastSequence"] = cursorOf(r)
				}
			}), shape),
		wire("poll-status-stale", "A poll of an ended run still says that it is running.",
			"running", polled(func(_ *http.Request, doc object) {
				if doc["isTerminal"] == true {
					doc["status"] = "running"
				}
			}), shape).blocking(requirements.EventsMessagesChunks, requirements.EventsMessagesMeta, requirements.EventsCostEstimateStamped),
		wire("poll-is-terminal-as-text", "A poll answer says isTerminal as a string.",
			"isTerminal", polled(func(_ *http.Request, doc object) { doc["isTerminal"] = fmt.Sprint(doc["isTerminal"]) }), shape, requirements.EventsPollBounded),
		wire("poll-is-terminal-early", "A poll of a running run says that it has ended.",
			"isTerminal", polled(func(_ *http.Request, doc object) { doc["isTerminal"] = true }), shape),
		wire("poll-past-end-of-live-run-refused", "A poll past the end of the log of a running run is refused.",
			"400 validation_error", tamper.Instead(tamper.And(tamper.PollRun, hasCursor), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if last := lastSequence(next, r); last >= 0 && cursorOf(r) > last && !ended(next, r) {
					refuse(w, next, r, 400, "validation_error")
					return
				}
				next.ServeHTTP(w, r)
			}), requirements.R0171PollCursorV2PastEnd),
		wire("poll-without-run-id", "A poll answer does not say which run.",
			"runId", polled(func(_ *http.Request, doc object) { delete(doc, "runId") }), shape,
			requirements.R0172CreatedRunReadable),
	}
}

func pollCursorFaults() []Fault {
	first := requirements.R0171PollCursorV2FromFirst
	after := requirements.R0171PollCursorV2AfterSequence
	past := requirements.R0171PollCursorV2PastEnd
	return []Fault{
		wire("poll-cursor-inclusive", "A poll after N of a finished run returns N again.",
			"sequence", archived(func(w http.ResponseWriter, r *http.Request, next http.Handler, last int64) {
				if cursorOf(r) < last {
					r = r.Clone(r.Context())
					tamper.SetQuery(r, "afterSequence", before(r.URL.Query().Get("afterSequence")))
				}
				next.ServeHTTP(w, r)
			}), after),
		wire("poll-cursor-ignored", "A poll with a cursor of a finished run returns the whole log.",
			"sequence", archived(func(w http.ResponseWriter, r *http.Request, next http.Handler, last int64) {
				if cursorOf(r) < last {
					r = r.Clone(r.Context())
					tamper.SetQuery(r, "afterSequence", "")
				}
				next.ServeHTTP(w, r)
			}), after),
		wire("poll-cursor-descending", "A poll with a cursor of a finished run returns the newest event first.",
			"[3 2", archived(func(w http.ResponseWriter, r *http.Request, next http.Handler, _ int64) {
				a := tamper.Record(next, r)
				if doc, ok := a.JSON(); ok {
					list, _ := doc["events"].([]any)
					for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
						list[i], list[j] = list[j], list[i]
					}
					a.SetJSON(doc)
				}
				a.Send(w)
			}), after),
		wire("poll-past-end-not-found", "A poll past the end of the log is answered 404.",
			"404", pastEnd(func(a *tamper.Answer, _ int64) { a.Refuse(404, "not_found", "no such event") }), past, requirements.EventsPollBounded),
		wire("poll-past-end-refused", "A poll past the end of the log is refused as a bad cursor.",
			"400 validation_error", pastEnd(func(a *tamper.Answer, _ int64) { a.Refuse(400, "validation_error", "the cursor is past the end") }), past, requirements.EventsPollBounded),
		wire("poll-past-end-no-content", "A poll past the end of the log is answered 204.",
			"204", pastEnd(func(a *tamper.Answer, _ int64) { a.Status, a.Body = http.StatusNoContent, nil }), past, requirements.EventsPollBounded),
		wire("poll-past-end-repeats-last", "A poll past the end of the log returns the last event again.",
			"events", archived(func(w http.ResponseWriter, r *http.Request, next http.Handler, last int64) {
				if cursorOf(r) >= last {
					r = r.Clone(r.Context())
					tamper.SetQuery(r, "afterSequence", before(fmt.Sprint(last)))
				}
				next.ServeHTTP(w, r)
			}), past, requirements.EventsPollBounded),
		wire("poll-without-cursor-skips-first", "A poll without a cursor is one after sequence 0.",
			"sequence of the first event|node.started first|divergedAtSeq|0 run.started", tamper.Requests(tamper.PollRun, func(r *http.Request) {
				if !hasCursor(r) {
					tamper.SetQuery(r, "afterSequence", "0")
				}
			}), first, requirements.EventsSequence, requirements.RunsDiffPure, requirements.EventsUpdatesTier, requirements.EventsDebugComplete).
			also("delivery of \"run.started|absent at sequence 0, where run.started, in version 2|sequences [1 2 3 4 5]|event 0 run.started with eventId|no event at sequence 0|event at 0 null, before event at 0 null", requirements.WebhooksEventVerbatim, requirements.R0176V1EventsTranslatedPoll, requirements.R0176V1EventsTranslatedFork, requirements.PersistenceSequenceVerbatim, requirements.PersistenceFieldsPassThrough, requirements.PersistencePayloadCarried, requirements.R0176VendorTypePassthrough, requirements.PersistenceReadsAlike, requirements.R0176Era2AppendVocabulary).
			blocking(storedReplays()...).
			blocking(oddLogs()...).
			blocking(requirements.R0176ForkAV1RunLegacySubject),
	}
}

// contains is a condition on a header.
func contains(header, part string) tamper.Match {
	return func(r *http.Request) bool { return strings.Contains(r.Header.Get(header), part) }
}
