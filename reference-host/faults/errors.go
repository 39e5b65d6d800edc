package faults

import (
	"net/http"
	"strings"
	"sync"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// notFound edits the envelope of every 404, a refusal that the rules of other
// operations do not ask for.
func notFound(edit func(doc object)) tamper.Middleware {
	return tamper.JSON(tamper.Any, http.StatusNotFound, func(_ *http.Request, doc map[string]any) { edit(doc) })
}

func errorFaults() []Fault {
	envelope := requirements.R0171ErrorRegistryEnvelope
	return []Fault{
		wire("envelope-extra-member", "An error envelope has a member beside error, message and details.",
			"traceId|of a run that is no eval run", notFound(func(doc object) { doc["traceId"] = "abc" }), envelope, requirements.RunsEvalSummaryNotEval).
			also("404 not_found, but the envelope is invalid: does not match|replay of a run that is not there: does not match", refusedNotFound()...),
		wire("envelope-unregistered-code", "An error has a code that nobody registered.",
			"no_such_run|of a run that is no eval run", notFound(func(doc object) { doc["error"] = "no_such_run" }), envelope, requirements.RunsEvalSummaryNotEval).
			also("404 no_such_run|replay of a run that is not there: does not match", refusedNotFound()...),
		wire("envelope-unregistered-vendor", "An error has a code of an organisation that is not registered.",
			"acme-unregistered.gone|of a run that is no eval run", notFound(func(doc object) { doc["error"] = "acme-unregistered.gone" }), envelope, requirements.RunsEvalSummaryNotEval).
			also("404 acme-unregistered.gone|replay of a run that is not there: 404", refusedNotFound()...),
		wire("envelope-empty-message", "An error has an empty message.",
			"message|of a run that is no eval run", notFound(func(doc object) { doc["message"] = "" }), envelope, requirements.RunsEvalSummaryNotEval).
			also("404 not_found, but the envelope is invalid: does not match|replay of a run that is not there: does not match", refusedNotFound()...),
		wire("envelope-empty-correlation-id", "An error has an empty correlation id.",
			"correlationId", notFound(func(doc object) { doc["details"] = object{"correlationId": ""} }), envelope),
		wire("envelope-details-is-text", "The details of an error are a string.",
			"details|of a run that is no eval run", notFound(func(doc object) { doc["details"] = "no such run" }), envelope, requirements.RunsEvalSummaryNotEval).
			also("404 not_found, but the envelope is invalid: does not match|replay of a run that is not there: does not match", refusedNotFound()...),
		wire("error-as-plain-text", "An error is a line of text.",
			"404|of a run that is no eval run", onStatus(tamper.Any, 404, func(a *tamper.Answer) {
				a.Header.Set("Content-Type", "text/plain; charset=utf-8")
				a.Body = []byte("404 page not found\n")
			}), envelope, requirements.RunsEvalSummaryNotEval).
			also("404 text/plain; charset=utf-8|replay of a run that is not there: 404 text/plain;", refusedNotFound()...),
		wire("error-as-problem-json", "An error is a problem document of RFC 9457.",
			"404|of a run that is no eval run", onStatus(tamper.Any, 404, func(a *tamper.Answer) {
				a.SetJSON(object{"type": "about:blank", "title": "Not Found", "status": 404})
			}), envelope, requirements.RunsEvalSummaryNotEval).
			also("404 application/json|replay of a run that is not there: does not match", refusedNotFound()...),
		wire("retry-after-in-details", "An error says under details when to try again.",
			"retryAfter", notFound(func(doc object) { doc["details"] = object{"retryAfter": 5} }),
			requirements.R0171ErrorRegistryNoRetryDetails),
		wire("retry-after-ms-in-details", "An error says under details, in milliseconds, when to try again.",
			"retryAfterMs", notFound(func(doc object) { doc["details"] = object{"retryAfterMs": 5000} }),
			requirements.R0171ErrorRegistryNoRetryDetails),
		wire("retry-after-seconds-in-details", "An error says under details, in seconds, when to try again.",
			"retryAfterSeconds", notFound(func(doc object) { doc["details"] = object{"retryAfterSeconds": 5} }),
			requirements.R0171ErrorRegistryNoRetryDetails),
		wire("taken-scope-retry-in-details", "The refusal of a run in a scope that is taken says under details when to try again.",
			"retryAfterSeconds", tamper.JSON(tamper.CreateRun, http.StatusConflict, func(_ *http.Request, doc map[string]any) {
				if doc["error"] == "run_already_active" {
					doc["details"] = object{"retryAfterSeconds": 30}
				}
			}),
			requirements.R0171ErrorRegistryNoRetryDetails),
		wire("rate-limit-without-retry-after", "A 429 does not say when to try again.",
			"Retry-After|of a run that is no eval run", onStatus(tamper.Any, 404, func(a *tamper.Answer) {
				a.Refuse(http.StatusTooManyRequests, "rate_limited", "slow down")
			}),
			requirements.R0171ErrorRegistryRetryAfter, requirements.RunsEvalSummaryNotEval).
			blocking(requirements.RunsGatedOperationsAbsent).
			also("429 rate_limited|replay of a run that is not there: 429 rate_limited", refusedNotFound()...),
		wire("not-found-under-410", "The code not_found comes under status 410.",
			"410", onStatus(tamper.Any, 404, func(a *tamper.Answer) { a.Status = http.StatusGone }),
			requirements.ErrorsRegisteredStatus, requirements.RunsEvalSummaryNotEval).
			blocking(requirements.RunsGatedOperationsAbsent).
			also("410 not_found|replay of a run that is not there: 410 not_found", refusedNotFound()...),
		wire("not-found-under-200", "The code not_found comes under status 200.",
			"200", onStatus(tamper.Any, 404, func(a *tamper.Answer) { a.Status = http.StatusOK }),
			requirements.ErrorsRegisteredStatus, requirements.RunsEvalSummaryNotEval).
			blocking(requirements.RunsGatedOperationsAbsent, requirements.ConformanceSeamsAdvertised).
			also("200 not_found|replay of a run that is not there: 200 not_found", refusedNotFound()...),
	}
}

func malformedFaults() []Fault {
	return []Fault{
		wire("malformed-body-500", "A body that is not JSON makes the host answer 500.",
			"500 internal_error", malformed(func(a *tamper.Answer) { a.Refuse(500, "internal_error", "unexpected token") }),
			requirements.R0172MalformedBodyEnvelope),
		wire("malformed-body-html", "A body that is not JSON is answered with the error page of a framework.",
			"text/html", malformed(func(a *tamper.Answer) {
				a.Header.Set("Content-Type", "text/html")
				a.Body = []byte("<!doctype html><title>Bad Request</title>")
			}),
			requirements.R0172MalformedBodyEnvelope),
		wire("malformed-body-422", "A body that is not JSON is answered 422.",
			"422", malformed(func(a *tamper.Answer) { a.Status = http.StatusUnprocessableEntity }),
			requirements.R0172MalformedBodyEnvelope),
		wire("wrong-typed-body-runs", "A body whose inputs are no object is accepted as if it had none.",
			"201", tamper.Requests(tamper.CreateRun, func(r *http.Request) {
				doc, ok := tamper.BodyJSON(r)
				if !ok {
					return
				}
				for name, v := range doc {
					if _, text := v.(string); !text && (name == "inputs" || name == "metadata") {
						if _, isObject := v.(object); !isObject {
							delete(doc, name)
						}
					}
				}
				if _, ok := doc["tags"].([]any); !ok {
					delete(doc, "tags")
				}
				for _, name := range []string{"inputs", "metadata"} {
					if _, text := doc[name].(string); text {
						delete(doc, name)
					}
				}
				tamper.SetBodyJSON(r, doc)
			}),
			requirements.R0172MalformedBodyEnvelope),
		wire("unknown-body-member-dropped", "A member of the body that is not defined goes unread.",
			"201", tamper.Requests(tamper.CreateRun, func(r *http.Request) {
				if doc, ok := tamper.BodyJSON(r); ok && doc["wopcertUnknown"] != nil {
					delete(doc, "wopcertUnknown")
					tamper.SetBodyJSON(r, doc)
				}
			}),
			requirements.R0172MalformedBodyEnvelope),
		wire("misspelt-body-member-read", "A body gives its inputs under another name.",
			"201", tamper.Requests(tamper.CreateRun, func(r *http.Request) {
				if doc, ok := tamper.BodyJSON(r); ok && doc["input"] != nil {
					doc["inputs"] = doc["input"]
					delete(doc, "input")
					tamper.SetBodyJSON(r, doc)
				}
			}),
			requirements.R0172MalformedBodyEnvelope),
		wire("array-body-runs", "A body that is a list is read as the object in it.",
			"201", tamper.Requests(tamper.CreateRun, func(r *http.Request) {
				if list, ok := tamper.Decode(tamper.Body(r)).([]any); ok {
					tamper.SetBodyJSON(r, object{"workflowId": "conformance-noop", "metadata": object{"items": len(list)}})
				}
			}),
			requirements.R0172MalformedBodyEnvelope),
	}
}

// malformed edits the answer to a createRun whose body is not JSON.
func malformed(edit func(a *tamper.Answer)) tamper.Middleware {
	return tamper.Instead(tamper.CreateRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		broken := tamper.Decode(tamper.Body(r)) == nil
		a := tamper.Record(next, r)
		if broken {
			edit(a)
		}
		a.Send(w)
	})
}

