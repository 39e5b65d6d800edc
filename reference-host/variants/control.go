package variants

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"wopcert/fixtures"
	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// chained makes several changes of a configuration one.
func chained(changes ...func(*referencehost.Config)) func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		for _, change := range changes {
			change(c)
		}
	}
}

// holding adds workflows that are written in the variant.
func holding(documents ...object) func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		for _, doc := range documents {
			w, err := fixtures.Parse(tamper.Encode(doc))
			if err != nil {
				panic("variants: " + err.Error()) // a workflow of this file that is none
			}
			c.Fixtures = append(slices.Clone(c.Fixtures), w)
		}
	}
}

// oneNode is a workflow of one node with one variable.
func oneNode(id, summary, typeID, port string, variable object, config object) object {
	variable["name"], variable["required"] = port, true
	return object{
		"id": id, "name": id, "description": summary, "version": "1.0",
		"nodes": []any{object{
			"id": "only", "typeId": typeID, "name": "The node", "position": object{"x": 0, "y": 0}, "config": config,
			"inputs": object{port: object{"type": "variable", "variableName": port}},
		}},
		"edges": []any{}, "triggers": []any{object{"id": "manual", "type": "manual", "enabled": true}},
		"variables": []any{variable}, "metadata": object{"tags": []any{"conformance"}}, "settings": object{},
	}
}

func familyVariants() []Variant {
	const doc, refusals, residency = "runs.md", "Refusals", "dataResidency"
	off := func(id, section, summary, name string, relaxes ...requirements.ID) Variant {
		return made(id, doc, section, summary, without(name), relaxes...)
	}
	resident := []requirements.ID{requirements.RunsResidencyUnavailableRefused, requirements.RunsResidencyRegionAccepted}
	ignored := off("residency-off-ignored", residency, "The host keeps no region and drops the wish for one.", "dataResidency", resident...).
		opening(requirements.RunsResidencyNotClaimed)
	ignored.Wrap = tamper.Requests(tamper.CreateRun, func(r *http.Request) {
		if doc, ok := tamper.BodyJSON(r); ok && doc["residency"] != nil {
			delete(doc, "residency")
			tamper.SetBodyJSON(r, doc)
		}
	})
	return []Variant{
		off("conversation-off", refusals, "The host has no conversations.", "conversationPrimitive",
			requirements.R0186PayloadSeats, requirements.R0205TurnPartsEmitted,
			requirements.InterruptConversationIdUnique, requirements.InterruptConversationOutcomeSchema).
			opening(requirements.RunsCapabilityRequiredRefused, requirements.RunsConversationGateRefused),
		made("eval-off", doc, refusals, "The host evaluates no agents.", family("agents", object{"evalSuite": nil}),
			requirements.RunsEvalMembersRequired, requirements.RunsEvalEvents, requirements.RunsEvalSummary,
			requirements.RunsEvalSummaryNotEval, requirements.RunsEvalSummaryContentFree).
			opening(requirements.RunsEvalUnadvertisedRefused),
		off("residency-off-refused", residency, "The host keeps no region and refuses a run that asks for one.", "dataResidency", resident...).
			opening(requirements.RunsResidencyNotClaimed),
		ignored,
		made("residency-other-regions", doc, residency, "The host keeps another region beside the two, and lists them in another order.",
			family("dataResidency", object{"regions": []any{"us-test-1", "eu-test-1", "ap-test-2"}})),
		off("run-list-off", "List", "The host lists no runs.", "runList",
			requirements.R0182RunListTenantScoped, requirements.R0182RunListCursorRefused, requirements.R0182RunListFilterExact,
			requirements.RunsListPageCeiling, requirements.RunsListNewestFirst),
		made("list-filters-fewer", doc, "List", "The list can be filtered by workflow and ignores a filter by status.",
			family("runList", object{"filters": []any{"workflowId"}})).front(tamper.Requests(tamper.ListRuns, func(r *http.Request) {
			tamper.SetQuery(r, "status", "")
		})),
		made("list-filters-none", doc, "List", "The list ignores every filter.",
			family("runList", object{"filters": nil})).front(tamper.Requests(tamper.ListRuns, func(r *http.Request) {
			tamper.SetQuery(r, "status", "")
			tamper.SetQuery(r, "workflowId", "")
		})),
		made("list-pages-small", doc, "List", "A page of the list holds three runs and no more.",
			family("runList", object{"maxPageSize": 3}), requirements.R0182RunListFilterExact),
		made("list-pages-single", doc, "List", "A page of the list holds one run.",
			family("runList", object{"maxPageSize": 1})),
		made("node-executions-bounded-low", doc, "run section", "A run executes forty nodes, and shows a recursionLimit above that as forty.",
			family("limits", object{"maxNodeExecutions": 40})).front(clamped("recursionLimit", 40)),
		made("loops-bounded-low", doc, "run section", "An orchestrator has twelve turns and a run a minute.",
			family("limits", object{"maxLoopIterations": 12, "maxRunDurationMs": 60_000})),
		made("memory-distillation-on", doc, "distillation section", "The host distills text into memory.", chained(
			family("memory", object{"distillation": object{"maxTokenBudget": 4000}}),
			holding(oneNode("wopcert-distill", "Distills a text within the token budget of the run.", "conformance.distill", "text",
				object{"type": "string"}, object{})),
			func(c *referencehost.Config) {
				c.NodeTypes = append(slices.Clone(c.NodeTypes), referencehost.NodeType{ID: "conformance.distill", Run: distill})
			})).opening(requirements.RunsDistillationBudget),
	}
}

