package variants

import (
	"net/http"
	"strings"
	"time"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// event edits every event, in poll and stream alike.
func event(edit func(e object)) tamper.Middleware {
	return tamper.Events(func(e map[string]any) bool { edit(e); return true })
}

// respelt writes a time of UTC in another form of the same time.
func respelt(v any) string { return strings.TrimSuffix(text(v), "Z") + "+00:00" }

// ofEnvelope reports whether an event is one that an AI envelope produced: its
// cause is the envelope's to say.
func ofEnvelope(e object) bool {
	return e["causationId"] != nil && (e["type"] == "log.appended" || e["type"] == "cap.breached")
}

func eventVariants() []Variant {
	const doc = "events.md"
	return []Variant{
		grant("events-minimal", doc, "The envelope", "Events have the required members and no more, but for what an envelope caused.",
			event(func(e object) {
				delete(e, "engineVersion")
				delete(e, "nodeId")
				if !ofEnvelope(e) {
					delete(e, "causationId")
				}
			})).unsent(),
		grant("events-with-cause", doc, "The envelope", "Every event says what caused it.",
			event(func(e object) {
				if !ofEnvelope(e) {
					e["causationId"] = text(e["eventId"])
				}
			})).unsent(),
		grant("event-times-with-offset", doc, "The envelope", "Times are written with an offset and not with Z.",
			event(func(e object) { e["timestamp"] = respelt(e["timestamp"]) })),
		grant("event-schema-version-higher", doc, "The envelope", "Events have a later schema version.",
			event(func(e object) { e["schemaVersion"] = 12 })),
		made("keep-alive-often", doc, "SSE frames", "A stream gets a keep-alive comment twenty times a second.",
			func(c *referencehost.Config) { c.KeepAlive = 50 * time.Millisecond }),
		grant("malformed-cursor-served", doc, "Resuming with Last-Event-ID", "A malformed Last-Event-ID is served as if there were none.",
			tamper.Requests(tamper.StreamRun, func(r *http.Request) {
				if strings.Trim(r.Header.Get("Last-Event-ID"), "0123456789") != "" || r.Header.Get("Last-Event-ID") == "" {
					r.Header.Del("Last-Event-ID")
				}
			}), requirements.R0213LastEventIdMalformed),
		grant("stream-modes-updates-only", doc, "Stream modes", "The host serves the one mode it must.", updatesOnly(),
			requirements.EventsAllModes, requirements.EventsDebugComplete, requirements.EventsValuesSnapshots, requirements.EventsMixedOrder,
			requirements.EventsMixedFrameNames, requirements.EventsMessagesChunks, requirements.EventsMessagesMeta,
			requirements.EventsValuesResumeSnapshot, requirements.ReplayDivergedStreamed),
		grant("stream-modes-other-order", doc, "Stream modes", "The refusal of a streamMode lists the modes in another order.",
			tamper.JSON(tamper.StreamRun, 400, func(_ *http.Request, doc map[string]any) {
				if details, ok := doc["details"].(object); ok {
					list, _ := details["supported"].([]any)
					for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
						list[i], list[j] = list[j], list[i]
					}
				}
			})),
		made("vendor-event-after-start", doc, "Types", "The log of a run holds an event of a vendor, which only debug shows.", vendorEvents(false)).
			opening(requirements.EventsVendorDebugOnly),
		made("vendor-event-after-terminal", doc, "The terminal event", "An event of a vendor follows the terminal event of a run.", vendorEvents(true)),
	}
}

// updatesOnly refuses every mode but updates.
func updatesOnly() tamper.Middleware {
	return tamper.Chain(
		tamper.Requests(tamper.StreamRun, func(r *http.Request) {
			if mode := r.URL.Query().Get("streamMode"); mode != "" && mode != "updates" {
				tamper.SetQuery(r, "streamMode", "none")
			}
		}),
		tamper.JSON(tamper.StreamRun, 400, func(_ *http.Request, doc map[string]any) {
			if doc["error"] == "unsupported_stream_mode" {
				doc["details"] = object{"supported": []any{"updates"}}
			}
		}),
	)
}

// frames edits every event frame.
func frames(edit func(f tamper.Frame) tamper.Frame) tamper.Middleware {
	return tamper.Frames(tamper.StreamRun, func(*http.Request) tamper.FrameEdit {
		return func(f tamper.Frame, out *tamper.Out) {
			if f.IsEvent() {
				f = edit(f)
			}
			out.Send(f)
		}
	})
}

