package scenarios

import (
	"slices"
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
	"wopcert/requirements"
)

// promised are the requirements that a discovery document which promises everything
// holds by itself, beside those that any does: they speak of nothing but facets.
func promised() []requirements.ID {
	return []requirements.ID{
		// The records have their fields, and their maturity is stated as it has to be.
		requirements.R0169CapabilityRecordShapeRequiredFields,
		requirements.R0169CapabilityRecordShapeUntilIffNotStable,
		requirements.R0169CapabilityRecordShapeUntilNotPast,
		// protocolVersion repeats preferredVersion.
		requirements.VersioningSingleMajorTwin,
		// Facets that have to be there, or to list what they have to.
		requirements.R0173EffectSeamManifestFacet,
		requirements.R0176V1SignedWebhookAcceptedFacet,
		requirements.SecurityDefaultsCompensationOrderingModels,
	}
}

// TestHostsThatPromiseEverything: a host that serves the discovery document of the
// reference host, and for everything else knows nothing, passes only what the
// document itself holds. No gate shields it.
func TestHostsThatPromiseEverything(t *testing.T) {
	t.Parallel()
	c := contract(t)
	config, err := referencehost.DefaultConfig()
	require.NoError(t, err)
	config.Seams = true
	server, err := referencehost.Listen(t.Context(), referencehost.DefaultAddr, config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	document, err := harness.Discover(t.Context(), server.URL())
	require.NoError(t, err)
	target, err := receiver.Start(*testnet.Config())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, target.Close()) })
	for name, handler := range knowsNothing() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results, err := harness.Run(t.Context(), harness.Options{
				BaseURL: claiming(t, document.Raw, handler).URL, Corpus: c, Scenarios: All(), Timeout: time.Second, Parallel: 128,
				Credentials: testnet.Credentials(config), Approver: testnet.Approvers(config),
				Receiver: harness.Receiver{Server: target, Trusted: true},
			})
			require.NoError(t, err)
			assert.Empty(t, results.SuiteFaults)
			for _, row := range results.Rows {
				id := requirements.ID(row.ID)
				if row.Result != bundle.ExecutedPass || !strings.HasPrefix(row.ID, "openwop.requirement.") || slices.Contains(excused(name), id) {
					continue
				}
				assert.True(t, slices.Contains(established(), id) || slices.Contains(promised(), id), "%s passes: %d assertions %s", row.ID, row.Assertions, row.Detail)
			}
		})
	}
}
