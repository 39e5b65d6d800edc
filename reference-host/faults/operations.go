package faults

import (
	"net/http"
	"slices"
	"strings"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// operationFaults are mistakes in one operation, or in one state of a run, where
// the others do as they should.
func operationFaults() []Fault {
	envelope, version := requirements.R0171ErrorRegistryEnvelope, requirements.R0171HeaderSchemeVersionOnEveryResponse
	tenant, snapshots, etag := requirements.R0170IdGrammarTenantBinding, requirements.RunsSnapshotValid, requirements.R0170RunSnapshotEtag
	unversioned := func(m tamper.Match, status int) tamper.Middleware {
		return onStatus(m, status, func(a *tamper.Answer) { a.Header.Del("OpenWOP-Version") })
	}
	foreign := func(m tamper.Match) tamper.Middleware {
		return tamper.Answers(m, func(_ *http.Request, a *tamper.Answer) {
			if doc, ok := a.JSON(); ok && doc["error"] == "id_tenant_mismatch" {
				a.Refuse(404, "not_found", "no such run")
			}
		})
	}
	inState := func(state, member string) tamper.Middleware {
		return snapshot(func(doc object) {
			if doc["status"] == state {
				doc[member] = "2026-01-01T00:00:00Z"
			}
		})
	}
	return []Fault{
		wire("artifact-not-found-as-text", "An artifact that is not there is refused with a line of text.", "getArtifact",
			onStatus(tamper.GetArtifact, 404, func(a *tamper.Answer) {
				a.Header.Set("Content-Type", "text/plain")
				a.Body = []byte("no such artifact\n")
			}), envelope),
		wire("effects-error-without-message", "The refusal of the effects of no run has no message.", "message",
			tamper.JSON(getEffects(), 404, func(_ *http.Request, doc map[string]any) { delete(doc, "message") }),
			envelope, requirements.IdempotencyEffectsReadRefused),
		wire("version-missing-on-list", "The list of runs carries no OpenWOP-Version.", "listRuns", unversioned(tamper.ListRuns, 200), version),
		wire("version-missing-on-202", "A 202 carries no OpenWOP-Version.", "pauseRun", unversioned(tamper.PauseRun, 202), version),
		wire("version-missing-on-bulk-cancel", "The answer to a bulk cancel carries no OpenWOP-Version.", "bulkCancelRuns", unversioned(tamper.BulkCancel, 200), version),
		wire("unlisted-major-makes-run", "A run is created under a major the host does not list.", "201",
			tamper.Requests(tamper.And(tamper.CreateRun, otherMajor), func(r *http.Request) { r.Header.Set("OpenWOP-Version", "2") }),
			requirements.R0172DualStackNegotiationUnlistedMajor),
		wire("unlisted-major-streams", "A stream is opened under a major the host does not list.", "observed 403",
			tamper.Requests(tamper.And(tamper.StreamRun, otherMajor), func(r *http.Request) { r.Header.Set("OpenWOP-Version", "2") }),
			requirements.R0172DualStackNegotiationUnlistedMajor),
		wire("foreign-stream-not-found", "A stream of another tenant's run is answered 404.", "streamRunEvents", foreign(tamper.StreamRun), tenant),
		wire("foreign-pause-not-found", "A pause of another tenant's run is answered 404.", "pauseRun", foreign(tamper.PauseRun), tenant),
		wire("foreign-annotations-not-found", "The annotations of another tenant's run are answered 404.", "listAnnotations", foreign(tamper.ListAnnotations), tenant),
		wire("snapshot-extra-member-while-paused", "The snapshot of a paused run has a member the schema does not know.", "pausedAt", inState("paused", "pausedAt"), snapshots),
		wire("snapshot-extra-member-while-waiting", "The snapshot of a run that waits has a member the schema does not know.", "waitingSince",
			inState("waiting-external", "waitingSince"), snapshots),
		wire("snapshot-etag-unchanged-by-pause", "The entity tag of a snapshot stays the same when the run is paused.", "from running to paused", etagOfPause(), etag),
		wire("snapshot-etag-of-list-unread", "An If-None-Match of several tags is read as none.", "for a list of tags|200",
			tamper.Requests(tamper.GetRun, func(r *http.Request) {
				if strings.Contains(r.Header.Get("If-None-Match"), ", ") {
					r.Header.Del("If-None-Match")
				}
			}), etag),
		wire("pause-drain-not-named", "run.paused does not say that the node was drained as asked.", "drainPolicy",
			payloadOf("run.paused", func(p object) {
				if p["drainPolicy"] == "drain-current-node" {
					delete(p, "drainPolicy")
				}
			}), requirements.RunsPauseDrains),
		wire("fork-replay-asks-for-a-point", "A fork in the mode replay without a point is refused.", "400",
			pointless(func(a *tamper.Answer) { a.Refuse(400, "validation_error", "fromSeq is missing") }), requirements.R0170RunForkRefusals),
		wire("fork-replay-from-elsewhere", "A fork in the mode replay without a point says that it begins behind the start.", "fromSeq",
			pointless(func(a *tamper.Answer) {
				if doc, ok := a.JSON(); ok {
					doc["fromSeq"] = 1
					a.SetJSON(doc)
				}
			}), requirements.R0170RunForkRefusals),
		wire("fork-overlay-of-metadata-dropped", "Other metadata for a fork in the mode replay are dropped without a word.", "metadata",
			tamper.Requests(tamper.ForkRun, func(r *http.Request) {
				doc, _ := tamper.BodyJSON(r)
				if overlay, ok := doc["runOptionsOverlay"].(object); ok && doc["mode"] == "replay" && overlay["metadata"] != nil {
					delete(doc, "runOptionsOverlay")
					tamper.SetBodyJSON(r, doc)
				}
			}), requirements.R0170RunForkRefusals),
	}
}

// etagOfPause gives a paused run the tag it had while it was running.
func etagOfPause() tamper.Middleware {
	var running notes[string]
	return tamper.Answers(tamper.GetRun, func(r *http.Request, a *tamper.Answer) {
		doc, _ := a.JSON()
		switch id := text(doc["runId"]); doc["status"] {
		case "running":
			running.put(id, a.Header.Get("ETag"))
		case "paused":
			if tag, ok := running.get(id); ok && tag != "" {
				a.Header.Set("ETag", tag)
			}
		}
	})
}

// pointless edits the answer to a replay that names no point.
func pointless(edit func(a *tamper.Answer)) tamper.Middleware {
	return tamper.Instead(tamper.ForkRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		doc, ok := tamper.BodyJSON(r)
		a := tamper.Record(next, r)
		if _, has := doc["fromSeq"]; ok && !has && doc["mode"] == "replay" && a.Status == http.StatusCreated {
			edit(a)
		}
		a.Send(w)
	})
}

