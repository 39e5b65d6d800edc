package referencehost

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"wopcert/reference-host/internal/effects"
	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
)

// Effects say how the host has effects. RetentionDays is advertised under replay; effect records are kept no shorter.
type Effects struct {
	// Attempts bounds the attempts of one effect at the transport, Backoff is the time before the second, and doubles.
	Attempts int
	Backoff  time.Duration
	// RetentionDays is how long a run that has ended can be forked.
	RetentionDays int
}

func defaultEffects() Effects {
	return Effects{Attempts: 4, Backoff: 20 * time.Millisecond, RetentionDays: 30}
}

// startEffects puts the guard and the ledger in front of the host's way out.
func (h *Host) startEffects() error {
	h.ledger = effects.New(effects.Config{
		Tables: h.store, Next: effects.Seams{engine.SeamHTTP: h.sender, engine.SeamArtifact: artifactStore{h}},
		Clock: h.clock, Incarnation: h.ids.Opaque(), Retention: h.retention(), Logger: h.logger,
		Attempts: h.config.Effects.Attempts, Backoff: h.config.Effects.Backoff,
	})
	return h.ledger.Sweep(context.Background())
}

// effectTypes are the node types with effects.
func (h *Host) effectTypes() []NodeType {
	return []NodeType{
		{ID: httpNodeType, Run: runHTTP, SideEffect: true, Inverse: true},
		{ID: "core.conformance.side-effect", Run: runSideEffect, SideEffect: true},
	}
}

// getRunEffects serves the effect records of a run (idempotency.md §Layer 2).
func (h *Host) getRunEffects(r *request) (*answer, error) {
	log, err := h.openRun(r)
	if err != nil {
		return nil, err
	}
	rows, err := h.ledger.Of(r.Context(), log.Run().ID)
	if err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusOK, struct {
		RunID   string        `json:"runId"`
		Effects []effects.Row `json:"effects"`
	}{log.Run().ID, rows}), nil
}

const httpNodeType = "conformance.http.request"

// httpRequest is what the node type conformance.http.request sends: members of its config, and over them its inputs.
type httpRequest struct {
	URL    string          `json:"url"`
	Method string          `json:"method"`
	Body   json.RawMessage `json:"body"`
	// Key is the business key of the operation, when it has one.
	Key string `json:"key"`
	// Lost is how many answers count as lost on the way.
	Lost int `json:"lost"`
}

// maxLost bounds what a node may send for nothing.
const maxLost = 3

func readRequest(call *Call) (*httpRequest, error) {
	request := &httpRequest{Method: http.MethodPost}
	if err := call.DecodeConfig(request); err != nil {
		return nil, err
	}
	inputs, err := json.Marshal(call.Inputs)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(inputs, request); err != nil {
		return nil, &NodeError{Code: "validation_error", Message: "The inputs are a url, a method, a body and a key.", Final: true}
	}
	methods := []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	if request.URL == "" || !slices.Contains(methods, request.Method) || request.Lost < 0 || request.Lost > maxLost {
		return nil, &NodeError{Code: "validation_error", Message: "The node needs a url and a method that HTTP has.", Final: true}
	}
	return request, nil
}

// runHTTP sends one request and gives out its answer. An answer that is none of success fails the node, without a word
// of what the provider said.
func runHTTP(ctx context.Context, call *Call) (Values, error) {
	request, err := readRequest(call)
	if err != nil {
		return nil, err
	}
	effect := Effect{Method: request.Method, URL: request.URL, Key: request.Key, Resend: request.Lost, Header: make(http.Header)}
	if request.Body != nil {
		effect.Body = request.Body
		effect.Header.Set("Content-Type", contentTypeJSON)
	}
	outcome, err := call.Send(ctx, effect)
	if err != nil {
		var own *NodeError
		if asNodeError(err, &own) || ctx.Err() != nil {
			return nil, err
		}
		return nil, &NodeError{Code: "node_failed", Message: "The provider could not be reached."}
	}
	if outcome.Status < 200 || outcome.Status > 299 {
		return nil, &NodeError{
			Code: "node_failed", Message: fmt.Sprintf("The provider answered %d.", outcome.Status),
			Details: map[string]any{"httpStatus": outcome.Status},
		}
	}
	status, err := encode(outcome.Status)
	if err != nil {
		return nil, err
	}
	body, err := bodyValue(outcome.Body)
	return Values{"status": status, "body": body}, err
}

// bodyValue is a body as JSON: what it is, or its text.
func bodyValue(body []byte) (json.RawMessage, error) {
	var compact bytes.Buffer
	if json.Valid(body) && json.Compact(&compact, body) == nil {
		return compact.Bytes(), nil
	}
	return encode(string(body))
}

// runSideEffect is the reserved node type that stands for any effect: it puts a note into the tenant's artifact store.
func runSideEffect(ctx context.Context, call *Call) (Values, error) {
	id, err := putArtifact(ctx, call, "conformance.side-effect", json.RawMessage(`{}`))
	if err != nil {
		return nil, err
	}
	encoded, err := encode(id)
	return Values{"receipt": encoded}, err
}

const artifactTypeHeader = "Artifact-Type"

// putArtifact keeps data in the artifact store, through the effect seam of that name, and returns the artifact's id. It
// is the identity of the effect: a node that is run again comes to the same artifact.
func putArtifact(ctx context.Context, call *Call, artifactType string, data json.RawMessage) (string, error) {
	outcome, err := call.Send(ctx, Effect{
		Seam: engine.SeamArtifact, Method: http.MethodPut, URL: "artifact:", Header: http.Header{artifactTypeHeader: {artifactType}}, Body: data,
	})
	if err != nil {
		return "", err
	}
	return string(outcome.Body), nil
}

// artifactStore is what lies behind the seam artifact.put.
type artifactStore struct{ host *Host }

// Send implements Sender.
func (s artifactStore) Send(ctx context.Context, effect Effect) (*Outcome, error) {
	id := effect.Header.Get("Idempotency-Key")
	err := s.host.store.PutArtifact(ctx, effect.Tenant, eventlog.Artifact{
		ID: id, Type: effect.Header.Get(artifactTypeHeader), Data: effect.Body, CreatedAt: s.host.clock.Now(),
	})
	if err != nil && !isExists(err) { // it is there from an attempt whose end nobody saw
		return nil, err
	}
	return &Outcome{Status: http.StatusOK, Header: http.Header{"Content-Type": {"text/plain"}}, Body: []byte(id)}, nil
}
