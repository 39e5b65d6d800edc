// Package engine runs workflows. It interprets a definition against the event log of a run: the log says what has
// happened, the engine appends what happens next, and nothing about a run is kept anywhere else, but for a pause that
// was accepted and waits for the nodes that execute.
package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"wopcert/reference-host/internal/clock"
	"wopcert/reference-host/internal/compensation"
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
	// Children is what nodes that start other runs need; nil lets none start any.
	Children Children
	// DeadLetters has the engine record a run that used up its attempts (run.dead-lettered).
	DeadLetters bool
	// KindEvents has interrupts recorded under the types of their kinds too (interrupt.md §Events).
	KindEvents bool
	// Same compares an event of a run with the one a replay has in its place, without what belongs to one run; nil compares
	// them whole.
	Same func(source, replay *eventlog.Event) (bool, error)
	// Plans keeps the compensation plans; nil undoes nothing. Profile is the version of the compensation profile, and
	// InverseID names the effect of an inverse action by the action's identity.
	Plans     *compensation.Plans
	Profile   string
	InverseID func(tenant, identity string) string
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
	children     Children
	deadLetters  bool
	same         func(source, replay *eventlog.Event) (bool, error)
	plans        *compensation.Plans
	profile      string
	inverseID    func(tenant, identity string) string
	kindEvents   bool
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
		children: config.Children, deadLetters: config.DeadLetters, same: config.Same,
		plans: config.Plans, profile: config.Profile, inverseID: config.InverseID, kindEvents: config.KindEvents,
		nodes: make(map[string]NodeType, len(config.Nodes)), capabilities: make(map[string]bool, len(config.Capabilities)),
	}
	if e.same == nil {
		e.same = sameWhole
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

// Start begins to drive a run whose log holds its first event, from where the log stands. It uses up a place taken with
// Reserve. A run that somebody drives already stays with who has it: the work was delivered a second time, and Start
// reports false. After Close it does nothing: the run stays in its log for a later host to pick up.
func (e *Engine) Start(log eventlog.Log, def *workflow.Definition) bool {
	e.closing.RLock()
	defer e.closing.RUnlock()
	if e.closed {
		e.Release()
		return false
	}
	d := &driver{engine: e, log: log, run: log.Run(), def: def, done: make(chan struct{})}
	d.ctx, d.cancel = context.WithCancel(e.ctx)
	if !e.claim(d) {
		d.cancel()
		e.Release()
		e.logger.Info("work for a run that is being driven was refused", "run", d.run.ID)
		return false
	}
	e.running.Add(1)
	go d.drive()
	return true
}

// claim makes d the driver of its run. The claim of a driver that has stopped is taken over. One that has not has yet
// to look at the log, or has seen a run that goes on: it drives whatever is in the log now.
func (e *Engine) claim(d *driver) bool {
	for {
		held, taken := e.drivers.LoadOrStore(d.run.ID, d)
		if !taken {
			return true
		}
		other := held.(*driver)
		other.mu.Lock()
		stopped := other.stopped != nil
		other.mu.Unlock()
		if !stopped {
			return false
		}
		d.after = other.done
		if e.drivers.CompareAndSwap(d.run.ID, other, d) {
			return true
		}
	}
}

// Close stops every driver and waits for it. Runs that were active keep their logs as they are.
func (e *Engine) Close() {
	e.closing.Lock()
	e.closed = true
	e.closing.Unlock()
	e.stop()
	e.running.Wait()
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
