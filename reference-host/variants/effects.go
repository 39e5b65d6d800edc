package variants

import (
	"context"
	"net/http"
	"time"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/reference-host/tamper/logs"
	"wopcert/requirements"
)

// needsReplay are the requirements that bind a host that replays, and no other.
func needsReplay() []requirements.ID {
	return append([]requirements.ID{
		requirements.R0170RunForkRefusals, requirements.R0170ForkPrefixBoundary, requirements.RunsForkChild, requirements.RunsForkFoldsPause,
		requirements.R0173EffectSeamManifest, requirements.R0173EffectSeamManifestFacet, requirements.R0173EffectSeamNoRefire,
		requirements.ReplayFromSeqOutOfRange, requirements.ReplaySourceNotVisible, requirements.ReplayForkBeyondTerminal,
		requirements.ReplayBranchOverlay, requirements.ReplayPrefixEnvelope, requirements.WebhooksBranchDelivered,
		requirements.R0176ForkAV1RunLegacySubject, requirements.R0176ForkAV1RunPrefix, requirements.R0176UnmappedTypeRefusedFork,
		requirements.R0176V1EventsTranslatedFork, requirements.PersistenceForkStamped,
	}, needsReplayMode()...)
}

// needsReplayMode are those that bind a host that forks in the mode replay.
func needsReplayMode() []requirements.ID {
	return []requirements.ID{
		requirements.ReplayInterruptShortCircuits, requirements.ReplayNondeterminismReplayed, requirements.ReplayVersionPin,
		requirements.ReplayDivergedReported, requirements.ReplayDivergedContinues, requirements.ReplayDivergedStreamed,
		requirements.ReplayPureNodesLive, requirements.ReplaySourceMissing, requirements.ReplaySourceMissingNoEffect,
		requirements.ReplayRecordedOutcome, requirements.ReplayOutcomeOrdinal, requirements.ReplayEffectNotSentAgain,
		requirements.SecurityDefaultsCompensationReplayNoRefire, requirements.InterruptEligibilityFixed, requirements.WebhooksReplaySilent,
	}
}

// needsLedger are the requirements that bind a host that advertises idempotency.
func needsLedger() []requirements.ID {
	return []requirements.ID{
		requirements.R0158DuplicateDelivery, requirements.R0173EffectIdentityBusinessKey, requirements.R0173EffectIdentityBusinessKeyRetry,
		requirements.IdempotencyDistinctInvocations, requirements.IdempotencyProviderKey, requirements.IdempotencyEffectsRead,
		requirements.IdempotencyEffectsReadRefused, requirements.IdempotencyNodeEffectsRecorded, requirements.IdempotencyEffectsContentFree,
		requirements.IdempotencyBusinessIdentityStable, requirements.IdempotencyOneClaim, requirements.R0173EffectSeamNoRefire,
		requirements.ReplaySourceMissingNoEffect, requirements.SecurityDefaultsOnwardHopEffect,
	}
}

// needsCompensation are the requirements that bind a host that compensates.
func needsCompensation() []requirements.ID {
	return []requirements.ID{
		requirements.RunsCompensationStatusPresent, requirements.RunsCancelKeepsCompensation, requirements.ReplayForkBeyondTerminal,
		requirements.R0173CompensationReadProjection, requirements.R0173CompensationReadProjectionNotFound,
		requirements.SecurityDefaultsCompensationOrderingModels, requirements.SecurityDefaultsCompensationReverseCompletion,
		requirements.SecurityDefaultsCompensationDependencyGraph, requirements.SecurityDefaultsCompensationAttempts,
		requirements.SecurityDefaultsCompensationRetryIdentity, requirements.SecurityDefaultsCompensationPlanFirst,
		requirements.SecurityDefaultsCompensationRollup, requirements.SecurityDefaultsCompensationManual,
		requirements.SecurityDefaultsCompensationReplayNoRefire,
	}
}

// unlisted leaves fixtures out.
func unlisted(ids ...string) func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		kept := c.Fixtures[:0:0]
		for _, held := range c.Fixtures {
			leave := false
			for _, id := range ids {
				leave = leave || held.ID == id
			}
			if !leave {
				kept = append(kept, held)
			}
		}
		c.Fixtures = kept
	}
}

