package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// source is a package, parsed and type-checked.
type source struct {
	dir   string
	fset  *token.FileSet
	files []*ast.File
	info  *types.Info
	pkg   *types.Package
	// unread are the Go files build constraints leave out.
	unread []string
}

// listed is what the go command says about a package.
type listed struct {
	ImportPath     string
	Dir            string
	Export         string
	GoFiles        []string
	CgoFiles       []string
	IgnoredGoFiles []string
	DepOnly        bool
	Error          *struct{ Err string }
}

// load parses the package in dir and type-checks it against the compiled
// form of what it imports.
func load(dir string) (*source, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if found, err := filepath.Glob(filepath.Join(dir, "*.go")); err != nil || len(found) == 0 {
		return nil, errors.Join(errors.New("the folder holds no Go file"), err)
	}
	packages, err := list(dir)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	var self *listed
	for i, p := range packages {
		if p.Error != nil {
			return nil, fmt.Errorf("%s: %s", p.ImportPath, p.Error.Err)
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly {
			self = &packages[i]
		}
	}
	if self == nil || len(self.GoFiles)+len(self.CgoFiles) == 0 {
		return nil, errors.New("the folder holds no Go file that is built")
	}
	return typecheck(self, exports)
}

// list asks the go command for the package in dir and all it imports, each
// with the file of its compiled form.
func list(dir string) ([]listed, error) {
	cmd := exec.Command("go", "list", "-e", "-deps", "-export",
		"-json=ImportPath,Dir,Export,GoFiles,CgoFiles,IgnoredGoFiles,DepOnly,Error", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PWD="+dir)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, strings.TrimSpace(stderr.String()))
	}
	var out []listed
	for d := json.NewDecoder(&stdout); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		out = append(out, p)
	}
}

func typecheck(self *listed, exports map[string]string) (*source, error) {
	s := &source{
		dir:    self.Dir,
		fset:   token.NewFileSet(),
		unread: self.IgnoredGoFiles,
		info: &types.Info{
			Types:      map[ast.Expr]types.TypeAndValue{},
			Defs:       map[*ast.Ident]types.Object{},
			Uses:       map[*ast.Ident]types.Object{},
			Selections: map[*ast.SelectorExpr]*types.Selection{},
		},
	}
	for _, name := range append(self.GoFiles, self.CgoFiles...) {
		f, err := parser.ParseFile(s.fset, filepath.Join(self.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, f)
	}
	open := func(path string) (io.ReadCloser, error) {
		file := exports[path]
		if file == "" {
			return nil, fmt.Errorf("%s does not compile; build it first", path)
		}
		return os.Open(file)
	}
	config := types.Config{Importer: importer.ForCompiler(s.fset, "gc", open)}
	pkg, err := config.Check(self.ImportPath, s.fset, s.files, s.info)
	if err != nil {
		return nil, err
	}
	s.pkg = pkg
	return s, nil
}
