package faults

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/reference-host/tamper/logs"
	"wopcert/requirements"
)

// forkBody edits the body of a fork before the host sees it; it is told the
// last sequence of the run.
func forkBody(edit func(doc object, last int64)) tamper.Middleware {
	return tamper.Instead(tamper.ForkRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if doc, ok := tamper.BodyJSON(r); ok {
			last := lastSequence(next, r)
			r = r.Clone(r.Context())
			edit(doc, last)
			tamper.SetBodyJSON(r, doc)
		}
		next.ServeHTTP(w, r)
	})
}

// forked edits the 201 of a fork.
func forked(edit func(doc object)) tamper.Middleware {
	return tamper.JSON(tamper.ForkRun, http.StatusCreated, func(_ *http.Request, doc map[string]any) { edit(doc) })
}

// forkLogs edits the run and the history a fork starts with. The source is
// where the history comes from.
func forkLogs(edit func(source referencehost.Log, run *referencehost.Run, first []referencehost.Draft) []referencehost.Draft) func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		store := c.Store
		c.Store = logs.Edited(store, logs.Edit{Create: func(ctx context.Context, run *referencehost.Run, first []referencehost.Draft) []referencehost.Draft {
			if run.ForkOf == "" {
				return first
			}
			source, err := store.Open(ctx, run.ForkOf)
			if err != nil {
				return first
			}
			return edit(source, run, first)
		}})
	}
}

// children remembers the forks that were made.
type children struct {
	mu   sync.Mutex
	from map[string]int64 // by run id
}

func (c *children) of(runID string) (from int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from, ok = c.from[runID]
	return from, ok
}

// ofForks edits the events of forks; an edit that returns false drops the
// event.
func ofForks(edit func(e object, from int64) bool) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		made := &children{from: map[string]int64{}}
		return tamper.Chain(
			tamper.Events(func(e map[string]any) bool {
				from, ok := made.of(text(e["runId"]))
				return !ok || edit(e, from)
			}),
			forked(func(doc object) {
				made.mu.Lock()
				defer made.mu.Unlock()
				made.from[text(doc["runId"])] = integer(doc["fromSeq"])
			}),
		)(next)
	}
}

func forkFaults() []Fault {
	refusals := requirements.R0170RunForkRefusals
	prefix, envelope := requirements.R0170ForkPrefixBoundary, requirements.ReplayPrefixEnvelope
	translated, inherited := requirements.R0176V1EventsTranslatedFork, requirements.R0176ForkAV1RunPrefix
	return []Fault{
		wire("fork-branch-from-the-start", "A fork in the mode branch without a point is one from the start.",
			"201", forkBody(func(doc object, _ int64) {
				if doc["mode"] == "branch" && doc["fromSeq"] == nil {
					doc["fromSeq"] = 0
				}
			}), refusals),
		wire("fork-overlay-dropped", "Other options for a fork in the mode replay are dropped without a word.",
			"201", forkBody(func(doc object, _ int64) {
				if doc["mode"] == "replay" {
					delete(doc, "runOptionsOverlay")
				}
			}), refusals),
		wire("fork-point-cut-to-the-log", "A fork from behind the end of a log is one from its end.",
			"201", forkBody(func(doc object, last int64) {
				if n := integer(doc["fromSeq"]); last >= 0 && n > last {
					doc["fromSeq"] = last
				}
			}), refusals),
		wire("fork-point-far-away-taken", "A fork in the mode branch from far behind the end of a log is one from its end.",
			"201", forkBody(func(doc object, last int64) {
				if n := integer(doc["fromSeq"]); last >= 0 && n > last && doc["mode"] == "branch" {
					doc["fromSeq"] = last
				}
			}), refusals),
		wire("fork-point-invalid-400", "A fork from behind the end of a log is refused with the general code.",
			"400 validation_error", onStatus(tamper.ForkRun, 422, func(a *tamper.Answer) { a.Refuse(400, "validation_error", "no such point") }), refusals,
			requirements.ReplayForkBeyondTerminal),
		wire("fork-overlay-422", "Other options for a fork in the mode replay are refused 422.",
			"422", tamper.Instead(tamper.ForkRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				doc, _ := tamper.BodyJSON(r)
				a := tamper.Record(next, r)
				if doc["mode"] == "replay" && doc["runOptionsOverlay"] != nil && a.Status == 400 {
					a.Refuse(422, "fork_point_invalid", "not in this mode")
				}
				a.Send(w)
			}), refusals),
		wire("fork-history-one-short", "The last event that a fork should share is not in its log.",
			"fromSeq|from there on|member for member|every stored event", ofForks(func(e object, from int64) bool { return from == 0 || integer(e["sequence"]) != from-1 }), prefix, envelope,
			translated, inherited).
			blocking(requirements.ReplayVersionPin),
		wire("fork-history-not-copied", "The log of a fork begins at the point of the fork.",
			"fromSeq|from there on|member for member|every stored event", ofForks(func(e object, from int64) bool { return integer(e["sequence"]) >= from }), prefix, envelope,
			translated, inherited).blocking(requirements.ReplayVersionPin, requirements.R0176ForkAV1RunLegacySubject),
		wire("fork-counts-anew", "The events of a fork are counted from 1.",
			"fromSeq|from there on|member for member|every stored event|not delivered", ofForks(func(e object, from int64) bool {
				if from > 0 {
					e["sequence"] = tamper.Decode(fmt.Append(nil, integer(e["sequence"])+1))
				}
				return true
			}), prefix, envelope, translated, inherited, requirements.WebhooksBranchDelivered),
		made("fork-history-without-payloads", "The events that a fork shares have no payloads.", "fromSeq|member for member|the version that the replay takes",
			forkLogs(func(_ referencehost.Log, _ *referencehost.Run, first []referencehost.Draft) []referencehost.Draft {
				for i := range first {
					if i > 0 {
						first[i].Payload = []byte(`{}`)
					}
				}
				return first
			}), prefix, envelope, inherited, requirements.ReplayVersionPin),
		wire("fork-history-typed-otherwise", "The events that a fork shares are recorded as restored.",
			"fromSeq|from there on|member for member|every stored event", ofForks(func(e object, from int64) bool {
				if n := integer(e["sequence"]); n > 0 && n < from {
					e["type"], e["payload"] = "log.appended", object{"level": "info", "message": "restored"}
				}
				return true
			}), prefix, envelope, translated, inherited).blocking(requirements.ReplayVersionPin),
		wire("fork-never-executes", "A fork is the history it shares and nothing else.",
			"below fromSeq|from there on|drawn values|no replay.diverged|a fork that completes|recorded", ofForks(func(e object, from int64) bool {
				return from == 0 || integer(e["sequence"]) < from
			}), prefix, requirements.ReplayNondeterminismReplayed, requirements.ReplayDivergedReported, requirements.ReplayDivergedContinues,
			requirements.ReplayRecordedOutcome, requirements.ReplayOutcomeOrdinal).
			blocking(requirements.ReplayVersionPin, requirements.ReplayDivergedStreamed, requirements.ReplayPureNodesLive, requirements.WebhooksBranchDelivered),
	}
}

