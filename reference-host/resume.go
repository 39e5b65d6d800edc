package referencehost

import (
	"encoding/json"
	"slices"
	"strings"

	"wopcert/reference-host/internal/workflow"
)

// resumeRules are the schemas a resume value of an interrupt has to match: the one the payload declares, and the
// outcomeSchema of a conversation's turn (interrupt.md §Payload).
func resumeRules(kind string, payload json.RawMessage) ([]*workflow.Schema, error) {
	var declared struct {
		ResumeSchema json.RawMessage `json:"resumeSchema"`
		Data         struct {
			OutcomeSchema json.RawMessage `json:"outcomeSchema"`
		} `json:"data"`
	}
	if err := json.Unmarshal(payload, &declared); err != nil {
		return nil, err
	}
	resume, err := workflow.CompileSchema("resumeSchema", declared.ResumeSchema)
	if err != nil || kind != kindExchange {
		return []*workflow.Schema{resume}, err
	}
	outcome, err := workflow.CompileSchema("outcomeSchema", declared.Data.OutcomeSchema)
	return []*workflow.Schema{resume, outcome}, err
}

// secretWords are the names under which people are asked for credentials.
func secretWords() []string {
	return []string{
		"password", "passwd", "passphrase", "passcode", "secret", "apikey", "accesskey", "accesstoken", "refreshtoken",
		"bearertoken", "authtoken", "clientsecret", "privatekey", "credential", "credentials",
	}
}

// solicits reports whether the payload of an interrupt asks for credential material: a question, or a member of a
// schema for the answer, that is named like a credential or is to be masked like one. It looks at what a program would
// build a form from; prose it cannot judge.
func solicits(payload json.RawMessage) bool {
	var interrupt struct {
		Kind         string `json:"kind"`
		ResumeSchema any    `json:"resumeSchema"`
		Data         struct {
			OutcomeSchema any `json:"outcomeSchema"`
			Questions     []struct {
				ID     string `json:"id"`
				Schema any    `json:"schema"`
			} `json:"questions"`
		} `json:"data"`
	}
	if err := json.Unmarshal(payload, &interrupt); err != nil || interrupt.Kind == kindCredential {
		return false // the data is not an object the contract lets through, or the kind has one schema and no choice
	}
	if asksForSecret(interrupt.ResumeSchema) || asksForSecret(interrupt.Data.OutcomeSchema) {
		return true
	}
	for _, q := range interrupt.Data.Questions {
		if secretName(q.ID) || asksForSecret(q.Schema) {
			return true
		}
	}
	return false
}

func asksForSecret(schema any) bool {
	switch schema := schema.(type) {
	case map[string]any:
		if properties, ok := schema["properties"].(map[string]any); ok {
			for name := range properties {
				if secretName(name) {
					return true
				}
			}
		}
		if schema["format"] == "password" || schema["writeOnly"] == true {
			return true
		}
		for _, part := range schema {
			if asksForSecret(part) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(schema, asksForSecret)
	}
	return false
}

func secretName(name string) bool {
	plain := strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "", ".", "").Replace(name))
	return slices.ContainsFunc(secretWords(), func(word string) bool {
		return plain == word || strings.HasSuffix(plain, word)
	})
}
