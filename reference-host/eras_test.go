package referencehost_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

func withSeams(c *referencehost.Config) { c.Seams = true }

const seedPath = "/conformance/seams/sample/event-log/seed"

// seed stores a v1 log; rows are type and payload in turn.
func (h *testHost) seed(status string, rows ...string) (path string) {
	h.t.Helper()
	var events []string
	for i := 0; i < len(rows); i += 2 {
		events = append(events, fmt.Sprintf(`{"type":%q,"sequence":%d,"payload":%s,"timestamp":"2024-05-06T07:08:%02d+02:00"}`, rows[i], i/2, rows[i+1], i))
	}
	r := h.call("POST", seedPath, `{"eventLogSchemaVersion":2,"status":"`+status+`","events":[`+strings.Join(events, ",")+`]}`)
	require.Equal(h.t, http.StatusCreated, r.StatusCode, string(r.body))
	return "/runs/" + strings.ReplaceAll(r.json(h.t)["runId"].(string), "/", "~2F")
}

const started = `{"workflowId":"conformance-noop"}`

func TestSeedIsReadTranslated(t *testing.T) {
	onEveryStore(t, func(t *testing.T, onStore func(*referencehost.Config)) {
		h := start(t, withSeams, withReplay, onStore)
		path := h.seed("completed",
			"run.started", started,
			"run.resuming", `{"fromStatus":"paused","x-note":{"b":1,"a":"<é>"}}`,
			"runOrchestrator.decided", `{"agentId":"a","decision":{"kind":"terminate","reason":"done"},"iteration":1}`,
			"example.thing-happened", `{"any":"thing"}`,
			"run.completed", `{"outputs":{}}`,
		)
		want := []string{"run.started", "run.resume-started", "orchestrator.decided", "example.thing-happened", "run.completed"}
		polled := h.events(path)
		assert.Equal(t, want, types(polled))
		for i, event := range polled {
			assert.Equal(t, float64(i), event["sequence"])
			assert.Equal(t, fmt.Sprintf("2024-05-06T07:08:%02d+02:00", 2*i), event["timestamp"])
		}
		assert.Equal(t, map[string]any{"fromStatus": "paused", "x-note": map[string]any{"b": 1.0, "a": "<é>"}}, polled[1]["payload"])
		assert.Equal(t, polled, h.events(path), "ids are not made up at each read")
		owner := polled[0]["payload"].(map[string]any)["owner"].(map[string]any)
		assert.Equal(t, map[string]any{
			"issuer": "urn:openwop:legacy", "subjectId": "legacy", "tenant": "tenant-a", "lane": "api-key", "kind": "user",
		}, owner["subject"])

		var streamed []string
		for _, f := range collect(t, h.stream(path+"/events?streamMode=debug")) {
			if f.event != "" {
				streamed = append(streamed, f.event)
			}
		}
		assert.Equal(t, want, streamed)

		snapshot := h.call("GET", path, "").json(t)
		assert.Equal(t, 2.0, snapshot["eventLogSchemaVersion"])
		assert.Equal(t, "completed", snapshot["status"])
		assert.Equal(t, owner, snapshot["owner"])

		r := h.call("POST", path+":fork", `{"mode":"branch","fromSeq":3}`)
		require.Equal(t, http.StatusCreated, r.StatusCode, string(r.body))
		fork := "/runs/" + strings.ReplaceAll(r.json(t)["runId"].(string), "/", "~2F")
		snapshot = h.finish(fork)
		assert.Equal(t, 3.0, snapshot["eventLogSchemaVersion"])
		assert.Equal(t, owner, snapshot["owner"])
		inherited := h.events(fork)
		for i := range 3 {
			for _, member := range []string{"type", "payload", "sequence", "timestamp"} {
				assert.Equal(t, polled[i][member], inherited[i][member], member)
			}
		}
		diff := h.call("GET", path+":diff?against="+url.QueryEscape(strings.TrimPrefix(fork, "/runs/")), "")
		require.Equal(t, http.StatusOK, diff.StatusCode, string(diff.body))
		assert.NotContains(t, string(diff.body), "runOrchestrator")
	})
}

