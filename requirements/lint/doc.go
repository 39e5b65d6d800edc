// Package lint reads the Go source of the scenarios and reports every
// assertion that does not name its requirement in the one form there is, and
// every disagreement between what tests declare, what they assert and what the
// registry holds.
//
// What it accepts is a scenario written as a literal,
//
//	harness.Scenario{ID: "v2-…", Tests: []harness.Test{{
//		Name: "…", Witnesses: []requirements.ID{requirements.X},
//		Run:  func(t *harness.T) { t.Expect(requirements.X, …) },
//	}}}
//
// where Run may also name a function of the package. The rules are listed
// under [Rule].
package lint

import (
	"fmt"
	"go/token"
	"slices"
	"strings"

	"wopcert/requirements"
)

// Rule names what a finding is about.
type Rule string

const (
	// Selector: Expect, Should, Inapplicable and Blocked are called, and their
	// first argument is a constant of package requirements, written there.
	Selector Rule = "selector"
	// Assertion: nothing else asserts. No testing package, no method of T
	// named like an assertion, no panic or exit.
	Assertion Rule = "assertion"
	// Declared: a test declares every id it asserts, directly or in a function
	// it uses, and an id is asserted in the scenario that declares it.
	Declared Rule = "declared"
	// Registry: every requirement of the registry is declared, in the scenario
	// the registry gives it, and nothing else is.
	Registry Rule = "registry"
	// Twice: a scenario id is declared once.
	Twice Rule = "twice"
	// Level: a requirement that must hold can fail, and a recommendation
	// cannot.
	Level Rule = "level"
	// Shape: scenarios and tests are literals that can be read.
	Shape Rule = "shape"
)

// Finding is one violation.
type Finding struct {
	Position token.Position
	Rule     Rule
	Message  string // what is wrong, and what to write instead
}

// String renders a finding as file:line: message.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s (%s)", f.Position.Filename, f.Position.Line, f.Message, f.Rule)
}

// Dir reads the package in dir, tests aside, and returns what violates a rule,
// sorted by position. It runs the go command to find what the package imports.
// The error is about source that cannot be read: no Go files, or files that do
// not compile.
func Dir(dir string) ([]Finding, error) {
	p, err := load(dir)
	if err != nil {
		return nil, fmt.Errorf("lint %s: %w", dir, err)
	}
	return check(p, names{
		harness:      "wopcert/harness",
		requirements: "wopcert/requirements",
	}, requirements.All()), nil
}

// names are the import paths of the packages the rules speak of.
type names struct {
	harness, requirements string
}

// check applies the rules to a loaded package.
func check(p *source, n names, registry []requirements.Requirement) []Finding {
	c := &checker{source: p, names: n, registry: registry}
	c.index()
	c.imports()
	c.calls()
	c.scenarios()
	slices.SortFunc(c.findings, func(a, b Finding) int {
		return strings.Compare(sortKey(a), sortKey(b))
	})
	return slices.Compact(c.findings)
}

func sortKey(f Finding) string {
	return fmt.Sprintf("%s\x00%08d\x00%08d\x00%s", f.Position.Filename, f.Position.Line, f.Position.Column, f.Message)
}
