package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"wopcert/cmd/internal/proof"
	"wopcert/reference-host/faults"
	"wopcert/reference-host/variants"
)

func faultsCommand(s streams) *cobra.Command {
	return proofCommand(s, "fault", faults.Get, func(ctx context.Context, chosen []faults.Fault, o proof.Options) (proved, error) {
		o.Faults = chosen
		r, err := proof.Faults(ctx, o)
		if r == nil {
			return proved{}, err
		}
		return proved{r, func(w io.Writer) { faultsText(w, r) }}, err
	}, &cobra.Command{
		Use:   "faults [ID...]",
		Short: "Prove that every check can fail: break the reference host one way at a time and run the suite",
		Long:  "Exit code 0 means that every fault turned exactly its own rows, for its stated reason.",
	})
}

func variantsCommand(s streams) *cobra.Command {
	return proofCommand(s, "variant", variants.Get, func(ctx context.Context, chosen []variants.Variant, o proof.Options) (proved, error) {
		o.Variants = chosen
		r, err := proof.Variants(ctx, o)
		if r == nil {
			return proved{}, err
		}
		return proved{r, func(w io.Writer) { variantsText(w, r) }}, err
	}, &cobra.Command{
		Use:   "variants [ID...]",
		Short: "Prove that no check is too strict: use every freedom the specification grants and run the suite",
		Long:  "Exit code 0 means that no freedom changed a verdict.",
	})
}

// proved is the report of a proof and how it reads as text.
type proved struct {
	report interface{ OK() bool }
	text   func(io.Writer)
}

// proofCommand completes a command that proves something of the suite with
// changed hosts: those named, or all of them.
func proofCommand[V any](s streams, noun string, get func(string) (V, bool),
	prove func(context.Context, []V, proof.Options) (proved, error), c *cobra.Command,
) *cobra.Command {
	f := formatFlag(c)
	o := proof.Options{Progress: progressLines(s)}
	c.Flags().BoolVar(&o.Alone, "alone", false, "run the whole suite on each "+noun+" by itself, which takes several times as long")
	c.Flags().IntVar(&o.Parallel, "parallel", proof.DefaultParallel, "hosts that work at a time; more of them wait")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if o.Parallel < 1 {
			return usageError("", "--parallel %d: want 1 or more", o.Parallel)
		}
		var chosen []V
		for _, id := range args {
			v, ok := get(id)
			if !ok {
				return usageError("run wopcert list "+noun+"s for the ids", "no %s %q", noun, id)
			}
			chosen = append(chosen, v)
		}
		r, failed := prove(cmd.Context(), chosen, o)
		if failed != nil && r.text == nil {
			return unknownError("", "%v", failed)
		}
		if f.json() {
			if err := writeJSON(s.out, r.report); err != nil {
				return err
			}
		} else {
			r.text(s.out)
		}
		if failed != nil {
			return unknownError("", "this is what was measured before the end: %v", failed)
		}
		if !r.report.OK() {
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
