package scenarios

import (
	"net/http"
	"regexp"

	"wopcert/harness"
	"wopcert/requirements"
)

// entityTag is the form of an ETag (RFC 9110 §8.8.3).
var entityTag = regexp.MustCompile(`^(W/)?"[\x21\x23-\x7E\x80-\xFF]*"$`)

// discoveryCaching: capabilities.md §1.1, "Cache validators". That a 304 has no
// body cannot be seen from here: HTTP ends the response with its header, and a
// client reads none.
func discoveryCaching() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-discovery-caching",
		Title:    "The discovery document has a validator and is not sent again to who has it",
		Document: "capabilities.md",
		Section:  "1.1 Cache validators",
		Tests: []harness.Test{
			{
				Name:      "entity tag",
				Public:    true,
				Witnesses: []requirements.ID{requirements.CapabilitiesDiscoveryEtag},
				Run: func(t *harness.T) {
					r := readWellKnown(t, "2")
					if !r.Is(http.StatusOK).OK {
						t.Abort("the discovery document was not served again: %s", answered(r))
					}
					tags := r.Header.Values("ETag")
					t.Expect(requirements.CapabilitiesDiscoveryEtag, harness.That(
						len(tags) == 1 && entityTag.MatchString(tags[0]),
						"one ETag in the form of RFC 9110", "ETag: %q", tags).At(r))
				},
			},
			{
				Name:      "conditional request",
				Public:    true,
				Witnesses: []requirements.ID{requirements.CapabilitiesDiscoveryIfNoneMatch},
				Run: func(t *harness.T) {
					const other = `"no-such-tag"`
					t.Expect(requirements.CapabilitiesDiscoveryIfNoneMatch, unchangedDiscovery(t))
					r := readWellKnown(t, "2", "If-None-Match", other)
					t.Expect(requirements.CapabilitiesDiscoveryIfNoneMatch, served("a request with another tag", r, "2"))
				},
			},
		},
	}
}

// unchangedDiscovery asks for the document on condition that it is not the one
// just read. A document that changed in between is read again, a few times.
func unchangedDiscovery(t *harness.T) harness.Check {
	const tries = 4
	var check harness.Check
	for range tries {
		tag := readWellKnown(t, "2").Header.Get("ETag")
		if tag == "" {
			t.Abort("the discovery document has no ETag to send back")
		}
		r := readWellKnown(t, "2", "If-None-Match", tag)
		v, _ := versionHeader(r)
		check = harness.That(r.Err == nil && r.Status == http.StatusNotModified && isVersion(v),
			"304 with OpenWOP-Version", "If-None-Match: %s was answered %s with OpenWOP-Version: %s", tag, answered(r), v).At(r)
		if check.OK || r.Err != nil || r.Status != http.StatusOK || r.Header.Get("ETag") == tag {
			return check
		}
	}
	return check
}
