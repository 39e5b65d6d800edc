package faults

import (
	"net/http"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// unlisted is whether an envelope is of an organisation's kind that is in no
// catalog.
func unlisted(kind string) bool {
	return kind == "example.wopcert-unlisted"
}

// contracted edits the creates of the workflow whose node has a contract.
func contracted(edit func(doc object, emissions []any) []any) tamper.Middleware {
	return emitted(func(doc object, list []any) []any {
		if doc["workflowId"] == contractWorkflow {
			return edit(doc, list)
		}
		return list
	})
}

func catalogFaults() []Fault {
	catalog, absent := requirements.EventsEnvelopeKindCatalog, requirements.EventsEnvelopeCatalogAbsent
	closed := []requirements.ID{ // without a catalog no kind of a vendor's is admitted to be judged further
		catalog, requirements.EventsEnvelopeAbsentMode, requirements.EventsEnvelopeDriftWarn,
		requirements.EventsEnvelopeContractRefused, requirements.EventsEnvelopeContractDistinct,
	}
	return []Fault{
		wire("envelope-unlisted-accepted", "An envelope of a kind that is not in the catalog is accepted.",
			"example.wopcert-unlisted|completed", admitting(unlisted), catalog),
		wire("envelope-unlisted-other-code", "An envelope of a kind that is not in the catalog is refused with a general code.",
			"envelope_invalid", failingWith(failing("unknown_envelope_kind"), "envelope_invalid"), catalog),
		wire("envelope-universal-unlisted", "A universal kind is refused because it is not in the catalog.",
			"unknown_envelope_kind", eachEnvelope(func(e object) {
				if e["type"] == "error" {
					e["type"] = "example.wopcert-unlisted"
				}
			}), catalog),
		wire("envelope-admitted-without-catalog", "A host without a catalog of kinds admits every kind.",
			"completed", document(func(doc object) {
				if record, ok := doc["supportedEnvelopes"].(object); ok {
					delete(record, "kinds")
				}
			}), absent).closing(closed...),
		wire("envelope-memo-admitted-without-catalog", "A host without a catalog of kinds admits what any of its nodes can take.",
			"completed", eachEnvelope(func(e object) {
				if e["type"] == noteKind {
					e["type"], e["schemaVersion"] = "error", 0
					e["payload"] = object{"code": "validation_failed", "message": "taken for an error"}
				}
			}), absent).on("envelope-kinds-absent").closing(closed...),
	}
}

func schemaVersionFaults() []Fault {
	above, absent := requirements.EventsEnvelopeVersionAbove, requirements.EventsEnvelopeAbsentMode
	warn, strict := requirements.EventsEnvelopeDriftWarn, requirements.EventsEnvelopeDriftStrict
	notes := func(edit func(e, payload object)) tamper.Middleware {
		return eachEnvelope(func(e object) {
			payload, _ := e["payload"].(object)
			if e["type"] == noteKind {
				edit(e, payload)
			}
		})
	}
	below := func(e object) bool { return versionOf(e) < noteFloor }
	return []Fault{
		wire("envelope-version-above-taken", "An envelope of a later version than the host knows is judged as one of the version it knows.",
			"completed", notes(func(e, _ object) {
				if versionOf(e) > noteFloor {
					e["schemaVersion"] = noteFloor
				}
			}), above),
		wire("envelope-version-of-unlisted-kind-taken", "A kind without a version of its own is taken in every version.",
			"completed", eachEnvelope(func(e object) {
				if e["type"] == memoKind {
					delete(e, "schemaVersion")
				}
			}), above),
		wire("envelope-version-above-other-code", "An envelope of a later version than the host knows is refused with a general code.",
			"envelope_invalid", failingWith(failing("unknown_schema_version"), "envelope_invalid"), above),
		wire("envelope-earlier-version-unchecked", "An envelope of an earlier version is accepted whatever is in it.",
			"completed", notes(func(e, payload object) {
				if below(e) && payload["title"] == nil {
					e["payload"] = object{"title": "T"}
				}
			}), absent, warn),
		wire("envelope-earlier-version-refused", "An envelope of an earlier version is refused though no mode is stated.",
			"unknown_schema_version", notes(func(e, payload object) {
				if below(e) && payload["title"] != nil {
					e["schemaVersion"] = noteFloor + 1
				}
			}), warn),
		wire("envelope-without-version-refused", "An envelope without a version is refused.",
			"unknown_schema_version|envelope_invalid", notes(func(e, payload object) {
				if e["schemaVersion"] == nil && payload["title"] != nil {
					e["schemaVersion"] = noteFloor + 1
				}
			}), warn),
		wire("envelope-earlier-version-taken-strictly", "An envelope of an earlier version is accepted by a host that says it is strict.",
			"completed", notes(func(e, _ object) {
				if below(e) {
					e["schemaVersion"] = noteFloor
				}
			}), strict).on("envelopes-strict").closing(absent, warn),
		wire("envelope-earlier-version-other-code", "A strict host refuses an envelope of an earlier version with a general code.",
			"envelope_invalid", notes(func(e, _ object) {
				if below(e) {
					e["schemaVersion"], e["payload"] = noteFloor, object{}
				}
			}), strict).on("envelopes-strict").closing(absent, warn),
	}
}

func contractFaults() []Fault {
	refused, distinct := requirements.EventsEnvelopeContractRefused, requirements.EventsEnvelopeContractDistinct
	tier := requirements.EventsTierOneAccepted
	return []Fault{
		wire("envelope-contract-ignored", "A node's envelope contract is not looked at.",
			"completed", contracted(func(doc object, list []any) []any { doc["workflowId"] = "wopcert-envelope-emit"; return list }), refused).
			blocking(distinct),
		wire("envelope-contract-universal-refused", "A node's envelope contract refuses universal kinds.",
			"error|envelope_invalid", contracted(func(_ object, list []any) []any {
				for _, v := range list {
					if e, ok := v.(object); ok && e["type"] == "error" {
						asMemo(e)
					}
				}
				return list
			}), refused),
		wire("envelope-contract-is-capability", "What a node's envelope contract refuses is said to lack a capability.",
			"capability_required", failingWith(failing("envelope_invalid"), "capability_required"), distinct),
		wire("envelope-contract-at-create", "A run whose model will break a node's envelope contract is not created.",
			"422|create", tamper.Instead(tamper.CreateRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				doc, _ := tamper.BodyJSON(r)
				inputs, _ := doc["inputs"].(object)
				list, _ := inputs["emissions"].([]any)
				a := tamper.Record(next, r)
				for _, v := range list {
					if e, ok := v.(object); ok && e["type"] == memoKind && doc["workflowId"] == contractWorkflow && a.Status == http.StatusCreated {
						a.Refuse(http.StatusUnprocessableEntity, "capability_required", "the node does not accept the kind")
					}
				}
				a.Send(w)
			}), distinct).blocking(refused),
		wire("envelope-of-provider-refused", "An envelope of a provider that the host advertises is refused for the provider's sake.",
			"mock|failed", emitted(func(doc object, list []any) []any {
				if inputs, ok := doc["inputs"].(object); ok && inputs["provider"] != nil {
					for _, v := range list {
						if e, ok := v.(object); ok {
							e["payload"] = []any{"the provider's own form"}
						}
					}
				}
				return list
			}), tier),
	}
}
