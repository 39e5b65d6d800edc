package scenarios

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"wopcert/harness"
	"wopcert/harness/receiver"
	"wopcert/requirements"
)

// minBackoff is the least wait between two attempts that still is one: a retry
// on the spot comes sooner. growth is how much longer the last gap of an
// exponential backoff is at least than the first, over several deliveries: their
// average leaves room for jitter, their least for a host that is late.
const (
	minBackoff = 5 * time.Millisecond
	growth     = 1.5
)

// webhookRetries: webhooks.md, "Durability" and "Egress".
func webhookRetries() harness.Scenario {
	policy := harness.AdvertisesFacet("webhooks", "retryPolicy")
	return harness.Scenario{
		ID:       "v2-webhook-retries",
		Title:    "What counts as a failed attempt, how often it is made again and when",
		Document: "webhooks.md",
		Section:  "Durability",
		Gates:    hookGates(),
		Tests: []harness.Test{
			{Name: "how many attempts are made", Witnesses: []requirements.ID{requirements.WebhooksRetryMaxAttempts}, Gates: []harness.Gate{policy}, Run: attemptsMade},
			{Name: "the time between attempts", Witnesses: []requirements.ID{requirements.WebhooksRetryBackoff}, Gates: []harness.Gate{policy, retries(), backsOff()}, Run: gapsBetween},
			{Name: "what a retry carries", Witnesses: []requirements.ID{requirements.WebhooksRetrySameEvent}, Gates: []harness.Gate{retries()}, Run: sameAgain},
			{Name: "answers that redirect", Witnesses: []requirements.ID{requirements.WebhooksRedirectFails, requirements.WebhooksRedirectNotFollowed},
				Gates: []harness.Gate{retries()}, Run: redirects},
			{Name: "connections that end without an answer", Witnesses: []requirements.ID{requirements.WebhooksConnectionFails}, Gates: []harness.Gate{retries()}, Run: func(t *harness.T) {
				h := subscribe(t, hookEndpoint(t, hangUpFirst()), hookBody(t.SigningSecret(0), runEnd))
				defer h.drop()
				id := startRun(t, noopRun(t))
				h.need(id, runEnd)
				all, ok := h.awaitThat(id, func(all []delivery) bool { return len(all) >= 2 })
				t.Expect(requirements.WebhooksConnectionFails, harness.That(ok, "another attempt after one whose connection was closed", "%d attempts in the time given (--timeout gives more)", len(all)))
			}},
			{Name: "every event of a run", Witnesses: []requirements.ID{requirements.WebhooksAtLeastOnce}, Run: everyEvent},
			{Name: "the events of a run of version 1", Witnesses: []requirements.ID{requirements.WebhooksAtLeastOnce},
				Gates: []harness.Gate{harness.NeedsSeams(), renamingFixture()}, Run: func(t *harness.T) {
					_, all, ok := era2Delivered(t)
					t.Expect(requirements.WebhooksAtLeastOnce, harness.That(ok, "a delivery of "+renamedType+" of a run of version 1",
						"deliveries of %s", strings.Join(typesOf(all), ", ")))
				}},
		},
	}
}

func backsOff() harness.Gate {
	return harness.HostFact("webhooks.retryPolicy.backoff is none: the policy has no wait between attempts", func(d *harness.Discovery) bool {
		v, _ := d.Facet("webhooks", "retryPolicy", "backoff")
		return v == any("fixed") || v == any("exponential")
	})
}

// hangUpFirst closes the connection of the first attempt at each event.
func hangUpFirst() receiver.Script {
	var c counter
	return func(a receiver.Attempt) receiver.Answer {
		if c.next(readDelivery(a).key) == 1 {
			return receiver.Answer{HangUp: true}
		}
		return receiver.Answer{Status: http.StatusNoContent}
	}
}

// failed is a run whose events were delivered in vain.
type failed struct {
	h       *hook
	chains  map[string][]delivery // the attempts by event
	repeats bool                  // the host makes a delivery more than once although it was taken
}

const cannotTell = "the host delivers an event more than once although it was taken, as it may; so its retries cannot be told from that"

// failing waits until every delivery of a run whose attempts all fail has been
// attempted a number of times. A second subscription, which takes everything,
// shows whether an attempt more is a retry.
func failing(t *harness.T, attempts int) failed {
	taking := subscribe(t, hookEndpoint(t, nil), hookBody(t.SigningSecret(1), runStart, runEnd))
	defer taking.drop()
	h := subscribe(t, hookEndpoint(t, receiver.Always(http.StatusServiceUnavailable)), hookBody(t.SigningSecret(0), deliveredTypes()...))
	id := startRun(t, noopRun(t))
	h.need(id, runStart, runEnd)
	whole := func(all []delivery) bool {
		for _, chain := range attemptsByKey(all) {
			if len(chain) < attempts {
				return false
			}
		}
		return true
	}
	all, _ := h.awaitThat(id, whole)
	out := failed{h: h, chains: attemptsByKey(all)}
	for _, taken := range attemptsByKey(taking.ofRun(id)) {
		out.repeats = out.repeats || len(taken) > 1
	}
	return out
}

