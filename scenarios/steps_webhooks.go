package scenarios

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"wopcert/bundle/jcs"
	"wopcert/harness"
	"wopcert/harness/receiver"
)

// runStart and runEnd are types of events that every run that ends well has.
const (
	runStart = "run.started"
	runEnd   = "run.completed"
)

// quiet is how long a test that has seen what should come looks on for what
// should not.
const quiet = 400 * time.Millisecond

// standardWebhooks is the id of the companion signature scheme.
const standardWebhooks = "standard-webhooks-1"

// hookGates are what every test of deliveries stands on.
func hookGates(more ...harness.Gate) []harness.Gate {
	return append([]harness.Gate{harness.Advertises("webhooks"), harness.NeedsReceiver(), harness.NeedsFixture(noop)}, more...)
}

// listsStandard gates on the companion scheme.
func listsStandard() harness.Gate {
	return harness.HostFact("webhooks.signatureAlgorithms does not list "+standardWebhooks, standardListed)
}

func standardListed(d *harness.Discovery) bool {
	facet, _ := d.Facet("webhooks", "signatureAlgorithms")
	listed, _ := stringList(facet)
	return slices.Contains(listed, standardWebhooks)
}

// patience is how long a test waits for something that a host has to do but
// may take its time for: a third of the time it has left. No text bounds how
// soon a delivery or a retry comes.
func patience(t *harness.T) (context.Context, context.CancelFunc) {
	end, ok := t.Context().Deadline()
	if !ok {
		return context.WithTimeout(t.Context(), 20*time.Second)
	}
	return context.WithTimeout(t.Context(), max(time.Until(end)/3, time.Second))
}

// hookEndpoint is an endpoint that wants the deliveries: it answers challenges,
// should any come, and everything else as the script says.
func hookEndpoint(t *harness.T, script receiver.Script) *receiver.Endpoint {
	return t.Endpoint(echo(script))
}

// hook is a subscription and where its deliveries arrive.
type hook struct {
	t        *harness.T
	as       harness.Identity
	id       string
	secret   string
	at       *receiver.Endpoint
	response *harness.Response
}

// registerHook sends registerWebhook for an address and returns whatever came.
// Unless the body says otherwise it asks for the runs of this test alone: a
// subscription is of a tenant, and many tests run in it side by side. No test
// but that of the tags counts on the host to heed them.
func registerHook(t *harness.T, as harness.Identity, address string, body object) *harness.Response {
	body = with(body, "url", address)
	if tags, says := body["tags"]; !says {
		body["tags"] = []string{t.Tag()}
	} else if tags == nil {
		delete(body, "tags") // of every run
	}
	return t.Do(harness.Request{Method: http.MethodPost, Path: "/webhooks", As: as, Timeout: 25 * time.Second,
		Body: body, Header: headerOf("Idempotency-Key", newIdempotencyKey())})
}

// taggedRun is a createRun body with the test's tag.
func taggedRun(t *harness.T, body object) object { return with(body, "tags", []string{t.Tag()}) }

func noopRun(t *harness.T) object { return taggedRun(t, object{"workflowId": noop}) }

// hookBody is a registration for types of events, under a secret.
func hookBody(secret string, types ...string) object {
	body := object{"events": types}
	if secret != "" {
		body["secret"] = secret
	}
	return body
}

// standardBody is a registration that opts into the companion scheme.
func standardBody(secret string, types ...string) object {
	return with(hookBody(secret, types...), "signatureAlgorithms", []string{"v1", standardWebhooks})
}

// subscribe registers an endpoint. The test ends when the host does not
// accept it, since the rest stands on it. The caller drops the subscription.
func subscribe(t *harness.T, at *receiver.Endpoint, body object) *hook {
	return subscribeAs(t, harness.Primary, at, body)
}

func subscribeAs(t *harness.T, as harness.Identity, at *receiver.Endpoint, body object) *hook {
	r := registerHook(t, as, at.URL(), body)
	secret, _ := body["secret"].(string)
	h := &hook{t: t, as: as, id: r.Text("webhookId"), secret: secret, at: at, response: r}
	if !r.Is(http.StatusCreated).OK || h.id == "" {
		t.Abort("no subscription to observe: registerWebhook of the suite's receiver was answered %s", answered(r))
	}
	return h
}

// drop takes the subscription back. A test is done with it, so what comes back
// is nobody's concern.
func (h *hook) drop() { h.unregister() }

func (h *hook) unregister() *harness.Response {
	return h.t.Do(harness.Request{Method: http.MethodDelete, Path: h.path(""), As: h.as})
}

func (h *hook) path(rest string) string { return "/webhooks/" + projectID(h.id) + rest }

// delivery is an attempt with what its body holds.
type delivery struct {
	receiver.Attempt
	body  object // nil for a body that is no JSON object
	event object
	runID string
	typ   string
	key   string // of the delivery: the run and the sequence
}

