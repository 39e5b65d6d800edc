package variants

import (
	"context"
	"net/http"
	"strings"
	"time"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/reference-host/tamper/outbound"
	"wopcert/requirements"
)

// hooks sets how a host delivers.
func hooks(edit func(w *referencehost.Webhooks)) func(*referencehost.Config) {
	return func(c *referencehost.Config) { edit(&c.Webhooks) }
}

// hookFacets lays facets over those of the webhooks family; a nil one is taken out.
func hookFacets(facets map[string]any) func(*referencehost.Config) {
	return families(map[string]map[string]any{"webhooks": facets})
}

// ofStandard are what only a host with the companion scheme is held to.
func ofStandard() []requirements.ID {
	return []requirements.ID{
		requirements.R0201RegistrationValidated, requirements.R0201DeliverySigned, requirements.R0201OptInOnly, requirements.R0201EndpointVerification,
		requirements.WebhooksVerificationRequest, requirements.WebhooksVerificationRedirect, requirements.R0201MessageIdStable,
		requirements.R0201SecretRotation, requirements.WebhooksRotationResponse, requirements.WebhooksRotationTwice, requirements.WebhooksRotationRefused,
	}
}

// ofRetries are what only a host that makes a second attempt is held to.
func ofRetries() []requirements.ID {
	return []requirements.ID{
		requirements.R0173WebhookDurableDelivery, requirements.WebhooksRetryBackoff, requirements.WebhooksRetrySameEvent,
		requirements.WebhooksRedirectFails, requirements.WebhooksRedirectNotFollowed, requirements.WebhooksConnectionFails,
		requirements.WebhooksUnregisterEndsRetries, requirements.R0201MessageIdStable,
	}
}

