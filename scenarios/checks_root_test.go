package scenarios

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle/jcs"
	"wopcert/corpus"
	"wopcert/harness"
)

func contract(t *testing.T) *corpus.Corpus {
	t.Helper()
	c, err := corpus.Load()
	require.NoError(t, err)
	return c
}

func decode(t *testing.T, text string) object {
	t.Helper()
	v, err := jcs.Decode([]byte(text))
	require.NoError(t, err)
	return v.(object)
}

// rootRows are the checks on a discovery root, by the row each belongs to.
func rootRows(c *corpus.Corpus, doc object) map[string]harness.Check {
	versions, _ := stringList(doc["protocolVersions"])
	return map[string]harness.Check{
		"valid":      rootMembers(c, doc),
		"unknown":    unknownRootKeys(c, doc),
		"dotted":     dottedRootKeys(doc),
		"wrapper":    wrappedRoot(c, doc),
		"profiles":   profilesAtRoot(doc),
		"deleted":    deletedAdvertisements(doc),
		"fields":     recordFields(c, doc),
		"until":      untilByStatus(recordsWithStatus(c, doc)),
		"until-past": untilAhead(untils(c, doc), versions, time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)),
		"versions":   versionAdvertisement(doc),
	}
}

const soundRoot = `{
	"protocolVersions": ["1.11", "2.3"], "preferredVersion": "1.11", "minClientVersion": "1.0", "eventLogSchemaVersion": 3,
	"fixtures": ["conformance-noop"], "implementation": {"name": "any", "version": "1"}, "extensions": {"example.thing": {"a.b": 1}},
	"webhooks": {"status": "stable", "since": "2.0", "witness": "witnessable-gated", "signatureAlgorithms": ["v1"]},
	"eventLog": {"status": "experimental", "since": "2.0", "until": "2.4", "witness": "claims-check"},
	"brand": {"status": "deprecated", "since": "2.0", "until": "2026-06-01", "witness": "claims-check", "own": true}
}`

// TestRootRows changes one thing about a sound root and names the rows that
// have to fail: every other one has to hold.
func TestRootRows(t *testing.T) {
	t.Parallel()
	record := func(members string) string {
		return `{"status":"stable","since":"2.0","witness":"claims-check",` + members + `}`
	}
	cases := map[string]struct {
		change string // members laid over the sound root
		fails  []string
	}{
		"nothing":                    {`{}`, nil},
		"an unknown key":             {`{"telemetry": true}`, []string{"unknown"}},
		"a case variant":             {`{"Webhooks": {}}`, []string{"unknown"}},
		"a dotted key":               {`{"host.media": {}}`, []string{"dotted"}},
		"a dotted document":          {`{"host.v1": {"protocolVersion": "1.0"}}`, []string{"dotted"}},
		"a wrapper":                  {`{"capabilities": {"webhooks": {}}}`, []string{"wrapper"}},
		"an embedded document":       {`{"legacy": {"protocolVersion": "1.11"}}`, []string{"wrapper"}},
		"an object for a major":      {`{"v1": {}}`, []string{"wrapper"}},
		"profiles":                   {`{"profiles": ["openwop-core-standard"]}`, []string{"profiles"}},
		"transports":                 {`{"supportedTransports": ["rest"]}`, []string{"deleted"}},
		"grpc":                       {`{"grpc": {"endpoint": "x"}}`, []string{"deleted"}},
		"provenance":                 {`{"contractProvenance": {}}`, []string{"deleted"}},
		"a2a supported":              {`{"a2a": ` + record(`"supported": true, "versions": ["1.0"], "preferredVersion": "1.0", "minimumVersion": "1.0", "refreshedAt": "2026-01-01"`) + `}`, []string{"deleted"}},
		"replay fork":                {`{"replay": ` + record(`"fork": true, "modes": ["replay"], "effectSeamsManifest": "/host/effect-seams"`) + `}`, []string{"deleted"}},
		"supported on a family":      {`{"webhooks": ` + record(`"supported": true, "signatureAlgorithms": ["v1"]`) + `}`, []string{"valid"}},
		"a facet of the wrong kind":  {`{"webhooks": ` + record(`"signatureAlgorithms": "v1"`) + `}`, []string{"valid"}},
		"metadata of the wrong kind": {`{"fixtures": "conformance-noop"}`, []string{"valid"}},
		"an era below 2":             {`{"eventLogSchemaVersion": 1}`, []string{"valid"}},
		"a bad extension name":       {`{"extensions": {"thing": {}}}`, []string{"valid"}},
		"a family that is true":      {`{"eventLog": true}`, []string{"fields"}},
		"no status":                  {`{"eventLog": {"since": "2.0", "witness": "claims-check"}}`, []string{"fields"}},
		"an unknown status":          {`{"eventLog": {"status": "beta", "since": "2.0", "witness": "claims-check"}}`, []string{"fields"}},
		"no since":                   {`{"eventLog": {"status": "stable", "witness": "claims-check"}}`, []string{"fields"}},
		"a since with a patch":       {`{"eventLog": {"status": "stable", "since": "2.0.0", "witness": "claims-check"}}`, []string{"fields"}},
		"unwitnessable":              {`{"eventLog": {"status": "stable", "since": "2.0", "witness": "unwitnessable"}}`, []string{"fields"}},
		"stable with an until":       {`{"eventLog": ` + record(`"until": "2.9"`) + `}`, []string{"until"}},
		"experimental without until": {`{"eventLog": {"status": "experimental", "since": "2.0", "witness": "claims-check"}}`, []string{"until"}},
		"an until that is neither":   {`{"eventLog": {"status": "experimental", "since": "2.0", "until": "soon", "witness": "claims-check"}}`, []string{"until"}},
		"a date in the past":         {`{"eventLog": {"status": "deprecated", "since": "2.0", "until": "2026-05-30", "witness": "claims-check"}}`, []string{"until-past"}},
		"yesterday, somewhere today": {`{"brand": {"status": "deprecated", "since": "2.0", "until": "2026-06-01", "witness": "claims-check"}}`, nil},
		"a version below all":        {`{"eventLog": {"status": "deprecated", "since": "1.0", "until": "1.10", "witness": "claims-check"}}`, []string{"until-past"}},
		"a version still listed":     {`{"eventLog": {"status": "deprecated", "since": "1.0", "until": "1.11", "witness": "claims-check"}}`, nil},
		"preferred not listed":       {`{"preferredVersion": "2.0"}`, []string{"versions"}},
		"preferred not a string":     {`{"preferredVersion": 2}`, []string{"valid", "versions"}},
		"a leading zero":             {`{"protocolVersions": ["1.11", "2.03"]}`, []string{"versions"}},
		"a version twice":            {`{"protocolVersions": ["1.11", "2.3", "2.3"]}`, []string{"valid"}},
	}
	c := contract(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc := decode(t, soundRoot)
			maps.Copy(doc, decode(t, tc.change))
			var failed []string
			for row, check := range rootRows(c, doc) {
				if !check.OK {
					failed = append(failed, row)
				}
				assert.NotEmpty(t, check.Observed, row)
			}
			assert.ElementsMatch(t, tc.fails, failed)
		})
	}
}

