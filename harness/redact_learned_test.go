package harness

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A secret that a host makes is known from the moment it hands it over.
func TestHostMadeSecrets(t *testing.T) {
	t.Parallel()
	r := newRedactor(map[string]string{"key": "a-key-of-the-run"})
	made := "k4/Zq+made-by-the-host"
	text, _ := r.body([]byte(`{"webhookId":"t/x","secret" : "k4\/Zq+made-by-the-host"}`))
	assert.Equal(t, `{"webhookId":"t/x","secret" : "[redacted:host-made-secret]"}`, text)
	for _, later := range []string{"X: " + made, `{"a":"k4/Zq+made-by-the-host"}`, strings.ToUpper(made)} {
		assert.NotContains(t, strings.ToLower(r.text(later)), "made-by-the-host", later)
	}
	text, _ = r.body([]byte(`{"secret":"a-key-of-the-run"}`))
	assert.Contains(t, text, "[redacted:key]")
	for _, plain := range []string{`{"secret":true}`, `{"secret":"short"}`, `{"secrets":"long enough to be one"}`} {
		text, _ = r.body([]byte(plain))
		assert.Equal(t, plain, text)
	}
}
