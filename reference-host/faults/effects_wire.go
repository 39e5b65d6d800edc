package faults

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/reference-host/tamper/logs"
	"wopcert/reference-host/tamper/outbound"
	"wopcert/requirements"
)

// effectWireFaults are the defects of manifests, forks and ledgers that show on
// the wire alone.
func effectWireFaults() []Fault {
	return slices.Concat(manifestFaults(), forkRefusalFaults(), overlayFaults(), historyFaults(), divergenceFaults(), ledgerReadFaults(), identityFaults())
}

// lastSeam edits the last row of the manifest.
func lastSeam(edit func(seam object)) tamper.Middleware {
	return tamper.JSON(effectSeams(), http.StatusOK, func(_ *http.Request, doc map[string]any) {
		if seams, ok := doc["seams"].([]any); ok && len(seams) > 0 {
			edit(seams[len(seams)-1].(object))
		}
	})
}

func manifestFaults() []Fault {
	manifest, facet := requirements.R0173EffectSeamManifest, requirements.R0173EffectSeamManifestFacet
	return []Fault{
		wire("seam-manifest-missing", "A host that replays has no effect-seam manifest.", "404",
			onStatus(effectSeams(), 200, func(a *tamper.Answer) { a.Refuse(404, "not_found", "no such resource") }), manifest).
			blocking(requirements.R0173EffectSeamNoRefire),
		wire("seam-unguarded", "A seam of the manifest is not guarded.", "guarded", lastSeam(func(seam object) { seam["guarded"] = false }), manifest),
		wire("seam-kind-unknown", "A seam leaves by a mechanism that has no name.", "kind", lastSeam(func(seam object) { seam["kind"] = "grpc" }), manifest),
		wire("seam-other-without-note", "A seam of the kind other does not say what it is.", "note", lastSeam(func(seam object) {
			seam["kind"] = "other"
			delete(seam, "note")
		}), manifest),
		wire("seam-guard-unnamed", "A seam does not say what guards it.", "guardedBy", lastSeam(func(seam object) { seam["guardedBy"] = "" }), manifest),
		wire("seam-manifest-empty", "The manifest of a host whose runs have effects lists no seam.", "no seam",
			tamper.JSON(effectSeams(), http.StatusOK, func(_ *http.Request, doc map[string]any) { doc["seams"] = []any{} }), manifest).
			closing(requirements.R0173EffectSeamNoRefire),
		wire("seam-manifest-version-2", "The manifest is of a version that is none.", "manifestVersion",
			tamper.JSON(effectSeams(), http.StatusOK, func(_ *http.Request, doc map[string]any) { doc["manifestVersion"] = "2" }), manifest),
		wire("seam-manifest-elsewhere", "Discovery names another place for the manifest.", "/host/effect-seams",
			document(func(doc object) {
				if replay, ok := doc["replay"].(object); ok {
					replay["effectSeamsManifest"] = "/host/effect-seams/all"
				}
			}), facet, requirements.R0169CapabilitiesRootClosedValid),
	}
}

