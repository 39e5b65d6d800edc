package variants

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"wopcert/corpus"
	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// seedRun matches the seam that stores a log in version 1 vocabulary.
func seedRun(r *http.Request) bool {
	return tamper.Op(http.MethodPost, "/conformance/seams/sample/event-log/seed")(r)
}

// onFile puts the host on a store in a file, which has no name any more when the host begins: it goes with the process.
func onFile(c *referencehost.Config) {
	c.Store = nil // what cannot be opened is a configuration the host refuses
	directory, err := os.MkdirTemp("", "wopcert-store-")
	if err != nil {
		return
	}
	defer os.RemoveAll(directory)
	if store, err := referencehost.OpenFileStore(filepath.Join(directory, "store")); err == nil {
		c.Store = store
	}
}

// unreadable reports whether a host refuses to read a run's log for a type of it.
func unreadable(next http.Handler, r *http.Request) bool {
	doc, _ := tamper.Ask(next, r, http.MethodGet, "/runs/"+tamper.RunSegment(r)+"/events/poll", nil).JSON()
	return doc["error"] == "event_type_unmapped"
}

// underHatch has a stored member without a place read below the prefix that every payload takes.
func underHatch(w http.ResponseWriter, r *http.Request, next http.Handler) {
	doc, _ := tamper.BodyJSON(r)
	list, _ := doc["events"].([]any)
	for _, row := range list {
		row, _ := row.(object)
		payload, _ := row["payload"].(object)
		for name, value := range payload {
			if strings.HasPrefix(name, "v1") {
				delete(payload, name)
				payload["x-"+strings.ToLower(name)] = value
			}
		}
	}
	if len(list) > 0 {
		tamper.SetBodyJSON(r, doc)
	}
	next.ServeHTTP(w, r)
}

// ofKills are what only a host that is killed shows.
func ofKills() []requirements.ID {
	return []requirements.ID{
		requirements.R0158KillAfterAccept, requirements.R0158KillDuringExecution, requirements.R0158PoisonExhaustion, requirements.R0158BoundIsDerived,
	}
}

// ofSeams are what only a host with the seams of the conformance profile shows.
func ofSeams() []requirements.ID {
	return []requirements.ID{
		requirements.R0176V1SignedWebhookAccepted, requirements.WebhooksUnprojectableDeadLettered, requirements.R0173EffectSeamNoRefire,
		requirements.ReplayVersionPin, requirements.ReplayDivergedReported, requirements.ReplayDivergedContinues,
		requirements.ReplayDivergedStreamed, requirements.ReplayPureNodesLive, requirements.R0173EffectIdentityBusinessKey,
		requirements.R0173EffectIdentityBusinessKeyRetry, requirements.IdempotencyProviderKey, requirements.IdempotencyEffectsContentFree,
		requirements.SecurityDefaultsOnwardHopEffect, requirements.R0176V1EventsTranslatedPoll, requirements.R0176V1EventsTranslatedSse,
		requirements.R0176V1EventsTranslatedFork, requirements.PersistenceSequenceVerbatim, requirements.PersistenceFieldsPassThrough,
		requirements.PersistencePayloadCarried, requirements.PersistenceDiffTranslated, requirements.EventsEra2NothingDropped,
		requirements.PersistenceMalformedNotDefaulted, requirements.R0176UnmappedTypeRefused, requirements.R0176UnmappedTypeRefusedFork,
		requirements.PersistenceUnmappedRefusedOnStream, requirements.PersistenceUnregisteredOrgRefused,
		requirements.PersistenceV2NameRefused, requirements.R0176VendorTypePassthrough, requirements.R0176ForkAV1RunPrefix,
		requirements.R0176ForkAV1RunLegacySubject, requirements.PersistenceForkStamped, requirements.PersistenceAbsentEraReads2,
		requirements.PersistenceLegacyOwner, requirements.PersistenceReadsAlike, requirements.R0176PinnedRunDispositionContinued,
		requirements.PersistencePinVerbatim, requirements.R0176PinnedRunDispositionCancelled, requirements.R0176Era2AppendVocabulary,
		requirements.ConformanceSeamsServed, requirements.ConformanceSeamsRefusals, requirements.ConformanceSeamsAuthenticated,
	}
}

func eraVariants() []Variant {
	const doc = "persistence.md"
	return []Variant{
		made("store-in-a-file", doc, "Durable acceptance and recovery", "Everything is kept in a file and not in memory.", onFile),
		made("recovery-bound-of-minutes", doc, "Durable acceptance and recovery", "The declared recovery bound is one of minutes.",
			func(c *referencehost.Config) { c.Recovery.Start = 12 * time.Minute }, ofKills()...),
		made("given-up-after-two", doc, "Durable acceptance and recovery", "A run whose execution the host did not survive twice is given up.",
			func(c *referencehost.Config) { c.Recovery.MaxAttempts = 2 }, ofKills()...),
		grant("unmapped-stream-breaks-off", doc, "The reader rule", "The stream of a log with an unknown type opens and ends without an event.",
			tamper.Instead(tamper.StreamRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if !unreadable(next, r) {
					next.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				w.Header().Set("OpenWOP-Version", corpus.ProtocolVersion)
				w.WriteHeader(http.StatusOK)
			})),
		made("no-seams", "conformance.md", "The seams profile", "The host mounts no test seams.", func(c *referencehost.Config) { c.Seams = false }, ofSeams()...),
		grant("unknown-members-carried", "events.md", "Era-2 logs", "A stored member without a place is carried below x-.", tamper.Instead(seedRun, underHatch)),
		made("relaxed-surface-unadvertised", "security-defaults.md", "Relaxations", "The operator has relaxed an obligation of a surface that the host does not advertise.",
			func(c *referencehost.Config) {
				c.Relaxations = []referencehost.Relaxation{{Obligation: "a2a.push-egress-guard", Durability: "deployment", Reason: "peers on a private network"}}
			}).opening(
			requirements.R0173RelaxationRecordedDurabilityClosed, requirements.R0173RelaxationRecordedOwnedByRegistry, requirements.SecurityDefaultsRelaxedSurfaceUnadvertised),
	}
}
