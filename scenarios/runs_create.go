package scenarios

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// createdRunReadable covers the response of createRun (runs.md, "Response").
func createdRunReadable() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-created-run-readable",
		Title:    "A created run can be read at the base that created it, and by the links it was given",
		Document: "runs.md", Section: "Response",
		Gates: []harness.Gate{endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "a created run is readable at once",
				Witnesses: []requirements.ID{requirements.R0172CreatedRunReadable},
				Run:       createdIsReadable,
			},
			{
				Name:      "the links of a created run lead to it",
				Witnesses: []requirements.ID{requirements.RunsResponseLinks},
				Run:       linksLead,
			},
		},
	}
}

func createdIsReadable(t *harness.T) {
	r := create(t, endingBodies(t)[0])
	if !t.Expect(requirements.R0172CreatedRunReadable, harness.All(r.Is(http.StatusCreated), r.Valid("run-created"))) {
		return
	}
	id := r.Text("runId")
	t.Expect(requirements.R0172CreatedRunReadable, names(get(t, id), id))
	t.Expect(requirements.R0172CreatedRunReadable, names(poll(t, id, -1, time.Second), id))
}

func linksLead(t *harness.T) {
	r := create(t, endingBodies(t)[0])
	id := r.Text("runId")
	if !r.Is(http.StatusCreated).OK || id == "" {
		t.Abort("no run whose links could be followed: createRun gave %s", r.Is(http.StatusCreated).Observed)
	}
	events, stays := onOrigin(r, "eventsUrl", r.Get("eventsUrl"))
	if t.Expect(requirements.RunsResponseLinks, stays) {
		t.Expect(requirements.RunsResponseLinks, firstGood(candidates(t, r.Text("eventsUrl"), events), func(link string) harness.Check {
			return streamsRun(t, link, id)
		}))
	}
	if r.Get("statusUrl") == nil {
		return // optional
	}
	status, stays := onOrigin(r, "statusUrl", r.Get("statusUrl"))
	if t.Expect(requirements.RunsResponseLinks, stays) {
		t.Expect(requirements.RunsResponseLinks, firstGood(candidates(t, r.Text("statusUrl"), status), func(link string) harness.Check {
			return names(t.Do(harness.Request{Path: link}), id)
		}))
	}
}

// candidates are the addresses a link can mean: the resolved reference and,
// since the text does not say what a relative path is relative to, the same
// path below the host's base.
func candidates(t *harness.T, link string, resolved *url.URL) []string {
	out := []string{resolved.String()}
	if !strings.Contains(link, "//") && strings.Trim(t.Host().Base.Path, "/") != "" {
		out = append(out, "/"+strings.TrimPrefix(link, "/"))
	}
	return out
}

// firstGood is the first check that holds, or the first of all.
func firstGood(links []string, check func(string) harness.Check) harness.Check {
	var first harness.Check
	for i, link := range links {
		c := check(link)
		if c.OK {
			return c
		}
		if i == 0 {
			first = c
		}
	}
	return first
}

// streamsRun checks that a link is the event stream of the run.
func streamsRun(t *harness.T, link, runID string) harness.Check {
	s := t.Stream(harness.Request{Path: link})
	defer s.Close()
	if open := s.Response.Is(http.StatusOK); !open.OK {
		return open
	}
	f, ok := s.Next(settle)
	if !ok {
		return harness.That(false, "the run's events at eventsUrl", "no event within %s", settle).At(s.Response)
	}
	event, err := frameEvent(f)
	if err != nil {
		return harness.That(false, "the run's events at eventsUrl", "a frame whose data is no event: %v", err).At(s.Response)
	}
	return harness.Equal("runId of an event at eventsUrl", any(runID), event["runId"]).At(s.Response)
}
