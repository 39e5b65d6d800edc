package variants

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// tokenRows are the requirements that are observed with tokens the host hands
// out, which only a host that calls back does.
func tokenRows() []requirements.ID {
	return []requirements.ID{
		requirements.R0196CallbackUrlGuarded, requirements.InterruptCallbackDelivered, requirements.InterruptCallbackNoRedirect,
		requirements.InterruptTokenInspects, requirements.InterruptTokenResolves, requirements.InterruptTokenResolveChecked,
		requirements.InterruptTokenResolveIdempotent, requirements.InterruptOneWinnerAcrossSurfaces, requirements.IdentityTokenGrammar,
		requirements.InterruptTokenExpiresAt, requirements.InterruptTokenDefaultLifetime, requirements.InterruptTokenCapped, requirements.InterruptTokenExpired,
		requirements.InterruptTokenSpentResolved, requirements.InterruptTokenSpentCancelled, requirements.InterruptTokenSpentCompleted,
		requirements.InterruptTokenMacRefused, requirements.InterruptInspectToken, requirements.IdentityTokenAlgRefused,
		requirements.SecurityDefaultsOnwardHopDelivery,
	}
}

// needsInterrupts are the requirements that bind a host with interrupts only.
func needsInterrupts() []requirements.ID {
	ids := append(tokenRows(), requirements.R0170InterruptTokenSchemeUnprefixedRefused, requirements.R0170InterruptTokenSchemeUnheldKidRefused,
		requirements.R0213ResolveAfterCancel, requirements.R0213ResolveAfterComplete, requirements.R0213ResolveUnknownRun,
		requirements.ErrorsResolvedInterruptConflict, requirements.ErrorsNoInterruptCancelled, requirements.R0173ApproverEnforced,
		requirements.ReplayInterruptShortCircuits)
	for _, r := range requirements.All() {
		if r.Document == "interrupt.md" {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// callback passes what the host is about to call back with through an edit.
func callback(edit func(effect *referencehost.Effect)) func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		c.WrapSender = append(c.WrapSender, func(next referencehost.Sender) referencehost.Sender { return caller{next, edit} })
	}
}

type caller struct {
	referencehost.Sender
	edit func(effect *referencehost.Effect)
}

// Send implements referencehost.Sender.
func (s caller) Send(ctx context.Context, effect referencehost.Effect) (*referencehost.Outcome, error) {
	if effect.Seam == "interrupt.callback" {
		effect.Header = effect.Header.Clone()
		s.edit(&effect)
	}
	return s.Sender.Send(ctx, effect)
}

// notice edits the host's own notice.
func notice(edit func(doc object)) func(*referencehost.Config) {
	return callback(func(effect *referencehost.Effect) {
		if doc, ok := tamper.Decode(effect.Body).(object); ok {
			edit(doc)
			effect.Body = tamper.Encode(doc)
		}
	})
}

// payloadOf edits the payload of events of some types.
func payloadOf(edit func(p object), types ...string) tamper.Middleware {
	return event(func(e object) {
		if p, ok := e["payload"].(object); ok && slices.Contains(types, text(e["type"])) {
			edit(p)
		}
	})
}

// resolving selects the resolves of both surfaces.
func resolving(r *http.Request) bool {
	return tamper.Op(http.MethodPost, "/runs/{}/interrupts/{}")(r) || tamper.Op(http.MethodPost, "/interrupts/{}")(r)
}

func interruptVariants() []Variant {
	const doc, surfaces, events, approval = "interrupt.md", "Resolve surfaces", "Events", "Approval"
	resolutions := []string{"interrupt.resolved", "approval.received", "approval.granted", "approval.rejected", "clarification.resolved"}
	answered := func(id, summary string, edit func(doc object)) Variant {
		return grant(id, doc, surfaces, summary, tamper.JSON(resolving, http.StatusOK, func(_ *http.Request, doc map[string]any) { edit(doc) }))
	}
	return []Variant{
		made("interrupt-off", doc, surfaces, "The host waits for external events and for nobody's decision.", without("interrupt"), needsInterrupts()...),
		made("interrupt-kind-events-off", doc, events, "Interrupts are recorded under the two types of all kinds only.",
			func(c *referencehost.Config) { c.NoKindEvents = true }, requirements.InterruptKindSpecificTypes),
		grant("interrupt-votes-unseen", doc, events, "What single approvers said before the gate was decided is not shown.", tamper.Events(func(e map[string]any) bool {
			return e["type"] != "approval.granted" && e["type"] != "approval.rejected" && e["type"] != "approval.overridden"
		})),
		grant("interrupt-resolved-bare", doc, events, "interrupt.resolved leaves out what it need not have.", payloadOf(func(p object) {
			delete(p, "kind")
			delete(p, "resolvedBy")
			delete(p, "decision")
		}, resolutions...), requirements.InterruptListedApproverResolves),
		grant("interrupt-suspended-bare", doc, events, "node.suspended names the node and the interrupt and no more, but for the reason.", payloadOf(func(p object) {
			delete(p, "kind")
			delete(p, "key")
		}, "node.suspended")),
		grant("interrupt-resumed-bare", doc, events, "node.resumed names the node.", payloadOf(func(p object) {
			delete(p, "resumeValue")
			delete(p, "interruptId")
		}, "node.resumed")),
		grant("interrupt-resumed-unseen", doc, events, "Nothing but the end of an interrupt says that its node goes on.", tamper.Events(func(e map[string]any) bool {
			return e["type"] != "node.resumed"
		})),
		grant("decided-by-filled-in", doc, approval, "The host says who decided where the caller did not.", payloadOf(func(p object) {
			if value, ok := p["resumeValue"].(object); ok && value["action"] != nil && value["decidedBy"] == nil {
				value["decidedBy"] = "user:42 (no address)"
			}
		}, append(resolutions, "node.resumed")...)),
		grant("custom-waits-for-approval", doc, "Payload", "A run that waits on a custom interrupt is waiting-approval.", tamper.JSON(tamper.GetRun, http.StatusOK, func(_ *http.Request, doc map[string]any) {
			if node := text(doc["currentNodeId"]); doc["status"] == "waiting-input" && (node == "wait" || node == "left" || node == "talk") {
				doc["status"] = "waiting-approval"
			}
		})),
		answered("resolve-answer-empty", "A resolve is answered with an empty object.", func(doc object) { clear(doc) }),
		answered("resolve-answer-more", "A resolve is answered with the whole of what is known.", func(doc object) {
			doc["resolvedAt"], doc["votes"], doc["kind"] = "2026-03-01T12:00:00Z", []any{}, "approval"
		}),
		grant("ineligible-run-forbidden", doc, "Approver enforcement", "Who may not decide is told that the operation is not his on this run.",
			tamper.Answers(tamper.Op(http.MethodPost, "/runs/{}/interrupts/{}"), func(_ *http.Request, a *tamper.Answer) {
				if doc, ok := a.JSON(); ok && doc["error"] == "forbidden" {
					doc["error"] = "run_forbidden"
					a.SetJSON(doc)
				}
			})),
		grant("ineligible-not-found", doc, "Approver enforcement", "Who may not decide at a gate does not learn of it.",
			tamper.Answers(tamper.Op(http.MethodPost, "/runs/{}/interrupts/{}"), func(_ *http.Request, a *tamper.Answer) {
				if doc, ok := a.JSON(); ok && strings.Contains(text(doc["message"]), "not one of the approvers") {
					a.Refuse(http.StatusNotFound, "not_found", "no such gate")
				}
			})),
		made("approver-refs-principals-only", doc, "Approver enforcement", "The host knows neither groups nor roles.",
			family("interrupt", object{"refKinds": []any{"principal"}}),
			requirements.InterruptApproverRefsSurfaced, requirements.InterruptGroupEnforced, requirements.InterruptRoleEnforced).
			opening(requirements.InterruptUnadvertisedRefIgnored),
		made("approver-refs-unsaid", doc, "Approver enforcement", "The host does not say what refs it knows, and knows none.",
			family("interrupt", object{"refKinds": nil}),
			requirements.InterruptApproverRefsSurfaced, requirements.InterruptGroupEnforced, requirements.InterruptRoleEnforced).
			opening(requirements.InterruptUnadvertisedRefIgnored),
		made("approver-groups-only", doc, "Approver enforcement", "The host knows groups and no roles.",
			family("interrupt", object{"refKinds": []any{"group", "principal"}}), requirements.InterruptRoleEnforced).
			opening(requirements.InterruptUnadvertisedRefIgnored),
		made("approver-roles-only", doc, "Approver enforcement", "The host knows roles and no groups.",
			family("interrupt", object{"refKinds": []any{"role"}}), requirements.InterruptGroupEnforced).
			opening(requirements.InterruptUnadvertisedRefIgnored),
	}
}

func interruptTokenVariants() []Variant {
	const doc, tokens, delivery = "interrupt.md", "Tokens", "Callback delivery"
	off := func(id, summary string, value any) Variant {
		return made(id, doc, delivery, summary, family("interrupt", object{"callbackDelivery": value}), tokenRows()...).
			opening(requirements.InterruptCallbackUnadvertisedRefused)
	}
	return []Variant{
		off("callbacks-off", "The host calls nobody and refuses a callbackUrl.", nil),
		off("callbacks-denied", "The host says that it calls nobody.", false),
		made("notice-as-link", doc, delivery, "A notice is a text with a link to resolve the interrupt by.", callback(func(effect *referencehost.Effect) {
			doc, _ := tamper.Decode(effect.Body).(object)
			effect.Header.Set("Content-Type", "text/plain; charset=utf-8")
			effect.Body = []byte("Please decide: <https://host.example/interrupts/" + url.PathEscape(text(doc["token"])) + ">. Only look: " +
				"<https://host.example/interrupts/" + text(doc["inspectToken"]) + ">.\r\n")
		})),
		made("notice-in-header", doc, delivery, "The token of a notice is in a header, and its body is empty.", callback(func(effect *referencehost.Effect) {
			doc, _ := tamper.Decode(effect.Body).(object)
			effect.Header.Set("X-Resume-Token", text(doc["token"]))
			effect.Body = nil
		}), requirements.InterruptInspectToken),
		made("notice-nested", doc, delivery, "A notice names the token deep inside, and nothing else.", notice(func(doc object) {
			token := doc["token"]
			clear(doc)
			doc["notices"] = []any{object{"resolve": object{"path": "/interrupts/" + text(token)}}}
		}), requirements.InterruptInspectToken),
		made("notice-late", doc, delivery, "A notice comes a while after the interrupt.", func(c *referencehost.Config) {
			c.WrapSender = append(c.WrapSender, func(next referencehost.Sender) referencehost.Sender { return lateCaller{next} })
		}),
		made("notice-twice", doc, delivery, "Every notice comes twice.", func(c *referencehost.Config) {
			c.WrapSender = append(c.WrapSender, func(next referencehost.Sender) referencehost.Sender { return twice{next} })
		}),
		made("inspect-tokens-off", doc, tokens, "The host hands out tokens to resolve with and no others.", notice(func(doc object) {
			delete(doc, "inspectToken")
		}), requirements.InterruptInspectToken),
		made("token-key-ids-long", "identity.md", "Resume tokens", "The key of a token has a name with dots and other signs, and the one before it is still held.",
			func(c *referencehost.Config) {
				secret := []byte(strings.Repeat("s", 48))
				c.TokenSecrets = append([]referencehost.TokenSecret{{KeyID: "2026.03~tokens_a-" + strings.Repeat("x", 90), Value: secret}}, c.TokenSecrets...)
			}),
		made("token-of-v1-held", "identity.md", "Resume tokens", "The host still holds the secret of tokens of the old form.", func(c *referencehost.Config) {
			c.TokenSecrets = append(slices.Clone(c.TokenSecrets), referencehost.TokenSecret{KeyID: "legacy", Value: []byte(strings.Repeat("l", 32))})
		}),
		exchanged("token-expiry-in-seconds", tokens, "A token says in seconds when it expires.", func(claims object) {
			if at, err := time.Parse(time.RFC3339, text(claims["expiresAt"])); err == nil {
				claims["expiresAt"] = at.Unix()
			}
		}),
		exchanged("token-lives-ten-minutes", tokens, "A token lives for ten minutes where nothing shortens it.", func(claims object) {
			if at, err := time.Parse(time.RFC3339, text(claims["expiresAt"])); err == nil && time.Until(at) > 25*time.Minute {
				claims["expiresAt"] = time.Now().Add(10 * time.Minute).UTC().Format(time.RFC3339)
			}
		}, requirements.InterruptTokenDefaultLifetime),
		exchanged("token-says-more", tokens, "A token says who it was made for.", func(claims object) {
			claims["iss"], claims["iat"], claims["nonce"] = "urn:example:host", time.Now().Unix(), "0123456789"
		}),
	}
}

// lateCaller takes its time for every notice.
type lateCaller struct{ referencehost.Sender }

// Send implements referencehost.Sender.
func (s lateCaller) Send(ctx context.Context, effect referencehost.Effect) (*referencehost.Outcome, error) {
	if effect.Seam == "interrupt.callback" {
		tamper.Pause(ctx, 150*time.Millisecond)
	}
	return s.Sender.Send(ctx, effect)
}

// twice sends every notice two times.
type twice struct{ referencehost.Sender }

// Send implements referencehost.Sender.
func (s twice) Send(ctx context.Context, effect referencehost.Effect) (*referencehost.Outcome, error) {
	if effect.Seam == "interrupt.callback" {
		if _, err := s.Sender.Send(ctx, effect); err != nil {
			return nil, err
		}
	}
	return s.Sender.Send(ctx, effect)
}

// handedOut finds the tokens of a notice.
var handedOut = regexp.MustCompile(`ow2\.[A-Za-z0-9._~-]+`)

// exchanged hands out tokens that say something else than the host's own, and
// gives the host its own when they are presented.
func exchanged(id, section, summary string, edit func(claims object), relaxes ...requirements.ID) Variant {
	var mu sync.Mutex
	own := map[string]string{}
	other := func(made []byte) []byte {
		parts := strings.Split(string(made), ".")
		payload, err := base64.RawURLEncoding.DecodeString(parts[len(parts)-2])
		claims := object{}
		if err != nil || json.Unmarshal(payload, &claims) != nil {
			return made
		}
		edit(claims)
		parts[len(parts)-2] = base64.RawURLEncoding.EncodeToString(tamper.Encode(claims))
		shown := strings.Join(parts, ".")
		mu.Lock()
		defer mu.Unlock()
		own[shown] = string(made)
		return []byte(shown)
	}
	v := made(id, "interrupt.md", section, summary, callback(func(effect *referencehost.Effect) {
		effect.Body = handedOut.ReplaceAllFunc(effect.Body, other)
	}), relaxes...)
	v.Wrap = tamper.Requests(tamper.Op("", "/interrupts/{}"), func(r *http.Request) {
		text, _ := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), "/interrupts/"))
		mu.Lock()
		made, ok := own[text]
		mu.Unlock()
		if ok {
			tamper.SetPath(r, "/interrupts/"+made)
		}
	})
	return v
}
