package faults

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// cancelled edits the 200 of an accepted cancel.
func cancelled(edit func(doc object)) tamper.Middleware {
	return tamper.JSON(tamper.CancelRun, http.StatusOK, func(_ *http.Request, doc map[string]any) { edit(doc) })
}

// statusOf asks the host for the status of the run a request names.
func statusOf(next http.Handler, r *http.Request) string {
	doc, _ := tamper.Ask(next, r, http.MethodGet, "/runs/"+tamper.RunSegment(r), nil).JSON()
	return text(doc["status"])
}

// onEnded serves a cancel of a run in one of the given states differently.
func onEnded(answer func(status string, a *tamper.Answer), states ...string) tamper.Middleware {
	return tamper.Instead(tamper.CancelRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := tamper.Record(next, r)
		if a.Status == http.StatusConflict {
			status := statusOf(next, r)
			for _, s := range states {
				if s == status {
					answer(status, a)
				}
			}
		}
		a.Send(w)
	})
}

// echoed answers a cancel of an ended run 200 with the state it ended in.
func echoed(status string, a *tamper.Answer) {
	a.Status = http.StatusOK
	a.SetJSON(object{"status": status})
}

// waitingKept refuses to cancel a run that waits for an external event.
func waitingKept() tamper.Middleware {
	return tamper.Instead(tamper.CancelRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		body := tamper.Body(r)
		now, _ := tamper.Ask(next, r, http.MethodGet, "/runs/"+tamper.RunSegment(r), nil).JSON()
		if now["workflowId"] == "conformance-interrupt-external-event" && now["status"] == "waiting-external" {
			refuse(w, next, r, http.StatusConflict, "run_state_conflict")
			return
		}
		tamper.SetBody(r, body)
		next.ServeHTTP(w, r)
	})
}

func cancelFaults() []Fault {
	cancel := requirements.R0170RunCancel
	return []Fault{
		wire("waiting-run-not-cancelled", "A run that waits for an external event is not cancelled.",
			"409 run_state_conflict", waitingKept(), cancel),
		wire("cancel-of-completed-echoes", "A cancel of a completed run is answered 200 with its state.",
			"200", onEnded(echoed, "completed"), cancel),
		wire("cancel-of-cancelled-echoes", "A second cancel of a cancelled run is answered 200 with its state.",
			"200|runId absent", onEnded(echoed, "cancelled"), cancel, requirements.RunsCancelRace),
		wire("cancel-of-failed-echoes", "A cancel of a failed run is answered 200 with its state.",
			"200", onEnded(echoed, "failed"), cancel),
		wire("cancel-of-ended-not-found", "A cancel of an ended run is answered 404.",
			"404", refuseInstead(tamper.CancelRun, 409, 404, "not_found"), cancel, requirements.RunsCancelRace).
			also("404 not_found with runId absent", requirements.IdempotencyKeyScopedToOperation).
			blocking(requirements.RunsCancelKeepsCompensation),
		wire("cancel-of-ended-other-code", "A cancel of an ended run is refused with the code for an active scope.",
			"409 run_already_active", tamper.JSON(tamper.CancelRun, 409, func(_ *http.Request, doc map[string]any) { doc["error"] = "run_already_active" }), cancel, requirements.RunsCancelRace).
			also("409 run_already_active with runId absent", requirements.IdempotencyKeyScopedToOperation).
			blocking(requirements.RunsCancelKeepsCompensation),
		wire("cancel-status-misspelt", "The answer to a cancel spells the status with one l.",
			"canceled", cancelled(func(doc object) { doc["status"] = "canceled" }), cancel, requirements.RunsCancelRace),
		wire("cancel-status-running", "The answer to a cancel says that the run is still running.",
			"running", cancelled(func(doc object) { doc["status"] = "running" }), cancel, requirements.RunsCancelRace),
		wire("cancel-without-run-id", "The answer to a cancel does not say which run.",
			"runId", cancelled(func(doc object) { delete(doc, "runId") }), cancel, requirements.RunsCancelRace, requirements.RunsPausedHolds),
		wire("cancel-answers-202", "An accepted cancel is answered 202.",
			"202", onStatus(tamper.CancelRun, 200, func(a *tamper.Answer) { a.Status = http.StatusAccepted }), cancel, requirements.RunsCancelRace, requirements.RunsPausedHolds).
			blocking(requirements.RunsCancelCascade, requirements.R0170RunPauseResume, requirements.R0170RunAnnotationNotEvent, requirements.EventsPollWakes, requirements.EventsLateWorkRefused, requirements.R0194TerminalOnce).
			blocking(requirements.ReplaySourceMissing, requirements.ReplaySourceMissingNoEffect, requirements.ReplayEffectNotSentAgain, requirements.ReplayOutcomeOrdinal, requirements.RunsCancelKeepsCompensation, requirements.PersistenceReadsAlike, requirements.R0176Era2AppendVocabulary),
		wire("cancelled-run-logged-as-failed", "The log of a cancelled run ends with run.failed.",
			"run.cancelled in the log|run.cancelled", ofType("run.cancelled", func(e object) {
				e["type"], e["payload"] = "run.failed", object{"error": object{"code": "cancelled", "message": "cancelled by the caller"}}
			}), cancel, requirements.RunsCancelRace, requirements.RunsCancelCascade).
			also("200 application/json with status \"cancelled\" and the events|the events [node.started node.cancelled run.failed] after", requirements.R0176PinnedRunDispositionCancelled, requirements.R0176Era2AppendVocabulary),
		wire("refused-cancel-changes-status", "A completed run reads as cancelled once a cancel of it was refused.",
			"cancelled", refusedCancel(), cancel),
		wire("cancelled-run-reads-failed", "A cancelled run reads as failed on its snapshot.",
			"failed", snapshot(func(doc object) {
				if doc["status"] == "cancelled" {
					doc["status"] = "failed"
				}
			}), cancel, requirements.RunsCancelRace, requirements.R0170RunBulkCancel, requirements.RunsBulkCancelOrder, requirements.RunsPausedHolds, requirements.EventsValuesSnapshots).
			blocking(requirements.RunsCancelCascade).
			also("status \"failed", requirements.R0176PinnedRunDispositionCancelled, requirements.ConformanceSeamsServed).
			blocking(requirements.InterruptTokenSpentCancelled, requirements.R0213ResolveAfterCancel, requirements.ErrorsNoInterruptCancelled),
	}
}

