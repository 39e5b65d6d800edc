package faults

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// streamed edits every event frame of every stream.
func streamed(edit func(f tamper.Frame) tamper.Frame) tamper.Middleware {
	return tamper.Frames(tamper.StreamRun, func(*http.Request) tamper.FrameEdit {
		return func(f tamper.Frame, out *tamper.Out) {
			if f.IsEvent() {
				f = edit(f)
			}
			out.Send(f)
		}
	})
}

// only makes a change to the requests that match.
func only(m tamper.Match, change tamper.Middleware) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		changed := change(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if m(r) {
				changed.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// byDefault matches event streams that ask for no mode and no batches. The
// others have rows of their own.
func byDefault(r *http.Request) bool {
	q := r.URL.Query()
	return q.Get("streamMode") == "" && q.Get("bufferMs") == ""
}

// rewritten edits the event inside every frame and leaves its id and name.
func rewritten(edit func(e object) any) tamper.Middleware {
	return streamed(func(f tamper.Frame) tamper.Frame {
		if e, ok := f.JSON(); ok {
			return f.Set("data", string(tamper.Encode(edit(e))))
		}
		return f
	})
}

// openFor keeps a stream open that should have been closed: longer than any
// check waits, and not for ever.
const openFor = 90 * time.Second

func resumes(r *http.Request) bool { return len(r.Header.Values("Last-Event-ID")) > 0 }

func fresh(r *http.Request) bool { return tamper.StreamRun(r) && !resumes(r) }

func modeFaults() []Fault {
	mode := requirements.R0171StreamModeRefusal
	refusedMode := func(edit func(doc object)) tamper.Middleware {
		return tamper.JSON(tamper.StreamRun, 400, func(_ *http.Request, doc map[string]any) {
			if doc["error"] == "unsupported_stream_mode" {
				edit(doc)
			}
		})
	}
	supported := func(edit func(list []any) any) tamper.Middleware {
		return refusedMode(func(doc object) {
			if details, ok := doc["details"].(object); ok {
				list, _ := details["supported"].([]any)
				details["supported"] = edit(list)
			}
		})
	}
	return []Fault{
		wire("stream-mode-unknown-served", "A streamMode the host does not know is served as updates.",
			"200", tamper.Requests(tamper.StreamRun, func(r *http.Request) {
				if !knownMode(r.URL.Query().Get("streamMode")) {
					tamper.SetQuery(r, "streamMode", "")
				}
			}), mode),
		wire("stream-mode-any-case-served", "A streamMode in capitals is served.",
			"200", asMode(strings.ToLower), mode),
		wire("stream-mode-trailing-comma-served", "A streamMode with a comma at its end is served.",
			"200", asMode(func(m string) string { return strings.TrimSuffix(m, ",") }), mode),
		wire("stream-mode-values-combined-served", "The mode values is served in a combination.",
			"200", asMode(func(m string) string {
				if strings.Contains(m, "values,") || strings.Contains(m, ",values") {
					return "updates"
				}
				return m
			}), mode),
		wire("stream-mode-listed-not-served", "The refusal of a streamMode lists one that is refused itself.",
			"streamMode=debug", tamper.Requests(tamper.StreamRun, func(r *http.Request) {
				if r.URL.Query().Get("streamMode") == "debug" {
					tamper.SetQuery(r, "streamMode", "none")
				}
			}), mode).closing(requirements.EventsDebugComplete).
			closing(requirements.ReplayDivergedStreamed),
		wire("stream-mode-served-not-listed", "The refusal of a streamMode leaves out one that is served.",
			"200", supported(func(list []any) any { return []any{"updates"} }), mode),
		wire("stream-mode-other-code", "A streamMode the host does not know is refused with the general code.",
			"400 validation_error", refusedMode(func(doc object) { doc["error"] = "validation_error"; delete(doc, "details") }), mode),
		wire("stream-mode-without-supported", "The refusal of a streamMode does not say which there are.",
			"supported", refusedMode(func(doc object) { delete(doc, "details") }), mode),
		wire("stream-mode-supported-combinations", "The refusal of a streamMode lists a combination of modes.",
			"/details/supported", supported(func(list []any) any { return append(list, "updates,debug") }), mode,
			requirements.R0171ErrorRegistryEnvelope),
		wire("stream-mode-supported-is-text", "The refusal of a streamMode lists the modes in one string.",
			"/details/supported", supported(func([]any) any { return "updates,values" }), mode, requirements.R0171ErrorRegistryEnvelope),
		wire("stream-mode-after-negotiation", "A bad streamMode is noticed only after the Accept header was found wanting.",
			"406", tamper.Answers(tamper.And(tamper.StreamRun, tamper.Not(contains("Accept", "text/event-stream")), tamper.Not(contains("Accept", "*/*"))),
				func(_ *http.Request, a *tamper.Answer) {
					if a.Status == 400 {
						a.Refuse(http.StatusNotAcceptable, "protocol_version_unsupported", "only text/event-stream")
					}
				}), mode),
	}
}

func frameFaults() []Fault {
	projection := requirements.R0171StreamSseProjection
	return []Fault{
		wire("frame-id-is-event-id", "The id of a frame is the eventId of its event.",
			"id", only(byDefault, streamed(func(f tamper.Frame) tamper.Frame {
				e, _ := f.JSON()
				return f.Set("id", text(e["eventId"]))
			})), projection),
		wire("frame-id-off-by-one", "The id of a frame is the sequence the next event will have.",
			"frame with id", only(byDefault, streamed(func(f tamper.Frame) tamper.Frame {
				e, _ := f.JSON()
				return f.Set("id", fmt.Sprint(integer(e["sequence"])+1))
			})), projection),
		wire("frame-without-id", "A frame has no id.",
			"id", only(byDefault, streamed(func(f tamper.Frame) tamper.Frame { return f.Without("id") })), projection),
		wire("frame-event-is-message", "Every frame is named message.",
			"message", only(byDefault, streamed(func(f tamper.Frame) tamper.Frame { return f.Set("event", "message") })), projection),
		wire("frame-without-event", "A frame does not name the type of its event.",
			"event", only(byDefault, streamed(func(f tamper.Frame) tamper.Frame { return f.Without("event") })), projection),
		wire("frame-data-abridged", "The event in a frame lacks what an update needs not.",
			"the polled event", only(byDefault, rewritten(func(e object) any { delete(e, "schemaVersion"); delete(e, "engineVersion"); return e })), projection),
		wire("frame-data-other-timestamp", "The event in a frame has the time it was sent and not the time it was logged.",
			"the polled event", only(byDefault, rewritten(func(e object) any { e["timestamp"] = "2001-01-01T00:00:00Z"; return e })), projection),
		wire("stream-as-json-lines", "An event stream is labelled as a sequence of JSON lines.",
			"application/x-ndjson", contentType("application/x-ndjson"), requirements.EventsSseContentType),
		wire("stream-as-plain-text", "An event stream is labelled text/plain.",
			"text/plain", contentType("text/plain; charset=utf-8"), requirements.EventsSseContentType),
		wire("stream-open-after-terminal", "An event stream stays open after the terminal event.",
			"open", tamper.Hold(fresh, openFor), requirements.EventsSseCloseAfterTerminal).slow(),
		wire("live-stream-open-after-terminal", "An event stream that saw the run end stays open.",
			"open", tamper.Instead(fresh, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if over := ended(next, r); over {
					next.ServeHTTP(w, r)
					return
				}
				tamper.Hold(tamper.Any, openFor)(next).ServeHTTP(w, r)
			}), requirements.EventsSseCloseAfterTerminal).slow(),
		wire("stream-of-ended-run-empty", "An event stream of an ended run is closed without a frame.",
			"without any event frame|no terminal one|no event within|without a mode", tamper.Instead(fresh, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if ended(next, r) && r.URL.Query().Get("streamMode") == "" {
					closedStream(w, r, next)
					return
				}
				next.ServeHTTP(w, r)
			}), projection, requirements.EventsSseCloseAfterTerminal, requirements.RunsResponseLinks, requirements.EventsUpdatesMode).
			also("no event within", requirements.RunsForkChild),
	}
}

