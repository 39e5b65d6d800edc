package workflow

import (
	"errors"
	"fmt"
	"slices"
)

// Loopback is an edge that leads back: when its source completes, what lies between its target and its source is done
// over again, until that has been done as often as settings.maxLoopbackIterations says.
type Loopback struct {
	Edge   Edge
	Source int
	Target int
	// Body are the positions of the nodes that are done over, source and target among them.
	Body []int
}

// closeLoops turns edges that lead back into loopbacks.
func (d *Definition) closeLoops(backs []Loopback) error {
	for _, back := range backs {
		from := d.reach(back.Target, func(i int) []int { return d.Nodes[i].Outgoing })
		to := d.reach(back.Source, func(i int) (sources []int) {
			for _, edge := range d.Nodes[i].Incoming {
				sources = append(sources, edge.Source)
			}
			return sources
		})
		for i := range d.Nodes {
			if from[i] && to[i] {
				back.Body = append(back.Body, i)
			}
		}
		if !slices.Contains(back.Body, back.Source) {
			return fmt.Errorf("the edge from node %s back to node %s closes no loop", d.Nodes[back.Source].ID, d.Nodes[back.Target].ID)
		}
		for _, other := range d.Loopbacks {
			for _, i := range other.Body {
				if slices.Contains(back.Body, i) {
					return errors.New("loops that share a node are not run by this host")
				}
			}
		}
		d.Loopbacks = append(d.Loopbacks, back)
	}
	return nil
}

// reach is what can be got to from a node, itself included.
func (d *Definition) reach(start int, next func(int) []int) map[int]bool {
	seen, open := map[int]bool{start: true}, []int{start}
	for len(open) > 0 {
		i := open[0]
		open = open[1:]
		for _, n := range next(i) {
			if !seen[n] {
				seen[n] = true
				open = append(open, n)
			}
		}
	}
	return seen
}
