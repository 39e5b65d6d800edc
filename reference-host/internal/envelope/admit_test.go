package envelope_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/corpus"
	"wopcert/reference-host/internal/envelope"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/workflow"
)

func policy(t testing.TB, change ...func(*envelope.Policy)) *envelope.Policy {
	t.Helper()
	contract, err := corpus.Load()
	require.NoError(t, err)
	p := &envelope.Policy{
		Kinds:  map[string]bool{envelope.KindNote: true, envelope.KindMemo: true},
		Floors: map[string]int64{envelope.KindNote: 2}, Contracts: true, Orgs: contract.Orgs(),
		Limits:   envelope.Limits{ClarificationRounds: 2, SchemaRounds: 1, EnvelopesPerTurn: 4},
		Validate: contract.ValidateValue, Mint: func() string { return "minted-envelope-id" },
	}
	for _, f := range change {
		f(p)
	}
	return p
}

// env is an acceptable note with members laid over it; a nil one is taken out.
func env(t testing.TB, members map[string]any) json.RawMessage {
	t.Helper()
	document := map[string]any{
		"type": envelope.KindNote, "schemaVersion": 2, "envelopeId": "e-1", "correlationId": "c-1",
		"payload": map[string]any{"title": "T"}, "meta": map[string]any{"source": "ai-generation", "ts": "2026-03-01T12:00:00Z"},
	}
	for name, value := range members {
		if value == nil {
			delete(document, name)
		} else {
			document[name] = value
		}
	}
	raw, err := json.Marshal(document)
	require.NoError(t, err)
	return raw
}

type o = map[string]any

