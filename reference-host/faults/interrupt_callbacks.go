package faults

import (
	"context"
	"net/http"
	"strings"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

func callbackFaults() []Fault {
	guarded, delivered, redirect := requirements.R0196CallbackUrlGuarded, requirements.InterruptCallbackDelivered, requirements.InterruptCallbackNoRedirect
	lead := func(id, summary string, hosts ...string) Fault {
		return wire(id, summary, "201", tamper.Requests(tamper.CreateRun, func(r *http.Request) {
			doc, ok := tamper.BodyJSON(r)
			for _, h := range hosts {
				if ok && strings.Contains(text(doc["callbackUrl"]), h) {
					doc["callbackUrl"] = "https://example.com/callback"
					tamper.SetBodyJSON(r, doc)
				}
			}
		}), guarded)
	}
	refusal := func(edit func(r *http.Request, next http.Handler, a *tamper.Answer)) tamper.Middleware {
		return tamper.Instead(tamper.CreateRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			body := tamper.Body(r)
			a := tamper.Record(next, r)
			tamper.SetBody(r, body)
			doc, _ := a.JSON()
			details, _ := doc["details"].(object)
			if details["field"] == "callbackUrl" {
				edit(r, next, a)
			}
			a.Send(w)
		})
	}
	off := func(id, summary string) Fault {
		return wire(id, summary, "201", tamper.Requests(tamper.CreateRun, func(r *http.Request) {
			if doc, ok := tamper.BodyJSON(r); ok && doc["callbackUrl"] != nil {
				delete(doc, "callbackUrl")
				tamper.SetBodyJSON(r, doc)
			}
		}), requirements.InterruptCallbackUnadvertisedRefused).on("callbacks-off").closing(requirements.RunsCallbackUrlRefusal)
	}
	return []Fault{
		lead("callback-to-loopback", "A callback may lead to the host itself.", "//127.", "//[::1]").
			closing(requirements.RunsCallbackUrlRefusal),
		lead("callback-to-localhost", "A callback may lead to the host itself by name.", "//localhost"),
		lead("callback-to-private", "A callback may lead into the host's own network.", "//10.", "//192.168."),
		lead("callback-to-half-of-a-range", "A callback may lead to the second half of a private range.", "//172.31.", "//[febf:", "//[fc00:", "//10.255."),
		lead("callback-to-metadata-by-name", "A callback may lead to the metadata of the cloud by name.", "//metadata.google", "//METADATA.google"),
		lead("callback-to-localhost-spelt", "A callback may lead to the host itself by another spelling of its name.", "//LOCALHOST", "//localhost."),
		lead("callback-to-metadata", "A callback may lead to the metadata of the cloud.", "//169.254."),
		lead("callback-to-mapped-address", "A callback may lead to a private address written as IPv6.", "//[::ffff:"),
		lead("callback-to-private-ipv6", "A callback may lead to a private IPv6 address.", "//[f"),
		lead("callback-without-tls", "A callback may be sent in the clear.", "http://wopcert"),
		wire("callback-guard-other-field", "A callbackUrl is refused without saying that it was that.", "details.field", refusal(func(_ *http.Request, _ http.Handler, a *tamper.Answer) {
			doc, _ := a.JSON()
			doc["details"] = object{"field": "url"}
			a.SetJSON(doc)
		}), guarded, requirements.RunsCallbackUrlRefusal),
		wire("callback-guard-403", "A callbackUrl that leads inside is forbidden.", "403", refusal(func(_ *http.Request, _ http.Handler, a *tamper.Answer) { a.Refuse(403, "forbidden", "no") }), guarded, requirements.RunsCallbackUrlRefusal),
		wire("callback-guard-run-made", "A create with a callbackUrl that leads inside is refused, and the run is there.", "no run|run", refusal(func(r *http.Request, next http.Handler, _ *tamper.Answer) {
			doc, _ := tamper.BodyJSON(r)
			delete(doc, "callbackUrl")
			tamper.Ask(next, r, http.MethodPost, "/runs", doc)
		}), guarded),
		made("callbacks-not-made", "The host takes a callbackUrl and calls nobody.", "0 callbacks", calling(func(context.Context, referencehost.Sender, referencehost.Effect) (*referencehost.Outcome, error) {
			return &referencehost.Outcome{Status: http.StatusNoContent}, nil
		}), delivered).slow().blocking(
			redirect, requirements.SecurityDefaultsOnwardHopDelivery, requirements.InterruptTokenInspects, requirements.InterruptTokenResolves, requirements.InterruptTokenResolveChecked, requirements.InterruptTokenResolveIdempotent,
			requirements.InterruptOneWinnerAcrossSurfaces, requirements.InterruptTokenExpiresAt, requirements.InterruptTokenDefaultLifetime, requirements.InterruptTokenCapped,
			requirements.InterruptTokenExpired, requirements.InterruptTokenSpentResolved, requirements.InterruptTokenSpentCancelled, requirements.InterruptTokenSpentCompleted,
			requirements.InterruptTokenMacRefused, requirements.InterruptInspectToken, requirements.R0170InterruptTokenSchemeUnprefixedRefused,
			requirements.R0170InterruptTokenSchemeUnheldKidRefused, requirements.IdentityTokenAlgRefused, requirements.IdentityTokenGrammar, requirements.ErrorsNoInterruptCancelled),
		made("callback-redirect-followed", "A redirect that answers a callback is followed.", "requests", calling(func(ctx context.Context, next referencehost.Sender, effect referencehost.Effect) (*referencehost.Outcome, error) {
			outcome, err := next.Send(ctx, effect)
			if err == nil && outcome.Status >= 300 && outcome.Status < 400 {
				effect.URL = outcome.Header.Get("Location")
				return next.Send(ctx, effect)
			}
			return outcome, err
		}), redirect),
		off("callback-url-dropped", "A host that calls nobody takes a callbackUrl."),
	}
}
