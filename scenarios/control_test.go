package scenarios

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/harness"
	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
)

// TestControlOfOtherHosts holds hosts that differ in what they advertise or in
// how they answer to the scenarios that bind only then.
func TestControlOfOtherHosts(t *testing.T) {
	t.Parallel()
	families := func(f map[string]map[string]any) func(*referencehost.Config) {
		return func(c *referencehost.Config) { c.Families = f }
	}
	replay := map[string]any{"modes": []any{"replay", "branch"}, "effectSeamsManifest": "/host/effect-seams"}
	for name, host := range map[string]struct {
		change    func(*referencehost.Config)
		scenarios []harness.Scenario
	}{
		"replay": {families(map[string]map[string]any{"replay": replay}),
			[]harness.Scenario{runForkRefusals(), runForkPrefix(), forkChild(), annotations()}},
		"replay alone": {families(map[string]map[string]any{"replay": {"modes": []any{"replay"}, "effectSeamsManifest": "/host/effect-seams"}}),
			[]harness.Scenario{runForkRefusals(), runForkPrefix(), forkChild()}},
		"branch alone": {families(map[string]map[string]any{"replay": {"modes": []any{"branch"}, "effectSeamsManifest": "/host/effect-seams"}}),
			[]harness.Scenario{runForkRefusals(), runForkPrefix(), forkChild()}},
		"ancestry": {families(map[string]map[string]any{"multiAgent": {"executionModel": map[string]any{"version": 1,
			"crossHostCausation": map[string]any{"hostId": "wopcert-host-a", "ancestryEndpointSupported": true}}}}),
			[]harness.Scenario{runAncestry()}},
		"small pages": {func(c *referencehost.Config) { c.Limits.MaxPageSize = 2 }, []harness.Scenario{runList(), runListPages()}},
		"gzip":        {func(c *referencehost.Config) { c.Wrap = append(c.Wrap, tamper.Gzip(tamper.Any)) }, []harness.Scenario{responseEncoding()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, err := referencehost.DefaultConfig()
			require.NoError(t, err)
			host.change(&config)
			for _, row := range certified(t, config, host.scenarios).Rows {
				assert.Equal(t, bundle.ExecutedPass, row.Result, "%s: %s", row.ID, row.Detail)
			}
		})
	}
}
