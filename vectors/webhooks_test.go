package vectors

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"wopcert/harness/webhook"
	"wopcert/vectors/internal/vectorset"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWebhooks(t *testing.T) {
	t.Parallel()
	cases := load[vectorset.WebhookFile](t, "webhooks/cases.json").Cases
	require.NotEmpty(t, cases)
	for _, c := range cases {
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			for name, value := range c.Headers {
				h.Set(name, value)
			}
			verify := webhook.Verify
			if c.Scheme != "v1" {
				require.Equal(t, "standard-webhooks-1", c.Scheme)
				verify = webhook.VerifyStandard
			}
			err := verify(h, unbase64(t, c.BodyBase64), c.Secret, time.Unix(c.Now, 0))
			assert.Equal(t, c.Accepted, err == nil, c.Description)
			if !c.Accepted {
				var why webhook.Refusal
				require.True(t, errors.As(err, &why))
				assert.Equal(t, c.Reason, string(why))
			}
		})
	}
}
