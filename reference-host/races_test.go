package referencehost_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// together makes the calls at one moment and returns their replies.
func together(calls ...func() *reply) []*reply {
	replies := make([]*reply, len(calls))
	release := make(chan struct{})
	var group sync.WaitGroup
	for i, call := range calls {
		group.Go(func() {
			<-release
			replies[i] = call()
		})
	}
	close(release)
	group.Wait()
	return replies
}

func (h *testHost) post(path, body string) func() *reply {
	return func() *reply { return h.call("POST", path, body) }
}

// accepted counts the replies of a status; every other one is a conflict.
func accepted(t *testing.T, status int, replies ...*reply) (n int) {
	t.Helper()
	for _, r := range replies {
		if r.StatusCode == status {
			n++
		} else {
			assert.Equal(t, http.StatusConflict, r.StatusCode, string(r.body))
		}
	}
	return n
}

func TestRacingCancelsHaveOneWinner(t *testing.T) {
	t.Parallel()
	h := start(t)
	for range 20 {
		id, path := h.create(`{"workflowId":"conformance-cancellable"}`)
		cancel, bulk := h.post(path+"/cancel", ""), h.post("/runs:bulk-cancel", fmt.Sprintf(`{"runIds":[%q,%q]}`, id, id))
		replies := together(cancel, cancel, cancel, bulk, bulk)
		won := accepted(t, http.StatusOK, replies[:3]...)
		for _, r := range replies[3:] {
			var body struct{ Results []struct{ OK bool } }
			require.NoError(t, json.Unmarshal(r.body, &body))
			require.Len(t, body.Results, 2)
			for _, entry := range body.Results {
				if entry.OK {
					won++
				}
			}
		}
		assert.Equal(t, 1, won)
		assert.Len(t, ofType(h.events(path), "run.cancelled"), 1)
	}
}

func TestRacingPausesAndResumes(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual))
	for round := range 20 {
		_, path := h.create(twoDelays)
		pause, resume := h.post(path+":pause", `{"drainPolicy":"immediate"}`), h.post(path+":resume", "")
		assert.Equal(t, 1, accepted(t, http.StatusAccepted, together(pause, pause, pause)...))
		assert.Equal(t, 1, accepted(t, http.StatusAccepted, together(resume, resume, resume)...))
		// One of each, in whatever order they come.
		replies := together(pause, resume, pause, resume, h.post(path+":pause", ""))
		accepted(t, http.StatusAccepted, replies...)
		events := h.events(path)
		paused, resumed := len(ofType(events, "run.paused")), len(ofType(events, "run.resumed"))
		assert.Contains(t, []int{0, 1}, paused-resumed, trace(events))
		if round%2 == 0 {
			assert.Equal(t, 1, accepted(t, http.StatusOK, together(resume, h.post(path+"/cancel", ""))[1]))
			h.wind(t, path)
			assert.Equal(t, "cancelled", h.call("GET", path, "").json(t)["status"])
			continue
		}
		done := make(chan struct{})
		go tick(manual, done)
		h.wind(t, path)
		close(done)
		assert.Equal(t, "completed", h.call("GET", path, "").json(t)["status"])
	}
}

// tick lets time pass until done.
func tick(manual interface{ Advance(time.Duration) }, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(time.Millisecond):
			manual.Advance(50 * time.Millisecond)
		}
	}
}

// A pause meets a node at its very end: the log must read as one of the two came first.
func TestAPauseRacesTheEndOfANode(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual))
	for range 30 {
		_, path := h.create(`{"workflowId":"conformance-delay"}`)
		manual.AwaitPending(2)
		replies := together(h.post(path+":pause", `{"drainPolicy":"immediate"}`), func() *reply {
			manual.Advance(time.Second)
			return &reply{}
		})
		if replies[0].StatusCode == http.StatusAccepted {
			events := h.events(path)
			assert.Equal(t, "run.paused", events[len(events)-1]["type"], trace(events))
			require.Equal(t, http.StatusAccepted, h.call("POST", path+":resume", "").StatusCode)
		}
		done := make(chan struct{})
		go tick(manual, done)
		assert.Equal(t, "completed", h.finish(path)["status"])
		close(done)
	}
}

// A parent is cancelled while it starts its child: no child may be left behind.
func TestCancelRacesTheStartOfAChild(t *testing.T) {
	t.Parallel()
	h := start(t)
	for range 40 {
		_, path := h.create(`{"workflowId":"conformance-interrupt-parent-child-cancel"}`)
		require.Equal(t, http.StatusOK, h.call("POST", path+"/cancel", "").StatusCode)
	}
	assert.Eventually(t, func() bool {
		runs := h.call("GET", "/runs?limit=100", "").json(t)["runs"].([]any)
		for _, run := range runs {
			if run.(object)["status"] != "cancelled" {
				return false
			}
		}
		return len(runs) >= 40
	}, 5*time.Second, 5*time.Millisecond)
}

func TestRedeliveryRacesEverything(t *testing.T) {
	t.Parallel()
	h := start(t)
	for range 10 {
		id, path := h.create(`{"workflowId":"wopcert-two-delays","inputs":{"firstMs":5,"secondMs":5}}`)
		redeliver := h.post("/host/durability/kill", `{"mode":"duplicate-delivery","runId":"`+id+`"}`)
		for range 5 {
			together(redeliver, h.post(path+":pause", `{"drainPolicy":"immediate"}`), redeliver, h.post(path+":resume", ""), redeliver)
		}
		h.wind(t, path)
		run := &seen{id: id, path: path}
		run.read(t, h)
		run.check(t, h)
	}
}
