package vectorset

import (
	"bytes"

	"wopcert/bundle"
	"wopcert/bundle/bundletest"
)

const aRow = "openwop.requirement.runs.create-answers-201"

// textDefects are files that cannot be read as a bundle of version 3.
func (s *set) textDefects() {
	text := pretty(small())
	s.defect("json-syntax", "empty", "nothing", []byte{}, unread(""))
	s.defect("json-syntax", "truncated", "the file ends early", upTo(text, 1000), unread(""))
	s.defect("json-syntax", "two-bundles", "two bundles one after the other", append(bytes.Clone(text), text...), unread(""))
	s.defect("json-utf8", "stray-byte", "a byte that is not UTF-8", replaceText(text, "\"v2-oauth\"", "\"v2-\xff\""), unread(""))
	s.defect("json-depth", "brackets", "a thousand brackets", append(repeated("[", 1000), repeated("]", 1000)...), unread(""))
	s.defect("json-depth", "document", "the captured document nests too deep",
		replaceText(text, `"preferredVersion": "2.0",
      "protocolVersions"`, `"deep": `+string(repeated("[", 64))+string(repeated("]", 64))+`, "preferredVersion": "2.0",
      "protocolVersions"`), unread(""))
	s.defect("json-duplicate-member", "root", "bundleVersion twice", replaceText(text, `"bundleVersion": "3",`, `"bundleVersion": "3", "bundleVersion": "3",`), unread(""))
	s.defect("json-duplicate-member", "escaped", "a row's result twice, once with an escape", replaceText(text, `"result": "executed-fail",
        "scenario"`, `"result": "executed-pass", "r\u0065sult": "executed-fail",
        "scenario"`), unread(""))
	s.defect("json-lone-surrogate", "detail", "half a surrogate pair", replaceText(text, "\"v2-oauth\"", `"v2-\ud83d"`), unread(""))
	s.defect("json-unsafe-integer", "count", "an integer beyond 2^53-1", replaceText(text, `"assertionCount": 8`, `"assertionCount": 9007199254740993`), unread(""))
	s.defect("json-number-range", "count", "a number no double holds", replaceText(text, `"assertionCount": 8`, `"assertionCount": 8e999`), unread(""))
	s.defect(bundle.KindNotABundle, "array", "an array", []byte("[]\n"), unread(""))
	s.defect(bundle.KindNotABundle, "no-version", "an object without bundleVersion", []byte("{}\n"), unread(""))
	s.defect(bundle.KindNotABundle, "number-version", "bundleVersion is a number", replaceText(text, `"bundleVersion": "3"`, `"bundleVersion": 3`), unread(""))
	s.defect(bundle.KindBundleVersion, "1", "a bundle of version 1 is evidence at its own version", []byte(`{"bundleVersion":"1"}`+"\n"), unread("1"))
	s.defect(bundle.KindBundleVersion, "2", "a bundle of version 2 is evidence at its own version", []byte(`{"bundleVersion":"2"}`+"\n"), unread("2"))
	s.defect(bundle.KindBundleVersion, "4", "a version nobody has defined", replaceText(text, `"bundleVersion": "3"`, `"bundleVersion": "4"`), unread("4"))

	schema := func(id, description string, f func(bundletest.Tree)) {
		s.defect(bundle.KindSchema, id, description, tampered(small(), f), unread("3"))
	}
	schema("unknown-member", "the root is closed", func(t bundletest.Tree) { t["note"] = "x" })
	schema("case", "member names are compared byte for byte", func(t bundletest.Tree) { t["WitnessSha256"] = t["witnessSha256"] })
	schema("row-member", "rows are closed", func(t bundletest.Tree) { t.Row(aRow)["note"] = "x" })
	schema("disposition", "dispositions are closed", func(t bundletest.Tree) { t.Row(aRow)["result"] = "passed" })
	schema("unsigned", "a signature is required", func(t bundletest.Tree) { delete(t, "signature") })
	schema("over", "over lists exactly the four members", func(t bundletest.Tree) {
		t.At("signature")["over"] = []any{"witnessSha256", "host.build", "suite.version"}
	})
	schema("no-rows", "there is at least one row", func(t bundletest.Tree) { t.At("results")["requirements"] = []any{} })
	schema("coherence-row", "rows of corpus checks do not enter a host's bundle", func(t bundletest.Tree) {
		t.Row(aRow)["id"] = "openwop.it.v2-path-parity.a-path"
	})
	schema("build-kind", "the kinds of a build are closed", func(t bundletest.Tree) { t.At("host", "build")["kind"] = "tag" })
	schema("tier", "evidence tiers are closed", func(t bundletest.Tree) { claim(t, 0)["evidenceTier"] = "gold" })
	schema("negative-count", "counts are not negative", func(t bundletest.Tree) { t.Row(aRow)["assertions"] = -2 })
	schema("fraction-count", "counts are whole", func(t bundletest.Tree) { t.Row(aRow)["assertions"] = 2.5 })
}

