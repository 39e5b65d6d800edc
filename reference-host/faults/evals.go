package faults

import (
	"net/http"
	"slices"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// Texts of the built-in suites that nobody outside the host may see.
const (
	canaryOutput = "canary-output-7f3a"
	canaryRubric = "canary-rubric-91bc"
)

// evalCreate edits an incomplete create of mode eval before the host sees it.
func evalCreate(edit func(doc object)) tamper.Middleware {
	return tamper.Requests(tamper.CreateRun, func(r *http.Request) {
		doc, ok := tamper.BodyJSON(r)
		if ok && doc["mode"] == "eval" && (doc["evalSuiteRef"] == nil || doc["agentId"] == nil) {
			edit(doc)
			tamper.SetBodyJSON(r, doc)
		}
	})
}

// incompleteEval edits the refusal of an incomplete create of mode eval.
func incompleteEval(edit func(a *tamper.Answer)) tamper.Middleware {
	return refusedCreate(func(doc object) bool {
		return doc["mode"] == "eval" && (doc["evalSuiteRef"] == nil || doc["agentId"] == nil)
	}, edit)
}

// evalSummary edits the summary of an eval run.
func evalSummary(edit func(doc object)) tamper.Middleware {
	return tamper.JSON(tamper.GetEvalSummary, http.StatusOK, func(_ *http.Request, doc map[string]any) { edit(doc) })
}

// evalLogs edits the whole log of an eval run where a poll reads it from its
// start.
func evalLogs(edit func(list []any) []any) tamper.Middleware {
	return polled(func(r *http.Request, doc object) {
		list, _ := doc["events"].([]any)
		isEval := slices.ContainsFunc(list, func(v any) bool { e, _ := v.(object); return e["type"] == "eval.completed" })
		if !hasCursor(r) && isEval {
			doc["events"] = edit(list)
		}
	})
}

func typeAt(list []any, typ string) int {
	return slices.IndexFunc(list, func(v any) bool { e, _ := v.(object); return e["type"] == typ })
}

// swapped exchanges what two events of a log are, and leaves their places.
func swapped(list []any, i, j int) []any {
	if i < 0 || j < 0 {
		return list
	}
	a, b := list[i].(object), list[j].(object)
	for _, name := range []string{"type", "payload", "nodeId"} {
		a[name], b[name] = b[name], a[name]
		for _, e := range []object{a, b} {
			if e[name] == nil {
				delete(e, name)
			}
		}
	}
	return list
}

func evalFaults() []Fault {
	members, events := requirements.RunsEvalMembersRequired, requirements.RunsEvalEvents
	summary, content := requirements.RunsEvalSummary, requirements.RunsEvalSummaryContentFree
	not := requirements.RunsEvalSummaryNotEval
	running := func(edit func(a *tamper.Answer)) tamper.Middleware { return onStatus(tamper.GetEvalSummary, 409, edit) }
	return []Fault{
		wire("eval-suite-defaulted", "A create of mode eval without a suite evaluates the host's own.",
			"201", evalCreate(func(doc object) {
				if doc["evalSuiteRef"] == nil {
					doc["evalSuiteRef"] = "core.wopcert.evals.golden"
				}
			}), members),
		wire("eval-agent-defaulted", "A create of mode eval without an agent evaluates the host's own.",
			"201", evalCreate(func(doc object) {
				if doc["agentId"] == nil {
					doc["agentId"] = "wopcert.echo"
				}
			}), members),
		wire("eval-members-422", "A create of mode eval that is not complete is refused 422.",
			"422", incompleteEval(func(a *tamper.Answer) { a.Refuse(422, "node_config_invalid", "the suite is missing") }), members),
		wire("eval-members-not-found", "A create of mode eval without an agent is answered that there is none.",
			"404", incompleteEval(func(a *tamper.Answer) { a.Refuse(404, "not_found", "no such agent") }), members),
		wire("eval-completed-after-run", "eval.completed is recorded after run.completed.",
			"eval.completed", evalLogs(func(list []any) []any {
				return swapped(list, typeAt(list, "eval.completed"), typeAt(list, "run.completed"))
			}), events),
		wire("eval-scored-before-start", "A score is recorded before the start of the evaluation.",
			"eval.started", evalLogs(func(list []any) []any {
				return swapped(list, typeAt(list, "eval.started"), typeAt(list, "eval.scored"))
			}), events),
		wire("eval-score-missing", "A task of a suite of several has no score in the log.",
			"scored", tamper.Events(func(e map[string]any) bool {
				p, _ := e["payload"].(object)
				return e["type"] != "eval.scored" || p["taskId"] != "says-more"
			}), events, summary),
		wire("eval-passed-count-off", "eval.completed counts a task too many as passed.",
			"passedCount", payloadOf("eval.completed", func(p object) {
				if integer(p["taskCount"]) > 1 {
					p["passedCount"] = integer(p["passedCount"]) + 1
				}
			}), events, summary),
		wire("eval-started-without-count", "eval.started does not say how many tasks there are.",
			"taskCount", payloadOf("eval.started", func(p object) { delete(p, "taskCount") }), events),
		wire("eval-summary-early-not-found", "The summary of an eval run that goes on is answered 404.",
			"404", running(func(a *tamper.Answer) { a.Refuse(404, "not_found", "no summary yet") }), summary),
		wire("eval-summary-early-empty", "The summary of an eval run that goes on is given as it stands.",
			"200", running(func(a *tamper.Answer) {
				a.Status = http.StatusOK
				a.SetJSON(object{
					"suiteId": "core.wopcert.evals.slow", "suiteVersion": "1.0.0", "aggregateScore": 0, "passed": false,
					"taskCount": 1, "passedCount": 0, "tasks": []any{},
				})
			}), summary),
		wire("eval-summary-score-off", "The score of a summary is not the one of eval.completed.",
			"aggregateScore", evalSummary(func(doc object) { doc["aggregateScore"] = 0.25 }), summary),
		wire("eval-summary-task-missing", "A summary leaves out the task it has no room for.",
			"tasks", evalSummary(func(doc object) { doc["tasks"] = []any{} }), summary),
		wire("eval-summary-with-model", "A summary has a member its schema does not know.",
			"evaluatedBy", evalSummary(func(doc object) { doc["evaluatedBy"] = "wopcert.echo" }), summary),
		wire("eval-summary-not-eval-409", "The summary of a run that is no eval run is refused as not ready.",
			"409", onStatus(tamper.GetEvalSummary, 404, func(a *tamper.Answer) { a.Refuse(409, "run_state_conflict", "no summary yet") }), not),
		wire("eval-summary-not-eval-empty", "The summary of a run that is no eval run is an empty object.",
			"200", onStatus(tamper.GetEvalSummary, 404, func(a *tamper.Answer) { a.Status = http.StatusOK; a.SetJSON(object{}) }), not),
		wire("eval-score-with-output", "A score says what the agent answered.",
			"canary", payloadOf("eval.scored", func(p object) { p["openwop-output"] = canaryOutput + ": the harbour is quiet" }), content),
		wire("eval-summary-with-rubric", "A summary gives the words of the rubric as a finding.",
			"canary", evalSummary(func(doc object) {
				list, _ := doc["tasks"].([]any)
				for _, v := range list {
					v.(object)["safetyFindings"] = []any{object{"kind": canaryRubric + ": goes on to three", "severity": "low"}}
				}
			}), content),
	}
}

func turnFaults() []Fault {
	turn := func(edit func(turn object)) tamper.Middleware {
		return payloadOf("conversation.exchanged", func(p object) {
			if t, ok := p["turn"].(object); ok {
				edit(t)
			}
		})
	}
	parts := requirements.R0205TurnPartsEmitted
	return []Fault{
		wire("turn-without-parts", "A turn has content and no parts.", "parts", turn(func(t object) { delete(t, "parts") }), parts),
		wire("turn-with-no-part", "A turn has an empty list of parts.", "parts", turn(func(t object) { t["parts"] = []any{} }), parts,
			requirements.R0186PayloadSeats),
		wire("turn-without-content", "A turn has parts and an empty content.", "content", turn(func(t object) { t["content"] = "" }), parts),
	}
}
