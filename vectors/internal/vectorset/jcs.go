package vectorset

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// AcceptFile is jcs/accept.json.
type AcceptFile struct {
	Description string   `json:"description"`
	Cases       []Accept `json:"cases"`
}

// Accept is a text and its canonical form. Input and Canonical repeat the base64 for a reader where they are UTF-8.
type Accept struct {
	ID              string `json:"id"`
	Rule            string `json:"rule"`
	Input           string `json:"input"`
	InputBase64     string `json:"inputBase64"`
	Canonical       string `json:"canonical"`
	CanonicalBase64 string `json:"canonicalBase64"`
	SHA256          string `json:"sha256"`
}

// RefuseFile is jcs/refuse.json.
type RefuseFile struct {
	Description string   `json:"description"`
	Cases       []Refuse `json:"cases"`
}

// Refuse is a text that must be refused, the kind of the refusal and the byte offset of the construct refused.
type Refuse struct {
	ID          string `json:"id"`
	Rule        string `json:"rule"`
	Input       string `json:"input,omitempty"`
	InputBase64 string `json:"inputBase64"`
	Kind        string `json:"kind"`
	Offset      int    `json:"offset"`
}

// NumbersFile is jcs/numbers.json.
type NumbersFile struct {
	Description string   `json:"description"`
	Cases       []Number `json:"cases"`
}

// Number is a double by its bits, a literal that denotes it, and its canonical form.
type Number struct {
	IEEE754   string `json:"ieee754"`
	Literal   string `json:"literal"`
	Canonical string `json:"canonical"`
}

func accept(id, rule, input, canonical string) Accept {
	return Accept{id, rule, input, base64.StdEncoding.EncodeToString([]byte(input)),
		canonical, base64.StdEncoding.EncodeToString([]byte(canonical)), digest([]byte(canonical))}
}

func jcsAccept() AcceptFile {
	deepest := strings.Repeat("[", 64) + strings.Repeat("]", 64)
	return AcceptFile{
		"Texts and their RFC 8785 form. Canonicalize inputBase64; the bytes must be canonicalBase64 and their SHA-256 sha256.",
		[]Accept{
			accept("empty-object", "white space is dropped", " {\t} ", "{}"),
			accept("empty-array", "white space is dropped", "[\r\n]", "[]"),
			accept("empty-string", "scalars at the top", `""`, `""`),
			accept("scalar-string", "scalars at the top", " \"text\" ", `"text"`),
			accept("scalar-number", "scalars at the top", "1.50", "1.5"),
			accept("scalar-true", "scalars at the top", "true", "true"),
			accept("scalar-false", "scalars at the top", "false\n", "false"),
			accept("scalar-null", "scalars at the top", "null", "null"),
			accept("array-order", "arrays keep their order", `[3, 1, 2, [ ], { }]`, `[3,1,2,[],{}]`),
			accept("nested-order", "members are sorted at every level", `{"b":{"z":1,"a":[{"y":2,"x":1}]},"a":null}`, `{"a":null,"b":{"a":[{"x":1,"y":2}],"z":1}}`),
			accept("empty-name", "the empty name comes first", `{"a":1,"":2}`, `{"":2,"a":1}`),
			accept("prefix-name", "a name comes before those it begins", `{"ab":1,"a":2,"abc":3}`, `{"a":2,"ab":1,"abc":3}`),
			accept("case-order", "upper case sorts before lower case", `{"a":1,"B":2,"A":3,"b":4}`, `{"A":3,"B":2,"a":1,"b":4}`),
			accept("digit-order", "names sort as text, not as numbers", `{"10":1,"9":2,"1":3}`, `{"1":3,"10":1,"9":2}`),
			accept("escaped-name-order", "names are compared after their escapes are resolved", `{"\u0062":1,"a":2}`, `{"a":2,"b":1}`),
			accept("control-name-order", "names sort by code unit, not as escaped", `{"1":1,"\n":2,"\"":3,"\\":4,"a":5}`, `{"\n":2,"\"":3,"1":1,"\\":4,"a":5}`),
			accept("utf16-order", "a surrogate pair sorts before U+E000 and above", "{\"\uFB33\":1,\"\U0001F600\":2,\"\uE000\":3,\"\uD7FF\":4}", "{\"\uD7FF\":4,\"\U0001F600\":2,\"\uE000\":3,\"\uFB33\":1}"),
			accept("utf16-order-escaped", "the same, written as escapes", `{"\ufb33":1,"\ud83d\ude00":2}`, "{\"\U0001F600\":2,\"\uFB33\":1}"),
			accept("utf16-order-pairs", "pairs sort by their first, then by their second unit", "{\"\U0001F601\":1,\"\U00010000\":2,\"\U0001F600\":3,\"\U0010FFFF\":4}", "{\"\U00010000\":2,\"\U0001F600\":3,\"\U0001F601\":1,\"\U0010FFFF\":4}"),
			accept("utf16-order-within", "the order holds after a common beginning", "{\"x\uFFFF\":1,\"x\U00010000\":2}", "{\"x\U00010000\":2,\"x\uFFFF\":1}"),
			accept("short-escapes", "the seven short escapes are kept", `"\b\t\n\f\r\"\\"`, `"\b\t\n\f\r\"\\"`),
			accept("long-to-short", "an escape takes its shortest form", `"\u0008\u0009\u000A\u000c\u000D\u0022\u005c"`, `"\b\t\n\f\r\"\\"`),
			accept("controls", "other controls are \\u and four lower-case digits", `"\u0000\u000B\u001F"`, `"\u0000\u000b\u001f"`),
			accept("slash", "the slash is not escaped", `"\/"`, `"/"`),
			accept("delete", "U+007F is no control here", `"\u007f"`, "\"\u007f\""),
			accept("html", "nothing is escaped for HTML", `"<script>&'</script>"`, `"<script>&'</script>"`),
			accept("line-separators", "U+2028 and U+2029 stand as they are", `"\u2028\u2029"`, "\"\u2028\u2029\""),
			accept("letters", "escaped letters are resolved", `"\u0041\u00e9\u20AC"`, "\"Aé€\""),
			accept("no-normalization", "composed and decomposed forms stay apart", "\"\u00e9e\u0301\"", "\"\u00e9e\u0301\""),
			accept("pair", "an escaped pair becomes one character", `"\uD834\uDD1E"`, "\"\U0001D11E\""),
			accept("replacement-character", "U+FFFD is a character like any other", `"\ufffd"`, "\"\ufffd\""),
			accept("noncharacter", "noncharacters are accepted", `"\uffff"`, "\"\uffff\""),
			accept("minus-zero", "minus zero is zero", "[-0,-0.0,-0e3]", "[0,0,0]"),
			accept("plain-numbers", "the shortest form that reads back", "[1.0,2.50,1E2,1e-2,0.1,123456789]", "[1,2.5,100,0.01,0.1,123456789]"),
			accept("exponent-bounds", "exponent form begins at 1e21 and below 1e-6", "[1e20,1e21,1e-6,1e-7]", "[100000000000000000000,1e+21,0.000001,1e-7]"),
			accept("safe-integers", "integer literals up to 2^53-1", "[9007199254740991,-9007199254740991]", "[9007199254740991,-9007199254740991]"),
			accept("fraction-beyond-2-53", "a fraction says that a double was meant", "9007199254740993.0", "9007199254740992"),
			accept("exponent-beyond-2-53", "an exponent says that a double was meant", "1e16", "10000000000000000"),
			accept("subnormal", "a double rounds, also near zero", "[5e-324,4.9e-324]", "[5e-324,5e-324]"),
			accept("deepest", "64 levels are accepted", deepest, deepest),
		},
	}
}

