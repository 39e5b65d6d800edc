package faults

import (
	"net/http"
	"strings"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// asks selects requests whose OpenWOP-Version has exactly this value.
func asks(value string) tamper.Match {
	return func(r *http.Request) bool { return r.Header.Get("OpenWOP-Version") == value }
}

func headerless(r *http.Request) bool { return r.Header.Get("OpenWOP-Version") == "" }

// otherMajor selects requests that name a major other than 2.
func otherMajor(r *http.Request) bool {
	major, _, _ := strings.Cut(r.Header.Get("OpenWOP-Version"), ".")
	return major != "" && major != "2"
}

// onStatus edits the answers of one status.
func onStatus(m tamper.Match, status int, edit func(a *tamper.Answer)) tamper.Middleware {
	return tamper.Answers(m, func(_ *http.Request, a *tamper.Answer) {
		if a.Status == status {
			edit(a)
		}
	})
}

// refuseInstead turns the answers of one status into a refusal.
func refuseInstead(m tamper.Match, was, status int, code string) tamper.Middleware {
	return onStatus(m, was, func(a *tamper.Answer) { a.Refuse(status, code, "refused") })
}

func versionFaults() []Fault {
	unlisted := tamper.Requests(otherMajor, func(r *http.Request) { r.Header.Set("OpenWOP-Version", "2") })
	return []Fault{
		wire("preferred-version-not-listed", "preferredVersion names a version that protocolVersions does not list.",
			"2.9", set("preferredVersion", "2.9"),
			requirements.R0172PreferredVersionDefaultMember, requirements.VersioningSingleMajorTwin),
		wire("protocol-version-leading-zero", "A member of protocolVersions has a leading zero.",
			"2.01", listing("2.0", "2.01"),
			requirements.R0172PreferredVersionDefaultMember).closing(requirements.VersioningSingleMajorTwin).
			also("406 protocol_version_unsupported with protocolVersions", requirements.R0176WellKnownOneResource),
		wire("headerless-served-as-v1", "A discovery request without a version gets the document of version 1.",
			"1.0", tamper.Answers(tamper.And(tamper.Discovery, headerless), func(_ *http.Request, a *tamper.Answer) {
				a.Header.Set("OpenWOP-Version", "1.0")
				a.SetJSON(version1())
			}),
			requirements.R0172PreferredVersionDefaultHeaderless).
			also("200 application/json with protocolVersions [\"1.4\",\"2.0\"]", requirements.R0176WellKnownOneResource),
		wire("headerless-refused", "A discovery request without a version is refused.",
			"400 validation_error", refuseInstead(tamper.And(tamper.Discovery, headerless), 200, 400, "validation_error"),
			requirements.R0172PreferredVersionDefaultHeaderless).
			also("400 validation_error with protocolVersions absent and", requirements.R0176WellKnownOneResource),
		wire("overlap-prefers-2", "A host that still lists a 1.x version prefers a 2.x version.",
			`"2.0"`, overlap(),
			requirements.R0172PreferredVersionDefaultOverlap).
			blocking(requirements.R0172DualStackNegotiationCrossMajorRead).closing(requirements.VersioningSingleMajorTwin).
			also("X-openwop-Webhook-Id with the value of OpenWOP-Webhook-Id", requirements.WebhooksDualEmission).
			blocking(requirements.PersistenceV1WireInverted),
		wire("minor-spelling-refused", "A request for 2.0 is refused although 2 is served.",
			"406", tamper.Answers(asks("2.0"), func(_ *http.Request, a *tamper.Answer) {
				a.Refuse(http.StatusNotAcceptable, "protocol_version_unsupported", "no such version")
				a.SetJSON(object{"error": "protocol_version_unsupported", "message": "no such version", "details": object{"protocolVersions": []any{"2.0"}}})
			}),
			requirements.R0172VersionHeaderHonored).
			also("406 protocol_version_unsupported with protocolVersions", requirements.R0176WellKnownOneResource),
		wire("unlisted-major-served", "A request for a major the host does not list is served as major 2.",
			"200", unlisted,
			requirements.R0172VersionHeaderHonored, requirements.R0172DualStackNegotiationUnlistedMajor),
		wire("unlisted-major-with-minor-served", "A request for 9.0 is served, because only a bare major is understood.",
			"200", tamper.Requests(func(r *http.Request) bool {
				return otherMajor(r) && strings.Contains(r.Header.Get("OpenWOP-Version"), ".")
			}, func(r *http.Request) { r.Header.Set("OpenWOP-Version", "2") }),
			requirements.R0172VersionHeaderHonored),
		wire("unlisted-major-served-beside-discovery", "Only the discovery document is refused under a major the host does not list.",
			"200", tamper.Requests(tamper.And(otherMajor, tamper.Not(tamper.Discovery)), func(r *http.Request) {
				r.Header.Set("OpenWOP-Version", "2")
			}),
			requirements.R0172DualStackNegotiationUnlistedMajor),
		wire("unlisted-major-without-list", "The refusal of an unlisted major does not say which versions there are.",
			"protocolVersions", tamper.JSON(tamper.Any, http.StatusNotAcceptable, func(_ *http.Request, doc map[string]any) { delete(doc, "details") }),
			requirements.R0172DualStackNegotiationUnlistedMajor),
		wire("unlisted-major-stale-list", "The refusal of an unlisted major echoes another list than discovery.",
			"2.1", tamper.JSON(tamper.Any, http.StatusNotAcceptable, func(_ *http.Request, doc map[string]any) {
				doc["details"] = object{"protocolVersions": []any{"2.1"}}
			}),
			requirements.R0172DualStackNegotiationUnlistedMajor),
		wire("unlisted-major-wrong-code", "The refusal of an unlisted major has the code that belongs to the /v1 paths.",
			"406 protocol_version_mismatch", tamper.JSON(tamper.Any, http.StatusNotAcceptable, func(_ *http.Request, doc map[string]any) {
				doc["error"] = "protocol_version_mismatch"
			}),
			requirements.R0172DualStackNegotiationUnlistedMajor, requirements.ErrorsRegisteredStatus),
		wire("response-version-not-listed", "Responses name a version that discovery does not list.",
			"2.9", tamper.Answers(tamper.Any, func(_ *http.Request, a *tamper.Answer) { a.Header.Set("OpenWOP-Version", "2.9") }),
			requirements.R0172DualStackNegotiationResponseHeader),
	}
}

// overlap makes the host look as if it still served a 1.x version beside 2.0,
// in every place where that shows, while it prefers 2.0.
func overlap() tamper.Middleware {
	major1 := func(r *http.Request) bool {
		major, _, _ := strings.Cut(r.Header.Get("OpenWOP-Version"), ".")
		return major == "1"
	}
	return tamper.Chain(
		tamper.Answers(tamper.And(tamper.Discovery, major1), func(_ *http.Request, a *tamper.Answer) {
			a.Header.Set("OpenWOP-Version", "1.4")
			a.Status = http.StatusOK
			a.SetJSON(version1())
		}),
		listing("1.4", "2.0"),
		bindBareIDs(),
	)
}

// listing makes the host list other versions, where it lists and where it
// echoes them.
func listing(versions ...any) tamper.Middleware {
	return tamper.Chain(
		set("protocolVersions", versions),
		tamper.JSON(tamper.Any, http.StatusNotAcceptable, func(_ *http.Request, doc map[string]any) {
			doc["details"] = object{"protocolVersions": versions}
		}),
	)
}

// version1 is a discovery document as version 1 has it.
func version1() object {
	return object{
		"protocolVersion": "1.4", "protocolVersions": []any{"1.4", "2.0"}, "preferredVersion": "2.0",
		"supportedEnvelopes": []any{"message"}, "capabilities": object{},
	}
}

func clientVersion(r *http.Request) string { return r.Header.Get("OpenWOP-Client-Version") }

func headerFaults() []Fault {
	without := func(a *tamper.Answer) { a.Header.Del("OpenWOP-Version") }
	version := requirements.R0171HeaderSchemeVersionOnEveryResponse
	return []Fault{
		wire("version-missing-on-401", "A 401 carries no OpenWOP-Version, because authentication runs before negotiation.",
			"OpenWOP-Version", onStatus(tamper.Any, 401, without), version),
		wire("version-missing-on-404", "A 404 carries no OpenWOP-Version.",
			"OpenWOP-Version", onStatus(tamper.Any, 404, without), version),
		wire("version-missing-on-stream", "An event stream carries no OpenWOP-Version.",
			"OpenWOP-Version", onStatus(tamper.StreamRun, 200, without), version),
		wire("version-missing-on-create", "The 201 of a created run carries no OpenWOP-Version.",
			"OpenWOP-Version", onStatus(tamper.CreateRun, 201, without), version),
		wire("version-missing-on-406", "A 406 carries no OpenWOP-Version.",
			"OpenWOP-Version", onStatus(tamper.Any, 406, without), version),
		wire("version-missing-on-409", "A 409 carries no OpenWOP-Version.",
			"OpenWOP-Version", onStatus(tamper.Any, 409, without), version),
		wire("version-missing-on-snapshot-304", "The 304 to a snapshot request carries no OpenWOP-Version.",
			"OpenWOP-Version", onStatus(tamper.GetRun, 304, without), version),
		wire("version-missing-on-400", "A 400 carries no OpenWOP-Version.",
			"OpenWOP-Version", onStatus(tamper.Any, 400, without), version),
		wire("version-major-only-on-404", "A 404 names the major alone.",
			"OpenWOP-Version: 2|OpenWOP-Version: \"2\"", onStatus(tamper.Any, 404, func(a *tamper.Answer) { a.Header.Set("OpenWOP-Version", "2") }), version),
		wire("legacy-capabilities-etag", "The discovery document carries Capabilities-Etag beside its ETag.",
			"Capabilities-Etag", onStatus(tamper.Discovery, 200, func(a *tamper.Answer) { a.Header.Set("Capabilities-Etag", a.Header.Get("ETag")) }),
			requirements.R0171HeaderSchemeNoLegacyHeaders),
		wire("legacy-x-openwop-header", "Responses carry an X-openwop-* header.",
			"X-Openwop-Trace", tamper.Answers(tamper.GetRun, func(_ *http.Request, a *tamper.Answer) { a.Header.Set("X-openwop-Trace", "1") }),
			requirements.R0171HeaderSchemeNoLegacyHeaders),
		wire("legacy-x-dedup", "A created run is answered with X-Dedup.",
			"X-Dedup", onStatus(tamper.CreateRun, 201, func(a *tamper.Answer) { a.Header.Set("X-Dedup", "none") }),
			requirements.R0171HeaderSchemeNoLegacyHeaders),
		wire("legacy-x-force-engine-version", "A poll is answered with X-Force-Engine-Version.",
			"X-Force-Engine-Version", onStatus(tamper.PollRun, 200, func(a *tamper.Answer) { a.Header.Set("X-Force-Engine-Version", "1") }),
			requirements.R0171HeaderSchemeNoLegacyHeaders),
		wire("min-client-version-major-only", "minClientVersion names a major alone.",
			"minClientVersion", set("minClientVersion", "2"),
			requirements.R0172MinClientVersion),
		wire("client-version-malformed-refused", "A malformed OpenWOP-Client-Version is refused.",
			"400 validation_error", tamper.Answers(func(r *http.Request) bool {
				v := clientVersion(r)
				return v != "" && !strings.HasPrefix(v, "2.") && !strings.HasPrefix(v, "1.") && !strings.HasPrefix(v, "0.") || strings.Count(v, ".") > 1
			}, func(_ *http.Request, a *tamper.Answer) {
				a.Refuse(400, "validation_error", "OpenWOP-Client-Version is malformed")
			}),
			requirements.R0172MinClientVersion),
		wire("client-version-current-refused", "A client that speaks the version the host asks for is refused.",
			"426 client_version_unsupported", tamper.Answers(func(r *http.Request) bool { return strings.HasPrefix(clientVersion(r), "2.") },
				func(_ *http.Request, a *tamper.Answer) { a.Refuse(426, "client_version_unsupported", "update") }),
			requirements.R0172MinClientVersion),
		wire("client-version-old-refused-400", "A client below minClientVersion is refused 400 and not 426.",
			"400 validation_error", tamper.Answers(func(r *http.Request) bool {
				v := clientVersion(r)
				return strings.HasPrefix(v, "0.") || strings.HasPrefix(v, "1.")
			}, func(_ *http.Request, a *tamper.Answer) { a.Refuse(400, "validation_error", "the client is too old") }),
			requirements.R0172MinClientVersion),
	}
}

func eraFaults() []Fault {
	stamp := func(when func(doc object) bool, value any) tamper.Middleware {
		return tamper.JSON(tamper.GetRun, http.StatusOK, func(_ *http.Request, doc map[string]any) {
			if when(doc) {
				if doc["eventLogSchemaVersion"] = value; value == nil {
					delete(doc, "eventLogSchemaVersion")
				}
			}
		})
	}
	always := func(object) bool { return true }
	return []Fault{
		wire("snapshot-without-era", "A snapshot has no eventLogSchemaVersion.",
			"eventLogSchemaVersion", stamp(always, nil),
			requirements.R0176EraKey, requirements.R0176EraKeyDiscovery, requirements.R0176EraStampUniversal, requirements.RunsSnapshotValid).
			also("eventLogSchemaVersion absent on a replay fork of a run of|eventLogSchemaVersion absent", requirements.PersistenceForkStamped, requirements.PersistenceAbsentEraReads2),
		wire("snapshot-era-as-text", "The eventLogSchemaVersion of a snapshot is a string.",
			"eventLogSchemaVersion", stamp(always, "3"),
			requirements.R0176EraKey, requirements.R0176EraKeyDiscovery, requirements.R0176EraStampUniversal, requirements.RunsSnapshotValid).
			also("eventLogSchemaVersion \"3\" on a replay fork of a run of era 2|eventLogSchemaVersion \"3", requirements.PersistenceForkStamped, requirements.PersistenceAbsentEraReads2),
		wire("new-runs-stamped-as-v1", "Runs created under major 2 are stamped as of the era of version 1.",
			"2", stamp(always, 2),
			requirements.R0176EraStampUniversal, requirements.R0176EraKeyDiscovery).
			also("eventLogSchemaVersion 2 on a replay fork of a run of era 2", requirements.PersistenceForkStamped),
		wire("failed-runs-stamped-as-v1", "Only runs that failed are stamped as of the era of version 1.",
			"2", stamp(func(doc object) bool { return doc["status"] == "failed" }, 2),
			requirements.R0176EraStampUniversal),
		wire("cancelled-runs-stamped-as-v1", "Only runs that were cancelled are stamped as of the era of version 1.",
			"2", stamp(func(doc object) bool { return doc["status"] == "cancelled" }, 2),
			requirements.R0176EraStampUniversal),
		wire("discovery-advertises-old-era", "Discovery advertises an eventLogSchemaVersion the host no longer writes.",
			"2", set("eventLogSchemaVersion", 2),
			requirements.R0176EraKeyDiscovery),
	}
}
