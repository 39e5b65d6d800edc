package referencehost

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"wopcert/bundle/jcs"
	"wopcert/corpus"
	"wopcert/reference-host/internal/era"
)

// errorCodes are the registered codes this host answers with. Each is looked up in the registry when the host is made,
// so that a code that is not registered cannot be sent and the status is always the registered one (errors.md §The
// envelope). The methods below are the only constructors of refusals.
type errorCodes struct {
	validation          corpus.ErrorCode
	unsupportedMode     corpus.ErrorCode
	versionMismatch     corpus.ErrorCode
	keyInvalid          corpus.ErrorCode
	unauthenticated     corpus.ErrorCode
	identityUnverified  corpus.ErrorCode
	credentialRevoked   corpus.ErrorCode
	forbidden           corpus.ErrorCode
	tenantMismatch      corpus.ErrorCode
	credentialForbidden corpus.ErrorCode
	mockForbidden       corpus.ErrorCode
	engineForbidden     corpus.ErrorCode
	notFound            corpus.ErrorCode
	versionUnsupported  corpus.ErrorCode
	keyMismatch         corpus.ErrorCode
	keyInFlight         corpus.ErrorCode
	alreadyActive       corpus.ErrorCode
	runTerminal         corpus.ErrorCode
	stateConflict       corpus.ErrorCode
	nodeConfig          corpus.ErrorCode
	tooDeep             corpus.ErrorCode
	forkPoint           corpus.ErrorCode
	runExpired          corpus.ErrorCode
	tooLarge            corpus.ErrorCode
	mediaType           corpus.ErrorCode
	capabilityRequired  corpus.ErrorCode
	residency           corpus.ErrorCode
	clientVersion       corpus.ErrorCode
	rateLimited         corpus.ErrorCode
	unmapped            corpus.ErrorCode
	unprojectable       corpus.ErrorCode
	internal            corpus.ErrorCode
	webhookRefused      corpus.ErrorCode
	endpointUnverified  corpus.ErrorCode
	interruptToken      corpus.ErrorCode
	interruptResolved   corpus.ErrorCode
	interruptExpired    corpus.ErrorCode
	approvalRejected    corpus.ErrorCode
}

func newErrorCodes(contract *corpus.Corpus) (*errorCodes, error) {
	codes := new(errorCodes)
	fields := map[string]*corpus.ErrorCode{
		"validation_error": &codes.validation, "unsupported_stream_mode": &codes.unsupportedMode,
		"protocol_version_mismatch": &codes.versionMismatch, "idempotency_key_invalid": &codes.keyInvalid,
		"unauthenticated": &codes.unauthenticated, "identity_unverified": &codes.identityUnverified,
		"credential_revoked": &codes.credentialRevoked, "forbidden": &codes.forbidden,
		"id_tenant_mismatch": &codes.tenantMismatch, "credential_forbidden": &codes.credentialForbidden,
		"mock_provider_forbidden": &codes.mockForbidden, "force_engine_version_forbidden": &codes.engineForbidden,
		"not_found": &codes.notFound, "protocol_version_unsupported": &codes.versionUnsupported,
		"idempotency_key_mismatch": &codes.keyMismatch, "idempotency_in_flight": &codes.keyInFlight,
		"run_already_active": &codes.alreadyActive, "run_terminal": &codes.runTerminal,
		"run_state_conflict": &codes.stateConflict, "fork_point_invalid": &codes.forkPoint, "run_expired": &codes.runExpired,
		"node_config_invalid": &codes.nodeConfig, "sub_chain_depth_exceeded": &codes.tooDeep,
		"payload_too_large": &codes.tooLarge, "unsupported_media_type": &codes.mediaType,
		"capability_required": &codes.capabilityRequired, "residency_unavailable": &codes.residency,
		"client_version_unsupported": &codes.clientVersion, "rate_limited": &codes.rateLimited,
		"event_type_unmapped": &codes.unmapped, "payload_unprojectable": &codes.unprojectable, "internal_error": &codes.internal, "webhook_url_rejected": &codes.webhookRefused,
		"webhook_endpoint_unverified": &codes.endpointUnverified, "interrupt_token_invalid": &codes.interruptToken,
		"interrupt_already_resolved": &codes.interruptResolved, "interrupt_expired": &codes.interruptExpired,
		"approval_rejected": &codes.approvalRejected,
	}
	for code, field := range fields {
		row, ok := contract.Error(code)
		if !ok {
			return nil, fmt.Errorf("the contract does not register the error code %s", code)
		}
		*field = row
	}
	return codes, nil
}

