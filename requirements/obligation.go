package requirements

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Obligation is one sentence of the specification that says MUST, SHOULD or
// the like, and what becomes of it here: the requirements that witness it, or
// the reason why none does. With neither it is a gap.
type Obligation struct {
	// ID is the document's name, the heading's anchor and a number, for
	// instance runs#cancel.2.
	ID           string
	Document     string
	Section      string
	Level        string
	Requirements []ID
	Reason       *Reason
}

// Reason says why an obligation has no requirement.
type Reason struct {
	// Kind is one of suite (binds the suite, a bundle or a verifier; the text
	// says where it is enforced), consumer (binds a client, a consumer or a
	// pack), permission (grants a freedom), corpus (binds the specification's
	// own repository), unwatchable (binds a host where nothing can be observed;
	// the text says why) and definition (no obligation by itself).
	Kind string
	Text string
}

// Beyond names a requirement that no obligation of the map refers to, and why.
type Beyond struct {
	Requirement ID
	Why         string
}

// Obligations returns the map, in the order of the documents' obligations.
func Obligations() []Obligation {
	out := slices.Clone(must().obligations)
	for i, o := range out {
		out[i].Requirements = slices.Clone(o.Requirements)
		if o.Reason != nil {
			reason := *o.Reason
			out[i].Reason = &reason
		}
	}
	return out
}

// BeyondObligations returns the requirements that no obligation refers to.
func BeyondObligations() []Beyond { return slices.Clone(must().beyond) }

var obligationPattern = regexp.MustCompile(`^[a-z0-9-]+#[a-z0-9-]+\.[1-9][0-9]*$`)

func reasonKinds() []string {
	return []string{"suite", "consumer", "permission", "corpus", "unwatchable", "definition"}
}

// obligationColumns head obligations.tsv. A row has requirements (ids without
// the prefix, separated by spaces), or kind and reason, or none of the three.
const obligationColumns = "id\tdocument\tsection\tlevel\trequirements\tkind\treason"

// parseObligations reads obligations.tsv and checks each row for itself.
func parseObligations(data []byte) ([]Obligation, error) {
	rows, err := tsvRows("obligations.tsv", obligationColumns, data)
	if err != nil {
		return nil, err
	}
	var out []Obligation
	var errs []error
	seen := map[string]bool{}
	for i, c := range rows {
		o := Obligation{ID: c[0], Document: c[1], Section: c[2], Level: c[3]}
		for _, short := range strings.Fields(c[4]) {
			o.Requirements = append(o.Requirements, ID(Prefix+short))
		}
		if c[5] != "" || c[6] != "" {
			o.Reason = &Reason{Kind: c[5], Text: c[6]}
		}
		for _, defect := range o.defects(seen) {
			errs = append(errs, fmt.Errorf("obligations.tsv row %d (%s): %s", i+1, o.ID, defect))
		}
		seen[o.ID] = true
		out = append(out, o)
	}
	return out, errors.Join(errs...)
}

// defects lists what is wrong with a row, given the ids of the rows before it.
func (o Obligation) defects(seen map[string]bool) []string {
	var out []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	check(obligationPattern.MatchString(o.ID), "the id does not match %s", obligationPattern)
	check(!seen[o.ID], "the id is in an earlier row too")
	check(slices.Contains(documents(), o.Document), "the document %q is not a known one", o.Document)
	check(strings.HasPrefix(o.ID, strings.TrimSuffix(o.Document, ".md")+"#"), "the id does not start with the document's name")
	check(o.Section != "", "the section is empty")
	check(slices.Contains(levels(), o.Level), "the level %q is none of %s", o.Level, strings.Join(levels(), ", "))
	check(o.Reason == nil || len(o.Requirements) == 0, "requirements and a reason exclude each other")
	for i, id := range o.Requirements {
		check(!slices.Contains(o.Requirements[:i], id), "%s is listed twice", id)
	}
	if o.Reason != nil {
		check(slices.Contains(reasonKinds(), o.Reason.Kind), "the kind of reason %q is none of %s", o.Reason.Kind, strings.Join(reasonKinds(), ", "))
		check(len(o.Reason.Text) > 1 && strings.HasSuffix(o.Reason.Text, "."), "the reason is empty or does not end with a full stop")
		check(o.Reason.Kind != "permission" || o.Level == "MAY", "a %s is no permission", o.Level)
	}
	return out
}

// parseBeyond reads beyond.tsv.
func parseBeyond(data []byte) ([]Beyond, error) {
	rows, err := tsvRows("beyond.tsv", "requirement\twhy", data)
	if err != nil {
		return nil, err
	}
	var out []Beyond
	var errs []error
	for i, c := range rows {
		b := Beyond{Requirement: ID(Prefix + c[0]), Why: c[1]}
		if len(b.Why) < 2 || !strings.HasSuffix(b.Why, ".") {
			errs = append(errs, fmt.Errorf("beyond.tsv row %d (%s): why is empty or does not end with a full stop", i+1, b.Requirement))
		}
		out = append(out, b)
	}
	return out, errors.Join(errs...)
}

// checkObligations holds the map and the registry to each other: every id it
// names is in the registry, and every requirement is either referred to by an
// obligation or says in beyond.tsv, once, why it is not.
func checkObligations(t *tables) error {
	var errs []error
	referred := map[ID]bool{}
	for _, o := range t.obligations {
		for _, id := range o.Requirements {
			if _, ok := t.byID[id]; !ok {
				errs = append(errs, fmt.Errorf("obligations.tsv: %s refers to %s, which registry.json does not hold", o.ID, id))
			}
			referred[id] = true
		}
	}
	beyond := map[ID]bool{}
	for _, b := range t.beyond {
		if _, ok := t.byID[b.Requirement]; !ok {
			errs = append(errs, fmt.Errorf("beyond.tsv: registry.json does not hold %s", b.Requirement))
		}
		if beyond[b.Requirement] {
			errs = append(errs, fmt.Errorf("beyond.tsv: %s is there twice", b.Requirement))
		}
		if referred[b.Requirement] {
			errs = append(errs, fmt.Errorf("beyond.tsv: an obligation refers to %s; remove its row", b.Requirement))
		}
		beyond[b.Requirement] = true
	}
	for _, r := range t.requirements {
		if !referred[r.ID] && !beyond[r.ID] {
			errs = append(errs, fmt.Errorf("no obligation refers to %s; map it in obligations.tsv, or say in beyond.tsv why none does", r.ID))
		}
	}
	return errors.Join(errs...)
}

// tsvRows splits a tab-separated table under a fixed heading.
func tsvRows(name, heading string, data []byte) ([][]string, error) {
	text, ended := strings.CutSuffix(string(data), "\n")
	if !ended {
		return nil, fmt.Errorf("%s is empty or its last line is not ended", name)
	}
	lines := strings.Split(text, "\n")
	if lines[0] != heading {
		return nil, fmt.Errorf("%s: the first line is %q, not the heading %q", name, lines[0], heading)
	}
	columns := strings.Count(heading, "\t") + 1
	rows := make([][]string, 0, len(lines)-1)
	for i, l := range lines[1:] {
		cells := strings.Split(l, "\t")
		if len(cells) != columns {
			return nil, fmt.Errorf("%s row %d: %d columns, not %d", name, i+1, len(cells), columns)
		}
		for _, c := range cells {
			if c != strings.TrimSpace(c) {
				return nil, fmt.Errorf("%s row %d: the cell %q is padded", name, i+1, c)
			}
		}
		rows = append(rows, cells)
	}
	return rows, nil
}
