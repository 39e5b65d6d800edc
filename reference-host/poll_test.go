package referencehost_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestPoll(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual))
	id, path := h.create(`{"workflowId":"conformance-delay","inputs":{"delayMs":5000}}`)
	manual.AwaitPending(2)
	r := h.call("GET", path+"/events/poll", "").json(t)
	assert.Equal(t, id, r["runId"])
	assert.Equal(t, 1.0, r["lastSequence"])
	assert.Equal(t, "running", r["status"])
	assert.Equal(t, false, r["isTerminal"])
	assert.Len(t, r["events"], 2)
	assert.Len(t, h.call("GET", path+"/events/poll?afterSequence=0", "").json(t)["events"], 1)

	// nothing new: the poll waits, here to the end of its time
	waiting := make(chan *reply, 2)
	go func() { waiting <- h.call("GET", path+"/events/poll?afterSequence=1&timeout=2", "") }()
	manual.AwaitPending(3)
	manual.Advance(2 * time.Second)
	r = (<-waiting).json(t)
	assert.Empty(t, r["events"])
	assert.Equal(t, 1.0, r["lastSequence"])

	// and here to the next event
	go func() { waiting <- h.call("GET", path+"/events/poll?afterSequence=1", "") }()
	go func() {
		waiting <- h.call("GET", path+"/events/poll?afterSequence=99999999999999999999&timeout=60", "")
	}()
	manual.AwaitPending(4)
	manual.Advance(3 * time.Second)
	for range 2 {
		assert.Equal(t, http.StatusOK, (<-waiting).StatusCode)
	}
	h.finish(path)
	r = h.call("GET", path+"/events/poll?afterSequence=3", "").json(t)
	assert.Empty(t, r["events"], "an ended run has nothing to wait for")
	assert.Equal(t, true, r["isTerminal"])
	assert.Equal(t, 3.0, r["lastSequence"])
	for _, bad := range []string{"afterSequence=-1", "afterSequence=x", "afterSequence=", "afterSequence=1.0", "timeout=0", "timeout=61", "timeout=x", "timeout=", "timeout=1&timeout=1"} {
		assert.Equal(t, "validation_error", h.call("GET", path+"/events/poll?"+bad, "").code(t), bad)
	}
	assert.Len(t, h.call("GET", path+"/events/poll?lastSequence=3&since=3", "").json(t)["events"], 4, "v1 names are not parameters")
}
