package faults

import (
	"net/http"
	"strings"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

func getCompensation(r *http.Request) bool {
	return tamper.Op(http.MethodGet, "/runs/{}/compensation")(r)
}

// projections edits the compensation of runs.
func projections(edit func(doc object)) tamper.Middleware {
	return tamper.JSON(getCompensation, http.StatusOK, func(_ *http.Request, doc map[string]any) { edit(doc) })
}

// inStatus edits the compensation of runs where it stands so.
func inStatus(status string, edit func(doc object)) tamper.Middleware {
	return projections(func(doc object) {
		if doc["status"] == status {
			edit(doc)
		}
	})
}

// compensationWireFaults are defects of what is told of a compensation.
func compensationWireFaults() []Fault {
	read, absent := requirements.R0173CompensationReadProjection, requirements.R0173CompensationReadProjectionNotFound
	order, first := requirements.SecurityDefaultsCompensationReverseCompletion, requirements.SecurityDefaultsCompensationPlanFirst
	rollup, manual := requirements.SecurityDefaultsCompensationRollup, requirements.SecurityDefaultsCompensationManual
	tell := func(status, instead string) tamper.Middleware {
		return inStatus(status, func(doc object) { doc["status"] = instead })
	}
	shown := func(status, instead string) tamper.Middleware {
		return snapshot(func(doc object) {
			if doc["compensationStatus"] == status {
				doc["compensationStatus"] = instead
			}
		})
	}
	return []Fault{
		wire("compensation-of-another-run", "The compensation of a run is told as that of another.", "runId",
			projections(func(doc object) { doc["runId"] = "tenant-a/AAAAAAAAAAAAAAAAAAAAAAAAAA" }), read),
		wire("compensation-without-attempts", "A run with nothing to undo has no list of attempts.", "attempts",
			inStatus("none", func(doc object) { delete(doc, "attempts") }), read),
		wire("compensation-planned-for-all", "A run with nothing to undo has a plan.", "an empty plan",
			inStatus("none", func(doc object) { doc["plan"] = []any{object{"nodeId": "noop", "order": 0}} }), read),
		wire("compensation-plan-forgotten", "The plan of a run that was undone is gone.", "planned nodes|nodes of the plan",
			inStatus("completed", func(doc object) { doc["plan"] = []any{} }), read, order).
			blocking(requirements.SecurityDefaultsCompensationDependencyGraph),
		wire("compensation-plan-forwards", "The plan of a run names what was done first before what was done last.", "nodes of the plan in its order",
			projections(func(doc object) {
				plan, _ := doc["plan"].([]any)
				for i, p := range plan {
					p.(object)["order"] = len(plan) - i
				}
			}), order),
		wire("compensation-of-nothing-none", "A run that is not there has nothing to undo.", "200",
			tamper.Instead(getCompensation, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				a := tamper.Record(next, r)
				if a.Status == http.StatusNotFound {
					a.Status = http.StatusOK
					a.SetJSON(object{"runId": strings.Replace(tamper.RunSegment(r), "~2F", "/", 1), "status": "none", "plan": []any{}, "attempts": []any{}})
				}
				a.Send(w)
			}), absent),
		wire("compensation-of-nothing-forbidden", "The compensation of a run that is not there is forbidden.", "403",
			onStatus(getCompensation, 404, func(a *tamper.Answer) { a.Refuse(403, "run_forbidden", "not yours") }), absent),
		wire("compensation-models-without-reverse", "A host lists the one ordering model it may add and not the one it has to have.", "reverse-completion",
			document(func(doc object) {
				if c, ok := doc["compensation"].(object); ok {
					c["orderingModels"] = []any{"dependency-graph"}
				}
			}), requirements.SecurityDefaultsCompensationOrderingModels),
		wire("partial-told-completed", "A run that was undone in part is told as undone.", "partial", tell("partial", "completed"), rollup),
		wire("partial-shown-failed", "The snapshot of a run that was undone in part says that nothing was.", "partial", shown("partial", "failed"), rollup),
		wire("undone-shown-running", "The snapshot of a run that was undone says that it still is.", "completed", shown("completed", "running"), rollup),
		wire("manual-told-failed", "An unwind that waits for an operator is told as failed.", "manual-intervention", tell("manual-intervention", "failed"), manual),
		wire("manual-shown-failed", "The snapshot of a run whose unwind waits for an operator says that it failed.", "manual", shown("manual", "failed"), manual),
		wire("manual-plan-forgotten", "The plan of an unwind that waits for an operator is gone.", "planned nodes",
			inStatus("manual-intervention", func(doc object) { doc["plan"] = []any{} }), manual),
		wire("plan-told-late", "The plan of an unwind is told when it is over.", "nodes of the plan before the first inverse",
			inStatus("running", func(doc object) { doc["plan"] = []any{} }), first),
		wire("unwind-unannounced", "No event says that a run is to be undone.", "compensation.requested before",
			tamper.Events(func(e map[string]any) bool { return e["type"] != "compensation.requested" }), first),
	}
}

// attemptFaults are defects of what is told of attempts at inverse actions.
func attemptFaults() []Fault {
	attempts := requirements.SecurityDefaultsCompensationAttempts
	each := func(edit func(a object)) tamper.Middleware {
		return projections(func(doc object) {
			list, _ := doc["attempts"].([]any)
			for _, a := range list {
				edit(a.(object))
			}
		})
	}
	return []Fault{
		wire("inverse-last-attempt-only", "Of the attempts at an inverse action only the last is told.", "numbered from 1",
			projections(func(doc object) {
				list, _ := doc["attempts"].([]any)
				last := map[string]any{}
				for _, a := range list {
					last[text(a.(object)["nodeId"])] = a
				}
				kept := []any{}
				for _, a := range list {
					if last[text(a.(object)["nodeId"])].(object)["attempt"] == a.(object)["attempt"] {
						kept = append(kept, a)
					}
				}
				doc["attempts"] = kept
			}), attempts),
		wire("inverse-attempts-from-two", "The attempts at an inverse action are counted from two.", "numbered from 1",
			each(func(a object) { a["attempt"] = integer(a["attempt"]) + 1 }), attempts),
		wire("inverse-failure-unsaid", "Every attempt at an inverse action is told as one that succeeded.", "numbered from 1",
			each(func(a object) { a["outcome"] = "succeeded" }), attempts),
		wire("inverse-attempts-of-one-node", "Every attempt at an inverse action is told of the same node.", "numbered from 1",
			each(func(a object) { a["nodeId"] = "charge" }), attempts),
	}
}
