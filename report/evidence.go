package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"wopcert/bundle"
	"wopcert/harness"
	"wopcert/requirements"
)

// The files of an evidence directory that reports are made from.
const (
	ResultsFile = "results.json"
	BundleFile  = "bundle.json"
	CaptureDir  = "capture"
)

// maxFile bounds each file that is read: 64 MiB.
const maxFile = 64 << 20

// Results is the content of results.json: the certification and every row. Its schema is results.schema.json.
type Results struct {
	*Certification
	Suite string               `json:"suite"`
	Rows  []bundle.Row         `json:"rows"`
	Tests []harness.TestResult `json:"tests"`
}

// Evidence is the one model that every report is made from: an evidence directory, or a bundle without one.
type Evidence struct {
	// Source is what was read, as it was named.
	Source string
	// Results is what the run said of itself; for a bundle alone it is made from the bundle.
	Results Results
	// Alone says that there is a bundle and no evidence beside it: no timings, no exchanges, no failures in detail.
	Alone bool
	// Bundle is what the verifier says of the bundle, nil when there is none.
	Bundle *bundle.Report
	// GeneratedAt is when the bundle was made, or the first test began.
	GeneratedAt time.Time
	// Problems are the files that could not be read; whatever they would have shown is missing, and nothing else.
	Problems []string

	files fs.FS
	tapes map[string][]string // scenario to its capture files
}

// ErrNoEvidence says that what was named is neither an evidence directory nor a bundle.
var ErrNoEvidence = errors.New("neither an evidence directory nor a bundle")

// Open reads an evidence directory, or a bundle file.
func Open(name string) (*Evidence, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return FromDirectory(os.DirFS(name), name)
	}
	data, err := ReadFile(os.DirFS(filepath.Dir(name)), filepath.Base(name))
	if err != nil {
		return nil, err
	}
	return FromBundle(data, name)
}

// FromDirectory reads an evidence directory. results.json has to be there and has to be whole; everything else that
// cannot be read is a problem of its own part.
func FromDirectory(files fs.FS, source string) (*Evidence, error) {
	data, err := ReadFile(files, ResultsFile)
	if errors.Is(err, fs.ErrNotExist) {
		if data, err := ReadFile(files, BundleFile); err == nil {
			return FromBundle(data, path.Join(source, BundleFile))
		}
		return nil, fmt.Errorf("%w: %s holds neither %s nor %s", ErrNoEvidence, source, ResultsFile, BundleFile)
	}
	if err != nil {
		return nil, err
	}
	e := &Evidence{Source: source, files: files, tapes: map[string][]string{}}
	if err := json.Unmarshal(data, &e.Results); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrNoEvidence, ResultsFile, err)
	}
	if e.Results.Certification == nil || e.Results.Verdict == "" {
		return nil, fmt.Errorf("%w: %s holds no verdict", ErrNoEvidence, ResultsFile)
	}
	for _, test := range e.Results.Tests {
		if e.GeneratedAt.IsZero() || test.Ran && test.Started.Before(e.GeneratedAt) {
			e.GeneratedAt = test.Started
		}
	}
	switch data, err := ReadFile(files, BundleFile); {
	case err == nil:
		e.Bundle = bundle.Verify(data, bundle.Options{})
	case !errors.Is(err, fs.ErrNotExist):
		e.Problems = append(e.Problems, fmt.Sprintf("%s cannot be read: %v", BundleFile, err))
	}
	e.index()
	return e, nil
}

