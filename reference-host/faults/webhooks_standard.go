package faults

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"time"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/reference-host/tamper/outbound"
	"wopcert/requirements"
)

const standardScheme = "standard-webhooks-1"

// algorithms are the schemes a registration lists.
func algorithms(doc object) []any {
	list, _ := doc["signatureAlgorithms"].([]any)
	return list
}

func standardFaults() []Fault {
	validated, signed := requirements.R0201RegistrationValidated, requirements.R0201DeliverySigned
	rotation, twice := requirements.R0201SecretRotation, requirements.WebhooksRotationTwice
	optIn := requirements.R0201OptInOnly
	accepting := func(id, summary string, edit func(doc object)) Fault {
		return wire(id, summary, "201", askingHook(edit), validated)
	}
	return []Fault{
		accepting("webhook-standard-without-v1", "The companion scheme can be had alone.", func(doc object) {
			if list := algorithms(doc); len(list) == 1 && list[0] == standardScheme {
				doc["signatureAlgorithms"] = append(list, "v1")
			}
		}),
		accepting("webhook-algorithms-empty", "No scheme at all is v1.", func(doc object) {
			if list, ok := doc["signatureAlgorithms"].([]any); ok && len(list) == 0 {
				delete(doc, "signatureAlgorithms")
			}
		}),
		accepting("webhook-algorithm-repeated", "A scheme may be listed twice.", func(doc object) {
			if list := algorithms(doc); len(list) == 3 && list[0] == list[2] {
				doc["signatureAlgorithms"] = list[:2]
			}
		}),
		accepting("webhook-algorithm-unlisted-dropped", "A scheme the host does not know is dropped without a word.", func(doc object) {
			if list := algorithms(doc); slices.Contains(list, any("wopcert-none")) {
				doc["signatureAlgorithms"] = list[:2]
			}
		}),
		accepting("webhook-standard-secret-short", "A secret of Standard Webhooks may have 23 bytes.", func(doc object) {
			if secret := text(doc["secret"]); len(algorithms(doc)) == 2 && len(secret) == len("whsec_")+32 && strings.HasSuffix(secret, "=") {
				doc["secret"] = secret[:len(secret)-1] + "A"
			}
		}),
		accepting("webhook-standard-secret-long", "A secret of Standard Webhooks may have 65 bytes.", func(doc object) {
			if secret := text(doc["secret"]); len(algorithms(doc)) == 2 && len(secret) == len("whsec_")+88 && strings.HasSuffix(secret, "=") && !strings.HasSuffix(secret, "==") {
				doc["secret"] = secret[:len("whsec_")+84]
			}
		}),
		accepting("webhook-standard-secret-plain", "A secret of another form is put into that of Standard Webhooks.", func(doc object) {
			if secret := text(doc["secret"]); len(algorithms(doc)) == 2 && !strings.HasPrefix(secret, "whsec_") && secret != "" {
				doc["secret"] = "whsec_" + strings.Repeat("QUJD", 11)
			}
		}),
		wire("webhook-algorithms-not-echoed", "The answer to a registration does not say how deliveries will be signed.", "the applied list",
			tamper.JSON(registerHook(), 201, func(_ *http.Request, doc map[string]any) { delete(doc, "signatureAlgorithms") }), validated),
		wire("webhook-algorithms-echoed-all", "The answer to a registration lists all that the host can.", "the applied list",
			tamper.JSON(registerHook(), 201, func(_ *http.Request, doc map[string]any) {
				if doc["signatureAlgorithms"] != nil {
					doc["signatureAlgorithms"] = []any{"v1", standardScheme}
				}
			}), validated),
		wire("webhook-standard-unlisted-accepted", "A host without the companion scheme takes an opt-in for none.", "201",
			askingHook(func(doc object) {
				if len(algorithms(doc)) > 0 {
					doc["signatureAlgorithms"] = []any{"v1"}
				}
			}), requirements.WebhooksStandardUnadvertised).on("no-standard-webhooks"),
		made("webhook-standard-not-signed", "A delivery to a subscription that opted in is signed as any other.", "webhook-id|entries of webhook-signature",
			outbound.Delivering(func(p *outbound.Post) {
				for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
					p.Header.Del(name)
				}
			}), signed, rotation, twice, requirements.R0201MessageIdStable),
		standardSigned("webhook-standard-id-not-signed", "The id of a message is not signed.", func(p *outbound.Post, secret string) string {
			return outbound.StandardEntry(secret, p.Header.Get("webhook-timestamp")+"."+string(p.Body))
		}),
		standardSigned("webhook-standard-key-not-decoded", "The secret of a message is used as it is written.", func(p *outbound.Post, secret string) string {
			return "v1," + base64.StdEncoding.EncodeToString(outbound.MAC([]byte(secret), p.Header.Get("webhook-id")+"."+p.Header.Get("webhook-timestamp")+"."+string(p.Body)))
		}),
		standardSigned("webhook-standard-in-hex", "The signature of a message is in hexadecimal.", func(p *outbound.Post, secret string) string {
			return "v1," + strings.TrimPrefix(outbound.V1(secret, string(p.Body)), "sha256=")
		}),
		made("webhook-standard-time-of-its-own", "The two schemes are signed at different times.", "webhook-timestamp as",
			outbound.Delivering(func(p *outbound.Post) {
				if p.Hook.Standard {
					p.Header.Set("webhook-timestamp", p.Header.Get("webhook-timestamp")[:9]+"0")
					if p.Header.Get("webhook-timestamp") == p.Header.Get("OpenWOP-Timestamp") {
						p.Header.Set("webhook-timestamp", p.Header.Get("webhook-timestamp")[:9]+"1")
					}
					p.Sign()
				}
			}), signed),
		made("webhook-standard-id-dotted", "The id of a message holds a dot.", "webhook-id",
			outbound.Delivering(func(p *outbound.Post) {
				if p.Hook.Standard {
					p.Header.Set("webhook-id", "msg."+p.Header.Get("webhook-id"))
					p.Sign()
				}
			}), signed),
		made("webhook-standard-for-all", "The headers of Standard Webhooks are on every delivery.", "header of Standard Webhooks",
			outbound.Delivering(func(p *outbound.Post) {
				if !p.Hook.Standard {
					p.Header.Set("webhook-id", strings.ReplaceAll(p.Hook.ID, "/", "-"))
					p.Header.Set("webhook-timestamp", p.Header.Get("OpenWOP-Timestamp"))
				}
			}), optIn),
		verifiesAll(optIn),
		made("webhook-message-id-per-attempt", "Every attempt has a webhook-id of its own.", "the webhook-id of the first attempt",
			outbound.Delivering(func(p *outbound.Post) {
				if p.Hook.Standard {
					p.Header.Set("webhook-id", rand.Text())
					p.Sign()
				}
			}), requirements.R0201MessageIdStable),
		made("webhook-message-id-per-run", "The events of a run share a webhook-id.", "no other delivery has",
			outbound.Delivering(func(p *outbound.Post) {
				if p.Hook.Standard {
					p.Header.Set("webhook-id", "run_"+outbound.V1(p.Hook.ID, p.RunID)[7:39])
					p.Sign()
				}
			}), requirements.R0201MessageIdStable),
		made("webhook-message-id-per-event", "The subscriptions to an event share a webhook-id.", "no other delivery has",
			outbound.Delivering(func(p *outbound.Post) {
				if p.Hook.Standard {
					p.Header.Set("webhook-id", "evt_"+outbound.V1(p.RunID, p.Header.Get("OpenWOP-Event-Type"))[7:39])
					p.Sign()
				}
			}), requirements.R0201MessageIdStable),
	}
}

