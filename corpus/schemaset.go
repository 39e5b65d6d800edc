package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// schemaBase is the base of every schema's $id. The host name can never resolve,
// so a reference that leaves the embedded set cannot be fetched by accident.
const schemaBase = "https://wopcert.invalid/schemas/"

const schemaSuffix = ".schema.json"

// schemaSet holds every schema and every definition, compiled once, under the
// names Validate takes.
type schemaSet struct {
	compiled map[string]*jsonschema.Schema
}

func (s *schemaSet) has(name string) bool { _, ok := s.compiled[name]; return ok }

func (s *schemaSet) names() []string { return slices.Sorted(maps.Keys(s.compiled)) }

// compileSchemas compiles each file and each of its definitions. Definitions
// nothing refers to are compiled as well, since the compiler does not look into
// them otherwise and a broken reference there would surface in mid-run.
func compileSchemas(fsys fs.FS, coherence []string) (set *schemaSet, err error) {
	defer func() {
		if r := recover(); r != nil {
			set, err = nil, fmt.Errorf("corpus: the schema compiler gave up: %v", r)
		}
	}()
	files, err := fs.Glob(fsys, "schemas/*"+schemaSuffix)
	if err != nil {
		return nil, fmt.Errorf("corpus: %w", err)
	}
	formats := strictFormats(coherence)
	compiler := newCompiler(formats)
	definitions := map[string][]string{}
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), schemaSuffix)
		data, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, fmt.Errorf("corpus: %w", err)
		}
		if definitions[name], err = checkSchemaFile(data, schemaURL(name), formats); err != nil {
			return nil, fmt.Errorf("corpus: %s: %w", file, err)
		}
		if err := compiler.AddResource(schemaURL(name), bytes.NewReader(data)); err != nil {
			return nil, fmt.Errorf("corpus: %s: %w", file, err)
		}
	}
	set = &schemaSet{compiled: map[string]*jsonschema.Schema{}}
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		targets := []string{name}
		for _, def := range definitions[name] {
			targets = append(targets, name+"#/$defs/"+def)
		}
		for _, target := range targets {
			schema, err := compiler.Compile(targetURL(target))
			if err != nil {
				return nil, fmt.Errorf("corpus: schema %s: %w", target, err)
			}
			set.compiled[target] = schema
		}
	}
	return set, nil
}

func newCompiler(formats map[string]func(any) bool) *jsonschema.Compiler {
	compiler := jsonschema.NewCompiler()
	compiler.Draft = jsonschema.Draft2020
	compiler.AssertFormat = true
	compiler.Formats = formats
	compiler.LoadURL = func(url string) (io.ReadCloser, error) {
		return nil, fmt.Errorf("%s is not part of the contract", url)
	}
	return compiler
}

func schemaURL(name string) string { return schemaBase + name + schemaSuffix }

func targetURL(target string) string {
	name, fragment, found := strings.Cut(target, "#")
	if !found {
		return schemaURL(name)
	}
	return schemaURL(name) + "#" + fragment
}

// checkSchemaFile refuses what the compiler would let pass in silence: a missing
// dialect, a foreign $id, formats nobody checks, keywords it gets wrong.
func checkSchemaFile(data []byte, id string, formats map[string]func(any) bool) (definitions []string, err error) {
	var document map[string]any
	if err := json.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	if document["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
		return nil, fmt.Errorf("$schema is not draft 2020-12")
	}
	if document["$id"] != id {
		return nil, fmt.Errorf("$id is %v, want %s", document["$id"], id)
	}
	if err := checkKeywords(document, formats); err != nil {
		return nil, err
	}
	defs, _ := document["$defs"].(map[string]any)
	return slices.Sorted(maps.Keys(defs)), nil
}

func checkKeywords(node any, formats map[string]func(any) bool) error {
	switch node := node.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(node)) {
			value := node[key]
			switch key {
			case "$dynamicRef", "$dynamicAnchor":
				return fmt.Errorf("%s is not supported", key)
			case "enum":
				if list, ok := value.([]any); ok && len(list) == 0 {
					return fmt.Errorf("an empty enum accepts everything")
				}
			case "format":
				if name, ok := value.(string); ok {
					if _, known := formats[name]; !known {
						return fmt.Errorf("format %q is not checked", name)
					}
				}
			}
			if err := checkKeywords(value, formats); err != nil {
				return err
			}
		}
	case []any:
		for _, value := range node {
			if err := checkKeywords(value, formats); err != nil {
				return err
			}
		}
	}
	return nil
}
