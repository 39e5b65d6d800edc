package lint

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/requirements"
)

// TestScenarios holds the scenarios of this project to every rule.
func TestScenarios(t *testing.T) {
	t.Parallel()
	findings, err := Dir(filepath.Join("..", "..", "scenarios"))
	require.NoError(t, err)
	for _, f := range findings {
		t.Error(f)
	}
}

// rows are registry rows of the given scenario.
func rows(scenario string, ids ...requirements.ID) []requirements.Requirement {
	var out []requirements.Requirement
	for _, id := range ids {
		r, ok := requirements.Get(id)
		if !ok {
			panic(id)
		}
		r.Scenario = scenario
		out = append(out, r)
	}
	return out
}

// TestRules reads one source per rule, in which a comment states each finding:
// want RULE "part of the message", several in one line when there are several.
func TestRules(t *testing.T) {
	t.Parallel()
	cancel := rows("v2-one", requirements.R0170RunCancel)
	cases := map[string]struct {
		registry []requirements.Requirement
		whole    []string // findings about the package as a whole
	}{
		"clean":       {registry: append(rows("v2-one", requirements.R0170RunCancel, requirements.EventsSequence), rows("v2-two", requirements.R0213LastEventIdMalformed)...)},
		"selector":    {registry: cancel},
		"dotimport":   {registry: cancel},
		"assertion":   {registry: cancel},
		"undeclared":  {registry: cancel},
		"unasserted":  {registry: rows("v2-one", requirements.R0170RunCancel, requirements.EventsSequence)},
		"twice":       {registry: cancel},
		"level":       {registry: rows("v2-one", requirements.R0170RunCancel, requirements.R0213LastEventIdMalformed)},
		"shape":       {registry: cancel},
		"constrained": {registry: cancel},
		"registry": {
			registry: append(rows("v2-other", requirements.R0194TerminalOnce), rows("v2-one", requirements.R0170RunCancel, requirements.RunsSnapshotValid)...),
			whole:    []string{"no test declares openwop.requirement.runs.snapshot-valid; write one in the scenario v2-one"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join("testdata", name)
			p, err := load(dir)
			require.NoError(t, err)
			findings := check(p, names{harness: "wopcert/requirements/lint/testdata/harness", requirements: "wopcert/requirements"}, c.registry)
			wants := expectations(t, dir)
			if name != "clean" {
				require.NotEmpty(t, findings)
			}
			for _, f := range findings {
				assert.True(t, take(&wants, &c.whole, f), "unexpected: %s", f)
				assert.NotEmpty(t, f.String())
			}
			for _, w := range wants {
				t.Errorf("%s:%d: no finding %s %q", w.file, w.line, w.rule, w.part)
			}
			assert.Empty(t, c.whole, "findings about the whole that did not come")
		})
	}
}

// want is one finding a comment asks for.
type want struct {
	file string
	line int
	rule Rule
	part string
}

// take removes the expectation that f meets and reports whether there was one.
func take(wants *[]want, whole *[]string, f Finding) bool {
	if f.Position.Line == 0 {
		for i, w := range *whole {
			if w == f.Message && f.Rule == Registry {
				*whole = append((*whole)[:i:i], (*whole)[i+1:]...)
				return true
			}
		}
		return false
	}
	for i, w := range *wants {
		sameLine := w.file == filepath.Base(f.Position.Filename) && (w.line == f.Position.Line || strings.Contains(f.Message, "build constraints"))
		if sameLine && w.rule == f.Rule && strings.Contains(f.Message, w.part) {
			*wants = append((*wants)[:i:i], (*wants)[i+1:]...)
			return true
		}
	}
	return false
}

var wantPattern = regexp.MustCompile(`([a-z]+) "([^"]+)"`)

// expectations reads the comments of the sources in dir.
func expectations(t *testing.T, dir string) []want {
	t.Helper()
	var out []want
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, entry := range files {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, filepath.Join(dir, entry.Name()), nil, parser.ParseComments)
		require.NoError(t, err)
		for _, group := range f.Comments {
			for _, comment := range group.List {
				text, ok := strings.CutPrefix(comment.Text, "// want ")
				if !ok {
					continue
				}
				found := wantPattern.FindAllStringSubmatch(text, -1)
				require.NotEmpty(t, found, comment.Text)
				for _, m := range found {
					out = append(out, want{file: entry.Name(), line: fset.Position(comment.Pos()).Line, rule: Rule(m[1]), part: m[2]})
				}
			}
		}
	}
	return out
}

func TestUnreadableSource(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	_, err := Dir(empty)
	require.ErrorContains(t, err, "no Go file")
	_, err = Dir(filepath.Join("testdata", "broken"))
	require.ErrorContains(t, err, "broken.go")
	_, err = Dir(filepath.Join("testdata", "no-such-folder"))
	require.ErrorContains(t, err, "no Go file")
}

func TestFindingSaysWhere(t *testing.T) {
	t.Parallel()
	f := Finding{Position: token.Position{Filename: "runs_cancel.go", Line: 12}, Rule: Selector, Message: "write t.Expect(requirements.X, check)"}
	assert.Equal(t, "runs_cancel.go:12: write t.Expect(requirements.X, check) (selector)", f.String())
}
