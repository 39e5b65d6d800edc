package certify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Evidence is the directory a certification is written to. It is prepared
// beside its final place and moved there whole, so that a run that dies leaves
// nothing that looks like evidence.
type Evidence struct {
	final string
	stage string
}

// EvidenceError is an output directory that cannot be used.
type EvidenceError struct{ Text, Hint string }

func (e *EvidenceError) Error() string { return e.Text }

// PrepareEvidence checks the output directory before the run and creates the
// staging directory. A directory that holds anything is never written to.
func PrepareEvidence(dir string) (*Evidence, error) {
	final, err := filepath.Abs(dir)
	if err != nil {
		return nil, &EvidenceError{fmt.Sprintf("output directory %s: %v", dir, err), ""}
	}
	entries, err := os.ReadDir(final)
	switch {
	case err == nil && len(entries) > 0:
		return nil, &EvidenceError{fmt.Sprintf("output directory %s already holds files", dir),
			"evidence is never overwritten: give another --out, or move that directory away"}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, &EvidenceError{fmt.Sprintf("output directory %s cannot be used: %v", dir, errors.Unwrap(err)), "give another --out"}
	}
	parent := filepath.Dir(final)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, &EvidenceError{fmt.Sprintf("output directory %s cannot be created: %v", dir, err), "give another --out"}
	}
	stage, err := os.MkdirTemp(parent, "."+filepath.Base(final)+"-*")
	if err != nil {
		return nil, &EvidenceError{fmt.Sprintf("output directory %s cannot be written: %v", dir, err), "give another --out"}
	}
	return &Evidence{final: final, stage: stage}, nil
}

// Dir is where the evidence will be.
func (e *Evidence) Dir() string { return e.final }

// Write stages one file. The name is relative and uses slashes.
func (e *Evidence) Write(name string, data []byte) error {
	path := filepath.Join(e.stage, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// WriteJSON stages an indented JSON file.
func (e *Evidence) WriteJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return e.Write(name, append(data, '\n'))
}

// Commit moves the staged files to their final place.
func (e *Evidence) Commit() error {
	if err := os.Chmod(e.stage, 0o755); err != nil {
		return err
	}
	// An empty directory was accepted above; a rename does not replace it.
	if err := os.Remove(e.final); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(e.stage, e.final); err != nil {
		return err
	}
	e.stage = ""
	return nil
}

// Discard removes what was staged and not committed.
func (e *Evidence) Discard() {
	if e.stage != "" {
		os.RemoveAll(e.stage)
	}
}
