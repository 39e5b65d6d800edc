package faults

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"wopcert/corpus"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// framesOf edits the data frames of selected streams; an edit that returns
// false drops the frame.
func framesOf(m tamper.Match, edit func(f tamper.Frame, data object) (tamper.Frame, bool)) tamper.Middleware {
	return tamper.Frames(m, func(*http.Request) tamper.FrameEdit {
		return func(f tamper.Frame, out *tamper.Out) {
			data, ok := f.JSON()
			if !ok {
				out.Send(f)
				return
			}
			if f, ok := edit(f, data); ok {
				out.Send(f)
			}
		}
	})
}

// unbuffered selects streams of one mode that ask for no batches.
func unbuffered(mode string) tamper.Match {
	return tamper.And(tamper.Streams(mode), tamper.Not(tamper.Buffered))
}

// dropping leaves the events of a type out of selected streams, batches
// included.
func dropping(m tamper.Match, typ string) tamper.Middleware {
	return keeping(m, func(_ string, e object) bool { return e["type"] != typ })
}

// keeping drops events from selected streams, batches included; keep is told
// the name of the frame.
func keeping(m tamper.Match, keep func(name string, e object) bool) tamper.Middleware {
	return tamper.Frames(m, func(*http.Request) tamper.FrameEdit {
		return func(f tamper.Frame, out *tamper.Out) {
			name, _ := f.Field("event")
			if batch, ok := f.Batch(); ok {
				batch = slices.DeleteFunc(batch, func(v any) bool { e, _ := v.(object); return !keep(name, e) })
				if len(batch) > 0 {
					out.Send(f.WithBatch(batch))
				}
				return
			}
			if e, ok := f.JSON(); !ok || keep(name, e) {
				out.Send(f)
			}
		}
	})
}

// modes are the stream modes a request asks for.
func modes(r *http.Request) []string {
	if mode := r.URL.Query().Get("streamMode"); mode != "" {
		return strings.Split(mode, ",")
	}
	return []string{"updates"}
}

// withDebug selects streams of which debug is one mode.
func withDebug(r *http.Request) bool {
	return tamper.StreamRun(r) && slices.Contains(modes(r), "debug")
}

// known selects streams of modes there are, spelt as they should be.
func known(r *http.Request) bool {
	mode := r.URL.Query().Get("streamMode")
	return knownMode(mode) && !slices.Contains(strings.Split(mode, ","), "")
}

// withUpdates selects streams of which updates is one mode and debug is none.
func withUpdates(r *http.Request) bool {
	return tamper.StreamRun(r) && slices.Contains(modes(r), "updates") && !slices.Contains(modes(r), "debug")
}

// updatesOf makes the updates mode of what debug shows, alone and combined.
func updatesOf(keep func(typ, tier string) bool) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		contract, err := corpus.Load()
		return tamper.Instead(withUpdates, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			r = r.Clone(r.Context())
			alone := len(modes(r)) == 1
			if alone {
				tamper.SetQuery(r, "streamMode", "debug")
			} else {
				tamper.SetQuery(r, "streamMode", strings.Join(append(modes(r), "debug"), ","))
			}
			keeping(tamper.Any, func(name string, e object) bool {
				event, _ := contract.Event(text(e["type"]))
				return !alone && name != "debug" || keep(text(e["type"]), event.Tier)
			})(next).ServeHTTP(w, r)
		})(next)
	}
}

// unsupported refuses a stream mode as one the host does not serve.
func unsupported(modes ...string) tamper.Middleware {
	return tamper.Chain(
		tamper.Requests(tamper.Streams(modes...), func(r *http.Request) {
			if r.URL.Query().Has("streamMode") {
				tamper.SetQuery(r, "streamMode", "none")
			}
		}),
		tamper.JSON(tamper.StreamRun, http.StatusBadRequest, func(_ *http.Request, doc map[string]any) {
			if details, ok := doc["details"].(object); ok && doc["error"] == "unsupported_stream_mode" {
				list, _ := details["supported"].([]any)
				details["supported"] = slices.DeleteFunc(list, func(v any) bool { return slices.Contains(modes, text(v)) })
			}
		}),
	)
}