// asMode reads the streamMode of a request in another way.
func asMode(read func(string) string) tamper.Middleware {
	return tamper.Requests(tamper.StreamRun, func(r *http.Request) {
		tamper.SetQuery(r, "streamMode", read(r.URL.Query().Get("streamMode")))
	})
}

// contentType relabels event streams.
func contentType(value string) tamper.Middleware {
	return tamper.Answers(tamper.StreamRun, func(_ *http.Request, a *tamper.Answer) {
		if a.Stream {
			a.Header.Set("Content-Type", value)
		}
	})
}

func knownMode(mode string) bool {
	for part := range strings.SplitSeq(mode, ",") {
		switch part {
		case "", "updates", "messages", "debug", "values":
		default:
			return false
		}
	}
	return mode == "values" || !strings.Contains(mode, "values")
}

// lastSequence asks the host for the end of the log of the run a request
// names, -1 when it does not say.
func lastSequence(next http.Handler, r *http.Request) int64 {
	doc, ok := tamper.Ask(next, r, http.MethodGet, "/runs/"+tamper.RunSegment(r)+"/events/poll?timeout=1", nil).JSON()
	if !ok || doc["lastSequence"] == nil {
		return -1
	}
	return integer(doc["lastSequence"])
}

// ended reports whether the run a request names has ended.
func ended(next http.Handler, r *http.Request) bool {
	switch statusOf(next, r) {
	case "completed", "failed", "cancelled":
		return true
	}
	return false
}

