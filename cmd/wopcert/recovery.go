package main

import (
	"os"

	"github.com/spf13/pflag"

	"wopcert/cmd/internal/certify"
)

// recoveryFlags are what an operator declares of a host beside what its discovery
// document says: how it recovers, and what of it is relaxed.
type recoveryFlags struct {
	kill, restart, bounds, relaxations string
}

func (f *recoveryFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.bounds, "recovery-bounds", "", "JSON file with the host's recovery bounds; with it the recovery rung is claimed for the host")
	flags.StringVar(&f.kill, "kill-cmd", "", "shell command that kills the host without warning, as in 'docker kill host'; it has to return within a minute, when the host is dead")
	flags.StringVar(&f.restart, "restart-cmd", "", "shell command that starts it again at the same address and on its store, and returns within a minute (leave it out where a supervisor does)")
	flags.StringVar(&f.relaxations, "relaxations", "", "JSON file with the settings under which the host runs relaxed; the bundle records them")
}

// apply checks the flags and puts them into the request.
func (f recoveryFlags) apply(q *certify.Request, config certify.Config) (err error) {
	f.kill, f.restart = first(f.kill, config.KillCmd), first(f.restart, config.RestartCmd)
	f.bounds, f.relaxations = first(f.bounds, config.RecoveryBounds), first(f.relaxations, config.Relaxations)
	switch {
	case f == recoveryFlags{}:
		return nil
	case q.ReferenceHost:
		return usageError("leave them out", "the bundled host is killed and started again by itself, and nothing of it is relaxed; --kill-cmd, --restart-cmd, --recovery-bounds and --relaxations are for --host")
	case f.restart != "" && f.kill == "":
		return usageError("give --kill-cmd too", "--restart-cmd starts a host that nothing kills")
	case f.kill != "" && f.bounds == "":
		return usageError("declare within what time the host goes on, in the file that --recovery-bounds names", "--kill-cmd needs --recovery-bounds: a recovery is judged by the bound declared for it")
	}
	if f.relaxations != "" {
		if q.Relaxations, err = certify.ReadRelaxations(f.relaxations); err != nil {
			return err
		}
	}
	if f.bounds == "" {
		return nil
	}
	if q.Recovery, err = certify.ReadRecovery(f.bounds); err != nil {
		return err
	}
	// What the commands print is the operator's to see and no part of the evidence.
	if f.kill != "" {
		q.Recovery.Kill = certify.ShellCommand(f.kill, os.Stderr)
	}
	if f.restart != "" {
		q.Recovery.Restart = certify.ShellCommand(f.restart, os.Stderr)
	}
	return nil
}