func TestWhatCannotBeTranslatedCannotBeRead(t *testing.T) {
	t.Parallel()
	h := start(t, withSeams, withReplay)
	for name, test := range map[string]struct{ eventType, payload, code string }{
		"unknown":      {"nobody.knows", `{}`, "event_type_unmapped"},
		"org":          {"unregistered.thing", `{}`, "event_type_unmapped"},
		"reserved":     {"openwop.thing", `{}`, "event_type_unmapped"},
		"v2 name":      {"run.resume-started", `{}`, "event_type_unmapped"},
		"no segment":   {"example", `{}`, "event_type_unmapped"},
		"member":       {"run.resuming", `{"fromState":"x","alsoNew":1}`, "payload_unprojectable"},
		"wrong member": {"run.resuming", `{"fromStatus":5}`, "payload_unprojectable"},
		"lacks member": {"version.pinned", `{"changeId":"x"}`, "internal_error"},
	} {
		path := h.seed("completed", "run.started", started, test.eventType, test.payload)
		for _, read := range []*reply{
			h.call("GET", path, ""), h.call("GET", path+"/events/poll", ""), h.call("GET", path+"/events/poll?afterSequence=1", ""),
			h.call("GET", path+"/events", ""), h.call("GET", path+"/events", "", "Last-Event-ID", "5"),
			h.call("POST", path+":fork", `{"mode":"branch","fromSeq":1}`), h.call("GET", path+":diff?against="+strings.TrimPrefix(path, "/runs/"), ""),
			h.call("POST", path+"/cancel", ""),
		} {
			assert.Equal(t, http.StatusInternalServerError, read.StatusCode, name)
			assert.Equal(t, test.code, read.code(t), name)
		}
	}
	list := h.call("GET", "/runs?limit=100", "").json(t)
	assert.Len(t, list["runs"], 8, "one log does not take the list away")
	r := h.call("GET", h.seed("running", "run.started", started, "run.resuming", `{"b":5,"a":6}`), "")
	assert.Equal(t, []any{"a", "b"}, r.details(t)["keys"])
	assert.Equal(t, "run.resume-started", r.details(t)["type"])
}

func TestWhoOwnsASeededRun(t *testing.T) {
	t.Parallel()
	h := start(t, withSeams)
	subject := func(owner string) map[string]any {
		path := h.seed("completed", "run.started", `{"workflowId":"conformance-noop","owner":`+owner+`}`)
		return h.call("GET", path, "").json(t)["owner"].(map[string]any)["subject"].(map[string]any)
	}
	assert.Equal(t, "agent", subject(`{"tenant":"tenant-a","principal":"p1","principalKind":"agent"}`)["kind"])
	assert.Equal(t, "p1", subject(`{"tenant":"tenant-a","principal":"p1","principalKind":"agent"}`)["subjectId"])
	assert.Equal(t, "anonymous", subject(`{"tenant":"tenant-a","principalKind":"anonymous"}`)["lane"])
	own := `{"tenant":"tenant-a","subject":{"issuer":"i","subjectId":"s","tenant":"tenant-a","lane":"session","kind":"user"}}`
	assert.Equal(t, "session", subject(own)["lane"])
}