// resumed serves a stream with a well-formed Last-Event-ID in another way; it
// is told whether events lie after the cursor.
func resumed(serve func(w http.ResponseWriter, r *http.Request, next http.Handler, n int64, backlog bool)) tamper.Middleware {
	return tamper.Instead(tamper.And(tamper.StreamRun, resumes), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		n, err := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64)
		last := lastSequence(next, r)
		if err != nil || n < 0 || last < 0 {
			next.ServeHTTP(w, r)
			return
		}
		serve(w, r, next, n, n < last)
	})
}

// withCursor serves a stream with another Last-Event-ID, without one when the
// value is empty.
func withCursor(w http.ResponseWriter, r *http.Request, next http.Handler, value string) {
	r = r.Clone(r.Context())
	r.Header.Del("Last-Event-ID")
	if value != "" {
		r.Header.Set("Last-Event-ID", value)
	}
	next.ServeHTTP(w, r)
}

func refuse(w http.ResponseWriter, next http.Handler, r *http.Request, status int, code string) {
	a := tamper.Ask(next, r, http.MethodGet, "/runs/"+tamper.RunSegment(r), nil)
	a.Refuse(status, code, "no event has that id")
	a.Send(w)
}

func resumeFaults() []Fault {
	resume := requirements.R0171SseLastEventId
	return []Fault{
		wire("resume-repeats-cursor", "A stream resumed after N begins with N.",
			"sequence|the events above", resumed(func(w http.ResponseWriter, r *http.Request, next http.Handler, n int64, backlog bool) {
				if backlog {
					withCursor(w, r, next, before(fmt.Sprint(n)))
					return
				}
				next.ServeHTTP(w, r)
			}), resume, requirements.EventsBatchCursor),
		wire("resume-from-the-start", "A stream resumed after N begins with the first event.",
			"sequence|the events above", resumed(func(w http.ResponseWriter, r *http.Request, next http.Handler, _ int64, backlog bool) {
				if backlog {
					withCursor(w, r, next, "")
					return
				}
				next.ServeHTTP(w, r)
			}), resume, requirements.EventsBatchCursor),
		wire("resume-skips-one", "A stream resumed after N begins with N+2.",
			"sequence|the events above", resumed(func(w http.ResponseWriter, r *http.Request, next http.Handler, n int64, backlog bool) {
				if backlog {
					withCursor(w, r, next, fmt.Sprint(n+1))
					return
				}
				next.ServeHTTP(w, r)
			}), resume, requirements.EventsBatchCursor),
		wire("resume-of-live-run-loses-backlog", "A stream of a running run resumed after N sends only what comes from now on.",
			"sequence", resumed(func(w http.ResponseWriter, r *http.Request, next http.Handler, _ int64, backlog bool) {
				if backlog && !ended(next, r) {
					withCursor(w, r, next, fmt.Sprint(lastSequence(next, r)))
					return
				}
				next.ServeHTTP(w, r)
			}), resume),
	}
}

