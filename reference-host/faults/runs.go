package faults

import (
	"net/http"
	"strings"
	"sync"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// created edits the 201 of a created run.
func created(edit func(doc object)) tamper.Middleware {
	return tamper.JSON(tamper.CreateRun, http.StatusCreated, func(_ *http.Request, doc map[string]any) { edit(doc) })
}

// snapshot edits the snapshot of a run.
func snapshot(edit func(doc object)) tamper.Middleware {
	return tamper.JSON(tamper.GetRun, http.StatusOK, func(_ *http.Request, doc map[string]any) { edit(doc) })
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// projected writes a tenant-bound id as one path segment.
func projected(id string) string { return strings.Replace(id, "/", "~2F", 1) }

func createFaults() []Fault {
	links := requirements.RunsResponseLinks
	return []Fault{
		wire("created-status-queued", "A created run has a status outside those a created run can have.",
			"/status", created(func(doc object) { doc["status"] = "queued" }), requirements.R0172CreatedRunReadable),
		wire("created-status-completed", "A created run is answered as if it had run to its end already.",
			"/status", created(func(doc object) { doc["status"] = "completed" }), requirements.R0172CreatedRunReadable),
		wire("created-without-events-url", "A created run is answered without an eventsUrl.",
			"eventsUrl", created(func(doc object) { delete(doc, "eventsUrl") }),
			requirements.R0172CreatedRunReadable, requirements.RunsResponseLinks),
		wire("events-url-of-another-origin", "The eventsUrl names the address the host has behind its front door.",
			"internal.example", created(func(doc object) {
				doc["eventsUrl"] = "http://internal.example:8080/runs/" + projected(text(doc["runId"])) + "/events"
			}), links),
		wire("events-url-of-another-port", "The eventsUrl has the host name of the request and another port.",
			":1/runs", tamper.JSON(tamper.CreateRun, http.StatusCreated, func(r *http.Request, doc map[string]any) {
				host, _, _ := strings.Cut(r.Host, ":")
				doc["eventsUrl"] = "http://" + host + ":1/runs/" + projected(text(doc["runId"])) + "/events"
			}), links),
		wire("events-url-dead", "The eventsUrl leads to a path the host does not serve.",
			"404", created(func(doc object) { doc["eventsUrl"] = "/streams/" + projected(text(doc["runId"])) }), links),
		wire("status-url-dead", "The statusUrl leads to a path the host does not serve.",
			"404", created(func(doc object) { doc["statusUrl"] = "/runs/" + projected(text(doc["runId"])) + "/status" }), links),
		wire("events-url-leads-to-poll", "The eventsUrl leads to the poll of the run and not to its stream.",
			"eventsUrl", created(func(doc object) { doc["eventsUrl"] = "/runs/" + projected(text(doc["runId"])) + "/events/poll" }), links),
		wire("status-url-leads-to-workflow", "The statusUrl leads to something that is no run.",
			"runId", tamper.Chain(
				created(func(doc object) { doc["statusUrl"] = "/status/" + projected(text(doc["runId"])) }),
				tamper.Requests(tamper.Op(http.MethodGet, "/status/{}"), func(r *http.Request) { tamper.SetPath(r, "/workflows/conformance-noop") })),
			links),
	}
}

// otherRun are the requirements that a snapshot breaks which names another run
// than the one it was asked for: whoever reads it looks at its runId.
func otherRun() []requirements.ID {
	return []requirements.ID{
		requirements.R0170IdGrammarSnapshot, requirements.RunsSnapshotValid, requirements.R0172CreatedRunReadable,
		requirements.RunsResponseLinks, requirements.R0170RunSnapshotEtag, requirements.RunsForkChild, requirements.ReplayBranchOverlay,
	}
}

// unread are the requirements that look at nothing in such a snapshot.
func unread() []requirements.ID {
	return []requirements.ID{
		requirements.RunsCompensationStatusPresent, requirements.RunsRunOrchestratorConstant, requirements.RunsCompressedEncoding,
	}
}

// ofOne selects operations on one run; a comparison is one on two.
func ofOne(r *http.Request) bool { return tamper.OfRun(r) && !tamper.DiffRun(r) }

// foreignNotFound answers 404 about the run of another tenant.
func foreignNotFound(m tamper.Match) tamper.Middleware {
	return tamper.Answers(m, func(_ *http.Request, a *tamper.Answer) {
		if doc, _ := a.JSON(); doc["error"] == "id_tenant_mismatch" {
			a.Refuse(http.StatusNotFound, "not_found", "no such run")
		}
	})
}

// createdAsClaimed answers a create with a run of the tenant its body names.
func createdAsClaimed() tamper.Middleware {
	return tamper.Instead(tamper.CreateRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		body, _ := tamper.BodyJSON(r)
		claimed := text(body["tenantId"])
		if claimed != "" {
			r = r.Clone(r.Context())
			delete(body, "tenantId")
			tamper.SetBodyJSON(r, body)
		}
		a := tamper.Record(next, r)
		if doc, ok := a.JSON(); ok && claimed != "" && a.Status == http.StatusCreated {
			_, opaque, _ := strings.Cut(text(doc["runId"]), "/")
			doc["runId"] = claimed + "/" + opaque
			a.SetJSON(doc)
		}
		a.Send(w)
	})
}

func idFaults() []Fault {
	bare := requirements.R0170IdGrammarBareId
	binding := requirements.R0170IdGrammarTenantBinding
	onBare := func(edit func(r *http.Request, a *tamper.Answer)) tamper.Middleware {
		return tamper.Answers(tamper.And(tamper.OfRun, isBare), edit)
	}
	return []Fault{
		wire("snapshot-run-id-bare", "A snapshot names its run without the tenant.",
			"runId", snapshot(func(doc object) { _, doc["runId"], _ = strings.Cut(text(doc["runId"]), "/") }),
			otherRun()...).blocking(unread()...),
		wire("snapshot-run-id-of-another-tenant", "A snapshot names its run under a tenant that is not the caller's.",
			"another-tenant/", snapshot(func(doc object) {
				_, opaque, _ := strings.Cut(text(doc["runId"]), "/")
				doc["runId"] = "another-tenant/" + opaque
			}),
			otherRun()...).blocking(unread()...),
		wire("created-in-tenant-of-body", "A create whose body names another tenant makes a run of that one.",
			"a create whose body names another tenant", createdAsClaimed(), requirements.R0170IdGrammarSnapshot),
		wire("event-id-is-counter", "The eventId of an event is a small number as text.",
			"eventId", tamper.Events(func(e map[string]any) bool { e["eventId"] = "e-" + number(e["sequence"]); return true }),
			requirements.R0170IdGrammarEvents, requirements.R0171EventTypeClosedEnvelope).
			also("delivery of \"node.started|eventId of the record|a replay fork of conformance-noop has causationId|replay.diverged with originalEventId e-2 at sequence 2 of", requirements.WebhooksEventVerbatim, requirements.R0173WebhookDurableDeliveryDeadLetter, requirements.ReplayPrefixEnvelope, requirements.ReplayDivergedReported),
		wire("event-run-id-of-another-run", "Events name another run than the one they were read from.",
			"-attempt-1", tamper.Events(func(e map[string]any) bool { e["runId"] = text(e["runId"]) + "-attempt-1"; return true }),
			requirements.R0170IdGrammarEvents, requirements.R0171EventTypeClosedEnvelope, requirements.RunsResponseLinks).
			also("runId of an event at eventsUrl", requirements.RunsForkChild),
		wire("event-causation-id-too-long", "The causationId of an event has more characters than an id or a correlationId can have.",
			"causationId", tamper.Events(func(e map[string]any) bool {
				if e["type"] != "log.appended" {
					e["causationId"] = strings.Repeat("cause-", 50)
				}
				return true
			}),
			requirements.R0170IdGrammarEvents, requirements.R0171EventTypeClosedEnvelope).
			also("event 0 run.started with causationId", requirements.PersistenceFieldsPassThrough),
		wire("foreign-run-not-found", "A run of another tenant is answered 404.",
			"404 not_found", foreignNotFound(ofOne), binding).
			also("404 not_found", requirements.InterruptForeignTenant, requirements.IdempotencyEffectsReadRefused),
		wire("foreign-run-other-code", "A run of another tenant is refused with the code for a missing scope.",
			"403 forbidden", tamper.JSON(tamper.OfRun, 403, func(_ *http.Request, doc map[string]any) {
				if doc["error"] == "id_tenant_mismatch" {
					doc["error"] = "forbidden"
				}
			}), binding).
			also("403 forbidden", requirements.InterruptForeignTenant, requirements.IdempotencyEffectsReadRefused),
		wire("foreign-run-existence-told", "A run of another tenant is refused 403 when it exists and 404 when it does not.",
			"404", existenceOracle(), binding),
		wire("foreign-run-message-tells", "The refusal of a run of another tenant says in its message whether it exists.",
			"of a run that exists", foreignMessage(), binding),
		wire("foreign-cancel-not-found", "A cancel of a run of another tenant is answered 404.",
			"404 not_found", foreignNotFound(tamper.CancelRun), binding),
		wire("foreign-run-served", "A run of another tenant is served to whoever names it.",
			"200", foreignServed(), binding),
		wire("bare-id-resolves", "A run is found by its bare id on a host without any 1.x version.",
			"200", bindBareIDs(), bare),
		wire("bare-id-not-found", "A bare run id is answered 404.",
			"404", onBare(func(_ *http.Request, a *tamper.Answer) { a.Refuse(404, "not_found", "no such run") }), bare),
		wire("bare-id-tenant-mismatch", "A bare run id is refused as one of another tenant.",
			"403 id_tenant_mismatch", onBare(func(_ *http.Request, a *tamper.Answer) { a.Refuse(403, "id_tenant_mismatch", "not yours") }), bare),
		wire("percent-encoded-id-not-found", "A run is not found by its id with %2F, because the front door decodes it.",
			"404", tamper.Answers(percentEncoded, func(_ *http.Request, a *tamper.Answer) { a.Refuse(404, "not_found", "no route") }),
			requirements.R0184BoundIdPathProjection),
		wire("percent-encoded-id-not-pollable", "A run cannot be polled by its id with %2F.",
			"404", tamper.Answers(tamper.And(tamper.PollRun, percentEncoded), func(_ *http.Request, a *tamper.Answer) {
				a.Refuse(404, "not_found", "no route")
			}),
			requirements.R0184BoundIdPathProjection),
		wire("links-percent-encoded", "Links carry the id with %2F and not in the projected form.",
			"%2F", created(func(doc object) { relink(doc, "%2F") }), requirements.R0184BoundIdPathProjection),
		wire("links-encoded-twice", "Links carry the projected id projected once more.",
			"~7E2F", tamper.Chain(
				tamper.Requests(tamper.OfRun, func(r *http.Request) {
					tamper.SetRunSegment(r, strings.Replace(tamper.RunSegment(r), "~7E2F", "~2F", 1))
				}),
				created(func(doc object) { relink(doc, "~7E2F") })),
			requirements.R0184BoundIdPathProjection),
	}
}

// relink writes the links of a created run with another form of the slash.
func relink(doc object, slash string) {
	for _, name := range []string{"eventsUrl", "statusUrl"} {
		if link, ok := doc[name].(string); ok {
			doc[name] = strings.Replace(link, "~2F", slash, 1)
		}
	}
}

func percentEncoded(r *http.Request) bool {
	return strings.Contains(strings.ToUpper(tamper.RunSegment(r)), "%2F")
}

func isBare(r *http.Request) bool {
	s := tamper.RunSegment(r)
	return s != "" && !percentEncoded(r) && !strings.Contains(s, "~2F")
}

// tenants remembers which tenant a credential belongs to, as the ids of the
// runs it created say.
type tenants struct {
	mu     sync.Mutex
	tenant map[string]string // by Authorization
	key    map[string]string // Authorization by tenant
}

func newTenants() *tenants { return &tenants{tenant: map[string]string{}, key: map[string]string{}} }

func (t *tenants) learn(next http.Handler) http.Handler {
	return tamper.JSON(tamper.CreateRun, http.StatusCreated, func(r *http.Request, doc map[string]any) {
		tenant, _, _ := strings.Cut(text(doc["runId"]), "/")
		t.mu.Lock()
		defer t.mu.Unlock()
		t.tenant[r.Header.Get("Authorization")] = tenant
		if t.key[tenant] == "" {
			t.key[tenant] = r.Header.Get("Authorization")
		}
	})(next)
}

func (t *tenants) of(r *http.Request) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tenant[r.Header.Get("Authorization")]
}

