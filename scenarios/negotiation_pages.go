package scenarios

import (
	"net/http"
	"strings"

	"wopcert/harness"
	"wopcert/requirements"
)

// sharedNamePages: versioning.md §1.4, "The response header".
func sharedNamePages() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-shared-name-pages",
		Title:    "A page beside an operation is neither given to protocol clients nor mistaken for the operation",
		Document: "versioning.md",
		Section:  "1.4 The response header",
		Gates:    []harness.Gate{endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "what a protocol client gets",
				Witnesses: []requirements.ID{requirements.VersioningProtocolClientServed},
				Run:       protocolClients,
			},
			{
				Name:      "what a browser gets",
				Witnesses: []requirements.ID{requirements.VersioningPageUnversioned},
				Run:       browsers,
			},
		},
	}
}

// asked is a request for a path with an Accept header of its own.
func asked(t *harness.T, path, version, accept string) *harness.Response {
	return t.Do(harness.Request{Path: path, Version: version, Header: headerOf("Accept", accept)})
}

// isProtocol reports whether a response is an operation's: JSON that names the
// version that produced it.
func isProtocol(r *harness.Response) bool {
	_, versioned := versionHeader(r)
	return r.Err == nil && versioned && isJSON(r)
}

func isJSON(r *harness.Response) bool {
	m := mediaType(r)
	return m == "application/json" || strings.HasPrefix(m, "application/") && strings.HasSuffix(m, "+json")
}

// protocolClients reads a run, and a run that does not exist, as every kind of
// client that is no browser. What such a client is told under no version is a
// requirement of its own, so that there only a page is a fault.
func protocolClients(t *harness.T) {
	id := startEnding(t)
	known, unknown := runPath(id, ""), runPath(tenantSegment(id)+"/"+newOpaque(), "")
	plain, missing := asked(t, known, "2", "application/json"), asked(t, unknown, "2", "application/json")
	named := plain.Text("runId")
	if !isProtocol(plain) || !plain.Is(http.StatusOK).OK || named == "" {
		t.Abort("the run cannot be read as JSON of a named version by a plain client either: getRun gave %s", answered(plain))
	}
	for _, accept := range []string{"text/html", "text/html;q=1, application/json;q=0.5"} {
		r := asked(t, known, "2", accept)
		t.Expect(requirements.VersioningProtocolClientServed, harness.All(protocolAnswer(r, accept), names(r, named)))
		if isProtocol(missing) {
			r = asked(t, unknown, "2", accept)
			t.Expect(requirements.VersioningProtocolClientServed, harness.All(protocolAnswer(r, accept), r.Is(missing.Status)))
		}
	}
	if listedVersion(t.Host().Discovery, "1") != "" {
		return // without a version the client is one of major 1
	}
	for _, accept := range []string{"*/*", "application/json"} {
		t.Expect(requirements.VersioningProtocolClientServed, protocolAnswer(asked(t, known, harness.NoVersion, accept), accept+" and no version"))
	}
}

func protocolAnswer(r *harness.Response, to string) harness.Check {
	version, _ := versionHeader(r)
	return harness.That(isProtocol(r), "JSON with OpenWOP-Version for Accept: "+to,
		"%s with OpenWOP-Version %q", answered(r), version).At(r)
}

// browsers asks for paths of operations as a page. A path whose own JSON lacks
// the header breaks the rule of the header and shows nothing about pages.
func browsers(t *harness.T) {
	judged := 0
	for _, path := range []string{runPath(startEnding(t), ""), "/runs", harness.WellKnown} {
		if !isProtocol(asked(t, path, harness.NoVersion, "application/json")) {
			continue
		}
		judged++
		r := asked(t, path, harness.NoVersion, "text/html")
		t.Expect(requirements.VersioningPageUnversioned, pageOrProtocol(path, r))
	}
	if judged == 0 {
		t.Abort("no path of an operation answers a request for JSON without a version with JSON that names one")
	}
}

// pageOrProtocol checks that a response is wholly the one or wholly the other.
func pageOrProtocol(path string, r *harness.Response) harness.Check {
	version, versioned := versionHeader(r)
	whole := isProtocol(r) || r.Err == nil && !versioned && !isJSON(r) ||
		versioned && len(r.Body) == 0 && r.Status != http.StatusOK // nothing that could be a page
	return harness.That(whole, "the operation's JSON with OpenWOP-Version, or a page with neither",
		"%s for Accept: text/html answered %s with OpenWOP-Version %q", path, answered(r), version).At(r)
}
