package proof

import (
	"context"
	"slices"
	"strings"
	"sync"

	"wopcert/bundle"
	"wopcert/harness"
	"wopcert/reference-host/faults"
	"wopcert/requirements"
)

// FaultReport says which faults the suite notices.
type FaultReport struct {
	Total      int          `json:"total"`
	Killed     int          `json:"killed"` // faults that turned exactly what they break, and for the stated reason
	Survived   []Survivor   `json:"survived"`
	Collateral []Collateral `json:"collateral"`
}

// Survivor is a requirement that did not turn, or not for the stated reason.
type Survivor struct {
	Fault       string          `json:"fault"`
	Requirement requirements.ID `json:"requirement"`
	Expected    string          `json:"expected"`
	Observed    string          `json:"observed"`
}

// Collateral is a requirement that turned although the fault does not break it.
type Collateral struct {
	Fault       string             `json:"fault"`
	Requirement requirements.ID    `json:"requirement"` // empty when the suite itself failed
	Before      bundle.Disposition `json:"before"`
	After       bundle.Disposition `json:"after"`
	Detail      string             `json:"detail"`
}

// OK reports whether every fault was killed and nothing else turned.
func (r *FaultReport) OK() bool { return r.Killed == r.Total && len(r.Collateral) == 0 }

// Faults breaks the reference host in each way and runs the suite on it.
//
// That a fault is killed is seen on a host that has it alone, with the scenarios
// of the rows it declares. That it turns nothing else is seen with the whole suite,
// several faults in one host at a time: see measureTogether. Few faults, and all of them with
// Options.Alone, are measured by themselves with the whole suite.
//
// The error says why nothing could be proved; a fault that survives is part of
// the report. When the context ends the report holds what was proved until
// then, beside the context's error.
func Faults(ctx context.Context, o Options) (*FaultReport, error) {
	if o.Faults == nil {
		o.Faults = faults.All()
	}
	p, err := newProver(ctx, o)
	if err != nil {
		return nil, err
	}
	defer p.close()
	l := newFaultLedger(o.Faults)
	if !p.apart(len(o.Faults)) {
		err = p.faultsTogether(ctx, l)
	} else {
		err = p.faultsApart(ctx, l, everything(len(o.Faults)))
	}
	return l.report(), err
}

// faultLedger is what is known of each fault. Its methods may be called side by side.
type faultLedger struct {
	faults     []faults.Fault
	mu         sync.Mutex
	survived   [][]Survivor
	collateral [][]Collateral
	judged     []bool
}

func newFaultLedger(all []faults.Fault) *faultLedger {
	return &faultLedger{
		faults: all, survived: make([][]Survivor, len(all)), collateral: make([][]Collateral, len(all)), judged: make([]bool, len(all)),
	}
}

// record replaces what is known of a fault and reports whether it is proved.
func (l *faultLedger) record(i int, survived []Survivor, collateral []Collateral) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.survived[i], l.collateral[i], l.judged[i] = survived, collateral, true
	return len(survived)+len(collateral) == 0
}

func (l *faultLedger) report() *FaultReport {
	r := &FaultReport{
		Total:      len(l.faults),
		Survived:   append([]Survivor{}, slices.Concat(l.survived...)...),
		Collateral: append([]Collateral{}, slices.Concat(l.collateral...)...),
	}
	for i := range l.faults {
		if l.judged[i] && len(l.survived[i]) == 0 {
			r.Killed++
		}
	}
	return r
}

// proved reports whether nothing speaks against a fault that was looked at.
func (l *faultLedger) proved(i int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.judged[i] && len(l.survived[i])+len(l.collateral[i]) == 0
}

// changeOf is a host with one fault.
func (p *prover) changeOf(f faults.Fault) change {
	return change{id: f.ID, wrap: f.Wrap, decorate: f.Decorate, slow: f.Slow, declares: declared(f), mortal: p.kills(f.Breaks, f.Opens)}
}

func declared(f faults.Fault) []requirements.ID {
	return slices.Concat(f.Breaks, f.Blocks, f.Opens, f.Closes, f.Relaxes)
}

// faultsTogether measures every fault with the scenarios of its own rows, and
// several of them at a time with the whole suite. What the first does not prove is
// judged by the whole suite alone: its rows may stand on what other scenarios leave
// behind.
func (p *prover) faultsTogether(ctx context.Context, l *faultLedger) error {
	own, whole := make([]change, len(l.faults)), make([]change, len(l.faults))
	for i, f := range l.faults {
		own[i], whole[i] = p.changeOf(f), p.changeOf(f)
		own[i].suite = p.scenariosOf(own[i].declares)
		whole[i].mortal = false
	}
	strays := func(members []int, m *measurement) []requirements.ID {
		var all []faults.Fault
		for _, i := range members {
			all = append(all, l.faults[i])
		}
		return p.undeclared(all, m)
	}
	found, err := p.measureTogether(ctx, whole, strays, own, func(i int, m *measurement) bool {
		survived, collateral := judgeFault(l.faults[i], p.unchanged(own[i]), m)
		return l.record(i, survived, collateral)
	})
	if err != nil {
		return err
	}
	for i := range l.faults {
		if !l.proved(i) {
			found[i] = nil
		}
	}
	return p.faultsApart(ctx, l, found)
}

