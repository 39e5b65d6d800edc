package webhook

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"wopcert/bundle/jcs"
	"wopcert/reference-host/internal/engine"
)

// ErrUnverified is returned when an endpoint did not consent.
var ErrUnverified = errors.New("the endpoint did not answer the challenge")

// verificationTimeout is how long an endpoint may take to consent (webhooks.md §Standard Webhooks).
const verificationTimeout = 10 * time.Second

type challenge struct {
	Type      string `json:"type"`
	Challenge string `json:"challenge"`
}

// VerifyEndpoint asks the endpoint once whether it wants the deliveries of a subscription that opts into Standard
// Webhooks. It returns ErrUnverified unless a 2xx comes in time whose JSON repeats the challenge. The request is no
// delivery and carries none of the headers that mark one.
func (d *Dispatcher) VerifyEndpoint(ctx context.Context, tenantID, address, secret string) error {
	ctx, cancel := context.WithTimeout(ctx, verificationTimeout)
	defer cancel()
	var random [48]byte
	_, _ = rand.Read(random[:]) // never fails
	asked := challenge{Type: "openwop.webhook.verification", Challenge: base64.RawURLEncoding.EncodeToString(random[:32])}
	body, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	standardHeader(header, hex.EncodeToString(random[32:]), strconv.FormatInt(d.clock.Now().Unix(), 10), body, secret)
	outcome, err := d.config.Sender.Send(ctx, engine.Effect{Tenant: tenantID, Method: http.MethodPost, URL: address, Header: header, Body: body})
	if err != nil || outcome.Status < 200 || outcome.Status > 299 {
		return ErrUnverified
	}
	value, err := jcs.Decode(outcome.Body)
	if err != nil {
		return ErrUnverified
	}
	if answered, _ := value.(map[string]any); answered["challenge"] != asked.Challenge {
		return ErrUnverified
	}
	return nil
}
