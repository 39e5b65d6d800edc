package referencehost_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

func (h *testHost) forked(path, mode string, from int) string {
	h.t.Helper()
	r := h.call("POST", path+":fork", fmt.Sprintf(`{"mode":%q,"fromSeq":%d}`, mode, from))
	require.Equal(h.t, http.StatusCreated, r.StatusCode, string(r.body))
	return runPath(r.json(h.t)["runId"].(string))
}

// sequenceOf is where the first event of the type is in a log.
func sequenceOf(t *testing.T, events []map[string]any, eventType string) int {
	i := slices.Index(types(events), eventType)
	require.GreaterOrEqual(t, i, 0, eventType)
	return i
}

func TestForksDoNotAskAgainWhatTheirHistoryAnswers(t *testing.T) {
	onEveryStore(t, forksDoNotAskAgainWhatTheirHistoryAnswers)
}

func forksDoNotAskAgainWhatTheirHistoryAnswers(t *testing.T, onStore func(*referencehost.Config)) {
	h := start(t, withReplay, onStore)
	_, path := h.asks(`{"workflowId":"wopcert-approval-then-fork"}`)
	r := h.resolve(path, "gate", `{"action":"accept","feedback":"go"}`, referencehost.KeyTenantA)
	require.Equal(t, 200, r.StatusCode)
	h.finish(path)
	events := h.events(path)
	resolved := sequenceOf(t, events, "interrupt.resolved")
	for _, mode := range []string{"replay", "branch"} {
		for from := range len(events) {
			fork := h.forked(path, mode, from)
			if mode == "branch" && from <= resolved {
				h.await(fork, "interrupt.requested", 1)
				assert.Equal(t, "waiting-approval", h.call("GET", fork, "").json(t)["status"], from)
				h.accept(fork)
			}
			assert.Equal(t, "completed", h.finish(fork)["status"], "%s %d", mode, from)
			own := h.events(fork)
			assert.LessOrEqual(t, len(find(own, "interrupt.requested")), 1, "%s %d", mode, from)
			assert.LessOrEqual(t, len(find(own, "interrupt.resolved")), 1, "%s %d", mode, from)
			if mode == "replay" {
				assert.Empty(t, find(own[from:], "interrupt.requested"), "a replay raises nothing: %d", from)
				outputs := payload(find(own, "node.completed")[1])["outputs"]
				assert.Equal(t, object{"action": "accept"}, outputs)
			}
		}
	}
}

func TestReplayOfARejectionIsDerivedFromTheLog(t *testing.T) {
	t.Parallel()
	h := start(t, withReplay)
	_, path := h.asks(`{"workflowId":"conformance-approval"}`)
	require.Equal(t, 200, h.resolve(path, "gate", `{"action":"reject"}`, referencehost.KeyTenantA).StatusCode)
	h.finish(path)
	for from := range 9 {
		fork := h.forked(path, "replay", from)
		assert.Equal(t, "approval_rejected", h.finish(fork)["error"].(object)["code"], from)
	}
}

// TestForkOfARunThatWaits: the fork waits too, for an answer of its own.
func TestForkOfARunThatWaits(t *testing.T) {
	t.Parallel()
	h := start(t, withReplay)
	_, path := h.asks(`{"workflowId":"conformance-approval"}`)
	n := len(h.events(path))
	for from := range n {
		fork := h.forked(path, "branch", from)
		h.await(fork, "interrupt.requested", 1)
		assert.Equal(t, "waiting-approval", h.call("GET", fork, "").json(t)["status"], from)
		h.accept(fork)
		assert.Equal(t, "completed", h.finish(fork)["status"], from)
		assert.Len(t, find(h.events(fork), "interrupt.requested"), 1, from)
	}
	assert.Equal(t, "waiting-approval", h.call("GET", path, "").json(t)["status"])
	fork := h.forked(path, "replay", 3)
	h.await(fork, "interrupt.requested", 1)
	h.accept(fork)
	h.accept(path)
	h.finish(path)
	assert.Equal(t, "completed", h.finish(fork)["status"])
}

// changing is a directory whose members change.
type changing struct {
	mu      sync.Mutex
	members []string
	asked   int
}

func (d *changing) Holds(_ ctx, subject referencehost.Subject, kind referencehost.RefKind, _ string) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	return kind == referencehost.RefGroup && slices.Contains(d.members, subject.SubjectID), nil
}

func (d *changing) set(members ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.members = members
}

func TestMembershipIsLookedUpAtTheDecisionAndNeverAgain(t *testing.T) {
	t.Parallel()
	directory := &changing{members: []string{"operator-a"}}
	h := start(t, withReplay, func(c *referencehost.Config) { c.Directory = directory })
	_, path := h.asks(measured(`{"approverGroupRefs":["any"]}`))
	directory.set("approver-a1")
	assert.Equal(t, "forbidden", h.resolve(path, "gate", `{"action":"accept"}`, referencehost.KeyTenantA).code(t))
	require.Equal(t, 200, h.resolve(path, "gate", `{"action":"accept"}`, referencehost.KeyApprover1).StatusCode)
	h.finish(path)
	directory.set()
	asked := directory.asked
	fork := h.forked(path, "replay", 0)
	assert.Equal(t, "completed", h.finish(fork)["status"], "the decision stands, whoever is a member now")
	assert.Equal(t, asked, directory.asked)
	assert.Equal(t, []any{"any"}, payload(find(h.events(path), "interrupt.requested")[0])["data"].(object)["approverGroupRefs"])
}

