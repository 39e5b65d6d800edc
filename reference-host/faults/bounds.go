package faults

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/reference-host/tamper/logs"
	"wopcert/requirements"
)

// drafted edits the events of one type whose payload meets a condition before
// they are written. An edit that returns false leaves the event out.
func drafted(typ string, when func(p object) bool, edit func(d *referencehost.Draft, p object) bool) func(*referencehost.Config) {
	return logs.Decorating(logs.Edit{Append: func(_ referencehost.Log, drafts []referencehost.Draft) []referencehost.Draft {
		kept := drafts[:0]
		for _, d := range drafts {
			p, ok := tamper.Decode(d.Payload).(object)
			if d.Type == typ && ok && when(p) {
				if !edit(&d, p) {
					continue
				}
				d.Payload = tamper.Encode(p)
			}
			kept = append(kept, d)
		}
		return kept
	}})
}

// fixing edits what is fixed about a run before it is stored.
func fixing(edit func(run *referencehost.Run)) func(*referencehost.Config) {
	return logs.Decorating(logs.Edit{Create: func(_ context.Context, run *referencehost.Run, first []referencehost.Draft) []referencehost.Draft {
		edit(run)
		return first
	}})
}

// ofKind selects breaches by their kind.
func ofKind(kind string) func(object) bool { return func(p object) bool { return p["kind"] == kind } }

// failedWith selects failures by their code.
func failedWith(code string) func(object) bool {
	return func(p object) bool {
		failure, _ := p["error"].(object)
		return failure["code"] == code
	}
}

func coded(code string) func(*referencehost.Draft, object) bool {
	return func(_ *referencehost.Draft, p object) bool {
		p["error"].(object)["code"] = code
		return true
	}
}

func member(name string, value any) func(*referencehost.Draft, object) bool {
	return func(_ *referencehost.Draft, p object) bool { p[name] = value; return true }
}

func dropped(*referencehost.Draft, object) bool { return false }

// bound are the faults that every kind of limit can have.
func bound(prefix, what, kind, code string, row requirements.ID) []Fault {
	return []Fault{
		made(prefix+"-breach-not-logged", "The log does not say that "+what+" was reached.", "cap.breached", drafted("cap.breached", ofKind(kind), dropped), row),
		made(prefix+"-breach-of-other-kind", "The log says that another limit than "+what+" was reached.",
			"kind|envelopes", drafted("cap.breached", ofKind(kind), member("kind", "envelopes")), row),
		made(prefix+"-limit-not-resolved", "The log says that "+what+" is 0.", "limit", drafted("cap.breached", ofKind(kind), member("limit", 0)), row),
		made(prefix+"-observed-at-limit", "What was observed at "+what+" is not above it.", "observed",
			drafted("cap.breached", ofKind(kind), func(_ *referencehost.Draft, p object) bool { p["observed"] = json.Number("0"); return true }), row),
		made(prefix+"-code-of-host", "A run that reached "+what+" fails as if the host had.", "internal_error",
			drafted("run.failed", failedWith(code), coded("internal_error")), row),
	}
}

