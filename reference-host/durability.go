package referencehost

import (
	"errors"
	"net/http"

	"wopcert/bundle/jcs"
	"wopcert/reference-host/internal/eventlog"
)

// durabilityPath is no path of the protocol: it is how a test has work delivered a second time, as a queue would.
const durabilityPath = "/host/durability/kill"

const duplicateDelivery = "duplicate-delivery"

// serveDurability hands a run to the engine once more, whatever its state. The run's log must not show it: whoever
// drives the run keeps it, and a run that has ended or is paused stays as it is (events.md §The terminal event).
func (h *Host) serveDurability(w http.ResponseWriter, r *http.Request) {
	response, err := h.redeliver(r)
	if err != nil {
		response = h.refusalOf(r, err).answer()
	}
	response.write(w, r.Method == http.MethodHead)
}

func (h *Host) redeliver(r *http.Request) (*answer, error) {
	caller, err := h.authenticate(r)
	if err != nil {
		return nil, err
	}
	if r.Method != http.MethodPost {
		return nil, h.codes.missing("resource").with("Allow", http.MethodPost)
	}
	body, err := h.readBody(r)
	if err != nil {
		return nil, err
	}
	value, err := jcs.Decode(body)
	if err != nil {
		return nil, h.codes.malformed(err)
	}
	order, _ := value.(map[string]any)
	id, _ := order["runId"].(string)
	if order["mode"] != duplicateDelivery || len(order) != 2 {
		return nil, h.codes.invalid("mode", `The only order is {"mode": "duplicate-delivery", "runId": a run of yours}.`)
	}
	if id, err = h.runID(id, caller); err != nil {
		return nil, err
	}
	log, err := h.store.Open(r.Context(), id)
	if errors.Is(err, eventlog.ErrNotFound) {
		return nil, h.codes.missing("run")
	}
	if err != nil {
		return nil, err
	}
	definition, err := h.held(log)
	if err != nil {
		return nil, err
	}
	if !h.engine.Reserve() {
		return nil, h.codes.busy("active runs")
	}
	h.engine.Start(log, definition)
	return jsonAnswer(http.StatusAccepted, map[string]string{"runId": id}), nil
}
