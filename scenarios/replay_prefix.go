package scenarios

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// replayPrefix: replay.md, "Byte-equivalence of the prefix".
func replayPrefix() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-replay-prefix",
		Title:    "A fork has the history of its source, member for member",
		Document: "replay.md", Section: "Byte-equivalence of the prefix",
		Gates: []harness.Gate{harness.Advertises("replay"), endingFixtures()},
		Tests: []harness.Test{{
			Name:      "forks from the last event of finished runs",
			Witnesses: []requirements.ID{requirements.ReplayPrefixEnvelope},
			Slow:      2 * time.Second,
			Run:       prefixEquivalent,
		}},
	}
}

func prefixEquivalent(t *harness.T) {
	modes := forkModes(t)
	if len(modes) == 0 {
		t.Inapplicable(requirements.ReplayPrefixEnvelope, noForkModes)
		return
	}
	compared := 0
	for _, body := range prefixBodies(t) {
		source, l := settledRun(t, body)
		end := slices.IndexFunc(l.events, func(e object) bool { return isTerminalType(e["type"]) })
		if end < 1 {
			continue
		}
		at := seqOf(l.events[end])
		for _, mode := range modes {
			child := forkedFrom(t, source, mode, at)
			defer endRun(t, child)
			awaitLogged(t, child, func(e object) bool { seq, ok := sequenceOf(e); return ok && seq >= at-1 }, settle)
			got := wholeLog(t, child)
			p := prefixPair{source: source, child: child, a: below(l.events, at), b: below(got.events, at)}
			compared += len(p.a)
			t.Expect(requirements.ReplayPrefixEnvelope, p.equivalent(fmt.Sprintf("a %s fork of %v", mode, body["workflowId"])).At(got.last))
		}
	}
	if compared == 0 {
		t.Abort("no event below a fork point to compare")
	}
}

// prefixBodies are runs whose logs hold different kinds of events.
func prefixBodies(t *harness.T) []object {
	bodies := endingBodies(t)
	for _, id := range []string{streamText, emitsArtifact} {
		if listed(t, id) {
			bodies = append(bodies, object{"workflowId": id})
		}
	}
	return bodies
}

// prefixPair is the history of a run and what a fork of it has for it.
type prefixPair struct {
	source, child string
	a, b          []object
}

// equivalent compares the two as the text asks for: in every member but the
// run, ids minted afresh and readings of a clock.
func (p prefixPair) equivalent(what string) harness.Check {
	expected := fmt.Sprintf("the %d events of the source, member for member", len(p.a))
	if len(p.a) != len(p.b) {
		return harness.That(false, expected, "%s has %d", what, len(p.b))
	}
	fresh := map[string]string{} // event ids of the source to those of the fork
	for i := range p.a {
		fresh[text(p.a[i], "eventId")] = text(p.b[i], "eventId")
	}
	for i, a := range p.a {
		b := p.b[i]
		for _, name := range slices.Sorted(maps.Keys(mergedMembers(a, b))) {
			if slices.Contains([]string{"eventId", "runId", "timestamp"}, name) {
				continue // an id, the run and a clock
			}
			_, inA := a[name]
			_, inB := b[name]
			if inA != inB || !p.alike(a[name], b[name], fresh) {
				return harness.That(false, expected, "%s has %s %s in %s where the source has %s", what, name, show(b[name]), label(a), show(a[name]))
			}
		}
	}
	return harness.That(true, expected, "the same")
}

func mergedMembers(a, b object) object {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// ulid is the form of an identifier that holds the time it was made at.
var ulid = regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{25}$`)

// alike compares two values of a prefix. Numbers compare as they are written.
func (p prefixPair) alike(a, b any, fresh map[string]string) bool {
	switch x := a.(type) {
	case object:
		y, ok := b.(object)
		if !ok || len(x) != len(y) {
			return false
		}
		for name := range x {
			if v, has := y[name]; !has || !p.alike(x[name], v, fresh) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, func(v, w any) bool { return p.alike(v, w, fresh) })
	case string:
		y, ok := b.(string)
		return ok && p.alikeTexts(x, y, fresh)
	}
	return a == b
}

func (p prefixPair) alikeTexts(a, b string, fresh map[string]string) bool {
	if a == b || fresh[a] == b && b != "" {
		return true
	}
	if isClock(a) && isClock(b) {
		return true
	}
	plain := strings.NewReplacer(p.source, p.child, projectID(p.source), projectID(p.child)).Replace(a)
	if plain == b {
		return true
	}
	// A tenant-bound id minted afresh keeps its tenant.
	return tenantOf(a) == tenantOf(b) && ulid.MatchString(opaqueOf(a)) && ulid.MatchString(opaqueOf(b))
}

func isClock(s string) bool {
	_, err := time.Parse(time.RFC3339Nano, s)
	return err == nil
}

func tenantOf(id string) string { return id[:strings.LastIndex(id, "/")+1] }

func opaqueOf(id string) string { return id[strings.LastIndex(id, "/")+1:] }