// log turns what a decision records into the events it becomes.
func log(t testing.TB, node string, lines ...envelope.Line) []eventlog.Event {
	t.Helper()
	events := []eventlog.Event{{Draft: eventlog.Draft{Type: eventlog.NodeStarted, NodeID: node}}}
	for _, line := range lines {
		payload, err := json.Marshal(o{"level": line.Level, "message": line.Message, "nodeId": node, "fields": line.Fields})
		require.NoError(t, err)
		events = append(events, eventlog.Event{Draft: eventlog.Draft{Type: eventlog.LogAppended, NodeID: node, Payload: payload, CausationID: line.CorrelationID}})
	}
	return events
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	meta := func(members o) o {
		m := o{"source": "ai-generation", "ts": "2026-03-01T12:00:00Z"}
		for name, value := range members {
			if value == nil {
				delete(m, name)
			} else {
				m[name] = value
			}
		}
		return m
	}
	noCatalog := func(p *envelope.Policy) { p.Kinds = nil }
	strict := func(p *envelope.Policy) { p.Strict = true }
	note := &workflow.Contract{Accepts: []string{envelope.KindNote}}
	for _, c := range []struct {
		name, code, reason string
		raw                json.RawMessage
		contract           *workflow.Contract
		change             []func(*envelope.Policy)
	}{
		{"not JSON", "envelope_invalid", "shape", json.RawMessage(`{`), nil, nil},
		{"a duplicate member", "envelope_invalid", "shape", json.RawMessage(`{"type":"error","type":"error"}`), nil, nil},
		{"no object", "envelope_invalid", "shape", json.RawMessage(`"text"`), nil, nil},
		{"null", "envelope_invalid", "shape", json.RawMessage(`null`), nil, nil},
		{"no type", "envelope_invalid", "shape", env(t, o{"type": nil}), nil, nil},
		{"no correlationId", "envelope_invalid", "shape", env(t, o{"correlationId": nil}), nil, nil},
		{"empty correlationId", "envelope_invalid", "shape", env(t, o{"correlationId": ""}), nil, nil},
		{"no payload", "envelope_invalid", "shape", env(t, o{"payload": nil}), nil, nil},
		{"no meta", "envelope_invalid", "shape", env(t, o{"meta": nil}), nil, nil},
		{"no meta.source", "envelope_invalid", "shape", env(t, o{"meta": meta(o{"source": nil})}), nil, nil},
		{"unknown meta.source", "envelope_invalid", "shape", env(t, o{"meta": meta(o{"source": "model"})}), nil, nil},
		{"no meta.ts", "envelope_invalid", "shape", env(t, o{"meta": meta(o{"ts": nil})}), nil, nil},
		{"unknown member", "envelope_invalid", "shape", env(t, o{"extra": 1}), nil, nil},
		{"empty envelopeId", "envelope_invalid", "shape", env(t, o{"envelopeId": ""}), nil, nil},
		{"negative version", "envelope_invalid", "shape", env(t, o{"schemaVersion": -1}), nil, nil},
		{"partial without total", "envelope_invalid", "shape", env(t, o{"partial": o{"isPartial": true, "index": 0}}), nil, nil},

		{"unregistered organisation", "unknown_envelope_kind", "grammar", env(t, o{"type": "acme.note"}), nil, nil},
		{"reserved organisation", "unknown_envelope_kind", "grammar", env(t, o{"type": "vendor.myndhyve.note"}), nil, nil},
		{"openwop", "unknown_envelope_kind", "grammar", env(t, o{"type": "openwop.note"}), nil, nil},
		{"no organisation", "unknown_envelope_kind", "grammar", env(t, o{"type": "note"}), nil, nil},
		{"no name", "unknown_envelope_kind", "grammar", env(t, o{"type": "example."}), nil, nil},
		{"upper case", "unknown_envelope_kind", "grammar", env(t, o{"type": "example.Note"}), nil, nil},
		{"nearly universal", "unknown_envelope_kind", "grammar", env(t, o{"type": "schema.requests"}), nil, nil},
		{"not in the catalog", "unknown_envelope_kind", "catalog", env(t, o{"type": "example.other"}), nil, nil},
		{"media not in the catalog", "unknown_envelope_kind", "catalog", env(t, o{"type": "media.image"}), nil, nil},
		{"ui not in the catalog", "unknown_envelope_kind", "catalog", env(t, o{"type": "ui.a2ui-surface"}), nil, nil},
		{"no catalog", "unknown_envelope_kind", "catalog", env(t, nil), nil, []func(*envelope.Policy){noCatalog}},

		{"not in the contract", "envelope_invalid", "contract", env(t, o{"type": envelope.KindMemo, "schemaVersion": 0}), note, nil},
		{"an empty contract", "envelope_invalid", "contract", env(t, nil), &workflow.Contract{}, nil},

		{"above the floor", "unknown_schema_version", "", env(t, o{"schemaVersion": 3}), nil, nil},
		{"above the floor, strictly", "unknown_schema_version", "", env(t, o{"schemaVersion": 3}), nil, []func(*envelope.Policy){strict}},
		{"above a floor that is not advertised", "unknown_schema_version", "", env(t, o{"type": envelope.KindMemo, "schemaVersion": 1}), nil, nil},
		{"universal above its floor", "unknown_schema_version", "", env(t, o{"type": "error", "schemaVersion": 1, "payload": o{"code": "c", "message": "m"}}), nil, nil},
		{"below the floor, strictly", "unknown_schema_version", "", env(t, o{"schemaVersion": 1}), nil, []func(*envelope.Policy){strict}},
		{"absent, strictly", "unknown_schema_version", "", env(t, o{"schemaVersion": nil}), nil, []func(*envelope.Policy){strict}},

		{"payload no object", "envelope_invalid", "payload", env(t, o{"payload": "text"}), nil, nil},
		{"note without title", "envelope_invalid", "payload", env(t, o{"payload": o{"body": "b"}}), nil, nil},
		{"note with a number", "envelope_invalid", "payload", env(t, o{"payload": o{"title": 1}}), nil, nil},
		{"note with a bad body", "envelope_invalid", "payload", env(t, o{"payload": o{"title": "T", "body": o{}}}), nil, nil},
		{"note with more", "envelope_invalid", "payload", env(t, o{"payload": o{"title": "T", "extra": "x"}}), nil, nil},
		{"error without code", "envelope_invalid", "payload", env(t, o{"type": "error", "schemaVersion": 0, "payload": o{"message": "m"}}), nil, nil},
		{"no question", "envelope_invalid", "payload", env(t, o{"type": "clarification.request", "schemaVersion": 0, "payload": o{"questions": []any{}}}), nil, nil},
		{"schema of nothing known", "unknown_envelope_kind", "catalog", env(t, o{"type": "schema.request", "schemaVersion": 0, "payload": o{"envelopeType": "example.other"}}), nil, nil},

		// the order: what comes first decides
		{"shape before kind", "envelope_invalid", "shape", env(t, o{"type": "acme.note", "meta": nil}), nil, nil},
		{"grammar before contract", "unknown_envelope_kind", "grammar", env(t, o{"type": "acme.note"}), note, nil},
		{"catalog before contract", "unknown_envelope_kind", "catalog", env(t, o{"type": "example.other"}), note, nil},
		{"contract before version", "envelope_invalid", "contract", env(t, o{"type": envelope.KindMemo, "schemaVersion": 9}), note, nil},
		{"version before payload", "unknown_schema_version", "", env(t, o{"schemaVersion": 9, "payload": "x"}), nil, nil},
	} {
		decision := policy(t, c.change...).Admit(c.raw, c.contract, envelope.Read(log(t, "n"), "n"))
		require.NotNil(t, decision.Refused, c.name)
		assert.Equal(t, c.code, decision.Refused.Code, c.name)
		assert.Empty(t, decision.Lines, c.name)
		if c.reason == "" {
			assert.NotContains(t, decision.Refused.Details, "reason", c.name)
		} else {
			assert.Equal(t, c.reason, decision.Refused.Details["reason"], c.name)
		}
		contract, err := corpus.Load()
		require.NoError(t, err)
		_, registered := contract.Error(decision.Refused.Code)
		assert.True(t, registered, c.name)
	}
}

