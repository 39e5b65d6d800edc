package referencehost_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/fixtures"
	referencehost "wopcert/reference-host"
)

func effectRun(p *provider, key string) string {
	inputs := map[string]any{"url": p.url}
	if key != "" {
		inputs["key"] = key
	}
	body, _ := json.Marshal(map[string]any{"workflowId": "wopcert-http-effect", "inputs": inputs})
	return string(body)
}

func TestAnEffectIsOnRecord(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	h := start(t, p.trust)
	id, path := h.create(effectRun(p, ""))
	snapshot := h.finish(path)
	assert.Equal(t, "completed", snapshot["status"])
	assert.Equal(t, "none", snapshot["compensationStatus"])
	rows := h.effects(path)
	require.Len(t, rows, 1)
	row := rows[0]
	assert.Equal(t, "effect", row["nodeId"])
	assert.Equal(t, "completed", row["state"])
	assert.Equal(t, "activity-recipe", row["keying"])
	assert.Equal(t, 1.0, row["attempt"])
	assert.Equal(t, p.requests()[0].key, row["providerKey"])
	assert.True(t, strings.HasPrefix(row["effectId"].(string), "tenant-a/"))
	assert.NotContains(t, row["effectId"], strings.TrimPrefix(id, "tenant-a/"))
	assert.Equal(t, "not_found", h.call("GET", "/runs/tenant-a~2F0000000000000000000000/effects", "").code(t))
	assert.Equal(t, "id_tenant_mismatch", h.call("GET", path+"/effects", "", h.as(referencehost.KeyTenantB)...).code(t))
}

func TestDistinctInvocationsAreDistinctEffects(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	h := start(t, p.trust)
	body := `{"workflowId":"wopcert-http-effects","inputs":{"url":"` + p.url + `"}}`
	_, first := h.create(body)
	_, second := h.create(body)
	h.finish(first)
	h.finish(second)
	ids := append(column(h.effects(first), "effectId"), column(h.effects(second), "effectId")...)
	require.Len(t, ids, 6)
	seen := make(map[any]bool)
	for _, id := range ids {
		assert.False(t, seen[id], "%v", id)
		seen[id] = true
	}
	keys := p.keys()
	slices.Sort(keys)
	assert.Len(t, slices.Compact(keys), 6)
}

func TestABusinessKeyIsOneEffectOfTheTenant(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	h := start(t, p.trust)
	var ids []any
	for range 3 {
		_, path := h.create(effectRun(p, "order-17"))
		assert.Equal(t, "completed", h.finish(path)["status"])
		rows := h.effects(path)
		require.Len(t, rows, 1)
		assert.Equal(t, "business-identity", rows[0]["keying"])
		assert.Equal(t, 1.0, rows[0]["attempt"])
		ids = append(ids, rows[0]["effectId"])
		assert.Equal(t, object{"n": 1.0}, outputs(h, path)["body"], "whoever comes later gets the same outcome")
	}
	assert.Equal(t, ids[0], ids[1])
	assert.Equal(t, ids[0], ids[2])
	assert.Len(t, p.requests(), 1)

	_, path := h.create(effectRun(p, "order-18"))
	h.finish(path)
	assert.Len(t, p.requests(), 2)
	other := h.as(referencehost.KeyTenantB)
	r := h.call("POST", "/runs", effectRun(p, "order-17"), other...)
	require.Equal(t, http.StatusCreated, r.StatusCode)
	p.await(3)
	assert.NotEqual(t, p.keys()[0], p.keys()[2], "another tenant's order is another order")
}

func outputs(h *testHost, path string) object {
	events := h.events(path)
	payload := events[len(events)-1]["payload"].(object)
	values, _ := payload["outputs"].(object)
	return values
}

func TestConcurrentDuplicatesAreSentOnce(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	h := start(t, p.trust)
	var paths []string
	for range 20 {
		_, path := h.create(effectRun(p, "the-one"))
		paths = append(paths, path)
	}
	for _, path := range paths {
		assert.Equal(t, "completed", h.finish(path)["status"])
	}
	assert.Len(t, p.requests(), 1)
}

func TestABusinessKeyOfAnotherRequest(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	h := start(t, p.trust)
	_, path := h.create(effectRun(p, "order-17"))
	h.finish(path)
	_, path = h.create(strings.Replace(effectRun(p, "order-17"), p.url, p.url+"/elsewhere", 1))
	assert.Equal(t, "idempotency_key_mismatch", h.finish(path)["error"].(object)["code"])
	assert.Len(t, p.requests(), 1)
}

