package referencehost

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"time"

	"wopcert/reference-host/internal/eventlog"
)

// runDiff is the diffRun response.
type runDiff struct {
	A             string               `json:"a"`
	B             string               `json:"b"`
	DivergedAtSeq *int64               `json:"divergedAtSeq"`
	EventDiffs    []eventDiff          `json:"eventDiffs"`
	StateDiff     map[string]stateDiff `json:"stateDiff"`
	Truncated     bool                 `json:"truncated,omitempty"`
}

// eventDiff is one sequence at which the logs differ.
type eventDiff struct {
	Seq    int64           `json:"seq"`
	Op     string          `json:"op"`
	AEvent *eventlog.Event `json:"aEvent,omitempty"`
	BEvent *eventlog.Event `json:"bEvent,omitempty"`
}

// stateDiff is one member of the snapshots that differs; null where a snapshot does not have it.
type stateDiff struct {
	A any `json:"a"`
	B any `json:"b"`
}

// diffRun compares two runs of the caller's tenant (runs.md §Diff and ancestry): the run of the path is a, the one to
// compare it against b.
func (h *Host) diffRun(r *request) (*answer, error) {
	values, err := h.query(r, "against")
	if err != nil {
		return nil, err
	}
	against, given := values["against"]
	if !given || against == "" {
		return nil, h.codes.invalid("against", "The parameter against names the run to compare with.")
	}
	other := *r
	if other.id, err = h.runID(against, r.principal); err != nil {
		var refused *refusal
		if errors.As(err, &refused) && refused.code.Code == h.codes.validation.Code {
			return nil, h.codes.invalid("against", "The parameter against is not a runId.")
		}
		return nil, err
	}
	a, err := h.openRun(r)
	if err != nil {
		return nil, err
	}
	b, err := h.openRun(&other)
	if err != nil {
		return nil, err
	}
	response, err := diffLogs(a, b)
	if err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusOK, response), nil
}

func diffLogs(a, b eventlog.Log) (*runDiff, error) {
	eventsA, err := a.Read(-1)
	if err != nil {
		return nil, err
	}
	eventsB, err := b.Read(-1)
	if err != nil {
		return nil, err
	}
	stateA, err := foldEvents(a.Run(), eventsA)
	if err != nil {
		return nil, err
	}
	stateB, err := foldEvents(b.Run(), eventsB)
	if err != nil {
		return nil, err
	}
	diff := &runDiff{
		A: a.Run().ID, B: b.Run().ID, EventDiffs: []eventDiff{}, Truncated: !stateA.terminal() || !stateB.terminal(),
	}
	for i := range max(len(eventsA), len(eventsB)) {
		entry := eventDiff{Seq: int64(i)}
		switch {
		case i >= len(eventsA):
			entry.Op, entry.BEvent = "added", &eventsB[i]
		case i >= len(eventsB):
			entry.Op, entry.AEvent = "removed", &eventsA[i]
		default:
			same, err := sameEvent(&eventsA[i], &eventsB[i])
			if err != nil {
				return nil, err
			}
			if same {
				continue
			}
			entry.Op, entry.AEvent, entry.BEvent = "changed", &eventsA[i], &eventsB[i]
		}
		diff.EventDiffs = append(diff.EventDiffs, entry)
	}
	if len(diff.EventDiffs) > 0 {
		diff.DivergedAtSeq = &diff.EventDiffs[0].Seq
	}
	diff.StateDiff, err = diffStates(stateA, stateB)
	return diff, err
}

// sameEvent compares what an event says of any run it might be of.
func sameEvent(a, b *eventlog.Event) (bool, error) {
	if a.Type != b.Type || a.NodeID != b.NodeID || a.EngineVersion != b.EngineVersion {
		return false, nil
	}
	if bytes.Equal(a.Payload, b.Payload) {
		return true, nil
	}
	var payloadA, payloadB any
	if err := errors.Join(json.Unmarshal(a.Payload, &payloadA), json.Unmarshal(b.Payload, &payloadB)); err != nil {
		return false, err
	}
	return reflect.DeepEqual(withoutRun(payloadA, false), withoutRun(payloadB, false)), nil
}

// withoutRun leaves out what belongs to one run: ids the host minted, and what was measured by a clock. Values that
// clients and nodes chose are compared as they are, but for ids of runs in them, which a node that starts runs gives
// out too.
func withoutRun(value any, chosen bool) any {
	switch value := value.(type) {
	case map[string]any:
		kept := make(map[string]any, len(value))
		for name, member := range value {
			if !runScoped(name, member, chosen) {
				kept[name] = withoutRun(member, chosen || chosenMember(name))
			}
		}
		return kept
	case []any:
		kept := make([]any, 0, len(value))
		for _, item := range value {
			kept = append(kept, withoutRun(item, chosen))
		}
		return kept
	}
	return value
}

// chosenMember reports whether the member of a payload holds values that are not the host's.
func chosenMember(name string) bool {
	switch name {
	case "inputs", "outputs", "previous", "next", "metadata", "tags", "data", "details", "fields", "resumeValue":
		return true
	}
	return false
}

func runScoped(name string, member any, chosen bool) bool {
	text, isText := member.(string)
	switch name {
	case "runId", "childRunId", "parentRunId", "interruptId":
		return isText && isRunID(text)
	}
	if chosen {
		return false
	}
	switch name {
	case "durationMs", "latencyMs", "ts":
		return true
	case "artifactId", "conversationId", "messageId", "invocationId", "envelopeId":
		return isText
	}
	if !isText {
		return false
	}
	_, err := time.Parse(time.RFC3339, text)
	return err == nil
}

// diffStates compares what the logs fold to; what belongs to one run is in neither.
func diffStates(a, b *projection) (map[string]stateDiff, error) {
	stateA, err := comparableState(a)
	if err != nil {
		return nil, err
	}
	stateB, err := comparableState(b)
	if err != nil {
		return nil, err
	}
	differing := make(map[string]stateDiff)
	for _, state := range []map[string]any{stateA, stateB} {
		for name := range state {
			if !reflect.DeepEqual(withoutRun(stateA[name], true), withoutRun(stateB[name], true)) {
				differing[name] = stateDiff{A: stateA[name], B: stateB[name]}
			}
		}
	}
	return differing, nil
}

func comparableState(p *projection) (map[string]any, error) {
	encoded, err := encode(p.snapshot())
	if err != nil {
		return nil, err
	}
	state := make(map[string]any)
	if err := json.Unmarshal(encoded, &state); err != nil {
		return nil, err
	}
	// The options are no event of the log: two runs that did the same under other options are not told apart.
	for _, name := range []string{"runId", "parentRunId", "startedAt", "completedAt", "owner", "configurable"} {
		delete(state, name)
	}
	return state, nil
}