func TestAcceptance(t *testing.T) {
	t.Parallel()
	note := &workflow.Contract{Accepts: []string{envelope.KindNote}}
	off := func(p *envelope.Policy) { p.Contracts = false }
	for _, c := range []struct {
		name     string
		raw      json.RawMessage
		contract *workflow.Contract
		change   []func(*envelope.Policy)
	}{
		{"a note", env(t, nil), nil, nil},
		{"under its contract", env(t, nil), note, nil},
		{"a contract nobody enforces", env(t, o{"type": envelope.KindMemo, "schemaVersion": 0}), note, []func(*envelope.Policy){off}},
		{"no envelopeId", env(t, o{"envelopeId": nil}), nil, nil},
		{"the version spelled otherwise", json.RawMessage(strings.Replace(string(env(t, nil)), `"schemaVersion":2`, `"schemaVersion":2.0`, 1)), nil, nil},
		{"a memo", env(t, o{"type": envelope.KindMemo, "schemaVersion": nil, "payload": o{"any": []any{1}}}), nil, nil},
		{"all of meta", env(t, o{"meta": o{"source": "user", "ts": "2026-03-01T12:00:00+01:00", "contentTrust": "untrusted", "label": "l", "traceparent": "t", "rendering": o{"display": "code", "lang": "go"}}}), nil, nil},
		{"error", env(t, o{"type": "error", "schemaVersion": 0, "payload": o{"code": "validation_failed", "message": "m"}}), note, nil},
		{"clarification", env(t, o{"type": "clarification.request", "schemaVersion": nil, "payload": o{"questions": []any{o{"id": "q", "question": "?"}}}}), &workflow.Contract{}, nil},
		{"schema.request", env(t, o{"type": "schema.request", "schemaVersion": 0, "payload": o{"envelopeType": envelope.KindNote}}), note, nil},
		{"schema.response", env(t, o{"type": "schema.response", "schemaVersion": 0, "payload": o{"envelopeType": "anything", "ack": true}}), note, nil},
		{"universal without a catalog", env(t, o{"type": "error", "schemaVersion": 0, "payload": o{"code": "c", "message": "m"}}), nil, []func(*envelope.Policy){func(p *envelope.Policy) { p.Kinds = nil }}},
		{"a core primitive in the catalog", env(t, o{"type": "media.image", "schemaVersion": 0, "payload": o{"url": "https://h.example/i"}}), nil, []func(*envelope.Policy){func(p *envelope.Policy) { p.Kinds = map[string]bool{"media.image": true} }}},
		{"one chunk that is all", env(t, o{"partial": o{"isPartial": false, "index": 0, "total": 1}}), nil, nil},
		{"strictly at the floor", env(t, nil), nil, []func(*envelope.Policy){func(p *envelope.Policy) { p.Strict = true }}},
	} {
		decision := policy(t, c.change...).Admit(c.raw, c.contract, envelope.Read(log(t, "n"), "n"))
		require.Nil(t, decision.Refused, c.name)
		assert.Equal(t, envelope.Accepted, decision.Outcome, c.name)
		assert.Equal(t, "c-1", decision.CorrelationID, c.name)
		require.Len(t, decision.Lines, 1, c.name)
		assert.Equal(t, "c-1", decision.Lines[0].CorrelationID, c.name)
	}
}

