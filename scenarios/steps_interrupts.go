package scenarios

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"wopcert/harness"
)

// Fixtures of the scenarios about interrupts. Those that begin with wopcert-
// are this project's own and take what the interrupt holds as run inputs.
const (
	approves         = "conformance-approval"
	approvesRefining = "conformance-approval-refine"
	approvesEdit     = "conformance-approval-edit-accept"
	approvesLate     = "conformance-approval-timeout"
	approvesListed   = "conformance-approval-approvers"
	clarifies        = "conformance-clarification"
	quorumOfThree    = "conformance-interrupt-quorum"
	lowConfidence    = "conformance-agent-low-confidence"
	gateOfChoice     = "wopcert-approval"
	waitsForAny      = "wopcert-interrupt"
	waitsTwice       = "wopcert-interrupt-pair"
	converseAsks     = "wopcert-conversation"
)

// pending is an interrupt that a run waits on.
type pending struct {
	run       string
	node      string
	requested object // its interrupt.requested
	log       log    // of the run when the interrupt was found
}

// payload is the InterruptPayload as the log holds it.
func (p pending) payload() object {
	payload, _ := p.requested["payload"].(object)
	return payload
}

// path is the run-scoped surface of the interrupt.
func (p pending) path() string {
	return runPath(p.run, "/interrupts/"+url.PathEscape(p.node))
}

// isWaitEvent matches the events of a run that has come to wait.
func isWaitEvent(e object) bool { return ofType("interrupt.requested", "node.suspended")(e) }

// suspend creates a run and waits until it waits on its first interrupt. The
// run is cancelled when the test is done with it. The test ends when the run
// does not come to wait, or does not say on what.
func suspend(t *harness.T, body object) pending {
	id := startRun(t, body)
	p, why := awaitInterrupt(t, id, "")
	if why != "" {
		endRun(t, id)
		t.Abort("no interrupt to observe: run of %v %s", body["workflowId"], why)
	}
	return p
}

// awaitInterrupt waits until a run waits on an interrupt, at a given node
// where node is not empty, and returns the last one requested there, or why
// there is none.
func awaitInterrupt(t *harness.T, id, node string) (p pending, why string) {
	_, found := awaitLogged(t, id, func(e object) bool {
		return e["type"] == "interrupt.requested" && (node == "" || requestedAt(e) == "" || requestedAt(e) == node) || isTerminalType(e["type"])
	}, settle)
	status := awaitStatus(t, id, func(s string) bool { return isWaiting(s) || endedStatus(s) }, 2*time.Second)
	l := wholeLog(t, id)
	requests := eventsOfType(l.events, "interrupt.requested")
	if !found || len(requests) == 0 {
		return p, "has status " + show(status) + " and no interrupt.requested"
	}
	if !isWaiting(status) {
		return p, "has status " + show(status) + " after interrupt.requested"
	}
	p = pending{run: id, node: node, log: l}
	for _, e := range requests {
		if at := nodeOfInterrupt(e, l.events); node == "" || at == node {
			p.requested = e
			if node == "" {
				p.node = at
			}
		}
	}
	if p.node == "" {
		p.node = get(t, id).Text("currentNodeId")
	}
	if p.requested == nil || p.node == "" {
		return p, "does not say at which node it waits"
	}
	return p, ""
}

// raised creates a run and waits until it has asked for something, whether or
// not it still waits by the time that is read: a deadline may be short.
func raised(t *harness.T, body object) pending {
	id := startRun(t, body)
	e, ok := awaitLogged(t, id, func(e object) bool { return e["type"] == "interrupt.requested" || isTerminalType(e["type"]) }, settle)
	l := wholeLog(t, id)
	p := pending{run: id, requested: e, log: l}
	if ok {
		p.node = nodeOfInterrupt(e, l.events)
	}
	if !ok || e["type"] != "interrupt.requested" || p.node == "" {
		endRun(t, id)
		t.Abort("no interrupt to observe: run of %v has %s", body["workflowId"], labelOf(e))
	}
	return p
}

// requestedAt is the node an interrupt.requested names by its envelope; its
// payload has no place for it.
func requestedAt(e object) string { return text(e, "nodeId") }

// nodeOfInterrupt is the node that raised an interrupt: by the event's own
// envelope, or by the node.suspended that goes with it.
func nodeOfInterrupt(requested object, events []object) string {
	if node := requestedAt(requested); node != "" {
		return node
	}
	key := harness.Get(requested, "payload", "key")
	suspensions := eventsOfType(events, "node.suspended")
	for _, s := range suspensions {
		if k := harness.Get(s, "payload", "key"); k != nil && k == key {
			return nodeOf(s)
		}
	}
	if len(suspensions) == 1 {
		return nodeOf(suspensions[0])
	}
	return ""
}

// awaitStatus reads a run until its status is as wanted, and returns the last
// one read. The events of one step need not be appended at once.
func awaitStatus(t *harness.T, id string, wanted func(string) bool, within time.Duration) string {
	end := time.Now().Add(within)
	for {
		status := get(t, id).Text("status")
		if wanted(status) || time.Now().After(end) || t.Context().Err() != nil {
			return status
		}
		pause(t, 30*time.Millisecond)
	}
}

// decide is the resume value of an approval, with further members in turn.
func decide(action string, more ...any) object {
	value := object{"action": action, "decidedAt": time.Now().UTC().Format(time.RFC3339)}
	for i := 0; i+1 < len(more); i += 2 {
		value[more[i].(string)] = more[i+1]
	}
	return value
}