func refuse(id, rule, input, kind string, offset int) Refuse {
	r := Refuse{ID: id, Rule: rule, InputBase64: base64.StdEncoding.EncodeToString([]byte(input)), Kind: kind, Offset: offset}
	if utf8.ValidString(input) && len(input) < 200 {
		r.Input = input
	}
	return r
}

func jcsRefuse() RefuseFile {
	return RefuseFile{
		"Texts that are not I-JSON within the limits. Each must be refused, and no bytes come with the refusal. offset is the byte at which the refused construct begins; for syntax it is advisory.",
		[]Refuse{
			refuse("empty", "a text is one value", "", "syntax", 0),
			refuse("truncated", "a text is one value", `{"a":[1,2`, "syntax", 9),
			refuse("two-values", "a text is one value", "{}{}", "syntax", 2),
			refuse("byte-order-mark", "no byte order mark", "\ufeff{}", "syntax", 0),
			refuse("leading-zero", "the number grammar of RFC 8259", "[01]", "syntax", 2),
			refuse("plus-sign", "the number grammar of RFC 8259", "[+1]", "syntax", 1),
			refuse("bare-fraction", "the number grammar of RFC 8259", "[.5]", "syntax", 1),
			refuse("bare-point", "the number grammar of RFC 8259", "[5.]", "syntax", 3),
			refuse("hexadecimal", "the number grammar of RFC 8259", "[0x10]", "syntax", 2),
			refuse("nan", "no NaN", "[NaN]", "syntax", 1),
			refuse("infinity", "no Infinity", "[Infinity]", "syntax", 1),
			refuse("trailing-comma", "no trailing comma", "[1,]", "syntax", 3),
			refuse("raw-control", "controls are escaped", "\"a\nb\"", "syntax", 2),
			refuse("single-quotes", "strings have double quotes", "{'a':1}", "syntax", 1),
			refuse("comment", "no comments", "{}//", "syntax", 2),
			refuse("stray-byte", "bytes are UTF-8", "\"a\xff\"", "utf8", 2),
			refuse("truncated-sequence", "bytes are UTF-8", "\"\xe2\x82\"", "utf8", 1),
			refuse("overlong", "bytes are UTF-8", "\"\xc0\xaf\"", "utf8", 1),
			refuse("encoded-surrogate", "bytes are UTF-8, which has no surrogates", "\"\xed\xa0\x80\"", "utf8", 1),
			refuse("beyond-unicode", "bytes are UTF-8", "\"\xf4\x90\x80\x80\"", "utf8", 1),
			refuse("lone-high", "no lone surrogate", `["\ud800"]`, "lone-surrogate", 2),
			refuse("lone-low", "no lone surrogate", `["a\udfff"]`, "lone-surrogate", 3),
			refuse("high-and-letter", "no lone surrogate", `"\ud800\u0041"`, "lone-surrogate", 1),
			refuse("high-and-short-escape", "no lone surrogate", `"\ud800\n"`, "lone-surrogate", 1),
			refuse("low-and-high", "no lone surrogate", `"\udc00\ud800"`, "lone-surrogate", 1),
			refuse("high-and-pair", "no lone surrogate", `"\ud800\ud83d\ude00"`, "lone-surrogate", 1),
			refuse("lone-in-name", "no lone surrogate in a name", `{"\udc00":1}`, "lone-surrogate", 2),
			refuse("integer-2-53", "no integer literal beyond 2^53-1", "9007199254740992", "unsafe-integer", 0),
			refuse("integer-2-53-plus-1", "no integer literal beyond 2^53-1", "[9007199254740993]", "unsafe-integer", 1),
			refuse("negative-integer", "no integer literal beyond 2^53-1", "[-9007199254740992]", "unsafe-integer", 1),
			refuse("long-integer", "no integer literal beyond 2^53-1", "1"+strings.Repeat("0", 400), "unsafe-integer", 0),
			refuse("overflow", "no number beyond the doubles", "[1e400]", "number-range", 1),
			refuse("negative-overflow", "no number beyond the doubles", "[-1.8e308]", "number-range", 1),
			refuse("underflow", "no number that would become zero", "[1e-400]", "number-range", 1),
			refuse("duplicate", "no duplicate member", `{"a":1,"b":2,"a":3}`, "duplicate-member", 13),
			refuse("duplicate-same-value", "no duplicate member, even of one value", `{"a":1,"a":1}`, "duplicate-member", 7),
			refuse("duplicate-by-escape", "names are compared after their escapes are resolved", `{"a":1,"\u0061":2}`, "duplicate-member", 7),
			refuse("duplicate-by-pair", "names are compared after their escapes are resolved", "{\"\U0001F600\":1,\"\\ud83d\\ude00\":2}", "duplicate-member", 10),
			refuse("duplicate-empty", "no duplicate member", `{"":1,"":2}`, "duplicate-member", 6),
			refuse("duplicate-nested", "no duplicate member at any level", `{"x":[{"k":1,"k":2}]}`, "duplicate-member", 13),
			refuse("too-deep-arrays", "at most 64 levels", strings.Repeat("[", 65)+strings.Repeat("]", 65), "depth", 64),
			refuse("too-deep-objects", "at most 64 levels", strings.Repeat(`{"a":`, 65)+"0"+strings.Repeat("}", 65), "depth", 320),
		},
	}
}

