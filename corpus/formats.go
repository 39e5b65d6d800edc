package corpus

import (
	"net/url"
	"regexp"
	"strings"
	"time"
)

var (
	dateTimeShape = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$`)
	schemeShape   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)
	uriCharacters = regexp.MustCompile(`^([A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*$`)
)

// strictFormats are the only formats a schema of the contract may use.
func strictFormats(coherence []string) map[string]func(any) bool {
	return map[string]func(any) bool{
		"openwop-row-id": onStrings(rowIDFormat(coherence)),
		"date-time":      onStrings(isDateTime),
		"uri":            onStrings(isURI),
		"uri-reference":  onStrings(isURIReference),
		"date":           onStrings(isDate),
	}
}

// onStrings gives a format its rule that it says nothing about other types.
func onStrings(check func(string) bool) func(any) bool {
	return func(value any) bool {
		s, ok := value.(string)
		return !ok || check(s)
	}
}

// isDateTime reads RFC 3339 §5.6 with the calendar checked. A leap second is
// accepted where RFC 3339 puts one: at 23:59:60 UTC.
func isDateTime(s string) bool {
	if !dateTimeShape.MatchString(s) {
		return false
	}
	s = strings.ToUpper(s)
	leap := s[17:19] == "60"
	if leap {
		s = s[:17] + "59" + s[19:]
	}
	if !strings.HasSuffix(s, "Z") {
		offset := s[len(s)-5:]
		if offset[:2] > "23" || offset[3:] > "59" {
			return false
		}
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return false
	}
	t = t.UTC()
	return !leap || (t.Hour() == 23 && t.Minute() == 59)
}

// isURI accepts an absolute URI of RFC 3986: a scheme, then something.
func isURI(s string) bool {
	return schemeShape.MatchString(s) && isURIReference(s)
}

func isURIReference(s string) bool {
	if !uriCharacters.MatchString(s) {
		return false
	}
	_, err := url.Parse(s)
	return err == nil
}

// isDate reads an RFC 3339 full-date with the calendar checked.
func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

// rowIDFormat refuses the row ids of corpus-coherence scenarios, which run where the
// contract is kept and never against a host (conformance.md §Two products, two
// ledgers). It is a format and not a "not pattern": the validator renders the
// pattern for every row that does not match it, which is every good one.
func rowIDFormat(coherence []string) func(string) bool {
	forbidden := make(map[string]bool, len(coherence))
	for _, scenario := range coherence {
		forbidden[scenario] = true
	}
	return func(id string) bool {
		rest, isTestRow := strings.CutPrefix(id, "openwop.it.")
		if !isTestRow {
			return true
		}
		scenario, _, hasTest := strings.Cut(rest, ".")
		return !hasTest || !forbidden[scenario]
	}
}
