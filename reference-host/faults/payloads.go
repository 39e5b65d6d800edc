package faults

import (
	"net/http"
	"strings"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// isVendors reports whether a member of a payload is a vendor's.
func isVendors(name string) bool {
	return strings.HasPrefix(name, "openwop-") || strings.HasPrefix(name, "x-") || strings.HasPrefix(name, "vendor.")
}

// plain takes the members of vendors out of an event's payload.
func plain(e object) {
	if payload, ok := e["payload"].(object); ok {
		for name := range payload {
			if isVendors(name) {
				delete(payload, name)
			}
		}
	}
}

// plainBatch takes the members of vendors out of a batch.
func plainBatch(_ *http.Request, f tamper.Frame, batch []any) []tamper.Frame {
	for _, v := range batch {
		if e, ok := v.(object); ok {
			plain(e)
		}
	}
	return []tamper.Frame{f.WithBatch(batch)}
}

func payloadFaults() []Fault {
	hatch, seats := requirements.R0185PayloadVendorHatch, requirements.R0186PayloadSeats
	const on = "payload-vendor-members"
	exchanged := func(edit func(p object)) tamper.Middleware { return payloadOf("conversation.exchanged", edit) }
	return []Fault{
		wire("vendor-members-not-in-debug", "A debug stream leaves the members of vendors out.",
			"openwop-hint", tamper.Chain(
				framesOf(tamper.And(tamper.Streams("debug"), tamper.Not(tamper.Buffered)), func(f tamper.Frame, data object) (tamper.Frame, bool) {
					plain(data)
					return f.Set("data", string(tamper.Encode(data))), true
				}),
				batched(func(r *http.Request, f tamper.Frame, batch []any) []tamper.Frame {
					if !withDebug(r) {
						return []tamper.Frame{f}
					}
					return plainBatch(r, f, batch)
				})), hatch, requirements.R0171StreamSseProjection).on(on),
		wire("vendor-members-not-in-batches", "Batches leave the members of vendors out.",
			"bufferMs|openwop-hint", batched(plainBatch), hatch, requirements.EventsBatchFrames).on(on),
		wire("vendor-members-not-in-poll", "A poll leaves the members of vendors out where a node starts.",
			"openwop-hint", polled(func(_ *http.Request, doc object) {
				list, _ := doc["events"].([]any)
				for _, v := range list {
					if e, ok := v.(object); ok && e["type"] == "node.started" {
						plain(e)
					}
				}
			}), hatch, requirements.R0171StreamSseProjection).on(on),
		wire("vendor-member-without-prefix", "A payload holds a member of the host's own under a plain name.",
			"note", ofType("node.completed", func(e object) { e["payload"].(object)["note"] = "seen" }), hatch, requirements.R0171PayloadRegistryClosed).
			also("delivery of \"node.completed|event 9 node.completed: does not match", requirements.WebhooksEventVerbatim, requirements.PersistencePayloadCarried).
			blocking(storedReplays()...),
		wire("turn-of-nothing", "conversation.exchanged says neither what was said nor what it came to.",
			"turn", exchanged(func(p object) { delete(p, "turn") }), seats).closing(requirements.R0205TurnPartsEmitted),
		wire("turn-without-message-id", "A turn has no messageId.",
			"messageId", exchanged(func(p object) {
				if turn, ok := p["turn"].(object); ok {
					delete(turn, "messageId")
				}
			}), seats),
		wire("turn-under-another-name", "What was said stands under a member the definition does not have.",
			"message", exchanged(func(p object) { p["message"] = "The tide turns at six." }), seats),
	}
}
