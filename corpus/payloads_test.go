package corpus

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hatchless are the payloads that were closed already in major 1: they take no
// vendor member. Every other closed payload takes openwop-, x- and vendor. members.
const hatchless = `voiceSpeechStart voiceTranscript voiceEndpointCandidate voiceTurnCommit voiceSynthesisChunk voiceBargeIn voiceCancelled
authorizationDecided proposalCreated proposalActivated goalEvaluated goalClosed importApplied connectorAuthorized connectorAuthExpired
coreWorkflowChainEvent coreWorkflowChainConfidenceEscalated runDeadLettered channelWritten channelPresence contextSummarized
replayDivergedAtRefusal providerUsage promptComposed agentPromptResolved modelCapabilitySubstituted modelCapabilityInsufficient
envelopeRetryAttempted envelopeRetryExhausted envelopeRefusal envelopeTruncated envelopeNlToFormatEngaged envelopeRecoveryApplied
agentVerified runOrchestratorDecided nodeDispatched dispatchFanOut dispatchJoin workspaceUpdated budgetReserved budgetConsumed
budgetThresholdCrossed budgetExhausted deploymentPromoted deploymentRolledBack deploymentCanaryAdjusted deploymentStateChanged
rosterRunInitiated compensationRequested compensationStarted compensationCompleted compensationFailed compensationPaused
compensationManualInterventionRequired negotiationDecided interruptRequested approvalRequested clarificationRequested`

// Every payload: its smallest instance passes, each required member is needed, an
// unknown member is refused, and the vendor hatch is open exactly where it should be.
func TestEveryPayload(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	s := newSampler(t)
	closed := strings.Fields(hatchless)
	for _, e := range c.Events() {
		t.Run(e.Type, func(t *testing.T) {
			file, node := "run-event-payloads", s.file("run-event-payloads")["$defs"].(map[string]any)[e.Payload].(map[string]any)
			for node["$ref"] != nil {
				file, node = s.resolve(file, node["$ref"].(string))
			}
			var least any
			if file == "suspend-request" {
				least = decode(t, approval)
			} else {
				least = s.sample(file, node)
			}
			require.NoError(t, c.ValidatePayload(e.Type, least))
			for _, member := range requiredOf(node) {
				require.Contains(t, keywords(violations(t, c.ValidatePayload(e.Type, with(least, member, nil)))), "required", member)
			}
			if e.Type == "run.resumed" {
				require.NoError(t, c.ValidatePayload(e.Type, with(least, "zz", 1)), "the one open payload")
				return
			}
			require.Equal(t, []string{"additionalProperties"}, keywords(violations(t, c.ValidatePayload(e.Type, with(least, "zz", 1)))))
			for _, member := range []string{"openwop-x", "x-note", "vendor.acme.note"} {
				err := c.ValidatePayload(e.Type, with(least, member, map[string]any{"any": []any{}}))
				if slices.Contains(closed, e.Payload) {
					require.Error(t, err, member)
				} else {
					require.NoError(t, err, member)
				}
			}
			require.Error(t, c.ValidatePayload(e.Type, nil))
			require.Error(t, c.ValidatePayload(e.Type, []any{}))
		})
	}
}

func keywords(found []Violation) []string {
	var names []string
	for _, v := range found {
		names = append(names, v.Keyword)
	}
	return names
}