func boundFaults() []Fault {
	recursion, duration, loop := requirements.RunsRecursionLimitBreach, requirements.RunsRunDurationBreach, requirements.RunsLoopLimitBreach
	faults := bound("recursion", "the limit of node executions", "node-executions", "recursion_limit_exceeded", recursion)
	faults = append(faults, bound("duration", "the limit of the run's duration", "run-duration", "run_timeout", duration)...)
	faults = append(faults, bound("loop", "the limit of turns", "loop-iterations", "loop_limit_exceeded", loop)...)
	return append(faults,
		made("recursion-limit-ignored", "recursionLimit is ignored.", "completed|cap.breached", fixing(func(run *referencehost.Run) { run.MaxNodeExecutions = 1000 }), recursion),
		made("recursion-limit-off-by-one", "One node more than recursionLimit is executed.", "node.completed|limit",
			fixing(func(run *referencehost.Run) {
				if run.MaxNodeExecutions < 1000 {
					run.MaxNodeExecutions++
				}
			}), recursion),
		made("recursion-code-of-loops", "A run that reached recursionLimit fails with the code for turns.", "loop_limit_exceeded",
			drafted("run.failed", failedWith("recursion_limit_exceeded"), coded("loop_limit_exceeded")), recursion),
		wire("recursion-limit-huge-refused", "A recursionLimit above the host's own is refused and not clamped.",
			"400", refusedCreate(func(doc object) bool {
				c, _ := doc["configurable"].(object)
				run, _ := c["run"].(object)
				n, _ := run["recursionLimit"].(json.Number)
				return len(n) > 9
			}, func(a *tamper.Answer) { a.Refuse(400, "validation_error", "too large") }), recursion),
		made("run-timeout-ignored", "runTimeoutMs is ignored.", "status|running|completed|run_timeout", fixing(func(run *referencehost.Run) {
			run.Deadline = run.CreatedAt.Add(time.Hour)
		}), duration).slow(),
		made("run-timeout-cancels", "A run whose time is up is cancelled and not failed.", "run.failed after it: false",
			drafted("run.failed", failedWith("run_timeout"), func(d *referencehost.Draft, p object) bool {
				d.Type = "run.cancelled"
				clear(p)
				p["reason"] = "run_timeout"
				return true
			}), duration),
		made("loop-limit-ignored", "maxLoopIterations is ignored.", "completed|cap.breached|loop", fixing(func(run *referencehost.Run) { run.MaxLoopIterations = 100 }), loop),
		made("loop-limit-off-by-one", "One turn more than maxLoopIterations is taken.", "orchestrator.decided|limit|completed",
			fixing(func(run *referencehost.Run) {
				if run.MaxLoopIterations < 100 {
					run.MaxLoopIterations++
				}
			}), loop),
	)
}

// ai is the section of a configurable about models.
func ai(doc object) object {
	c, _ := doc["configurable"].(object)
	section, _ := c["ai"].(object)
	return section
}

func live(r *http.Request) bool { return strings.Contains(r.Header.Get("Authorization"), "wop_live_") }

