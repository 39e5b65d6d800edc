package faults

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/internal/token"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// seamCallback is what notices of interrupts leave the host by.
const seamCallback = "interrupt.callback"

// callbackSender puts a function in front of the host's way out.
type callbackSender struct {
	referencehost.Sender
	send func(ctx context.Context, next referencehost.Sender, effect referencehost.Effect) (*referencehost.Outcome, error)
}

// Send implements referencehost.Sender.
func (s callbackSender) Send(ctx context.Context, effect referencehost.Effect) (*referencehost.Outcome, error) {
	if effect.Seam != seamCallback {
		return s.Sender.Send(ctx, effect)
	}
	return s.send(ctx, s.Sender, effect)
}

// calling changes how a host calls back.
func calling(send func(ctx context.Context, next referencehost.Sender, effect referencehost.Effect) (*referencehost.Outcome, error)) func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		c.WrapSender = append(c.WrapSender, func(next referencehost.Sender) referencehost.Sender { return callbackSender{next, send} })
	}
}

// tokenText finds the tokens of a notice.
var tokenText = regexp.MustCompile(`ow2\.[A-Za-z0-9._~-]+`)

// swap hands out other tokens than the host has made, and gives the host back
// its own when they are presented.
type swap struct {
	insider
	edit func(text string) string

	mu   sync.Mutex
	made map[string]string
}

func (s *swap) learn(c *referencehost.Config) {
	s.insider.learn(c)
	calling(func(ctx context.Context, next referencehost.Sender, effect referencehost.Effect) (*referencehost.Outcome, error) {
		effect.Body = tokenText.ReplaceAllFunc(effect.Body, func(text []byte) []byte {
			other := s.edit(string(text))
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.made == nil {
				s.made = map[string]string{}
			}
			s.made[other] = string(text)
			return []byte(other)
		})
		return next.Send(ctx, effect)
	})(c)
}

func (s *swap) wrap() tamper.Middleware {
	return tamper.Requests(byToken, func(r *http.Request) {
		s.mu.Lock()
		own, ok := s.made[presented(r)]
		s.mu.Unlock()
		if ok {
			tamper.SetPath(r, "/interrupts/"+own)
		}
	})
}

// handing is a fault in the tokens that are handed out.
func handing(id, summary, reason string, edit func(text string) string, breaks ...requirements.ID) Fault {
	s := &swap{edit: edit}
	return Fault{ID: id, Summary: summary, Reason: reason, Wrap: s.wrap(), Decorate: s.learn, Breaks: breaks}
}

// claiming edits what a token says. Its MAC stays as it was, which nobody but the
// host can tell.
func claiming(edit func(claims object)) func(text string) string {
	return func(text string) string {
		parts := strings.Split(text, ".")
		n := len(parts)
		payload, err := base64.RawURLEncoding.DecodeString(parts[n-2])
		if err != nil {
			return text
		}
		claims := object{}
		if json.Unmarshal(payload, &claims) != nil {
			return text
		}
		edit(claims)
		parts[n-2] = base64.RawURLEncoding.EncodeToString(tamper.Encode(claims))
		return strings.Join(parts, ".")
	}
}

// left is how long a token has to go.
func left(claims object) time.Duration {
	at, err := time.Parse(time.RFC3339, text(claims["expiresAt"]))
	if err != nil {
		return 0
	}
	return time.Until(at)
}

func expiring(claims object, in time.Duration) {
	claims["expiresAt"] = time.Now().Add(in).UTC().Format(time.RFC3339)
}

// forging presents the host with a token of its own for one it would not take.
func forging(k *insider, m tamper.Match, when func(text string, claims *token.Claims) bool) tamper.Middleware {
	return tamper.Requests(m, func(r *http.Request) {
		text := presented(r)
		if claims, ok := claimed(text); ok && when(text, &claims) {
			tamper.SetPath(r, "/interrupts/"+k.mint(claims))
		}
	})
}

// part is a part of a token: 1 is the algorithm, -1 the MAC.
func part(text string, i int) string {
	parts := strings.Split(text, ".")
	if i < 0 {
		i += len(parts)
	}
	if i < 0 || i >= len(parts) {
		return ""
	}
	return parts[i]
}

