package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"wopcert/cmd/internal/proof"
	"wopcert/reference-host/faults"
	"wopcert/reference-host/variants"
)

func faultsCommand(s streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "faults [ID...]",
		Short: "Prove that every check can fail: break the reference host one way at a time and run the suite",
		Long:  "Exit code 0 means that every fault turned exactly its own rows, for its stated reason.",
	}
	f := formatFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		o := proof.Options{Progress: progressLines(s)}
		for _, id := range args {
			x, ok := faults.Get(id)
			if !ok {
				return usageError("run wopcert list faults for the ids", "no fault %q", id)
			}
			o.Faults = append(o.Faults, x)
		}
		r, err := proof.Faults(cmd.Context(), o)
		if err != nil {
			return unknownError("", "%v", err)
		}
		if f.json() {
			if err := writeJSON(s.out, r); err != nil {
				return err
			}
		} else {
			faultsText(s.out, r)
		}
		if !r.OK() {
			return answered(exitNo)
		}
		return nil
	}
	return c
}

func variantsCommand(s streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "variants [ID...]",
		Short: "Prove that no check is too strict: use every freedom the specification grants and run the suite",
		Long:  "Exit code 0 means that no freedom changed a verdict.",
	}
	f := formatFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		o := proof.Options{Progress: progressLines(s)}
		for _, id := range args {
			v, ok := variants.Get(id)
			if !ok {
				return usageError("run wopcert list variants for the ids", "no variant %q", id)
			}
			o.Variants = append(o.Variants, v)
		}
		r, err := proof.Variants(cmd.Context(), o)
		if err != nil {
			return unknownError("", "%v", err)
		}
		if f.json() {
			if err := writeJSON(s.out, r); err != nil {
				return err
			}
		} else {
			variantsText(s.out, r)
		}
		if !r.OK() {
			return answered(exitNo)
		}
		return nil
	}
	return c
}

func faultsText(w io.Writer, r *proof.FaultReport) {
	fmt.Fprintf(w, "faults: %d of %d killed\n", r.Killed, r.Total)
	for _, x := range r.Survived {
		fmt.Fprintf(w, "\nSURVIVED %s\n  requirement  %s\n  expected     %s\n  observed     %s\n", x.Fault, x.Requirement, x.Expected, x.Observed)
	}
	for _, x := range r.Collateral {
		fmt.Fprintf(w, "\nCOLLATERAL %s\n  requirement  %s\n  %s -> %s: %s\n", x.Fault, x.Requirement, x.Before, x.After, x.Detail)
	}
}

func variantsText(w io.Writer, r *proof.VariantReport) {
	fmt.Fprintf(w, "variants: %d of %d held\n", r.Held, r.Total)
	for _, x := range r.Broken {
		fmt.Fprintf(w, "\nBROKEN %s\n  requirement  %s\n  %s -> %s: %s\n", x.Variant, x.Requirement, x.Before, x.After, x.Detail)
	}
}

// progressLines tells on the error stream which measurement has ended.
func progressLines(s streams) func(proof.Step) {
	return func(step proof.Step) {
		id, outcome := step.ID, "proved"
		if id == "" {
			id = "the unchanged host"
		}
		if !step.Proved {
			outcome = "NOT"
		}
		fmt.Fprintf(s.err, "[%d/%d] %-6s %s (%s)\n", step.Done, step.Total, outcome, id, step.Elapsed.Round(10*time.Millisecond))
	}
}
