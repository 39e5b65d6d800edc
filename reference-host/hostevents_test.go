package referencehost_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

// quiet keeps keep-alive comments out of the way of a manual clock.
func quiet(c *referencehost.Config) { c.KeepAlive = 30 * time.Second }

func TestHostEvents(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), quiet, func(c *referencehost.Config) { c.Limits.MaxActiveRuns = 1 })
	heartbeat := h.call("GET", "/.well-known/openwop", "").json(t)["heartbeat"].(map[string]any)
	assert.Equal(t, "/host/events", heartbeat["deliveryChannel"])
	frames := h.stream("/host/events")
	other := h.stream("/host/events", h.as(referencehost.KeyReadOnly)...)
	manual.AwaitPending(3) // two keep-alives and one heartbeat for both
	tick := func() {
		manual.Advance(time.Second)
		manual.AwaitPending(3)
	}
	const unchanged, changed = `{"heartbeatId":"accepting-runs","status":"ok","changed":false}`, `{"heartbeatId":"accepting-runs","status":"ok","changed":true}`
	tick()
	assert.Equal(t, frame{event: "heartbeat.evaluated", data: unchanged}, next(t, frames))
	tick()
	assert.Equal(t, frame{event: "heartbeat.evaluated", data: unchanged}, next(t, frames))

	_, path := h.create(`{"workflowId":"conformance-cancellable"}`)
	manual.AwaitPending(5)
	tick()
	assert.Equal(t, frame{event: "heartbeat.evaluated", data: changed}, next(t, frames))
	assert.Equal(t, frame{event: "heartbeat.state-changed", data: `{"heartbeatId":"accepting-runs","from":{"accepting":true},"to":{"accepting":false}}`}, next(t, frames))
	tick()
	assert.Equal(t, frame{event: "heartbeat.evaluated", data: unchanged}, next(t, frames), "an unchanged tick says nothing of the state")

	h.call("POST", path+"/cancel", "")
	h.finish(path)
	require.Eventually(t, func() bool { return manual.Pending() == 3 }, 10*time.Second, time.Millisecond)
	tick()
	assert.Equal(t, frame{event: "heartbeat.evaluated", data: changed}, next(t, frames))
	assert.Equal(t, "heartbeat.state-changed", next(t, frames).event)
	for _, want := range []string{unchanged, unchanged, changed} {
		assert.Equal(t, want, next(t, other).data, "everybody hears the same")
	}
	require.NoError(t, h.host.Close())
	collect(t, frames)
}

func TestHostEventsKeepAlive(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), facets("heartbeat", map[string]any{"minIntervalSec": 60}), quiet)
	frames := h.stream("/host/events")
	manual.AwaitPending(2)
	manual.Advance(30 * time.Second)
	assert.Equal(t, frame{comment: "keep-alive"}, next(t, frames))
	manual.AwaitPending(2)
	manual.Advance(30 * time.Second)
	assert.ElementsMatch(t, []frame{{comment: "keep-alive"}, {event: "heartbeat.evaluated", data: `{"heartbeatId":"accepting-runs","status":"ok","changed":false}`}},
		[]frame{next(t, frames), next(t, frames)})
}

func TestHostEventsAreGated(t *testing.T) {
	t.Parallel()
	h := start(t, without("heartbeat"))
	assert.Equal(t, "not_found", h.call("GET", "/host/events", "").code(t))

	moved := start(t, facets("heartbeat", map[string]any{"deliveryChannel": "/pulse"}))
	assert.Equal(t, "not_found", moved.call("GET", "/host/events", "").code(t))
	frames := moved.stream("/pulse")
	require.NoError(t, moved.host.Close())
	collect(t, frames)
	assert.Equal(t, "unauthenticated", moved.call("GET", "/pulse", "", "Authorization", "").code(t))
}

func TestHostEventsTakeAPlaceAndGiveItBack(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), quiet, func(c *referencehost.Config) { c.Limits.MaxStreams = 1 })
	open := func() *http.Response {
		request, err := http.NewRequestWithContext(t.Context(), "GET", h.url+"/host/events", nil)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+h.keys[referencehost.KeyTenantA])
		response, err := http.DefaultTransport.RoundTrip(request)
		require.NoError(t, err)
		return response
	}
	response := open()
	manual.AwaitPending(2)
	r := h.call("GET", "/host/events", "")
	assert.Equal(t, "rate_limited", r.code(t))
	assert.NotEmpty(t, r.Header.Get("Retry-After"))
	require.NoError(t, response.Body.Close())
	require.Eventually(t, func() bool { return manual.Pending() == 0 }, 10*time.Second, time.Millisecond, "the alarms are gone with the listener")
	require.Eventually(t, func() bool {
		response := open()
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, 10*time.Second, time.Millisecond, "and so is its place")
}