// held reports whether a token names an algorithm and a key of the host's.
func held(text string) bool { return strings.HasPrefix(text, "ow2.hs256.k1.") }

func tokenSchemeFaults() []Fault {
	unprefixed, unheld := requirements.R0170InterruptTokenSchemeUnprefixedRefused, requirements.R0170InterruptTokenSchemeUnheldKidRefused
	alg, grammar, surface := requirements.IdentityTokenAlgRefused, requirements.IdentityTokenGrammar, requirements.InterruptTokenSurface
	refusal := func(m tamper.Match, which func(text string) bool, edit func(*tamper.Answer)) tamper.Middleware {
		return settled(m, 401, "interrupt_token_invalid", func(r *http.Request, _ object, _ http.Handler) bool { return which(presented(r)) }, edit)
	}
	plain := func(text string) bool { return !strings.HasPrefix(text, "ow2.") }
	otherKey := func(text string) bool { return strings.HasPrefix(text, "ow2.hs256.") && !held(text) }
	otherAlg := func(text string) bool {
		return strings.HasPrefix(text, "ow2.") && !strings.HasPrefix(text, "ow2.hs256.")
	}
	return []Fault{
		inside("unprefixed-believed", "A token of the old form is believed without a secret to check it with.", "200", func(k *insider) tamper.Middleware {
			return forging(k, inspectByToken, func(text string, _ *token.Claims) bool { return plain(text) })
		}, unprefixed),
		wire("unprefixed-not-found", "A token of the old form is one that is not there.", "404", refusal(byToken, plain, recoded(404, "not_found")), unprefixed),
		wire("unprefixed-refused-to-inspect-only", "A resolve with a token of the old form is refused as a bad request.", "a resolve", refusal(resolveByToken, plain, recoded(400, "validation_error")), unprefixed),
		inside("unheld-kid-believed", "A token of an unknown key is believed.", "200", func(k *insider) tamper.Middleware {
			return forging(k, inspectByToken, func(text string, _ *token.Claims) bool { return otherKey(text) })
		}, unheld, surface),
		wire("unheld-kid-not-found", "A token of an unknown key is one that is not there.", "404", refusal(byToken, otherKey, recoded(404, "not_found")), unheld, surface),
		wire("unheld-kid-unauthenticated", "A token of an unknown key is refused as a missing credential.", "401 unauthenticated", refusal(resolveByToken, otherKey, recoded(401, "unauthenticated")), unheld, surface),
		inside("alg-none-believed", "A token of another algorithm is believed.", "200", func(k *insider) tamper.Middleware {
			return forging(k, byToken, func(text string, _ *token.Claims) bool { return otherAlg(text) })
		}, alg),
		wire("alg-refused-as-malformed", "A token of another algorithm is refused as a bad request.", "400", refusal(byToken, otherAlg, recoded(400, "validation_error")), alg),
		handing("token-of-unadvertised-alg", "Tokens name an algorithm that is not advertised.", "alg|blake3", func(text string) string {
			return strings.Replace(text, "ow2.hs256.", "ow2.blake3.", 1)
		}, grammar),
		handing("token-kid-too-long", "Tokens name a key by more than a key id may hold.", "kid", func(text string) string {
			return strings.Replace(text, ".k1.", "."+strings.Repeat("k", 129)+".", 1)
		}, grammar),
	}
}

