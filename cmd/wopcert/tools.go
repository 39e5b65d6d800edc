package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"wopcert/bundle"
	"wopcert/bundle/jcs"
	"wopcert/fixtures"
)

func keygenCommand(s streams) *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "keygen --out FILE",
		Short: "Make an Ed25519 signing key and print what to publish in discovery",
		Args:  cobra.NoArgs,
	}
	c.Flags().StringVar(&out, "out", "", "file for the private key, made readable by its owner only")
	f := formatFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		if out == "" {
			return usageError("as in wopcert keygen --out host-key.pem", "--out is needed")
		}
		key, err := bundle.GenerateKeyFile(out)
		if errors.Is(err, fs.ErrExist) {
			return usageError("a key is never overwritten: give another --out", "%s already exists", out)
		}
		if err != nil {
			return usageError("", "%v", err)
		}
		published := map[string]string{"keyId": key.ID, "alg": "ed25519", "publicKey": bundle.EncodePublicKey(key.Public()), "use": "certification-bundle"}
		if f.json() {
			return writeJSON(s.out, published)
		}
		fmt.Fprintf(s.out, "private key  %s\nkey id       %s\npublic key   %s\n\npublish it in the discovery document:\n", out, key.ID, published["publicKey"])
		return writeJSON(s.out, map[string]any{"signingKeys": []any{published}})
	}
	return c
}

func canonCommand(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "canon [FILE]",
		Short: "Write the RFC 8785 bytes of an I-JSON text (standard input without FILE)",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			data, err := readInput(s.in, args)
			if err != nil {
				return unknownError("", "%v", err)
			}
			canonical, err := jcs.Canonicalize(data)
			if err != nil {
				return &exitError{code: exitRejected, text: err.Error(), hint: "a text that is not I-JSON is refused, never repaired"}
			}
			_, err = s.out.Write(canonical)
			return err
		},
	}
}

// readInput reads a named file, or standard input for none and for "-".
func readInput(in io.Reader, args []string) ([]byte, error) {
	if len(args) == 0 || args[0] == "-" {
		return bundle.ReadLimited(in)
	}
	f, err := os.Open(args[0])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return bundle.ReadLimited(f)
}

func fixturesCommand(s streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "fixtures",
		Short: "The conformance workflows a host under test has to hold",
		Args:  cobra.NoArgs,
		RunE:  group,
	}
	c.AddCommand(&cobra.Command{
		Use:   "export DIR",
		Short: "Write the fixture workflows as JSON files, to seed a host with",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := fixtures.Export(args[0]); err != nil {
				return usageError("", "%v", err)
			}
			all, err := fixtures.All()
			if err != nil {
				return err
			}
			for _, w := range all {
				fmt.Fprintln(s.out, filepath.Join(args[0], w.ID+".json"))
			}
			return nil
		},
	})
	return c
}
