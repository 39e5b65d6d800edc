package scenarios

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"wopcert/corpus"
	"wopcert/harness"
)

// The rows about the discovery root are disjoint: every kind of stray key has
// one row that judges it, so that one defect is one failure.

// deletedKeys are the root keys version 2 deleted (capabilities.md §4).
func deletedKeys() []string { return []string{"supportedTransports", "grpc", "contractProvenance"} }

// deletedFacets are the record members version 2 deleted, by family
// (capabilities.md §4).
func deletedFacets() map[string]string {
	return map[string]string{"a2a": "supported", "mcp": "supported", "auth": "subjectLinking", "replay": "fork"}
}

// retiredKeys are root keys of version 1 that no other row names
// (versioning.md §2, axis 9).
func retiredKeys() []string { return []string{"minimumSuiteVersion"} }

// versionName is what a root key for a whole protocol version would be called.
var versionName = regexp.MustCompile(`^v[0-9]+$`)

// registeredKey reports whether the contract knows a root key: metadata, a
// family of either anchor, or extensions (capabilities.md §3).
func registeredKey(c *corpus.Corpus, key string) bool {
	_, family := c.Family(key)
	return family || slices.Contains(c.MetadataKeys(), key)
}

// embeddedVersion reports whether a member the contract does not know holds
// the discovery document of some protocol version.
func embeddedVersion(c *corpus.Corpus, key string, value any) bool {
	if registeredKey(c, key) || strings.Contains(key, ".") {
		return false
	}
	m, ok := value.(object)
	if !ok {
		return false
	}
	for _, name := range []string{"protocolVersion", "protocolVersions", "supportedEnvelopes"} {
		if _, has := m[name]; has {
			return true
		}
	}
	return versionName.MatchString(key)
}

// unknownRootKeys checks that the root holds registered keys only.
func unknownRootKeys(c *corpus.Corpus, doc object) harness.Check {
	elsewhere := slices.Concat(deletedKeys(), retiredKeys(), []string{"capabilities", "profiles"})
	return none("unregistered root key", keysWhere(doc, func(key string, value any) bool {
		return !registeredKey(c, key) && !strings.Contains(key, ".") &&
			!slices.Contains(elsewhere, key) && !embeddedVersion(c, key, value)
	}))
}

// dottedRootKeys checks that no root key has a dot.
func dottedRootKeys(doc object) harness.Check {
	return none("root key with a dot", keysWhere(doc, func(key string, _ any) bool { return strings.Contains(key, ".") }))
}

// wrappedRoot checks that the root wraps and embeds nothing.
func wrappedRoot(c *corpus.Corpus, doc object) harness.Check {
	return none("capabilities member and no document of another version inside", keysWhere(doc, func(key string, value any) bool {
		return key == "capabilities" || embeddedVersion(c, key, value)
	}))
}

// profilesAtRoot checks that the root claims no profile.
func profilesAtRoot(doc object) harness.Check {
	return none("profiles member", keysWhere(doc, func(key string, _ any) bool { return key == "profiles" }))
}

// deletedAdvertisements checks that nothing version 2 deleted is advertised.
func deletedAdvertisements(doc object) harness.Check {
	found := keysWhere(doc, func(key string, _ any) bool { return slices.Contains(deletedKeys(), key) })
	facets := deletedFacets()
	for _, family := range slices.Sorted(maps.Keys(facets)) {
		if record, ok := doc[family].(object); ok {
			if _, has := record[facets[family]]; has {
				found = append(found, family+"."+facets[family])
			}
		}
	}
	return none("deleted advertisement", found)
}

func keysWhere(doc object, is func(string, any) bool) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		if is(key, doc[key]) {
			keys = append(keys, key)
		}
	}
	return keys
}

