package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/reference-host/tamper/logs"
	"wopcert/requirements"
)

// The kinds of the host's catalog, and the workflow whose node has a contract.
const (
	noteKind         = "example.wopcert-note"
	memoKind         = "example.wopcert-memo"
	noteFloor        = 2
	contractWorkflow = "wopcert-envelope-contract"
)

// emitted edits what the model of a run emits before the host judges it. The
// edit gets the body of the create too.
func emitted(edit func(doc object, emissions []any) []any) tamper.Middleware {
	return options(func(doc object) {
		inputs, _ := doc["inputs"].(object)
		if list, ok := inputs["emissions"].([]any); ok {
			inputs["emissions"] = edit(doc, list)
		}
	})
}

// eachEnvelope edits every envelope that a model emits.
func eachEnvelope(edit func(e object)) tamper.Middleware {
	return emitted(func(_ object, list []any) []any {
		for _, v := range list {
			if e, ok := v.(object); ok && e["refusal"] == nil {
				edit(e)
			}
		}
		return list
	})
}

// asMemo makes an envelope one of the kind that takes any payload.
func asMemo(e object) {
	e["type"] = memoKind
	delete(e, "schemaVersion")
	if _, ok := e["payload"].(object); !ok {
		e["payload"] = object{}
	}
}

// admitting takes envelopes of the kinds that match for memos.
func admitting(match func(kind string) bool) tamper.Middleware {
	return eachEnvelope(func(e object) {
		if match(text(e["type"])) {
			asMemo(e)
		}
	})
}

// versionOf is the schema version of an envelope, 0 when it has none.
func versionOf(e object) int64 { return integer(e["schemaVersion"]) }

// caused edits the events that envelopes produced.
func caused(edit func(e object)) tamper.Middleware {
	return everyEvent(func(e object) {
		if e["type"] == "log.appended" && e["causationId"] != nil {
			edit(e)
		}
	})
}

// isChunk reports whether an event records a chunk of an envelope.
func isChunk(e object) bool {
	payload, _ := e["payload"].(object)
	fields, _ := payload["fields"].(object)
	return fields["partial"] != nil
}

// failingWith edits the failures of selected runs, wherever they show.
func failingWith(when func(code string) bool, code string) tamper.Middleware {
	edit := func(v any) {
		if failure, ok := v.(object); ok && when(text(failure["code"])) {
			failure["code"] = code
		}
	}
	return tamper.Chain(
		snapshot(func(doc object) { edit(doc["error"]) }),
		everyEvent(func(e object) {
			payload, _ := e["payload"].(object)
			edit(payload["error"])
		}),
	)
}

// failing is a code as a condition.
func failing(code string) func(string) bool { return func(c string) bool { return c == code } }

func envelopeFaults() []Fault {
	members, kinds := requirements.EventsEnvelopeMembersRequired, requirements.EventsEnvelopeKindNamespaced
	cause := requirements.EventsEnvelopeCausation
	meta := func(e object) object { m, _ := e["meta"].(object); return m }
	return []Fault{
		wire("envelope-correlation-made-up", "An envelope without a correlationId gets one.",
			"correlationId|completed", eachEnvelope(func(e object) {
				if e["correlationId"] == nil {
					e["correlationId"] = fmt.Sprintf("made-up-%x", tamper.Encode(e))[:40]
				}
			}), members),
		wire("envelope-source-made-up", "An envelope that does not say where it comes from is taken for the model's.",
			"source|completed", eachEnvelope(func(e object) {
				if m := meta(e); m != nil && m["source"] == nil {
					m["source"] = "ai-generation"
				}
			}), members),
		wire("envelope-meta-made-up", "An envelope without meta gets what it should have.",
			"meta|completed", eachEnvelope(func(e object) {
				if e["meta"] == nil {
					e["meta"] = object{"source": "ai-generation", "ts": "2026-01-01T00:00:00Z"}
				}
			}), members),
		wire("envelope-of-unregistered-org", "An envelope of an organisation that is not registered is accepted.",
			"wopcert-unregistered-org|completed", admitting(func(kind string) bool { return strings.HasPrefix(kind, "wopcert-unregistered-org.") }), kinds),
		wire("envelope-of-reserved-org", "An envelope under the protocol's own prefix is accepted.",
			"openwop.|completed", admitting(func(kind string) bool { return strings.HasPrefix(kind, "openwop.") }), kinds),
		wire("envelope-of-no-org", "An envelope of a kind under no organisation is accepted.",
			"completed|note", admitting(func(kind string) bool { return kind != "error" && !strings.Contains(kind, ".") }), kinds),
		wire("envelope-catalog-of-reserved-org", "The catalog of kinds has one under the protocol's own prefix.",
			"openwop.thing", document(func(doc object) {
				record, _ := doc["supportedEnvelopes"].(object)
				list, _ := record["kinds"].([]any)
				record["kinds"] = append(slices.Clone(list), "openwop.thing")
			}), kinds),
		wire("envelope-cause-is-an-event", "What an envelope did is recorded as caused by the start of its node.",
			"causationId", startCauses(), cause),
		wire("envelope-without-cause", "What an envelope did is recorded without a cause.",
			"causationId", caused(func(e object) {
				if !isChunk(e) {
					delete(e, "causationId")
				}
			}), cause),
		wire("envelope-cause-is-envelope-id", "What an envelope did is recorded under the id of the envelope and not of the turn.",
			"causationId", caused(func(e object) {
				if !isChunk(e) {
					e["causationId"] = "envelope-" + text(e["causationId"])
				}
			}), cause),
		wire("envelope-half-without-cause", "Of the events of an envelope one has no cause.",
			"causationId", unrelatedLines(), cause, requirements.EventsEnvelopePartial).on("envelope-of-two-events"),
	}
}

