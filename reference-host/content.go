package referencehost

import (
	"wopcert/reference-host/internal/envelope"
)

// The limits of one turn of a node that emits envelopes, as they are advertised. A clarification is recorded like any
// envelope: without the family interrupt there is nobody to ask.
const (
	clarificationRounds = 8
	schemaRounds        = 8
	envelopesPerTurn    = 64
)

// The provider behind the nodes that call a model. It is part of the host and sends nothing anywhere.
const (
	mockProvider    = "mock"
	mockModel       = "mock-1"
	mockStreamText  = "stream-text"
	hostEventsPath  = "/host/events"
	maxTasksInSuite = 50
)

// mockProviders are the testing providers that discovery lists. They stand in for a model, so without AI providers
// there are none.
func (h *Host) mockProviders() []string {
	if !h.advertises("aiProviders") {
		return []string{}
	}
	return []string{mockStreamText}
}

// contentFamilies are those of what runs produce and of who judges it.
func (h *Host) contentFamilies() familySet {
	return familySet{
		"limits": {
			"clarificationRounds": clarificationRounds, "schemaRounds": schemaRounds, "envelopesPerTurn": envelopesPerTurn,
		},
		"dataResidency": {"regions": []any{"eu-test-1", "us-test-1"}},
		// An event is no target: whoever wants to judge one judges its node.
		"feedback":              {"targets": []any{"run", "node"}, "signals": []any{"rating", "correction", "label", "flag"}},
		"agents":                {"evalSuite": map[string]any{"modes": []any{"golden"}, "maxTasksPerSuite": maxTasksInSuite}},
		"conversationPrimitive": nil,
		"heartbeat":             {"deliveryChannel": hostEventsPath, "minIntervalSec": 1, "maxRuntimeMs": 1000},
		"aiProviders":           {"providers": []any{mockProvider}, "byok": []any{mockProvider}},
		"supportedEnvelopes":    {"kinds": []any{envelope.KindNote, envelope.KindMemo}},
		"schemaVersions":        {"kinds": map[string]any{envelope.KindNote: envelope.NoteVersion}},
		// No mode: absent is warn.
		"envelopeStrictness": nil,
		"envelopeContracts":  {"advertised": true},
		"envelopes":          {"tierOneSubsetCompliance": "strict"},
		"providerUsage":      {"costEstimates": true, "currency": "USD"},
	}
}

// contentRoutes are the operations of annotations, artifacts, eval summaries and host events.
func (h *Host) contentRoutes() map[string]route {
	channel, _ := h.facet("heartbeat", "deliveryChannel").(string) // a host may declare another address
	return map[string]route{
		"createAnnotation": {answer: h.createAnnotation},
		"listAnnotations":  {answer: h.listAnnotations},
		"getArtifact":      {answer: h.getArtifact},
		"getEvalSummary":   {answer: h.getEvalSummary},
		"streamHostEvents": {stream: h.streamHostEvents, path: channel},
	}
}

// contentTypes are the node types that produce content.
func (h *Host) contentTypes() []NodeType {
	return []NodeType{
		{ID: "conformance.artifact.emit", Run: h.runArtifact, SideEffect: true},
		{ID: "conformance.envelope.emit", Run: h.runEnvelopes},
		{ID: "core.ai.callPrompt", Run: h.runPrompt},
		{ID: "core.conversationGate", Run: h.runConversation},
		{ID: evalNodeType, Run: h.runEval},
	}
}
