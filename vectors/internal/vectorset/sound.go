package vectorset

import (
	"wopcert/bundle"
	"wopcert/bundle/bundletest"
)

func (s *set) soundBundles() {
	core := []string{bundletest.DiscoveryCore}
	all := []string{bundletest.DiscoveryCore, bundletest.CoreStandard, bundletest.SeamsV2}

	s.sound("sound", "one profile; rows of four dispositions", pretty(small()), Options{}, Expect{CertifiedProfiles: core})
	s.sound("sound-three-profiles", "three profiles and the rung durable-single-instance", pretty(full()), Options{}, Expect{CertifiedProfiles: all})
	s.sound("sound-rows-unordered", "rows are sorted for the digest, not in the file", edited(small(), func(t bundletest.Tree) {
		rows := t.Rows()
		rows[0], rows[len(rows)-1] = rows[len(rows)-1], rows[0]
	}), Options{}, Expect{CertifiedProfiles: core})
	s.sound("sound-row-order-utf16", "ids sort by UTF-16 code unit", edited(small(), func(t bundletest.Tree) {
		results := t.At("results")
		for _, id := range []string{"openwop.requirement.x.\uFB33", "openwop.requirement.x.\U0001F600", "openwop.requirement.x.Z", "openwop.requirement.x.a"} {
			results["requirements"] = append(results["requirements"].([]any), map[string]any{
				"id": id, "scenario": "order", "result": "executed-pass", "assertions": 1, "detail": "partial-witness: tab\t, quote \", § and —"})
		}
	}), Options{}, Expect{CertifiedProfiles: core})
	s.sound("sound-number-forms", "a count may be written as 7.0 or 7e0", replaceText(pretty(small()), `"assertionCount": 8,`, `"assertionCount": 8.0e0,`), Options{}, Expect{CertifiedProfiles: core})
	s.sound("sound-relaxed", "a relaxation that belongs to another profile is signed and denies nothing here", edited(small(), func(t bundletest.Tree) {
		t.At("host")["relaxations"] = []any{map[string]any{"obligation": "webhooks.egress-guard", "durability": "session", "reason": "receivers on loopback"}}
	}), Options{}, Expect{CertifiedProfiles: core})
	s.sound("sound-blocked", "blocked rows certify nothing, and are honest where nothing is claimed as certified", edited(small(), func(t bundletest.Tree) {
		block(t)
		claim(t, 0)["certified"] = false
	}), Options{}, Expect{})
	s.sound("sound-not-certified", "a floor row that failed, and a claim that says so", edited(small(), func(t bundletest.Tree) {
		fail(t, "openwop.floor.v2-version-header-honored")
		claim(t, 0)["certified"], claim(t, 0)["witnessCount"] = false, 2
	}), Options{}, Expect{})
	s.sound("sound-older-contract", "a floor scenario that joined at 2.42.7 is not asked of 2.42.6", edited(full(), func(t bundletest.Tree) {
		t.At("suite")["specArtifactsVersion"], t.At("suite")["version"] = "2.42.6", "0.0.0+2.42.6"
		removeRow(t, "openwop.floor.v2-sse-last-event-id-cursor")
		claim(t, 1)["witnessCount"] = 13
	}), Options{}, Expect{CertifiedProfiles: all})
	s.sound("sound-seams-gated", "a seams scenario gated on a family the host lacks is set aside", edited(full(), func(t bundletest.Tree) {
		delete(t.Document(), "webhooks")
		setAside(t, "openwop.floor.v2-v1-signed-webhook-accepted")
		claims := t["claimedProfiles"].([]any)
		t["claimedProfiles"] = []any{claims[0], claims[2]}
		claim(t, 1)["witnessCount"] = 3
	}), Options{}, Expect{CertifiedProfiles: []string{bundletest.DiscoveryCore, bundletest.SeamsV2}})
	s.sound("sound-summary-skipped", "the summary row of a scenario may be skipped without a name", edited(small(), func(t bundletest.Tree) {
		row := t.Row("openwop.requirement.forms.resolve")
		row["id"], row["detail"] = "openwop.scenario.v2-forms", "the operator opted the family out"
	}), Options{}, Expect{CertifiedProfiles: core})
	s.sound("sound-no-claims", "a bundle that claims no profile certifies none", edited(small(), func(t bundletest.Tree) {
		t["claimedProfiles"] = []any{}
	}), Options{}, Expect{})
	s.sound("sound-newer-contract", "a contract version later than any floor: the newest floor counts", edited(small(), func(t bundletest.Tree) {
		t.At("suite")["specArtifactsVersion"], t.At("suite")["version"] = "2.999.0", "0.0.0+2.999.0"
	}), Options{}, Expect{CertifiedProfiles: core})
	s.sound("sound-public-facts", "a statement, an address and a test key that the host publishes in its own document", edited(small(), func(t bundletest.Tree) {
		t.Document()["testing"] = map[string]any{"testKeyPrefix": "test_"}
		t.Document()["extensions"] = map[string]any{"test-host.notes": map[string]any{
			"statement": "eyJ0ZXN0IjoxfQ00.eyJ0ZXN0IjoxfQ00.dGVzdC1vbmx5LXNpZw", "url": "https://user:test-only@host.example/",
			"key": "test_0only0not0a0key"}}
	}), Options{}, Expect{CertifiedProfiles: core})
	s.soundAttribution(core)
}

