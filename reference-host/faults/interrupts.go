package faults

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"

	"wopcert/fixtures"
	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// ofAsked makes an edit of the interrupts of a kind.
func ofAsked(kind string, edit func(p, data object)) func(object) {
	return func(p object) {
		if p["kind"] == kind {
			edit(p, dataOf(p))
		}
	}
}

// waitingIn edits the snapshots of runs that wait.
func waitingIn(edit func(doc object)) tamper.Middleware {
	return tamper.JSON(tamper.GetRun, http.StatusOK, func(_ *http.Request, doc map[string]any) {
		if len(text(doc["status"])) > 8 && text(doc["status"])[:8] == "waiting-" {
			edit(doc)
		}
	})
}

// creating edits the creates of runs of a workflow.
func creating(workflow string, edit func(doc, inputs object)) tamper.Middleware {
	return tamper.Requests(tamper.CreateRun, func(r *http.Request) {
		doc, ok := tamper.BodyJSON(r)
		if !ok || doc["workflowId"] != workflow {
			return
		}
		inputs, _ := doc["inputs"].(object)
		edit(doc, inputs)
		tamper.SetBodyJSON(r, doc)
	})
}

// redefined puts another text into the definition of a workflow.
func redefined(workflow, was, is string) func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		c.Fixtures = slices.Clone(c.Fixtures)
		for i, w := range c.Fixtures {
			if w.ID == workflow {
				c.Fixtures[i] = fixtures.Workflow{ID: w.ID, Name: w.Name, Description: w.Description,
					Document: bytes.Replace(w.Document, []byte(was), []byte(is), 1)}
			}
		}
	}
}

func interruptPayloadFaults() []Fault {
	payload, verbatim, waiting := requirements.InterruptPayload, requirements.InterruptPayloadVerbatim, requirements.InterruptWaitingStatus
	custom, inspects, inspecting := requirements.InterruptCustomPersisted, requirements.InterruptTokenInspects, requirements.InterruptInspectToken
	return []Fault{
		wire("interrupt-with-its-id", "interrupt.requested carries the id of the interrupt beside what the node raised.", "interruptId",
			raised(func(p object) { p["interruptId"] = "tenant-a/interrupt-0123456789" }), payload, inspects, inspecting),
		wire("approval-without-artifact", "The data of an approval does not say what it is about.", "artifact",
			raised(ofAsked("approval", func(_, data object) { delete(data, "artifactId"); delete(data, "artifactType") })), payload, inspects, inspecting),
		wire("clarification-recorded-as-custom", "A clarification is recorded as an interrupt of the host's own kind.", "kind|custom",
			tamper.Events(func(e map[string]any) bool {
				if p, ok := e["payload"].(object); ok && e["type"] == "interrupt.requested" && p["kind"] == "clarification" {
					p["kind"], p["data"] = "custom", object{"customKind": "question", "payload": p["data"]}
				}
				return true
			}), payload, verbatim, requirements.InterruptKindSpecificTypes).blocking(requirements.InterruptClarificationStatus, requirements.InterruptResolvedRecorded),
		wire("timeout-not-recorded", "The deadline of an interrupt is kept, and not shown.", "timeoutMs", raised(func(p object) {
			if number(p["timeoutMs"]) == "600000" {
				delete(p, "timeoutMs")
			}
		}), verbatim),
		wire("resume-schema-normalized", "The host writes the resumeSchema of an interrupt in its own way.", "resumeSchema", raised(func(p object) {
			if schema, ok := p["resumeSchema"].(object); ok && schema["additionalProperties"] == true {
				delete(schema, "additionalProperties")
			}
		}), verbatim),
		wire("approval-actions-sorted", "The actions of an approval are put into an order.", "actions",
			raised(ofAsked("approval", func(_, data object) {
				if list, ok := data["actions"].([]any); ok {
					slices.SortFunc(list, func(a, b any) int { return bytes.Compare([]byte(text(a)), []byte(text(b))) })
				}
			})), verbatim),
		wire("correlation-flattened", "The correlation of an external event keeps its texts only.", "data",
			raised(ofAsked("external-event", func(_, data object) {
				if correlation, ok := data["correlation"].(object); ok {
					delete(correlation, "nested")
				}
			})), verbatim),
		wire("suspended-without-node", "A run that waits for an approval does not say where.", "currentNodeId", waitingIn(func(doc object) {
			if doc["status"] == "waiting-approval" {
				delete(doc, "currentNodeId")
			}
		}), waiting),
		wire("suspended-at-another-node", "A run that waits for an approval names the node before.", "currentNodeId", waitingIn(func(doc object) {
			if doc["status"] == "waiting-approval" {
				doc["currentNodeId"] = "start"
			}
		}), waiting),
		wire("approval-waits-for-input", "A run that waits for an approval is waiting-input.", "waiting-input", waitingIn(func(doc object) {
			if doc["status"] == "waiting-approval" {
				doc["status"] = "waiting-input"
			}
		}), waiting),
		wire("clarification-waits-for-approval", "A run that waits for an answer is waiting-approval.", "waiting-approval", waitingIn(func(doc object) {
			if doc["currentNodeId"] == "ask" {
				doc["status"] = "waiting-approval"
			}
		}), requirements.InterruptClarificationStatus),
		wire("clarification-waits-externally", "A run that waits for an answer is waiting-external.", "waiting-external", waitingIn(func(doc object) {
			if doc["currentNodeId"] == "ask" {
				doc["status"] = "waiting-external"
			}
		}), requirements.InterruptClarificationStatus),
		wire("custom-payload-dropped", "What an interrupt of a kind of nobody's holds is not kept.", "data", raised(ofAsked("custom", func(_, data object) {
			if data["customKind"] == "x" {
				delete(data, "payload")
			}
		})), custom),
		wire("custom-payload-objects-only", "The payload of a custom interrupt is made an object.", "data", raised(ofAsked("custom", func(_, data object) {
			if list, ok := data["payload"].([]any); ok {
				data["payload"] = object{"items": list}
			}
		})), custom),
		wire("custom-kind-unknown-fails", "A node with a customKind the host does not know fails.", "failed", creating("wopcert-interrupt", func(_, inputs object) {
			if data, _ := inputs["data"].(object); text(data["customKind"]) == "com.example.sign-off/v7" {
				inputs["kind"] = "unknown"
			}
		}), custom),
	}
}

