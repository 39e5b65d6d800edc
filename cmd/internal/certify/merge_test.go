package certify

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/corpus"
	"wopcert/harness"
	"wopcert/internal/testnet"
	referencehost "wopcert/reference-host"
	"wopcert/reference-host/faults"
	"wopcert/report"
	"wopcert/scenarios"
)

// divided are the parts of a run, and what is needed to run more of it.
type divided struct {
	dirs     []string
	request  func(out string) Request
	contract *corpus.Corpus
}

func (d divided) merge(t *testing.T, dirs ...string) (string, *report.Certification, error) {
	out := filepath.Join(t.TempDir(), "merged")
	c, err := Merge(dirs, scenarios.All(), Request{Corpus: d.contract, Out: out})
	return out, c, err
}

// runDivided runs a selection in two parts against a host, which a fault may break.
func runDivided(t *testing.T, fault string, patterns ...string) divided {
	t.Helper()
	contract, err := corpus.Load()
	require.NoError(t, err)
	config, err := referencehost.DefaultConfig()
	require.NoError(t, err)
	if fault != "" {
		x, ok := faults.Get(fault)
		require.True(t, ok)
		if x.Decorate != nil {
			x.Decorate(&config)
		}
		if x.Wrap != nil {
			config.Wrap = append(config.Wrap, x.Wrap)
		}
	}
	host, err := referencehost.Listen(t.Context(), "127.0.0.1:0", config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, host.Close()) })
	list, selection := chosen(t, contract, patterns...)
	d := divided{contract: contract, request: func(out string) Request {
		return Request{Corpus: contract, HostURL: host.URL(), Scenarios: list, Selection: selection, Out: out,
			Credentials: testnet.Credentials(config), HostBuild: &bundle.HostBuild{Kind: "commit", ID: "5aa8686e"}}
	}}
	costs, err := MeasuredCosts()
	require.NoError(t, err)
	dir := t.TempDir()
	for i := 1; i <= 2; i++ {
		q := d.request(filepath.Join(dir, fmt.Sprintf("part%d", i)))
		require.NoError(t, q.Divide(i, 2, costs))
		c, err := Run(t.Context(), q)
		require.NoError(t, err)
		assert.Empty(t, c.Profiles, "a part claims none")
		assert.Contains(t, []report.Verdict{report.Passed, report.Failed}, c.Verdict)
		d.dirs = append(d.dirs, q.Out)
	}
	return d
}

func results(t *testing.T, dir string) report.Results {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, report.ResultsFile))
	require.NoError(t, err)
	var r report.Results
	require.NoError(t, json.Unmarshal(data, &r))
	return r
}

// rowKeys are the rows without what differs from run to run.
func rowKeys(rows []bundle.Row) (keys []string) {
	for _, row := range rows {
		keys = append(keys, fmt.Sprintf("%s %s %s", row.Scenario, row.ID, row.Result))
	}
	return keys
}

// The parts of a run put together are the run: the same rows in the same order, the same
// answer, every capture, and a bundle that verifies.
func TestMergedIsWhole(t *testing.T) {
	t.Parallel()
	d := runDivided(t, "", "v2-run-*", "v2-version-header-*", "v2-capabilities-root-closed", "v2-discovery-*", "v2-era-key")
	wholeOut := filepath.Join(t.TempDir(), "whole")
	whole, err := Run(t.Context(), d.request(wholeOut))
	require.NoError(t, err)
	require.Equal(t, report.Passed, whole.Verdict, "%v %v", whole.Failures, whole.Blocked)

	out, merged, err := d.merge(t, d.dirs[1], d.dirs[0])
	require.NoError(t, err)
	assert.Equal(t, whole.Verdict, merged.Verdict)
	assert.Equal(t, whole.Totals, merged.Totals)
	assert.Equal(t, whole.Host, merged.Host)
	assert.Equal(t, whole.Profiles, merged.Profiles)
	assert.Nil(t, merged.Shard)
	one, both := results(t, wholeOut), results(t, out)
	assert.Equal(t, rowKeys(one.Rows), rowKeys(both.Rows))
	assert.Len(t, both.Tests, len(one.Tests))
	assert.Equal(t, one.Suite, both.Suite)

	for _, dir := range []string{d.dirs[0], out} {
		valid(t, dir)
	}
	data, err := os.ReadFile(filepath.Join(out, report.BundleFile))
	require.NoError(t, err)
	verified := bundle.Verify(data, bundle.Options{})
	assert.True(t, verified.Sound, "%v", verified.Rejections)
	assert.Equal(t, rowKeys(sealed(t, wholeOut).Results.Requirements), rowKeys(sealed(t, out).Results.Requirements))
	for _, name := range []string{"discovery.json", "report.html", "junit.xml", "summary.md", "results.sarif"} {
		assert.FileExists(t, filepath.Join(out, name))
	}
	assert.Equal(t, files(t, filepath.Join(wholeOut, "capture")), files(t, filepath.Join(out, "capture")))
	assert.Equal(t, files(t, filepath.Join(wholeOut, "har")), files(t, filepath.Join(out, "har")))
}