func attemptsMade(t *harness.T) {
	most, _, bounded := retryPolicy(t)
	f := failing(t, int(most))
	h, chains := f.h, f.chains
	defer h.drop()
	pause(t, max(quiet, min(2*longestGap(chains), 3*time.Second)))
	for _, a := range h.at.Attempts() { // and what came in the meantime
		d := readDelivery(a)
		if n := len(chains[d.key]); n > 0 && d.Number > chains[d.key][n-1].Number {
			chains[d.key] = append(chains[d.key], d)
		}
	}
	for _, chain := range chains {
		n, last := int64(len(chain)), chain[len(chain)-1]
		if f.repeats {
			t.Inapplicable(requirements.WebhooksRetryMaxAttempts, cannotTell)
		} else {
			t.Expect(requirements.WebhooksRetryMaxAttempts, harness.That(n <= most, fmt.Sprintf("no more than %d attempts", most), "%d at %s", n, last.typ).AtAttempt(last.Attempt))
		}
		switch {
		case n < most && bounded: // retryPolicy.maxElapsedMs may have ended the retries first
		case n < most && n > 1 && !stalled(chain):
			t.Blocked(requirements.WebhooksRetryMaxAttempts, "the policy takes longer than the test: %d of %d attempts came in the time given; raise --timeout", n, most)
		default:
			t.Expect(requirements.WebhooksRetryMaxAttempts, harness.That(n >= most, fmt.Sprintf("%d attempts", most), "%d at %s, and no more came", n, last.typ).AtAttempt(last.Attempt))
		}
	}
}

// stalled reports whether the next attempt is overdue even for a backoff that
// grows faster than any that is called exponential.
func stalled(chain []delivery) bool {
	last := chain[len(chain)-1].At
	return time.Since(last) > 4*last.Sub(chain[len(chain)-2].At)+time.Second
}

func longestGap(chains map[string][]delivery) time.Duration {
	longest := time.Duration(0)
	for _, chain := range chains {
		for i := 1; i < len(chain); i++ {
			longest = max(longest, chain[i].At.Sub(chain[i-1].At))
		}
	}
	return longest
}

// gapsBetween measures the waits of several deliveries at once. The receiver
// answers on the spot, so that the time between two arrivals is the host's. A
// machine under load makes gaps longer and none shorter: what does not grow at
// first is measured again, and the least gaps of all count.
func gapsBetween(t *harness.T) {
	most, backoff, _ := retryPolicy(t)
	var first, last []time.Duration
	end, bounded := t.Context().Deadline()
	for round := range gapRounds {
		if bounded && round > 0 && time.Until(end) < 10*time.Second {
			break
		}
		f := failing(t, int(min(most, 5)))
		f.h.drop()
		if f.repeats {
			t.Inapplicable(requirements.WebhooksRetryBackoff, cannotTell)
			return
		}
		few := false
		for _, chain := range f.chains {
			if len(chain) < 2 {
				t.Abort("no retry to measure: one attempt at %s in the time given", chain[0].typ)
			}
			for i := 1; i < len(chain); i++ {
				gap := chain[i].At.Sub(chain[i-1].At)
				t.Expect(requirements.WebhooksRetryBackoff, harness.That(gap >= minBackoff, "a wait of "+minBackoff.String()+" or more before a retry",
					"attempt %d at %s came %s after the one before", i+1, chain[i].typ, gap.Round(time.Microsecond)).AtAttempt(chain[i].Attempt))
			}
			few = few || len(chain) < 4
			first = append(first, chain[1].At.Sub(chain[0].At))
			last = append(last, chain[len(chain)-1].At.Sub(chain[len(chain)-2].At))
		}
		if backoff != "exponential" || few {
			return // too few gaps to tell growth from jitter
		}
		if grew(mean(first), mean(last)) || grew(slices.Min(first), slices.Min(last)) {
			break
		}
	}
	grown := grew(mean(first), mean(last)) || grew(slices.Min(first), slices.Min(last))
	if spread := slices.Max(first) - slices.Min(first); !grown && spread > slices.Min(first) {
		// What comes on top of the waits differs by more than the first wait itself.
		t.Blocked(requirements.WebhooksRetryBackoff, "the first gaps are between %s and %s, too unlike each other to tell whether the later ones grow; measure again with less going on",
			slices.Min(first).Round(time.Millisecond), slices.Max(first).Round(time.Millisecond))
		return
	}
	t.Expect(requirements.WebhooksRetryBackoff, harness.That(grown,
		fmt.Sprintf("a wait of %.1f times the first or more before the last retry, on average or at the least", growth),
		"first gaps of %s and last gaps of %s, at the least %s and %s", mean(first).Round(time.Millisecond), mean(last).Round(time.Millisecond),
		slices.Min(first).Round(time.Millisecond), slices.Min(last).Round(time.Millisecond)))
}

