package corpus

import (
	"bytes"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestLoadIsMemoised(t *testing.T) {
	t.Parallel()
	first, second := mustLoad(t), mustLoad(t)
	require.Same(t, first, second)
	require.Regexp(t, `^[0-9a-f]{64}$`, first.StampSHA256())
	data, err := embedded.ReadFile(stampName)
	require.NoError(t, err)
	require.Equal(t, hexSHA256(data), first.StampSHA256())
}

func TestLoadFSAcceptsAnUntouchedTree(t *testing.T) {
	t.Parallel()
	c, err := LoadFS(tree(t))
	require.NoError(t, err)
	require.Equal(t, mustLoad(t).StampSHA256(), c.StampSHA256())
}

func TestStampNamesTheFileAtFault(t *testing.T) {
	t.Parallel()
	flip := func(name string) func(fstest.MapFS) {
		return func(files fstest.MapFS) { files[name].Data[len(files[name].Data)/2] ^= 1 }
	}
	cases := []struct {
		name, path, reason string
		damage             func(fstest.MapFS)
	}{
		{"a byte of a schema", "schemas/ids.schema.json", "changed", flip("schemas/ids.schema.json")},
		{"a byte of a registry", "registries/errors.json", "changed", flip("registries/errors.json")},
		{"a byte of the operations", "api/operations.json", "changed", flip("api/operations.json")},
		{"white space at the end", "registries/orgs.json", "changed", func(files fstest.MapFS) {
			files["registries/orgs.json"].Data = append(files["registries/orgs.json"].Data, '\n')
		}},
		{"a missing schema", "schemas/subject.schema.json", "missing", func(files fstest.MapFS) { delete(files, "schemas/subject.schema.json") }},
		{"a missing registry", "registries/profiles.json", "missing", func(files fstest.MapFS) { delete(files, "registries/profiles.json") }},
		{"an extra schema", "schemas/zz.schema.json", "not listed", func(files fstest.MapFS) {
			files["schemas/zz.schema.json"] = &fstest.MapFile{Data: []byte("{}")}
		}},
		{"an extra file in a folder below", "registries/deep/zz.json", "not listed", func(files fstest.MapFS) {
			files["registries/deep/zz.json"] = &fstest.MapFile{Data: []byte("{}")}
		}},
		{"no stamp", stampName, "missing", func(files fstest.MapFS) { delete(files, stampName) }},
		{"a stamp that is not JSON", stampName, "not a stamp", func(files fstest.MapFS) { files[stampName].Data = []byte("{") }},
		{"a stamp with another member", stampName, "not a stamp", func(files fstest.MapFS) {
			files[stampName].Data = []byte(`{"specArtifactsVersion":"` + SpecArtifactsVersion + `","files":{},"also":1}`)
		}},
		{"a stamp of another version", stampName, "contract version", func(files fstest.MapFS) {
			files[stampName].Data = []byte(strings.Replace(string(files[stampName].Data), SpecArtifactsVersion, "1.0.0", 1))
		}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			files := tree(t)
			tc.damage(files)
			c, err := LoadFS(files)
			require.Nil(t, c)
			var stampError *StampError
			require.ErrorAs(t, err, &stampError)
			require.Equal(t, tc.path, stampError.Path)
			require.Contains(t, stampError.Reason, tc.reason)
			require.Contains(t, err.Error(), tc.path)
		})
	}
}

