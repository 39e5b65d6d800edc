package main

import (
	"context"

	"github.com/spf13/cobra"

	"wopcert/cmd/internal/supervised"
)

// supervisedCommand is the process that certify --reference-host kills and starts
// again. It is no command for people: its settings come over standard input.
func supervisedCommand(s streams) *cobra.Command {
	return &cobra.Command{
		Use:    supervised.Command,
		Short:  "Run the reference host for a certification that kills it",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// An interrupt of the certification is not the host's: it serves until
			// it is told to end.
			return supervised.Serve(context.WithoutCancel(cmd.Context()), s.in, s.out)
		},
	}
}