// standardSigned signs messages in another way.
func standardSigned(id, summary string, entry func(p *outbound.Post, secret string) string) Fault {
	return made(id, summary, "verifies|entry under secret", outbound.Delivering(func(p *outbound.Post) {
		if p.Hook.Standard {
			entries := []string{entry(p, p.Hook.Secret)}
			if p.Hook.Previous != "" {
				entries = append(entries, entry(p, p.Hook.Previous))
			}
			p.Header.Set("webhook-signature", strings.Join(entries, " "))
		}
	}), requirements.R0201DeliverySigned, requirements.R0201SecretRotation, requirements.WebhooksRotationTwice)
}

// verifiesAll asks every endpoint for its consent, and takes whatever it says.
func verifiesAll(breaks requirements.ID) Fault {
	var out notes[referencehost.Sender]
	return Fault{ID: "webhook-everybody-verified", Summary: "An endpoint is asked for its consent although nobody opted in.", Reason: "no request to an endpoint|verification request",
		Breaks: []requirements.ID{breaks},
		Decorate: func(c *referencehost.Config) {
			c.WrapSender = append(c.WrapSender, func(next referencehost.Sender) referencehost.Sender { out.put("", next); return next })
		},
		Wrap: tamper.Instead(registerHook(), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			asked, _ := tamper.BodyJSON(r)
			a := tamper.Record(next, r)
			if way, ok := out.get(""); ok && a.Status == http.StatusCreated && len(algorithms(asked)) == 1 {
				_, _ = way.Send(r.Context(), referencehost.Effect{ // whatever it says
					Method: http.MethodPost, URL: text(asked["url"]), Header: http.Header{"Content-Type": {"application/json"}},
					Body: tamper.Encode(object{"type": "openwop.webhook.verification", "challenge": rand.Text()}),
				})
			}
			a.Send(w)
		})}
}