func aiFaults() []Fault {
	provider, credential, mock := requirements.RunsProviderUnlistedRefused, requirements.RunsCredentialRefRefused, requirements.RunsMockProviderRefused
	unlisted := func(doc object) bool { p := text(ai(doc)["provider"]); return p != "" && p != "mock" }
	foreign := func(doc object) bool {
		c := text(ai(doc)["credentialRef"])
		return c != "" && !strings.HasPrefix(c, "mock")
	}
	mocked := func(doc object) bool { return ai(doc)["mockProvider"] != nil }
	forget := func(when func(object) bool, name string) tamper.Middleware {
		return options(func(doc object) {
			if when(doc) {
				delete(ai(doc), name)
			}
		})
	}
	answer := func(when func(object) bool, status int, code string) tamper.Middleware {
		return refusedCreate(when, func(a *tamper.Answer) {
			if a.Status >= 400 {
				a.Refuse(status, code, "no")
			}
		})
	}
	return []Fault{
		wire("unlisted-provider-accepted", "A provider the host does not list is replaced without a word.", "201", forget(unlisted, "provider"), provider),
		wire("unlisted-provider-422", "A provider the host does not list is refused 422.", "422", answer(unlisted, 422, "capability_required"), provider),
		wire("unlisted-provider-run-made", "A create with a provider the host does not list is refused, and its run made all the same.", "the run list holds",
			refusedAndRun(unlisted, func(doc object) { delete(doc, "configurable") }), provider),
		wire("credential-ref-run-made", "A create with a credential that is not the caller's is refused, and its run made all the same.", "the run list holds",
			refusedAndRun(foreign, func(doc object) { delete(doc, "configurable") }), credential),
		wire("credential-ref-accepted", "A credential that is not the caller's is dropped without a word.", "201", forget(foreign, "credentialRef"), credential),
		wire("credential-ref-not-found", "A credential that is not the caller's is answered 404.", "404", answer(foreign, 404, "credential_not_found"), credential),
		wire("credential-ref-400", "A credential that is not the caller's is refused as malformed.", "400", answer(foreign, 400, "validation_error"), credential),
		wire("mock-provider-in-production", "A production key may use a provider that stands in for one.", "201",
			tamper.Requests(tamper.And(tamper.CreateRun, live), func(r *http.Request) {
				if doc, ok := tamper.BodyJSON(r); ok && mocked(doc) {
					delete(ai(doc), "mockProvider")
					tamper.SetBodyJSON(r, doc)
				}
			}), mock),
		wire("mock-provider-refused-other-code", "A stand-in under a production key is refused with the general code.", "403 forbidden",
			tamper.JSON(tamper.And(tamper.CreateRun, live), 403, func(_ *http.Request, doc map[string]any) {
				if doc["error"] == "mock_provider_forbidden" {
					doc["error"] = "forbidden"
				}
			}), mock),
		wire("mock-provider-refused-400", "A stand-in under a production key is refused as malformed.", "400",
			tamper.Answers(tamper.And(tamper.CreateRun, live), func(_ *http.Request, a *tamper.Answer) {
				if doc, _ := a.JSON(); doc["error"] == "mock_provider_forbidden" {
					a.Refuse(400, "validation_error", "no such member")
				}
			}), mock),
		wire("mock-provider-refused-and-run", "A run with a stand-in under a production key is refused and made.", "the run list holds",
			refusedAndRun(mocked, func(doc object) { delete(doc, "configurable") }), mock),
		// Memory that is distilled within a budget.
		made("distillation-budget-ignored", "A text that does not fit its budget is distilled all the same.", "completed",
			func(c *referencehost.Config) {
				fixing(func(run *referencehost.Run) {
					if run.WorkflowID == "wopcert-distill" {
						run.Configurable = nil
					}
				})(c)
			}, requirements.RunsDistillationBudget).on("memory-distillation-on"),
		made("distillation-code-general", "A text that does not fit its budget fails with a general code.", "node_failed",
			drafted("run.failed", failedWith("token_budget_exceeded"), coded("node_failed")), requirements.RunsDistillationBudget).on("memory-distillation-on"),
		made("distillation-writes-first", "A text that does not fit its budget is written to memory before it fails.", "memory.written",
			logs.Decorating(logs.Edit{Append: func(_ referencehost.Log, drafts []referencehost.Draft) []referencehost.Draft {
				var out []referencehost.Draft
				for _, d := range drafts {
					p, _ := tamper.Decode(d.Payload).(object)
					if d.Type == "node.failed" && failedWith("token_budget_exceeded")(p) {
						early := d
						early.EventID, early.Type = d.EventID+"-early", "memory.written"
						early.Payload = tamper.Encode(object{"memoryRef": "wopcert", "memoryId": "m-1"})
						out = append(out, early)
					}
					out = append(out, d)
				}
				return out
			}}), requirements.RunsDistillationBudget).on("memory-distillation-on"),
	}
}

// refusedAndRun makes a run of what is refused.
func refusedAndRun(when func(doc object) bool, mend func(doc object)) tamper.Middleware {
	return tamper.Instead(tamper.CreateRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		doc, ok := tamper.BodyJSON(r)
		a := tamper.Record(next, r)
		if ok && a.Status >= 400 && when(doc) {
			mend(doc)
			tamper.Ask(next, r, http.MethodPost, "/runs", doc)
		}
		a.Send(w)
	})
}

