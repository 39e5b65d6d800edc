package certify

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/corpus"
	"wopcert/harness"
	"wopcert/report"
	"wopcert/requirements"
	"wopcert/scenarios"
)

// BenchmarkCertifyReferenceHost times a whole certification, from starting the
// host to the evidence on disk, and compares it with its longest test: the
// peer no schedule can beat.
func BenchmarkCertifyReferenceHost(b *testing.B) {
	contract, err := corpus.Load()
	require.NoError(b, err)
	ratio := 0.0
	for b.Loop() {
		c, err := Run(b.Context(), Request{Corpus: contract, ReferenceHost: true, Scenarios: scenarios.All(), Out: filepath.Join(b.TempDir(), "evidence")})
		require.NoError(b, err)
		require.Equal(b, report.Certified, c.Verdict)
		ratio += float64(c.DurationMs) / float64(c.LongestMs)
	}
	b.ReportMetric(ratio/float64(b.N), "total/longest")
}

func TestEvidenceIsWholeOrAbsent(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir := filepath.Join(parent, "evidence")
	require.NoError(t, os.Mkdir(dir, 0o755))
	e, err := PrepareEvidence(dir)
	require.NoError(t, err, "an empty directory may be filled")
	require.NoError(t, e.Write("a/b.json", []byte("{}")))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, entries, "nothing is there before everything is")
	require.NoError(t, e.Commit())
	e.Discard()
	assert.FileExists(t, filepath.Join(dir, "a", "b.json"))

	_, err = PrepareEvidence(dir)
	var refused *EvidenceError
	require.ErrorAs(t, err, &refused)

	other, err := PrepareEvidence(filepath.Join(parent, "deep", "er"))
	require.NoError(t, err)
	require.NoError(t, other.Write("x", nil))
	other.Discard()
	assert.NoDirExists(t, filepath.Join(parent, "deep", "er"))
	entries, err = os.ReadDir(filepath.Join(parent, "deep"))
	require.NoError(t, err)
	assert.Empty(t, entries, "a run that dies leaves nothing that looks like evidence")
}

func TestSelectionKeepsOrderAndWholeScenarios(t *testing.T) {
	t.Parallel()
	contract, err := corpus.Load()
	require.NoError(t, err)
	all := []harness.Scenario{
		{ID: "v2-a", Tests: []harness.Test{{Witnesses: []requirements.ID{requirements.R0170RunCancel}}, {Witnesses: []requirements.ID{requirements.EventsSequence}}}},
		{ID: "v2-b", Tests: []harness.Test{{Witnesses: []requirements.ID{requirements.R0176EraKey}}}},
		{ID: "w-c"},
	}
	chosen, err := Selection{Scenarios: []string{"v2-*"}}.Apply(all, contract)
	require.NoError(t, err)
	assert.Equal(t, all[:2], chosen)
	chosen, err = Selection{Requirements: []string{"events.sequence"}, Scenarios: []string{"w-c"}}.Apply(all, contract)
	require.NoError(t, err)
	assert.Equal(t, []harness.Scenario{all[0], all[2]}, chosen, "a scenario is run whole")
	_, err = Selection{Profiles: []string{"openwop-discovery-core"}}.Apply(all, contract)
	var refused *SelectionError
	require.ErrorAs(t, err, &refused, "a floor the suite does not hold cannot be asked for")
	assert.Contains(t, refused.Text, "v2-version-header-honored")
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	write := func(text string) string {
		name := filepath.Join(t.TempDir(), "wopcert.yaml")
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	c, err := ReadConfig(write("host: http://h\nscenarios: [v2-a, v2-b]\nparallel: 3\ntimeout: 90s\n"))
	require.NoError(t, err)
	assert.Equal(t, Config{Host: "http://h", Scenarios: []string{"v2-a", "v2-b"}, Parallel: 3, Timeout: "90s"}, c)
	c, err = ReadConfig(write(""))
	require.NoError(t, err, "an empty file says nothing")
	assert.Equal(t, Config{}, c)
	for text, want := range map[string]string{
		"hosts: x\n":       "field hosts not found",
		"timeout: soon\n":  "is no duration",
		"parallel: many\n": "cannot unmarshal",
		"host: [\n":        "did not find",
	} {
		_, err := ReadConfig(write(text))
		var refused *ConfigError
		require.ErrorAs(t, err, &refused, text)
		assert.Contains(t, refused.Text, want)
	}
}
