package faults

import (
	"context"
	"net/http"
	"slices"
	"strings"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/reference-host/tamper/logs"
	"wopcert/requirements"
)

// replayRun edits the run that a replay begins as, when its source is one of
// these workflows, or any.
func replayRun(edit func(run *referencehost.Run), workflows ...string) func(*referencehost.Config) {
	return forkLogs(func(_ referencehost.Log, run *referencehost.Run, first []referencehost.Draft) []referencehost.Draft {
		if run.ForkMode == "replay" && (len(workflows) == 0 || slices.Contains(workflows, run.WorkflowID)) {
			edit(run)
		}
		return first
	})
}

// replaysLive makes replays of these workflows branches: everything is done anew.
func replaysLive(workflows ...string) func(*referencehost.Config) {
	return replayRun(func(run *referencehost.Run) { run.ForkMode = "branch" }, workflows...)
}

// inReplays edits what replays record.
func inReplays(edit func(source, log referencehost.Log, drafts []referencehost.Draft) []referencehost.Draft) func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		store := c.Store
		c.Store = logs.Edited(store, logs.Edit{Append: func(log referencehost.Log, drafts []referencehost.Draft) []referencehost.Draft {
			run := log.Run()
			if run.ForkMode != "replay" {
				return drafts
			}
			source, err := store.Open(context.Background(), run.ForkOf)
			if err != nil {
				return drafts
			}
			return edit(source, log, drafts)
		}})
	}
}

// recordedAs edits single events that replays record.
func recordedAs(edit func(source, log referencehost.Log, draft *referencehost.Draft)) func(*referencehost.Config) {
	return inReplays(func(source, log referencehost.Log, drafts []referencehost.Draft) []referencehost.Draft {
		for i := range drafts {
			edit(source, log, &drafts[i])
		}
		return drafts
	})
}

// recordedPayload decodes the payload of an event.
func recordedPayload(raw []byte) object {
	doc, _ := tamper.Decode(raw).(object)
	return doc
}

// failsFor reports whether an event is a failure with a code.
func failsFor(draft *referencehost.Draft, code string) bool {
	failure, _ := recordedPayload(draft.Payload)["error"].(object)
	return draft.Type == "node.failed" && failure["code"] == code
}

// outcomes are the outcomes of a node in a log.
func outcomes(log referencehost.Log, node string) (ended []referencehost.Event) {
	events, err := log.Read(-1)
	if err != nil {
		return nil
	}
	for _, e := range events {
		if e.NodeID == node && (e.Type == "node.completed" || e.Type == "node.failed") {
			ended = append(ended, e)
		}
	}
	return ended
}

const sourceMissing = "replay_source_missing"

