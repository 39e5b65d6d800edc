package bundle

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// secretScan looks for credentials in the strings of a bundle, after their escapes are resolved: the canaries it was
// given, and the texts of secretPatterns. It reports where, never what.
type secretScan struct {
	canaries []string
	patterns []secretPattern
	seen     []string // what was found, so that a message that quotes it can be redacted
}

// newSecretScan makes a scan; learnTestKeys adds what only the bundle can say.
func newSecretScan(canaries []string) *secretScan {
	s := &secretScan{patterns: secretPatterns()}
	for _, canary := range canaries {
		if canary != "" {
			s.canaries = append(s.canaries, canary)
		}
	}
	return s
}

// learnTestKeys takes the prefix of test keys from the captured document: what begins with it is a key of that host.
func (s *secretScan) learnTestKeys(value map[string]any) {
	discovery, _ := value["discovery"].(map[string]any)
	document, _ := discovery["document"].(map[string]any)
	testing, _ := document["testing"].(map[string]any)
	if prefix, _ := testing["testKeyPrefix"].(string); strings.Trim(prefix, "-_.") != "" && len(prefix) <= maxKeyPrefix {
		s.patterns = append(s.patterns, testKeyPattern(prefix))
	}
}

// The places a text can stand in. The captured document holds what the host publishes, where a signed statement or an
// address is a public fact; a signature is random text of a fixed length in which any short mark may occur.
type place int

const (
	elsewhere place = iota
	inDocument
	inSignature
)

func placeOf(path []any) place {
	if len(path) < 2 {
		return elsewhere
	}
	switch {
	case path[0] == "discovery" && path[1] == "document":
		return inDocument
	case (path[0] == "signature" || path[0] == "verifierSignature") && path[1] == "sig":
		return inSignature
	}
	return elsewhere
}

// found names the first kind of secret in text, or "".
func (s *secretScan) found(at place, text string) string {
	what := ""
	for _, canary := range s.canaries {
		if strings.Contains(text, canary) {
			what = "a canary of the run"
		}
	}
	for _, p := range s.patterns {
		if at == inSignature || at == inDocument && p.published || !p.mayOccur(text) {
			continue
		}
		for _, match := range p.expr.FindAllString(text, -1) {
			if p.when != nil && !p.when(match) {
				continue
			}
			s.remember(match)
			what = orElse(what, p.name)
		}
	}
	return what
}

// remember keeps what was found, up to a number that bounds the time redact takes.
func (s *secretScan) remember(match string) {
	const most = 1000
	if len(s.seen) < most && !slices.Contains(s.seen, match) {
		s.seen = append(s.seen, match)
	}
}

// redact replaces what found would report, so that no other message repeats a secret of the file, whether it quotes
// the text or escapes it.
func (s *secretScan) redact(text string) string {
	const instead = "[redacted]"
	for _, known := range [][]string{s.canaries, s.seen} {
		for _, secret := range known {
			text = strings.ReplaceAll(text, secret, instead)
			if quoted := strconv.Quote(secret); quoted[1:len(quoted)-1] != secret {
				text = strings.ReplaceAll(text, quoted[1:len(quoted)-1], instead)
			}
		}
	}
	for _, p := range s.patterns {
		if !p.mayOccur(text) {
			continue
		}
		text = p.expr.ReplaceAllStringFunc(text, func(match string) string {
			if p.when != nil && !p.when(match) {
				return match
			}
			return instead
		})
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
	switch v := v.(type) {
	case string:
		if what := s.found(placeOf(path), v); what != "" {
			report(pointerOf(path), what)
		}
	case []any:
		for i, item := range v {
			s.step(append(path, i), item, report)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			below := append(path, name)
			if what := s.found(placeOf(below), name); what != "" {
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

// containsFold reports whether text holds mark in any case. The first byte of mark is in lower case, or counts as it is.
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
