package bundle_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"wopcert/bundle"
	"wopcert/bundle/bundletest"
	"wopcert/corpus"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func withTestKeys(prefix string) map[string]any {
	document := bundletest.Document()
	document["testing"] = map[string]any{"testKeyPrefix": prefix}
	return document
}

// verified seals the tree as the host and verifies it.
func verified(tree bundletest.Tree) *bundle.Report {
	tree.Seal(bundletest.Key("host"))
	return bundle.Verify(tree.Bytes(), bundle.Options{})
}

func smallTree() bundletest.Tree {
	return bundletest.TreeOf(bundletest.Signed(bundletest.Small(), bundletest.Key("host")))
}

func fullTree() bundletest.Tree {
	return bundletest.TreeOf(bundletest.Signed(bundletest.Full(), bundletest.Key("host")))
}

func TestCompanionDerivesNothing(t *testing.T) {
	t.Parallel()
	tree := fullTree()
	tree.At("host")["deployment"] = bundle.ColocatedCompanion
	r := verified(tree)
	assert.Empty(t, r.Rejections)
	assert.Empty(t, r.CertifiedProfiles)
	require.Len(t, r.Profiles, 3)
	for _, d := range r.Profiles {
		assert.False(t, d.Certified, d.ID)
		require.Len(t, d.Reasons, 1, d.ID)
		assert.Contains(t, d.Reasons[0], "colocated companion", d.ID)
	}
	require.NotNil(t, r.Durability)
	assert.False(t, r.Durability.Derived)
	require.Len(t, r.Durability.Reasons, 1)
	assert.Contains(t, r.Durability.Reasons[0], "colocated companion")

	// What the rows contradict is a defect all the same.
	tree.Row("openwop.floor.v2-version-header-honored")["assertions"] = 1
	tree.Row("openwop.floor.v2-version-header-honored")["result"] = "executed-fail"
	tree.Row("openwop.floor.v2-version-header-honored")["detail"] = "expected 2.0"
	assert.Contains(t, kinds(verified(tree)), bundle.KindCertifiedUnderivable)
}

func TestBuildCertifiesNothingForACompanion(t *testing.T) {
	t.Parallel()
	in := bundletest.Full()
	in.Host.Deployment = bundle.ColocatedCompanion
	b := bundletest.Signed(in, bundletest.Key("host"))
	for _, claim := range b.ClaimedProfiles {
		assert.False(t, claim.Certified, claim.ID)
	}
}

func TestSkippedRowsNameWhatWasOptedOut(t *testing.T) {
	t.Parallel()
	for detail, kind := range map[string]bundle.Kind{
		"not run":                                 bundle.KindOptOutUnnamed,
		"operator opted out":                      bundle.KindOptOutUnnamed,
		"operator opt-out: ":                      bundle.KindOptOutUnnamed,
		"Operator opt-out:eventLog":               bundle.KindOptedOutAdvertised,
		"operator OPT-OUT: EventLog":              bundle.KindOptedOutAdvertised,
		"opted out: family.eventLog":              bundle.KindOptedOutAdvertised,
		"operator opt-out: OpenWOP-Core-Standard": bundle.KindOptedOutAdvertised,
		"opted out: memory":                       "",
	} {
		for _, id := range []string{"openwop.requirement.forms.resolve", "openwop.it.v2-forms.resolve"} {
			tree := smallTree()
			row := tree.Row("openwop.requirement.forms.resolve")
			row["id"], row["detail"] = id, detail
			r := verified(tree)
			if kind == "" {
				assert.Empty(t, r.Rejections, detail)
				continue
			}
			assert.Equal(t, []bundle.Kind{kind}, kinds(r), "%s: %s", id, detail)
			if kind == bundle.KindOptOutUnnamed {
				assert.Equal(t, id, r.Rejections[0].Requirement)
			}
		}
	}
}

