package scenarios

import (
	"net/http"

	"wopcert/harness"
	"wopcert/requirements"
)

// createRefusals: runs.md, "Create".
func createRefusals() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-create-refusals",
		Title:    "A create without a workflow, or with a callback the host does not take, is refused",
		Document: "runs.md",
		Section:  "Create",
		Gates:    []harness.Gate{endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "no workflowId",
				Witnesses: []requirements.ID{requirements.RunsWorkflowRequired},
				Run: func(t *harness.T) {
					control(t, harness.Primary, endingBody(t))
					t.Expect(requirements.RunsWorkflowRequired, create(t, object{}).Refuses("validation_error"))
					for _, body := range []object{{"inputs": object{}}, {"metadata": object{}}} {
						t.Expect(requirements.RunsWorkflowRequired, refusedCreate(t, body, "validation_error"))
					}
				},
			},
			{
				Name:      "a callbackUrl on the host itself",
				Witnesses: []requirements.ID{requirements.RunsCallbackUrlRefusal},
				Run: func(t *harness.T) {
					control(t, harness.Primary, endingBody(t))
					r := create(t, with(endingBody(t), "callbackUrl", "http://127.0.0.1:9/callback"))
					if r.Err == nil && r.Status >= 200 && r.Status <= 299 {
						t.Inapplicable(requirements.RunsCallbackUrlRefusal, "the host refuses no callbackUrl: %s", answered(r))
						return
					}
					t.Expect(requirements.RunsCallbackUrlRefusal, harness.All(r.Refuses("validation_error"),
						harness.Equal("details.field", any("callbackUrl"), r.Get("details", "field"))).At(r))
				},
			},
		},
	}
}

// evalUnadvertised: runs.md, "Refusals".
func evalUnadvertised() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-eval-unadvertised",
		Title:    "A host without eval suites starts none",
		Document: "runs.md",
		Section:  "Refusals",
		Gates: []harness.Gate{
			harness.HostFact("the host advertises agents.evalSuite", func(d *harness.Discovery) bool { return !gateOpen(d, "agents.evalSuite") }),
			endingFixtures(),
		},
		Tests: []harness.Test{{
			Name:      "mode eval",
			Witnesses: []requirements.ID{requirements.RunsEvalUnadvertisedRefused},
			Run: func(t *harness.T) {
				control(t, harness.Primary, endingBody(t))
				eval := object{"mode": "eval", "evalSuiteRef": "urn:wopcert:none", "agentId": "wopcert.none"}
				for _, body := range []object{eval, with(with(eval, "workflowId", endingBody(t)["workflowId"]), "inputs", inputsOf(endingBody(t)))} {
					body, tag := tagged(body)
					r := create(t, body)
					t.Expect(requirements.RunsEvalUnadvertisedRefused, refusedByHost(t, "createRun with mode eval", r))
					t.Expect(requirements.RunsEvalUnadvertisedRefused, noRunTagged(t, harness.Primary, tag))
				}
			},
		}},
	}
}

func inputsOf(body object) any {
	if inputs, ok := body["inputs"]; ok {
		return inputs
	}
	return object{}
}

// refusedByHost checks for a refusal that lays the fault on the request, with
// whatever code.
func refusedByHost(t *harness.T, what string, r *harness.Response) harness.Check {
	return harness.That(r.Err == nil && r.Status >= 400 && r.Status <= 499 && r.Status != http.StatusTooManyRequests && permittedCode(t.Corpus(), r.Text("error")),
		"4xx with a code the host may use", "%s was answered %s", what, answered(r)).At(r)
}

// gatedTypes: runs.md, "Refusals" and "conversationPrimitive".
func gatedTypes() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-capability-gated-types",
		Title:    "A workflow that needs a capability the host lacks is refused by its name",
		Document: "runs.md",
		Section:  "Refusals",
		Gates: []harness.Gate{
			harness.HostFact("the host advertises conversationPrimitive",
				func(d *harness.Discovery) bool { return !d.Advertises("conversationPrimitive") }),
			endingFixtures(),
		},
		Tests: []harness.Test{{
			Name: "a workflow with core.conversationGate",
			Witnesses: []requirements.ID{
				requirements.RunsCapabilityRequiredRefused,
				requirements.RunsConversationGateRefused,
			},
			Run: func(t *harness.T) {
				control(t, harness.Primary, endingBody(t))
				for _, workflow := range []string{"conformance-conversation-capability-negotiation", "conformance-conversation-lifecycle"} {
					body, tag := tagged(object{"workflowId": workflow})
					r := create(t, body)
					if r.Is(http.StatusNotFound).OK {
						continue // a host may refuse such a workflow before it ever holds it
					}
					refused := t.Expect(requirements.RunsCapabilityRequiredRefused, r.Refuses("capability_required"))
					t.Expect(requirements.RunsCapabilityRequiredRefused, noRunTagged(t, harness.Primary, tag))
					if !refused {
						t.Abort("the create was not refused with capability_required, so that its details name nothing")
					}
					t.Expect(requirements.RunsConversationGateRefused, harness.Equal("details.requiredCapability",
						any("conversationPrimitive"), r.Get("details", "requiredCapability")).At(r))
					return
				}
				const fact = "the host holds no workflow with core.conversationGate"
				t.Inapplicable(requirements.RunsCapabilityRequiredRefused, fact)
				t.Inapplicable(requirements.RunsConversationGateRefused, fact)
			},
		}},
	}
}
