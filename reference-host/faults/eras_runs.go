package faults

import (
	"fmt"
	"net/http"
	"strings"

	"wopcert/corpus"
	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/reference-host/tamper/logs"
	"wopcert/requirements"
)

// unmapped reports whether an answer refuses a log for a type of its.
func unmapped(a *tamper.Answer) bool {
	doc, ok := a.JSON()
	return ok && doc["error"] == "event_type_unmapped"
}

// onUnmapped edits what a host says about a log it cannot translate.
func onUnmapped(m tamper.Match, edit func(a *tamper.Answer)) tamper.Middleware {
	return tamper.Answers(m, func(_ *http.Request, a *tamper.Answer) {
		if unmapped(a) {
			edit(a)
		}
	})
}

func unmappedFaults() []Fault {
	poll, org, v2 := requirements.R0176UnmappedTypeRefused, requirements.PersistenceUnregisteredOrgRefused, requirements.PersistenceV2NameRefused
	fork, stream, vendor := requirements.R0176UnmappedTypeRefusedFork, requirements.PersistenceUnmappedRefusedOnStream, requirements.R0176VendorTypePassthrough
	const refused = "for a log that holds"
	return []Fault{
		wire("unmapped-type-tolerated", "A type the codemap does not name is read as if a vendor owned it.",
			"event_type_unmapped", readAs("run.vanished", "example.vanished"), poll, fork, stream),
		wire("unmapped-core-type-tolerated", "A type below core. that the codemap does not name is tolerated.",
			refused, readAs("core.dispatch.unheard", "example.unheard"), poll),
		wire("reserved-prefix-tolerated", "A type below the reserved prefix openwop. is taken for a vendor's.",
			refused, readAs("openwop.internal.note", "example.internal-note"), poll),
		wire("unmapped-events-skipped", "A poll of a log with an unknown type shows no events and says nothing.",
			refused, onUnmapped(tamper.PollRun, func(a *tamper.Answer) {
				a.Status = http.StatusOK
				a.SetJSON(object{"runId": "tenant-a/0123456789abcdef", "events": []any{}, "lastSequence": 0, "status": "completed", "isTerminal": true})
			}), poll, org, v2),
		wire("unmapped-type-is-an-internal-error", "A log with an unknown type is refused with the general code.",
			"internal_error", onUnmapped(tamper.PollRun, func(a *tamper.Answer) { a.Refuse(500, "internal_error", "the host failed") }), poll, org, v2),
		wire("unmapped-type-is-not-found", "A log with an unknown type is taken for none.",
			"not_found", onUnmapped(tamper.PollRun, func(a *tamper.Answer) { a.Refuse(404, "not_found", "no such run") }), poll, org, v2),
		wire("unmapped-fork-is-invalid", "A fork of a log with an unknown type is refused as a bad point.",
			"fork_point_invalid", onUnmapped(tamper.ForkRun, func(a *tamper.Answer) { a.Refuse(422, "fork_point_invalid", "no such point") }), fork),
		wire("unmapped-branch-made", "A run with an unknown type is forked in the mode branch, from its start.",
			"in mode branch", tamper.Instead(tamper.ForkRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				doc, _ := tamper.BodyJSON(r)
				a := tamper.Record(next, r)
				if unmapped(a) && doc["mode"] == "branch" {
					source := strings.Replace(strings.TrimSuffix(tamper.RunSegment(r), ":fork"), "~2F", "/", 1)
					a.Status = http.StatusCreated
					a.SetJSON(object{"runId": "tenant-a/0123456789abcdef", "sourceRunId": source, "fromSeq": 0, "mode": "branch", "status": "running", "eventsUrl": "/runs/x/events"})
				}
				a.Send(w)
			}), fork),
		wire("unmapped-stream-shows-the-end", "The stream of a log with an unknown type skips it and goes on.",
			"no event from the unmapped one on", tamper.Instead(tamper.StreamRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				run := tamper.RunSegment(r)
				if !unmapped(tamper.Ask(next, r, http.MethodGet, "/runs/"+run+"/events/poll", nil)) {
					next.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				w.Header().Set("OpenWOP-Version", corpus.ProtocolVersion)
				fmt.Fprintf(w, "id: 4\nevent: run.completed\ndata: {\"eventId\":\"0123456789abcdef\",\"runId\":%q,\"type\":\"run.completed\",\"payload\":{\"outputs\":{}},"+
					"\"timestamp\":\"2025-03-01T08:00:04.123Z\",\"sequence\":4,\"schemaVersion\":1}\n\n", strings.Replace(run, "~2F", "/", 1))
			}), stream),
		wire("unregistered-org-tolerated", "Any first segment is taken for a vendor's.",
			refused, readAs("wopcert-unregistered.widget-made", "example.widget-made"), org),
		wire("v2-name-tolerated", "A version 2 name in a log of era 2 is read as it is.",
			refused, readAs("run.resume-started", "run.resuming"), v2),
		wire("vendor-type-refused", "The type of a registered organisation is refused because the codemap does not name it.",
			"event_type_unmapped", readAs("example.widget-made", "nobody.widget-made"), vendor),
		wire("vendor-type-renamed", "The type of a registered organisation is folded to two segments.",
			`"example.widget-painted"`, polledSeeds(rowOf("example.widget.painted"), renamedTo("example.widget.painted", "example.widget-painted")), vendor),
		wire("vendor-event-left-out", "The events of a registered organisation are left out.",
			"example.widget", polledSeeds(rowOf("example.widget.painted"), func(e object) bool { return !strings.HasPrefix(text(e["type"]), "example.") }), vendor),
	}
}

