package harness

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"sort"
	"strings"
)

// redactor replaces credentials and canaries before anything is kept. What it
// is given is replaced in every form it can take on the wire: as it is, URL
// encoded, JSON escaped and base64.
type redactor struct {
	replace *strings.Replacer
	margin  int // bytes; no spelling of a secret is longer
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
	for label, value := range secrets {
		if value == "" {
			continue
		}
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
	return &redactor{replace: strings.NewReplacer(pairs...), margin: margin}
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
	return forms
}

var percentEscape = regexp.MustCompile(`%[0-9A-F]{2}`)

func (r *redactor) text(s string) string {
	if s == "" {
		return s
	}
	return mintedSecrets.ReplaceAllString(r.replace.Replace(s), "[redacted:minted-secret]")
}
