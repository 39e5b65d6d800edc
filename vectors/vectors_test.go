package vectors

import (
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"wopcert/bundle"
	"wopcert/bundle/bundletest"
	"wopcert/bundle/jcs"
	"wopcert/vectors/internal/vectorset"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func load[T any](t *testing.T, path string) T {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var v T
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&v))
	return v
}

func TestFilesAreUpToDate(t *testing.T) {
	t.Parallel()
	want := vectorset.Files()
	require.Greater(t, len(want), 100)
	found := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".json") {
			return err
		}
		found++
		data, err := os.ReadFile(path)
		if expected, ok := want[filepath.ToSlash(path)]; assert.True(t, ok, "%s is written by no case; run go generate", path) {
			assert.True(t, string(expected) == string(data), "%s is stale; run go generate", path)
		}
		return err
	})
	require.NoError(t, err)
	assert.Equal(t, len(want), found, "files are missing; run go generate")
}

func TestAccept(t *testing.T) {
	t.Parallel()
	cases := load[vectorset.AcceptFile](t, "jcs/accept.json").Cases
	require.NotEmpty(t, cases)
	for _, c := range cases {
		input, want := unbase64(t, c.InputBase64), unbase64(t, c.CanonicalBase64)
		got, err := jcs.Canonicalize(input)
		require.NoError(t, err, c.ID)
		assert.Equal(t, string(want), string(got), c.ID)
		assert.Equal(t, c.Input, string(input), c.ID)
		assert.Equal(t, c.Canonical, string(want), c.ID)
		sum, err := jcs.SHA256(input)
		require.NoError(t, err)
		assert.Equal(t, c.SHA256, sum, c.ID)
	}
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	kinds := map[string]bool{}
	for _, c := range load[vectorset.RefuseFile](t, "jcs/refuse.json").Cases {
		kinds[c.Kind] = true
		got, err := jcs.Canonicalize(unbase64(t, c.InputBase64))
		assert.Nil(t, got, c.ID)
		var refused *jcs.Error
		if assert.ErrorAs(t, err, &refused, c.ID) {
			assert.Equal(t, c.Kind, string(refused.Kind), c.ID)
			assert.Equal(t, c.Offset, refused.Offset, c.ID)
		}
	}
	// A text over the size would be 64 MiB long; every other kind has a vector.
	for _, kind := range []jcs.Kind{jcs.KindUTF8, jcs.KindSyntax, jcs.KindDuplicateMember, jcs.KindLoneSurrogate, jcs.KindNumberRange, jcs.KindUnsafeInteger, jcs.KindDepth} {
		assert.True(t, kinds[string(kind)], kind)
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range load[vectorset.NumbersFile](t, "jcs/numbers.json").Cases {
		bits, err := strconv.ParseUint(c.IEEE754, 16, 64)
		require.NoError(t, err)
		f, err := strconv.ParseFloat(c.Literal, 64)
		require.NoError(t, err)
		assert.Equal(t, bits, math.Float64bits(f), c.IEEE754)
		got, err := jcs.Canonicalize([]byte(c.Literal))
		require.NoError(t, err)
		assert.Equal(t, c.Canonical, string(got), c.IEEE754)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	for _, k := range load[vectorset.KeysFile](t, "attestation/keys.json").Keys {
		key, err := bundle.ParsePublicKey([]byte(k.PublicKey))
		require.NoError(t, err)
		assert.Equal(t, bundletest.Key(strings.TrimPrefix(k.KeyID, "test-only-")).Public(), key)
		assert.Contains(t, k.SeedLabel, "TEST-ONLY")
	}
}

// The cases are replayed through Verify: a bundle takes on the four attested values, and the document comes apart from
// it. That its rows then have another digest does not concern the attestation.
func TestAttestations(t *testing.T) {
	t.Parallel()
	file := load[vectorset.AttestationFile](t, "attestation/cases.json")
	payload, err := jcs.CanonicalizeValue(file.Attested)
	require.NoError(t, err)
	assert.Equal(t, file.Payload, string(payload))
	require.NotEmpty(t, file.Cases)
	for _, c := range file.Cases {
		b := bundletest.Signed(bundletest.Small(), bundletest.Key("host"))
		b.WitnessSHA256, b.Host.Build = file.Attested.WitnessSHA256, file.Attested.HostBuild
		b.Suite.Version, b.Discovery.SHA256 = file.Attested.SuiteVersion, file.Attested.DiscoverySHA256
		b.Discovery.Document = nil
		b.Host.SigningKeyID, b.Signature.KeyID, b.Signature.Sig = "", c.KeyID, c.Sig
		data, err := bundle.Encode(b)
		require.NoError(t, err)
		opts := bundle.Options{}
		if c.Document != nil {
			opts.Discovery = &bundle.DiscoverySource{Origin: "file", Location: "discovery.json", Document: bundletest.Encode(c.Document)}
		}
		r := bundle.Verify(data, opts)
		assert.Equal(t, c.Attribution, string(r.Attribution), "%s: %s", c.ID, r.AttributionReason)
		assert.Equal(t, c.Code, string(r.AttributionCode), c.ID)
		rejected := slices.ContainsFunc(r.Rejections, func(r bundle.Rejection) bool { return r.Kind == bundle.KindAttestationInvalid })
		assert.Equal(t, c.Attribution == "not-attested", rejected, c.ID)
	}
}

func TestBundles(t *testing.T) {
	t.Parallel()
	index := load[vectorset.IndexFile](t, "bundles/index.json")
	require.NotEmpty(t, index.Cases)
	for _, c := range index.Cases {
		t.Run(c.File, func(t *testing.T) {
			t.Parallel()
			r := bundle.Verify(read(t, c.File), options(t, c.Options))
			kinds := []string{}
			for _, rejection := range r.Rejections {
				kinds = append(kinds, string(rejection.Kind))
			}
			slices.Sort(kinds)
			assert.Equal(t, c.Expect.Rejections, slices.Compact(kinds), "%v", r.Rejections)
			assert.Equal(t, c.Expect.Sound, r.Sound)
			assert.Equal(t, c.Expect.BundleVersion, r.BundleVersion)
			assert.Equal(t, c.Expect.Attribution, string(r.Attribution), r.AttributionReason)
			assert.Equal(t, c.Expect.AttributionCode, string(r.AttributionCode))
			assert.Equal(t, c.Expect.CertifiedProfiles, r.CertifiedProfiles, "%+v", r.Profiles)
			if c.Expect.Companion != nil && assert.NotNil(t, r.Companion) {
				assert.Equal(t, *c.Expect.Companion, vectorset.Companion{Paired: r.Companion.Paired, Evidence: r.Companion.Evidence}, "%v", r.Companion.Reasons)
			}
		})
	}
}

// Every kind of rejection has a bundle of its own, but for those that need a bundle too large to publish or a program
// without its contract files.
func TestEveryKindHasABundle(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range load[vectorset.IndexFile](t, "bundles/index.json").Cases {
		for _, kind := range c.Expect.Rejections {
			seen[kind] = true
		}
	}
	for _, kind := range bundle.Kinds() {
		if kind != bundle.KindTooLarge && kind != bundle.KindContract && kind != "json-size" {
			assert.True(t, seen[string(kind)], kind)
		}
	}
}

func options(t *testing.T, o vectorset.Options) bundle.Options {
	opts := bundle.Options{Canaries: o.Canaries}
	if o.Discovery != "" {
		opts.Discovery = &bundle.DiscoverySource{Origin: "file", Location: o.Discovery, Document: read(t, o.Discovery)}
	}
	if o.CompanionOf != "" {
		opts.CompanionOf = read(t, o.CompanionOf)
	}
	if o.VerifierKey != "" {
		key, err := bundle.ParsePublicKey([]byte(o.VerifierKey))
		require.NoError(t, err)
		opts.VerifierKey = key
	}
	return opts
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("bundles", filepath.FromSlash(path)))
	require.NoError(t, err)
	return data
}

func unbase64(t *testing.T, text string) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	return data
}
