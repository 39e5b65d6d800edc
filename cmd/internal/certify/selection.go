package certify

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"wopcert/corpus"
	"wopcert/harness"
	"wopcert/requirements"
)

// Selection narrows a run. Scenarios are run whole, because a requirement half
// exercised could neither pass nor fail honestly; an empty selection is
// everything.
type Selection struct {
	Scenarios    []string // glob patterns over scenario ids
	Requirements []string // requirement ids, long or short, aliases included
	Profiles     []string // profile ids: their floor scenarios
}

// Empty reports whether nothing narrows the run.
func (s Selection) Empty() bool {
	return len(s.Scenarios) == 0 && len(s.Requirements) == 0 && len(s.Profiles) == 0
}

// SelectionError is a selection that is malformed or matches nothing.
type SelectionError struct{ Text, Hint string }

func (e *SelectionError) Error() string { return e.Text }

// Apply returns the selected scenarios in their order.
func (s Selection) Apply(all []harness.Scenario, c *corpus.Corpus) ([]harness.Scenario, error) {
	if s.Empty() {
		return all, nil
	}
	chosen := map[string]bool{}
	for _, pattern := range s.Scenarios {
		if err := choose(chosen, all, pattern); err != nil {
			return nil, err
		}
	}
	for _, name := range s.Requirements {
		id, ok := requirements.Resolve(name)
		if !ok {
			return nil, &SelectionError{fmt.Sprintf("no requirement %q", name), "run wopcert list requirements for the ids"}
		}
		i := slices.IndexFunc(all, func(sc harness.Scenario) bool { return slices.Contains(sc.Requirements(), id) })
		if i < 0 {
			return nil, &SelectionError{fmt.Sprintf("no scenario witnesses %s", id), "run wopcert explain " + name}
		}
		chosen[all[i].ID] = true
	}
	for _, name := range s.Profiles {
		if err := chooseFloor(chosen, all, c, name); err != nil {
			return nil, err
		}
	}
	var out []harness.Scenario
	for _, sc := range all {
		if chosen[sc.ID] {
			out = append(out, sc)
		}
	}
	return out, nil
}

func choose(chosen map[string]bool, all []harness.Scenario, pattern string) error {
	found := false
	for _, sc := range all {
		ok, err := path.Match(pattern, sc.ID)
		if err != nil {
			return &SelectionError{fmt.Sprintf("bad scenario pattern %q: %v", pattern, err), "a pattern is a glob such as v2-run-*"}
		}
		if ok {
			chosen[sc.ID], found = true, true
		}
	}
	if !found {
		return &SelectionError{fmt.Sprintf("no scenario matches %q", pattern), "run wopcert list scenarios for the ids"}
	}
	return nil
}

func chooseFloor(chosen map[string]bool, all []harness.Scenario, c *corpus.Corpus, name string) error {
	p, ok := c.Profile(name)
	if !ok {
		return &SelectionError{fmt.Sprintf("no profile %q", name), "run wopcert list profiles for the ids"}
	}
	floor, err := p.FloorAt(c.Version())
	switch {
	case err != nil:
		return err
	case len(floor) == 0:
		return &SelectionError{fmt.Sprintf("profile %s has no floor at contract version %s", name, c.Version()), "leave --corpus out for the newest contract this program knows"}
	}
	var missing []string
	for _, id := range floor {
		if slices.ContainsFunc(all, func(sc harness.Scenario) bool { return sc.ID == id }) {
			chosen[id] = true
		} else {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		return &SelectionError{fmt.Sprintf("profile %s cannot be certified by this version: it has no scenario %s", name, strings.Join(missing, ", ")),
			"select its scenarios with --scenario to run those it has"}
	}
	return nil
}
