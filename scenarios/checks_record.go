package scenarios

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"wopcert/corpus"
	"wopcert/harness"
)

// recordStatuses are the values of a capability record's status
// (capabilities.md §2).
func recordStatuses() []string { return []string{"stable", "experimental", "deprecated"} }

// witnessClasses are those a record may carry on the wire (capabilities.md §2).
func witnessClasses() []string {
	return []string{"witnessable-unaided", "witnessable-gated", "seam-gated", "claims-check", "negative-existence"}
}

var datePattern = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`)

// advertisedFamilies are the families with a member at the root, of whatever
// kind the member is.
func advertisedFamilies(c *corpus.Corpus, doc object) []string {
	return keysWhere(doc, func(key string, _ any) bool { _, ok := c.Family(key); return ok })
}

// recordFields checks status, since and witness of every family.
func recordFields(c *corpus.Corpus, doc object) harness.Check {
	var faults []string
	for _, family := range advertisedFamilies(c, doc) {
		record, ok := doc[family].(object)
		switch {
		case !ok:
			faults = append(faults, family+" is not an object")
		case !slices.Contains(recordStatuses(), text(record, "status")):
			faults = append(faults, fmt.Sprintf("%s.status is %s", family, show(record["status"])))
		case !isVersion(text(record, "since")):
			faults = append(faults, fmt.Sprintf("%s.since is %s", family, show(record["since"])))
		case !slices.Contains(witnessClasses(), text(record, "witness")):
			faults = append(faults, fmt.Sprintf("%s.witness is %s", family, show(record["witness"])))
		}
	}
	return none("record without a legal status, since and witness", faults)
}

// recordsWithStatus are the records whose status says whether they end; a
// record without a legal status is judged by recordFields alone.
func recordsWithStatus(c *corpus.Corpus, doc object) map[string]object {
	records := map[string]object{}
	for _, family := range advertisedFamilies(c, doc) {
		if record, ok := doc[family].(object); ok && slices.Contains(recordStatuses(), text(record, "status")) {
			records[family] = record
		}
	}
	return records
}

// untilByStatus checks that a record has an until exactly when it is not stable.
func untilByStatus(records map[string]object) harness.Check {
	var faults []string
	for _, family := range slices.Sorted(maps.Keys(records)) {
		record := records[family]
		until, present := record["until"]
		switch {
		case record["status"] == "stable" && present:
			faults = append(faults, family+" is stable and has an until")
		case record["status"] != "stable" && !present:
			faults = append(faults, fmt.Sprintf("%s is %v and has no until", family, record["status"]))
		case record["status"] != "stable" && !isUntil(until):
			faults = append(faults, fmt.Sprintf("%s.until is %s, neither a version nor a date", family, show(until)))
		}
	}
	return none("record whose until contradicts its status", faults)
}

func isUntil(v any) bool {
	s, _ := v.(string)
	return isVersion(s) || datePattern.MatchString(s)
}

// untils are the well-formed ends of the records, by family.
func untils(c *corpus.Corpus, doc object) map[string]string {
	ends := map[string]string{}
	for _, family := range advertisedFamilies(c, doc) {
		if record, ok := doc[family].(object); ok && isUntil(record["until"]) {
			ends[family] = text(record, "until")
		}
	}
	return ends
}

// untilAhead checks that no end lies behind. A day has passed when it has
// passed everywhere, twelve hours after it did at UTC; a version when every
// version the host lists is above it.
func untilAhead(ends map[string]string, versions []string, now time.Time) harness.Check {
	today := now.UTC().Add(-12 * time.Hour).Format(time.DateOnly)
	var faults []string
	for _, family := range slices.Sorted(maps.Keys(ends)) {
		until := ends[family]
		past := until < today
		if isVersion(until) {
			past = len(versions) > 0 && !slices.ContainsFunc(versions, func(v string) bool {
				return !isVersion(v) || compareVersions(v, until) <= 0
			})
		}
		if past {
			faults = append(faults, fmt.Sprintf("%s.until is %s", family, until))
		}
	}
	return none("until in the past", faults)
}

// show renders a JSON value for a report line.
func show(v any) string {
	switch x := v.(type) {
	case nil:
		return "absent"
	case string:
		return fmt.Sprintf("%q", cut(x))
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return cut(fmt.Sprint(v))
	}
	return cut(strings.TrimSuffix(b.String(), "\n"))
}
