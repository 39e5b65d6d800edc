package corpus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dlclark/regexp2"
	"github.com/santhosh-tekuri/jsonschema/v5"
)

// PackageName is the npm package that publishes the contract (conformance.md §Two products, two ledgers).
const PackageName = "@openwop/spec-artifacts"

const (
	packageSchemas = "schemas/v2"
	packageBase    = "https://openwop.dev/spec/v2/"
	// maxPackageFile bounds one file of the package: 16 MiB.
	maxPackageFile = 16 << 20
)

// NotPackageError says that a directory is not an installed contract package at all.
type NotPackageError struct{ Why string }

func (e *NotPackageError) Error() string { return "no installed " + PackageName + ": " + e.Why }

// packageStamp is CORPUS-STAMP.json as the package has it.
type packageStamp struct {
	Package string            `json:"package"`
	Version string            `json:"version"`
	Files   map[string]string `json:"files"`
}

// LoadPackage reads an installed contract package: it checks every file against the package's CORPUS-STAMP.json and
// puts the package's schemas in the place of this program's own, its version in the place of [SpecArtifactsVersion],
// and its stamp in the place of ours. Registries, operations and seams stay this program's. A directory that is no such
// package is a *NotPackageError, one whose files are not those of its stamp a *StampError.
func LoadPackage(fsys fs.FS) (*Corpus, error) {
	own, err := Load()
	if err != nil {
		return nil, err
	}
	stamp, digest, err := checkPackage(fsys)
	if err != nil {
		return nil, err
	}
	c := *own
	c.version, c.stampSHA256 = stamp.Version, digest
	if c.schemas, c.kept, err = overlay(fsys, stamp, own); err != nil {
		return nil, fmt.Errorf("corpus: %s %s: %w", PackageName, stamp.Version, err)
	}
	return &c, nil
}

func checkPackage(fsys fs.FS) (stamp packageStamp, digest string, err error) {
	raw, err := readPackageFile(fsys, stampName)
	if err != nil {
		return stamp, "", &NotPackageError{fmt.Sprintf("%s: %v", stampName, err)}
	}
	if err := json.Unmarshal(raw, &stamp); err != nil {
		return stamp, "", &StampError{Path: stampName, Reason: "not a stamp: " + err.Error()}
	}
	if stamp.Package != PackageName {
		return stamp, "", &NotPackageError{fmt.Sprintf("%s is the stamp of %q", stampName, stamp.Package)}
	}
	if _, err := parseVersion(stamp.Version); err != nil {
		return stamp, "", &StampError{Path: stampName, Reason: err.Error()}
	}
	for _, name := range slices.Sorted(maps.Keys(stamp.Files)) {
		data, err := readPackageFile(fsys, name)
		switch {
		case err != nil:
			return stamp, "", &StampError{Path: name, Reason: "missing"}
		case hexSHA256(data) != stamp.Files[name]:
			return stamp, "", &StampError{Path: name, Reason: "changed"}
		}
	}
	err = fs.WalkDir(fsys, packageSchemas, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return &StampError{Path: name, Reason: "missing"}
		}
		if _, listed := stamp.Files[name]; !listed && !entry.IsDir() {
			return &StampError{Path: name, Reason: "not listed"}
		}
		return nil
	})
	return stamp, hexSHA256(raw), err
}

func readPackageFile(fsys fs.FS, name string) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, errors.New("not a path within the package")
	}
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	if info.Size() > maxPackageFile {
		return nil, fmt.Errorf("larger than %d bytes", maxPackageFile)
	}
	return fs.ReadFile(fsys, name)
}

// ownName is what this program calls a schema file of the package: envelopes/error.schema.json is envelope-error.
func ownName(file string) string {
	name := strings.TrimSuffix(strings.TrimPrefix(file, packageSchemas+"/"), schemaSuffix)
	if kind, ok := strings.CutPrefix(name, "envelopes/"); ok {
		return "envelope-" + strings.ReplaceAll(kind, ".", "-")
	}
	return name
}

// overlay compiles the package's schemas and gives each of this program's schema names the package's schema, or keeps
// its own where the package has none; kept names those.
func overlay(fsys fs.FS, stamp packageStamp, own *Corpus) (set *schemaSet, kept []string, err error) {
	defer func() {
		if r := recover(); r != nil {
			set, err = nil, fmt.Errorf("the schema compiler gave up: %v", r)
		}
	}()
	compiler := newCompiler(strictFormats(own.coherence))
	compiler.RegisterExtension(ecmaPattern, jsonschema.MustCompileString("ecma-pattern.json", `{}`), ecmaCompiler{})
	documents := map[string]map[string]any{}
	for _, file := range slices.Sorted(maps.Keys(stamp.Files)) {
		if !strings.HasPrefix(file, packageSchemas+"/") || !strings.HasSuffix(file, schemaSuffix) {
			continue
		}
		data, err := readPackageFile(fsys, file)
		if err != nil {
			return nil, nil, err
		}
		document, err := prepare(ownName(file), data)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
		id, _ := document["$id"].(string)
		if !strings.HasPrefix(id, packageBase) {
			return nil, nil, fmt.Errorf("%s: $id %q is not below %s", file, id, packageBase)
		}
		text, err := json.Marshal(document)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
		if err := compiler.AddResource(id, bytes.NewReader(text)); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
		documents[ownName(file)] = document
	}
	set = &schemaSet{compiled: maps.Clone(own.schemas.compiled)}
	for _, target := range own.schemas.names() {
		name, fragment, _ := strings.Cut(target, "#")
		document, ok := documents[name]
		if !ok || name == bundleSchema || !has(document, fragment) {
			kept = append(kept, target)
			continue
		}
		id, _ := document["$id"].(string)
		if fragment != "" {
			id += "#" + fragment
		}
		if set.compiled[target], err = compiler.Compile(id); err != nil {
			return nil, nil, fmt.Errorf("schema %s: %w", target, err)
		}
	}
	return set, kept, nil
}

