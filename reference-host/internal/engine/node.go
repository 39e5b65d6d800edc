package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"wopcert/reference-host/internal/clock"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/workflow"
)

// Values are the inputs or outputs of a node: port name to encoded JSON.
type Values map[string]json.RawMessage

// NodeType is what a typeId means. Run must return when ctx ends, and must reach the outside world only through
// Call.Send.
type NodeType struct {
	ID string
	// Requires lists runtime capabilities the host has to provide before a node of the type is run.
	Requires []string
	// SideEffect says that a node of the type does what can be seen outside the log of its run. A replay does not run
	// it: it takes the recorded outcome (replay.md §Suppression).
	SideEffect bool
	// Inverse says that the type can undo what a node did: it is run with inputs alone and records no events
	// (security-defaults.md §Compensation).
	Inverse bool
	// Run executes one attempt. A *NodeError is the node's own failure; any other error is recorded as internal_error.
	Run func(ctx context.Context, call *Call) (Values, error)
}

// NodeError is a failure a node reports: it is what node.failed and run.failed carry.
type NodeError struct {
	Code    string
	Message string
	Details map[string]any
	// Final says that another attempt would come to the same: none is made.
	Final bool
}

func (e *NodeError) Error() string { return e.Code + ": " + e.Message }

// Effect is one request a node makes of the outside world. The node gives the seam, the request and the business key,
// the engine the rest.
type Effect struct {
	Tenant, RunID, NodeID string
	// Execution counts the executions of the node in the run, from 1, and Ordinal the effects within one, from 0.
	// Attempt is no part of what identifies an effect.
	Execution, Ordinal, Attempt int
	// Seam is the effect seam the request leaves by; "" is SeamHTTP.
	Seam string
	// Key is the business identity of the operation, "" when it has none (idempotency.md §Layer 2).
	Key string
	// Inverse is the identity of an inverse action, "" for an effect of a node.
	Inverse string
	// Replay is set for a run that replays another.
	Replay bool
	// Resend is how many answers count as lost on the way, so that the request is sent again at the transport.
	Resend int

	Method, URL string
	Header      http.Header
	Body        []byte
}

// The effect seams nodes can reach by Call.Send.
const (
	SeamHTTP     = "http.request"
	SeamArtifact = "artifact.put"
)

// Invocation names the logical invocation within the run.
func (e *Effect) Invocation() string {
	return fmt.Sprintf("%s.%d.%d", e.NodeID, e.Execution, e.Ordinal)
}

// Provider is who the request goes to.
func (e *Effect) Provider() string {
	target, err := url.Parse(e.URL)
	if err != nil {
		return e.Seam
	}
	return e.Seam + " " + target.Scheme + "://" + target.Host
}

// Outcome is what came back.
type Outcome struct {
	Status int
	Header http.Header
	Body   []byte
}

// Sender is the one way out of the host: everything a run does to the world goes through it, so that a guard, a ledger
// or a replay can stand in front of the world by standing in front of the Sender.
type Sender interface {
	Send(ctx context.Context, effect Effect) (*Outcome, error)
}

// Call is one attempt of one node, as the node sees it.
type Call struct {
	// Run is the fixed part of the run; its Configurable is the same for every attempt (runs.md §Validation and
	// persistence).
	Run     *eventlog.Run
	NodeID  string
	Attempt int
	Config  json.RawMessage
	Inputs  Values
	Clock   clock.Clock

	engine *Engine
	driver *driver // nil for an inverse action
	node   int     // position in the definition
	// execution counts the executions of the node in the run, from 1.
	execution int
	inverse   string // the identity of an inverse action
	denied    bool   // the node has asked for an effect that a replay does not let out
	effects   int
	minted    int
	drawn     int
}

// Send performs an effect of this node.
func (c *Call) Send(ctx context.Context, effect Effect) (*Outcome, error) {
	effect.Tenant, effect.RunID, effect.NodeID = c.Run.Owner.Tenant, c.Run.ID, c.NodeID
	effect.Attempt, effect.Execution, effect.Ordinal = c.Attempt, c.execution, c.effects
	effect.Inverse, effect.Replay = c.inverse, c.Run.ForkMode == forkReplay
	if effect.Seam == "" {
		effect.Seam = SeamHTTP
	}
	c.effects++
	if effect.Replay {
		c.denied = true
	}
	return c.engine.sender.Send(ctx, effect)
}

