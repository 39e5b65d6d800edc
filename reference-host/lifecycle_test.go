package referencehost_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

func TestForcedEngineVersionIsOnEveryEvent(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, forced := range []string{"0", "1", "2"} {
		_, path := h.create(`{"workflowId":"conformance-version-fold"}`, "OpenWOP-Force-Engine-Version", forced)
		snapshot := h.finish(path)
		assert.Equal(t, forced, fmt.Sprint(snapshot["engineVersion"]))
		for _, event := range h.events(path) {
			assert.Equal(t, forced, fmt.Sprint(event["engineVersion"]))
		}
	}
}

func TestDedup(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual))
	scoped := `{"workflowId":"conformance-cancellable","scopeId":"s","inputs":{"delayMs":1000}}`
	enforce := []string{"OpenWOP-Dedup", "enforce"}
	id, path := h.create(scoped, enforce...)

	r := h.call("POST", "/runs", scoped, enforce...)
	assert.Equal(t, "run_already_active", r.code(t))
	assert.Equal(t, id, r.details(t)["activeRunId"])
	assert.Equal(t, "600", r.Header.Get("Retry-After"))

	h.create(scoped)                                                                                          // not enforced
	h.create(strings.Replace(scoped, `"s"`, `"other"`, 1), enforce...)                                        // another scope
	h.create(scoped, append(enforce, h.as(referencehost.KeyTenantB)...)...)                                   // another tenant
	require.Equal(t, http.StatusOK, h.call("POST", path+"/cancel", "").StatusCode)                            // one holder ends
	assert.Equal(t, "run_already_active", h.call("POST", "/runs", scoped, enforce...).code(t), "one is left") // the other holds
	manual.AwaitPending(6)
	manual.Advance(time.Second)
	require.Eventually(t, func() bool {
		return h.call("POST", "/runs", scoped, enforce...).StatusCode == http.StatusCreated
	}, 10*time.Second, time.Millisecond)
}

func TestDedupHasOneWinner(t *testing.T) {
	t.Parallel()
	h := start(t)
	var wins, losses int
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			r := h.call("POST", "/runs", `{"workflowId":"conformance-cancellable","scopeId":"s"}`, "OpenWOP-Dedup", "enforce")
			mu.Lock()
			defer mu.Unlock()
			if r.StatusCode == http.StatusCreated {
				wins++
			} else if r.StatusCode == http.StatusConflict {
				losses++
			}
		})
	}
	group.Wait()
	assert.Equal(t, 1, wins)
	assert.Equal(t, 19, losses)
}

func TestRunTimeout(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]time.Duration{
		`{"version":1,"run":{"runTimeoutMs":2000}}`:     2 * time.Second,
		`{"version":1,"run":{"runTimeoutMs":99000000}}`: 5 * time.Second, // clamped to the host's
	} {
		manual := manualClock()
		h := start(t, withClock(manual), func(c *referencehost.Config) { c.Limits.MaxRunDuration = 5 * time.Second })
		_, path := h.create(`{"workflowId":"conformance-cancellable","configurable":` + name + `}`)
		manual.AwaitPending(2)
		manual.Advance(timeout - time.Millisecond)
		assert.Equal(t, "running", h.call("GET", path, "").json(t)["status"])
		manual.Advance(time.Millisecond)
		snapshot := h.finish(path)
		assert.Equal(t, "failed", snapshot["status"])
		assert.Equal(t, "run_timeout", snapshot["error"].(map[string]any)["code"])
		events := h.events(path)
		assert.Equal(t, []string{"run.started", "node.started", "cap.breached", "node.cancelled", "run.failed"}, types(events))
		breach := events[2]["payload"].(map[string]any)
		assert.Equal(t, "run-duration", breach["kind"])
		assert.Equal(t, float64(timeout.Milliseconds()), breach["limit"])
	}
}

