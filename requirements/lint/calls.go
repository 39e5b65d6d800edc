package lint

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"wopcert/requirements"
)

// checker applies the rules to one package.
type checker struct {
	*source
	names    names
	registry []requirements.Requirement
	findings []Finding

	// bodies are the functions and variables of the package, with their
	// source: what a test uses when it names one.
	bodies map[types.Object]ast.Node
	// asserted are the well-formed assertions, by their call.
	asserted map[*ast.CallExpr]assertion
}

// assertion is one call of an assertion method with a requirement's constant.
type assertion struct {
	method string
	id     requirements.ID
	name   string // the constant
}

// witnesses tells an assertion that observes from one that says why not.
func (a assertion) witnesses() bool { return a.method == "Expect" || a.method == "Should" }

func assertionMethods() []string { return []string{"Expect", "Should", "Inapplicable", "Blocked"} }

// foreignAssertion matches names under which other test libraries assert.
var foreignAssertion = regexp.MustCompile(`^(Fail|Fatal|Error|Assert|Require|Check|Skip)`)

func (c *checker) report(pos token.Pos, rule Rule, format string, args ...any) {
	c.findings = append(c.findings, Finding{Position: c.fset.Position(pos), Rule: rule, Message: fmt.Sprintf(format, args...)})
}

// index notes the source of every package-level function, method and variable.
func (c *checker) index() {
	c.bodies = map[types.Object]ast.Node{}
	c.asserted = map[*ast.CallExpr]assertion{}
	for _, f := range c.files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Body != nil {
					c.bodies[c.info.Defs[d.Name]] = d.Body
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if v, ok := s.(*ast.ValueSpec); ok {
						for _, name := range v.Names {
							c.bodies[c.info.Defs[name]] = v
						}
					}
				}
			}
		}
	}
}

// imports reports packages that bring another form of assertion, and files
// the rules cannot see.
func (c *checker) imports() {
	for _, f := range c.files {
		for _, spec := range f.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue
			}
			switch {
			case path == "testing" || strings.HasPrefix(path, "testing/"), strings.HasPrefix(path, "github.com/stretchr/testify"):
				c.report(spec.Pos(), Assertion, "scenarios do not import %s; assert with t.Expect(requirements.X, check)", path)
			case path == c.names.requirements && spec.Name != nil && spec.Name.Name == ".":
				c.report(spec.Pos(), Selector, "import %s under a name, so that an assertion reads requirements.X", path)
			}
		}
	}
	for _, name := range c.unread {
		c.findings = append(c.findings, Finding{Position: token.Position{Filename: c.dir + "/" + name, Line: 1}, Rule: Shape,
			Message: "build constraints leave this file out, so that its assertions cannot be read; remove them"})
	}
}

// calls looks at every use of an assertion method and at every call that
// could assert in another way.
func (c *checker) calls() {
	for _, f := range c.files {
		called := map[ast.Expr]*ast.CallExpr{}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				called[ast.Unparen(n.Fun)] = n
				c.builtin(n)
			case *ast.SelectorExpr:
				c.selector(n, called[n])
			}
			return true
		})
	}
}

// builtin reports panic.
func (c *checker) builtin(call *ast.CallExpr) {
	if name, ok := ast.Unparen(call.Fun).(*ast.Ident); ok {
		if b, ok := c.info.Uses[name].(*types.Builtin); ok && b.Name() == "panic" {
			c.report(call.Pos(), Assertion, "panic is no verdict; assert with t.Expect(requirements.X, check), or end a test that cannot go on with t.Abort(reason)")
		}
	}
}

// selector looks at x.Name; call is the call of it, nil when it is used as a
// value.
func (c *checker) selector(sel *ast.SelectorExpr, call *ast.CallExpr) {
	fn, ok := c.info.Uses[sel.Sel].(*types.Func)
	if !ok {
		return
	}
	name := fn.Name()
	switch selection := c.info.Selections[sel]; {
	case selection == nil:
		c.packageFunc(sel, fn)
	case c.isT(fn) && slices.Contains(assertionMethods(), name):
		if call == nil || selection.Kind() != types.MethodVal {
			c.report(sel.Pos(), Selector, "call %s where it stands, as t.%s(requirements.X, …); its requirement cannot be read when the method is passed on", name, name)
			return
		}
		c.assertion(name, call)
	case c.isT(fn) && foreignAssertion.MatchString(name):
		c.report(sel.Pos(), Assertion, "%s names no requirement; assert with t.Expect(requirements.X, check)", name)
	case !c.isT(fn) && c.takesID(fn):
		c.report(sel.Pos(), Selector, "%s takes a requirement's id and is no method of harness.T; assert with t.Expect(requirements.X, check)", name)
	}
}

// packageFunc reports functions that end the program or the goroutine.
func (c *checker) packageFunc(sel *ast.SelectorExpr, fn *types.Func) {
	if fn.Pkg() == nil {
		return
	}
	path, name := fn.Pkg().Path(), fn.Name()
	exits := path == "os" && name == "Exit" || path == "runtime" && name == "Goexit" ||
		path == "log" && (strings.HasPrefix(name, "Fatal") || strings.HasPrefix(name, "Panic"))
	if exits {
		c.report(sel.Pos(), Assertion, "%s.%s is no verdict; end a test that cannot go on with t.Abort(reason)", path, name)
	}
	if path == c.names.harness && c.takesID(fn) {
		c.report(sel.Pos(), Selector, "harness.%s takes a requirement's id; assert with t.Expect(requirements.X, check)", name)
	}
}

// isT reports whether fn is a method of harness.T.
func (c *checker) isT(fn *types.Func) bool {
	recv := fn.Signature().Recv()
	return recv != nil && c.isNamed(recv.Type(), c.names.harness, "T")
}

// takesID reports whether a function's first parameter is a requirements.ID.
func (c *checker) takesID(fn *types.Func) bool {
	params := fn.Signature().Params()
	return params.Len() > 0 && c.isNamed(params.At(0).Type(), c.names.requirements, "ID") && fn.Pkg().Path() != c.names.requirements
}

// isNamed reports whether a type, or what it points to, is path.name.
func (c *checker) isNamed(t types.Type, path, name string) bool {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == path && n.Obj().Name() == name
}

// assertion reads the requirement of an assertion's call.
func (c *checker) assertion(method string, call *ast.CallExpr) {
	if len(call.Args) == 0 {
		return // does not compile
	}
	id, name, ok := c.constant(call.Args[0])
	if !ok {
		c.report(call.Args[0].Pos(), Selector, "the first argument of %s is not a constant of package requirements; write t.%s(requirements.X, …) here, and let a helper return the check instead", method, method)
		return
	}
	c.asserted[call] = assertion{method: method, id: id, name: name}
}

// constant reads requirements.X.
func (c *checker) constant(e ast.Expr) (id requirements.ID, name string, ok bool) {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return "", "", false
	}
	value, ok := c.info.Uses[sel.Sel].(*types.Const)
	if !ok || value.Pkg() == nil || value.Pkg().Path() != c.names.requirements || !c.isNamed(value.Type(), c.names.requirements, "ID") {
		return "", "", false
	}
	return requirements.ID(constant.StringVal(value.Val())), sel.Sel.Name, true
}
