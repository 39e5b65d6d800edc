package faults

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// entries edits the results of a bulk cancel.
func entries(edit func(r *http.Request, results []any) []any) tamper.Middleware {
	return tamper.JSON(tamper.BulkCancel, http.StatusOK, func(r *http.Request, doc map[string]any) {
		results, _ := doc["results"].([]any)
		doc["results"] = edit(r, results)
	})
}

// entry edits each result of a bulk cancel.
func entry(edit func(result object, code string)) tamper.Middleware {
	return entries(func(_ *http.Request, results []any) []any {
		for _, v := range results {
			result := v.(object)
			failure, _ := result["error"].(object)
			edit(result, text(failure["error"]))
		}
		return results
	})
}

// requested are the ids a bulk cancel asks for.
func requested(r *http.Request) []any {
	doc, _ := tamper.BodyJSON(r)
	ids, _ := doc["runIds"].([]any)
	return ids
}

// asking edits the ids of a bulk cancel before the host sees them.
func asking(edit func(ids []any) []any) tamper.Middleware {
	return tamper.Requests(tamper.BulkCancel, func(r *http.Request) {
		if doc, ok := tamper.BodyJSON(r); ok {
			if ids, ok := doc["runIds"].([]any); ok {
				doc["runIds"] = edit(ids)
				tamper.SetBodyJSON(r, doc)
			}
		}
	})
}

func bulkFaults() []Fault {
	bulk := requirements.R0170RunBulkCancel
	order := requirements.RunsBulkCancelOrder
	unknown := func(v any) bool { return strings.Contains(string(tamper.Encode(v)), `"not_found"`) }
	return []Fault{
		wire("bulk-cancel-conflict", "A bulk cancel with an ended run in it is refused as a whole.", "409",
			tamper.Answers(tamper.BulkCancel, func(_ *http.Request, a *tamper.Answer) {
				if strings.Contains(string(a.Body), `"run_terminal"`) {
					a.Refuse(409, "run_terminal", "one of the runs has ended")
				}
			}), bulk, order),
		wire("bulk-cancel-ended-ok", "A bulk cancel says that it cancelled a run which had ended.", "run_terminal",
			entry(func(result object, code string) {
				if code == "run_terminal" {
					delete(result, "error")
					result["ok"], result["status"] = true, "cancelled"
				}
			}), bulk),
		wire("bulk-cancel-code-alone", "A failed entry of a bulk cancel has a code and no envelope.", "error",
			entry(func(result object, code string) {
				if code != "" {
					result["error"] = code
				}
			}), bulk, requirements.RunsBulkCancelAuthorization),
		wire("bulk-cancel-first-alone", "A bulk cancel cancels the first run and says so of all.", "to end cancelled", onlyFirst(), bulk),
		wire("bulk-cancel-without-status", "An entry of a bulk cancel does not say what became of its run.", "status",
			entry(func(result object, _ string) { delete(result, "status") }), bulk, order, requirements.RunsBulkCancelAuthorization),
		wire("bulk-cancel-unknown-left-out", "A bulk cancel says nothing of a run there is not.", "result",
			entries(func(_ *http.Request, results []any) []any {
				var kept []any
				for _, v := range results {
					if !unknown(v) {
						kept = append(kept, v)
					}
				}
				return append([]any{}, kept...)
			}), bulk, order),
	}
}

// onlyFirst cancels the first run of a request and says so of the others too.
func onlyFirst() tamper.Middleware {
	return tamper.Instead(tamper.BulkCancel, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		ids := requested(r)
		active := func(id any) bool {
			doc, _ := tamper.Ask(next, r, http.MethodGet, "/runs/"+projected(text(id)), nil).JSON()
			return doc["status"] == "running" || doc["status"] == "pending"
		}
		var first []any
		var skipped []any
		for _, id := range ids {
			switch {
			case !active(id):
				first = append(first, id)
			case len(skipped) == 0 && len(first) == 0:
				first = append(first, id)
			default:
				skipped = append(skipped, id)
			}
		}
		if len(ids) != 4 || len(skipped) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		tamper.SetBodyJSON(r, object{"runIds": first})
		a := tamper.Record(next, r)
		if doc, ok := a.JSON(); ok {
			results, _ := doc["results"].([]any)
			for _, id := range skipped {
				results = append(results, object{"runId": id, "ok": true, "status": "cancelled"})
			}
			doc["results"] = results
			a.SetJSON(doc)
		}
		a.Send(w)
	})
}

