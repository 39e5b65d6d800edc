package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"wopcert/reference-host/faults"
	"wopcert/requirements"
	"wopcert/scenarios"
)

// explanation is everything the program knows about one requirement.
type explanation struct {
	ID          string   `json:"id"`
	Level       string   `json:"level"`
	Statement   string   `json:"statement"`
	Document    string   `json:"document"`
	Section     string   `json:"section"`
	Witness     string   `json:"witness"`
	Family      string   `json:"family,omitempty"`
	Scenario    string   `json:"scenario"`
	Tests       []string `json:"tests"`
	Faults      []named  `json:"faults"`
	Obligations []string `json:"obligations"`
}

type named struct {
	ID      string `json:"id"`
	Summary string `json:"summary"`
}

func explainCommand(s streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "explain ID",
		Short: "Say what a requirement or scenario asks, where it stands, who checks it and what breaks it",
		Args:  cobra.ExactArgs(1),
	}
	f := formatFlag(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		ids := explained(args[0])
		if len(ids) == 0 {
			return usageError("run wopcert list requirements, or wopcert list scenarios, for the ids", "no requirement or scenario %q", args[0])
		}
		var all []explanation
		for _, id := range ids {
			all = append(all, explain(id))
		}
		if f.json() {
			if len(all) == 1 {
				return writeJSON(s.out, all[0])
			}
			return writeJSON(s.out, all)
		}
		for i, e := range all {
			if i > 0 {
				fmt.Fprintln(s.out)
			}
			e.text(s.out)
		}
		return nil
	}
	return c
}

// explained resolves an argument: a requirement id in any form, or a scenario.
func explained(name string) []requirements.ID {
	if id, ok := requirements.Resolve(name); ok {
		return []requirements.ID{id}
	}
	scenario := strings.TrimPrefix(strings.TrimPrefix(name, "openwop.floor."), "openwop.scenario.")
	for _, s := range scenarios.All() {
		if s.ID == scenario {
			return s.Requirements()
		}
	}
	return nil
}

func explain(id requirements.ID) explanation {
	r, _ := requirements.Get(id)
	e := explanation{ID: string(id), Level: r.Level, Statement: r.Statement, Document: r.Document, Section: r.Section,
		Witness: r.Witness, Family: r.Family, Scenario: r.Scenario, Tests: []string{}, Faults: []named{}, Obligations: []string{}}
	for _, s := range scenarios.All() {
		for _, t := range s.Tests {
			for _, w := range t.Witnesses {
				if w == id {
					e.Tests = append(e.Tests, s.ID+": "+t.Name)
				}
			}
		}
	}
	for _, f := range faults.All() {
		for _, b := range f.Breaks {
			if b == id {
				e.Faults = append(e.Faults, named{f.ID, f.Summary})
			}
		}
	}
	for _, o := range requirements.Obligations() {
		for _, q := range o.Requirements {
			if q == id {
				e.Obligations = append(e.Obligations, o.ID)
			}
		}
	}
	return e
}

func (e explanation) text(w io.Writer) {
	fmt.Fprintf(w, "%s  (%s)\n  %s\n", e.ID, e.Level, e.Statement)
	fmt.Fprintf(w, "  source       %s, %s\n  witness      %s\n", e.Document, e.Section, e.Witness)
	if e.Family != "" {
		fmt.Fprintf(w, "  gated on     %s\n", e.Family)
	}
	lines(w, "obligations", e.Obligations)
	lines(w, "checked by", e.Tests)
	broken := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		broken[i] = f.ID + ": " + f.Summary
	}
	lines(w, "broken by", broken)
	fmt.Fprintf(w, "  run it       wopcert certify --reference-host --requirement %s\n", strings.TrimPrefix(e.ID, "openwop.requirement."))
}

func lines(w io.Writer, label string, values []string) {
	for i, v := range values {
		if i > 0 {
			label = ""
		}
		fmt.Fprintf(w, "  %-12s %s\n", label, v)
	}
}
