package referencehost

import (
	"net/http"

	"wopcert/reference-host/internal/eventlog"
)

// cancelled is the cancelRun response.
type cancelled struct {
	RunID  string `json:"runId"`
	Status string `json:"status"`
}

// cancelRun ends the run before it answers: the terminal event is in the log, so the status is cancelled and never
// cancelling (runs.md §Cancel). Its children have ended too.
func (h *Host) cancelRun(r *request) (*answer, error) {
	log, err := h.openRun(r)
	if err != nil {
		return nil, err
	}
	var body struct {
		Reason string `json:"reason"`
	}
	if err := h.optionalBody(r, "cancel-request", &body); err != nil {
		return nil, err
	}
	if err := h.checkReason(body.Reason); err != nil {
		return nil, err
	}
	if err := h.engine.Cancel(r.Context(), log, body.Reason, r.principal.owner.Subject.SubjectID); err != nil {
		return nil, h.controlRefusal(log, err)
	}
	return jsonAnswer(http.StatusOK, cancelled{RunID: r.id, Status: eventlog.StatusCancelled}), nil
}