// jcsNumbers are doubles whose form RFC 8785 Appendix B lists. The literal has 17 significant digits and an exponent,
// which denote the double exactly and keep it from being an integer literal.
func jcsNumbers() NumbersFile {
	file := NumbersFile{Description: "Doubles by their bits. Reading literal must give the double; canonicalizing it must give canonical."}
	for _, c := range []struct {
		bits      uint64
		canonical string
	}{
		{0x0000000000000000, "0"},
		{0x8000000000000000, "0"},
		{0x0000000000000001, "5e-324"},
		{0x8000000000000001, "-5e-324"},
		{0x7fefffffffffffff, "1.7976931348623157e+308"},
		{0xffefffffffffffff, "-1.7976931348623157e+308"},
		{0x4340000000000000, "9007199254740992"},
		{0xc340000000000000, "-9007199254740992"},
		{0x4430000000000000, "295147905179352830000"},
		{0x44b52d02c7e14af5, "9.999999999999997e+22"},
		{0x44b52d02c7e14af6, "1e+23"},
		{0x44b52d02c7e14af7, "1.0000000000000001e+23"},
		{0x444b1ae4d6e2ef4e, "999999999999999700000"},
		{0x444b1ae4d6e2ef4f, "999999999999999900000"},
		{0x444b1ae4d6e2ef50, "1e+21"},
		{0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
		{0x3eb0c6f7a0b5ed8d, "0.000001"},
		{0x41b3de4355555553, "333333333.3333332"},
		{0x41b3de4355555554, "333333333.33333325"},
		{0x41b3de4355555555, "333333333.3333333"},
		{0x41b3de4355555556, "333333333.3333334"},
		{0x41b3de4355555557, "333333333.33333343"},
		{0xbecbf647612f3696, "-0.0000033333333333333333"},
		{0x43143ff3c1cb0959, "1424953923781206.2"},
	} {
		file.Cases = append(file.Cases, Number{
			strings.ToLower(padHex(c.bits)), strconv.FormatFloat(math.Float64frombits(c.bits), 'e', 17, 64), c.canonical})
	}
	return file
}

func padHex(bits uint64) string {
	text := strconv.FormatUint(bits, 16)
	return strings.Repeat("0", 16-len(text)) + text
}
