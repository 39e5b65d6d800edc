package scenarios

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"wopcert/harness"
	"wopcert/requirements"
)

// heard is a response and the request it answers, in words.
type heard struct {
	what     string
	response *harness.Response
}

// headerScheme: headers.md, "Removed in v2", and versioning.md §1.4, "The
// response header".
func headerScheme() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-header-scheme",
		Title:    "Every response names its version, and none carries a header version 2 removed",
		Document: "headers.md",
		Section:  "Response headers",
		Tests: []harness.Test{
			{
				Name:   "headers of discovery responses",
				Public: true,
				Witnesses: []requirements.ID{
					requirements.R0171HeaderSchemeVersionOnEveryResponse,
					requirements.R0171HeaderSchemeNoLegacyHeaders,
				},
				Run: func(t *harness.T) {
					for _, h := range discoveryResponses(t) {
						t.Expect(requirements.R0171HeaderSchemeVersionOnEveryResponse, namesVersion(h.what, h.response))
						t.Expect(requirements.R0171HeaderSchemeNoLegacyHeaders, noLegacyHeaders(h))
					}
				},
			},
			{
				Name: "headers of run responses",
				Witnesses: []requirements.ID{
					requirements.R0171HeaderSchemeVersionOnEveryResponse,
					requirements.R0171HeaderSchemeNoLegacyHeaders,
				},
				Gates: []harness.Gate{endingFixtures()},
				Run: func(t *harness.T) {
					for _, h := range runResponses(t) {
						t.Expect(requirements.R0171HeaderSchemeVersionOnEveryResponse, namesVersion(h.what, h.response))
						t.Expect(requirements.R0171HeaderSchemeNoLegacyHeaders, noLegacyHeaders(h))
					}
				},
			},
			{
				Name:      "the version of the major 1 representation",
				Public:    true,
				Witnesses: []requirements.ID{requirements.R0171HeaderSchemeVersionOnEveryResponse},
				Gates: []harness.Gate{harness.HostFact("the host lists no version of major 1",
					func(d *harness.Discovery) bool { return listedVersion(d, "1") != "" })},
				Run: func(t *harness.T) {
					r := readWellKnown(t, "1")
					if !r.Is(http.StatusOK).OK {
						t.Abort("the major 1 discovery document was not served: %s", answered(r))
					}
					t.Expect(requirements.R0171HeaderSchemeVersionOnEveryResponse, namesVersion("discovery under major 1", r))
				},
			},
		},
	}
}

// discoveryResponses are a success, a refusal and, where the host sends a
// validator, a 304 of the well-known resource.
func discoveryResponses(t *harness.T) []heard {
	read := readWellKnown(t, "2")
	if !read.Is(http.StatusOK).OK {
		t.Abort("the discovery document was not served again: %s", answered(read))
	}
	out := []heard{
		{"discovery", read},
		{"discovery under an unlisted major", readWellKnown(t, unlistedMajor(t.Host().Discovery))},
	}
	if tag := read.Header.Get("ETag"); tag != "" {
		out = append(out, heard{"conditional discovery", readWellKnown(t, "2", "If-None-Match", tag)})
	}
	return out
}

// runResponses are what the operations of a run answer over its life, in as
// many statuses as anybody can provoke.
func runResponses(t *harness.T) []heard {
	made := create(t, endingBody(t))
	id := made.Text("runId")
	if !made.Is(http.StatusCreated).OK || id == "" {
		t.Abort("no run to observe: createRun gave %s", answered(made))
	}
	if l := readLog(t, id, settle); !l.terminal {
		t.Abort("no finished run to observe: the run is %q after %s", l.status, settle)
	}
	stream := t.Stream(harness.Request{Path: runPath(id, "/events")})
	stream.Close()
	read := get(t, id)
	out := []heard{
		{"createRun", made},
		{"getRun", read},
		{"pollRunEvents", poll(t, id, -1, 0)},
		{"streamRunEvents", stream.Response},
		{"cancelRun on a finished run", cancel(t, id, object{})},
		{"createRun without workflowId", create(t, object{})},
		{"getRun of no run", get(t, tenantSegment(id)+"/"+newOpaque())},
		{"getRun without a credential", t.Do(harness.Request{Path: runPath(id, ""), As: harness.Anonymous})},
		{"getRun with an unknown credential", t.Do(harness.Request{Path: runPath(id, ""), As: harness.Unknown})},
		{"a stream in an unknown mode", t.Do(harness.Request{Path: runPath(id, "/events"), Query: url.Values{"streamMode": {"none"}}})},
	}
	if tag := read.Header.Get("ETag"); tag != "" {
		out = append(out, heard{"conditional getRun", t.Do(harness.Request{Path: runPath(id, ""), Header: headerOf("If-None-Match", tag)})})
	}
	out = append(out, controlResponses(t)...)
	return append(out, refusalsOfOperations(t, id)...)
}

// controlResponses are what the operations that control a run answer, and the
// list of runs where the host has one.
func controlResponses(t *harness.T) []heard {
	var out []heard
	if t.Host().Discovery.Advertises("runList") {
		out = append(out, heard{"listRuns", t.Do(harness.Request{Path: "/runs"})})
	}
	if liveBody(t) == nil {
		return out
	}
	id, _ := executing(t, liveBody(t))
	defer endRun(t, id)
	return append(out,
		heard{"resumeRun on an active run", act(t, id, "resume", object{})},
		heard{"pauseRun", act(t, id, "pause", object{"drainPolicy": "immediate"})},
		heard{"resumeRun", act(t, id, "resume", object{})},
		heard{"bulkCancelRuns", bulkCancel(t, absentRun(id))},
		heard{"cancelRun", cancel(t, id, object{})},
	)
}

// noLegacyHeaders checks that a response carries none of the headers version 2
// removed (headers.md, "Removed in v2").
func noLegacyHeaders(h heard) harness.Check {
	removed := []string{"capabilities-etag", "x-dedup", "x-force-engine-version", "x-pack-sha256", "x-pack-signing-method",
		"openwop-webhook-signature"}
	var found []string
	for _, name := range slices.Sorted(maps.Keys(h.response.Header)) {
		lower := strings.ToLower(name)
		if slices.Contains(removed, lower) || strings.HasPrefix(lower, "x-openwop-") {
			found = append(found, name+" on "+h.what)
		}
	}
	return none("header that version 2 removed", found).At(h.response)
}