func (s *set) soundAttribution(core []string) {
	s.sound("sound-published-suite", "the published suite's name, and its words for an opt-out", edited(small(), func(t bundletest.Tree) {
		t.At("suite")["name"], t.At("suite")["version"] = "@openwop/openwop-conformance", "2.44.6"
		t.Row("openwop.requirement.forms.resolve")["detail"] = "operator declared an honest opt-out via OPENWOP_OPTED_OUT_PROFILES: family.forms"
	}), Options{}, Expect{CertifiedProfiles: core})
	s.sound("sound-retired-key", "the signing key is retired and still listed", edited(small(), func(t bundletest.Tree) {
		t.Document()["signingKeys"].([]any)[0].(map[string]any)["retiredAt"] = "2026-11-01T00:00:00Z"
	}), Options{}, Expect{Attribution: "attributable", AttributionCode: "verified-retired-key", CertifiedProfiles: core})
	s.sound("sound-key-not-published", "signed with a key the captured document does not list", edited(small(), func(t bundletest.Tree) {
		delete(t.Document(), "signingKeys")
	}), Options{}, Expect{Attribution: "integrity-only", AttributionCode: "key-not-published", CertifiedProfiles: core})
	s.sound("sound-no-document", "no captured document: nothing can be derived, and the claim is not contradicted", edited(small(), func(t bundletest.Tree) {
		delete(t.At("discovery"), "document")
	}), Options{}, Expect{Attribution: "integrity-only", AttributionCode: "no-discovery-document"})
	s.sound("sound-no-document-read-apart", "no captured document, and one read from the host: attributable, and nothing derived", edited(small(), func(t bundletest.Tree) {
		delete(t.At("discovery"), "document")
	}), Options{Discovery: s.attach("discovery-host.json", bundletest.Encode(bundletest.Document()))}, Expect{})
	other := bundletest.Document()
	other["signingKeys"] = []any{bundletest.Published(bundletest.Key("other"))}
	s.sound("sound-read-apart-not-published", "the document read from the host decides over the captured one", pretty(small()),
		Options{Discovery: s.attach("discovery-other.json", bundletest.Encode(other))},
		Expect{Attribution: "integrity-only", AttributionCode: "key-not-published", CertifiedProfiles: core})
	s.sound("sound-independent", "an independent claim with a verifier's signature, checked with the verifier's key", independent(func(t bundletest.Tree) {
		t.Countersign(bundletest.Key("verifier"))
	}), Options{VerifierKey: bundle.EncodePublicKey(bundletest.Key("verifier").Public())}, Expect{CertifiedProfiles: core})
}

func claim(t bundletest.Tree, i int) map[string]any {
	return t["claimedProfiles"].([]any)[i].(map[string]any)
}

func fail(t bundletest.Tree, id string) {
	row := t.Row(id)
	row["result"], row["detail"] = "executed-fail", "expected 2.0, got 1.11"
	delete(row, "evidence")
}

func setAside(t bundletest.Tree, id string) {
	row := t.Row(id)
	row["result"], row["detail"], row["assertions"] = "inapplicable", "the family is not advertised", 0
}

func block(t bundletest.Tree) {
	row := t.Row("openwop.requirement.oauth.interrupt")
	row["result"], row["detail"] = "blocked", "no second credential was given"
}

func removeRow(t bundletest.Tree, id string) {
	var kept []any
	for _, item := range t.Rows() {
		if item.(map[string]any)["id"] != id {
			kept = append(kept, item)
		}
	}
	t.At("results")["requirements"] = kept
}

// independent is the small bundle with its claim of tier independent.
func independent(f func(bundletest.Tree)) []byte {
	t := small()
	claim(t, 0)["evidenceTier"] = "independent"
	f(t)
	return pretty(t)
}

const anchorRow = "openwop.requirement.0200.id-token-aud"

// companion is a bundle of a colocated companion of the small bundle's host, signed with key.
func companion(key bundle.SigningKey, f func(bundletest.Tree)) []byte {
	t := small()
	t.At("host")["deployment"] = "colocated-companion"
	t.At("discovery")["url"] = "http://127.0.0.1:18099/.well-known/openwop"
	withLane(t, "http://127.0.0.1:18099", "https://issuer.suite.example")
	results := t.At("results")
	results["requirements"] = append(results["requirements"].([]any), map[string]any{
		"id": anchorRow, "scenario": "v2-oidc-id-token-audience", "result": "executed-pass", "assertions": 3})
	f(t)
	t.Seal(key)
	return pretty(t)
}

