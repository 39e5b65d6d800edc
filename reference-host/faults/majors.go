package faults

import (
	"net/http"
	"strings"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

func profileFaults() []Fault {
	derivable := requirements.R0169ProfilesDerivedOnlyDerivable
	claimed := requirements.R0169ProfilesDerivedOnlyNoRootProfiles
	valid := requirements.R0169CapabilitiesRootClosedValid
	return []Fault{
		wire("discovery-event-log-true", "A family that profiles ask for is advertised with true instead of a record.",
			"eventLog", set("eventLog", true), derivable, requirements.R0169CapabilityRecordShapeRequiredFields),
		wire("discovery-event-log-list", "A family that profiles ask for is advertised with a list.",
			"eventLog", set("eventLog", []any{"poll", "stream"}), derivable, requirements.R0169CapabilityRecordShapeRequiredFields),
		wire("discovery-auth-profiles", "The auth record still claims profiles, as in version 1.",
			"auth.profiles|profiles", document(func(doc object) {
				if auth, ok := doc["auth"].(object); ok {
					auth["profiles"] = []any{"oidc"}
				}
			}), claimed, valid),
	}
}

func extensionFaults() []Fault {
	under := func(id, summary, name string) Fault {
		return wire(id, summary, name, document(func(doc object) {
			doc["extensions"] = object{name: object{"status": "stable"}}
		}), requirements.CapabilitiesExtensionOrgs, requirements.R0169CapabilitiesRootClosedValid)
	}
	return []Fault{
		under("extension-of-vendor", "An extension is named after the reserved organisation vendor.", "vendor.thing"),
		under("extension-of-openwop", "An extension is named after the contract itself.", "openwop.thing"),
		under("extension-in-capitals", "The name of an extension has capitals.", "Example.Note"),
		under("extension-without-organisation", "The name of an extension names no organisation.", "note"),
		under("extension-of-two-dots", "The name of an extension has a third part.", "example.note.v2"),
	}
}

func twinFaults() []Fault {
	twin := requirements.VersioningSingleMajorTwin
	return []Fault{
		wire("protocol-version-of-another-minor", "protocolVersion names another minor than preferredVersion.",
			"2.99", set("protocolVersion", "2.99"), twin),
		wire("protocol-version-of-version-1", "protocolVersion still names a version of major 1.",
			"1.4", set("protocolVersion", "1.4"), twin),
		wire("protocol-version-older-and-listed", "protocolVersion names the older of two minors the host lists.",
			"2.1", tamper.Chain(set("protocolVersion", "2.1"), set("protocolVersions", []any{"2.0", "2.1"}), set("preferredVersion", "2.0"),
				tamper.JSON(tamper.Any, http.StatusNotAcceptable, func(_ *http.Request, doc map[string]any) {
					doc["details"] = object{"protocolVersions": []any{"2.0", "2.1"}}
				}),
				tamper.Answers(tamper.Any, func(_ *http.Request, a *tamper.Answer) { a.Header.Set("OpenWOP-Version", "2.0") })), twin).
			also("406 protocol_version_unsupported with protocolVersions", requirements.R0176WellKnownOneResource),
	}
}

// olderOnly answers an operation under /v1 alone.
func olderOnly(path string, body object) tamper.Middleware {
	return tamper.Instead(tamper.Op(http.MethodGet, "/v1"+path), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := tamper.Ask(next, r, http.MethodGet, path, nil)
		a.Status = http.StatusOK
		a.SetJSON(body)
		a.Send(w)
	})
}

// stripped serves what is asked for below /v1 as if the prefix were not there.
func stripped(m tamper.Match) tamper.Middleware {
	return tamper.Requests(tamper.And(m, belowV1), func(r *http.Request) {
		tamper.SetPath(r, strings.TrimPrefix(r.URL.EscapedPath(), "/v1"))
	})
}

func belowV1(r *http.Request) bool { return strings.HasPrefix(r.URL.EscapedPath(), "/v1/") }

// olderRuns remembers the runs that were created under major 1, by what
// follows the tenant in their ids.
func olderRuns(edit func(opaque func(r *http.Request) (string, bool)) tamper.Middleware) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		made := newMarks()
		opaque := func(r *http.Request) (string, bool) {
			_, id, ok := strings.Cut(strings.Replace(tamper.RunSegment(r), "%2F", "~2F", 1), "~2F")
			_, known := made.since(id)
			return id, ok && known && !belowV1(r)
		}
		return tamper.Chain(
			tamper.JSON(tamper.Op(http.MethodPost, "/v1/runs"), http.StatusCreated, func(_ *http.Request, doc map[string]any) {
				id := text(doc["runId"])
				made.set(id[strings.Index(id, "/")+1:])
			}),
			edit(opaque),
		)(next)
	}
}