func TestSeedRefusals(t *testing.T) {
	t.Parallel()
	h := start(t, withSeams)
	row := func(eventType string, sequence int) string {
		return fmt.Sprintf(`{"type":%q,"sequence":%d,"payload":{}}`, eventType, sequence)
	}
	for name, body := range map[string]string{
		"nothing":       `{}`,
		"era":           `{"eventLogSchemaVersion":3,"status":"running","events":[` + row("run.started", 0) + `]}`,
		"no rows":       `{"eventLogSchemaVersion":2,"status":"running","events":[]}`,
		"gap":           `{"eventLogSchemaVersion":2,"status":"running","events":[` + row("run.started", 0) + `,` + row("node.started", 2) + `]}`,
		"twice":         `{"eventLogSchemaVersion":2,"status":"running","events":[` + row("run.started", 0) + `,` + row("node.started", 0) + `]}`,
		"late start":    `{"eventLogSchemaVersion":2,"status":"running","events":[` + row("run.started", 1) + `]}`,
		"other end":     `{"eventLogSchemaVersion":2,"status":"running","events":[` + row("run.started", 0) + `,` + row("run.completed", 1) + `]}`,
		"two ends":      `{"eventLogSchemaVersion":2,"status":"failed","events":[` + row("run.failed", 0) + `,` + row("run.failed", 1) + `]}`,
		"foreign owner": `{"eventLogSchemaVersion":2,"status":"running","events":[{"type":"run.started","sequence":0,"payload":{"owner":{"tenant":"tenant-b"}}}]}`,
	} {
		r := h.call("POST", seedPath, body)
		assert.Equal(t, http.StatusBadRequest, r.StatusCode, name)
		assert.Equal(t, "validation_error", r.code(t), name)
	}
	assert.Equal(t, http.StatusUnauthorized, h.call("POST", seedPath, `{}`, "Authorization", "").StatusCode)
	assert.Equal(t, http.StatusForbidden, h.call("POST", seedPath, `{}`, h.as(referencehost.KeyReadOnly)...).StatusCode)
}

func TestSeamsAreOffUnlessAskedFor(t *testing.T) {
	t.Parallel()
	h := start(t)
	assert.Equal(t, http.StatusNotFound, h.call("POST", seedPath, `{}`).StatusCode)
	assert.Nil(t, h.call("GET", "/.well-known/openwop", "").json(t)["conformance"])
	h = start(t, withSeams)
	assert.Equal(t, map[string]any{"seamsProfile": "openwop-conformance-seams-v2"}, h.call("GET", "/.well-known/openwop", "").json(t)["conformance"])
}

func TestSeededRunsGoOnInTheirOwnVocabulary(t *testing.T) {
	onEveryStore(t, func(t *testing.T, onStore func(*referencehost.Config)) {
		h := start(t, withSeams, onStore)
		path := h.seed("running", "run.started", `{"workflowId":"conformance-dispatch-loop"}`)
		assert.Equal(t, "completed", h.finish(path)["status"])
		assert.Contains(t, types(h.events(path)), "orchestrator.decided")

		path = h.seed("running", "run.started", `{"workflowId":"conformance-delay","inputs":{"delayMs":30000}}`,
			"version.pinned", `{"changeId":"`+referencehost.DefaultChange+`","version":1}`)
		assert.Equal(t, "running", h.call("GET", path, "").json(t)["status"])
		require.Equal(t, http.StatusOK, h.call("POST", path+"/cancel", "").StatusCode)
		names := types(h.events(path))
		assert.Equal(t, []string{"run.started", "version.pinned"}, names[:2])
		assert.Equal(t, "run.cancelled", names[len(names)-1])

		path = h.seed("running", "run.started", started, "version.pinned", `{"changeId":"gone","version":4}`)
		events := h.events(path)
		assert.Equal(t, []string{"run.started", "version.pinned", "run.cancelled"}, types(events))
		cancelled := events[2]["payload"].(map[string]any)
		assert.Equal(t, "v1_pin_unsupported", cancelled["reason"])
		assert.Equal(t, "v2-cutover", cancelled["cancelledBy"])
		assert.Equal(t, map[string]any{"changeId": "gone", "version": 4.0}, events[1]["payload"])

		path = h.seed("running", "run.started", `{"workflowId":"nobody-holds-it"}`)
		assert.Equal(t, "running", h.call("GET", path, "").json(t)["status"])
		require.Equal(t, http.StatusOK, h.call("POST", path+"/cancel", "").StatusCode)

		path = h.seed("failed", "run.started", started) // a log that does not end, of a run that has
		assert.Equal(t, "failed", h.call("GET", path, "").json(t)["status"])
		assert.Equal(t, "run_terminal", h.call("POST", path+"/cancel", "").code(t))
		assert.Equal(t, true, h.call("GET", path+"/events/poll", "").json(t)["isTerminal"])
	})
}