// withLane gives the host an oidc lane and a member that holds its origin.
func withLane(t bundletest.Tree, origin, issuer string) {
	t.Document()["auth"] = map[string]any{"status": "stable", "since": "2.0", "witness": "seam-gated", "lanes": []any{
		map[string]any{"lane": "api-key", "issuers": []any{"urn:test"}, "revocation": "next-request"},
		map[string]any{"lane": "oidc", "issuers": []any{issuer}, "revocation": "exp-only"}}}
	t.Document()["a2a"] = map[string]any{"status": "stable", "since": "2.0", "witness": "seam-gated", "agentCardUrl": origin + "/.well-known/agent-card.json"}
}

func (s *set) companions() {
	served := s.attach("served-host.json", edited(small(), func(t bundletest.Tree) { withLane(t, "https://host.example", "https://idp.example") }))
	pair := Options{CompanionOf: served}
	nothing := &Companion{false, []string{}}
	keep := func(bundletest.Tree) {}

	s.sound("companion-paired", "witnesses its trust-anchor row alone, and certifies no profile", companion(hostKey(), keep), pair,
		Expect{Companion: &Companion{true, []string{anchorRow}}})
	s.sound("companion-rung", "its floor and recovery rows all pass, and it certifies no profile and derives no rung", edited(full(), func(t bundletest.Tree) {
		t.At("host")["deployment"] = "colocated-companion"
	}), Options{}, Expect{Companion: nothing})
	s.sound("companion-alone", "without a served-host bundle it is evidence for nothing", companion(hostKey(), keep), Options{}, Expect{Companion: nothing})
	s.sound("companion-other-build", "another image", companion(hostKey(), func(t bundletest.Tree) {
		t.At("host", "build")["id"] = "sha256:0000000000000000000000000000000000000000000000000000000000000008"
	}), pair, Expect{Companion: nothing})
	s.sound("companion-commit", "a commit does not name the bytes that ran", companion(hostKey(), func(t bundletest.Tree) {
		t.At("host", "build")["kind"] = "commit"
	}), Options{CompanionOf: s.attach("served-host-commit.json", edited(small(), func(t bundletest.Tree) {
		withLane(t, "https://host.example", "https://idp.example")
		t.At("host", "build")["kind"] = "commit"
	}))}, Expect{Companion: nothing})
	unstated := func(t bundletest.Tree) { t.At("host", "build")["id"] = bundle.BuildUnstated }
	s.sound("companion-unstated-build", "both bundles leave the build open, which makes it the same in neither", companion(hostKey(), unstated),
		Options{CompanionOf: s.attach("served-host-unstated-build.json", edited(small(), func(t bundletest.Tree) {
			withLane(t, "https://host.example", "https://idp.example")
			unstated(t)
		}))}, Expect{Companion: nothing})
	s.sound("companion-own-key", "signed under a key only the companion publishes", companion(bundletest.Key("other"), func(t bundletest.Tree) {
		t.Document()["signingKeys"] = []any{bundletest.Published(hostKey()), bundletest.Published(bundletest.Key("other"))}
		t.At("host")["signingKeyId"] = bundletest.Key("other").ID
	}), pair, Expect{Companion: nothing})
	s.sound("companion-other-host", "about another host", companion(hostKey(), func(t bundletest.Tree) { t.At("host")["name"] = "other-host" }), pair, Expect{Companion: nothing})
	s.sound("companion-other-configuration", "advertises what the served host does not", companion(hostKey(), func(t bundletest.Tree) {
		t.Document()["auth"].(map[string]any)["lanes"].([]any)[1].(map[string]any)["revocation"] = "next-request"
	}), pair, Expect{Companion: nothing})
	s.sound("companion-of-companion", "paired with another companion", companion(hostKey(), keep),
		Options{CompanionOf: s.attach("another-companion.json", companion(hostKey(), keep))}, Expect{Companion: nothing})
	s.sound("companion-of-uncertified", "paired with a bundle that certifies nothing", companion(hostKey(), keep),
		Options{CompanionOf: s.attach("served-host-uncertified.json", edited(small(), func(t bundletest.Tree) {
			withLane(t, "https://host.example", "https://idp.example")
			block(t)
			claim(t, 0)["certified"] = false
		}))}, Expect{Companion: nothing})
	s.sound("companion-of-unattributable", "paired with a bundle nobody stands behind", companion(hostKey(), keep),
		Options{CompanionOf: s.attach("served-host-integrity-only.json", func() []byte {
			t := small()
			withLane(t, "https://host.example", "https://idp.example")
			delete(t.At("host"), "signingKeyId")
			t.Seal(bundletest.Key("verifier"))
			return pretty(t)
		}())}, Expect{Companion: nothing})
	s.sound("companion-unmarked", "a bundle of the served host, given as a companion's", pretty(small()), pair,
		Expect{CertifiedProfiles: []string{bundletest.DiscoveryCore}, Companion: nothing})
}
