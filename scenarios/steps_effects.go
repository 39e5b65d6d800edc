package scenarios

import (
	"net/http"
	"slices"

	"wopcert/harness"
)

// Fixtures of the scenarios about effects.
const (
	ordinalLoop    = "conformance-replay-ordinal-loop"
	nondeterminism = "conformance-nondeterminism"
	httpEffect     = "wopcert-http-effect"
)

// servesMode gates on a mode of forkRun.
func servesMode(mode string) harness.Gate {
	return harness.HostFact("replay.modes does not list "+mode, func(d *harness.Discovery) bool {
		modes, _ := d.Facet("replay", "modes")
		list, _ := stringList(modes)
		return slices.Contains(list, mode)
	})
}

// effectRow is one path of the effect-seam manifest.
type effectRow struct{ seam, kind, note string }

// manifestRows are the guarded rows of the host's effect-seam manifest by their
// kind, in order. The test ends when there is no manifest.
func manifestRows(t *harness.T) (kinds []string, rows map[string][]effectRow) {
	r := t.Do(harness.Request{Path: "/host/effect-seams"})
	seams, ok := r.Get("seams").([]any)
	if !ok || !r.Is(http.StatusOK).OK {
		t.Abort("no effect-seam manifest to choose a seam from: %s", answered(r))
	}
	rows = map[string][]effectRow{}
	for _, s := range seams {
		row := effectRow{seam: textAt(s, "seam"), kind: textAt(s, "kind"), note: textAt(s, "note")}
		if row.seam == "" || harness.Get(s, "guarded") != true {
			continue
		}
		if rows[row.kind] == nil {
			kinds = append(kinds, row.kind)
		}
		rows[row.kind] = append(rows[row.kind], row)
	}
	return kinds, rows
}

// textAt is a string member of a decoded value, "" for any other.
func textAt(v any, path ...string) string {
	s, _ := harness.Get(v, path...).(string)
	return s
}

// ledger is what a host reports of a run's effects.
type ledger struct {
	of      *harness.Response
	effects []object
}

// readLedger reads a run's effects. The test ends when they cannot be read.
func readLedger(t *harness.T, runID string) ledger {
	l, ok := tryLedger(t, runID)
	if !ok {
		t.Abort("no effects to observe: getRunEffects of a run gave %s", answered(l.of))
	}
	return l
}

// tryLedger reads a run's effects, if they can be read.
func tryLedger(t *harness.T, runID string) (ledger, bool) {
	r := t.Do(harness.Request{Path: runPath(runID, "/effects")})
	list, ok := r.Get("effects").([]any)
	l := ledger{of: r}
	for _, e := range list {
		effect, _ := e.(object)
		l.effects = append(l.effects, effect)
	}
	return l, ok && r.Is(http.StatusOK).OK
}

// replayed forks a run in replay mode and reads the fork to its end. The test
// ends when there is no fork or it does not end.
func replayed(t *harness.T, source string, at int64) (string, log) {
	child := forkedFrom(t, source, "replay", at)
	l := readLog(t, child, settle)
	if !l.terminal || len(l.events) == 0 {
		endRun(t, child)
		t.Abort("no finished replay to observe: the fork has status %q and %d events", l.status, len(l.events))
	}
	return child, l
}

// ofNode matches events of some types about a node.
func ofNode(node string, types ...string) func(object) bool {
	typed := ofType(types...)
	return func(e object) bool { return typed(e) && nodeOf(e) == node }
}

// outcomesOf are the events in which executions of a node ended, in order.
func outcomesOf(events []object, node string) []object {
	var out []object
	for _, e := range events {
		if ofNode(node, "node.completed", "node.failed")(e) {
			out = append(out, e)
		}
	}
	return out
}

// failedWith is the code a node failed with, "" where it did not fail.
func failedWith(event object) string {
	if event["type"] != "node.failed" {
		return ""
	}
	return textAt(event["payload"], "error", "code")
}

// nodesWithEffects are the nodes a ledger has records of.
func nodesWithEffects(effects []object) []string {
	var nodes []string
	for _, e := range effects {
		if n := text(e, "nodeId"); n != "" && !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
