package bundle

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// secretScan looks for credentials in the strings of a bundle, after their escapes are resolved. It knows private keys
// in PEM, bearer and other authorization values, ow2. resume tokens, and the canaries it was given. It reports where,
// never what.
type secretScan struct {
	canaries []string
	patterns []secretPattern
}

// secretPattern runs its expression only where the mark occurs: expressions are the slow part.
type secretPattern struct {
	name string
	mark string // lower case
	expr *regexp.Regexp
	only string // the root member it is limited to
	when func(match string) bool
}

func newSecretScan(canaries []string) *secretScan {
	s := &secretScan{patterns: []secretPattern{
		{name: "a private key in PEM", mark: "private key", expr: regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----`)},
		{name: "a bearer token", mark: "bearer", expr: regexp.MustCompile(`(?i)\bbearer\s+[A-Za-z0-9._~+/-]{16,}`), when: looksRandom},
		{name: "an authorization value", mark: "authorization",
			expr: regexp.MustCompile(`(?i)\bauthorization["']?\s*[:=]\s*["']?(?:basic|bearer|dpop)\s+[A-Za-z0-9._~+/=-]{8,}`)},
		{name: "a resume token", mark: "ow2.", expr: regexp.MustCompile(`\bow2\.[A-Za-z0-9_-]{8,}`)},
		// A signed statement may be public where a host publishes it, never where a suite writes what it saw.
		{name: "a JSON Web Token", mark: "eyj", only: "results", when: looksRandom,
			expr: regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`)},
	}}
	for _, canary := range canaries {
		if canary != "" {
			s.canaries = append(s.canaries, canary)
		}
	}
	return s
}

// looksRandom tells a token from prose: words hold no digits.
func looksRandom(match string) bool { return strings.ContainsAny(match, "0123456789") }

// found names the first kind of secret in text, which lies below the root member named, or "".
func (s *secretScan) found(member, text string) string {
	if slices.ContainsFunc(s.canaries, func(canary string) bool { return strings.Contains(text, canary) }) {
		return "a canary of the run"
	}
	for _, p := range s.patterns {
		if p.only != "" && p.only != member || !containsFold(text, p.mark) {
			continue
		}
		for _, match := range p.expr.FindAllString(text, -1) {
			if p.when == nil || p.when(match) {
				return p.name
			}
		}
	}
	return ""
}

// redact replaces what found would report, so that no other message repeats a secret of the file.
func (s *secretScan) redact(text string) string {
	const instead = "[redacted]"
	for _, canary := range s.canaries {
		text = strings.ReplaceAll(text, canary, instead)
	}
	for _, p := range s.patterns {
		if containsFold(text, p.mark) {
			text = p.expr.ReplaceAllString(text, instead)
		}
	}
	return text
}

// walk calls report for every string and member name of v that holds a secret. A member name is reported at its
// object: the pointer must not repeat it.
func (s *secretScan) walk(v any, report func(pointer, what string)) {
	s.step(nil, v, report)
}

// step is walk below path, whose parts are member names and indexes. Pointers are made only where there is something
// to report: almost never.
func (s *secretScan) step(path []any, v any, report func(pointer, what string)) {
	member := ""
	if len(path) > 0 {
		member, _ = path[0].(string)
	}
	switch v := v.(type) {
	case string:
		if what := s.found(member, v); what != "" {
			report(pointerOf(path), what)
		}
	case []any:
		for i, item := range v {
			s.step(append(path, i), item, report)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			below := append(path, name)
			if what := s.found(member, name); what != "" {
				report(pointerOf(path), what+" as a member name")
				below = append(path, "*")
			}
			s.step(below, v[name], report)
		}
	}
}

func pointerOf(path []any) string {
	var pointer strings.Builder
	for _, part := range path {
		name, ok := part.(string)
		if !ok {
			name = fmt.Sprint(part)
		}
		pointer.WriteByte('/')
		pointer.WriteString(escapePointer(name))
	}
	return pointer.String()
}

func escapePointer(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// containsFold reports whether text holds mark, which is ASCII in lower case, in any case.
func containsFold(text, mark string) bool {
	for i := 0; i+len(mark) <= len(text); i++ {
		if text[i]|0x20 == mark[0] || text[i] == mark[0] {
			if strings.EqualFold(text[i:i+len(mark)], mark) {
				return true
			}
		}
	}
	return false
}
