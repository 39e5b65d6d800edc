package scenarios

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"wopcert/corpus"
	"wopcert/harness"
)

// newOpaque is an opaque segment no host has minted.
func newOpaque() string { return rand.Text() }

// tenantSegment is the part of a tenant-bound id before the slash.
func tenantSegment(id string) string {
	tenant, _, _ := strings.Cut(id, "/")
	return tenant
}

// idIs checks an id against the grammar of its kind (identity.md §5).
func idIs(t *harness.T, what string, value any, kind string) harness.Check {
	why := violation(t.Corpus().ValidateValue("ids#/$defs/"+kind, value))
	return harness.That(why == "", fmt.Sprintf("%s in the grammar of %s", what, kind), "%s %s", what, show(value))
}

// snapshotIDs are the checks on the ids of a snapshot: the run's own, whose
// tenant is the caller's as the owner block names it, and those of the workflow.
func snapshotIDs(t *harness.T, r *harness.Response) []harness.Check {
	checks := []harness.Check{
		idIs(t, "runId of the snapshot", r.Get("runId"), "runId"),
	}
	if tenant := r.Text("owner", "tenant"); tenant != "" {
		segment := strings.TrimPrefix(tenantSegment(r.Text("runId")), "anon:")
		checks = append(checks, harness.That(segment == strings.TrimPrefix(tenant, "anon:"),
			"runId in the tenant "+tenant, "runId %s", show(r.Get("runId"))))
	}
	for _, optional := range []struct{ member, kind string }{{"workflowId", "workflowId"}, {"currentNodeId", "nodeId"}} {
		if v := r.Get(optional.member); v != nil {
			checks = append(checks, idIs(t, optional.member, v, optional.kind))
		}
	}
	return checks
}

// eventIDs checks the ids of one event.
func eventIDs(t *harness.T, runID string, event object) harness.Check {
	checks := []harness.Check{
		idIs(t, "eventId", event["eventId"], "eventId"),
		idIs(t, "runId", event["runId"], "runId"),
		harness.That(event["runId"] == any(runID), "runId "+runID, "runId %s", show(event["runId"])),
	}
	if v, has := event["nodeId"]; has {
		checks = append(checks, idIs(t, "nodeId", v, "nodeId"))
	}
	if v, has := event["causationId"]; has {
		checks = append(checks, isCause(v))
	}
	check := harness.All(checks...)
	check.Observed += " on " + show(event["type"])
	return check
}

// isCause checks a causationId: the id of an event, or the correlationId of an
// AI envelope, which has no grammar (events.md, "The envelope").
func isCause(value any) harness.Check {
	cause, _ := value.(string)
	n := utf8.RuneCountInString(cause)
	return harness.That(n >= 1 && n <= 256, "causationId of 1 to 256 characters", "causationId %s", show(value))
}

// sameRefusal checks that the refusal for a run that exists is the one for a
// run that does not: status, code, members of details, and the message, the
// ids themselves apart. A message that differs between two equal requests
// says nothing about the run.
func sameRefusal(what string, held, again *harness.Response, heldID string, missing *harness.Response, missingID string) harness.Check {
	expected := "the same answer whether or not the run exists"
	say := func(r *harness.Response, id string) string {
		opaque := id[strings.Index(id, "/")+1:]
		return strings.NewReplacer(id, "…", projectID(id), "…", url.PathEscape(id), "…", opaque, "…").Replace(r.Text("message"))
	}
	if held.Status != missing.Status || held.Text("error") != missing.Text("error") {
		return harness.That(false, expected, "%s of a run that exists %s, of one that does not %s", what, answered(held), answered(missing)).At(missing)
	}
	if a, b := detailNames(held), detailNames(missing); !slices.Equal(a, b) {
		return harness.That(false, expected, "%s of a run that exists with details %v, of one that does not with %v", what, a, b).At(missing)
	}
	stable := say(held, heldID) == say(again, heldID)
	return harness.That(!stable || say(held, heldID) == say(missing, missingID), expected,
		"%s of a run that exists %q, of one that does not %q", what, cut(say(held, heldID)), cut(say(missing, missingID))).At(missing)
}

func detailNames(r *harness.Response) []string {
	details, _ := r.Get("details").(object)
	return keysWhere(details, func(name string, _ any) bool { return name != "correlationId" })
}

// sameOpaque reports whether two run ids have the same opaque segment; the
// tenant before it has a row of its own.
func sameOpaque(a, b string) bool {
	return a != "" && a[strings.LastIndex(a, "/")+1:] == b[strings.LastIndex(b, "/")+1:]
}

// linkProjects checks that a link names a run by a projected id, as one
// segment and encoded once. Whose run it is belongs to the row of the links.
func linkProjects(c *corpus.Corpus, name, link string) harness.Check {
	const expected = "a link with a projected run id as one path segment"
	u, err := url.Parse(link)
	if err != nil {
		return harness.That(false, expected, "%s %q", name, cut(link))
	}
	found := slices.ContainsFunc(strings.Split(u.EscapedPath(), "/"), func(segment string) bool {
		plain, err := url.PathUnescape(segment)
		if err != nil {
			return false
		}
		id := unprojectID(plain)
		return projectID(id) == plain && c.ValidateValue("ids#/$defs/runId", id) == nil
	})
	return harness.That(found, expected, "%s %q", name, cut(link))
}

// unprojectID undoes projectID once.
func unprojectID(segment string) string {
	var b strings.Builder
	for i := 0; i < len(segment); i++ {
		if segment[i] == '~' && i+2 < len(segment) {
			if c, err := strconv.ParseUint(segment[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(segment[i])
	}
	return b.String()
}
