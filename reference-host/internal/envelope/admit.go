package envelope

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"wopcert/bundle/jcs"
	"wopcert/reference-host/internal/workflow"
)

// The codes of refusals.
const (
	codeInvalid     = "envelope_invalid"
	codeConflict    = "envelope_correlation_conflict"
	codeUnknownKind = "unknown_envelope_kind"
	codeVersion     = "unknown_schema_version"
)

// Admit decides about one emission of a node with this contract, nil for none. The order is: the envelope's shape, what
// the run has already recorded under its correlation id, the kind's grammar, the catalog, the node's contract, the
// schema version, the payload, the limits.
func (p *Policy) Admit(raw json.RawMessage, contract *workflow.Contract, history *History) Decision {
	doc, refused := p.parse(raw)
	if refused != nil {
		return Decision{Refused: refused}
	}
	decision := Decision{CorrelationID: doc.CorrelationID}
	held := history.byCorrelation[doc.CorrelationID]
	if held != nil {
		known, refused := doc.recorded(held)
		if known || refused != nil {
			decision.Outcome, decision.Refused = held.outcome(doc), refused
			return decision
		}
	}
	if refused := p.checkKind(doc, contract); refused != nil {
		decision.Refused = refused
		return decision
	}
	drift, refused := p.checkVersion(doc)
	if drift != nil && !history.drifted[doc.CorrelationID] { // once for an emission, not once for a chunk
		decision.Lines = append(decision.Lines, *drift)
	}
	if refused == nil {
		refused = p.take(&decision, doc, held, history)
	}
	decision.Refused = refused
	return decision
}

// outcome is what the emission came to the first time: a chunk that is on record as one stays one.
func (r *record) outcome(doc *document) string {
	if chunk := doc.Partial != nil && doc.Partial.IsPartial && int(doc.Partial.Index) < len(r.chunks); r.complete && !chunk {
		return Accepted
	}
	return Partial
}

// parse holds the envelope to its schema. Only the envelope's own id may be missing; nothing else is made up.
func (p *Policy) parse(raw json.RawMessage) (*document, *Refusal) {
	value, err := jcs.Decode(raw)
	if err != nil {
		return nil, refuse(codeInvalid, "The envelope is not acceptable JSON.", "shape", nil)
	}
	if object, ok := value.(map[string]any); ok {
		if _, present := object["envelopeId"]; !present {
			object["envelopeId"] = p.Mint()
		}
	}
	if err := p.Validate("ai-envelope", value); err != nil {
		return nil, refuse(codeInvalid, "The envelope does not match its schema.", "shape", nil)
	}
	doc := new(document)
	if err := json.Unmarshal(raw, doc); err != nil {
		return nil, refuse(codeInvalid, "The envelope does not match its schema.", "shape", nil)
	}
	doc.payload = value.(map[string]any)["payload"]
	return doc, nil
}

// recorded looks at an emission whose correlation id the run knows. known says that there is nothing new in it: it
// gets the outcome on record (E2). The next chunk of an emission under way is new.
func (doc *document) recorded(held *record) (known bool, refused *Refusal) {
	switch {
	case held.kind != doc.Type:
		return false, refuse(codeConflict, "The correlation id belongs to an envelope of another type.", "", doc)
	case held.complete || doc.Partial == nil || int(doc.Partial.Index) < len(held.chunks):
		return true, nil
	}
	return false, nil
}

func (p *Policy) checkKind(doc *document, contract *workflow.Contract) *Refusal {
	switch {
	case !p.grammatical(doc.Type):
		return refuse(codeUnknownKind, "The kind is not one a registered organisation has.", "grammar", doc)
	case !p.known(doc.Type):
		return refuse(codeUnknownKind, "The kind is not in this host's catalog.", "catalog", doc)
	case p.Contracts && contract != nil && !universal(doc.Type) && !slices.Contains(contract.Accepts, doc.Type):
		return refuse(codeInvalid, "The node's envelope contract does not accept the kind.", "contract", doc)
	}
	return nil
}

func (p *Policy) known(kind string) bool { return universal(kind) || p.Kinds[kind] }

// checkVersion compares with the advertised version. Below it, without strictness, the envelope is held to the
// advertised version and the drift is logged (events.md §envelopeStrictness).
func (p *Policy) checkVersion(doc *document) (drift *Line, refused *Refusal) {
	floor, version := p.Floors[doc.Type], int64(doc.SchemaVersion)
	if version > floor || version < floor && p.Strict {
		return nil, refuse(codeVersion, fmt.Sprintf("The schema version is %d and this host serves %d.", version, floor), "", doc)
	}
	if version < floor {
		return &Line{
			Level: "warn", CorrelationID: doc.CorrelationID,
			Message: fmt.Sprintf("%s: %s was emitted at version %d, %d is advertised", driftMessage, doc.Type, version, floor),
			Fields:  map[string]any{"type": doc.Type, "emitted": version, "advertised": floor},
		}, nil
	}
	return nil, nil
}

