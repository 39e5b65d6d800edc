package referencehost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
)

// Recovery bounds what the host does about the runs it finds when it starts (persistence.md §Durable acceptance and
// recovery).
type Recovery struct {
	// Start is how long the process may take from its start until its store is open.
	Start time.Duration
	// Reentry is how long the host may take from there until every active run is driven again. New fails when that is
	// not enough, so that a bound that is declared is one that is kept.
	Reentry time.Duration
	// MaxAttempts is how many times a node may be interrupted by the death of the host before its run is given up.
	MaxAttempts int
}

// RecoveryBound is the longest time between the death of a host and the resumption of a class of its work, as the sum of
// what it is made of (conformance.md §Recovery evidence).
type RecoveryBound struct {
	Class string
	Terms []RecoveryTerm
}

// RecoveryTerm is one of the steps that make up a bound.
type RecoveryTerm struct {
	Name  string
	Limit time.Duration
}

// Bound is the sum of the terms.
func (b RecoveryBound) Bound() (sum time.Duration) {
	for _, term := range b.Terms {
		sum += term.Limit
	}
	return sum
}

// Bounds are the bounds of a host on one file: there is one way its work is resumed, which is that it is started again
// and takes up every active run before it serves anything. They count from the start of the new process.
func (r Recovery) Bounds() []RecoveryBound {
	return []RecoveryBound{{Class: "single-instance-restart", Terms: []RecoveryTerm{
		{Name: "process-start", Limit: r.Start}, {Name: "run-reentry", Limit: r.Reentry},
	}}}
}

func defaultRecovery() Recovery {
	return Recovery{Start: 4 * time.Second, Reentry: 4 * time.Second, MaxAttempts: 3}
}

// The tables of recovery: what the host says of itself, and what was interrupted in each run.
const (
	tableHost        = "host"
	tableInterrupted = "interrupted"
	keyStopped       = "stopped"
)

// interrupted is how often in a row the death of a host has interrupted one execution of a node.
type interrupted struct {
	// EventID is the last start that was interrupted, by which the same interruption is not counted twice.
	EventID string `json:"eventId"`
	// Ends counts the ends of the node that came before: another execution begins the count anew.
	Ends  int `json:"ends"`
	Times int `json:"times"`
}

// recoverRuns takes up every run that has not ended. When the last host was not stopped but died, the attempts it died
// in are counted.
func (h *Host) recoverRuns() error {
	ctx, cancel := context.WithTimeout(context.Background(), h.config.Recovery.Reentry)
	defer cancel()
	stopped := false
	err := h.store.Update(ctx, tableHost, keyStopped, func(now []byte) ([]byte, error) {
		stopped = now != nil
		return nil, nil
	})
	if err != nil {
		return err
	}
	found := make(map[string]bool)
	err = h.store.ActiveRuns(ctx, func(log eventlog.Log) error {
		run := log.Run()
		found[run.ID] = true
		err := h.takeUp(ctx, log, !stopped)
		if err != nil && ctx.Err() == nil {
			h.logger.Error("a run stays where it is", "run", run.ID, "error", err)
			return nil // one run does not keep the others from going on
		}
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%d runs were taken up and there are more, in the %v the recovery may take; raise Recovery.Reentry", len(found), h.config.Recovery.Reentry)
	}
	if err != nil {
		return err
	}
	return h.store.Scan(ctx, tableInterrupted, "", func(runID string, _ []byte) error {
		if found[runID] {
			return nil
		}
		return h.store.Update(ctx, tableInterrupted, runID, func([]byte) ([]byte, error) { return nil, nil })
	})
}

// takeUp drives one run from where its log stands, or ends it when a node of it was interrupted too often.
func (h *Host) takeUp(ctx context.Context, log eventlog.Log, died bool) error {
	if died {
		node, times, err := h.countInterrupted(ctx, log)
		if unreadable(err) {
			return nil // it stays: whoever reads it is told why it cannot be read
		}
		if err != nil {
			return err
		}
		if times >= h.config.Recovery.MaxAttempts {
			if err := h.engine.GiveUp(ctx, log, node, times); !errors.Is(err, eventlog.ErrEnded) {
				return err
			}
			return nil
		}
	}
	if run := log.Run(); run.Era == eventlog.EraV1 {
		return h.inherit(ctx, log)
	}
	return h.carryOn(log)
}

// countInterrupted counts the interruption of every node that was executing, and returns the one with the most. The
// count is stored before the node is executed again.
func (h *Host) countInterrupted(ctx context.Context, log eventlog.Log) (node string, times int, err error) {
	events, err := log.Read(-1)
	if err != nil {
		return "", 0, err
	}
	executing := engine.Executing(events)
	if len(executing) == 0 {
		return "", 0, nil
	}
	ends := make(map[string]int)
	for _, event := range events {
		if event.Type == eventlog.NodeCompleted || event.Type == eventlog.NodeFailed {
			ends[event.NodeID]++
		}
	}
	err = h.store.Update(ctx, tableInterrupted, log.Run().ID, func(now []byte) ([]byte, error) {
		held := make(map[string]interrupted)
		if now != nil {
			if err := json.Unmarshal(now, &held); err != nil {
				return nil, err
			}
		}
		counts := make(map[string]interrupted, len(executing))
		for _, started := range executing {
			count := held[started.NodeID]
			if count.Ends != ends[started.NodeID] {
				count = interrupted{Ends: ends[started.NodeID]}
			}
			if count.EventID != started.EventID {
				count.EventID = started.EventID
				count.Times++
			}
			counts[started.NodeID] = count
			if count.Times > times {
				node, times = started.NodeID, count.Times
			}
		}
		return json.Marshal(counts)
	})
	return node, times, err
}

// carryOn has the engine drive a run from where its log stands. A run whose workflow is not held any more stays where
// it is: it can be read and cancelled.
func (h *Host) carryOn(log eventlog.Log) error {
	run := log.Run()
	definition := h.definition(run)
	if definition == nil {
		h.logger.Warn("a run stays where it is: its workflow is not held", "run", run.ID, "workflow", run.WorkflowID)
		return nil
	}
	h.engine.Recover(log, definition)
	return nil
}

// markStopped records that the host was stopped and did not die.
func (h *Host) markStopped() error {
	return h.store.Update(context.Background(), tableHost, keyStopped, func([]byte) ([]byte, error) { return []byte("{}"), nil })
}