func TestEveryShapeOfSecretIsFound(t *testing.T) {
	t.Parallel()
	basic := base64.StdEncoding.EncodeToString([]byte("user:password"))
	for name, c := range map[string]struct{ text, leak string }{
		"JWT":                {"got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJlMTIz", "eyJzdWIiOiJhIn0"},
		"JWT in a word":      {"token_eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJlMTIz", "eyJzdWIiOiJhIn0"},
		"basic":              {"sent Basic " + basic, basic},
		"basic, lower case":  {"sent basic " + strings.TrimRight(basic, "="), basic[:16]},
		"header":             {"Authorization: ApiKey abcd1234efgh", "abcd1234efgh"},
		"header, no scheme":  {"authorization: s3cr3tvalue", "s3cr3tvalue"},
		"header in JSON":     {`{"Authorization":"Token abcd1234efgh"}`, "abcd1234efgh"},
		"digest header":      {`Authorization: Digest username="u", response="6629fae49393a05397450978507c4ef1"`, "6629fae49393a05397450978507c4ef1"},
		"password in a URL":  {"at https://user:pass-word@host.example/x", "pass-word"},
		"password, no user":  {"redis://:pass-word@host.example", "pass-word"},
		"ghp":                {"ghp_abcdefghijklmnopqrstuvwxyz0123456789", "abcdefghijklmnopqrst"},
		"gho":                {"gho_abcdefghijklmnopqrstuvwxyz0123456789", "abcdefghijklmnopqrst"},
		"github_pat":         {"github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuv", "11ABCDEFG0abcdefghijkl"},
		"sk":                 {"key sk-proj-abcdefghij0123456789", "abcdefghij0123456789"},
		"sk of letters":      {"key=sk-abcdefghijklmnopqrstuvwx", "abcdefghijklmnopqrstuvwx"},
		"AKIA":               {"AKIAABCDEFGHIJKLMNOP", "ABCDEFGHIJKLMNOP"},
		"xoxb":               {"xoxb-123456789012-abcdefghijkl", "123456789012"},
		"xoxs":               {"xoxs-123456789012", "123456789012"},
		"test key":           {"with ow2k_abcdefghijkl", "abcdefghijkl"},
		"test key of slugs":  {"with ow2k_tenant-a-key-one", "tenant-a-key-one"},
		"quoted in messages": {"Basic\n" + basic, basic},
	} {
		// In a row, in detail, in the host and in the evidence; never where a message repeats it.
		for place, edit := range map[string]func(bundletest.Tree){
			"row":  func(t bundletest.Tree) { t.Row("openwop.requirement.runs.cancel-terminal")["detail"] = c.text },
			"host": func(t bundletest.Tree) { t.At("host")["vendor"] = c.text },
			"url":  func(t bundletest.Tree) { t.At("discovery")["url"] = c.text },
			"optout": func(t bundletest.Tree) {
				t.Row("openwop.requirement.forms.resolve")["detail"] = "operator opt-out: " + c.text
			},
			"relaxation": func(t bundletest.Tree) {
				t.At("host")["relaxations"] = []any{map[string]any{"obligation": c.text, "durability": "session", "reason": "r"}}
			},
			"recovery class": func(t bundletest.Tree) {
				bounds := t.Row("openwop.requirement.0158.bound-is-derived")["evidence"].(map[string]any)["recoveryBounds"].([]any)
				bounds[0].(map[string]any)["class"] = c.text
				bounds[0].(map[string]any)["bound"] = 1
			},
		} {
			in := bundletest.Small()
			in.Discovery = bundletest.Encode(withTestKeys("ow2k_"))
			in.Rows = append(in.Rows, bundletest.Recovery()...)
			in.Rung = bundle.RungSingleInstance
			tree := bundletest.TreeOf(bundletest.Signed(in, bundletest.Key("host")))
			edit(tree)
			r := verified(tree)
			assert.Contains(t, kinds(r), bundle.KindSecret, "%s in %s", name, place)
			text, err := json.Marshal(r)
			require.NoError(t, err)
			assert.NotContains(t, string(text), c.leak, "%s in %s", name, place)
		}
	}
}

