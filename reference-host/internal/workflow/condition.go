package workflow

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// Condition decides whether an edge contributes.
type Condition struct {
	Operator string
	Path     []string
	right    any
	pattern  *regexp.Regexp
}

// Holds evaluates the condition. lookup resolves the left operand; a path that leads nowhere gives nil.
func (c *Condition) Holds(lookup func(path []string) any) bool {
	left := lookup(c.Path)
	switch c.Operator {
	case "equals":
		return reflect.DeepEqual(left, c.right)
	case "notEquals":
		return !reflect.DeepEqual(left, c.right)
	case "contains":
		return contains(left, c.right)
	case "regex":
		text, ok := left.(string)
		return ok && c.pattern.MatchString(text)
	case "truthy":
		return truthy(left)
	default: // falsy; compileCondition lets nothing else through
		return !truthy(left)
	}
}

// contains: text in text, an item in an array, a member in an object.
func contains(left, right any) bool {
	switch left := left.(type) {
	case string:
		text, ok := right.(string)
		return ok && strings.Contains(left, text)
	case []any:
		for _, item := range left {
			if reflect.DeepEqual(item, right) {
				return true
			}
		}
	case map[string]any:
		name, ok := right.(string)
		if !ok {
			return false
		}
		_, ok = left[name]
		return ok
	}
	return false
}

// truthy is truth as JavaScript has it, which the schema asks for.
func truthy(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case float64:
		return v != 0 && v == v
	default:
		return true
	}
}

func splitPath(path string) []string {
	if path == "" {
		return nil
	}
	return strings.Split(path, ".")
}

// Descend follows path into a decoded JSON value; nil when it leads nowhere.
func Descend(value any, path []string) any {
	for _, step := range path {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}
