package main

import (
	"errors"
	"fmt"
	"os"

	"wopcert/corpus"
)

// loadContract is the contract in use: this program's own, or that of an installed package in a folder.
func loadContract(dir string) (*corpus.Corpus, error) {
	if dir == "" {
		return corpus.Load()
	}
	contract, err := corpus.LoadPackage(os.DirFS(dir))
	var notPackage *corpus.NotPackageError
	var stamp *corpus.StampError
	switch {
	case errors.As(err, &notPackage):
		return nil, usageError("install it with npm install "+corpus.PackageName+" and give node_modules/"+corpus.PackageName, "--corpus %s: %v", dir, err)
	case errors.As(err, &stamp):
		return nil, &exitError{code: exitInternal, text: fmt.Sprintf("--corpus %s: %s is not what the stamp of the package says: %s", dir, stamp.Path, stamp.Reason), hint: "its files are not those it was published with; install it again"}
	case err != nil:
		return nil, &exitError{code: exitInternal, text: "--corpus " + dir + ": " + err.Error(), hint: "its schemas cannot be read here; leave --corpus out for this program's own"}
	}
	return contract, nil
}
