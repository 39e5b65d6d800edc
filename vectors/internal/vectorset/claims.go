package vectorset

import (
	"wopcert/bundle"
	"wopcert/bundle/bundletest"
)

// signatureDefects are attestations that do not verify.
func (s *set) signatureDefects() {
	invalid := func(id, description string, data []byte, change ...func(*Bundle)) {
		s.defect(bundle.KindAttestationInvalid, id, description, data, append(change, attribution("not-attested", "attestation-invalid"))...)
	}
	invalid("build-edited", "host.build edited after signing", tampered(small(), func(t bundletest.Tree) { t.At("host", "build")["id"] = "sha256:0" }))
	invalid("suite-version-edited", "suite.version edited after signing", tampered(small(), func(t bundletest.Tree) { t.At("suite")["version"] = "0.0.1+2.44.6" }))
	invalid("other-signer", "signed with another key under the published id", func() []byte {
		t, key := small(), bundletest.Key("other")
		key.ID = hostKey().ID
		t.Seal(key)
		return pretty(t)
	}())
	invalid("flipped-bit", "one bit of the signature is flipped", tampered(small(), func(t bundletest.Tree) {
		t.At("signature")["sig"] = flip(t.At("signature")["sig"].(string))
	}))
	impostor := bundletest.Document()
	key := bundletest.Key("other")
	key.ID = hostKey().ID
	impostor["signingKeys"] = []any{bundletest.Published(key)}
	invalid("read-apart", "verifies under the captured document, and the host publishes another key under the id", pretty(small()),
		with(Options{Discovery: s.attach("discovery-same-id.json", bundletest.Encode(impostor))}))
	s.defect(bundle.KindSigningKeyID, "differs", "host.signingKeyId names another key than the signature", tampered(small(), func(t bundletest.Tree) {
		t.At("host")["signingKeyId"] = "test-only-other"
	}))
}

// tierDefects are claims of independence that must be refused.
func (s *set) tierDefects() {
	verifier := bundletest.Key("verifier")
	public := with(Options{VerifierKey: bundle.EncodePublicKey(verifier.Public())})
	s.defect(bundle.KindIndependentUnsigned, "unsigned", "no verifier signature", independent(func(bundletest.Tree) {}))
	s.defect(bundle.KindIndependentUnsigned, "other-key-named", "the claim names another verifier key than the signature", independent(func(t bundletest.Tree) {
		t.Countersign(verifier)
		claim(t, 0)["verifierKeyId"] = "test-only-somebody"
	}), public)
	s.defect(bundle.KindIndependentSelfSigned, "same-id", "the verifier signature names the host's key", independent(func(t bundletest.Tree) {
		t.Countersign(verifier)
		t.At("verifierSignature")["keyId"] = hostKey().ID
	}), public)
	s.defect(bundle.KindIndependentSelfSigned, "same-key", "the host's key under another id", independent(func(t bundletest.Tree) {
		key := hostKey()
		key.ID = "test-only-independent"
		t.Countersign(key)
	}), with(Options{VerifierKey: bundle.EncodePublicKey(hostKey().Public())}))
	s.defect(bundle.KindIndependentSelfSigned, "published", "a second key the host publishes", func() []byte {
		t := small()
		t.Document()["signingKeys"] = []any{bundletest.Published(hostKey()), bundletest.Published(verifier)}
		claim(t, 0)["evidenceTier"] = "independent"
		t.Seal(hostKey())
		t.Countersign(verifier)
		return pretty(t)
	}(), public)
	s.defect(bundle.KindIndependentUnverified, "no-key", "no verifier key to check the signature with", independent(func(t bundletest.Tree) { t.Countersign(verifier) }))
	s.defect(bundle.KindVerifierSignature, "other-key", "the verifier signature does not verify under the verifier key given", independent(func(t bundletest.Tree) {
		t.Countersign(bundletest.Key("other"))
	}), public)
}

// lower takes rows off the witness count of a claim, where a defect takes them off the floor.
func lower(t bundletest.Tree, i, by int) {
	claim(t, i)["witnessCount"] = int(claim(t, i)["witnessCount"].(float64)) - by
}

// deny adds a claim that rows or document deny.
func (s *set) deny(id, description string, data []byte) {
	s.defect(bundle.KindCertifiedUnderivable, id, description, data)
}

// claimDefects are claims that say more than the evidence.
func (s *set) claimDefects() {
	s.floorDefects()
	s.documentDefects()
	s.contractDefects()
	s.relaxationDefects()
	s.defect(bundle.KindWitnessCount, "inflated", "claims more witnessed floor rows than there are", tampered(small(), func(t bundletest.Tree) { lower(t, 0, -1) }))
	s.defect(bundle.KindDuplicateProfile, "twice", "one profile claimed twice", tampered(small(), func(t bundletest.Tree) {
		t["claimedProfiles"] = append(t["claimedProfiles"].([]any), map[string]any{"id": bundletest.DiscoveryCore, "evidenceTier": "steward", "witnessCount": 3, "certified": true})
	}))
	s.optOutDefects()
}

