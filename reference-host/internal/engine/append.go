package engine

import (
	"encoding/json"

	"wopcert/reference-host/internal/eventlog"
)

// add queues an event; node -1 is the run itself. It returns the event's id.
func (d *driver) add(node int, cause, eventType string, payload any) string {
	var nodeID string
	if node >= 0 {
		nodeID = d.def.Nodes[node].ID
	}
	draft := d.engine.draft(nodeID, cause, eventType, payload)
	d.pending = append(d.pending, draft)
	return draft.EventID
}

func (d *driver) lastID() string {
	if len(d.pending) == 0 {
		return ""
	}
	return d.pending[len(d.pending)-1].EventID
}

// flush appends what is queued. The log's own rule keeps a late driver from writing behind the terminal event.
func (d *driver) flush() error {
	if len(d.pending) == 0 {
		return nil
	}
	_, err := d.log.Append(d.ctx, eventlog.AnySequence, d.pending...)
	d.pending = d.pending[:0]
	return err
}

// emit appends events of a node in flight, all of them or none, but for those a fork has in its history already.
func (d *driver) emit(node int, drafts ...eventlog.Draft) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.emitLocked(node, drafts...)
}

func (d *driver) emitLocked(node int, drafts ...eventlog.Draft) error {
	if d.stopped != nil {
		return d.stopped
	}
	known := min(d.x.nodes[node].skip, len(drafts))
	d.x.nodes[node].skip -= known
	if drafts = drafts[known:]; len(drafts) == 0 {
		return nil
	}
	_, err := d.log.Append(d.ctx, eventlog.AnySequence, drafts...)
	return err
}

func (d *driver) setVariable(node int, name string, value json.RawMessage) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	nodeID := d.def.Nodes[node].ID
	change := variablePayload{Name: name, Previous: d.x.variables[name], Next: value, NodeID: nodeID}
	if err := d.emitLocked(node, d.engine.draft(nodeID, "", eventlog.VariableChanged, change)); err != nil {
		return err
	}
	d.x.setVariable(name, value)
	return nil
}
