package jcs

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCanonicalize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"empty object", " { } ", "{}"},
		{"empty array", "[\n]", "[]"},
		{"scalar string", ` "a" `, `"a"`},
		{"scalar number", "1.0", "1"},
		{"scalar true", "true", "true"},
		{"scalar false", " false", "false"},
		{"scalar null", "null\n", "null"},
		{"white space", "{ \"b\" : [ 1 , 2 ] ,\t\"a\" : { } }", `{"a":{},"b":[1,2]}`},
		{"nested order", `{"z":{"b":1,"a":2},"a":[{"d":1,"c":2}]}`, `{"a":[{"c":2,"d":1}],"z":{"a":2,"b":1}}`},
		{"empty name first", `{"a":1,"":2}`, `{"":2,"a":1}`},
		{"prefix first", `{"ab":1,"a":2,"abc":3}`, `{"a":2,"ab":1,"abc":3}`},
		{"escaped names sort by what they name", `{"\u0062":1,"a":2,"\u0061a":3}`, `{"a":2,"aa":3,"b":1}`},
		{"UTF-16 order", "{\"\uFB33\":1,\"\U0001F600\":2,\"\u20ac\":3}", "{\"\u20ac\":3,\"\U0001F600\":2,\"\uFB33\":1}"},
		{"UTF-16 order, escaped", `{"\ufb33":1,"\ud83d\ude00":2}`, "{\"\U0001F600\":2,\"\uFB33\":1}"},
		{"escapes", `"\u0000\u0008\u0009\u000a\u000b\u000c\u000d\u001F\u0020\u0022\u005C\/\u007f"`,
			`"\u0000\b\t\n\u000b\f\r\u001f \"\\/` + "\u007f" + `"`},
		{"no normalisation", `"A\u030a"`, "\"A\u030a\""},
		{"surrogate pair", `"\uD83D\uDE00"`, "\"\U0001F600\""},
		{"line separators stay", `"\u2028\u2029"`, "\"\u2028\u2029\""},
		{"replacement character", `"\ufffd"`, "\"\ufffd\""},
		{"noncharacter", `"\ufffe"`, "\"\ufffe\""},
		{"HTML stays", `"<&>"`, `"<&>"`},
		{"minus zero", "[-0,-0.0,0e5,-0E-7]", "[0,0,0,0]"},
		{"safe limit", "[9007199254740991,-9007199254740991]", "[9007199254740991,-9007199254740991]"},
		{"fraction beyond the limit", "9007199254740993.0", "9007199254740992"},
		{"exponent beyond the limit", "1e16", "10000000000000000"},
		{"exponent form begins at 1e21", "[1e20,1e21,1.5E300]", "[100000000000000000000,1e+21,1.5e+300]"},
		{"small numbers", "[0.000001,0.0000001,1e-323,4.50,2e-3]", "[0.000001,1e-7,1e-323,4.5,0.002]"},
		{"round half even", "[333333333.33333329,1424953923781206.2]", "[333333333.3333333,1424953923781206.2]"},
		{"depth limit", strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth), strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Canonicalize([]byte(c.in))
			require.NoError(t, err)
			assert.Equal(t, c.want, string(got))
			assert.NoError(t, Check([]byte(c.in)))
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in string
		kind     Kind
		offset   int
	}{
		{"nothing", "", KindSyntax, 0},
		{"space alone", "  ", KindSyntax, 2},
		{"truncated object", `{"a":1`, KindSyntax, 6},
		{"truncated string", `"a`, KindSyntax, 2},
		{"two values", "{}{}", KindSyntax, 2},
		{"byte order mark", "\ufeff{}", KindSyntax, 0},
		{"leading zero", "[01]", KindSyntax, 2},
		{"plus sign", "[+1]", KindSyntax, 1},
		{"bare fraction", "[.5]", KindSyntax, 1},
		{"bare point", "[5.]", KindSyntax, 3},
		{"hexadecimal", "[0x1p4]", KindSyntax, 2},
		{"underscore", "[1_000]", KindSyntax, 2},
		{"NaN", "[NaN]", KindSyntax, 1},
		{"trailing comma", "[1,]", KindSyntax, 3},
		{"control character", "[\"a\nb\"]", KindSyntax, 3},
		{"invalid UTF-8", "[\"a\xffb\"]", KindUTF8, 3},
		{"overlong UTF-8", "\"\xc0\xaf\"", KindUTF8, 1},
		{"UTF-8 surrogate", "\"\xed\xa0\x80\"", KindUTF8, 1},
		{"truncated UTF-8", "\"\xe2\x82\"", KindUTF8, 1},
		{"lone high surrogate", `["\ud800"]`, KindLoneSurrogate, 2},
		{"lone low surrogate", `["x\udc00y"]`, KindLoneSurrogate, 3},
		{"high then ordinary escape", `"\ud800\u0041"`, KindLoneSurrogate, 1},
		{"high then other escape", `"\ud800\n"`, KindLoneSurrogate, 1},
		{"low then high", `"\udc00\ud800"`, KindLoneSurrogate, 1},
		{"two highs", `"\ud800\ud800\udc00"`, KindLoneSurrogate, 1},
		{"lone surrogate in a name", `{"\ud800":1}`, KindLoneSurrogate, 2},
		{"integer", "[9007199254740992]", KindUnsafeInteger, 1},
		{"negative integer", "[-9007199254740993]", KindUnsafeInteger, 1},
		{"integer as wide as the limit", "9999999999999999", KindUnsafeInteger, 0},
		{"long integer", strings.Repeat("9", 400), KindUnsafeInteger, 0},
		{"overflow", "[1e400]", KindNumberRange, 1},
		{"negative overflow", "[-1.5e309]", KindNumberRange, 1},
		{"underflow", "[1e-400]", KindNumberRange, 1},
		{"duplicate", `{"a":1,"b":2,"a":3}`, KindDuplicateMember, 13},
		{"duplicate neighbours", `{"a":1,"a":1}`, KindDuplicateMember, 7},
		{"duplicate by escape", `{"a":1,"\u0061":1}`, KindDuplicateMember, 7},
		{"duplicate by escaped slash", `{"/":1,"\/":1}`, KindDuplicateMember, 7},
		{"duplicate by surrogates", "{\"\U0001F600\":1,\"\\ud83d\\ude00\":1}", KindDuplicateMember, 10},
		{"nested duplicate", `[{"x":{"k":1,"k":2}}]`, KindDuplicateMember, 13},
		{"empty duplicate", `{"":1,"":1}`, KindDuplicateMember, 6},
		{"depth", strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1), KindDepth, MaxDepth},
		{"depth of objects", strings.Repeat(`{"a":`, MaxDepth+1) + "1" + strings.Repeat("}", MaxDepth+1), KindDepth, 5 * MaxDepth},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, err := Canonicalize([]byte(c.in))
			assert.Nil(t, out)
			assertKind(t, err, c.kind, c.offset)
			assertKind(t, Check([]byte(c.in)), c.kind, c.offset)
			v, err := Decode([]byte(c.in))
			assert.Nil(t, v)
			assertKind(t, err, c.kind, c.offset)
			sum, err := SHA256([]byte(c.in))
			assert.Empty(t, sum)
			assertKind(t, err, c.kind, c.offset)
		})
	}
}

