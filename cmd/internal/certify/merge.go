package certify

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"wopcert/bundle"
	"wopcert/bundle/jcs"
	"wopcert/harness"
	"wopcert/report"
)

// MergeError says why parts do not make a whole.
type MergeError struct {
	Text, Hint string
	Unreadable bool // there was nothing to judge
}

func (e *MergeError) Error() string { return e.Text }

func refuse(hint, format string, args ...any) error {
	return &MergeError{Text: fmt.Sprintf(format, args...), Hint: hint}
}

// Merge makes one evidence directory and one signed bundle of the parts of a divided run.
// The rows are those of the parts' bundles, each verified; all is the whole suite. Of the
// request it takes the contract, the signing key, the output directory, the judge and the
// profiles asked for, which are those of the run when there are none. Parts that do not
// fit together are a *MergeError.
func Merge(dirs []string, all []harness.Scenario, q Request) (*report.Certification, error) {
	evidence, err := PrepareEvidence(q.Out)
	if err != nil {
		return nil, err
	}
	defer evidence.Discard()
	var parts []*part
	for _, dir := range dirs {
		p, err := readPart(dir)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	slices.SortStableFunc(parts, func(a, b *part) int { return a.shard.Index - b.shard.Index })
	if err := q.fit(parts, all); err != nil {
		return nil, err
	}
	results, err := q.assemble(parts)
	if err != nil {
		return nil, err
	}
	notes := append([]string{fmt.Sprintf("merged from %d shards", len(parts))}, q.crowded(parts)...)
	for _, p := range parts {
		if q.SigningKey != nil && p.attribution != bundle.Attributable {
			notes = append(notes, fmt.Sprintf("%s is %s: the signature of the merged bundle vouches for it as it was handed over", p, p.attribution))
		}
	}
	return q.conclude(evidence, results, notes, func(e *Evidence) error { return copyTapes(e, parts) })
}

// part is the evidence of one shard.
type part struct {
	dir         string
	results     report.Results
	shard       *report.Shard
	bundle      bundle.Bundle
	sealed      []byte // the bundle's bytes
	discovery   []byte
	attribution bundle.Attribution
}

func (p *part) String() string {
	return fmt.Sprintf("shard %d of %d (%s)", p.shard.Index, p.shard.Count, p.dir)
}

// assemble puts the parts together as one run would have seen it, and the request as that
// run would have been given it.
func (q *Request) assemble(parts []*part) (*harness.Results, error) {
	first := parts[0]
	q.OptOuts, q.Relaxations = first.shard.OptOuts, first.bundle.Host.Relaxations
	if build := first.bundle.Host.Build; build.ID != bundle.BuildUnstated {
		q.HostBuild = &build
	}
	if first.shard.RecoverySHA256 != "" {
		q.Recovery = &harness.Recovery{}
	}
	base, err := harness.ParseBaseURL(strings.TrimSuffix(first.bundle.Discovery.URL, harness.WellKnown))
	if err != nil {
		return nil, refuse("", "%s: %v", first, err)
	}
	document, err := jcs.Decode(first.discovery)
	object, ok := document.(map[string]any)
	if err != nil || !ok {
		return nil, refuse("", "%s: %s holds no JSON object", first, discoveryFile)
	}
	r := &harness.Results{Host: &harness.Host{Base: base, Discovery: &harness.Discovery{
		URL: first.bundle.Discovery.URL, Raw: first.discovery, Document: object,
	}}}
	if r.Rows, err = q.order(parts); err != nil {
		return nil, err
	}
	place := map[string]int{}
	for i, sc := range q.Scenarios {
		place[sc.ID] = i
	}
	for _, p := range parts {
		r.Failures = append(r.Failures, p.results.Failures...)
		r.Tests = append(r.Tests, p.results.Tests...)
		// Parts run side by side: the whole took as long as the longest.
		r.Duration = max(r.Duration, time.Duration(p.results.DurationMs)*time.Millisecond)
		r.Longest = max(r.Longest, time.Duration(p.results.LongestMs)*time.Millisecond)
	}
	slices.SortStableFunc(r.Failures, func(a, b harness.Failure) int { return place[a.Scenario] - place[b.Scenario] })
	slices.SortStableFunc(r.Tests, func(a, b harness.TestResult) int { return a.Started.Compare(b.Started) })
	return r, nil
}

// order puts the rows in the order of the suite, and refuses any that are missing or too many.
func (q *Request) order(parts []*part) ([]bundle.Row, error) {
	var ordered []bundle.Row
	from := map[string]*part{}
	rows := map[string]bundle.Row{}
	for _, p := range parts {
		for _, row := range p.bundle.Results.Requirements {
			if other, twice := from[row.ID]; twice {
				return nil, refuse("", "%s and %s both hold the row %s", other, p, row.ID)
			}
			rows[row.ID], from[row.ID] = row, p
		}
	}
	take := func(scenario, id string) bool {
		row, ok := rows[id]
		ok = ok && row.Scenario == scenario
		if ok {
			ordered = append(ordered, row)
			delete(rows, id)
		}
		return ok
	}
	for _, sc := range q.Scenarios {
		for _, id := range sc.Requirements() {
			if !take(sc.ID, string(id)) {
				return nil, refuse("", "no shard holds the row %s of %s", id, sc.ID)
			}
		}
		if !take(sc.ID, bundle.FloorRowID(sc.ID)) && !take(sc.ID, bundle.ScenarioRowID(sc.ID)) {
			return nil, refuse("", "no shard holds the row that sums up %s", sc.ID)
		}
	}
	for id := range rows {
		return nil, refuse("", "%s holds the row %s, which is none of its scenarios'", from[id], id)
	}
	return ordered, nil
}

// copyTapes stages the captures of every part, each for its own scenarios. What was exchanged
// before the first test is the first part's.
func copyTapes(e *Evidence, parts []*part) error {
	others := map[string]bool{}
	for _, p := range parts[1:] {
		for _, scenario := range p.shard.Scenarios {
			others[scenario] = true
			if err := copyFolder(e, p, path.Join(report.CaptureDir, scenario)); err != nil {
				return err
			}
		}
	}
	entries, err := os.ReadDir(filepath.Join(parts[0].dir, report.CaptureDir))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() && !others[entry.Name()] {
			if err := copyFolder(e, parts[0], path.Join(report.CaptureDir, entry.Name())); err != nil {
				return err
			}
		}
	}
	return copyFolder(e, parts[0], report.CaptureDir)
}

// copyFolder stages the captures that lie in a folder itself.
func copyFolder(e *Evidence, p *part, folder string) error {
	entries, err := os.ReadDir(filepath.Join(p.dir, filepath.FromSlash(folder)))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, entry := range entries {
		name := path.Join(folder, entry.Name())
		if !entry.Type().IsRegular() || path.Ext(name) != ".json" {
			continue
		}
		data, err := report.ReadFile(os.DirFS(p.dir), name)
		if err != nil {
			return err
		}
		if err := e.Write(name, data); err != nil {
			return err
		}
	}
	return nil
}