func constantFaults() []Fault {
	constant := requirements.RunsConfigurableConstant
	after := func(m tamper.Match, status int, edit func(doc object)) tamper.Middleware {
		return func(next http.Handler) http.Handler {
			done := newMarks()
			return tamper.Chain(done.marking(m, status), tamper.JSON(tamper.GetRun, http.StatusOK, func(r *http.Request, doc map[string]any) {
				if _, ok := done.since(tamper.RunSegment(r)); ok {
					edit(doc)
				}
			}))(next)
		}
	}
	gone := func(doc object) { delete(doc, "configurable") }
	return []Fault{
		wire("configurable-lost-on-resume", "A run that was resumed has no configurable any more.", "configurable", after(tamper.ResumeRun, 202, gone), constant),
		wire("configurable-lost-on-pause", "A run that is paused shows another configurable.", "configurable", after(tamper.PauseRun, 202, func(doc object) {
			if c, ok := doc["configurable"].(object); ok {
				c["run"] = object{"recursionLimit": 49}
			}
		}), constant),
		wire("configurable-lost-on-cancel", "A cancelled run shows no configurable.", "configurable", after(tamper.CancelRun, 200, gone), constant),
		wire("configurable-clamped", "A cancelled run shows the time it had left to take.", "configurable", after(tamper.CancelRun, 200, func(doc object) {
			c, _ := doc["configurable"].(object)
			if run, ok := c["run"].(object); ok && run["runTimeoutMs"] != nil {
				run["runTimeoutMs"] = 59_000
			}
		}), constant),
		wire("configurable-clamped-at-once", "The time limit of a run is cut to another one from its first snapshot on.", "runTimeoutMs", snapshot(func(doc object) {
			c, _ := doc["configurable"].(object)
			if run, ok := c["run"].(object); ok && run["runTimeoutMs"] != nil {
				run["runTimeoutMs"] = 1000
			}
		}), constant),
		wire("configurable-not-in-values", "Snapshots in a stream have no configurable.", "configurable",
			tamper.Frames(tamper.Streams("values"), func(*http.Request) tamper.FrameEdit {
				return func(f tamper.Frame, out *tamper.Out) {
					if doc, ok := f.JSON(); ok {
						delete(doc, "configurable")
						f = f.Set("data", string(tamper.Encode(doc)))
					}
					out.Send(f)
				}
			}), constant),
	}
}

func ofSchema(doc object) bool { return doc["workflowId"] == "conformance-configurable-schema" }

// beyondSchema takes out what the workflow's own schema does not admit and
// reports whether there was any.
func beyondSchema(doc object) (found bool) {
	c, _ := doc["configurable"].(object)
	for name, v := range c {
		section, _ := v.(object)
		switch {
		case name == "version":
		case name != "run":
			delete(c, name)
			found = true
		default:
			for key := range section {
				if key != "recursionLimit" {
					delete(section, key)
					found = true
				}
			}
		}
	}
	return found && ofSchema(doc)
}

func schemaFaults() []Fault {
	surfaced, enforced := requirements.RunsConfigurableSchemaSurfaced, requirements.RunsConfigurableSchemaEnforced
	workflow := func(edit func(doc object)) tamper.Middleware {
		return tamper.JSON(tamper.GetWorkflow, http.StatusOK, func(_ *http.Request, doc map[string]any) {
			if doc["configurableSchema"] != nil {
				edit(doc)
			}
		})
	}
	return []Fault{
		wire("configurable-schema-dropped", "A workflow is shown without the schema of its configurable.", "configurableSchema",
			workflow(func(doc object) { delete(doc, "configurableSchema") }), surfaced).blocking(enforced),
		wire("configurable-schema-empty", "A workflow is shown with an empty schema of its configurable.", "configurableSchema",
			workflow(func(doc object) { doc["configurableSchema"] = object{} }), surfaced).blocking(enforced),
		wire("configurable-schema-ignored", "A configurable is not held to the workflow's own schema.", "201",
			options(func(doc object) {
				if ofSchema(doc) {
					beyondSchema(doc)
				}
			}), enforced),
		wire("configurable-schema-at-run-time", "A configurable is held to the workflow's own schema when the run runs.", "201",
			options(func(doc object) {
				if ofSchema(doc) && beyondSchema(doc) {
					doc["workflowId"] = "conformance-failure"
				}
			}), enforced),
		wire("configurable-schema-422", "A configurable that the workflow's own schema does not admit is refused 422.", "422",
			refusedCreate(func(doc object) bool { return ofSchema(doc) && beyondSchema(doc) }, func(a *tamper.Answer) { a.Status = 422 }), enforced),
		wire("configurable-schema-refuses-all", "No configurable is good enough for a workflow with a schema of its own.", "400",
			refusedCreate(func(doc object) bool { return ofSchema(doc) && doc["configurable"] != nil }, func(a *tamper.Answer) {
				a.Refuse(400, "validation_error", "configurable")
			}), enforced),
	}
}

