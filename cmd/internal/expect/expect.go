// Package expect holds a run against a list of failures that its owner knows
// of: what is listed does not end a build, and the list can only shrink.
package expect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"wopcert/bundle"
	"wopcert/report"
	"wopcert/requirements"
)

// Failure is one entry of the list.
type Failure struct {
	// Requirement is the id, in its short form or whole; a renamed one counts as
	// what it is called now.
	Requirement string `yaml:"requirement"`
	// Reason says why it fails, for whoever reads the list.
	Reason string `yaml:"reason"`
	// Until is the last day on which the entry counts, YYYY-MM-DD, in UTC.
	Until string `yaml:"until"`

	id   requirements.ID
	last time.Time
}

// maxList bounds the file: 1 MiB.
const maxList = 1 << 20

// Error is a list that cannot be used: what is wrong, with the entry it is in.
type Error struct{ Text string }

func (e *Error) Error() string { return e.Text }

// Read reads a list: a YAML sequence of entries that each name a requirement,
// a reason and a last day. Anything else is an *Error.
func Read(name string) ([]Failure, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, &Error{fmt.Sprintf("expected failures cannot be read: %v", err)}
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxList+1))
	if err != nil {
		return nil, &Error{fmt.Sprintf("expected failures cannot be read: %v", err)}
	}
	if len(data) > maxList {
		return nil, &Error{fmt.Sprintf("expected failures: %s is larger than %d bytes", name, maxList)}
	}
	var list []Failure
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&list); err != nil && !errors.Is(err, io.EOF) {
		return nil, &Error{fmt.Sprintf("expected failures: %s: %s", name, plain(err))}
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, &Error{fmt.Sprintf("expected failures: %s holds more than one document", name)}
	}
	seen := map[requirements.ID]bool{}
	for i := range list {
		if err := list[i].check(); err != nil {
			return nil, &Error{fmt.Sprintf("expected failures: %s, entry %d: %v", name, i+1, err)}
		}
		if seen[list[i].id] {
			return nil, &Error{fmt.Sprintf("expected failures: %s, entry %d: %s is listed twice", name, i+1, list[i].Requirement)}
		}
		seen[list[i].id] = true
	}
	return list, nil
}

// notAList is what the reader of YAML says of a text that is none, or that has other things than entries in it.
var notAList = regexp.MustCompile(`cannot unmarshal \S+ (?:.* )?into \S+`)

// plain says what is wrong with a text without the names of this program's own types.
func plain(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text = strings.Join(strings.Fields(strings.TrimPrefix(text, "unmarshal errors:")), " ")
	return notAList.ReplaceAllString(strings.ReplaceAll(text, " in type expect.Failure", ""), "not a list of entries")
}

func (f *Failure) check() error {
	id, ok := requirements.Resolve(f.Requirement)
	if !ok {
		return fmt.Errorf("there is no requirement %q; wopcert list requirements has the ids", f.Requirement)
	}
	f.id = id
	if strings.TrimSpace(f.Reason) == "" {
		return errors.New("it gives no reason")
	}
	day, err := time.Parse(time.DateOnly, f.Until)
	if err != nil {
		return fmt.Errorf("until is %q; give the last day as YYYY-MM-DD", f.Until)
	}
	f.last = day.Add(24*time.Hour - 1)
	return nil
}

// Judge holds the rows of a run against the list at a time. An entry is stale
// when its requirement passes, or does not bind the host; one whose
// requirement was not part of the run, or was blocked, says nothing.
func Judge(list []Failure, rows []bundle.Row, now time.Time) *report.Expectations {
	results := map[requirements.ID]bundle.Disposition{}
	for _, row := range rows {
		if id, ok := requirements.Resolve(row.ID); ok {
			results[id] = row.Result
		}
	}
	e := &report.Expectations{Expected: []report.ExpectedFailure{}, Stale: []string{}, Expired: []string{}, Unexpected: []string{}}
	listed := map[requirements.ID]bool{}
	for _, f := range list {
		listed[f.id] = true
		switch result := results[f.id]; {
		case now.After(f.last):
			e.Expired = append(e.Expired, string(f.id))
		case result == bundle.ExecutedFail:
			e.Expected = append(e.Expected, report.ExpectedFailure{Requirement: string(f.id), Reason: f.Reason, Until: f.Until})
		case result == bundle.ExecutedPass, result == bundle.Inapplicable:
			e.Stale = append(e.Stale, string(f.id))
		}
	}
	for id, result := range results {
		if result == bundle.ExecutedFail && !listed[id] {
			e.Unexpected = append(e.Unexpected, string(id))
		}
	}
	slices.Sort(e.Unexpected)
	return e
}
