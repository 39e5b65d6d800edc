package referencehost

import (
	"context"
	"encoding/json"

	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
)

// escalationThreshold is the confidence below which a decision waits for somebody, unless the run says otherwise
// (configurable.run.escalationThreshold).
const escalationThreshold = 0.7

type decidedByAgent struct {
	AgentID    string          `json:"agentId"`
	Decision   json.RawMessage `json:"decision"`
	Confidence *float64        `json:"confidence,omitempty"`
}

type lowConfidence struct {
	AgentID   string          `json:"agentId"`
	Threshold float64         `json:"threshold"`
	Observed  float64         `json:"observed"`
	Decision  json.RawMessage `json:"decision,omitempty"`
}

// runMockAgent is core.conformance.mock-agent: an agent that decides what its config says, with the confidence it says.
// Below the threshold the decision is not carried out before somebody has ratified it (interrupt.md §Payload). Without
// a confidence there is nothing to be below.
func (h *Host) runMockAgent(ctx context.Context, call *Call) (Values, error) {
	config := struct {
		AgentID    string          `json:"agentId"`
		Decision   json.RawMessage `json:"mockDecision"`
		Confidence *float64        `json:"mockConfidence"`
	}{AgentID: mockAgent, Decision: json.RawMessage(`{}`)}
	if err := call.DecodeConfig(&config); err != nil {
		return nil, err
	}
	if c := config.Confidence; config.AgentID == "" || c != nil && (*c < 0 || *c > 1) {
		return nil, configRefusal("a mock agent needs an agentId, and a mockConfidence from 0 to 1 if any")
	}
	decided := decidedByAgent{AgentID: config.AgentID, Decision: config.Decision, Confidence: config.Confidence}
	said, err := call.Recorded(eventlog.AgentDecided)
	if err != nil {
		return nil, err
	}
	if len(said) == 0 {
		if err := call.Emit(engine.Entry{Type: eventlog.AgentDecided, Payload: decided}); err != nil {
			return nil, err
		}
	}
	outputs := Values{"decision": config.Decision}
	threshold := h.threshold(call.Run)
	if config.Confidence == nil || *config.Confidence >= threshold {
		return outputs, nil
	}
	data, err := encode(lowConfidence{
		AgentID: config.AgentID, Threshold: threshold, Observed: *config.Confidence, Decision: config.Decision,
	})
	if err != nil {
		return nil, err
	}
	resolution, err := h.interrupt(ctx, call, engine.Interrupt{
		Kind: kindLowConfidence, Key: call.Key(), Data: data, Reason: kindLowConfidence,
	})
	if err != nil {
		return nil, err
	}
	outputs["resumeValue"] = resolution.ResumeValue
	return outputs, nil
}

// threshold is the run's own, else the host's. One above 1 lets no decision with a confidence through; the interrupt
// shows it as 1.
func (h *Host) threshold(run *eventlog.Run) float64 {
	var options struct {
		Run struct {
			Threshold *float64 `json:"escalationThreshold"`
		} `json:"run"`
	}
	if err := json.Unmarshal(run.Configurable, &options); err != nil || options.Run.Threshold == nil {
		return escalationThreshold
	}
	return *options.Run.Threshold
}
