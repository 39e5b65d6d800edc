package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"wopcert/cmd/internal/certify"
	"wopcert/cmd/internal/doctor"
)

func doctorCommand(s streams) *cobra.Command {
	f := certifyFlags{hostHint: "give --host URL, or host in " + certify.DefaultConfig}
	c := &cobra.Command{
		Use:   "doctor --host URL",
		Short: "Say what a certification of a host would lack, without running it",
		Long: `Looks at a host with the keys, the receiver and the settings that certify would use:
whether it can be reached, what it speaks, whether its clock agrees, which fixtures it lists,
which keys it accepts, whether it can call the receiver. Of what is missing it says how many
rows would be blocked, and what to do. One delivery is asked for where a receiver is given.

Exit code 0 means that nothing is missing; 1 that rows would be blocked or certify would not
start; 2 a wrong command line; 3 that the host cannot be reached.`,
		Args: cobra.NoArgs,
	}
	f.defineTarget(c.Flags())
	out := formatFlag(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		f.given = map[string]bool{}
		cmd.Flags().Visit(func(g *pflag.Flag) { f.given[g.Name] = true })
		return runDoctor(cmd.Context(), s, f, out.json())
	}
	return c
}

func runDoctor(ctx context.Context, s streams, f certifyFlags, asJSON bool) error {
	q, err := f.request()
	if err != nil {
		return certifyError(err)
	}
	findings, notes, err := certify.Survey(ctx, q)
	facts := doctor.Facts{URL: q.HostURL, Findings: findings, Contract: q.Corpus.Version(), Signing: notes}
	switch {
	case ctx.Err() != nil:
		return unknownError("", "interrupted before everything was looked at")
	case err != nil && !errors.As(err, &facts.Unmeasured):
		return certifyError(err)
	}
	answer := doctor.Examine(facts)
	if asJSON {
		err = writeJSON(s.out, answer)
	} else {
		err = answer.Text(s.out)
	}
	if err != nil {
		return err
	}
	switch answer.Verdict {
	case doctor.Unreachable:
		return answered(exitUnknown)
	case doctor.Lacking:
		return answered(exitNo)
	}
	return nil
}
