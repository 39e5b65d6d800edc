package engine

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"wopcert/reference-host/internal/clock"
	"wopcert/reference-host/internal/eventlog"
)

// Interrupt is what a node asks of somebody outside (interrupt.md). Kind, Key and Data are required; together with
// ResumeSchema and TimeoutMs they are the payload of interrupt.requested.
type Interrupt struct {
	Kind         string          `json:"kind"`
	Key          string          `json:"key"`
	ResumeSchema json.RawMessage `json:"resumeSchema,omitempty"`
	TimeoutMs    *int64          `json:"timeoutMs,omitempty"`
	Data         json.RawMessage `json:"data"`
	// Reason is what node.suspended says beside the kind, "" for nothing.
	Reason string `json:"-"`
}

// Resolution is how an interrupt ended: the payload of interrupt.resolved.
type Resolution struct {
	NodeID      string            `json:"nodeId"`
	InterruptID string            `json:"interruptId"`
	Kind        string            `json:"kind,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	ResumeValue json.RawMessage   `json:"resumeValue,omitempty"`
	ResolvedBy  *eventlog.Subject `json:"resolvedBy,omitempty"`
	// Decision and Action are an approval's.
	Decision           string          `json:"decision,omitempty"`
	Action             string          `json:"action,omitempty"`
	RefineFeedback     json.RawMessage `json:"refineFeedback,omitempty"`
	EditedArtifactData json.RawMessage `json:"editedArtifactData,omitempty"`
}

// ReasonTimeout is the reason of an interrupt that nobody resolved in time. It has no resume value.
const ReasonTimeout = "timeout"

// forkReplay is the mode of a fork that takes over what its source was told.
const forkReplay = "replay"

// What resolves an approval by itself when its time is over: nothing is granted (interrupt.md §Approval).
const (
	KindApproval      = "approval"
	kindClarification = "clarification"
	actionTimeout     = "timeout"
	decisionRejected  = "rejected"
)

// suspended is the error of an attempt that waits for an interrupt: its node is entered again when the interrupt has
// been resolved.
type suspended struct {
	interruptID string
	deadline    time.Time
}

func (*suspended) Error() string { return "the node waits for an interrupt" }

// Interrupt returns how the interrupt with this key was resolved, asking for it the first time the run gets to it. The
// log decides what the first time is, so a run that was cut, moved or forked asks nobody twice. While the interrupt is
// open the error is one to return from the node as it is: the node is entered again when there is a resolution.
func (c *Call) Interrupt(ctx context.Context, i Interrupt) (*Resolution, error) {
	d := c.driver
	recorded, err := c.recordedElsewhere(ctx, i.Key)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.x.nodes[c.node].skip = 0 // who decides by the log sees for himself what a fork has in its history
	if d.stopped != nil {
		return nil, d.stopped
	}
	events, err := d.log.Read(-1)
	if err != nil {
		return nil, err
	}
	asked, err := AskedBy(&d.run, events, func(a *Asked) bool { return a.Key == i.Key })
	switch {
	case err != nil:
		return nil, err
	case asked != nil && asked.Resolution != nil:
		return asked.Resolution, nil
	case asked == nil && recorded != nil:
		return recorded, nil
	case asked != nil && recorded != nil:
		resolution := *recorded
		resolution.NodeID, resolution.InterruptID = asked.NodeID, asked.InterruptID
		_, err := d.log.Append(d.ctx, eventlog.AnySequence, d.engine.resolved(asked, &resolution)...)
		return &resolution, err
	case asked != nil:
		return nil, &suspended{asked.InterruptID, asked.Deadline}
	}
	id := c.Run.Owner.Tenant + "/" + d.engine.eventID() // what a replay asks anew is another interrupt
	appended, err := d.log.Append(d.ctx, eventlog.AnySequence, d.engine.requested(c.NodeID, id, &i)...)
	if err != nil {
		return nil, err
	}
	return nil, &suspended{id, i.deadline(&d.run, appended[1].Timestamp)}
}

// recordedElsewhere is the resolution a replay takes over from the run it was forked from (replay.md §Determinism
// caveats), nil for any other run and where there is none.
func (c *Call) recordedElsewhere(ctx context.Context, key string) (*Resolution, error) {
	if c.Run.ForkOf == "" || c.Run.ForkMode != forkReplay {
		return nil, nil
	}
	source, err := c.driver.engine.children.Open(ctx, c.Run.ForkOf)
	if errors.Is(err, eventlog.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	events, err := source.Read(-1)
	if err != nil {
		return nil, err
	}
	run := source.Run()
	asked, err := AskedBy(&run, events, func(a *Asked) bool { return a.Key == key })
	if err != nil || asked == nil {
		return nil, err
	}
	return asked.Resolution, nil
}

// requested are the events that open an interrupt.
func (e *Engine) requested(nodeID, interruptID string, i *Interrupt) []eventlog.Draft {
	suspension := e.draft(nodeID, "", eventlog.NodeSuspended, suspendedPayload{
		NodeID: nodeID, InterruptID: interruptID, Kind: i.Kind, Key: i.Key, Reason: i.Reason,
	})
	request := e.draft(nodeID, suspension.EventID, eventlog.InterruptRequested, i)
	drafts := []eventlog.Draft{suspension, request}
	if alias := requestAlias(i.Kind); alias != "" && e.kindEvents {
		drafts = append(drafts, e.draft(nodeID, request.EventID, alias, i))
	}
	return drafts
}

// resolved are the events that close an interrupt. A node whose time was over is not resumed: it fails.
func (e *Engine) resolved(asked *Asked, resolution *Resolution) []eventlog.Draft {
	resolution.NodeID, resolution.InterruptID, resolution.Kind = asked.NodeID, asked.InterruptID, asked.Kind
	closing := e.draft(asked.NodeID, "", eventlog.InterruptResolved, resolution)
	drafts := []eventlog.Draft{closing}
	if alias := resolutionAlias(asked.Kind); alias != "" && e.kindEvents {
		drafts = append(drafts, e.draft(asked.NodeID, closing.EventID, alias, resolution))
	}
	if resolution.Reason == ReasonTimeout {
		return drafts
	}
	return append(drafts, e.draft(asked.NodeID, closing.EventID, eventlog.NodeResumed, resumedNodePayload{
		NodeID: asked.NodeID, InterruptID: asked.InterruptID, ResumeValue: resolution.ResumeValue,
	}))
}

// requestAlias and resolutionAlias are the kind's own types, which say the same as the two of all kinds (interrupt.md
// §Events).
func requestAlias(kind string) string {
	switch kind {
	case KindApproval:
		return eventlog.ApprovalRequested
	case kindClarification:
		return eventlog.ClarificationRequested
	}
	return ""
}

func resolutionAlias(kind string) string {
	switch kind {
	case KindApproval:
		return eventlog.ApprovalReceived
	case kindClarification:
		return eventlog.ClarificationResolved
	}
	return ""
}

// timedOut is the resolution of an interrupt whose time is over.
func timedOut(kind string) *Resolution {
	resolution := &Resolution{Reason: ReasonTimeout}
	if kind == KindApproval {
		resolution.Action, resolution.Decision = actionTimeout, decisionRejected
	}
	return resolution
}

// Errors of Answer.
var (
	// ErrNotAsked: the run has no such interrupt.
	ErrNotAsked = errors.New("there is no such interrupt")
	// ErrResolved: the interrupt has been resolved, or its run has ended.
	ErrResolved = errors.New("the interrupt has been resolved")
)

// Answer is what an answer to an interrupt comes to: what is recorded of it, and the resolution when it resolves the
// interrupt.
type Answer struct {
	Entries    []Entry
	Resolution *Resolution
}

// Answer answers the interrupt that is wanted. decide sees it and the log as it stands, may refuse with an error of its
// own, which Answer returns, and is asked again when the log has grown meanwhile; so of any number of answers one at
// most resolves the interrupt. The error is ErrNotAsked or ErrResolved where there is nothing to decide.
func (e *Engine) Answer(
	ctx context.Context, log eventlog.Log, wanted func(*Asked) bool, decide func(*Asked, []eventlog.Event) (*Answer, error),
) error {
	run := log.Run()
	for {
		events, err := log.Read(-1)
		if err != nil {
			return err
		}
		asked, err := AskedBy(&run, events, wanted)
		if err != nil {
			return err
		}
		standing := eventlog.StandingOf(run, events)
		switch {
		case standing.Ended():
			return ErrResolved
		case asked == nil:
			return ErrNotAsked
		case asked.Resolution != nil:
			return ErrResolved
		}
		if asked.overdue(e.clock.Now()) { // nobody has driven the run since
			if err := e.lapse(ctx, log, asked.InterruptID); err != nil && !errors.Is(err, eventlog.ErrEnded) {
				return err
			}
			return ErrResolved
		}
		answer, err := decide(asked, events)
		if err != nil {
			return err
		}
		_, err = log.Append(ctx, int64(len(events))-1, e.answered(asked, answer)...)
		switch {
		case errors.Is(err, eventlog.ErrEnded):
			return ErrResolved
		case !errors.Is(err, eventlog.ErrConflict):
			return err
		}
	}
}

func (e *Engine) answered(asked *Asked, answer *Answer) []eventlog.Draft {
	var drafts []eventlog.Draft
	for _, entry := range answer.Entries {
		drafts = append(drafts, e.draft(asked.NodeID, entry.Cause, entry.Type, entry.Payload))
	}
	if answer.Resolution != nil {
		drafts = append(drafts, e.resolved(asked, answer.Resolution)...)
	}
	return drafts
}

// awaken looks at what the log has gained for interrupts that nodes of this driver wait for, resolves those whose time
// is over, and makes due what has a resolution. The lock is held.
func (d *driver) awaken() error {
	d.changed, d.alarm = nil, time.Time{}
	if !d.x.waits() {
		return nil
	}
	d.changed = d.log.Changed()
	events, err := d.log.Read(d.looked)
	if err != nil {
		return err
	}
	for _, event := range events {
		d.looked = event.Sequence
		if event.Type == eventlog.InterruptResolved {
			if err := d.x.note(event); err != nil {
				return err
			}
		}
	}
	now := d.engine.clock.Now()
	for i := range d.x.nodes {
		node := &d.x.nodes[i]
		if node.state != suspendedNode || node.due {
			continue
		}
		over := !node.deadline.IsZero() && !now.Before(node.deadline)
		if over {
			if err := d.engine.lapse(d.ctx, d.log, node.awaits); err != nil {
				return err
			}
		}
		if over || d.x.resolved[node.awaits] {
			node.due = true
			d.due = append(d.due, i)
		} else if !node.deadline.IsZero() && (d.alarm.IsZero() || node.deadline.Before(d.alarm)) {
			d.alarm = node.deadline
		}
	}
	return nil
}

// lapse resolves an interrupt whose time is over, unless somebody has come before.
func (e *Engine) lapse(ctx context.Context, log eventlog.Log, interruptID string) error {
	run := log.Run()
	for {
		events, err := log.Read(-1)
		if err != nil {
			return err
		}
		asked, err := AskedBy(&run, events, func(a *Asked) bool { return a.InterruptID == interruptID })
		if err != nil || asked == nil || asked.Resolution != nil {
			return err
		}
		_, err = log.Append(ctx, int64(len(events))-1, e.resolved(asked, timedOut(asked.Kind))...)
		if !errors.Is(err, eventlog.ErrConflict) {
			return err
		}
	}
}

// reenter makes due every node that waits: each finds out from the log whether it still has to.
func (d *driver) reenter() {
	for i := range d.x.nodes {
		if d.x.nodes[i].state == suspendedNode {
			d.x.nodes[i].due = true
			d.due = append(d.due, i)
		}
	}
}

// ring returns a channel that is closed when the first interrupt runs out of time, nil when none does.
func (d *driver) ring() (<-chan struct{}, func() bool) {
	if d.alarm.IsZero() {
		return nil, func() bool { return false }
	}
	return clock.After(d.engine.clock, d.alarm.Sub(d.engine.clock.Now()))
}