// startCauses gives what an envelope did the start of its node as its cause.
func startCauses() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		starts := map[string]string{}
		var mu sync.Mutex
		return everyEvent(func(e object) {
			mu.Lock()
			defer mu.Unlock()
			key := text(e["runId"]) + " " + text(e["nodeId"])
			switch {
			case e["type"] == "node.started":
				starts[key] = text(e["eventId"])
			case e["type"] == "log.appended" && e["causationId"] != nil && !isChunk(e) && starts[key] != "":
				e["causationId"] = starts[key]
			}
		})(next)
	}
}

// unrelatedLines takes the cause of the second line about an envelope away.
func unrelatedLines() tamper.Middleware {
	return caused(func(e object) {
		payload, _ := e["payload"].(object)
		if payload["level"] == "debug" {
			delete(e, "causationId")
		}
	})
}

// repeats finds the emissions whose correlationId an earlier one has, chunks
// apart.
func repeats(list []any, found func(first, again object)) {
	seen := map[string]object{}
	for _, v := range list {
		e, _ := v.(object)
		id := text(e["correlationId"])
		if id == "" || e["partial"] != nil {
			continue
		}
		if first := seen[id]; first != nil {
			found(first, e)
		} else {
			seen[id] = e
		}
	}
}

// repeated edits the emissions that say again what was said before.
func repeated(edit func(again object)) tamper.Middleware {
	return emitted(func(_ object, list []any) []any {
		repeats(list, func(_, again object) { edit(again) })
		return list
	})
}

// recordingRepeats records an envelope once more when it is emitted again.
func recordingRepeats(c *referencehost.Config) {
	ids := c.IDs
	c.Store = logs.Edited(c.Store, logs.Edit{Append: func(log referencehost.Log, drafts []referencehost.Draft) []referencehost.Draft {
		inputs, _ := tamper.Decode(log.Run().Inputs).(object)
		list, _ := inputs["emissions"].([]any)
		again := false
		repeats(list, func(_, _ object) { again = true })
		i := slices.IndexFunc(drafts, func(d referencehost.Draft) bool { return d.Type == "node.completed" })
		if !again || i < 0 {
			return drafts
		}
		if line := firstOf(log, "log.appended"); line != nil {
			copied := *line
			copied.EventID, copied.Timestamp = ids.Opaque(), drafts[i].Timestamp
			drafts = slices.Insert(drafts, i, copied)
		}
		return drafts
	}})
}

// refusals edits what is recorded when a model refuses; ceiling is what the run
// allows, and so far counts what it has.
func refusals(edit func(d referencehost.Draft, soFar, ceiling int64) []referencehost.Draft) func(*referencehost.Config) {
	return logs.Decorating(logs.Edit{Append: func(log referencehost.Log, drafts []referencehost.Draft) []referencehost.Draft {
		var out []referencehost.Draft
		for _, d := range drafts {
			if d.Type != "envelope.refusal" {
				out = append(out, d)
				continue
			}
			var options struct {
				AI struct {
					MaxRefusals int64 `json:"maxRefusals"`
				} `json:"ai"`
			}
			events, err := log.Read(-1)
			if err != nil || json.Unmarshal(log.Run().Configurable, &options) != nil {
				return drafts
			}
			soFar := int64(0)
			for _, e := range events {
				if e.Type == d.Type {
					soFar++
				}
			}
			out = append(out, edit(d, soFar, options.AI.MaxRefusals)...)
		}
		return out
	}})
}

