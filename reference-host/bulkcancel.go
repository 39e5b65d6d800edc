package referencehost

import (
	"errors"
	"net/http"
	"strings"

	"wopcert/reference-host/internal/eventlog"
)

// maxBulkCancel is how many ids one bulkCancelRuns takes (runs.md §Bulk cancel).
const maxBulkCancel = 100

// bulkEntry is what one id of a bulkCancelRuns came to.
type bulkEntry struct {
	RunID  string         `json:"runId"`
	OK     bool           `json:"ok"`
	Status string         `json:"status,omitempty"`
	Error  map[string]any `json:"error,omitempty"`
}

// bulkCancelRuns cancels each run by itself: what an id comes to is in its entry and nowhere else.
func (h *Host) bulkCancelRuns(r *request) (*answer, error) {
	value, err := h.decodeBody(r.Request, r.body)
	if err != nil {
		return nil, err
	}
	if object, ok := value.(map[string]any); ok {
		if ids, ok := object["runIds"].([]any); ok && len(ids) > maxBulkCancel {
			return nil, h.codes.tooManyRuns(maxBulkCancel)
		}
	}
	var body struct {
		RunIDs []string `json:"runIds"`
		Reason string   `json:"reason"`
	}
	if err := h.requiredBody(r, "bulk-cancel-request", &body); err != nil {
		return nil, err
	}
	results := make([]bulkEntry, 0, len(body.RunIDs))
	for _, id := range body.RunIDs {
		entry := bulkEntry{RunID: id, OK: true, Status: eventlog.StatusCancelled}
		if err := h.cancelEntry(r, id, body.Reason); err != nil {
			refusal := h.refusalOf(r.Request, err)
			entry = bulkEntry{RunID: id, Error: refusal.envelope()}
		}
		results = append(results, entry)
	}
	return jsonAnswer(http.StatusOK, map[string]any{"results": results}), nil
}

// cancelEntry cancels one run of the caller's tenant. Ids in a body are bound and never projected; the tenant is looked
// at before the run is, so that another tenant's id says nothing (identity.md §5).
func (h *Host) cancelEntry(r *request, id, reason string) error {
	tenant, _, bound := strings.Cut(id, "/")
	switch {
	case !bound || !isRunID(id):
		return h.codes.missing("run")
	case tenant != r.principal.tenant():
		return h.codes.foreignID()
	}
	log, err := h.store.Open(r.Context(), id)
	if errors.Is(err, eventlog.ErrNotFound) {
		return h.codes.missing("run")
	}
	if err != nil {
		return err
	}
	if err := h.engine.Cancel(r.Context(), log, reason, r.principal.owner.Subject.SubjectID); err != nil {
		return h.controlRefusal(log, err)
	}
	return nil
}
