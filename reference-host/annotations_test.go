package referencehost_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

func TestAnnotations(t *testing.T) {
	t.Parallel()
	h := start(t)
	runID, path := h.create(noop)
	h.finish(path)
	before := h.call("GET", path, "")
	log := h.events(path)

	assert.Empty(t, h.call("GET", path+"/annotations", "").json(t)["annotations"])
	assert.Equal(t, `{"annotations":[]}`, string(h.call("GET", path+"/annotations", "").body))
	bodies := []string{
		`{"signal":{"kind":"flag"}}`,
		`{"signal":{"kind":"rating","rating":5},"note":"<b>two\nlines</b>"}`,
		`{"signal":{"kind":"label","label":"x"},"target":{}}`,
		`{"signal":{"kind":"correction","correction":""},"target":{"nodeId":"noop"},"note":""}`,
	}
	var ids []any
	for _, body := range bodies {
		r := h.call("POST", path+"/annotations", body)
		require.Equal(t, http.StatusCreated, r.StatusCode, string(r.body))
		annotation := r.json(t)
		ids = append(ids, annotation["annotationId"])
		assert.Equal(t, runID, annotation["target"].(map[string]any)["runId"])
		assert.Equal(t, "operator-a", annotation["actor"].(map[string]any)["principalRef"])
	}
	var listed []any
	for _, annotation := range h.call("GET", path+"/annotations", "", h.as(referencehost.KeyReadOnly)...).json(t)["annotations"].([]any) {
		listed = append(listed, annotation.(map[string]any)["annotationId"])
	}
	assert.Equal(t, ids, listed, "oldest first")

	after := h.call("GET", path, "")
	assert.Equal(t, before.body, after.body)
	assert.Equal(t, before.Header.Get("ETag"), after.Header.Get("ETag"))
	assert.Equal(t, log, h.events(path), "nothing enters the log")
	for _, mode := range []string{"updates", "values", "messages", "debug"} {
		for _, f := range collect(t, h.stream(path+"/events?streamMode="+mode)) {
			assert.NotContains(t, f.event+f.data, "annotat")
		}
	}
}

func TestAnnotationRefusals(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(noop)
	h.finish(path)
	event := h.events(path)[0]["eventId"].(string)
	for _, c := range []struct{ body, code, field string }{
		{`{}`, "validation_error", ""},
		{``, "validation_error", ""},
		{`{"signal":{}}`, "validation_error", "signal"},
		{`{"signal":{"kind":"praise"}}`, "validation_error", "signal"},
		{`{"signal":{"kind":"rating"}}`, "validation_error", "signal"},
		{`{"signal":{"kind":"rating","rating":0}}`, "validation_error", "signal"},
		{`{"signal":{"kind":"rating","rating":6}}`, "validation_error", "signal"},
		{`{"signal":{"kind":"rating","rating":1.5}}`, "validation_error", "signal"},
		{`{"signal":{"kind":"label"}}`, "validation_error", "signal"},
		{`{"signal":{"kind":"correction"}}`, "validation_error", "signal"},
		{`{"signal":{"kind":"flag","extra":1}}`, "validation_error", "signal"},
		{`{"signal":{"kind":"flag"},"extra":1}`, "validation_error", ""},
		{`{"signal":{"kind":"flag"},"note":1}`, "validation_error", "note"},
		{`{"signal":{"kind":"flag"},"target":{"runId":"tenant-a/0000000000000000"}}`, "validation_error", "target"},
		{`{"signal":{"kind":"flag"},"target":{"eventId":"` + event + `"}}`, "validation_error", "target.eventId"},
		{`{"signal":{"kind":"flag"},"target":{"nodeId":"nope"}}`, "validation_error", "target.nodeId"},
		{`{"signal":{"kind":"flag"},"target":{"nodeId":"noop","eventId":"` + event + `"}}`, "validation_error", "target.eventId"},
	} {
		r := h.call("POST", path+"/annotations", c.body)
		assert.Equal(t, c.code, r.code(t), c.body)
		if c.field != "" {
			assert.Equal(t, c.field, r.details(t)["field"], c.body)
		}
	}
	assert.Empty(t, h.call("GET", path+"/annotations", "").json(t)["annotations"])
	const flag = `{"signal":{"kind":"flag"}}`
	assert.Equal(t, "forbidden", h.call("POST", path+"/annotations", flag, h.as(referencehost.KeyReadOnly)...).code(t))
	assert.Equal(t, "id_tenant_mismatch", h.call("POST", path+"/annotations", flag, h.as(referencehost.KeyTenantB)...).code(t))
	assert.Equal(t, "id_tenant_mismatch", h.call("GET", path+"/annotations", "", h.as(referencehost.KeyTenantB)...).code(t))
	assert.Equal(t, "not_found", h.call("POST", "/runs/tenant-a~2F0000000000000000/annotations", flag).code(t))
	assert.Equal(t, "unauthenticated", h.call("POST", path+"/annotations", flag, "Authorization", "").code(t))
}

func TestAnnotationsAreIdempotent(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(noop)
	_, other := h.create(noop)
	key := []string{"Idempotency-Key", strings.Repeat("k", 22)}
	first := h.call("POST", path+"/annotations", `{"signal":{"kind":"flag"}}`, key...)
	second := h.call("POST", path+"/annotations", `{"signal":{"kind":"flag"}}`, key...)
	assert.Equal(t, first.body, second.body)
	assert.Equal(t, "true", second.Header.Get("OpenWOP-Idempotent-Replay"))
	assert.Len(t, h.call("GET", path+"/annotations", "").json(t)["annotations"], 1)
	assert.Equal(t, "idempotency_key_mismatch", h.call("POST", other+"/annotations", `{"signal":{"kind":"flag"}}`, key...).code(t))
	assert.Equal(t, "idempotency_key_mismatch", h.call("POST", path+"/annotations", `{"signal":{"kind":"label","label":"l"}}`, key...).code(t))
}

func TestFeedbackFacets(t *testing.T) {
	t.Parallel()
	off := start(t, without("feedback"))
	_, path := off.create(noop)
	for _, method := range []string{"GET", "POST"} {
		assert.Equal(t, "not_found", off.call(method, path+"/annotations", "").code(t))
	}

	h := start(t, facets("feedback", map[string]any{"targets": []any{"event"}, "signals": []any{"flag"}}))
	_, path = h.create(noop)
	h.finish(path)
	event := h.events(path)[0]["eventId"].(string)
	post := func(body string) *reply { return h.call("POST", path+"/annotations", body) }
	assert.Equal(t, http.StatusCreated, post(`{"signal":{"kind":"flag"},"target":{"eventId":"`+event+`"}}`).StatusCode)
	assert.Equal(t, "target.eventId", post(`{"signal":{"kind":"flag"},"target":{"eventId":"0000000000000000"}}`).details(t)["field"])
	assert.Equal(t, "target.nodeId", post(`{"signal":{"kind":"flag"},"target":{"nodeId":"noop"}}`).details(t)["field"])
	assert.Equal(t, "target", post(`{"signal":{"kind":"flag"}}`).details(t)["field"])
	assert.Equal(t, "signal.kind", post(`{"signal":{"kind":"rating","rating":1},"target":{"eventId":"` + event + `"}}`).details(t)["field"])
}
