package certify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"

	"wopcert/bundle"
	"wopcert/bundle/jcs"
	"wopcert/harness"
	"wopcert/report"
	"wopcert/requirements"
)

const (
	mergeHint = "wopcert certify --shard I/N writes the directories that can be merged"
	partHint  = "certify this part again"
	sameHint  = "all parts run with the same settings against the same host"
)

// readPart reads the evidence of a shard. What it says is judged by fit.
func readPart(dir string) (*part, error) {
	p := &part{dir: dir}
	files := os.DirFS(dir)
	data, err := report.ReadFile(files, report.ResultsFile)
	if err != nil {
		return nil, &MergeError{Text: fmt.Sprintf("%s: %s cannot be read: %v", dir, report.ResultsFile, cause(err)), Hint: mergeHint, Unreadable: true}
	}
	if err := json.Unmarshal(data, &p.results); err != nil {
		return nil, &MergeError{Text: fmt.Sprintf("%s: %s cannot be read: %v", dir, report.ResultsFile, err), Hint: mergeHint, Unreadable: true}
	}
	if p.results.Certification == nil || p.results.Shard == nil {
		return nil, refuse(mergeHint, "%s is the evidence of a whole run, not of a shard", dir)
	}
	p.shard = p.results.Shard
	switch {
	case p.shard.Count < 1, p.shard.Index < 1, p.shard.Index > p.shard.Count:
		return nil, refuse(partHint, "%s: there is no such shard", p)
	case p.results.Interrupted:
		return nil, refuse(partHint, "%s was interrupted", p)
	case len(p.results.SuiteFaults) > 0:
		return nil, refuse("", "%s met a defect of the suite itself: %s", p, p.results.SuiteFaults[0])
	}
	p.sealed, err = report.ReadFile(files, report.BundleFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, refuse("a shard of scenarios that do not bind the host has nothing to attest: divide the run into fewer", "%s holds no bundle", p)
	case err == nil:
		err = json.Unmarshal(p.sealed, &p.bundle)
	}
	if err != nil {
		return nil, refuse(partHint, "%s: %s cannot be read: %v", p, report.BundleFile, cause(err))
	}
	if p.discovery, err = report.ReadFile(files, discoveryFile); err != nil {
		return nil, refuse(partHint, "%s: %s cannot be read: %v", p, discoveryFile, cause(err))
	}
	return p, nil
}

// cause leaves out the name of a file that the text around it has.
func cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// fit refuses parts that are not all the parts of one run, and narrows the request to the
// selection of that run. The parts are in order of their index.
func (q *Request) fit(parts []*part, all []harness.Scenario) error {
	if err := agree(parts); err != nil {
		return err
	}
	if err := complete(parts); err != nil {
		return err
	}
	first := parts[0]
	for _, own := range [][3]string{
		{"suite", first.bundle.Suite.Name + " " + first.bundle.Suite.Version, bundle.SuiteName + " " + q.suiteVersion()},
		{"contract version", first.bundle.Suite.SpecArtifactsVersion, q.Corpus.Version()},
		{"contract stamp", first.bundle.Suite.StampSHA256, q.Corpus.StampSHA256()},
	} {
		if own[1] != own[2] {
			return refuse("merge with the program that ran the shards, and with the same --corpus", "%s was made with the %s %s; this program has %s", first, own[0], own[1], own[2])
		}
	}
	for _, p := range parts {
		if err := q.believe(p); err != nil {
			return err
		}
	}
	return q.reselect(parts, all)
}