// batched edits the batches of buffered streams; a nil result drops one.
func batched(edit func(r *http.Request, f tamper.Frame, batch []any) []tamper.Frame) tamper.Middleware {
	return tamper.Frames(tamper.Buffered, func(r *http.Request) tamper.FrameEdit {
		return func(f tamper.Frame, out *tamper.Out) {
			batch, ok := f.Batch()
			if !ok {
				out.Send(f)
				return
			}
			for _, f := range edit(r, f, batch) {
				out.Send(f)
			}
		}
	})
}

func streamModeFaults() []Fault {
	updates, tier := requirements.EventsUpdatesMode, requirements.EventsUpdatesTier
	values, debug := requirements.EventsValuesSnapshots, requirements.EventsDebugComplete
	snapshots := tamper.And(unbuffered("values"), tamper.Not(resumes))
	return []Fault{
		wire("stream-default-is-debug", "A stream without a mode is one of the mode debug.",
			"without", tamper.Requests(tamper.And(tamper.StreamRun, noMode), func(r *http.Request) { tamper.SetQuery(r, "streamMode", "debug") }), updates),
		wire("stream-updates-by-name-refused", "The mode updates is served to those alone who do not name it.",
			"400", unsupported("updates"), updates, tier, requirements.EventsBatchFlush, requirements.EventsSubscribersServed).blocking(
			requirements.R0171StreamModeRefusal, requirements.EventsSseKeepAlive, requirements.EventsBatchFrames, requirements.EventsBatchId).
			blocking(requirements.InterruptEventsStreamed),
		wire("stream-messages-refused", "The mode messages is not served.",
			"400", unsupported("messages"), requirements.EventsAllModes).
			closing(requirements.EventsMessagesChunks, requirements.EventsMessagesMeta),
		wire("stream-debug-refused", "The mode debug is not served.",
			"400", unsupported("debug"), requirements.EventsAllModes).closing(debug).
			closing(requirements.ReplayDivergedStreamed),
		wire("updates-with-node-starts", "An updates stream carries node.started.",
			"node.started", updatesOf(func(typ, tier string) bool { return tier == "updates" || typ == "node.started" }), tier),
		wire("updates-without-node-ends", "An updates stream does not carry node.completed.",
			"node.completed", dropping(withUpdates, "node.completed"), tier, requirements.EventsBatchFlush),
		wire("updates-without-pauses", "An updates stream does not carry run.paused.",
			"run.paused", dropping(withUpdates, "run.paused"), tier),
		wire("updates-without-failures", "An updates stream does not carry node.failed.",
			"node.failed", dropping(withUpdates, "node.failed"), tier),
		wire("values-of-events", "A values stream carries the events of the run.",
			"event", tamper.Requests(snapshots, func(r *http.Request) { tamper.SetQuery(r, "streamMode", "updates") }), values),
		wire("values-behind", "The last snapshot of a values stream shows the run as it was before its end.",
			"status", framesOf(snapshots, func(f tamper.Frame, data object) (tamper.Frame, bool) {
				if data["status"] == "completed" {
					data["status"] = "running"
				}
				return f.Set("data", string(tamper.Encode(data))), true
			}), values),
		wire("values-named-snapshot", "The frames of a values stream are named snapshot.",
			"snapshot", framesOf(snapshots, func(f tamper.Frame, _ object) (tamper.Frame, bool) { return f.Set("event", "snapshot"), true }), values),
		wire("values-abridged", "A snapshot in a values stream does not say which workflow runs.",
			"workflowId", framesOf(snapshots, func(f tamper.Frame, data object) (tamper.Frame, bool) {
				delete(data, "workflowId")
				return f.Set("data", string(tamper.Encode(data))), true
			}), values),
		wire("values-at-end-alone", "A values stream of an active run shows the end and nothing before it.",
			"frames", framesOf(snapshots, func(f tamper.Frame, data object) (tamper.Frame, bool) {
				switch data["status"] {
				case "completed", "failed", "cancelled":
					return f, true
				}
				return f, false
			}), values),
		wire("debug-without-node-starts", "A debug stream does not carry node.started.",
			"node.started", dropping(withDebug, "node.started"), debug).
			also("absent at sequence 8, where node.started, in version 2", requirements.R0176V1EventsTranslatedSse),
		wire("debug-without-failures", "A debug stream does not carry node.failed.",
			"node.failed", dropping(withDebug, "node.failed"), debug),
		wire("vendor-event-in-updates", "An updates stream carries the events of vendors.",
			"example.run-noted", updatesOf(func(_, tier string) bool { return tier == "updates" || tier == "" }),
			requirements.EventsVendorDebugOnly).on("vendor-event-after-start"),
		wire("vendor-event-nowhere", "No stream carries the events of vendors.",
			"example.run-noted|vendor events", dropping(withDebug, "example.run-noted"),
			requirements.EventsVendorDebugOnly, debug).on("vendor-event-after-start"),
	}
}

