package referencehost

import (
	"slices"
	"strings"

	"wopcert/reference-host/internal/eventlog"
)

// The stream modes (events.md §Stream modes).
const (
	modeValues   = "values"
	modeUpdates  = "updates"
	modeMessages = "messages"
	modeDebug    = "debug"
)

// servedModes are the individual modes of this host.
func servedModes() []string { return []string{modeValues, modeUpdates, modeMessages, modeDebug} }

// parseModes reads streamMode: values alone, or any combination of the others. A mode that is named twice counts once.
func parseModes(text string) (modes []string, ok bool) {
	if text == modeValues {
		return []string{modeValues}, true
	}
	for mode := range strings.SplitSeq(text, ",") {
		if mode != modeUpdates && mode != modeMessages && mode != modeDebug {
			return nil, false
		}
		if !slices.Contains(modes, mode) {
			modes = append(modes, mode)
		}
	}
	return modes, true
}

// admittedBy names the first of the modes that carries events of the type, or "". debug carries every event; vendor
// events are in no tier and so in debug only.
func (h *Host) admittedBy(modes []string, eventType string) string {
	tier := h.tiers[eventType]
	for _, mode := range modes {
		if mode == modeDebug || mode == tier {
			return mode
		}
	}
	return ""
}

// frameOf gives an event its frame in a stream of these modes: in a single mode the frame is named by the type, in a
// mixed one by the mode that admitted it (events.md §Stream modes, §SSE frames). messages carries the chunk alone.
func frameOf(event *eventlog.Event, admitted string, mixed bool) (name string, data []byte) {
	chunk := admitted == modeMessages
	switch {
	case mixed:
		name = admitted
	case chunk:
		name = "ai.message.chunk"
	default:
		name = event.Type
	}
	if chunk {
		return name, event.Payload
	}
	return name, event.AppendJSON(nil)
}
