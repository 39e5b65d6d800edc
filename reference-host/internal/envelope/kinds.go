package envelope

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// universalSchemas are the kinds every host admits, and the schema of each one's payload.
func universalSchemas() map[string]string {
	return map[string]string{
		kindClarification: "envelope-clarification-request",
		kindSchema:        "envelope-schema-request",
		"schema.response": "envelope-schema-response",
		"error":           "envelope-error",
	}
}

const (
	kindClarification = "clarification.request"
	kindSchema        = "schema.request"
)

// The kinds of this host's own.
const (
	KindNote = "example.wopcert-note"
	KindMemo = "example.wopcert-memo"
	// NoteVersion is the version of KindNote; KindMemo has 0.
	NoteVersion = 2
)

func universal(kind string) bool { return universalSchemas()[kind] != "" }

var kindShape = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*(\.[a-z][a-z0-9]*(-[a-z0-9]+)*){1,2}$`)

// grammatical reports whether the kind is one that may exist at all: universal, a core content primitive, or under a
// registered organisation (events.md §AI envelopes, E3).
func (p *Policy) grammatical(kind string) bool {
	if universal(kind) {
		return true
	}
	org, _, _ := strings.Cut(kind, ".")
	return kindShape.MatchString(kind) && (org == "ui" || org == "media" || slices.Contains(p.Orgs, org))
}

// checkPayload holds a complete payload to the schema of its kind at the advertised version.
func (p *Policy) checkPayload(kind string, payload any) error {
	if schema := universalSchemas()[kind]; schema != "" {
		return p.Validate(schema, payload)
	}
	object, ok := payload.(map[string]any)
	if !ok {
		return fmt.Errorf("the payload of %s is an object", kind)
	}
	if kind == KindNote {
		return checkNote(object)
	}
	return nil
}

// checkNote is version 2 of the note: a title, and perhaps a body.
func checkNote(note map[string]any) error {
	if _, ok := note["title"].(string); !ok {
		return fmt.Errorf("title: a note has one, and it is text")
	}
	for name, value := range note {
		if _, text := value.(string); !text || name != "title" && name != "body" {
			return fmt.Errorf("%s: a note has a title and a body, which are text, and nothing else", name)
		}
	}
	return nil
}