// refusal is an answer with the error envelope.
type refusal struct {
	code    corpus.ErrorCode
	message string
	details map[string]any
	header  http.Header
}

func (r *refusal) Error() string { return r.code.Code + ": " + r.message }

// envelope is the error envelope (errors.md §The envelope).
func (r *refusal) envelope() map[string]any {
	envelope := map[string]any{"error": r.code.Code, "message": r.message}
	if len(r.details) > 0 {
		envelope["details"] = r.details
	}
	return envelope
}

func (r *refusal) answer() *answer {
	a := jsonAnswer(r.code.HTTPStatus, r.envelope())
	for name, values := range r.header {
		a.header[name] = values
	}
	return a
}

func (r *refusal) with(name, value string) *refusal {
	if r.header == nil {
		r.header = make(http.Header)
	}
	r.header.Set(name, value)
	return r
}

// retryAfter sets Retry-After in whole seconds, at least one (errors.md §Retry timing).
func (r *refusal) retryAfter(wait time.Duration) *refusal {
	return r.with("Retry-After", strconv.FormatInt(max(int64((wait+time.Second-1)/time.Second), 1), 10))
}

func refuse(code corpus.ErrorCode, message string, details map[string]any) *refusal {
	return &refusal{code: code, message: message, details: details}
}

// invalid is 400 validation_error for one field of the request.
func (c *errorCodes) invalid(field, message string) *refusal {
	return refuse(c.validation, message, map[string]any{"field": field})
}

// shownViolations bounds how much of a schema's complaint an answer repeats.
const shownViolations = 10

// malformed is 400 validation_error for a body that is not JSON, or not the JSON it has to be.
func (c *errorCodes) malformed(err error) *refusal {
	var syntax *jcs.Error
	if errors.As(err, &syntax) {
		return refuse(c.validation, "The body is not acceptable JSON.", map[string]any{
			"field": "body", "reason": string(syntax.Kind), "offset": syntax.Offset,
		})
	}
	details := map[string]any{"field": "body"}
	var invalid *corpus.ValidationError
	if errors.As(err, &invalid) && len(invalid.Violations) > 0 {
		var violations []any
		for _, v := range invalid.Violations[:min(len(invalid.Violations), shownViolations)] {
			violations = append(violations, map[string]any{"pointer": v.Pointer, "keyword": v.Keyword})
		}
		details["violations"] = violations
		if field, _, _ := strings.Cut(strings.TrimPrefix(invalid.Violations[0].Pointer, "/"), "/"); field != "" {
			details["field"] = field
		}
	}
	return refuse(c.validation, "The body does not match the request's schema.", details)
}

func (c *errorCodes) streamMode(supported []string) *refusal {
	return refuse(c.unsupportedMode, "This host does not serve the streamMode.", map[string]any{"supported": supported})
}

func (c *errorCodes) pathVersion() *refusal {
	return refuse(c.versionMismatch, "A /v1/ path takes no OpenWOP-Version but 1.", nil)
}

func (c *errorCodes) badIdempotencyKey() *refusal {
	return refuse(c.keyInvalid, "Idempotency-Key must be one value of 22 to 128 characters from A-Z a-z 0-9 . _ ~ -.", nil)
}

