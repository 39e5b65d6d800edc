package referencehost

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"unicode/utf8"

	"wopcert/reference-host/internal/eventlog"
)

// openRun finds a run of the caller's tenant; r.id is bound to it already.
func (h *Host) openRun(r *request) (eventlog.Log, error) {
	log, err := h.store.Open(r.Context(), r.id)
	if errors.Is(err, eventlog.ErrNotFound) {
		return nil, h.codes.missing("run")
	}
	return log, err
}

func (h *Host) getRun(r *request) (*answer, error) {
	log, err := h.openRun(r)
	if err != nil {
		return nil, err
	}
	state, err := projectLog(log)
	if err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusOK, state.snapshot()).
		conditional(r.Request, state.etag()).
		compressible(r.Request, &h.compressors), nil
}

// maxReason bounds the reason of a cancel, which is stored in the log, in characters.
const maxReason = 1024

// cancelled is the cancelRun response.
type cancelled struct {
	RunID  string `json:"runId"`
	Status string `json:"status"`
}

// cancelRun ends the run before it answers: the terminal event is in the log, so the status is cancelled and never
// cancelling (runs.md §Cancel).
func (h *Host) cancelRun(r *request) (*answer, error) {
	log, err := h.openRun(r)
	if err != nil {
		return nil, err
	}
	reason, err := h.cancelReason(r)
	if err != nil {
		return nil, err
	}
	err = h.engine.Cancel(r.Context(), log, reason, r.principal.owner.Subject.SubjectID)
	if errors.Is(err, eventlog.ErrEnded) {
		state, err := projectLog(log)
		if err != nil {
			return nil, err
		}
		return nil, h.codes.ended(state.status)
	}
	if err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusOK, cancelled{RunID: r.id, Status: statusCancelled}), nil
}

// cancelReason reads the optional body.
func (h *Host) cancelReason(r *request) (string, error) {
	if len(bytes.TrimSpace(r.body)) == 0 {
		return "", nil
	}
	value, err := h.decodeBody(r.Request, r.body)
	if err != nil {
		return "", err
	}
	if err := h.contract.ValidateValue("cancel-request", value); err != nil {
		return "", h.codes.malformed(err)
	}
	var body struct {
		Reason string `json:"reason"`
	}
	if err := json.Unmarshal(r.body, &body); err != nil {
		return "", h.codes.malformed(err)
	}
	if utf8.RuneCountInString(body.Reason) > maxReason {
		return "", h.codes.invalid("reason", "The reason is longer than 1024 characters.")
	}
	return body.Reason, nil
}
