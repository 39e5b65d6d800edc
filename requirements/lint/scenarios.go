package lint

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"wopcert/requirements"
)

// scenario is what a literal harness.Scenario says.
type scenario struct {
	id        string
	pos       token.Pos
	witnessed map[requirements.ID][]string // the methods an id is asserted with
	declared  map[requirements.ID]token.Pos
}

// scenarios reads every scenario and test of the package and holds them to
// each other and to the registry.
func (c *checker) scenarios() {
	var all []scenario
	read := map[*ast.CompositeLit]bool{}
	reached := map[*ast.CallExpr]bool{}
	c.literals("Scenario", func(lit *ast.CompositeLit) {
		if s, ok := c.scenario(lit, read, reached); ok {
			all = append(all, s)
		}
	})
	c.literals("Test", func(lit *ast.CompositeLit) {
		if !read[lit] {
			c.report(lit.Pos(), Shape, "this test is outside a scenario; write it inside the Tests of its harness.Scenario literal")
		}
	})
	c.assignments()
	for call, a := range c.asserted {
		if !reached[call] {
			c.report(call.Pos(), Declared, "no test reaches this assertion of %s; use the function in a test or remove it", a.name)
		}
	}
	c.uniqueness(all)
	c.registered(all)
}

// literals visits the composite literals of a harness type, also where the
// type is left out inside a slice.
func (c *checker) literals(name string, visit func(*ast.CompositeLit)) {
	for _, f := range c.files {
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.CompositeLit); ok && c.isNamed(c.info.TypeOf(lit), c.names.harness, name) {
				visit(lit)
			}
			return true
		})
	}
}

// assignments reports fields of scenarios and tests that are set afterwards,
// since only the literals are read.
func (c *checker) assignments() {
	for _, f := range c.files {
		ast.Inspect(f, func(n ast.Node) bool {
			assign, ok := n.(*ast.AssignStmt)
			if !ok {
				return true
			}
			for _, left := range assign.Lhs {
				sel, ok := ast.Unparen(left).(*ast.SelectorExpr)
				if !ok {
					continue
				}
				of := c.info.TypeOf(sel.X)
				if c.isNamed(of, c.names.harness, "Scenario") || c.isNamed(of, c.names.harness, "Test") {
					c.report(left.Pos(), Shape, "%s is set outside the literal and cannot be read; write it in the literal", sel.Sel.Name)
				}
			}
			return true
		})
	}
}

// fields returns the keyed members of a literal, nil when it is not keyed.
func (c *checker) fields(lit *ast.CompositeLit) map[string]ast.Expr {
	out := map[string]ast.Expr{}
	for _, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			c.report(e.Pos(), Shape, "write the field's name before its value")
			return nil
		}
		if key, ok := kv.Key.(*ast.Ident); ok {
			out[key.Name] = kv.Value
		}
	}
	return out
}

// scenario reads one literal. It reports false when the literal has no id to
// go by.
func (c *checker) scenario(lit *ast.CompositeLit, read map[*ast.CompositeLit]bool, reached map[*ast.CallExpr]bool) (scenario, bool) {
	s := scenario{pos: lit.Pos(), witnessed: map[requirements.ID][]string{}, declared: map[requirements.ID]token.Pos{}}
	fields := c.fields(lit)
	value := c.info.Types[fields["ID"]].Value
	if fields["ID"] == nil || value == nil || value.Kind() != constant.String || constant.StringVal(value) == "" {
		c.report(lit.Pos(), Shape, "the scenario has no literal id; write ID: \"v2-…\"")
		return s, false
	}
	s.id = constant.StringVal(value)
	tests, ok := fields["Tests"].(*ast.CompositeLit)
	if !ok || len(tests.Elts) == 0 {
		c.report(lit.Pos(), Shape, "%s has no literal tests; write Tests: []harness.Test{…}", s.id)
		return s, true
	}
	for _, e := range tests.Elts {
		test, ok := e.(*ast.CompositeLit)
		if !ok {
			c.report(e.Pos(), Shape, "this test of %s is not a literal; write {Name: …, Witnesses: …, Run: …}", s.id)
			continue
		}
		read[test] = true
		c.test(&s, test, reached)
	}
	for id, pos := range s.declared {
		c.level(s, id, pos)
	}
	return s, true
}

