package bundle

import (
	"regexp"
	"slices"
	"strings"
)

// OptOutDetail is the detail of a row that the operator opted out of, by family or by dotted facet.
func OptOutDetail(target string) string { return "operator opt-out: " + target }

// optOutPattern finds what introduces the targets. This suite writes "operator opt-out: forms", the published one
// "operator declared an honest opt-out via VARIABLE: family.forms"; on the summary row of a scenario that one names no
// target. Other spellings of the same words count too: one that slipped must not hide an opt-out. A match that begins
// with a negation says the opposite.
const optOutPattern = `(?i)(\b(?:no|not|never|without)\s+(?:[a-z]+\s+){0,3})?\bopt(?:ed|s)?[\s_-]*outs?\b(?:\s+(?:via|by|with|through|in)\b[^:]*)?(?:\s*[:=：–—]|\s+-+\s|\s+of\b)`

var optOutExpr = regexp.MustCompile(optOutPattern)

// optOutTargets reads what the detail of a skipped row says the operator opted out of, without duplicates, in order.
func optOutTargets(detail string) []string {
	var targets []string
	matches := optOutExpr.FindAllStringSubmatchIndex(detail, -1)
	for i, match := range matches {
		if match[2] >= 0 {
			continue
		}
		end := len(detail)
		if i+1 < len(matches) {
			end = matches[i+1][0]
		}
		for _, target := range listedTargets(detail[match[1]:end]) {
			if !slices.Contains(targets, target) {
				targets = append(targets, target)
			}
		}
	}
	return targets
}

// listedTargets reads a list parted by commas, each entry by its first name. After a semicolon or "and" a name has to
// stand alone, because prose follows there as well.
func listedTargets(list string) []string {
	var targets []string
	for part := range strings.SplitSeq(list, ",") {
		entries := strings.FieldsFunc(strings.ReplaceAll(part, " and ", ";"), func(r rune) bool { return r == ';' || r == '|' })
		for i, entry := range entries {
			target, rest := firstName(entry)
			if target != "" && (i == 0 || rest == "") {
				targets = append(targets, target)
			}
		}
	}
	return targets
}

// firstName is the first name of a text that is more than a word around names, and what follows it.
func firstName(text string) (name, rest string) {
	for {
		text = strings.TrimLeft(text, " \t\r\n\"'`*[")
		end := strings.IndexFunc(text, func(r rune) bool {
			return !(r == '.' || r == '-' || r == '_' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z')
		})
		if end < 0 {
			end = len(text)
		}
		name, rest = strings.Trim(text[:end], ".-_"), strings.Trim(text[end:], " \t\r\n\"'`*].")
		switch strings.ToLower(name) {
		case "the", "a", "an", "family", "families", "facet", "profile", "capability", "of", "operator":
			text = text[end:]
		default:
			return name, rest
		}
	}
}

// bareTarget is a target without the word for what it is.
func bareTarget(target string) string {
	for _, prefix := range []string{"openwop.", "family.", "profile."} {
		if len(target) > len(prefix) && strings.EqualFold(target[:len(prefix)], prefix) {
			target = target[len(prefix):]
		}
	}
	return target
}

// optOuts derives the operator's opt-outs from the skipped rows, sorted. Of the skipped rows that name none, silent are
// the ids of requirements and tests, which have to, and unnamed those of the others that no skipped row of their
// scenario makes up for.
func optOuts(rows []Row) (targets, unnamed, silent []string) {
	named := map[string]bool{}
	var without []Row
	for _, row := range rows {
		if row.Result != Skipped {
			continue
		}
		found := optOutTargets(row.Detail)
		targets = append(targets, found...)
		if len(found) > 0 {
			named[row.Scenario] = true
		} else {
			without = append(without, row)
		}
	}
	for _, row := range without {
		switch {
		case strings.HasPrefix(row.ID, "openwop.requirement."), strings.HasPrefix(row.ID, "openwop.it."):
			silent = append(silent, row.ID)
		case !named[row.Scenario]:
			unnamed = append(unnamed, row.ID)
		}
	}
	slices.Sort(targets)
	return slices.Compact(targets), unnamed, silent
}