// TestRootOfRealHost reads the root a host nobody here wrote was measured by.
func TestRootOfRealHost(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("..", "..", "shared", "bundles", "openwop-host-v2-reference.json"))
	if err != nil {
		t.Skip("the bundle of the published host is not at hand")
	}
	doc, ok := harness.Get(decode(t, string(data)), "discovery", "document").(object)
	require.True(t, ok)
	for row, check := range rootRows(contract(t), doc) {
		assert.True(t, check.OK, "%s: expected %s; observed %s", row, check.Expected, check.Observed)
	}
}

func TestCompareVersions(t *testing.T) {
	t.Parallel()
	ascending := []string{"0.9", "1.0", "1.2", "1.10", "2.0", "10.0", "99999999999999999999.0", "99999999999999999999.99999999999999999999"}
	for i, a := range ascending {
		for j, b := range ascending {
			assert.Equal(t, sign(i-j), sign(compareVersions(a, b)), "%s and %s", a, b)
		}
	}
	assert.Equal(t, []string{"2.2", "1.0", "", ""}, []string{versionBelow("2.3"), versionBelow("2.0"), versionBelow("0.0"), versionBelow("99999999999999999999.0")})
	assert.Equal(t, "2.4", versionAbove("2.3"))
}

func sign(n int) int { return min(max(n, -1), 1) }

func TestLinkProjects(t *testing.T) {
	t.Parallel()
	c := contract(t)
	for link, want := range map[string]bool{
		"/runs/anon~3Aacme~2Fr-0123456789abcdef/events":                      true,
		"runs/anon~3Aacme~2Fr-0123456789abcdef":                              true,
		"https://host.example/api/runs/anon~3Aacme~2Fr-0123456789abcdef?x=1": true,
		"/runs/anon%7E3Aacme%7E2Fr-0123456789abcdef/events":                  true,
		"/runs/anon:acme%2Fr-0123456789abcdef/events":                        false,
		"/runs/anon:acme/r-0123456789abcdef/events":                          false,
		"/runs/anon~7E3Aacme~7E2Fr-0123456789abcdef/events":                  false,
		"/runs/r-0123456789abcdef":                                           false,
		"/runs/anon~3aacme~2fr-0123456789abcdef":                             false,
		"://":                                                                false,
	} {
		assert.Equal(t, want, linkProjects(c, "eventsUrl", link).OK, link)
	}
}

func TestKeysOfBothKinds(t *testing.T) {
	t.Parallel()
	c := contract(t)
	kind := func(key string) bool { // the grammar, told without the pattern the host under test might share
		if len(key) < 22 || len(key) > 128 {
			return false
		}
		for _, r := range key {
			if !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '~' || r == '-') {
				return false
			}
		}
		return true
	}
	for _, key := range validKeys() {
		assert.True(t, kind(key), key)
	}
	for _, key := range invalidKeys() {
		assert.False(t, kind(key), key)
	}
	_, ok := c.Error("idempotency_key_invalid")
	assert.True(t, ok)
}
