package bundle

import (
	"slices"
	"strings"
)

// OptOutDetail is the detail of a row that the operator opted out of, by family or by dotted facet.
func OptOutDetail(target string) string { return optOutPrefix + target }

const (
	optOutPrefix = "operator opt-out: "
	// The published suite writes "operator declared an honest opt-out via VARIABLE: family.forms" on a requirement
	// row; on the summary row of a scenario it names no target.
	publishedOptOut = "operator declared an honest opt-out via "
)

// optOutTargets reads what the detail of a skipped row says the operator opted out of, without duplicates, in order.
func optOutTargets(detail string) []string {
	rest, ok := strings.CutPrefix(detail, optOutPrefix)
	if !ok {
		if rest, ok = strings.CutPrefix(detail, publishedOptOut); !ok {
			return nil
		}
		if _, rest, ok = strings.Cut(rest, ": "); !ok {
			return nil
		}
	}
	var targets []string
	for part := range strings.SplitSeq(rest, ",") {
		part = strings.TrimSpace(part)
		end := strings.IndexFunc(part, func(r rune) bool {
			return !(r == '.' || r == '-' || r == '_' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z')
		})
		if end >= 0 {
			part = part[:end]
		}
		if part = strings.TrimRight(part, ".-"); part != "" && !slices.Contains(targets, part) {
			targets = append(targets, part)
		}
	}
	return targets
}

// optOuts derives the operator's opt-outs from the skipped rows, sorted, and the ids of skipped rows that name none,
// nor does another skipped row of their scenario.
func optOuts(rows []Row) (targets, unnamed []string) {
	named := map[string]bool{}
	for _, row := range rows {
		if row.Result != Skipped {
			continue
		}
		for _, target := range optOutTargets(row.Detail) {
			named[row.Scenario] = true
			targets = append(targets, target)
		}
	}
	for _, row := range rows {
		if row.Result == Skipped && !named[row.Scenario] {
			unnamed = append(unnamed, row.ID)
		}
	}
	slices.Sort(targets)
	return slices.Compact(targets), unnamed
}