// bundleSchema is what this program emits and judges, which stays its own: the published schema closes the names of
// suites over the published one.
const bundleSchema = "certification-bundle"

// has reports whether a JSON Pointer leads somewhere.
func has(node any, pointer string) bool {
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			return true
		}
		object, ok := node.(map[string]any)
		if !ok {
			return false
		}
		if node, ok = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]; !ok {
			return false
		}
	}
	return true
}

// readings are the places where the text of a published schema, taken literally, refuses what the documents allow: a
// oneOf that has a branch for anything beside its particular ones, so that whatever fits a particular one fits two.
func readings() map[string]string {
	return map[string]string{"error-envelope": "/properties/details", "run-event": "/properties/type"}
}

// prepare makes a schema of the package one that the compiler reads as it is meant.
func prepare(name string, data []byte) (map[string]any, error) {
	var document map[string]any
	if err := json.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	if document["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
		return nil, fmt.Errorf("$schema is not draft 2020-12")
	}
	if pointer, ok := readings()[name]; ok {
		anyOf(document, pointer)
	}
	return document, portable(document)
}

// anyOf turns the oneOf at a pointer into an anyOf.
func anyOf(node any, pointer string) {
	for _, step := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		object, _ := node.(map[string]any)
		node = object[step]
	}
	object, _ := node.(map[string]any)
	if branches, ok := object["oneOf"]; ok {
		object["anyOf"] = branches
		delete(object, "oneOf")
	}
}

// ecmaPattern stands in for pattern where the expression is one that only an ECMAScript engine reads.
const ecmaPattern = "x-wopcert-pattern"

// portable moves the patterns that Go's engine does not read, and refuses what the compiler gets wrong in silence.
func portable(node any) error {
	switch node := node.(type) {
	case map[string]any:
		for _, key := range []string{"$dynamicRef", "$dynamicAnchor"} {
			if _, ok := node[key].(string); ok {
				return fmt.Errorf("%s is not supported", key)
			}
		}
		if list, ok := node["enum"].([]any); ok && len(list) == 0 {
			return errors.New("an empty enum accepts everything")
		}
		if pattern, ok := node["pattern"].(string); ok {
			if _, err := regexp.Compile(pattern); err != nil {
				node[ecmaPattern] = pattern
				delete(node, "pattern")
			}
		}
		if members, ok := node["patternProperties"].(map[string]any); ok {
			for pattern := range members {
				if _, err := regexp.Compile(pattern); err != nil {
					return fmt.Errorf("patternProperties has a pattern that cannot be read here: %s", pattern)
				}
			}
		}
		for _, value := range node {
			if err := portable(value); err != nil {
				return err
			}
		}
	case []any:
		for _, value := range node {
			if err := portable(value); err != nil {
				return err
			}
		}
	}
	return nil
}

// matchTimeout bounds one match of an ECMAScript expression, which may backtrack.
const matchTimeout = 250 * time.Millisecond

type ecmaCompiler struct{}

// Compile implements jsonschema.ExtCompiler.
func (ecmaCompiler) Compile(_ jsonschema.CompilerContext, schema map[string]any) (jsonschema.ExtSchema, error) {
	text, ok := schema[ecmaPattern].(string)
	if !ok {
		return nil, nil
	}
	expression, err := regexp2.Compile(text, regexp2.ECMAScript|regexp2.Unicode)
	if err != nil {
		return nil, fmt.Errorf("pattern %s: %w", text, err)
	}
	expression.MatchTimeout = matchTimeout
	return ecmaSchema{expression, text}, nil
}

type ecmaSchema struct {
	expression *regexp2.Regexp
	text       string
}

// Validate implements jsonschema.ExtSchema. A match that takes too long is not decided, and says so.
func (s ecmaSchema) Validate(ctx jsonschema.ValidationContext, v any) error {
	text, ok := v.(string)
	if !ok {
		return nil
	}
	switch matched, err := s.expression.MatchString(text); {
	case err != nil:
		return ctx.Error("pattern", "whether it matches pattern '%s' was not decided within %s", s.text, matchTimeout)
	case !matched:
		return ctx.Error("pattern", "does not match pattern '%s'", s.text)
	}
	return nil
}