func verificationFaults() []Fault {
	verification, request, redirect := requirements.R0201EndpointVerification, requirements.WebhooksVerificationRequest, requirements.WebhooksVerificationRedirect
	// outcome replaces what the host makes of an endpoint's answer.
	outcome := func(id, summary, reason string, edit func(e referencehost.Effect, o *referencehost.Outcome) *referencehost.Outcome, breaks ...requirements.ID) Fault {
		return made(id, summary, reason, outbound.Verifying(func(ctx context.Context, e referencehost.Effect, next referencehost.Sender) (*referencehost.Outcome, error) {
			o, err := next.Send(ctx, e)
			if edited := edit(e, o); edited != o {
				return edited, nil
			}
			return o, err
		}), breaks...)
	}
	return []Fault{
		made("webhook-endpoint-not-asked", "Nobody is asked whether they want the deliveries.", "a verification request before|201",
			outbound.Verifying(func(_ context.Context, e referencehost.Effect, _ referencehost.Sender) (*referencehost.Outcome, error) {
				return outbound.Consent(e), nil
			}),
			verification, redirect).blocking(request).
			blocking(requirements.WebhooksRegistrationIdempotent),
		outcome("webhook-endpoint-any-2xx", "An endpoint that answers a 2xx wants the deliveries.", "201",
			func(e referencehost.Effect, o *referencehost.Outcome) *referencehost.Outcome {
				if o != nil && o.Status < 300 {
					return outbound.Consent(e)
				}
				return o
			}, verification).
			blocking(requirements.WebhooksRegistrationIdempotent),
		outcome("webhook-endpoint-any-status", "An endpoint that knows the challenge wants the deliveries, whatever its status.", "201",
			func(_ referencehost.Effect, o *referencehost.Outcome) *referencehost.Outcome {
				if o != nil && o.Status >= 400 {
					return &referencehost.Outcome{Status: http.StatusOK, Header: o.Header, Body: o.Body}
				}
				return o
			}, verification),
		outcome("webhook-endpoint-silent", "An endpoint that hangs up wants the deliveries.", "201",
			func(e referencehost.Effect, o *referencehost.Outcome) *referencehost.Outcome {
				if o == nil {
					return outbound.Consent(e)
				}
				return o
			}, verification),
		made("webhook-endpoint-awaited", "An endpoint may take as long as it likes to consent.", "comes after",
			decorators(func(c *referencehost.Config) { c.Egress.Timeout = 30 * time.Second },
				outbound.Verifying(func(ctx context.Context, e referencehost.Effect, next referencehost.Sender) (*referencehost.Outcome, error) {
					return next.Send(context.WithoutCancel(ctx), e)
				})), verification).slow(),
		outcome("webhook-endpoint-200-only", "An endpoint has to answer 200 and no other 2xx.", "201 for an endpoint",
			func(_ referencehost.Effect, o *referencehost.Outcome) *referencehost.Outcome {
				if o != nil && o.Status > 200 {
					return &referencehost.Outcome{Status: http.StatusInternalServerError}
				}
				return o
			}, verification),
		wire("webhook-endpoint-other-code", "An endpoint that does not answer the challenge is refused as an address.", "400 webhook_url_rejected",
			tamper.JSON(registerHook(), 400, func(_ *http.Request, doc map[string]any) {
				if doc["error"] == "webhook_endpoint_unverified" {
					doc["error"] = "webhook_url_rejected"
				}
			}), verification, redirect).
			blocking(requirements.WebhooksRegistrationIdempotent),
		made("webhook-verified-twice", "An endpoint is asked twice.", "one verification request",
			outbound.Verifying(func(ctx context.Context, e referencehost.Effect, next referencehost.Sender) (*referencehost.Outcome, error) {
				_, _ = next.Send(ctx, e) // the second answer counts
				return next.Send(ctx, e)
			}), request),
		made("webhook-verification-typed", "A verification request names a type of event.", "no OpenWOP-Event-Type",
			outbound.Verifying(func(ctx context.Context, e referencehost.Effect, next referencehost.Sender) (*referencehost.Outcome, error) {
				e.Header.Set("OpenWOP-Event-Type", "webhook.verified")
				return next.Send(ctx, e)
			}), request),
		made("webhook-verification-unsigned", "A verification request is not signed.", "verifies",
			outbound.Verifying(func(ctx context.Context, e referencehost.Effect, next referencehost.Sender) (*referencehost.Outcome, error) {
				e.Header.Set("webhook-signature", "v1,"+strings.Repeat("A", 43)+"=")
				return next.Send(ctx, e)
			}), request),
		made("webhook-verification-as-text", "A verification request is no JSON by its type.", "application/json",
			outbound.Verifying(func(ctx context.Context, e referencehost.Effect, next referencehost.Sender) (*referencehost.Outcome, error) {
				e.Header.Set("Content-Type", "text/plain")
				return next.Send(ctx, e)
			}), request),
		oneChallenge(request),
		made("webhook-verification-redirected", "A verification request goes where a redirect leads.", "201|redirect",
			outbound.Verifying(func(ctx context.Context, e referencehost.Effect, next referencehost.Sender) (*referencehost.Outcome, error) {
				o, err := next.Send(ctx, e)
				if err == nil && o.Status >= 300 && o.Status < 400 {
					e.URL = o.Header.Get("Location")
					return next.Send(ctx, e)
				}
				return o, err
			}), redirect),
	}
}