// owning is the credential of the tenant a run segment names, "" when that is
// the caller's own or unknown.
func (t *tenants) owning(r *http.Request) string {
	segment := strings.Replace(tamper.RunSegment(r), "%2F", "~2F", 1)
	tenant, _, _ := strings.Cut(segment, "~2F")
	t.mu.Lock()
	defer t.mu.Unlock()
	key := t.key[tenant]
	if own := t.tenant[r.Header.Get("Authorization")]; key == "" || own == "" || own == tenant {
		return ""
	}
	return key
}

// bindBareIDs resolves a bare run id under the caller's tenant.
func bindBareIDs() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		known := newTenants()
		return tamper.Requests(tamper.And(tamper.OfRun, isBare), func(r *http.Request) {
			if tenant := known.of(r); tenant != "" {
				tamper.SetRunSegment(r, tenant+"~2F"+tamper.RunSegment(r))
			}
		})(known.learn(next))
	}
}

// existenceOracle answers 404 for a run of another tenant that does not exist.
func existenceOracle() tamper.Middleware {
	return revealing(func(exists bool, a *tamper.Answer) {
		if !exists {
			a.Refuse(http.StatusNotFound, "not_found", "no such run")
		}
	})
}

// foreignMessage words the refusal of a run of another tenant by whether it
// exists.
func foreignMessage() tamper.Middleware {
	return revealing(func(exists bool, a *tamper.Answer) {
		if doc, ok := a.JSON(); ok && exists {
			doc["message"] = "The run is not yours."
			a.SetJSON(doc)
		}
	})
}