func noMode(r *http.Request) bool { return !r.URL.Query().Has("streamMode") }

// combined selects unbuffered streams of more modes than one.
func combined(r *http.Request) bool {
	return tamper.StreamRun(r) && !tamper.Buffered(r) && strings.Contains(r.URL.Query().Get("streamMode"), ",")
}

// resorted sends what a stream carries when it ends, in another order.
func resorted(m tamper.Match, sort func(frames []tamper.Frame) []tamper.Frame) tamper.Middleware {
	return tamper.Instead(m, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		var kept []tamper.Frame
		var last *tamper.Out
		tamper.Frames(tamper.Any, func(*http.Request) tamper.FrameEdit {
			return func(f tamper.Frame, out *tamper.Out) {
				last = out
				if !f.IsEvent() {
					out.Send(f)
					return
				}
				kept = append(kept, f)
			}
		})(next).ServeHTTP(w, r)
		if last == nil {
			return
		}
		for _, f := range sort(kept) {
			last.Send(f)
		}
	})
}

func mixedModeFaults() []Fault {
	order := requirements.EventsMixedOrder
	return []Fault{
		wire("mixed-modes-one-after-the-other", "A stream of combined modes carries what the one admits and then what the other does.",
			"sequences", resorted(combined, func(frames []tamper.Frame) []tamper.Frame {
				slices.SortStableFunc(frames, func(a, b tamper.Frame) int {
					one, _ := a.Field("event")
					other, _ := b.Field("event")
					return strings.Compare(other, one)
				})
				return frames
			}), order),
		wire("mixed-modes-first-alone", "A stream of combined modes carries what the first of them admits.",
			"sequences|frame of sequence", tamper.Requests(tamper.And(combined, known), func(r *http.Request) {
				mode, _, _ := strings.Cut(r.URL.Query().Get("streamMode"), ",")
				tamper.SetQuery(r, "streamMode", mode)
			}), order, requirements.EventsMixedFrameNames),
		wire("mixed-modes-lose-an-event", "A stream of combined modes does not carry the events that the less verbose one admits.",
			"sequences", framesOf(combined, func(f tamper.Frame, data object) (tamper.Frame, bool) { return f, data["type"] != "node.completed" }), order),
		wire("mixed-frames-typed", "Frames of combined modes are named by the type of their event.",
			"event", framesOf(combined, func(f tamper.Frame, data object) (tamper.Frame, bool) {
				if typ := text(data["type"]); typ != "" {
					f = f.Set("event", typ)
				}
				return f, true
			}), requirements.EventsMixedFrameNames),
		wire("mixed-frames-all-named-alike", "Frames of combined modes are named by all of them.",
			"event", framesOf(combined, func(f tamper.Frame, _ object) (tamper.Frame, bool) { return f.Set("event", "updates+debug"), true }),
			requirements.EventsMixedFrameNames),
	}
}