func interruptKindFaults() []Fault {
	outcome, suspends, threshold := requirements.InterruptConversationOutcomeSchema, requirements.InterruptLowConfidenceSuspends, requirements.InterruptEscalationThreshold
	secret := requirements.InterruptNoCredentialSolicited
	const unsure = "conformance-agent-low-confidence"
	section := func(doc object) object {
		configurable, _ := doc["configurable"].(object)
		run, _ := configurable["run"].(object)
		return run
	}
	return []Fault{
		wire("conversation-id-of-workflow", "Every conversation of a workflow has the same id.", "in two runs", tamper.Events(func(e map[string]any) bool {
			if p, ok := e["payload"].(object); ok {
				for _, doc := range []object{p, dataOf(p)} {
					if _, has := doc["conversationId"]; has {
						doc["conversationId"] = "conversation-1"
					}
				}
			}
			return true
		}), requirements.InterruptConversationIdUnique),
		wire("outcome-schema-ignored", "What a user says is taken whatever it was to be.", "200", settled(at("talk"), 400, "validation_error", nil, accepted), outcome),
		wire("outcome-refused-as-conflict", "An answer of another shape than was asked for is refused with another code.", "409",
			settled(at("talk"), 400, "validation_error", nil, recoded(409, "run_state_conflict")), outcome),
		wire("outcome-always-refused", "No answer in a conversation is taken.", "400", tamper.Answers(at("talk"), func(_ *http.Request, a *tamper.Answer) {
			a.Refuse(400, "validation_error", "not an outcome")
		}), outcome),
		wire("low-confidence-carried-out", "A decision of low confidence is carried out.", "node.completed", creating(unsure, func(doc, _ object) {
			if doc["configurable"] == nil {
				doc["configurable"] = object{"version": 1, "run": object{"escalationThreshold": 0}}
			}
		}), suspends),
		wire("low-confidence-unsaid", "A run that waits for want of confidence does not say why.", "after the decision", shown(func(p object) {
			delete(p, "reason")
		}, "node.suspended"), suspends, threshold),
		wire("threshold-of-run-ignored", "The threshold of a run is that of the host.", "node.suspended", creating(unsure, func(doc, _ object) {
			delete(section(doc), "escalationThreshold")
		}), threshold),
		wire("threshold-only-raised", "The threshold of a run is never lower than that of the host.", "node.suspended", creating(unsure, func(doc, _ object) {
			if run := section(doc); fmt.Sprint(run["escalationThreshold"]) < "0.7" {
				delete(run, "escalationThreshold")
			}
		}), threshold),
		wire("threshold-only-lowered", "The threshold of a run is never higher than that of the host.", "node.completed|run.completed|after the decision", creating(unsure, func(doc, _ object) {
			if run := section(doc); run["escalationThreshold"] != nil && fmt.Sprint(run["escalationThreshold"]) > "0.7" {
				run["escalationThreshold"] = 0.4
			}
		}), threshold),
		wire("clarification-asks-for-password", "A clarification has a field for a password.", "password", raised(ofAsked("clarification", func(p, _ object) {
			if schema, ok := p["resumeSchema"].(object); ok {
				properties, _ := schema["properties"].(object)
				properties["password"] = object{"type": "string"}
			}
		})), secret),
		wire("external-event-asks-for-key", "What answers an external event is to hold an API key.", "api_key", raised(ofAsked("external-event", func(p, data object) {
			if data["eventType"] == "conformance.event" {
				p["resumeSchema"] = object{"type": "object", "properties": object{"api_key": object{"type": "string"}}}
			}
		})), secret),
	}
}

