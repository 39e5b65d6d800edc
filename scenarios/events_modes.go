package scenarios

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"wopcert/harness"
	"wopcert/requirements"
)

// streamModeRefusal covers streamMode (events.md, "Stream modes").
func streamModeRefusal() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-stream-mode-refusal",
		Title:    "A stream mode that does not exist or is not served is refused, and the refusal lists those that are",
		Document: "events.md", Section: "Stream modes",
		Gates: []harness.Gate{endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "unsupported stream modes are refused with the served ones",
				Witnesses: []requirements.ID{requirements.R0171StreamModeRefusal},
				Run:       refusesModes,
			},
		},
	}
}

// singleModes are the modes there are (events.md, "Stream modes").
func singleModes() []string { return []string{"updates", "values", "messages", "debug"} }

func refusesModes(t *harness.T) {
	id, _ := settledEnding(t)
	if c := modeStatus(t, id, "updates"); !c.OK {
		t.Abort("the mode every host serves is not served, so a refusal shows nothing: streamMode=updates gave %s", c.Observed)
	}
	var served []string
	for _, mode := range []string{"wopcert", "updates,wopcert", "values,updates", "debug,values", "UPDATES", "updates,", "updates;debug"} {
		r := refusal(t, id, mode, "text/event-stream")
		t.Expect(requirements.R0171StreamModeRefusal, refusesMode(r))
		if served == nil {
			served = supported(r)
		}
	}
	for _, accept := range []string{"application/json", "text/html", "application/xml;q=0.1"} {
		t.Expect(requirements.R0171StreamModeRefusal, refusesMode(refusal(t, id, "wopcert", accept)))
	}
	// The list is held to what happens: what it names is served, what it does
	// not name is refused.
	for _, mode := range singleModes() {
		if slices.Contains(served, mode) {
			t.Expect(requirements.R0171StreamModeRefusal, modeStatus(t, id, mode))
		} else {
			t.Expect(requirements.R0171StreamModeRefusal, refusesMode(refusal(t, id, mode, "text/event-stream")))
		}
	}
}

// modeStatus checks that a mode is served.
func modeStatus(t *harness.T, runID, mode string) harness.Check {
	s := stream(t, runID, mode, "")
	defer s.Close()
	c := s.Response.Is(http.StatusOK)
	c.Expected = "streamMode=" + mode + " served with status 200"
	return c
}

// refusal asks for a stream and returns the answer, which should be none.
func refusal(t *harness.T, runID, mode, accept string) *harness.Response {
	r := streamRequest(runID, mode, "")
	r.Header.Set("Accept", accept)
	s := t.Stream(r)
	s.Close()
	return s.Response
}

func supported(r *harness.Response) []string {
	list, _ := r.Get("details", "supported").([]any)
	var out []string
	for _, v := range list {
		s, _ := v.(string)
		out = append(out, s)
	}
	return out
}

// refusesMode checks a refusal of a stream mode and the list in it.
func refusesMode(r *harness.Response) harness.Check {
	modes := supported(r)
	strange := slices.ContainsFunc(modes, func(m string) bool { return !slices.Contains(singleModes(), m) })
	return harness.All(
		r.Refuses("unsupported_stream_mode"),
		harness.That(slices.Contains(modes, "updates") && !strange,
			"details.supported with updates and out of "+strings.Join(singleModes(), ", "),
			"details.supported %s", fmt.Sprint(r.Get("details", "supported"))).At(r),
	)
}
