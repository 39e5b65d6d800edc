package referencehost

import (
	"net/http"

	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
)

// paused is the pauseRun response.
type paused struct {
	RunID    string `json:"runId"`
	Status   string `json:"status"`
	PausedAt string `json:"pausedAt,omitempty"`
}

// pauseRun pauses a run. pausedAt is missing while nodes are being drained: the run is paused when they have ended
// (runs.md §Pause and resume).
func (h *Host) pauseRun(r *request) (*answer, error) {
	log, err := h.openRun(r)
	if err != nil {
		return nil, err
	}
	body := struct {
		Reason      string `json:"reason"`
		DrainPolicy string `json:"drainPolicy"`
	}{DrainPolicy: engine.DrainCurrentNode}
	if err := h.optionalBody(r, "pause-request", &body); err != nil {
		return nil, err
	}
	if err := h.checkReason(body.Reason); err != nil {
		return nil, err
	}
	at, err := h.engine.Pause(r.Context(), log, body.DrainPolicy, body.Reason)
	if err != nil {
		return nil, h.controlRefusal(log, err)
	}
	return jsonAnswer(http.StatusAccepted, paused{RunID: r.id, Status: eventlog.StatusPaused, PausedAt: stamp(at)}), nil
}

// resumed is the resumeRun response.
type resumed struct {
	RunID     string `json:"runId"`
	Status    string `json:"status"`
	ResumedAt string `json:"resumedAt"`
}

// resumeRun takes a paused run on.
func (h *Host) resumeRun(r *request) (*answer, error) {
	log, err := h.openRun(r)
	if err != nil {
		return nil, err
	}
	var body struct {
		Reason string `json:"reason"`
	}
	if err := h.optionalBody(r, "resume-request", &body); err != nil {
		return nil, err
	}
	if err := h.checkReason(body.Reason); err != nil {
		return nil, err
	}
	definition, err := h.held(log)
	if err != nil {
		return nil, err
	}
	at, err := h.engine.Resume(r.Context(), log, definition, body.Reason)
	if err != nil {
		return nil, h.controlRefusal(log, err)
	}
	return jsonAnswer(http.StatusAccepted, resumed{RunID: r.id, Status: eventlog.StatusRunning, ResumedAt: stamp(at)}), nil
}