func bulkEntryFaults() []Fault {
	capped, order, authorization := requirements.RunsBulkCancelCap, requirements.RunsBulkCancelOrder, requirements.RunsBulkCancelAuthorization
	refused := func(edit func(a *tamper.Answer)) tamper.Middleware {
		return tamper.Answers(tamper.BulkCancel, func(_ *http.Request, a *tamper.Answer) {
			if a.Status == http.StatusBadRequest {
				edit(a)
			}
		})
	}
	sortedBy := func(first func(result object) bool) tamper.Middleware {
		return entries(func(_ *http.Request, results []any) []any {
			var front, back []any
			for _, v := range results {
				if first(v.(object)) {
					front = append(front, v)
				} else {
					back = append(back, v)
				}
			}
			return append(front, back...)
		})
	}
	foreign := func(code string) bool { return code == "id_tenant_mismatch" }
	return []Fault{
		wire("bulk-cancel-of-101", "A bulk cancel of more than a hundred runs is cut to a hundred.", "200",
			asking(func(ids []any) []any { return ids[:min(len(ids), 100)] }), capped),
		wire("bulk-cancel-cap-untold", "The refusal of too large a bulk cancel does not say how large it may be.", "maxRunIds",
			refused(func(a *tamper.Answer) { a.Refuse(400, "validation_error", "too many") }), capped),
		wire("bulk-cancel-cap-too-high", "The refusal of too large a bulk cancel names a number that is refused.", "maxRunIds",
			refused(func(a *tamper.Answer) {
				a.SetJSON(object{"error": "validation_error", "message": "too many", "details": object{"maxRunIds": 1000}})
			}), capped),
		wire("bulk-cancel-cap-413", "Too large a bulk cancel is refused 413.", "413",
			refused(func(a *tamper.Answer) { a.Status = http.StatusRequestEntityTooLarge }), capped).
			also("bulkCancelRuns of no runs answered 413 validation_error", requirements.ErrorsRegisteredStatus),
		wire("bulk-cancel-before-refusal", "Too large a bulk cancel is refused once some of it was done.", "go on",
			tamper.Instead(tamper.BulkCancel, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if ids := requested(r); len(ids) > 100 {
					tamper.Ask(next, r, http.MethodPost, "/runs:bulk-cancel", object{"runIds": ids[:10]})
				}
				next.ServeHTTP(w, r)
			}), capped),
		wire("bulk-cancel-empty-accepted", "A bulk cancel of no run is answered with no result.", "200",
			tamper.Instead(tamper.BulkCancel, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				ids := requested(r)
				a := tamper.Record(next, r)
				if ids != nil && len(ids) == 0 {
					a.Status = http.StatusOK
					a.SetJSON(object{"results": []any{}})
				}
				a.Send(w)
			}), capped),
		wire("bulk-cancel-sorted", "The results of a bulk cancel come in the order of the ids.", "order",
			entries(func(_ *http.Request, results []any) []any { return sortedByID(results) }), order),
		wire("bulk-cancel-failed-first", "The results of a bulk cancel begin with those that failed.", "order",
			sortedBy(func(result object) bool { return result["ok"] == false }), order),
		wire("bulk-cancel-all-failed-404", "A bulk cancel of which nothing could be cancelled is answered 404.", "404",
			tamper.Answers(tamper.BulkCancel, func(_ *http.Request, a *tamper.Answer) {
				if a.Status == http.StatusOK && !strings.Contains(string(a.Body), `"ok":true`) {
					a.Refuse(404, "not_found", "no such runs")
				}
			}), order),
		wire("bulk-cancel-stops-at-failure", "A bulk cancel stops at the first id that fails.", "active run|cancelled|result",
			stopping(), order, requirements.RunsBulkCancelAuthorization),
		wire("bulk-cancel-foreign-403", "A bulk cancel with a run of another tenant in it is refused as a whole.", "403",
			tamper.Answers(tamper.BulkCancel, func(_ *http.Request, a *tamper.Answer) {
				if strings.Contains(string(a.Body), `"id_tenant_mismatch"`) {
					a.Refuse(403, "id_tenant_mismatch", "not yours")
				}
			}), authorization),
		wire("bulk-cancel-foreign-cancelled", "A bulk cancel cancels a run of another tenant.", "to go on|ok false", foreignCancelled(), authorization),
		wire("bulk-cancel-foreign-other-code", "A run of another tenant fails with the code for a missing scope.", "forbidden",
			entry(func(result object, code string) {
				if foreign(code) {
					result["error"].(object)["error"] = "forbidden"
				}
			}), authorization),
		wire("bulk-cancel-foreign-existence-told", "A run of another tenant fails with another code than one that does not exist.", "same code", toldApart(), authorization),
	}
}

func sortedByID(results []any) []any {
	out := append([]any{}, results...)
	for i := range out {
		for j := i + 1; j < len(out); j++ {
			if text(out[j].(object)["runId"]) < text(out[i].(object)["runId"]) {
				out[i], out[j] = out[j], out[i]
			}
		}
	}
	return out
}

// stopping asks for one run after the other, and for none once one has failed.
func stopping() tamper.Middleware {
	return tamper.Instead(tamper.BulkCancel, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		ids := requested(r)
		if len(ids) < 2 || len(ids) == 4 || len(ids) > 100 { // four are those of the operation as a whole
			next.ServeHTTP(w, r)
			return
		}
		var results []any
		failed := false
		for _, id := range ids {
			if failed {
				results = append(results, object{"runId": id, "ok": false, "error": object{"error": "not_found", "message": "not tried"}})
				continue
			}
			doc, _ := tamper.Ask(next, r, http.MethodPost, "/runs:bulk-cancel", object{"runIds": []any{id}}).JSON()
			one, _ := doc["results"].([]any)
			results = append(results, one...)
			failed = len(one) == 0 || one[0].(object)["ok"] != true
		}
		a := tamper.Ask(next, r, http.MethodGet, "/.well-known/openwop", nil)
		a.Header.Del("ETag")
		a.Status = http.StatusOK
		a.SetJSON(object{"results": append([]any{}, results...)})
		a.Send(w)
	})
}

