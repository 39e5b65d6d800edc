package engine

import (
	"bytes"
	"context"
	"strings"
	"sync"

	"wopcert/reference-host/internal/eventlog"
)

// codeDivergedAtRefusal ends a replay in which a model refused where it had not, or the other way round.
const codeDivergedAtRefusal = "replay_diverged_at_refusal"

// replayLog is the log of a replay as its driver sees it: what the driver appends is held against the source, and where
// the two part the log says so, in the same step (replay.md §Divergence).
type replayLog struct {
	eventlog.Log
	source *recording
	engine *Engine

	mu    sync.Mutex
	known int64 // the last sequence that was compared
	taken int   // how many events of the source are in the comparison
	at    *comparison
}

func newReplayLog(log eventlog.Log, source *recording, engine *Engine) *replayLog {
	return &replayLog{Log: log, source: source, engine: engine, known: -1}
}

// comparison is where a replay stands beside its source. Only what a replay does over again is compared.
type comparison struct {
	source   course
	own      course
	apart    bool            // the two logs have parted
	reported map[string]bool // the nodes, "" the run, whose events were reported to differ
}

// course is the events of a log that are compared, and how many of each node have been passed.
type course struct {
	events []eventlog.Event
	open   map[string]bool
	byNode map[string][]int // positions in events
}

func newCourse() course {
	return course{open: make(map[string]bool), byNode: make(map[string][]int)}
}

// add takes an event into the course unless it is one a replay leaves out by rule: what asks and answers, pauses, and
// starts that take over from an attempt that was cut.
func (c *course) add(event eventlog.Event) bool {
	switch family, _, _ := strings.Cut(event.Type, "."); family {
	case "interrupt", "approval", "clarification", "replay", "compensation":
		return false
	}
	switch event.Type {
	case eventlog.RunPaused, eventlog.RunResumed, eventlog.NodeSuspended, eventlog.NodeResumed:
		return false
	case eventlog.NodeStarted:
		if c.open[event.NodeID] {
			return false
		}
		c.open[event.NodeID] = true
	case eventlog.NodeRetried, eventlog.NodeCompleted, eventlog.NodeFailed, eventlog.NodeCancelled, eventlog.NodeSkipped:
		c.open[event.NodeID] = false
	}
	c.byNode[event.NodeID] = append(c.byNode[event.NodeID], len(c.events))
	c.events = append(c.events, event)
	return true
}

// Append implements eventlog.Log.
func (l *replayLog) Append(ctx context.Context, expected int64, drafts ...eventlog.Draft) ([]eventlog.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.catchUp(); err != nil {
		return nil, err
	}
	var refused error
	all := make([]eventlog.Draft, 0, len(drafts)+1)
	for _, draft := range drafts {
		notice, err := l.compare(eventlog.Event{Draft: draft, RunID: l.Run().ID, EngineVersion: l.Run().EngineVersion})
		if err != nil {
			return nil, err
		}
		if notice != nil && notice.Type == eventlog.ReplayDivergedAtRefusal {
			refused = &NodeError{Code: codeDivergedAtRefusal, Message: "The source and the replay differ in whether the model refused.", Final: true}
		}
		switch {
		case notice == nil:
			all = append(all, draft)
		case eventlog.Terminal(draft.Type): // nothing of the kind may stand behind it
			all = append(all, *notice, draft)
		default:
			all = append(all, draft, *notice)
		}
	}
	events, err := l.Log.Append(ctx, expected, all...)
	if err != nil {
		l.at, l.known, l.taken = nil, -1, 0 // what was compared is not in the log
		return nil, err
	}
	if len(events) > 0 {
		l.known = events[len(events)-1].Sequence
	}
	return events, refused
}

