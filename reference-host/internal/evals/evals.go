// Package evals holds the eval suites of the host and scores what an agent answers (agent-eval-suite schema).
package evals

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"

	"wopcert/bundle/jcs"
	"wopcert/corpus"
)

//go:embed suites/*.json
var files embed.FS

// Suite is one suite.
type Suite struct {
	ID            string   `json:"suiteId"`
	Version       string   `json:"version"`
	TargetAgentID string   `json:"targetAgentId"`
	Modes         []string `json:"modes"`
	Thresholds    struct {
		PassScore *float64 `json:"passScore"`
	} `json:"thresholds"`
	Tasks []Task `json:"tasks"`
}

// Task is one task. Rubrics are for people here: the host scores golden tasks only.
type Task struct {
	ID       string          `json:"taskId"`
	Input    json.RawMessage `json:"input"`
	Expected struct {
		Kind  string `json:"kind"`
		Match *struct {
			Strategy string          `json:"strategy"`
			Value    json.RawMessage `json:"value"`
		} `json:"match"`
	} `json:"expected"`
}

// Builtin returns the suites of the host by their ids.
func Builtin(contract *corpus.Corpus) (map[string]*Suite, error) {
	names, err := fs.Glob(files, "suites/*.json")
	if err != nil {
		return nil, err
	}
	suites := make(map[string]*Suite, len(names))
	for _, name := range names {
		document, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		suite, err := Parse(contract, document)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		suites[suite.ID] = suite
	}
	return suites, nil
}

// Parse checks one suite against the contract and against what this host scores.
func Parse(contract *corpus.Corpus, document []byte) (*Suite, error) {
	if err := contract.Validate("agent-eval-suite", document); err != nil {
		return nil, fmt.Errorf("eval suite: %w", err)
	}
	suite := new(Suite)
	if err := json.Unmarshal(document, suite); err != nil {
		return nil, fmt.Errorf("eval suite: %w", err)
	}
	if suite.Thresholds.PassScore == nil {
		return nil, fmt.Errorf("eval suite %s: thresholds.passScore: it says nothing of when it is passed", suite.ID)
	}
	for _, task := range suite.Tasks {
		if task.Expected.Kind != "golden" || task.Expected.Match == nil {
			return nil, fmt.Errorf("eval suite %s: task %s: this host scores golden tasks with a match only", suite.ID, task.ID)
		}
	}
	return suite, nil
}

// Score is 1 for an output that matches and 0 for any other.
func (t *Task) Score(output json.RawMessage) (float64, error) {
	want := t.Expected.Match.Value
	matched := false
	switch t.Expected.Match.Strategy {
	case "exact":
		matched = text(output) == text(want)
	case "contains":
		matched = strings.Contains(text(output), text(want))
	default: // json-match; the schema lets nothing else through
		canonical, err := jcs.Canonicalize(output)
		if err != nil {
			return 0, err
		}
		expected, err := jcs.Canonicalize(want)
		if err != nil {
			return 0, err
		}
		matched = bytes.Equal(canonical, expected)
	}
	if matched {
		return 1, nil
	}
	return 0, nil
}

// text is a value as text: a string itself, anything else its JSON.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
