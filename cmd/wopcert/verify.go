package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"wopcert/bundle"
	"wopcert/corpus"
	"wopcert/harness"
	"wopcert/report"
)

func verifyCommand(s streams) *cobra.Command {
	var discovery, companionOf, verifierKey string
	var require []string
	c := &cobra.Command{
		Use:   "verify FILE",
		Short: "Say whether a bundle is sound, whose it is, and what it certifies",
		Long: `Reads a certification bundle ("-" for standard input). Exit code 0 means sound,
attributable and certifying everything required (at least one profile);
1 sound, but attributable or certifying less; 3 a file or URL that cannot be read; 4 rejected.`,
		Args: cobra.ExactArgs(1),
	}
	c.Flags().StringVar(&discovery, "discovery", "", "read the discovery document from the host's URL, or from a file, instead of the bundle")
	c.Flags().StringVar(&companionOf, "companion-of", "", "served-host bundle that a colocated companion's bundle pairs with")
	c.Flags().StringVar(&verifierKey, "verifier-key", "", "public key of the independent verifier, PEM, OpenSSH or base64url")
	c.Flags().StringArrayVar(&require, "require", nil, "profile that has to be certified (repeatable)")
	f := formatFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		contract, err := corpus.Load()
		if err != nil {
			return err
		}
		opts := bundle.Options{Corpus: contract, Require: require}
		for _, id := range require {
			if _, ok := contract.Profile(id); !ok {
				return usageError("run wopcert list profiles for the ids", "no profile %q", id)
			}
		}
		data, err := readInput(s.in, args)
		if err != nil {
			return unknownError("", "bundle cannot be read: %v", err)
		}
		if opts.Discovery, err = readDiscovery(cmd.Context(), discovery); err != nil {
			return err
		}
		if companionOf != "" {
			if opts.CompanionOf, err = readInput(s.in, []string{companionOf}); err != nil {
				return unknownError("", "served-host bundle cannot be read: %v", err)
			}
		}
		if opts.VerifierKey, err = readVerifierKey(verifierKey); err != nil {
			return err
		}
		r := bundle.Verify(data, opts)
		if f.json() {
			err = writeJSON(s.out, r)
		} else {
			report.Verification(s.out, args[0], r)
		}
		if err != nil {
			return err
		}
		return answered(verifyCode(r))
	}
	return c
}

// verifyCode is the exit code a report means.
func verifyCode(r *bundle.Report) int {
	for _, j := range r.Rejections {
		if j.Kind == bundle.KindContract {
			return exitInternal
		}
	}
	switch {
	case !r.Sound:
		return exitRejected
	case r.Attribution == bundle.Attributable && len(r.CertifiedProfiles) > 0 && len(r.MissingProfiles) == 0:
		return exitYes
	}
	return exitNo
}

func readDiscovery(ctx context.Context, from string) (*bundle.DiscoverySource, error) {
	switch {
	case from == "":
		return nil, nil
	case strings.HasPrefix(from, "http://"), strings.HasPrefix(from, "https://"):
		d, err := harness.Discover(ctx, from)
		var why *harness.DiscoveryError
		if errors.As(err, &why) {
			return nil, unknownError(why.Hint, "discovery at %s: %s", why.URL, why.Why)
		}
		if err != nil {
			return nil, usageError("", "%v", err)
		}
		return &bundle.DiscoverySource{Origin: "url", Location: d.URL, Document: d.Raw}, nil
	}
	f, err := os.Open(from)
	if err != nil {
		return nil, unknownError("give a URL that begins http:// or https://, or a file", "discovery document cannot be read: %v", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, harness.MaxBody+1))
	if err != nil {
		return nil, unknownError("", "discovery document cannot be read: %v", err)
	}
	if len(data) > harness.MaxBody {
		return nil, unknownError("", "discovery document %s is larger than %d bytes", from, harness.MaxBody)
	}
	return &bundle.DiscoverySource{Origin: "file", Location: from, Document: data}, nil
}

func readVerifierKey(from string) (ed25519.PublicKey, error) {
	if from == "" {
		return nil, nil
	}
	key, err := bundle.LoadPublicKey(from)
	if err != nil {
		return nil, usageError("", "%v", fmt.Errorf("verifier key: %w", err))
	}
	return key, nil
}