// oneChallenge asks every endpoint for the same word. The host must not notice, so the word is changed on both ways.
func oneChallenge(breaks requirements.ID) Fault {
	const word = "always-the-same-challenge-of-forty-three-ch"
	var secrets notes[string] // url -> secret
	return Fault{ID: "webhook-challenge-constant", Summary: "Every endpoint is sent the same challenge.", Reason: "a challenge that was not sent before",
		Breaks: []requirements.ID{breaks},
		Wrap: askingHook(func(doc object) {
			if len(algorithms(doc)) == 2 {
				secrets.put(text(doc["url"]), text(doc["secret"]))
			}
		}),
		Decorate: outbound.Verifying(func(ctx context.Context, e referencehost.Effect, next referencehost.Sender) (*referencehost.Outcome, error) {
			doc, _ := tamper.Decode(e.Body).(object)
			own := text(doc["challenge"])
			doc["challenge"] = word
			e.Body = tamper.Encode(doc)
			secret, _ := secrets.get(e.URL)
			e.Header.Set("webhook-signature", outbound.StandardEntry(secret, e.Header.Get("webhook-id")+"."+e.Header.Get("webhook-timestamp")+"."+string(e.Body)))
			o, err := next.Send(ctx, e)
			if err == nil {
				o.Body = []byte(strings.ReplaceAll(string(o.Body), word, own))
			}
			return o, err
		})}
}