// Transport retries, node retries and redeliveries keep the key of the first attempt.
func TestRetriesKeepTheIdentity(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]int{"it refuses": 503, "it is busy": 429, "the connection breaks": drop} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t)
			p.script(func(n int, _ received) (int, string) {
				if n < 3 {
					return first, ""
				}
				return 200, `{}`
			})
			h := start(t, p.trust)
			_, path := h.create(effectRun(p, ""))
			assert.Equal(t, "completed", h.finish(path)["status"])
			keys := p.keys()
			require.Len(t, keys, 3)
			assert.Equal(t, []string{keys[0]}, slices.Compact(keys))
			rows := h.effects(path)
			state := "released"
			if first == drop {
				state = "escaped"
			}
			assert.Equal(t, []any{state, state, "completed"}, column(rows, "state"))
			assert.Equal(t, []any{1.0, 2.0, 3.0}, column(rows, "attempt"))
			assert.Len(t, slices.Compact(column(rows, "effectId")), 1)
		})
	}
}

func TestANodeThatIsRetriedKeepsTheIdentity(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.script(func(n int, _ received) (int, string) {
		if n <= 4 { // all the transport's attempts of the first attempt of the node
			return 503, ""
		}
		return 200, `{}`
	})
	h := start(t, p.trust, func(c *referencehost.Config) {
		c.Unlisted = append(c.Unlisted, workflow("retried", `{"id":"effect","typeId":"conformance.http.request","name":"N","position":{"x":0,"y":0},"config":{"url":"`+p.url+`"},
			"inputs":{},"settings":{"retry":{"maxAttempts":2,"backoffMs":1}}}`))
	})
	_, path := h.create(`{"workflowId":"retried"}`)
	assert.Equal(t, "completed", h.finish(path)["status"])
	keys := p.keys()
	require.Len(t, keys, 5)
	assert.Len(t, slices.Compact(keys), 1)
}

func workflow(id string, nodes string, more ...string) fixtures.Workflow {
	edges, settings := `[]`, `{}`
	if len(more) > 0 {
		edges = more[0]
	}
	if len(more) > 1 {
		settings = more[1]
	}
	return fixtures.Workflow{ID: id, Document: []byte(`{"id":"` + id + `","name":"W","version":"1","nodes":[` + nodes + `],"edges":` + edges +
		`,"triggers":[],"variables":[],"metadata":{},"settings":` + settings + `}`)}
}

// A refusal of the provider is an outcome: nothing is sent again for it, and nothing it says is on record.
func TestAnEffectThatIsRefused(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.script(func(int, received) (int, string) { return 402, `{"secret":"of the provider"}` })
	h := start(t, p.trust)
	_, path := h.create(effectRun(p, "order-17"))
	failure := h.finish(path)["error"].(object)
	assert.Equal(t, "node_failed", failure["code"])
	assert.Equal(t, object{"httpStatus": 402.0}, failure["details"])
	assert.Equal(t, []any{"released"}, column(h.effects(path), "state"))
	assert.Len(t, p.requests(), 1)
	assert.NotContains(t, string(h.call("GET", path+"/events/poll?timeout=0", "").body), "of the provider")

	h = start(t) // without trust the destination is one the egress policy refuses
	_, path = h.create(effectRun(p, ""))
	assert.Equal(t, "node_failed", h.finish(path)["error"].(object)["code"])
	assert.Equal(t, []any{"released"}, column(h.effects(path), "state"))
	assert.Len(t, p.requests(), 1)
}

// A pause that cuts an attempt does not cut the request: the attempt that follows gets its outcome.
func TestAnEffectOutlivesItsAttempt(t *testing.T) {
	t.Parallel()
	p, gate := newProvider(t), make(chan struct{})
	h := start(t, p.trust, func(c *referencehost.Config) {
		c.WrapSender = append(c.WrapSender, func(next referencehost.Sender) referencehost.Sender { return gated{next, gate} })
	})
	_, path := h.create(effectRun(p, ""))
	p.await(1)
	require.Equal(t, http.StatusAccepted, h.call("POST", path+":pause", `{"drainPolicy":"immediate"}`).StatusCode)
	require.Equal(t, http.StatusAccepted, h.call("POST", path+":resume", "").StatusCode)
	close(gate)
	assert.Equal(t, "completed", h.finish(path)["status"])
	assert.Len(t, p.requests(), 1)
	assert.Equal(t, []any{"completed"}, column(h.effects(path), "state"))
}

