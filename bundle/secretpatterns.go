package bundle

import (
	"encoding/base64"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// secretPattern is the shape of one kind of credential. Its expression runs only where a mark occurs: expressions are
// the slow part.
type secretPattern struct {
	name  string
	marks []string // compared in any case
	expr  *regexp.Regexp
	// when decides over a match that the expression alone cannot tell from prose; nil accepts every match.
	when func(match string) bool
	// published: the captured document may hold it as a public fact.
	published bool
}

func (p secretPattern) mayOccur(text string) bool {
	for _, mark := range p.marks {
		if containsFold(text, mark) {
			return true
		}
	}
	return false
}

// start is where a token begins: row ids and slugs hold the short marks inside words.
const start = `(?:^|[^A-Za-z0-9_-])`

// secretPatterns are private keys in PEM, bearer and other authorization values, resume tokens, JSON Web Tokens,
// passwords in addresses, and the keys of services that mark theirs.
func secretPatterns() []secretPattern {
	compile := regexp.MustCompile
	return []secretPattern{
		{name: "a private key in PEM", marks: []string{"private key"}, expr: compile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----`)},
		{name: "a bearer token", marks: []string{"bearer"}, expr: compile(`(?i)\bbearer\s+[A-Za-z0-9._~+/-]{16,}`), when: hasDigit},
		{name: "an authorization value", marks: []string{"authorization"},
			expr: compile(`(?i)\bauthorization["']?\s*[:=]\s*["']?(?:basic|bearer|dpop)\s+[A-Za-z0-9._~+/=-]{8,}`)},
		{name: "an authorization value", marks: []string{"authorization"}, published: true, when: headerValue,
			expr: compile(`(?i)\bauthorization["']?\s*[:=]\s*["']?(?:[a-z][a-z0-9-]*\s+[a-z]+=[^\r\n]{1,400}|(?:[a-z][a-z0-9-]*\s+)?[A-Za-z0-9._~+/=:-]{8,})`)},
		{name: "basic credentials", marks: []string{"basic"}, published: true, when: basicCredentials,
			expr: compile(`(?i)\bbasic\s+[A-Za-z0-9+/_-]{4,}={0,2}`)},
		{name: "a resume token", marks: []string{"ow2."}, expr: compile(`\bow2\.[A-Za-z0-9_-]{8,}`)},
		{name: "a JSON Web Token", marks: []string{"eyj"}, published: true, when: hasDigit,
			expr: compile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`)},
		{name: "an address with a password", marks: []string{"://"}, published: true, when: hasPassword,
			expr: compile(`(?i)\b[a-z][a-z0-9+.-]*://[^\s/?#@:"'<>]*:[^\s/?#"'<>]+@`)},
		{name: "a GitHub token", marks: []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"}, published: true,
			expr: compile(`(?:gh[pousr]|github_pat)_[A-Za-z0-9_]{16,}`)},
		{name: "a service key", marks: []string{"sk-"}, published: true, when: func(match string) bool {
			_, key, _ := strings.Cut(match, "sk-")
			return looksLikeKey(key)
		}, expr: compile(start + `sk-[A-Za-z0-9_-]{20,}`)},
		{name: "an AWS access key", marks: []string{"akia"}, published: true, expr: compile(start + `AKIA[A-Z0-9]{16}`)},
		{name: "a Slack token", marks: []string{"xox"}, published: true, expr: compile(`\bxox[abprs]-[A-Za-z0-9-]{8,}`)},
	}
}

// maxKeyPrefix bounds the prefix a key is looked for with; a longer one is no prefix anybody uses.
const maxKeyPrefix = 64

func testKeyPattern(prefix string) secretPattern {
	return secretPattern{name: "a test key of the host", marks: []string{prefix}, published: true,
		when: func(match string) bool {
			_, key, _ := strings.Cut(match, prefix)
			// A mark with a digit in it is no word, so what follows is no slug.
			return hasDigit(prefix) || looksLikeKey(key)
		},
		expr: regexp.MustCompile(start + regexp.QuoteMeta(prefix) + `[A-Za-z0-9_-]{12,}`)}
}

// hasDigit tells a token from prose: words hold no digits.
func hasDigit(match string) bool { return strings.ContainsAny(match, "0123456789") }

// runs are the parts of a text without punctuation.
func runs(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// looksLikeKey tells the rest of a key behind its mark from the words of a slug, "authentication-is-2-legged".
func looksLikeKey(text string) bool {
	for _, run := range runs(text) {
		if len(run) >= 12 || len(run) >= 6 && hasDigit(run) {
			return true
		}
	}
	return false
}

// headerValue tells the value of an Authorization header from a sentence about one: prose holds no word of such a
// length, and no long one with digits among its letters.
func headerValue(match string) bool {
	for _, run := range runs(match[len("authorization"):]) {
		if len(run) >= 18 || len(run) >= 8 && hasDigit(run) && strings.Trim(run, "0123456789") != "" {
			return true
		}
	}
	return false
}

// basicCredentials reports whether a match of "Basic" and a word is base64 of user:password (RFC 7617 §2).
func basicCredentials(match string) bool {
	fields := strings.Fields(match)
	word := strings.TrimRight(fields[len(fields)-1], "=")
	word = strings.NewReplacer("-", "+", "_", "/").Replace(word)
	plain, err := base64.RawStdEncoding.DecodeString(word)
	if err != nil || !utf8.Valid(plain) {
		return false
	}
	_, password, ok := strings.Cut(string(plain), ":")
	return ok && password != "" && strings.IndexFunc(string(plain), unicode.IsControl) < 0
}

// hasPassword tells a password in an address from the mark of one that was taken out.
func hasPassword(match string) bool {
	_, authority, _ := strings.Cut(match, "://")
	_, password, _ := strings.Cut(strings.TrimSuffix(authority, "@"), ":")
	return strings.Trim(password, "*") != "" && !strings.HasPrefix(password, "[redacted") && !strings.HasPrefix(password, "%3C")
}
