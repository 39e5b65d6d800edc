package proof

import (
	"context"
	"slices"
	"sync"

	"wopcert/bundle"
	"wopcert/reference-host/variants"
	"wopcert/requirements"
)

// VariantReport says which freedoms the suite leaves a host.
type VariantReport struct {
	Total  int      `json:"total"`
	Held   int      `json:"held"` // variants that changed nothing beyond what they relax
	Broken []Broken `json:"broken"`
}

// Broken is a requirement whose row a variant changed although it must not.
type Broken struct {
	Variant     string             `json:"variant"`
	Requirement requirements.ID    `json:"requirement"` // empty when the suite itself failed
	Before      bundle.Disposition `json:"before"`
	After       bundle.Disposition `json:"after"`
	Detail      string             `json:"detail"`
}

// OK reports whether every variant held.
func (r *VariantReport) OK() bool { return r.Held == r.Total && len(r.Broken) == 0 }

// Variants gives the reference host each freedom and runs the whole suite on
// it, several freedoms in one host at a time: see measureTogether. Few of them, and all with
// Options.Alone, are measured by themselves. Errors are as for [Faults].
func Variants(ctx context.Context, o Options) (*VariantReport, error) {
	if o.Variants == nil {
		o.Variants = variants.All()
	}
	p, err := newProver(ctx, o)
	if err != nil {
		return nil, err
	}
	defer p.close()
	changes := make([]change, len(o.Variants))
	for i, v := range o.Variants {
		changes[i] = change{id: v.ID, basePath: v.BasePath, wrap: v.Wrap, decorate: v.Decorate,
			declares: slices.Concat(v.Relaxes, v.Opens), mortal: p.kills(v.Opens, v.Relaxes)}
	}
	broken := make([][]Broken, len(o.Variants))
	held := make([]bool, len(o.Variants))
	var mu sync.Mutex
	judge := func(i int, m *measurement) bool {
		found := judgeVariant(o.Variants[i], p.unchanged(changes[i]), m)
		mu.Lock()
		defer mu.Unlock()
		broken[i], held[i] = found, len(found) == 0
		return held[i]
	}
	// strays are the rows that changed beyond what the members together allow.
	strays := func(members []int, m *measurement) []requirements.ID {
		var all variants.Variant
		for _, i := range members {
			all.Relaxes = append(all.Relaxes, o.Variants[i].Relaxes...)
			all.Opens = append(all.Opens, o.Variants[i].Opens...)
		}
		var rows []requirements.ID
		for _, b := range judgeVariant(all, p.unchanged(changes[members[0]]), m) {
			rows = append(rows, b.Requirement)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, i := range members {
			held[i] = len(rows) == 0
		}
		return rows
	}
	suspected := everything(len(changes))
	if !p.apart(len(changes)) {
		suspected, err = p.measureTogether(ctx, changes, strays, nil, nil)
	}
	if err == nil {
		err = p.measureApart(ctx, changes, suspected, judge)
	}
	report := &VariantReport{Total: len(o.Variants), Broken: append([]Broken{}, slices.Concat(broken...)...)}
	for _, ok := range held {
		if ok {
			report.Held++
		}
	}
	return report, err
}

// judgeVariant compares a host that uses a freedom with the one that does not.
func judgeVariant(v variants.Variant, before, after *measurement) []Broken {
	if why := after.why(); why != "" {
		return []Broken{{Variant: v.ID, Detail: why}}
	}
	var out []Broken
	for _, was := range before.rows {
		is, measured := after.byID[was.id]
		if !measured {
			continue // of a scenario that was not run
		}
		want := was.result
		if slices.Contains(v.Opens, was.id) {
			want = bundle.ExecutedPass
		}
		if is.result == want {
			continue
		}
		relaxed := slices.Contains(v.Relaxes, was.id) && is.result != bundle.ExecutedFail && is.result != bundle.Blocked
		if !relaxed {
			out = append(out, Broken{Variant: v.ID, Requirement: was.id, Before: was.result, After: is.result, Detail: is.detail})
		}
	}
	for _, defect := range after.suite {
		out = append(out, Broken{Variant: v.ID, Detail: "the suite itself is at fault: " + defect})
	}
	return out
}