// createAloneFaults are mistakes about single options of a create, and about where they
// show.
func createAloneFaults() []Fault {
	surfaced, closed, unknown := requirements.RunsRunOptionsSurfaced, requirements.R0171ConfigurableClosedSchema, requirements.R0171ConfigurableClosedUnknownKey
	creates := func(edit func(doc object)) tamper.Middleware {
		return tamper.Requests(tamper.CreateRun, func(r *http.Request) {
			if doc, ok := tamper.BodyJSON(r); ok {
				edit(doc)
				tamper.SetBodyJSON(r, doc)
			}
		})
	}
	section := func(doc object, name string) object {
		c, _ := doc["configurable"].(object)
		s, _ := c[name].(object)
		return s
	}
	return []Fault{
		wire("tags-not-in-list", "Listed runs have no tags.", "listRuns", listed(func(_ *http.Request, runs []any, _ object) []any {
			for _, v := range runs {
				delete(v.(object), "tags")
			}
			return runs
		}), surfaced),
		wire("metadata-not-in-values", "Snapshots in a stream have no metadata.", "a state.snapshot", inStreams(func(doc object) { delete(doc, "metadata") }), surfaced),
		wire("configurable-temperature-clamped", "A temperature above 2 is taken as 2.", "temperature", creates(func(doc object) {
			if number(section(doc, "ai")["temperature"]) == "2.5" {
				section(doc, "ai")["temperature"] = 2
			}
		}), closed),
		wire("configurable-verbosity-dropped", "A reasoningVerbosity there is not is dropped without a word.", "reasoningVerbosity", creates(func(doc object) {
			if v := text(section(doc, "ai")["reasoningVerbosity"]); v != "" && !slices.Contains([]string{"none", "summary", "full"}, v) {
				delete(section(doc, "ai"), "reasoningVerbosity")
			}
		}), closed),
		wire("configurable-unknown-budget-key-accepted", "An unknown key in the budget of a configurable is dropped without a word.", "budget", creates(func(doc object) {
			delete(section(doc, "budget"), "wopcertUnknown")
		}), unknown),
		wire("configurable-unknown-key-and-run", "An unknown key of a configurable is refused, and a run made without it all the same.", "the run list holds",
			refusedAndRun(func(doc object) bool {
				c, _ := doc["configurable"].(object)
				return c["wopcertUnknown"] != nil
			}, func(doc object) { delete(doc, "configurable") }), unknown),
		wire("no-workflow-refused-and-run", "A create that names no workflow is refused, and one of the host's choice started all the same.", "the run list holds",
			refusedAndRun(func(doc object) bool { return doc["workflowId"] == nil && doc["inputs"] != nil && doc["mode"] == nil },
				func(doc object) { doc["workflowId"] = "conformance-noop" }), requirements.RunsWorkflowRequired),
		wire("dedup-refused-and-run", "A second run of a scope is refused, and made all the same.", "the run list holds",
			tamper.Instead(tamper.CreateRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				doc, _ := tamper.BodyJSON(r)
				a := tamper.Record(next, r)
				if refusal, ok := a.JSON(); ok && refusal["error"] == "run_already_active" {
					tamper.Ask(next, r, http.MethodPost, "/runs", doc)
				}
				a.Send(w)
			}), requirements.RunsDedupEnforced),
		wire("listed-provider-refused", "No provider is accepted, though some are listed.", "was answered 400", tamper.Instead(tamper.CreateRun,
			func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				doc, _ := tamper.BodyJSON(r)
				a := tamper.Record(next, r)
				if section(doc, "ai")["provider"] != nil {
					a.Refuse(400, "validation_error", "no such provider")
				}
				a.Send(w)
			}), requirements.RunsProviderUnlistedRefused),
		wire("list-without-running-runs", "The list holds runs that have ended and no others.", "is not among them", listed(func(_ *http.Request, runs []any, _ object) []any {
			return slices.DeleteFunc(runs, func(v any) bool { return v.(object)["status"] == "running" })
		}), requirements.R0182RunListTenantScoped),
		wire("list-without-cancelled-runs", "The list holds no run that was cancelled.", "is not among them", listed(func(_ *http.Request, runs []any, _ object) []any {
			return slices.DeleteFunc(runs, func(v any) bool { return v.(object)["status"] == "cancelled" })
		}), requirements.R0182RunListTenantScoped),
		wire("list-of-all-tenants-behind-the-first-page", "The later pages of the list show runs of other tenants.", "only runs of the tenant",
			foreignBehind(), requirements.R0182RunListTenantScoped),
		wire("list-filter-lost-on-later-pages", "A filter by workflow holds for the first page of the list.", "a run with workflowId",
			listedWith(func(next http.Handler, r *http.Request, runs []any) []any {
				if query(r, "cursor") == "" || query(r, "workflowId") == "" || query(r, "limit") != "1" {
					return runs
				}
				doc, _ := tamper.Ask(next, r, http.MethodGet, "/runs", nil).JSON()
				all, _ := doc["runs"].([]any)
				for _, v := range all {
					if v.(object)["workflowId"] != query(r, "workflowId") {
						return []any{v}
					}
				}
				return runs
			}), requirements.R0182RunListFilterExact),
		wire("list-default-page-above-ceiling", "A page that nobody limits is larger than the advertised ceiling.", "without a limit", tamper.Chain(
			document(func(doc object) {
				if list, ok := doc["runList"].(object); ok {
					list["maxPageSize"] = 3
				}
			}),
			tamper.Requests(tamper.ListRuns, func(r *http.Request) {
				if limit := query(r, "limit"); limit != "" && limit != "1" && limit != "2" {
					tamper.SetQuery(r, "limit", "3")
				}
			}),
		), requirements.RunsListPageCeiling),
	}
}

// foreignBehind puts the newest run of another tenant on each later page of more
// than one run.
func foreignBehind() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		known := newTenants()
		return tamper.Chain(
			listedWith(func(next http.Handler, r *http.Request, runs []any) []any {
				own, key := known.of(r), ""
				known.mu.Lock()
				for tenant, k := range known.key {
					if tenant != own && own != "" {
						key = k
					}
				}
				known.mu.Unlock()
				if key == "" || query(r, "cursor") == "" || query(r, "limit") == "1" || len(runs) == 0 {
					return runs
				}
				as := r.Clone(r.Context())
				as.Header.Set("Authorization", key)
				doc, _ := tamper.Ask(next, as, http.MethodGet, "/runs?limit=1", nil).JSON()
				if foreign, _ := doc["runs"].([]any); len(foreign) > 0 {
					runs[0] = foreign[0]
				}
				return runs
			}),
			known.learn,
		)(next)
	}
}