// catchUp compares what is in the log and was not compared, without saying so again.
func (l *replayLog) catchUp() error {
	if l.at == nil {
		l.at = &comparison{source: newCourse(), own: newCourse(), reported: make(map[string]bool)}
	}
	source, err := l.source.load()
	if err != nil {
		return err
	}
	for ; l.taken < len(source); l.taken++ {
		l.at.source.add(source[l.taken])
	}
	events, err := l.Log.Read(l.known)
	if err != nil {
		return err
	}
	inherited := l.Run().ForkPoint
	for _, event := range events {
		if l.known = event.Sequence; event.Sequence < inherited {
			l.at.own.add(event) // the source's own
		} else if _, err := l.compare(event); err != nil {
			return err
		}
	}
	return nil
}

// compare takes an event of the replay into account and returns the notice that it calls for, nil for none.
func (l *replayLog) compare(event eventlog.Event) (notice *eventlog.Draft, err error) {
	at := l.at
	if !at.own.add(event) {
		return nil, nil
	}
	position, ofNode := len(at.own.events)-1, len(at.own.byNode[event.NodeID])-1
	if positions := at.source.byNode[event.NodeID]; at.apart {
		if position = -1; ofNode < len(positions) {
			position = positions[ofNode]
		}
	}
	if position < 0 || position >= len(at.source.events) {
		return nil, nil // the source has nothing here to differ from
	}
	original := &at.source.events[position]
	if same, err := l.engine.same(original, &event); same || err != nil {
		return nil, err
	}
	if at.apart && at.reported[event.NodeID] {
		return nil, nil
	}
	at.apart, at.reported[event.NodeID] = true, true
	if notice := l.refusal(original, &event); notice != nil {
		return notice, nil
	}
	kind, point := "output", "/payload"
	if original.Type != event.Type {
		kind, point = "type-mismatch", "/type"
	} else if original.NodeID != event.NodeID {
		point = "/nodeId"
	}
	draft := l.engine.draft("", event.EventID, eventlog.ReplayDiverged, divergedPayload{
		SourceRunID: l.Run().ForkOf, AtSequence: original.Sequence, OriginalEventID: original.EventID, ReplayEventID: event.EventID,
		DivergenceKind: kind, DivergencePoint: point,
	})
	return &draft, nil
}

// refusal is the notice of a model that refused in one of the two runs alone.
func (l *replayLog) refusal(original, event *eventlog.Event) *eventlog.Draft {
	source, replay := envelopeKind(original), envelopeKind(event)
	if original.NodeID != event.NodeID || source == replay || source == "" || replay == "" {
		return nil
	}
	draft := l.engine.draft(event.NodeID, event.EventID, eventlog.ReplayDivergedAtRefusal, divergedAtRefusalPayload{
		SourceRunID: l.Run().ForkOf, AtSequence: original.Sequence, OriginalEventID: original.EventID, NodeID: event.NodeID,
		OriginalEnvelopeKind: source, ReplayEnvelopeKind: replay,
	})
	return &draft
}

// envelopeKind tells whether an event records a refusal or an envelope that was taken, "" for neither.
func envelopeKind(event *eventlog.Event) string {
	switch event.Type {
	case eventlog.EnvelopeRefusal:
		return "refusal"
	case eventlog.LogAppended, eventlog.NodeCompleted:
		return "valid"
	}
	return ""
}

func sameWhole(a, b *eventlog.Event) (bool, error) {
	return a.Type == b.Type && a.NodeID == b.NodeID && bytes.Equal(a.Payload, b.Payload), nil
}

type divergedPayload struct {
	SourceRunID     string `json:"sourceRunId"`
	AtSequence      int64  `json:"atSequence"`
	OriginalEventID string `json:"originalEventId"`
	ReplayEventID   string `json:"replayEventId"`
	DivergenceKind  string `json:"divergenceKind"`
	DivergencePoint string `json:"divergencePoint"`
}

type divergedAtRefusalPayload struct {
	SourceRunID          string `json:"sourceRunId"`
	AtSequence           int64  `json:"atSequence"`
	OriginalEventID      string `json:"originalEventId"`
	NodeID               string `json:"nodeId"`
	OriginalEnvelopeKind string `json:"originalEnvelopeKind"`
	ReplayEnvelopeKind   string `json:"replayEnvelopeKind"`
}