func suppressionFaults() []Fault {
	taken, ordinal := requirements.ReplayRecordedOutcome, requirements.ReplayOutcomeOrdinal
	missing, unperformed := requirements.ReplaySourceMissing, requirements.ReplaySourceMissingNoEffect
	refire, again := requirements.R0173EffectSeamNoRefire, requirements.ReplayEffectNotSentAgain
	const sideEffect, loop, http1 = "conformance-replay-side-effect", "conformance-replay-ordinal-loop", "wopcert-http-effect"
	return []Fault{
		made("replay-performs-what-is-missing", "A replay performs an effect that its source has no outcome of.", "replay_source_missing|no effect of node|outputs of the node",
			replaysLive(sideEffect), missing, unperformed, taken),
		made("replay-performs-requests", "A replay sends its requests.", "no more|recorded|outputs of the node|replay_source_missing", replaysLive(http1), again, taken, missing),
		made("replay-fires-seams", "A replay of what a seam has sent sends it again.", "no effect attempt", replaysLive("wopcert-seam-http"), refire),
		made("replay-fires-storage", "A replay of what a seam has stored stores it again.", "no effect attempt", replaysLive("wopcert-seam-artifact"), refire),
		watching("replay-sends-and-takes-the-record", "A replay sends what its source sent, and takes the recorded outcome all the same.", "no more", func(s *sent) tamper.Middleware {
			return forked(func(doc object) {
				if doc["mode"] == "replay" {
					s.again(text(doc["sourceRunId"]), func(e *referencehost.Effect) bool { return e.NodeID == "effect" })
				}
			})
		}, again),
		watching("replay-sends-what-was-cut-off", "A replay sends what its source had sent when it was cancelled, and fails all the same.", "no more", func(s *sent) tamper.Middleware {
			return tamper.Instead(tamper.ForkRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				doc, _ := tamper.BodyJSON(r)
				source, _ := tamper.Ask(next, r, http.MethodGet, "/runs/"+tamper.RunSegment(r), nil).JSON()
				if doc["mode"] == "replay" && source["status"] == "cancelled" {
					s.again(text(source["runId"]), func(e *referencehost.Effect) bool { return e.NodeID == "effect" })
				}
				next.ServeHTTP(w, r)
			})
		}, again),
		made("replay-of-replay-unrecorded", "Outcomes are looked up where effects were performed, and a replay has performed none.", "the replay of the replay",
			recordedAs(func(source, _ referencehost.Log, draft *referencehost.Draft) {
				if source.Run().ForkMode == "replay" && draft.NodeID == "effect" && draft.Type == "node.completed" {
					draft.Type, draft.Payload = "node.failed", tamper.Encode(object{"nodeId": "effect", "error": object{"code": sourceMissing, "message": "no outcome"}})
				}
			}), taken),
		made("replay-makes-up-success", "A replay completes what it has no outcome of, with nothing.", "replay_source_missing",
			recordedAs(func(_, _ referencehost.Log, draft *referencehost.Draft) {
				if failsFor(draft, sourceMissing) {
					draft.Type, draft.Payload = "node.completed", tamper.Encode(object{"nodeId": draft.NodeID, "outputs": object{}, "durationMs": 0})
				}
			}), missing, ordinal),
		made("replay-missing-is-internal", "A node without a recorded outcome fails for a reason of the host's own.", "replay_source_missing",
			recordedAs(func(_, _ referencehost.Log, draft *referencehost.Draft) {
				if failsFor(draft, sourceMissing) {
					doc := recordedPayload(draft.Payload)
					doc["error"] = object{"code": "internal_error", "message": "no outcome"}
					draft.Payload = tamper.Encode(doc)
				}
			}), missing, ordinal),
		wire("replay-missing-refuses-the-fork", "A fork that would come to an effect without a record is refused.", "201",
			tamper.Instead(tamper.ForkRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				doc, _ := tamper.BodyJSON(r)
				source, _ := tamper.Ask(next, r, http.MethodGet, "/runs/"+tamper.RunSegment(r), nil).JSON()
				if doc["mode"] == "replay" && source["status"] == "cancelled" && source["workflowId"] == sideEffect {
					a := &tamper.Answer{Header: http.Header{}}
					a.Refuse(http.StatusNotFound, sourceMissing, "no outcome")
					a.Send(w)
					return
				}
				next.ServeHTTP(w, r)
			}), missing).blocking(unperformed),
		wire("replay-missing-claimed", "An effect that a replay did not perform is in its ledger.", "no effect of node",
			effectRows(func(r *http.Request, rows []any, next http.Handler) []any {
				run := runOf(next, r)
				failure, _ := run["error"].(object)
				if failure["code"] != sourceMissing {
					return rows
				}
				tenant, _, _ := strings.Cut(text(run["runId"]), "/")
				return append(rows, object{"effectId": tenant + "/0123456789abcdef", "nodeId": "effect", "attempt": 1, "keying": "activity-recipe", "state": "escaped", "at": "2026-01-01T00:00:00Z"})
			}), unperformed),
		made("replay-outcome-made-anew", "The outputs of an effect are another time's in a replay.", "outputs of the node|recorded",
			recordedAs(func(_, _ referencehost.Log, draft *referencehost.Draft) {
				if draft.Type == "node.completed" && draft.NodeID == "effect" {
					draft.Payload = tamper.Encode(object{"nodeId": draft.NodeID, "outputs": object{"receipt": "another"}, "durationMs": 0})
				}
			}), taken, ordinal),
		made("replay-outcome-without-outputs", "A replay completes an effect without its outputs.", "outputs of the node|recorded",
			recordedAs(func(_, _ referencehost.Log, draft *referencehost.Draft) {
				if draft.Type == "node.completed" && draft.NodeID == "effect" {
					draft.Payload = tamper.Encode(object{"nodeId": draft.NodeID, "durationMs": 0})
				}
			}), taken, ordinal),
		made("replay-failures-succeed", "An effect that failed has succeeded in a replay.", "recorded",
			recordedAs(func(_, _ referencehost.Log, draft *referencehost.Draft) {
				if draft.Type == "node.failed" && draft.NodeID == "effect" && !failsFor(draft, sourceMissing) {
					draft.Type, draft.Payload = "node.completed", tamper.Encode(object{"nodeId": draft.NodeID, "outputs": object{}, "durationMs": 0})
				}
			}), taken),
		made("replay-takes-the-first-outcome", "Every execution of a node takes the first outcome of the source.", "recorded|replay_source_missing|outputs of the node",
			recordedAs(func(source, log referencehost.Log, draft *referencehost.Draft) {
				if log.Run().WorkflowID != loop || draft.NodeID != "effect" || draft.Type != "node.completed" && draft.Type != "node.failed" {
					return
				}
				if first := outcomes(source, "effect"); len(first) > 0 {
					draft.Type, draft.Payload = first[0].Type, first[0].Payload
				}
			}), ordinal),
		made("replay-takes-the-last-outcome", "Every execution of a node takes the last outcome of the source.", "replay_source_missing|recorded",
			recordedAs(func(source, log referencehost.Log, draft *referencehost.Draft) {
				if log.Run().WorkflowID != loop || draft.NodeID != "effect" || draft.Type != "node.completed" && draft.Type != "node.failed" {
					return
				}
				if all := outcomes(source, "effect"); len(all) > 0 {
					last := all[len(all)-1]
					draft.Type, draft.Payload = last.Type, last.Payload
				}
			}), ordinal),
	}
}

