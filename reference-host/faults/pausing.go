package faults

import (
	"net/http"
	"time"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

func pauseFaults() []Fault {
	floor := requirements.R0170RunPauseResume
	pauseAnswer := func(status int, edit func(a *tamper.Answer)) tamper.Middleware {
		return onStatus(tamper.PauseRun, status, edit)
	}
	resumeAnswer := func(status int, edit func(a *tamper.Answer)) tamper.Middleware {
		return onStatus(tamper.ResumeRun, status, edit)
	}
	in := func(name, value string) func(a *tamper.Answer) {
		return func(a *tamper.Answer) {
			if doc, ok := a.JSON(); ok {
				doc[name] = value
				a.SetJSON(doc)
			}
		}
	}
	both := tamper.Or(tamper.PauseRun, tamper.ResumeRun)
	recoded := func(m tamper.Match, from, to string, when func(runStatus string) bool) tamper.Middleware {
		return tamper.JSON(m, http.StatusConflict, func(r *http.Request, doc map[string]any) {
			details, _ := doc["details"].(object)
			if doc["error"] == from && when(text(details["runStatus"])) {
				doc["error"] = to
				doc["details"] = object{"runStatus": "completed"}
			}
		})
	}
	anyStatus := func(string) bool { return true }
	refuse, resumeRefused := requirements.RunsPauseRefused, requirements.RunsResumeRefused
	paused := func(s string) bool { return s == "paused" }
	unpaused := func(s string) bool { return s != "paused" }
	return []Fault{
		wire("pause-answers-200", "An accepted pause is answered 200.", "200", pauseAnswer(202, func(a *tamper.Answer) { a.Status = 200 }), floor, requirements.RunsPauseDrains).
			blocking(pausers()...).
			blocking(requirements.RunsForkFoldsPause),
		wire("pause-answers-pausing", "The answer to a pause has a status that is none.", "pausing", pauseAnswer(202, in("status", "pausing")), floor),
		wire("pause-time-is-number", "The answer to a pause gives the time as a number.", "pausedAt", pauseAnswer(202, func(a *tamper.Answer) {
			if doc, ok := a.JSON(); ok {
				doc["pausedAt"] = 1767225600000
				a.SetJSON(doc)
			}
		}), floor),
		wire("pause-policy-not-logged", "run.paused does not say which policy was asked for.", "drainPolicy",
			payloadOf("run.paused", func(p object) { delete(p, "drainPolicy") }), floor, requirements.RunsPauseDrains),
		wire("pause-policy-logged-wrong", "run.paused names the default policy, whatever was asked for.", "drainPolicy",
			payloadOf("run.paused", func(p object) { p["drainPolicy"] = "drain-current-node" }), floor),
		wire("resume-answers-200", "An accepted resume is answered 200.", "200", resumeAnswer(202, func(a *tamper.Answer) { a.Status = 200 }), floor).
			blocking(resumers()...).
			blocking(requirements.RunsForkFoldsPause),
		wire("resume-answers-paused", "The answer to a resume still has the status paused.", "paused", resumeAnswer(202, in("status", "paused")), floor),
		wire("paused-reads-running", "A paused run reads as running.", "running", snapshot(func(doc object) {
			if doc["status"] == "paused" {
				doc["status"] = "running"
			}
		}), floor, refuse, requirements.RunsPausedHolds),
		wire("resumed-reads-paused", "A resumed run still reads as paused.", "paused", stillPaused(), floor),
		wire("pause-conflict-without-status", "The refusal of a second pause does not say in which state the run is.", "runStatus",
			tamper.JSON(both, http.StatusConflict, func(_ *http.Request, doc map[string]any) {
				if doc["error"] == "run_state_conflict" {
					delete(doc, "details")
				}
			}), floor, refuse, resumeRefused),
		wire("pause-of-ended-state-conflict", "A pause of an ended run is refused for its state.", "409 run_state_conflict",
			recoded(tamper.PauseRun, "run_terminal", "run_state_conflict", anyStatus), floor, refuse),
		wire("resume-of-ended-state-conflict", "A resume of an ended run is refused for its state.", "409 run_state_conflict",
			recoded(tamper.ResumeRun, "run_terminal", "run_state_conflict", anyStatus), floor, resumeRefused),
		wire("pause-of-paused-terminal", "A pause of a paused run is refused as of one that has ended.", "409 run_terminal",
			recoded(tamper.PauseRun, "run_state_conflict", "run_terminal", paused), floor, refuse),
		wire("resume-of-running-terminal", "A resume of a running run is refused as of one that has ended.", "409 run_terminal",
			recoded(tamper.ResumeRun, "run_state_conflict", "run_terminal", unpaused), floor, resumeRefused),
		wire("pause-of-paused-accepted", "A pause of a paused run is accepted again.", "202",
			accepting(tamper.PauseRun, "paused", "paused"), floor, refuse),
		wire("resume-of-running-accepted", "A resume of a running run is accepted.", "202",
			accepting(tamper.ResumeRun, "running", "running"), floor, resumeRefused),
		wire("pause-of-completed-not-found", "A pause of a completed run is answered 404.", "404",
			onEndedVerb(tamper.PauseRun, "completed", func(a *tamper.Answer) { a.Refuse(404, "not_found", "no active run") }), refuse),
		wire("resume-of-completed-not-found", "A resume of a completed run is answered 404.", "404",
			onEndedVerb(tamper.ResumeRun, "completed", func(a *tamper.Answer) { a.Refuse(404, "not_found", "no paused run") }), resumeRefused),
	}
}

// pausers are the requirements that are observed on paused runs.
func pausers() []requirements.ID {
	return []requirements.ID{
		requirements.RunsPauseImmediateCut, requirements.RunsPauseRefused, requirements.RunsResumeRefused,
		requirements.RunsConfigurableConstant, requirements.RunsPausedHolds,
	}
}

// resumers are those that are observed on resumed runs.
func resumers() []requirements.ID {
	return []requirements.ID{
		requirements.RunsPauseImmediateCut, requirements.RunsPauseDrains, requirements.RunsPauseRefused, requirements.RunsResumeRefused,
		requirements.RunsConfigurableConstant,
	}
}

// accepting accepts again what is refused for the state a run is in.
func accepting(m tamper.Match, in, as string) tamper.Middleware {
	return tamper.Instead(m, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := tamper.Record(next, r)
		doc, _ := a.JSON()
		details, _ := doc["details"].(object)
		if doc["error"] == "run_state_conflict" && details["runStatus"] == in {
			run, _ := tamper.Ask(next, r, http.MethodGet, "/runs/"+tamper.RunSegment(r), nil).JSON()
			a.Status = http.StatusAccepted
			a.SetJSON(object{"runId": run["runId"], "status": as})
		}
		a.Send(w)
	})
}

