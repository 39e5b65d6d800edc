package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"wopcert/cmd/internal/certify"
	"wopcert/corpus"
	"wopcert/scenarios"
)

func mergeCommand(s streams) *cobra.Command {
	var f certifyFlags
	c := &cobra.Command{
		Use:   "merge DIR...",
		Short: "Make one signed bundle of the shards of a run",
		Long: `Puts together what wopcert certify --shard 1/N to N/N wrote, and writes an evidence directory
with one signed bundle, as a single run would have. The rows are those of the shards' bundles,
each of which has to verify.

Exit codes are those of certify; 4 means that the shards do not fit together: of different hosts,
builds, discovery documents, contracts or settings, one missing, given twice, interrupted or changed.
Without --profile the profiles asked for are those of the shards.`,
		Args: cobra.MinimumNArgs(1),
	}
	flags := c.Flags()
	flags.StringVar(&f.out, "out", defaultOut, "directory for the evidence")
	flags.StringVar(&f.signingKey, "signing-key", "", "Ed25519 private key to sign with, PEM PKCS#8 or OpenSSH (default: an ephemeral key, which proves integrity only)")
	flags.StringVar(&f.keyID, "key-id", "", "id under which the host's discovery document publishes the key")
	flags.StringArrayVar(&f.profiles, "profile", nil, "ask for the certification of this profile alone (repeatable)")
	flags.StringVar(&f.corpus, "corpus", "", "folder of the installed "+corpus.PackageName+" that the shards were run with")
	flags.StringVar(&f.failOn, "fail-on", failOnUncertified, "what ends in an exit code other than 0, each with those before it: "+strings.Join(failOnLevels(), ", "))
	flags.StringVar(&f.expected, "expected-failures", "", "list of failures that do not end the build: entries of requirement, reason and until")
	out := formatFlag(c)
	c.RunE = func(_ *cobra.Command, dirs []string) error {
		return runMerge(s, f, dirs, out.json())
	}
	return c
}

func runMerge(s streams, f certifyFlags, dirs []string, asJSON bool) error {
	judged, err := newJudgement(f.failOn, f.expected)
	if err != nil {
		return err
	}
	if f.out == "" {
		return usageError("leave it out for "+defaultOut, "--out names no directory")
	}
	q := certify.Request{Out: f.out, Judge: judged.judge, Selection: certify.Selection{Profiles: f.profiles}}
	if q.Corpus, err = loadContract(f.corpus); err != nil {
		return err
	}
	for _, id := range f.profiles {
		if _, ok := q.Corpus.Profile(id); !ok {
			return usageError("run wopcert list profiles for the ids", "no profile %q", id)
		}
	}
	if err := f.signing(&q, certify.Config{}); err != nil {
		return err
	}
	result, err := certify.Merge(dirs, scenarios.All(), q)
	var refused *certify.MergeError
	switch {
	case errors.As(err, &refused) && refused.Unreadable:
		return unknownError(refused.Hint, "%s", refused.Text)
	case errors.As(err, &refused):
		return &exitError{code: exitRejected, text: refused.Text, hint: refused.Hint}
	case err != nil:
		return certifyError(err)
	}
	if asJSON {
		err = writeJSON(s.out, result)
	} else {
		result.Text(s.out)
	}
	if err != nil {
		return err
	}
	return answered(judged.code(result))
}
