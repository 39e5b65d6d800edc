package harness

import (
	"net/url"
	"slices"

	"wopcert/bundle"
)

// Relaxations are the operator settings under which the host runs, as they are
// recorded in the bundle of this run (security-defaults.md, "Relaxations").
func (t *T) Relaxations() []bundle.Relaxation { return slices.Clone(t.run.relaxations) }

// RunsRelaxed gates on a host whose operator has recorded a relaxation.
func RunsRelaxed() Gate {
	return Gate{explain: func(e *Env) (string, bool) {
		return "no relaxation is recorded for the host", len(e.relaxations) > 0
	}}
}

// Receiver is the address of the suite's receiver, nil when there is none.
func (t *T) Receiver() *url.URL {
	if t.run.receiver.Server == nil {
		return nil
	}
	return t.run.receiver.Server.URL()
}
