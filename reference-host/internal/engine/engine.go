// Package engine runs workflows. It interprets a definition against the event log of a run: the log says what has
// happened, the engine appends what happens next, and nothing about a run is kept anywhere else.
package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"wopcert/reference-host/internal/clock"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/workflow"
)

// Config is what an engine is made of.
type Config struct {
	Clock  clock.Clock
	Sender Sender
	// EventID mints event ids.
	EventID func() string
	Nodes   []NodeType
	// Capabilities are the runtime capabilities the host provides to node types.
	Capabilities []string
	// MaxActive bounds the runs that execute at one time.
	MaxActive int64
	Logger    *slog.Logger
}

// Engine runs the runs of one host.
type Engine struct {
	clock        clock.Clock
	sender       Sender
	eventID      func() string
	nodes        map[string]NodeType
	capabilities map[string]bool
	logger       *slog.Logger
	maxActive    int64

	drivers sync.Map // run id -> *driver
	active  atomic.Int64

	closing sync.RWMutex // held for reading while a driver is added
	closed  bool
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
}

// New makes an engine. It fails when two node types have one id.
func New(config Config) (*Engine, error) {
	e := &Engine{
		clock: config.Clock, sender: config.Sender, eventID: config.EventID, logger: config.Logger, maxActive: config.MaxActive,
		nodes: make(map[string]NodeType, len(config.Nodes)), capabilities: make(map[string]bool, len(config.Capabilities)),
	}
	for _, node := range config.Nodes {
		if _, twice := e.nodes[node.ID]; twice {
			return nil, fmt.Errorf("two node types have the id %s", node.ID)
		}
		e.nodes[node.ID] = node
	}
	for _, capability := range config.Capabilities {
		e.capabilities[capability] = true
	}
	e.ctx, e.stop = context.WithCancel(context.Background())
	return e, nil
}

// Runs reports whether the engine has the node type.
func (e *Engine) Runs(typeID string) bool {
	_, ok := e.nodes[typeID]
	return ok
}

// Reserve takes one of the places for active runs. Give it back with Release, or hand it on with Start.
func (e *Engine) Reserve() bool {
	if e.active.Add(1) > e.maxActive {
		e.active.Add(-1)
		return false
	}
	return true
}

// Release gives back a place that Reserve took and Start did not use.
func (e *Engine) Release() { e.active.Add(-1) }

// StartEvent is the first event of a run: run.started, with the owner as the snapshot carries it (runs.md §The start
// event).
func (e *Engine) StartEvent(run *eventlog.Run, transport string) eventlog.Draft {
	return e.draft("", "", eventlog.RunStarted, startedPayload{
		WorkflowID: run.WorkflowID, Inputs: run.Inputs, Transport: transport, EngineVersion: run.EngineVersion,
		Owner: run.Owner, Tags: run.Tags, Metadata: run.Metadata,
	})
}

// Start begins to drive a run whose log holds its first event. It uses up a place taken with Reserve. After Close it
// does nothing: the run stays in its log for a later host to pick up.
func (e *Engine) Start(log eventlog.Log, def *workflow.Definition) {
	e.closing.RLock()
	defer e.closing.RUnlock()
	if e.closed {
		e.Release()
		return
	}
	d := &driver{engine: e, log: log, run: log.Run(), def: def}
	d.ctx, d.cancel = context.WithCancel(e.ctx)
	e.drivers.Store(d.run.ID, d)
	e.running.Add(1)
	go d.drive()
}

// Close stops every driver and waits for it. Runs that were active keep their logs as they are.
func (e *Engine) Close() {
	e.closing.Lock()
	e.closed = true
	e.closing.Unlock()
	e.stop()
	e.running.Wait()
}

// Cancel ends a run as cancelled. The log decides between it and whatever else wants to end the run: exactly one
// terminal event is appended, and eventlog.ErrEnded says that it was not this one.
func (e *Engine) Cancel(ctx context.Context, log eventlog.Log, reason, by string) error {
	run := log.Run()
	return e.end(ctx, log, "run cancelled", func() eventlog.Draft {
		return e.draft("", "", eventlog.RunCancelled, cancelledPayload{
			Reason: reason, CancelledBy: by, DurationMs: e.since(run.CreatedAt),
		})
	})
}

// end appends a terminal event that does not come from the run's own nodes, with a node.cancelled for each node in
// flight before it and whatever else leads up to it, and cuts the driver.
func (e *Engine) end(ctx context.Context, log eventlog.Log, nodeReason string, terminal func() eventlog.Draft, lead ...eventlog.Draft) error {
	for {
		events, err := log.Read(-1)
		if err != nil {
			return err
		}
		drafts := append([]eventlog.Draft(nil), lead...)
		for _, started := range inFlight(events) {
			drafts = append(drafts, e.draft(started.NodeID, started.EventID, eventlog.NodeCancelled,
				nodeEndedPayload{NodeID: started.NodeID, Reason: nodeReason}))
		}
		drafts = append(drafts, terminal())
		_, err = log.Append(ctx, int64(len(events))-1, drafts...)
		if errors.Is(err, eventlog.ErrConflict) {
			continue // a node ended meanwhile: look again
		}
		if err != nil {
			return err
		}
		if d, ok := e.drivers.Load(log.Run().ID); ok {
			d.(*driver).cancel()
		}
		return nil
	}
}

// inFlight are the node.started events that nothing has ended.
func inFlight(events []eventlog.Event) []eventlog.Event {
	var open []eventlog.Event
	for _, event := range events {
		switch event.Type {
		case eventlog.NodeStarted:
			open = append(open, event)
		case eventlog.NodeCompleted, eventlog.NodeFailed, eventlog.NodeSkipped, eventlog.NodeCancelled:
			for i := range open {
				if open[i].NodeID == event.NodeID {
					open = append(open[:i:i], open[i+1:]...)
					break
				}
			}
		}
	}
	return open
}

func (e *Engine) since(t time.Time) int64 { return max(e.clock.Now().Sub(t).Milliseconds(), 0) }

func (e *Engine) draft(nodeID, cause, eventType string, payload any) eventlog.Draft {
	encoded, err := json.Marshal(payload)
	if err != nil {
		// Every payload is made of text, numbers and JSON that was decoded before, so this is a mistake in a node type.
		encoded, _ = json.Marshal(logPayload{Level: "error", Message: "payload lost: " + err.Error(), NodeID: nodeID})
		eventType = eventlog.LogAppended
	}
	return eventlog.Draft{EventID: e.eventID(), Type: eventType, Payload: encoded, NodeID: nodeID, CausationID: cause, Timestamp: e.clock.Now()}
}
