package faults

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// holds reports whether a batch has an event of one of the types.
func holds(batch []any, types ...string) bool {
	return slices.ContainsFunc(batch, func(v any) bool {
		e, _ := v.(object)
		return slices.Contains(types, text(e["type"]))
	})
}

// waiting has batches wait for the whole of the time that was asked for.
func waiting(which func(batch []any) bool) tamper.Middleware {
	return batched(func(r *http.Request, f tamper.Frame, batch []any) []tamper.Frame {
		if ms, err := strconv.Atoi(r.URL.Query().Get("bufferMs")); err == nil && which(batch) {
			tamper.Pause(r.Context(), time.Duration(ms)*time.Millisecond)
		}
		return []tamper.Frame{f}
	})
}

func batchFaults() []Fault {
	frames, flush := requirements.EventsBatchFrames, requirements.EventsBatchFlush
	id, cursor := requirements.EventsBatchId, requirements.EventsBatchCursor
	hatch := requirements.R0185PayloadVendorHatch
	several := func(edit func(f tamper.Frame, batch []any) tamper.Frame) tamper.Middleware {
		return batched(func(_ *http.Request, f tamper.Frame, batch []any) []tamper.Frame {
			if len(batch) > 1 {
				f = edit(f, batch)
			}
			return []tamper.Frame{f}
		})
	}
	return []Fault{
		wire("batch-in-object", "The events of a batch stand in a member of an object.",
			"array false|without it", several(func(f tamper.Frame, batch []any) tamper.Frame {
				return f.Set("data", string(tamper.Encode(object{"events": batch})))
			}), frames, flush).blocking(hatch).closing(id, cursor),
		wire("batch-of-first-alone", "A batch holds the first of its events and no other.",
			"events|without it", several(func(f tamper.Frame, batch []any) tamper.Frame {
				return f.Set("data", string(tamper.Encode(batch[:1])))
			}), frames, flush).closing(id),
		wire("batch-loses-one", "A batch of more events than two lacks the second one.",
			"where|without event", several(func(f tamper.Frame, batch []any) tamper.Frame {
				if len(batch) > 2 {
					batch = slices.Delete(slices.Clone(batch), 1, 2)
				}
				return f.Set("data", string(tamper.Encode(batch)))
			}), frames, flush),
		wire("batch-repeats-first", "A batch holds its first event twice.",
			"where|twice", several(func(f tamper.Frame, batch []any) tamper.Frame {
				return f.Set("data", string(tamper.Encode(append(slices.Clone(batch[:1]), batch...))))
			}), frames),
		wire("batch-newest-first", "A batch holds its events from the last to the first.",
			"where", several(func(f tamper.Frame, batch []any) tamper.Frame {
				turned := slices.Clone(batch)
				slices.Reverse(turned)
				return f.Set("data", string(tamper.Encode(turned)))
			}), frames),
		wire("batch-named-events", "A batch is a frame named events.",
			`"events"`, several(func(f tamper.Frame, _ []any) tamper.Frame { return f.Set("event", "events") }), frames),
		wire("batch-end-waits", "The end of a run waits for the time a stream is buffered.",
			"later|without it", waiting(func(batch []any) bool { return holds(batch, "run.completed", "run.failed", "run.cancelled") }), flush),
		wire("batch-suspension-waits", "A suspension waits for the time a stream is buffered.",
			"later|without it", waiting(func(batch []any) bool { return holds(batch, "node.suspended") }), flush),
		wire("batch-end-lost", "What is buffered when a run ends is not sent.",
			"without it|the next of which", batched(func(_ *http.Request, f tamper.Frame, batch []any) []tamper.Frame {
				if holds(batch, "run.completed", "run.failed", "run.cancelled") {
					return nil
				}
				return []tamper.Frame{f}
			}), frames, flush).blocking(hatch).closing(id),
		wire("batch-id-lowest", "The id of a batch is the lowest sequence in it.",
			"id of a batch", several(func(f tamper.Frame, batch []any) tamper.Frame {
				return f.Set("id", number(batch[0].(object)["sequence"]))
			}), id),
		wire("batch-without-id", "A batch has no id.",
			"id of a batch", several(func(f tamper.Frame, _ []any) tamper.Frame { return f.Without("id") }), id).blocking(cursor),
		wire("batch-id-resumes-before-it", "A stream that is resumed with the id of a batch repeats the batch.",
			"where", batchCursor(func(w http.ResponseWriter, r *http.Request, next http.Handler, first int64) {
				withCursor(w, r, next, before(fmt.Sprint(first)))
			}), cursor),
		wire("batch-id-resumes-behind-the-next", "A stream that is resumed with the id of a batch begins behind the event that follows.",
			"where|the next of which", batchCursor(func(w http.ResponseWriter, r *http.Request, next http.Handler, _ int64) {
				n, _ := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64) // it is one that was given out
				withCursor(w, r, next, fmt.Sprint(n+1))
			}), cursor),
		wire("batch-id-refused", "The id of a batch is no cursor.",
			"400", batchCursor(func(w http.ResponseWriter, r *http.Request, next http.Handler, _ int64) {
				refuse(w, next, r, 400, "validation_error")
			}), cursor),
	}
}