func determinismFaults() []Fault {
	interrupts, chance := requirements.ReplayInterruptShortCircuits, requirements.ReplayNondeterminismReplayed
	pin, pure, goesOn := requirements.ReplayVersionPin, requirements.ReplayPureNodesLive, requirements.ReplayDivergedContinues
	return []Fault{
		made("replay-asks-again", "A replay asks people again what they have answered.", "by itself|interrupt.requested", replaysLive("conformance-approval", "conformance-clarification"), interrupts),
		made("replay-notes-the-question", "A replay records that it has asked, and goes on with the recorded answer.", "interrupt.requested",
			inReplays(func(source, log referencehost.Log, drafts []referencehost.Draft) []referencehost.Draft {
				i := slices.IndexFunc(drafts, func(d referencehost.Draft) bool { return d.Type == "node.completed" })
				asked := firstOf(source, "interrupt.requested")
				if i < 0 || asked == nil || asked.NodeID != drafts[i].NodeID || log.Run().ForkPoint > 2 {
					return drafts
				}
				noted := *asked
				noted.EventID, noted.CausationID, noted.Timestamp = drafts[i].EventID+"-q", "", drafts[i].Timestamp
				doc := recordedPayload(noted.Payload)
				doc["key"] = "another"
				noted.Payload = tamper.Encode(doc)
				return slices.Insert(drafts, i, noted)
			}), interrupts),
		made("replay-draws-anew", "A replay draws from declared sources anew.", "drawn values", replaysLive("conformance-nondeterminism"), chance),
		made("replay-draws-one-anew", "One of the declared sources is not recorded.", "drawn values",
			recordedAs(func(_, _ referencehost.Log, draft *referencehost.Draft) {
				if draft.NodeID == "draw" && draft.Type == "node.completed" {
					doc := recordedPayload(draft.Payload)
					if outputs, ok := doc["outputs"].(object); ok {
						outputs["random"] = draft.EventID
					}
					draft.Payload = tamper.Encode(doc)
				}
			}), chance),
		made("replay-takes-todays-version", "A replay takes the version that runs take today.", "the version that the replay takes",
			recordedAs(func(_, _ referencehost.Log, draft *referencehost.Draft) {
				if draft.Type == "version.pinned" {
					doc := recordedPayload(draft.Payload)
					doc["version"] = 2
					draft.Payload = tamper.Encode(doc)
				}
			}), pin),
		made("replay-forgets-pins", "A replay takes no notice of what its source was pinned to.", "the version that the replay takes", replaysLive("wopcert-version-pin"), pin),
		made("replay-copies-pure-nodes", "A replay takes the recorded outcome of a node without effects.", "outputs of the node in the fork",
			recordedAs(func(source, log referencehost.Log, draft *referencehost.Draft) {
				recorded := outcomes(source, draft.NodeID)
				if log.Run().WorkflowID == "conformance-identity" && draft.Type == "node.completed" && len(recorded) > 0 {
					draft.Payload = recorded[0].Payload
				}
			}), pure),
		made("replay-ends-at-divergence", "A replay that diverges fails.", "a fork that completes",
			inReplays(func(_, log referencehost.Log, drafts []referencehost.Draft) []referencehost.Draft {
				i := slices.IndexFunc(drafts, func(d referencehost.Draft) bool { return d.Type == "run.completed" })
				events, err := log.Read(-1)
				diverged := slices.ContainsFunc(drafts, func(d referencehost.Draft) bool { return d.Type == "replay.diverged" }) ||
					err == nil && slices.ContainsFunc(events, func(e referencehost.Event) bool { return e.Type == "replay.diverged" })
				if i >= 0 && diverged {
					drafts[i].Type = "run.failed"
					drafts[i].Payload = tamper.Encode(object{"error": object{"code": "internal_error", "message": "diverged"}, "durationMs": 1})
				}
				return drafts
			}), goesOn),
	}
}