func effectVariants() []Variant {
	const replays, layer2, undoing = "replay.md", "idempotency.md", "security-defaults.md"
	return []Variant{
		made("replay-off", replays, "The surface", "The host forks no runs.", without("replay"), needsReplay()...),
		made("replay-branches-alone", replays, "Modes", "The host forks runs in the mode branch alone.", replay("branch"),
			append(needsReplayMode(), requirements.R0173EffectSeamNoRefire)...),
		made("idempotency-off", layer2, "Why this exists", "The host makes no claim about effects.", without("idempotency"), needsLedger()...),
		made("compensation-off", undoing, "Compensation", "The host undoes nothing.", without("compensation"),
			needsCompensation()...).opening(requirements.RunsCompensationStatusAbsent),
		made("compensation-one-model", undoing, "Compensation", "The host undoes by reverse completion alone, and hands nothing to an operator.", chained(
			families(map[string]map[string]any{"compensation": {"orderingModels": []any{"reverse-completion"}, "manualIntervention": nil}}),
			unlisted("wopcert-compensation-graph", "wopcert-compensation-manual")),
			requirements.SecurityDefaultsCompensationDependencyGraph, requirements.SecurityDefaultsCompensationManual),
		made("replay-retention-unsaid", replays, "Retention", "Discovery does not say how long runs can be forked.",
			families(map[string]map[string]any{"replay": {"retention": nil}})),
		made("effects-once-at-transport", layer2, "Layer 2: effect identity", "A node that fails is what tries again, the transport is not.", func(c *referencehost.Config) {
			c.Effects.Attempts = 1
		}),
		made("effects-tried-often", layer2, "Layer 2: effect identity", "The transport tries up to eight times.", func(c *referencehost.Config) {
			c.Effects.Attempts, c.Effects.Backoff = 8, time.Millisecond
		}),
		grant("effects-named-at-provider", layer2, "Layer 2: effect identity", "The ledger does not repeat the provider's key, and calls the invocation nothing.", ledgerRows(func(row object) {
			delete(row, "providerKey")
			delete(row, "invocationId")
		})),
		grant("effects-two-states", layer2, "Layer 2: effect identity", "An attempt is claimed until it is completed, and has no third state.", ledgerRows(func(row object) {
			if row["state"] != "completed" {
				row["state"] = "claimed"
			}
		})),
		grant("seams-of-more-kinds", replays, "The effect-seam manifest", "The manifest lists paths that nobody can drive.", tamper.JSON(
			tamper.Op(http.MethodGet, "/host/effect-seams"), http.StatusOK, func(_ *http.Request, doc map[string]any) {
				list, _ := doc["seams"].([]any)
				doc["seams"] = append([]any{
					object{"seam": "mail.send", "kind": "smtp", "guarded": true, "guardedBy": "mail-gate"},
					object{"seam": "disk.write", "kind": "other", "guarded": true, "guardedBy": "disk-gate", "note": "Writes to a disk."},
				}, list...)
			})),
		grant("seams-silent-about-branches", replays, "The effect-seam manifest", "The manifest says nothing of branches.", tamper.JSON(
			tamper.Op(http.MethodGet, "/host/effect-seams"), http.StatusOK, func(_ *http.Request, doc map[string]any) {
				list, _ := doc["seams"].([]any)
				for _, v := range list {
					if row, ok := v.(object); ok {
						delete(row, "branchReFires")
						delete(row, "note")
					}
				}
			})),
		made("replay-divergence-in-short", replays, "Divergence", "replay.diverged says no more than where.", divergences(func(payload object) {
			delete(payload, "divergenceKind")
			delete(payload, "divergencePoint")
			delete(payload, "replayEventId")
		})),
		made("replay-compensation-unrepeated", undoing, "Compensation", "A replay does not repeat what its source recorded of its compensation.", logs.Decorating(logs.Edit{
			Append: func(log referencehost.Log, drafts []referencehost.Draft) []referencehost.Draft {
				if log.Run().ForkMode != "replay" {
					return drafts
				}
				kept := drafts[:0]
				for _, draft := range drafts {
					if len(draft.Type) < 13 || draft.Type[:13] != "compensation." {
						kept = append(kept, draft)
					}
				}
				return kept
			},
		})),
		made("provider-key-elsewhere", layer2, "Layer 2: effect identity", "The provider takes its idempotency key in a header of its own name.", leaving(func(header http.Header) {
			if key := header.Get("Idempotency-Key"); key != "" {
				header.Del("Idempotency-Key")
				header.Set("X-Provider-Idempotency-Key", key)
			}
		})),
		made("provider-key-hashed", layer2, "Layer 2: effect identity", "The provider gets a derivative of the identity.", leaving(func(header http.Header) {
			if key := header.Get("Idempotency-Key"); key != "" {
				header.Set("Idempotency-Key", "derived-"+key)
			}
		})),
	}
}

// ledgerRows edits the records of getRunEffects.
func ledgerRows(edit func(row object)) tamper.Middleware {
	return tamper.JSON(tamper.Op(http.MethodGet, "/runs/{}/effects"), http.StatusOK, func(_ *http.Request, doc map[string]any) {
		list, _ := doc["effects"].([]any)
		for _, v := range list {
			if row, ok := v.(object); ok {
				edit(row)
			}
		}
	})
}

// divergences edits the payloads of replay.diverged as they are recorded.
func divergences(edit func(payload object)) func(*referencehost.Config) {
	return logs.Decorating(logs.Edit{Append: func(_ referencehost.Log, drafts []referencehost.Draft) []referencehost.Draft {
		for i := range drafts {
			if drafts[i].Type != "replay.diverged" {
				continue
			}
			if payload, ok := tamper.Decode(drafts[i].Payload).(object); ok {
				edit(payload)
				drafts[i].Payload = tamper.Encode(payload)
			}
		}
		return drafts
	}})
}

// leaving edits the headers of effects on their way out.
func leaving(edit func(header http.Header)) func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		c.WrapSender = append(c.WrapSender, func(next referencehost.Sender) referencehost.Sender { return relabelled{next, edit} })
	}
}

type relabelled struct {
	referencehost.Sender
	edit func(header http.Header)
}

// Send implements referencehost.Sender.
func (s relabelled) Send(ctx context.Context, effect referencehost.Effect) (*referencehost.Outcome, error) {
	if effect.NodeID != "" {
		effect.Header = effect.Header.Clone()
		s.edit(effect.Header)
	}
	return s.Sender.Send(ctx, effect)
}