// clamped shows a member of the run section of configurables at most as high as
// a limit of the host.
func clamped(member string, most int64) tamper.Middleware {
	edit := func(doc object) {
		configurable, _ := doc["configurable"].(object)
		run, _ := configurable["run"].(object)
		if n, ok := run[member].(json.Number); ok {
			if asked, err := n.Int64(); err == nil && asked > most {
				run[member] = most
			}
		}
	}
	return tamper.Chain(snapshot(edit), tamper.Frames(tamper.Streams("values"), func(*http.Request) tamper.FrameEdit {
		return func(f tamper.Frame, out *tamper.Out) {
			if doc, ok := f.JSON(); ok {
				edit(doc)
				f = f.Set("data", string(tamper.Encode(doc)))
			}
			out.Send(f)
		}
	}))
}

// unsent takes webhooks and seams from the host: what the variant rewrites on the
// way to a reader it does not rewrite in a delivery, nor in a log that was seeded.
func (v Variant) unsent() Variant {
	v.Decorate = chained(without("webhooks"), func(c *referencehost.Config) { c.Seams = false })
	v.Relaxes = slices.Concat(v.Relaxes, allOfWebhooks(), ofSeams())
	return v
}

// front puts a middleware around the variant's host.
func (v Variant) front(wrap tamper.Middleware) Variant {
	v.Wrap = wrap
	return v
}

// distill counts a text as one token a word.
func distill(_ context.Context, call *referencehost.Call) (referencehost.Values, error) {
	var input string
	var options struct {
		Distillation struct {
			TokenBudget int `json:"tokenBudget"`
		} `json:"distillation"`
	}
	if err := json.Unmarshal(call.Inputs["text"], &input); err != nil {
		return nil, &referencehost.NodeError{Code: "validation_error", Message: "text is no string"}
	}
	if len(call.Run.Configurable) > 0 {
		if err := json.Unmarshal(call.Run.Configurable, &options); err != nil {
			return nil, err
		}
	}
	words := strings.Fields(input)
	if budget := options.Distillation.TokenBudget; budget > 0 && len(words) > budget {
		return nil, &referencehost.NodeError{Code: "token_budget_exceeded", Message: "The text does not fit the budget."}
	}
	return referencehost.Values{"memory": tamper.Encode(strings.Join(words, " "))}, nil
}