// begun sends bytes before the first frame of a stream.
func begun(with string) tamper.Middleware {
	return tamper.Frames(tamper.StreamRun, func(*http.Request) tamper.FrameEdit {
		first := true
		return func(f tamper.Frame, out *tamper.Out) {
			if first {
				out.Raw([]byte(with))
				first = false
			}
			out.Send(f)
		}
	})
}

func lineEnds(end string) tamper.Middleware {
	return tamper.Lines(tamper.StreamRun, func(line string) string { return line + end })
}

func frameVariants() []Variant {
	const doc, section = "events.md", "SSE frames"
	return []Variant{
		grant("sse-crlf", doc, section, "Lines of a stream end with CR LF.", lineEnds("\r\n")),
		grant("sse-cr", doc, section, "Lines of a stream end with CR.", lineEnds("\r")),
		grant("sse-mixed-line-ends", doc, section, "Lines of a stream end in different ways.",
			tamper.Lines(tamper.StreamRun, func(line string) string {
				switch {
				case line == "" || len(line)%3 == 0: // a bare LF after a CR would be one line end
					return line + "\r\n"
				case len(line)%3 == 1:
					return line + "\n"
				}
				return line + "\r"
			})),
		grant("sse-byte-order-mark", doc, section, "A stream begins with a byte order mark.", begun("\xEF\xBB\xBF")),
		grant("sse-retry", doc, section, "A stream tells the client when to reconnect.", begun("retry: 3000\n\n")),
		grant("sse-retry-in-frames", doc, section, "Every frame tells the client when to reconnect.",
			frames(func(f tamper.Frame) tamper.Frame { return f.Set("retry", "1500") })),
		grant("sse-comments", doc, section, "Comments of any text stand before, in and between the frames.",
			tamper.Frames(tamper.StreamRun, func(*http.Request) tamper.FrameEdit {
				return func(f tamper.Frame, out *tamper.Out) {
					out.Raw([]byte(":\n: id: 99\n:data: {}\n: \u00fc \U0001F980\n\n"))
					if f.IsEvent() {
						f.Lines = append([]string{f.Lines[0], ": event: run.completed"}, f.Lines[1:]...)
					}
					out.Send(f)
				}
			})),
		grant("sse-data-first", doc, section, "The data of a frame comes before its name and its id.",
			frames(func(f tamper.Frame) tamper.Frame {
				id, _ := f.Field("id")
				name, _ := f.Field("event")
				data, _ := f.Field("data")
				return tamper.Frame{Lines: []string{"data: " + data, "event: " + name, "id: " + id}}
			})),
		grant("sse-no-space", doc, section, "Fields of a frame have no space after the colon.",
			frames(func(f tamper.Frame) tamper.Frame {
				lines := make([]string, len(f.Lines))
				for i, l := range f.Lines {
					lines[i] = strings.Replace(l, ": ", ":", 1)
				}
				return tamper.Frame{Lines: lines}
			})),
		grant("sse-unknown-fields", doc, section, "Frames have a field the format does not know.",
			frames(func(f tamper.Frame) tamper.Frame { return f.Set("x-trace", "1") })),
		grant("sse-data-over-lines", doc, section, "The data of a frame is spread over several lines.",
			frames(func(f tamper.Frame) tamper.Frame {
				data, _ := f.Field("data")
				out := f.Without("data")
				for l := range strings.SplitSeq(respaced([]byte(data)), "\n") {
					out.Lines = append(out.Lines, "data: "+l)
				}
				return out
			})),
		grant("sse-charset", doc, section, "The type of a stream names its character set.",
			tamper.Answers(tamper.StreamRun, func(_ *http.Request, a *tamper.Answer) {
				if a.Stream {
					a.Header.Set("Content-Type", "Text/Event-Stream;charset=UTF-8")
					a.Header.Set("Cache-Control", "no-store")
					a.Header.Set("X-Accel-Buffering", "no")
				}
			})),
		grant("sse-closed-late", doc, section, "A stream is closed a moment after its terminal event.", tamper.Hold(tamper.StreamRun, 200*time.Millisecond)),
		grant("sse-headers-late", doc, section, "A stream is opened only when there is a first event to send.", tamper.Late(tamper.StreamRun)),
	}
}
