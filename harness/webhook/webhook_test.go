package webhook

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is accepted and refused is in vectors/webhooks; here is what signing and
// verifying have to do with each other.
func TestSignedIsVerified(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	timestamp, body := strconv.FormatInt(now.Unix(), 10), []byte("{}\n")
	const secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
	entry, err := SignStandard(secret, "message-0123456789", timestamp, body)
	require.NoError(t, err)
	h := http.Header{}
	for i, value := range []string{"t/x", "run.completed", timestamp, Sign(secret, timestamp, body), "v1"} {
		h.Set(Headers()[i], value)
	}
	h.Set(StandardID, "message-0123456789")
	h.Set(StandardTimestamp, timestamp)
	h.Set(StandardSignature, entry)
	assert.NoError(t, Verify(h, body, secret, now))
	assert.NoError(t, VerifyStandard(h, body, secret, now))
	for i := range body {
		other := append([]byte(nil), body...)
		other[i] ^= 1
		assert.ErrorIs(t, Verify(h, other, secret, now), WrongSignature)
		assert.ErrorIs(t, VerifyStandard(h, other, secret, now), WrongSignature)
	}
	old := http.Header{}
	for _, name := range Headers() {
		old.Set(V1Name(name), h.Get(name))
	}
	assert.NoError(t, Verify(old, body, secret, now))
	for _, name := range Headers() {
		missing := old.Clone()
		missing.Del(V1Name(name))
		assert.ErrorIs(t, Verify(missing, body, secret, now), MissingHeader, name)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	_, err := SignStandard("plain", "id", "1", nil)
	assert.ErrorIs(t, err, MalformedSecret)
	for _, bad := range []string{"", "whsec_", "whsec_!!", "WHSEC_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="} {
		_, err := Key(bad)
		assert.ErrorIs(t, err, MalformedSecret, bad)
	}
	assert.False(t, SameSignature("sha256=", "sha256="))
	assert.False(t, SameSignature("", ""))
}
