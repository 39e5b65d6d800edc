package harness

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode"
)

// redactor replaces credentials and canaries before anything is kept. What it
// is given is replaced in every form it can take on the wire: as it is, URL
// encoded, JSON escaped and base64.
type redactor struct {
	replace *strings.Replacer
	margin  int // bytes; no spelling of a secret is longer
	values  []string
	drop    bool // keep nothing of what crossed the wire, see Options.Unrecorded

	learned learnedSecrets // what hosts made and handed over during the run
}

// mintedMargin is the longest secret that is known by its shape alone: a
// header line's worth.
const mintedMargin = 8 << 10

// Secrets that hosts mint and that a suite can only know by their shape:
// interrupt resume tokens (identity.md §4) and webhook signing secrets.
var mintedSecrets = regexp.MustCompile(`\bow2\.[a-z0-9]+\.[A-Za-z0-9._~-]{1,128}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+|\bwhsec_[A-Za-z0-9+/=_-]{16,}`)

// newRedactor takes the values to hide by the label that stands in for them.
func newRedactor(secrets map[string]string) *redactor {
	forms := map[string]string{}
	var values []string
	for label, value := range secrets {
		if value == "" {
			continue
		}
		values = append(values, value)
		mark := "[redacted:" + label + "]"
		for _, form := range wireForms(value) {
			forms[form] = mark
		}
	}
	keys := make([]string, 0, len(forms))
	for k := range forms {
		keys = append(keys, k)
	}
	// Longest first, so that a key that contains another is replaced whole.
	sort.Slice(keys, func(i, j int) bool {
		if len(keys[i]) != len(keys[j]) {
			return len(keys[i]) > len(keys[j])
		}
		return keys[i] < keys[j]
	})
	pairs := make([]string, 0, 2*len(keys))
	for _, k := range keys {
		pairs = append(pairs, k, forms[k])
	}
	margin := mintedMargin
	if len(keys) > 0 {
		margin = max(margin, len(keys[0]))
	}
	return &redactor{replace: strings.NewReplacer(pairs...), margin: margin, values: values}
}

// wireForms are the spellings under which a value can cross the wire.
func wireForms(value string) []string {
	forms := []string{
		value,
		url.QueryEscape(value),
		url.PathEscape(value),
		base64.StdEncoding.EncodeToString([]byte(value)),
		base64.RawStdEncoding.EncodeToString([]byte(value)),
		base64.URLEncoding.EncodeToString([]byte(value)),
		base64.RawURLEncoding.EncodeToString([]byte(value)),
	}
	for _, escaped := range forms[1:3] {
		forms = append(forms, percentEscape.ReplaceAllStringFunc(escaped, strings.ToLower))
	}
	for _, html := range []bool{false, true} {
		var quoted strings.Builder
		enc := json.NewEncoder(&quoted)
		enc.SetEscapeHTML(html)
		if enc.Encode(value) == nil {
			inner := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(quoted.String()), `"`), `"`)
			forms = append(forms, inner, strings.ReplaceAll(inner, "/", `\/`))
		}
	}
	// What no escaping rule asks for, and an echo can still hold: hex, every
	// character escaped, another case, and base64 of a longer text around it.
	plainHex, percent, escaped := hex.EncodeToString([]byte(value)), "", ""
	for i := range len(value) {
		percent += fmt.Sprintf("%%%02X", value[i])
		escaped += fmt.Sprintf(`\u%04x`, value[i])
	}
	forms = append(forms, plainHex, strings.ToUpper(plainHex), percent, strings.ToLower(percent), escaped,
		strings.ReplaceAll(strings.ToUpper(escaped), `\U`, `\u`), strings.ToUpper(value), strings.ToLower(value), http.CanonicalHeaderKey(value))
	return append(forms, innerBase64(value)...)
}

// innerBase64 is what base64 of any text that holds the value has in common,
// at the two alignments that base64 of the value alone does not show. Values
// too short to be told from chance are left to the other forms.
func innerBase64(value string) []string {
	var forms []string
	for before := range 3 {
		padded := strings.Repeat("\x00", before) + value
		std := base64.RawStdEncoding.EncodeToString([]byte(padded))
		// The first characters mix in what stands before, the last what follows.
		inner := std[(before*8+5)/6 : len(padded)*8/6]
		if len(inner) >= minInner {
			forms = append(forms, inner, strings.NewReplacer("+", "-", "/", "_").Replace(inner))
		}
	}
	return forms
}

// minInner is the least length of a base64 fragment that is taken for a key.
const minInner = 12

// escapes are spellings of single characters that text formats allow.
var escapes = regexp.MustCompile(`\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2}`)

// between is what can stand between two halves of a text: the syntax of JSON and
// of event streams, and white space.
var between = regexp.MustCompile("(?:\r\n|\r|\n)(?:data|event|id|retry)?:? ?|[\\s\",\\[\\]{}+]+")

// hides reports whether a text holds a secret in a spelling or a division that
// replacing cannot reach. Such a text is not kept at all.
func (r *redactor) hides(s string) bool {
	if !strings.Contains(s, `\u`) && !strings.Contains(s, "%") && !r.glimpses(s) {
		return false // by far the most texts; the patterns below are slow
	}
	plain := escapes.ReplaceAllStringFunc(s, func(e string) string {
		n, err := strconv.ParseUint(strings.TrimLeft(e, `\u%`), 16, 16)
		if err != nil || n > unicode.MaxASCII {
			return e
		}
		return string(rune(n))
	})
	joined := between.ReplaceAllString(plain, "")
	for _, v := range r.values {
		if strings.Contains(plain, v) || strings.Contains(joined, v) {
			return true
		}
	}
	return false
}

// glimpses reports whether a third of a secret stands somewhere in a text,
// which one division at least leaves.
func (r *redactor) glimpses(s string) bool {
	for _, v := range r.values {
		third := len(v) / 3
		if third < 2 || strings.Contains(s, v[:third]) || strings.Contains(s, v[third:2*third]) || strings.Contains(s, v[2*third:]) {
			return true
		}
	}
	return false
}

// withheld stands for a text that could not be redacted.
const withheld = "[withheld: it holds a credential in disguise]"

var percentEscape = regexp.MustCompile(`%[0-9A-F]{2}`)

func (r *redactor) text(s string) string {
	if s == "" {
		return s
	}
	s = r.known(s)
	if s == withheld {
		return s
	}
	if !strings.Contains(s, "ow2.") && !strings.Contains(s, "whsec_") {
		return s // looking for the two beginnings is far cheaper than the pattern
	}
	return mintedSecrets.ReplaceAllString(s, "[redacted:minted-secret]")
}

// known replaces what the redactor was given or has learned, and nothing that
// only looks like a secret.
func (r *redactor) known(s string) string {
	s = r.learned.replace(r.replace.Replace(s))
	if r.hides(s) {
		return withheld
	}
	return s
}