// agree compares what all parts have to have in common.
func agree(parts []*part) error {
	members := []struct {
		name string
		of   func(*part) string
	}{
		{"number of shards", func(p *part) string { return fmt.Sprint(p.shard.Count) }},
		{"host name", func(p *part) string { return p.bundle.Host.Name }},
		{"host version", func(p *part) string { return p.bundle.Host.Version }},
		{"host build", func(p *part) string { return p.bundle.Host.Build.Kind + ":" + p.bundle.Host.Build.ID }},
		{"host address", func(p *part) string { return p.bundle.Discovery.URL }},
		{"discovery document", func(p *part) string { return "sha256 " + p.bundle.Discovery.SHA256 }},
		{"suite version", func(p *part) string { return p.bundle.Suite.Name + " " + p.bundle.Suite.Version }},
		{"contract version", func(p *part) string { return p.bundle.Suite.SpecArtifactsVersion }},
		{"contract stamp", func(p *part) string { return p.bundle.Suite.StampSHA256 }},
		{"selection", func(p *part) string { return "sha256 " + p.shard.SelectionSHA256 }},
		{"costs", func(p *part) string { return "sha256 " + p.shard.CostsSHA256 }},
		{"relaxations", func(p *part) string { return listed(p.bundle.Host.Relaxations) }},
		{"opt-outs", func(p *part) string { return listed(p.shard.OptOuts) }},
		{"claim of recovery", func(p *part) string { return orNone(p.shard.RecoverySHA256) }},
		{"keys given", func(p *part) string { return listed(p.shard.Credentials) }},
	}
	for _, p := range parts[1:] {
		for _, m := range members {
			if a, b := m.of(parts[0]), m.of(p); a != b {
				return refuse(sameHint, "%s and %s differ in the %s: %s and %s", parts[0], p, m.name, a, b)
			}
		}
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func listed[E any](list []E) string {
	if len(list) == 0 {
		return "none"
	}
	text, _ := json.Marshal(list) // strings, and structs of strings
	return string(text)
}

// complete refuses a part that is given twice and one that is missing.
func complete(parts []*part) error {
	given := map[int]*part{}
	for _, p := range parts {
		if other := given[p.shard.Index]; other != nil {
			return refuse("give each shard once", "%s is given twice: %s is it as well", p, other.dir)
		}
		given[p.shard.Index] = p
	}
	var missing []string
	for i := range parts[0].shard.Count {
		if given[i+1] == nil {
			missing = append(missing, fmt.Sprint(i+1))
			if len(missing) > 20 {
				break
			}
		}
	}
	if len(missing) > 0 {
		return refuse("give the directories of all shards", "of %d shards these are missing: %s", parts[0].shard.Count, strings.Join(missing, ", "))
	}
	return nil
}

// believe holds a part against the verifier, and what lies beside its bundle against the bundle.
func (q *Request) believe(p *part) error {
	verified := bundle.Verify(p.sealed, bundle.Options{Corpus: q.Corpus})
	if !verified.Sound {
		return refuse(partHint, "the bundle of %s is rejected: %s", p, verified.Rejections[0].Detail)
	}
	p.attribution = verified.Attribution
	held, err := jcs.SHA256(p.discovery)
	if err != nil || held != p.bundle.Discovery.SHA256 || held != p.shard.DiscoverySHA256 {
		return refuse(partHint, "%s: %s is not the discovery document that its bundle and its %s name", p, discoveryFile, report.ResultsFile)
	}
	sealed, told := p.bundle.Results.Requirements, slices.Clone(p.results.Rows)
	slices.SortStableFunc(told, func(x, y bundle.Row) int { return jcs.CompareUTF16(x.ID, y.ID) })
	for i := range max(len(sealed), len(told)) {
		if i >= len(sealed) || i >= len(told) || !reflect.DeepEqual(sealed[i], told[i]) {
			return refuse(partHint, "%s: the rows in %s are not those of its bundle, the first of them %s", p, report.ResultsFile, rowAt(i, sealed, told))
		}
	}
	return p.consistent()
}

func rowAt(i int, lists ...[]bundle.Row) string {
	for _, list := range lists {
		if i < len(list) {
			return list[i].ID
		}
	}
	return ""
}

// consistent holds failures, tests and scenarios against the rows.
func (p *part) consistent() error {
	failed, told := map[string]bool{}, map[string]bool{}
	for _, row := range p.bundle.Results.Requirements {
		if row.Result == bundle.ExecutedFail && strings.HasPrefix(row.ID, requirements.Prefix) {
			failed[row.ID] = true
		}
		if !slices.Contains(p.shard.Scenarios, row.Scenario) {
			return refuse(partHint, "%s: its bundle has a row of %s, which is not one of its scenarios", p, row.Scenario)
		}
	}
	for _, f := range p.results.Failures {
		told[string(f.Requirement)] = true
		if !slices.Contains(p.shard.Scenarios, f.Scenario) {
			return refuse(partHint, "%s: %s has a failure of %s, which is not one of its scenarios", p, report.ResultsFile, f.Scenario)
		}
	}
	if !reflect.DeepEqual(failed, told) {
		return refuse(partHint, "%s: the failures in %s are not those of its rows", p, report.ResultsFile)
	}
	for _, t := range p.results.Tests {
		if !slices.Contains(p.shard.Scenarios, t.Scenario) {
			return refuse(partHint, "%s: %s has a test of %s, which is not one of its scenarios", p, report.ResultsFile, t.Scenario)
		}
	}
	return nil
}

// reselect narrows the request to the selection of the run, and refuses parts whose scenarios
// are not all of it, each once.
func (q *Request) reselect(parts []*part, all []harness.Scenario) error {
	typed := parts[0].shard.Selection
	whole := Selection{Scenarios: typed.Scenarios, Requirements: typed.Requirements, Profiles: typed.Profiles}
	var err error
	if q.Scenarios, err = whole.Apply(all, q.Corpus); err != nil {
		return refuse("", "%s: its selection: %v", parts[0], err)
	}
	if len(q.Selection.Profiles) == 0 {
		q.Selection = whole
	}
	var ids []string
	owner := map[string]*part{}
	for _, sc := range q.Scenarios {
		ids = append(ids, sc.ID)
	}
	if named, err := selectionDigest(ids, typed.Profiles); err != nil || named != parts[0].shard.SelectionSHA256 {
		return refuse(partHint, "%s: its selection is not what its digest names", parts[0])
	}
	for _, p := range parts {
		for _, id := range p.shard.Scenarios {
			if other := owner[id]; other != nil {
				return refuse("", "%s and %s both ran %s", other, p, id)
			}
			if !slices.Contains(ids, id) {
				return refuse("", "%s ran %s, which is not part of the selection", p, id)
			}
			owner[id] = p
		}
	}
	for _, id := range ids {
		if owner[id] == nil {
			return refuse("", "no shard ran %s", id)
		}
	}
	return nil
}