func tokenLifeFaults() []Fault {
	says, lifetime, capped, expired := requirements.InterruptTokenExpiresAt, requirements.InterruptTokenDefaultLifetime, requirements.InterruptTokenCapped, requirements.InterruptTokenExpired
	byResolve, byCancel, byEnd := requirements.InterruptTokenSpentResolved, requirements.InterruptTokenSpentCancelled, requirements.InterruptTokenSpentCompleted
	mac, inspecting := requirements.InterruptTokenMacRefused, requirements.InterruptInspectToken
	spent := func(id, summary, reason, status string, edit func(*tamper.Answer), row requirements.ID) Fault {
		at := byToken
		if status == "completed" { // who loses a race by token comes after the end too, but does not inspect
			at = inspectByToken
		}
		return inside(id, summary, reason, func(k *insider) tamper.Middleware {
			return settled(at, 409, alreadyResolved, k.after(status), edit)
		}, row)
	}
	late := func(edit func(*tamper.Answer)) tamper.Middleware {
		return settled(byToken, 410, "interrupt_expired", nil, edit)
	}
	altered := func(edit func(*tamper.Answer)) tamper.Middleware {
		return settled(byToken, 401, "interrupt_token_invalid", func(r *http.Request, _ object, _ http.Handler) bool { return held(presented(r)) }, edit)
	}
	return []Fault{
		handing("token-without-expiry", "Tokens do not say when they expire.", "expiresAt", claiming(func(claims object) { delete(claims, "expiresAt") }), says).
			blocking(lifetime, capped, expired),
		handing("token-lives-an-hour", "A token lives for an hour.", "lifetime", claiming(func(claims object) {
			if left(claims) > 25*time.Minute {
				expiring(claims, time.Hour)
			}
		}), lifetime),
		handing("token-lives-a-minute", "A token lives for a minute.", "lifetime", claiming(func(claims object) {
			if left(claims) > 25*time.Minute {
				expiring(claims, time.Minute)
			}
		}), lifetime),
		handing("token-outlives-interrupt", "A token lives for half an hour, whatever becomes of its interrupt.", "after it", claiming(func(claims object) {
			if d := left(claims); d > 1250*time.Millisecond && d < 29*time.Minute {
				expiring(claims, 30*time.Minute)
			}
		}), capped),
		inside("token-never-expires", "What a token says of its end is not looked at.", "200", func(k *insider) tamper.Middleware {
			return forging(k, byToken, func(text string, claims *token.Claims) bool {
				was := claims.ExpiresAt
				claims.ExpiresAt = time.Now().Add(time.Hour)
				return k.genuine(text) && time.Now().After(was)
			})
		}, expired),
		wire("expired-token-invalid", "A token past its end is one that was never good.", "401", late(recoded(401, "interrupt_token_invalid")), expired),
		wire("expired-token-conflicts", "A token past its end is told that its interrupt is resolved.", "409", late(recoded(409, alreadyResolved)), expired),
		spent("token-of-resolved-inspects", "A token inspects an interrupt that was resolved.", "200", "waiting", accepted, byResolve),
		spent("token-of-resolved-expired", "A token of an interrupt that was resolved has expired.", "410", "waiting", recoded(410, "interrupt_expired"), byResolve),
		spent("token-of-cancelled-not-found", "A token of a cancelled run finds nothing.", "404", "cancelled", recoded(404, "not_found"), byCancel),
		spent("token-of-cancelled-run-terminal", "A token of a cancelled run is told that the run has ended.", "run_terminal", "cancelled", recoded(409, "run_terminal"), byCancel),
		spent("token-of-completed-invalid", "A token of a completed run is not accepted.", "401", "completed", recoded(401, "interrupt_token_invalid"), byEnd),
		spent("token-of-completed-expired", "A token of a completed run has expired.", "410", "completed", recoded(410, "interrupt_expired"), byEnd),
		inside("token-mac-unchecked", "A token is believed whatever its MAC.", "200|403", func(k *insider) tamper.Middleware {
			return forging(k, byToken, func(text string, _ *token.Claims) bool { return held(text) })
		}, mac, inspecting),
		inside("token-mac-prefix-enough", "The beginning of a MAC is enough.", "a MAC cut short", func(k *insider) tamper.Middleware {
			return forging(k, byToken, func(text string, claims *token.Claims) bool {
				right := k.mint(*claims)
				return held(text) && len(part(text, -1)) >= 8 && strings.HasPrefix(part(right, -1), part(text, -1))
			})
		}, mac),
		inside("token-mac-half-compared", "The second half of a MAC is not looked at.", "late in the MAC", func(k *insider) tamper.Middleware {
			return forging(k, byToken, func(text string, claims *token.Claims) bool {
				right, given := part(k.mint(*claims), -1), part(text, -1)
				return held(text) && len(given) == len(right) && given[:len(right)/2] == right[:len(right)/2]
			})
		}, mac),
		inside("token-mac-longer-enough", "What follows a MAC is not looked at.", "more after it", func(k *insider) tamper.Middleware {
			return forging(k, byToken, func(text string, claims *token.Claims) bool {
				return held(text) && strings.HasPrefix(part(text, -1), part(k.mint(*claims), -1))
			})
		}, mac),
		inside("token-mac-optional", "A token without a MAC is believed.", "an empty MAC", func(k *insider) tamper.Middleware {
			return forging(k, byToken, func(text string, _ *token.Claims) bool { return held(text) && part(text, -1) == "" })
		}, mac),
		inside("token-expiry-not-signed", "The MAC leaves out when a token expires.", "later expiresAt", func(k *insider) tamper.Middleware {
			return forging(k, byToken, func(text string, claims *token.Claims) bool {
				return held(text) && time.Until(claims.ExpiresAt) > time.Hour
			})
		}, mac),
		wire("token-mac-refused-403", "A token with another MAC is forbidden.", "403", altered(recoded(403, "forbidden")), mac, inspecting),
		inside("inspect-token-resolves", "A token for inspection resolves.", "a resolve with a token of intent inspect", func(k *insider) tamper.Middleware {
			return forging(k, resolveByToken, func(text string, claims *token.Claims) bool {
				intent := claims.Intent
				claims.Intent = token.Resolve
				return k.genuine(text) && intent == token.Inspect
			})
		}, inspecting),
		wire("inspect-token-refused-401", "A resolve with a token for inspection is refused as one with a bad token.", "401", settled(resolveByToken, 403, "forbidden", saying("serves to inspect"), recoded(401, "interrupt_token_invalid")), inspecting),
		inside("inspect-token-inspects-nothing", "A token for inspection is refused to inspect.", "403", func(k *insider) tamper.Middleware {
			return settled(inspectByToken, 200, "", func(r *http.Request, _ object, _ http.Handler) bool {
				claims, _ := claimed(presented(r))
				return claims.Intent == token.Inspect
			}, recoded(403, "forbidden"))
		}, inspecting, requirements.IdentityTokenGrammar),
	}
}