// batchCursor serves a stream that is resumed with the id of a batch; it is
// told the first sequence of that batch.
func batchCursor(serve func(w http.ResponseWriter, r *http.Request, next http.Handler, first int64)) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		var mu sync.Mutex
		firsts := map[string]int64{} // by run and id
		noting := batched(func(r *http.Request, f tamper.Frame, batch []any) []tamper.Frame {
			id, _ := f.Field("id")
			mu.Lock()
			defer mu.Unlock()
			firsts[segmentOf(r)+" "+id] = integer(batch[0].(object)["sequence"])
			return []tamper.Frame{f}
		})(next)
		return tamper.Instead(tamper.And(tamper.StreamRun, resumes), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			mu.Lock()
			first, ok := firsts[segmentOf(r)+" "+r.Header.Get("Last-Event-ID")]
			mu.Unlock()
			if ok {
				serve(w, r, next, first)
				return
			}
			next.ServeHTTP(w, r)
		})(noting)
	}
}

// crowd holds the open streams of each run.
type crowd struct {
	mu   sync.Mutex
	open map[string][]*context.CancelFunc
}

// enter adds a stream and returns how many there are besides, and how to end
// the longest open one.
func (c *crowd) enter(run string, end *context.CancelFunc) (besides int, oldest context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.open[run]
	if len(list) > 0 {
		oldest = *list[0]
	}
	c.open[run] = append(list, end)
	return len(list), oldest
}

func (c *crowd) leave(run string, end *context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[run] = slices.DeleteFunc(c.open[run], func(e *context.CancelFunc) bool { return e == end })
}

// taken is how many streams of a run a broken host can serve.
const taken = 8

// crowded serves the streams that are more than a run can take.
func crowded(serve func(w http.ResponseWriter, r *http.Request, next http.Handler, oldest context.CancelFunc)) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		c := &crowd{open: map[string][]*context.CancelFunc{}}
		return tamper.Instead(tamper.StreamRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			r = r.WithContext(ctx)
			besides, oldest := c.enter(segmentOf(r), &cancel)
			defer c.leave(segmentOf(r), &cancel)
			if besides >= taken {
				serve(w, r, next, oldest)
				return
			}
			next.ServeHTTP(w, r)
		})(next)
	}
}

func subscriberFaults() []Fault {
	served := requirements.EventsSubscribersServed
	refused := func(status int, code string) tamper.Middleware {
		return crowded(func(w http.ResponseWriter, r *http.Request, next http.Handler, _ context.CancelFunc) {
			refuse(w, next, r, status, code)
		})
	}
	return []Fault{
		wire("subscriber-gets-nothing", "A stream of a run that has many is closed without a frame.",
			"events []", crowded(func(w http.ResponseWriter, r *http.Request, next http.Handler, _ context.CancelFunc) {
				closedStream(w, r, next)
			}), served),
		wire("subscriber-dropped-for-another", "A stream of a run that has many ends another one.",
			"events [", crowded(func(w http.ResponseWriter, r *http.Request, next http.Handler, oldest context.CancelFunc) {
				oldest()
				next.ServeHTTP(w, r)
			}), served),
		wire("subscriber-refused-without-time", "A stream of a run that has many is refused without saying when to try again.",
			"Retry-After", refused(http.StatusTooManyRequests, "rate_limited"), served),
		wire("subscriber-refused-503", "A stream of a run that has many is refused 503.",
			"503", refused(http.StatusServiceUnavailable, "internal_error"), served),
	}
}
