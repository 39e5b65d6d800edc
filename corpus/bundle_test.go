package corpus

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"wopcert/bundle/jcs"
)

// published reads a published bundle, which is kept beside the module and not in it.
func published(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "shared", "bundles", name))
	if os.IsNotExist(err) {
		t.Skipf("the published bundle %s is not there", name)
	}
	require.NoError(t, err)
	return data
}

func TestPublishedBundle(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	data := published(t, "openwop-host-v2-reference.json")
	require.NoError(t, c.Validate("certification-bundle", data))
	var bundle struct {
		Discovery struct {
			Document json.RawMessage `json:"document"`
		} `json:"discovery"`
	}
	require.NoError(t, json.Unmarshal(data, &bundle))
	require.NoError(t, c.Validate("capabilities", bundle.Discovery.Document))
}

func TestBundlesOfOtherVersionsAreNotVersion3(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	for _, name := range []string{"openwop-host-in-memory.bundle-v1.json", "openwop-host-sqlite.bundle-v2.json"} {
		require.Contains(t, places(violations(t, c.Validate("certification-bundle", published(t, name)))), "const /bundleVersion", name)
	}
}

const smallBundle = `{"bundleVersion":"3","generatedAt":"2026-01-02T03:04:05Z","suite":{"name":"wopcert","version":"0.1.0","targetMajor":2,"specArtifactsVersion":"2.44.6"},` +
	`"host":{"name":"h","version":"1","build":{"kind":"commit","id":"c"}},"discovery":{"url":"http://127.0.0.1:1/.well-known/openwop","sha256":"` + zeros + `","protocolVersions":["2.0"],"preferredVersion":"2.0","document":{"any":[1]}},` +
	`"claimedProfiles":[{"id":"openwop-discovery-core","evidenceTier":"self","witnessCount":1,"certified":true}],` +
	`"results":{"totals":{"executedPass":1,"executedFail":0,"skipped":0,"inapplicable":0,"blocked":0},"requirements":[{"id":"openwop.requirement.a","scenario":"s","result":"executed-pass","assertions":1}]},` +
	`"witnessSha256":"` + zeros + `","assertionCount":1,"signature":{"alg":"ed25519","keyId":"k","sig":"` + sig + `","over":["witnessSha256","host.build","suite.version","discovery.sha256"]}}`

const (
	zeros = "0000000000000000000000000000000000000000000000000000000000000000"
	sig   = zeros + "0000000000000000000000"
)

func TestBundleShape(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	row := func(id string) string { return edit(t, smallBundle, "openwop.requirement.a", id) }
	for _, doc := range []string{
		smallBundle,
		edit(t, smallBundle, `"wopcert"`, `"@openwop/openwop-conformance"`),
		edit(t, smallBundle, `"name":"h"`, `"name":"h","deployment":"colocated-companion","vendor":"v","signingKeyId":"k","relaxations":[{"obligation":"o","durability":"session","reason":"r"}]`),
		edit(t, smallBundle, `"assertions":1}`, `"assertions":1,"detail":"partial-witness: x","evidence":{"recovery":{"class":"a","boundMs":1,"observedMs":0}}}`),
		edit(t, smallBundle, `"assertions":1}`, `"assertions":1,"evidence":{"recoveryBounds":[{"class":"a.b","bound":1,"terms":[{"name":"n","ms":1}]}]}}`),
		edit(t, smallBundle, `"witnessSha256":`, `"durability":{"rung":"durable-single-instance"},"detail":{"nonPass":[{"id":"x","result":"blocked","reason":"r"}]},"verifierSignature":{"alg":"ed25519","keyId":"v","sig":"`+sig+`"},"witnessSha256":`),
		row("openwop.it.v2-run-cancel.a"), row("openwop.scenario.x"), row("openwop.floor.v2-run-cancel"), row("openwop.profile.a"), row("openwop.family.a"),
		row("openwop.it.v2-path-parity-extended.a"), row("openwop.requirement.v2-path-parity.a"), row("openwop.it.v2-path-parity"),
	} {
		require.NoError(t, c.Validate("certification-bundle", []byte(doc)), doc)
	}
	for _, bad := range []invalidCase{
		{closedDoc(smallBundle), "", "additionalProperties"},
		{edit(t, smallBundle, `"bundleVersion":"3"`, `"bundleVersion":3`), "/bundleVersion", "const"},
		{edit(t, smallBundle, `"wopcert"`, `"other-suite"`), "/suite/name", "enum"},
		{edit(t, smallBundle, `"targetMajor":2`, `"targetMajor":3`), "/suite/targetMajor", "enum"},
		{edit(t, smallBundle, `"commit"`, `"tag"`), "/host/build/kind", "enum"},
		{edit(t, smallBundle, `"name":"h"`, `"name":"h","deployment":"served"`), "/host/deployment", "const"},
		{edit(t, smallBundle, `"name":"h"`, `"name":"h","region":"eu"`), "/host", "additionalProperties"},
		{edit(t, smallBundle, `"assertionCount":1`, `"assertionCount":0`), "/assertionCount", "minimum"},
		{edit(t, smallBundle, `"executed-pass"`, `"pass"`), "/results/requirements/0/result", "enum"},
		{edit(t, smallBundle, `"assertions":1}`, `"assertions":1,"evidence":{}}`), "/results/requirements/0/evidence", "minProperties"},
		{edit(t, smallBundle, `"assertions":1}`, `"assertions":1,"title":"t"}`), "/results/requirements/0", "additionalProperties"},
		{edit(t, smallBundle, `"discovery.sha256"]`, `"discovery.url"]`), "/signature/over", "const"},
		{edit(t, smallBundle, `"suite.version","discovery.sha256"]`, `"suite.version"]`), "/signature/over", "const"},
		{edit(t, smallBundle, `"self"`, `"third-party"`), "/claimedProfiles/0/evidenceTier", "enum"},
		{edit(t, smallBundle, `"url":"http://127.0.0.1:1/.well-known/openwop"`, `"url":"/here"`), "/discovery/url", "format"},
		{row("requirement.a"), "/results/requirements/0/id", "pattern"},
		{row("openwop.other.a"), "/results/requirements/0/id", "pattern"},
		{row("openwop.it.v2-path-parity.every-path"), "/results/requirements/0/id", "format"},
		{row("openwop.it.spec-corpus-validity.a"), "/results/requirements/0/id", "format"},
	} {
		require.Contains(t, places(violations(t, c.Validate("certification-bundle", []byte(bad.doc)))), bad.keyword+" "+bad.pointer, bad.doc)
	}
}

func BenchmarkValidateBundle(b *testing.B) {
	c := mustLoad(b)
	data := published(b, "openwop-host-v2-reference.json")
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := c.Validate("certification-bundle", data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidateEvent(b *testing.B) {
	c := mustLoad(b)
	value, err := jcs.Decode([]byte(event))
	require.NoError(b, err)
	for b.Loop() {
		if err := c.ValidateValue("run-event", value); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		if _, err := LoadFS(embedded); err != nil {
			b.Fatal(err)
		}
	}
}