// again gives the work of a host to another one with the same store and keys.
func again(t *testing.T, h *testHost, config referencehost.Config, changes ...func(*referencehost.Config)) *testHost {
	t.Helper()
	require.NoError(t, h.host.Close())
	return start(t, append(changes, func(c *referencehost.Config) {
		c.Store, c.Keys, c.TokenSecrets = config.Store, config.Keys, config.TokenSecrets
	})...)
}

// TestRestart: whoever takes a run up finds out from its log what was asked and what was answered.
func TestRestart(t *testing.T) { onEveryStore(t, restart) }

func restart(t *testing.T, onStore func(*referencehost.Config)) {
	var config referencehost.Config
	keep := func(c *referencehost.Config) { config = *c }
	h := start(t, onStore, keep)
	_, waiting := h.asks(`{"workflowId":"wopcert-approval-then-fork"}`)
	_, pair := h.asks(`{"workflowId":"wopcert-interrupt-pair"}`)
	h.await(pair, "interrupt.requested", 2)
	require.Equal(t, 200, h.resolve(pair, "left", `{"n":1}`, referencehost.KeyTenantA).StatusCode)
	_, quorum := h.asks(`{"workflowId":"conformance-interrupt-quorum"}`)
	require.Equal(t, 200, h.resolve(quorum, "gate", `{"action":"accept"}`, referencehost.KeyApprover1).StatusCode)
	_, late := h.asks(measured(`{"timeoutMs":1}`))
	_, talk := h.asks(`{"workflowId":"wopcert-conversation"}`)
	before := map[string]int{}
	for _, path := range []string{waiting, pair, quorum, talk} {
		before[path] = len(h.events(path))
	}

	h = again(t, h, config)
	assert.Equal(t, "approval_rejected", h.finish(late)["error"].(object)["code"])
	for path, n := range before {
		assert.Len(t, h.events(path), n, "nothing is asked again")
		assert.Contains(t, h.call("GET", path, "").json(t)["status"], "waiting-")
	}
	h.accept(waiting)
	require.Equal(t, 200, h.resolve(pair, "right", `2`, referencehost.KeyTenantA).StatusCode)
	for _, key := range []string{referencehost.KeyApprover2, referencehost.KeyApprover3} {
		require.Equal(t, 200, h.resolve(quorum, "gate", `{"action":"accept"}`, key).StatusCode)
	}
	require.Equal(t, 200, h.resolve(talk, "talk", `{"text":"Yes."}`, referencehost.KeyTenantA).StatusCode)
	for path := range before {
		assert.Equal(t, "completed", h.finish(path)["status"])
		events := h.events(path)
		starts := map[any]int{}
		for _, event := range find(events, "node.started") {
			starts[event["nodeId"]]++
			assert.Equal(t, 1, starts[event["nodeId"]], "an attempt that waits goes on")
		}
	}
	assert.Len(t, find(h.events(talk), "conversation.exchanged"), 2)
}

// TestPauseTakesEffectWhileAnotherNodeWaits: a node that waits executes nothing.
func TestPauseTakesEffectWhileAnotherNodeWaits(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual), withWorkflow("two", "[]",
		[]string{`first core.delay {"delayMs":1000}`, `gate core.approvalGate {}`, `slow core.delay {"delayMs":2000}`}, "first>gate"))
	_, path := h.create(`{"workflowId":"two"}`)
	h.await(path, "node.started", 2)
	manual.AwaitPending(3)
	manual.Advance(time.Second)
	h.await(path, "interrupt.requested", 1)
	h.accept(path)
	require.Equal(t, 202, h.call("POST", path+":pause", "").StatusCode)
	manual.Advance(time.Second)
	h.await(path, "run.paused", 1)
	require.Equal(t, 202, h.call("POST", path+":resume", "").StatusCode)
	assert.Equal(t, "completed", h.finish(path)["status"])
}

func TestResolvesAndCancelsAtOnce(t *testing.T) { onEveryStore(t, resolvesAndCancelsAtOnce) }

func resolvesAndCancelsAtOnce(t *testing.T, onStore func(*referencehost.Config)) {
	h := start(t, onStore)
	for range 20 {
		_, path := h.asks(`{"workflowId":"conformance-approval"}`)
		var group sync.WaitGroup
		var resolved, cancelled *reply
		group.Go(func() { resolved = h.resolve(path, "gate", `{"action":"accept"}`, referencehost.KeyTenantA) })
		group.Go(func() { cancelled = h.call("POST", path+"/cancel", "") })
		group.Wait()
		status := h.finish(path)["status"]
		if resolved.StatusCode != 200 {
			assert.Equal(t, "interrupt_already_resolved", resolved.code(t))
			assert.Equal(t, "cancelled", status)
		}
		if cancelled.StatusCode != 200 {
			assert.Equal(t, "run_terminal", cancelled.code(t))
			assert.Equal(t, "completed", status)
		}
		events := h.events(path)
		last := events[len(events)-1]["type"]
		assert.Contains(t, []any{"run.completed", "run.cancelled"}, last)
		raw, err := json.Marshal(events)
		require.NoError(t, err)
		assert.NotContains(t, string(raw), "interrupt_cancelled")
	}
}
