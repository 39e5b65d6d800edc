package scenarios

import (
	"time"

	"wopcert/corpus"
	"wopcert/harness"
	"wopcert/seams"
)

// seedRow is a row of a log in version 1 vocabulary before its place in the log
// is known.
type seedRow struct {
	typ     string
	payload object
}

// seededLog is a run that was put into the host's store as a host of version 1
// would have left it.
type seededLog struct {
	id   string
	rows []seams.SeedEvent
}

// eraStart is the time of the first row of every seeded log. The milliseconds
// show whether a reader rounds.
var eraStart = time.Date(2025, 3, 1, 8, 0, 0, 123_000_000, time.UTC)

// seed stores the rows, with sequences from 0 on, as a run in a status. The
// test ends when the host does not take them.
func seed(t *harness.T, status string, rows ...seedRow) seededLog {
	log := seededLog{rows: asStored(rows)}
	log.id = t.NeedSeam(seams.SeedLog(status, log.rows...)).Text("runId")
	return log
}

// asStored gives rows their sequences, times a second apart and, from the
// second on, causes.
func asStored(rows []seedRow) []seams.SeedEvent {
	out := make([]seams.SeedEvent, len(rows))
	for i, row := range rows {
		out[i] = seams.SeedEvent{Type: row.typ, Sequence: int64(i), Payload: row.payload,
			Timestamp: eraStart.Add(time.Duration(i) * time.Second).Format("2006-01-02T15:04:05.000Z")}
		if i > 0 {
			out[i].CausationID = "wopcert-cause-" + decimal(int64(i)) + "-of-a-v1-log"
		}
	}
	return out
}

// begun are the rows of a run of a workflow that has started.
func begun(workflow string, inputs object) []seedRow {
	return []seedRow{{"run.started", object{"workflowId": workflow, "inputs": inputs}}}
}

// finished are the rows of a completed run of conformance-noop, with others
// between its start and its only node.
func finished(between ...seedRow) []seedRow {
	rows := append(begun(noop, object{}), between...)
	return append(rows,
		seedRow{"node.started", object{"nodeId": "noop", "typeId": "core.noop"}},
		seedRow{"node.completed", object{"nodeId": "noop", "outputs": object{}}},
		seedRow{"run.completed", object{"outputs": object{}}})
}

// terminalAt is the sequence of the last row.
func (l seededLog) terminalAt() int64 { return l.rows[len(l.rows)-1].Sequence }

// expected is the version 2 name of a row's type: what the codemap says, or the
// name itself for a vendor's.
func expectedType(c *corpus.Corpus, typ string) string {
	if v2, ok := c.EventFromV1(typ); ok {
		return v2
	}
	return typ
}

// plainly holds rows of renamed types whose payloads are the same in both versions
// beyond doubt: what any reader has to carry.
func plainly() []seedRow {
	const agent = "wopcert.agent"
	return []seedRow{
		{"run.resuming", object{"fromStatus": "paused"}},
		{"agent.reasoning.delta", object{"agentId": agent, "delta": "because", "sequence": 0}},
		{"agent.toolCalled", object{"agentId": agent, "toolName": "search", "callId": "call-1"}},
		{"agent.toolReturned", object{"agentId": agent, "toolName": "search", "callId": "call-1"}},
		{"connector.auth_expired", object{"provider": "example", "credentialRef": "credential-1"}},
		{"voice.speech_start", object{"atMs": 10}},
		{"voice.barge_in", object{"atMs": 1500}},
	}
}

