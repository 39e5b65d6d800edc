package scenarios

import (
	"fmt"
	"net/http"

	"wopcert/harness"
	"wopcert/requirements"
)

// dualStackNegotiation: versioning.md §1.3, "The request header", and §1.4,
// "The response header".
func dualStackNegotiation() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-dual-stack-negotiation",
		Title:    "An unlisted major is refused with the list, and responses name the version used",
		Document: "versioning.md",
		Section:  "1.4 The response header",
		Tests: []harness.Test{
			{
				Name:      "an unlisted major",
				Witnesses: []requirements.ID{requirements.R0172DualStackNegotiationUnlistedMajor},
				Run:       unlistedMajorRefused,
			},
			{
				Name:      "the version of discovery responses",
				Witnesses: []requirements.ID{requirements.R0172DualStackNegotiationResponseHeader},
				Run: func(t *harness.T) {
					d := t.Host().Discovery
					for _, version := range []string{"2", listedVersion(d, "2"), listedVersion(d, "1")} {
						if version == "" {
							continue
						}
						r := readWellKnown(t, version)
						judgeable(t, r, http.StatusOK)
						major := "2"
						if version != "2" {
							major = majorOf(version)
						}
						t.Expect(requirements.R0172DualStackNegotiationResponseHeader, namesListed("OpenWOP-Version: "+version, r, d, major))
					}
				},
			},
			{
				Name:      "the version of run responses",
				Witnesses: []requirements.ID{requirements.R0172DualStackNegotiationResponseHeader},
				Gates:     []harness.Gate{endingFixtures()},
				Run: func(t *harness.T) {
					d := t.Host().Discovery
					made := create(t, endingBody(t))
					judgeable(t, made, http.StatusCreated)
					t.Expect(requirements.R0172DualStackNegotiationResponseHeader, namesListed("createRun", made, d, "2"))
					read := get(t, made.Text("runId"))
					judgeable(t, read, http.StatusOK)
					t.Expect(requirements.R0172DualStackNegotiationResponseHeader, namesListed("getRun", read, d, "2"))
				},
			},
		},
	}
}

// judgeable ends the test when a response is not the one whose version header
// is to be judged, or has no such header, which header-scheme judges.
func judgeable(t *harness.T, r *harness.Response, status int) {
	if !r.Is(status).OK {
		t.Abort("no response to judge: wanted status %d, got %s", status, answered(r))
	}
	if _, ok := versionHeader(r); !ok {
		t.Abort("the response to %s has no OpenWOP-Version to judge", r.Request)
	}
}

// unlistedMajorRefused asks two operations for a major the host does not list,
// each beside the same request under major 2.
func unlistedMajorRefused(t *harness.T) {
	d := t.Host().Discovery
	version := unlistedMajor(d)
	for _, ask := range []func(version string) *harness.Response{
		func(v string) *harness.Response { return readWellKnown(t, v) },
		func(v string) *harness.Response {
			return t.Do(harness.Request{Path: "/workflows/" + noop, Version: v})
		},
	} {
		if control := ask("2"); control.Err != nil || control.Status == http.StatusNotAcceptable {
			t.Abort("%s is not answered under major 2 either: %s", control.Request, answered(control))
		}
		r := ask(version)
		t.Expect(requirements.R0172DualStackNegotiationUnlistedMajor, refusesMajor(r, d))
	}
}

// refusesMajor checks the refusal of an unlisted major and the list it echoes.
func refusesMajor(r *harness.Response, d *harness.Discovery) harness.Check {
	echoed, ok := stringList(r.Get("details", "protocolVersions"))
	return harness.All(r.Refuses("protocol_version_unsupported"),
		harness.That(ok && sameMembers(echoed, d.Versions()), fmt.Sprintf("details.protocolVersions %v", d.Versions()),
			"details.protocolVersions %s", show(r.Get("details", "protocolVersions"))).At(r))
}

// minClientVersion: versioning.md §1.5, "Client precedence and
// minClientVersion", and headers.md on OpenWOP-Client-Version.
func minClientVersion() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-min-client-version",
		Title:    "A client is refused only for a version it names that is below minClientVersion",
		Document: "versioning.md",
		Section:  "1.5 Client precedence and minClientVersion",
		Tests: []harness.Test{
			{
				Name:      "the grammar of minClientVersion",
				Witnesses: []requirements.ID{requirements.R0172MinClientVersion},
				Run: func(t *harness.T) {
					v, ok := t.Host().Discovery.Document["minClientVersion"]
					if !ok {
						t.Inapplicable(requirements.R0172MinClientVersion, "the host sets no minClientVersion")
						return
					}
					s, _ := v.(string)
					t.Expect(requirements.R0172MinClientVersion, harness.That(isVersion(s),
						"minClientVersion <major>.<minor>", "minClientVersion %s", show(v)))
				},
			},
			{
				Name:      "OpenWOP-Client-Version on createRun",
				Witnesses: []requirements.ID{requirements.R0172MinClientVersion},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       clientVersions,
			},
		},
	}
}

// clientVersions creates runs as clients of several versions. Without
// minClientVersion there is nothing to be below of, so every one is served.
func clientVersions(t *harness.T) {
	ask := func(version string) *harness.Response {
		return create(t, endingBody(t), "OpenWOP-Client-Version", version)
	}
	startEnding(t) // who names no version is served
	floor, _ := t.Host().Discovery.Document["minClientVersion"].(string)
	allowed := []string{"2.0"}
	if isVersion(floor) {
		allowed = []string{floor, versionAbove(floor)}
		if below := versionBelow(floor); below != "" {
			r := ask(below)
			t.Expect(requirements.R0172MinClientVersion, servedOrTooOld(r, below, floor))
		}
	}
	for _, version := range append(allowed, "latest", "version two", "2.x") {
		r := ask(version)
		t.Expect(requirements.R0172MinClientVersion, harness.That(r.Is(http.StatusCreated).OK,
			"status 201 as without the header", "OpenWOP-Client-Version: %s was answered %s", version, answered(r)).At(r))
	}
}

// servedOrTooOld checks the answer to a client below the minimum, which a host
// may refuse but only as too old.
func servedOrTooOld(r *harness.Response, version, floor string) harness.Check {
	if r.Is(http.StatusCreated).OK {
		return r.Is(http.StatusCreated)
	}
	check := r.Refuses("client_version_unsupported")
	check.Expected = fmt.Sprintf("201, or 426 client_version_unsupported, for OpenWOP-Client-Version: %s below %s", version, floor)
	return check
}
