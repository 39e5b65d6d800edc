package faults

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/reference-host/tamper/logs"
	"wopcert/requirements"
)

func quietFaults() []Fault {
	alive, resume := requirements.EventsSseKeepAlive, requirements.EventsValuesResumeSnapshot
	comments := func(after time.Duration) tamper.Middleware {
		return tamper.Frames(tamper.StreamRun, func(*http.Request) tamper.FrameEdit {
			opened := time.Now()
			return func(f tamper.Frame, out *tamper.Out) {
				if f.IsEvent() || time.Since(opened) < after {
					out.Send(f)
				}
			}
		})
	}
	resumedValues := tamper.And(unbuffered("values"), resumes)
	return []Fault{
		wire("stream-without-comments", "A quiet stream gets no comment.", "no comment", comments(0), alive).slow(),
		wire("stream-opens-with-a-comment", "A stream gets one comment when it is opened and none later.", "no comment",
			tamper.Chain(opening(": open\n"), comments(0)), alive).slow(),
		wire("values-resume-with-event", "A values stream that is resumed begins with an event.",
			"a first frame with event", tamper.Requests(resumedValues, func(r *http.Request) { tamper.SetQuery(r, "streamMode", "updates") }), resume),
		wire("values-resume-waits-for-transition", "A values stream of an active run that is resumed shows the state at the next transition.",
			"no frame", tamper.Instead(resumedValues, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if !ended(next, r) {
					r = r.Clone(r.Context())
					r.Header.Del("Last-Event-ID")
					next = skipping(lastSequence(next, r))(next)
				}
				next.ServeHTTP(w, r)
			}), resume),
		wire("values-resume-of-ended-run-empty", "A values stream of an ended run that is resumed is closed without a frame.",
			"no frame", tamper.Instead(resumedValues, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if ended(next, r) {
					closedStream(w, r, next)
					return
				}
				next.ServeHTTP(w, r)
			}), resume),
	}
}

// opening sends bytes before the first block of a stream.
func opening(with string) tamper.Middleware {
	return tamper.Frames(tamper.StreamRun, func(*http.Request) tamper.FrameEdit {
		begun := false
		return func(f tamper.Frame, out *tamper.Out) {
			if !begun {
				out.Raw([]byte(with))
				begun = true
			}
			out.Send(f)
		}
	})
}

// skipping drops the frames of a stream up to a sequence.
func skipping(to int64) tamper.Middleware {
	return tamper.Frames(tamper.Any, func(*http.Request) tamper.FrameEdit {
		return func(f tamper.Frame, out *tamper.Out) {
			id, _ := f.Field("id")
			if n, err := strconv.ParseInt(id, 10, 64); err != nil || n > to {
				out.Send(f)
			}
		}
	})
}

func hostEventFaults() []Fault {
	streamed := requirements.EventsHostEventsStream
	beats := func(edit func(doc object)) tamper.Middleware {
		return framesOf(tamper.HostEvents, func(f tamper.Frame, data object) (tamper.Frame, bool) {
			edit(data)
			return f.Set("data", string(tamper.Encode(data))), true
		})
	}
	instead := func(edit func(a *tamper.Answer)) tamper.Middleware {
		return tamper.Instead(tamper.HostEvents, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			a := tamper.Ask(next, r, http.MethodGet, "/workflows/conformance-noop", nil)
			a.Header.Del("ETag")
			edit(a)
			a.Send(w)
		})
	}
	return []Fault{
		wire("host-events-as-list", "The host's own events are answered as a list.",
			"application/json", instead(func(a *tamper.Answer) {
				a.SetJSON([]any{object{"heartbeatId": "accepting-runs", "status": "ok", "changed": false}})
			}), streamed),
		wire("host-events-not-found", "The address of the host's own events leads nowhere.",
			"404", instead(func(a *tamper.Answer) { a.Refuse(http.StatusNotFound, "not_found", "no such path") }), streamed),
		wire("host-events-labelled-text", "The host's own events are labelled text/plain.",
			"text/plain", tamper.Answers(tamper.HostEvents, func(_ *http.Request, a *tamper.Answer) {
				if a.Stream {
					a.Header.Set("Content-Type", "text/plain")
				}
			}), streamed),
		wire("heartbeat-without-changed", "A heartbeat does not say whether anything changed.",
			"changed", beats(func(doc object) { delete(doc, "changed") }), streamed),
		wire("heartbeat-status-unknown", "A heartbeat has a status that its schema does not know.",
			"status", beats(func(doc object) { doc["status"] = "unknown" }), streamed),
		wire("heartbeat-names-runs", "A heartbeat names the run that was created last.",
			"runId|tenant-", namingRuns(), streamed),
	}
}

