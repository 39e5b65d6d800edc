package faults

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// below selects an operation below a run by what follows its id.
func below(method, rest string) tamper.Match {
	if verb, ok := strings.CutPrefix(rest, ":"); ok {
		return tamper.Verb(method, verb)
	}
	return tamper.Op(method, "/runs/{}/"+rest)
}

// instead answers an operation with a status and a document.
func instead(m tamper.Match, status int, body object) tamper.Middleware {
	return tamper.Answers(m, func(_ *http.Request, a *tamper.Answer) {
		a.Status = status
		a.SetJSON(body)
	})
}

func gatedFaults() []Fault {
	absent := requirements.RunsGatedOperationsAbsent
	refused := func(m tamper.Match, status int, code string) tamper.Middleware {
		return tamper.Answers(m, func(_ *http.Request, a *tamper.Answer) { a.Refuse(status, code, "not here") })
	}
	annotations := tamper.Or(tamper.Annotate, tamper.ListAnnotations)
	return []Fault{
		wire("fork-unadvertised-501", "A fork on a host that makes none is answered 501.",
			"501", tamper.Answers(tamper.ForkRun, func(_ *http.Request, a *tamper.Answer) {
				a.Refuse(http.StatusNotImplemented, "capability_not_provided", "no replay")
			}), absent).on("replay-off"),
		wire("fork-unadvertised-403", "A fork on a host that makes none is forbidden.",
			"forkRun answered 403", refused(tamper.ForkRun, 403, "forbidden"), absent).on("replay-off"),
		wire("ancestry-unadvertised-served", "The ancestry of a run is told and not advertised.",
			"getRunAncestry answered 200", instead(tamper.GetAncestry, 200, object{"runId": "tenant-a/0123456789abcdef", "hostId": "h", "parent": nil}), absent),
		wire("compensation-unadvertised-served", "The compensation of a run is an empty object and not advertised.",
			"getRunCompensation answered 200", instead(below(http.MethodGet, "compensation"), 200, object{}), absent).on("compensation-off"),
		wire("effects-unadvertised-served", "The effects of a run are listed and not advertised.",
			"getRunEffects answered 200", instead(below(http.MethodGet, "effects"), 200, object{"effects": []any{}}), absent).on("idempotency-off"),
		wire("effects-unadvertised-page", "The effects of a run, which are not advertised, are answered with the page of a front end.",
			"getRunEffects", tamper.Answers(below(http.MethodGet, "effects"), func(_ *http.Request, a *tamper.Answer) {
				a.Status = http.StatusNotFound
				a.Header.Set("Content-Type", "text/html")
				a.Body = []byte("<!doctype html><title>404</title>")
			}), absent).on("idempotency-off"),
		wire("annotations-unadvertised-other-code", "Annotations, which are not advertised, are refused 404 with another code.",
			"capability_not_provided|not_found", tamper.Answers(annotations, func(_ *http.Request, a *tamper.Answer) {
				a.SetJSON(object{"error": "credential_not_found", "message": "no feedback"})
				a.Status = http.StatusNotFound
			}), absent).on("feedback-off"),
		wire("annotations-unadvertised-taken", "Annotations are taken and not advertised.",
			"createAnnotation answered 201", instead(tamper.Annotate, 201, object{"annotationId": "0123456789abcdef"}), absent).on("feedback-off"),
		wire("eval-summary-unadvertised-409", "A summary on a host without eval suites is refused for the state of the run.",
			"getEvalSummary answered 409", tamper.Answers(tamper.GetEvalSummary, func(_ *http.Request, a *tamper.Answer) {
				a.Refuse(409, "run_state_conflict", "no eval run")
				a.SetJSON(object{"error": "run_state_conflict", "message": "no eval run", "details": object{"runStatus": "completed"}})
			}), absent).on("eval-off"),
		wire("run-list-unadvertised-served", "Runs are listed and not advertised.",
			"listRuns answered 200", instead(tamper.ListRuns, 200, object{"runs": []any{}}), absent).on("run-list-off"),
	}
}

// fullKey lets a key without a scope do what it may not, with the credential of
// the owner of the run.
func fullKey(m tamper.Match) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		var mu sync.Mutex
		owner := ""
		return tamper.Chain(
			tamper.Instead(m, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				body := tamper.Body(r)
				a := tamper.Record(next, r)
				mu.Lock()
				key := owner
				mu.Unlock()
				if doc, _ := a.JSON(); a.Status == http.StatusForbidden && doc["error"] == "forbidden" && key != "" {
					r = r.Clone(r.Context())
					r.Header.Set("Authorization", key)
					tamper.SetBody(r, body)
					a = tamper.Record(next, r)
				}
				a.Send(w)
			}),
			tamper.JSON(tamper.CreateRun, http.StatusCreated, func(r *http.Request, doc map[string]any) {
				if strings.HasPrefix(text(doc["runId"]), "tenant-a/") {
					mu.Lock()
					owner = r.Header.Get("Authorization")
					mu.Unlock()
				}
			}),
		)(next)
	}
}