func assertKind(t *testing.T, err error, kind Kind, offset int) {
	t.Helper()
	var refusal *Error
	if assert.ErrorAs(t, err, &refusal) {
		assert.Equal(t, kind, refusal.Kind, refusal.Error())
		assert.Equal(t, offset, refusal.Offset, refusal.Error())
	}
}

// Texts made to cost a reader: each is refused or transformed in time that grows about as fast as the text.
func TestHostileTextsAreQuick(t *testing.T) {
	t.Parallel()
	var reversed, escapes bytes.Buffer
	reversed.WriteByte('{')
	for i := 200_000; i > 0; i-- {
		reversed.WriteString(`"` + strconv.Itoa(1_000_000+i) + `":0,`)
	}
	reversed.WriteString(`"a":0}`)
	escapes.WriteString(`{"`)
	escapes.WriteString(strings.Repeat(`\n`, 1_000_000))
	escapes.WriteString(`":0}`)
	for name, c := range map[string]struct {
		in   []byte
		kind Kind
	}{
		"a million brackets":     {bytes.Repeat([]byte("["), 1_000_000), KindDepth},
		"members in reverse":     {reversed.Bytes(), ""},
		"a name of escapes":      {escapes.Bytes(), ""},
		"a number of a megabyte": {append([]byte("0."), bytes.Repeat([]byte("1"), 1_000_000)...), ""},
		"over the size":          {make([]byte, MaxSize+1), KindSize},
	} {
		start := time.Now()
		_, err := Canonicalize(c.in)
		assert.Less(t, time.Since(start), 10*time.Second, name)
		var refusal *Error
		if c.kind == "" {
			assert.NoError(t, err, name)
		} else if assert.ErrorAs(t, err, &refusal, name) {
			assert.Equal(t, c.kind, refusal.Kind, name)
		}
	}
}

