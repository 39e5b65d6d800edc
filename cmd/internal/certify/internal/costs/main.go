// Command costs makes the table of costs by which runs are divided from the results.json of
// a run of the whole suite:
//
//	go run ./cmd/internal/certify/internal/costs EVIDENCE/results.json > cmd/internal/certify/costs.json
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"wopcert/cmd/internal/certify"
)

func main() {
	if err := table(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "costs:", err)
		os.Exit(1)
	}
}

func table(args []string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("give one results.json")
	}
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	costs, err := certify.ReadCosts(data)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	text, err := json.MarshalIndent(costs, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", text)
	return err
}