func TestPayloadDetails(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	good := map[string][]string{
		"run.started":              {`{"workflowId":"w","owner":` + owner + `,"transport":"mcp","inputs":{},"tags":[],"metadata":{},"engineVersion":1}`},
		"run.completed":            {`{"outputs":{}}`, `{"outputs":{"a":null},"durationMs":0}`},
		"run.failed":               {`{"error":{"code":"run_timeout","message":"m","retryable":false,"x-trace":"1"},"failedNodeId":"n"}`},
		"run.cancelled":            {`{}`, `{"reason":"parent-cancelled","cancelledBy":"u","durationMs":1,"parentRunId":` + runID + `}`},
		"run.paused":               {`{"drainPolicy":"immediate","interruptedNodeId":"n","interruptedAttempt":1}`},
		"node.suspended":           {`{"nodeId":"n","interruptId":` + runID + `,"kind":"credential","reason":"timeout","key":"k"}`},
		"interrupt.resolved":       {`{"nodeId":"n","interruptId":` + runID + `,"resolvedBy":` + subject + `,"decision":"overridden","action":"refine","refineFeedback":{"scope":"items","itemIds":["a"]}}`},
		"approval.granted":         {`{"nodeId":"n","interruptId":` + runID + `,"resumeValue":null}`},
		"output.chunk":             {`{"nodeId":"n","runId":` + runID + `,"chunk":"","isLast":true,"meta":{"finishReason":"stop","usage":{"totalTokens":1}}}`},
		"cap.breached":             {`{"kind":"budget-cost","limit":0.5,"observed":0.75}`},
		"conversation.opened":      {`{"conversationId":"c","participants":[{"agentId":"host:a"}],"capabilities":["streaming"]}`},
		"orchestrator.decided":     {`{"agentId":"a","decision":{"kind":"terminate","successCriteria":[{"key":"k","met":true}]},"iteration":1}`},
		"envelope.retry-attempted": {`{"nodeId":"n","attempt":2,"reason":"x-host-acme-odd","previousError":null}`},
		"negotiation.decided":      {`{"protocol":"a2a","outcome":"refused","at":"2026-01-02T03:04:05Z","reason":"below-floor","peerDigest":"` + strings.Repeat("0a", 32) + `"}`},
	}
	bad := map[string][]string{
		"run.started":              {`{}`, `{"workflowId":"w","transport":"grpc"}`, `{"workflowId":"w","owner":{"tenant":"a"}}`, `{"workflowId":"w","engineVersion":"1"}`},
		"run.completed":            {`{}`, `{"output":{}}`, `{"outputs":[]}`, `{"outputs":null}`},
		"run.failed":               {`{"error":{"code":"","message":"m"}}`, `{"error":{"code":"a","message":"m","stack":"s"}}`, `{"error":"a"}`},
		"run.cancelled":            {`{"parentRunId":"r"}`, `{"durationMs":-1}`},
		"run.paused":               {`{"drainPolicy":"drain"}`, `{"interruptedAttempt":0}`},
		"node.suspended":           {`{"nodeId":"n","interruptId":"i"}`, `{"nodeId":"n","interruptId":` + runID + `,"kind":"timer"}`, `{"nodeId":"n","interruptId":` + runID + `,"reason":""}`},
		"interrupt.resolved":       {`{"nodeId":"n","interruptId":` + runID + `,"decision":"refine"}`, `{"nodeId":"n","interruptId":` + runID + `,"refineFeedback":{}}`},
		"approval.granted":         {`{"nodeId":"n","interruptId":` + runID + `,"decidedBy":"u"}`},
		"output.chunk":             {`{"nodeId":"n","runId":` + runID + `,"chunk":""}`, `{"nodeId":"n","runId":` + runID + `,"chunk":"","isLast":true,"meta":{"tokens":1}}`},
		"cap.breached":             {`{"kind":"loops","limit":1,"observed":1}`, `{"kind":"schema","limit":-1,"observed":1}`},
		"conversation.opened":      {`{"conversationId":""}`, `{"conversationId":"c","participants":[{}]}`},
		"orchestrator.decided":     {`{"agentId":"a","decision":{"kind":"guess"}}`, `{"agentId":"a","decision":{"kind":"terminate"},"iteration":0}`},
		"envelope.retry-attempted": {`{"nodeId":"n","attempt":17,"reason":"refusal"}`, `{"nodeId":"n","attempt":1,"reason":"odd"}`},
		"negotiation.decided":      {`{"protocol":"a2a","outcome":"refused","at":"yesterday"}`},
	}
	for typ, docs := range good {
		for _, doc := range docs {
			require.NoError(t, c.ValidatePayload(typ, decode(t, doc)), "%s %s", typ, doc)
		}
	}
	for typ, docs := range bad {
		for _, doc := range docs {
			violations(t, c.ValidatePayload(typ, decode(t, doc)))
		}
	}
}

func TestUnregisteredTypeHasNoPayload(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	for _, typ := range []string{"", "run.resuming", "example.thing", "state.snapshot", "batch", "ai.message.chunk", "_error"} {
		require.Equal(t, []string{"type-index"}, keywords(violations(t, c.ValidatePayload(typ, map[string]any{}))), typ)
	}
}
