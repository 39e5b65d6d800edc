package corpus

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle/jcs"
)

func TestUnknownSchema(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	for _, name := range []string{"", "nope", "run-event.schema.json", "ids#/$defs/nope", "ids#", "https://wopcert.invalid/schemas/ids.schema.json", "../ids"} {
		require.ErrorIs(t, c.Validate(name, []byte(`{}`)), ErrUnknownSchema, name)
		require.ErrorIs(t, c.ValidateValue(name, nil), ErrUnknownSchema, name)
	}
}

func TestTextThatIsNotIJSON(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	deep := strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70)
	for kind, text := range map[jcs.Kind]string{
		"syntax": `{"error":`, "utf8": "{\"error\":\"\xff\"}", "duplicate-member": `{"error":"not_found","error":"forbidden","message":"m"}`,
		"lone-surrogate": `{"error":"\ud800"}`, "number-range": `{"details":{"n":1e10000000}}`, "unsafe-integer": `{"details":{"n":9007199254740993}}`, "depth": deep,
	} {
		err := c.Validate("error-envelope", []byte(text))
		var refused *jcs.Error
		require.ErrorAs(t, err, &refused, text)
		require.Equal(t, kind, refused.Kind)
		require.Contains(t, err.Error(), "error-envelope")
	}
	for _, text := range []string{"", " ", "NaN", "{}{}", "\xef\xbb\xbf{}", "01", `"a`, "[1,]"} {
		require.Error(t, c.Validate("error-envelope", []byte(text)), text)
	}
}

func TestValuesThatAreNotJSON(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	nested := any("x")
	for range jcs.MaxDepth + 1 {
		nested = []any{nested}
	}
	for name, value := range map[string]any{
		"exponent": json.Number("1e10000000"), "negative exponent": json.Number("1e-10000000"), "NaN text": json.Number("NaN"), "empty number": json.Number(""),
		"hexadecimal": json.Number("0x10"), "space": json.Number(" 1"), "underscore": json.Number("1_000"), "quoted": json.Number(`"1"`), "word": json.Number("true"), "long": json.Number(strings.Repeat("9", 500)),
		"NaN": math.NaN(), "infinity": math.Inf(-1), "bytes": []byte("x"), "struct": struct{}{}, "typed map": map[string]string{}, "channel": make(chan int), "UTF-8": "\xff", "deep": nested,
		"name": map[string]any{"\xff": 1},
	} {
		found := violations(t, c.ValidateValue("error-envelope", map[string]any{"error": "not_found", "message": "m", "details": map[string]any{"a/b~c": value}}))
		require.Equal(t, "value", found[0].Keyword, name)
		require.True(t, strings.HasPrefix(found[0].Pointer, "/details/a~1b~0c"), "%s: %s", name, found[0].Pointer)
		violations(t, c.ValidateValue("run-event#/$defs/registeredType", value))
	}
	for _, value := range []any{nil, true, "text", json.Number("-1.5e+3"), json.Number("0"), 1, int64(1), 1.5, []any{}, map[string]any{}} {
		require.NoError(t, c.ValidateValue("run-event-payloads#/$defs/agentDecided", map[string]any{"agentId": "a", "decision": value}), "%v", value)
	}
}

// The deepest document the guard lets through costs little, valid or not.
func TestDeepestDocument(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	deep := strings.Repeat(`[`, jcs.MaxDepth-1) + strings.Repeat(`]`, jcs.MaxDepth-1)
	require.NoError(t, c.Validate("interrupt-resolve-request", []byte(`{"resumeValue":`+deep+`}`)))
	violations(t, c.Validate("interrupt-resolve-request", []byte(`{"resumeValu":`+deep+`}`)))
	chained := chain(jcs.MaxDepth - 2)
	violations(t, c.Validate("subject", []byte(chained)))
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	members := make([]string, 9)
	for i := range members {
		members[i] = fmt.Sprintf(`{"zz%d":1}`, i)
	}
	err := c.Validate("poll-response", []byte(`{"runId":`+runID+`,"events":[`+strings.Join(members, ",")+`],"lastSequence":0,"status":"running","isTerminal":false}`))
	found := violations(t, err)
	require.Len(t, found, 18)
	require.NotContains(t, err.Error(), "\n")
	require.True(t, strings.HasPrefix(err.Error(), "does not match poll-response: /events/0: "), err.Error())
	require.True(t, strings.HasSuffix(err.Error(), "; and 13 more"), err.Error())
	again := violations(t, c.Validate("poll-response", []byte(`{"isTerminal":false,"status":"running","lastSequence":0,"events":[`+strings.Join(members, ",")+`],"runId":`+runID+`}`)))
	require.Equal(t, found, again, "the order of violations does not depend on the order of members")

	root := c.Validate("run-event", []byte(`[]`))
	require.Contains(t, root.Error(), "(document): ")
	long := c.Validate("error-envelope", []byte(`{"error":"nope","message":"m"}`))
	for _, v := range violations(t, long) {
		require.LessOrEqual(t, len([]rune(v.Message)), maxMessageLength+1)
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for range 50 {
				other, err := Load()
				assert.NoError(t, err)
				assert.Same(t, c, other)
				assert.NoError(t, c.Validate("run-event", []byte(event)))
				assert.NoError(t, c.Validate("capabilities", []byte(discovery)))
				assert.Error(t, c.Validate("subject", []byte(chain(5+worker%2))))
				assert.Error(t, c.ValidatePayload("run.completed", map[string]any{}))
				_, ok := c.Event("run.started")
				assert.True(t, ok)
				assert.Len(t, c.Errors(), 112)
			}
		})
	}
	group.Wait()
}