// floorDefects are floors with a row that does not count.
func (s *set) floorDefects() {
	const floor = "openwop.floor.v2-version-header-honored"
	s.deny("floor-failed", "a floor row failed", edited(small(), func(t bundletest.Tree) { fail(t, floor); lower(t, 0, 1) }))
	s.deny("floor-missing", "a floor row is missing", edited(small(), func(t bundletest.Tree) { removeRow(t, floor); lower(t, 0, 1) }))
	s.deny("floor-skipped", "a floor row is skipped", edited(small(), func(t bundletest.Tree) {
		setAside(t, floor)
		t.Row(floor)["result"], t.Row(floor)["detail"] = "skipped", bundle.OptOutDetail("forms")
		lower(t, 0, 1)
	}))
	s.deny("floor-inapplicable", "a floor row that binds every host is inapplicable", edited(small(), func(t bundletest.Tree) { setAside(t, floor); lower(t, 0, 1) }))
	s.deny("floor-summary-row", "the scenario passed under its summary id, not its floor id", edited(small(), func(t bundletest.Tree) {
		t.Row(floor)["id"] = "openwop.scenario.v2-version-header-honored"
		lower(t, 0, 1)
	}))
}

// documentDefects are captured documents that do not fit the profile.
func (s *set) documentDefects() {
	s.deny("family-missing", "the captured document lacks a family the profile requires", edited(full(), func(t bundletest.Tree) {
		delete(t.Document(), "interrupt")
	}))
	s.deny("family-not-a-record", "a family is present and is no record", edited(full(), func(t bundletest.Tree) { t.Document()["interrupt"] = true }))
	s.deny("metadata-missing", "the captured document lacks the conformance member", edited(full(), func(t bundletest.Tree) { delete(t.Document(), "conformance") }))
	s.deny("gated-but-advertised", "a gated floor row is inapplicable although the host advertises its family", edited(full(), func(t bundletest.Tree) {
		setAside(t, "openwop.floor.v2-fork-a-v1-run")
		lower(t, 2, 1)
	}))
	s.deny("nothing-witnessed", "every floor row of the seams profile is set aside", edited(full(), func(t bundletest.Tree) {
		for _, family := range []string{"replay", "idempotency", "webhooks"} {
			delete(t.Document(), family)
		}
		for _, scenario := range []string{"v2-fork-a-v1-run", "v2-effect-seam-no-refire", "v2-effect-identity-business-key", "v2-v1-signed-webhook-accepted"} {
			setAside(t, "openwop.floor."+scenario)
		}
		claims := t["claimedProfiles"].([]any)
		t["claimedProfiles"] = []any{claims[0], claims[2]}
		claim(t, 1)["witnessCount"] = 0
	}))
}

// contractDefects are runs that cannot certify, or not at the contract version they name.
func (s *set) contractDefects() {
	s.deny("contract-not-a-version", "the contract version is no semantic version, so no floor can be chosen", edited(small(), func(t bundletest.Tree) {
		t.At("suite")["specArtifactsVersion"] = "latest"
		claim(t, 0)["witnessCount"] = 0
	}))
	s.deny("later-contract", "a floor scenario that joined at 2.42.7 is asked of 2.42.7", edited(full(), func(t bundletest.Tree) {
		t.At("suite")["specArtifactsVersion"], t.At("suite")["version"] = "2.42.7", "0.0.0+2.42.7"
		removeRow(t, "openwop.floor.v2-sse-last-event-id-cursor")
		claim(t, 1)["witnessCount"] = 13
	}))
	s.deny("contract-lowered", "specArtifactsVersion was lowered below the contract the signed suite.version names", edited(full(), func(t bundletest.Tree) {
		t.At("suite")["specArtifactsVersion"], t.At("suite")["version"] = "2.42.6", "0.0.0+2.42.7"
		removeRow(t, "openwop.floor.v2-sse-last-event-id-cursor")
		claim(t, 1)["witnessCount"] = 13
	}))
	s.deny("contract-unreadable", "specArtifactsVersion is no version", edited(small(), func(t bundletest.Tree) {
		t.At("suite")["specArtifactsVersion"] = "latest"
		claim(t, 0)["witnessCount"] = 0
	}))
	s.deny("contract-before-floor", "the profile had no floor at that contract version", edited(small(), func(t bundletest.Tree) {
		t.At("suite")["specArtifactsVersion"], t.At("suite")["version"] = "1.0.0", "0.0.0"
		claim(t, 0)["witnessCount"] = 0
	}))
	s.deny("blocked", "a row elsewhere is blocked", edited(small(), block))
	s.deny("major-1", "the run drove major 1", edited(small(), func(t bundletest.Tree) { t.At("suite")["targetMajor"] = 1 }))
	s.deny("unknown-profile", "a profile no registry has", edited(small(), func(t bundletest.Tree) { claim(t, 0)["id"] = "openwop-gold" }))
}

