package faults

import (
	"net/http"
	"slices"
	"strings"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// everySnapshot edits snapshots wherever a host shows them: of one run, in the
// list and in streams.
func everySnapshot(edit func(doc object)) tamper.Middleware {
	return tamper.Chain(
		snapshot(edit),
		tamper.JSON(tamper.ListRuns, http.StatusOK, func(_ *http.Request, doc map[string]any) {
			list, _ := doc["runs"].([]any)
			for _, v := range list {
				if run, ok := v.(object); ok {
					edit(run)
				}
			}
		}),
		inStreams(edit),
	)
}

// inStreams edits the snapshots in values streams.
func inStreams(edit func(doc object)) tamper.Middleware {
	return tamper.Frames(tamper.Streams("values"), func(*http.Request) tamper.FrameEdit {
		return func(f tamper.Frame, out *tamper.Out) {
			if doc, ok := f.JSON(); ok {
				edit(doc)
				f = f.Set("data", string(tamper.Encode(doc)))
			}
			out.Send(f)
		}
	})
}

func waitingFaults() []Fault {
	external := requirements.RunsExternalEventStatus
	waiting := func(edit func(doc object)) func(doc object) {
		return func(doc object) {
			if doc["status"] == "waiting-external" {
				edit(doc)
			}
		}
	}
	status := func(as string) func(doc object) { return waiting(func(doc object) { doc["status"] = as }) }
	return []Fault{
		wire("external-wait-reads-as-input", "A run that waits for an external event reads as waiting for input.",
			"waiting-input", tamper.Chain(everySnapshot(status("waiting-input")), pollShows(status("waiting-input"))), external),
		wire("external-wait-reads-as-running", "A run that waits for an external event reads as running.",
			"running", tamper.Chain(everySnapshot(status("running")), pollShows(status("running"))), external).
			also("status while suspended on external-event \"running", requirements.InterruptWaitingStatus).
			blocking(requirements.InterruptPayload, requirements.InterruptPayloadVerbatim, requirements.InterruptNoCredentialSolicited, requirements.InterruptKeyOnce, requirements.InterruptResumeSchemaEnforced, requirements.InterruptResolvedRecorded, requirements.InterruptTokenInspects, requirements.InterruptTokenSpentResolved, requirements.ErrorsResolvedInterruptConflict),
		wire("external-wait-without-node", "A run that waits does not say at which node.",
			"currentNodeId", snapshot(waiting(func(doc object) { delete(doc, "currentNodeId") })), external).
			also("currentNodeId absent", requirements.InterruptWaitingStatus),
		wire("external-wait-at-other-node", "A run that waits names a node that does not.",
			"currentNodeId", snapshot(waiting(func(doc object) { doc["currentNodeId"] = "start" })), external).
			also("currentNodeId \"start", requirements.InterruptWaitingStatus),
		wire("external-wait-polled-as-running", "A poll says that a run which waits for an external event waits for approval.",
			"status of a poll", pollShows(status("waiting-approval")), external),
		wire("external-wait-streamed-as-other", "A stream of snapshots says that a run which waits for an external event waits for approval.",
			"status of a state.snapshot", inStreams(status("waiting-approval")), external),
	}
}

// pollShows edits what a poll says beside the events.
func pollShows(edit func(doc object)) tamper.Middleware {
	return tamper.JSON(tamper.PollRun, http.StatusOK, func(_ *http.Request, doc map[string]any) { edit(doc) })
}

func memberFaults() []Fault {
	absent, present := requirements.RunsCompensationStatusAbsent, requirements.RunsCompensationStatusPresent
	constant := requirements.RunsRunOrchestratorConstant
	none := func(when func(status string) bool) func(doc object) {
		return func(doc object) {
			if when(text(doc["status"])) {
				doc["compensationStatus"] = "none"
			}
		}
	}
	gone := func(when func(status string) bool) func(doc object) {
		return func(doc object) {
			if when(text(doc["status"])) {
				delete(doc, "compensationStatus")
			}
		}
	}
	always := func(string) bool { return true }
	is := func(status string) func(string) bool { return func(s string) bool { return s == status } }
	return []Fault{
		wire("compensation-status-everywhere", "Snapshots have a compensation status on a host that compensates nothing.",
			"compensationStatus", everySnapshot(none(always)), absent).on("compensation-off"),
		wire("compensation-status-of-cancelled", "Snapshots of cancelled runs have a compensation status on a host that compensates nothing.",
			"compensationStatus", snapshot(none(is("cancelled"))), absent).on("compensation-off"),
		wire("compensation-status-in-list", "Listed runs have a compensation status on a host that compensates nothing.",
			"listRuns", tamper.JSON(tamper.ListRuns, http.StatusOK, func(_ *http.Request, doc map[string]any) {
				list, _ := doc["runs"].([]any)
				for _, v := range list {
					none(always)(v.(object))
				}
			}), absent).on("compensation-off"),
		wire("compensation-status-in-stream", "A stream of snapshots has a compensation status on a host that compensates nothing.",
			"state.snapshot", inStreams(none(always)), absent).on("compensation-off"),
		wire("compensation-status-not-while-running", "A running run shows no compensation status on a host that compensates.",
			"compensationStatus", everySnapshot(gone(is("running"))), present),
		wire("compensation-status-not-in-list", "Listed runs show no compensation status on a host that compensates.",
			"listRuns", tamper.JSON(tamper.ListRuns, http.StatusOK, func(_ *http.Request, doc map[string]any) {
				list, _ := doc["runs"].([]any)
				for _, v := range list {
					gone(always)(v.(object))
				}
			}), present),
		wire("compensation-status-null", "The compensation status of a completed run is null.",
			"compensationStatus", snapshot(func(doc object) {
				if doc["status"] == "completed" {
					doc["compensationStatus"] = nil
				}
			}), present, requirements.RunsSnapshotValid),
		wire("orchestrator-gone-at-end", "A run shows its orchestrator until it has ended.",
			"runOrchestrator", everySnapshot(func(doc object) {
				if doc["status"] == "completed" {
					delete(doc, "runOrchestrator")
				}
			}), constant),
		wire("orchestrator-changes", "A run names another orchestrator once it has ended.",
			"runOrchestrator", everySnapshot(func(doc object) {
				if o, ok := doc["runOrchestrator"].(object); ok && doc["status"] == "completed" {
					o["agentId"] = "another.agent"
				}
			}), constant),
	}
}

func encodingFaults() []Fault {
	encoding := requirements.RunsCompressedEncoding
	zipped := tamper.Match(func(r *http.Request) bool { return tamper.GetRun(r) && r.Header.Get("Accept-Encoding") == "gzip" })
	return []Fault{
		wire("gzip-without-vary", "A compressed snapshot does not say that it varies.",
			"Vary", tamper.Chain(tamper.Answers(zipped, func(_ *http.Request, a *tamper.Answer) { a.Header.Del("Vary") }), tamper.Gzip(tamper.GetRun)), encoding),
		wire("gzip-varies-by-other", "A compressed snapshot says that it varies by what the client accepts, and not by encoding.",
			"Vary", tamper.Chain(tamper.Answers(zipped, func(_ *http.Request, a *tamper.Answer) { a.Header.Set("Vary", "Accept, Origin") }), tamper.Gzip(tamper.GetRun)), encoding),
		wire("gzip-without-content-encoding", "A compressed snapshot does not say that it is compressed.",
			"Content-Encoding", tamper.Chain(tamper.Answers(zipped, func(_ *http.Request, a *tamper.Answer) { a.Header.Del("Content-Encoding") }), tamper.Gzip(tamper.GetRun)), encoding),
		wire("gzip-of-other-bytes", "A compressed snapshot is written with other white space than the plain one.",
			"decode", tamper.Chain(tamper.Gzip(tamper.GetRun), tamper.Answers(zipped, func(_ *http.Request, a *tamper.Answer) {
				a.Body = append(a.Body, '\n')
			})), encoding),
		wire("brotli-unadvertised", "A snapshot comes compressed with a coding that no extension lists.",
			"br", tamper.Answers(tamper.And(tamper.GetRun, func(r *http.Request) bool {
				return strings.Contains(r.Header.Get("Accept-Encoding"), "br")
			}), func(_ *http.Request, a *tamper.Answer) {
				a.Header.Set("Content-Encoding", "br")
				a.Header.Add("Vary", "Accept-Encoding")
			}), encoding),
	}
}

// listed edits a page of the list.
func listed(edit func(r *http.Request, runs []any, doc object) []any) tamper.Middleware {
	return tamper.JSON(tamper.ListRuns, http.StatusOK, func(r *http.Request, doc map[string]any) {
		runs, _ := doc["runs"].([]any)
		doc["runs"] = edit(r, runs, doc)
	})
}

// query is a parameter of a request.
func query(r *http.Request, name string) string { return r.URL.Query().Get(name) }

func listFaults() []Fault {
	scoped, cursor, filter := requirements.R0182RunListTenantScoped, requirements.R0182RunListCursorRefused, requirements.R0182RunListFilterExact
	refusedCursor := func(edit func(a *tamper.Answer)) tamper.Middleware {
		return tamper.Answers(tamper.ListRuns, func(r *http.Request, a *tamper.Answer) {
			if a.Status == http.StatusBadRequest && query(r, "cursor") != "" {
				edit(a)
			}
		})
	}
	forgetCursor := func(next http.Handler) http.Handler {
		return tamper.Instead(tamper.ListRuns, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			a := tamper.Record(next, r)
			if a.Status == http.StatusBadRequest && query(r, "cursor") != "" {
				r = r.Clone(r.Context())
				tamper.SetQuery(r, "cursor", "")
				a = tamper.Record(next, r)
			}
			a.Send(w)
		})(next)
	}
	return []Fault{
		wire("list-without-newest", "The newest run with a tag is not in the list.", "is not among them",
			listed(func(r *http.Request, runs []any, _ object) []any {
				newest := slices.IndexFunc(runs, func(v any) bool {
					tags, _ := v.(object)["tags"].([]any)
					return len(tags) > 0
				})
				if newest >= 0 && query(r, "cursor") == "" && query(r, "limit") != "1" {
					return slices.Delete(runs, newest, newest+1)
				}
				return runs
			}), scoped),
		wire("list-of-all-tenants", "The list shows a run of another tenant.", "only runs of the tenant", foreignListed(), scoped),
		wire("list-of-bare-ids", "The list names runs without their tenant.", "runId", listed(func(_ *http.Request, runs []any, _ object) []any {
			for _, v := range runs {
				run := v.(object)
				_, run["runId"], _ = strings.Cut(text(run["runId"]), "/")
			}
			return runs
		}), scoped),
		wire("list-with-count", "The list says how many runs there are, in a member of its own.", "total",
			listed(func(_ *http.Request, runs []any, doc object) []any { doc["total"] = len(runs); return runs }), scoped),
		wire("list-cursor-ignored", "A cursor nobody minted begins the list again.", "200", forgetCursor, cursor),
		wire("list-cursor-500", "A cursor nobody minted makes the host fail.", "500",
			refusedCursor(func(a *tamper.Answer) { a.Refuse(500, "internal_error", "cannot decode") }), cursor),
		wire("list-cursor-404", "A cursor nobody minted is answered 404.", "404",
			refusedCursor(func(a *tamper.Answer) { a.Refuse(404, "not_found", "no such page") }), cursor),
		wire("list-cursor-empty-page", "A cursor nobody minted is answered with an empty page.", "200",
			refusedCursor(func(a *tamper.Answer) { a.Status = 200; a.SetJSON(object{"runs": []any{}}) }), cursor),
		wire("list-cursor-unsigned", "A cursor that was changed is taken for the one it was.", "200",
			unsignedCursor(), cursor),
		wire("list-filter-by-prefix", "A filter by workflow takes the beginning of a name.", "workflowId",
			tamper.Requests(tamper.ListRuns, func(r *http.Request) {
				for _, name := range []string{"conformance-noop", "conformance-identity", "conformance-failure", "conformance-delay"} {
					if f := query(r, "workflowId"); len(f) > 12 && strings.HasPrefix(name, f) {
						tamper.SetQuery(r, "workflowId", name)
					}
				}
			}), filter),
		wire("list-filter-status-ignored", "A filter by status is ignored.", "status",
			tamper.Requests(tamper.ListRuns, func(r *http.Request) { tamper.SetQuery(r, "status", "") }), filter),
		wire("list-filter-workflow-ignored", "A filter by workflow is ignored.", "workflowId",
			tamper.Requests(tamper.ListRuns, func(r *http.Request) { tamper.SetQuery(r, "workflowId", "") }), filter),
		wire("list-filter-leaves-nothing", "A filter by workflow leaves no run.", "is not among them",
			listed(func(r *http.Request, runs []any, _ object) []any {
				if query(r, "workflowId") != "" {
					return []any{}
				}
				return runs
			}), filter),
		wire("list-filter-unadvertised-refused", "A filter that is not advertised is refused.", "400",
			tamper.Answers(tamper.And(tamper.ListRuns, func(r *http.Request) bool { return query(r, "status") != "" }), func(_ *http.Request, a *tamper.Answer) {
				a.Refuse(400, "validation_error", "no such filter")
			}), filter).on("list-filters-fewer"),
		wire("list-filter-unadvertised-used", "A filter that is not advertised is used.", "is not among them",
			usedFilter(), filter).on("list-filters-fewer"),
	}
}

