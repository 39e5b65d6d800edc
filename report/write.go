package report

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Kinds are the names of the reports, as --only takes them.
func Kinds() []string { return []string{"html", "junit", "sarif", "markdown", "har"} }

// file is one report and the file it goes to.
type file struct {
	kind, name string
	write      func(io.Writer) error
}

func (e *Evidence) reports() []file {
	files := []file{
		{"html", "report.html", e.HTML},
		{"junit", "junit.xml", e.JUnit},
		{"sarif", "results.sarif", e.SARIF},
		{"markdown", "summary.md", e.Markdown},
	}
	for _, scenario := range e.Scenarios() {
		files = append(files, file{"har", path.Join("har", scenario+".har"), func(w io.Writer) error { return e.HAR(w, scenario) }})
	}
	return files
}

// WriteAll writes the reports of the given kinds, all when there are none, below dir, and returns their names. Each
// appears whole or not at all.
func (e *Evidence) WriteAll(dir string, kinds ...string) ([]string, error) {
	var names []string
	for _, f := range e.reports() {
		if len(kinds) > 0 && !slices.Contains(kinds, f.kind) {
			continue
		}
		if strings.Contains(f.name, "..") {
			return names, fmt.Errorf("%s: not a name for a file", f.name)
		}
		if err := WriteWhole(filepath.Join(dir, filepath.FromSlash(f.name)), f.write); err != nil {
			return names, err
		}
		names = append(names, f.name)
	}
	return names, nil
}

// WriteWhole writes a file beside its place and renames it, so that it is there whole or not at all.
func WriteWhole(name string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = write(f)
	if e := f.Chmod(0o644); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	return err
}
