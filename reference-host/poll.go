package referencehost

import (
	"net/http"
	"time"

	"wopcert/reference-host/internal/eventlog"
)

// The wait of a poll, in seconds (events.md §Poll).
const (
	defaultPollSeconds = 30
	maxPollSeconds     = 60
)

// pollResponse is the pollRunEvents response.
type pollResponse struct {
	RunID        string           `json:"runId"`
	Events       []eventlog.Event `json:"events"`
	LastSequence int64            `json:"lastSequence"`
	Status       string           `json:"status"`
	IsTerminal   bool             `json:"isTerminal"`
}

// pollRunEvents answers as soon as there is an event behind the cursor, when the run has ended, and when the wait is
// over. All members of the response come from one look at the log.
func (h *Host) pollRunEvents(r *request) (*answer, error) {
	log, err := h.openRun(r)
	if err != nil {
		return nil, err
	}
	after, wait, err := h.pollQuery(r)
	if err != nil {
		return nil, err
	}
	over := newAlarm(h.clock)
	defer over.stop()
	state := newProjection(log.Run())
	response := pollResponse{RunID: log.Run().ID, Events: []eventlog.Event{}}
	for waited := false; ; {
		changed := log.Changed()
		events, err := log.Read(state.last)
		if err != nil {
			return nil, err
		}
		for _, event := range events {
			if err := state.apply(event); err != nil {
				return nil, err
			}
			if event.Sequence > after {
				response.Events = append(response.Events, event)
			}
		}
		if waited || len(response.Events) > 0 || state.terminal() {
			response.LastSequence, response.Status, response.IsTerminal = state.last, state.status(), state.terminal()
			return jsonAnswer(http.StatusOK, response), nil
		}
		if !over.armed {
			over.set(wait)
		}
		select {
		case <-changed:
		case <-over.rung:
			waited = true
		case <-h.closing.Done():
			waited = true
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

func (h *Host) pollQuery(r *request) (after int64, wait time.Duration, err error) {
	values, err := h.query(r, "afterSequence", "timeout")
	if err != nil {
		return 0, 0, err
	}
	after = -1
	if text, given := values["afterSequence"]; given {
		var ok bool
		if after, ok = parseCursor(text); !ok {
			return 0, 0, h.codes.invalid("afterSequence", "The cursor must be a whole number of at least 0.")
		}
	}
	seconds := uint64(defaultPollSeconds)
	if text, given := values["timeout"]; given {
		var ok bool
		if seconds, ok = parseNumber(text); !ok || seconds < 1 || seconds > maxPollSeconds {
			return 0, 0, h.codes.invalid("timeout", "The wait must be a whole number of seconds from 1 to 60.")
		}
	}
	return after, time.Duration(seconds) * time.Second, nil
}