// usedFilter filters by status although the host does not.
func usedFilter() tamper.Middleware {
	return listed(func(r *http.Request, runs []any, _ object) []any {
		if query(r, "status") == "" {
			return runs
		}
		return slices.DeleteFunc(runs, func(v any) bool { return v.(object)["status"] != query(r, "status") })
	})
}

// foreignListed puts the last run that another tenant created into each first
// page.
func foreignListed() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		known := newTenants()
		return tamper.Chain(
			listedWith(func(next http.Handler, r *http.Request, runs []any) []any {
				own := known.of(r)
				known.mu.Lock()
				key := ""
				for tenant, k := range known.key {
					if tenant != own && own != "" {
						key = k
					}
				}
				known.mu.Unlock()
				if key == "" || query(r, "limit") == "1" {
					return runs
				}
				as := r.Clone(r.Context())
				as.Header.Set("Authorization", key)
				doc, _ := tamper.Ask(next, as, http.MethodGet, "/runs?limit=1", nil).JSON()
				foreign, _ := doc["runs"].([]any)
				return append(runs[:min(len(runs), 99)], foreign...)
			}),
			known.learn,
		)(next)
	}
}

// listedWith edits a page of the list with the host at hand.
func listedWith(edit func(next http.Handler, r *http.Request, runs []any) []any) tamper.Middleware {
	return tamper.Instead(tamper.ListRuns, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := tamper.Record(next, r)
		if doc, ok := a.JSON(); ok && a.Status == http.StatusOK {
			runs, _ := doc["runs"].([]any)
			doc["runs"] = edit(next, r, runs)
			a.SetJSON(doc)
		}
		a.Send(w)
	})
}