// seededSnapshots edits the snapshots of seeded runs.
func seededSnapshots(edit func(doc object)) tamper.Middleware {
	return watched(func(known *seededRuns) tamper.Middleware {
		return tamper.JSON(tamper.GetRun, http.StatusOK, func(_ *http.Request, doc map[string]any) {
			if known.holds(doc["runId"], anyRow) {
				edit(doc)
			}
		})
	})
}

// subject is the Subject of a snapshot, or of a payload.
func subject(doc object) object {
	owner, _ := doc["owner"].(object)
	s, _ := owner["subject"].(object)
	return s
}

func seededRunFaults() []Fault {
	owner, alike := requirements.PersistenceLegacyOwner, requirements.PersistenceReadsAlike
	prefix, legacy := requirements.R0176ForkAV1RunPrefix, requirements.R0176ForkAV1RunLegacySubject
	reads := &notes[int]{}
	return []Fault{
		wire("seeded-snapshot-stamped-3", "A run without an era stamp reads as one of this host's own.",
			"eventLogSchemaVersion 3", seededSnapshots(func(doc object) { doc["eventLogSchemaVersion"] = 3 }), requirements.PersistenceAbsentEraReads2),
		wire("seeded-owner-of-the-key-realm", "A run without a Subject reads as owned in the realm of this host's keys.",
			"the legacy Subject", seededSnapshots(func(doc object) { subject(doc)["issuer"] = "urn:wopcert-reference-host:api-key" }), owner),
		wire("seeded-owner-of-another-kind", "The kind of an owner nobody recorded is made up.",
			"the legacy Subject", seededSnapshots(func(doc object) { subject(doc)["kind"] = "workload" }), owner),
		wire("seeded-owner-of-another-lane", "The lane of an owner nobody attested is made up.",
			"the legacy Subject", seededSnapshots(func(doc object) { subject(doc)["lane"] = "session" }), owner),
		wire("seeded-owner-made-at-each-read", "The owner of a run without a Subject is another one at each read.",
			"owner at the next read", seededSnapshots(func(doc object) {
				n, _ := reads.get(text(doc["runId"]))
				reads.put(text(doc["runId"]), n+1)
				subject(doc)["subjectId"] = fmt.Sprintf("legacy-%d", n)
			}), owner),
		wire("seeded-rows-rewritten-by-an-append", "What a host appends to a log of era 2 changes the times of the stored rows.",
			"the stored events as they were read before", watched(func(known *seededRuns) tamper.Middleware {
				return tamper.JSON(tamper.PollRun, http.StatusOK, func(_ *http.Request, doc map[string]any) {
					list, _ := doc["events"].([]any)
					if !known.holds(doc["runId"], rowOf("run.resuming")) || len(list) == 0 {
						return
					}
					if last, _ := list[len(list)-1].(object); last["type"] == "run.cancelled" {
						first, _ := list[0].(object)
						first["timestamp"] = last["timestamp"]
					}
				})
			}), alike),
		wire("fork-of-v1-loses-a-member", "A fork of a run of era 2 takes over less of a payload than its source shows.",
			"where the source has", forksOfSeeds(forkable, inPayload("agent.tool-called", func(p object) { delete(p, "inputs") })), prefix),
		wire("fork-of-v1-loses-a-vendor-member", "A fork of a run of era 2 takes over no vendor members.",
			"where the source has", forksOfSeeds(forkable, inPayload("run.resume-started", func(p object) { delete(p, "x-wopcert") })), prefix),
		wire("fork-of-v1-loses-causes", "A fork of a run of era 2 takes over no causes.",
			"with causationId", forksOfSeeds(forkable, func(e object) bool { delete(e, "causationId"); return true }), prefix),
		wire("fork-of-v1-is-shorter", "A fork of a run of era 2 leaves out an event of its source.",
			"events", forksOfSeeds(forkable, func(e object) bool { return e["type"] != "agent.tool-returned" }), prefix),
		wire("fork-of-v1-owned-by-the-caller", "run.started of a fork of a run of era 2 names the realm of this host's keys.",
			"the legacy Subject in run.started", forksOfSeeds(forkable, inPayload("run.started", func(p object) { subject(p)["issuer"] = "urn:wopcert-reference-host:api-key" })), legacy),
		wire("fork-of-v1-without-owner", "run.started of a fork of a run of era 2 names no owner.",
			"the legacy Subject in run.started", forksOfSeeds(forkable, inPayload("run.started", func(p object) { delete(p, "owner") })), legacy),
		wire("fork-of-v1-stamped-2", "A fork of a run of era 2 reads as one of era 2 itself.",
			"eventLogSchemaVersion 2", watched(func(known *seededRuns) tamper.Middleware {
				return tamper.JSON(tamper.GetRun, http.StatusOK, func(_ *http.Request, doc map[string]any) {
					if known.holds(doc["parentRunId"], anyRow) {
						doc["eventLogSchemaVersion"] = 2
					}
				})
			}), requirements.PersistenceForkStamped),
	}
}

