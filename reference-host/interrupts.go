package referencehost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/token"
	"wopcert/reference-host/internal/workflow"
)

// interruptFamilies is the family of what waits for somebody.
func (h *Host) interruptFamilies() familySet {
	return familySet{"interrupt": {
		"tokenAlgs":        []any{token.Algorithm},
		"refKinds":         []any{"principal", string(RefGroup), string(RefRole)},
		"callbackDelivery": true,
	}}
}

// interruptRoutes are the two surfaces on which interrupts are resolved.
func (h *Host) interruptRoutes() map[string]route {
	return map[string]route{
		"resolveInterruptByRun":   {answer: h.resolveInterruptByRun},
		"inspectInterruptByToken": {answer: h.inspectInterruptByToken},
		"resolveInterruptByToken": {answer: h.resolveInterruptByToken},
	}
}

// gate is an interrupt somebody is about to answer.
type gate struct {
	run    *eventlog.Run
	def    *workflow.Definition
	asked  *engine.Asked
	events []eventlog.Event
}

// setting is a member of the node's config, or the input of that name when it is fixed at the creation of the run. It
// is for what the host needs to know about a gate and no client does.
func (g *gate) setting(name string) json.RawMessage {
	return nodeSetting(g.def, g.run, g.asked.NodeID, name)
}

func (g *gate) option(name string) string {
	var text string
	_ = json.Unmarshal(g.setting(name), &text) // what is no text names nothing
	return text
}

func nodeSetting(def *workflow.Definition, run *eventlog.Run, nodeID, name string) json.RawMessage {
	if def == nil {
		return nil
	}
	i, known := def.NodeIndex(nodeID)
	if !known {
		return nil
	}
	switch port := def.Nodes[i].Inputs[name]; port.Type {
	case "static":
		return port.Value
	case "variable":
		if value, set := run.Variables[port.VariableName]; set {
			return value
		}
	}
	var config map[string]json.RawMessage
	_ = json.Unmarshal(def.Nodes[i].Config, &config) // a config that is no object has no members
	return config[name]
}

// resolved is the answer to a resolve.
type resolved struct {
	RunID  string `json:"runId"`
	NodeID string `json:"nodeId"`
	Status string `json:"status"`
}

type resolveBody struct {
	ResumeValue json.RawMessage `json:"resumeValue"`
}

func (h *Host) resolveInterruptByRun(r *request) (*answer, error) {
	log, err := h.openRun(r)
	if err != nil {
		return nil, err
	}
	var body resolveBody
	if err := h.requiredBody(r, "interrupt-resolve-request", &body); err != nil {
		return nil, err
	}
	definition, err := h.held(log)
	if err != nil {
		return nil, err
	}
	if _, known := definition.NodeIndex(r.second); !known {
		return nil, h.codes.missing("node")
	}
	who := resolver{&r.principal.owner.Subject}
	return h.resolve(r.Context(), log, r.second, body.ResumeValue, who, func(a *engine.Asked) bool { return a.NodeID == r.second })
}

// openToken checks the token of a path, before anything else is decided about the request. Whose run it is about is
// what the token says.
func (h *Host) openToken(r *request) error {
	claims, err := h.tokens.Open(r.id)
	if err != nil {
		return h.codes.tokenInvalid()
	}
	r.token = claims
	return nil
}

// redeem finds what a token is about. A token that is past its time is expired whatever has become of its interrupt.
func (h *Host) redeem(r *request) (eventlog.Log, error) {
	if r.token.Expired(h.clock.Now()) {
		return nil, h.codes.tokenExpired()
	}
	log, err := h.store.Open(r.Context(), r.token.RunID)
	if errors.Is(err, eventlog.ErrNotFound) {
		return nil, h.codes.missing("interrupt")
	}
	return log, err
}

func (h *Host) inspectInterruptByToken(r *request) (*answer, error) {
	log, err := h.redeem(r)
	if err != nil {
		return nil, err
	}
	events, err := log.Read(-1)
	if err != nil {
		return nil, err
	}
	run := log.Run()
	asked, err := engine.AskedBy(&run, events, func(a *engine.Asked) bool { return a.InterruptID == r.token.InterruptID })
	standing := eventlog.StandingOf(run, events)
	switch {
	case err != nil:
		return nil, err
	case asked == nil:
		return nil, h.codes.missing("interrupt")
	case asked.Resolution != nil || standing.Ended():
		return nil, h.codes.alreadyResolved()
	}
	return rawAnswer(http.StatusOK, asked.Payload), nil
}

func (h *Host) resolveInterruptByToken(r *request) (*answer, error) {
	log, err := h.redeem(r)
	if err != nil {
		return nil, err
	}
	if r.token.Intent != token.Resolve {
		return nil, h.codes.inspectOnly()
	}
	var body resolveBody
	if err := h.requiredBody(r, "interrupt-resolve-request", &body); err != nil {
		return nil, err
	}
	return h.resolve(r.Context(), log, r.token.NodeID, body.ResumeValue, resolver{}, func(a *engine.Asked) bool {
		return a.InterruptID == r.token.InterruptID
	})
}

// resolve answers an interrupt and says where the run stands then. Who does not answer in the right way changes nothing.
func (h *Host) resolve(
	ctx context.Context, log eventlog.Log, nodeID string, raw json.RawMessage, who resolver, wanted func(*engine.Asked) bool,
) (*answer, error) {
	run := log.Run()
	gate := &gate{run: &run, def: h.definition(run)}
	err := h.engine.Answer(ctx, log, wanted, func(asked *engine.Asked, events []eventlog.Event) (*engine.Answer, error) {
		gate.asked, gate.events = asked, events
		return h.decide(ctx, gate, who, raw)
	})
	switch {
	case errors.Is(err, engine.ErrResolved):
		return nil, h.codes.alreadyResolved()
	case errors.Is(err, engine.ErrNotAsked):
		return nil, h.codes.missing("interrupt")
	case err != nil:
		return nil, err
	}
	state, err := projectLog(log)
	if err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusOK, resolved{RunID: run.ID, NodeID: nodeID, Status: state.status()}), nil
}

// decide checks an answer to an interrupt.
func (h *Host) decide(ctx context.Context, gate *gate, who resolver, raw json.RawMessage) (*engine.Answer, error) {
	if who.subject == nil && string(gate.setting("authRequired")) == "true" {
		return nil, h.codes.needsCaller()
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, err
	}
	var answer *engine.Answer
	if gate.asked.Kind == kindApproval {
		var err error
		if answer, err = h.approve(ctx, gate, who, raw, value); err != nil {
			return nil, err
		}
	} else {
		answer = &engine.Answer{Resolution: &engine.Resolution{ResumeValue: raw, ResolvedBy: who.subject}}
	}
	rules, err := resumeRules(gate.asked.Kind, gate.asked.Payload)
	if err != nil {
		return nil, err
	}
	for _, rule := range rules {
		if err := rule.Check(value); err != nil {
			return nil, h.codes.invalid("resumeValue", fmt.Sprintf("The resume value is not acceptable: %v.", err))
		}
	}
	return answer, nil
}

// gateOf is the family, or facet, a node needs, "" for none: that of its type, and for an interrupt of a kind the
// definition names, that of the kind.
func gateOf(node *workflow.Node, gated map[string]string) string {
	gate := gated[node.TypeID]
	if node.TypeID != typeInterrupt {
		return gate
	}
	var config struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(node.Config, &config); err == nil && config.Kind != "" {
		return kindGate(config.Kind)
	}
	return gate
}

// takesToken reports whether the credential of an operation is the token in its path.
func takesToken(path string) bool { return strings.Contains(path, "{token}") }
