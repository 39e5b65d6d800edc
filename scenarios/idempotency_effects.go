package scenarios

import (
	"fmt"
	"net/http"
	"time"

	"wopcert/harness"
	"wopcert/harness/receiver"
	"wopcert/requirements"
)

// durabilityHook is where hosts that can be told to deliver accepted work again
// take the order. It is no operation of the protocol.
const durabilityHook = "/host/durability/kill"

// duplicateDelivery delivers the work of a run again, while it executes and
// after its end.
func duplicateDelivery(t *harness.T) {
	id := startRun(t, object{"workflowId": sideEffect, "inputs": object{"delayMs": 200}})
	if why := unhooked(t, deliverTwice(t, id)); why != "" {
		t.Inapplicable(requirements.R0158DuplicateDelivery, "%s", why)
		return
	}
	if l := readLog(t, id, settle); len(eventsOfType(l.events, "run.completed")) == 0 {
		t.Abort("the run with an effect did not complete: it has status %q", l.status)
	}
	deliverTwice(t, id)
	effects := effectsOf(t, id)
	if len(effects) == 0 {
		t.Abort("the host reports no effect of the run")
	}
	t.Expect(requirements.R0158DuplicateDelivery, effectsOnce(effects))
}

// unhooked is why a host cannot be told to deliver work again, "" where it can.
// The test ends when the hook is there and fails.
func unhooked(t *harness.T, r *harness.Response) string {
	switch r.Status {
	case http.StatusAccepted:
		return ""
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return "the host has no durability hook: " + answered(r)
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return "the host's durability hook takes another request: " + answered(r)
	}
	t.Abort("the durability hook answered %s", answered(r))
	return ""
}

// duplicateAtProvider delivers the work of a run again while its effect is
// under way and after it, and counts what the provider sees.
func duplicateAtProvider(t *harness.T) {
	e := t.Endpoint(func(receiver.Attempt) receiver.Answer {
		answer := done()
		answer.Delay = 150 * time.Millisecond
		return answer
	})
	id := startRun(t, object{"workflowId": httpEffect, "inputs": object{"url": e.URL()}})
	ctx, cancel := patience(t)
	defer cancel()
	if _, ok := e.Wait(ctx, 1); !ok {
		t.Abort("nothing of a run of %s reached the provider", httpEffect)
	}
	if why := unhooked(t, deliverTwice(t, id)); why != "" {
		t.Inapplicable(requirements.R0158DuplicateDelivery, "%s", why)
		return
	}
	if l := readLog(t, id, settle); len(eventsOfType(l.events, "run.completed")) == 0 {
		t.Abort("the run with an effect did not complete: it has status %q", l.status)
	}
	deliverTwice(t, id)
	waitPast(t, id, highest(wholeLog(t, id).events), time.Now().Add(300*time.Millisecond))
	t.Expect(requirements.R0158DuplicateDelivery, harness.That(e.Count() == 1, "one request of the effect at the provider", "%d", e.Count()))
}

// deliverTwice asks a host to deliver the accepted work of a run again.
func deliverTwice(t *harness.T, runID string) *harness.Response {
	return t.Do(harness.Request{Method: http.MethodPost, Path: durabilityHook,
		Body: object{"mode": "duplicate-delivery", "runId": runID}})
}

// effectsOnce checks that every effect is reported once, and that every node
// completed one.
func effectsOnce(effects []object) harness.Check {
	var faults []string
	seen, completed := map[string]int{}, map[string]int{}
	for _, e := range effects {
		seen[text(e, "effectId")]++
		completed[text(e, "nodeId")] += map[bool]int{true: 1}[e["state"] == "completed"]
	}
	for id, n := range seen {
		if n > 1 {
			faults = append(faults, fmt.Sprintf("effect %s reported %d times", id, n))
		}
	}
	for node, n := range completed {
		if n != 1 {
			faults = append(faults, fmt.Sprintf("node %s with %d completed effects", node, n))
		}
	}
	return none("effect performed twice", faults)
}
