package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"path"
	"slices"
	"strings"

	"wopcert/bundle"
)

// SARIF, version 2.1.0: the members that code scanning reads.
type (
	sarifFile struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool struct {
			Driver sarifDriver `json:"driver"`
		} `json:"tool"`
		Invocations []sarifInvocation `json:"invocations"`
		Results     []sarifResult     `json:"results"`
	}
	sarifDriver struct {
		Name            string      `json:"name"`
		SemanticVersion string      `json:"semanticVersion,omitempty"`
		Rules           []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string       `json:"id"`
		Name             string       `json:"name"`
		ShortDescription sarifText    `json:"shortDescription"`
		FullDescription  sarifText    `json:"fullDescription"`
		Help             sarifText    `json:"help"`
		Default          sarifDefault `json:"defaultConfiguration"`
	}
	sarifDefault struct {
		Level string `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifInvocation struct {
		Successful bool `json:"executionSuccessful"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		RuleIndex    int               `json:"ruleIndex"`
		Level        string            `json:"level"`
		Message      sarifText         `json:"message"`
		Locations    []sarifLocation   `json:"locations"`
		Fingerprints map[string]string `json:"partialFingerprints"`
	}
	sarifLocation struct {
		Physical struct {
			Artifact struct {
				URI string `json:"uri"`
			} `json:"artifactLocation"`
			Region struct {
				StartLine int `json:"startLine"`
			} `json:"region"`
		} `json:"physicalLocation"`
	}
)

// SARIF writes what failed as errors and what is recommended and not followed as warnings, for code scanning. A host
// has no source file here: a result points at the capture that shows it, by its path in the evidence directory, or
// at the results themselves.
func (e *Evidence) SARIF(w io.Writer) error {
	run := sarifRun{Invocations: []sarifInvocation{{Successful: e.Results.Verdict != SuiteFault}}, Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "wopcert", Rules: []sarifRule{}}
	if name, version, ok := strings.Cut(e.Results.Suite, " "); ok {
		run.Tool.Driver.Name, run.Tool.Driver.SemanticVersion = Clean(name), Clean(version)
	}
	for _, row := range e.Rows() {
		if row.Summary || row.Result != bundle.ExecutedFail && !row.Partial() {
			continue
		}
		level := "error"
		if row.Result != bundle.ExecutedFail {
			level = "note"
			if strings.HasPrefix(row.Rule.Level, "SHOULD") || row.Rule.Level == "RECOMMENDED" {
				level = "warning"
			}
		}
		run.add(row, level, e)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(sarifFile{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run},
	})
}

func (run *sarifRun) add(row Row, level string, e *Evidence) {
	id := Clean(row.ID)
	statement := row.Rule.Statement
	if statement == "" {
		statement = "A requirement that this version of the program does not know."
	}
	rule := sarifRule{
		ID: id, Name: Clean(row.Short), ShortDescription: sarifText{statement}, FullDescription: sarifText{statement},
		Help: sarifText{strings.TrimSpace(row.Rule.Document + " " + row.Rule.Section)}, Default: sarifDefault{level},
	}
	if rule.Help.Text == "" {
		rule.Help.Text = id
	}
	index := len(run.Tool.Driver.Rules)
	run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, rule)
	if len(row.Failures) == 0 {
		run.Results = append(run.Results, result(id, index, level, Clean(row.Detail), ResultsFile, ""))
		return
	}
	for _, f := range row.Failures {
		run.Results = append(run.Results, result(id, index, level, failureLines(f), e.captureOf(f.Scenario, f.Test), f.Test))
	}
}

func result(id string, index int, level, message, uri, test string) sarifResult {
	if message == "" {
		message = id
	}
	r := sarifResult{RuleID: id, RuleIndex: index, Level: level, Message: sarifText{message}, Locations: make([]sarifLocation, 1)}
	r.Locations[0].Physical.Artifact.URI = uri
	r.Locations[0].Physical.Region.StartLine = 1
	sum := sha256.Sum256([]byte(id + "\x00" + test))
	r.Fingerprints = map[string]string{"requirementAndTest/v1": hex.EncodeToString(sum[:16])}
	return r
}

// captureOf is the capture file of a test, by its name, or the results.
func (e *Evidence) captureOf(scenario, test string) string {
	files := e.tapes[scenario]
	if i := slices.IndexFunc(files, func(name string) bool { return strings.TrimSuffix(path.Base(name), ".json") == Slug(test) }); i >= 0 {
		return files[i]
	}
	return ResultsFile
}

// Slug makes a file name of a test's name: lower case letters, digits and single dashes, at most 80 bytes.
func Slug(name string) string {
	var b strings.Builder
	dash := false
	for _, r := range strings.ToLower(name) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
			dash = false
		} else if !dash && b.Len() > 0 {
			b.WriteByte('-')
			dash = true
		}
		if b.Len() >= 80 {
			break
		}
	}
	return strings.Trim(b.String(), "-")
}