func controlVariants() []Variant {
	const doc, pausing, cancelling = "runs.md", "Pause and resume", "Cancel"
	delayed := func(m tamper.Match, d time.Duration) tamper.Middleware {
		return tamper.Instead(m, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			tamper.Pause(r.Context(), d)
			next.ServeHTTP(w, r)
		})
	}
	payload := func(typ string, edit func(p object)) tamper.Middleware {
		return event(func(e object) {
			if p, ok := e["payload"].(object); ok && e["type"] == typ {
				edit(p)
			}
		})
	}
	return []Variant{
		grant("pause-takes-a-while", doc, pausing, "A pause is answered after three tenths of a second.", delayed(tamper.PauseRun, 300*time.Millisecond)),
		grant("pause-answers-without-time", doc, pausing, "The answers to a pause and a resume do not say when.",
			tamper.JSON(tamper.Or(tamper.PauseRun, tamper.ResumeRun), http.StatusAccepted, func(_ *http.Request, doc map[string]any) {
				delete(doc, "pausedAt")
				delete(doc, "resumedAt")
			})),
		grant("pause-cut-not-named", doc, pausing, "run.paused does not say which node it cut.",
			payload("run.paused", func(p object) { delete(p, "interruptedNodeId"); delete(p, "interruptedAttempt") })),
		grant("pause-default-not-logged", doc, pausing, "run.paused names no policy where the request named none.", unnamedPolicy()),
		grant("attempts-not-counted", doc, pausing, "node.started does not say which attempt it is.",
			payload("node.started", func(p object) { delete(p, "attempt") })).unsent(),
		grant("resume-with-more", doc, pausing, "run.resumed says more than that.",
			payload("run.resumed", func(p object) { p["by"], p["queue"] = "operator", object{"position": 1} })),
		grant("cancel-takes-a-while", doc, cancelling, "A cancel is answered after three tenths of a second.", delayed(tamper.CancelRun, 300*time.Millisecond)),
		grant("bulk-cancel-cap-lower", doc, "Bulk cancel", "A bulk cancel takes ten runs at a time.",
			tamper.Instead(tamper.BulkCancel, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				body, _ := tamper.BodyJSON(r)
				a := tamper.Record(next, r)
				if ids, _ := body["runIds"].([]any); len(ids) > 10 {
					a.Refuse(http.StatusBadRequest, "validation_error", "too many runs")
					a.SetJSON(object{"error": "validation_error", "message": "too many runs", "details": object{"maxRunIds": 10}})
				}
				a.Send(w)
			})),
		grant("bulk-cancel-cancelling", doc, "Bulk cancel", "A bulk cancel says that its runs are being cancelled.",
			bulkEntries(func(entry object, _ string) {
				if entry["ok"] == true {
					entry["status"] = "cancelling"
				}
			})),
		grant("bulk-cancel-foreign-unknown", doc, "Bulk cancel", "A bulk cancel knows no run of another tenant.",
			bulkEntries(func(entry object, code string) {
				if code == "id_tenant_mismatch" {
					entry["error"] = object{"error": "not_found", "message": "no such run"}
				}
			})),
		made("callback-accepted", doc, "Create", "The host does not say that it calls back, takes a callbackUrl and never uses it.",
			family("interrupt", object{"callbackDelivery": nil}),
			append(tokenRows(), requirements.RunsCallbackUrlRefusal, requirements.InterruptCallbackUnadvertisedRefused)...).
			front(tamper.Requests(tamper.CreateRun, func(r *http.Request) {
				if doc, ok := tamper.BodyJSON(r); ok && doc["callbackUrl"] != nil {
					delete(doc, "callbackUrl")
					tamper.SetBodyJSON(r, doc)
				}
			})),
		grant("scope-refusals-other-code", "identity.md", "6. Identity error codes", "A key without a scope is refused with the code about runs.",
			tamper.JSON(tamper.Or(tamper.CancelRun, tamper.PauseRun), http.StatusForbidden, func(_ *http.Request, doc map[string]any) {
				if doc["error"] == "forbidden" {
					doc["error"] = "run_forbidden"
				}
			})),
		grant("key-per-path", "idempotency.md", "Layer 1: Idempotency-Key", "A key belongs to a path, so that one for two runs is two.",
			tamper.Requests(tamper.And(tamper.OfRun, func(r *http.Request) bool { return r.Method == http.MethodPost }), func(r *http.Request) {
				if key := r.Header.Get("Idempotency-Key"); len(key) >= 22 && len(key) <= 100 {
					r.Header.Set("Idempotency-Key", key+fmt.Sprintf(".%x", sha256.Sum256([]byte(r.URL.EscapedPath())))[:17])
				}
			})),
		made("in-flight-refused", "idempotency.md", "Layer 1: Idempotency-Key", "A create takes a while, and who comes with its key meanwhile is refused.",
			func(c *referencehost.Config) { c.Store = slowStore{c.Store, 150 * time.Millisecond} }),
		made("in-flight-awaited", "idempotency.md", "Layer 1: Idempotency-Key", "A create takes a while, and who comes with its key meanwhile waits for it.",
			func(c *referencehost.Config) { c.Store = slowStore{c.Store, 100 * time.Millisecond} }).
			front(tamper.Instead(tamper.CreateRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				body := tamper.Body(r)
				a := tamper.Record(next, r)
				for doc, _ := a.JSON(); doc["error"] == "idempotency_in_flight" && r.Context().Err() == nil; doc, _ = a.JSON() {
					tamper.Pause(r.Context(), 10*time.Millisecond)
					tamper.SetBody(r, body)
					a = tamper.Record(next, r)
				}
				a.Send(w)
			})),
	}
}

// bulkEntries edits the results of a bulk cancel.
func bulkEntries(edit func(entry object, code string)) tamper.Middleware {
	return tamper.JSON(tamper.BulkCancel, http.StatusOK, func(_ *http.Request, doc map[string]any) {
		results, _ := doc["results"].([]any)
		for _, v := range results {
			entry := v.(object)
			failure, _ := entry["error"].(object)
			edit(entry, text(failure["error"]))
		}
	})
}

// slowStore takes its time to create a run.
type slowStore struct {
	referencehost.Store
	takes time.Duration
}