// The three answers to a credential that does not do. All carry the challenge (headers.md §Response headers).
func (c *errorCodes) noCredential() *refusal {
	return refuse(c.unauthenticated, "Present an API key: Authorization: Bearer <key>.", nil).with("WWW-Authenticate", "Bearer")
}

func (c *errorCodes) unknownCredential() *refusal {
	return refuse(c.identityUnverified, "The credential is not one of this host's.", nil).with("WWW-Authenticate", "Bearer")
}

func (c *errorCodes) revokedCredential() *refusal {
	return refuse(c.credentialRevoked, "The credential was revoked.", nil).with("WWW-Authenticate", "Bearer")
}

func (c *errorCodes) missingScope(scope string) *refusal {
	return refuse(c.forbidden, "The credential lacks the scope the operation needs.", map[string]any{"requiredScope": scope})
}

func (c *errorCodes) foreignTenant(field string) *refusal {
	return refuse(c.forbidden, "The credential does not act for that tenant.", map[string]any{"field": field})
}

// foreignID says the same whether or not there is such a thing (runs.md §Identity).
func (c *errorCodes) foreignID() *refusal {
	return refuse(c.tenantMismatch, "The id belongs to another tenant.", nil)
}

// tokenInvalid does not say what is wrong with the token.
func (c *errorCodes) tokenInvalid() *refusal {
	return refuse(c.interruptToken, "The token is not one this host accepts.", nil).with("WWW-Authenticate", "Bearer")
}

func (c *errorCodes) tokenExpired() *refusal {
	return refuse(c.interruptExpired, "The token has expired.", nil)
}

func (c *errorCodes) inspectOnly() *refusal {
	return refuse(c.forbidden, "The token serves to inspect the interrupt and not to resolve it.", nil)
}

func (c *errorCodes) needsCaller() *refusal {
	return refuse(c.forbidden, "Only an authenticated caller resolves this interrupt.", nil)
}

func (c *errorCodes) ineligible() *refusal {
	return refuse(c.forbidden, "The caller is not one of the approvers of this gate.", nil)
}

func (c *errorCodes) alreadyResolved() *refusal {
	return refuse(c.interruptResolved, "The interrupt has been resolved, or its run has ended.", nil)
}

func (c *errorCodes) credentialRef() *refusal {
	return refuse(c.credentialForbidden, "The reference names no credential this host would use.",
		map[string]any{"field": "configurable.ai.credentialRef"})
}

func (c *errorCodes) mockProvider() *refusal {
	return refuse(c.mockForbidden, "A mock provider is for test keys only.", map[string]any{"field": "configurable.ai.mockProvider"})
}

func (c *errorCodes) forcedEngine() *refusal {
	return refuse(c.engineForbidden, "Forcing the engine version is for test keys only.", nil)
}

func (c *errorCodes) missing(what string) *refusal {
	return refuse(c.notFound, "There is no such "+what+".", nil)
}

func (c *errorCodes) unservedVersion(served []string) *refusal {
	return refuse(c.versionUnsupported, "This host does not serve that protocol version.", map[string]any{"protocolVersions": served})
}

func (c *errorCodes) reusedKey() *refusal {
	return refuse(c.keyMismatch, "The Idempotency-Key was used for a different request.", nil)
}

func (c *errorCodes) busyKey() *refusal {
	return refuse(c.keyInFlight, "A request with this Idempotency-Key is being processed.", nil).retryAfter(time.Second)
}

func (c *errorCodes) scopeHeld(runID string, wait time.Duration) *refusal {
	return refuse(c.alreadyActive, "A run of this scope is active.", map[string]any{"activeRunId": runID}).retryAfter(wait)
}

func (c *errorCodes) ended(status string) *refusal {
	return refuse(c.runTerminal, "The run has already ended.", map[string]any{"runStatus": status})
}