// ceilings edits how many refusals a run may record before the host sees it.
func ceilings(edit func(ai object)) tamper.Middleware {
	return emitted(func(doc object, list []any) []any {
		configurable, _ := doc["configurable"].(object)
		if ai, ok := configurable["ai"].(object); ok && ai["maxRefusals"] != nil {
			edit(ai)
		}
		return list
	})
}

func envelopeOnceFaults() []Fault {
	again, partial := requirements.EventsEnvelopeReemission, requirements.EventsEnvelopePartial
	retried, ceiling := requirements.EventsRefusalNotRetried, requirements.EventsRefusalCeiling
	chunks := func(edit func(e, partial object)) tamper.Middleware {
		return eachEnvelope(func(e object) {
			if p, ok := e["partial"].(object); ok {
				edit(e, p)
			}
		})
	}
	return []Fault{
		made("envelope-recorded-again", "An envelope that is emitted again is recorded again.", "events|causationId", recordingRepeats, again),
		wire("envelope-again-is-new", "An envelope that is emitted again is another one.",
			"results|events", repeated(func(e object) { e["correlationId"] = text(e["correlationId"]) + "-again" }), again),
		wire("envelope-again-is-conflict", "An envelope that is emitted again is refused.",
			"envelope_correlation_conflict|completed", repeated(asMemo), again),
		wire("envelope-accepted-at-first-chunk", "The first chunk of an envelope is taken for the whole.",
			"partial|chunk|accepted", chunks(func(e, p object) {
				if integer(p["index"]) == 0 {
					delete(e, "partial")
				}
			}), partial),
		wire("envelope-chunks-without-cause", "The chunks of an envelope are recorded without a cause.",
			"causationId|chunk", caused(func(e object) {
				if isChunk(e) {
					delete(e, "causationId")
				}
			}), partial),
		wire("envelope-chunks-under-ids-of-their-own", "Each chunk of an envelope is recorded under a cause of its own.",
			"causationId|chunk", caused(func(e object) {
				if isChunk(e) {
					e["causationId"] = text(e["causationId"]) + "-" + number(e["sequence"])
				}
			}), partial),
		made("refusal-retried-to-the-ceiling", "What a model refused is asked of it again, as often as refusals are allowed.", "envelope.refusal",
			refusals(func(d referencehost.Draft, soFar, ceiling int64) []referencehost.Draft {
				out := []referencehost.Draft{d}
				for n := soFar + 1; n < ceiling; n++ {
					d.EventID += ".again"
					out = append(out, d)
				}
				return out
			}), retried),
		made("refusal-retry-recorded", "A refusal of a model is followed by another attempt.", "envelope.retry-attempted",
			refusals(func(d referencehost.Draft, _, _ int64) []referencehost.Draft {
				retry := d
				retry.EventID, retry.Type = d.EventID+".retry", "envelope.retry-attempted"
				retry.Payload = tamper.Encode(object{"nodeId": d.NodeID, "attempt": 2, "reason": "refusal"})
				return []referencehost.Draft{d, retry}
			}), retried),
		wire("refusal-ceiling-ignored", "Refusals are recorded without end.",
			"envelope.refusal", ceilings(func(ai object) { ai["maxRefusals"] = 100 }), ceiling),
		wire("refusal-ceiling-off-by-one", "One refusal more is recorded than the run allows.",
			"envelope.refusal", ceilings(func(ai object) { ai["maxRefusals"] = integer(ai["maxRefusals"]) + 1 }), ceiling),
		wire("refusal-ceiling-outlived", "A run that has recorded all the refusals it may goes on.",
			"completed", emitted(func(doc object, list []any) []any {
				configurable, _ := doc["configurable"].(object)
				ai, _ := configurable["ai"].(object)
				if most := integer(ai["maxRefusals"]); most > 0 && int64(len(list)) > most {
					list = list[:most-1]
				}
				return list
			}), ceiling),
	}
}
