package variants

import (
	"net/http"
	"slices"
	"strings"

	"wopcert/fixtures"
	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// document edits the discovery document, the same way every time.
func document(edit func(doc object)) tamper.Middleware {
	return tamper.JSON(tamper.Discovery, http.StatusOK, func(_ *http.Request, doc map[string]any) { edit(doc) })
}

// tagged shows another entity tag for each one of the host's and takes it back.
func tagged(m tamper.Match, show func(tag string) string) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		shown := newDictionary()
		return tamper.Chain(
			tamper.Answers(m, func(_ *http.Request, a *tamper.Answer) {
				if tag := a.Header.Get("ETag"); tag != "" {
					a.Header.Set("ETag", shown.put(show(tag), tag))
				}
			}),
			tamper.Requests(m, func(r *http.Request) {
				if v := r.Header.Get("If-None-Match"); v != "" {
					r.Header.Set("If-None-Match", shown.translate(v))
				}
			}),
		)(next)
	}
}

// minimal is the host that advertises no family at all, and has none.
func minimal() Variant {
	v := made("discovery-minimal", "capabilities.md", "3. The closed root",
		"The discovery document holds the two required members and the fixtures, and no more.",
		chained(childless, without("auth", "eventLog", "limits", "runList", "dataResidency", "feedback", "agents", "subWorkflow", "conversationPrimitive", "heartbeat",
			"aiProviders", "supportedEnvelopes", "schemaVersions", "envelopeStrictness", "envelopeContracts", "envelopes", "providerUsage",
			"replay", "idempotency", "compensation", "nondeterminismPolicy", "interrupt", "webhooks"), func(c *referencehost.Config) { c.Seams = false }),
		slices.Concat(allOfWebhooks(), ofSeams(), catalogued(), needsReplay(), needsLedger(), needsCompensation(), needsInterrupts(), []requirements.ID{
			requirements.R0169CapabilityRecordShapeRequiredFields, requirements.R0169CapabilityRecordShapeUntilIffNotStable,
			requirements.R0169CapabilityRecordShapeUntilNotPast, requirements.R0176EraKeyDiscovery,
			requirements.VersioningSingleMajorTwin, requirements.RunsForceEngineVersionRefused, requirements.HeadersForceEngineVersionHonored,
			requirements.RunsRunOrchestratorConstant, requirements.R0182RunListTenantScoped, requirements.R0182RunListCursorRefused,
			requirements.R0182RunListFilterExact, requirements.RunsListPageCeiling, requirements.RunsListNewestFirst,
			requirements.R0170RunAnnotationNotEvent, requirements.RunsAnnotationRecorded, requirements.RunsAnnotationNotCopied,
			requirements.EventsAnnotationTargetRefused, requirements.RunsEvalMembersRequired, requirements.RunsEvalEvents,
			requirements.RunsEvalSummary, requirements.RunsEvalSummaryNotEval, requirements.RunsEvalSummaryContentFree,
			requirements.R0205TurnPartsEmitted, requirements.R0186PayloadSeats, requirements.RunsResidencyUnavailableRefused,
			requirements.RunsResidencyRegionAccepted, requirements.RunsLoopLimitBreach, requirements.RunsMockProviderRefused,
			requirements.EventsMessagesChunks, requirements.EventsMessagesMeta, requirements.EventsHostEventsStream,
			requirements.EventsEnvelopeKindNamespaced, requirements.EventsRefusalNotRetried, requirements.EventsRefusalCeiling,
			requirements.EventsCostEstimateStamped, requirements.RunsCancelCascade, requirements.R0173RelaxationRecorded,
		})...).
		opening(requirements.RunsCompensationStatusAbsent, requirements.RunsEvalUnadvertisedRefused, requirements.RunsResidencyNotClaimed,
			requirements.RunsCapabilityRequiredRefused, requirements.RunsConversationGateRefused)
	v.Wrap = document(func(doc object) {
		for name := range doc {
			if name != "protocolVersions" && name != "preferredVersion" && name != "fixtures" {
				delete(doc, name)
			}
		}
	})
	return v
}

// childless takes out the workflows that start others, which no host without
// the family can run.
func childless(c *referencehost.Config) {
	c.Fixtures = slices.DeleteFunc(slices.Clone(c.Fixtures), func(w fixtures.Workflow) bool {
		return strings.Contains(string(w.Document), "core.subWorkflow")
	})
}