// revealing edits the refusal of a run of another tenant, knowing whether the
// run exists.
func revealing(edit func(exists bool, a *tamper.Answer)) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		known := newTenants()
		return tamper.Instead(ofOne, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			key := known.owning(r)
			if key == "" {
				next.ServeHTTP(w, r)
				return
			}
			asOwner := r.Clone(r.Context())
			asOwner.Header.Set("Authorization", key)
			a := tamper.Record(next, r)
			edit(tamper.Ask(next, asOwner, http.MethodGet, "/runs/"+tamper.RunSegment(r), nil).Status == http.StatusOK, a)
			a.Send(w)
		})(known.learn(next))
	}
}

// foreignServed reads a run of another tenant with that tenant's credential.
func foreignServed() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		known := newTenants()
		return tamper.Requests(tamper.GetRun, func(r *http.Request) {
			if key := known.owning(r); key != "" {
				r.Header.Set("Authorization", key)
			}
		})(known.learn(next))
	}
}

// snapshotOwner edits the owner of a snapshot.
func snapshotOwner(edit func(owner, subject object)) tamper.Middleware {
	return snapshot(func(doc object) {
		owner, _ := doc["owner"].(object)
		subject, _ := owner["subject"].(object)
		edit(owner, subject)
	})
}

// everyOwner edits the owner of the snapshot and of run.started alike.
func everyOwner(edit func(owner, subject object)) tamper.Middleware {
	return tamper.Chain(snapshotOwner(edit), payloadOf("run.started", func(p object) {
		owner, ok := p["owner"].(object)
		subject, _ := owner["subject"].(object)
		if ok && subject != nil {
			edit(owner, subject)
		}
	}))
}