func webhookVariants() []Variant {
	const doc = "webhooks.md"
	rotation := []requirements.ID{requirements.R0201SecretRotation, requirements.WebhooksRotationResponse, requirements.WebhooksRotationTwice, requirements.WebhooksRotationRefused}
	letters := []requirements.ID{
		requirements.R0173WebhookDurableDeliveryDeadLetter, requirements.R0188DeadLetterRead, requirements.R0188DeadLetterContentFree,
		requirements.WebhooksDeadLetterPages, requirements.WebhooksDeadLetterCursor, requirements.WebhooksDeadLetterForeign,
		requirements.WebhooksDeadLetterRetention, requirements.WebhooksDeadLetterUnregistered, requirements.WebhooksUnprojectableDeadLettered,
	}
	return []Variant{
		made("no-standard-webhooks", doc, "Standard Webhooks", "The host signs with v1 alone.",
			hookFacets(map[string]any{"signatureAlgorithms": []any{"v1"}, "secretRotation": nil}), ofStandard()...).opening(requirements.WebhooksStandardUnadvertised),
		made("no-secret-rotation", doc, "Rotation", "The host rotates no secrets.", hookFacets(map[string]any{"secretRotation": nil}), rotation...),
		made("no-dead-letter-read", doc, "Dead letters", "The dead letters of webhooks cannot be read.", hookFacets(map[string]any{"deadLetter": nil}), letters...),
		made("webhook-backoff-fixed", doc, "Durability", "A retry comes after the same time, always.", hooks(func(w *referencehost.Webhooks) { w.Backoff = "fixed" })),
		made("webhook-backoff-none", doc, "Durability", "A retry comes at once.", hooks(func(w *referencehost.Webhooks) { w.Backoff = "none" }), requirements.WebhooksRetryBackoff),
		made("webhook-one-attempt", doc, "Durability", "A delivery is attempted once.", hooks(func(w *referencehost.Webhooks) { w.MaxAttempts = 1 }), ofRetries()...),
		made("webhook-seven-attempts", doc, "Durability", "A delivery is attempted seven times.",
			hooks(func(w *referencehost.Webhooks) { w.MaxAttempts, w.Delay = 7, 10*time.Millisecond })),
		made("webhook-dead-letters-a-day", doc, "Dead letters", "A dead letter is kept for a day, and a page holds one.",
			hooks(func(w *referencehost.Webhooks) { w.RetentionDays, w.MaxPageSize = 1, 1 })),
		made("webhook-overlap-a-minute", doc, "Rotation", "A secret signs on for the shortest time there is.",
			hooks(func(w *referencehost.Webhooks) { w.OverlapSeconds = 60 }), requirements.R0201SecretRotation),
		made("webhook-retry-policy-unadvertised", doc, "Durability", "The host does not say how often it tries.", hookFacets(map[string]any{"retryPolicy": nil}),
			requirements.WebhooksRetryMaxAttempts, requirements.WebhooksRetryBackoff),
		made("webhook-delivered-twice", doc, "Durability", "What a receiver has taken comes to it a second time.",
			outbound.Carrying(func(ctx context.Context, p *outbound.Post, next referencehost.Sender) (*referencehost.Outcome, error) {
				o, err := next.Send(ctx, p.Effect)
				if err == nil && o.Status < 300 {
					_, _ = next.Send(ctx, p.Effect) // nobody needs to know
				}
				return o, err
			}), requirements.WebhooksRetryMaxAttempts, requirements.WebhooksRetryBackoff),
		made("webhook-in-its-own-time", doc, "Delivery isolation", "No delivery starts before a while has passed.",
			outbound.Carrying(func(ctx context.Context, p *outbound.Post, next referencehost.Sender) (*referencehost.Outcome, error) {
				if p.Attempt == 1 {
					tamper.Pause(ctx, 300*time.Millisecond)
				}
				return next.Send(ctx, p.Effect)
			})),
		made("webhook-attempts-complete", doc, "Unregister", "An attempt that has begun goes on when its subscription ends.", completing()),
		made("webhook-body-spaced", doc, "Headers", "The body of a delivery is written with spaces, and signed like that.",
			outbound.Delivering(func(p *outbound.Post) { p.Body = spaced(p.Body); p.Sign() })),
		made("webhook-message-id-prefixed", doc, "Standard Webhooks", "The id of a message has a prefix.",
			outbound.Delivering(func(p *outbound.Post) {
				if p.Hook.Standard {
					p.Header.Set("webhook-id", "msg_"+p.Header.Get("webhook-id"))
					p.Sign()
				}
			})),
		made("webhook-old-secret-first", doc, "Rotation", "During an overlap the older secret's entry comes first.",
			outbound.Delivering(func(p *outbound.Post) {
				current, previous := p.Secrets()
				p.SignStandard(previous, current)
			})),
		made("webhook-more-headers", doc, "Headers", "A delivery has headers of the host's own.",
			outbound.Delivering(func(p *outbound.Post) { p.Header.Set("X-Request-Id", p.RunID); p.Header.Set("Accept", "*/*") })),
		made("webhook-type-with-charset", doc, "Delivery", "The media type of what is sent has a parameter.",
			outbound.Leaving(func(ctx context.Context, e referencehost.Effect, next referencehost.Sender) (*referencehost.Outcome, error) {
				e.Header = e.Header.Clone()
				if e.Header.Get("Content-Type") == "application/json" {
					e.Header.Set("Content-Type", "application/json; charset=utf-8")
				}
				return next.Send(ctx, e)
			})),
		grant("webhook-letter-without-status", doc, "Dead letters", "A dead letter does not hold what was answered last.",
			tamper.JSON(tamper.Op(http.MethodGet, "/webhooks/{}/dead-letters"), http.StatusOK, func(_ *http.Request, doc map[string]any) {
				list, _ := doc["deliveries"].([]any)
				for _, v := range list {
					delete(v.(object), "lastStatus")
				}
			})),
		grant("webhook-letters-end-with-a-cursor", doc, "Dead letters", "A page of dead letters ends with a cursor that leads to an empty one.",
			emptyLastPage()),
		made("no-webhooks", "capabilities.md", "1. Discovery", "The host has no webhooks.", families(map[string]map[string]any{"webhooks": nil}), allOfWebhooks()...),
	}
}