// Key is the re-entry key of what this execution of the node asks (interrupt.md §Re-entry and resume values): the same
// whichever attempt asks, and another where the node is executed again, which asks anew.
func (c *Call) Key() string {
	if c.execution <= 1 {
		return c.NodeID
	}
	return fmt.Sprintf("%s.%d", c.NodeID, c.execution)
}

// Log records a line in the run's log (log.appended).
func (c *Call) Log(level, message string) error {
	return c.emit(eventlog.LogAppended, logPayload{Level: level, Message: message, NodeID: c.NodeID})
}

// Chunk records a piece of streaming output (output.chunk). meta may be nil.
func (c *Call) Chunk(text string, last bool, meta map[string]any) error {
	return c.emit(eventlog.OutputChunk, chunkPayload{
		NodeID: c.NodeID, RunID: c.Run.ID, Chunk: text, IsLast: last, Meta: meta,
	})
}

// SetVariable changes a variable of the run (variable.changed).
func (c *Call) SetVariable(name string, value json.RawMessage) error {
	if c.driver == nil {
		return errNoLog
	}
	return c.driver.setVariable(c.node, name, value)
}

func (c *Call) emit(eventType string, payload any) error {
	if c.driver == nil {
		return errNoLog
	}
	return c.driver.emit(c.node, c.engine.draft(c.NodeID, "", eventType, payload))
}

// errNoLog: an inverse action records nothing but what came of it.
var errNoLog = errors.New("an inverse action has no log to write to")

// DecodeConfig reads the node's config into v; what does not fit is node_config_invalid.
func (c *Call) DecodeConfig(v any) error {
	if err := json.Unmarshal(c.Config, v); err != nil {
		return &NodeError{Code: "node_config_invalid", Message: "the node's config cannot be read: " + err.Error()}
	}
	return nil
}

// CoreTypes are the node types every host of this kind runs.
func CoreTypes() []NodeType {
	return []NodeType{
		{ID: "core.noop", Run: func(context.Context, *Call) (Values, error) { return nil, nil }},
		{ID: "core.identity", Run: func(_ context.Context, call *Call) (Values, error) { return call.Inputs, nil }},
		{ID: "core.delay", Run: runDelay, SideEffect: true},
		{ID: "core.conformance.hold", Run: runDelay},
		{ID: "core.conformance.nondeterminism", Run: runDraw},
		{ID: "core.fail", Run: runFail},
		{ID: "conformance.version.pin", Run: runPinVersion},
		{ID: workflow.TypeSubWorkflow, Run: runSubWorkflow, SideEffect: true},
		{ID: workflow.TypeSupervisor, Run: runSupervisor},
		{ID: workflow.TypeDispatch, Run: runDispatch, SideEffect: true},
		{
			ID:       "conformance.requiresMissing",
			Requires: []string{"conformance.never-provided"},
			Run: func(context.Context, *Call) (Values, error) {
				return nil, errors.New("a node whose capability nobody provides was run")
			},
		},
	}
}

// runDelay waits for the input delayMs, or the config's delayMs without one.
func runDelay(ctx context.Context, call *Call) (Values, error) {
	config := struct {
		DelayMs    *float64 `json:"delayMs"`
		MinDelayMs float64  `json:"minDelayMs"`
		MaxDelayMs float64  `json:"maxDelayMs"`
	}{MaxDelayMs: float64(time.Hour / time.Millisecond)}
	if err := call.DecodeConfig(&config); err != nil {
		return nil, err
	}
	if raw, ok := call.Inputs["delayMs"]; ok {
		config.DelayMs = nil
		if err := json.Unmarshal(raw, &config.DelayMs); err != nil {
			return nil, &NodeError{Code: "validation_error", Message: "delayMs is not a number"}
		}
	}
	if config.DelayMs == nil {
		return nil, &NodeError{Code: "node_config_invalid", Message: "the node has no delayMs"}
	}
	if delay := *config.DelayMs; delay < config.MinDelayMs || delay > config.MaxDelayMs || delay != float64(int64(delay)) {
		return nil, &NodeError{
			Code:    "validation_error",
			Message: fmt.Sprintf("delayMs must be a whole number from %g to %g", config.MinDelayMs, config.MaxDelayMs),
		}
	}
	return nil, clock.Sleep(ctx, call.Clock, time.Duration(*config.DelayMs)*time.Millisecond)
}

func runFail(_ context.Context, call *Call) (Values, error) {
	failure := struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}{Code: "node_failed", Message: "The node failed."}
	if err := call.DecodeConfig(&failure); err != nil {
		return nil, err
	}
	return nil, &NodeError{Code: failure.Code, Message: failure.Message}
}
