package proof

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"

	referencehost "wopcert/reference-host"
	"wopcert/requirements"
)

const (
	// fewChanges are measured one by one.
	fewChanges = 24
	// togetherAtMost changes are put into one host, each of which declares at most
	// quietRows rows: what turns more takes others' ground away. At most
	// decoratedAtMost of them change what the host is made of.
	togetherAtMost  = 8
	quietRows       = 5
	decoratedAtMost = 3
)

// narrow measures the chosen changes with the whole suite, several to a host. fits
// says whether what was found is what the members of a host declare together. Those
// of a host that does not fit are divided, down to each by itself, of which alone
// says whether it is proved. Each by itself is also what is done when they are few,
// and when the options say so.
//
// A row that one member declares can hide that another turns it too.
func (p *prover) narrow(ctx context.Context, changes []change, chosen []int, fits func(members []int, m *measurement) bool, alone func(i int, m *measurement) bool) error {
	groups := p.deal(changes, chosen)
	for len(groups) > 0 {
		hosts := make([]change, len(groups))
		for n, members := range groups {
			hosts[n] = together(changes, members)
		}
		var mu sync.Mutex
		var next [][]int
		err := p.each(ctx, hosts, func(n int, m *measurement) bool {
			members := groups[n]
			if len(members) == 1 {
				return alone(members[0], m)
			}
			if !fits(members, m) {
				mu.Lock()
				defer mu.Unlock()
				next = append(next, members[:len(members)/2], members[len(members)/2:])
			}
			return true
		})
		if err != nil {
			return err
		}
		groups = next
	}
	return nil
}

// deal puts changes that declare different rows together. Neighbours in the list,
// which tend to be alike, go to different groups.
func (p *prover) deal(changes []change, chosen []int) [][]int {
	var quiet, single []int
	for _, i := range chosen {
		if c := changes[i]; p.options.Alone || len(chosen) <= fewChanges || len(c.declares) > quietRows || c.mortal || c.apart {
			single = append(single, i)
		} else {
			quiet = append(quiet, i)
		}
	}
	groups := make([]group, (len(quiet)+togetherAtMost-1)/togetherAtMost)
	next := 0
	for _, i := range quiet {
		placed := false
		for step := range groups {
			at := (next + step) % len(groups)
			if placed = groups[at].take(changes, i); placed {
				next = (at + 1) % len(groups)
				break
			}
		}
		if !placed {
			single = append(single, i)
		}
	}
	var out [][]int
	for _, g := range groups {
		if len(g.members) > 0 {
			out = append(out, g.members)
		}
	}
	for _, i := range single {
		out = append(out, []int{i})
	}
	return out
}

// group is changes that are put into one host.
type group struct {
	members   []int
	rows      map[requirements.ID]bool
	decorated int
}

// take adds a change, unless it does not go with those that are there.
func (g *group) take(changes []change, i int) bool {
	c := changes[i]
	switch {
	case len(g.members) == togetherAtMost, c.decorate != nil && g.decorated == decoratedAtMost,
		slices.ContainsFunc(c.declares, func(id requirements.ID) bool { return g.rows[id] }):
		return false
	}
	if g.rows == nil {
		g.rows = map[requirements.ID]bool{}
	}
	for _, id := range c.declares {
		g.rows[id] = true
	}
	if c.decorate != nil {
		g.decorated++
	}
	g.members = append(g.members, i)
	return true
}

// together is a host with all the changes of a group.
func together(changes []change, members []int) change {
	if len(members) == 1 {
		return changes[members[0]]
	}
	c := change{id: fmt.Sprintf("%s and %d more together", changes[members[0]].id, len(members)-1)}
	for _, i := range members {
		one := changes[i]
		c.slow = c.slow || one.slow
		if outer, inner := one.wrap, c.wrap; outer != nil && inner != nil {
			c.wrap = func(h http.Handler) http.Handler { return outer(inner(h)) }
		} else if outer != nil {
			c.wrap = outer
		}
		if second, first := one.decorate, c.decorate; second != nil && first != nil {
			c.decorate = func(config *referencehost.Config) { first(config); second(config) }
		} else if second != nil {
			c.decorate = second
		}
	}
	return c
}
