package proof

import (
	"context"
	"fmt"
	"maps"
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
	togetherAtMost  = 12
	quietRows       = 10
	decoratedAtMost = 4
)

// suspects are the changes that have to be looked at by themselves, each with the
// rows to look for; no rows stand for the whole suite.
type suspects map[int][]requirements.ID

// measureTogether measures changes with the whole suite, several to a host. strays
// names the rows that turned though no member of a host declares it; each member of
// such a host is suspected of having turned them. All members of a host that could
// not be measured are suspected of anything.
//
// A row that one member declares can hide that another turns it too.
//
// What beside lists is measured at the same time, and handed to judge.
func (p *prover) measureTogether(ctx context.Context, changes []change, strays func(members []int, m *measurement) []requirements.ID,
	beside []change, judge func(i int, m *measurement) bool,
) (suspects, error) {
	groups := deal(changes)
	hosts := slices.Clone(beside)
	for _, members := range groups {
		hosts = append(hosts, together(changes, members))
	}
	var mu sync.Mutex
	found := suspects{}
	err := p.each(ctx, hosts, func(n int, m *measurement) bool {
		if n < len(beside) {
			return judge(n, m)
		}
		members := groups[n-len(beside)]
		measured := m.err == nil && len(m.suite) == 0
		var rows []requirements.ID
		if measured {
			rows = strays(members, m)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, i := range members {
			if !measured {
				found[i] = nil
			} else if len(rows) > 0 {
				found[i] = rows
			}
		}
		return true
	})
	return found, err
}

// measureApart measures the suspects each by itself with the scenarios of the rows
// to look for and of its own.
func (p *prover) measureApart(ctx context.Context, changes []change, s suspects, judge func(i int, m *measurement) bool) error {
	var hosts []change
	which := slices.Sorted(maps.Keys(s))
	for _, i := range which {
		c := changes[i]
		if rows := s[i]; len(rows) > 0 {
			c.suite = p.scenariosOf(slices.Concat(rows, c.declares))
		}
		hosts = append(hosts, c)
	}
	return p.each(ctx, hosts, func(n int, m *measurement) bool { return judge(which[n], m) })
}

// apart reports whether every change is to be measured by itself with the whole suite.
func (p *prover) apart(changes int) bool { return p.options.Alone || changes <= fewChanges }

// everything suspects every change of anything.
func everything(changes int) suspects {
	s := suspects{}
	for i := range changes {
		s[i] = nil
	}
	return s
}

// deal puts changes that declare different rows together. Neighbours in the list,
// which tend to be alike, go to different groups.
func deal(changes []change) [][]int {
	var quiet, single []int
	for i, c := range changes {
		if len(c.declares) > quietRows || c.mortal || c.basePath != "" {
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