func overlapFaults() []Fault {
	space := requirements.R0172AdvertisedPathSpaceServed
	mismatch := requirements.R0172DualStackNegotiationV1PathMismatch
	cross := requirements.R0172DualStackNegotiationCrossMajorRead
	below := tamper.Match(belowV1)
	return []Fault{
		wire("v1-prompts-left-behind", "An operation is still answered under /v1 and not under major 2.",
			"/prompts", olderOnly("/prompts", object{"prompts": []any{}}), space).on("dual-stack"),
		wire("v1-agents-left-behind", "The agents are listed under /v1 and not under major 2.",
			"/agents", olderOnly("/agents", object{"agents": []any{}}), space).on("dual-stack"),
		wire("v1-prefix-ignored", "A path below /v1 is served under major 2 as if the prefix were not there.",
			"200", stripped(tamper.Any), mismatch),
		wire("v1-create-served", "A run is created below /v1 under major 2.",
			"201", stripped(tamper.Op(http.MethodPost, "/v1/runs")), mismatch),
		wire("v1-mismatch-406", "A path below /v1 under major 2 is refused as a version the host does not list.",
			"406", tamper.Answers(below, func(_ *http.Request, a *tamper.Answer) {
				a.Refuse(http.StatusNotAcceptable, "protocol_version_unsupported", "no such version")
			}), mismatch),
		wire("v1-mismatch-other-code", "A path below /v1 under major 2 is refused with the general code.",
			"validation_error", tamper.JSON(below, http.StatusBadRequest, func(_ *http.Request, doc map[string]any) { doc["error"] = "validation_error" }), mismatch),
		wire("v1-mismatch-404-in-overlap", "A host of both majors answers 404 below /v1 under major 2.",
			"404", tamper.Answers(tamper.And(below, asks("2")), func(_ *http.Request, a *tamper.Answer) {
				a.Refuse(http.StatusNotFound, "not_found", "no such path")
			}), mismatch).on("dual-stack"),
		wire("cross-major-snapshot-bare", "A run of major 1 reads under major 2 with its bare id.",
			"runId", olderRuns(func(opaque func(*http.Request) (string, bool)) tamper.Middleware {
				return tamper.JSON(tamper.GetRun, http.StatusOK, func(r *http.Request, doc map[string]any) {
					if id, ok := opaque(r); ok {
						doc["runId"] = id
					}
				})
			}), cross).on("dual-stack"),
		wire("cross-major-run-not-found", "A run of major 1 is not found under major 2.",
			"404", olderRuns(func(opaque func(*http.Request) (string, bool)) tamper.Middleware {
				return tamper.Answers(tamper.GetRun, func(r *http.Request, a *tamper.Answer) {
					if _, ok := opaque(r); ok {
						a.Refuse(http.StatusNotFound, "not_found", "no such run")
					}
				})
			}), cross).on("dual-stack"),
		wire("cross-major-version-of-major-2", "A create below /v1 is answered as if under major 2.",
			"OpenWOP-Version", tamper.Answers(tamper.Op(http.MethodPost, "/v1/runs"), func(_ *http.Request, a *tamper.Answer) {
				a.Header.Set("OpenWOP-Version", "2.0")
			}), cross).on("dual-stack"),
	}
}

func accepts(r *http.Request, media string) bool {
	return strings.Contains(r.Header.Get("Accept"), media)
}

func unversioned(r *http.Request) bool { return r.Header.Get("OpenWOP-Version") == "" }

// onAccept answers a read whose Accept names a media type with a page. The page
// keeps the version when it is asked to.
func onAccept(m tamper.Match, contentType string, keepVersion bool) tamper.Middleware {
	shared := tamper.Or(tamper.GetRun, tamper.ListRuns, tamper.Discovery)
	return tamper.Answers(tamper.And(shared, m), func(_ *http.Request, a *tamper.Answer) {
		a.Status = http.StatusOK
		a.Header.Set("Content-Type", contentType)
		a.Body = []byte("<!doctype html><title>A run</title>")
		if contentType == "application/json" {
			a.Body = []byte(`{"app":"shell"}`)
		}
		if !keepVersion {
			a.Header.Del("OpenWOP-Version")
		}
	})
}

