package harness

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Check is the outcome of comparing what a host did with what a requirement
// asks. It is a value, so that a helper can build it and only a test, which
// names the requirement, can assert it.
type Check struct {
	OK       bool
	Expected string // the set of outcomes that would have been right
	Observed string // what came instead, or what came
	exchange int    // 1-based number of the exchange judged, 0 when not bound to one
}

// That is the general check: ok, and both sides in words for the report.
func That(ok bool, expected, observed string, args ...any) Check {
	if len(args) > 0 {
		observed = fmt.Sprintf(observed, args...)
	}
	return Check{OK: ok, Expected: expected, Observed: observed}
}

// Equal compares by value. JSON numbers compare as they were written.
func Equal(what string, want, got any) Check {
	return That(reflect.DeepEqual(want, got), what+" "+brief(want), "%s %s", what, brief(got))
}

// OneOf accepts any of the wanted values.
func OneOf[V comparable](what string, got V, want ...V) Check {
	ok := false
	parts := make([]string, len(want))
	for i, w := range want {
		ok = ok || w == got
		parts[i] = brief(w)
	}
	return That(ok, what+" one of "+strings.Join(parts, ", "), "%s %s", what, brief(got))
}

// All is the first check that does not hold, or the last one.
func All(checks ...Check) Check {
	var last Check
	for _, c := range checks {
		last = c
		if !c.OK {
			return c
		}
	}
	return last
}

// At binds a check to the exchange it judges, so that the report shows it.
func (c Check) At(r *Response) Check {
	if r != nil {
		c.exchange = r.exchange
	}
	return c
}

// brief renders a value for a report line, cut to a readable length.
func brief(v any) string {
	var s string
	switch x := v.(type) {
	case nil:
		s = "absent"
	case string:
		s = fmt.Sprintf("%q", x)
	case []byte:
		s = fmt.Sprintf("%q", x)
	case map[string]any, []any:
		raw, err := json.Marshal(x)
		if s = string(raw); err != nil {
			s = fmt.Sprint(x)
		}
	default:
		s = fmt.Sprintf("%v", x)
	}
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "…"
	}
	return s
}
