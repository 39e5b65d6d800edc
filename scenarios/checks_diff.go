package scenarios

import (
	"bytes"
	"maps"
	"regexp"

	"wopcert/bundle/jcs"
)

// instant is how a date-time begins.
var instant = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}`)

// runScoped are members of events and payloads that name the single run or
// something minted for it.
func runScoped() []string {
	return []string{"runId", "childRunId", "parentRunId", "interruptId"}
}

// sameBut reports whether two events of different runs differ in nothing but
// what belongs to the single run (runs.md, "Diff and ancestry"): ids and
// instants. How long something took stays in: whether it belongs to the run
// the text does not say.
func sameBut(a, b object) bool {
	x, errX := jcs.CanonicalizeValue(unscopedEvent(a))
	y, errY := jcs.CanonicalizeValue(unscopedEvent(b))
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// sameLogs reports whether two logs have the same events at the same places,
// by sameBut.
func sameLogs(a, b []object) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		seqA, _ := sequenceOf(a[i])
		seqB, _ := sequenceOf(b[i])
		if seqA != seqB || !sameBut(a[i], b[i]) {
			return false
		}
	}
	return true
}

func unscopedEvent(event object) object {
	doc := maps.Clone(event)
	for _, name := range []string{"eventId", "runId", "timestamp", "causationId", "sequence"} {
		delete(doc, name)
	}
	doc["payload"] = unscoped(doc["payload"])
	return doc
}

// unscoped is a value without the members and instants of the single run.
func unscoped(v any) any {
	switch x := v.(type) {
	case object:
		out := object{}
		for name, member := range x {
			if s, ok := member.(string); ok && instant.MatchString(s) {
				continue
			}
			out[name] = unscoped(member)
		}
		for _, name := range runScoped() {
			delete(out, name)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = unscoped(e)
		}
		return out
	}
	return v
}
