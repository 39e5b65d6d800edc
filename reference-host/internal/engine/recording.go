package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"wopcert/reference-host/internal/eventlog"
)

// ErrNotSent is wrapped by the errors of a Sender that has sent nothing.
var ErrNotSent = errors.New("nothing was sent")

// codeSourceMissing fails a node of a replay whose outcome the source does not hold.
const codeSourceMissing = "replay_source_missing"

// SourceMissing is the failure of a node that a replay cannot take the outcome of from its source. Trying again changes
// nothing (replay.md §Suppression).
func SourceMissing(nodeID string) *NodeError {
	return &NodeError{
		Code: codeSourceMissing, Message: "The source run has no recorded outcome of the node, and a replay performs no effect.",
		Details: map[string]any{"nodeId": nodeID}, Final: true,
	}
}

// recording is the run a replay replays. It is read when it is asked, for a run that goes on may have more to tell.
type recording struct {
	log eventlog.Log // nil when the source is not there any more

	mu     sync.Mutex
	events []eventlog.Event
	ended  bool
}

// load returns the events of the source as they stand.
func (r *recording) load() ([]eventlog.Event, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.log == nil || r.ended {
		return r.events, nil
	}
	more, err := r.log.Read(int64(len(r.events)) - 1)
	if err != nil {
		return nil, err
	}
	r.events = append(slices.Clip(r.events), more...)
	r.ended = slices.ContainsFunc(more, func(e eventlog.Event) bool { return eventlog.Terminal(e.Type) })
	return r.events, nil
}

// settlesNode reports whether an event is a terminal outcome of a node, as outcomes are counted (replay.md
// §Suppression, rule 2).
func settlesNode(eventType string) bool {
	return eventType == eventlog.NodeCompleted || eventType == eventlog.NodeFailed
}

// executionOf are the events of the n-th execution of a node in a log, the outcome included; ok says that there is one.
// A start that takes over from an attempt that was cut is none of its own.
func executionOf(events []eventlog.Event, nodeID string, n int) (own []eventlog.Event, ok bool) {
	outcomes, open := 0, false
	for _, event := range events {
		if event.NodeID != nodeID {
			continue
		}
		again := event.Type == eventlog.NodeStarted && open
		switch event.Type {
		case eventlog.NodeStarted:
			open = true
		case eventlog.NodeRetried, eventlog.NodeCompleted, eventlog.NodeFailed, eventlog.NodeCancelled, eventlog.NodeSkipped:
			open = false
		}
		if outcomes == n-1 && !again {
			own = append(own, event)
		}
		if settlesNode(event.Type) {
			if outcomes++; outcomes == n {
				return own, true
			}
		}
	}
	return own, false
}

// replays reports whether the driver replays another run.
func (d *driver) replays() bool { return d.run.ForkMode == forkReplay }

// open makes ready what a replay needs: its source, and a log that tells where the two part.
func (d *driver) open() error {
	if !d.replays() || d.recording != nil {
		return nil
	}
	d.recording = new(recording)
	if d.engine.children == nil {
		return nil
	}
	source, err := d.engine.children.Open(d.ctx, d.run.ForkOf)
	if errors.Is(err, eventlog.ErrNotFound) {
		return nil // nothing is recorded any more, and every effect will say so
	}
	if err != nil {
		return err
	}
	d.recording.log = source
	d.log = newReplayLog(d.log, d.recording, d.engine)
	return nil
}

// recorded is what a replay makes of a node with an effect: the events the source has of this execution beyond those
// that are in the log already.
func (d *driver) recorded(node int) (missing []eventlog.Event, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	events, err := d.recording.load()
	if err != nil {
		return nil, err
	}
	nodeID, n := d.def.Nodes[node].ID, d.x.outcomes[node]+1
	source, ok := executionOf(events, nodeID, n)
	if !ok {
		return nil, SourceMissing(nodeID)
	}
	if events, err = d.log.Read(-1); err != nil {
		return nil, err
	}
	own, over := executionOf(events, nodeID, n)
	if over || len(own) >= len(source) {
		return nil, fmt.Errorf("node %s: execution %d has more events than its source", nodeID, n)
	}
	return source[len(own):], nil
}

// take records what the source has of an execution and moves the run along by it: the same events under other ids.
func (d *driver) take(node int, recorded []eventlog.Event) error {
	ids := map[string]string{}
	cause := d.x.nodes[node].started
	for _, event := range recorded {
		draft := event.Draft
		draft.EventID, draft.Timestamp = d.engine.eventID(), d.engine.clock.Now()
		switch known, ok := ids[event.CausationID]; {
		case ok:
			draft.CausationID = known
		case settlesNode(event.Type) || event.Type == eventlog.NodeRetried:
			draft.CausationID = cause
		}
		ids[event.EventID] = draft.EventID
		if event.Type == eventlog.NodeStarted {
			cause = draft.EventID
		}
		d.pending = append(d.pending, draft)
		if err := d.x.apply(eventlog.Event{Draft: draft}); err != nil {
			return err
		}
	}
	return nil
}
