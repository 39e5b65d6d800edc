// Package coverage counts the chain from obligation over requirement and check
// to fault, and lists every place where it is broken.
package coverage

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"wopcert/harness"
	"wopcert/requirements"
)

// Report is the state of the chain.
type Report struct {
	Documents    []Document   `json:"documents"`
	Requirements Requirements `json:"requirements"`
	Upstream     Upstream     `json:"upstream"`
	Gaps         []Gap        `json:"gaps"`
}

// Document counts one document's obligations. Mapped ones have a requirement,
// witnessed ones only requirements that a test declares, faulted ones only
// requirements that a fault breaks; reasoned ones have a written reason
// instead.
type Document struct {
	Document    string `json:"document"`
	Obligations int    `json:"obligations"`
	Mapped      int    `json:"mapped"`
	Witnessed   int    `json:"witnessed"`
	Faulted     int    `json:"faulted"`
	Reasoned    int    `json:"reasoned"`
}

// Requirements counts the registry.
type Requirements struct {
	Total     int `json:"total"`
	Witnessed int `json:"witnessed"`
	Faulted   int `json:"faulted"`
}

// Upstream counts the published suite's requirement ids and those shared.
type Upstream struct {
	Known  int `json:"known"`
	Shared int `json:"shared"`
}

// Gap is one broken link.
type Gap struct {
	Kind     string `json:"kind"`
	ID       string `json:"id"`
	Document string `json:"document"`
	Text     string `json:"text"`
}

// The kinds of gap.
const (
	UnmappedObligation      = "obligation-unmapped"
	RequirementWithoutCheck = "requirement-without-check"
	RequirementWithoutFault = "requirement-without-fault"
	CheckWithoutRequirement = "check-without-requirement"
	FaultWithoutRequirement = "fault-without-requirement"
)

// Compute follows the chain. faulted says which faults break a requirement.
func Compute(scenarios []harness.Scenario, faulted map[requirements.ID][]string) Report {
	witnessed := map[requirements.ID]bool{}
	for _, s := range scenarios {
		for _, id := range s.Requirements() {
			witnessed[id] = true
		}
	}
	var r Report
	known := map[requirements.ID]bool{}
	for _, q := range requirements.All() {
		known[q.ID] = true
		r.Requirements.Total++
		if witnessed[q.ID] {
			r.Requirements.Witnessed++
		} else {
			r.gap(RequirementWithoutCheck, string(q.ID), q.Document, "no test declares it")
		}
		if len(faulted[q.ID]) > 0 {
			r.Requirements.Faulted++
		} else {
			r.gap(RequirementWithoutFault, string(q.ID), q.Document, "no fault shows that its check can fail")
		}
	}
	for _, id := range sorted(witnessed) {
		if !known[id] {
			r.gap(CheckWithoutRequirement, string(id), "", "a test declares it, but it is not in the registry")
		}
	}
	for _, id := range sorted(faulted) {
		if !known[id] {
			r.gap(FaultWithoutRequirement, string(id), "", fmt.Sprintf("broken by %v, but it is not in the registry", faulted[id]))
		}
	}
	r.obligations(witnessed, faulted)
	for _, id := range requirements.UpstreamIDs() {
		r.Upstream.Known++
		if known[requirements.ID(id)] {
			r.Upstream.Shared++
		}
	}
	if r.Gaps == nil {
		r.Gaps = []Gap{}
	}
	return r
}

func (r *Report) gap(kind, id, document, text string) {
	r.Gaps = append(r.Gaps, Gap{Kind: kind, ID: id, Document: document, Text: text})
}

func (r *Report) obligations(witnessed map[requirements.ID]bool, faulted map[requirements.ID][]string) {
	for _, o := range requirements.Obligations() {
		i := slices.IndexFunc(r.Documents, func(d Document) bool { return d.Document == o.Document })
		if i < 0 {
			i = len(r.Documents)
			r.Documents = append(r.Documents, Document{Document: o.Document})
		}
		d := &r.Documents[i]
		d.Obligations++
		switch {
		case len(o.Requirements) > 0:
			d.Mapped++
			if !slices.ContainsFunc(o.Requirements, func(id requirements.ID) bool { return !witnessed[id] }) {
				d.Witnessed++
			}
			if !slices.ContainsFunc(o.Requirements, func(id requirements.ID) bool { return len(faulted[id]) == 0 }) {
				d.Faulted++
			}
		case o.Reason != nil:
			d.Reasoned++
		default:
			r.gap(UnmappedObligation, o.ID, o.Document, "no requirement and no written reason yet")
		}
	}
	slices.SortStableFunc(r.Documents, func(a, b Document) int { return b.Obligations - a.Obligations })
}

func sorted[V any](m map[requirements.ID]V) []requirements.ID {
	ids := make([]requirements.ID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Text writes the report for a person.
func (r Report) Text(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "document\tobligations\tmapped\twitnessed\tfaulted\treasoned\tgaps\t")
	for _, d := range r.Documents {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t\n", d.Document, d.Obligations, d.Mapped, d.Witnessed, d.Faulted, d.Reasoned,
			d.Obligations-d.Mapped-d.Reasoned)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nrequirements: %d, %d witnessed, %d faulted\n", r.Requirements.Total, r.Requirements.Witnessed, r.Requirements.Faulted)
	fmt.Fprintf(w, "published ids: %d known, %d shared\n", r.Upstream.Known, r.Upstream.Shared)
	fmt.Fprintf(w, "gaps: %d\n", len(r.Gaps))
	for _, g := range r.Gaps {
		fmt.Fprintf(w, "  %s  %s  %s\n", g.Kind, g.ID, g.Text)
	}
	return nil
}
