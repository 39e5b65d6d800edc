package referencehost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/workflow"
)

// The workflows behind the seams of this area. They are held by the host itself and served to nobody.
const (
	seamWorkflowHTTP     = "wopcert-seam-http"
	seamWorkflowArtifact = "wopcert-seam-artifact"
)

// nowhere is where a seam sends to when its caller names no receiver: a name that is never registered (RFC 2606).
const nowhere = "https://receiver.invalid/"

// seamSettle bounds how long a seam waits for the end of the run it has started.
const seamSettle = 15 * time.Second

func (h *Host) effectSeamRoutes() map[string]route {
	return map[string]route{
		"fireEffectSeam":            {answer: h.fireEffectSeam},
		"forceEffectTransportRetry": {answer: h.forceEffectRetry},
	}
}

// fireEffectSeam starts a run that drives a seam of the manifest once.
func (h *Host) fireEffectSeam(r *request) (*answer, error) {
	var order struct {
		Seam        string `json:"seam"`
		ReceiverURL string `json:"receiverUrl"`
	}
	if err := h.seamBody(r, "seams#/$defs/fireRequest", &order); err != nil {
		return nil, err
	}
	inputs := map[string]any{}
	switch order.Seam {
	case engine.SeamHTTP:
		if order.ReceiverURL == "" {
			order.ReceiverURL = nowhere
		}
		inputs["url"] = order.ReceiverURL
	case engine.SeamArtifact:
	default:
		return nil, h.codes.missing("effect seam to drive")
	}
	id := seamWorkflowHTTP
	if order.Seam == engine.SeamArtifact {
		id = seamWorkflowArtifact
	}
	runID, err := h.runSeam(r, id, inputs)
	if err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusCreated, map[string]string{"runId": runID}), nil
}

// forceEffectRetry starts a run that sends one effect to a provider and counts the first answer as lost.
func (h *Host) forceEffectRetry(r *request) (*answer, error) {
	var order struct {
		ProviderURL string `json:"providerUrl"`
	}
	if err := h.seamBody(r, "seams#/$defs/effectRetryRequest", &order); err != nil {
		return nil, err
	}
	runID, err := h.runSeam(r, seamWorkflowHTTP, map[string]any{
		"url": order.ProviderURL, "key": "seam." + h.ids.Opaque(), "lost": 1,
	})
	if err != nil {
		return nil, err
	}
	rows, err := h.ledger.Of(r.Context(), runID)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("run %s: the effect that was to be sent twice has no record", runID)
	}
	return jsonAnswer(http.StatusCreated, map[string]string{"runId": runID, "effectId": rows[0].EffectID}), nil
}

func (h *Host) seamBody(r *request, schema string, into any) error {
	value, err := h.decodeBody(r.Request, r.body)
	if err != nil {
		return err
	}
	if err := h.contract.ValidateValue(schema, value); err != nil {
		return h.codes.malformed(err)
	}
	if err := json.Unmarshal(r.body, into); err != nil {
		return h.codes.malformed(err)
	}
	return nil
}

// runSeam starts a run of one of the host's own workflows for the caller, and waits for its end.
func (h *Host) runSeam(r *request, workflowID string, values map[string]any) (string, error) {
	definition := h.own[workflowID]
	inputs, err := encode(values)
	if err != nil {
		return "", err
	}
	run := eventlog.Run{
		Owner: r.principal.owner, WorkflowID: workflowID, EngineVersion: engineVersion, CreatedAt: h.clock.Now(), Inputs: inputs,
	}
	if err := h.checkOptions(r, new(createBody), &run); err != nil {
		return "", err
	}
	var seeds map[string]json.RawMessage
	if err := json.Unmarshal(inputs, &seeds); err != nil {
		return "", err
	}
	if run.Variables, err = definition.Seed(seeds); err != nil {
		var bad *workflow.InputError
		if errors.As(err, &bad) {
			return "", h.codes.invalid(bad.Name, "The value does not fit: "+bad.Reason+".")
		}
		return "", err
	}
	if !h.engine.Reserve() {
		return "", h.codes.busy("active runs")
	}
	run.ID = h.mintRunID(run.Owner.Tenant)
	log, err := h.store.Create(r.Context(), run, false, h.engine.StartEvent(&run, "rest"))
	if err != nil {
		h.engine.Release()
		return "", err
	}
	h.engine.Start(log, definition)
	ctx, cancel := context.WithTimeout(r.Context(), seamSettle)
	defer cancel()
	return run.ID, awaitEnd(ctx, log)
}

// awaitEnd waits until a run has ended, or for as long as the context lets it.
func awaitEnd(ctx context.Context, log eventlog.Log) error {
	for {
		changed := log.Changed()
		events, err := log.Read(-1)
		if err != nil {
			return err
		}
		if standing := eventlog.StandingOf(log.Run(), events); standing.Ended() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// loadSeamWorkflows makes the workflows behind the seams.
func (h *Host) loadSeamWorkflows() error {
	h.own = make(map[string]*workflow.Definition)
	for id, node := range map[string]string{
		seamWorkflowHTTP: `{"id":"effect","typeId":"` + httpNodeType + `","name":"Send","position":{"x":0,"y":0},"config":{"body":{"node":"effect"}},"inputs":{
			"url":{"type":"variable","variableName":"url"},"key":{"type":"variable","variableName":"key","optional":true},
			"lost":{"type":"variable","variableName":"lost","optional":true}}}`,
		seamWorkflowArtifact: `{"id":"effect","typeId":"core.conformance.side-effect","name":"Keep","position":{"x":0,"y":0},"config":{},"inputs":{}}`,
	} {
		document := fmt.Appendf(nil, `{"id":%q,"name":"Effect seam","version":"1.0","nodes":[%s],"edges":[],"triggers":[],"variables":[
			{"name":"url","type":"string"},{"name":"key","type":"string"},{"name":"lost","type":"number"}],"metadata":{},"settings":{}}`, id, node)
		definition, err := workflow.Parse(h.contract, document)
		if err != nil {
			return err
		}
		h.own[id] = definition
	}
	return nil
}
