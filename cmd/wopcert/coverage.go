package main

import (
	"github.com/spf13/cobra"

	"wopcert/cmd/internal/coverage"
	"wopcert/reference-host/faults"
	"wopcert/scenarios"
)

func coverageCommand(s streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "coverage",
		Short: "Count obligations, requirements, checks and faults, and list every gap between them",
		Args:  cobra.NoArgs,
	}
	f := formatFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		r := coverage.Compute(scenarios.All(), faults.ByRequirement())
		if f.json() {
			if err := writeJSON(s.out, r); err != nil {
				return err
			}
		} else if err := r.Text(s.out); err != nil {
			return err
		}
		if len(r.Gaps) > 0 {
			return answered(exitNo)
		}
		return nil
	}
	return c
}
