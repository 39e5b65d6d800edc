package scenarios

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"wopcert/corpus"
	"wopcert/harness"
	"wopcert/requirements"
)

// profilesDerivedOnly: capabilities.md §7, "Profiles".
func profilesDerivedOnly() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-profiles-derived-only",
		Title:    "Profiles are decided from the discovery document and claimed nowhere in it",
		Document: "capabilities.md",
		Section:  "7. Profiles",
		Tests: []harness.Test{{
			Name:   "what profiles read in the captured document",
			Public: true,
			Witnesses: []requirements.ID{
				requirements.R0169ProfilesDerivedOnlyDerivable,
				requirements.R0169ProfilesDerivedOnlyNoRootProfiles,
			},
			Run: func(t *harness.T) {
				doc := t.Host().Discovery.Document
				t.Expect(requirements.R0169ProfilesDerivedOnlyDerivable, derivable(t.Corpus(), doc))
				t.Expect(requirements.R0169ProfilesDerivedOnlyNoRootProfiles, claimedProfiles(doc))
			},
		}},
	}
}

// derivable checks that what the predicates of the profiles read has the form
// they read it in, or is absent. A host that lacks a family lacks a profile,
// which is no fault; which members a record needs is the row of the records.
func derivable(c *corpus.Corpus, doc object) harness.Check {
	var faults []string
	for _, p := range c.Profiles() {
		for _, name := range slices.Concat(p.Families, p.Metadata) {
			value, has := doc[name]
			form, ok := "an object", false
			switch name {
			case "protocolVersions":
				form = "an array"
				_, ok = value.([]any)
			case "preferredVersion":
				form = "a string"
				_, ok = value.(string)
			default:
				_, ok = value.(object)
			}
			if fault := fmt.Sprintf("%s that is not %s", name, form); has && !ok && !slices.Contains(faults, fault) {
				faults = append(faults, fault)
			}
		}
	}
	slices.Sort(faults)
	return none("member that a profile reads in another form", faults)
}

// claimedProfiles checks that no profile is claimed at the root or in one of
// the records that listed some in version 1.
func claimedProfiles(doc object) harness.Check {
	found := keysWhere(doc, func(key string, _ any) bool { return key == "profiles" })
	for _, family := range []string{"a2a", "auth", "mcp"} {
		if record, ok := doc[family].(object); ok {
			if _, has := record["profiles"]; has {
				found = append(found, family+".profiles")
			}
		}
	}
	return none("claim of profiles", found)
}

// extensionKey is <org>.<name>, both in lower-case kebab (capabilities.md §3.2).
var extensionKey = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*\.[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// extensionKeys: capabilities.md §3.2, "extensions.<org>.<name>".
func extensionKeys() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-extension-keys",
		Title:    "Extension records are named after an organisation that may have some",
		Document: "capabilities.md",
		Section:  "3.2 extensions.<org>.<name>",
		Gates: []harness.Gate{harness.HostFact("the host's discovery document has no extension records",
			func(d *harness.Discovery) bool {
				records, _ := d.Document["extensions"].(object)
				return len(records) > 0
			})},
		Tests: []harness.Test{{
			Name:      "the names of the captured extension records",
			Public:    true,
			Witnesses: []requirements.ID{requirements.CapabilitiesExtensionOrgs},
			Run: func(t *harness.T) {
				records, _ := t.Host().Discovery.Document["extensions"].(object)
				reserved := t.Corpus().ReservedOrgs()
				t.Expect(requirements.CapabilitiesExtensionOrgs, none("extension outside <org>.<name> or of a reserved organisation",
					keysWhere(records, func(key string, _ any) bool {
						org, _, _ := strings.Cut(key, ".")
						return !extensionKey.MatchString(key) || slices.Contains(reserved, org)
					})))
			},
		}},
	}
}

// preferredVersionTwin: versioning.md §1.1, "Advertisement".
func preferredVersionTwin() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-preferred-version-twin",
		Title:    "On a host of one major, protocolVersion repeats preferredVersion",
		Document: "versioning.md",
		Section:  "1.1 Advertisement",
		Gates: []harness.Gate{
			harness.HostFact("the host lists versions of several majors", func(d *harness.Discovery) bool { return oneMajor(d) }),
			memberFact("the host's discovery document has no protocolVersion", "protocolVersion"),
		},
		Tests: []harness.Test{{
			Name:      "the two members of the captured document",
			Public:    true,
			Witnesses: []requirements.ID{requirements.VersioningSingleMajorTwin},
			Run: func(t *harness.T) {
				d := t.Host().Discovery
				t.Expect(requirements.VersioningSingleMajorTwin,
					harness.Equal("protocolVersion", any(d.Preferred()), d.Document["protocolVersion"]))
			},
		}},
	}
}

// oneMajor reports whether every version of the list is of the same major.
func oneMajor(d *harness.Discovery) bool {
	versions := d.Versions()
	return len(versions) > 0 && !slices.ContainsFunc(versions, func(v string) bool { return majorOf(v) != majorOf(versions[0]) })
}

// listsBoth reports whether the host is in the overlap of majors 1 and 2.
func listsBoth(d *harness.Discovery) bool {
	return listedVersion(d, "1") != "" && listedVersion(d, "2") != ""
}
