package proof

import (
	"context"
	"slices"
	"strings"

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
// of the rows it turns. That it turns nothing else is seen with the whole suite,
// several faults in one host at a time: what turns beyond the rows they declare
// together sends each of them through the whole suite by itself. A row that one
// fault of such a group declares can hide that another turns it too;
// Options.Alone rules that out at several times the cost.
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
	switch {
	case o.Own:
		err = p.faultsTogether(ctx, l, false)
	case o.Alone || len(o.Faults) <= fewFaults:
		err = p.faultsAlone(ctx, l, all(len(o.Faults)))
	default:
		err = p.faultsTogether(ctx, l, true)
	}
	return l.report(), err
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
