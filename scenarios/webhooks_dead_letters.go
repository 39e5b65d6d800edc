package scenarios

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// webhookDeadLetters: webhooks.md, "Dead letters".
func webhookDeadLetters() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-webhook-dead-letters",
		Title:    "Dead letters are read page by page, by the subscription's own tenant, while it exists",
		Document: "webhooks.md",
		Section:  "Dead letters",
		Gates:    hookGates(harness.AdvertisesFacet("webhooks", "deadLetter")),
		Tests: []harness.Test{
			{Name: "pages", Witnesses: []requirements.ID{requirements.WebhooksDeadLetterPages}, Run: deadLetterPages},
			{Name: "cursors", Witnesses: []requirements.ID{requirements.WebhooksDeadLetterCursor}, Run: deadLetterCursors},
			{Name: "another tenant's dead letters", Witnesses: []requirements.ID{requirements.WebhooksDeadLetterForeign},
				Gates: []harness.Gate{harness.NeedsCredential(harness.OtherTenant)}, Run: func(t *harness.T) {
					h := subscribe(t, hookEndpoint(t, nil), hookBody(t.SigningSecret(0), runEnd))
					defer h.drop()
					if r := deadLettersOf(t, harness.Primary, h, nil); !r.Is(http.StatusOK).OK {
						t.Abort("the dead letters cannot be read by their own tenant: %s", answered(r))
					}
					none := &hook{t: t, id: tenantSegment(h.id) + "/" + newOpaque()}
					for _, x := range []*hook{h, none} {
						t.Expect(requirements.WebhooksDeadLetterForeign, deadLettersOf(t, harness.OtherTenant, x, nil).Refuses("id_tenant_mismatch"))
					}
				}},
			{Name: "how long a dead letter is kept", Witnesses: []requirements.ID{requirements.WebhooksDeadLetterRetention}, Run: func(t *harness.T) {
				days, _ := t.Host().Discovery.Facet("webhooks", "deadLetter", "retentionDays")
				n, _ := integer(days)
				h, _ := exhausted(t, noopRun(t), runEnd)
				defer h.drop()
				page := awaitDeadLetters(t, h, 1)
				for _, letter := range lettersOf(page) {
					from, to := timeOf(letter["deadLetteredAt"]), timeOf(letter["expiresAt"])
					off := to.Sub(from.Add(time.Duration(n) * 24 * time.Hour)).Abs()
					t.Expect(requirements.WebhooksDeadLetterRetention, harness.That(!from.IsZero() && !to.IsZero() && off <= time.Second,
						"expiresAt "+decimal(n)+" days after deadLetteredAt", "%s after %s", show(letter["expiresAt"]), show(letter["deadLetteredAt"])).At(page))
				}
			}},
			{Name: "a subscription that is not there", Witnesses: []requirements.ID{requirements.WebhooksDeadLetterUnregistered}, Run: func(t *harness.T) {
				h, _ := exhausted(t, noopRun(t), runEnd)
				awaitDeadLetters(t, h, 1)
				if r := h.unregister(); !r.Is(http.StatusNoContent).OK {
					t.Abort("no subscription was ended: unregisterWebhook was answered %s", answered(r))
				}
				minted := &hook{t: t, id: tenantSegment(h.id) + "/" + newOpaque()}
				for _, x := range []*hook{h, minted} {
					t.Expect(requirements.WebhooksDeadLetterUnregistered, deadLettersOf(t, harness.Primary, x, nil).Refuses("not_found"))
				}
			}},
		},
	}
}

// timeOf is an RFC 3339 time, the zero time for anything else.
func timeOf(v any) time.Time {
	s, _ := v.(string)
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return at
}

// severalDeadLetters is a subscription with a number of dead letters, and the pages
// that list them where no limit is asked for.
func severalDeadLetters(t *harness.T) (*hook, []*harness.Response, int) {
	h, first := exhausted(t, noopRun(t), runStart, runEnd)
	second := startRun(t, noopRun(t))
	h.need(second, runStart, runEnd)
	n := len(attemptsByKey(h.ofRun(first))) + len(attemptsByKey(h.ofRun(second)))
	return h, allDeadLetters(t, h, n), n
}

