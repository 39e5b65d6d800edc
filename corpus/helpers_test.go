package corpus

import (
	"encoding/json"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"wopcert/bundle/jcs"
)

func mustLoad(t testing.TB) *Corpus {
	t.Helper()
	c, err := Load()
	require.NoError(t, err)
	return c
}

// decode turns JSON text into the value ValidateValue takes.
func decode(t testing.TB, text string) any {
	t.Helper()
	value, err := jcs.Decode([]byte(text))
	require.NoError(t, err, text)
	return value
}

// tree is a copy of the embedded files that a test may damage.
func tree(t testing.TB) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	for _, pattern := range []string{"schemas/*.json", "registries/*.json", "api/*.json", stampName} {
		names, err := fs.Glob(embedded, pattern)
		require.NoError(t, err)
		for _, name := range names {
			data, err := embedded.ReadFile(name)
			require.NoError(t, err)
			files[name] = &fstest.MapFile{Data: slices.Clone(data)}
		}
	}
	return files
}

// restamp makes the stamp describe the damaged tree, so that what lies behind the
// stamp is reached.
func restamp(t testing.TB, files fstest.MapFS) {
	t.Helper()
	digests := map[string]string{}
	for name, file := range files {
		if name != stampName {
			digests[name] = hexSHA256(file.Data)
		}
	}
	data, err := json.Marshal(stamp{SpecArtifactsVersion: SpecArtifactsVersion, Files: digests})
	require.NoError(t, err)
	files[stampName] = &fstest.MapFile{Data: data}
}

// schemaNode reads a schema file as plain JSON.
func schemaNode(t testing.TB, name string) map[string]any {
	t.Helper()
	data, err := embedded.ReadFile("schemas/" + name + schemaSuffix)
	require.NoError(t, err)
	var node map[string]any
	require.NoError(t, json.Unmarshal(data, &node))
	return node
}

// sampler builds the smallest instances a schema allows, reading the schema text and
// not the compiled validator.
type sampler struct {
	t     testing.TB
	files map[string]map[string]any
}

func newSampler(t testing.TB) *sampler { return &sampler{t: t, files: map[string]map[string]any{}} }

func (s *sampler) file(name string) map[string]any {
	if s.files[name] == nil {
		s.files[name] = schemaNode(s.t, name)
	}
	return s.files[name]
}

// resolve follows a reference written in the file called name.
func (s *sampler) resolve(name, reference string) (string, map[string]any) {
	file, fragment, _ := strings.Cut(reference, "#")
	if file != "" {
		name = strings.TrimSuffix(file, schemaSuffix)
	}
	node := s.file(name)
	if def, found := strings.CutPrefix(fragment, "/$defs/"); found {
		node = node["$defs"].(map[string]any)[def].(map[string]any)
	}
	return name, node
}

// patterned holds an instance for each pattern a required member uses.
var patterned = map[string]any{
	"^[A-Za-z0-9._~-]{16,128}$":                                "0123456789abcdef",
	"^(anon:)?[A-Za-z0-9._~-]{1,128}/[A-Za-z0-9._~-]{16,128}$": "acme/0123456789abcdef",
	"^[A-Za-z0-9._~:-]{1,128}$":                                "host:n1",
	"^[A-Za-z0-9._~-]{1,128}$":                                 "key-1",
	"^[a-z][a-z0-9_-]*(\\.[a-z][a-zA-Z0-9_-]*)+$":              "core.noop",
	"^sha256:[0-9a-f]{64}$":                                    "sha256:" + strings.Repeat("0a", 32),
	"^/[A-Za-z0-9._~/{}-]+$":                                   "/host/events",
	"^[0-9]+\\.[0-9]+$":                                        "1.0",
	"^MCowBQYDK2VwAyEA[A-Za-z0-9+/]{43}=$":                     "MCowBQYDK2VwAyEA" + strings.Repeat("A", 43) + "=",
	"^[a-zA-Z]{2,3}(-[a-zA-Z0-9]{2,8}){0,3}$":                  "en-GB",
	"^(replace|append|merge|counter|votes|feedback|message|vendor\\.[a-z][a-z0-9_-]*\\.[a-z][a-z0-9_-]*)$": "append",
}

var formatted = map[string]any{"date-time": "2026-01-02T03:04:05Z", "date": "2026-01-02", "uri": "https://host.example/a", "uri-reference": "/a"}

// sample builds one instance of a node of the file called name.
func (s *sampler) sample(name string, node map[string]any) any {
	if reference, ok := node["$ref"].(string); ok && node["properties"] == nil {
		return s.sample(s.resolve(name, reference))
	}
	if value, ok := node["const"]; ok {
		return value
	}
	if values, ok := node["enum"].([]any); ok {
		return values[0]
	}
	if branches, ok := node["oneOf"].([]any); ok && node["type"] == nil {
		return s.sample(name, branches[0].(map[string]any))
	}
	if branches, ok := node["anyOf"].([]any); ok {
		return s.sample(name, branches[0].(map[string]any))
	}
	typ := node["type"]
	if several, ok := typ.([]any); ok {
		typ = several[0]
	}
	switch typ {
	case "string":
		return s.text(node)
	case "integer", "number":
		if minimum, ok := node["minimum"].(float64); ok {
			return minimum
		}
		return float64(1)
	case "boolean":
		return true
	case "array":
		items := []any{}
		if minimum, ok := node["minItems"].(float64); ok {
			for range int(minimum) {
				items = append(items, s.sample(name, node["items"].(map[string]any)))
			}
		}
		return items
	}
	return s.object(name, node)
}

func (s *sampler) text(node map[string]any) any {
	if format, ok := node["format"].(string); ok {
		return formatted[format]
	}
	if pattern, ok := node["pattern"].(string); ok {
		value, known := patterned[pattern]
		require.True(s.t, known, "no sample for pattern %s", pattern)
		return value
	}
	return "text"
}

func (s *sampler) object(name string, node map[string]any) any {
	object := map[string]any{}
	properties, _ := node["properties"].(map[string]any)
	for _, required := range requiredOf(node) {
		switch property := properties[required].(type) {
		case map[string]any:
			object[required] = s.sample(name, property)
		default:
			object[required] = "anything"
		}
	}
	return object
}

func requiredOf(node map[string]any) []string {
	var names []string
	if list, ok := node["required"].([]any); ok {
		for _, name := range list {
			names = append(names, name.(string))
		}
	}
	return names
}

// with returns a copy of an object with a member set, without one where the value
// is nil.
func with(object any, name string, value any) map[string]any {
	copied := maps.Clone(object.(map[string]any))
	if value == nil {
		delete(copied, name)
	} else {
		copied[name] = value
	}
	return copied
}

// violations asserts that err is a ValidationError and returns what it found.
func violations(t testing.TB, err error) []Violation {
	t.Helper()
	var invalid *ValidationError
	require.ErrorAs(t, err, &invalid)
	require.NotEmpty(t, invalid.Violations)
	return invalid.Violations
}
