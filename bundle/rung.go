package bundle

import (
	"fmt"
	"math"
)

// recoveryRow is the id of a row of the recovery rung.
func recoveryRow(slug string) string { return "openwop.requirement.0158." + slug }

// DurabilityReport is the rung claim and what the signed rows say of it.
type DurabilityReport struct {
	Claimed string   `json:"claimed"`
	Derived bool     `json:"derived"`
	Reasons []string `json:"reasons"`
}

// DeriveRung says whether rows support the rung durable-single-instance, and what speaks against it; nothing does when
// it is derived. A bundle that claims a rung its rows do not support is rejected (conformance.md §Recovery evidence).
func DeriveRung(rows []Row) (derived bool, reasons []string) {
	byID := make(map[string]Row, len(rows))
	for _, row := range rows {
		byID[row.ID] = row
	}
	r := deriveRung(RungSingleInstance, byID)
	return r.Derived, r.Reasons
}

// deriveRung holds a rung claim against the rows (conformance.md §Recovery evidence). The rows of
// durable-single-instance are five: bound-is-derived, kill-after-accept, kill-during-execution, duplicate-delivery and
// poison-exhaustion (RFC 0158). Each has to be executed-pass; each bound has to be the sum of its terms, one entry a
// class; each kill row has to name a declared class, carry its bound and have resumed within it.
func deriveRung(claimed string, rows map[string]Row) DurabilityReport {
	r := DurabilityReport{Claimed: claimed, Reasons: []string{}}
	deny := func(format string, args ...any) { r.Reasons = append(r.Reasons, fmt.Sprintf(format, args...)) }
	if claimed != RungSingleInstance {
		deny("only %s can be derived from a bundle; a higher rung is refused, not assumed", RungSingleInstance)
	}
	for _, slug := range []string{"bound-is-derived", "kill-after-accept", "kill-during-execution", "duplicate-delivery", "poison-exhaustion"} {
		row, ok := rows[recoveryRow(slug)]
		switch {
		case !ok:
			deny("row %s is missing", recoveryRow(slug))
		case row.Result != ExecutedPass:
			deny("row %s is %s", row.ID, row.Result)
		}
	}
	bounds := map[string]int64{}
	if evidence := rows[recoveryRow("bound-is-derived")].Evidence; evidence == nil || len(evidence.RecoveryBounds) == 0 {
		deny("row %s carries no evidence.recoveryBounds", recoveryRow("bound-is-derived"))
	} else {
		for _, reason := range readBounds(evidence.RecoveryBounds, bounds) {
			deny("%s", reason)
		}
	}
	for _, slug := range []string{"kill-after-accept", "kill-during-execution"} {
		if reason := judgeKill(rows[recoveryRow(slug)], bounds); reason != "" {
			deny("row %s %s", recoveryRow(slug), reason)
		}
	}
	r.Derived = len(r.Reasons) == 0
	return r
}

// readBounds fills bounds by class and says what is wrong with the entries.
func readBounds(entries []RecoveryBound, bounds map[string]int64) []string {
	var reasons []string
	for _, entry := range entries {
		if _, twice := bounds[entry.Class]; twice {
			reasons = append(reasons, fmt.Sprintf("recovery class %q is declared twice", entry.Class))
		}
		bounds[entry.Class] = entry.Bound
		if sum, ok := sumTerms(entry.Terms); !ok || sum != entry.Bound {
			reasons = append(reasons, fmt.Sprintf("the bound of recovery class %q, %d ms, is not the sum of its terms", entry.Class, entry.Bound))
		}
	}
	return reasons
}

func sumTerms(terms []BoundTerm) (int64, bool) {
	var sum int64
	for _, term := range terms {
		if term.MS < 0 || sum > math.MaxInt64-term.MS {
			return 0, false
		}
		sum += term.MS
	}
	return sum, len(terms) > 0
}

func judgeKill(row Row, bounds map[string]int64) string {
	if row.Evidence == nil || row.Evidence.Recovery == nil {
		return "carries no evidence.recovery"
	}
	recovery := row.Evidence.Recovery
	bound, declared := bounds[recovery.Class]
	switch {
	case !declared:
		return fmt.Sprintf("names recovery class %q, which no bound declares", recovery.Class)
	case bound != recovery.BoundMS:
		return fmt.Sprintf("was judged against %d ms while its class declares %d ms", recovery.BoundMS, bound)
	case recovery.ObservedMS < 0 || recovery.ObservedMS > bound:
		return fmt.Sprintf("resumed after %d ms, beyond its bound of %d ms", recovery.ObservedMS, bound)
	}
	return ""
}
