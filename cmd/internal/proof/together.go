package proof

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"wopcert/harness"
	referencehost "wopcert/reference-host"
	"wopcert/reference-host/faults"
	"wopcert/requirements"
)

const (
	// fewFaults are proved one by one with the whole suite.
	fewFaults = 24
	// togetherAtMost faults are put into one host, each of which declares at most
	// quietRows rows: what breaks more takes others' ground away.
	togetherAtMost = 8
	quietRows      = 3
)

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

func all(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// changeOf is a host with one fault.
func (p *prover) changeOf(f faults.Fault) change {
	return change{id: f.ID, wrap: f.Wrap, decorate: f.Decorate, slow: f.Slow, mortal: p.kills(f.Breaks, f.Opens)}
}

// faultsAlone measures the chosen faults one to a host with the whole suite.
func (p *prover) faultsAlone(ctx context.Context, l *faultLedger, chosen []int) error {
	changes := make([]change, len(chosen))
	for n, i := range chosen {
		changes[n] = p.changeOf(l.faults[i])
		if len(l.survived[i])+len(l.collateral[i]) == 0 && l.judged[i] {
			changes[n].mortal = false // it is killed; what is left to see is what else turns
		}
	}
	return p.each(ctx, changes, func(n int, m *measurement) bool {
		i := chosen[n]
		survived, collateral := judgeFault(l.faults[i], p.unchanged(changes[n]), m)
		if p.changeOf(l.faults[i]).mortal && !changes[n].mortal {
			survived = nil
		}
		return l.record(i, survived, collateral)
	})
}

// faultsTogether measures each fault with the scenarios of its own rows, and then
// puts faults that declare different rows into one host with the whole suite. A
// fault that its own scenarios do not show to be killed, and those of a host on
// which more turned than they declare, go through the whole suite by themselves.
// Without groups only the first is done.
func (p *prover) faultsTogether(ctx context.Context, l *faultLedger, inGroups bool) error {
	var mu sync.Mutex
	suspects := map[int]bool{}
	suspect := func(members ...int) {
		mu.Lock()
		defer mu.Unlock()
		for _, i := range members {
			suspects[i] = true
		}
	}
	if err := p.faultsApart(ctx, l, suspect); err != nil {
		return err
	}
	var groups [][]int
	if inGroups {
		groups = groupFaults(l.faults)
	}
	changes := make([]change, len(groups))
	for n, members := range groups {
		changes[n] = together(l.faults, members)
	}
	err := p.each(ctx, changes, func(n int, m *measurement) bool {
		if p.beyond(l.faults, groups[n], m) {
			suspect(groups[n]...)
		}
		return true
	})
	if err != nil {
		return err
	}
	return p.faultsAlone(ctx, l, slices.Sorted(maps.Keys(suspects)))
}

// faultsApart measures every fault with the scenarios of its own rows. What is
// seen of killed hosts is seen with these alone.
func (p *prover) faultsApart(ctx context.Context, l *faultLedger, suspect func(...int)) error {
	mortals, others := p.partition(l)
	if err := p.faultsOwn(ctx, l, others, suspect); err != nil {
		return err
	}
	return p.faultsOwn(ctx, l, mortals, nil)
}

// partition tells faults that are seen on killed hosts from the rest.
func (p *prover) partition(l *faultLedger) (mortals, others []int) {
	for i, f := range l.faults {
		if p.kills(f.Breaks, f.Opens) {
			mortals = append(mortals, i)
		} else {
			others = append(others, i)
		}
	}
	return mortals, others
}

// faultsOwn measures the chosen faults with the scenarios of their own rows.
// suspect is told of those that this does not prove: their rows may stand on what
// other scenarios leave behind. Without it they are measured once more.
func (p *prover) faultsOwn(ctx context.Context, l *faultLedger, chosen []int, suspect func(...int)) error {
	changes := make([]change, len(chosen))
	for n, i := range chosen {
		changes[n] = p.changeOf(l.faults[i])
		changes[n].suite = p.scenariosOf(l.faults[i])
	}
	return p.each(ctx, changes, func(n int, m *measurement) bool {
		survived, collateral := judgeFault(l.faults[chosen[n]], p.unchanged(changes[n]), m)
		proved := l.record(chosen[n], survived, collateral)
		if !proved && suspect != nil {
			suspect(chosen[n])
			return true
		}
		return proved
	})
}

// scenariosOf are the scenarios of the rows that a fault says something about.
func (p *prover) scenariosOf(f faults.Fault) []harness.Scenario {
	wanted := map[string]bool{}
	for _, id := range declared(f) {
		if r, ok := requirements.Get(id); ok {
			wanted[r.Scenario] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(p.options.Scenarios), func(s harness.Scenario) bool { return !wanted[s.ID] })
}

func declared(f faults.Fault) []requirements.ID {
	return slices.Concat(f.Breaks, f.Blocks, f.Opens, f.Closes, f.Relaxes)
}

// groupFaults deals the faults out so that the members of a group declare
// different rows and at most one of them changes what the host is made of.
// Neighbours in the list, which tend to be alike, go to different groups.
func groupFaults(list []faults.Fault) [][]int {
	quiet := 0
	for _, f := range list {
		if len(declared(f)) <= quietRows {
			quiet++
		}
	}
	groups := make([][]int, (quiet+togetherAtMost-1)/togetherAtMost)
	rows := make([]map[requirements.ID]bool, len(groups))
	decorated := make([]bool, len(groups))
	var alone [][]int
	next := 0
	for i, f := range list {
		if len(declared(f)) > quietRows {
			alone = append(alone, []int{i})
			continue
		}
		at := -1
		for step := range groups {
			g := (next + step) % len(groups)
			clash := len(groups[g]) == togetherAtMost || f.Decorate != nil && decorated[g] ||
				slices.ContainsFunc(declared(f), func(id requirements.ID) bool { return rows[g][id] })
			if !clash {
				at = g
				break
			}
		}
		if at < 0 {
			alone = append(alone, []int{i})
			continue
		}
		if rows[at] == nil {
			rows[at] = map[requirements.ID]bool{}
		}
		groups[at] = append(groups[at], i)
		decorated[at] = decorated[at] || f.Decorate != nil
		for _, id := range declared(f) {
			rows[at][id] = true
		}
		next = (at + 1) % len(groups)
	}
	groups = slices.DeleteFunc(groups, func(g []int) bool { return len(g) == 0 })
	return append(groups, alone...)
}

// together is a host with all the faults of a group.
func together(list []faults.Fault, members []int) change {
	c := change{id: fmt.Sprintf("%s and %d more together", list[members[0]].ID, len(members)-1)}
	if len(members) == 1 {
		c.id = list[members[0]].ID + ", whole suite"
	}
	for _, i := range members {
		f := list[i]
		c.slow = c.slow || f.Slow
		if outer, inner := f.Wrap, c.wrap; outer != nil && inner != nil {
			c.wrap = func(h http.Handler) http.Handler { return outer(inner(h)) }
		} else if outer != nil {
			c.wrap = outer
		}
		if second, first := f.Decorate, c.decorate; second != nil && first != nil {
			c.decorate = func(config *referencehost.Config) { first(config); second(config) }
		} else if second != nil {
			c.decorate = second
		}
	}
	return c
}

// beyond reports whether rows turned that no fault of a group declares.
func (p *prover) beyond(list []faults.Fault, members []int, m *measurement) bool {
	if m.err != nil || len(m.suite) > 0 {
		return true
	}
	allowed := map[requirements.ID]bool{}
	for _, i := range members {
		for _, id := range declared(list[i]) {
			allowed[id] = true
		}
	}
	return slices.ContainsFunc(p.baseline.rows, func(was row) bool {
		return !allowed[was.id] && m.byID[was.id].result != was.result
	})
}
