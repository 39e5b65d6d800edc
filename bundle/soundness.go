package bundle

import (
	"errors"
	"math"
	"strings"

	"wopcert/corpus"
)

// checkSchema holds the decoded bundle against the schema and reports whether it may be read further. The schema states
// the shape alone; what relates members to each other is left to the rules here, so that each is reported by name.
func checkSchema(c *collector, contract *corpus.Corpus, value map[string]any) bool {
	err := contract.ValidateValue("certification-bundle", value)
	if err == nil {
		return true
	}
	var departs *corpus.ValidationError
	if !errors.As(err, &departs) {
		c.reject(KindContract, "the certification-bundle schema cannot be applied: %v", err)
		return false
	}
	for _, v := range departs.Violations {
		c.reject(KindSchema, "%s", v)
	}
	return false
}

// checkRows applies the rules each row has to satisfy by itself, and those over all of them.
func checkRows(c *collector, b *Bundle) {
	seen := make(map[string]bool, len(b.Results.Requirements))
	var totals Totals
	var assertions int64
	overflow := false
	for _, row := range b.Results.Requirements {
		at := Rejection{Requirement: row.ID}
		if seen[row.ID] {
			at.Kind = KindDuplicateRow
			c.add(at, "the id %s has more than one row", row.ID)
		}
		seen[row.ID] = true
		if row.Result == ExecutedPass && row.Assertions == 0 {
			at.Kind = KindVacuousPass
			c.add(at, "%s is executed-pass with no assertion", row.ID)
		}
		if row.Result != ExecutedPass && row.Evidence != nil {
			at.Kind = KindMisplacedEvidence
			c.add(at, "%s is %s and carries evidence, which belongs to an executed-pass row", row.ID, row.Result)
		}
		totals.Add(row.Result)
		if overflow = overflow || row.Assertions > math.MaxInt64-assertions; !overflow {
			assertions += row.Assertions
		}
	}
	if totals != b.Results.Totals {
		c.reject(KindTotals, "results.totals says %s; the rows count %s", b.Results.Totals, totals)
	}
	if overflow || assertions != b.AssertionCount {
		c.reject(KindAssertionCount, "assertionCount says %d; the rows' assertions sum to %d", b.AssertionCount, assertions)
	}
}

// checkDetail holds the derived view of detail against the rows: every row that is not executed-pass has a reason, and
// nothing else is listed.
func checkDetail(c *collector, b *Bundle) {
	nonPass := make(map[string]Disposition)
	details := make(map[string]string)
	for _, row := range b.Results.Requirements {
		if row.Result != ExecutedPass {
			nonPass[row.ID] = row.Result
			details[row.ID] = row.Detail
		}
	}
	if b.Detail == nil {
		if len(nonPass) > 0 {
			c.reject(KindMissingDetail, "%d rows are not executed-pass and the bundle has no detail", len(nonPass))
		}
		return
	}
	reasons := make(map[string]bool)
	differing := 0
	for _, entry := range b.Detail.NonPass {
		at := Rejection{Kind: KindDetailMismatch, Requirement: entry.ID}
		result, listed := nonPass[entry.ID]
		switch {
		case !listed:
			c.add(at, "detail lists %s, which no row that is not executed-pass has", entry.ID)
		case result != entry.Result:
			c.add(at, "detail says %s is %s; its row says %s", entry.ID, entry.Result, result)
		case reasons[entry.ID]:
			c.add(at, "detail lists %s more than once", entry.ID)
		}
		if strings.TrimSpace(entry.Reason) != "" {
			reasons[entry.ID] = true
		}
		if listed && details[entry.ID] != "" && details[entry.ID] != entry.Reason {
			differing++
		}
	}
	for _, row := range b.Results.Requirements {
		if row.Result != ExecutedPass && !reasons[row.ID] {
			c.add(Rejection{Kind: KindMissingReason, Requirement: row.ID}, "%s is %s and detail gives no reason", row.ID, row.Result)
		}
	}
	if differing > 0 {
		c.note("%d reasons in detail are not those of the signed rows; read the rows", differing)
	}
}

// checkDigests recomputes both digests the attestation covers. It reports whether the captured document is the one the
// digest names.
func checkDigests(c *collector, p *parsed) (documentHolds bool) {
	digest, err := witnessDigest(p.rows, p.Host.Relaxations, p.Host.Deployment)
	if err != nil || digest != p.WitnessSHA256 {
		c.reject(KindWitnessDigest, "witnessSha256 is not the digest of the rows, relaxations and deployment in the file: %s",
			orElse(digest, "it cannot be computed"))
	}
	if p.document == nil {
		c.note("the bundle holds no discovery document, so neither its digest nor any profile can be checked")
		return false
	}
	if digest := hexDigest(p.Discovery.Document); digest != p.Discovery.SHA256 {
		c.reject(KindDiscoveryDigest, "discovery.sha256 is not the digest of the captured document: %s", digest)
		return false
	}
	return true
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// checkOptOuts derives the opt-outs and rejects those the captured document advertises.
func checkOptOuts(c *collector, l ledger, rows []Row) {
	targets, unnamed, silent := optOuts(rows)
	c.report.OptOuts = targets
	for _, id := range silent {
		c.add(Rejection{Kind: KindOptOutUnnamed, Requirement: id},
			"%s is skipped and its detail names nothing the operator opted out of, as in %q", id, OptOutDetail("eventLog"))
	}
	if len(unnamed) > 0 {
		c.note("%d skipped rows name nothing the operator opted out of, the first of them %s; they summarise scenarios and cannot be held against the discovery document", len(unnamed), unnamed[0])
	}
	if l.document == nil {
		if len(targets) > 0 {
			c.note("without a captured discovery document nobody can tell whether the host advertises what the operator opted out of")
		}
		return
	}
	for _, target := range targets {
		if l.advertised(target) {
			c.reject(KindOptedOutAdvertised, "the operator opted out of %s and the captured discovery document advertises it", target)
		}
	}
}
