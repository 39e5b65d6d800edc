package corpus

import "testing"

const (
	annotation = `{"annotationId":"a","target":{"runId":` + runID + `},"signal":{"kind":"flag"},"actor":{"principalRef":"u-1"},"createdAt":"2026-01-02T03:04:05Z"}`
	task       = `{"taskId":"t-1","score":1,"passed":true}`
	summary    = `{"suiteId":"core.acme.evals.first","suiteVersion":"1.0.0","aggregateScore":0.5,"passed":false,"taskCount":1,"passedCount":1,"tasks":[` + task + `]}`
	suite      = `{"suiteId":"core.acme.evals.first","version":"1.0.0","modes":["golden"],"tasks":[{"taskId":"t","input":null,"expected":{"kind":"golden","match":{"strategy":"exact","value":null}}}]}`
	aiEnvelope = `{"type":"error","envelopeId":"e","correlationId":"c","payload":null,"meta":{"source":"system","ts":"2026-01-02T03:04:05Z"}}`
	ancestry   = `{"runId":` + runID + `,"hostId":"h","parent":{"runId":` + runID + `,"hostId":"h","cause":"core.dispatch"}}`
)

func TestContentSchemas(t *testing.T) {
	t.Parallel()
	unknown := func(doc string) invalidCase { return invalidCase{closedDoc(doc), "", "additionalProperties"} }
	without := func(doc, member string) invalidCase { return invalidCase{edit(t, doc, member, ""), "", "required"} }
	checkSchemas(t, []schemaCase{
		{"annotation-create", []string{`{"signal":{"kind":"flag"}}`, `{"signal":{"kind":"rating","rating":1}}`, `{"signal":{"kind":"rating","rating":5},"target":{},"note":""}`,
			`{"signal":{"kind":"label","label":""},"target":{"nodeId":"n","eventId":` + eventID + `}}`, `{"signal":{"kind":"correction","correction":"c"}}`},
			[]invalidCase{unknown(`{"signal":{"kind":"flag"}}`), {`{}`, "", "required"}, {`{"signal":{"kind":"rating"}}`, "/signal", "required"}, {`{"signal":{"kind":"label"}}`, "/signal", "required"},
				{`{"signal":{"kind":"correction"}}`, "/signal", "required"}, {`{"signal":{"kind":"rating","rating":0}}`, "/signal/rating", "minimum"}, {`{"signal":{"kind":"rating","rating":6}}`, "/signal/rating", "maximum"},
				{`{"signal":{"kind":"rating","rating":4.5}}`, "/signal/rating", "type"}, {`{"signal":{"kind":"praise"}}`, "/signal/kind", "enum"}, {`{"signal":{"kind":"flag","also":1}}`, "/signal", "additionalProperties"},
				{`{"signal":{"kind":"flag"},"target":{"runId":` + runID + `}}`, "/target", "additionalProperties"}, {`{"signal":{"kind":"flag"},"target":{"eventId":"short"}}`, "/target/eventId", "pattern"}}},
		{"annotation", []string{annotation, edit(t, annotation, `"createdAt"`, `"note":"n","createdAt"`)},
			[]invalidCase{unknown(annotation), without(annotation, `"annotationId":"a",`), without(annotation, `"actor":{"principalRef":"u-1"},`), {edit(t, annotation, `"runId":`+runID, ``), "/target", "required"},
				{edit(t, annotation, `"u-1"`, `""`), "/actor/principalRef", "minLength"}, {edit(t, annotation, `05Z`, `05`), "/createdAt", "format"}, {edit(t, annotation, `"flag"`, `"rating"`), "/signal", "required"}}},
		{"annotation-list", []string{`{"annotations":[]}`, `{"annotations":[` + annotation + `]}`}, []invalidCase{{`{}`, "", "required"}, {`{"annotations":[],"nextCursor":"c"}`, "", "additionalProperties"}, {`{"annotations":[{}]}`, "/annotations/0", "required"}}},
		{"artifact", []string{`{"artifactId":"a","parts":[{"data":null}]}`, `{"artifactId":"a","name":"n","description":"d","parts":[{"text":""},{"url":"https://h.example/x"}],"metadata":{"openwop":{}},"extensions":["https://h.example/e"]}`},
			[]invalidCase{unknown(`{"artifactId":"a","parts":[{"text":"t"}]}`), {`{"artifactId":"a"}`, "", "required"}, {`{"artifactId":"","parts":[{"text":"t"}]}`, "/artifactId", "minLength"}, {`{"artifactId":"a","parts":[]}`, "/parts", "minItems"},
				{`{"artifactId":"a","parts":[{"text":"t","data":1}]}`, "/parts/0", "oneOf"}, {`{"artifactId":"a","parts":[{"kind":"text","text":"t"}]}`, "/parts/0", "additionalProperties"}, {`{"artifactId":"a","parts":[{"text":"t"}],"extensions":["none"]}`, "/extensions/0", "format"}}},
		{"eval-summary", []string{summary, edit(t, summary, `"tasks":[`+task+`]`, `"tasks":[],"totalCostUsd":0,"evaluatedModelClass":"coding","pinnedNodeIds":["n"],"regression":{"baselineRunId":`+runID+`,"scoreDelta":-1,"diffRef":"/d"}`),
			edit(t, summary, `"passed":true`, `"passed":true,"costUsd":0.1,"latencyMs":3,"schemaValid":true,"safetyFindings":[{"kind":"jailbreak","severity":"high"}]`)},
			[]invalidCase{unknown(summary), without(summary, `"passedCount":1,`), {edit(t, summary, `core.acme.evals.first`, `core.acme.first`), "/suiteId", "pattern"}, {edit(t, summary, `1.0.0`, `1.0`), "/suiteVersion", "pattern"},
				{edit(t, summary, `0.5`, `1.5`), "/aggregateScore", "maximum"}, {edit(t, summary, `"passed":true`, `"passed":true,"output":"text"`), "/tasks/0", "additionalProperties"}, {edit(t, summary, `t-1`, `T 1`), "/tasks/0/taskId", "pattern"},
				{edit(t, summary, `"passed":true`, `"passed":true,"safetyFindings":[{"kind":"k","severity":"high","excerpt":"x"}]`), "/tasks/0/safetyFindings/0", "additionalProperties"}}},
		{"agent-eval-suite", []string{suite, edit(t, suite, `"modes"`, `"targetAgentId":"core.a","thresholds":{"passScore":1,"maxCostUsd":0,"maxP95LatencyMs":1},"allowedModels":["coding"],"modes"`)},
			[]invalidCase{unknown(suite), without(suite, `"modes":["golden"],`), {edit(t, suite, `["golden"]`, `[]`), "/modes", "minItems"}, {edit(t, suite, `"exact"`, `"regex"`), "/tasks/0/expected/match/strategy", "enum"},
				{edit(t, suite, `"kind":"golden",`, ``), "/tasks/0/expected", "required"}}},
		{"ai-envelope", []string{aiEnvelope, edit(t, aiEnvelope, `"payload":null`, `"payload":"text","schemaVersion":0,"nodeId":"n","partial":{"isPartial":true,"index":0,"total":-1}`),
			edit(t, aiEnvelope, `05Z"`, `05Z","contentTrust":"untrusted","traceparent":"t","label":"l","rendering":{"display":"image","mimeType":"image/png","alt":"a","lang":"go","title":"t"}`)},
			[]invalidCase{unknown(aiEnvelope), without(aiEnvelope, `"correlationId":"c",`), without(aiEnvelope, `"envelopeId":"e",`), without(aiEnvelope, `"payload":null,`), {edit(t, aiEnvelope, `"source":"system",`, ``), "/meta", "required"},
				{edit(t, aiEnvelope, `"system"`, `"model"`), "/meta/source", "enum"}, {edit(t, aiEnvelope, `05Z"`, `05Z","also":1`), "/meta", "additionalProperties"}, {edit(t, aiEnvelope, `"c"`, `""`), "/correlationId", "minLength"},
				{edit(t, aiEnvelope, `"payload":null`, `"payload":null,"schemaVersion":-1`), "/schemaVersion", "minimum"}, {edit(t, aiEnvelope, `"payload":null`, `"payload":null,"partial":{"isPartial":true,"index":0}`), "/partial", "required"},
				{edit(t, aiEnvelope, `"payload":null`, `"payload":null,"partial":{"isPartial":true,"index":0,"total":-2}`), "/partial/total", "minimum"}}},
		{"envelope-clarification-request", []string{`{"questions":[{"id":"q","question":"?"}]}`, `{"reasoning":"r","questions":[{"id":"q","question":"?","schema":{},"context":{}}],"contextType":"c"}`},
			[]invalidCase{{`{"questions":[]}`, "/questions", "minItems"}, {`{}`, "", "required"}, {`{"questions":[{"id":"q"}]}`, "/questions/0", "required"}}},
		{"envelope-schema-request", []string{`{"envelopeType":"error"}`}, []invalidCase{{`{}`, "", "required"}, unknown(`{"envelopeType":"error"}`)}},
		{"envelope-schema-response", []string{`{"envelopeType":"error","ack":true}`}, []invalidCase{{`{"envelopeType":"error","ack":false}`, "/ack", "const"}}},
		{"envelope-error", []string{`{"code":"c","message":"m","details":{}}`}, []invalidCase{{`{"code":"c"}`, "", "required"}, unknown(`{"code":"c","message":"m"}`)}},
		{"heartbeat-evaluated", []string{`{"heartbeatId":"h","status":"ok","changed":false}`}, []invalidCase{{`{"heartbeatId":"h","status":"fine","changed":false}`, "/status", "enum"}, {`{"heartbeatId":"h","status":"ok"}`, "", "required"}, unknown(`{"heartbeatId":"h","status":"ok","changed":true}`)}},
		{"heartbeat-state-changed", []string{`{"heartbeatId":"h","from":{},"to":{"a":1}}`}, []invalidCase{{`{"heartbeatId":"h","from":{}}`, "", "required"}, {`{"heartbeatId":"h","from":1,"to":{}}`, "/from", "type"}, unknown(`{"heartbeatId":"h","from":{},"to":{}}`)}},
		{"run-ancestry-response", []string{ancestry, `{"runId":` + runID + `,"hostId":"h","parent":null}`, edit(t, ancestry, `"core.dispatch"`, `"a2a-message","wellKnownUrl":"https://h.example/.well-known/openwop"`)},
			[]invalidCase{unknown(ancestry), {`{"runId":` + runID + `,"hostId":"h"}`, "", "required"}, {edit(t, ancestry, `"core.dispatch"`, `"fork"`), "/parent/cause", "enum"}}},
	})
}