// renamed holds a row for every other type that the codemap renames and that may
// stand inside a log; own is an id of a run of the caller's tenant. The payloads are
// those of version 2: a reader that finds one of them unlike what version 1 wrote may
// say so.
func renamed(own string) []seedRow {
	const agent, node = "wopcert.agent", "noop"
	return []seedRow{
		{"replay.divergedAtRefusal", object{"atSequence": 1, "originalEnvelopeKind": "valid", "replayEnvelopeKind": "refusal", "sourceRunId": own, "nodeId": node}},
		{"agent.promptResolved", object{"nodeId": node, "kind": "system", "resolved": "prompt:wopcert", "chain": []any{}}},
		{"model.capability.substituted", object{"nodeId": node, "originalProvider": "a", "originalModel": "a-1", "fallbackProvider": "b", "fallbackModel": "b-1", "missingCapabilities": []any{"vision"}}},
		{"model.capability.insufficient", object{"nodeId": node, "provider": "a", "model": "a-1", "missingCapabilities": []any{"vision"}}},
		{"envelope.retry.attempted", object{"nodeId": node, "attempt": 1, "reason": "schema-violation"}},
		{"envelope.retry.exhausted", object{"nodeId": node, "totalAttempts": 2, "finalReason": "schema-violation"}},
		{"envelope.nlToFormat.engaged", object{"nodeId": node, "originalEnvelopeType": "clarification.request"}},
		{"envelope.recovery.applied", object{"nodeId": node, "path": "direct"}},
		{"agent.invocation.started", object{"agentId": agent, "invocationId": "invocation-1", "source": "workflow-node"}},
		{"agent.invocation.completed", object{"agentId": agent, "invocationId": "invocation-1", "outcome": "completed"}},
		{"deployment.canary.adjusted", object{"agentId": agent, "version": "1.2.0", "fromPercent": 5, "toPercent": 20}},
		{"deployment.state.changed", object{"agentId": agent, "version": "1.2.0", "fromState": "draft", "toState": "test"}},
		{"roster.run.initiated", object{"agentId": agent, "rosterId": "roster-1", "persona": "Sally", "workflowId": noop, "triggerSource": "schedule"}},
		{"tool.session.opened", object{"sessionId": "session-1", "toolId": "search"}},
		{"tool.session.closed", object{"sessionId": "session-1", "toolId": "search", "outcome": "completed"}},
		{"trigger.subscription.state.changed", object{"subscriptionId": own, "source": "webhook", "fromState": "active", "toState": "paused"}},
		{"trigger.delivery.attempted", object{"subscriptionId": own, "attempt": 1, "dedupKey": "key-1", "outcome": "delivered"}},
		{"budget.threshold.crossed", object{"dimension": "tokens", "consumed": 80, "limit": 100, "percent": 80}},
		{"runOrchestrator.decided", object{"agentId": agent, "decision": object{"kind": "next-worker", "nextWorkerIds": []any{noop}}}},
		{"core.dispatch.fanOut", object{"fanOutPolicy": "parallel", "childCount": 2}},
		{"core.dispatch.join", object{"joinOutcome": "satisfied", "completedCount": 2, "failedCount": 0, "mergeOrder": []any{}}},
		{"agent.memory.consolidated", object{"memoryRef": "memory:wopcert", "inputCount": 3, "outputCount": 1}},
		{"core.workflowChain.event", object{"parentRunId": own, "phase": "dispatch.began", "workerId": noop}},
		{"core.workflowChain.confidence-escalated", object{"parentRunId": own, "confidence": 0.25, "floor": 0.5, "escalationKind": "clarify"}},
		{"voice.endpoint_candidate", object{"atMs": 900}},
		{"voice.turn_commit", object{"atMs": 1000, "finalText": "hello"}},
		{"voice.synthesis_chunk", object{"seq": 0, "mimeType": "audio/ogg"}},
	}
}

// afterward holds a row for each type that the codemap renames and that follows
// the end of a failed run.
func afterward(own string) []seedRow {
	return []seedRow{
		{"compensation.manual_intervention_required", object{}},
		{"run.dead_lettered", object{"runId": own, "reason": "attempts used up", "attempts": 3}},
	}
}

// broken are the rows of a failed run of conformance-noop, with others after
// its end.
func broken(after ...seedRow) []seedRow {
	return append([]seedRow{
		{"run.started", object{"workflowId": noop, "inputs": object{}}},
		{"node.started", object{"nodeId": "noop", "typeId": "core.noop"}},
		{"node.failed", object{"nodeId": "noop", "error": object{"code": "internal_error", "message": "it broke"}}},
		{"run.failed", object{"error": object{"code": "internal_error", "message": "it broke"}}},
	}, after...)
}