func interruptEventFaults() []Fault {
	recorded, action := requirements.InterruptResolvedRecorded, requirements.InterruptApprovalActionRecorded
	kinds, streamed := requirements.InterruptKindSpecificTypes, requirements.InterruptEventsStreamed
	resolvedAs := func(act string, edit func(p object)) tamper.Middleware {
		return shown(func(p object) {
			if act == "" || p["action"] == act {
				edit(p)
			}
		}, "interrupt.resolved")
	}
	unstreamed := func(mode, typ string) tamper.Middleware {
		return tamper.Frames(tamper.Streams(mode), func(*http.Request) tamper.FrameEdit {
			return func(f tamper.Frame, out *tamper.Out) {
				if doc, ok := f.JSON(); !ok || doc["type"] != typ {
					out.Send(f)
				}
			}
		})
	}
	return []Fault{
		wire("resolved-another-interrupt", "interrupt.resolved names another interrupt than was requested.", "interruptId", shown(func(p object) {
			p["interruptId"] = "tenant-a/interrupt-0123456789"
		}, "interrupt.resolved"), recorded).
			also("interruptId", requirements.InterruptTokenResolves),
		wire("resolved-without-value", "What a question was answered is not in interrupt.resolved.", "resumeValue", shown(func(p object) {
			if p["kind"] == "clarification" {
				delete(p, "resumeValue")
			}
		}, "interrupt.resolved"), recorded),
		wire("resolved-with-time", "interrupt.resolved says when it was.", "invalid|resolvedAt", shown(func(p object) {
			p["resolvedAt"] = "2026-03-01T12:00:00Z"
		}, "interrupt.resolved"), recorded).
			also("an invalid payload: unknown members 'resolvedAt'", requirements.InterruptTokenResolves),
		wire("refine-without-action", "The interrupt.resolved of a refine names no action.", "action", resolvedAs("refine", func(p object) { delete(p, "action") }), action).
			also("action of interrupt.resolved absent", requirements.InterruptTokenResolves),
		wire("edit-accept-recorded-as-accept", "An edit-accept is recorded as an accept.", "accept", resolvedAs("edit-accept", func(p object) { p["action"] = "accept" }), action).
			also("action of interrupt.resolved \"accept", requirements.InterruptTokenResolves),
		wire("refine-feedback-dropped", "What was to be refined is not in interrupt.resolved.", "refineFeedback", resolvedAs("refine", func(p object) { delete(p, "refineFeedback") }),
			requirements.InterruptRefineFeedbackRecorded).
			also("refineFeedback of interrupt.resolved null", requirements.InterruptTokenResolves),
		wire("refine-tags-dropped", "The feedback of a refine is recorded without its tags.", "refineFeedback", resolvedAs("refine", func(p object) {
			feedback, _ := p["refineFeedback"].(object)
			delete(feedback, "tags")
		}), requirements.InterruptRefineFeedbackRecorded),
		wire("edited-data-dropped", "What was edited is not in interrupt.resolved.", "editedArtifactData", resolvedAs("edit-accept", func(p object) { delete(p, "editedArtifactData") }),
			requirements.InterruptEditedDataRecorded).
			also("editedArtifactData of interrupt.resolved null", requirements.InterruptTokenResolves),
		wire("edited-data-tidied", "What was edited is recorded without its empty members.", "editedArtifactData", resolvedAs("edit-accept", func(p object) {
			data, _ := p["editedArtifactData"].(object)
			body, _ := data["body"].(object)
			delete(body, "list")
		}), requirements.InterruptEditedDataRecorded),
		made("kind-events-left-out", "Interrupts are recorded under the two types of all kinds only.", "no approval.requested|no clarification.requested",
			func(c *referencehost.Config) { c.NoKindEvents = true }, kinds),
		wire("kind-event-of-its-own", "approval.requested says less than interrupt.requested.", "payload of approval.requested", shown(func(p object) {
			delete(dataOf(p), "title")
			dataOf(p)["title"] = "Approval"
		}, "approval.requested"), kinds),
		wire("requested-not-in-updates", "The stream of updates leaves interrupts out.", "interrupt.requested", unstreamed("updates", "interrupt.requested"), streamed).
			also("event 4 node.cancelled where event 3 interrupt.requested", requirements.EventsUpdatesTier),
		wire("resolved-not-in-updates", "The stream of updates leaves the end of interrupts out.", "interrupt.resolved", unstreamed("updates", "interrupt.resolved"), streamed),
		wire("requested-not-in-debug", "The stream for debugging leaves interrupts out.", "interrupt.requested", unstreamed("debug", "interrupt.requested"), streamed).
			also("event 4 node.cancelled where event 3 interrupt.requested", requirements.EventsDebugComplete),
	}
}
