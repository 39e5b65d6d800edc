package scenarios

import (
	"fmt"
	"net/http"
	"net/url"

	"wopcert/harness"
	"wopcert/requirements"
)

// dualStackNegotiation: versioning.md §1.3, "The request header", §1.4, "The
// response header", and §5, "The overlap".
func dualStackNegotiation() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-dual-stack-negotiation",
		Title:    "An unlisted major is refused with the list, and responses name the version used",
		Document: "versioning.md",
		Section:  "1.4 The response header",
		Tests: []harness.Test{
			{
				Name:      "an unlisted major",
				Public:    true,
				Witnesses: []requirements.ID{requirements.R0172DualStackNegotiationUnlistedMajor},
				Run:       unlistedMajorRefused,
			},
			{
				Name:      "the version of discovery responses",
				Public:    true,
				Witnesses: []requirements.ID{requirements.R0172DualStackNegotiationResponseHeader},
				Run:       discoveryVersions,
			},
			{
				Name:      "the version of run responses",
				Witnesses: []requirements.ID{requirements.R0172DualStackNegotiationResponseHeader},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       runVersions,
			},
			{
				Name:      "a /v1 path under major 2",
				Witnesses: []requirements.ID{requirements.R0172DualStackNegotiationV1PathMismatch},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       mismatchedPath,
			},
			{
				Name:      "a run of major 1 read under major 2",
				Witnesses: []requirements.ID{requirements.R0172DualStackNegotiationCrossMajorRead},
				Gates:     []harness.Gate{bothMajors(), harness.NeedsFixture(noop)},
				Run:       crossMajorRead,
			},
		},
	}
}

// discoveryVersions reads the well-known resource under both spellings of
// major 2, and under major 1 where the host lists it. That the spellings are
// served, and that responses have the header at all, are rows of their own.
func discoveryVersions(t *harness.T) {
	d := t.Host().Discovery
	judged := 0
	for _, version := range []string{"2", listedVersion(d, "2")} {
		r := readWellKnown(t, version)
		if _, ok := versionHeader(r); ok && version != "" && r.Is(http.StatusOK).OK {
			judged++
			t.Expect(requirements.R0172DualStackNegotiationResponseHeader, namesListed("OpenWOP-Version: "+version, r, d, "2"))
		}
	}
	if judged == 0 {
		t.Abort("no discovery response of major 2 has an OpenWOP-Version to judge")
	}
	if version := listedVersion(d, "1"); version != "" {
		r := readWellKnown(t, version)
		if _, ok := versionHeader(r); !ok || !r.Is(http.StatusOK).OK {
			t.Abort("the discovery document of major 1, which the host lists, has no version to judge: %s", answered(r))
		}
		t.Expect(requirements.R0172DualStackNegotiationResponseHeader, namesListed("OpenWOP-Version: "+version, r, d, "1"))
	}
}

// runVersions creates a run and reads it.
func runVersions(t *harness.T) {
	made := create(t, endingBody(t))
	if !made.Is(http.StatusCreated).OK || made.Text("runId") == "" {
		t.Abort("no run to observe: createRun gave %s", answered(made))
	}
	judged := 0
	for _, h := range []heard{{"createRun", made}, {"getRun", get(t, made.Text("runId"))}} {
		if _, ok := versionHeader(h.response); ok {
			judged++
			t.Expect(requirements.R0172DualStackNegotiationResponseHeader, namesListed(h.what, h.response, t.Host().Discovery, "2"))
		}
	}
	if judged == 0 {
		t.Abort("no response about a run has an OpenWOP-Version to judge")
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
	if t.Has(harness.Primary) { // without a key, what refuses first is open
		unlistedMajorOfRuns(t, version)
	}
}

// unlistedMajorOfRuns asks operations of runs for a major the host does not
// list. They need no run to be there, and a create makes none.
func unlistedMajorOfRuns(t *harness.T, version string) {
	d := t.Host().Discovery
	absent := "wopcert/" + newOpaque()
	body, tag := tagged(object{"workflowId": noop})
	for _, r := range []harness.Request{
		{Path: runPath(absent, "")},
		{Path: runPath(absent, "/events/poll"), Query: url.Values{"timeout": {"1"}}},
		{Path: runPath(absent, "/events")},
		{Method: http.MethodPost, Path: runPath(absent, "/cancel"), Body: object{}},
		{Method: http.MethodPost, Path: "/runs", Body: body, Header: headerOf("Idempotency-Key", newIdempotencyKey())},
	} {
		r.Version = version
		t.Expect(requirements.R0172DualStackNegotiationUnlistedMajor, refusesMajor(t.Do(r), d))
	}
	t.Expect(requirements.R0172DualStackNegotiationUnlistedMajor, noRunTagged(t, harness.Primary, tag))
}

// refusesMajor checks the refusal of an unlisted major and the list it echoes,
// as far as the members are versions: their grammar has a row of its own.
func refusesMajor(r *harness.Response, d *harness.Discovery) harness.Check {
	echoed, ok := stringList(r.Get("details", "protocolVersions"))
	return harness.All(r.Refuses("protocol_version_unsupported"),
		harness.That(ok && sameMembers(versionsOf(echoed), versionsOf(d.Versions())), fmt.Sprintf("details.protocolVersions %v", d.Versions()),
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
				Public:    true,
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
	runs := servedRun(t) // who names no version is served
	floor, _ := t.Host().Discovery.Document["minClientVersion"].(string)
	allowed := []string{"2.0"}
	if isVersion(floor) {
		allowed = []string{floor, versionAbove(floor)}
		if below := versionBelow(floor); below != "" {
			r := ask(below)
			t.Expect(requirements.R0172MinClientVersion, servedOrTooOld(r, below, floor, runs))
		}
	}
	for _, version := range append(allowed, "latest", "version two", "2.x") {
		r := ask(version)
		t.Expect(requirements.R0172MinClientVersion, harness.That(ownRun(r, runs),
			"201 with a run of its own, as without the header", "OpenWOP-Client-Version: %s was answered %s", version, answered(r)).At(r))
	}
}

// servedOrTooOld checks the answer to a client below the minimum, which a host
// may refuse but only as too old.
func servedOrTooOld(r *harness.Response, version, floor string, runs map[string]bool) harness.Check {
	if ownRun(r, runs) {
		return r.Is(http.StatusCreated)
	}
	check := r.Refuses("client_version_unsupported")
	check.Expected = fmt.Sprintf("201, or 426 client_version_unsupported, for OpenWOP-Client-Version: %s below %s", version, floor)
	return check
}
