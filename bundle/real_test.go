package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"wopcert/bundle/jcs"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Real bundles, made by suites and hosts that nobody here wrote. They are not part of the project.
const (
	realV3 = "../../shared/bundles/openwop-host-v2-reference.json"
	realV2 = "../../shared/bundles/openwop-host-sqlite.bundle-v2.json"
	realV1 = "../../shared/bundles/openwop-host-in-memory.bundle-v1.json"
)

func readReal(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the real bundles are not at hand")
	}
	require.NoError(t, err)
	return data
}

func TestRealBundleOfVersion3(t *testing.T) {
	t.Parallel()
	r := Verify(readReal(t, realV3), Options{})
	assert.Empty(t, r.Rejections)
	assert.True(t, r.Sound)
	assert.Equal(t, "3", r.BundleVersion)
	assert.Equal(t, Attributable, r.Attribution, r.AttributionReason)
	assert.Equal(t, CodeVerified, r.AttributionCode)
	assert.Equal(t, "captured", r.AttributionSource)
	assert.Equal(t, []string{"openwop-discovery-core", "openwop-core-standard", "openwop-conformance-seams-v2"}, r.CertifiedProfiles)
	for i, count := range []int{3, 13, 4} {
		assert.Equal(t, count, r.Profiles[i].WitnessCount, r.Profiles[i].ID)
	}
	assert.Equal(t, []string{"connections.packsSupported", "family.forms", "family.memory"}, r.OptOuts)
	if assert.NotNil(t, r.Durability) {
		assert.True(t, r.Durability.Derived)
	}
	assert.Contains(t, r.Notes, "since the bundle's contract version 2.39.2 the floor of openwop-core-standard has grown by "+
		"v2-sse-last-event-id-cursor, which is executed-pass here; today's floor is that of 2.44.6")
}

// The same bundle with one thing changed by somebody who does not hold the host's key.
func TestRealBundleTampered(t *testing.T) {
	t.Parallel()
	data := readReal(t, realV3)
	for name, c := range map[string]struct {
		old, new string
		kind     Kind
	}{
		"a failure made a pass":    {`"result": "executed-fail"`, `"result": "executed-pass"`, KindWitnessDigest},
		"a build":                  {"5aa8686ecdfb042ad47dc9d6150bdab1f0fae4b9", "5aa8686ecdfb042ad47dc9d6150bdab1f0fae4ba", KindAttestationInvalid},
		"the signed suite version": {`"version": "2.39.2"`, `"version": "2.39.3"`, KindAttestationInvalid},
		"the captured document":    {`"maxFiles": 256`, `"maxFiles": 257`, KindDiscoveryDigest},
		"a later contract":         {`"specArtifactsVersion": "2.39.2"`, `"specArtifactsVersion": "2.42.7"`, KindCertifiedUnderivable},
		"a higher rung":            {`"rung": "durable-single-instance"`, `"rung": "durable-multi-instance"`, KindRungUnderivable},
		"a witness count":          {`"witnessCount": 13`, `"witnessCount": 14`, KindWitnessCount},
		"a tier":                   {`"evidenceTier": "self"`, `"evidenceTier": "independent"`, KindIndependentUnsigned},
	} {
		old := []byte(c.old)
		require.True(t, bytes.Contains(data, old), name)
		r := Verify(bytes.Replace(data, old, []byte(c.new), 1), Options{})
		assert.False(t, r.Sound, name)
		assert.Empty(t, r.CertifiedProfiles, name)
		var found []Kind
		for _, rejection := range r.Rejections {
			found = append(found, rejection.Kind)
		}
		assert.Contains(t, found, c.kind, name)
	}
}

func TestRealBundlesOfOlderVersions(t *testing.T) {
	t.Parallel()
	for version, path := range map[string]string{"1": realV1, "2": realV2} {
		r := Verify(readReal(t, path), Options{Require: []string{"openwop-core-standard"}})
		assert.Equal(t, version, r.BundleVersion)
		assert.True(t, r.Older())
		assert.False(t, r.Sound)
		assert.Empty(t, r.CertifiedProfiles)
		assert.Equal(t, []string{"openwop-core-standard"}, r.MissingProfiles)
		if assert.Len(t, r.Rejections, 1) {
			assert.Equal(t, KindBundleVersion, r.Rejections[0].Kind)
			assert.Contains(t, r.Rejections[0].Detail, "evidence at its own version, never upgraded")
		}
	}
}

func BenchmarkVerifyRealBundle(b *testing.B) {
	data := readReal(b, realV3)
	require.True(b, Verify(data, Options{}).Sound)
	for b.Loop() {
		Verify(data, Options{})
	}
}

// BenchmarkCanonicalize reports how long canonicalizing the real bundle takes against decoding and encoding it with
// encoding/json, both in the same run.
func BenchmarkCanonicalize(b *testing.B) {
	data := readReal(b, realV3)
	b.SetBytes(int64(len(data)))
	var canonicalize, standard int64
	for b.Loop() {
		start := now()
		if _, err := jcs.Canonicalize(data); err != nil {
			b.Fatal(err)
		}
		middle := now()
		var v any
		if err := json.NewDecoder(bytes.NewReader(data)).Decode(&v); err != nil {
			b.Fatal(err)
		}
		if _, err := json.Marshal(v); err != nil {
			b.Fatal(err)
		}
		canonicalize += middle - start
		standard += now() - middle
	}
	b.ReportMetric(float64(canonicalize)/float64(standard), "ratio")
}

func now() int64 { return time.Now().UnixNano() }
