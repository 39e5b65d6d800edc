package referencehost

import (
	"context"
	"encoding/json"
	"slices"

	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/envelope"
	"wopcert/reference-host/internal/eventlog"
)

// envelopePolicy is what the effective families say about envelopes.
func (h *Host) envelopePolicy(mint func() string) *envelope.Policy {
	policy := &envelope.Policy{
		Floors:    make(map[string]int64),
		Strict:    h.facet("envelopeStrictness", "mode") == "strict",
		Contracts: h.advertises("envelopeContracts.advertised"),
		Orgs:      h.orgs,
		Limits: envelope.Limits{
			ClarificationRounds: h.facetInt(clarificationRounds, "limits", "clarificationRounds"),
			SchemaRounds:        h.facetInt(schemaRounds, "limits", "schemaRounds"),
			EnvelopesPerTurn:    h.facetInt(envelopesPerTurn, "limits", "envelopesPerTurn"),
		},
		Validate: h.contract.ValidateValue, Mint: mint,
	}
	if h.facet("supportedEnvelopes", "kinds") != nil {
		policy.Kinds = make(map[string]bool)
		for _, kind := range h.facetWords("supportedEnvelopes", "kinds") {
			policy.Kinds[kind] = true
		}
	}
	floors, _ := h.facet("schemaVersions", "kinds").(map[string]any)
	for kind, floor := range floors {
		if version, ok := floor.(float64); ok {
			policy.Floors[kind] = int64(version)
		}
	}
	return policy
}

// emission is one element of the input emissions: a raw envelope, or a refusal of the model.
type emission struct {
	raw     json.RawMessage
	refusal *struct {
		SafetyCategory *string `json:"safetyCategory"`
	}
}

// UnmarshalJSON takes an object with the single member refusal for a refusal, and anything else for an envelope.
func (e *emission) UnmarshalJSON(raw []byte) error {
	e.raw = slices.Clone(raw)
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || len(members) != 1 || members["refusal"] == nil {
		return nil // whether it is an envelope is for the pipeline to say
	}
	return json.Unmarshal(members["refusal"], &e.refusal)
}

// emissionResult is what became of one emission.
type emissionResult struct {
	CorrelationID string `json:"correlationId,omitempty"`
	Outcome       string `json:"outcome"`
}

// refusedOutcome is the outcome of an emission in which the model refused.
const refusedOutcome = "refused"

// emitter takes the emissions of one attempt through the pipeline.
type emitter struct {
	call     *Call
	policy   *envelope.Policy
	ai       aiOptions
	provider string
	// refused counts the refusals an attempt that was cut has recorded: they are the first ones of this attempt too.
	refused int
}

// runEnvelopes is the node type conformance.envelope.emit: it stands for a model that emits the elements of the input
// emissions, one after the other. The first that is not admitted fails the node; nothing is emitted a second time.
func (h *Host) runEnvelopes(_ context.Context, call *Call) (Values, error) {
	ai, err := aiOptionsOf(call.Run.Configurable)
	if err != nil {
		return nil, err
	}
	e := &emitter{call: call, policy: h.envelopePolicy(call.Opaque), ai: ai, provider: ai.provider()}
	if raw, ok := call.Inputs["provider"]; ok {
		if err := json.Unmarshal(raw, &e.provider); err != nil || !slices.Contains(h.facetWords("aiProviders", "providers"), e.provider) {
			return nil, &NodeError{Code: "validation_error", Message: "The input provider is no AI provider of this host."}
		}
	}
	var emissions []emission
	if err := json.Unmarshal(call.Inputs["emissions"], &emissions); err != nil {
		return nil, &NodeError{Code: "validation_error", Message: "The input emissions must be an array of envelopes and refusals."}
	}
	recorded, err := call.Recorded(envelopeRefusal)
	if err != nil {
		return nil, err
	}
	e.refused = len(recorded)
	results := make([]emissionResult, 0, len(emissions))
	for _, emission := range emissions {
		result := emissionResult{Outcome: refusedOutcome}
		if emission.refusal != nil {
			err = e.refuse(emission.refusal.SafetyCategory)
		} else {
			result, err = e.admit(emission.raw)
		}
		if err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	encoded, err := encode(results)
	return Values{"results": encoded}, err
}

// admit decides about an envelope and records the decision in one step, so that two nodes that emit side by side
// cannot both be the first.
func (e *emitter) admit(raw json.RawMessage) (emissionResult, error) {
	var decision envelope.Decision
	err := e.call.Record(func(log []eventlog.Event) []engine.Entry {
		decision = e.policy.Admit(raw, e.call.Contract(), envelope.Read(log, e.call.NodeID))
		var entries []engine.Entry
		for _, line := range decision.Lines {
			entries = append(entries, e.call.LogEntry(line.Level, line.Message, line.CorrelationID, line.Fields))
		}
		if decision.Refused != nil && decision.Refused.Breach != nil {
			breach := decision.Refused.Breach
			entries = append(entries, engine.Entry{Type: eventlog.CapBreached, Cause: decision.CorrelationID, Payload: map[string]any{
				"kind": breach.Kind, "limit": breach.Limit, "observed": breach.Observed, "nodeId": e.call.NodeID,
			}})
		}
		return entries
	})
	if err != nil {
		return emissionResult{}, err
	}
	if refused := decision.Refused; refused != nil {
		return emissionResult{}, &NodeError{Code: refused.Code, Message: refused.Message, Details: refused.Details}
	}
	return emissionResult{CorrelationID: decision.CorrelationID, Outcome: decision.Outcome}, nil
}

// refuse records that the model refused, as long as the run may record another, and fails the node with the last one
// it may (events.md §AI envelopes, E5). The text of a refusal is not kept.
func (e *emitter) refuse(category *string) error {
	ceiling, recorded := e.ai.maxRefusals(), int64(0)
	known := e.refused > 0
	if known {
		e.refused--
	}
	err := e.call.Record(func(log []eventlog.Event) []engine.Entry {
		recorded = 0
		for _, event := range log {
			if event.Type == envelopeRefusal {
				recorded++
			}
		}
		if known || recorded >= ceiling {
			return nil
		}
		recorded++
		return []engine.Entry{{Type: envelopeRefusal, Payload: map[string]any{
			"nodeId": e.call.NodeID, "provider": e.provider, "model": e.ai.model(), "refusalText": nil, "safetyCategory": category,
		}}}
	})
	if err != nil {
		return err
	}
	if recorded >= ceiling {
		return &NodeError{Code: "envelope_refusal", Message: "The model refused.", Details: map[string]any{"maxRefusals": ceiling}}
	}
	return nil
}

const envelopeRefusal = "envelope.refusal"
