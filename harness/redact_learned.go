package harness

import (
	"encoding/json"
	"regexp"
	"strings"
	"sync"
)

// maxLearned bounds how many secrets of a host are learned in a run, and
// minLearned how short one may be that can still be told from chance.
const (
	maxLearned = 256
	minLearned = 8
)

// secretMember is a member of a JSON text whose value is a secret by its name:
// what registerWebhook answers with when the host made the secret.
var secretMember = regexp.MustCompile(`"secret"(\s*:\s*)("(?:[^"\\]|\\.){8,1000}")`)

// learnedSecrets are secrets that a host made, from the moment it handed them
// over.
type learnedSecrets struct {
	mu       sync.RWMutex
	values   []string
	replacer *strings.Replacer
}

func (l *learnedSecrets) replace(s string) string {
	l.mu.RLock()
	replacer := l.replacer
	l.mu.RUnlock()
	if replacer == nil {
		return s
	}
	return replacer.Replace(s)
}

// learn hides the secrets that a body hands over, and keeps them to hide
// wherever they turn up later.
func (l *learnedSecrets) learn(body string) string {
	if !strings.Contains(body, `"secret"`) {
		return body
	}
	return secretMember.ReplaceAllStringFunc(body, func(member string) string {
		parts := secretMember.FindStringSubmatch(member)
		var value string
		if json.Unmarshal([]byte(parts[2]), &value) != nil || len(value) < minLearned || strings.HasPrefix(value, "[redacted") {
			return member
		}
		l.add(value)
		return `"secret"` + parts[1] + `"[redacted:host-made-secret]"`
	})
}

func (l *learnedSecrets) add(value string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range l.values {
		if v == value {
			return
		}
	}
	if len(l.values) >= maxLearned {
		return
	}
	l.values = append(l.values, value)
	var pairs []string
	for _, v := range l.values {
		for _, form := range wireForms(v) {
			pairs = append(pairs, form, "[redacted:host-made-secret]")
		}
	}
	l.replacer = strings.NewReplacer(pairs...)
}
