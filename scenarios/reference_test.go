package scenarios

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/harness"
	"wopcert/harness/receiver"
	"wopcert/internal/testnet"
	referencehost "wopcert/reference-host"
)

// certified runs scenarios against a host of the given configuration, with the
// credentials of two tenants, of a reader and of a production client.
func certified(t *testing.T, config referencehost.Config, scenarios []harness.Scenario) *harness.Results {
	t.Helper()
	target, err := receiver.Start(*testnet.Config())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, target.Close()) })
	testnet.Connect(&config, target)
	server, err := referencehost.Listen(t.Context(), referencehost.DefaultAddr, config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	results, err := harness.Run(ctx, harness.Options{
		BaseURL:     server.URL(),
		Credentials: testnet.Credentials(config), Approver: testnet.Approvers(config),
		Corpus:    contract(t),
		Scenarios: scenarios,
		Receiver:  harness.Receiver{Server: target, Trusted: true},
	})
	require.NoError(t, err)
	assert.Empty(t, results.SuiteFaults)
	assert.False(t, results.Interrupted)
	return results
}

// TestReferenceHost holds the reference host to every scenario: nothing fails,
// and nothing is left unobserved for want of something the suite lacks.
func TestReferenceHost(t *testing.T) {
	t.Parallel()
	config, err := referencehost.DefaultConfig()
	require.NoError(t, err)
	config.Seams = true
	results := certified(t, config, All())
	for _, row := range results.Rows {
		if row.Result == bundle.ExecutedFail || row.Result == bundle.Blocked {
			t.Errorf("%s %s: %s", row.Result, row.ID, row.Detail)
		}
	}
	t.Logf("%d rows in %s, longest test %s", len(results.Rows), results.Duration.Round(time.Millisecond), results.Longest.Round(time.Millisecond))
	for _, row := range results.Rows {
		if row.Result == bundle.Inapplicable || row.Detail != "" {
			t.Logf("%s %s: %s", row.Result, row.ID, row.Detail)
		}
	}
}

// TestMinClientVersion is for the legs a host without minClientVersion leaves
// out.
func TestMinClientVersion(t *testing.T) {
	t.Parallel()
	config, err := referencehost.DefaultConfig()
	require.NoError(t, err)
	config.MinClientVersion = "2.0"
	for _, row := range certified(t, config, []harness.Scenario{minClientVersion()}).Rows {
		assert.Equal(t, bundle.ExecutedPass, row.Result, "%s: %s", row.ID, row.Detail)
		assert.Empty(t, row.Detail, row.ID)
	}
}

// TestWithoutFixtures: a host that lists no workflow still has a discovery
// document to judge, and the rest says what to supply.
func TestWithoutFixtures(t *testing.T) {
	t.Parallel()
	config, err := referencehost.DefaultConfig()
	require.NoError(t, err)
	config.Unlisted, config.Fixtures = config.Fixtures, nil
	passed := 0
	for _, row := range certified(t, config, All()).Rows {
		switch row.Result {
		case bundle.ExecutedFail:
			t.Errorf("%s: %s", row.ID, row.Detail)
		case bundle.ExecutedPass:
			passed++
		case bundle.Blocked:
			assert.Contains(t, row.Detail, "fixture", row.ID)
		}
	}
	assert.NotZero(t, passed)
}

// TestWithoutOtherCredentials: rules that need another tenant are blocked and
// name the credential.
func TestWithoutOtherCredentials(t *testing.T) {
	t.Parallel()
	config, err := referencehost.DefaultConfig()
	require.NoError(t, err)
	server, err := referencehost.Listen(t.Context(), referencehost.DefaultAddr, config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	results, err := harness.Run(t.Context(), harness.Options{
		BaseURL:     server.URL(),
		Credentials: harness.Credentials{Primary: server.Key(referencehost.KeyTenantA)},
		Corpus:      contract(t),
		Scenarios:   []harness.Scenario{idGrammar()},
	})
	require.NoError(t, err)
	for _, row := range results.Rows {
		switch {
		case strings.HasSuffix(row.ID, "id-grammar.tenant-binding"), strings.HasPrefix(row.ID, "openwop.scenario."):
			assert.Equal(t, bundle.Blocked, row.Result, row.ID)
			assert.Contains(t, row.Detail, "--other-tenant-key-env", row.ID)
		default:
			assert.Equal(t, bundle.ExecutedPass, row.Result, "%s: %s", row.ID, row.Detail)
		}
	}
}