// unsignedCursor takes any text of the length of a minted cursor for the last
// one that was minted.
func unsignedCursor() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		minted := newMarks()
		return tamper.Instead(tamper.ListRuns, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			a := tamper.Record(next, r)
			if a.Status == http.StatusBadRequest {
				minted.mu.Lock()
				for cursor := range minted.at {
					if len(cursor) == len(query(r, "cursor")) {
						r = r.Clone(r.Context())
						tamper.SetQuery(r, "cursor", cursor)
						break
					}
				}
				minted.mu.Unlock()
				a = tamper.Record(next, r)
			}
			if doc, ok := a.JSON(); ok && text(doc["nextCursor"]) != "" {
				minted.set(text(doc["nextCursor"]))
			}
			a.Send(w)
		})(next)
	}
}

func listPageFaults() []Fault {
	ceiling, newest := requirements.RunsListPageCeiling, requirements.RunsListNewestFirst
	ceilingIgnored := made("list-ceiling-ignored", "A page holds as many runs as were asked for, above the advertised ceiling.", "limit=21",
		nil, ceiling)
	ceilingIgnored.Wrap = document(func(doc object) {
		if list, ok := doc["runList"].(object); ok {
			list["maxPageSize"] = 20
		}
	})
	return []Fault{
		ceilingIgnored,
		wire("list-limit-off-by-one", "A page of one run holds two.", "2 runs", tamper.Requests(tamper.ListRuns, func(r *http.Request) {
			if query(r, "limit") == "1" {
				tamper.SetQuery(r, "limit", "2")
			}
		}), ceiling),
		wire("list-pages-overlap", "The second page begins with the last run of the first.", "again", overlappingPages(), ceiling),
		wire("list-oldest-first", "A page lists its oldest run first.", "newest|reverse|order", oldestFirst(), newest),
	}
}

// overlappingPages repeats the first run of a chain of pages.
func overlappingPages() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		first := newMarks()
		return listed(func(r *http.Request, runs []any, _ object) []any {
			if len(runs) != 1 {
				return runs
			}
			id := string(tamper.Encode(runs[0]))
			if query(r, "cursor") == "" {
				first.mu.Lock()
				clear(first.at)
				first.mu.Unlock()
				first.set(id)
				return runs
			}
			first.mu.Lock()
			defer first.mu.Unlock()
			for doc := range first.at {
				return []any{tamper.Decode([]byte(doc))}
			}
			return runs
		})(next)
	}
}

// oldestFirst turns every page round.
func oldestFirst() tamper.Middleware {
	return listed(func(_ *http.Request, runs []any, _ object) []any {
		slices.Reverse(runs)
		return runs
	})
}
