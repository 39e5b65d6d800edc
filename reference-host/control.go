package referencehost

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
)

// controlRoutes are the operations of run control.
func (h *Host) controlRoutes() map[string]route {
	return map[string]route{
		"bulkCancelRuns": {answer: h.bulkCancelRuns},
		"pauseRun":       {answer: h.pauseRun},
		"resumeRun":      {answer: h.resumeRun},
		"forkRun":        {answer: h.forkRun},
		"diffRun":        {answer: h.diffRun},
		"getRunAncestry": {answer: h.getRunAncestry},
	}
}

// controlRefusal answers what the engine did not do because of where the run stands.
func (h *Host) controlRefusal(log eventlog.Log, err error) error {
	var state *engine.StateError
	switch {
	case errors.Is(err, eventlog.ErrEnded):
		run, err := projectLog(log)
		if err != nil {
			return err
		}
		return h.codes.ended(run.status())
	case errors.As(err, &state):
		return h.codes.conflict(state.Status)
	case errors.Is(err, engine.ErrFull):
		return h.codes.busy("active runs")
	}
	return err
}

// maxReason bounds a reason, which is stored in the log, in characters.
const maxReason = 1024

// optionalBody reads a body that may be absent, which is as good as {}, into v.
func (h *Host) optionalBody(r *request, schema string, v any) error {
	if len(bytes.TrimSpace(r.body)) == 0 {
		return nil
	}
	return h.requiredBody(r, schema, v)
}

func (h *Host) requiredBody(r *request, schema string, v any) error {
	value, err := h.decodeBody(r.Request, r.body)
	if err != nil {
		return err
	}
	if err := h.contract.ValidateValue(schema, value); err != nil {
		return h.codes.malformed(err)
	}
	if err := json.Unmarshal(r.body, v); err != nil {
		return h.codes.malformed(err)
	}
	return nil
}

func (h *Host) checkReason(reason string) error {
	if utf8.RuneCountInString(reason) > maxReason {
		return h.codes.invalid("reason", "The reason is longer than 1024 characters.")
	}
	return nil
}
