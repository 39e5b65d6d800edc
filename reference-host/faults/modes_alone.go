package faults

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// plainly matches event streams of a mode that ask for no batches.
func plainly(mode string) tamper.Match {
	return tamper.And(tamper.Streams(mode), tamper.Not(tamper.Buffered))
}

// modeAloneFaults are mistakes in one mode of a stream, and in the cursors of
// streams and polls, that those who read in the usual way do not meet.
func modeAloneFaults() []Fault {
	projection, closes := requirements.R0171StreamSseProjection, requirements.EventsSseCloseAfterTerminal
	return []Fault{
		wire("debug-frames-named-message", "Frames of a debug stream are named message.", `event "message"`,
			only(plainly("debug"), streamed(func(f tamper.Frame) tamper.Frame { return f.Set("event", "message") })), projection),
		wire("debug-frames-without-id", "Frames of a debug stream have no id.", "without id",
			only(plainly("debug"), streamed(func(f tamper.Frame) tamper.Frame { return f.Without("id") })), projection),
		wire("values-without-id", "The snapshots of a values stream have no id.", "no sequence",
			only(tamper.Streams("values"), streamed(func(f tamper.Frame) tamper.Frame { return f.Without("id") })), requirements.EventsValuesSnapshots),
		wire("messages-stream-open-after-terminal", "A messages stream, which does not see the end of the run, stays open.", "messages",
			tamper.Hold(tamper.And(fresh, tamper.Streams("messages")), openFor), closes).slow(),
		wire("values-stream-open-after-terminal", "A values stream stays open after the snapshot of the ended run.", "still open",
			tamper.Hold(tamper.And(fresh, tamper.Streams("values")), openFor), closes).slow(),
		wire("messages-resume-from-the-start", "A messages stream that is resumed begins with the first message.", "messages above",
			tamper.Requests(tamper.Streams("messages"), func(r *http.Request) { r.Header.Del("Last-Event-ID") }), requirements.R0171SseLastEventId),
		wire("resume-of-debug-at-end-repeats-terminal", "A debug stream of an ended run resumed at its end sends the terminal event again.", "frame",
			only(tamper.Streams("debug"), resumed(func(w http.ResponseWriter, r *http.Request, next http.Handler, n int64, backlog bool) {
				if !backlog && ended(next, r) {
					withCursor(w, r, next, before(fmt.Sprint(lastSequence(next, r))))
					return
				}
				next.ServeHTTP(w, r)
			})), requirements.R0213LastEventIdExclusiveCursor),
		wire("resume-of-more-than-32-bits-refused", "A Last-Event-ID of more than 32 bits is refused.", "400 validation_error",
			resumed(func(w http.ResponseWriter, r *http.Request, next http.Handler, n int64, _ bool) {
				if n > 1<<32 {
					refuse(w, next, r, 400, "validation_error")
					return
				}
				next.ServeHTTP(w, r)
			}), requirements.R0213LastEventIdExclusiveCursor),
		wire("poll-of-more-than-32-bits-refused", "A poll after a sequence of more than 32 bits is refused.", "400",
			tamper.Answers(tamper.PollRun, func(r *http.Request, a *tamper.Answer) {
				if cursorOf(r) > 1<<32 {
					a.Refuse(400, "validation_error", "afterSequence is out of range")
				}
			}), requirements.R0171PollCursorV2PastEnd),
		wire("poll-of-active-run-inclusive", "A poll of an active run returns the event at its cursor again.", "of an active run",
			tamper.Instead(tamper.And(tamper.PollRun, hasCursor), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if n := cursorOf(r); n >= 0 && !ended(next, r) && n < lastSequence(next, r) {
					r = r.Clone(r.Context())
					tamper.SetQuery(r, "afterSequence", strings.TrimPrefix(fmt.Sprint(n-1), "-1"))
				}
				next.ServeHTTP(w, r)
			}), requirements.R0171PollCursorV2AfterSequence),
		wire("poll-of-a-minute-refused", "A poll of sixty seconds is refused as too long.", "400",
			tamper.Answers(tamper.PollRun, func(r *http.Request, a *tamper.Answer) {
				if waitOf(r) == 60 {
					a.Refuse(400, "validation_error", "timeout is out of range")
				}
			}), requirements.EventsPollBounded),
		wire("three-modes-refused", "Three modes cannot be combined, though two can.", "400",
			tamper.Requests(tamper.StreamRun, func(r *http.Request) {
				if strings.Count(query(r, "streamMode"), ",") > 1 {
					tamper.SetQuery(r, "streamMode", "none")
				}
			}), requirements.EventsMixedOrder),
		wire("batch-repeats-end", "A batch with the end of a run holds that event twice.", "twice",
			batched(func(_ *http.Request, f tamper.Frame, batch []any) []tamper.Frame {
				if holds(batch, "run.completed") {
					f = f.Set("data", string(tamper.Encode(append(slices.Clone(batch), batch[len(batch)-1]))))
				}
				return []tamper.Frame{f}
			}), requirements.EventsBatchFrames),
		wire("batch-end-sent-again", "What is buffered at the end of a run is sent when it ends and again when the stream is closed.", "twice",
			batched(func(_ *http.Request, f tamper.Frame, batch []any) []tamper.Frame {
				if holds(batch, "run.completed") {
					return []tamper.Frame{f, f}
				}
				return []tamper.Frame{f}
			}), requirements.EventsBatchFrames),
		made("interrupt-told-after-cancel", "What became of the interrupt of a run that was cancelled is told after its end.", "interrupt.",
			interruptAfterCancel(), requirements.R0194TerminalOnce),
	}
}

// interruptAfterCancel tells of the interrupt of a run that was cancelled while
// it waited when the run has ended.
func interruptAfterCancel() func(*referencehost.Config) {
	return lately(func(l late, log referencehost.Log, end string) {
		asked := firstOf(log, "interrupt.requested")
		if end != "run.cancelled" || asked == nil || log.Run().WorkflowID != "conformance-interrupt-external-event" {
			return
		}
		p, _ := tamper.Decode(asked.Payload).(object)
		l.add(log, "interrupt.resolved", object{"interruptId": p["interruptId"], "nodeId": asked.NodeID, "kind": p["kind"], "resumeValue": object{}})
	})
}
