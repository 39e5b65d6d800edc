package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// InputError says which input of a create does not fit the workflow's variables.
type InputError struct {
	Name   string
	Reason string
}

func (e *InputError) Error() string { return fmt.Sprintf("input %s: %s", e.Name, e.Reason) }

// Seed gives the variables as a run starts: the defaults, and over them the inputs that name a declared variable.
// Inputs the workflow does not declare stay inputs. The error is an *InputError.
func (d *Definition) Seed(inputs map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	if len(d.Variables) == 0 {
		return nil, nil
	}
	variables := make(map[string]json.RawMessage, len(d.Variables))
	for _, variable := range d.Variables {
		value, given := inputs[variable.Name]
		switch {
		case given && !hasType(value, variable.Type):
			return nil, &InputError{variable.Name, "it is not of the declared type " + variable.Type}
		case given:
			variables[variable.Name] = value
		case len(variable.Default) > 0:
			variables[variable.Name] = variable.Default
		case variable.Required:
			return nil, &InputError{variable.Name, "it is required and has no default"}
		}
	}
	return variables, nil
}

// hasType looks at the first byte, which tells the type of a JSON value.
func hasType(value json.RawMessage, want string) bool {
	value = bytes.TrimLeft(value, " \t\r\n")
	if len(value) == 0 {
		return false
	}
	switch value[0] {
	case '{':
		return want == "object"
	case '[':
		return want == "array"
	case '"':
		return want == "string"
	case 't', 'f':
		return want == "boolean"
	case 'n':
		return false
	default:
		return want == "number"
	}
}