// marks is a set of runs, by the segment that names them.
type marks struct {
	mu sync.Mutex
	at map[string]time.Time
}

func newMarks() *marks { return &marks{at: map[string]time.Time{}} }

func (m *marks) set(segment string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.at[segment]; !ok {
		m.at[segment] = time.Now()
	}
}

// since is how long ago a run was marked.
func (m *marks) since(segment string) (d time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.at[segment]
	return time.Since(at), ok
}

// marking notes the runs a request of which was answered with a status.
func (m *marks) marking(match tamper.Match, status int) tamper.Middleware {
	return tamper.Answers(match, func(r *http.Request, a *tamper.Answer) {
		if a.Status == status {
			m.set(tamper.RunSegment(r))
		}
	})
}

// refusedCancel shows a run as cancelled once a cancel of it was refused.
func refusedCancel() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		refused := newMarks()
		return tamper.Chain(refused.marking(tamper.CancelRun, http.StatusConflict),
			tamper.JSON(tamper.GetRun, http.StatusOK, func(r *http.Request, doc map[string]any) {
				if _, ok := refused.since(tamper.RunSegment(r)); ok && doc["status"] == "completed" {
					doc["status"] = "cancelled"
				}
			}))(next)
	}
}

func snapshotFaults() []Fault {
	etag := requirements.R0170RunSnapshotEtag
	valid := requirements.RunsSnapshotValid
	tagged := func(edit func(a *tamper.Answer)) tamper.Middleware {
		return tamper.Answers(tamper.GetRun, func(_ *http.Request, a *tamper.Answer) {
			if a.Header.Get("ETag") != "" {
				edit(a)
			}
		})
	}
	return []Fault{
		wire("snapshot-without-error", "The snapshot of a run that failed does not say why.",
			"error.code", snapshot(func(doc object) {
				if doc["workflowId"] == "conformance-failure" {
					delete(doc, "error")
				}
			}), valid),
		wire("snapshot-error-of-host", "The snapshot of a run that failed says that the host failed.",
			"error.code", snapshot(func(doc object) {
				if e, ok := doc["error"].(object); ok && doc["workflowId"] == "conformance-failure" {
					e["code"] = "internal_error"
				}
			}), valid),
		wire("snapshot-etag-constant", "The entity tag of a snapshot stays the same while the run changes.",
			`"run"`, tamper.Chain(
				tagged(func(a *tamper.Answer) { a.Header.Set("ETag", `"run"`) }),
				tamper.Requests(tamper.GetRun, func(r *http.Request) {
					if r.Header.Get("If-None-Match") == `"run"` {
						r.Header.Set("If-None-Match", "*")
					}
				})), etag),
		wire("snapshot-etag-per-read", "The entity tag of a snapshot is another one at every read.",
			`"read-|ETag`, etagPerRead(), etag, requirements.R0170RunAnnotationNotEvent),
		wire("snapshot-ignores-if-none-match", "A snapshot request with a matching If-None-Match gets the whole snapshot.",
			"200", tamper.Requests(tamper.GetRun, func(r *http.Request) { r.Header.Del("If-None-Match") }), etag),
		wire("snapshot-304-to-any-tag", "A snapshot request with an If-None-Match that does not match gets 304.",
			"304", tamper.Requests(tamper.And(tamper.GetRun, tamper.HasHeader("If-None-Match")), func(r *http.Request) {
				r.Header.Set("If-None-Match", "*")
			}), etag),
		wire("snapshot-changes-under-one-tag", "What a snapshot shows of a run that executes changes, and its entity tag does not.",
			"snapshots that differ", progressShown(), etag),
		wire("snapshot-extra-member", "A snapshot has a member the schema does not know.",
			"progress", snapshot(func(doc object) { doc["progress"] = 0.5 }), valid),
		wire("snapshot-without-workflow-id", "A snapshot does not say which workflow it runs.",
			"workflowId", snapshot(func(doc object) { delete(doc, "workflowId") }), valid).
			blocking(requirements.R0182RunListFilterExact),
		wire("snapshot-compensation-not-a-word", "A snapshot has a compensation status outside the closed list.",
			"compensationStatus", snapshot(func(doc object) { doc["compensationStatus"] = "unknown" }), valid, requirements.RunsCompensationStatusPresent,
			requirements.SecurityDefaultsCompensationRollup, requirements.SecurityDefaultsCompensationManual),
		wire("snapshot-started-at-epoch", "A snapshot gives the time it started as a number.",
			"startedAt", snapshot(func(doc object) { doc["startedAt"] = 1767225600000 }), valid),
	}
}

