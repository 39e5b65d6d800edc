// Package jcs holds the canonical JSON every digest and signature of a certification bundle is made over: RFC 8785
// bytes (JSON Canonicalization Scheme) of an I-JSON (RFC 7493) text.
//
// Input that is not I-JSON is refused and never repaired. Two implementations that repair differently sign different
// bytes for the same text, so a repair is a way to show one document to a reader and another to a verifier.
//
// # What is refused
//
// In this order: a text longer than [MaxSize] (size), bytes that are not UTF-8 (utf8), a text that is not one JSON
// value (syntax), and then, at the first place a single scan meets it: an unpaired surrogate escape (lone-surrogate),
// nesting deeper than [MaxDepth] (depth), a number no IEEE 754 double holds (number-range), an integer literal beyond
// ±(2^53−1) (unsafe-integer), a member name that occurs twice in one object once escapes are resolved
// (duplicate-member). A byte order mark is a syntax error.
//
// # Numbers
//
// A number is an IEEE 754 double, as RFC 8785 section 3.2.2.3 has it. An integer literal is a number written without
// fraction and without exponent; only those are held to ±(2^53−1). What the texts leave to the reader is decided so:
//
//   - 9007199254740993 is refused (unsafe-integer): the text names an integer that a double does not hold.
//   - 9007199254740993.0 is accepted as the double nearest to it and canonicalizes to 9007199254740992. A fraction or
//     an exponent says that a double was meant, exactly as for 0.1.
//   - 1e16 is accepted and canonicalizes to 10000000000000000. Canonical bytes are what is hashed and signed, not a text
//     to read back: for doubles from 2^53 up to 1e21 they are an integer literal that [Check] refuses.
//   - 1e400 is refused (number-range): it has no double.
//   - 1e-400 is refused (number-range): a number that is not zero would become zero. 1e-323, which a subnormal double
//     approximates, is accepted.
//   - -0, -0.0 and 0e5 are accepted and canonicalize to 0.
//
// # Noncharacters
//
// RFC 7493 section 2.1 also names Unicode noncharacters (U+FFFE, U+FDD0 and the like). They are accepted: every
// implementation encodes them to the same bytes, so no two readers of one text can disagree over them.
package jcs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

// MaxDepth is the deepest nesting of objects and arrays accepted; a document that is one object has depth 1.
const MaxDepth = 64

// MaxSize is the longest text accepted, in bytes.
const MaxSize = 64 << 20

// Kind says why a text was refused. The values are part of the published test vectors.
type Kind string

// The kinds of refusal; the package documentation says what each means.
const (
	KindSize            Kind = "size"
	KindUTF8            Kind = "utf8"
	KindSyntax          Kind = "syntax"
	KindDuplicateMember Kind = "duplicate-member"
	KindLoneSurrogate   Kind = "lone-surrogate"
	KindNumberRange     Kind = "number-range"
	KindUnsafeInteger   Kind = "unsafe-integer"
	KindDepth           Kind = "depth"
)

// Error is a refusal. Offset is the zero-based byte of the text at which the refused construct begins, or at which
// reading stopped making sense for KindSyntax.
type Error struct {
	Kind   Kind
	Offset int
	Detail string
}

// Error gives the refusal on one line.
func (e *Error) Error() string {
	return fmt.Sprintf("not I-JSON (%s at byte %d): %s", e.Kind, e.Offset, e.Detail)
}

// Check reports whether data is an I-JSON text within the limits. The error is an *Error.
func Check(data []byte) error {
	_, err := run(data, false)
	return err
}

// Canonicalize returns the RFC 8785 bytes of data, which may be any JSON value. The error is an *Error, and no bytes
// come with it.
func Canonicalize(data []byte) ([]byte, error) {
	return run(data, true)
}

// CanonicalizeValue returns the RFC 8785 bytes of v as encoding/json writes it, without HTML escaping.
//
// A Go string that is not UTF-8 is refused (KindUTF8), where encoding/json alone would replace the bytes. A value
// encoding/json cannot write is an error of that package. Offsets are those of the intermediate text.
func CanonicalizeValue(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding a value for canonicalization: %w", err)
	}
	// The encoder writes a replaced byte as an escape and a real U+FFFD as itself, so the walk is rarely needed.
	if bytes.Contains(buf.Bytes(), []byte(`\ufffd`)) && !validStrings(reflect.ValueOf(v)) {
		return nil, &Error{Kind: KindUTF8, Detail: "a string of the value is not UTF-8"}
	}
	return Canonicalize(bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}

// Decode checks data and decodes it: map[string]any, []any, json.Number, string, bool or nil.
func Decode(data []byte) (any, error) {
	if err := Check(data); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, syntaxError(data, err)
	}
	return v, nil
}

// SHA256 returns the SHA-256 of the RFC 8785 bytes of data in lower-case hex.
func SHA256(data []byte) (string, error) {
	canonical, err := Canonicalize(data)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// run is the guard and, where emit is set, the transformation.
func run(data []byte, emit bool) ([]byte, error) {
	if len(data) > MaxSize {
		return nil, &Error{Kind: KindSize, Offset: MaxSize, Detail: fmt.Sprintf("%d bytes; at most %d are read", len(data), MaxSize)}
	}
	if !utf8.Valid(data) {
		return nil, &Error{Kind: KindUTF8, Offset: invalidUTF8(data), Detail: "bytes that are not UTF-8"}
	}
	if !json.Valid(data) {
		var raw json.RawMessage
		return nil, syntaxError(data, json.Unmarshal(data, &raw))
	}
	s := scanner{data: data, emit: emit}
	if emit {
		s.out = make([]byte, 0, len(data))
	}
	s.space()
	if err := s.value(0); err != nil {
		return nil, err
	}
	return s.out, nil
}

// syntaxError turns an error of encoding/json into ours. Its own limit on nesting lies far above MaxDepth.
func syntaxError(data []byte, err error) *Error {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax) && strings.Contains(syntax.Error(), "max depth"):
		return &Error{Kind: KindDepth, Offset: int(syntax.Offset), Detail: fmt.Sprintf("nesting deeper than %d", MaxDepth)}
	case errors.As(err, &syntax):
		offset := max(int(syntax.Offset)-1, 0)
		if strings.Contains(syntax.Error(), "unexpected end") {
			offset = len(data)
		}
		return &Error{Kind: KindSyntax, Offset: offset, Detail: syntax.Error()}
	case errors.Is(err, io.EOF):
		return &Error{Kind: KindSyntax, Offset: len(data), Detail: "no JSON value"}
	case err == nil:
		return &Error{Kind: KindSyntax, Detail: "not one JSON value"}
	default:
		return &Error{Kind: KindSyntax, Detail: err.Error()}
	}
}

// invalidUTF8 finds the first byte that does not belong to UTF-8.
func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(data)
}

// validStrings reports whether every string reachable from v, as encoding/json reaches it, is UTF-8. It is called only
// for values the encoder has walked to an end, so it ends too.
func validStrings(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return utf8.ValidString(v.String())
	case reflect.Interface, reflect.Pointer:
		return v.IsNil() || validStrings(v.Elem())
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return true
		}
		for i := range v.Len() {
			if !validStrings(v.Index(i)) {
				return false
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if !validStrings(it.Key()) || !validStrings(it.Value()) {
				return false
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if (field.IsExported() || field.Anonymous) && field.Tag.Get("json") != "-" && !validStrings(v.Field(i)) {
				return false
			}
		}
	}
	return true
}
