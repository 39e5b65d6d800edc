package engine

import (
	"encoding/json"
	"time"

	"wopcert/reference-host/internal/eventlog"
)

// Asked is an interrupt as a log has it.
type Asked struct {
	NodeID, InterruptID, Kind, Key string
	// Payload is the payload of interrupt.requested.
	Payload json.RawMessage
	// Deadline is zero for an interrupt without a timeout.
	Deadline time.Time
	// Resolution is nil while the interrupt is open.
	Resolution *Resolution
}

func (a *Asked) overdue(now time.Time) bool { return !a.Deadline.IsZero() && !now.Before(a.Deadline) }

// AskedBy is the last interrupt in a log that is wanted, nil when there is none.
func AskedBy(run *eventlog.Run, events []eventlog.Event, wanted func(*Asked) bool) (found *Asked, err error) {
	var open *Asked // the last node.suspended, until its interrupt.requested has been read
	for i := range events {
		event := &events[i]
		switch event.Type {
		case eventlog.NodeSuspended:
			payload, err := readPayload[suspendedPayload](*event)
			if err != nil {
				return nil, err
			}
			open = &Asked{NodeID: event.NodeID, InterruptID: payload.InterruptID, Kind: payload.Kind, Key: payload.Key}
		case eventlog.InterruptRequested:
			if open == nil || open.NodeID != event.NodeID {
				continue // without its node.suspended it has no id that an answer could name
			}
			if err := open.requested(run, event); err != nil {
				return nil, err
			}
			if wanted(open) {
				found = open
			}
			open = nil
		case eventlog.InterruptResolved:
			payload, err := readPayload[Resolution](*event)
			if err != nil {
				return nil, err
			}
			if found != nil && found.InterruptID == payload.InterruptID {
				found.Resolution = &payload
			}
		}
	}
	return found, nil
}

func (a *Asked) requested(run *eventlog.Run, event *eventlog.Event) error {
	payload, err := readPayload[Interrupt](*event)
	if err != nil {
		return err
	}
	a.Payload, a.Kind, a.Key = event.Payload, payload.Kind, payload.Key
	a.Deadline = payload.deadline(run, event.Timestamp)
	return nil
}

// deadline is zero without a timeout. A fork gives as much time as its source did.
func (i *Interrupt) deadline(run *eventlog.Run, asked time.Time) time.Time {
	if i.TimeoutMs == nil || *i.TimeoutMs <= 0 {
		return time.Time{}
	}
	if run.CreatedAt.After(asked) {
		asked = run.CreatedAt
	}
	return asked.Add(milliseconds(*i.TimeoutMs))
}
