package scenarios

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"wopcert/harness"
	"wopcert/harness/receiver"
)

// Fixtures of the scenarios about compensation, all this project's own. The
// nodes reserve and charge send to a provider, and so do their inverses.
const (
	unwinds       = "wopcert-compensation"
	unwindsHeld   = "wopcert-compensation-hold"
	unwindsGraph  = "wopcert-compensation-graph"
	unwindsManual = "wopcert-compensation-manual"
	unwindsBeside = "wopcert-compensation-beside"
)

// compensates gates on a fixture with inverse actions and on a provider to
// send them to.
func compensates(fixture string) []harness.Gate {
	return []harness.Gate{harness.Advertises("compensation"), optIn(fixture), harness.NeedsReceiver()}
}

// requestOf is what a request of these fixtures is about.
type requestOf struct {
	node    string
	inverse bool
}

func askedOf(a receiver.Attempt) requestOf {
	var body struct {
		Node    string `json:"node"`
		Inverse bool   `json:"inverse"`
	}
	_ = json.Unmarshal(a.Body, &body) // any other body is about no node
	return requestOf{body.Node, body.Inverse}
}

// inversesOf are the requests of inverse actions, of one node or of all where
// node is empty, in the order they came.
func inversesOf(attempts []receiver.Attempt, node string) []receiver.Attempt {
	return slices.DeleteFunc(slices.Clone(attempts), func(a receiver.Attempt) bool {
		about := askedOf(a)
		return !about.inverse || node != "" && about.node != node
	})
}

// done is the answer to an effect that was performed.
func done() receiver.Answer { return receiver.JSON([]byte(`{"done":true}`)) }

// inverseAnswers answers the n-th inverse request of a node with the n-th
// answer, later ones with the last, and everything else with success.
func inverseAnswers(answers map[string][]receiver.Answer) receiver.Script {
	var mu sync.Mutex
	seen := map[string]int{}
	return func(a receiver.Attempt) receiver.Answer {
		about := askedOf(a)
		list := answers[about.node]
		if !about.inverse || len(list) == 0 {
			return done()
		}
		mu.Lock()
		defer mu.Unlock()
		seen[about.node]++
		return list[min(seen[about.node], len(list))-1]
	}
}

// unwound is a run that was compensated, or came to rest on the way.
type unwoundRun struct {
	id         string
	log        log
	projection *harness.Response
	provider   *receiver.Endpoint
}

// unwound runs a fixture whose last node fails and waits until its
// compensation has come to rest. The test ends when there is none.
func unwound(t *harness.T, fixture string, script receiver.Script) unwoundRun {
	u := unwinding(t, fixture, script)
	u.rest(t)
	return u
}

// unwinding starts such a run.
func unwinding(t *harness.T, fixture string, script receiver.Script) unwoundRun {
	if script == nil {
		script = func(receiver.Attempt) receiver.Answer { return done() }
	}
	u := unwoundRun{provider: t.Endpoint(script)}
	inputs := object{"url": u.provider.URL()}
	if fixture == unwindsHeld {
		inputs["delayMs"] = activeFor
	}
	u.id = startRun(t, object{"workflowId": fixture, "inputs": inputs})
	return u
}

// rest waits until the compensation of the run is under way no longer, and
// reads what became of it. The test ends when it does not come to rest.
func (u *unwoundRun) rest(t *harness.T) {
	if !u.rests(t) {
		t.Abort("no compensation to observe: of run %s it is %s after %s (%s)", u.id, show(u.projection.Get("status")), settle, answered(u.projection))
	}
}

func (u *unwoundRun) rests(t *harness.T) bool {
	awaitEnd(t, u.id, settle)
	end := time.Now().Add(settle)
	for {
		u.projection = compensationOf(t, u.id)
		status := u.projection.Text("status")
		if u.projection.Is(http.StatusOK).OK && status != "" && !slices.Contains([]string{"none", "pending", "running"}, status) {
			u.log = wholeLog(t, u.id)
			return true
		}
		if time.Now().After(end) || t.Context().Err() != nil || !u.projection.Is(http.StatusOK).OK {
			u.log = wholeLog(t, u.id)
			return false
		}
		pause(t, 20*time.Millisecond)
	}
}

func compensationOf(t *harness.T, runID string) *harness.Response {
	return t.Do(harness.Request{Path: runPath(runID, "/compensation")})
}

// planned are the nodes of a plan in its order.
func planned(projection *harness.Response) []string {
	type entry struct {
		node  string
		order float64
	}
	var entries []entry
	list, _ := projection.Get("plan").([]any)
	for _, p := range list {
		order, _ := numeric(harness.Get(p, "order"))
		entries = append(entries, entry{textAt(p, "nodeId"), order})
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return int(a.order - b.order) })
	var nodes []string
	for _, e := range entries {
		nodes = append(nodes, e.node)
	}
	return nodes
}

// tried is one attempt at an inverse action as the projection has it.
type tried struct {
	node, outcome string
	attempt       int64
}

func triedOf(projection *harness.Response) []tried {
	var out []tried
	list, _ := projection.Get("attempts").([]any)
	for _, a := range list {
		n, _ := integer(harness.Get(a, "attempt"))
		out = append(out, tried{textAt(a, "nodeId"), textAt(a, "outcome"), n})
	}
	return out
}

// heldBack holds back the answers to inverse requests until it is opened.
type heldBack struct {
	open chan struct{}
	once sync.Once
}

func newHeldBack(t *harness.T) (*heldBack, receiver.Script) {
	h := &heldBack{open: make(chan struct{})}
	return h, func(a receiver.Attempt) receiver.Answer {
		if askedOf(a).inverse {
			select {
			case <-h.open:
			case <-t.Context().Done():
			}
		}
		return done()
	}
}

func (h *heldBack) release() { h.once.Do(func() { close(h.open) }) }

// awaitInverse waits for the first request of an inverse action. The test ends
// when none comes.
func (u *unwoundRun) awaitInverse(t *harness.T) {
	ctx, cancel := patience(t)
	defer cancel()
	if _, ok := u.provider.WaitUntil(ctx, func(all []receiver.Attempt) bool { return len(inversesOf(all, "")) > 0 }); !ok {
		t.Abort("no compensation under way to observe: no inverse action reached the provider in time")
	}
}
