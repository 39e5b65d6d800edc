package corpus

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	runID    = `"acme/0123456789abcdef"`
	eventID  = `"0123456789abcdef"`
	subject  = `{"issuer":"urn:idp","subjectId":"u-1","tenant":"acme","lane":"api-key","kind":"user"}`
	owner    = `{"tenant":"acme","workspace":"w1","subject":` + subject + `}`
	snapshot = `{"runId":` + runID + `,"workflowId":"wf-1","status":"running","owner":` + owner + `,"eventLogSchemaVersion":3}`
	event    = `{"eventId":` + eventID + `,"runId":` + runID + `,"type":"run.started","payload":{"workflowId":"wf-1"},"timestamp":"2026-01-02T03:04:05.678Z","sequence":0,"schemaVersion":1}`
	workflow = `{"id":"wf","name":"n","version":"1.0.0","nodes":[{"id":"a","typeId":"core.noop","name":"A","position":{"x":0,"y":0},"config":{},"inputs":{}}],` +
		`"edges":[],"triggers":[{"id":"t","type":"manual"}],"variables":[],"metadata":{},"settings":{}}`
	approval = `{"kind":"approval","key":"k","data":{"artifactId":"a","artifactType":"t","title":"T","actions":["accept","reject"]}}`
)

// edit replaces the first occurrence of one text by another and insists that it was
// there, so that a negative case cannot silently become its positive one.
func edit(t *testing.T, doc, old, new string) string {
	t.Helper()
	require.Contains(t, doc, old)
	return strings.Replace(doc, old, new, 1)
}

type schemaCase struct {
	schema  string
	valid   []string
	invalid []invalidCase
}

// invalidCase is a document and where and by what it has to be refused.
type invalidCase struct{ doc, pointer, keyword string }

// closedDoc adds an unknown member to an object.
func closedDoc(doc string) string {
	if doc == "{}" {
		return `{"zz":1}`
	}
	return strings.Replace(doc, "{", `{"zz":1,`, 1)
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	checkSchemas(t, schemaCases(t))
}

func checkSchemas(t *testing.T, cases []schemaCase) {
	t.Helper()
	c := mustLoad(t)
	for _, tc := range cases {
		t.Run(tc.schema, func(t *testing.T) {
			t.Parallel()
			for _, doc := range tc.valid {
				require.NoError(t, c.Validate(tc.schema, []byte(doc)), doc)
			}
			for _, bad := range tc.invalid {
				found := violations(t, c.Validate(tc.schema, []byte(bad.doc)))
				matched := false
				for _, v := range found {
					matched = matched || (v.Pointer == bad.pointer && v.Keyword == bad.keyword)
				}
				require.True(t, matched, "%s\nwant %s at %q, got %+v", bad.doc, bad.keyword, bad.pointer, found)
			}
		})
	}
}

