// Command generate writes the two files of package requirements that follow
// from its registry: ids_gen.go, one Go constant per requirement, and ids.lock,
// every id ever published. The lock only grows: an id that leaves the registry
// stays in it, so that the tests of the package ask for its alias row.
//
// It runs in the folder of package requirements (go generate does that) and
// replaces a file only when its content changes.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	registryFile  = "registry.json"
	constantsFile = "ids_gen.go"
	lockFile      = "ids.lock"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// run brings the generated files of dir up to date with its registry.
func run(dir string) error {
	registry, err := os.ReadFile(filepath.Join(dir, registryFile))
	if err != nil {
		return err
	}
	entries, err := parseRegistry(registry)
	if err != nil {
		return err
	}
	source, err := constants(entries)
	if err != nil {
		return err
	}
	lock, err := os.ReadFile(filepath.Join(dir, lockFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := replace(filepath.Join(dir, constantsFile), source); err != nil {
		return err
	}
	return replace(filepath.Join(dir, lockFile), extendLock(lock, entries))
}

// replace writes content to path through a sibling file and a rename, so that
// an interrupted run leaves the old file. An equal file is left untouched.
func replace(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && string(old) == string(content) {
		return nil
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // no longer there once renamed
	_, err = temp.Write(content)
	if err := errors.Join(err, temp.Chmod(0o644), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
