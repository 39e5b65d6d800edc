package engine

import (
	"errors"
	"slices"

	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/workflow"
)

// Entry is an event a node records in the log of its run.
type Entry struct {
	Type string
	// Cause is the id of what caused the event: an event's, or the correlation id of an AI envelope; "" for none.
	Cause   string
	Payload any
}

// LogEntry is a log.appended line of this node; fields may be nil.
func (c *Call) LogEntry(level, message, cause string, fields map[string]any) Entry {
	return Entry{Type: eventlog.LogAppended, Cause: cause, Payload: logPayload{Level: level, Message: message, NodeID: c.NodeID, Fields: fields}}
}

// Emit records events of this node, all of them or none.
func (c *Call) Emit(entries ...Entry) error {
	if c.driver == nil {
		return errNoLog
	}
	return c.driver.emit(c.node, c.drafts(entries)...)
}

// Record records what decide makes of the log as it stands; no entries record nothing. What it decides holds for the
// log it ends up in. An attempt that was cut records nothing any more and gets an error.
func (c *Call) Record(decide func(log []eventlog.Event) []Entry) error {
	d := c.driver
	if d == nil {
		return errNoLog
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.x.nodes[c.node].skip = 0 // a node that decides by the log sees for itself what a fork has in its history
	for d.stopped == nil {
		events, err := d.log.Read(-1)
		if err != nil {
			return err
		}
		entries := decide(events)
		if len(entries) == 0 {
			return nil
		}
		// Nobody but this driver appends anything except what ends the run.
		if _, err = d.log.Append(d.ctx, int64(len(events))-1, c.drafts(entries)...); !errors.Is(err, eventlog.ErrConflict) {
			return err
		}
	}
	return d.stopped
}

// Recorded are the events of these types this node has in the log, of whatever attempt. A node that asks decides by the
// log, as with Record.
func (c *Call) Recorded(eventTypes ...string) (own []eventlog.Event, err error) {
	err = c.Record(func(log []eventlog.Event) []Entry {
		own = nil
		for _, event := range log {
			if event.NodeID == c.NodeID && slices.Contains(eventTypes, event.Type) {
				own = append(own, event)
			}
		}
		return nil
	})
	return own, err
}

func (c *Call) drafts(entries []Entry) []eventlog.Draft {
	drafts := make([]eventlog.Draft, 0, len(entries))
	for _, entry := range entries {
		drafts = append(drafts, c.engine.draft(c.NodeID, entry.Cause, entry.Type, entry.Payload))
	}
	return drafts
}

// Contract is the envelope contract of the node, nil when it has none.
func (c *Call) Contract() *workflow.Contract {
	if i, ok := c.driver.def.NodeIndex(c.NodeID); ok {
		return c.driver.def.Nodes[i].Contract
	}
	return nil
}