func discoveryVariants() []Variant {
	const doc = "capabilities.md"
	record := func() object { return object{"status": "stable", "since": "2.0", "witness": "claims-check"} }
	return []Variant{
		grant("discovery-etag-weak", doc, "1.1 Cache validators", "The entity tag of the discovery document is weak.",
			tagged(tamper.Discovery, func(tag string) string { return "W/" + tag })),
		grant("discovery-etag-punctuation", doc, "1.1 Cache validators", "The entity tag of the discovery document holds every character a tag may.",
			tagged(tamper.Discovery, func(string) string { return "\"!#$%&'()*+,-./:;<=>?@[]^_`{|}~\"" })),
		grant("discovery-etag-short", doc, "1.1 Cache validators", "The entity tag of the discovery document is one digit.",
			tagged(tamper.Discovery, func(string) string { return `"1"` })),
		grant("discovery-cached", doc, "1.1 Cache validators", "The discovery document may be kept for an hour.",
			tamper.Answers(tamper.Discovery, func(_ *http.Request, a *tamper.Answer) {
				a.Header.Set("Cache-Control", "public, max-age=3600, stale-while-revalidate=60")
				a.Header.Set("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
			})),
		grant("discovery-not-cached", doc, "1.1 Cache validators", "The discovery document may be kept, but not used without asking.",
			tamper.Answers(tamper.Discovery, func(_ *http.Request, a *tamper.Answer) { a.Header.Set("Cache-Control", "no-cache") })),
		minimal(),
		grant("discovery-vendor-extension", doc, "3.2 extensions", "The host advertises a capability of its own under extensions.",
			document(func(doc object) {
				doc["extensions"] = object{"example.search": object{"status": "beta", "supported": true, "levels": []any{1, 2, nil}}}
			})).opening(requirements.CapabilitiesExtensionOrgs),
		grant("discovery-more-families", doc, "2. The capability record", "The host advertises families the suite has no scenario for.",
			document(func(doc object) {
				doc["promptLibrary"] = record()
				forms := record()
				forms["status"], forms["until"] = "experimental", "2099-12-31"
				doc["forms"] = forms
			}), requirements.R0169CapabilityRecordShapeUntilNotPast),
		grant("discovery-until-today-and-version", doc, "2. The capability record", "Records end with a version the host still serves, and on a day far off.",
			document(func(doc object) {
				forms, library := record(), record()
				forms["status"], forms["until"] = "deprecated", "2.0"
				library["status"], library["until"] = "experimental", "2998-02-28"
				doc["forms"], doc["promptLibrary"] = forms, library
			}), requirements.R0169CapabilityRecordShapeUntilNotPast),
		grant("discovery-without-fixture-order", doc, "3.1 Metadata keys", "The fixtures are listed in another order.",
			document(func(doc object) {
				list, _ := doc["fixtures"].([]any)
				for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
					list[i], list[j] = list[j], list[i]
				}
			})),
		grant("discovery-without-lanes", "identity.md", "2.1 The pipeline", "The host does not say which lanes it has.",
			document(func(doc object) { delete(doc, "auth") }), requirements.R0170OwnerSubjectRequiredSubject),
		grant("discovery-without-era", "versioning.md", "2.2 eventLogSchemaVersion", "The discovery document does not say which era the host writes.",
			document(func(doc object) { delete(doc, "eventLogSchemaVersion") }), requirements.R0176EraKeyDiscovery),
	}
}

// versions makes the host list several versions of major 2, in every place
// where that shows.
func versions(preferred, named string, list ...any) tamper.Middleware {
	return tamper.Chain(
		document(func(doc object) {
			doc["protocolVersions"], doc["preferredVersion"] = list, preferred
			doc["protocolVersion"] = preferred
		}),
		tamper.JSON(tamper.Any, http.StatusNotAcceptable, func(_ *http.Request, doc map[string]any) {
			doc["details"] = object{"protocolVersions": list}
		}),
		tamper.Answers(tamper.Any, func(_ *http.Request, a *tamper.Answer) { a.Header.Set("OpenWOP-Version", named) }),
		tamper.Requests(tamper.Any, func(r *http.Request) {
			if major, _, ok := strings.Cut(r.Header.Get("OpenWOP-Version"), "."); ok && major == "2" {
				r.Header.Set("OpenWOP-Version", "2")
			}
		}),
	)
}

func versionVariants() []Variant {
	const doc = "versioning.md"
	client := func(edit func(r *http.Request)) tamper.Middleware {
		return tamper.Requests(tamper.HasHeader("OpenWOP-Client-Version"), edit)
	}
	return []Variant{
		grant("two-minors", doc, "1.1 Advertisement", "The host lists two minors of major 2 and prefers the first.", versions("2.0", "2.0", "2.0", "2.1")),
		grant("two-minors-newest-first", doc, "1.1 Advertisement", "The host lists two minors of major 2, newest first, prefers the newer and answers with it.",
			versions("2.1", "2.1", "2.1", "2.0")),
		grant("two-digit-minor", doc, "1.1 Advertisement", "The host lists a minor of two digits.", versions("2.10", "2.10", "2.9", "2.10", "2.0")),
		made("min-client-version-absent", doc, "1.5 Client precedence and minClientVersion", "The host asks for no version of its clients.",
			func(c *referencehost.Config) { c.MinClientVersion = "" }, requirements.R0172MinClientVersion),
		grant("old-clients-served", doc, "1.5 Client precedence and minClientVersion", "The host serves clients below the version it asks for.",
			client(func(r *http.Request) { r.Header.Del("OpenWOP-Client-Version") })),
		made("min-client-version-zero", doc, "1.5 Client precedence and minClientVersion", "The host asks for the lowest version there is.",
			func(c *referencehost.Config) { c.MinClientVersion = "0.0" }, requirements.R0172MinClientVersion),
		grant("vary-on-version", doc, "1.4 The response header", "Answers vary by Accept and version.",
			tamper.Answers(tamper.Any, func(_ *http.Request, a *tamper.Answer) { a.Header.Set("Vary", "Accept, OpenWOP-Version") })),
	}
}
