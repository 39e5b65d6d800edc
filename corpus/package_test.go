package corpus

import (
	"encoding/json"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const packageDialect = `"$schema": "https://json-schema.org/draft/2020-12/schema"`

// packageFiles is an installed contract package in small: a schema that refers to another one, one with a look-ahead,
// one in a folder, and files that are no schemas of version 2.
func packageFiles() map[string]string {
	return map[string]string{
		"package.json": `{"name":"@openwop/spec-artifacts","version":"2.43.2"}`,
		"schemas/v2/ids.schema.json": `{` + packageDialect + `, "$id": "https://openwop.dev/spec/v2/ids.schema.json",
			"$defs": {"runId": {"type": "string", "pattern": "^(?!anon:)[a-z]+/[a-z]{16}$"}}}`,
		"schemas/v2/run-created.schema.json": `{` + packageDialect + `, "$id": "https://openwop.dev/spec/v2/run-created.schema.json",
			"type": "object", "required": ["runId"], "properties": {"runId": {"$ref": "ids.schema.json#/$defs/runId"}}}`,
		"schemas/v2/error-envelope.schema.json": `{` + packageDialect + `, "$id": "https://openwop.dev/spec/v2/error-envelope.schema.json",
			"type": "object", "properties": {"details": {"oneOf": [{"type": "object", "required": ["field"]}, {"type": "object"}]}}}`,
		"schemas/v2/envelopes/error.schema.json":      `{` + packageDialect + `, "$id": "https://openwop.dev/spec/v2/envelopes/error.schema.json", "type": "object", "required": ["theirs"]}`,
		"schemas/v2/certification-bundle.schema.json": `{` + packageDialect + `, "$id": "https://openwop.dev/spec/v2/certification-bundle.schema.json", "not": {}}`,
		"schemas/old.schema.json":                     `{"$schema": "http://json-schema.org/draft-04/schema#"}`,
	}
}

// install lays the files out with the stamp that fits them.
func install(t *testing.T, files map[string]string, change func(stamp map[string]any)) fstest.MapFS {
	t.Helper()
	fsys := fstest.MapFS{}
	digests := map[string]any{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
		if name != "package.json" {
			digests[name] = hexSHA256([]byte(text))
		}
	}
	stamp := map[string]any{"_comment": "made for a test", "package": PackageName, "version": "2.43.2", "corpusTag": "v2.43.1", "files": digests}
	if change != nil {
		change(stamp)
	}
	data, err := json.Marshal(stamp)
	require.NoError(t, err)
	fsys["CORPUS-STAMP.json"] = &fstest.MapFile{Data: data}
	return fsys
}

func TestAnInstalledPackageTakesThePlaceOfOurSchemas(t *testing.T) {
	t.Parallel()
	fsys := install(t, packageFiles(), nil)
	c, err := LoadPackage(fsys)
	require.NoError(t, err)
	own := mustLoad(t)
	assert.Equal(t, "2.43.2", c.Version())
	assert.Equal(t, SpecArtifactsVersion, own.Version())
	assert.Equal(t, hexSHA256(fsys["CORPUS-STAMP.json"].Data), c.StampSHA256())
	assert.Equal(t, own.SchemaNames(), c.SchemaNames())

	for value, ok := range map[string]bool{"tenant/abcdefghijklmnop": true, "anon:tenant/abcdefghijklmnop": false, "tenant/short": false} {
		assert.Equal(t, ok, c.ValidateValue("ids#/$defs/runId", value) == nil, value)
		assert.Equal(t, ok, c.Validate("run-created", []byte(`{"runId":"`+value+`"}`)) == nil, value)
	}
	violation := c.ValidateValue("ids#/$defs/runId", "anon:x")
	assert.ErrorContains(t, violation, "does not match pattern")
	require.NoError(t, c.Validate("error-envelope", []byte(`{"details":{"field":"x"}}`)), "a branch for anything beside one for something")
	require.Error(t, c.Validate("envelope-error", []byte(`{}`)))
	require.NoError(t, c.Validate("envelope-error", []byte(`{"theirs":1}`)))

	kept := c.OwnSchemas()
	assert.Contains(t, kept, "run-event", "the package has none")
	assert.Contains(t, kept, "certification-bundle", "what this program emits")
	assert.Contains(t, kept, "ids#/$defs/eventId", "the package's file has no such definition")
	assert.NotContains(t, kept, "run-created")
	assert.Empty(t, own.OwnSchemas())
}

func TestAPackageThatIsNotWhatItsStampSays(t *testing.T) {
	t.Parallel()
	tampered := install(t, packageFiles(), nil)
	tampered["schemas/v2/ids.schema.json"].Data = append(tampered["schemas/v2/ids.schema.json"].Data, ' ')
	missing := install(t, packageFiles(), nil)
	delete(missing, "schemas/old.schema.json")
	added := install(t, packageFiles(), nil)
	added["schemas/v2/more.schema.json"] = &fstest.MapFile{Data: []byte("{}")}
	pipe := install(t, packageFiles(), nil)
	pipe["schemas/old.schema.json"].Mode = fs.ModeNamedPipe
	noStamp := install(t, packageFiles(), nil)
	noStamp["CORPUS-STAMP.json"].Data = []byte("[")
	for name, c := range map[string]struct {
		fsys fstest.MapFS
		path string
		why  string
	}{
		"changed":     {tampered, "schemas/v2/ids.schema.json", "changed"},
		"missing":     {missing, "schemas/old.schema.json", "missing"},
		"no file":     {pipe, "schemas/old.schema.json", "missing"},
		"not listed":  {added, "schemas/v2/more.schema.json", "not listed"},
		"no JSON":     {noStamp, "CORPUS-STAMP.json", "not a stamp"},
		"no version":  {install(t, packageFiles(), func(s map[string]any) { s["version"] = "latest" }), "CORPUS-STAMP.json", "latest"},
		"path escape": {install(t, packageFiles(), func(s map[string]any) { s["files"].(map[string]any)["../x"] = "00" }), "../x", "missing"},
	} {
		_, err := LoadPackage(c.fsys)
		var refused *StampError
		require.ErrorAs(t, err, &refused, name)
		assert.Equal(t, c.path, refused.Path, name)
		assert.Contains(t, refused.Reason, c.why, name)
	}
	for name, fsys := range map[string]fstest.MapFS{
		"empty": {}, "another package": install(t, packageFiles(), func(s map[string]any) { s["package"] = "left-pad" }),
	} {
		_, err := LoadPackage(fsys)
		var refused *NotPackageError
		require.ErrorAs(t, err, &refused, name)
	}
}

func TestSchemasThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`"patternProperties": {"^(?!x)": {}}`:              "patternProperties",
		`"enum": []`:                                       "empty enum",
		`"$dynamicRef": "#x"`:                              "$dynamicRef",
		`"pattern": "(?<"`:                                 "pattern",
		`"$ref": "nowhere.schema.json"`:                    "nowhere",
		`"properties": {"a": {"$ref": "#/$defs/nothing"}}`: "nothing",
	} {
		files := packageFiles()
		files["schemas/v2/run-event.schema.json"] = `{` + packageDialect + `, "$id": "https://openwop.dev/spec/v2/run-event.schema.json", ` + body + `}`
		_, err := LoadPackage(install(t, files, nil))
		require.ErrorContains(t, err, want, body)
	}
	files := packageFiles()
	files["schemas/v2/run-event.schema.json"] = `{` + packageDialect + `, "$id": "https://elsewhere.example/run-event.schema.json"}`
	_, err := LoadPackage(install(t, files, nil))
	require.ErrorContains(t, err, "$id")
}

// A pattern that backtracks for ever costs a bounded time and is reported as not decided.
func TestAPatternThatTakesTooLong(t *testing.T) {
	t.Parallel()
	files := packageFiles()
	files["schemas/v2/run-event.schema.json"] = `{` + packageDialect + `, "$id": "https://openwop.dev/spec/v2/run-event.schema.json", "pattern": "^(?=(a+)+$)(a+)+b$"}`
	c, err := LoadPackage(install(t, files, nil))
	require.NoError(t, err)
	require.ErrorContains(t, c.ValidateValue("run-event", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"), "not decided")
}
