package variants

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

func TestEveryVariantIsAHost(t *testing.T) {
	t.Parallel()
	for _, v := range All() {
		if v.Decorate == nil {
			continue
		}
		config, err := referencehost.DefaultConfig()
		require.NoError(t, err)
		v.Decorate(&config)
		host, err := referencehost.New(config)
		if assert.NoError(t, err, v.ID) {
			assert.NoError(t, host.Close())
		}
	}
}