// valid holds results.json to its published schema.
func valid(t *testing.T, dir string) {
	t.Helper()
	schema, err := jsonschema.Compile(filepath.Join("..", "..", "..", "report", "results.schema.json"))
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(dir, report.ResultsFile))
	require.NoError(t, err)
	var v any
	require.NoError(t, json.Unmarshal(data, &v))
	require.NoError(t, schema.Validate(v))
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			rel, _ := filepath.Rel(dir, name)
			names = append(names, rel)
		}
		return err
	}))
	require.NotEmpty(t, names)
	return names
}

// What a part of a profile's floor cannot certify, all parts together do.
func TestMergedCertifies(t *testing.T) {
	t.Parallel()
	d := runDivided(t, "", "v2-version-header-*", "v2-discovery-*", "v2-capabilities-root-closed", "v2-preferred-version-default", "v2-no-transport-advertisement")
	key, err := bundle.NewEphemeralKey()
	require.NoError(t, err)
	out := filepath.Join(t.TempDir(), "merged")
	c, err := Merge(d.dirs, scenarios.All(), Request{Corpus: d.contract, Out: out, SigningKey: &key, Selection: Selection{Profiles: []string{"openwop-discovery-core"}}})
	require.NoError(t, err)
	require.Equal(t, report.Certified, c.Verdict, "%v", c.Profiles)
	require.Len(t, c.Profiles, 1)
	assert.Equal(t, "commit:5aa8686e", c.Host.Build)
	assert.Contains(t, strings.Join(c.Notes, "\n"), "vouches for it as it was handed over", "the parts are signed by nobody the host knows")
}

// A failure of one part is a failure of the whole, with its capture.
func TestMergedKeepsFailures(t *testing.T) {
	t.Parallel()
	d := runDivided(t, "list-cursor-ignored", "v2-run-list*", "v2-run-cancel", "v2-version-header-honored")
	out, c, err := d.merge(t, d.dirs...)
	require.NoError(t, err)
	assert.Equal(t, report.Failed, c.Verdict)
	require.NotEmpty(t, c.Failures)
	assert.Contains(t, c.Failures[0].Requirement, "0182.run-list.cursor-refused")
	b := sealed(t, out)
	assert.Positive(t, b.Results.Totals.ExecutedFail)

	t.Run("refused", func(t *testing.T) { refusals(t, d) })
}