// completing lets attempts outlive their subscription, and the host, for as long as the kernel does.
func completing() func(*referencehost.Config) {
	return outbound.Carrying(func(ctx context.Context, p *outbound.Post, next referencehost.Sender) (*referencehost.Outcome, error) {
		type result struct {
			o   *referencehost.Outcome
			err error
		}
		done := make(chan result, 1)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		go func() {
			o, err := next.Send(context.WithoutCancel(ctx), p.Effect)
			done <- result{o, err}
		}()
		select {
		case r := <-done:
			return r.o, r.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
}

// spaced writes JSON with a space after every comma and colon that is not in a text.
func spaced(compact []byte) []byte {
	var b strings.Builder
	text, escaped := false, false
	for _, c := range compact {
		b.WriteByte(c)
		switch {
		case escaped:
			escaped = false
		case text && c == '\\':
			escaped = true
		case c == '"':
			text = !text
		case !text && (c == ',' || c == ':'):
			b.WriteByte(' ')
		}
	}
	return []byte(b.String() + "\n")
}

// emptyLastPage has a page that is the last lead on to one that is empty.
func emptyLastPage() tamper.Middleware {
	letters := tamper.Op(http.MethodGet, "/webhooks/{}/dead-letters")
	const end = "wopcert-the-end-"
	return tamper.Instead(letters, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		own := end + strings.NewReplacer("%2F", "~2F", "%2f", "~2F").Replace(r.URL.EscapedPath())
		if r.URL.Query().Get("cursor") == own {
			a := tamper.Ask(next, r, http.MethodGet, r.URL.EscapedPath(), nil)
			if a.Status == http.StatusOK {
				a.SetJSON(object{"deliveries": []any{}})
			}
			a.Send(w)
			return
		}
		a := tamper.Record(next, r)
		if doc, ok := a.JSON(); ok && a.Status == http.StatusOK && doc["nextCursor"] == nil {
			if list, _ := doc["deliveries"].([]any); len(list) > 0 {
				doc["nextCursor"] = own
				a.SetJSON(doc)
			}
		}
		a.Send(w)
	})
}

// allOfWebhooks are what only a host with webhooks is held to.
func allOfWebhooks() []requirements.ID {
	return []requirements.ID{
		requirements.R0187BoundIdKindsWebhook, requirements.R0187BoundIdKindsWebhookEmitted, requirements.R0171WebhookEgressRefused,
		requirements.WebhooksRegistered, requirements.WebhooksSecretGenerated, requirements.WebhooksSecretNotEchoed,
		requirements.WebhooksSecretReturnedOnce, requirements.WebhooksEventsNonempty, requirements.WebhooksEventsV2Names,
		requirements.WebhooksRegistrationClosed, requirements.WebhooksEventsFilter, requirements.WebhooksTenantIsolation,
		requirements.WebhooksTagsNarrow, requirements.WebhooksUnregisterUnknown, requirements.WebhooksUnregisterForeign,
		requirements.WebhooksUnregisterEndsDeliveries, requirements.WebhooksUnregisterEndsRetries, requirements.R0171WebhookDeliveryShape,
		requirements.WebhooksEventVerbatim, requirements.WebhooksWorkspacePresent, requirements.WebhooksDeliveryRunId,
		requirements.WebhooksDeliveryHeaders, requirements.WebhooksDeliverySignature, requirements.WebhooksDeliveryTimestamp,
		requirements.WebhooksDualEmission, requirements.R0173WebhookDurableDelivery, requirements.R0173WebhookDurableDeliveryDeadLetter,
		requirements.R0188DeadLetterRead, requirements.R0188DeadLetterContentFree, requirements.WebhooksRetryMaxAttempts,
		requirements.WebhooksRetryBackoff, requirements.WebhooksRedirectFails, requirements.WebhooksRedirectNotFollowed,
		requirements.WebhooksConnectionFails, requirements.WebhooksRetrySameEvent, requirements.WebhooksAtLeastOnce,
		requirements.WebhooksIsolation, requirements.WebhooksIsolationEight, requirements.WebhooksDeadLetterPages,
		requirements.WebhooksDeadLetterCursor, requirements.WebhooksDeadLetterForeign, requirements.WebhooksDeadLetterRetention,
		requirements.WebhooksDeadLetterUnregistered, requirements.R0201RegistrationValidated, requirements.R0201DeliverySigned,
		requirements.R0201OptInOnly, requirements.WebhooksStandardUnadvertised, requirements.R0201EndpointVerification,
		requirements.WebhooksVerificationRequest, requirements.WebhooksVerificationRedirect, requirements.R0201MessageIdStable,
		requirements.R0201SecretRotation, requirements.WebhooksRotationResponse, requirements.WebhooksRotationTwice,
		requirements.WebhooksRotationRefused, requirements.WebhooksEgressMapped, requirements.WebhooksEgressTranslated,
		requirements.WebhooksEgressSpecialPurpose, requirements.WebhooksBranchDelivered, requirements.WebhooksReplaySilent, requirements.R0176V1SignedWebhookAccepted,
		requirements.R0176V1SignedWebhookAcceptedFacet, requirements.WebhooksUnprojectableDeadLettered, requirements.WebhooksOutlastsRestart,
		requirements.WebhooksMessageIdRestart, requirements.WebhooksRegistrationIdempotent, requirements.WebhooksScope,
		requirements.R0173RelaxationRecorded,
	}
}