// onEndedVerb edits the refusal of a verb for a run that ended in a state.
func onEndedVerb(m tamper.Match, state string, edit func(a *tamper.Answer)) tamper.Middleware {
	return tamper.Instead(m, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := tamper.Record(next, r)
		if a.Status == http.StatusConflict && statusOf(next, r) == state {
			edit(a)
		}
		a.Send(w)
	})
}

// stillPaused shows a resumed run as paused until it has ended.
func stillPaused() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		resumed := newMarks()
		return tamper.Chain(resumed.marking(tamper.ResumeRun, 202), tamper.JSON(tamper.GetRun, http.StatusOK, func(r *http.Request, doc map[string]any) {
			if _, ok := resumed.since(tamper.RunSegment(r)); ok && doc["status"] == "running" {
				doc["status"] = "paused"
			}
		}))(next)
	}
}

func drainFaults() []Fault {
	cut, drains, holds := requirements.RunsPauseImmediateCut, requirements.RunsPauseDrains, requirements.RunsPausedHolds
	return []Fault{
		made("cut-attempt-failed", "The attempt that a pause cuts is recorded as failed.", "node.failed", beforePause("node.failed"), cut).
			blocking(requirements.R0170RunPauseResume, requirements.IdempotencyMutatingOperations).
			blocking(requirements.RunsForkFoldsPause),
		made("cut-attempt-cancelled", "The attempt that a pause cuts is recorded as cancelled.", "node.cancelled", beforePause("node.cancelled"), cut),
		made("cut-attempt-ends-while-paused", "The attempt that a pause cuts is recorded as cancelled while the run is paused.",
			"between run.paused and run.resumed", afterPause("node.cancelled"), cut),
		made("cut-node-not-started-afresh", "A node goes on after a pause without a new start.", "fresh node.started", withoutRestart(), cut),
		wire("pause-default-immediate", "A pause that names no policy cuts the node.", "started and not ended|no node ended",
			pausePolicy(func(policy any) any {
				if policy == nil {
					return "immediate"
				}
				return policy
			}), drains),
		wire("pause-always-immediate", "A pause cuts the node, whatever was asked for.", "started and not ended|no node ended",
			pausePolicy(func(any) any { return "immediate" }), drains),
		wire("pause-drain-named-wrong", "run.paused of a drained pause names the other policy.", "drainPolicy",
			payloadOf("run.paused", func(p object) {
				p["drainPolicy"] = "immediate"
				delete(p, "interruptedNodeId")
				delete(p, "interruptedAttempt")
			}), drains),
		made("paused-run-starts-next", "The next node starts although the run is paused.", "node.started while paused", startedWhilePaused(), drains),
		made("drained-pause-runs-next", "A pause that drains lets the next node run as well before it takes effect.", "between the accepted pause and run.paused",
			nextNodeFirst(), drains),
		wire("paused-run-goes-on", "A paused run goes on by itself after two seconds.", "run.resumed", autoResume(2*time.Second), holds).slow(),
		wire("cancel-of-paused-refused", "A paused run cannot be cancelled.", "409",
			tamper.Instead(tamper.CancelRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if statusOf(next, r) != "paused" {
					next.ServeHTTP(w, r)
					return
				}
				a := tamper.Ask(next, r, http.MethodGet, "/runs/"+tamper.RunSegment(r), nil)
				a.Refuse(409, "run_state_conflict", "resume it first")
				a.SetJSON(object{"error": "run_state_conflict", "message": "resume it first", "details": object{"runStatus": "paused"}})
				a.Send(w)
			}), holds).
			blocking(requirements.R0170RunSnapshotEtag),
	}
}