// rowDefects are about the rows and what repeats them.
func (s *set) rowDefects() {
	s.defect(bundle.KindDuplicateRow, "twice", "one id in two rows", edited(small(), func(t bundletest.Tree) {
		t.At("results")["requirements"] = append(t.Rows(), t.Row(aRow))
	}))
	s.defect(bundle.KindVacuousPass, "zero", "a pass with no assertion", edited(small(), func(t bundletest.Tree) { t.Row(aRow)["assertions"] = 0 }))
	s.defect(bundle.KindVacuousPass, "absent", "a pass that does not say how many assertions", func() []byte {
		t := small()
		delete(t.Row(aRow), "assertions")
		t["assertionCount"] = 6
		t.Sign(hostKey())
		return pretty(t)
	}())
	s.defect(bundle.KindMissingReason, "unlisted", "a failed row that detail does not list", tampered(small(), func(t bundletest.Tree) {
		list := t.At("detail")["nonPass"].([]any)
		t.At("detail")["nonPass"] = list[1:]
	}))
	s.defect(bundle.KindMissingReason, "blank", "a reason of spaces", tampered(small(), func(t bundletest.Tree) { nonPass(t, 0)["reason"] = " \t" }))
	s.defect(bundle.KindMissingDetail, "absent", "no detail, and rows that are not executed-pass", tampered(small(), func(t bundletest.Tree) { delete(t, "detail") }))
	s.defect(bundle.KindDetailMismatch, "passed-row", "detail lists a row that passed", tampered(small(), func(t bundletest.Tree) {
		t.At("detail")["nonPass"] = append(t.At("detail")["nonPass"].([]any), map[string]any{"id": aRow, "result": "skipped", "reason": "x"})
	}))
	s.defect(bundle.KindDetailMismatch, "result", "detail and row disagree over the result", tampered(small(), func(t bundletest.Tree) { nonPass(t, 0)["result"] = "blocked" }))
	s.defect(bundle.KindMisplacedEvidence, "failed", "evidence on a row that failed", edited(small(), func(t bundletest.Tree) {
		t.Row("openwop.requirement.runs.cancel-terminal")["evidence"] = map[string]any{"recovery": map[string]any{"class": "restart", "boundMs": 1, "observedMs": 1}}
	}))
	s.defect(bundle.KindTotals, "moved", "a failure counted as inapplicable", tampered(small(), func(t bundletest.Tree) {
		totals := t.At("results", "totals")
		totals["executedFail"], totals["inapplicable"] = 0, 2
	}))
	s.defect(bundle.KindAssertionCount, "inflated", "one assertion more than the rows have", tampered(small(), func(t bundletest.Tree) { t["assertionCount"] = 9 }))

	digest := func(id, description string, t bundletest.Tree, f func(bundletest.Tree)) {
		s.defect(bundle.KindWitnessDigest, id, description, tampered(t, f))
	}
	digest("detail-edited", "a row's detail edited after signing", small(), func(t bundletest.Tree) {
		t.Row("openwop.requirement.oauth.interrupt")["detail"] = "the host has no oauth"
	})
	digest("scenario-edited", "a row's scenario edited after signing", small(), func(t bundletest.Tree) { t.Row(aRow)["scenario"] = "v2-other" })
	digest("detail-empty", "an empty detail added to a row", small(), func(t bundletest.Tree) { t.Row(aRow)["detail"] = "" })
	digest("relaxation-removed", "a relaxation removed after signing", relaxed("webhooks.egress-guard"), func(t bundletest.Tree) { delete(t.At("host"), "relaxations") })
	digest("relaxation-edited", "a relaxation's reason edited after signing", relaxed("webhooks.egress-guard"), func(t bundletest.Tree) {
		t.At("host")["relaxations"].([]any)[0].(map[string]any)["reason"] = "none"
	})
	digest("relaxation-added", "a relaxation added after signing", small(), func(t bundletest.Tree) {
		t.At("host")["relaxations"] = []any{map[string]any{"obligation": "webhooks.x", "durability": "session", "reason": "x"}}
	})
	digest("deployment-removed", "the companion's mark removed after signing", marked(), func(t bundletest.Tree) { delete(t.At("host"), "deployment") })
	s.defect(bundle.KindDiscoveryDigest, "document-edited", "the captured document edited after signing", tampered(small(), func(t bundletest.Tree) {
		t.Document()["preferredVersion"] = "2.1"
		t.At("discovery")["preferredVersion"] = "2.1"
	}), attribution("integrity-only", "no-discovery-document"))
	s.secretDefects()
}