func anonymous(r *http.Request) bool { return r.Header.Get("Authorization") == "" }

// private selects the operations that need a credential.
func private(r *http.Request) bool { return !tamper.Discovery(r) && !tamper.Preflight(r) }

func authFaults() []Fault {
	refused := requirements.IdentityUnauthenticatedRefused
	unauthenticated := func(edit func(a *tamper.Answer)) tamper.Middleware { return onStatus(private, 401, edit) }
	return []Fault{
		wire("anonymous-served", "A request without a credential is served.",
			"anonymous", servedAs(anonymous), refused).
			also("a resolve by the anonymous caller was answered 200|201 application/json", requirements.InterruptResolveScope, requirements.ConformanceSeamsAuthenticated),
		wire("unknown-credential-served", "A credential the host never issued is good enough.",
			"unknown", servedAs(tamper.Not(anonymous)), refused).
			also("a resolve by the unknown caller was answered 200", requirements.InterruptResolveScope),
		wire("anonymous-forbidden", "A request without a credential is refused 403.",
			"403", tamper.Answers(tamper.And(private, anonymous), func(_ *http.Request, a *tamper.Answer) {
				a.Refuse(http.StatusForbidden, "forbidden", "no credential")
			}), refused).
			also("a resolve by the anonymous caller was answered 403 forbidden|403 forbidden|the resume value|inspection with a token of two segments was answered 403|inspection with a kid nobody holds was answered 403|partial-witness: recommended: /interrupts/", requirements.InterruptResolveScope, requirements.InterruptTokenInspects, requirements.InterruptTokenResolves, requirements.InterruptTokenResolveChecked, requirements.InterruptOneWinnerAcrossSurfaces, requirements.InterruptCallbackDelivered, requirements.InterruptInspectToken, requirements.R0170InterruptTokenSchemeUnprefixedRefused, requirements.R0170InterruptTokenSchemeUnheldKidRefused, requirements.IdentityTokenGrammar, requirements.ConformanceSeamsAuthenticated, requirements.InterruptTokenSurface).
			blocking(requirements.InterruptTokenResolveIdempotent, requirements.InterruptTokenExpired, requirements.InterruptTokenSpentResolved, requirements.InterruptTokenSpentCancelled, requirements.InterruptTokenSpentCompleted, requirements.InterruptTokenMacRefused, requirements.IdentityTokenAlgRefused),
		wire("unknown-credential-not-found", "A credential the host never issued is answered 404.",
			"404", tamper.Answers(tamper.And(private, tamper.Not(anonymous)), func(_ *http.Request, a *tamper.Answer) {
				if a.Status == http.StatusUnauthorized {
					a.Refuse(http.StatusNotFound, "not_found", "no such thing")
				}
			}), refused).
			also("a resolve by the unknown caller was answered 404 not_found", requirements.InterruptResolveScope),
		wire("unauthenticated-unregistered-code", "A 401 has a code that nobody registered.",
			"missing_api_key", unauthenticated(func(a *tamper.Answer) { a.SetJSON(object{"error": "missing_api_key", "message": "no key"}) }), refused,
			requirements.R0171ErrorRegistryEnvelope).
			also("a resolve by the anonymous caller was answered 401|inspection with an empty MAC was answered 401|401 missing_api_key|inspection with a token of two segments was answered 401|inspection with a kid nobody holds was answered 401|inspection with the alg none was answered 401|partial-witness: recommended: /interrupts/", requirements.InterruptResolveScope, requirements.InterruptTokenMacRefused, requirements.InterruptInspectToken, requirements.R0170InterruptTokenSchemeUnprefixedRefused, requirements.R0170InterruptTokenSchemeUnheldKidRefused, requirements.IdentityTokenAlgRefused, requirements.InterruptTokenSurface),
		wire("unauthenticated-empty", "A 401 has no body.",
			"401", unauthenticated(func(a *tamper.Answer) { a.Body = nil }), refused, requirements.R0171ErrorRegistryEnvelope).
			also("a resolve by the anonymous caller was answered 401|inspection with an empty MAC was answered 401|401 application/json|inspection with a token of two segments was answered 401|inspection with a kid nobody holds was answered 401|inspection with the alg none was answered 401|partial-witness: recommended: /interrupts/", requirements.InterruptResolveScope, requirements.InterruptTokenMacRefused, requirements.InterruptInspectToken, requirements.R0170InterruptTokenSchemeUnprefixedRefused, requirements.R0170InterruptTokenSchemeUnheldKidRefused, requirements.IdentityTokenAlgRefused, requirements.ConformanceSeamsAuthenticated, requirements.InterruptTokenSurface),
	}
}

// servedAs lets refused requests through with a credential that was good before.
func servedAs(m tamper.Match) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		var mu sync.Mutex
		good := ""
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !private(r) || strings.HasSuffix(r.URL.Path, "/events") {
				next.ServeHTTP(w, r)
				return
			}
			body := tamper.Body(r)
			a := tamper.Record(next, r)
			mu.Lock()
			if a.Status < 300 && good == "" {
				good = r.Header.Get("Authorization")
			}
			key := good
			mu.Unlock()
			if a.Status == http.StatusUnauthorized && m(r) && key != "" {
				r = r.Clone(r.Context())
				r.Header.Set("Authorization", key)
				tamper.SetBody(r, body)
				a = tamper.Record(next, r)
			}
			a.Send(w)
		})
	}
}