func forkRefusalFaults() []Fault {
	outOfRange, absent, beyond := requirements.ReplayFromSeqOutOfRange, requirements.ReplaySourceNotVisible, requirements.ReplayForkBeyondTerminal
	negative := func(r *http.Request) bool {
		doc, _ := tamper.BodyJSON(r)
		return tamper.ForkRun(r) && integer(doc["fromSeq"]) < 0
	}
	// tail edits the refusal of a fork from an event that is there.
	tail := func(edit func(w http.ResponseWriter, r *http.Request, next http.Handler, doc object, a *tamper.Answer)) tamper.Middleware {
		return tamper.Instead(tamper.ForkRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			doc, _ := tamper.BodyJSON(r)
			a := tamper.Record(next, r)
			if a.Status == http.StatusUnprocessableEntity && integer(doc["fromSeq"]) <= lastSequence(next, r) {
				edit(w, r, next, doc, a)
			}
			a.Send(w)
		})
	}
	return []Fault{
		wire("fork-from-minus-one", "A fork from before the log is one from its beginning.", "201", forkBody(func(doc object, _ int64) {
			if doc["fromSeq"] != nil && integer(doc["fromSeq"]) < 0 {
				doc["fromSeq"] = 0
			}
		}), outOfRange),
		wire("fork-from-minus-one-422", "A fork from before the log is refused as one from behind it.", "422",
			onStatus(negative, 400, func(a *tamper.Answer) { a.Refuse(422, "fork_point_invalid", "no such point") }), outOfRange),
		wire("fork-of-nothing-422", "A fork of a run that is not there is refused for its point.", "422",
			onStatus(tamper.ForkRun, 404, func(a *tamper.Answer) { a.Refuse(422, "fork_point_invalid", "no such point") }), absent),
		wire("fork-of-nothing-403", "A fork of a run that is not there is forbidden.", "403",
			onStatus(tamper.ForkRun, 404, func(a *tamper.Answer) { a.Refuse(403, "run_forbidden", "not yours") }), absent),
		wire("fork-of-nothing-plain", "A fork of a run that is not there is answered 404 in plain text.", "404|error-envelope",
			onStatus(tamper.ForkRun, 404, func(a *tamper.Answer) {
				a.Header.Set("Content-Type", "text/plain")
				a.Body = []byte("no such run")
			}), absent),
		wire("fork-inside-the-tail", "A fork from what compensates an ended run begins at its end.", "201",
			tail(func(_ http.ResponseWriter, r *http.Request, next http.Handler, doc object, a *tamper.Answer) {
				for at := integer(doc["fromSeq"]) - 1; at >= 0 && a.Status == http.StatusUnprocessableEntity; at-- {
					doc["fromSeq"] = at
					*a = *tamper.Ask(next, r, http.MethodPost, r.URL.EscapedPath(), doc)
				}
			}), beyond),
		wire("fork-inside-the-tail-400", "A fork from what compensates an ended run is refused with the general code.", "400",
			tail(func(_ http.ResponseWriter, _ *http.Request, _ http.Handler, _ object, a *tamper.Answer) {
				a.Refuse(400, "validation_error", "no such point")
			}), beyond),
	}
}

func overlayFaults() []Fault {
	overlay := requirements.ReplayBranchOverlay
	return []Fault{
		wire("branch-overlay-dropped", "A branch runs under the options of its source, whatever was asked for.", "tags of the branch",
			forkBody(func(doc object, _ int64) {
				if doc["mode"] == "branch" {
					delete(doc, "runOptionsOverlay")
				}
			}), overlay),
		wire("branch-overlay-refused", "A branch takes no other options.", "400",
			tamper.Instead(tamper.ForkRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				doc, _ := tamper.BodyJSON(r)
				a := tamper.Record(next, r)
				if doc["mode"] == "branch" && doc["runOptionsOverlay"] != nil {
					a.Refuse(400, "validation_error", "runOptionsOverlay")
				}
				a.Send(w)
			}), overlay),
	}
}

func historyFaults() []Fault {
	prefix := requirements.ReplayPrefixEnvelope
	history := func(edit func(e object)) tamper.Middleware {
		return ofForks(func(e object, from int64) bool {
			if integer(e["sequence"]) < from {
				edit(e)
			}
			return true
		})
	}
	return []Fault{
		wire("fork-history-without-causes", "The history of a fork does not say what caused what.", "causationId",
			history(func(e object) { delete(e, "causationId") }), prefix, requirements.R0176ForkAV1RunPrefix),
		wire("fork-history-without-nodes", "The events in the history of a fork name no node.", "nodeId",
			history(func(e object) { delete(e, "nodeId") }), prefix, requirements.R0176ForkAV1RunPrefix),
		wire("fork-history-of-another-schema", "The history of a fork is of another schema version.", "schemaVersion",
			history(func(e object) { e["schemaVersion"] = integer(e["schemaVersion"]) + 1 }), prefix),
		wire("fork-history-numbers-respelt", "The numbers in the history of a fork are spelt another way.", "payload",
			history(func(e object) {
				p, _ := e["payload"].(object)
				for name, v := range p {
					if n, ok := v.(json.Number); ok && !strings.Contains(string(n), ".") {
						p[name] = n + ".0"
					}
				}
			}), prefix),
	}
}