// pinnedElsewhere has the host read a pin it does not implement as one it does, and show it as it was stored.
func pinnedElsewhere(version func(own any) any) tamper.Middleware {
	pins := &notes[string]{}
	return tamper.Chain(
		tamper.JSON(tamper.PollRun, http.StatusOK, func(_ *http.Request, doc map[string]any) {
			editEvents(doc, inPayload("version.pinned", func(p object) {
				if change, ok := pins.get(fmt.Sprint(p["version"])); ok {
					p["changeId"] = change
				}
			}))
		}),
		seedRows(func(_, row object) {
			payload, _ := row["payload"].(object)
			if row["type"] != "version.pinned" || payload["version"] == nil || payload["changeId"] == referencehost.DefaultChange {
				return
			}
			payload["version"] = version(payload["version"])
			pins.put(fmt.Sprint(payload["version"]), text(payload["changeId"]))
			payload["changeId"] = referencehost.DefaultChange
		}),
	)
}

func pinFaults() []Fault {
	continued, cancelled, verbatim := requirements.R0176PinnedRunDispositionContinued, requirements.R0176PinnedRunDispositionCancelled, requirements.PersistencePinVerbatim
	cutOver := func(edit func(e, payload object)) tamper.Middleware {
		return polledSeeds(anyRow, func(e object) bool {
			if payload, ok := e["payload"].(object); ok && payload["cancelledBy"] == "v2-cutover" {
				edit(e, payload)
			}
			return true
		})
	}
	return []Fault{
		wire("pin-followed-silently", "A run that is pinned to a change nobody implements goes on.",
			"with status", pinnedElsewhere(func(own any) any { return own }), cancelled),
		wire("last-pin-counts", "Of the changes a run is pinned to only the last is looked at.", "with status", pinsAlike(-1), cancelled),
		wire("first-pin-counts", "Of the changes a run is pinned to only the first is looked at.", "with status", pinsAlike(0), cancelled),
		wire("cutover-without-its-reason", "A run that is cancelled for its pin says only that it was cancelled.",
			"run.cancelled with payload", cutOver(func(_, p object) { p["reason"] = "cancelled" }), cancelled),
		wire("cutover-by-nobody", "A run that is cancelled for its pin does not say by whom.",
			"run.cancelled with payload", cutOver(func(_, p object) { delete(p, "cancelledBy") }), cancelled),
		wire("cutover-by-the-caller", "A run that is cancelled for its pin names the caller.",
			"run.cancelled with payload", cutOver(func(_, p object) { p["cancelledBy"] = "operator-a" }), cancelled),
		wire("cutover-fails-the-run", "A run that is pinned to a change nobody implements is failed and not cancelled.",
			"with status", cutOver(func(e, _ object) {
				e["type"], e["payload"] = "run.failed", object{"error": object{"code": "v1_pin_unsupported", "message": "the pin is not supported"}}
			}), cancelled),
		wire("cutover-snapshot-running", "The snapshot of a run that was cancelled for its pin says that it is running.",
			`"running"`, watched(func(known *seededRuns) tamper.Middleware {
				return tamper.JSON(tamper.GetRun, http.StatusOK, func(_ *http.Request, doc map[string]any) {
					if known.holds(doc["runId"], rowOf("version.pinned")) && doc["status"] == "cancelled" {
						doc["status"] = "running"
					}
				})
			}), cancelled),
		made("implemented-pin-cancelled", "A run that is pinned to a change the host implements is cancelled.",
			"run.cancelled with payload", func(c *referencehost.Config) { c.Changes = nil }, continued),
		wire("unpinned-v1-run-left-alone", "A run of era 2 that had not ended is read and never goes on.",
			"with 0 events", seedRows(func(doc, row object) {
				payload, _ := row["payload"].(object)
				if doc["status"] == "running" && row["type"] == "run.started" && payload["workflowId"] == "conformance-noop" {
					payload["workflowId"] = "conformance-nobody-holds-it"
				}
			}), continued),
		wire("pin-version-rewritten", "A pin reads with the version the host has now.",
			"stored as", polledSeeds(rowOf("version.pinned"), inPayload("version.pinned", func(p object) { p["version"] = integer(p["version"]) + 1 })), verbatim),
		wire("pin-change-rewritten", "A pin that cost its run reads under another change id.",
			"stored as", polledSeeds(rowOf("version.pinned"), inPayload("version.pinned", func(p object) {
				if integer(p["version"]) == 7 {
					p["changeId"] = "legacy." + text(p["changeId"])
				}
			})), verbatim),
		wire("pin-dropped", "A pin that cost its run is not shown any more.",
			"where it was stored", polledSeeds(rowOf("version.pinned"), func(e object) bool {
				payload, _ := e["payload"].(object)
				return e["type"] != "version.pinned" || integer(payload["version"]) != 7
			}), verbatim),
	}
}