func metadataFaults() []Fault {
	inert := requirements.RunsMetadataInert
	meta := func(name string) func(edit func(doc, metadata object)) tamper.Middleware {
		return func(edit func(doc, metadata object)) tamper.Middleware {
			return options(func(doc object) {
				if m, ok := doc["metadata"].(object); ok && m[name] != nil {
					edit(doc, m)
				}
			})
		}
	}
	shown := func(edit func(doc, metadata object)) tamper.Middleware {
		return snapshot(func(doc object) {
			if m, ok := doc["metadata"].(object); ok {
				edit(doc, m)
			}
		})
	}
	return []Fault{
		made("metadata-limit-honoured", "A limit in the metadata of a run is kept.", "completed|failed|cap.breached", fixing(func(run *referencehost.Run) {
			if strings.Contains(string(run.Metadata), `"recursionLimit"`) {
				run.MaxNodeExecutions = 1
			}
		}), inert),
		wire("metadata-workflow-honoured", "The workflow in the metadata of a run is the one that is run.", "failed|workflowId",
			meta("workflowId")(func(doc, m object) { doc["workflowId"] = m["workflowId"] }), inert),
		wire("metadata-engine-version-shown", "A snapshot shows the version of the engine that the metadata names.", "engineVersion",
			shown(func(doc, m object) {
				if m["engineVersion"] != nil {
					doc["engineVersion"] = m["engineVersion"]
				}
			}), inert),
		wire("metadata-cancels", "A run whose metadata says so is cancelled.", "cancelled|completed",
			tamper.Instead(tamper.CreateRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				doc, _ := tamper.BodyJSON(r)
				m, _ := doc["metadata"].(object)
				if m["cancel"] == true {
					doc["workflowId"], doc["inputs"] = "conformance-cancellable", object{}
					tamper.SetBodyJSON(r, doc)
				}
				a := tamper.Record(next, r)
				if made, _ := a.JSON(); m["cancel"] == true && made["runId"] != nil {
					tamper.Ask(next, r, http.MethodPost, "/runs/"+projected(text(made["runId"]))+"/cancel", object{})
				}
				a.Send(w)
			}), inert),
		wire("metadata-refused", "A create is refused for a note in its metadata.", "400", refusedMetadata(), inert),
		wire("metadata-nested-dropped", "A snapshot leaves out what of the metadata looks like an option.", "metadata",
			shown(func(_, m object) { delete(m, "maxLoopIterations") }), inert),
	}
}

// refusedMetadata refuses what has a note in its metadata.
func refusedMetadata() tamper.Middleware {
	return tamper.Instead(tamper.CreateRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		doc, _ := tamper.BodyJSON(r)
		m, _ := doc["metadata"].(object)
		a := tamper.Record(next, r)
		if m["note"] != nil {
			a.Refuse(http.StatusBadRequest, "validation_error", "metadata")
		}
		a.Send(w)
	})
}
