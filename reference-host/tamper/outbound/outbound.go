// Package outbound changes what leaves a host towards its webhooks, without the host knowing: package tamper does the
// same for what it answers.
package outbound

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
)

// Decorator changes what a host is made of.
type Decorator = func(*referencehost.Config)

// Courier sends something in the host's stead, by next or otherwise.
type Courier func(ctx context.Context, e referencehost.Effect, next referencehost.Sender) (*referencehost.Outcome, error)

type sender struct {
	next referencehost.Sender
	send Courier
}

// Send implements referencehost.Sender.
func (s sender) Send(ctx context.Context, e referencehost.Effect) (*referencehost.Outcome, error) {
	return s.send(ctx, e, s.next)
}

// Leaving puts a courier where everything leaves the host.
func Leaving(send Courier) Decorator {
	return func(c *referencehost.Config) {
		c.WrapSender = append(c.WrapSender, func(next referencehost.Sender) referencehost.Sender { return sender{next, send} })
	}
}

// Hook is a subscription as the host keeps it.
type Hook struct {
	ID, Tenant, URL  string
	Events, Tags     []string
	Standard         bool
	Secret, Previous string
	PreviousUntil    time.Time
}

// HookOf reads a subscription; one that is gone has no ID.
func HookOf(ctx context.Context, store referencehost.Store, id string) (h Hook) {
	row, err := store.Get(context.WithoutCancel(ctx), "webhooks", id)
	if err == nil {
		_ = json.Unmarshal(row, &h) // what is not one has no members
	}
	return h
}

// Post is one attempt of a delivery on its way out. Its headers are its own.
type Post struct {
	referencehost.Effect
	Hook Hook
}

// Postman sends an attempt in the host's stead.
type Postman func(ctx context.Context, p *Post, next referencehost.Sender) (*referencehost.Outcome, error)

// Carrying puts a postman in front of every attempt of a delivery.
func Carrying(send Postman) Decorator {
	return func(c *referencehost.Config) {
		store := c.Store
		Leaving(func(ctx context.Context, e referencehost.Effect, next referencehost.Sender) (*referencehost.Outcome, error) {
			id := e.Header.Get("OpenWOP-Webhook-Id")
			if id == "" {
				return next.Send(ctx, e)
			}
			e.Header = e.Header.Clone()
			return send(ctx, &Post{Effect: e, Hook: HookOf(ctx, store, id)}, next)
		})(c)
	}
}

// Delivering edits every attempt of a delivery.
func Delivering(edit func(p *Post)) Decorator {
	return Carrying(func(ctx context.Context, p *Post, next referencehost.Sender) (*referencehost.Outcome, error) {
		edit(p)
		return next.Send(ctx, p.Effect)
	})
}

// Answered edits what the host makes of the answer to an attempt. The outcome is nil when there was none.
func Answered(edit func(p *Post, o *referencehost.Outcome) *referencehost.Outcome) Decorator {
	return Carrying(func(ctx context.Context, p *Post, next referencehost.Sender) (*referencehost.Outcome, error) {
		o, err := next.Send(ctx, p.Effect)
		if edited := edit(p, o); edited != o {
			return edited, nil
		}
		return o, err
	})
}

// Taken is the outcome of an attempt that was accepted.
func Taken() *referencehost.Outcome { return &referencehost.Outcome{Status: http.StatusNoContent} }

// EditBody edits the body as JSON, and signs the attempt anew.
func (p *Post) EditBody(edit func(doc map[string]any)) {
	doc, ok := tamper.Decode(p.Body).(map[string]any)
	if !ok {
		return
	}
	edit(doc)
	p.Body = tamper.Encode(doc)
	p.Sign()
}

// EditEvent edits the event, and signs the attempt anew.
func (p *Post) EditEvent(edit func(event map[string]any)) {
	p.EditBody(func(doc map[string]any) {
		if event, ok := doc["event"].(map[string]any); ok {
			edit(event)
		}
	})
}

// Secrets are the one that signs and, during the overlap after a rotation, the one before it, else "".
func (p *Post) Secrets() (current, previous string) {
	if p.Hook.Previous != "" && time.Now().Before(p.Hook.PreviousUntil) {
		return p.Hook.Secret, p.Hook.Previous
	}
	return p.Hook.Secret, ""
}

// Sign signs an attempt the way the host does.
func (p *Post) Sign() {
	current, previous := p.Secrets()
	p.SignStandard(current, previous)
	if previous != "" {
		current = previous
	}
	p.SignV1(current)
}

// SignV1 sets the v1 signature.
func (p *Post) SignV1(secret string) {
	p.Header.Set("OpenWOP-Signature", V1(secret, p.Header.Get("OpenWOP-Timestamp")+"."+string(p.Body)))
}

// SignStandard sets the signature of a subscription that opted into Standard Webhooks; empty secrets are left out.
func (p *Post) SignStandard(secrets ...string) {
	p.EnterStandard(func(secret string) string {
		return StandardEntry(secret, p.Header.Get("webhook-id")+"."+p.Header.Get("webhook-timestamp")+"."+string(p.Body))
	}, secrets...)
}

// EnterStandard is SignStandard with entries of another making.
func (p *Post) EnterStandard(entry func(secret string) string, secrets ...string) {
	if !p.Hook.Standard {
		return
	}
	var entries []string
	for _, secret := range secrets {
		if secret != "" {
			entries = append(entries, entry(secret))
		}
	}
	p.Header.Set("webhook-signature", strings.Join(entries, " "))
}

// V1 is a v1 signature of a text.
func V1(secret, signed string) string {
	return "sha256=" + hex.EncodeToString(MAC([]byte(secret), signed))
}

// StandardEntry is an entry of webhook-signature.
func StandardEntry(secret, signed string) string {
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_")) // the host has checked it
	return "v1," + base64.StdEncoding.EncodeToString(MAC(key, signed))
}

// MAC is HMAC-SHA256.
func MAC(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte(text)) // a hash takes every byte
	return mac.Sum(nil)
}

// Verifying puts a courier in front of every verification request.
func Verifying(send Courier) Decorator {
	return Leaving(func(ctx context.Context, e referencehost.Effect, next referencehost.Sender) (*referencehost.Outcome, error) {
		if e.Header.Get("OpenWOP-Webhook-Id") != "" || !bytes.Contains(e.Body, []byte("openwop.webhook.verification")) {
			return next.Send(ctx, e)
		}
		e.Header = e.Header.Clone()
		return send(ctx, e, next)
	})
}

// Consent is the answer of an endpoint that wants the deliveries.
func Consent(e referencehost.Effect) *referencehost.Outcome {
	doc, _ := tamper.Decode(e.Body).(map[string]any)
	return &referencehost.Outcome{Status: http.StatusOK, Body: tamper.Encode(map[string]any{"challenge": doc["challenge"]})}
}