// payloadOf edits the payload of the events of one type, in poll and stream
// alike.
func payloadOf(typ string, edit func(payload object)) tamper.Middleware {
	return tamper.Events(func(e map[string]any) bool {
		if p, ok := e["payload"].(object); ok && e["type"] == typ {
			edit(p)
		}
		return true
	})
}

func ownerFaults() []Fault {
	subject := requirements.R0170OwnerSubjectRequiredSubject
	principal := requirements.R0170OwnerSubjectRequiredNoPrincipal
	start := requirements.RunsStartEventOwner
	return []Fault{
		wire("subject-of-another-tenant", "The subject of a run's owner belongs to another tenant than the owner.",
			"tenant", everyOwner(func(_, s object) { s["tenant"] = "another-tenant" }), subject).
			also("delivery of \"run.started", requirements.WebhooksEventVerbatim),
		wire("subject-issuer-not-advertised", "The issuer of a run's subject is none that the lane advertises.",
			"urn:example:unadvertised", everyOwner(func(_, s object) { s["issuer"] = "urn:example:unadvertised" }), subject).
			also("delivery of \"run.started|the legacy Subject in run.started of the fork: issuer|the legacy Subject in the snapshot: issuer", requirements.WebhooksEventVerbatim, requirements.R0176ForkAV1RunLegacySubject, requirements.PersistenceLegacyOwner),
		wire("owner-without-subject", "The owner of a snapshot has no subject.",
			"subject", snapshotOwner(func(o, _ object) { delete(o, "subject") }),
			subject, requirements.RunsSnapshotValid, start).
			also("the legacy Subject in the snapshot: issuer", requirements.PersistenceLegacyOwner).
			blocking(requirements.R0173ApproverEnforced, requirements.InterruptAudienceNotEligibility),
		wire("snapshot-principal", "A snapshot still carries the principal of version 1 beside its owner.",
			"principal", snapshot(func(doc object) { doc["principal"] = "u-1" }),
			principal, requirements.RunsSnapshotValid),
		wire("owner-principal-kind", "The owner of a run still carries the principal kind of version 1.",
			"principalKind", snapshotOwner(func(o, _ object) { o["principalKind"] = "user" }),
			principal, requirements.RunsSnapshotValid, start),
		wire("start-owner-of-another-subject", "run.started names another subject than the snapshot.",
			"someone-else", payloadOf("run.started", func(p object) {
				if owner, ok := p["owner"].(object); ok {
					owner["subject"].(object)["subjectId"] = "someone-else"
				}
			}), start).
			also("delivery of \"run.started", requirements.WebhooksEventVerbatim),
		wire("start-without-owner", "run.started carries no owner.",
			"owner", payloadOf("run.started", func(p object) { delete(p, "owner") }), start).
			also("delivery of \"run.started|the legacy Subject in run.started of the fork: issuer", requirements.WebhooksEventVerbatim, requirements.R0176ForkAV1RunLegacySubject),
		wire("start-transport-mcp", "run.started of a run created over REST says that it came over MCP.",
			"mcp", payloadOf("run.started", func(p object) { p["transport"] = "mcp" }), start).
			also("delivery of \"run.started", requirements.WebhooksEventVerbatim),
	}
}
