package variants

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// rebatched edits the batches of buffered streams: each becomes the frames it
// returns.
func rebatched(edit func(r *http.Request, batch []any, f tamper.Frame) []tamper.Frame) tamper.Middleware {
	return tamper.Frames(tamper.Buffered, func(r *http.Request) tamper.FrameEdit {
		return func(f tamper.Frame, out *tamper.Out) {
			batch, ok := f.Batch()
			if !ok {
				out.Send(f)
				return
			}
			for _, f := range edit(r, batch, f) {
				out.Send(f)
			}
		}
	})
}

// mixed edits the frames of streams of combined modes.
func mixed(edit func(f tamper.Frame, event object, out *tamper.Out)) tamper.Middleware {
	combined := func(r *http.Request) bool {
		return tamper.StreamRun(r) && !tamper.Buffered(r) && strings.Contains(r.URL.Query().Get("streamMode"), ",")
	}
	return tamper.Frames(combined, func(*http.Request) tamper.FrameEdit {
		return func(f tamper.Frame, out *tamper.Out) {
			if event, ok := f.JSON(); ok {
				edit(f, event, out)
				return
			}
			out.Send(f)
		}
	})
}

func modeVariants() []Variant {
	const doc = "events.md"
	return []Variant{
		grant("mixed-frames-named-by-type", doc, "Stream modes", "Frames of combined modes are named by the type of their event.",
			mixed(func(f tamper.Frame, event object, out *tamper.Out) {
				if typ := text(event["type"]); typ != "" {
					f = f.Set("event", typ)
				}
				out.Send(f)
			}), requirements.EventsMixedFrameNames),
		grant("mixed-frames-twice", doc, "Stream modes", "An event that both of two combined modes admit is sent once for each.",
			mixed(func(f tamper.Frame, _ object, out *tamper.Out) {
				out.Send(f)
				if name, _ := f.Field("event"); name == "updates" {
					out.Send(f.Set("event", "debug"))
				}
			})),
		grant("values-backlog-in-one", doc, "Stream modes", "A values stream of an ended run shows the state it ended in and none before.", lastOfBacklog()),
		grant("batches-of-one", doc, "Batching and subscribers", "Every batch holds one event.",
			rebatched(func(_ *http.Request, batch []any, f tamper.Frame) []tamper.Frame {
				frames := make([]tamper.Frame, len(batch))
				for i, event := range batch {
					frames[i] = f.WithBatch([]any{event})
				}
				return frames
			}), requirements.EventsBatchId),
		grant("buffer-not-used", doc, "Batching and subscribers", "A buffer that is asked for is not used: every event is a frame of its own.",
			tamper.Requests(tamper.Buffered, func(r *http.Request) { tamper.SetQuery(r, "bufferMs", "") }),
			requirements.EventsBatchId, requirements.EventsBatchCursor),
		grant("batch-late", doc, "Batching and subscribers", "A batch takes a second to be sent.",
			rebatched(func(r *http.Request, _ []any, f tamper.Frame) []tamper.Frame {
				tamper.Pause(r.Context(), time.Second)
				return []tamper.Frame{f}
			})),
		grant("subscribers-limited", doc, "Batching and subscribers", "A run takes ten subscribers at a time and refuses the next.", limited(10)),
		made("keep-alive-seldom", doc, "SSE frames", "A stream gets a keep-alive comment every three seconds.",
			func(c *referencehost.Config) { c.KeepAlive = 3 * time.Second }),
		grant("poll-returns-early", doc, "Poll", "A poll waits a second and no longer, whatever is asked for.",
			tamper.Requests(tamper.PollRun, func(r *http.Request) { tamper.SetQuery(r, "timeout", "1") })),
		made("heartbeat-off", doc, "Host events", "The host has no events of its own.", without("heartbeat"), requirements.EventsHostEventsStream),
		grant("heartbeat-silent", doc, "Host events", "Nothing happens on the host.",
			tamper.Frames(tamper.HostEvents, func(*http.Request) tamper.FrameEdit {
				return func(f tamper.Frame, out *tamper.Out) {
					if !f.IsEvent() {
						out.Send(f)
					}
				}
			})),
		made("durability-hook-off", doc, "The terminal event", "Nobody can have work delivered a second time.",
			func(c *referencehost.Config) { c.DurabilityHook = false }, requirements.R0194TerminalOnceDuplicateDelivery, requirements.R0158DuplicateDelivery),
		grant("payload-vendor-members", doc, "Payloads", "Payloads hold members of vendors where their definitions admit them.", vendorMembers()).unsent(),
	}
}

// vendorMembers adds members to payloads of types that admit any vendor's.
func vendorMembers() tamper.Middleware {
	admitting := []string{
		"run.started", "run.completed", "run.failed", "run.cancelled", "run.paused", "node.started", "node.completed", "node.failed",
		"log.appended", // and output.chunk, which the messages mode shows without its event
	}
	return tamper.Events(func(e map[string]any) bool {
		p, ok := e["payload"].(object)
		if ok && slices.Contains(admitting, text(e["type"])) {
			p["vendor.example.note"], p["x-trace"] = object{"weight": 1.5, "of": []any{nil, true}}, "t-1"
			p["openwop-hint"] = nil
		}
		return true
	})
}

// lastOfBacklog drops every snapshot of an ended run's values stream but the
// last.
func lastOfBacklog() tamper.Middleware {
	return tamper.Instead(tamper.Streams("values"), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		doc, _ := tamper.Ask(next, r, http.MethodGet, "/runs/"+tamper.RunSegment(r), nil).JSON()
		final := text(doc["status"])
		if !slices.Contains([]string{"completed", "failed", "cancelled"}, final) {
			next.ServeHTTP(w, r)
			return
		}
		tamper.Frames(tamper.Any, func(*http.Request) tamper.FrameEdit {
			return func(f tamper.Frame, out *tamper.Out) {
				if snapshot, ok := f.JSON(); !ok || snapshot["status"] == final {
					out.Send(f)
				}
			}
		})(next).ServeHTTP(w, r)
	})
}

// limited refuses a stream of a run that has as many as it takes.
func limited(most int) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		var mu sync.Mutex
		open := map[string]int{}
		return tamper.Instead(tamper.StreamRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			run := tamper.RunSegment(r)
			mu.Lock()
			full := open[run] >= most
			if !full {
				open[run]++
			}
			mu.Unlock()
			if full {
				a := tamper.Ask(next, r, http.MethodGet, "/runs/"+run, nil)
				a.Refuse(http.StatusTooManyRequests, "rate_limited", "the run has as many subscribers as it takes")
				a.Header.Set("Retry-After", "1")
				a.Send(w)
				return
			}
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				open[run]--
			}()
			next.ServeHTTP(w, r)
		})(next)
	}
}