// refusals change one part of a run that fails in some way that would change the answer.
func refusals(t *testing.T, d divided) {
	failing := 0
	if results(t, d.dirs[1]).Verdict == report.Failed {
		failing = 1
	}
	for name, c := range map[string]struct {
		part    int
		change  func(t *testing.T, dir string)
		refused string
	}{
		"host name":              {1, inBundle("host", "name", "another"), "differ in the host name: wopcert-reference-host and another"},
		"host version":           {1, inBundle("host", "version", "9"), "differ in the host version: 1.0.0 and 9"},
		"host build":             {1, inBundle("host", "build", map[string]any{"kind": "commit", "id": "b"}), "differ in the host build: commit:5aa8686e and commit:b"},
		"address":                {1, inBundle("discovery", "url", "https://x.example/.well-known/openwop"), "differ in the host address"},
		"discovery":              {1, inBundle("discovery", "sha256", strings.Repeat("0", 64)), "differ in the discovery document"},
		"suite version":          {1, inBundle("suite", "version", "0.0.1+2.44.6"), "differ in the suite version"},
		"suite name":             {1, inBundle("suite", "name", "@openwop/openwop-conformance"), "differ in the suite version"},
		"contract":               {1, inBundle("suite", "specArtifactsVersion", "2.44.5"), "differ in the contract version: 2.44.6 and 2.44.5"},
		"stamp":                  {1, inBundle("suite", "stampSha256", strings.Repeat("0", 64)), "differ in the contract stamp"},
		"relaxations":            {1, inBundle("host", "relaxations", []any{map[string]any{"obligation": "a", "durability": "session", "reason": "r"}}), "differ in the relaxations: none and"},
		"count":                  {1, inShard("count", 3), "differ in the number of shards: 2 and 3"},
		"selection":              {1, inShard("selectionSha256", strings.Repeat("0", 64)), "differ in the selection"},
		"costs":                  {1, inShard("costsSha256", strings.Repeat("0", 64)), "differ in the costs"},
		"opt-outs":               {1, inShard("optOuts", []any{"memory"}), `differ in the opt-outs: none and ["memory"]`},
		"recovery":               {1, inShard("recoverySha256", strings.Repeat("0", 64)), "differ in the claim of recovery: none and"},
		"keys":                   {1, inShard("credentials", []any{}), "differ in the keys given"},
		"no such shard":          {1, inShard("index", 7), "there is no such shard"},
		"twice":                  {1, inShard("index", 1), "is given twice"},
		"interrupted":            {1, inResults("interrupted", true), "was interrupted"},
		"suite fault":            {1, inResults("suiteFaults", []any{"a panic"}), "a defect of the suite itself: a panic"},
		"no shard":               {1, inResults("shard", nil), "evidence of a whole run"},
		"no bundle":              {1, without("bundle.json"), "holds no bundle"},
		"no discovery":           {1, without("discovery.json"), "discovery.json cannot be read"},
		"other document":         {1, inFile("discovery.json", func(v map[string]any) { v["extra"] = 1 }), "discovery.json is not the discovery document"},
		"laundered results":      {failing, inFile("results.json", launder), "are not those of its bundle, the first of them openwop."},
		"laundered failures":     {failing, inResults("failures", []any{}), "the failures in results.json are not those of its rows"},
		"laundered bundle":       {failing, inFile("bundle.json", func(v map[string]any) { launder(v["results"].(map[string]any)) }), "is rejected"},
		"row dropped":            {failing, inFile("results.json", func(v map[string]any) { v["rows"] = v["rows"].([]any)[1:] }), "are not those of its bundle"},
		"scenario dropped":       {failing, dropScenario, "no shard ran v2-run-list"},
		"row dropped and signed": {failing, dropRow("openwop.requirement."), "no shard holds the row openwop.requirement."},
		"sum dropped and signed": {1 - failing, dropRow("openwop.floor."), "no shard holds the row that sums up v2-"},
		"scenario of both":       {1, inShardAdd("v2-run-list", "v2-run-list-pages", "v2-run-cancel"), "both ran v2-run-"},
		"scenario of none":       {1, inShardAdd("v2-era-key"), "ran v2-era-key, which is not part of the selection"},
		"row added and signed":   {failing, addRow, "openwop.requirement.0000.invented, which is none of its scenarios'"},
		"failure elsewhere":      {failing, inFile("results.json", func(v map[string]any) { v["failures"].([]any)[0].(map[string]any)["scenario"] = "../x" }), "has a failure of ../x"},
		"test elsewhere":         {failing, inFile("results.json", func(v map[string]any) { v["tests"].([]any)[0].(map[string]any)["scenario"] = "../x" }), "has a test of ../x"},
		"another scenario":       {failing, inShard("scenarios", []any{"v2-era-key"}), "which is not one of its scenarios"},
	} {
		t.Run(name, func(t *testing.T) {
			dirs := append([]string{}, d.dirs...)
			dirs[c.part] = filepath.Join(t.TempDir(), "changed")
			require.NoError(t, os.CopyFS(dirs[c.part], os.DirFS(d.dirs[c.part])))
			c.change(t, dirs[c.part])
			out := filepath.Join(t.TempDir(), "out")
			_, err := Merge(dirs, scenarios.All(), Request{Corpus: d.contract, Out: out})
			var refused *MergeError
			require.ErrorAs(t, err, &refused)
			assert.False(t, refused.Unreadable)
			assert.Contains(t, refused.Text, c.refused)
			assert.Contains(t, refused.Text, "shard", "it says which")
			assert.NoDirExists(t, out)
		})
	}
	_, _, err := d.merge(t, d.dirs[0])
	require.ErrorContains(t, err, "of 2 shards these are missing: 2")
	_, _, err = d.merge(t, d.dirs[0], d.dirs[1], d.dirs[0])
	require.ErrorContains(t, err, "is given twice")
	_, _, err = d.merge(t, t.TempDir())
	var refused *MergeError
	require.ErrorAs(t, err, &refused)
	assert.True(t, refused.Unreadable)

	_, err = Merge(d.dirs, nil, Request{Corpus: d.contract, Out: filepath.Join(t.TempDir(), "out")})
	require.ErrorContains(t, err, "its selection: no scenario matches")
	_, err = Merge(d.dirs, scenarios.All(), Request{Corpus: d.contract, Out: d.dirs[0]})
	require.ErrorContains(t, err, "already holds files")
	some := []harness.Scenario{}
	for _, sc := range scenarios.All() {
		if sc.ID != "v2-run-list-pages" {
			some = append(some, sc)
		}
	}
	_, err = Merge(d.dirs, some, Request{Corpus: d.contract, Out: filepath.Join(t.TempDir(), "out")})
	require.ErrorContains(t, err, "its selection is not what its digest names")
}