func TestDetailOutsideTheRowsHoldsNoSecret(t *testing.T) {
	t.Parallel()
	tree := smallTree()
	tree.At("detail")["nonPass"].([]any)[0].(map[string]any)["reason"] = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJlMTIz"
	assert.Equal(t, []bundle.Kind{bundle.KindSecret}, kinds(bundle.Verify(tree.Bytes(), bundle.Options{})))
}

func TestPublicFactsOfTheDocumentAreNoSecrets(t *testing.T) {
	t.Parallel()
	tree := smallTree()
	tree.Document()["extensions"] = map[string]any{"test-host.notes": map[string]any{
		"statement": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJlMTIz", "example": "ow2k_abcdefghijkl01",
		"url": "https://user:password@host.example"}}
	tree.Document()["testing"] = map[string]any{"testKeyPrefix": "ow2k_"}
	r := verified(tree)
	assert.Empty(t, r.Rejections)
	tree.Document()["extensions"].(map[string]any)["test-host.notes"].(map[string]any)["pem"] = "-----BEGIN PRIVATE KEY-----"
	assert.Equal(t, []bundle.Kind{bundle.KindSecret}, kinds(verified(tree)), "a private key is published by nobody")
}

func TestTestKeyPrefixThatIsAWord(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"openwop-", "run_", "", "_", strings.Repeat("a", 100)} {
		in := bundletest.Full()
		in.Discovery = bundletest.Encode(withTestKeys(prefix))
		in.Rows[0].Detail = "partial-witness: run_already_done_by_now"
		_, err := bundle.Build(in)
		assert.NoError(t, err, prefix)
	}
}

func TestNotesOfWhatABundleLeavesOpen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit func(bundletest.Tree)
		want string
	}{
		"no claims":      {func(t bundletest.Tree) { t["claimedProfiles"] = []any{} }, "the bundle claims no profile, so it certifies none"},
		"unstated build": {func(t bundletest.Tree) { t.At("host", "build")["id"] = bundle.BuildUnstated }, "does not say which build of the host it is about"},
		"newer contract": {func(t bundletest.Tree) { t.At("suite")["specArtifactsVersion"] = "2.99.0-rc.1" },
			"contract version 2.99.0-rc.1; this verifier knows the contract up to its own version " + corpus.SpecArtifactsVersion},
		"newer signed version": {func(t bundletest.Tree) { t.At("suite")["version"] = "0.0.0+3.0.0" }, "contract version 3.0.0; this verifier"},
	} {
		tree := smallTree()
		assert.NotContains(t, strings.Join(verified(tree).Notes, "\n"), c.want, name)
		c.edit(tree)
		r := verified(tree)
		assert.Empty(t, r.Rejections, name)
		assert.Contains(t, strings.Join(r.Notes, "\n"), c.want, name)
	}
}

func TestContractVersionThatIsNone(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"latest", "2.44", "2.44.6.1", "v2.44.6", "2.44.x"} {
		tree := fullTree()
		tree.At("suite")["specArtifactsVersion"] = version
		r := verified(tree)
		assert.Equal(t, []bundle.Kind{bundle.KindCertifiedUnderivable}, kinds(r)[:1], version)
		for _, d := range r.Profiles {
			assert.False(t, d.Certified, "%s %s", version, d.ID)
			assert.Contains(t, strings.Join(d.Reasons, "\n"), "no floor can be chosen", version)
		}
		notes := strings.Join(r.Notes, "\n")
		assert.NotContains(t, notes, "has grown", version)
		assert.NotContains(t, notes, "knows the contract up to", version)
	}
}

func TestUnpublishedKeyIsSaidOnce(t *testing.T) {
	t.Parallel()
	tree := smallTree()
	delete(tree.Document(), "signingKeys")
	r := verified(tree)
	assert.Equal(t, bundle.IntegrityOnly, r.Attribution)
	assert.NotContains(t, r.AttributionReason, "integrity")
	assert.Contains(t, r.AttributionReason, "read and the key is not published")
}