// relaxationDefects are relaxations that belong to the profile.
func (s *set) relaxationDefects() {
	s.deny("relaxed-metadata", "the host ran with an obligation of a metadata key it requires relaxed", pretty(relaxed("preferredVersion.default")))
	s.deny("relaxed-profile", "the host ran with the profile itself relaxed", pretty(relaxed(bundletest.DiscoveryCore)))
	s.deny("relaxed-free-text", "the host ran with an obligation relaxed that nothing can place, so it may be the profile's", pretty(relaxed("nothing in particular")))
	s.deny("relaxed-family", "the host ran with an obligation of one of its families relaxed", edited(full(), func(t bundletest.Tree) {
		t.At("host")["relaxations"] = []any{map[string]any{"obligation": "webhooks.durable-delivery", "durability": "persisted", "reason": "a test"}}
	}))
}

// optOutDefects are opt-outs of what the host advertises.
func (s *set) optOutDefects() {
	optOut := func(id, description, detail string) {
		s.defect(bundle.KindOptedOutAdvertised, id, description, edited(small(), func(t bundletest.Tree) {
			t.Row("openwop.requirement.forms.resolve")["detail"] = detail
		}))
	}
	optOut("family", "the operator opted out of a family the captured document advertises", bundle.OptOutDetail("replay"))
	optOut("facet", "the operator opted out of a facet the captured document advertises", bundle.OptOutDetail("replay.modes"))
	optOut("profile", "the operator opted out of a profile the captured document fits", bundle.OptOutDetail(bundletest.CoreStandard))
	optOut("second-of-two", "one of two opt-outs is advertised", bundle.OptOutDetail("forms, replay"))
	optOut("spacing", "no space behind the colon hides nothing", "Operator opt-out:eventLog")
	optOut("case", "nor does the case of the name", "operator opt-out: EventLog")
	optOut("opted-out", "nor do other words for it", "opted out: family.replay")
	optOut("published-words", "the same in the published suite's words", "operator declared an honest opt-out via OPENWOP_OPTED_OUT_PROFILES: family.webhooks")
	unnamed := func(id, description, row, detail string) {
		s.defect(bundle.KindOptOutUnnamed, id, description, edited(small(), func(t bundletest.Tree) {
			t.Row("openwop.requirement.forms.resolve")["detail"] = detail
			t.Row("openwop.requirement.forms.resolve")["id"] = row
		}))
	}
	unnamed("requirement", "a skipped requirement names nothing the operator opted out of", "openwop.requirement.forms.resolve", "operator opted out")
	unnamed("test", "a skipped test gives another reason than an opt-out", "openwop.it.v2-forms.resolve", "not run")
	unnamed("empty", "the words for an opt-out, and no name behind them", "openwop.requirement.forms.resolve", bundle.OptOutDetail(""))
}

// rungDefects are rung claims the rows do not support.
func (s *set) rungDefects() {
	rung := func(id, description string, f func(bundletest.Tree)) {
		s.defect(bundle.KindRungUnderivable, id, description, edited(full(), f))
	}
	const prefix = "openwop.requirement.0158."
	bounds := func(t bundletest.Tree) []any {
		return t.Row(prefix + "bound-is-derived")["evidence"].(map[string]any)["recoveryBounds"].([]any)
	}
	recovery := func(t bundletest.Tree) map[string]any {
		return t.Row(prefix + "kill-after-accept")["evidence"].(map[string]any)["recovery"].(map[string]any)
	}
	rung("row-missing", "a row of the rung is missing", func(t bundletest.Tree) { removeRow(t, prefix+"poison-exhaustion") })
	rung("row-failed", "a row of the rung failed", func(t bundletest.Tree) { fail(t, prefix+"duplicate-delivery") })
	rung("no-bounds", "the bounds are not in evidence", func(t bundletest.Tree) { delete(t.Row(prefix+"bound-is-derived"), "evidence") })
	rung("no-recovery", "a kill row carries no evidence", func(t bundletest.Tree) { delete(t.Row(prefix+"kill-during-execution"), "evidence") })
	rung("sum", "a bound is not the sum of its terms", func(t bundletest.Tree) {
		bounds(t)[0].(map[string]any)["terms"].([]any)[0].(map[string]any)["ms"] = 999
	})
	rung("class-twice", "a recovery class is declared twice", func(t bundletest.Tree) {
		t.Row(prefix + "bound-is-derived")["evidence"].(map[string]any)["recoveryBounds"] = append(bounds(t), bounds(t)[0])
	})
	rung("class-undeclared", "a kill row names a class no bound declares", func(t bundletest.Tree) { recovery(t)["class"] = "peer" })
	rung("other-bound", "a kill row was judged against another bound than its class declares", func(t bundletest.Tree) { recovery(t)["boundMs"] = 7000 })
	rung("too-late", "a kill row resumed beyond its bound", func(t bundletest.Tree) { recovery(t)["observedMs"] = 6001 })
	rung("higher-rung", "a higher rung than can be derived", func(t bundletest.Tree) { t["durability"] = map[string]any{"rung": "durable-multi-instance"} })
}