// pausePolicy edits the policy of a pause before the host sees it.
func pausePolicy(edit func(policy any) any) tamper.Middleware {
	return tamper.Requests(tamper.PauseRun, func(r *http.Request) {
		doc, ok := tamper.BodyJSON(r)
		if !ok {
			doc = object{}
			r.Header.Set("Content-Type", "application/json")
		}
		if policy := edit(doc["drainPolicy"]); policy != nil {
			doc["drainPolicy"] = policy
		}
		tamper.SetBodyJSON(r, doc)
	})
}

// autoResume resumes a paused run after a while.
func autoResume(after time.Duration) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		return tamper.Instead(tamper.Or(tamper.PollRun, tamper.GetRun), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			doc, _ := tamper.Ask(next, r, http.MethodGet, "/runs/"+tamper.RunSegment(r)+"/events/poll", nil).JSON()
			list, _ := doc["events"].([]any)
			for i, v := range list {
				event, _ := v.(object)
				at, err := time.Parse(time.RFC3339, text(event["timestamp"]))
				if i == len(list)-1 && event["type"] == "run.paused" && err == nil && time.Since(at) > after {
					tamper.Ask(next, r, http.MethodPost, "/runs/"+tamper.RunSegment(r)+":resume", object{})
				}
			}
			next.ServeHTTP(w, r)
		})(next)
	}
}