func divergenceFaults() []Fault {
	reported, streamed := requirements.ReplayDivergedReported, requirements.ReplayDivergedStreamed
	report := func(edit func(p object)) tamper.Middleware { return payloadOf("replay.diverged", edit) }
	return []Fault{
		wire("divergence-unsaid", "A replay does not say that it diverged.", "no replay.diverged",
			tamper.Events(func(e map[string]any) bool { return e["type"] != "replay.diverged" }), reported).
			blocking(streamed),
		wire("divergence-names-own-event", "A replay that diverged names its own event as the source's.", "originalEventId",
			report(func(p object) { p["originalEventId"] = p["replayEventId"] }), reported),
		wire("divergence-without-original", "A replay that diverged does not name the event of the source.", "originalEventId",
			report(func(p object) { delete(p, "originalEventId") }), reported),
		wire("divergence-elsewhere", "A replay that diverged names another place.", "atSequence",
			report(func(p object) { p["atSequence"] = integer(p["atSequence"]) + 1 }), reported),
		wire("divergence-of-another-run", "A replay that diverged names another run as its source.", "sourceRunId",
			report(func(p object) { p["sourceRunId"] = "tenant-a/AAAAAAAAAAAAAAAAAAAAAAAAAA" }), reported),
		made("divergence-cried", "Every replay says that it diverged.", "no replay.diverged in a replay that reproduces its source", divergesAlways(), reported),
		wire("divergence-not-streamed", "A stream leaves out that a replay diverged.", "frames without it",
			tamper.Frames(tamper.Streams("debug"), func(*http.Request) tamper.FrameEdit {
				return func(f tamper.Frame, out *tamper.Out) {
					if doc, ok := f.JSON(); !ok || doc["type"] != "replay.diverged" {
						out.Send(f)
					}
				}
			}), streamed),
	}
}

// divergesAlways records a divergence before every replay ends well.
func divergesAlways() func(*referencehost.Config) {
	return logs.Decorating(logs.Edit{Append: func(log referencehost.Log, drafts []referencehost.Draft) []referencehost.Draft {
		var out []referencehost.Draft
		for _, d := range drafts {
			if run := log.Run(); d.Type == "run.completed" && run.ForkOf != "" && run.ForkMode == "replay" {
				cry := d
				cry.EventID += "-diverged"
				cry.Type, cry.NodeID, cry.CausationID = "replay.diverged", "", ""
				cry.Payload = tamper.Encode(object{"sourceRunId": run.ForkOf, "atSequence": 0})
				out = append(out, cry)
			}
			out = append(out, d)
		}
		return out
	}})
}

// ledgers edits the effects of runs; workflow is the run's.
func ledgers(edit func(doc object, workflow string)) tamper.Middleware {
	return tamper.Instead(getEffects(), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := tamper.Record(next, r)
		if doc, ok := a.JSON(); ok && a.Status == http.StatusOK {
			edit(doc, text(runOf(next, r)["workflowId"]))
			a.SetJSON(doc)
		}
		a.Send(w)
	})
}

// everyEffect edits every record of a ledger.
func everyEffect(edit func(effect object, runID string)) tamper.Middleware {
	return ledgers(func(doc object, _ string) {
		list, _ := doc["effects"].([]any)
		for _, e := range list {
			edit(e.(object), text(doc["runId"]))
		}
	})
}