// faultsApart measures faults each by itself. One that a killed host is known to
// show is not killed again.
func (p *prover) faultsApart(ctx context.Context, l *faultLedger, s suspects) error {
	changes, known := make([]change, len(l.faults)), make([]bool, len(l.faults))
	for i, f := range l.faults {
		changes[i], known[i] = p.changeOf(f), l.proved(i)
		changes[i].mortal = changes[i].mortal && !known[i]
	}
	return p.measureApart(ctx, changes, s, func(i int, m *measurement) bool {
		survived, collateral := judgeFault(l.faults[i], p.unchanged(changes[i]), m)
		if known[i] && p.changeOf(l.faults[i]).mortal {
			survived = nil // it takes a kill to see it
		}
		return l.record(i, survived, collateral)
	})
}

// undeclared are the rows that turned and that no fault of those in the host sends
// where they went.
func (p *prover) undeclared(members []faults.Fault, m *measurement) []requirements.ID {
	var out []requirements.ID
	for _, was := range p.baseline.rows {
		is := m.byID[was.id]
		if is.result != was.result && !slices.ContainsFunc(members, func(f faults.Fault) bool { return sends(f, is) }) {
			out = append(out, was.id)
		}
	}
	return out
}

// sends reports whether a fault declares what was found of a row.
func sends(f faults.Fault, is row) bool {
	switch is.result {
	case bundle.ExecutedFail:
		return slices.Contains(f.Breaks, is.id) && f.Explains(is.detail)
	case bundle.Blocked:
		return slices.Contains(f.Blocks, is.id)
	case bundle.Inapplicable:
		return slices.Contains(f.Closes, is.id) || slices.Contains(f.Relaxes, is.id) ||
			slices.Contains(f.Breaks, is.id) && recommended(is.id) && f.Explains(is.detail)
	case bundle.ExecutedPass:
		return slices.Contains(f.Opens, is.id) || slices.Contains(f.Relaxes, is.id)
	}
	return false
}

// scenariosOf are the scenarios of the rows that a fault says something about.
func (p *prover) scenariosOf(rows []requirements.ID) []harness.Scenario {
	wanted := map[string]bool{}
	for _, id := range rows {
		if r, ok := requirements.Get(id); ok {
			wanted[r.Scenario] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(p.options.Scenarios), func(s harness.Scenario) bool { return !wanted[s.ID] })
}

// judgeFault compares a broken host with the unbroken one.
func judgeFault(f faults.Fault, before, after *measurement) ([]Survivor, []Collateral) {
	var survived []Survivor
	var collateral []Collateral
	for _, id := range f.Breaks {
		if expected, observed, ok := turned(f, id, before, after); !ok {
			survived = append(survived, Survivor{Fault: f.ID, Requirement: id, Expected: expected, Observed: observed})
		}
	}
	if after.err != nil {
		return survived, nil // the survivors say so; there are no rows to compare
	}
	// What a fault breaks or takes away it need not open.
	settled := slices.Clone(f.Breaks)
	for _, side := range []struct {
		ids  []requirements.ID
		want bundle.Disposition
	}{{f.Blocks, bundle.Blocked}, {f.Closes, bundle.Inapplicable}, {f.Opens, bundle.ExecutedPass}} {
		for _, id := range side.ids {
			if slices.Contains(settled, id) {
				continue
			}
			settled = append(settled, id)
			if is := after.byID[id]; is.result != side.want {
				survived = append(survived, Survivor{Fault: f.ID, Requirement: id, Expected: string(side.want), Observed: is.text()})
			}
		}
	}
	for _, was := range before.rows {
		is, measured := after.byID[was.id]
		if !measured {
			continue // of a scenario that was not run
		}
		relaxed := slices.Contains(f.Relaxes, was.id) && (is.result == bundle.Inapplicable || is.result == bundle.ExecutedPass)
		if !slices.Contains(settled, was.id) && !relaxed && is.result != was.result {
			collateral = append(collateral, Collateral{Fault: f.ID, Requirement: was.id, Before: was.result, After: is.result, Detail: is.detail})
		}
	}
	for _, defect := range after.suite {
		collateral = append(collateral, Collateral{Fault: f.ID, Detail: "the suite itself is at fault: " + defect})
	}
	return survived, collateral
}

// turned reports whether a requirement's row went where the fault sends it:
// to a failure for the stated reason, or for a recommendation to a partial
// witness that states it.
func turned(f faults.Fault, id requirements.ID, before, after *measurement) (expected, observed string, ok bool) {
	was, is := before.byID[id], after.byID[id]
	want := bundle.ExecutedFail
	if recommended(id) {
		expected = harness.PartialWitness
	} else {
		expected = string(want)
	}
	expected += " with " + quoted(f.Reason)
	if why := after.why(); why != "" {
		return expected, why, false
	}
	if was.result == bundle.ExecutedFail || was.result == "" {
		return expected, "on the unbroken host: " + was.text(), false
	}
	reason := f.Explains(is.detail)
	if recommended(id) {
		return expected, is.text(), reason && strings.HasPrefix(is.detail, harness.PartialWitness) && is.detail != was.detail &&
			is.result != bundle.ExecutedFail && is.result != bundle.Blocked
	}
	return expected, is.text(), reason && is.result == want
}

// recommended reports whether the requirement fails nothing when it is not met.
func recommended(id requirements.ID) bool {
	r, ok := requirements.Get(id)
	return ok && (strings.HasPrefix(r.Level, "SHOULD") || r.Level == "RECOMMENDED")
}

func quoted(s string) string { return "\u201c" + s + "\u201d" }
