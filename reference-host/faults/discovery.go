package faults

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// document edits the discovery document. The edit is the same every time, so
// the entity tag the host computed keeps naming one representation.
func document(edit func(doc object)) tamper.Middleware {
	return tamper.JSON(tamper.Discovery, http.StatusOK, func(_ *http.Request, doc map[string]any) { edit(doc) })
}

// set adds or replaces a root member.
func set(name string, value any) tamper.Middleware {
	return document(func(doc object) { doc[name] = value })
}

// firstRecord edits the record of the first family in name order.
func firstRecord(edit func(record object)) tamper.Middleware {
	return document(func(doc object) {
		var names []string
		for name, v := range doc {
			if r, ok := v.(object); ok && r["witness"] != nil {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			edit(doc[slices.Min(names)].(object))
		}
	})
}

// facet advertises a family with the given facets.
func facet(family string, facets object) tamper.Middleware {
	return document(func(doc object) {
		record := object{"status": "stable", "since": "2.0", "witness": "seam-gated"}
		maps.Copy(record, facets)
		doc[family] = record
	})
}

func discoveryFaults() []Fault {
	return []Fault{
		wire("discovery-implementation-is-text", "The implementation metadata of the discovery document is a string.",
			"implementation", set("implementation", "reference host 1.0"),
			requirements.R0169CapabilitiesRootClosedValid),
		wire("discovery-observability-is-list", "The observability metadata of the discovery document is a list.",
			"observability", set("observability", []any{"otel"}),
			requirements.R0169CapabilitiesRootClosedValid),
		wire("discovery-limits-as-text", "A facet of a record is a string where it is a number.",
			"maxNodeExecutions", document(func(doc object) {
				if limits, ok := doc["limits"].(object); ok {
					limits["maxNodeExecutions"] = "1000"
				}
			}),
			requirements.R0169CapabilitiesRootClosedValid),
		wire("discovery-without-preferred-version", "The discovery document does not say which version it prefers.",
			"preferredVersion|protocolVersion", document(func(doc object) { delete(doc, "preferredVersion") }),
			requirements.R0169CapabilitiesRootClosedValid, requirements.R0172PreferredVersionDefaultMember,
			requirements.R0176WellKnownOneResourceV2Representation, requirements.VersioningSingleMajorTwin).blocking(requirements.R0172PreferredVersionDefaultHeaderless),
		wire("discovery-unknown-root-key", "The discovery root holds a key of the host's own making.",
			"features", set("features", object{"darkMode": true}),
			requirements.R0169CapabilitiesRootClosedUnknownRootKey),
		wire("discovery-vendor-family-at-root", "A vendor's record stands at the discovery root instead of under extensions.",
			"acmeSearch", set("acmeSearch", object{"status": "stable", "since": "2.0", "witness": "claims-check"}),
			requirements.R0169CapabilitiesRootClosedUnknownRootKey),
		wire("discovery-dotted-mirror", "The discovery root mirrors a family under its dotted name of version 1.",
			"host.workspace", set("host.workspace", object{"supported": true}),
			requirements.R0169CapabilitiesRootClosedDottedKey),
		wire("discovery-capabilities-wrapper", "The discovery document wraps its families in a capabilities member.",
			"capabilities", document(func(doc object) { doc["capabilities"] = object{"supported": true} }),
			requirements.R0169CapabilitiesRootClosedWrapper),
		wire("discovery-embeds-v1", "The discovery document holds the document of version 1 beside that of version 2.",
			"v1", set("v1", object{"protocolVersion": "1.4"}),
			requirements.R0169CapabilitiesRootClosedWrapper),
		wire("discovery-claims-profiles", "The discovery document claims its profiles.",
			"profiles", set("profiles", []any{"openwop-discovery-core"}),
			requirements.R0169CapabilitiesRootClosedProfiles, requirements.R0169ProfilesDerivedOnlyNoRootProfiles),
	}
}

func deletedFaults() []Fault {
	return []Fault{
		wire("discovery-transports", "The discovery document still lists its transports.",
			"supportedTransports", set("supportedTransports", []any{"rest", "mcp"}),
			requirements.R0175NoTransportAdvertisement),
		wire("discovery-grpc", "The discovery document still advertises gRPC.",
			"grpc", set("grpc", object{"supported": true}),
			requirements.R0175NoTransportAdvertisement),
		wire("discovery-contract-provenance", "The discovery document declares the provenance of its contract itself.",
			"contractProvenance", set("contractProvenance", object{"source": "self"}),
			requirements.R0175NoTransportAdvertisement),
		wire("discovery-a2a-supported", "The a2a record says supported instead of being absent or present.",
			"a2a", facet("a2a", object{
				"supported": true, "versions": []any{"1.0"}, "preferredVersion": "1.0", "minimumVersion": "1.0", "refreshedAt": "2026-01-01",
			}),
			requirements.R0175NoTransportAdvertisement),
		wire("discovery-mcp-supported", "The mcp record says supported instead of being absent or present.",
			"mcp", facet("mcp", object{
				"supported": false, "revisions": []any{"2025-06-18"}, "preferredVersion": "2025-06-18", "minimumRevision": "2025-06-18",
				"refreshedAt": "2026-01-01",
			}),
			requirements.R0175NoTransportAdvertisement),
		wire("discovery-auth-subject-linking", "The auth record still advertises subject linking.",
			"auth.subjectLinking", document(func(doc object) {
				if auth, ok := doc["auth"].(object); ok {
					auth["subjectLinking"] = true
				}
			}),
			requirements.R0175NoTransportAdvertisement),
	}
}

func representationFaults() []Fault {
	return []Fault{
		wire("discovery-minimum-suite-version", "The discovery document still asks for a version of the suite.",
			"minimumSuiteVersion", set("minimumSuiteVersion", "1.0.0"),
			requirements.R0176WellKnownOneResourceV2Representation),
		wire("discovery-headerless-names-more", "A request without a version is shown a version that others are not.",
			"a request without OpenWOP-Version", discoveryAsked("", func(doc object) {
				versions, _ := doc["protocolVersions"].([]any)
				doc["protocolVersions"] = append(versions, "9.9")
			}), requirements.R0176WellKnownOneResource),
		wire("discovery-v1-names-itself", "The document of version 1 does not name version 2.",
			"a request without OpenWOP-Version", discoveryAsked("", func(doc object) {
				versions, _ := doc["protocolVersions"].([]any)
				doc["protocolVersions"] = slices.DeleteFunc(versions, func(v any) bool { return strings.HasPrefix(text(v), "2.") })
			}), requirements.R0176WellKnownOneResource).on("dual-stack"),
		wire("discovery-minor-moved", "Who asks for a version with its minor number is sent elsewhere.",
			"OpenWOP-Version: 2.", tamper.Answers(tamper.And(tamper.Discovery, func(r *http.Request) bool {
				return strings.HasPrefix(r.Header.Get("OpenWOP-Version"), "2.")
			}), func(_ *http.Request, a *tamper.Answer) {
				a.Status = http.StatusTemporaryRedirect
				a.Header.Set("Location", "/.well-known/openwop-2")
			}), requirements.R0176WellKnownOneResource, requirements.R0172VersionHeaderHonored),
		wire("discovery-as-plain-text", "The discovery document is served as text/plain.",
			"text/plain", tamper.Answers(tamper.Discovery, func(_ *http.Request, a *tamper.Answer) {
				a.Header.Set("Content-Type", "text/plain")
			}),
			requirements.R0176WellKnownOneResourceV2Representation),
		wire("discovery-ghost-fixture", "The discovery document lists a conformance workflow the host does not hold.",
			"conformance-ghost", document(func(doc object) {
				list, _ := doc["fixtures"].([]any)
				doc["fixtures"] = append(slices.Clone(list), "conformance-ghost")
			}),
			requirements.R0168AdvertisedFixturesExist),
		wire("workflow-under-another-id", "getWorkflow answers with a workflow of another id than the one asked for.",
			"-v1", tamper.JSON(tamper.GetWorkflow, http.StatusOK, func(_ *http.Request, doc map[string]any) {
				for _, name := range []string{"workflowId", "id"} {
					if s, ok := doc[name].(string); ok {
						doc[name] = s + "-v1"
					}
				}
			}),
			requirements.R0168AdvertisedFixturesExist).
			blocking(requirements.RunsConfigurableSchemaSurfaced),
		wire("workflow-not-readable", "getWorkflow is not served although the workflows can be run.",
			"404 not_found", tamper.Answers(tamper.GetWorkflow, func(_ *http.Request, a *tamper.Answer) {
				if a.Status == http.StatusOK {
					a.Refuse(http.StatusNotFound, "not_found", "no such workflow")
				}
			}),
			requirements.R0168AdvertisedFixturesExist).
			blocking(requirements.RunsEvalMembersRequired, requirements.RunsEvalEvents, requirements.RunsEvalSummary, requirements.RunsEvalSummaryContentFree, requirements.RunsConfigurableSchemaSurfaced, requirements.RunsConfigurableSchemaEnforced),
	}
}

func recordFaults() []Fault {
	return []Fault{
		wire("record-without-witness", "A capability record has no witness class.",
			"witness", firstRecord(func(r object) { delete(r, "witness") }),
			requirements.R0169CapabilityRecordShapeRequiredFields),
		wire("record-unwitnessable", "A capability record calls itself unwitnessable on the wire.",
			"unwitnessable", firstRecord(func(r object) { r["witness"] = "unwitnessable" }),
			requirements.R0169CapabilityRecordShapeRequiredFields),
		wire("record-status-beta", "A capability record has a status outside the three.",
			"beta", firstRecord(func(r object) { r["status"] = "beta" }),
			requirements.R0169CapabilityRecordShapeRequiredFields),
		wire("record-is-boolean", "A family is advertised with true instead of a record.",
			"forms", set("forms", true),
			requirements.R0169CapabilityRecordShapeRequiredFields),
		wire("record-until-is-word", "A capability record ends soon, whenever that is.",
			"soon", firstRecord(func(r object) { r["status"], r["until"] = "experimental", "soon" }),
			requirements.R0169CapabilityRecordShapeUntilIffNotStable),
		wire("record-since-major-only", "A capability record says since which major, without the minor.",
			"since", firstRecord(func(r object) { r["since"] = "2" }),
			requirements.R0169CapabilityRecordShapeRequiredFields),
		wire("record-stable-with-until", "A stable capability record has an end.",
			"until", firstRecord(func(r object) { r["status"], r["until"] = "stable", "2099-12-31" }),
			requirements.R0169CapabilityRecordShapeUntilIffNotStable),
		wire("record-experimental-without-until", "An experimental capability record has no end.",
			"until", firstRecord(func(r object) { r["status"] = "experimental"; delete(r, "until") }),
			requirements.R0169CapabilityRecordShapeUntilIffNotStable),
		wire("record-deprecated-without-until", "A deprecated capability record has no end.",
			"until", firstRecord(func(r object) { r["status"] = "deprecated"; delete(r, "until") }),
			requirements.R0169CapabilityRecordShapeUntilIffNotStable),
		wire("record-until-past-date", "A capability record ended on a day that lies behind.",
			"2020-01-31", firstRecord(func(r object) { r["status"], r["until"] = "experimental", "2020-01-31" }),
			requirements.R0169CapabilityRecordShapeUntilNotPast),
		wire("record-until-past-version", "A capability record ended with a version below all those the host lists.",
			"1.4", firstRecord(func(r object) { r["status"], r["until"] = "deprecated", "1.4" }),
			requirements.R0169CapabilityRecordShapeUntilNotPast),
	}
}

func cachingFaults() []Fault {
	return []Fault{
		wire("discovery-without-etag", "The discovery document has no entity tag.",
			"ETag", tamper.Answers(tamper.Discovery, func(_ *http.Request, a *tamper.Answer) { a.Header.Del("ETag") }),
			requirements.CapabilitiesDiscoveryEtag).blocking(requirements.CapabilitiesDiscoveryIfNoneMatch),
		wire("discovery-etag-without-quotes", "The entity tag of the discovery document has no quotes.",
			"ETag", tamper.Chain(
				tamper.Answers(tamper.Discovery, func(_ *http.Request, a *tamper.Answer) { a.Header.Set("ETag", "rev-17") }),
				tamper.Requests(tamper.Discovery, func(r *http.Request) {
					if strings.Contains(r.Header.Get("If-None-Match"), "rev-17") {
						r.Header.Set("If-None-Match", "*")
					}
				})),
			requirements.CapabilitiesDiscoveryEtag),
		wire("discovery-ignores-if-none-match", "A discovery request with a matching If-None-Match gets the whole document.",
			"200", tamper.Requests(tamper.Discovery, func(r *http.Request) { r.Header.Del("If-None-Match") }),
			requirements.CapabilitiesDiscoveryIfNoneMatch),
		wire("discovery-304-to-any-tag", "A discovery request with any If-None-Match gets 304, a stale one too.",
			"304", tamper.Requests(tamper.And(tamper.Discovery, tamper.HasHeader("If-None-Match")), func(r *http.Request) {
				r.Header.Set("If-None-Match", "*")
			}),
			requirements.CapabilitiesDiscoveryIfNoneMatch),
		wire("discovery-412-instead-of-304", "A discovery request with a matching If-None-Match gets 412.",
			"412", tamper.Answers(tamper.Discovery, func(_ *http.Request, a *tamper.Answer) {
				if a.Status == http.StatusNotModified {
					a.Refuse(http.StatusPreconditionFailed, "validation_error", "the document has not changed")
				}
			}),
			requirements.CapabilitiesDiscoveryIfNoneMatch),
		wire("discovery-304-without-version", "The 304 to a discovery request carries no OpenWOP-Version.",
			"OpenWOP-Version", tamper.Answers(tamper.Discovery, func(_ *http.Request, a *tamper.Answer) {
				if a.Status == http.StatusNotModified {
					a.Header.Del("OpenWOP-Version")
				}
			}),
			requirements.CapabilitiesDiscoveryIfNoneMatch, requirements.R0171HeaderSchemeVersionOnEveryResponse),
	}
}

// discoveryAsked edits the discovery document for requests of one version.
func discoveryAsked(version string, edit func(doc object)) tamper.Middleware {
	return tamper.JSON(tamper.And(tamper.Discovery, func(r *http.Request) bool { return r.Header.Get("OpenWOP-Version") == version }),
		http.StatusOK, func(_ *http.Request, doc map[string]any) { edit(doc) })
}
