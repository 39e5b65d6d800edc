package scenarios

import (
	"fmt"
	"reflect"
	"slices"

	"wopcert/harness"
	"wopcert/requirements"
)

// preferredVersionDefault: versioning.md §1.1, "Advertisement", and the row of
// §1.3 for a request without the header, on the one resource all texts agree
// about.
func preferredVersionDefault() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-preferred-version-default",
		Title:    "preferredVersion is a listed version and the default of the well-known resource",
		Document: "versioning.md",
		Section:  "1.1 Advertisement",
		Tests: []harness.Test{
			{
				Name:      "preferredVersion is listed",
				Public:    true,
				Witnesses: []requirements.ID{requirements.R0172PreferredVersionDefaultMember},
				Run: func(t *harness.T) {
					t.Expect(requirements.R0172PreferredVersionDefaultMember, versionAdvertisement(t.Host().Discovery.Document))
				},
			},
			{
				Name:      "a request without the header",
				Public:    true,
				Witnesses: []requirements.ID{requirements.R0172PreferredVersionDefaultHeaderless},
				Run:       headerlessDefault,
			},
			{
				Name:      "the overlap prefers major 1",
				Public:    true,
				Witnesses: []requirements.ID{requirements.R0172PreferredVersionDefaultOverlap},
				Gates: []harness.Gate{harness.HostFact("the host lists no version of major 1",
					func(d *harness.Discovery) bool { return d.ListsMajor("1") })},
				Run: func(t *harness.T) {
					preferred := t.Host().Discovery.Preferred()
					t.Expect(requirements.R0172PreferredVersionDefaultOverlap, harness.That(majorOf(preferred) == "1",
						"preferredVersion 1.x while protocolVersions lists a 1.x",
						"preferredVersion %q, protocolVersions %v", preferred, t.Host().Discovery.Versions()))
				},
			},
		},
	}
}

// headerlessDefault asks for the well-known resource without naming a version.
// What comes must be the preferred major's by the version the response names
// and by the document, which under major 1 is never the closed root.
func headerlessDefault(t *harness.T) {
	major := majorOf(t.Host().Discovery.Preferred())
	if major != "1" && major != "2" {
		t.Abort("preferredVersion %q names no major that can be told", t.Host().Discovery.Preferred())
	}
	const what = "a request without OpenWOP-Version"
	r := readWellKnown(t, harness.NoVersion)
	t.Expect(requirements.R0172PreferredVersionDefaultHeaderless, harness.All(served(what, r, major), namesVersion(what, r)))
	if major == "1" {
		root := readWellKnown(t, "2")
		t.Expect(requirements.R0172PreferredVersionDefaultHeaderless, harness.That(!reflect.DeepEqual(r.JSON(), root.JSON()),
			"another document than under OpenWOP-Version: 2", "the same document").At(r))
	}
}

// versionAdvertisement checks the grammar of every listed version and that the
// preferred one is listed.
func versionAdvertisement(doc object) harness.Check {
	const expected = "protocolVersions of <major>.<minor> and a preferredVersion among them"
	versions, _ := stringList(doc["protocolVersions"])
	if len(versions) == 0 {
		return harness.That(false, expected, "protocolVersions %s", show(doc["protocolVersions"]))
	}
	for _, v := range versions {
		if !isVersion(v) {
			return harness.That(false, expected, "protocolVersions lists %q", v)
		}
	}
	preferred, ok := doc["preferredVersion"].(string)
	return harness.That(ok && slices.Contains(versions, preferred), expected,
		"preferredVersion %s, protocolVersions %v", show(doc["preferredVersion"]), versions)
}

