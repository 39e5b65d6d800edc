package referencehost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
)

// The kinds of interrupts (interrupt.md). What is not named here needs no rule of its own.
const (
	kindApproval      = "approval"
	kindClarification = "clarification"
	kindExternalEvent = "external-event"
	kindStart         = "conversation.start"
	kindExchange      = "conversation.exchange"
	kindClose         = "conversation.close"
	kindLowConfidence = "low-confidence"
	kindCredential    = "credential"
)

// kindGate is the family, or facet, without which a host raises no interrupt of the kind.
func kindGate(kind string) string {
	switch kind {
	case kindStart, kindExchange, kindClose:
		return "conversationPrimitive"
	case kindCredential:
		return "oauth.credentialInterrupt"
	}
	return "interrupt"
}

// gateTypes are the node types that wait for somebody.
func (h *Host) gateTypes() []NodeType {
	return []NodeType{
		{ID: typeApproval, Run: h.runApproval},
		{ID: "core.clarificationGate", Run: h.runClarification},
		{ID: typeInterrupt, Run: h.runInterrupt},
		{ID: "core.externalEvent", Run: h.runExternalEvent},
		{ID: "core.conformance.mock-agent", Run: h.runMockAgent},
	}
}

// The types that the host looks at beyond running them.
const (
	typeApproval  = "core.approvalGate"
	typeInterrupt = "core.interrupt"
)

// settings are the members of a node's config with its inputs over them, so that a workflow may give any of them as a
// variable of the run.
func settings(call *Call) (map[string]json.RawMessage, error) {
	all := make(map[string]json.RawMessage)
	if err := call.DecodeConfig(&all); err != nil {
		return nil, err
	}
	maps.Copy(all, call.Inputs)
	return all, nil
}

// take moves the members out of settings that belong to the interrupt's data.
func take(all map[string]json.RawMessage, names ...string) map[string]json.RawMessage {
	data := make(map[string]json.RawMessage)
	for _, name := range names {
		if value, ok := all[name]; ok {
			data[name] = value
			delete(all, name)
		}
	}
	return data
}

// raise asks, with what every kind has from the rest of the settings.
func (h *Host) raise(ctx context.Context, call *Call, kind string, data any, rest map[string]json.RawMessage) (*engine.Resolution, error) {
	encoded, err := encode(data)
	if err != nil {
		return nil, err
	}
	interrupt := engine.Interrupt{Kind: kind, Key: call.Key(), Data: encoded, ResumeSchema: rest["resumeSchema"]}
	for name, target := range map[string]any{"key": &interrupt.Key, "timeoutMs": &interrupt.TimeoutMs} {
		if value, ok := rest[name]; ok {
			if err := json.Unmarshal(value, target); err != nil {
				return nil, configRefusal(name + " cannot be read")
			}
		}
	}
	for name := range rest {
		if !slices.Contains([]string{"resumeSchema", "timeoutMs", "key", "authRequired", "override", "tokenLifetimeMs"}, name) {
			return nil, configRefusal("the node has no setting " + name)
		}
	}
	return h.interrupt(ctx, call, interrupt)
}

// interrupt asks, unless the payload is one the contract or this host does not let through: then the node records that
// it could not wait, and fails.
func (h *Host) interrupt(ctx context.Context, call *Call, interrupt engine.Interrupt) (*engine.Resolution, error) {
	if err := h.checkInterrupt(&interrupt); err != nil {
		refused := configRefusal(err.Error())
		return nil, errors.Join(refused, call.Emit(engine.Entry{Type: eventlog.NodeSuspendFailed, Payload: map[string]any{
			"nodeId": call.NodeID, "error": map[string]any{"code": refused.Code, "message": refused.Message},
		}}))
	}
	return call.Interrupt(ctx, interrupt)
}

func configRefusal(message string) *NodeError {
	return &NodeError{Code: "node_config_invalid", Message: message, Final: true}
}

func (h *Host) checkInterrupt(interrupt *engine.Interrupt) error {
	if gate := kindGate(interrupt.Kind); !h.advertises(gate) && interrupt.Kind != kindExternalEvent {
		return fmt.Errorf("an interrupt of the kind %s needs %s, which this host does not advertise", interrupt.Kind, gate)
	}
	payload, err := encode(interrupt)
	if err != nil {
		return err
	}
	if err := h.contract.Validate("suspend-request", payload); err != nil {
		return fmt.Errorf("the interrupt is none: %w", err)
	}
	if solicits(payload) {
		return errors.New("an interrupt asks nobody for a credential; a credential is acquired through the kind credential")
	}
	_, err = resumeRules(interrupt.Kind, payload)
	return err
}

// approvalSettings are the members of an approval's data.
func approvalSettings() []string {
	return []string{
		"artifactId", "artifactType", "title", "description", "artifactData", "actions", "requiredApprovals", "rejectionPolicy",
		"overrideBypassesQuorum", "approversList", "approverGroupRefs", "approverRoleRefs", "audience", "onTimeout",
	}
}