func TestCanonicalizeValue(t *testing.T) {
	t.Parallel()
	got, err := CanonicalizeValue(map[string]any{"b": "<\u2028>", "a": []any{1.0, nil, true, json.Number("2e0")}})
	require.NoError(t, err)
	assert.Equal(t, "{\"a\":[1,null,true,2],\"b\":\"<\u2028>\"}", string(got))

	got, err = CanonicalizeValue(struct {
		Raw json.RawMessage `json:"raw"`
	}{json.RawMessage(`{"z":"\ufffd","a":1.50}`)})
	require.NoError(t, err)
	assert.Equal(t, "{\"raw\":{\"a\":1.5,\"z\":\"\ufffd\"}}", string(got))

	for name, v := range map[string]any{
		"string": "a\xff", "member name": map[string]int{"\xff": 1}, "deep": []any{map[string]any{"a": &struct{ S string }{"\xc0"}}},
	} {
		out, err := CanonicalizeValue(v)
		assert.Nil(t, out, name)
		var refusal *Error
		if assert.ErrorAs(t, err, &refusal, name) {
			assert.Equal(t, KindUTF8, refusal.Kind, name)
		}
	}
	_, err = CanonicalizeValue(int64(1) << 60)
	assertKind(t, err, KindUnsafeInteger, 0)
	_, err = CanonicalizeValue(make(chan int))
	assert.Error(t, err)
}

func TestDecodeKeepsNumbersAsWritten(t *testing.T) {
	t.Parallel()
	v, err := Decode([]byte(`{"a":[1.50,"x"]}`))
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"a": []any{json.Number("1.50"), "x"}}, v)
}

func TestSHA256(t *testing.T) {
	t.Parallel()
	got, err := SHA256([]byte(" { } "))
	require.NoError(t, err)
	assert.Equal(t, "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", got)
}

func TestCompareUTF16(t *testing.T) {
	t.Parallel()
	texts := []string{"", "a", "ab", "b", "\u007f", "\u0080", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\ufb33", "\uffff",
		"\U00010000", "\U0001F600", "\U0010FFFF", "a\U00010000", "a\uffff", "\U0001F600a", "\U0001F601"}
	for _, a := range texts {
		for _, b := range texts {
			want := compareUnits(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
			assert.Equal(t, want, sign(CompareUTF16(a, b)), "%q %q", a, b)
		}
	}
}

func compareUnits(a, b []uint16) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return sign(int(a[i]) - int(b[i]))
		}
	}
	return sign(len(a) - len(b))
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

const seedFolder = "testdata/seeds"

// A fuzz target without seeds passes on nothing, so their presence is a test of its own.
func seeds(t testing.TB) map[string][]byte {
	entries, err := os.ReadDir(seedFolder)
	require.NoError(t, err)
	texts := map[string][]byte{}
	for _, entry := range entries {
		text, err := os.ReadFile(seedFolder + "/" + entry.Name())
		require.NoError(t, err)
		texts[entry.Name()] = text
	}
	return texts
}

func TestSeedsExist(t *testing.T) {
	t.Parallel()
	assert.GreaterOrEqual(t, len(seeds(t)), 5)
}

// FuzzCanonicalize holds the scanner against the chosen package's own transformation and against encoding/json.
func FuzzCanonicalize(f *testing.F) {
	for _, text := range seeds(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := Canonicalize(text)
		checked := Check(text)
		if (err == nil) != (checked == nil) {
			t.Fatalf("Check and Canonicalize disagree: %v, %v", checked, err)
		}
		if err != nil {
			var refusal *Error
			if !errors.As(err, &refusal) || got != nil || refusal.Offset < 0 || refusal.Offset > len(text) {
				t.Fatalf("a refusal that is not one: %v with %q", err, got)
			}
			return
		}
		if !json.Valid(got) {
			t.Fatalf("not JSON: %q", got)
		}
		wrapped := append(append([]byte("["), text...), ']')
		want, err := jsoncanonicalizer.Transform(wrapped)
		if err != nil || string(want) != "["+string(got)+"]" {
			t.Fatalf("%q: %q, and the package says %q, %v", text, got, want, err)
		}
		// Canonical bytes are their own canonical form, but for doubles that are integers beyond 2^53.
		again, err := Canonicalize(got)
		var refusal *Error
		if err != nil && !(errors.As(err, &refusal) && refusal.Kind == KindUnsafeInteger) {
			t.Fatalf("canonical bytes are refused: %v", err)
		}
		if err == nil && !bytes.Equal(again, got) {
			t.Fatalf("%q, and again %q", got, again)
		}
		if _, err := Decode(text); err != nil {
			t.Fatal(err)
		}
	})
}
