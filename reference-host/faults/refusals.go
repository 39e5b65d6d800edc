package faults

import (
	"net/http"
	"strings"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

func residencyFaults() []Fault {
	unavailable := requirements.RunsResidencyUnavailableRefused
	accepted := requirements.RunsResidencyRegionAccepted
	claimed := requirements.RunsResidencyNotClaimed
	region := func(doc object) string {
		residency, _ := doc["residency"].(object)
		return text(residency["region"])
	}
	nowhere := func(doc object) bool { return region(doc) != "" && !strings.HasSuffix(region(doc), "-test-1") }
	return []Fault{
		wire("residency-ignored", "A region the host does not have is dropped without a word.",
			"201", options(func(doc object) {
				if nowhere(doc) {
					delete(doc, "residency")
				}
			}), unavailable),
		wire("residency-refused-400", "A region the host does not have is refused as malformed.",
			"400 validation_error", refusedCreate(nowhere, func(a *tamper.Answer) { a.Refuse(400, "validation_error", "no such region") }), unavailable),
		wire("residency-refused-other-code", "A region the host does not have is refused 422 with another code.",
			"422 capability_required", refusedCreate(nowhere, func(a *tamper.Answer) { a.Refuse(422, "capability_required", "no such region") }), unavailable),
		wire("residency-refused-and-run", "A run in a region the host does not have is refused and made.",
			"the run list holds", tamper.Instead(tamper.CreateRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				doc, ok := tamper.BodyJSON(r)
				a := tamper.Record(next, r)
				if ok && nowhere(doc) {
					delete(doc, "residency")
					tamper.Ask(next, r, http.MethodPost, "/runs", doc)
				}
				a.Send(w)
			}), unavailable),
		wire("residency-regions-refused", "No region is accepted, though some are advertised.",
			"422", tamper.Requests(tamper.CreateRun, func(r *http.Request) {
				if doc, ok := tamper.BodyJSON(r); ok && strings.HasSuffix(region(doc), "-test-1") {
					doc["residency"] = object{"region": "nowhere"}
					tamper.SetBodyJSON(r, doc)
				}
			}), accepted),
		wire("residency-second-region-refused", "Of the advertised regions only the first is accepted.",
			"us-test-1", tamper.Requests(tamper.CreateRun, func(r *http.Request) {
				if doc, ok := tamper.BodyJSON(r); ok && region(doc) == "us-test-1" {
					doc["residency"] = object{"region": "nowhere"}
					tamper.SetBodyJSON(r, doc)
				}
			}), accepted),
		wire("residency-claimed-in-event", "A host that keeps no region says on run.started that it keeps it.",
			"openwop-residency", withRegion(func(run *marks) tamper.Middleware {
				return ofRuns(run, func(e object) {
					if p, ok := e["payload"].(object); ok && e["type"] == "run.started" {
						p["openwop-residency"] = object{"honored": true}
					}
				})
			}), claimed).on("residency-off-ignored"),
		wire("residency-claimed-in-snapshot", "A host that keeps no region says in the metrics of a snapshot that it keeps it.",
			"residency", withRegion(func(run *marks) tamper.Middleware {
				return tamper.JSON(tamper.GetRun, http.StatusOK, func(r *http.Request, doc map[string]any) {
					if _, ok := run.since(tamper.RunSegment(r)); ok {
						doc["variables"] = object{"residency": "eu-west-1"}
					}
				})
			}), claimed).on("residency-off-ignored"),
		wire("residency-claimed-in-create", "A host that keeps no region repeats it when it answers the create.",
			"region", tamper.Instead(tamper.CreateRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				doc, ok := tamper.BodyJSON(r)
				a := tamper.Record(next, r)
				if made, isDoc := a.JSON(); ok && isDoc && a.Status == http.StatusCreated && region(doc) != "" {
					made["region"] = region(doc)
					a.SetJSON(made)
				}
				a.Send(w)
			}), claimed).on("residency-off-ignored"),
	}
}

// withRegion notes the runs that were created with a residency.
func withRegion(edit func(run *marks) tamper.Middleware) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		run := newMarks()
		return tamper.Chain(edit(run), tamper.Instead(tamper.CreateRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			doc, ok := tamper.BodyJSON(r)
			a := tamper.Record(next, r)
			if made, _ := a.JSON(); ok && doc["residency"] != nil && made["runId"] != nil {
				run.set(projected(text(made["runId"])))
			}
			a.Send(w)
		}))(next)
	}
}

// ofRuns edits the events of marked runs.
func ofRuns(run *marks, edit func(e object)) tamper.Middleware {
	return tamper.Events(func(e map[string]any) bool {
		if _, ok := run.since(projected(text(e["runId"]))); ok {
			edit(e)
		}
		return true
	})
}

func conversationRefusalFaults() []Fault {
	required := requirements.RunsCapabilityRequiredRefused
	gate := requirements.RunsConversationGateRefused
	conversation := func(doc object) bool { return strings.HasPrefix(text(doc["workflowId"]), "conformance-conversation-") }
	details := func(d object) tamper.Middleware {
		return refusedCreate(conversation, func(a *tamper.Answer) {
			doc, _ := a.JSON()
			delete(doc, "details")
			if d != nil {
				doc["details"] = d
			}
			a.SetJSON(doc)
		})
	}
	off := func(f Fault) Fault { return f.on("conversation-off") }
	return []Fault{
		off(wire("conversation-started", "A workflow that needs a capability the host lacks is started.",
			"201", options(func(doc object) {
				if conversation(doc) {
					doc["workflowId"] = "conformance-noop"
				}
			}), required).blocking(gate)),
		off(wire("conversation-refused-400", "A workflow that needs a capability the host lacks is refused as malformed.",
			"400", refusedCreate(conversation, func(a *tamper.Answer) { a.Refuse(400, "validation_error", "no such node") }), required).blocking(gate)),
		off(wire("conversation-refused-other-code", "A workflow that needs a capability the host lacks is refused with the code for one nobody provides.",
			"capability_not_provided", refusedCreate(conversation, func(a *tamper.Answer) { a.Refuse(422, "capability_not_provided", "no conversation") }),
			required).blocking(gate)),
		off(wire("conversation-refused-and-run", "A workflow that needs a capability the host lacks is refused and run.",
			"the run list holds", tamper.Instead(tamper.CreateRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				doc, ok := tamper.BodyJSON(r)
				a := tamper.Record(next, r)
				if ok && conversation(doc) {
					doc["workflowId"] = "conformance-noop"
					tamper.Ask(next, r, http.MethodPost, "/runs", doc)
				}
				a.Send(w)
			}), required)),
		off(wire("conversation-refused-without-details", "The refusal does not say which capability a workflow needs.",
			"requiredCapability", details(nil), gate)),
		off(wire("conversation-refused-by-type", "The refusal names the type of the node and not the capability.",
			"core.conversationGate", details(object{"requiredCapability": "core.conversationGate"}), gate)),
		off(wire("conversation-refused-by-path", "The refusal names the capability by a path.",
			"capabilities.conversationPrimitive", details(object{"requiredCapability": "capabilities.conversationPrimitive"}), gate)),
	}
}