// versionHeaderHonored: versioning.md §1.3, "The request header".
func versionHeaderHonored() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-version-header-honored",
		Title:    "The major a request names is the one it is served under",
		Document: "versioning.md",
		Section:  "1.3 The request header",
		Tests: []harness.Test{{
			Name:      "listed and unlisted majors",
			Public:    true,
			Witnesses: []requirements.ID{requirements.R0172VersionHeaderHonored},
			Run: func(t *harness.T) {
				d := t.Host().Discovery
				for _, version := range []string{"2", listedVersion(d, "2")} {
					if version == "" {
						t.Abort("protocolVersions lists no well-formed 2.x version to ask for")
					}
					r := readWellKnown(t, version)
					t.Expect(requirements.R0172VersionHeaderHonored, served("OpenWOP-Version: "+version, r, "2"))
				}
				for _, version := range []string{unlistedMajor(d), unlistedMajor(d) + ".0"} {
					r := readWellKnown(t, version)
					t.Expect(requirements.R0172VersionHeaderHonored, harness.That(r.Err == nil && r.Status == 406,
						"406 for a major that is not listed", "%s", fmt.Sprintf("OpenWOP-Version: %s was answered %s", version, answered(r))).At(r))
				}
			},
		}},
	}
}

// wellKnownOneResource: capabilities.md §1, "One well-known resource".
func wellKnownOneResource() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-well-known-one-resource",
		Title:    "One well-known resource answers whoever asks, and names every version",
		Document: "capabilities.md",
		Section:  "1. One well-known resource",
		Tests: []harness.Test{
			{
				Name:      "the major 2 representation",
				Public:    true,
				Witnesses: []requirements.ID{requirements.R0176WellKnownOneResourceV2Representation},
				Run: func(t *harness.T) {
					r := readWellKnown(t, "2")
					t.Expect(requirements.R0176WellKnownOneResourceV2Representation, majorTwoDocument(r))
				},
			},
			{
				Name:      "one address for every version",
				Public:    true,
				Witnesses: []requirements.ID{requirements.R0176WellKnownOneResource},
				Run: func(t *harness.T) {
					d := t.Host().Discovery
					if len(d.Versions()) == 0 {
						t.Abort("protocolVersions lists no version to ask for")
					}
					for _, version := range append([]string{harness.NoVersion}, d.Versions()...) {
						t.Expect(requirements.R0176WellKnownOneResource, namesAll(version, readWellKnown(t, version), d))
					}
				},
			},
		},
	}
}

// namesAll checks that a representation names the versions the host lists: one
// fetch answers in the version that was asked for and names the others.
func namesAll(version string, r *harness.Response, d *harness.Discovery) harness.Check {
	asked := "OpenWOP-Version: " + version
	if version == harness.NoVersion {
		asked = "a request without OpenWOP-Version"
	}
	want := slices.Sorted(slices.Values(d.Versions()))
	expected := fmt.Sprintf("200 with protocolVersions %v and preferredVersion %s for %s", want, d.Preferred(), asked)
	got, _ := stringList(r.Get("protocolVersions"))
	ok := r.Is(200).OK && slices.Equal(want, slices.Sorted(slices.Values(got))) && r.Text("preferredVersion") == d.Preferred()
	return harness.That(ok, expected, "%s with protocolVersions %s and preferredVersion %s", answered(r), show(r.Get("protocolVersions")), show(r.Get("preferredVersion"))).At(r)
}

// majorTwoDocument checks that a response is the representation of major 2.
// Stray members that a row of the closed root names are left to that row.
func majorTwoDocument(r *harness.Response) harness.Check {
	const expected = "200 application/json with the discovery document of major 2"
	no := func(observed string, args ...any) harness.Check {
		return harness.That(false, expected, observed, args...).At(r)
	}
	doc, _ := r.JSON().(object)
	if r.Err != nil || r.Status != 200 || doc == nil {
		return no("%s", answered(r))
	}
	if mediaType(r) != "application/json" {
		return no("Content-Type: %q", r.Header.Get("Content-Type"))
	}
	versions, _ := stringList(doc["protocolVersions"])
	if !slices.ContainsFunc(versions, func(v string) bool { return majorOf(v) == "2" }) {
		return no("protocolVersions %s", show(doc["protocolVersions"]))
	}
	if _, ok := doc["preferredVersion"]; !ok {
		return no("no preferredVersion")
	}
	if !representsMajor(doc, "2") {
		return no("supportedEnvelopes is an array, as in version 1")
	}
	for _, key := range retiredKeys() {
		if _, has := doc[key]; has {
			return no("%s, which only version 1 knows", key)
		}
	}
	return harness.That(true, expected, "such a document").At(r)
}