func ledgerReadFaults() []Fault {
	read, refused, recorded := requirements.IdempotencyEffectsRead, requirements.IdempotencyEffectsReadRefused, requirements.IdempotencyNodeEffectsRecorded
	return []Fault{
		wire("effects-of-another-run", "The effects of a run are told as those of another.", "runId",
			ledgers(func(doc object, _ string) { doc["runId"] = "tenant-a/AAAAAAAAAAAAAAAAAAAAAAAAAA" }), read).
			blocking(recorded),
		wire("effects-with-a-member-more", "A record of an effect has a member that it has not.", "effects",
			everyEffect(func(e object, _ string) { e["note"] = "as asked for" }), read).
			blocking(recorded),
		wire("effects-of-a-run-without", "A run that does nothing has an effect.", "no effect of a run that does nothing",
			ledgers(func(doc object, workflow string) {
				if workflow == "conformance-noop" {
					doc["effects"] = []any{object{"effectId": "tenant-a/AAAAAAAAAAAAAAAAAAAAAAAAAA", "nodeId": "noop", "attempt": 1,
						"keying": "activity-recipe", "state": "completed", "at": "2026-01-02T03:04:05Z"}}
				}
			}), read),
		wire("effects-of-a-node-elsewhere", "The effects of a run are told of a node it has not.", "effect of a node that the run never started|records of",
			everyEffect(func(e object, _ string) { e["nodeId"] = "elsewhere" }), read, recorded).
			blocking(requirements.R0173EffectSeamNoRefire).
			also("0 in 2 records", requirements.IdempotencyDistinctInvocations),
		wire("effects-of-nothing", "A run that is not there has no effects.", "200",
			tamper.Instead(getEffects(), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				a := tamper.Record(next, r)
				if doc, _ := a.JSON(); doc["error"] == "not_found" {
					a.Status = http.StatusOK
					a.SetJSON(object{"runId": strings.Replace(tamper.RunSegment(r), "~2F", "/", 1), "effects": []any{}})
				}
				a.Send(w)
			}), refused),
		wire("effects-of-others-missing", "The effects of another tenant's run are not there.", "404",
			onStatus(getEffects(), 403, func(a *tamper.Answer) { a.Refuse(404, "not_found", "no such run") }), refused).
			also("getRunEffects: 404 not_found", requirements.R0170IdGrammarTenantBinding),
		wire("effect-of-a-node-unrecorded", "The ledger of a run with an effect is empty.", "record of node effect",
			ledgers(func(doc object, workflow string) {
				if workflow == "conformance-replay-side-effect" {
					doc["effects"] = []any{}
				}
			}), recorded).
			blocking(requirements.R0158DuplicateDelivery),
		ledgerWithAnswers(),
	}
}

// ledgerWithAnswers keeps in the ledger what the provider of an effect said.
func ledgerWithAnswers() Fault {
	var mu sync.Mutex
	said := map[string]string{}
	f := wire("ledger-holds-the-answer", "The ledger holds what the provider said to an effect.", "holds one of them",
		everyEffect(func(e object, _ string) {
			mu.Lock()
			defer mu.Unlock()
			if body := said[text(e["providerKey"])]; body != "" {
				e["invocationId"] = body
			}
		}), requirements.IdempotencyEffectsContentFree)
	f.Decorate = outbound.Leaving(func(ctx context.Context, e referencehost.Effect, next referencehost.Sender) (*referencehost.Outcome, error) {
		outcome, err := next.Send(ctx, e)
		if err == nil && outcome != nil {
			mu.Lock()
			said[e.Header.Get("Idempotency-Key")] = string(outcome.Body)
			mu.Unlock()
		}
		return outcome, err
	})
	return f
}

func identityFaults() []Fault {
	key, stable := requirements.R0173EffectIdentityBusinessKey, requirements.IdempotencyBusinessIdentityStable
	ofRun := func(runID string) string { return runID + "-1" }
	return []Fault{
		wire("effect-keying-by-activity", "An effect of the business is told as one of a run.", "keying",
			everyEffect(func(e object, _ string) { e["keying"] = "activity-recipe" }), key, stable),
		wire("effect-unknown-to-the-ledger", "The identity an effect was sent under is not in the ledger.", "a record of the effect",
			tamper.JSON(sendsTwice, http.StatusCreated, func(_ *http.Request, doc map[string]any) { doc["effectId"] = text(doc["effectId"]) + "x" }), key),
		wire("effect-spelt-from-its-run", "The identity of an effect is the run's and a number.", "without the run|effectId in a second run",
			tamper.Chain(everyEffect(func(e object, runID string) { e["effectId"] = ofRun(runID) }),
				tamper.JSON(sendsTwice, http.StatusCreated, func(_ *http.Request, doc map[string]any) { doc["effectId"] = ofRun(text(doc["runId"])) })), key, stable).
			also("1 in 2 records", requirements.IdempotencyDistinctInvocations),
		wire("effect-of-another-tenant", "The identity of an effect is bound to another tenant.", "tenant",
			tamper.Chain(everyEffect(func(e object, _ string) { e["effectId"] = "other" + text(e["effectId"]) }),
				tamper.JSON(sendsTwice, http.StatusCreated, func(_ *http.Request, doc map[string]any) { doc["effectId"] = "other" + text(doc["effectId"]) })), key,
			requirements.R0187BoundIdKindsPerKind),
	}
}