// none checks that a list of things that should not be there is empty.
func none(what string, found []string) harness.Check {
	const shown = 8
	observed := "none"
	if len(found) > 0 {
		observed = strings.Join(found[:min(len(found), shown)], ", ")
		if len(found) > shown {
			observed += fmt.Sprintf(" and %d more", len(found)-shown)
		}
	}
	return harness.That(len(found) == 0, "no "+what, "%s", observed)
}

// rootMembers checks each registered member of the root against the
// capabilities schema, and that the two required ones are there. What other
// rows judge is made good first: version grammar, the four members of the
// record every family shares, and deleted members.
func rootMembers(c *corpus.Corpus, doc object) harness.Check {
	var faults []string
	for _, key := range []string{"protocolVersions", "preferredVersion"} {
		if _, ok := doc[key]; !ok {
			faults = append(faults, key+" is missing")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		if why := rootMember(c, key, doc[key]); why != "" {
			faults = append(faults, key+": "+why)
		}
	}
	observed := "such members"
	if len(faults) > 0 {
		observed = cut(strings.Join(faults, "; "))
	}
	return harness.That(len(faults) == 0, "protocolVersions, preferredVersion and members of the registered shapes", "%s", observed)
}

// rootMember says what is wrong with one member, "" when nothing is or when
// another row judges it.
func rootMember(c *corpus.Corpus, key string, value any) string {
	family, isFamily := c.Family(key)
	switch {
	case key == "protocolVersions":
		return versionListShape(value)
	case key == "preferredVersion", key == "minClientVersion":
		if _, ok := value.(string); !ok {
			return "not a string"
		}
		return ""
	case isFamily:
		record, ok := value.(object)
		if !ok {
			return "" // the record-shape row's
		}
		return familyShape(c, family, record)
	case slices.Contains(c.MetadataKeys(), key):
		return violation(c.ValidateValue("capabilities", rootWith(key, value)))
	}
	return ""
}

func versionListShape(value any) string {
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		return "not an array with a member"
	}
	seen := map[string]bool{}
	for _, e := range list {
		s, ok := e.(string)
		if !ok {
			return "a member is not a string"
		}
		if seen[s] {
			return fmt.Sprintf("%q is listed twice", s)
		}
		seen[s] = true
	}
	return ""
}

// familyShape judges the facets of a record.
func familyShape(c *corpus.Corpus, family corpus.Family, record object) string {
	if _, has := record[deletedFacets()[family.Key]]; has {
		return "" // a record of version 1, which the row of the deleted keys judges
	}
	sound := maps.Clone(record)
	if !slices.Contains(recordStatuses(), text(sound, "status")) {
		sound["status"] = "stable"
	}
	if !isVersion(text(sound, "since")) {
		sound["since"] = "2.0"
	}
	if !slices.Contains(witnessClasses(), text(sound, "witness")) {
		sound["witness"] = "claims-check"
	}
	if sound["status"] == "stable" {
		delete(sound, "until")
	} else {
		sound["until"] = "9.0"
	}
	if family.Anchor == "ext" {
		// The root's schema names core families only; what an extension family
		// adds to the record is its own document's.
		return violation(c.ValidateValue("capability-record", sound))
	}
	return violation(c.ValidateValue("capabilities", rootWith(family.Key, sound)))
}

// rootWith is a sound root with one member more.
func rootWith(key string, value any) object {
	return object{"protocolVersions": []any{"2.0"}, "preferredVersion": "2.0", key: value}
}

func violation(err error) string {
	if err == nil {
		return ""
	}
	var invalid *corpus.ValidationError
	if errors.As(err, &invalid) && len(invalid.Violations) > 0 {
		v := invalid.Violations[0]
		return strings.TrimSpace(v.Pointer + " " + v.Message)
	}
	return err.Error()
}

// cut keeps a report line readable.
func cut(s string) string {
	const limit = 400
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}

// text is a string member of an object, "" when it is absent or something else.
func text(m object, name string) string {
	s, _ := m[name].(string)
	return s
}