// namingRuns tells with every heartbeat of the last run.
func namingRuns() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		var mu sync.Mutex
		last := "tenant-a/0000000000000000"
		return tamper.Chain(
			created(func(doc object) {
				mu.Lock()
				defer mu.Unlock()
				last = text(doc["runId"])
			}),
			tamper.Frames(tamper.HostEvents, func(*http.Request) tamper.FrameEdit {
				return func(f tamper.Frame, out *tamper.Out) {
					out.Send(f)
					if data, ok := f.JSON(); ok {
						mu.Lock()
						to := object{"accepting": true, "latest": last}
						mu.Unlock()
						changed := object{"heartbeatId": data["heartbeatId"], "from": object{"accepting": true}, "to": to}
						out.Send(tamper.Frame{Lines: []string{"event: heartbeat.state-changed", "data: " + string(tamper.Encode(changed))}})
					}
				}
			}),
		)(next)
	}
}

// longWait is the least wait that a poll has to ask for to be one of the long
// ones, in seconds.
const longWait = 10

func waitOf(r *http.Request) int {
	n, _ := strconv.Atoi(r.URL.Query().Get("timeout")) // what is no number is the host's to judge
	return n
}

// short selects polls that wait for a second at a cursor.
func short(r *http.Request) bool { return hasCursor(r) && waitOf(r) == 1 }

// woken edits the answer to a long poll that had to wait.
func woken(edit func(r *http.Request, a *tamper.Answer, waited time.Duration)) tamper.Middleware {
	long := func(r *http.Request) bool { return tamper.PollRun(r) && hasCursor(r) && waitOf(r) >= longWait }
	return tamper.Instead(long, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		began := time.Now()
		a := tamper.Record(next, r)
		if waited := time.Since(began); waited > 50*time.Millisecond {
			edit(r, a, waited)
		}
		a.Send(w)
	})
}

