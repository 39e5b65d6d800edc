package scenarios

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"wopcert/harness"
	"wopcert/harness/sse"
	"wopcert/requirements"
)

// hostEvents covers the channel of the host's own messages (events.md, "Host
// events").
func hostEvents() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-host-events",
		Title:    "The host's heartbeat is a stream that says nothing of any run",
		Document: "events.md", Section: "Host events",
		Tests: []harness.Test{
			{
				Name:      "the heartbeat's address streams heartbeat messages",
				Witnesses: []requirements.ID{requirements.EventsHostEventsStream},
				Gates:     []harness.Gate{harness.Advertises("heartbeat")},
				Slow:      2 * time.Second,
				Run:       heartbeatStreams,
			},
		},
	}
}

// heartbeatAddress is where a host sends its heartbeat: the address it
// declares, or the documented default. why says why the suite cannot listen
// there.
func heartbeatAddress(h *harness.Host) (address, why string) {
	v, declared := h.Discovery.Facet("heartbeat", "deliveryChannel")
	if !declared {
		return "/host/events", ""
	}
	address, _ = v.(string)
	if strings.ContainsAny(address, "{}") {
		return "", "the address of the heartbeat is a template: " + address
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || address == "":
		return "", fmt.Sprintf("the address of the heartbeat is no URL reference: %s", show(v))
	case u.IsAbs() && origin(u) != origin(h.Base), !u.IsAbs() && u.Host != "":
		return "", "the address of the heartbeat is on another origin: " + address
	case u.IsAbs():
		return address, ""
	}
	return address, ""
}

func heartbeatStreams(t *harness.T) {
	address, why := heartbeatAddress(t.Host())
	if why != "" {
		t.Inapplicable(requirements.EventsHostEventsStream, "%s", why)
		return
	}
	// Where it can be had a run is active meanwhile, so that a host that speaks
	// of runs has one to speak of.
	id := ""
	if liveBody(t) != nil {
		id = liveRun(t)
	}
	s := t.Stream(harness.Request{Path: address})
	t.Expect(requirements.EventsHostEventsStream, isEventStream(s.Response))
	if s.Response.Is(http.StatusOK).OK {
		beats := 0
		s.Collect(func(f sse.Frame) bool {
			beats++
			t.Expect(requirements.EventsHostEventsStream, heartbeatFrame(t, f, id).At(s.Response))
			return beats == 2
		}, 8*time.Second)
	}
	s.Close()
	endRun(t, id)
}

// heartbeatFrame checks a frame of the host's channel: the data is one of the
// two heartbeat messages and nothing in it is of a run.
func heartbeatFrame(t *harness.T, f sse.Frame, runID string) harness.Check {
	const expected = "a heartbeat message without anything of a run"
	data, err := frameEvent(f)
	if err != nil {
		return harness.That(false, expected, "data that is no object: %v", err)
	}
	schema := "heartbeat-evaluated"
	if data["from"] != nil || data["to"] != nil {
		schema = "heartbeat-state-changed"
	}
	if why := violation(t.Corpus().ValidateValue(schema, data)); why != "" {
		return harness.That(false, expected, "%s", cut(why))
	}
	found := runDataIn(t, data, runID)
	return harness.That(found == "", expected, "%s in it", found)
}

// runDataIn finds what a JSON value says of a run: a member that names one, the
// given run's id in any spelling, or a run id of the same tenant. An empty
// runID leaves the member names to go by.
func runDataIn(t *harness.T, v any, runID string) string {
	switch x := v.(type) {
	case object:
		for name, member := range x {
			if name == "runId" || name == "runIds" {
				return name
			}
			if found := runDataIn(t, member, runID); found != "" {
				return found
			}
		}
	case []any:
		for _, e := range x {
			if found := runDataIn(t, e, runID); found != "" {
				return found
			}
		}
	case string:
		if runID == "" {
			return ""
		}
		ofTenant := tenantSegment(x) == tenantSegment(runID) && t.Corpus().ValidateValue("ids#/$defs/runId", x) == nil
		if ofTenant || strings.Contains(x, runID[strings.LastIndex(runID, "/")+1:]) {
			return x
		}
	}
	return ""
}