func TestRecursionLimit(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(`{"workflowId":"conformance-multi-node","configurable":{"version":1,"run":{"recursionLimit":2}}}`)
	snapshot := h.finish(path)
	assert.Equal(t, "recursion_limit_exceeded", snapshot["error"].(map[string]any)["code"])
	events := h.events(path)
	assert.Equal(t, []string{"run.started", "node.started", "node.completed", "node.started", "node.completed", "cap.breached", "run.failed"}, types(events))
	assert.Equal(t, map[string]any{"kind": "node-executions", "limit": 2.0, "observed": 3.0}, events[5]["payload"])

	_, path = h.create(`{"workflowId":"conformance-multi-node","configurable":{"version":1,"run":{"recursionLimit":3}}}`)
	assert.Equal(t, "completed", h.finish(path)["status"])
}

func TestCancel(t *testing.T) {
	t.Parallel()
	h := start(t)
	id, path := h.create(`{"workflowId":"conformance-cancellable"}`)
	require.Eventually(t, func() bool { return len(h.events(path)) == 2 }, 10*time.Second, time.Millisecond)
	r := h.call("POST", path+"/cancel", `{"reason":"enough"}`)
	require.Equal(t, http.StatusOK, r.StatusCode)
	assert.Equal(t, map[string]any{"runId": id, "status": "cancelled"}, r.json(t))
	assert.Equal(t, "cancelled", h.call("GET", path, "").json(t)["status"])

	events := h.events(path)
	assert.Equal(t, []string{"run.started", "node.started", "node.cancelled", "run.cancelled"}, types(events))
	payload := events[3]["payload"].(map[string]any)
	assert.Equal(t, "enough", payload["reason"])
	assert.Equal(t, "operator-a", payload["cancelledBy"])

	r = h.call("POST", path+"/cancel", "")
	assert.Equal(t, "run_terminal", r.code(t))
	assert.Equal(t, "cancelled", r.details(t)["runStatus"])
	for _, workflow := range []string{"conformance-noop", "conformance-failure"} {
		_, path := h.create(`{"workflowId":"` + workflow + `"}`)
		h.finish(path)
		assert.Equal(t, "run_terminal", h.call("POST", path+"/cancel", "{}").code(t))
	}
	assert.Equal(t, "not_found", h.call("POST", "/runs/tenant-a~2Faaaaaaaaaaaaaaaa/cancel", "").code(t))
	assert.Equal(t, "forbidden", h.call("POST", path+"/cancel", "", h.as(referencehost.KeyReadOnly)...).code(t))
	_, path = h.create(`{"workflowId":"conformance-cancellable"}`)
	for _, bad := range []string{`[]`, `{"reason":1}`, `nope`, `{"reason":"` + strings.Repeat("x", 1025) + `"}`} {
		assert.Equal(t, "validation_error", h.call("POST", path+"/cancel", bad).code(t), bad)
	}
	assert.Equal(t, "running", h.call("GET", path, "").json(t)["status"])
}

func TestCancelHasOneWinner(t *testing.T) {
	t.Parallel()
	h := start(t)
	for range 20 {
		_, path := h.create(`{"workflowId":"conformance-cancellable"}`)
		statuses := make(chan int, 4)
		var group sync.WaitGroup
		for range cap(statuses) {
			group.Go(func() { statuses <- h.call("POST", path+"/cancel", "").StatusCode })
		}
		group.Wait()
		close(statuses)
		count := map[int]int{}
		for status := range statuses {
			count[status]++
		}
		assert.Equal(t, map[int]int{http.StatusOK: 1, http.StatusConflict: 3}, count)
		terminal := 0
		for _, name := range types(h.events(path)) {
			if name == "run.cancelled" {
				terminal++
			}
		}
		assert.Equal(t, 1, terminal)
	}
}

func TestTooManyActiveRuns(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *referencehost.Config) { c.Limits.MaxActiveRuns = 1 })
	_, path := h.create(`{"workflowId":"conformance-cancellable"}`)
	r := h.call("POST", "/runs", `{"workflowId":"conformance-noop"}`)
	assert.Equal(t, "rate_limited", r.code(t))
	assert.Equal(t, "1", r.Header.Get("Retry-After"))
	h.call("POST", path+"/cancel", "")
	require.Eventually(t, func() bool {
		return h.call("POST", "/runs", `{"workflowId":"conformance-noop"}`).StatusCode == http.StatusCreated
	}, 10*time.Second, time.Millisecond)
}
