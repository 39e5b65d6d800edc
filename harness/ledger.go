package harness

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"wopcert/bundle"
	"wopcert/requirements"
)

// outcome is what one test contributed to one requirement.
type outcome string

const (
	passed       outcome = "pass"
	failed       outcome = "fail"
	unfollowed   outcome = "should-not-followed"
	skipped      outcome = "skipped"
	inapplicable outcome = "inapplicable"
	blocked      outcome = "blocked"
	attested     outcome = "evidence" // says nothing by itself
)

// observation is one entry of a test's record about one requirement.
type observation struct {
	id       requirements.ID
	outcome  outcome
	reason   string // for every outcome but passed
	check    Check
	evidence *bundle.Evidence // for attested
	test     string
	scenario string
}

// observations is the record of one test. Its methods may be called from the
// goroutines a test starts.
type observations struct {
	mu       sync.Mutex
	scenario string
	test     string
	declared []requirements.ID
	entries  []observation
	aborted  string
	stray    []string // asserted but not declared: a fault of the suite
	cleanup  []func()
	closed   bool
}

func (o *observations) add(e observation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return // a goroutine outlived its test; its word no longer counts
	}
	if !slices.Contains(o.declared, e.id) {
		o.stray = append(o.stray, fmt.Sprintf("%s/%s asserts %s without declaring it", o.scenario, o.test, e.id))
	}
	e.scenario, e.test = o.scenario, o.test
	o.entries = append(o.entries, e)
}

// expect records an assertion. Once the deadline has passed a check that does
// not hold says nothing about the host, unless the host itself was late.
func (o *observations) expect(id requirements.ID, c Check, late bool) {
	switch {
	case c.OK:
		o.add(observation{id: id, outcome: passed, check: c})
	case late:
		o.add(observation{id: id, outcome: blocked, reason: "the test's deadline passed before this was observed"})
	default:
		o.add(observation{id: id, outcome: failed, check: c,
			reason: fmt.Sprintf("expected %s; observed %s", c.Expected, c.Observed)})
	}
}

func (o *observations) should(id requirements.ID, c Check, late bool) {
	switch {
	case c.OK:
		o.add(observation{id: id, outcome: passed, check: c})
	case late:
		o.expect(id, c, late)
	default:
		o.add(observation{id: id, outcome: unfollowed, check: c,
			reason: fmt.Sprintf("recommended: %s; observed %s", c.Expected, c.Observed)})
	}
}

func (o *observations) inapplicable(id requirements.ID, fact string) {
	o.add(observation{id: id, outcome: inapplicable, reason: fact})
}

func (o *observations) blocked(id requirements.ID, lack string) {
	o.add(observation{id: id, outcome: blocked, reason: lack})
}

func (o *observations) abort(reason string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.aborted == "" {
		o.aborted = reason
	}
}

func (o *observations) atEnd(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cleanup = append(o.cleanup, f)
}

// close ends the record and resolves what the test declared and did not
// reach: blocked, with the reason the test stopped.
func (o *observations) close(reason string) []observation {
	o.mu.Lock()
	cleanup := o.cleanup
	o.mu.Unlock()
	for _, f := range cleanup {
		f()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	if o.aborted != "" {
		reason = o.aborted
	}
	for _, id := range o.declared {
		reached, fails := false, false
		for _, e := range o.entries {
			if e.id == id && e.outcome != attested {
				reached = true
				fails = fails || e.outcome == failed
			}
		}
		switch {
		case fails:
		case reason != "":
			o.entries = append(o.entries, observation{id: id, outcome: blocked, reason: reason, scenario: o.scenario, test: o.test})
		case !reached:
			o.entries = append(o.entries, observation{id: id, outcome: blocked,
				reason: "the test ended without observing it", scenario: o.scenario, test: o.test})
		}
	}
	return o.entries
}

// resolve folds what every test of a scenario observed about a requirement
// into its row. A failure outweighs everything, then something missing: a
// requirement half observed is not a pass.
func resolve(scenario string, id requirements.ID, entries []observation) bundle.Row {
	row := bundle.Row{ID: string(id), Scenario: scenario}
	var evidence *bundle.Evidence
	reasons := map[outcome][]string{}
	count := map[outcome]int{}
	for _, e := range entries {
		if e.id != id {
			continue
		}
		count[e.outcome]++
		if e.evidence != nil {
			evidence = e.evidence
		}
		if e.outcome == passed || e.outcome == failed || e.outcome == unfollowed {
			row.Assertions++
		}
		if e.reason != "" && !slices.Contains(reasons[e.outcome], e.reason) {
			reasons[e.outcome] = append(reasons[e.outcome], e.reason)
		}
	}
	detail := func(o outcome) string { return strings.Join(reasons[o], "; ") }
	switch {
	case count[failed] > 0:
		row.Result, row.Detail = bundle.ExecutedFail, detail(failed)
	case count[blocked] > 0:
		row.Result, row.Detail = bundle.Blocked, detail(blocked)
	case count[passed] > 0:
		row.Result = bundle.ExecutedPass
		var partial []string
		if count[unfollowed] > 0 {
			partial = append(partial, detail(unfollowed))
		}
		if count[inapplicable] > 0 {
			partial = append(partial, "inapplicable: "+detail(inapplicable))
		}
		if len(partial) > 0 {
			row.Detail = PartialWitness + " " + strings.Join(partial, "; ")
		}
	case count[unfollowed] > 0:
		// Nothing of the requirement was seen to hold, so this is no pass; it
		// fails nothing either, because the text only recommends.
		row.Result, row.Detail = bundle.Inapplicable, PartialWitness+" "+detail(unfollowed)
	case count[skipped] > 0:
		row.Result, row.Detail = bundle.Skipped, detail(skipped)
	case count[inapplicable] > 0:
		row.Result, row.Detail = bundle.Inapplicable, detail(inapplicable)
	default:
		row.Result, row.Detail = bundle.Blocked, "no test observed it"
	}
	if row.Result == bundle.ExecutedPass {
		row.Evidence = evidence
	}
	if row.Result != bundle.ExecutedPass && row.Result != bundle.ExecutedFail && row.Result != bundle.Inapplicable {
		row.Assertions = 0
	}
	return row
}

// PartialWitness begins the detail of a row that recorded less than the whole
// requirement: a recommendation not followed, or a leg that does not bind.
const PartialWitness = "partial-witness:"

// summarize is the scenario's own row: the worst of its requirements and the
// sum of their assertions. Its id says whether a profile's floor names it.
func summarize(scenario string, floor bool, rows []bundle.Row) bundle.Row {
	kind := "scenario"
	if floor {
		kind = "floor"
	}
	sum := bundle.Row{ID: "openwop." + kind + "." + scenario, Scenario: scenario}
	for _, want := range []bundle.Disposition{bundle.ExecutedFail, bundle.Blocked, bundle.ExecutedPass, bundle.Skipped, bundle.Inapplicable} {
		var ids []string
		for _, r := range rows {
			if r.Result == want {
				ids = append(ids, strings.TrimPrefix(r.ID, "openwop.requirement.")+reasonSuffix(r))
			}
		}
		if len(ids) == 0 {
			continue
		}
		sum.Result = want
		if want != bundle.ExecutedPass {
			sum.Detail = strings.Join(ids, "; ")
		}
		break
	}
	for _, r := range rows {
		sum.Assertions += r.Assertions
	}
	return sum
}

func reasonSuffix(r bundle.Row) string {
	if r.Detail == "" {
		return ""
	}
	return ": " + r.Detail
}
