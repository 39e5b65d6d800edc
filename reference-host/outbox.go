package referencehost

import "wopcert/reference-host/internal/eventlog"

// outboxes are what the parts of the host write into tables in the same step as events into a log.
func (h *Host) outboxes() []eventlog.Outbox {
	return []eventlog.Outbox{h.callbackOutbox, h.webhookOutbox}
}

// joinOutboxes makes one outbox of several, nil of none.
func joinOutboxes(parts []eventlog.Outbox) eventlog.Outbox {
	if len(parts) == 0 {
		return nil
	}
	return func(run eventlog.Run, events []eventlog.Event) (writes []eventlog.TableWrite) {
		for _, part := range parts {
			writes = append(writes, part(run, events)...)
		}
		return writes
	}
}
