package referencehost

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/media"
)

const (
	artifactCreated = "artifact.created"
	contentTypeA2A  = "application/a2a+json"
)

// artifactPayload is the payload of artifact.created.
type artifactPayload struct {
	ArtifactID   string `json:"artifactId"`
	ArtifactType string `json:"artifactType"`
	NodeID       string `json:"nodeId"`
}

// runArtifact is the node type conformance.artifact.emit: it keeps config.data as an artifact of config.artifactType
// and announces it. The content is there before anybody can learn of it. A node that is run again has announced it.
func (h *Host) runArtifact(ctx context.Context, call *Call) (Values, error) {
	var config struct {
		ArtifactType string          `json:"artifactType"`
		Data         json.RawMessage `json:"data"`
	}
	if err := call.DecodeConfig(&config); err != nil {
		return nil, err
	}
	if err := h.contract.ValidateValue("ids#/$defs/typeId", config.ArtifactType); err != nil || config.Data == nil {
		return nil, &NodeError{Code: "node_config_invalid", Message: "The node needs an artifactType, which is a typeId, and data."}
	}
	announced, err := call.Recorded(artifactCreated)
	if err != nil {
		return nil, err
	}
	if len(announced) > 0 {
		var payload artifactPayload
		if err := json.Unmarshal(announced[0].Payload, &payload); err != nil {
			return nil, err
		}
		encoded, err := encode(payload.ArtifactID)
		return Values{"artifactId": encoded}, err
	}
	id, err := putArtifact(ctx, call, config.ArtifactType, config.Data)
	if err != nil {
		return nil, err
	}
	encoded, err := encode(id)
	if err != nil {
		return nil, err
	}
	return Values{"artifactId": encoded}, call.Emit(engine.Entry{
		Type: artifactCreated, Payload: artifactPayload{ArtifactID: id, ArtifactType: config.ArtifactType, NodeID: call.NodeID},
	})
}

// artifactView is this host's own representation of an artifact.
type artifactView struct {
	ArtifactID   string          `json:"artifactId"`
	ArtifactType string          `json:"artifactType"`
	RunID        string          `json:"runId"`
	NodeID       string          `json:"nodeId"`
	CreatedAt    string          `json:"createdAt"`
	Data         json.RawMessage `json:"data"`
}

// getArtifact serves an artifact that the run's own log announces, so that a fork serves the ones it has inherited and
// no run serves another's. There is no url part: nothing to reach beyond the caller's authorization (runs.md
// §Artifacts).
func (h *Host) getArtifact(r *request) (*answer, error) {
	log, err := h.openRun(r)
	if err != nil {
		return nil, err
	}
	announced, ok, err := announcement(log, r.second)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, h.codes.missing("artifact")
	}
	artifact, err := h.store.Artifact(r.Context(), log.Run().Owner.Tenant, announced.ArtifactID)
	if errors.Is(err, eventlog.ErrNotFound) {
		return nil, h.codes.missing("artifact")
	}
	if err != nil {
		return nil, err
	}
	var response *answer
	if media.Prefer(r.Header.Values("Accept"), contentTypeJSON, contentTypeA2A) == contentTypeA2A {
		response = jsonAnswer(http.StatusOK, map[string]any{
			"artifactId": artifact.ID,
			"parts":      []any{map[string]any{"data": artifact.Data, "mediaType": contentTypeJSON}},
			"metadata":   map[string]any{"openwop": map[string]any{"artifactTypeId": artifact.Type}},
		})
		response.header.Set("Content-Type", contentTypeA2A)
	} else {
		response = jsonAnswer(http.StatusOK, artifactView{
			ArtifactID: artifact.ID, ArtifactType: artifact.Type, RunID: log.Run().ID, NodeID: announced.NodeID,
			CreatedAt: stamp(artifact.CreatedAt), Data: artifact.Data,
		})
	}
	response.header.Add("Vary", "Accept")
	return response, nil
}

// announcement finds the artifact.created event of an artifact.
func announcement(log eventlog.Log, artifactID string) (payload artifactPayload, ok bool, err error) {
	events, err := log.Read(-1)
	if err != nil {
		return payload, false, err
	}
	for _, event := range events {
		if event.Type != artifactCreated {
			continue
		}
		if err := json.Unmarshal(event.Payload, &payload); err != nil {
			return payload, false, err
		}
		if payload.ArtifactID == artifactID {
			return payload, true, nil
		}
	}
	return artifactPayload{}, false, nil
}