func waitFaults() []Fault {
	wakes, bounded := requirements.EventsPollWakes, requirements.EventsPollBounded
	legacy := requirements.EventsPollLegacyParameters
	cursor := func(name string) tamper.Middleware {
		return tamper.Requests(tamper.PollRun, func(r *http.Request) {
			if n := r.URL.Query().Get(name); n != "" {
				tamper.SetQuery(r, name, "")
				tamper.SetQuery(r, "afterSequence", n)
			}
		})
	}
	emptied := func(a *tamper.Answer) {
		if doc, ok := a.JSON(); ok {
			doc["events"] = []any{}
			a.SetJSON(doc)
		}
	}
	return []Fault{
		wire("poll-answers-at-timeout", "A poll that had to wait is answered when its time is over and not before.",
			"after|within", woken(func(r *http.Request, _ *tamper.Answer, waited time.Duration) {
				tamper.Pause(r.Context(), time.Duration(waitOf(r))*time.Second-waited)
			}), wakes).slow(),
		wire("poll-wakes-empty", "A poll that waited is answered at once and does not hold what it waited for.",
			"events", woken(func(_ *http.Request, a *tamper.Answer, _ time.Duration) { emptied(a) }), wakes),
		wire("poll-misses-the-end", "A poll that waited does not hold the event that ended the run.",
			"terminal|run.cancelled", woken(func(_ *http.Request, a *tamper.Answer, _ time.Duration) {
				if doc, _ := a.JSON(); doc["isTerminal"] == true {
					emptied(a)
				}
			}), wakes),
		wire("poll-timeout-ignored", "A poll of one second waits for as long as the host likes.",
			"did not answer in time|after", tamper.Instead(tamper.And(tamper.PollRun, short), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if cursorOf(r) == lastSequence(next, r) {
					r = r.Clone(r.Context())
					tamper.SetQuery(r, "timeout", "15")
				}
				next.ServeHTTP(w, r)
			}), bounded).slow(),
		wire("poll-without-events-204", "A poll of one second without events is answered 204.",
			"204", tamper.Answers(tamper.PollRun, func(r *http.Request, a *tamper.Answer) {
				doc, _ := a.JSON()
				if list, ok := doc["events"].([]any); ok && len(list) == 0 && short(r) && cursorOf(r) == integer(doc["lastSequence"]) && doc["isTerminal"] != true {
					a.Status, a.Body = http.StatusNoContent, nil
				}
			}), bounded),
		wire("poll-without-events-408", "A poll that has waited its time is answered as timed out.",
			"408", tamper.Answers(tamper.PollRun, func(r *http.Request, a *tamper.Answer) {
				doc, _ := a.JSON()
				if list, ok := doc["events"].([]any); ok && len(list) == 0 && short(r) && cursorOf(r) == integer(doc["lastSequence"]) && doc["isTerminal"] != true {
					a.Refuse(http.StatusRequestTimeout, "internal_error", "nothing happened")
				}
			}), bounded),
		wire("poll-of-ended-run-waits", "A poll at the end of an ended run waits its time for what cannot come.",
			"did not answer in time|after", tamper.Instead(tamper.And(tamper.PollRun, hasCursor), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				a := tamper.Record(next, r)
				doc, _ := a.JSON()
				if list, ok := doc["events"].([]any); ok && len(list) == 0 && doc["isTerminal"] == true && waitOf(r) >= longWait {
					tamper.Pause(r.Context(), longWait*time.Second)
				}
				a.Send(w)
			}), bounded).slow(),
		wire("poll-last-sequence-is-cursor", "The parameter lastSequence of a poll is a cursor, as in version 1.",
			"lastSequence", cursor("lastSequence"), legacy),
		wire("poll-since-is-cursor", "The parameter since of a poll is a cursor, as in version 1.",
			"since", cursor("since"), legacy),
	}
}

// late is a store with events behind the ends of logs, and what they are made
// of.
type late struct {
	*logs.Behind
	ids   referencehost.IDs
	clock referencehost.Clock
}

// add records that something went on after the end of a run.
func (l late) add(log referencehost.Log, typ string, payload object) {
	draft := referencehost.Draft{EventID: l.ids.Opaque(), Type: typ, Timestamp: l.clock.Now()}
	if started := firstOf(log, "node.started"); started != nil && payload == nil {
		draft.NodeID, payload = started.NodeID, object{"nodeId": started.NodeID}
		if typ == "node.started" {
			payload["typeId"] = "core.noop"
		}
	}
	if payload == nil {
		payload = object{}
	}
	draft.Payload = tamper.Encode(payload)
	l.Add(log.Run().ID, draft)
}

// lately puts a store in front of the configured one that lets late work in;
// then is told of every event that ends a run.
func lately(then func(l late, log referencehost.Log, end string)) func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		l := late{ids: c.IDs, clock: c.Clock}
		l.Behind = logs.NewBehind(logs.Edited(c.Store, logs.Edit{Appended: func(log referencehost.Log, drafts []referencehost.Draft) {
			for _, d := range drafts {
				switch d.Type {
				case "run.completed", "run.failed", "run.cancelled":
					then(l, log, d.Type)
				}
			}
		}}))
		c.Store = l
	}
}

