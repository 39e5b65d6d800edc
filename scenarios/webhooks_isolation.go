package scenarios

import (
	"fmt"
	"time"

	"wopcert/harness"
	"wopcert/harness/receiver"
	"wopcert/requirements"
)

// leastConcurrent is how many subscriptions a host sustains whose receivers do
// not answer.
const leastConcurrent = 8

// isolationTries are how many events are tried: a host may give up an attempt
// just before another starts.
const isolationTries = 3

// givenUpWithin is how long it takes at most until it shows that the other end of
// a connection has given up.
const givenUpWithin = 100 * time.Millisecond

// webhookIsolation: webhooks.md, "Durability" and "Delivery isolation".
func webhookIsolation() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-webhook-delivery-isolation",
		Title:    "A receiver that does not answer holds up nobody else's deliveries",
		Document: "webhooks.md",
		Section:  "Delivery isolation",
		Gates:    hookGates(),
		Tests: []harness.Test{
			{Name: "one receiver that does not answer", Witnesses: []requirements.ID{requirements.WebhooksIsolation}, Run: func(t *harness.T) {
				t.Expect(requirements.WebhooksIsolation, startsBesides(t, 1))
			}},
			// A host may bound what it has under way beyond eight, so nothing else
			// of the suite may be unanswered meanwhile.
			{Name: "eight receivers that do not answer", Witnesses: []requirements.ID{requirements.WebhooksIsolationEight}, Exclusive: true, Run: func(t *harness.T) {
				t.Expect(requirements.WebhooksIsolationEight, startsBesides(t, leastConcurrent))
			}},
		},
	}
}

// startsBesides brings attempts to a number of subscriptions into a state
// where they are not answered, and then checks that an attempt to another
// subscription starts while they all still are.
func startsBesides(t *harness.T, n int) harness.Check {
	silent := func(receiver.Attempt) receiver.Answer {
		return receiver.Answer{Status: 204, Delay: receiver.MaxDelay}
	}
	var held []*receiver.Endpoint
	for range n {
		at := hookEndpoint(t, silent)
		h := subscribe(t, at, hookBody(t.SigningSecret(0), runEnd))
		defer h.drop()
		defer at.Close() // answers what is still held, before the subscription goes
		held = append(held, at)
	}
	startRun(t, noopRun(t))
	ctx, cancel := patience(t)
	defer cancel()
	for i, at := range held {
		// The attempts of the others are what this one must not wait for.
		if _, ok := at.Wait(ctx, 1); !ok {
			return harness.That(false, fmt.Sprintf("attempts to %d subscriptions at a time", n), "%d while those were not answered", i)
		}
	}
	unanswered := make(chan int, 16)
	free := subscribe(t, hookEndpoint(t, func(receiver.Attempt) receiver.Answer {
		// This attempt is under way all the while: a host that makes one at a time
		// has given up the others by then, and not only just before.
		select {
		case <-time.After(givenUpWithin):
		case <-ctx.Done():
		}
		waiting := 0
		for _, at := range held {
			if at.Unanswered() > 0 {
				waiting++
			}
		}
		select {
		case unanswered <- waiting:
		default:
		}
		return receiver.Answer{Status: 204}
	}), hookBody(t.SigningSecret(1), runEnd))
	defer free.drop()
	expected := fmt.Sprintf("an attempt to another subscription while %d are not answered", n)
	observed := "none in the time given"
	for range isolationTries {
		startRun(t, noopRun(t))
		select {
		case waiting := <-unanswered:
			if waiting == n {
				return harness.That(true, expected, "one")
			}
			observed = fmt.Sprintf("one that came when %d still were", waiting)
		case <-ctx.Done():
		}
	}
	return harness.That(false, expected, "%s", observed)
}
