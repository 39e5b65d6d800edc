package referencehost_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A fork at any point of a run comes to the same log as the run itself: what is in the history is not done again, and
// what is not is done.
func TestForksOfContentRuns(t *testing.T) {
	t.Parallel()
	h := start(t, facets("replay", map[string]any{"modes": []any{"replay", "branch"}, "effectSeamsManifest": "/host/effect-seams"}))
	chunk := func(index int) string {
		return note("c-3", fmt.Sprintf(`{"partial":{"isPartial":%t,"index":%d,"total":2},"payload":{"title":"T"}}`, index == 0, index))
	}
	emissions := strings.Join([]string{note("c-1", `{"schemaVersion":1}`), modelRefuses, note("c-1"), chunk(0), modelRefuses, chunk(1), note("c-2")}, ",")
	for name, body := range map[string]string{
		"artifact":     `{"workflowId":"conformance-artifact-emit"}`,
		"conversation": `{"workflowId":"conformance-conversation-lifecycle"}`,
		"text":         `{"workflowId":"conformance-stream-text"}`,
		"envelopes":    `{"workflowId":"wopcert-envelope-emit","inputs":{"emissions":[` + emissions + `]},"configurable":{"version":1,"ai":{"maxRefusals":5}}}`,
	} {
		_, path := h.create(body)
		require.Equal(t, "completed", h.finish(path)["status"], name)
		events := h.events(path)
		for from := range events {
			r := h.call("POST", path+":fork", fmt.Sprintf(`{"mode":"replay","fromSeq":%d}`, from))
			require.Equal(t, http.StatusCreated, r.StatusCode, "%s from %d: %s", name, from, r.body)
			fork := strings.TrimSuffix(r.json(t)["eventsUrl"].(string), "/events")
			assert.Equal(t, "completed", h.finish(fork)["status"], "%s from %d", name, from)
			assert.Equal(t, types(events), types(h.events(fork)), "%s from %d", name, from)
			for _, created := range ofType(h.events(fork), "artifact.created") {
				assert.Equal(t, http.StatusOK, h.call("GET", fork+"/artifacts/"+payload(created)["artifactId"].(string), "").StatusCode)
			}
			for _, turn := range ofType(h.events(fork), "conversation.exchanged") {
				opened := ofType(h.events(fork), "conversation.opened")
				assert.Equal(t, payload(opened[0])["conversationId"], payload(turn)["conversationId"])
			}
		}
	}
}

func TestAnEvalRunIsPausedAndResumed(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), quiet)
	_, path := h.create(slowEval)
	manual.AwaitPending(2) // the deadline and the agent
	require.Equal(t, http.StatusAccepted, h.call("POST", path+":pause", `{"drainPolicy":"immediate"}`).StatusCode)
	assert.Equal(t, "paused", h.call("GET", path+"/eval-summary", "").details(t)["runStatus"])
	require.Eventually(t, func() bool { return manual.Pending() == 0 }, 10*time.Second, time.Millisecond)
	require.Equal(t, http.StatusAccepted, h.call("POST", path+":resume", "").StatusCode)
	manual.AwaitPending(2)
	manual.Advance(3 * time.Second)
	assert.Equal(t, "completed", h.finish(path)["status"])
	events := h.events(path)
	assert.Len(t, ofType(events, "eval.started"), 1)
	assert.Len(t, ofType(events, "eval.scored"), 1)
	assert.Len(t, ofType(events, "eval.completed"), 1)
	assert.Len(t, ofType(events, "node.started"), 2)
	assert.Equal(t, true, h.call("GET", path+"/eval-summary", "").json(t)["passed"])
}

func TestForksHaveNoAnnotations(t *testing.T) {
	t.Parallel()
	h := start(t, facets("replay", map[string]any{"modes": []any{"replay"}, "effectSeamsManifest": "/host/effect-seams"}))
	_, path := h.create(noop)
	h.finish(path)
	require.Equal(t, http.StatusCreated, h.call("POST", path+"/annotations", `{"signal":{"kind":"flag"}}`).StatusCode)
	r := h.call("POST", path+":fork", `{"mode":"replay"}`)
	require.Equal(t, http.StatusCreated, r.StatusCode, string(r.body))
	fork := strings.TrimSuffix(r.json(t)["eventsUrl"].(string), "/events")
	assert.Empty(t, h.call("GET", fork+"/annotations", "").json(t)["annotations"])
}