// afterEnd has the worker of a run that ended so hand in its work when the time
// it takes is over.
func afterEnd(end, typ string, payload object) func(*referencehost.Config) {
	return lately(func(l late, log referencehost.Log, is string) {
		inputs, _ := tamper.Decode(log.Run().Inputs).(object)
		started := firstOf(log, "node.started")
		if is != end || started == nil || inputs["delayMs"] == nil {
			return
		}
		done := started.Timestamp.Add(time.Duration(integer(inputs["delayMs"])) * time.Millisecond)
		if left := done.Sub(l.clock.Now()); left > 0 {
			time.AfterFunc(left, func() { l.add(log, typ, payload) })
		}
	})
}

// redelivered has the work of a run done again when it is delivered again:
// done says what comes of it, for a run in each status.
func redelivered(done map[string]string) func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		var mu sync.Mutex
		twice := map[string]bool{} // runs that two workers are at, by id
		var store late
		lately(func(l late, log referencehost.Log, end string) {
			mu.Lock()
			defer mu.Unlock()
			if typ := done["running"]; typ != "" && twice[log.Run().ID] {
				l.add(log, typ, endPayload(typ))
			}
		})(c)
		store, _ = c.Store.(late)
		c.Wrap = append(c.Wrap, tamper.Instead(tamper.Redeliver, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			doc, _ := tamper.BodyJSON(r)
			a := tamper.Record(next, r)
			if log, err := store.Open(r.Context(), text(doc["runId"])); err == nil && a.Status == http.StatusAccepted {
				end := endingOf(log)
				if typ := done[end]; typ != "" {
					store.add(log, typ, endPayload(typ))
				}
				mu.Lock()
				twice[log.Run().ID] = end == ""
				mu.Unlock()
			}
			a.Send(w)
		}))
	}
}

// endingOf is the type of the event that ended a run, "" for a run that goes on.
func endingOf(log referencehost.Log) string {
	for _, typ := range []string{"run.completed", "run.failed", "run.cancelled"} {
		if firstOf(log, typ) != nil {
			return typ
		}
	}
	return ""
}

// endPayload is the payload of an event about a whole run, nil for one about a
// node.
func endPayload(typ string) object {
	switch typ {
	case "run.completed":
		return object{"outputs": object{}}
	case "run.cancelled", "run.resumed":
		return object{}
	}
	return nil
}

func lateFaults() []Fault {
	worked, again := requirements.EventsLateWorkRefused, requirements.R0194TerminalOnceDuplicateDelivery
	return []Fault{
		made("late-work-after-cancel", "A worker that a cancel did not reach hands in its work, and it is recorded.",
			"node.completed", afterEnd("run.cancelled", "node.completed", nil), worked, requirements.R0194TerminalOnce),
		made("late-end-after-cancel", "A worker that a cancel did not reach ends the run a second time.",
			"run.completed", afterEnd("run.cancelled", "run.completed", object{"outputs": object{}}), worked, requirements.R0194TerminalOnce),
		made("late-work-after-timeout", "A worker hands in its work after the run has run out of time, and it is recorded.",
			"node.completed", afterEnd("run.failed", "node.completed", nil), worked),
		made("redelivered-run-completes-again", "A completed run that is delivered again completes again.",
			"run.completed", redelivered(map[string]string{"run.completed": "run.completed"}), again),
		made("redelivered-node-starts-again", "A node of a completed run that is delivered again starts again.",
			"node.started", redelivered(map[string]string{"run.completed": "node.started"}), again),
		made("redelivered-run-goes-on", "A cancelled run that is delivered again is resumed.",
			"run.resumed", redelivered(map[string]string{"run.cancelled": "run.resumed"}), again),
		made("redelivered-run-ends-twice", "Of two workers that are at one run both end it.",
			"run.completed", redelivered(map[string]string{"running": "run.completed"}), again),
	}
}