func TestLoadRefusesABrokenContract(t *testing.T) {
	t.Parallel()
	put := func(name, text string) func(fstest.MapFS) {
		return func(files fstest.MapFS) { files[name] = &fstest.MapFile{Data: []byte(text)} }
	}
	damage := func(name, old, text string) func(fstest.MapFS) {
		return func(files fstest.MapFS) {
			files[name] = &fstest.MapFile{Data: bytes.Replace(files[name].Data, []byte(old), []byte(text), 1)}
		}
	}
	schema := func(body string) string {
		return `{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://wopcert.invalid/schemas/zz.schema.json"` + body + `}`
	}
	const zz = "schemas/zz.schema.json"
	cases := []struct {
		name, contains string
		damage         func(fstest.MapFS)
	}{
		{"a code twice", `"forbidden" is registered twice`, put("registries/errors.json",
			`{"codes":[{"code":"forbidden","httpStatus":403,"meaning":"m"},{"code":"forbidden","httpStatus":403,"meaning":"m"}]}`)},
		{"a row without a name", "has no name", put("registries/families.json", `{"families":[{"witness":"claims-check"}]}`)},
		{"a misspelt member", "unknown field", put("registries/families.json", `{"families":[{"key":"a","witnes":"claims-check"}]}`)},
		{"text after a registry", "text after", put("registries/orgs.json", `{"orgs":[],"reserved":[]}{}`)},
		{"a payload nobody defines", "unknown payload", put("registries/events.json", `{"events":[{"type":"run.started","payload":"nope"}]}`)},
		{"a version 1 name twice", `"run.started" is registered twice`, damage("registries/event-codemap.json", `"v1": "run.completed"`, `"v1": "run.started"`)},
		{"two version 1 names of one type", "maps both run.started and run.completed to run.started", damage("registries/event-codemap.json", `"v2": "run.completed"`, `"v2": "run.started"`)},
		{"a codemap row of no type", "unregistered event type", damage("registries/event-codemap.json", `"v2": "run.completed"`, `"v2": "run.complete"`)},
		{"a type without a codemap row", "no row for the event type run.completed", damage("registries/event-codemap.json", `    {"v1": "run.completed", "v2": "run.completed"},`+"\n", "")},
		{"a seam with an unknown body", "unknown schema seams#/$defs/none", damage("api/seams.json", `seams#/$defs/verdict`, `seams#/$defs/none`)},
		{"details nobody defines", "unknown schema", put("registries/errors.json", `{"codes":[{"code":"a","details":"error-details#/$defs/nope"}]}`)},
		{"a profile with an unknown family", "unknown family", put("registries/profiles.json", `{"profiles":[{"id":"p","families":["nope"]}]}`)},
		{"a floor without a version", "not MAJOR.MINOR.PATCH", put("registries/profiles.json", `{"profiles":[{"id":"p","floor":[{"scenario":"s","since":"2"}]}]}`)},
		{"a reference nothing reaches", "nope", put(zz, schema(`,"$defs":{"a":{"$ref":"#/$defs/nope"}}`))},
		{"a reference out of the contract", "not part of the contract", put(zz, schema(`,"$ref":"https://elsewhere.invalid/x.json"`))},
		{"a reference to a local file", "not part of the contract", put(zz, schema(`,"$ref":"file:///etc/hostname"`))},
		{"no dialect", "$schema", put(zz, `{"$id":"https://wopcert.invalid/schemas/zz.schema.json"}`)},
		{"another $id", "$id is", put(zz, `{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://wopcert.invalid/schemas/yy.schema.json"}`)},
		{"a format nobody checks", `format "email" is not checked`, put(zz, schema(`,"properties":{"a":{"format":"email"}}`))},
		{"an empty enum", "accepts everything", put(zz, schema(`,"properties":{"a":{"enum":[]}}`))},
		{"a dynamic reference", "$dynamicRef", put(zz, schema(`,"items":[{"$dynamicRef":"#a"}]`))},
		{"a pattern that does not compile", "zz", put(zz, schema(`,"pattern":"^(?!a)"`))},
		{"a keyword of the wrong type", "zz", put(zz, schema(`,"minLength":"1"`))},
		{"a schema that is not an object", "zz", put(zz, `[]`)},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			files := tree(t)
			tc.damage(files)
			restamp(t, files)
			_, err := LoadFS(files)
			require.ErrorContains(t, err, tc.contains)
			require.NotContains(t, err.Error(), "%!")
		})
	}
}
