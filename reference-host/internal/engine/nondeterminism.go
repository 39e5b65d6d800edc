package engine

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"wopcert/reference-host/internal/eventlog"
)

// NondeterministicSources are the sources nodes may draw from. Every value drawn is on record where it is drawn, and a
// replay gets the recorded one (replay.md §Declared nondeterminism).
func NondeterministicSources() []string { return []string{"random", "id"} }

// drawMessage marks the log lines that hold drawn values.
const drawMessage = "nondeterministic value"

// drawn is what a log line says of a value that was drawn.
type drawn struct {
	Message string `json:"message"`
	Fields  struct {
		Source string          `json:"source"`
		Value  json.RawMessage `json:"value"`
	} `json:"fields"`
}

// Draw gives a value of a declared source: the one on record for this draw of this execution, else a fresh one, which
// is recorded before the node has it.
func (c *Call) Draw(source string) (json.RawMessage, error) {
	if c.driver == nil {
		return nil, errNoLog
	}
	if !slices.Contains(NondeterministicSources(), source) {
		return nil, &NodeError{Code: "node_config_invalid", Message: "This host declares no such source of nondeterminism."}
	}
	value, err := c.drawnBefore(source)
	if err != nil {
		return nil, err
	}
	if value == nil {
		value = encoded(rand.Text())
	}
	c.drawn++
	return value, c.emit(eventlog.LogAppended, logPayload{
		Level: "info", Message: drawMessage, NodeID: c.NodeID, Fields: map[string]any{"source": source, "value": value},
	})
}

// drawnBefore finds the value of this draw in the log of the run, for an attempt that goes on in a fork, or in the
// source of a replay.
func (c *Call) drawnBefore(source string) (json.RawMessage, error) {
	d := c.driver
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.x.outcomes[c.node] + 1
	if d.x.nodes[c.node].skip > 0 {
		events, err := d.log.Read(-1)
		if err != nil {
			return nil, err
		}
		if value := draw(events, c.NodeID, n, c.drawn, source); value != nil {
			return value, nil
		}
	}
	if d.recording == nil {
		return nil, nil
	}
	events, err := d.recording.load()
	if err != nil {
		return nil, err
	}
	return draw(events, c.NodeID, n, c.drawn, source), nil
}

// draw is the value of the k-th draw in the last attempt of an execution.
func draw(events []eventlog.Event, nodeID string, n, k int, source string) json.RawMessage {
	own, _ := executionOf(events, nodeID, n)
	var values []drawn
	for _, event := range own {
		switch event.Type {
		case eventlog.NodeStarted:
			values = values[:0]
		case eventlog.LogAppended:
			line, err := readPayload[drawn](event)
			if err == nil && line.Message == drawMessage {
				values = append(values, line)
			}
		}
	}
	if k < len(values) && values[k].Fields.Source == source {
		return values[k].Fields.Value
	}
	return nil
}

// runDraw draws one value of every declared source.
func runDraw(_ context.Context, call *Call) (Values, error) {
	outputs := make(Values)
	for _, source := range NondeterministicSources() {
		value, err := call.Draw(source)
		if err != nil {
			return nil, err
		}
		outputs[source] = value
	}
	return outputs, nil
}

// Version is the version of a change that the run is to take, from low to high. The first time a run gets to the change
// it takes the newest, and the choice is pinned: the run, what is forked from behind it, and every replay take the same
// again (replay.md §Determinism caveats).
func (c *Call) Version(changeID string, low, high int64) (int64, error) {
	if c.driver == nil {
		return 0, errNoLog
	}
	d := c.driver
	var version int64
	var lookup error
	err := c.Record(func(log []eventlog.Event) []Entry {
		pinned, ok, err := pin(log, changeID)
		if lookup = err; ok || err != nil {
			version = pinned
			return nil
		}
		version = high
		if d.recording != nil {
			var source []eventlog.Event
			if source, lookup = d.recording.load(); lookup != nil {
				return nil
			}
			if pinned, ok, lookup = pin(source, changeID); ok {
				version = pinned
			}
		}
		return []Entry{{Type: eventlog.VersionPinned, Payload: pinnedPayload{ChangeID: changeID, Version: version, NodeID: c.NodeID}}}
	})
	if err := errors.Join(err, lookup); err != nil {
		return 0, err
	}
	if version < low || version > high {
		return 0, &NodeError{
			Code: "node_failed", Message: fmt.Sprintf("The run is pinned to version %d of the change, which is no longer run.", version),
			Details: map[string]any{"changeId": changeID}, Final: true,
		}
	}
	return version, nil
}

func pin(events []eventlog.Event, changeID string) (version int64, ok bool, err error) {
	for _, event := range events {
		if event.Type != eventlog.VersionPinned {
			continue
		}
		payload, err := readPayload[pinnedPayload](event)
		if err != nil || payload.ChangeID == changeID {
			return payload.Version, err == nil, err
		}
	}
	return 0, false, nil
}

type pinnedPayload struct {
	ChangeID string `json:"changeId"`
	Version  int64  `json:"version"`
	NodeID   string `json:"nodeId,omitempty"`
}

// Opaque mints an id. It derives from what the node is doing, so that a replay comes to the id its source has.
func (c *Call) Opaque() string {
	c.minted++
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %d %d", c.Run.Origin(), c.NodeID, c.execution, c.Attempt, c.minted))
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])[:26]
}
