package scenarios

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"wopcert/harness"
	"wopcert/harness/receiver"
	"wopcert/harness/webhook"
	"wopcert/requirements"
)

// webhookDurable: webhooks.md, "Durability" and "Dead letters". Its id is the
// floor's; what the two sections say beyond the floor is in scenarios of its
// own.
func webhookDurable() harness.Scenario {
	deadLetters := harness.AdvertisesFacet("webhooks", "deadLetter")
	return harness.Scenario{
		ID:       "v2-webhook-durable-delivery",
		Title:    "A delivery that fails is tried again, and one that cannot be made is kept",
		Document: "webhooks.md",
		Section:  "Durability",
		Gates:    hookGates(),
		Tests: []harness.Test{
			{Name: "a first attempt that fails", Witnesses: []requirements.ID{requirements.R0173WebhookDurableDelivery}, Gates: []harness.Gate{retries()}, Run: retriedUntilTaken},
			{Name: "a delivery that is given up", Witnesses: []requirements.ID{requirements.R0173WebhookDurableDeliveryDeadLetter}, Gates: []harness.Gate{deadLetters}, Run: givenUp},
			{Name: "the page of dead letters", Witnesses: []requirements.ID{requirements.R0188DeadLetterRead}, Gates: []harness.Gate{deadLetters}, Run: func(t *harness.T) {
				h, _ := exhausted(t, noopRun(t), runEnd)
				defer h.drop()
				page := awaitDeadLetters(t, h, 1)
				if !t.Expect(requirements.R0188DeadLetterRead, harness.All(page.Is(http.StatusOK), page.Valid("webhook-dead-letter-page"))) {
					return
				}
				for _, letter := range lettersOf(page) {
					for member, kind := range map[string]string{"deliveryId": "deliveryId", "webhookId": "subscriptionId", "runId": "runId"} {
						t.Expect(requirements.R0188DeadLetterRead, boundIn(t, member, letter[member], kind, tenantSegment(h.id)).At(page))
					}
				}
			}},
			{Name: "what dead letters hold", Witnesses: []requirements.ID{requirements.R0188DeadLetterContentFree}, Gates: []harness.Gate{deadLetters}, Run: deadLettersContentFree},
		},
	}
}

// retriedUntilTaken fails the first attempt of each event and takes the second.
// What a receiver refuses it has not taken either.
func retriedUntilTaken(t *harness.T) {
	refusing := map[int]*hook{}
	for _, status := range []int{http.StatusNotFound, http.StatusTooManyRequests} {
		refusing[status] = subscribe(t, hookEndpoint(t, failFirst(1, status)), hookBody(t.SigningSecret(1), runEnd))
		defer refusing[status].drop()
	}
	h := subscribe(t, hookEndpoint(t, failFirst(1, http.StatusServiceUnavailable)), hookBody(t.SigningSecret(0), runStart, runEnd))
	defer h.drop()
	id := startRun(t, noopRun(t))
	for _, typ := range []string{runStart, runEnd} {
		h.need(id, typ)
		all, ok := h.awaitThat(id, func(all []delivery) bool { return len(ofDelivered(all, typ)) >= 2 })
		t.Expect(requirements.R0173WebhookDurableDelivery, harness.That(ok, "another attempt at "+typ+" after one that was answered 503",
			"%d attempts at it in the time given (--timeout gives more)", len(ofDelivered(all, typ))))
	}
	for status, h := range refusing {
		all, ok := h.awaitThat(id, func(all []delivery) bool { return len(all) >= 2 })
		t.Expect(requirements.R0173WebhookDurableDelivery, harness.That(ok, fmt.Sprintf("another attempt after one that was answered %d", status),
			"%d attempts in the time given (--timeout gives more)", len(all)))
	}
}

func ofDelivered(all []delivery, typ string) []delivery {
	var out []delivery
	for _, d := range all {
		if d.typ == typ {
			out = append(out, d)
		}
	}
	return out
}

// exhausted is a subscription to events of a run whose every attempt fails.
func exhausted(t *harness.T, run object, types ...string) (h *hook, runID string) {
	h = subscribe(t, hookEndpoint(t, receiver.Always(http.StatusServiceUnavailable)), hookBody(t.SigningSecret(0), types...))
	runID = startRun(t, run)
	h.need(runID, types...)
	return h, runID
}

// deadLettersOf reads a page of a subscription's dead letters.
func deadLettersOf(t *harness.T, as harness.Identity, h *hook, query url.Values) *harness.Response {
	return t.Do(harness.Request{Path: h.path("/dead-letters"), Query: query, As: as})
}

// lettersOf are the records of a page, or those of certain runs.
func lettersOf(page *harness.Response, runs ...string) []object {
	list, _ := page.Get("deliveries").([]any)
	var out []object
	for _, e := range list {
		letter, _ := e.(object)
		id, _ := letter["runId"].(string)
		if len(runs) == 0 || slices.Contains(runs, id) {
			out = append(out, letter)
		}
	}
	return out
}

// awaitDeadLetters asks for the first page until it holds a number of dead
// letters. Retries take the time the policy gives them, and nothing announces
// their end. The test ends where they do not come.
func awaitDeadLetters(t *harness.T, h *hook, n int) *harness.Response {
	page, ok := seekDeadLetters(t, h, n)
	if !ok {
		t.Abort("no dead letters to observe: %d of %d are listed in the time given: %s", len(lettersOf(page)), n, answered(page))
	}
	return page
}

