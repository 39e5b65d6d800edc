package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"wopcert/bundle"
	"wopcert/report"
	"wopcert/requirements"
)

func diffCommand(s streams) *cobra.Command {
	var page string
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "Say what differs between two bundles, what matters first",
		Long: `Compares two bundles, of this suite or another: profiles, requirement rows, what one suite
tests and the other does not, and the captured discovery documents. A and B are bundles or
evidence directories. Exit code 0 means that nothing is worse in B; 1 something is; 3 a file
that cannot be read; 4 a bundle that the verifier rejects, or that is not of version 3.`,
		Args: cobra.ExactArgs(2),
	}
	c.Flags().StringVar(&page, "html", "", "also write the comparison as a page to this file")
	f := formatFlag(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		var data [2][]byte
		for i, name := range args {
			if info, err := os.Stat(name); err == nil && info.IsDir() {
				name = filepath.Join(name, report.BundleFile)
			}
			var err error
			if data[i], err = readInput(s.in, []string{name}); err != nil {
				return unknownError("", "bundle %s cannot be read: %v", "AB"[i:i+1], err)
			}
		}
		compared, err := bundle.Compare(data[0], data[1], bundle.Options{}, presentID)
		var refused *bundle.NotComparableError
		if errors.As(err, &refused) {
			return &exitError{code: exitRejected, text: refused.Error(), hint: "only bundles of version 3 have rows to compare; run wopcert verify on it for the whole reason"}
		}
		if err != nil {
			return err
		}
		if page != "" {
			if err := report.WriteWhole(page, func(w io.Writer) error { return report.ComparisonHTML(w, args[0], args[1], compared) }); err != nil {
				return unknownError("give another --html", "page cannot be written: %v", err)
			}
		}
		if f.json() {
			err = writeJSON(s.out, compared)
		} else {
			report.Comparison(s.out, args[0], args[1], compared)
		}
		if err != nil {
			return err
		}
		switch {
		case !compared.A.Sound || !compared.B.Sound:
			return answered(exitRejected)
		case compared.Worse():
			return answered(exitNo)
		}
		return nil
	}
	return c
}

// presentID follows the renaming of a requirement.
func presentID(id string) string {
	if now, ok := requirements.Resolve(id); ok {
		return string(now)
	}
	return id
}