func cursorFaults() []Fault {
	cursor := requirements.R0213LastEventIdExclusiveCursor
	return []Fault{
		wire("resume-at-end-refused", "A Last-Event-ID at or past the end of the log is refused.",
			"400 validation_error", resumed(func(w http.ResponseWriter, r *http.Request, next http.Handler, _ int64, backlog bool) {
				if !backlog {
					refuse(w, next, r, 400, "validation_error")
					return
				}
				next.ServeHTTP(w, r)
			}), cursor),
		wire("resume-past-end-not-found", "A Last-Event-ID past the end of the log is answered 404.",
			"404", resumed(func(w http.ResponseWriter, r *http.Request, next http.Handler, n int64, backlog bool) {
				if n > lastSequence(next, r) {
					refuse(w, next, r, 404, "not_found")
					return
				}
				next.ServeHTTP(w, r)
			}), cursor),
		wire("resume-at-end-closes-live-run", "A stream of a running run resumed at its end is closed at once.",
			"ended by host|without the terminal event", resumed(func(w http.ResponseWriter, r *http.Request, next http.Handler, _ int64, backlog bool) {
				if !backlog && !ended(next, r) {
					closedStream(w, r, next)
					return
				}
				next.ServeHTTP(w, r)
			}), cursor),
		wire("resume-at-end-repeats-terminal", "A stream of an ended run resumed at its end sends the terminal event again.",
			"frame", resumed(func(w http.ResponseWriter, r *http.Request, next http.Handler, _ int64, backlog bool) {
				if !backlog && ended(next, r) {
					withCursor(w, r, next, before(fmt.Sprint(lastSequence(next, r))))
					return
				}
				next.ServeHTTP(w, r)
			}), cursor),
		wire("resume-at-end-of-ended-run-stays-open", "A stream of an ended run resumed at its end stays open.",
			"open", resumed(func(w http.ResponseWriter, r *http.Request, next http.Handler, _ int64, backlog bool) {
				next.ServeHTTP(w, r)
				if !backlog {
					http.NewResponseController(w).Flush() // a client that is gone ends the wait
					tamper.Pause(r.Context(), openFor)
				}
			}), cursor).slow(),
		wire("resume-at-end-delivers-nothing", "A stream of a running run resumed at its end is held open and closed when the next event comes, without it.",
			"without the terminal event", resumed(func(w http.ResponseWriter, r *http.Request, next http.Handler, _ int64, backlog bool) {
				if !backlog && !ended(next, r) {
					next = tamper.Frames(tamper.Any, func(*http.Request) tamper.FrameEdit { return func(tamper.Frame, *tamper.Out) {} })(next)
				}
				next.ServeHTTP(w, r)
			}), cursor),
		wire("resume-past-end-starts-over", "A stream resumed past the end of the log of a running run begins with the first event.",
			"sequence", resumed(func(w http.ResponseWriter, r *http.Request, next http.Handler, n int64, backlog bool) {
				if !backlog && !ended(next, r) {
					withCursor(w, r, next, "")
					return
				}
				next.ServeHTTP(w, r)
			}), cursor),
	}
}

func authorizationFaults() []Fault {
	return []Fault{
		wire("malformed-cursor-before-authorization", "A malformed Last-Event-ID is refused before the caller's right to the run is looked at.",
			"with Last-Event-ID wopcert 400", tamper.Answers(tamper.And(tamper.StreamRun, malformedCursor), func(_ *http.Request, a *tamper.Answer) {
				a.Refuse(400, "validation_error", "Last-Event-ID is no number")
			}), requirements.R0213LastEventIdAfterAuthorization),
		wire("cursor-reveals-foreign-run", "A stream request with a Last-Event-ID for another tenant's run is answered differently.",
			"404", tamper.Answers(tamper.And(tamper.StreamRun, resumes), func(_ *http.Request, a *tamper.Answer) {
				if a.Status == 403 {
					a.Refuse(404, "not_found", "no such run")
				}
			}), requirements.R0213LastEventIdAfterAuthorization),
		wire("negative-cursor-served", "A negative Last-Event-ID is read as none.",
			"Last-Event-ID|200", tamper.Requests(tamper.And(tamper.StreamRun, malformedCursor), func(r *http.Request) {
				if strings.HasPrefix(r.Header.Get("Last-Event-ID"), "-") {
					r.Header.Del("Last-Event-ID")
				}
			}),
			requirements.R0213LastEventIdMalformed),
		wire("malformed-cursor-ignored", "A malformed Last-Event-ID is ignored.",
			"200", tamper.Requests(tamper.And(tamper.StreamRun, malformedCursor), func(r *http.Request) { r.Header.Del("Last-Event-ID") }),
			requirements.R0213LastEventIdMalformed),
	}
}

func malformedCursor(r *http.Request) bool {
	v := r.Header.Get("Last-Event-ID")
	_, err := strconv.ParseUint(v, 10, 64)
	return resumes(r) && err != nil
}

// closedStream answers an event stream that ends without a frame.
func closedStream(w http.ResponseWriter, r *http.Request, next http.Handler) {
	a := tamper.Ask(next, r, http.MethodGet, "/runs/"+tamper.RunSegment(r), nil)
	a.Header.Del("ETag")
	a.Header.Set("Content-Type", "text/event-stream")
	a.Status, a.Body = http.StatusOK, nil
	a.Send(w)
}
