package vectors

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"wopcert/corpus"
	"wopcert/vectors/internal/vectorset"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// opened is what a token says, read by the rules of the README and nothing
// else.
type opened struct {
	InterruptID string    `json:"interruptId"`
	RunID       string    `json:"runId"`
	NodeID      string    `json:"nodeId"`
	ExpiresAt   time.Time `json:"expiresAt"`
	Intent      string    `json:"intent"`
}

func openToken(file vectorset.TokenFile, token string) (opened, bool) {
	kid, rest := "legacy", token
	if after, ok := strings.CutPrefix(token, "ow2."); ok {
		parts := strings.Split(after, ".")
		if len(parts) < 4 || !slices.Contains(file.Algs, parts[0]) {
			return opened{}, false
		}
		kid, rest = strings.Join(parts[1:len(parts)-2], "."), strings.Join(parts[len(parts)-2:], ".")
	}
	payload, mac, two := strings.Cut(rest, ".")
	text, err := base64.RawURLEncoding.DecodeString(payload)
	given, macErr := base64.RawURLEncoding.DecodeString(mac)
	if !two || err != nil || macErr != nil {
		return opened{}, false
	}
	for _, s := range file.Secrets {
		secret, _ := hex.DecodeString(s.SecretHex)
		sum := hmac.New(sha256.New, secret)
		sum.Write(text)
		if s.KeyID == kid && hmac.Equal(sum.Sum(nil), given) {
			var c opened
			return c, json.Unmarshal(text, &c) == nil
		}
	}
	return opened{}, false
}

func answer(file vectorset.TokenFile, token string) (inspect, resolve vectorset.TokenAnswer) {
	c, ok := openToken(file, token)
	both := func(status int, code string) (vectorset.TokenAnswer, vectorset.TokenAnswer) {
		return vectorset.TokenAnswer{Status: status, Code: code}, vectorset.TokenAnswer{Status: status, Code: code}
	}
	switch {
	case !ok:
		return both(401, "interrupt_token_invalid")
	case !file.Now.Before(c.ExpiresAt):
		return both(410, "interrupt_expired")
	}
	for _, i := range file.Interrupts {
		if i.RunID != c.RunID || i.NodeID != c.NodeID || i.InterruptID != c.InterruptID {
			continue
		}
		if i.State != "pending" {
			return both(409, "interrupt_already_resolved")
		}
		if c.Intent == "inspect" {
			return vectorset.TokenAnswer{Status: 200}, vectorset.TokenAnswer{Status: 403}
		}
		return both(200, "")
	}
	return both(404, "not_found")
}

func TestTokens(t *testing.T) {
	t.Parallel()
	contract, err := corpus.Load()
	require.NoError(t, err)
	file := load[vectorset.TokenFile](t, "tokens/cases.json")
	require.NotEmpty(t, file.Cases)
	ids := map[string]bool{}
	for _, c := range file.Cases {
		assert.False(t, ids[c.ID], c.ID)
		ids[c.ID] = true
		inspect, resolve := answer(file, c.Token)
		assert.Equal(t, c.Inspect, inspect, c.ID)
		assert.Equal(t, c.Resolve, resolve, c.ID)
		for _, a := range []vectorset.TokenAnswer{c.Inspect, c.Resolve} {
			if row, ok := contract.Error(a.Code); a.Code != "" && assert.True(t, ok, a.Code) {
				assert.Equal(t, row.HTTPStatus, a.Status, c.ID)
			}
		}
	}
	for _, s := range file.Secrets {
		sum := sha256.Sum256([]byte(s.Label))
		assert.Equal(t, hex.EncodeToString(sum[:]), s.SecretHex)
		assert.Contains(t, s.Label, "TEST-ONLY")
		assert.NoError(t, contract.ValidateValue("ids#/$defs/keyId", any(s.KeyID)))
	}
	for _, i := range file.Interrupts {
		assert.NoError(t, contract.ValidateValue("ids#/$defs/runId", any(i.RunID)))
		assert.NoError(t, contract.ValidateValue("ids#/$defs/interruptId", any(i.InterruptID)))
	}
}
