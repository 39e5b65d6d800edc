package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/faults"
	"wopcert/report"
)

// A part of a run that cannot be is a wrong command line.
func TestShardCommandLine(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "results.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"tests":[]}`), 0o600))
	for _, c := range []struct{ args, want string }{
		{"--shard 3", "not I/N"},
		{"--shard=", "not I/N"},
		{"--shard 0/2", "the parts are 1 to 2"},
		{"--shard 3/2", "the parts are 1 to 2"},
		{"--shard 1/0", "at least one part"},
		{"--shard 1/3 --scenario v2-run-list*", "3 parts of 2 scenarios"},
		{"--shard 1/100000", "some would be empty"},
		{"--shard-costs " + file, "there is no --shard"},
		{"--shard 1/2 --shard-costs " + file, "holds no tests"},
		{"--shard 1/2 --shard-costs " + file + ".none", "cannot be read"},
	} {
		r := command(t, append([]string{"certify", "--host", "http://127.0.0.1:1", "--out", filepath.Join(t.TempDir(), "out")}, strings.Fields(c.args)...)...)
		assert.Equal(t, exitUsage, r.code, "%s: %s", c.args, r.err)
		assert.Contains(t, r.err, c.want, c.args)
		assert.Empty(t, r.out)
	}
	for _, c := range []struct{ args, want string }{
		{"merge", "at least 1 arg"},
		{"merge x --out=", "names no directory"},
		{"merge x --profile openwop-nothing", "no profile"},
		{"merge x --key-id k", "no signing key"},
		{"merge x --fail-on never", "no level"},
	} {
		r := command(t, strings.Fields(c.args)...)
		assert.Equal(t, exitUsage, r.code, "%s: %s", c.args, r.err)
		assert.Contains(t, r.err, c.want, c.args)
	}
}

// Exit codes and words of parts and of what is made of them.
func TestMergeCommand(t *testing.T) {
	fault, ok := faults.Get("list-cursor-ignored")
	require.True(t, ok)
	host, keys := startHost(t, func(c *referencehost.Config) { change(c, fault.Decorate, fault.Wrap) })
	t.Setenv(envAPIKey, keys[referencehost.KeyTenantA])
	t.Setenv(envOtherTenantKey, keys[referencehost.KeyTenantB])
	t.Setenv(envReadOnlyKey, keys[referencehost.KeyReadOnly])
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	certify := func(out string, args ...string) result {
		return command(t, append([]string{"certify", "--host", host.URL(), "--out", at(out), "--scenario", "v2-run-list", "--scenario", "v2-run-cancel"}, args...)...)
	}
	one, two := certify("1", "--shard", "1/2"), certify("2", "--shard", "2/2")
	assert.ElementsMatch(t, []int{exitYes, exitNo}, []int{one.code, two.code}, "one of them holds what fails")
	assert.Contains(t, one.out, "this is shard 1 of 2, with 1 scenarios")

	r := command(t, "merge", at("1"), at("2"), "--out", at("whole"))
	assert.Equal(t, exitNo, r.code, r.err)
	assert.Contains(t, r.out, "FAILED")
	assert.Contains(t, r.out, "0182.run-list.cursor-refused")
	assert.Contains(t, r.out, "merged from 2 shards")
	assert.Equal(t, exitNo, command(t, "verify", at("whole/bundle.json"), "--require", "openwop-discovery-core").code)

	r = command(t, "merge", at("2"), at("1"), "--out", at("json"), "--format", "json")
	assert.Equal(t, exitNo, r.code, r.err)
	assert.Equal(t, report.Failed, decode[report.Certification](t, r.out).Verdict)

	list := at("expected.yaml")
	require.NoError(t, os.WriteFile(list, []byte("- requirement: 0182.run-list.cursor-refused\n  reason: a test\n  until: 2999-01-01\n"), 0o600))
	r = command(t, "merge", at("1"), at("2"), "--out", at("expected"), "--expected-failures", list)
	assert.Equal(t, exitYes, r.code, r.out)

	r = command(t, "merge", at("1"), "--out", at("half"))
	assert.Equal(t, exitRejected, r.code)
	assert.Contains(t, r.err, "of 2 shards these are missing: 2")
	assert.NoDirExists(t, at("half"))
	r = command(t, "merge", at("1"), at("nothing"), "--out", at("half"))
	assert.Equal(t, exitUnknown, r.code)
	assert.Contains(t, r.err, "results.json cannot be read: no such file")
	r = command(t, "merge", at("1"), at("2"), "--out", at("whole"))
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.err, "already holds files")

	// Parts of another contract are merged under that one or not at all.
	contract := contractPackage(t, "2.43.2", nil)
	assert.Equal(t, exitNo, command(t, "certify", "--host", host.URL(), "--out", at("old"), "--scenario", "v2-run-list", "--shard", "1/1", "--corpus", contract).code)
	r = command(t, "merge", at("old"), "--out", at("half"))
	assert.Equal(t, exitRejected, r.code)
	assert.Contains(t, r.err, "was made with the suite wopcert 0.1.0+2.43.2")
	r = command(t, "merge", at("old"), "--out", at("of-old"), "--corpus", contract)
	assert.Equal(t, exitNo, r.code, r.err)
	assert.Equal(t, 1, strings.Count(r.out, "--corpus "+contract), "%s", r.out)

	// Divided by other costs, the parts would not be those of one division.
	assert.Contains(t, []int{exitYes, exitNo}, certify("3", "--shard", "2/2", "--shard-costs", at("whole/results.json")).code)
	r = command(t, "merge", at("1"), at("3"), "--out", at("half"))
	assert.Equal(t, exitRejected, r.code)
	assert.Contains(t, r.err, "differ in the costs")
}
