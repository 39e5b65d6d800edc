package scenarios

import (
	"crypto/rand"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"wopcert/harness"
)

// newTag is a text no other run carries, in the grammar of every id a host
// might hold it to.
func newTag() string { return "wopcert-" + rand.Text() }

// tagged is a createRun body with a tag of its own.
func tagged(body object) (object, string) {
	tag := newTag()
	return with(body, "tags", []string{tag}), tag
}

// noRunTagged checks that a refused create left no run behind. On a host
// without a run list there is nothing to see it by, and a list that cannot be
// read is a requirement of its own.
func noRunTagged(t *harness.T, who harness.Identity, tag string) harness.Check {
	const expected = "no run behind a refused create"
	found, r := taggedRuns(t, who, tag)
	if r == nil {
		return harness.That(true, expected, "the host lists no runs to look in")
	}
	return harness.That(len(found) == 0, expected, "the run list holds %s", strings.Join(found, ", ")).At(r)
}

// taggedRuns are the runs with a tag on the newest page of the run list, or the
// newest few where pages are small; the response is nil where there is none.
func taggedRuns(t *harness.T, who harness.Identity, tag string) ([]string, *harness.Response) {
	d := t.Host().Discovery
	if !d.Advertises("runList") {
		return nil, nil
	}
	page := min(maxPageSize(t), 100)
	w := morePages(t, who, url.Values{"limit": {decimal(page)}}, int(max(1, 40/page)))
	if !w.pages.OK || len(w.runs) == 0 {
		return nil, nil
	}
	var found []string
	for _, run := range w.runs {
		if tags, _ := stringList(run.doc["tags"]); slices.Contains(tags, tag) {
			found = append(found, run.id())
		}
	}
	return found, w.runs[0].page
}

// memberFact gates on the presence of any member of the discovery root,
// capability or metadata.
func memberFact(reason string, path ...string) harness.Gate {
	return harness.HostFact(reason, func(d *harness.Discovery) bool {
		return harness.Get(d.Document, path...) != nil
	})
}

// optIn gates on a workflow of this project's own, which no host has to hold.
func optIn(fixture string) harness.Gate {
	return harness.HostFact("the host does not list the opt-in fixture "+fixture,
		func(d *harness.Discovery) bool { return slices.Contains(d.Fixtures(), fixture) })
}

// endRun cancels a run a test is done with. What comes back is nobody's
// concern.
func endRun(t *harness.T, runID string) {
	if runID != "" {
		cancel(t, runID, object{})
	}
}

// refusedCreate checks that a create is refused with a code, and that no run was
// made of it all the same.
func refusedCreate(t *harness.T, body object, code string) harness.Check {
	body, tag := tagged(body)
	r := create(t, body)
	endRun(t, r.Text("runId"))
	return harness.All(r.Refuses(code), noRunTagged(t, harness.Primary, tag))
}

// control sends a create that has to succeed for a refusal of another one to
// mean anything; the test ends when it does not.
func control(t *harness.T, who harness.Identity, body object) *harness.Response {
	r := createAs(t, who, body)
	if !r.Is(http.StatusCreated).OK || r.Text("runId") == "" {
		t.Abort("a create without the member in question is not accepted either, so a refusal shows nothing: createRun gave %s", answered(r))
	}
	return r
}

// retryAfter is a delay in seconds or an HTTP date (RFC 9110 §10.2.3).
var retrySeconds = regexp.MustCompile(`^[0-9]+$`)

// saysWhen checks a Retry-After header.
func saysWhen(r *harness.Response) harness.Check {
	values := r.Header.Values("Retry-After")
	ok := len(values) == 1
	if ok {
		_, err := http.ParseTime(values[0])
		ok = err == nil || retrySeconds.MatchString(strings.TrimSpace(values[0]))
	}
	return harness.That(ok, "a Retry-After in seconds or as a date", "Retry-After %q", values).At(r)
}

// eventsOfType are the events of a type, in their order.
func eventsOfType(events []object, typ string) []object {
	var out []object
	for _, e := range events {
		if e["type"] == typ {
			out = append(out, e)
		}
	}
	return out
}

// numeric reads a JSON number.
func numeric(v any) (float64, bool) {
	n, ok := v.(interface{ Float64() (float64, error) })
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}

// isCount checks that a JSON value is an integer of at least 0, however it is
// spelt.
func isCount(where string, v any) harness.Check {
	f, ok := numeric(v)
	return harness.That(ok && f >= 0 && f == math.Trunc(f), "an integer of at least 0", "%s %s", where, show(v))
}

// isNumber checks a JSON number by value.
func isNumber(what string, want float64, v any) harness.Check {
	f, ok := numeric(v)
	return harness.That(ok && f == want, fmt.Sprintf("%s %v", what, want), "%s %s", what, show(v))
}

// ofType matches events of one of some types.
func ofType(types ...string) func(object) bool {
	return func(e object) bool {
		typ, _ := e["type"].(string)
		return slices.Contains(types, typ)
	}
}