func readDelivery(a receiver.Attempt) delivery {
	d := delivery{Attempt: a}
	v, _ := jcs.Decode(a.Body)
	d.body, _ = v.(object)
	d.event, _ = d.body["event"].(object)
	d.runID, _ = d.event["runId"].(string)
	if d.runID == "" {
		d.runID, _ = d.body["runId"].(string)
	}
	d.typ, _ = d.event["type"].(string)
	d.key = fmt.Sprintf("%s#%v", d.runID, d.event["sequence"])
	return d
}

func (d delivery) label() string {
	return fmt.Sprintf("delivery of %s (attempt %d)", show(d.typ), d.Number)
}

// deliveriesOf are the attempts that carry events of a run.
func deliveriesOf(all []receiver.Attempt, runID string) []delivery {
	var out []delivery
	for _, a := range all {
		if d := readDelivery(a); d.runID == runID {
			out = append(out, d)
		}
	}
	return out
}

// ofRun are the deliveries so far of a run's events.
func (h *hook) ofRun(runID string) []delivery { return deliveriesOf(h.at.Attempts(), runID) }

// await waits until every type has been delivered for a run, and reports
// whether it was.
func (h *hook) await(runID string, types ...string) ([]delivery, bool) {
	return h.awaitThat(runID, func(all []delivery) bool {
		return !slices.ContainsFunc(types, func(typ string) bool {
			return !slices.ContainsFunc(all, func(d delivery) bool { return d.typ == typ })
		})
	})
}

// awaitThat waits until the deliveries of a run meet a condition.
func (h *hook) awaitThat(runID string, done func([]delivery) bool) ([]delivery, bool) {
	ctx, cancel := patience(h.t)
	defer cancel()
	all, ok := h.at.WaitUntil(ctx, func(all []receiver.Attempt) bool { return done(deliveriesOf(all, runID)) })
	return deliveriesOf(all, runID), ok
}

// need is await for tests that only go on from there.
func (h *hook) need(runID string, types ...string) []delivery {
	out, ok := h.await(runID, types...)
	if !ok {
		h.t.Abort("no delivery to observe: of %s for the run, %d attempts came in time", strings.Join(types, ", "), len(out))
	}
	return out
}

// attemptsByKey groups deliveries by the event they are of.
func attemptsByKey(all []delivery) map[string][]delivery {
	out := map[string][]delivery{}
	for _, d := range all {
		out[d.key] = append(out[d.key], d)
	}
	return out
}

// typesOf are the types delivered, each once, in the order of arrival.
func typesOf(all []delivery) []string {
	var out []string
	for _, d := range all {
		if !slices.Contains(out, d.typ) {
			out = append(out, d.typ)
		}
	}
	return out
}

// failFirst answers the first attempts of every event with a status and what
// comes after them with success.
func failFirst(attempts, status int) receiver.Script {
	var c counter
	return func(a receiver.Attempt) receiver.Answer {
		if c.next(readDelivery(a).key) <= attempts {
			return receiver.Answer{Status: status}
		}
		return receiver.Answer{Status: http.StatusNoContent}
	}
}

// echo answers a verification request with its challenge, as an endpoint that
// wants the deliveries, and everything else as a script says.
func echo(rest receiver.Script) receiver.Script {
	if rest == nil {
		rest = receiver.Always(http.StatusNoContent)
	}
	return func(a receiver.Attempt) receiver.Answer {
		if challenge, ok := challengeOf(a); ok {
			return receiver.JSON([]byte(`{"challenge":"` + challenge + `"}`))
		}
		return rest(a)
	}
}

// challengeOf is the challenge of a verification request.
func challengeOf(a receiver.Attempt) (string, bool) {
	v, _ := jcs.Decode(a.Body)
	challenge, _ := harness.Get(v, "challenge").(string)
	typ, _ := harness.Get(v, "type").(string)
	plain := !strings.ContainsAny(challenge, "\"\\\x00\n\r")
	return challenge, typ == "openwop.webhook.verification" && challenge != "" && plain
}

// retryPolicy is the advertised policy; attempts is 0 where none is.
func retryPolicy(t *harness.T) (attempts int64, backoff string, bounded bool) {
	d := t.Host().Discovery
	v, _ := d.Facet("webhooks", "retryPolicy", "maxAttempts")
	attempts, _ = integer(v)
	w, _ := d.Facet("webhooks", "retryPolicy", "backoff")
	backoff, _ = w.(string)
	_, bounded = d.Facet("webhooks", "retryPolicy", "maxElapsedMs")
	return attempts, backoff, bounded
}

// retries gates on a policy that makes a second attempt.
func retries() harness.Gate {
	return harness.HostFact("webhooks.retryPolicy.maxAttempts is 1: the policy makes no second attempt", func(d *harness.Discovery) bool {
		v, has := d.Facet("webhooks", "retryPolicy", "maxAttempts")
		n, ok := integer(v)
		return !has || !ok || n != 1
	})
}