func deadLetterPages(t *harness.T) {
	h, pages, n := severalDeadLetters(t)
	defer h.drop()
	for _, page := range pages {
		t.Expect(requirements.WebhooksDeadLetterPages, newestLetterFirst(page))
	}
	// One page after the other, two records at a time at the most.
	var seen []string
	query := url.Values{"limit": {"2"}}
	for range n + 1 {
		page := deadLettersOf(t, harness.Primary, h, query)
		letters := lettersOf(page)
		if !t.Expect(requirements.WebhooksDeadLetterPages, harness.All(page.Is(http.StatusOK), page.Valid("webhook-dead-letter-page"),
			harness.That(len(letters) <= 2, "two records or fewer for limit 2", "%d", len(letters)).At(page), newestLetterFirst(page))) {
			return
		}
		for _, letter := range letters {
			seen = append(seen, show(letter["deliveryId"]))
		}
		cursor := page.Text("nextCursor")
		if cursor == "" {
			break
		}
		query.Set("cursor", cursor)
	}
	each := slices.Compact(slices.Sorted(slices.Values(seen)))
	t.Expect(requirements.WebhooksDeadLetterPages, harness.That(len(seen) == len(each), "each record on one page", "%d records of which %d differ", len(seen), len(each)))
	t.Expect(requirements.WebhooksDeadLetterPages, harness.That(len(each) >= n, "every record on some page", "%d of %d", len(each), n))
	clamped := deadLettersOf(t, harness.Primary, h, url.Values{"limit": {"1000000"}})
	most, _ := t.Host().Discovery.Facet("webhooks", "deadLetter", "maxPageSize")
	limit, _ := integer(most)
	t.Expect(requirements.WebhooksDeadLetterPages, harness.All(clamped.Is(http.StatusOK), harness.That(int64(len(lettersOf(clamped))) <= limit,
		"no more than maxPageSize records for a higher limit", "%d", len(lettersOf(clamped))).At(clamped)))
}

func newestLetterFirst(page *harness.Response) harness.Check {
	letters := lettersOf(page)
	for i := 1; i < len(letters); i++ {
		before, after := timeOf(letters[i-1]["deadLetteredAt"]), timeOf(letters[i]["deadLetteredAt"])
		if after.After(before) {
			return harness.That(false, "records from the newest to the oldest", "deadLetteredAt %s before %s", show(letters[i-1]["deadLetteredAt"]), show(letters[i]["deadLetteredAt"])).At(page)
		}
	}
	return harness.That(true, "records from the newest to the oldest", "%d records", len(letters)).At(page)
}

func deadLetterCursors(t *harness.T) {
	h, _, n := severalDeadLetters(t)
	defer h.drop()
	other := subscribe(t, hookEndpoint(t, nil), hookBody(t.SigningSecret(1), runEnd))
	defer other.drop()
	if r := deadLettersOf(t, harness.Primary, other, nil); !r.Is(http.StatusOK).OK {
		t.Abort("dead letters cannot be read: %s", answered(r))
	}
	t.Expect(requirements.WebhooksDeadLetterCursor, deadLettersOf(t, harness.Primary, h, url.Values{"cursor": {"wopcert-" + newOpaque()}}).Refuses("validation_error"))
	if n < 2 {
		return
	}
	first := deadLettersOf(t, harness.Primary, h, url.Values{"limit": {"1"}})
	cursor := first.Text("nextCursor")
	if cursor == "" {
		t.Abort("no cursor to observe: a page of 1 of %d dead letters has no nextCursor: %s", n, answered(first))
	}
	query := url.Values{"cursor": {cursor}}
	if r := deadLettersOf(t, harness.Primary, h, query); !r.Is(http.StatusOK).OK {
		t.Abort("the cursor is not accepted where it was minted: %s", answered(r))
	}
	t.Expect(requirements.WebhooksDeadLetterCursor, deadLettersOf(t, harness.Primary, other, query).Refuses("validation_error"))
}