func schemaCases(t *testing.T) []schemaCase {
	unknown := func(doc string) invalidCase { return invalidCase{closedDoc(doc), "", "additionalProperties"} }
	without := func(doc, member string) invalidCase { return invalidCase{edit(t, doc, member, ""), "", "required"} }
	return []schemaCase{
		{"subject", []string{subject, edit(t, subject, `"api-key"`, `"saml","keyClass":"opaque-idp"`),
			edit(t, edit(t, subject, `"api-key"`, `"anonymous"`), `"user"`, `"anonymous"`), chain(4)},
			[]invalidCase{unknown(subject), without(subject, `"issuer":"urn:idp",`),
				{edit(t, subject, `"urn:idp"`, `"urn idp"`), "/issuer", "pattern"},
				{edit(t, subject, `"u-1"`, `"u/1"`), "/subjectId", "pattern"},
				{edit(t, subject, `"api-key"`, `"password"`), "/lane", "enum"},
				{edit(t, subject, `"api-key"`, `"saml"`), "", "required"},
				{edit(t, subject, `"user"`, `"user","keyClass":"opaque-idp"`), "", "not"},
				{edit(t, subject, `"user"`, `"anonymous"`), "/lane", "const"},
				{edit(t, subject, `"api-key"`, `"anonymous"`), "/kind", "const"},
				{chain(5), "/actor/actor/actor/actor", "additionalProperties"}}},
		{"owner", []string{owner, edit(t, owner, `"workspace":"w1",`, "")},
			[]invalidCase{unknown(owner), without(owner, `"tenant":"acme","workspace"`+`:"w1",`), {edit(t, owner, `"w1"`, `"w/1"`), "/workspace", "pattern"},
				{edit(t, owner, `"lane":"api-key",`, ""), "/subject", "required"}}},
		{"run-event", []string{event, edit(t, event, `"run.started"`, `"example.thing.happened"`), edit(t, event, `"run.started"`, `"openwop-app.conversation"`),
			edit(t, event, `{"workflowId":"wf-1"}`, `null`), edit(t, event, `"sequence":0`, `"sequence":9007199254740991`),
			edit(t, event, `"schemaVersion":1`, `"schemaVersion":1,"nodeId":"n","engineVersion":0,"causationId":"corr-1"`)},
			append([]invalidCase{unknown(event), without(event, `"sequence":0,`), without(event, `"payload":{"workflowId":"wf-1"},`), without(event, `,"schemaVersion":1`),
				{edit(t, event, `"sequence":0`, `"sequence":-1`), "/sequence", "minimum"},
				{edit(t, event, `"sequence":0`, `"sequence":0.5`), "/sequence", "type"},
				{edit(t, event, `"schemaVersion":1`, `"schemaVersion":0`), "/schemaVersion", "minimum"},
				{edit(t, event, `05.678Z`, `05.678`), "/timestamp", "format"},
				{edit(t, event, `2026-01-02`, `2026-02-30`), "/timestamp", "format"},
				{edit(t, event, eventID, `"short"`), "/eventId", "pattern"},
				{edit(t, event, runID, `"0123456789abcdef"`), "/runId", "pattern"}}, refusedTypes(t)...)},
		{"poll-response", []string{`{"runId":` + runID + `,"events":[` + event + `],"lastSequence":0,"status":"completed","isTerminal":true}`,
			`{"runId":` + runID + `,"events":[],"lastSequence":-1,"status":"pending","isTerminal":false}`},
			[]invalidCase{{`{"runId":` + runID + `,"events":[],"lastSequence":-2,"status":"pending","isTerminal":false}`, "/lastSequence", "minimum"},
				{`{"runId":` + runID + `,"events":[],"lastSequence":0,"status":"pending","isTerminal":false,"nextCursor":"1"}`, "", "additionalProperties"},
				{`{"runId":` + runID + `,"events":[{}],"lastSequence":0,"status":"nope","isTerminal":false}`, "/status", "enum"},
				{`{"runId":` + runID + `,"events":[{}],"lastSequence":0,"status":"pending","isTerminal":false}`, "/events/0", "required"}}},
		{"run-snapshot", []string{snapshot, edit(t, snapshot, `"status":"running"`, `"status":"failed","error":{"code":"run_timeout","message":"m","details":{"a":1}},"metrics":{"openwopCost":{"usd":0.1,"tokens":{"input":1,"output":2},"model":"m","provider":"p","duration_ms":3}}`),
			edit(t, snapshot, `3}`, `2,"extensions":{"example.state":{"any":[1]}},"tags":["t"],"metadata":{},"configurable":{"version":1},"compensationStatus":"none"}`)},
			[]invalidCase{unknown(snapshot), without(snapshot, `"owner":`+owner+`,`), without(snapshot, `,"eventLogSchemaVersion":3`),
				{edit(t, snapshot, `"running"`, `"suspended"`), "/status", "enum"},
				{edit(t, snapshot, `Version":3`, `Version":1`), "/eventLogSchemaVersion", "minimum"},
				{edit(t, snapshot, `3}`, `3,"error":{"code":"a","message":"m","cause":1}}`), "/error", "additionalProperties"},
				{edit(t, snapshot, `3}`, `3,"extensions":{"Example.State":{}}}`), "/extensions/Example.State", "pattern"},
				{edit(t, snapshot, `3}`, `3,"metrics":{"cost":1}}`), "/metrics", "additionalProperties"}}},
		{"run-list", []string{`{"runs":[]}`, `{"runs":[` + snapshot + `],"nextCursor":"c"}`},
			[]invalidCase{{`{}`, "", "required"}, {`{"runs":[],"nextCursor":""}`, "/nextCursor", "minLength"}, {`{"runs":[],"total":0}`, "", "additionalProperties"}}},
		{"run-create", []string{`{"workflowId":"w"}`, `{"workflowId":"w","inputs":{"a":1},"residency":{"region":"eu"},"tenantId":"t","scopeId":"s","callbackUrl":"https://a.example/cb","configurable":{"version":1},"tags":["x",""],"metadata":{}}`,
			`{"mode":"eval","evalSuiteRef":"s","agentId":"a"}`},
			[]invalidCase{{`{}`, "", "required"}, {`{"workflowId":"w","ai.provider":"x"}`, "", "additionalProperties"}, {`{"workflowId":""}`, "/workflowId", "minLength"},
				{`{"mode":"eval","workflowId":"w"}`, "", "required"}, {`{"mode":"live","evalSuiteRef":"s","agentId":"a"}`, "/mode", "enum"},
				{`{"workflowId":"w","callbackUrl":"/relative"}`, "/callbackUrl", "format"}, {`{"workflowId":"w","inputs":[]}`, "/inputs", "type"},
				{`{"workflowId":"w","tags":["` + strings.Repeat("é", 257) + `"]}`, "/tags/0", "maxLength"}, {`{"workflowId":"w","tags":[` + strings.Repeat(`"a",`, 100) + `"a"]}`, "/tags", "maxItems"}}},
		{"run-created", []string{`{"runId":` + runID + `,"status":"pending","eventsUrl":"/runs/x/events"}`, `{"runId":` + runID + `,"status":"running","eventsUrl":"https://h.example/e","statusUrl":"/s","more":1}`},
			[]invalidCase{{`{"runId":` + runID + `,"status":"completed","eventsUrl":"/e"}`, "/status", "enum"}, {`{"runId":` + runID + `,"status":"pending"}`, "", "required"},
				{`{"runId":` + runID + `,"status":"pending","eventsUrl":"not a url"}`, "/eventsUrl", "format"}}},
		{"run-options", []string{`{}`, `{"configurable":{"version":1},"tags":[],"metadata":{"a":{}}}`}, []invalidCase{unknown(`{}`), {`{"metadata":[]}`, "/metadata", "type"}}},
		{"configurable", []string{`{"version":1}`, `{"version":1,"run":{"recursionLimit":1,"runTimeoutMs":1,"maxLoopIterations":1,"escalationThreshold":0.7},"ai":{"temperature":2,"maxRefusals":0,"reasoningVerbosity":"none","promptOverrides":{"a":"b"}},"distillation":{"tokenBudget":1},"budget":{"maxTokens":1},"extensions":{"example":{"any":true}}}`},
			[]invalidCase{{`{}`, "", "required"}, {`{"version":2}`, "/version", "const"}, {`{"version":1,"ai.provider":"p"}`, "", "additionalProperties"}, {`{"version":1,"ai":{"provder":"p"}}`, "/ai", "additionalProperties"},
				{`{"version":1,"ai":{"temperature":2.1}}`, "/ai/temperature", "maximum"}, {`{"version":1,"run":{"recursionLimit":0}}`, "/run/recursionLimit", "minimum"},
				{`{"version":1,"extensions":{"example.x":{}}}`, "/extensions/example.x", "pattern"}, {`{"version":1,"budget":{"max":1}}`, "/budget", "additionalProperties"}}},
		{"budget-policy", []string{`{}`, `{"maxTokens":1,"maxCostUsd":0,"modelDeny":["a*"],"thresholdPercent":100,"onExhaustion":"interrupt"}`},
			[]invalidCase{unknown(`{}`), {`{"maxTokens":0}`, "/maxTokens", "minimum"}, {`{"modelAllow":["a","a"]}`, "/modelAllow", "uniqueItems"}}},
		{"residency", []string{`{"region":"eu"}`}, []invalidCase{{`{}`, "", "required"}, unknown(`{"region":"eu"}`)}},
		{"cancel-request", []string{`{}`, `{"reason":"r"}`}, []invalidCase{{`{"reason":1}`, "/reason", "type"}, {`[]`, "", "type"}}},
		{"cancel-response", []string{`{"runId":` + runID + `,"status":"cancelling"}`}, []invalidCase{{`{"runId":` + runID + `,"status":"completed"}`, "/status", "enum"}}},
		{"pause-request", []string{`{}`, `{"drainPolicy":"immediate","reason":""}`}, []invalidCase{unknown(`{}`), {`{"drainPolicy":"interrupt"}`, "/drainPolicy", "enum"}}},
		{"pause-response", []string{`{"runId":` + runID + `,"status":"paused","pausedAt":"2026-01-02T03:04:05Z"}`}, []invalidCase{{`{"runId":` + runID + `,"status":"pausing"}`, "/status", "const"}}},
		{"resume-request", []string{`{}`}, []invalidCase{unknown(`{}`)}},
		{"resume-response", []string{`{"runId":` + runID + `,"status":"running"}`}, []invalidCase{{`{"runId":` + runID + `,"status":"paused"}`, "/status", "const"}}},
		{"fork-request", []string{`{"mode":"replay"}`, `{"mode":"replay","runOptionsOverlay":{}}`, `{"mode":"branch","fromSeq":0,"runOptionsOverlay":{"tags":["a"]}}`},
			[]invalidCase{{`{}`, "", "required"}, {`{"mode":"branch"}`, "", "required"}, {`{"mode":"replay","runOptionsOverlay":{"tags":[]}}`, "/runOptionsOverlay", "maxProperties"},
				{`{"mode":"replay","fromSeq":-1}`, "/fromSeq", "minimum"}, unknown(`{"mode":"replay"}`)}},
		{"fork-response", []string{`{"runId":` + runID + `,"sourceRunId":` + runID + `,"mode":"replay","status":"running","eventsUrl":"/e"}`}, []invalidCase{{`{"runId":` + runID + `,"mode":"replay","status":"running","eventsUrl":"/e"}`, "", "required"}}},
		{"bulk-cancel-request", []string{`{"runIds":["x"]}`, `{"runIds":[` + runID + `],"reason":"r"}`},
			[]invalidCase{{`{"runIds":[]}`, "/runIds", "minItems"}, {`{"runIds":[` + strings.Repeat(runID+",", 100) + runID + `]}`, "/runIds", "maxItems"}, unknown(`{"runIds":["x"]}`)}},
		{"bulk-cancel-response", []string{`{"results":[{"runId":"a","ok":true,"status":"cancelled"},{"runId":"b","ok":false,"error":{"error":"not_found","message":"m"}}]}`},
			[]invalidCase{{`{"results":[{"runId":"a","ok":true}]}`, "/results/0", "required"}, {`{"results":[{"runId":"a","ok":false}]}`, "/results/0", "required"},
				{`{"results":[{"runId":"a","ok":false,"error":{"error":"nope","message":"m"}}]}`, "/results/0/error/error", "enum"}, {`{"results":[],"count":0}`, "", "additionalProperties"}}},
		{"run-diff-response", []string{`{"a":"x","b":"y","divergedAtSeq":null,"eventDiffs":[],"stateDiff":{}}`, `{"a":"x","b":"y","divergedAtSeq":3,"eventDiffs":[{"seq":3,"op":"changed","aEvent":{},"bEvent":{}}],"stateDiff":{},"truncated":true}`},
			[]invalidCase{{`{"a":"x","b":"y","divergedAtSeq":-1,"eventDiffs":[],"stateDiff":{}}`, "/divergedAtSeq", "minimum"}, {`{"a":"x","b":"y","eventDiffs":[{"seq":1,"op":"moved"}],"stateDiff":{}}`, "/eventDiffs/0/op", "enum"}}},
		{"interrupt-resolve-request", []string{`{"resumeValue":null}`}, []invalidCase{{`{}`, "", "required"}, unknown(`{"resumeValue":1}`)}},
		{"suspend-request", []string{approval, `{"kind":"clarification","key":"k","data":{"questions":[{"id":"q","question":"?"}]}}`, `{"kind":"conversation.close","key":"k","data":{"conversationId":"c"}}`,
			`{"kind":"custom","key":"k","timeoutMs":0,"resumeSchema":{},"data":{"customKind":"x","payload":null}}`, credential(``)},
			[]invalidCase{unknown(approval), {edit(t, approval, `"accept","reject"`, `"approve"`), "/data/actions/0", "enum"}, {edit(t, approval, `"approval"`, `"clarification"`), "/data", "required"},
				{`{"kind":"credential","key":"k","data":{"provider":"p","scopes":[],"reason":"missing","connectUrl":"https://h.example/c"}}`, "", "required"}, {credential(`,"token":"t"`), "/data", "additionalProperties"},
				{strings.Replace(credential(``), "https:", "http:", 1), "/data/connectUrl", "pattern"}}},
		{"error-envelope", []string{`{"error":"not_found","message":"m"}`, `{"error":"example.quota_hit","message":"m","details":{"a":1}}`, `{"error":"unsupported_stream_mode","message":"m","details":{"supported":["updates"],"also":1}}`,
			`{"error":"run_state_conflict","message":"m","details":{"runStatus":"paused"}}`, `{"error":"payload_unprojectable","message":"m","details":{"type":"x","keys":["a"]}}`},
			[]invalidCase{{`{"error":"not_found"}`, "", "required"}, {`{"error":"not_found","message":""}`, "/message", "minLength"}, unknown(`{"error":"not_found","message":"m"}`),
				{`{"error":"no_such_code","message":"m"}`, "/error", "enum"}, {`{"error":"no_such_code","message":"m"}`, "/error", "pattern"}, {`{"error":"openwop.thing","message":"m"}`, "/error", "not"}, {`{"error":"vendor.thing","message":"m"}`, "/error", "not"},
				{`{"error":"example.Quota","message":"m"}`, "/error", "pattern"}, {`{"error":"a.b.c","message":"m"}`, "/error", "pattern"}, {`{"error":"not_found","message":"m","details":[]}`, "/details", "type"},
				{`{"error":"unsupported_stream_mode","message":"m","details":{}}`, "/details", "required"}, {`{"error":"unsupported_stream_mode","message":"m","details":{"supported":[]}}`, "/details/supported", "minItems"},
				{`{"error":"run_state_conflict","message":"m","details":{"runStatus":1}}`, "/details/runStatus", "type"}, {`{"error":"payload_unprojectable","message":"m","details":{"type":"x","keys":["a"],"also":1}}`, "/details", "additionalProperties"}}},
		{"error-details#/$defs/common", []string{`{}`, `{"correlationId":"c","other":1}`}, []invalidCase{{`{"correlationId":""}`, "/correlationId", "minLength"}, {`{"retryAfter":1}`, "/retryAfter", "false"},
			{`{"retryAfterMs":1}`, "/retryAfterMs", "false"}, {`{"retryAfterSeconds":1}`, "/retryAfterSeconds", "false"}}},
		{"workflow-definition", []string{workflow, edit(t, workflow, `"inputs":{}`, `"inputs":{"a":{"type":"static","value":null},"b":{"type":"connection","nodeId":"n","outputKey":"o"}},"compensation":{"nodeTypeId":"core.undo"}`),
			edit(t, workflow, `"settings":{}`, `"settings":{"compensation":{"triggers":["node-failure"]}},"channels":{"c":{"reducer":"vendor.acme.x","access":"private"}}`)},
			[]invalidCase{unknown(workflow), {edit(t, workflow, `"id":"wf"`, `"id":"Wf"`), "/id", "pattern"}, {edit(t, workflow, `"core.noop"`, `"noop"`), "/nodes/0/typeId", "pattern"}, {edit(t, workflow, `"config":{},`, ``), "/nodes/0", "required"},
				{edit(t, workflow, `"manual"`, `"sometimes"`), "/triggers/0/type", "enum"}, {edit(t, workflow, `"inputs":{}`, `"inputs":{},"irreversibleEffect":true,"compensation":{"nodeTypeId":"core.undo"}`), "/nodes/0", "not"},
				{edit(t, workflow, `"settings":{}`, `"settings":{},"channels":{"c":{"reducer":"sum"}}`), "/channels/c/reducer", "pattern"}, {edit(t, workflow, `"settings":{}`, `"settings":{"compensation":{"triggers":[]}}`), "/settings/compensation/triggers", "minItems"}}},
		{"agent-ref", []string{`{"agentId":"core.chat","version":"1"}`, `{"agentId":"a","channel":"latest"}`}, []invalidCase{{`{"agentId":"a","version":"1","channel":"c"}`, "", "not"}, unknown(`{"agentId":"a"}`)}},
		{"prompt-ref", []string{`"prompt:writer@1.2.0"`, `{"templateId":"t"}`}, []invalidCase{{`"writer"`, "", "pattern"}, {`{"templateId":"t","version":"1"}`, "/version", "pattern"}}},
		{"part", []string{`{"text":""}`, `{"data":null}`, `{"url":"https://a.example/b","mediaType":"a/b"}`}, []invalidCase{{`{"text":"a","data":1}`, "", "oneOf"}, {`{}`, "", "required"}, {`{"kind":"text","text":"a"}`, "", "additionalProperties"}}},
		{"orchestrator-decision", []string{`{"kind":"next-worker","nextWorkerIds":["a"]}`, `{"kind":"terminate"}`}, []invalidCase{{`{"kind":"next-worker","nextWorkerIds":[]}`, "/nextWorkerIds", "minItems"}, {`{"kind":"ask-user"}`, "", "required"}}},
		{"conversation-turn", []string{`{"messageId":"m","from":"user","content":null,"ts":0,"role":"user","turnIndex":0}`}, []invalidCase{{`{"messageId":"m","from":"a","content":"x","ts":0,"role":"agent","turnIndex":0}`, "", "required"}}},
		{"credential-reference", []string{`{"ref":"r","scope":"user"}`}, []invalidCase{{`{"ref":"r","value":"s"}`, "", "additionalProperties"}}},
		{"compensation-policy", []string{`{"triggers":["run-cancel"],"approvalScope":"all"}`}, []invalidCase{{`{"triggers":["run-cancel"],"approvalScope":"none"}`, "/approvalScope", "enum"}}},
		{"capability-record", []string{`{"status":"stable","since":"2.0","witness":"claims-check","facet":1}`, `{"status":"experimental","since":"2.10","until":"2.11","witness":"seam-gated"}`, `{"status":"deprecated","since":"2.0","until":"2027-01-31","witness":"negative-existence"}`},
			[]invalidCase{{`{"status":"stable","since":"2.0","until":"2.1","witness":"claims-check"}`, "", "not"}, {`{"status":"experimental","since":"2.0","witness":"claims-check"}`, "", "required"}, {`{"status":"deprecated","since":"2.0","witness":"claims-check"}`, "", "required"},
				{`{"status":"beta","since":"2.0","witness":"claims-check"}`, "/status", "enum"}, {`{"status":"stable","since":"2.0.0","witness":"claims-check"}`, "/since", "pattern"}, {`{"status":"stable","since":"02.0","witness":"claims-check"}`, "/since", "pattern"},
				{`{"status":"experimental","since":"2.0","until":"soon","witness":"claims-check"}`, "/until", "pattern"}, {`{"status":"stable","since":"2.0","witness":"unwitnessable"}`, "/witness", "enum"}, {`{"status":"stable","since":"2.0"}`, "", "required"}}},
	}
}