func pageFaults() []Fault {
	client := requirements.VersioningProtocolClientServed
	page := requirements.VersioningPageUnversioned
	html := func(r *http.Request) bool { return accepts(r, "text/html") }
	return []Fault{
		wire("page-in-spite-of-version", "A client that names a version gets a page when it accepts one.",
			"text/html", onAccept(tamper.And(html, tamper.Not(unversioned)), "text/html", false), client),
		wire("page-in-spite-of-quality", "Two media types are not weighed: whoever names text/html at all gets a page.",
			"text/html", onAccept(func(r *http.Request) bool { return accepts(r, "text/html;q=1, ") && !unversioned(r) }, "text/html", false), client),
		wire("page-for-anything", "A client that accepts anything gets a page.",
			"text/html", onAccept(tamper.And(unversioned, func(r *http.Request) bool { return accepts(r, "*/*") && !tamper.Discovery(r) }), "text/html", false), client),
		wire("page-with-version", "A page says which version of the protocol it is.",
			"OpenWOP-Version", onAccept(tamper.And(html, unversioned), "text/html", true), page),
		wire("page-of-json", "A browser gets the shell of an application as JSON without a version.",
			"application/json", onAccept(tamper.And(html, unversioned), "application/json", false), page),
	}
}

func engineVersionFaults() []Fault {
	integer := requirements.VersioningEngineVersionInteger
	return []Fault{
		wire("engine-version-text-in-discovery", "The discovery document gives the version of the engine as text.",
			"engineVersion", set("engineVersion", "1"), integer, requirements.R0169CapabilitiesRootClosedValid),
		wire("engine-version-text-in-snapshot", "A snapshot gives the version of the engine as text.",
			"engineVersion", snapshot(func(doc object) { doc["engineVersion"] = "1" }), integer, requirements.RunsSnapshotValid,
			requirements.HeadersForceEngineVersionHonored),
		wire("engine-version-fraction-in-events", "Events give the version of the engine with a fraction.",
			"engineVersion", tamper.Events(func(e map[string]any) bool { e["engineVersion"] = 1.5; return true }),
			integer, requirements.R0171EventTypeClosedEnvelope, requirements.HeadersForceEngineVersionHonored),
		wire("engine-version-negative-in-snapshot", "A snapshot gives the version of the engine as -1.",
			"engineVersion", snapshot(func(doc object) { doc["engineVersion"] = -1 }), integer, requirements.RunsSnapshotValid,
			requirements.HeadersForceEngineVersionHonored),
	}
}

func preflightFaults() []Fault {
	cors := requirements.HeadersCorsPreflight
	on := func(edit func(r *http.Request, h http.Header)) tamper.Middleware {
		return tamper.Answers(tamper.Preflight, func(r *http.Request, a *tamper.Answer) { edit(r, a.Header) })
	}
	// dropping takes names out of a list.
	dropping := func(header, name string) tamper.Middleware {
		return on(func(_ *http.Request, h http.Header) {
			var kept []string
			for item := range strings.SplitSeq(h.Get(header), ",") {
				if item = strings.TrimSpace(item); !strings.EqualFold(item, name) {
					kept = append(kept, item)
				}
			}
			h.Set(header, strings.Join(kept, ", "))
		})
	}
	const headers, methods = "Access-Control-Allow-Headers", "Access-Control-Allow-Methods"
	return []Fault{
		wire("preflight-any-header", "A preflight admits any header with an asterisk, which does not cover Authorization.",
			"authorization", on(func(_ *http.Request, h http.Header) { h.Set(headers, "*") }), cors),
		wire("preflight-any-header-with-credentials", "A preflight admits any header with an asterisk beside credentials, where it means nothing.",
			"openwop-version", on(func(_ *http.Request, h http.Header) {
				h.Set(headers, "*, Authorization")
				h.Set("Access-Control-Allow-Credentials", "true")
			}), cors),
		wire("preflight-without-last-event-id", "A page may not say where it resumes a stream.", "last-event-id", dropping(headers, "Last-Event-ID"), cors),
		wire("preflight-without-idempotency-key", "A page may not send an Idempotency-Key.", "idempotency-key", dropping(headers, "Idempotency-Key"), cors),
		wire("preflight-without-version", "A page may not name a version.", "openwop-version", dropping(headers, "OpenWOP-Version"), cors),
		wire("preflight-without-content-type", "A page may not send JSON.", "content-type", dropping(headers, "Content-Type"), cors),
		wire("preflight-without-post", "A page may not create a run.", "POST", dropping(methods, "POST"), cors),
		wire("preflight-lower-case-methods", "A preflight names the methods in lower case.",
			"GET|POST", on(func(_ *http.Request, h http.Header) { h.Set(methods, strings.ToLower(h.Get(methods))) }), cors),
		wire("preflight-not-found", "A preflight is granted and answered 404.",
			"404", tamper.Answers(tamper.Preflight, func(_ *http.Request, a *tamper.Answer) { a.Status = http.StatusNotFound }), cors),
	}
}