// scoped gives the read-only key another scope.
func scoped(scope string) func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		keys := append([]referencehost.Credential(nil), c.Keys...)
		for i := range keys {
			if keys[i].Name == referencehost.KeyReadOnly {
				keys[i].Scopes = append(append([]string(nil), keys[i].Scopes...), scope)
			}
		}
		c.Keys = keys
	}
}

func scopeFaults() []Fault {
	scopes := requirements.RunsOperationScopes
	return []Fault{
		made("reader-creates", "A key that may only read creates runs.", "createRun by a key that may only read was answered 201",
			scoped(referencehost.ScopeRunsCreate), scopes),
		made("reader-cancels", "A key that may only read cancels and pauses runs.", "by a key that may only read was answered",
			scoped(referencehost.ScopeRunsCancel), scopes),
		wire("reader-cancels-in-bulk", "Cancelling in bulk forgets to ask for the scope.",
			"bulkCancelRuns answered 200", fullKey(tamper.BulkCancel), scopes),
		wire("reader-pauses", "Pausing forgets to ask for the scope.",
			"pauseRun by a key that may only read was answered 202", fullKey(tamper.PauseRun), scopes),
		wire("reader-cancel-not-found", "A key that may only read is told that there is no run to cancel.",
			"cancelRun by a key that may only read was answered 404", tamper.Answers(tamper.CancelRun, func(_ *http.Request, a *tamper.Answer) {
				if doc, _ := a.JSON(); a.Status == http.StatusForbidden && doc["error"] == "forbidden" {
					a.Refuse(404, "not_found", "no such run")
				}
			}), scopes),
	}
}

func workflowFaults() []Fault {
	required := requirements.RunsWorkflowRequired
	callback := requirements.RunsCallbackUrlRefusal
	noWorkflow := func(doc object) bool { return doc["workflowId"] == nil && doc["mode"] == nil }
	calledBack := func(edit func(a *tamper.Answer)) tamper.Middleware {
		return refusedCreate(func(doc object) bool { return strings.Contains(text(doc["callbackUrl"]), "127.0.0.1:9/") }, edit)
	}
	field := func(details object) func(a *tamper.Answer) {
		return func(a *tamper.Answer) {
			doc, _ := a.JSON()
			delete(doc, "details")
			if details != nil {
				doc["details"] = details
			}
			a.SetJSON(doc)
		}
	}
	return []Fault{
		wire("default-workflow-started", "A create that names no workflow starts one of the host's choice.",
			"201", options(func(doc object) {
				if noWorkflow(doc) {
					doc["workflowId"] = "conformance-noop"
				}
			}), required),
		wire("no-workflow-not-found", "A create that names no workflow is answered 404.",
			"404", refusedCreate(noWorkflow, func(a *tamper.Answer) { a.Refuse(404, "not_found", "no such workflow") }), required),
		wire("no-workflow-422", "A create that names no workflow is answered 422.",
			"422", refusedCreate(noWorkflow, func(a *tamper.Answer) { a.Refuse(422, "capability_required", "which workflow") }), required),
		wire("callback-refused-422", "A callbackUrl is refused 422.",
			"422", calledBack(func(a *tamper.Answer) { a.Status = 422 }), callback),
		wire("callback-refused-other-code", "A callbackUrl is refused with the code of webhooks.",
			"webhook_url_rejected", calledBack(func(a *tamper.Answer) { a.Refuse(400, "webhook_url_rejected", "no such URL") }), callback),
		wire("callback-refused-without-field", "The refusal of a callbackUrl does not say what is refused.",
			"details.field", calledBack(field(nil)), callback),
		wire("callback-refused-other-field", "The refusal of a callbackUrl names another member.",
			"details.field", calledBack(field(object{"field": "url"})), callback),
	}
}

func deduplicates(r *http.Request) bool { return r.Header.Get("OpenWOP-Dedup") != "" }

// looseStore looks whether a scope is free and lets two through that look at
// the same time.
type looseStore struct {
	referencehost.Store
	mu   sync.Mutex
	seen map[string]int
}

// Create implements referencehost.Store.
func (s *looseStore) Create(ctx context.Context, run referencehost.Run, exclusive bool, first ...referencehost.Draft) (referencehost.Log, error) {
	if exclusive {
		s.mu.Lock()
		s.seen[run.Owner.Tenant+" "+run.ScopeID]++
		second := s.seen[run.Owner.Tenant+" "+run.ScopeID] == 2
		s.mu.Unlock()
		if second && strings.HasPrefix(run.ScopeID, "wopcert-") && s.atOnce(run) {
			exclusive = false
		}
	}
	return s.Store.Create(ctx, run, exclusive, first...)
}

// atOnce waits for a third create of the scope, which only comes when several
// were sent together.
func (s *looseStore) atOnce(run referencehost.Run) bool {
	key := run.Owner.Tenant + " " + run.ScopeID
	for range 40 {
		s.mu.Lock()
		n := s.seen[key]
		s.mu.Unlock()
		if n > 2 {
			return true
		}
		tamper.Pause(context.Background(), 5*time.Millisecond)
	}
	return false
}