func TestFormats(t *testing.T) {
	t.Parallel()
	formats := strictFormats([]string{"a-scenario"})
	for name, table := range map[string]struct{ good, bad []any }{
		"date-time": {[]any{"2026-01-02T03:04:05Z", "2026-01-02t03:04:05.123456789z", "2024-02-29T23:59:59+05:30", "2016-12-31T23:59:60Z", "2017-01-01T05:29:60+05:30", 7, nil},
			[]any{"", "2026-01-02", "2026-01-02 03:04:05Z", "2026-01-02T03:04:05", "2026-1-2T03:04:05Z", "2026-13-02T03:04:05Z", "2025-02-29T03:04:05Z", "2026-01-02T24:00:00Z", "2026-01-02T03:60:05Z", "2026-01-02T03:04:61Z",
				"2026-01-02T03:04:60Z", "2026-01-02T03:04:05.Z", "2026-01-02T03:04:05+24:00", "2026-01-02T03:04:05+05:60", "2026-01-02T03:04:05+0530", "2026-01-02T03:04:05,5Z", "+026-01-02T03:04:05Z", "2026-01-02T03:04:05Z\n"}},
		"date":           {[]any{"2026-07-28", "2024-02-29", 1.5}, []any{"", "2026-7-28", "2026-02-30", "2026-07-28T00:00:00Z", "20260728"}},
		"uri":            {[]any{"https://a.example/b?c=d#e", "urn:idp", "http://[::1]:8080/", "https://a.example/%20"}, []any{"", "/a", "a.example", "https://a b", "https://a.example/%2", "https://[::1", "1a:b", "https://a.example/é", "https://a.example/\x00"}},
		"uri-reference":  {[]any{"", "/a", "a/b", "../c", "https://a.example", "?q", "#f"}, []any{"a b", "\\a", "%zz", "<a>", "https://[::1"}},
		"openwop-row-id": {[]any{"openwop.it.other.a", "openwop.it.a-scenario", "openwop.scenario.a-scenario", "openwop.it.a-scenario-2.a"}, []any{"openwop.it.a-scenario.a", "openwop.it.a-scenario."}},
	} {
		for _, value := range table.good {
			require.True(t, formats[name](value), "%s %q", name, value)
		}
		for _, value := range table.bad {
			require.False(t, formats[name](value), "%s %q", name, value)
		}
	}
	require.Len(t, formats, 5)
}

// Every schema and definition stands up to values of every kind.
func TestEverySchemaSurvivesEveryKind(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	names := c.SchemaNames()
	require.Len(t, names, len(c.schemas.compiled))
	for _, name := range names {
		for _, value := range []any{nil, true, "", json.Number("-0"), json.Number("1e300"), []any{nil}, map[string]any{"": nil, "type": []any{}, "error": map[string]any{}}} {
			err := c.ValidateValue(name, value)
			if err != nil {
				violations(t, err)
				require.NotContains(t, err.Error(), "could not read the value", name)
			}
		}
	}
}

func FuzzValidate(f *testing.F) {
	c := mustLoad(f)
	for _, seed := range []string{event, snapshot, discovery, smallBundle, approval, workflow, `{"error":"not_found","message":"m"}`, `1e400`, `[[[[`, "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, schema := range []string{"run-event", "capabilities", "certification-bundle", "error-envelope", "workflow-definition", "suspend-request", "subject"} {
			first, second := c.Validate(schema, data), c.Validate(schema, data)
			if (first == nil) != (second == nil) || (first != nil && first.Error() != second.Error()) {
				t.Fatalf("%s: %v, then %v", schema, first, second)
			}
		}
	})
}