// gapRounds are how often gaps are measured at the most before they are judged.
const gapRounds = 5

func grew(from, to time.Duration) bool { return float64(to) >= growth*float64(from) }

func mean(all []time.Duration) time.Duration {
	sum := time.Duration(0)
	for _, d := range all {
		sum += d
	}
	return sum / time.Duration(len(all))
}

// sameAgain compares the attempts at one event with each other.
func sameAgain(t *harness.T) {
	f := failing(t, 2)
	defer f.h.drop()
	judged := 0
	for _, chain := range f.chains {
		for _, d := range chain[1:] {
			judged++
			t.Expect(requirements.WebhooksRetrySameEvent, harness.Equal("the event of a retry", chain[0].event, d.event).AtAttempt(d.Attempt))
			t.Expect(requirements.WebhooksRetrySameEvent, harness.All(signedV1(d, f.h.secret), timely(d)))
		}
	}
	if judged == 0 {
		t.Abort("no retry to observe: each of %d deliveries was attempted once in the time given", len(f.chains))
	}
}

// redirects answers an attempt at an event with a redirect of each kind, to an
// address of its own that has to stay untouched: the first, and the one after a
// failure, which may leave the host by another way.
func redirects(t *harness.T) {
	type target struct {
		status int
		h      *hook
		to     *receiver.Endpoint
	}
	var targets []target
	for i, status := range []int{301, 302, 303, 307, 308, 302, 307} {
		failures := i / 5 // before the redirect
		to := hookEndpoint(t, nil)
		var c counter
		h := subscribe(t, hookEndpoint(t, func(a receiver.Attempt) receiver.Answer {
			switch n := c.next(readDelivery(a).key); {
			case n <= failures:
				return receiver.Answer{Status: http.StatusInternalServerError}
			case n == failures+1:
				return receiver.Redirect(status, to.URL())(a)
			}
			return receiver.Answer{Status: http.StatusNoContent}
		}), hookBody(t.SigningSecret(0), runEnd))
		defer h.drop()
		targets = append(targets, target{status, h, to})
	}
	id := startRun(t, noopRun(t))
	for _, x := range targets {
		x.h.need(id, runEnd)
	}
	for _, x := range targets {
		all, ok := x.h.awaitThat(id, func(all []delivery) bool { return len(all) >= 2 })
		t.Expect(requirements.WebhooksRedirectFails, harness.That(ok, fmt.Sprintf("another attempt after one that was answered %d", x.status), "%d attempts in the time given (--timeout gives more)", len(all)))
	}
	pause(t, quiet)
	for _, x := range targets {
		t.Expect(requirements.WebhooksRedirectNotFollowed, harness.That(x.to.Count() == 0, "no request at the address redirected to",
			"%d after a %d", x.to.Count(), x.status))
	}
}

// everyEvent compares what was delivered with what the log says had to be,
// where each event's first attempt fails if the policy allows another.
func everyEvent(t *harness.T) {
	most, _, _ := retryPolicy(t)
	script := receiver.Script(nil)
	if most != 1 {
		script = failFirst(1, http.StatusBadGateway)
	}
	h := subscribe(t, hookEndpoint(t, script), hookBody(t.SigningSecret(0), deliveredTypes()...))
	defer h.drop()
	body := object{"workflowId": noop}
	if listed(t, multiNode) {
		body = object{"workflowId": multiNode}
	}
	id, l := settledRun(t, taggedRun(t, body))
	want := map[string]string{}
	for _, e := range l.events {
		if ofType(deliveredTypes()...)(e) {
			want[fmt.Sprintf("%s#%v", id, e["sequence"])] = label(e)
		}
	}
	missing := func(all []delivery) []string {
		times := attemptsByKey(all)
		var out []string
		for key, event := range want {
			if n := len(times[key]); n == 0 || n < 2 && script != nil {
				out = append(out, event)
			}
		}
		return out
	}
	all, _ := h.awaitThat(id, func(all []delivery) bool { return len(missing(all)) == 0 })
	t.Expect(requirements.WebhooksAtLeastOnce, none("event of the log that was never taken", missing(all)))
}