// chain is a subject with n actors, one inside the other.
func chain(n int) string {
	if n == 0 {
		return subject
	}
	return strings.TrimSuffix(subject, "}") + `,"actor":` + chain(n-1) + "}"
}

func credential(extra string) string {
	return `{"kind":"credential","key":"k","resumeSchema":{"type":"object","additionalProperties":false,"required":["outcome"],"properties":{"outcome":{"enum":["authorized","declined"]}}},` +
		`"data":{"provider":"p","scopes":["a"],"reason":"missing","connectUrl":"https://h.example/c"` + extra + `}}`
}

// refusedTypes are event types neither branch takes: registered domains with an
// unregistered verb, version 1 names, reserved names, pack namespaces, bad grammar.
func refusedTypes(t *testing.T) []invalidCase {
	var cases []invalidCase
	for _, typ := range []string{"run.resuming", "run.exploded", "node.thing.happened", "agent.toolCalled", "core.dispatch", "community.a", "private.a", "local.a", "vendor.acme.a",
		"openwop.a", "effect-seams.a", "events.a", "state.snapshot.a.b", "batch", "Example.a", "example.A", "example", "example.", ".a", "example.a_b", "example..a", "run.started "} {
		cases = append(cases, invalidCase{edit(t, event, `"run.started"`, fmt.Sprintf("%q", typ)), "/type", "enum"})
	}
	return cases
}