// secretDefects hold texts that look like credentials. None is one.
func (s *set) secretDefects() {
	secret := func(id, description, text string, change ...func(*Bundle)) {
		s.defect(bundle.KindSecret, id, description, edited(small(), func(t bundletest.Tree) {
			t.Row(aRow)["detail"] = "partial-witness: " + text
		}), change...)
	}
	secret("bearer", "a bearer token in a detail", "sent Bearer test0only0not0a0secret")
	secret("authorization", "an authorization header in a detail", "Authorization: Basic dGVzdDpvbmx5")
	secret("private-key", "a private key in a detail", "-----BEGIN PRIVATE KEY-----\nTEST\n-----END PRIVATE KEY-----")
	secret("resume-token", "a resume token in a detail", "POST /interrupts/ow2.dGVzdC1vbmx5")
	secret("web-token", "a JSON Web Token in a detail", "eyJ0ZXN0IjoxfQ00.eyJ0ZXN0IjoxfQ00.dGVzdC1vbmx5LXNpZw")
	secret("basic", "Basic credentials of a user and a password in a detail", "sent Basic dXNlcjpwYXNzd29yZA==")
	secret("header", "an authorization header of another scheme in a detail", "Authorization: ApiKey test0only0value")
	secret("userinfo", "an address with a password in a detail", "GET https://user:test-only@host.example/")
	secret("github-token", "a GitHub token in a detail", "ghp_"+"testonlytestonlytestonlytestonly0000")
	secret("service-key", "a service key in a detail", "sk-"+"testonly0testonly0testonly0")
	secret("aws-key", "an AWS access key in a detail", "AKIA"+"TESTONLYTESTONLY")
	secret("slack-token", "a Slack token in a detail", "xoxb-"+"000000000000-testonly")
	s.defect(bundle.KindSecret, "test-key", "a detail holds a key that begins with the captured document's testKeyPrefix", edited(small(), func(t bundletest.Tree) {
		t.Document()["testing"] = map[string]any{"testKeyPrefix": "test_"}
		t.Row(aRow)["detail"] = "partial-witness: sent test_0only0not0a0key"
	}))
	s.defect(bundle.KindSecret, "web-token-in-host", "a JSON Web Token as the host's vendor", edited(small(), func(t bundletest.Tree) {
		t.At("host")["vendor"] = "eyJ0ZXN0IjoxfQ00.eyJ0ZXN0IjoxfQ00.dGVzdC1vbmx5LXNpZw"
	}))
	secret("canary", "a canary of the run in a detail", "echoed test-only-canary back", with(Options{Canaries: []string{"test-only-canary"}}))
	s.defect(bundle.KindSecret, "canary-in-document", "a canary as a member name of the captured document", edited(small(), func(t bundletest.Tree) {
		t.Document()["extensions"] = map[string]any{"test-host.debug": map[string]any{"test-only-canary": true}}
	}), with(Options{Canaries: []string{"test-only-canary"}}))
}

func nonPass(t bundletest.Tree, i int) map[string]any {
	return t.At("detail")["nonPass"].([]any)[i].(map[string]any)
}

func relaxed(obligation string) bundletest.Tree {
	t := small()
	t.At("host")["relaxations"] = []any{map[string]any{"obligation": obligation, "durability": "deployment", "reason": "a test"}}
	t.Seal(hostKey())
	return t
}

func marked() bundletest.Tree {
	t := small()
	t.At("host")["deployment"] = "colocated-companion"
	t.Seal(hostKey())
	return t
}