// index finds the capture files of each scenario.
func (e *Evidence) index() {
	err := fs.WalkDir(e.files, CaptureDir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(name, ".json") {
			scenario := path.Base(path.Dir(name))
			e.tapes[scenario] = append(e.tapes[scenario], name)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.Problems = append(e.Problems, fmt.Sprintf("%s cannot be read: %v", CaptureDir, err))
	}
}

// FromBundle makes a report's model of a bundle alone. A bundle that the verifier rejects has one too, so that it can
// be seen for what it is; text that is no bundle of any version is an error. Of a bundle that holds a secret nothing is
// taken over but the verifier's words.
func FromBundle(data []byte, source string) (*Evidence, error) {
	e := &Evidence{Source: source, Alone: true, Bundle: bundle.Verify(data, bundle.Options{})}
	var parts struct {
		BundleVersion, GeneratedAt              string
		Suite, Host, Discovery, Results, Totals json.RawMessage
	}
	if err := json.Unmarshal(data, &parts); err != nil || parts.BundleVersion == "" {
		return nil, fmt.Errorf("%w: %s is no bundle of any version", ErrNoEvidence, source)
	}
	// A part that is not what version 3 makes of it stays empty: the verifier has said so already.
	var suite bundle.Suite
	var host bundle.Host
	var discovery bundle.Discovery
	var results bundle.Results
	if !slices.ContainsFunc(e.Bundle.Rejections, func(r bundle.Rejection) bool { return r.Kind == bundle.KindSecret }) {
		_ = json.Unmarshal(parts.Suite, &suite)
		_ = json.Unmarshal(parts.Host, &host)
		_ = json.Unmarshal(parts.Discovery, &discovery)
		_ = json.Unmarshal(parts.Results, &results)
		e.GeneratedAt, _ = time.Parse(time.RFC3339Nano, parts.GeneratedAt)
	}
	c := &Certification{
		Profiles: []Profile{}, Failures: []harness.Failure{},
		Blocked: []Reason{}, Partial: []Reason{}, Notes: slices.Concat([]string{}, e.Bundle.Notes),
		Host:        HostFacts{URL: discovery.URL, Name: host.Name, Version: host.Version, Build: strings.Trim(host.Build.Kind+":"+host.Build.ID, ":")},
		Attribution: string(e.Bundle.Attribution),
	}
	for _, row := range results.Requirements {
		c.Totals.Add(row.Result)
	}
	c.Verdict = e.verdictOf(c.Totals)
	for _, p := range e.Bundle.Profiles {
		c.Profiles = append(c.Profiles, Profile{ID: p.ID, Certified: p.Certified, WitnessCount: p.WitnessCount, Why: slices.Concat([]string{}, p.Reasons)})
	}
	e.Results = Results{Certification: c, Suite: strings.TrimSpace(suite.Name + " " + suite.Version), Rows: results.Requirements}
	return e, nil
}

// verdictOf is the verdict that the rows of a bundle come to.
func (e *Evidence) verdictOf(totals bundle.Totals) Verdict {
	switch {
	case totals.ExecutedFail > 0:
		return Failed
	case totals.Blocked > 0:
		return Incomplete
	case e.Bundle.Sound && len(e.Bundle.CertifiedProfiles) > 0:
		return Certified
	}
	return NotCertified
}

// Rejected reports whether the bundle is one the verifier refuses.
func (e *Evidence) Rejected() bool { return e.Bundle != nil && !e.Bundle.Sound }

// Tapes reads what a scenario exchanged, test by test. Files that cannot be read are named in the error; the rest is
// there all the same.
func (e *Evidence) Tapes(scenario string) ([]harness.TestTape, error) {
	var tapes []harness.TestTape
	var errs []error
	for _, name := range e.tapes[scenario] {
		data, err := ReadFile(e.files, name)
		var tape harness.TestTape
		if err == nil {
			err = json.Unmarshal(data, &tape)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s cannot be read: %w", name, err))
			continue
		}
		tapes = append(tapes, tape)
	}
	return tapes, errors.Join(errs...)
}

// Scenarios are the scenarios that have captures, sorted.
func (e *Evidence) Scenarios() []string {
	var ids []string
	for id := range e.tapes {
		if id != CaptureDir && id != "." {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// ReadFile reads a file of an evidence directory, of at most 64 MiB. What is no file is refused before it is opened: a
// pipe nobody writes to would never answer.
func ReadFile(files fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(files, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	if info.Size() < maxFile {
		b.Grow(int(info.Size()) + bytes.MinRead)
	}
	if _, err := io.Copy(&b, io.LimitReader(f, maxFile+1)); err != nil {
		return nil, err
	}
	if b.Len() > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	return b.Bytes(), nil
}

// Row is one row as reports show it: what the bundle says, and what the registry knows of the requirement.
type Row struct {
	bundle.Row
	// Short is the id without its prefix.
	Short string
	// Rule is the registry's entry, zero for a row of a scenario and for one the registry does not know.
	Rule requirements.Requirement
	// Summary says that the row is the sum of a scenario's.
	Summary bool
	// Failures are the checks that did not hold.
	Failures []harness.Failure
}

// summaries counts the rows that sum up a scenario.
func (e *Evidence) summaries() (n int) {
	for _, row := range e.Rows() {
		if row.Summary {
			n++
		}
	}
	return n
}

// Partial reports a recommendation that was not followed, or a leg that was not observed.
func (r Row) Partial() bool { return strings.HasPrefix(r.Detail, harness.PartialWitness) }

// Rows joins the rows with the registry and with the failures, in the order of the file.
func (e *Evidence) Rows() []Row {
	failures := map[string][]harness.Failure{}
	for _, f := range e.Results.Failures {
		failures[string(f.Requirement)] = append(failures[string(f.Requirement)], f)
	}
	rows := make([]Row, 0, len(e.Results.Rows))
	for _, raw := range e.Results.Rows {
		row := Row{Row: raw, Short: raw.ID, Failures: failures[raw.ID]}
		if short, ok := strings.CutPrefix(raw.ID, requirements.Prefix); ok {
			row.Short = short
			if id, ok := requirements.Resolve(raw.ID); ok {
				row.Rule, _ = requirements.Get(id)
			}
		} else {
			row.Summary = strings.HasPrefix(raw.ID, "openwop.floor.") || strings.HasPrefix(raw.ID, "openwop.scenario.")
		}
		rows = append(rows, row)
	}
	return rows
}