// conflict refuses what the run's status does not permit; the details name the status (runs.md §Pause and resume).
func (c *errorCodes) conflict(status string) *refusal {
	return refuse(c.stateConflict, "The run's status does not permit that.", map[string]any{"runStatus": status})
}

// webhookURL does not say which address a name leads to, or which rule it breaks.
func (c *errorCodes) webhookURL() *refusal {
	return refuse(c.webhookRefused, "A webhook must have an https URL that leads to the public internet.", map[string]any{"field": "url"})
}

func (c *errorCodes) unverifiedEndpoint() *refusal {
	return refuse(c.endpointUnverified, "The endpoint did not answer the verification request with the challenge it was sent.",
		map[string]any{"field": "url"})
}

func (c *errorCodes) tooManyRuns(most int) *refusal {
	return refuse(c.validation, "One request cancels no more runs than that.", map[string]any{"field": "runIds", "maxRunIds": most})
}

// noChildWorkflow refuses a run that would start one of a workflow that is not here (execution.md §subWorkflow).
func (c *errorCodes) noChildWorkflow(id string) *refusal {
	return refuse(c.nodeConfig, "A node starts a run of a workflow this host does not hold.", map[string]any{"workflowId": id})
}

func (c *errorCodes) noForkPoint(last int64) *refusal {
	return refuse(c.forkPoint, "The source run's log has no such sequence to fork from.", map[string]any{"lastSequence": last})
}

// expired refuses a fork whose range is not kept any more (replay.md §Retention).
func (c *errorCodes) expired(sourceID string, from int64, boundary string) *refusal {
	return refuse(c.runExpired, "What the fork needs of the source run is not kept any more.",
		map[string]any{"sourceRunId": sourceID, "fromSeq": from, "keptUntil": boundary})
}

func (c *errorCodes) bodyTooLarge(limit int64) *refusal {
	return refuse(c.tooLarge, "The request body is larger than this host accepts.", map[string]any{"maxRequestBodyBytes": limit})
}

func (c *errorCodes) unsupportedMediaType() *refusal {
	return refuse(c.mediaType, "The request body must be application/json without a content coding.", nil)
}

func (c *errorCodes) needsCapability(capability string) *refusal {
	return refuse(c.capabilityRequired, "This host does not advertise the capability the request needs.",
		map[string]any{"requiredCapability": capability})
}

func (c *errorCodes) region() *refusal {
	return refuse(c.residency, "This host places no run in that region.", map[string]any{"field": "residency.region"})
}

func (c *errorCodes) oldClient(minimum string) *refusal {
	return refuse(c.clientVersion, "The client implements a version older than this host serves.",
		map[string]any{"minClientVersion": minimum}).
		with("Upgrade", "OpenWOP/"+minimum).with("Connection", "Upgrade") // RFC 9110 §15.5.22
}

func (c *errorCodes) busy(what string) *refusal {
	return refuse(c.rateLimited, "This host has as many "+what+" as it takes.", nil).retryAfter(time.Second)
}

// unmappedType refuses to read a log with a type the codemap does not name (persistence.md §The reader rule).
func (c *errorCodes) unmappedType(eventType string, sequence int64) *refusal {
	return refuse(c.unmapped, "The run's log holds an event type the codemap does not name.",
		map[string]any{"type": eventType, "sequence": sequence})
}

// unseatable refuses to read a log whose payload has members that version 2 has no place for (events.md §Era-2 logs).
func (c *errorCodes) unseatable(e *era.MalformedError) *refusal {
	return refuse(c.unprojectable, "The run's log holds a payload with members that have no place in it.", map[string]any{
		"type": e.Type, "keys": e.Keys, "eventId": e.EventID, "sequence": e.Sequence,
	})
}

// failure says nothing of the cause, which goes to the operational log.
func (c *errorCodes) failure() *refusal {
	return refuse(c.internal, "The host failed.", nil)
}