func messageFaults() []Fault {
	chunks, meta, cost := requirements.EventsMessagesChunks, requirements.EventsMessagesMeta, requirements.EventsCostEstimateStamped
	messages := unbuffered("messages")
	said := func(edit func(chunk object)) tamper.Middleware {
		return framesOf(messages, func(f tamper.Frame, data object) (tamper.Frame, bool) {
			edit(data)
			return f.Set("data", string(tamper.Encode(data))), true
		})
	}
	told := func(edit func(meta object)) tamper.Middleware {
		return payloadOf("output.chunk", func(p object) {
			if m, ok := p["meta"].(object); ok {
				edit(m)
			}
		})
	}
	toldAlike := func(edit func(meta object)) tamper.Middleware {
		return tamper.Chain(told(edit), said(func(chunk object) {
			if m, ok := chunk["meta"].(object); ok {
				edit(m)
			}
		}))
	}
	usage := func(edit func(p object)) tamper.Middleware { return payloadOf("provider.usage", edit) }
	return []Fault{
		wire("chunks-in-another-order", "The chunks of a messages stream come last one first.",
			"frame 0|last chunk", resorted(messages, func(frames []tamper.Frame) []tamper.Frame { slices.Reverse(frames); return frames }), chunks, meta),
		wire("chunks-as-events", "A messages stream carries the events that hold the chunks.",
			"frame 0|last chunk", framesOf(messages, func(f tamper.Frame, data object) (tamper.Frame, bool) {
				id, _ := f.Field("id")
				return f.Set("data", string(tamper.Encode(object{"type": "output.chunk", "sequence": integer(tamper.Decode([]byte(id))), "payload": data}))), true
			}), chunks, meta),
		wire("chunks-named-by-type", "The frames of a messages stream are named by the type of their event.",
			"output.chunk", framesOf(messages, func(f tamper.Frame, _ object) (tamper.Frame, bool) { return f.Set("event", "output.chunk"), true }), chunks),
		wire("chunks-never-last", "No chunk says that it is the last one.",
			"isLast", said(func(chunk object) { chunk["isLast"] = false }), chunks),
		wire("chunks-counted", "The chunks of a messages stream are numbered for themselves.",
			"id|sequences", renumbered(messages), chunks, requirements.EventsMixedOrder),
		wire("chunks-and-updates", "A messages stream carries the updates of the run too.",
			"frames|last chunk", tamper.Requests(messages, func(r *http.Request) { tamper.SetQuery(r, "streamMode", "updates,messages") }), chunks, meta),
		wire("chunk-without-meta", "The last chunk says nothing about the answer it ends.",
			"finishReason", tamper.Chain(
				payloadOf("output.chunk", func(p object) { delete(p, "meta") }),
				said(func(chunk object) { delete(chunk, "meta") })), meta),
		wire("chunk-usage-zero", "The usage of the last chunk is zero.",
			"usage", toldAlike(func(m object) {
				if m["usage"] != nil {
					m["usage"] = object{"promptTokens": 0, "completionTokens": 0, "totalTokens": 0}
				}
			}), meta),
		wire("chunk-finish-reason-other", "The last chunk says that the answer was cut off.",
			"finishReason", toldAlike(func(m object) {
				if m["finishReason"] != nil {
					m["finishReason"] = "length"
				}
			}), meta),
		wire("usage-without-cost", "Usage is recorded without the estimate the host advertises.",
			"costEstimateUsd", usage(func(p object) { delete(p, "costEstimateUsd"); delete(p, "currency") }), cost),
		wire("usage-cost-negative", "The estimate of a cost is below zero.",
			"costEstimateUsd", usage(func(p object) { p["costEstimateUsd"] = -1 }), cost),
		wire("usage-cost-as-text", "The estimate of a cost is a string.",
			"costEstimateUsd", usage(func(p object) { p["costEstimateUsd"] = "0.000013" }), cost),
		wire("usage-not-recorded", "A run that used a model records no usage.",
			"provider.usage", tamper.Events(func(e map[string]any) bool { return e["type"] != "provider.usage" }), cost),
	}
}

// renumbered counts the frames of a stream from 0.
func renumbered(m tamper.Match) tamper.Middleware {
	return tamper.Frames(m, func(*http.Request) tamper.FrameEdit {
		n := 0
		return func(f tamper.Frame, out *tamper.Out) {
			if f.IsEvent() {
				f = f.Set("id", fmt.Sprint(n))
				n++
			}
			out.Send(f)
		}
	})
}