func inFile(name string, change func(map[string]any)) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		var v map[string]any
		require.NoError(t, json.Unmarshal(data, &v))
		change(v)
		data, err = json.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, data, 0o600))
	}
}

func inBundle(part, member string, value any) func(*testing.T, string) {
	return inFile(report.BundleFile, func(v map[string]any) { v[part].(map[string]any)[member] = value })
}

func inResults(member string, value any) func(*testing.T, string) {
	return inFile(report.ResultsFile, func(v map[string]any) { v[member] = value })
}

func inShard(member string, value any) func(*testing.T, string) {
	return inFile(report.ResultsFile, func(v map[string]any) { v["shard"].(map[string]any)[member] = value })
}

func without(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, name))) }
}

// launder turns what failed into what passed.
func launder(v map[string]any) {
	for _, list := range []string{"rows", "requirements"} {
		rows, _ := v[list].([]any)
		for _, row := range rows {
			if r := row.(map[string]any); r["result"] == "executed-fail" {
				r["result"] = "executed-pass"
				delete(r, "detail")
			}
		}
	}
}

func inShardAdd(scenarios ...any) func(*testing.T, string) {
	return inFile(report.ResultsFile, func(v map[string]any) {
		shard := v["shard"].(map[string]any)
		shard["scenarios"] = append(shard["scenarios"].([]any), scenarios...)
	})
}

// reseal changes the rows of a part and signs it anew, which a verifier by itself cannot see.
func reseal(t *testing.T, dir string, change func([]bundle.Row) []bundle.Row) []bundle.Row {
	b := sealed(t, dir)
	made, err := bundle.Build(bundle.Input{Suite: b.Suite, Host: b.Host, DiscoveryURL: b.Discovery.URL, Discovery: b.Discovery.Document, Rows: change(b.Results.Requirements)})
	require.NoError(t, err)
	key, err := bundle.NewEphemeralKey()
	require.NoError(t, err)
	require.NoError(t, bundle.Sign(made, key))
	data, err := bundle.Encode(made)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, report.BundleFile), data, 0o600))
	inFile(report.ResultsFile, func(v map[string]any) { v["rows"] = made.Results.Requirements })(t, dir)
	return made.Results.Requirements
}

// dropScenario takes a failing scenario out of a part altogether.
func dropScenario(t *testing.T, dir string) {
	gone := ""
	reseal(t, dir, func(rows []bundle.Row) []bundle.Row {
		for _, row := range rows {
			if row.Result == bundle.ExecutedFail {
				gone = row.Scenario
			}
		}
		return slices.DeleteFunc(rows, func(row bundle.Row) bool { return row.Scenario == gone })
	})
	inFile(report.ResultsFile, func(v map[string]any) {
		v["failures"], v["tests"] = []any{}, []any{}
		shard := v["shard"].(map[string]any)
		shard["scenarios"] = slices.DeleteFunc(shard["scenarios"].([]any), func(id any) bool { return id == gone })
	})(t, dir)
}

func dropRow(kind string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		reseal(t, dir, func(rows []bundle.Row) []bundle.Row {
			i := slices.IndexFunc(rows, func(row bundle.Row) bool {
				return strings.HasPrefix(row.ID, kind) && row.Result == bundle.ExecutedPass
			})
			return slices.Delete(rows, i, i+1)
		})
	}
}

func addRow(t *testing.T, dir string) {
	reseal(t, dir, func(rows []bundle.Row) []bundle.Row {
		return append(rows, bundle.Row{ID: "openwop.requirement.0000.invented", Scenario: rows[0].Scenario, Result: bundle.ExecutedPass, Assertions: 1})
	})
}