// writerFaults break what a host appends to a log of era 2.
func writerFaults() []Fault {
	vocabulary := requirements.R0176Era2AppendVocabulary
	inEra2 := func(edit func(d *referencehost.Draft)) func(*referencehost.Config) {
		return logs.Decorating(logs.Edit{Append: func(log referencehost.Log, drafts []referencehost.Draft) []referencehost.Draft {
			if log.Run().Era == 2 {
				for i := range drafts {
					edit(&drafts[i])
				}
			}
			return drafts
		}})
	}
	return []Fault{
		made("appended-under-v2-names", "What the host appends to a log of era 2 has the version 2 name of its type.",
			"500 event_type_unmapped", inEra2(func(d *referencehost.Draft) {
				if d.Type == "runOrchestrator.decided" {
					d.Type = "orchestrator.decided"
				}
			}), vocabulary).
			blocking(requirements.WebhooksEventVerbatim, requirements.WebhooksAtLeastOnce),
		wire("appended-with-a-gap", "The sequences of what is appended to a log of era 2 do not follow on.",
			"after sequence", polledSeeds(rowOf("run.resuming"), func(e object) bool {
				if strings.HasPrefix(text(e["type"]), "run.cancelled") {
					e["sequence"] = integer(e["sequence"]) + 1
				}
				return true
			}), vocabulary),
		wire("appended-shown-under-v1-names", "What the host appends to a log of era 2 is shown as it is stored.",
			"runOrchestrator.decided", polledSeeds(anyRow, renamedTo("orchestrator.decided", "runOrchestrator.decided")), vocabulary, requirements.R0176V1EventsTranslatedPoll).
			blocking(requirements.WebhooksEventVerbatim, requirements.WebhooksAtLeastOnce),
		wire("v1-wire-shows-v2-names", "Under version 1 the log of a run of era 3 reads by version 2 names.",
			"orchestrator.decided", func(next http.Handler) http.Handler {
				older := tamper.JSON(func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/v1/") }, http.StatusOK, func(_ *http.Request, doc map[string]any) {
					editEvents(doc, renamedTo("runOrchestrator.decided", "orchestrator.decided"))
				})
				return older(next)
			}, requirements.PersistenceV1WireInverted).on("dual-stack"),
	}
}

// pinsAlike makes the pins of a stored log with several of them name the change
// of the first or, for -1, of the last.
func pinsAlike(which int) tamper.Middleware {
	return tamper.Requests(seedRun, func(r *http.Request) {
		doc, _ := tamper.BodyJSON(r)
		rows, _ := doc["events"].([]any)
		var pins []object
		for _, v := range rows {
			if row, _ := v.(object); row["type"] == "version.pinned" {
				payload, _ := row["payload"].(object)
				pins = append(pins, payload)
			}
		}
		if len(pins) < 2 {
			return
		}
		change := pins[(which+len(pins))%len(pins)]["changeId"]
		for _, payload := range pins {
			payload["changeId"] = change
		}
		tamper.SetBodyJSON(r, doc)
	})
}