// seekDeadLetters is awaitDeadLetters for tests that judge their absence. Where
// runs are named, the records of those count.
func seekDeadLetters(t *harness.T, h *hook, n int, runs ...string) (page *harness.Response, ok bool) {
	ctx, cancel := patience(t)
	defer cancel()
	for {
		page = deadLettersOf(t, h.as, h, nil)
		if !page.Is(http.StatusOK).OK || len(lettersOf(page, runs...)) >= n || ctx.Err() != nil {
			return page, len(lettersOf(page, runs...)) >= n
		}
		pause(t, 50*time.Millisecond)
	}
}

// allDeadLetters reads page after page until so many dead letters are listed,
// however few a page holds. The test ends where they do not come.
func allDeadLetters(t *harness.T, h *hook, n int) []*harness.Response {
	ctx, cancel := patience(t)
	defer cancel()
	for {
		var pages []*harness.Response
		listed, query := 0, url.Values{}
		for range n + 1 { // each page but the last holds one at the least
			page := deadLettersOf(t, h.as, h, query)
			pages = append(pages, page)
			listed += len(lettersOf(page))
			cursor := page.Text("nextCursor")
			if !page.Is(http.StatusOK).OK || cursor == "" {
				break
			}
			query.Set("cursor", cursor)
		}
		if listed >= n {
			return pages
		}
		last := pages[len(pages)-1]
		if !last.Is(http.StatusOK).OK || ctx.Err() != nil {
			t.Abort("no dead letters to observe: %d of %d are listed in the time given, on %d pages: %s", listed, n, len(pages), answered(last))
		}
		pause(t, 50*time.Millisecond)
	}
}

// givenUp expects an exhausted delivery in the sink, once, described as what
// the receiver saw of it.
func givenUp(t *harness.T) {
	taking := subscribe(t, hookEndpoint(t, nil), hookBody(t.SigningSecret(1), runEnd))
	defer taking.drop()
	h, id := exhausted(t, noopRun(t), runEnd)
	defer h.drop()
	// A record that names another run by mistake is still the only one.
	page, ok := seekDeadLetters(t, h, 1)
	if len(lettersOf(page)) > 1 {
		page, ok = seekDeadLetters(t, h, 1, id)
	}
	if !t.Expect(requirements.R0173WebhookDurableDeliveryDeadLetter, harness.That(ok, "the exhausted delivery of "+runEnd+" among the dead letters",
		"%s with %d records, after %d attempts", answered(page), len(lettersOf(page)), len(h.ofRun(id))).At(page)) {
		return
	}
	attempts := h.ofRun(id)
	var eventID any
	if ends := eventsOfType(readLog(t, id, settle).events, runEnd); len(ends) > 0 {
		eventID = ends[0]["eventId"]
	}
	letters := lettersOf(page, id)
	if len(letters) == 0 {
		letters = lettersOf(page)
	}
	t.Expect(requirements.R0173WebhookDurableDeliveryDeadLetter, harness.Equal("records of one delivery", 1, len(letters)).At(page))
	for member, want := range map[string]any{"webhookId": h.id, "runId": id, "eventId": eventID, "eventType": runEnd, "reason": "retries_exhausted"} {
		t.Expect(requirements.R0173WebhookDurableDeliveryDeadLetter, harness.Equal(member+" of the record", want, letters[0][member]).At(page))
	}
	n, _ := integer(letters[0]["attempts"])
	arrived := int64(len(attempts))
	repeats := len(taking.ofRun(id)) > 1 // more may arrive than the host counts
	t.Expect(requirements.R0173WebhookDurableDeliveryDeadLetter, harness.That(n == arrived || repeats && 0 < n && n < arrived,
		fmt.Sprintf("attempts %d, as they arrived", arrived), "attempts %s", show(letters[0]["attempts"])).At(page))
	if status, has := letters[0]["lastStatus"]; has {
		code, _ := integer(status)
		t.Expect(requirements.R0173WebhookDurableDeliveryDeadLetter, harness.Equal("lastStatus", int64(http.StatusServiceUnavailable), code).At(page))
	}
}

// deadLettersContentFree looks in the dead letters for what was in the deliveries.
func deadLettersContentFree(t *harness.T) {
	mark := newTag()
	run := noopRun(t)
	if listed(t, identity) {
		run = taggedRun(t, object{"workflowId": identity, "inputs": object{"payload": object{"text": mark}}})
	}
	h, id := exhausted(t, run, deliveredTypes()...)
	defer h.drop()
	for _, page := range allDeadLetters(t, h, len(attemptsByKey(h.ofRun(id)))) {
		text := headerText(page.Header) + string(page.Body)
		t.Expect(requirements.R0188DeadLetterContentFree, carriesNothing(t, "dead letters", text).At(page))
		t.Expect(requirements.R0188DeadLetterContentFree, harness.That(!strings.Contains(text, mark), "nothing of the payloads", "a text of a payload").At(page))
		for _, d := range h.ofRun(id) {
			signature := strings.TrimPrefix(d.Header.Get(webhook.HeaderSignature), "sha256=")
			t.Expect(requirements.R0188DeadLetterContentFree, harness.That(signature == "" || !strings.Contains(text, signature), "nothing of the headers", "a signature").At(page))
		}
		for _, letter := range lettersOf(page) {
			for _, member := range []string{"body", "payload", "event", "headers", "secret", "signature", "url"} {
				_, has := letter[member]
				t.Expect(requirements.R0188DeadLetterContentFree, harness.That(!has, "a record without "+member, "one with it").At(page))
			}
		}
	}
}