// asOwner asks the host for something under the credential of the tenant a run
// belongs to.
func (t *tenants) asOwner(next http.Handler, r *http.Request, method, id, rest string) *tamper.Answer {
	tenant, _, _ := strings.Cut(id, "/")
	t.mu.Lock()
	key := t.key[tenant]
	t.mu.Unlock()
	as := r.Clone(r.Context())
	as.Header.Set("Authorization", key)
	var body any
	if method == http.MethodPost {
		body = object{}
	}
	return tamper.Ask(next, as, method, "/runs/"+projected(id)+rest, body)
}

// foreignCancelled cancels runs of other tenants for their owners.
func foreignCancelled() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		known := newTenants()
		return tamper.Chain(entriesWith(next, known, func(a *tamper.Answer, result object) {
			if a.Status == http.StatusOK {
				delete(result, "error")
				result["ok"], result["status"] = true, "cancelled"
			}
		}, http.MethodPost, "/cancel"), known.learn)(next)
	}
}

// toldApart tells runs of other tenants that do not exist from those that do.
func toldApart() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		known := newTenants()
		return tamper.Chain(entriesWith(next, known, func(a *tamper.Answer, result object) {
			if a.Status == http.StatusNotFound {
				result["error"] = object{"error": "not_found", "message": "no such run"}
			}
		}, http.MethodGet, ""), known.learn)(next)
	}
}

// entriesWith edits the results about other tenants' runs, knowing what their
// owners would be told.
func entriesWith(next http.Handler, known *tenants, edit func(a *tamper.Answer, result object), method, rest string) tamper.Middleware {
	return entries(func(r *http.Request, results []any) []any {
		for _, v := range results {
			result := v.(object)
			failure, _ := result["error"].(object)
			if failure["error"] == "id_tenant_mismatch" {
				edit(known.asOwner(next, r, method, text(result["runId"]), rest), result)
			}
		}
		return results
	})
}

func raceFaults() []Fault {
	race, cascade := requirements.RunsCancelRace, requirements.RunsCancelCascade
	conflict := func(edit func(a *tamper.Answer)) tamper.Middleware {
		return func(next http.Handler) http.Handler {
			var mu sync.Mutex
			pending := map[string]int{}
			count := func(run string, by int) int {
				mu.Lock()
				defer mu.Unlock()
				pending[run] += by
				return pending[run]
			}
			return tamper.Instead(tamper.CancelRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				run := tamper.RunSegment(r)
				count(run, 1)
				tamper.Pause(r.Context(), 50*time.Millisecond) // those that are sent together meet
				a := tamper.Record(next, r)
				if count(run, 0) > 1 && a.Status == http.StatusConflict {
					edit(a)
				}
				tamper.Pause(r.Context(), 50*time.Millisecond)
				count(run, -1)
				a.Send(w)
			})(next)
		}
	}
	ofChild := func(edit func(p object)) tamper.Middleware {
		return payloadOf("run.cancelled", func(p object) {
			if p["parentRunId"] != nil {
				edit(p)
			}
		})
	}
	return []Fault{
		made("cancel-race-logged-twice", "Of several cancels at once two are recorded.", "run.cancelled", cancelledTwice, race),
		wire("cancel-race-500", "Of several cancels at once one makes the host fail.", "500",
			conflict(func(a *tamper.Answer) { a.Refuse(500, "internal_error", "the row was locked") }), race),
		wire("cancel-race-not-found", "Of several cancels at once the later ones find no run.", "404",
			conflict(func(a *tamper.Answer) { a.Refuse(404, "not_found", "no active run") }), race),
		wire("cancel-race-other-code", "Of several cancels at once the later ones are refused for the state of the run.", "409 run_state_conflict",
			conflict(func(a *tamper.Answer) {
				a.SetJSON(object{"error": "run_state_conflict", "message": "being cancelled", "details": object{"runStatus": "cancelled"}})
			}), race),
		wire("cancel-cascade-without-parent", "A run that was cancelled with its parent does not say which.", "parentRunId",
			ofChild(func(p object) { delete(p, "parentRunId") }), cascade),
		wire("cancel-cascade-names-itself", "A run that was cancelled with its parent names another run as that.", "parentRunId",
			ofChild(func(p object) { p["parentRunId"] = "tenant-a/0123456789abcdef" }), cascade),
		wire("cancel-cascade-reason-free", "A run that was cancelled with its parent gives a reason in its own words.", "reason",
			ofChild(func(p object) { p["reason"] = "the parent was cancelled" }), cascade),
		made("cancel-cascade-missing", "A child goes on when its parent is cancelled.", "the child to end", orphaned(), cascade).slow(),
	}
}