// runApproval is core.approvalGate: the run goes on with what was approved, and fails when it was not.
func (h *Host) runApproval(ctx context.Context, call *Call) (Values, error) {
	all, err := settings(call)
	if err != nil {
		return nil, err
	}
	data := take(all, approvalSettings()...)
	for name, fallback := range map[string]any{
		"artifactId": call.NodeID, "artifactType": "decision", "title": "Approval", "actions": []string{actionAccept, actionReject},
	} {
		if _, given := data[name]; !given {
			data[name], _ = encode(fallback) // text always encodes
		}
	}
	resolution, err := h.raise(ctx, call, kindApproval, data, all)
	if err != nil {
		return nil, err
	}
	if resolution.Decision == decisionRejected {
		return nil, &NodeError{Code: h.codes.approvalRejected.Code, Message: "The gate was rejected.", Final: true}
	}
	outputs := Values{}
	outputs["action"], _ = encode(resolution.Action) // text always encodes
	switch {
	case resolution.EditedArtifactData != nil:
		outputs["artifactData"] = resolution.EditedArtifactData
	case data["artifactData"] != nil:
		outputs["artifactData"] = data["artifactData"]
	}
	if resolution.RefineFeedback != nil {
		outputs["refineFeedback"] = resolution.RefineFeedback
	}
	return outputs, nil
}

type question struct {
	ID       string          `json:"id"`
	Question string          `json:"question"`
	Schema   json.RawMessage `json:"schema,omitempty"`
}

// runClarification is core.clarificationGate. The answers are an object with one member for each question, which is
// what its resume schema says unless the workflow has one of its own.
func (h *Host) runClarification(ctx context.Context, call *Call) (Values, error) {
	all, err := settings(call)
	if err != nil {
		return nil, err
	}
	data := take(all, "questions", "contextType")
	if _, given := all["resumeSchema"]; !given {
		var questions []question
		if err := json.Unmarshal(data["questions"], &questions); err != nil {
			return nil, configRefusal("questions cannot be read")
		}
		if all["resumeSchema"], err = encode(answersSchema(questions)); err != nil {
			return nil, err
		}
	}
	resolution, err := h.raise(ctx, call, kindClarification, data, all)
	if err != nil {
		return nil, err
	}
	if err := inTime(resolution); err != nil {
		return nil, err
	}
	var value map[string]json.RawMessage
	if err := json.Unmarshal(resolution.ResumeValue, &value); err != nil || value["answers"] == nil {
		return Values{"answers": resolution.ResumeValue}, nil
	}
	return Values{"answers": value["answers"]}, nil
}

func answersSchema(questions []question) map[string]any {
	required, properties := make([]string, 0, len(questions)), make(map[string]any)
	for _, q := range questions {
		required = append(required, q.ID)
		properties[q.ID] = map[string]any{"type": "string"}
		if q.Schema != nil {
			properties[q.ID] = q.Schema
		}
	}
	return map[string]any{
		"type": "object", "required": []string{"answers"}, "properties": map[string]any{
			"answers": map[string]any{"type": "object", "required": required, "properties": properties},
		},
	}
}

// inTime turns a timeout into the failure of the node.
func inTime(resolution *engine.Resolution) error {
	if resolution.Reason == engine.ReasonTimeout {
		return &NodeError{Code: "interrupt_expired", Message: "Nobody resolved the interrupt in time.", Final: true}
	}
	return nil
}

// runInterrupt is core.interrupt: an interrupt of any kind, with its data as the workflow has it. The ids of
// conversations are the host's, so that they are unique in the tenant (interrupt.md §Payload).
func (h *Host) runInterrupt(ctx context.Context, call *Call) (Values, error) {
	all, err := settings(call)
	if err != nil {
		return nil, err
	}
	var kind string
	if err := json.Unmarshal(all["kind"], &kind); err != nil {
		return nil, configRefusal("the node has no kind")
	}
	var data map[string]json.RawMessage
	if err := json.Unmarshal(all["data"], &data); err != nil {
		return nil, configRefusal("the node has no data")
	}
	delete(all, "kind")
	delete(all, "data")
	if kindGate(kind) == "conversationPrimitive" {
		if _, given := data["conversationId"]; given {
			return nil, configRefusal("the host gives a conversation its id")
		}
		if data["conversationId"], err = h.conversationOf(call, kind); err != nil {
			return nil, err
		}
	}
	resolution, err := h.raise(ctx, call, kind, data, all)
	if err != nil {
		return nil, err
	}
	if err := inTime(resolution); err != nil {
		return nil, err
	}
	if resolution.Decision == decisionRejected {
		return nil, &NodeError{Code: h.codes.approvalRejected.Code, Message: "The interrupt was rejected.", Final: true}
	}
	return Values{"resumeValue": resolution.ResumeValue}, nil
}

// runExternalEvent is core.externalEvent, which waits for something outside and is no gate of the family interrupt.
func (h *Host) runExternalEvent(ctx context.Context, call *Call) (Values, error) {
	all, err := settings(call)
	if err != nil {
		return nil, err
	}
	data := take(all, "eventType", "correlation")
	if _, given := data["correlation"]; !given {
		data["correlation"] = json.RawMessage(`{}`)
	}
	resolution, err := h.raise(ctx, call, kindExternalEvent, data, all)
	if err != nil {
		return nil, err
	}
	if err := inTime(resolution); err != nil {
		return nil, err
	}
	return Values{"resumeValue": resolution.ResumeValue}, nil
}
