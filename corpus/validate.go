package corpus

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"wopcert/bundle/jcs"
)

// ErrUnknownSchema is returned, wrapped, for a schema name the contract lacks.
var ErrUnknownSchema = errors.New("no such schema in the contract")

// ValidationError says how a document departs from a schema.
type ValidationError struct {
	// Schema is the schema's name as it was asked for.
	Schema string
	// Violations are sorted by pointer, keyword and message, without repeats.
	Violations []Violation
}

// Violation is one departure.
type Violation struct {
	// Pointer is the JSON Pointer of the value at fault; "" is the whole document.
	Pointer string
	// Keyword is the schema keyword that refused it ("false" for a member that must
	// not be there), "value" when the value is not one JSON can hold, or "type-index"
	// for an event type nobody registered.
	Keyword string
	Message string
}

func (v Violation) String() string {
	at := v.Pointer
	if at == "" {
		at = "(document)"
	}
	return at + ": " + v.Message
}

const shownViolations = 5

// Error is one line: at most five violations, then how many more there are.
func (e *ValidationError) Error() string {
	shown := e.Violations[:min(len(e.Violations), shownViolations)]
	parts := make([]string, len(shown))
	for i, v := range shown {
		parts[i] = v.String()
	}
	text := "does not match " + e.Schema + ": " + strings.Join(parts, "; ")
	if more := len(e.Violations) - len(shown); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// Validate checks the bytes of a document. Bytes that are not I-JSON within the
// limits of package jcs give that package's *jcs.Error, wrapped; a document that
// departs from the schema gives a *ValidationError.
func (c *Corpus) Validate(schema string, document []byte) error {
	if !c.schemas.has(schema) {
		return unknownSchema(schema)
	}
	value, err := jcs.Decode(document)
	if err != nil {
		return fmt.Errorf("not checked against %s: %w", schema, err)
	}
	return c.ValidateValue(schema, value)
}

// ValidateValue checks a decoded value: map[string]any, []any, json.Number (or a
// finite float64 or int), string, bool and nil. Anything else, a number that is
// not JSON and nesting beyond jcs.MaxDepth give a *ValidationError.
func (c *Corpus) ValidateValue(schema string, value any) (err error) {
	compiled, ok := c.schemas.compiled[schema]
	if !ok {
		return unknownSchema(schema)
	}
	if bad := checkValue(value, 0); bad != nil {
		return &ValidationError{Schema: schema, Violations: inOrder(bad)}
	}
	defer func() {
		if r := recover(); r != nil {
			err = &ValidationError{Schema: schema, Violations: []Violation{
				{Keyword: "value", Message: fmt.Sprintf("the validator could not read the value: %v", r)}}}
		}
	}()
	failure := compiled.Validate(value)
	if failure == nil {
		return nil
	}
	var tree *jsonschema.ValidationError
	if !errors.As(failure, &tree) {
		return fmt.Errorf("schema %s: %w", schema, failure)
	}
	return &ValidationError{Schema: schema, Violations: flatten(tree)}
}

// ValidatePayload checks the payload of a run event of the given type against the
// entry the type index names (events.md §Payloads). A type that is not registered
// has no entry and gives a *ValidationError.
func (c *Corpus) ValidatePayload(eventType string, payload any) error {
	event, ok := c.events.get(eventType, identity)
	if !ok {
		return &ValidationError{Schema: "run-event-payloads", Violations: []Violation{{
			Keyword: "type-index",
			Message: fmt.Sprintf("event type %q is not registered, so no payload definition applies", eventType),
		}}}
	}
	return c.ValidateValue(payloadSchema(event.Payload), payload)
}

// SchemaNames lists the names Validate accepts, sorted.
func (c *Corpus) SchemaNames() []string { return c.schemas.names() }

func payloadSchema(def string) string { return "run-event-payloads#/$defs/" + def }

func unknownSchema(name string) error {
	return fmt.Errorf("schema %q: %w", name, ErrUnknownSchema)
}

// checkValue keeps from the validator what makes it panic or crawl. depth is the
// number of containers around the value.
func checkValue(value any, depth int) []Violation {
	bad := func(format string, args ...any) []Violation {
		return []Violation{{Keyword: "value", Message: fmt.Sprintf(format, args...)}}
	}
	var found []Violation
	switch value := value.(type) {
	case nil, bool, int, int64:
	case string:
		if !utf8.ValidString(value) {
			return bad("text that is not UTF-8")
		}
	case float64:
		if math.IsNaN(value) || math.IsInf(value, 0) {
			return bad("a number that is not finite")
		}
	case json.Number:
		if !isJSONNumber(string(value)) {
			return bad("%.40q is not a JSON number in range", string(value))
		}
	case map[string]any:
		if depth >= jcs.MaxDepth {
			return bad("nested deeper than %d levels", jcs.MaxDepth)
		}
		for key, member := range value {
			if !utf8.ValidString(key) {
				found = append(found, bad("a member name that is not UTF-8")...)
			}
			found = append(found, under(escapePointer(key), checkValue(member, depth+1))...)
		}
	case []any:
		if depth >= jcs.MaxDepth {
			return bad("nested deeper than %d levels", jcs.MaxDepth)
		}
		for i, item := range value {
			if inner := checkValue(item, depth+1); inner != nil {
				found = append(found, under(strconv.Itoa(i), inner)...)
			}
		}
	default:
		return bad("a Go %T is not a decoded JSON value", value)
	}
	return found
}

// under moves violations of a member below its name.
func under(name string, inner []Violation) []Violation {
	for i := range inner {
		inner[i].Pointer = "/" + name + inner[i].Pointer
	}
	return inner
}

// maxNumberLength bounds the arithmetic the validator does on a literal.
const maxNumberLength = 400

func isJSONNumber(s string) bool {
	if len(s) > maxNumberLength || !json.Valid([]byte(s)) || strings.TrimSpace(s) != s || strings.Trim(s[:1], "-0123456789") != "" {
		return false
	}
	if _, exponent, found := strings.Cut(strings.ToLower(s), "e"); found {
		if n, err := strconv.Atoi(exponent); err != nil || n < -maxNumberLength || n > maxNumberLength {
			return false
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	return err == nil && !math.IsInf(f, 0)
}

// flatten reduces the validator's tree to its leaves in a fixed order.
func flatten(tree *jsonschema.ValidationError) []Violation {
	var leaves []Violation
	var walk func(*jsonschema.ValidationError)
	walk = func(node *jsonschema.ValidationError) {
		// What single items lack says little when it is the list that lacks an item.
		if len(node.Causes) > 0 && keyword(node) != "contains" {
			for _, cause := range node.Causes {
				walk(cause)
			}
			return
		}
		leaves = append(leaves, Violation{
			Pointer: unescapeFragment(node.InstanceLocation),
			Keyword: keyword(node),
			Message: message(node),
		})
	}
	walk(tree)
	return inOrder(leaves)
}

// inOrder sorts violations and drops repeats: the validator's order varies from
// call to call.
func inOrder(violations []Violation) []Violation {
	slices.SortFunc(violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Keyword, b.Keyword), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(violations)
}

// keyword is the last keyword of a location. A position in a list is none, and
// neither is the member name a location ends with when the member's schema is
// false.
func keyword(node *jsonschema.ValidationError) string {
	parts := strings.Split(node.KeywordLocation, "/")
	last := parts[len(parts)-1]
	if _, err := strconv.Atoi(last); err == nil && len(parts) > 1 {
		last = parts[len(parts)-2]
	}
	switch {
	case node.Message == "not allowed":
		return "false"
	case last == "minContains":
		return "contains"
	}
	return last
}

// message puts what the validator says in one readable line.
func message(node *jsonschema.ValidationError) string {
	switch {
	case keyword(node) == "contains":
		return "lacks an item it must contain"
	case node.Message == "not failed":
		return "has a form that is excluded here"
	case node.Message == "not allowed":
		return "must not be here"
	}
	text := node.Message
	if names, ok := strings.CutPrefix(text, "additionalProperties "); ok {
		text = "unknown members " + inNameOrder(strings.TrimSuffix(names, " not allowed"))
	}
	if utf8.RuneCountInString(text) > maxMessageLength {
		return string([]rune(text)[:maxMessageLength]) + "…"
	}
	return text
}

// inNameOrder sorts a list of quoted names, which the validator gives in the order
// of a map. A quote inside a name is escaped, so the separator is in no name.
func inNameOrder(list string) string {
	const separator = "', '"
	names := strings.Split(strings.TrimSuffix(strings.TrimPrefix(list, "'"), "'"), separator)
	slices.Sort(names)
	return "'" + strings.Join(names, separator) + "'"
}

// maxMessageLength keeps the long enumerations of the registries out of error text.
const maxMessageLength = 160

func escapePointer(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// unescapeFragment undoes the percent-encoding the validator adds to pointers.
func unescapeFragment(pointer string) string {
	if plain, err := url.PathUnescape(pointer); err == nil {
		return plain
	}
	return pointer
}