func TestEveryRegisteredTypeIsAnEventType(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	for _, e := range c.Events() {
		require.NoError(t, c.Validate("run-event", []byte(edit(t, event, `"run.started"`, `"`+e.Type+`"`))), e.Type)
	}
}

func TestIDGrammars(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	opaque, long := strings.Repeat("a", 16), strings.Repeat("a", 128)
	for kinds, table := range map[string]struct{ good, bad []string }{
		"runId interruptId subscriptionId deliveryId effectId": {
			[]string{"t/" + opaque, long + "/" + long, "anon:s/" + opaque, "a.b_c~d-e/" + opaque},
			[]string{"", opaque, "/" + opaque, "t/" + opaque[1:], "t/" + long + "a", long + "a/" + opaque, "t/" + opaque + "/x", "x:t/" + opaque, "t t/" + opaque, "t/" + opaque + "\n", "t/" + opaque + "é"}},
		"eventId opaque":                        {[]string{opaque, long}, []string{"", opaque[1:], long + "a", opaque + "@", "t/" + opaque, opaque + ":"}},
		"tenantId":                              {[]string{"t", "anon:t", long}, []string{"", "anon:", "other:t", "a/b", long + "a", "a b"}},
		"workspaceId keyId":                     {[]string{"w", "v2-reference-4", long}, []string{"", "a/b", "a:b", long + "a"}},
		"subjectId":                             {[]string{"u", "a@b.example", strings.Repeat("é", 256)}, []string{"", "a b", "a/b", strings.Repeat("a", 257), "a\tb"}},
		"traceId":                               {[]string{strings.Repeat("0f", 16)}, []string{strings.Repeat("0F", 16), strings.Repeat("0f", 15), strings.Repeat("0f", 17)}},
		"spanId":                                {[]string{strings.Repeat("0f", 8)}, []string{strings.Repeat("0g", 8), strings.Repeat("0f", 16)}},
		"nodeId workflowId agentId":             {[]string{"n", "host:a", long}, []string{"", "a/b", "a b", long + "a"}},
		"chainId pluginId templateId libraryId": {[]string{"n", "vendor.acme:x", long}, []string{"", "a/b", long + "a"}},
		"typeId":                                {[]string{"core.noop", "core.ai.callPrompt", "a_b-c.d_e"}, []string{"core", "Core.noop", "core.Noop", "core.", "core..a", "a." + strings.Repeat("b", 255)}},
	} {
		for kind := range strings.FieldsSeq(kinds) {
			for _, good := range table.good {
				require.NoError(t, c.ValidateValue("ids#/$defs/"+kind, good), "%s %q", kind, good)
			}
			for _, bad := range table.bad {
				require.Error(t, c.ValidateValue("ids#/$defs/"+kind, bad), "%s %q", kind, bad)
			}
			require.Error(t, c.ValidateValue("ids#/$defs/"+kind, nil))
		}
	}
}
