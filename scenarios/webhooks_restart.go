package scenarios

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"wopcert/harness"
	"wopcert/harness/receiver"
	"wopcert/harness/webhook"
	"wopcert/requirements"
	"wopcert/seams"
)

// webhookRestart: webhooks.md, "Durability" and "Standard Webhooks", on a host
// that is claimed to be durable.
func webhookRestart() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-webhook-restart",
		Title:    "What was to be delivered outlasts the host",
		Document: "webhooks.md",
		Section:  "Durability",
		Gates:    hookGates(harness.ClaimsDurability(), harness.NeedsKill(), harness.NeedsFixture(delay)),
		Tests: []harness.Test{{
			Name:      "a kill while an attempt is under way",
			Witnesses: []requirements.ID{requirements.WebhooksOutlastsRestart, requirements.WebhooksMessageIdRestart},
			Last:      true,
			Timeout:   recoveryTimeout,
			Run:       killedBetweenAttempts,
		}},
	}
}

// killedBetweenAttempts holds back the answer to a first attempt until the host
// is dead, and takes what comes after its restart.
func killedBetweenAttempts(t *harness.T) {
	var back atomic.Bool
	script := func(receiver.Attempt) receiver.Answer {
		if back.Load() {
			return receiver.Answer{Status: http.StatusNoContent}
		}
		return receiver.Answer{Status: http.StatusServiceUnavailable, Delay: receiver.MaxDelay}
	}
	body, standard := hookBody(t.SigningSecret(0), runEnd), standardListed(t.Host().Discovery)
	if standard {
		body = standardBody(t.StandardSecret(0), runEnd)
	} else {
		t.Inapplicable(requirements.WebhooksMessageIdRestart, "webhooks.signatureAlgorithms does not list %s", standardWebhooks)
	}
	h := subscribe(t, hookEndpoint(t, script), body)
	defer h.drop()
	lasting := startRun(t, object{"workflowId": delay, "inputs": object{"delayMs": activeFor}})
	lifeline := t.Lifeline(runPath(lasting, "/events"))
	id := startRun(t, noopRun(t))
	before := h.need(id, runEnd)
	outage := t.KillHost(func() *harness.Stream { return lifeline })
	back.Store(true)
	if outage.Back.IsZero() {
		t.Abort("the host did not answer again after the kill")
	}
	defer endRun(t, lasting)
	all, ok := h.awaitThat(id, func(all []delivery) bool { return len(all) > len(before) })
	if t.Expect(requirements.WebhooksOutlastsRestart, harness.That(ok, "another attempt at the event after the restart", "none in the time given")) && standard {
		first := before[0].Header.Get(webhook.StandardID)
		for _, d := range all[len(before):] {
			got := d.Header.Get(webhook.StandardID)
			t.Expect(requirements.WebhooksMessageIdRestart, harness.That(got != "" && got == first, "the webhook-id of the attempt before the kill, "+show(first), "%s", show(got)).AtAttempt(d.Attempt))
		}
	}
	later := startRun(t, noopRun(t))
	_, ok = h.await(later, runEnd)
	t.Expect(requirements.WebhooksOutlastsRestart, harness.That(ok, "deliveries of events after the restart", "none in the time given"))
}

// webhookUnprojectable: webhooks.md, "Durability", and events.md, "Era-2 logs".
func webhookUnprojectable() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-webhook-unprojectable",
		Title:    "What cannot be shown in version 2 is not tried over and over",
		Document: "webhooks.md",
		Section:  "Durability",
		Gates:    hookGates(harness.NeedsSeams(), harness.AdvertisesFacet("webhooks", "deadLetter")),
		Tests: []harness.Test{{Name: "an event with a member version 2 does not have", Witnesses: []requirements.ID{requirements.WebhooksUnprojectableDeadLettered},
			Run: unprojectable}},
	}
}

// fanOutWait is how long a test waits for what a host need not do.
const fanOutWait = 3 * time.Second

func unprojectable(t *harness.T) {
	// A type no other test runs into; a seeded run has no tags to tell it by.
	const old = "voice.speech_start"
	typ := expectedType(t.Corpus(), old)
	h := subscribe(t, hookEndpoint(t, nil), with(hookBody(t.SigningSecret(0), typ), "tags", nil))
	defer h.drop()
	clean := seed(t, seams.Completed, finished(seedRow{old, object{"atMs": 10}})...)
	soon, cancel := context.WithTimeout(t.Context(), fanOutWait)
	defer cancel()
	all, ok := h.at.WaitUntil(soon, func(all []receiver.Attempt) bool { return len(deliveriesOf(all, clean.id)) > 0 })
	if !ok {
		t.Inapplicable(requirements.WebhooksUnprojectableDeadLettered, "the host delivers nothing of a log that is seeded: %d attempts came", len(deliveriesOf(all, clean.id)))
		return
	}
	odd := seed(t, seams.Completed, finished(seedRow{old, object{"atMs": 10, "wopcertUnknown": t.Tag()}})...)
	if r := poll(t, odd.id, -1, time.Second); !r.Refuses("payload_unprojectable").OK {
		t.Inapplicable(requirements.WebhooksUnprojectableDeadLettered, "the host projects an unknown member of a version 1 payload: a poll gave %s", answered(r))
		return
	}
	page, ok := seekDeadLetters(t, h, 1, odd.id)
	if !t.Expect(requirements.WebhooksUnprojectableDeadLettered, harness.That(ok, "the event among the dead letters", "%s with %d records", answered(page), len(lettersOf(page))).At(page)) {
		return
	}
	pause(t, quiet)
	letter := lettersOf(page, odd.id)[0]
	t.Expect(requirements.WebhooksUnprojectableDeadLettered, harness.All(
		harness.Equal("runId of the record", any(odd.id), letter["runId"]),
		harness.Equal("reason of the record", any("payload_unprojectable"), letter["reason"]),
		harness.Equal("eventType of the record", any(typ), letter["eventType"])).At(page))
	t.Expect(requirements.WebhooksUnprojectableDeadLettered, harness.That(len(h.ofRun(odd.id)) <= 1, "no attempt after the first", "%d attempts", len(h.ofRun(odd.id))))
}
