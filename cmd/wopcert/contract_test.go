package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/corpus"
)

// contractPackage lays out an installed contract package: this program's schemas under the published ids, changed
// by name, and the stamp that fits them.
func contractPackage(t *testing.T, version string, change map[string]func(schema map[string]any)) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "schemas", "v2"), 0o755))
	own, err := filepath.Glob(filepath.Join("..", "..", "corpus", "schemas", "*.schema.json"))
	require.NoError(t, err)
	require.NotEmpty(t, own)
	files := map[string]string{}
	for _, file := range own {
		base := filepath.Base(file)
		name := strings.TrimSuffix(base, ".schema.json")
		if name == "run-diff-response" {
			continue // what the package has nothing for stays this program's
		}
		text := strings.ReplaceAll(readFile(t, file), "https://wopcert.invalid/schemas/", "https://openwop.dev/spec/v2/")
		if f := change[name]; f != nil {
			schema := decode[map[string]any](t, text)
			f(schema)
			data, err := json.Marshal(schema)
			require.NoError(t, err)
			text = string(data)
		}
		digest := sha256.Sum256([]byte(text))
		files["schemas/v2/"+base] = hex.EncodeToString(digest[:])
		require.NoError(t, os.WriteFile(filepath.Join(dir, "schemas", "v2", base), []byte(text), 0o600))
	}
	stamp, err := json.Marshal(map[string]any{"package": corpus.PackageName, "version": version, "corpusTag": "v" + version, "files": files})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "CORPUS-STAMP.json"), stamp, 0o600))
	return dir
}

// A run against an installed contract package says whose contract it was, in the bundle and beside it.
func TestCertifyAgainstAnInstalledContract(t *testing.T) {
	t.Parallel()
	dir := contractPackage(t, "2.43.2", nil)
	out := filepath.Join(t.TempDir(), "evidence")
	config := filepath.Join(t.TempDir(), "wopcert.yaml")
	require.NoError(t, os.WriteFile(config, []byte("corpus: "+dir+"\nscenarios: [v2-run-snapshot-*]\n"), 0o600))
	r := command(t, "certify", "--reference-host", "--config", config, "--out", out)
	require.Equal(t, exitYes, r.code, r.out+r.err)
	assert.Contains(t, r.out, "the schemas are those of @openwop/spec-artifacts 2.43.2; this program's own stood in for: certification-bundle, run-diff-response")

	b := decode[bundle.Bundle](t, readFile(t, filepath.Join(out, "bundle.json")))
	digest := sha256.Sum256([]byte(readFile(t, filepath.Join(dir, "CORPUS-STAMP.json"))))
	assert.Equal(t, "2.43.2", b.Suite.SpecArtifactsVersion)
	assert.Equal(t, hex.EncodeToString(digest[:]), b.Suite.StampSHA256)
	assert.True(t, strings.HasSuffix(b.Suite.Version, "+2.43.2"), b.Suite.Version)
	assert.Contains(t, readFile(t, filepath.Join(out, "results.json")), "wopcert "+b.Suite.Version)
	verified := command(t, "verify", filepath.Join(out, "bundle.json"), "--format", "json")
	assert.Equal(t, exitNo, verified.code, "sound, and a part certifies nothing: %s", verified.out)
	assert.True(t, decode[bundle.Report](t, verified.out).Sound)
}

// A schema of the package that the host departs from fails the host: it is theirs that judges.
func TestTheInstalledContractJudges(t *testing.T) {
	t.Parallel()
	dir := contractPackage(t, "2.44.6", map[string]func(map[string]any){
		"run-snapshot": func(schema map[string]any) { schema["required"] = []string{"neverThere"} },
	})
	out := filepath.Join(t.TempDir(), "evidence")
	r := command(t, "certify", "--reference-host", "--corpus", dir, "--scenario", "v2-run-snapshot-*", "--out", out)
	require.Equal(t, exitNo, r.code, r.out+r.err)
	assert.Contains(t, r.out, "neverThere")
	assert.Contains(t, r.out, "--corpus "+dir)
	b := decode[bundle.Bundle](t, readFile(t, filepath.Join(out, "bundle.json")))
	assert.Positive(t, b.Results.Totals.ExecutedFail)
	assert.Equal(t, exitNo, command(t, "verify", filepath.Join(out, "bundle.json")).code, "sound")
}

func TestAContractThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	good := contractPackage(t, "2.44.6", nil)
	copied := func(change func(dir string)) string {
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS(good)))
		change(dir)
		return dir
	}
	tampered := copied(func(dir string) {
		name := filepath.Join(dir, "schemas", "v2", "ids.schema.json")
		require.NoError(t, os.WriteFile(name, []byte(readFile(t, name)+" "), 0o600))
	})
	unstamped := copied(func(dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "CORPUS-STAMP.json"))) })
	unreadable := contractPackage(t, "2.44.6", map[string]func(map[string]any){
		"run-event": func(schema map[string]any) { maps.Copy(schema, map[string]any{"$dynamicRef": "#x"}) },
	})
	old := contractPackage(t, "1.9.0", nil)
	for name, c := range map[string]struct {
		dir  string
		more []string
		code int
		want string
	}{
		"changed":       {tampered, nil, exitInternal, "schemas/v2/ids.schema.json is not what the stamp of the package says: changed"},
		"no stamp":      {unstamped, nil, exitUsage, "npm install @openwop/spec-artifacts"},
		"no folder":     {filepath.Join(good, "nowhere"), nil, exitUsage, "node_modules/@openwop/spec-artifacts"},
		"a file":        {filepath.Join(good, "CORPUS-STAMP.json"), nil, exitUsage, "npm install"},
		"not read here": {unreadable, nil, exitInternal, "$dynamicRef is not supported"},
		"too old":       {old, []string{"--profile", "openwop-discovery-core"}, exitUsage, "no floor at contract version 1.9.0"},
		"empty":         {"", nil, exitUsage, "names no folder"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "evidence")
			r := command(t, append([]string{"certify", "--reference-host", "--corpus", c.dir, "--out", out}, c.more...)...)
			assert.Equal(t, c.code, r.code, r.err)
			assert.Contains(t, r.err, c.want)
			assert.Empty(t, r.out)
			assert.NoDirExists(t, out)
		})
	}
}
