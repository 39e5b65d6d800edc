package referencehost_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/fixtures"
	referencehost "wopcert/reference-host"
)

// note is an acceptable envelope under a correlation id; members are laid over it.
func note(correlation string, members ...string) string {
	text := `{"type":"example.wopcert-note","schemaVersion":2,"correlationId":"` + correlation + `","payload":{"title":"T"},` +
		`"meta":{"source":"ai-generation","ts":"2026-03-01T12:00:00Z"}`
	var overlay, base map[string]any
	if err := json.Unmarshal([]byte(text+"}"), &base); err != nil {
		panic(err)
	}
	for _, member := range members {
		if err := json.Unmarshal([]byte(member), &overlay); err != nil {
			panic(err)
		}
	}
	for name, value := range overlay {
		if value == nil {
			delete(base, name)
		} else {
			base[name] = value
		}
	}
	raw, err := json.Marshal(base)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

const modelRefuses = `{"refusal":{"safetyCategory":"self-harm"}}`

// emit runs a workflow of envelope emissions to its end.
func (h *testHost) emit(workflow, ai string, emissions ...string) (snapshot map[string]any, events []map[string]any) {
	h.t.Helper()
	_, path := h.create(fmt.Sprintf(`{"workflowId":%q,"inputs":{"emissions":[%s]},"configurable":{"version":1,"ai":%s}}`, workflow, strings.Join(emissions, ","), ai))
	return h.finish(path), h.events(path)
}

func failure(snapshot map[string]any) (code string, details map[string]any) {
	failed, _ := snapshot["error"].(map[string]any)
	code, _ = failed["code"].(string)
	details, _ = failed["details"].(map[string]any)
	return code, details
}

func TestEnvelopeRun(t *testing.T) {
	t.Parallel()
	h := start(t)
	snapshot, events := h.emit("wopcert-envelope-emit", `{}`, note("c-1"), note("c-2", `{"type":"example.wopcert-memo","schemaVersion":null,"payload":{"a":1}}`),
		note("c-1"), note("c-3", `{"schemaVersion":1}`))
	require.Equal(t, "completed", snapshot["status"], snapshot)
	assert.Equal(t, []string{"run.started", "node.started", "log.appended", "log.appended", "log.appended", "log.appended", "node.completed", "run.completed"}, types(events))
	for i, want := range []struct{ level, cause, kind string }{
		{"info", "c-1", "example.wopcert-note"}, {"info", "c-2", "example.wopcert-memo"}, {"warn", "c-3", "example.wopcert-note"}, {"info", "c-3", "example.wopcert-note"},
	} {
		event := events[i+2]
		assert.Equal(t, want.level, payload(event)["level"])
		assert.Equal(t, want.cause, event["causationId"])
		assert.Equal(t, "emit", event["nodeId"])
		assert.Equal(t, want.kind, payload(event)["fields"].(map[string]any)["type"])
	}
	assert.True(t, strings.HasPrefix(payload(events[4])["message"].(string), "envelope_schema_version_drift"))
	assert.Equal(t, []any{
		map[string]any{"correlationId": "c-1", "outcome": "accepted"}, map[string]any{"correlationId": "c-2", "outcome": "accepted"},
		map[string]any{"correlationId": "c-1", "outcome": "accepted"}, map[string]any{"correlationId": "c-3", "outcome": "accepted"},
	}, payload(events[6])["outputs"].(map[string]any)["results"])
}

func TestEnvelopeRefusalFailsTheNode(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, c := range []struct{ workflow, emission, code, reason string }{
		{"wopcert-envelope-emit", note("c", `{"meta":null}`), "envelope_invalid", "shape"},
		{"wopcert-envelope-emit", `17`, "envelope_invalid", "shape"},
		{"wopcert-envelope-emit", note("c", `{"type":"acme.note"}`), "unknown_envelope_kind", "grammar"},
		{"wopcert-envelope-emit", note("c", `{"type":"example.other"}`), "unknown_envelope_kind", "catalog"},
		{"wopcert-envelope-contract", note("c", `{"type":"example.wopcert-memo","schemaVersion":0}`), "envelope_invalid", "contract"},
		{"wopcert-envelope-emit", note("c", `{"schemaVersion":3}`), "unknown_schema_version", ""},
		{"wopcert-envelope-emit", note("c", `{"payload":{}}`), "envelope_invalid", "payload"},
		{"wopcert-envelope-emit", note("ok", `{"type":"example.wopcert-memo","schemaVersion":0}`), "envelope_correlation_conflict", ""},
	} {
		snapshot, events := h.emit(c.workflow, `{}`, note("ok"), c.emission, note("never"))
		code, details := failure(snapshot)
		assert.Equal(t, c.code, code, c.emission)
		if c.reason != "" {
			assert.Equal(t, c.reason, details["reason"], c.emission)
		}
		assert.Equal(t, []string{"run.started", "node.started", "log.appended", "node.failed", "run.failed"}, types(events), "%s: nothing is recorded of it, and nothing after it is emitted", c.emission)
	}
	snapshot, _ := h.emit("wopcert-envelope-contract", `{}`, note("a"), note("b", `{"type":"error","schemaVersion":0,"payload":{"code":"c","message":"m"}}`))
	assert.Equal(t, "completed", snapshot["status"])
	snapshot, _ = h.emit("wopcert-envelope-emit", `{}`)
	assert.Equal(t, "completed", snapshot["status"], "no emissions are none")
}

func TestEnvelopeFacets(t *testing.T) {
	t.Parallel()
	memo := note("c", `{"type":"example.wopcert-memo","schemaVersion":0}`)
	below := note("c", `{"schemaVersion":1}`)
	universal := note("c", `{"type":"error","schemaVersion":0,"payload":{"code":"c","message":"m"}}`)
	for _, c := range []struct {
		name     string
		change   func(*referencehost.Config)
		workflow string
		emission string
		code     string
	}{
		{"strict", facets("envelopeStrictness", map[string]any{"mode": "strict"}), "wopcert-envelope-emit", below, "unknown_schema_version"},
		{"warn", facets("envelopeStrictness", map[string]any{"mode": "warn"}), "wopcert-envelope-emit", below, ""},
		{"no strictness", without("envelopeStrictness"), "wopcert-envelope-emit", below, ""},
		{"no kinds", facets("supportedEnvelopes", map[string]any{"kinds": nil}), "wopcert-envelope-emit", note("c"), "unknown_envelope_kind"},
		{"no kinds, universal", facets("supportedEnvelopes", map[string]any{"kinds": nil}), "wopcert-envelope-emit", universal, ""},
		{"no catalog", without("supportedEnvelopes"), "wopcert-envelope-emit", note("c"), "unknown_envelope_kind"},
		{"another catalog", facets("supportedEnvelopes", map[string]any{"kinds": []any{"example.wopcert-memo"}}), "wopcert-envelope-emit", note("c"), "unknown_envelope_kind"},
		{"no floors", without("schemaVersions"), "wopcert-envelope-emit", note("c"), "unknown_schema_version"},
		{"another floor", facets("schemaVersions", map[string]any{"kinds": map[string]any{"example.wopcert-note": 3}}), "wopcert-envelope-emit", note("c", `{"schemaVersion":3}`), ""},
		{"no contracts", without("envelopeContracts"), "wopcert-envelope-contract", memo, ""},
		{"contracts not advertised", facets("envelopeContracts", map[string]any{"advertised": false}), "wopcert-envelope-contract", memo, ""},
		{"fewer a turn", facets("limits", map[string]any{"envelopesPerTurn": 0}), "wopcert-envelope-emit", note("c"), "envelope_invalid"},
	} {
		h := start(t, c.change)
		snapshot, events := h.emit(c.workflow, `{}`, c.emission)
		code, details := failure(snapshot)
		assert.Equal(t, c.code, code, c.name)
		if details["reason"] == "limit" {
			breach := ofType(events, "cap.breached")
			require.Len(t, breach, 1)
			assert.Equal(t, map[string]any{"kind": "envelopes", "limit": 0.0, "observed": 1.0, "nodeId": "emit"}, payload(breach[0]))
		}
	}
}

func TestPartialEnvelopes(t *testing.T) {
	t.Parallel()
	h := start(t)
	chunk := func(index int, partial bool, content string) string {
		return note("c-1", fmt.Sprintf(`{"payload":%s,"partial":{"isPartial":%t,"index":%d,"total":3}}`, content, partial, index))
	}
	snapshot, events := h.emit("wopcert-envelope-emit", `{}`, chunk(0, true, `{"title":"T"}`), chunk(1, true, `{"body":"a"}`), chunk(1, true, `{"body":"a"}`),
		chunk(2, false, `{"body":"b"}`), chunk(2, false, `{"body":"b"}`))
	require.Equal(t, "completed", snapshot["status"], snapshot)
	lines := ofType(events, "log.appended")
	require.Len(t, lines, 3)
	for i, line := range lines {
		assert.Equal(t, "c-1", line["causationId"])
		fields := payload(line)["fields"].(map[string]any)
		assert.EqualValues(t, i, fields["index"])
		assert.Equal(t, i < 2, fields["partial"])
	}
	results := payload(ofType(events, "node.completed")[0])["outputs"].(map[string]any)["results"].([]any)
	var outcomes []any
	for _, result := range results {
		outcomes = append(outcomes, result.(map[string]any)["outcome"])
	}
	assert.Equal(t, []any{"partial", "partial", "partial", "accepted", "accepted"}, outcomes)
}

func TestRefusalsOfTheModel(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, c := range []struct {
		ai        string
		emissions []string
		recorded  int
		code      string
	}{
		{`{}`, []string{modelRefuses}, 1, "envelope_refusal"},
		{`{}`, []string{modelRefuses, modelRefuses}, 1, "envelope_refusal"},
		{`{"maxRefusals":0}`, []string{modelRefuses}, 0, "envelope_refusal"},
		{`{"maxRefusals":1}`, []string{note("a"), modelRefuses, note("b")}, 1, "envelope_refusal"},
		{`{"maxRefusals":2}`, []string{modelRefuses, note("a")}, 1, ""},
		{`{"maxRefusals":2}`, []string{modelRefuses, modelRefuses, modelRefuses}, 2, "envelope_refusal"},
		{`{"maxRefusals":3}`, []string{modelRefuses, modelRefuses}, 2, ""},
		{`{"maxRefusals":3.0}`, []string{`{"refusal":{}}`}, 1, ""},
		{`{"maxRefusals":0}`, []string{note("a")}, 0, ""},
		{`{"maxRefusals":3}`, []string{`{"refusal":{"safetyCategory":1}}`}, 0, "validation_error"},
	} {
		snapshot, events := h.emit("wopcert-envelope-emit", c.ai, c.emissions...)
		code, _ := failure(snapshot)
		assert.Equal(t, c.code, code, "%s %v", c.ai, c.emissions)
		refusals := ofType(events, "envelope.refusal")
		assert.Len(t, refusals, c.recorded, "%s %v", c.ai, c.emissions)
		for _, refusal := range refusals {
			assert.Nil(t, payload(refusal)["refusalText"])
			assert.Equal(t, "mock", payload(refusal)["provider"])
			assert.NotContains(t, refusal, "causationId")
		}
		assert.Empty(t, ofType(events, "envelope.retry-attempted"))
		assert.Len(t, ofType(events, "node.started"), 1)
	}
}

func TestProviderOfAnEmission(t *testing.T) {
	t.Parallel()
	h := start(t)
	for provider, want := range map[string]string{`"mock"`: "completed", `"other"`: "failed"} {
		_, path := h.create(`{"workflowId":"wopcert-envelope-emit","inputs":{"emissions":[` + note("c") + `],"provider":` + provider + `}}`)
		assert.Equal(t, want, h.finish(path)["status"], provider)
	}
}

// Two nodes that run side by side emit under one correlation id: exactly one of them is the first.
func TestEmissionsSideBySide(t *testing.T) {
	t.Parallel()
	emitter := func(id string) string {
		return `{"id":"` + id + `","typeId":"conformance.envelope.emit","name":"E","position":{"x":0,"y":0},"config":{},"inputs":{"emissions":{"type":"static","value":[` +
			note("c-1") + `,` + note("c-2") + `,` + note("c-3") + `]}}}`
	}
	workflow := oneNode(t, "side-by-side", emitter("a")+","+emitter("b")+","+emitter("c"))
	h := start(t, func(c *referencehost.Config) { c.Unlisted = []fixtures.Workflow{workflow} })
	for range 20 {
		_, path := h.create(`{"workflowId":"side-by-side"}`)
		assert.Equal(t, "completed", h.finish(path)["status"])
		causes := map[any]int{}
		for _, line := range ofType(h.events(path), "log.appended") {
			causes[line["causationId"]]++
		}
		assert.Equal(t, map[any]int{"c-1": 1, "c-2": 1, "c-3": 1}, causes)
	}
}