func forkChildFaults() []Fault {
	child := requirements.RunsForkChild
	pause := requirements.RunsForkFoldsPause
	return []Fault{
		wire("fork-source-is-itself", "The answer to a fork names the fork as its source.",
			"sourceRunId", forked(func(doc object) { doc["sourceRunId"] = doc["runId"] }), child),
		wire("fork-links-to-source", "The link of a fork leads to the events of its source.",
			"eventsUrl", forked(func(doc object) { doc["eventsUrl"] = "/runs/" + projected(text(doc["sourceRunId"])) + "/events" }), child),
		wire("fork-links-elsewhere", "The link of a fork names the address the host has behind its front door.",
			"internal.example", forked(func(doc object) {
				doc["eventsUrl"] = "http://internal.example:8080/runs/" + projected(text(doc["runId"])) + "/events"
			}), child),
		wire("fork-without-mode", "The answer to a fork does not say in which mode it was made.",
			"mode", forked(func(doc object) { delete(doc, "mode") }), child),
		wire("fork-status-forked", "A fork is answered with a status no run has.",
			"status", forked(func(doc object) { doc["status"] = "forked" }), child),
		made("fork-owned-by-forker", "A fork belongs to whoever asked for it.", "owner",
			forkLogs(func(_ referencehost.Log, run *referencehost.Run, first []referencehost.Draft) []referencehost.Draft {
				run.Owner.Subject.SubjectID = "forker"
				return first
			}), child),
		made("fork-in-no-workspace", "A fork belongs to its owner's tenant and to another workspace.", "owner",
			forkLogs(func(_ referencehost.Log, run *referencehost.Run, first []referencehost.Draft) []referencehost.Draft {
				run.Owner.Workspace += "forks"
				return first
			}), child),
		made("fork-left-paused", "A fork of a run that was once paused is paused.", "paused",
			forkLogs(func(source referencehost.Log, _ *referencehost.Run, first []referencehost.Draft) []referencehost.Draft {
				if paused := firstOf(source, "run.paused"); paused != nil && len(first) == 1 {
					first = append(first, *paused)
				}
				return first
			}), pause),
		wire("fork-never-ends", "A fork of a run that was once paused reads as paused, whatever it does.",
			"paused", forksOfPaused(), pause),
	}
}

// firstOf is the first event of a type in a log, nil for none.
func firstOf(log referencehost.Log, typ string) *referencehost.Draft {
	events, err := log.Read(-1)
	if err != nil {
		return nil
	}
	for _, e := range events {
		if e.Type == typ {
			return &e.Draft
		}
	}
	return nil
}

// forksOfPaused shows a fork as paused when its source was.
func forksOfPaused() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		paused, forks := newMarks(), newMarks()
		noting := tamper.Chain(
			tamper.Answers(tamper.Verb(http.MethodPost, "pause"), func(r *http.Request, a *tamper.Answer) {
				if a.Status == http.StatusAccepted {
					paused.set(strings.Replace(tamper.RunSegment(r), "%2F", "~2F", 1))
				}
			}),
			forked(func(doc object) {
				if _, ok := paused.since(projected(text(doc["sourceRunId"]))); ok {
					forks.set(projected(text(doc["runId"])))
				}
			}),
		)(next)
		show := func(r *http.Request, doc object) {
			if _, ok := forks.since(tamper.RunSegment(r)); ok {
				doc["status"] = "paused"
			}
		}
		return tamper.Chain(
			tamper.JSON(tamper.GetRun, http.StatusOK, show),
			polled(func(r *http.Request, doc object) {
				show(r, doc)
				if doc["status"] == "paused" {
					doc["isTerminal"] = false
				}
			}),
		)(noting)
	}
}