func rotationFaults() []Fault {
	rotation, response := requirements.R0201SecretRotation, requirements.WebhooksRotationResponse
	twice, refused := requirements.WebhooksRotationTwice, requirements.WebhooksRotationRefused
	return []Fault{
		made("webhook-rotated-at-once", "A new secret signs alone from the start.", "entries of webhook-signature",
			outbound.Delivering(func(p *outbound.Post) {
				if p.Hook.Previous != "" {
					p.SignStandard(p.Hook.Secret)
				}
			}), rotation, twice),
		made("webhook-v1-rotated-at-once", "The v1 signature goes over to a new secret at once.", "which they do not give",
			outbound.Delivering(func(p *outbound.Post) {
				if p.Hook.Previous != "" {
					p.SignV1(p.Hook.Secret)
				}
			}), rotation),
		made("webhook-new-secret-waits", "A new secret does not sign before the overlap is over.", "entries of webhook-signature",
			outbound.Delivering(func(p *outbound.Post) {
				if p.Hook.Previous != "" {
					p.SignStandard(p.Hook.Previous)
				}
			}), rotation, twice),
		threeSecrets(twice),
		wire("webhook-rotation-with-secret", "The answer to a rotation repeats the secret.", "one is in it",
			tamper.Instead(rotateSecret(), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				asked, _ := tamper.BodyJSON(r)
				a := tamper.Record(next, r)
				a.Header.Set("Webhook-Secret", text(asked["secret"]))
				a.Send(w)
			}), response),
		wire("webhook-rotation-other-overlap", "The overlap that is told is not the one that is advertised.", "previousSecretExpiresAt",
			tamper.JSON(rotateSecret(), 200, func(_ *http.Request, doc map[string]any) {
				at, _ := time.Parse(time.RFC3339, text(doc["rotatedAt"])) // the host writes no other form
				doc["previousSecretExpiresAt"] = at.Add(24 * time.Hour).Format(time.RFC3339)
			}), response),
		wire("webhook-rotation-without-time", "The answer to a rotation does not say when.", "rotatedAt",
			tamper.JSON(rotateSecret(), 200, func(_ *http.Request, doc map[string]any) { delete(doc, "rotatedAt") }), response),
		wire("webhook-rotation-foreign-not-found", "The subscription of another tenant is not found.", "404",
			foreignAs(rotateSecret(), http.StatusNotFound, "not_found"), refused),
		wire("webhook-rotation-of-v1-accepted", "A subscription that did not opt in has its secret changed without an overlap.", "200",
			tamper.Answers(rotateSecret(), func(_ *http.Request, a *tamper.Answer) {
				if doc, ok := a.JSON(); ok && a.Status == http.StatusBadRequest && strings.Contains(text(doc["message"]), "opt into") {
					a.Status = http.StatusOK
					a.SetJSON(object{"rotatedAt": "2026-01-01T00:00:00Z", "previousSecretExpiresAt": "2026-01-01T00:00:00Z"})
				}
			}), refused),
		wire("webhook-rotation-short-secret", "A new secret may be shorter than the first.", "200",
			tamper.Requests(rotateSecret(), func(r *http.Request) {
				doc, ok := tamper.BodyJSON(r)
				if secret := text(doc["secret"]); ok && strings.HasPrefix(secret, "whsec_") && len(secret) < 40 {
					doc["secret"] = "whsec_" + strings.Repeat("QUJD", 11)
					tamper.SetBodyJSON(r, doc)
				}
			}), refused),
	}
}

// threeSecrets keeps every secret a subscription has had.
func threeSecrets(breaks requirements.ID) Fault {
	var first notes[string] // webhookId -> the secret of the registration
	return Fault{ID: "webhook-old-secrets-kept", Summary: "Every secret a subscription has had during an overlap goes on signing.", Reason: "entries of webhook-signature",
		Breaks: []requirements.ID{breaks},
		Wrap: answeringHook(func(asked object, a *tamper.Answer) {
			if doc, ok := a.JSON(); ok {
				first.put(text(doc["webhookId"]), text(asked["secret"]))
			}
		}),
		Decorate: outbound.Delivering(func(p *outbound.Post) {
			if secret, ok := first.get(p.Hook.ID); ok && p.Hook.Previous != "" && p.Hook.Previous != secret {
				p.SignStandard(p.Hook.Secret, p.Hook.Previous, secret)
			}
		})}
}
