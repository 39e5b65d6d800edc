package referencehost

import (
	"errors"
	"net/http"

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
	shown, etag, err := h.view(r.Context(), state)
	if err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusOK, shown).
		conditional(r.Request, etag).
		compressible(r.Request, &h.compressors), nil
}
