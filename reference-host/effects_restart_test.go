package referencehost_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

// hold makes a sender wait for its context once the request was sent: the answer never arrives.
type hold struct {
	referencehost.Sender
	from int
	seen *counter
}

func (s hold) Send(ctx ctx, effect referencehost.Effect) (*referencehost.Outcome, error) {
	n := s.seen.next()
	outcome, err := s.Sender.Send(ctx, effect)
	if n < s.from {
		return outcome, err
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func holdFrom(n int) func(*referencehost.Config) {
	seen := new(counter)
	return func(c *referencehost.Config) {
		c.WrapSender = append(c.WrapSender, func(next referencehost.Sender) referencehost.Sender { return hold{next, n, seen} })
	}
}

// A host that goes down between a request and its answer asks again under the key of the first request.
func TestARestartKeepsTheIdentity(t *testing.T) { onEveryStore(t, restartKeepsIdentity) }

func restartKeepsIdentity(t *testing.T, onStore func(*referencehost.Config)) {
	p := newProvider(t)
	var config referencehost.Config
	h := start(t, onStore, p.trust, holdFrom(1), func(c *referencehost.Config) { config = *c })
	_, path := h.create(effectRun(p, ""))
	_, keyed := h.create(effectRun(p, "order-1"))
	p.await(2)
	for _, at := range []string{path, keyed} {
		assert.Equal(t, []any{"claimed"}, column(h.effects(at), "state"), "the intent is on record before anything is sent")
	}
	require.NoError(t, h.host.Close())
	h = start(t, p.trust, func(c *referencehost.Config) { c.Store, c.Keys = config.Store, config.Keys })
	for _, at := range []string{path, keyed} {
		assert.Equal(t, "completed", h.finish(at)["status"])
		rows := h.effects(at)
		assert.Equal(t, []any{"escaped", "completed"}, column(rows, "state"))
		assert.Len(t, slices.Compact(column(rows, "effectId")), 1)
	}
	keys := p.keys()
	slices.Sort(keys)
	require.Len(t, keys, 4)
	assert.Len(t, slices.Compact(keys), 2)
}

// A host that goes down with an outcome on record, and before the node has completed, does not ask again.
func TestARestartKeepsTheOutcome(t *testing.T) { onEveryStore(t, restartKeepsOutcome) }

func restartKeepsOutcome(t *testing.T, onStore func(*referencehost.Config)) {
	p := newProvider(t)
	var config referencehost.Config
	twice := `{"id":"effect","typeId":"example.twice","name":"N","position":{"x":0,"y":0},"config":{},"inputs":{}}`
	nodes := func(c *referencehost.Config) {
		c.NodeTypes = append(c.NodeTypes, referencehost.NodeType{ID: "example.twice", SideEffect: true, Run: func(ctx ctx, call *referencehost.Call) (referencehost.Values, error) {
			for range 2 {
				if _, err := call.Send(ctx, referencehost.Effect{Method: "POST", URL: p.url}); err != nil {
					return nil, err
				}
			}
			return nil, nil
		}})
		c.Unlisted = append(c.Unlisted, workflow("twice", twice))
	}
	h := start(t, onStore, p.trust, holdFrom(2), nodes, func(c *referencehost.Config) { config = *c })
	_, path := h.create(`{"workflowId":"twice"}`)
	p.await(2)
	require.NoError(t, h.host.Close())
	h = start(t, p.trust, nodes, func(c *referencehost.Config) { c.Store, c.Keys = config.Store, config.Keys })
	assert.Equal(t, "completed", h.finish(path)["status"])
	keys := p.keys()
	require.Len(t, keys, 3, "the first effect is not sent again, the second is")
	assert.NotEqual(t, keys[0], keys[1])
	assert.Equal(t, keys[1], keys[2])
	assert.Equal(t, []any{"completed", "escaped", "completed"}, column(h.effects(path), "state"))
}

// A compensation goes on where it was, with nothing done twice.
func TestARestartGoesOnUndoing(t *testing.T) { onEveryStore(t, restartGoesOnUndoing) }

func restartGoesOnUndoing(t *testing.T, onStore func(*referencehost.Config)) {
	p := newProvider(t)
	var config referencehost.Config
	h := start(t, onStore, p.trust, holdFrom(4), func(c *referencehost.Config) { config = *c })
	_, path := h.create(compensated(p, "wopcert-compensation", ""))
	p.await(4) // charge is undone, reserve is being undone
	assert.Equal(t, "running", h.call("GET", path, "").json(t)["compensationStatus"])
	require.NoError(t, h.host.Close())
	h = start(t, p.trust, func(c *referencehost.Config) { c.Store, c.Keys = config.Store, config.Keys })
	view := h.undone(path)
	assert.Equal(t, "completed", view["status"])
	assert.Equal(t, []string{"reserve", "charge", "~charge", "~reserve", "~reserve"}, said(p))
	keys := p.keys()
	assert.Equal(t, keys[3], keys[4])
	assert.Len(t, view["attempts"], 2, "an attempt without an outcome is made again, it is no second one")
	events := h.events(path)
	assert.Equal(t, 1, strings.Count(strings.Join(types(events), " "), "compensation.requested"))
	assert.Equal(t, []string{"compensation.requested", "compensation.started", "compensation.completed"}, tail(events))
}