// take records a chunk, or completes the emission.
func (p *Policy) take(decision *Decision, doc *document, held *record, history *History) *Refusal {
	var chunks []any
	if held != nil {
		chunks = held.chunks
	}
	fields := map[string]any{"type": doc.Type}
	if part := doc.Partial; part != nil {
		counted, last := part.Total >= 0, part.Index == part.Total-1
		if int(part.Index) != len(chunks) || counted && (part.Index >= part.Total || part.IsPartial == last) {
			return refuse(codeInvalid, "The chunk does not follow the ones before it.", "partial", doc)
		}
		fields["partial"], fields["index"], fields["total"] = part.IsPartial, part.Index, part.Total
		if part.IsPartial {
			fields["payload"] = doc.payload
			decision.Outcome = Partial
			decision.Lines = append(decision.Lines, Line{Level: "info", Message: chunkMessage, CorrelationID: doc.CorrelationID, Fields: fields})
			return nil
		}
	}
	payload, err := assemble(append(slices.Clone(chunks), doc.payload))
	if err == nil {
		err = p.checkPayload(doc.Type, payload)
	}
	if err != nil {
		return refuse(codeInvalid, "The payload does not match the schema of its kind.", "payload", doc)
	}
	if refused := p.checkReference(doc, payload); refused != nil {
		return refused
	}
	if refused := p.checkLimits(doc, history); refused != nil {
		return refused
	}
	decision.Outcome = Accepted
	decision.Lines = append(decision.Lines, Line{Level: "info", Message: acceptedMessage, CorrelationID: doc.CorrelationID, Fields: fields})
	return nil
}

// assemble joins the payloads of the chunks of one emission: objects member by member, a later one over an earlier,
// and text end to end, which then has to be JSON. A single payload is taken as it is.
func assemble(chunks []any) (any, error) {
	if len(chunks) == 1 {
		return chunks[0], nil
	}
	var text strings.Builder
	object := make(map[string]any)
	texts := 0
	for _, chunk := range chunks {
		switch chunk := chunk.(type) {
		case string:
			texts++
			text.WriteString(chunk)
		case map[string]any:
			maps.Copy(object, chunk)
		default:
			return nil, errors.New("a chunk is neither an object nor text")
		}
	}
	switch texts {
	case 0:
		return object, nil
	case len(chunks):
		return jcs.Decode([]byte(text.String()))
	}
	return nil, errors.New("the chunks are neither all objects nor all text")
}

// checkReference: a schema can be asked for only of a kind the host knows.
func (p *Policy) checkReference(doc *document, payload any) *Refusal {
	if doc.Type != kindSchema {
		return nil
	}
	if object, ok := payload.(map[string]any); ok {
		if kind, ok := object["envelopeType"].(string); ok && p.known(kind) {
			return nil
		}
	}
	return refuse(codeUnknownKind, "The schema of a kind this host does not know was asked for.", "catalog", doc)
}

// checkLimits holds the attempt to the limits of one turn.
func (p *Policy) checkLimits(doc *document, history *History) *Refusal {
	breached := func(kind string, limit, used int64) *Refusal {
		if used < limit {
			return nil
		}
		refused := refuse(codeInvalid, "The node has emitted as much as this host takes of it.", "limit", doc)
		refused.Breach = &Breach{Kind: kind, Limit: limit, Observed: used + 1}
		return refused
	}
	var refused *Refusal
	switch doc.Type {
	case kindClarification:
		refused = breached("clarification", p.Limits.ClarificationRounds, history.turn[kindClarification])
	case kindSchema:
		refused = breached("schema", p.Limits.SchemaRounds, history.turn[kindSchema])
	}
	if refused == nil {
		refused = breached("envelopes", p.Limits.EnvelopesPerTurn, history.total)
	}
	return refused
}

// refuse names the envelope by its correlation id and kind, when it has come so far as to have them.
func refuse(code, message, reason string, doc *document) *Refusal {
	details := make(map[string]any)
	if reason != "" {
		details["reason"] = reason
	}
	if doc != nil {
		details["correlationId"], details["type"] = doc.CorrelationID, doc.Type
	}
	return &Refusal{Code: code, Message: message, Details: details}
}