func TestDrift(t *testing.T) {
	t.Parallel()
	for _, version := range []any{nil, 0, 1} {
		decision := policy(t).Admit(env(t, o{"schemaVersion": version}), nil, envelope.Read(nil, "n"))
		require.Nil(t, decision.Refused)
		require.Len(t, decision.Lines, 2)
		assert.Equal(t, "warn", decision.Lines[0].Level)
		assert.True(t, strings.HasPrefix(decision.Lines[0].Message, "envelope_schema_version_drift"))
		assert.Equal(t, "c-1", decision.Lines[0].CorrelationID)
	}
	decision := policy(t).Admit(env(t, o{"schemaVersion": 1, "payload": o{}}), nil, envelope.Read(nil, "n"))
	assert.Equal(t, "envelope_invalid", decision.Refused.Code, "it is held to the advertised version")
	assert.Len(t, decision.Lines, 1, "and the drift is logged all the same")
}

func TestReEmission(t *testing.T) {
	t.Parallel()
	p := policy(t)
	first := p.Admit(env(t, nil), nil, envelope.Read(log(t, "n"), "n"))
	history := envelope.Read(log(t, "n", first.Lines...), "n")
	for _, c := range []struct {
		again json.RawMessage
		want  string
	}{
		{env(t, nil), envelope.Accepted},
		{env(t, o{"envelopeId": "other", "payload": o{"bad": true}, "schemaVersion": 9}), envelope.Accepted}, // what is on record decides, not what is said again
		{env(t, o{"partial": o{"isPartial": true, "index": 0, "total": 2}}), envelope.Accepted},              // no chunk is on record
	} {
		decision := p.Admit(c.again, &workflow.Contract{}, history)
		require.Nil(t, decision.Refused)
		assert.Equal(t, c.want, decision.Outcome)
		assert.Empty(t, decision.Lines)
	}
	conflict := p.Admit(env(t, o{"type": envelope.KindMemo, "schemaVersion": 0}), nil, history)
	assert.Equal(t, "envelope_correlation_conflict", conflict.Refused.Code)
	assert.Equal(t, "c-1", conflict.Refused.Details["correlationId"])
	unknown := p.Admit(env(t, o{"type": "acme.note"}), nil, history)
	assert.Equal(t, "envelope_correlation_conflict", unknown.Refused.Code, "correlation comes before the kind")
	other := p.Admit(env(t, o{"correlationId": "c-2"}), nil, history)
	assert.Len(t, other.Lines, 1)
}

func TestPartial(t *testing.T) {
	t.Parallel()
	chunk := func(index, total int, partial bool, payload any) json.RawMessage {
		return env(t, o{"schemaVersion": 1, "payload": payload, "partial": o{"isPartial": partial, "index": index, "total": total}})
	}
	p := policy(t)
	var recorded []envelope.Line
	emit := func(raw json.RawMessage) envelope.Decision {
		decision := p.Admit(raw, nil, envelope.Read(log(t, "n", recorded...), "n"))
		recorded = append(recorded, decision.Lines...)
		return decision
	}
	first := emit(chunk(0, -1, true, o{"title": "T"}))
	require.Nil(t, first.Refused)
	assert.Equal(t, envelope.Partial, first.Outcome)
	require.Len(t, first.Lines, 2, "the drift and the chunk")
	assert.Equal(t, true, first.Lines[1].Fields["partial"])

	again := emit(chunk(0, -1, true, o{"title": "T"}))
	assert.Equal(t, envelope.Partial, again.Outcome)
	assert.Empty(t, again.Lines)
	whole := emit(env(t, nil))
	assert.Equal(t, envelope.Partial, whole.Outcome, "the correlation id is on record")
	assert.Empty(t, whole.Lines)
	assert.Equal(t, "envelope_correlation_conflict", emit(env(t, o{"type": envelope.KindMemo, "schemaVersion": 0})).Refused.Code)
	assert.Equal(t, "partial", emit(chunk(2, -1, true, o{})).Refused.Details["reason"], "a gap")
	assert.Equal(t, "partial", emit(chunk(1, 1, false, o{})).Refused.Details["reason"], "beyond the total")
	assert.Equal(t, "partial", emit(chunk(1, 3, false, o{})).Refused.Details["reason"], "an end before the last")
	assert.Equal(t, "partial", emit(chunk(1, 2, true, o{})).Refused.Details["reason"], "a last that is none")

	second := emit(chunk(1, 3, true, o{"body": "B"}))
	assert.Equal(t, envelope.Partial, second.Outcome)
	require.Len(t, second.Lines, 1, "the drift was logged")
	last := emit(chunk(2, 3, false, o{"body": "C"}))
	require.Nil(t, last.Refused)
	assert.Equal(t, envelope.Accepted, last.Outcome)
	require.Len(t, last.Lines, 1)
	assert.Equal(t, false, last.Lines[0].Fields["partial"])
	assert.Equal(t, envelope.Partial, emit(chunk(0, 3, true, o{})).Outcome, "the outcome this chunk had")
}

