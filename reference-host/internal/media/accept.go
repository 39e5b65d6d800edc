// Package media chooses between the representations of a resource (RFC 9110 §12.5.1).
package media

import (
	"strings"
)

// Prefer returns the offer that the Accept fields rank highest. A tie goes to the earlier offer, and so does a request
// that accepts none of them or says nothing: the server may then answer as it likes. Offers are media types without
// parameters, in lower case.
func Prefer(fields []string, offers ...string) string {
	ranges := parseAccept(strings.Join(fields, ","))
	best, weight := offers[0], -1
	for _, offer := range offers {
		if w := weigh(ranges, offer); w > weight {
			best, weight = offer, w
		}
	}
	return best
}

// mediaRange is one element of Accept. A weight is in thousandths.
type mediaRange struct {
	media      string
	parameters bool
	weight     int
}

// parseAccept skips what is not a media range with a valid weight.
func parseAccept(text string) (ranges []mediaRange) {
	for _, element := range split(text, ',') {
		parts := split(element, ';')
		r := mediaRange{media: strings.ToLower(strings.TrimSpace(parts[0])), weight: 1000}
		kind, subtype, ok := strings.Cut(r.media, "/")
		if !ok || kind == "" || subtype == "" || kind == "*" && subtype != "*" {
			continue
		}
		for _, parameter := range parts[1:] {
			name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
			switch {
			case name == "":
			case strings.EqualFold(strings.TrimSpace(name), "q"):
				r.weight, ok = parseWeight(strings.TrimSpace(value))
			default:
				r.parameters = true
			}
		}
		if ok {
			ranges = append(ranges, r)
		}
	}
	return ranges
}

// weigh is the weight of the most specific range that matches the offer, -1 when none does. A range with parameters
// matches only representations that have them, and the offers have none.
func weigh(ranges []mediaRange, offer string) int {
	kind, _, _ := strings.Cut(offer, "/")
	weight, precision := -1, 0
	for _, r := range ranges {
		matched := 0
		switch {
		case r.parameters:
		case r.media == offer:
			matched = 3
		case r.media == kind+"/*":
			matched = 2
		case r.media == "*/*":
			matched = 1
		}
		if matched > precision {
			weight, precision = r.weight, matched
		}
	}
	if weight == 0 {
		return -1 // not acceptable
	}
	return weight
}

// parseWeight reads a qvalue: 0 or 1 with at most three decimals.
func parseWeight(text string) (int, bool) {
	whole, decimals, _ := strings.Cut(text, ".")
	if whole != "0" && whole != "1" || len(decimals) > 3 || strings.Trim(decimals, "0123456789") != "" {
		return 0, false
	}
	weight := int(whole[0] - '0')
	for i := range 3 {
		weight *= 10
		if i < len(decimals) {
			weight += int(decimals[i] - '0')
		}
	}
	return weight, weight <= 1000
}

// split cuts at the separators that stand outside quoted text.
func split(text string, separator byte) []string {
	var parts []string
	quoted, start := false, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == separator && !quoted:
			parts = append(parts, text[start:i])
			start = i + 1
		}
	}
	return append(parts, text[start:])
}