func tokenSurfaceFaults() []Fault {
	inspects, resolves, checked := requirements.InterruptTokenInspects, requirements.InterruptTokenResolves, requirements.InterruptTokenResolveChecked
	idempotent, winner := requirements.InterruptTokenResolveIdempotent, requirements.InterruptOneWinnerAcrossSurfaces
	body := func(r *http.Request) object { doc, _ := tamper.BodyJSON(r); return doc }
	return []Fault{
		wire("inspection-says-less", "Inspection leaves out what the gate is called.", "InterruptPayload|title", tamper.JSON(inspectByToken, http.StatusOK, func(_ *http.Request, doc map[string]any) {
			delete(dataOf(doc), "description")
			if data := dataOf(doc); data["title"] != nil {
				data["title"] = "Approval"
			}
		}), inspects),
		wire("inspection-without-deadline", "Inspection leaves out by when an interrupt has to be resolved, and what by.", "InterruptPayload|timeoutMs", tamper.JSON(inspectByToken, http.StatusOK, func(_ *http.Request, doc map[string]any) {
			delete(doc, "timeoutMs")
			delete(doc, "resumeSchema")
		}), inspects),
		wire("inspection-of-another-key", "Inspection shows an interrupt under a key of its own.", "InterruptPayload", tamper.Answers(tamper.And(inspectByToken, func(r *http.Request) bool {
			claims, _ := claimed(presented(r))
			return claims.Intent == token.Resolve
		}), func(_ *http.Request, a *tamper.Answer) {
			if doc, _ := a.JSON(); a.Status == http.StatusOK && dataOf(doc)["title"] == "Conformance approval" {
				doc["key"] = text(doc["key"]) + ":shown"
				a.SetJSON(doc)
			}
		}), inspects),
		wire("resolve-by-token-answered-202", "A resolve by token is answered as something that is still to come.", "202", tamper.Answers(resolveByToken, func(_ *http.Request, a *tamper.Answer) {
			if a.Status == http.StatusOK {
				a.Status = http.StatusAccepted
			}
		}), resolves),
		inside("inspection-uses-up-token", "A token that has inspected resolves no more.", "409", usedUp, resolves),
		wire("token-resolve-without-value", "What a gate was told by token is not in interrupt.resolved.", "resumeValue.action|with the resume value", shown(func(p object) {
			if p["resolvedBy"] == nil && p["reason"] == nil {
				delete(p, "resumeValue")
			}
		}, "interrupt.resolved"), resolves),
		wire("token-resolve-without-action", "What was decided by token is recorded without its action.", "action of interrupt.resolved", shown(func(p object) {
			if p["resolvedBy"] == nil {
				delete(p, "action")
			}
		}, "interrupt.resolved"), resolves),
		wire("token-resolve-without-edit", "What was edited is not recorded where it came by token.", "editedArtifactData of interrupt.resolved", shown(func(p object) {
			if p["resolvedBy"] == nil {
				delete(p, "editedArtifactData")
			}
		}, "interrupt.resolved"), resolves),
		wire("token-resolve-incomplete", "A resolve by token may leave out what belongs to its action.", "edit-accept", settled(resolveByToken, 400, "validation_error", saying("edit-accept needs"), accepted), checked),
		wire("token-resolve-body-open", "A resolve by token takes members it does not know.", "decidedBy", tamper.Requests(resolveByToken, func(r *http.Request) {
			if doc := body(r); doc["resumeValue"] != nil {
				tamper.SetBodyJSON(r, object{"resumeValue": doc["resumeValue"]})
			}
		}), checked),
		wire("token-resolve-schema-ignored", "A resolve by token is taken whatever the resumeSchema says.", "verdict|200", settled(resolveByToken, 400, "validation_error", func(r *http.Request, doc object, next http.Handler) bool {
			return saying("resumeSchema")(r, doc, next)
		}, accepted), checked),
		wire("token-resolve-action-free", "A resolve by token may take any action.", "refine", settled(resolveByToken, 400, "validation_error", func(r *http.Request, _ object, _ http.Handler) bool {
			return given(r)["action"] == "refine"
		}, accepted), checked),
		wire("token-resolve-key-ignored", "A resolve by token ignores its Idempotency-Key.", "409", tamper.Requests(resolveByToken, func(r *http.Request) { r.Header.Del("Idempotency-Key") }), idempotent),
		wire("token-key-of-other-body", "A resolve by token with the key of another one gets its response.", "409 idempotency_key_mismatch", settled(resolveByToken, 409, "idempotency_key_mismatch", nil, accepted), idempotent),
		wire("token-replay-unmarked", "A replayed resolve by token does not say that it is one.", "OpenWOP-Idempotent-Replay|marker", tamper.Answers(resolveByToken, func(_ *http.Request, a *tamper.Answer) {
			a.Header.Del("OpenWOP-Idempotent-Replay")
		}), idempotent),
		{ID: "losers-by-token-not-found", Summary: "A resolve by token that comes too late in a race finds nothing.", Reason: "404", Breaks: []requirements.ID{winner},
			Wrap: racing(recoded(404, "not_found"))},
		{ID: "losers-by-token-accepted", Summary: "A resolve by token that comes too late in a race is told that it has won.", Reason: "resolves succeeded", Breaks: []requirements.ID{winner},
			Wrap: racing(accepted)},
	}
}

// usedUp refuses to resolve with a token that was used to inspect.
func usedUp(k *insider) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		var mu sync.Mutex
		looked := map[string]bool{}
		return tamper.Instead(byToken, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			text := presented(r)
			claims, _ := claimed(text)
			good := k.genuine(text) && claims.Intent == token.Resolve && !claims.Expired(time.Now())
			mu.Lock()
			used := looked[text]
			looked[text] = used || inspectByToken(r)
			mu.Unlock()
			if resolveByToken(r) && used && good {
				a := &tamper.Answer{Header: http.Header{}}
				a.Refuse(409, alreadyResolved, "used up")
				a.Send(w)
				return
			}
			next.ServeHTTP(w, r)
		})(next)
	}
}

// racing edits what resolves by token are told that come too late without having
// looked before: in a race.
func racing(edit func(*tamper.Answer)) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		var mu sync.Mutex
		looked := map[string]bool{}
		return tamper.Chain(tamper.Requests(inspectByToken, func(r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			looked[presented(r)] = true
		}), settled(resolveByToken, 409, alreadyResolved, func(r *http.Request, _ object, _ http.Handler) bool {
			mu.Lock()
			defer mu.Unlock()
			return !looked[presented(r)]
		}, edit))(next)
	}
}
