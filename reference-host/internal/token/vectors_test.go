package token

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestVectors opens the published tokens: what the vectors say of a token itself is what comes out. What has become of
// an interrupt is the host's to know.
func TestVectors(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "vectors", "tokens", "cases.json"))
	require.NoError(t, err)
	var file struct {
		Now     time.Time `json:"now"`
		Secrets []struct {
			KeyID string `json:"kid"`
			Hex   string `json:"secretHex"`
		} `json:"secrets"`
		Cases []struct {
			ID      string `json:"id"`
			Token   string `json:"token"`
			Inspect struct {
				Status int `json:"status"`
			} `json:"inspect"`
			Resolve struct {
				Status int `json:"status"`
			} `json:"resolve"`
		} `json:"cases"`
	}
	require.NoError(t, json.Unmarshal(data, &file))
	require.NotEmpty(t, file.Cases)
	var secrets []Secret
	for _, s := range file.Secrets {
		value, err := hex.DecodeString(s.Hex)
		require.NoError(t, err)
		secrets = append(secrets, Secret{s.KeyID, value})
	}
	r := ring(t, secrets...)
	for _, c := range file.Cases {
		claims, err := r.Open(c.Token)
		if c.Inspect.Status == http.StatusUnauthorized {
			assert.ErrorIs(t, err, ErrInvalid, c.ID)
			continue
		}
		if !assert.NoError(t, err, c.ID) {
			continue
		}
		assert.Equal(t, c.Inspect.Status == http.StatusGone, claims.Expired(file.Now), c.ID)
		if c.Resolve.Status == http.StatusForbidden {
			assert.Equal(t, Inspect, claims.Intent, c.ID)
		}
	}
}
