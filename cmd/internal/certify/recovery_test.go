package certify

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/cmd/internal/supervised"
	"wopcert/corpus"
	"wopcert/harness"
	"wopcert/internal/testnet"
	referencehost "wopcert/reference-host"
	"wopcert/report"
	"wopcert/requirements"
	"wopcert/scenarios"
)

// TestMain lets the test program be the host that a certification starts: it is this
// program's own file.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervised.Command {
		if err := supervised.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "declared.json")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestReadRecovery(t *testing.T) {
	t.Parallel()
	const bounds = `"recoveryBounds":[{"class":"a","bound":3,"terms":[{"name":"x","ms":1},{"name":"y","ms":2}]},{"class":"b","bound":9,"terms":[{"name":"z","ms":9}]}]`
	r, err := ReadRecovery(file(t, `{`+bounds+`,"maxAttempts":3,"classes":{"killDuringExecution":"b"}}`))
	require.NoError(t, err)
	assert.Equal(t, &harness.Recovery{MaxAttempts: 3, DuringExecution: "b", Bounds: []bundle.RecoveryBound{
		{Class: "a", Bound: 3, Terms: []bundle.BoundTerm{{Name: "x", MS: 1}, {Name: "y", MS: 2}}},
		{Class: "b", Bound: 9, Terms: []bundle.BoundTerm{{Name: "z", MS: 9}}},
	}}, r)
	for text, contains := range map[string]string{
		``: "EOF", `[]`: "cannot unmarshal", `{}`: `no bound of class ""`, `{` + bounds + `}x`: "text after",
		`{` + bounds + `,"classes":{"killAfterAccept":"c"}}`: `no bound of class "c"`, `{` + bounds + `,"maxAttempts":-1}`: "negative",
		`{"recoverybounds":[],"more":1}`: "unknown field", `{` + bounds + `} {}`: "text after",
	} {
		_, err := ReadRecovery(file(t, text))
		var config *ConfigError
		require.ErrorAs(t, err, &config, text)
		assert.Contains(t, config.Text, contains, text)
	}
	_, err = ReadRecovery(filepath.Join(t.TempDir(), "none.json"))
	require.ErrorContains(t, err, "no such file")
	_, err = ReadRecovery(t.TempDir())
	require.Error(t, err)
}

func TestReadRelaxations(t *testing.T) {
	t.Parallel()
	list, err := ReadRelaxations(file(t, `[{"obligation":"webhooks.egress-guard","durability":"persisted","reason":"an appliance"}]`))
	require.NoError(t, err)
	assert.Equal(t, []bundle.Relaxation{{Obligation: "webhooks.egress-guard", Durability: "persisted", Reason: "an appliance"}}, list)
	for text, contains := range map[string]string{
		`[]`: "declares nothing", `{}`: "cannot unmarshal", `[{"obligation":"a","durability":"session"}]`: "without an obligation or a reason",
		`[{"obligation":"a","durability":"permanent","reason":"r"}]`: "not session, deployment or persisted", `[{"obligation":"a","durability":"session","reason":"r","x":1}]`: "unknown field",
	} {
		_, err := ReadRelaxations(file(t, text))
		require.ErrorContains(t, err, contains, text)
	}
}

func TestShellCommand(t *testing.T) {
	t.Parallel()
	output, err := os.CreateTemp(t.TempDir(), "output")
	require.NoError(t, err)
	defer output.Close()
	require.NoError(t, ShellCommand("echo to the operator", output)(t.Context()))
	require.ErrorContains(t, ShellCommand("exit 7", output)(t.Context()), "exit status 7")
	began := time.Now()
	require.NoError(t, ShellCommand("sleep 2 & true", output)(t.Context()), "what is left in the background is not waited for")
	assert.Less(t, time.Since(began), 1500*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, ShellCommand("sleep 5", output)(ctx), "did not end in time")
	said, err := os.ReadFile(output.Name())
	require.NoError(t, err)
	assert.Equal(t, "to the operator\n", string(said))
}

// chosen are the scenarios that match a pattern.
func chosen(t *testing.T, contract *corpus.Corpus, patterns ...string) ([]harness.Scenario, Selection) {
	t.Helper()
	s := Selection{Scenarios: patterns}
	list, err := s.Apply(scenarios.All(), contract)
	require.NoError(t, err)
	return list, s
}

func sealed(t *testing.T, out string) *bundle.Bundle {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(out, "bundle.json"))
	require.NoError(t, err)
	var b bundle.Bundle
	require.NoError(t, json.Unmarshal(data, &b))
	return &b
}

// The bundled host is killed and comes back, and its bundle claims the rung that the
// rows derive.
func TestReferenceHostRecovers(t *testing.T) {
	t.Parallel()
	contract, err := corpus.Load()
	require.NoError(t, err)
	out := filepath.Join(t.TempDir(), "evidence")
	list, selection := chosen(t, contract, "v2-durability-recovery")
	c, err := Run(t.Context(), Request{Corpus: contract, ReferenceHost: true, Scenarios: list, Selection: selection, Out: out})
	require.NoError(t, err)
	require.Equal(t, report.Passed, c.Verdict, "%v %v", c.Failures, c.Blocked)
	require.Equal(t, &report.Durability{Rung: bundle.RungSingleInstance, Why: []string{}}, c.Durability)
	b := sealed(t, out)
	require.Equal(t, &bundle.Durability{Rung: bundle.RungSingleInstance}, b.Durability)
	assert.Empty(t, b.Host.Relaxations, "the bundled host runs under none")
	for _, row := range b.Results.Requirements {
		switch row.ID {
		case "openwop.requirement.0158.kill-after-accept", "openwop.requirement.0158.kill-during-execution":
			require.NotNil(t, row.Evidence, row.ID)
			assert.Positive(t, row.Evidence.Recovery.ObservedMS)
		}
	}
}

// What an operator declares is recorded, denies the profiles it belongs to, and fails
// the row of a surface that is advertised nevertheless.
func TestDeclaredRelaxationsAreRecorded(t *testing.T) {
	t.Parallel()
	contract, err := corpus.Load()
	require.NoError(t, err)
	config, err := referencehost.DefaultConfig()
	require.NoError(t, err)
	host, err := referencehost.Listen(t.Context(), "127.0.0.1:0", config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, host.Close()) })
	out := filepath.Join(t.TempDir(), "evidence")
	declared := []bundle.Relaxation{{Obligation: "webhooks.egress-guard", Durability: "deployment", Reason: "a test"}}
	list, selection := chosen(t, contract, "v2-relaxation-recorded", "v2-era-key")
	c, err := Run(t.Context(), Request{Corpus: contract, HostURL: host.URL(), Scenarios: list, Selection: selection, Out: out,
		Credentials: testnet.Credentials(config), Relaxations: declared})
	require.NoError(t, err)
	assert.Equal(t, report.Failed, c.Verdict)
	require.Len(t, c.Failures, 1)
	assert.Equal(t, requirements.SecurityDefaultsRelaxedSurfaceUnadvertised, c.Failures[0].Requirement)
	assert.Equal(t, declared, c.Relaxations)
	assert.Nil(t, c.Durability, "nobody claims any")
	b := sealed(t, out)
	assert.Equal(t, declared, b.Host.Relaxations)
	assert.Nil(t, b.Durability)
	for _, p := range c.Profiles {
		relaxed := slices.ContainsFunc(p.Why, func(why string) bool { return strings.Contains(why, "webhooks.egress-guard") })
		assert.Equal(t, p.ID == "openwop-core-standard", relaxed, p.ID)
	}
}
