package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"wopcert/report"
)

func reportCommand(s streams) *cobra.Command {
	var out string
	var only []string
	var annotations bool
	c := &cobra.Command{
		Use:   "report DIR|bundle.json",
		Short: "Write the reports of an evidence directory, or of a bundle alone",
		Long: `Writes report.html, junit.xml, results.sarif, summary.md and har/*.har, made from the
results, the capture and the bundle in DIR, beside them; or from a bundle alone into --out.
Exit code 0 means written; 3 the evidence could not be read, or a report not written;
4 written, and the bundle is one the verifier rejects, as the reports say on top.`,
		Args: cobra.ExactArgs(1),
	}
	c.Flags().StringVar(&out, "out", "", "directory to write to (default: DIR itself, or BUNDLE-report)")
	c.Flags().StringArrayVar(&only, "only", nil, "write only this kind (repeatable): "+strings.Join(report.Kinds(), ", "))
	c.Flags().BoolVar(&annotations, "annotations", false, "write no file; print failures as workflow commands for a GitHub build")
	f := formatFlag(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		for _, kind := range only {
			if !slices.Contains(report.Kinds(), kind) {
				return usageError("give one of "+strings.Join(report.Kinds(), ", "), "no report of the kind %q", kind)
			}
		}
		e, err := report.Open(args[0])
		if err != nil {
			hint := "give the directory that wopcert certify wrote to, or a bundle"
			if !errors.Is(err, report.ErrNoEvidence) {
				hint = ""
			}
			return unknownError(hint, "evidence cannot be read: %v", err)
		}
		code := exitYes
		if e.Rejected() {
			code = exitRejected
		}
		if annotations {
			if err := e.Annotations(s.out); err != nil {
				return err
			}
			return answered(code)
		}
		if out == "" {
			out = args[0]
			if info, err := os.Stat(out); err == nil && !info.IsDir() {
				out = strings.TrimSuffix(out, filepath.Ext(out)) + "-report"
			}
		}
		names, err := e.WriteAll(out, only...)
		if err != nil {
			return unknownError("give another --out", "report cannot be written: %v", err)
		}
		if f.json() {
			err = writeJSON(s.out, map[string]any{"out": out, "files": names, "rejected": e.Rejected(), "problems": append([]string{}, e.Problems...)})
		} else {
			for _, name := range names {
				if _, err = fmt.Fprintln(s.out, report.Clean(filepath.Join(out, filepath.FromSlash(name)))); err != nil {
					break
				}
			}
			for _, problem := range e.Problems {
				fmt.Fprintf(s.err, "wopcert: %s\n", report.Clean(problem))
			}
		}
		if err != nil {
			return err
		}
		return answered(code)
	}
	return c
}