// test reads one test of a scenario and compares what it asserts with what it
// declares.
func (c *checker) test(s *scenario, lit *ast.CompositeLit, reached map[*ast.CallExpr]bool) {
	fields := c.fields(lit)
	declared := c.witnesses(s, lit, fields["Witnesses"])
	run := fields["Run"]
	switch f := run.(type) {
	case *ast.FuncLit:
	case *ast.Ident:
		if fn, ok := c.info.Uses[f].(*types.Func); !ok || c.bodies[fn] == nil {
			c.report(f.Pos(), Shape, "%s is no function of this package; Run is a function literal or names one", f.Name)
			return
		}
	default:
		pos := lit.Pos()
		if run != nil {
			pos = run.Pos()
		}
		c.report(pos, Shape, "Run is neither a function literal nor the name of a function of this package")
		return
	}
	for call := range c.reach(run) {
		reached[call] = true
		a := c.asserted[call]
		if a.witnesses() {
			s.witnessed[a.id] = append(s.witnessed[a.id], a.method)
		}
		if !slices.Contains(declared, a.id) {
			c.report(call.Pos(), Declared, "a test of %s (line %d) asserts requirements.%s and does not declare it; add it to the test's Witnesses",
				s.id, c.fset.Position(lit.Pos()).Line, a.name)
		}
	}
}

// witnesses reads the declared ids of a test.
func (c *checker) witnesses(s *scenario, test *ast.CompositeLit, e ast.Expr) []requirements.ID {
	list, ok := e.(*ast.CompositeLit)
	if !ok || len(list.Elts) == 0 {
		pos := test.Pos()
		if e != nil {
			pos = e.Pos()
		}
		c.report(pos, Shape, "the test declares nothing readable; write Witnesses: []requirements.ID{requirements.X, …}")
		return nil
	}
	var out []requirements.ID
	for _, e := range list.Elts {
		id, name, ok := c.constant(e)
		if !ok {
			c.report(e.Pos(), Selector, "a witness is not a constant of package requirements; write requirements.X")
			continue
		}
		if slices.Contains(out, id) {
			c.report(e.Pos(), Declared, "the test declares requirements.%s twice; remove one", name)
		}
		out = append(out, id)
		if _, seen := s.declared[id]; !seen {
			s.declared[id] = e.Pos()
		}
	}
	return out
}

// reach returns the assertions that running e can come to: those in e, and
// those in every function or variable of the package that it names, in turn.
func (c *checker) reach(e ast.Node) map[*ast.CallExpr]bool {
	out := map[*ast.CallExpr]bool{}
	seen := map[types.Object]bool{}
	var visit func(ast.Node)
	visit = func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if _, ok := c.asserted[n]; ok {
					out[n] = true
				}
			case *ast.Ident:
				obj := c.info.Uses[n]
				if fn, ok := obj.(*types.Func); ok {
					obj = fn.Origin()
				}
				if body := c.bodies[obj]; body != nil && !seen[obj] {
					seen[obj] = true
					visit(body)
				}
			}
			return true
		})
	}
	visit(e)
	return out
}

// level holds a declared id to how it is asserted.
func (c *checker) level(s scenario, id requirements.ID, pos token.Pos) {
	methods := s.witnessed[id]
	if len(methods) == 0 {
		c.report(pos, Declared, "%s declares %s and no test of it asserts it with Expect or Should; assert it or remove the declaration", s.id, id)
		return
	}
	i := slices.IndexFunc(c.registry, func(r requirements.Requirement) bool { return r.ID == id })
	if i < 0 {
		return // registered reports it
	}
	switch level := c.registry[i].Level; {
	case strings.HasPrefix(level, "MUST") || level == "REQUIRED":
		if !slices.Contains(methods, "Expect") {
			c.report(pos, Level, "%s is a %s and is asserted with Should alone, so that nothing fails it; use t.Expect", id, level)
		}
	case slices.Contains(methods, "Expect"):
		c.report(pos, Level, "%s is a %s and is asserted with Expect, which would fail a host that does otherwise; use t.Should", id, level)
	}
}

// uniqueness reports a scenario id that is used again.
func (c *checker) uniqueness(all []scenario) {
	first := map[string]token.Pos{}
	for _, s := range all {
		if pos, seen := first[s.id]; seen {
			c.report(s.pos, Twice, "the scenario %s is declared in line %d of %s already; give this one its own id or merge them",
				s.id, c.fset.Position(pos).Line, c.fset.Position(pos).Filename)
			continue
		}
		first[s.id] = s.pos
	}
}

// registered compares the declared ids with the registry.
func (c *checker) registered(all []scenario) {
	known := map[requirements.ID]requirements.Requirement{}
	for _, r := range c.registry {
		known[r.ID] = r
	}
	declared := map[requirements.ID]bool{}
	for _, s := range all {
		for id, pos := range s.declared {
			declared[id] = true
			switch r, ok := known[id]; {
			case !ok:
				c.report(pos, Registry, "%s is not in the registry; add its row to requirements/registry.json", id)
			case r.Scenario != s.id:
				c.report(pos, Registry, "%s belongs to the scenario %s in the registry, not to %s; move the test or change the row", id, r.Scenario, s.id)
			}
		}
	}
	for _, r := range c.registry {
		if !declared[r.ID] {
			c.findings = append(c.findings, Finding{Position: token.Position{Filename: c.dir, Line: 0}, Rule: Registry,
				Message: "no test declares " + string(r.ID) + "; write one in the scenario " + r.Scenario})
		}
	}
}