func TestAssembly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		chunks []any
		bad    bool
	}{
		{"objects", []any{o{"title": "T"}, o{"body": "B"}}, false},
		{"text", []any{`{"tit`, `le":"T"}`}, false},
		{"text that is no JSON", []any{`{"title"`, `:`}, true},
		{"text that is another payload", []any{`{"other"`, `:1}`}, true},
		{"objects and text", []any{o{"title": "T"}, `{}`}, true},
		{"numbers", []any{1, 2}, true},
		{"objects that lack the title", []any{o{"body": "B"}, o{}}, true},
	} {
		p := policy(t)
		var recorded []envelope.Line
		var decision envelope.Decision
		for i, payload := range c.chunks {
			last := i == len(c.chunks)-1
			decision = p.Admit(env(t, o{"payload": payload, "partial": o{"isPartial": !last, "index": i, "total": -1}}), nil,
				envelope.Read(log(t, "n", recorded...), "n"))
			recorded = append(recorded, decision.Lines...)
			if !last {
				require.Nil(t, decision.Refused, c.name)
			}
		}
		if c.bad {
			require.NotNil(t, decision.Refused, c.name)
			assert.Equal(t, "payload", decision.Refused.Details["reason"], c.name)
		} else {
			require.Nil(t, decision.Refused, c.name)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	clarification := o{"type": "clarification.request", "schemaVersion": 0, "payload": o{"questions": []any{o{"id": "q", "question": "?"}}}}
	request := o{"type": "schema.request", "schemaVersion": 0, "payload": o{"envelopeType": envelope.KindNote}}
	for _, c := range []struct {
		kind    string
		members o
		limit   int
	}{{"clarification", clarification, 2}, {"schema", request, 1}, {"envelopes", o{}, 4}} {
		p := policy(t)
		var recorded []envelope.Line
		for i := range c.limit + 1 {
			members := o{"correlationId": strings.Repeat("c", i+1)}
			for name, value := range c.members {
				members[name] = value
			}
			decision := p.Admit(env(t, members), nil, envelope.Read(log(t, "n", recorded...), "n"))
			if i < c.limit {
				require.Nil(t, decision.Refused, c.kind)
				recorded = append(recorded, decision.Lines...)
				continue
			}
			require.NotNil(t, decision.Refused, c.kind)
			assert.Equal(t, &envelope.Breach{Kind: c.kind, Limit: int64(c.limit), Observed: int64(c.limit) + 1}, decision.Refused.Breach)
			next := p.Admit(env(t, members), nil, envelope.Read(append(log(t, "n", recorded...), log(t, "n")...), "n"))
			assert.Nil(t, next.Refused, "another attempt is another turn")
			elsewhere := p.Admit(env(t, members), nil, envelope.Read(append(log(t, "m", recorded...), log(t, "n")...), "n"))
			assert.Nil(t, elsewhere.Refused, "another node has its own")
		}
	}
}

func TestOtherLinesAreNoEnvelopes(t *testing.T) {
	t.Parallel()
	events := log(t, "n", envelope.Line{Level: "info", Message: "envelope accepted", Fields: o{"type": envelope.KindNote}},
		envelope.Line{Level: "info", Message: "something else", CorrelationID: "c-1", Fields: o{"type": envelope.KindMemo}})
	decision := policy(t).Admit(env(t, nil), nil, envelope.Read(events, "n"))
	require.Nil(t, decision.Refused)
	assert.Len(t, decision.Lines, 1)
}

func FuzzAdmit(f *testing.F) {
	f.Add([]byte(env(f, nil)))
	f.Add([]byte(env(f, o{"partial": o{"isPartial": true, "index": 0, "total": -1}})))
	f.Add([]byte(`{"type":"error"}`))
	p := policy(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		decision := p.Admit(raw, nil, envelope.Read(nil, "n"))
		if (decision.Refused == nil) != (decision.Outcome != "") {
			t.Fatalf("%+v", decision)
		}
	})
}