// sharedScopes makes scopes of different names, or of different tenants, one.
func sharedScopes(scope func(r *http.Request, own string) string) tamper.Middleware {
	return tamper.Requests(tamper.And(tamper.CreateRun, deduplicates), func(r *http.Request) {
		if doc, ok := tamper.BodyJSON(r); ok && doc["scopeId"] != nil {
			doc["scopeId"] = scope(r, text(doc["scopeId"]))
			tamper.SetBodyJSON(r, doc)
		}
	})
}

func dedupFaults() []Fault {
	dedup := requirements.RunsDedupEnforced
	conflict := func(edit func(a *tamper.Answer)) tamper.Middleware {
		return tamper.Answers(tamper.And(tamper.CreateRun, deduplicates), func(_ *http.Request, a *tamper.Answer) {
			if doc, _ := a.JSON(); a.Status == http.StatusConflict && doc["error"] == "run_already_active" {
				edit(a)
			}
		})
	}
	return []Fault{
		wire("dedup-ignored", "OpenWOP-Dedup is ignored.",
			"201", tamper.Requests(tamper.CreateRun, func(r *http.Request) { r.Header.Del("OpenWOP-Dedup") }), dedup).
			blocking(requirements.R0171ErrorRegistryNoRetryDetails),
		wire("dedup-without-retry-after", "The refusal of a second run of a scope does not say when to try again.",
			"Retry-After", conflict(func(a *tamper.Answer) { a.Header.Del("Retry-After") }), dedup),
		wire("dedup-retry-after-words", "The refusal of a second run of a scope says in words when to try again.",
			"Retry-After", conflict(func(a *tamper.Answer) { a.Header.Set("Retry-After", "soon") }), dedup),
		wire("dedup-other-code", "The refusal of a second run of a scope has the code for the state of a run.",
			"409 run_state_conflict", conflict(func(a *tamper.Answer) {
				a.SetJSON(object{"error": "run_state_conflict", "message": "the scope is taken", "details": object{"runStatus": "running"}})
			}), dedup).
			blocking(requirements.R0171ErrorRegistryNoRetryDetails),
		wire("dedup-by-default", "A scope is kept to one run without being asked.",
			"without the header", tamper.Requests(func(r *http.Request) bool {
				doc, ok := tamper.BodyJSON(r)
				return tamper.CreateRun(r) && ok && doc["scopeId"] != nil
			}, func(r *http.Request) { r.Header.Set("OpenWOP-Dedup", "enforce") }), dedup),
		wire("dedup-per-workflow", "The runs of a workflow are kept to one, whatever their scope.",
			"another scopeId was answered 409", sharedScopes(func(r *http.Request, _ string) string {
				return "all-of-" + r.Header.Get("Authorization")[len(r.Header.Get("Authorization"))-8:]
			}), dedup),
		wire("dedup-of-scope-and-workflow", "A scope is kept to one run of each workflow.",
			"201", sharedScopes(func(r *http.Request, scope string) string {
				doc, _ := tamper.BodyJSON(r)
				return scope + "-of-" + text(doc["workflowId"])
			}), dedup),
		made("dedup-race", "Of several creates for one scope at once two get through.",
			"2 of them", func(c *referencehost.Config) { c.Store = &looseStore{Store: c.Store, seen: map[string]int{}} }, dedup),
	}
}

func evalRefusalFaults() []Fault {
	refused := requirements.RunsEvalUnadvertisedRefused
	isEval := func(doc object) bool { return doc["mode"] == "eval" }
	strip := func(doc object) {
		if isEval(doc) {
			for _, name := range []string{"mode", "evalSuiteRef", "agentId"} {
				delete(doc, name)
			}
		}
	}
	return []Fault{
		wire("eval-runs-workflow", "A host without eval suites runs the workflow beside the suite that is asked for.",
			"201", options(func(doc object) {
				if doc["workflowId"] != nil {
					strip(doc)
				}
			}), refused).on("eval-off"),
		wire("eval-accepted", "A host without eval suites takes an eval and never runs it.",
			"201", refusedCreate(isEval, func(a *tamper.Answer) {
				a.Status = http.StatusCreated
				a.SetJSON(object{"runId": "tenant-a/0123456789abcdef", "status": "pending", "eventsUrl": "/runs/tenant-a~2F0123456789abcdef/events"})
			}), refused).on("eval-off"),
		wire("eval-500", "A host without eval suites fails on an eval.",
			"500", refusedCreate(isEval, func(a *tamper.Answer) { a.Refuse(500, "internal_error", "no suites") }), refused).on("eval-off"),
		wire("eval-refused-and-run", "A host without eval suites refuses an eval and runs the workflow all the same.",
			"the run list holds", tamper.Instead(tamper.CreateRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				doc, ok := tamper.BodyJSON(r)
				a := tamper.Record(next, r)
				if ok && isEval(doc) && doc["workflowId"] != nil {
					strip(doc)
					tamper.Ask(next, r, http.MethodPost, "/runs", doc)
				}
				a.Send(w)
			}), refused).on("eval-off"),
	}
}