// Create implements referencehost.Store.
func (s slowStore) Create(ctx context.Context, run referencehost.Run, exclusive bool, first ...referencehost.Draft) (referencehost.Log, error) {
	tamper.Pause(ctx, s.takes)
	return s.Store.Create(ctx, run, exclusive, first...)
}

func browserVariants() []Variant {
	const cors, names = "Cross-origin preflight", "1.6 Names that pages share"
	preflight := func(edit func(r *http.Request, h http.Header)) tamper.Middleware {
		return tamper.Answers(tamper.Preflight, func(r *http.Request, a *tamper.Answer) { edit(r, a.Header) })
	}
	const allowed = "Access-Control-Allow-Headers"
	shared := tamper.Or(tamper.GetRun, tamper.ListRuns, tamper.Discovery)
	return []Variant{
		grant("preflight-reflects", "headers.md", cors, "A preflight admits what it is asked for.",
			preflight(func(r *http.Request, h http.Header) {
				h.Set(allowed, r.Header.Get("Access-Control-Request-Headers"))
				h.Set("Access-Control-Allow-Methods", r.Header.Get("Access-Control-Request-Method"))
			})),
		grant("preflight-any-but-authorization", "headers.md", cors, "A preflight names Authorization and admits the rest with an asterisk.",
			preflight(func(_ *http.Request, h http.Header) {
				h[allowed] = []string{"*", "authorization"}
				h.Set("Access-Control-Allow-Methods", "*")
			})),
		made("preflight-of-nobody", "headers.md", cors, "No page of another origin is let in.",
			func(c *referencehost.Config) { c.AllowedOrigins = nil }, requirements.HeadersCorsPreflight),
		made("preflight-of-one-origin", "headers.md", cors, "Pages of one origin are let in.",
			func(c *referencehost.Config) { c.AllowedOrigins = []string{"https://app.example"} }, requirements.HeadersCorsPreflight),
		grant("pages-for-browsers", "versioning.md", names, "A browser gets pages under the names of operations.",
			tamper.Answers(shared, func(r *http.Request, a *tamper.Answer) {
				a.Header.Add("Vary", "Accept, OpenWOP-Version")
				if r.Header.Get("OpenWOP-Version") == "" && strings.HasPrefix(r.Header.Get("Accept"), "text/html") {
					a.Status = http.StatusOK
					a.Header.Set("Content-Type", "text/html; charset=utf-8")
					a.Header.Del("OpenWOP-Version")
					a.Header.Del("ETag")
					a.Body = []byte("<!doctype html><title>A run</title>")
				}
			})),
		grant("engine-not-forced", "headers.md", "Request headers", "No version of the engine can be forced.",
			document(func(doc object) {
				if testing, ok := doc["testing"].(object); ok {
					delete(testing, "forceEngineVersionRange")
				}
			}), requirements.RunsForceEngineVersionRefused, requirements.HeadersForceEngineVersionHonored),
		grant("seams-advertised", "conformance.md", "The seams profile", "The host mounts a test seam and says so.", tamper.Chain(
			document(func(doc object) { doc["conformance"] = object{"seamsProfile": "openwop-conformance-seams-v2"} }),
			tamper.Answers(tamper.Op(http.MethodGet, "/conformance/seams/workspace/files"), func(_ *http.Request, a *tamper.Answer) {
				a.Status = http.StatusOK
				a.SetJSON(object{"files": []any{}})
			}))),
		grant("seams-advertised-and-gated", "conformance.md", "The seams profile", "The host names the profile and mounts its seams for operators alone.",
			document(func(doc object) { doc["conformance"] = object{"seamsProfile": "openwop-conformance-seams-v2"} })),
	}
}

// unnamedPolicy leaves the policy out of run.paused where the pause named none: what
// a pause does name is echoed.
func unnamedPolicy() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		var mu sync.Mutex
		unnamed := map[string]bool{}
		asked := tamper.Requests(tamper.PauseRun, func(r *http.Request) {
			body, _ := tamper.BodyJSON(r)
			segment, _, _ := strings.Cut(tamper.RunSegment(r), ":")
			mu.Lock()
			defer mu.Unlock()
			unnamed[bareID(segment)] = body["drainPolicy"] == nil
		})
		told := event(func(e object) {
			p, ok := e["payload"].(object)
			if !ok || e["type"] != "run.paused" {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if unnamed[bareID(text(e["runId"]))] {
				delete(p, "drainPolicy")
			}
		})
		return tamper.Chain(asked, told)(next)
	}
}

// bareID is an id without its tenant, in a body as in a path.
func bareID(id string) string {
	if decoded, err := url.PathUnescape(id); err == nil {
		id = decoded
	}
	return id[strings.LastIndex(id, "/")+1:]
}