// forced selects creates that force a version of the engine.
func forced(r *http.Request) bool {
	return tamper.CreateRun(r) && r.Header.Get("OpenWOP-Force-Engine-Version") != ""
}

func forceEngineFaults() []Fault {
	refused := requirements.RunsForceEngineVersionRefused
	honored := requirements.HeadersForceEngineVersionHonored
	forbidden := func(edit func(a *tamper.Answer)) tamper.Middleware {
		return tamper.Answers(forced, func(_ *http.Request, a *tamper.Answer) {
			if a.Status == http.StatusForbidden {
				edit(a)
			}
		})
	}
	return []Fault{
		made("production-key-forces-engine", "A production key may force a version of the engine.",
			"201", func(c *referencehost.Config) { relabelProduction(c) }, refused, requirements.RunsMockProviderRefused),
		wire("production-force-ignored", "A forced version of the engine under a production key is dropped without a word.",
			"201", func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !forced(r) {
						next.ServeHTTP(w, r)
						return
					}
					body := tamper.Body(r)
					a := tamper.Record(next, r)
					if a.Status == http.StatusForbidden {
						r = r.Clone(r.Context())
						r.Header.Del("OpenWOP-Force-Engine-Version")
						tamper.SetBody(r, body)
						a = tamper.Record(next, r)
					}
					a.Send(w)
				})
			}, refused),
		wire("production-force-other-code", "A forced version of the engine under a production key is refused with the general code.",
			"403 forbidden", forbidden(func(a *tamper.Answer) { a.Refuse(403, "forbidden", "not with this key") }), refused),
		wire("production-force-400", "A forced version of the engine under a production key is refused as malformed.",
			"400", forbidden(func(a *tamper.Answer) { a.Refuse(400, "validation_error", "no such header") }), refused),
		wire("forced-engine-ignored", "A forced version of the engine is dropped without a word.",
			"engineVersion", tamper.Requests(forcedByTest, func(r *http.Request) { r.Header.Del("OpenWOP-Force-Engine-Version") }), honored),
		wire("forced-engine-not-in-snapshot", "A snapshot shows the version of the engine that would have been without the header.",
			"engineVersion", snapshot(func(doc object) {
				if doc["engineVersion"] != nil {
					doc["engineVersion"] = 1
				}
			}), honored),
		wire("forced-engine-not-in-events", "Events show the version of the engine that would have been without the header.",
			"engineVersion", tamper.Events(func(e map[string]any) bool {
				if e["engineVersion"] != nil {
					e["engineVersion"] = 1
				}
				return true
			}), honored),
		wire("forced-engine-refused", "No version of the engine can be forced, though a range is advertised.",
			"400", tamper.Answers(tamper.And(forced, forcedByTest), func(_ *http.Request, a *tamper.Answer) {
				if a.Status == http.StatusCreated {
					a.Refuse(400, "validation_error", "no such version")
				}
			}), honored),
	}
}

func forcedByTest(r *http.Request) bool {
	return forced(r) && strings.Contains(r.Header.Get("Authorization"), referencehost.TestKeyPrefix)
}

// relabelProduction gives the production key the prefix of test keys.
func relabelProduction(c *referencehost.Config) {
	keys := append([]referencehost.Credential(nil), c.Keys...)
	for i := range keys {
		if keys[i].Name == referencehost.KeyProduction {
			keys[i].Key = referencehost.TestKeyPrefix + strings.TrimPrefix(keys[i].Key, "wop_live_")
		}
	}
	c.Keys = keys
}

// answering answers one path with a document, whatever is behind it.
func answering(method, path string, status int, body object) tamper.Middleware {
	return tamper.Answers(tamper.Op(method, path), func(_ *http.Request, a *tamper.Answer) {
		a.Status = status
		a.SetJSON(body)
	})
}

func seamFaults() []Fault {
	seams := requirements.ConformanceSeamsAdvertised
	return []Fault{
		wire("seam-files-unadvertised", "A test seam lists the files of a workspace, and no profile is named.",
			"/workspace/files", answering(http.MethodGet, "/conformance/seams/workspace/files", 200, object{"files": []any{}}), seams).on("no-seams"),
		wire("seam-seed-unadvertised", "A test seam refuses an event it is to write, and no profile is named.",
			"/event-log/seed", answering(http.MethodPost, "/conformance/seams/sample/event-log/seed", 400,
				object{"error": "validation_error", "message": "runId is missing"}), seams).on("no-seams"),
		wire("seam-packs-unadvertised", "A test seam serves packs, and no profile is named.",
			"/packs-test/", answering(http.MethodGet, "/conformance/seams/packs-test/wopcert.none/-/1.0.0.tgz", 200, object{"pack": "none"}), seams).on("no-seams"),
	}
}