// gated holds answers back.
type gated struct {
	referencehost.Sender
	gate chan struct{}
}

func (g gated) Send(ctx context.Context, effect referencehost.Effect) (*referencehost.Outcome, error) {
	outcome, err := g.Sender.Send(ctx, effect)
	<-g.gate
	return outcome, err
}

func TestEffectSeamManifest(t *testing.T) {
	t.Parallel()
	h := start(t)
	manifest := h.call("GET", "/host/effect-seams", "").json(t)
	assert.Equal(t, "wopcert-reference-host", manifest["host"].(object)["name"])
	var seams []string
	for _, row := range manifest["seams"].([]any) {
		seams = append(seams, row.(object)["seam"].(string))
		assert.Equal(t, true, row.(object)["guarded"])
	}
	assert.Equal(t, []string{"http.request", "artifact.put", "webhook.delivery", "interrupt.callback"}, seams)
	assert.Equal(t, "unauthenticated", h.call("GET", "/host/effect-seams", "", "Authorization", "").code(t))
	h = start(t, withFamilies(map[string]map[string]any{"webhooks": nil}))
	assert.Len(t, h.call("GET", "/host/effect-seams", "").json(t)["seams"], 3)
	h = start(t, withFamilies(map[string]map[string]any{"replay": nil, "idempotency": nil, "compensation": nil}))
	_, path := h.create(noop)
	for _, gated := range []string{"/host/effect-seams", path + "/effects", path + "/compensation"} {
		assert.Equal(t, "not_found", h.call("GET", gated, "").code(t), gated)
	}
	assert.NotContains(t, h.finish(path), "compensationStatus")
}

func TestEffectSeams(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	h := start(t, p.trust, func(c *referencehost.Config) { c.Seams = true })
	const fire, retry = "/conformance/seams/sample/effect-seams/fire", "/conformance/seams/sample/test/idempotency/effect-retry"
	for seam, sent := range map[string]int{"http.request": 1, "artifact.put": 1} {
		r := h.call("POST", fire, fmt.Sprintf(`{"seam":%q,"receiverUrl":%q}`, seam, p.url))
		require.Equal(t, http.StatusCreated, r.StatusCode, string(r.body))
		path := runPath(r.json(t)["runId"].(string))
		assert.Equal(t, "completed", h.finish(path)["status"])
		assert.Equal(t, []any{"completed"}, column(h.effects(path), "state"))
		replay := h.fork(path, `{"mode":"replay"}`)
		assert.Equal(t, "completed", h.finish(replay)["status"])
		assert.Empty(t, h.effects(replay))
		branch := h.fork(path, `{"mode":"branch","fromSeq":1}`)
		h.finish(branch)
		assert.Len(t, h.effects(branch), sent)
	}
	assert.Len(t, p.requests(), 2, "the run and its branch")
	r := h.call("POST", fire, `{"seam":"http.request"}`)
	path := runPath(r.json(t)["runId"].(string))
	assert.Equal(t, "failed", h.finish(path)["status"])
	assert.NotEmpty(t, h.effects(path))
	assert.Equal(t, "not_found", h.call("POST", fire, `{"seam":"smtp.send"}`).code(t))
	assert.Equal(t, "validation_error", h.call("POST", fire, `{"seam":""}`).code(t))

	r = h.call("POST", retry, fmt.Sprintf(`{"providerUrl":%q}`, p.url))
	require.Equal(t, http.StatusCreated, r.StatusCode, string(r.body))
	keys := p.keys()[2:]
	require.Len(t, keys, 2)
	assert.Equal(t, keys[0], keys[1])
	rows := h.effects(runPath(r.json(t)["runId"].(string)))
	assert.Equal(t, []any{"escaped", "completed"}, column(rows, "state"))
	assert.Equal(t, []any{"business-identity", "business-identity"}, column(rows, "keying"))
	assert.Equal(t, r.json(t)["effectId"], rows[0]["effectId"])
	assert.Equal(t, "validation_error", h.call("POST", retry, `{}`).code(t))
	assert.Equal(t, http.StatusNotFound, start(t).call("POST", retry, `{}`).StatusCode)
}