// resolve sends a resume value by the run-scoped surface.
func resolve(t *harness.T, p pending, value any) *harness.Response {
	return resolveAs(t, harness.Primary, p, value)
}

func resolveAs(t *harness.T, who harness.Identity, p pending, value any) *harness.Response {
	return postResolve(t, who, p.path(), object{"resumeValue": value}, newIdempotencyKey())
}

// postResolve sends any body to either surface.
func postResolve(t *harness.T, who harness.Identity, path string, body any, key string) *harness.Response {
	return t.Do(harness.Request{Method: http.MethodPost, Path: path, Body: body, As: who, Header: headerOf("Idempotency-Key", key)})
}

// resolvedAt are the interrupt.resolved events of a node in a log.
func resolvedAt(events []object, node string) []object {
	return slices.DeleteFunc(eventsOfType(events, "interrupt.resolved"), func(e object) bool { return nodeOf(e) != node })
}

// tookAction reports whether an interrupt.resolved is of an action, by the
// member for it or by the resume value. That the member is there is a
// requirement of its own.
func tookAction(e object, action string) bool {
	payload, _ := e["payload"].(object)
	if got, has := payload["action"]; has {
		return got == any(action)
	}
	return harness.Get(payload["resumeValue"], "action") == any(action)
}

// awaitResolved waits for the interrupt.resolved of an interrupt; the test ends
// when there is none.
func awaitResolved(t *harness.T, p pending) object {
	e, ok := awaitLogged(t, p.run, func(e object) bool { return e["type"] == "interrupt.resolved" && nodeOf(e) == p.node }, settle)
	if !ok {
		t.Abort("no interrupt.resolved of node %s to observe within %s; the run has status %q", p.node, settle, get(t, p.run).Text("status"))
	}
	return e
}

// mustResolve resolves an interrupt as a step; the test ends when the host does
// not take it.
func mustResolve(t *harness.T, who harness.Identity, p pending, value any) *harness.Response {
	r := resolveAs(t, who, p, value)
	if !succeeded(r) {
		t.Abort("the interrupt cannot be resolved, so that nothing after it shows anything: a resolve with %s was answered %s", show(value), answered(r))
	}
	return r
}

// stillPending checks that an interrupt waits on: the run waits and its log
// holds no interrupt.resolved of the node.
func stillPending(t *harness.T, p pending) harness.Check {
	const expected = "the interrupt still pending"
	r := get(t, p.run)
	status := r.Text("status")
	if !r.Is(http.StatusOK).OK || !isWaiting(status) {
		return harness.That(false, expected, "%s with status %s", answered(r), show(r.Get("status"))).At(r)
	}
	l := wholeLog(t, p.run)
	n := len(resolvedAt(l.events, p.node))
	return harness.That(n == 0, expected, "status %q and %d interrupt.resolved", status, n).At(l.last)
}

// waitsNoMore checks that a run waits no longer and comes to one of its ends.
func waitsNoMore(t *harness.T, p pending) harness.Check {
	ended := awaitEnd(t, p.run, settle)
	r := get(t, p.run)
	return harness.That(ended && !isWaiting(r.Text("status")), "the run to go on to its end", "%s with status %s after %s",
		answered(r), show(r.Get("status")), settle).At(r)
}

// endsCompleted checks that a run goes on and completes.
func endsCompleted(t *harness.T, p pending) harness.Check {
	awaitEnd(t, p.run, settle)
	r := get(t, p.run)
	return harness.Equal("status of the run after its interrupt was resolved", any("completed"), r.Get("status")).At(r)
}

// refusedAsInvalid checks a refusal of a resolve for what it holds.
func refusedAsInvalid(what string, r *harness.Response) harness.Check {
	check := r.Refuses("validation_error")
	check.Observed = what + " was answered " + check.Observed
	return check
}

// refusedForbidden checks a refusal for want of authority. The text names the
// status and no code.
func refusedForbidden(t *harness.T, what string, r *harness.Response) harness.Check {
	return harness.That(r.Err == nil && r.Status == http.StatusForbidden && permittedCode(t.Corpus(), r.Text("error")),
		"403 with a code the host may use", "%s was answered %s", what, answered(r)).At(r)
}

// refusedIneligible checks a refusal of somebody who may not decide here. The
// text says that it is one, and not how: 403, or 404 for who may not know.
func refusedIneligible(t *harness.T, what string, r *harness.Response) harness.Check {
	ok := r.Err == nil && (r.Status == http.StatusForbidden || r.Status == http.StatusNotFound) && permittedCode(t.Corpus(), r.Text("error"))
	return harness.That(ok, "403 or 404 with a code the host may use", "%s was answered %s", what, answered(r)).At(r)
}

// askOf is a createRun body of the fixture that waits on an interrupt of
// choice.
func askOf(kind string, data object, more ...any) object {
	inputs := object{"kind": kind, "data": data}
	for i := 0; i+1 < len(more); i += 2 {
		inputs[more[i].(string)] = more[i+1]
	}
	return object{"workflowId": waitsForAny, "inputs": inputs}
}

// gateOf is a createRun body of the fixture with an approval gate of choice.
func gateOf(members object) object {
	return object{"workflowId": gateOfChoice, "inputs": members}
}

// interruptFamily gates on the family whose rules these are.
func interruptFamily() harness.Gate { return harness.Advertises("interrupt") }