// progressShown shows as a variable for how long a run has waited, under the tag it has anyway.
func progressShown() tamper.Middleware {
	return tamper.JSON(tamper.GetRun, http.StatusOK, func(_ *http.Request, doc map[string]any) {
		started, err := time.Parse(time.RFC3339Nano, text(doc["startedAt"]))
		if err != nil || doc["workflowId"] != "wopcert-two-delays" || doc["status"] != "running" {
			return
		}
		variables, _ := doc["variables"].(object)
		if variables == nil {
			variables = object{}
			doc["variables"] = variables
		}
		variables["waitedMs"] = time.Since(started).Milliseconds()
	})
}

// etagPerRead gives each snapshot another tag and knows none of them again.
func etagPerRead() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		var mu sync.Mutex
		reads := 0
		edit := tamper.Answers(tamper.GetRun, func(_ *http.Request, a *tamper.Answer) {
			mu.Lock()
			defer mu.Unlock()
			if a.Status == http.StatusOK {
				reads++
				a.Header.Set("ETag", `"read-`+strconv.Itoa(reads)+`"`)
			}
		})
		return edit(next)
	}
}

// options edits the run options of a createRun before the host sees them.
func options(edit func(doc object)) tamper.Middleware {
	return tamper.Requests(tamper.CreateRun, func(r *http.Request) {
		if doc, ok := tamper.BodyJSON(r); ok {
			edit(doc)
			tamper.SetBodyJSON(r, doc)
		}
	})
}

// configurable edits the configurable of a createRun before the host sees it.
func configurable(edit func(doc object)) tamper.Middleware {
	return options(func(doc object) {
		if c, ok := doc["configurable"].(object); ok {
			edit(c)
		}
	})
}

// refusedCreate edits the refusal of a createRun whose body meets a condition.
func refusedCreate(when func(doc object) bool, edit func(a *tamper.Answer)) tamper.Middleware {
	return tamper.Instead(tamper.CreateRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		doc, ok := tamper.BodyJSON(r)
		a := tamper.Record(next, r)
		if ok && when(doc) {
			edit(a)
		}
		a.Send(w)
	})
}

func sections() []string {
	return []string{"version", "run", "ai", "distillation", "budget", "extensions"}
}

// unknownKeys deletes what a configurable may not hold; dotted says which kind.
func unknownKeys(c object, dotted bool) {
	known := map[string]bool{}
	for _, s := range sections() {
		known[s] = true
	}
	for name, v := range c {
		if !known[name] && strings.Contains(name, ".") == dotted {
			delete(c, name)
		}
		section, ok := v.(object)
		if !ok || name == "extensions" || name == "budget" {
			continue
		}
		for key := range section {
			if !sectionKeys()[key] && strings.Contains(key, ".") == dotted {
				delete(section, key)
			}
		}
	}
}

func sectionKeys() map[string]bool {
	keys := map[string]bool{}
	for _, k := range []string{
		"recursionLimit", "runTimeoutMs", "maxLoopIterations", "escalationThreshold", "provider", "model", "temperature",
		"maxTokens", "credentialRef", "promptOverrides", "mockProvider", "reasoningVerbosity", "maxRefusals", "tokenBudget",
	} {
		keys[k] = true
	}
	return keys
}
