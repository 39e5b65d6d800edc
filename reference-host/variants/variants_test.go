package variants

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

func TestVariantsAreWellFormed(t *testing.T) {
	t.Parallel()
	kebab := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)+$`)
	seen := map[string]bool{}
	for _, v := range All() {
		assert.Regexp(t, kebab, v.ID)
		assert.False(t, seen[v.ID], "%s is there twice", v.ID)
		seen[v.ID] = true
		assert.Regexp(t, `\.$`, v.Summary, v.ID)
		assert.NotEmpty(t, v.Document, v.ID)
		assert.NotEmpty(t, v.Section, v.ID)
		assert.True(t, v.Wrap != nil || v.Decorate != nil, "%s changes nothing", v.ID)
		for _, id := range v.Relaxes {
			_, known := requirements.Get(id)
			assert.True(t, known, "%s names %s, which is no requirement", v.ID, id)
		}
	}
}

func TestGetAndByRequirement(t *testing.T) {
	t.Parallel()
	v, ok := Get("no-snapshot-etag")
	assert.True(t, ok)
	assert.Equal(t, []requirements.ID{requirements.R0170RunSnapshotEtag}, v.Relaxes)
	_, ok = Get("no-such-variant")
	assert.False(t, ok)
	assert.Contains(t, ByRequirement()[requirements.R0170RunSnapshotEtag], "no-snapshot-etag")
}

func TestRespacedIsTheSameJSON(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		`{"a":1,"b":[true,null,-0.5e3,12345678901234567890],"c/d":{"é":"🦀\n\"x\"/"},"":{}}`,
		`[]`, `{}`, `[[],[{}]]`,
	} {
		out := respaced([]byte(in))
		assert.JSONEq(t, in, out)
		assert.NotEqual(t, in, out)
	}
	assert.Equal(t, "\"\\uD83E\\uDD80\\/\"", respaced([]byte(`"🦀/"`)))
}

func TestMintedIDsFollowTheGrammar(t *testing.T) {
	t.Parallel()
	grammar := regexp.MustCompile(`^[A-Za-z0-9._-]{16,128}$`)
	tenant := regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)
	for _, v := range All() {
		if v.Decorate == nil {
			continue
		}
		config, err := referencehost.DefaultConfig()
		require.NoError(t, err)
		v.Decorate(&config)
		first, second := config.IDs.Opaque(), config.IDs.Opaque()
		assert.Regexp(t, grammar, first, v.ID)
		assert.NotEqual(t, first, second, v.ID)
		names := map[string]bool{}
		for _, k := range config.Keys {
			assert.Regexp(t, tenant, k.Tenant, v.ID)
			names[k.Tenant] = true
		}
		assert.Len(t, names, 2, "%s keeps the tenants apart", v.ID)
	}
}

func TestVendorEventsAreWritten(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"vendor-event-after-start":    "run.started example.run-noted node.started node.completed run.completed",
		"vendor-event-after-terminal": "run.started node.started node.completed run.completed example.run-noted",
	} {
		v, ok := Get(id)
		require.True(t, ok)
		config, err := referencehost.DefaultConfig()
		require.NoError(t, err)
		v.Decorate(&config)
		server, err := referencehost.Listen(t.Context(), "", config)
		require.NoError(t, err)
		t.Cleanup(func() { server.Close() })
		do := func(method, path, body string) map[string]any {
			req, err := http.NewRequestWithContext(t.Context(), method, server.URL()+path, strings.NewReader(body))
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+config.Keys[0].Key)
			req.Header.Set("Content-Type", "application/json")
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer res.Body.Close()
			var doc map[string]any
			require.NoError(t, json.NewDecoder(res.Body).Decode(&doc))
			return doc
		}
		run := "/runs/" + strings.Replace(do("POST", "/runs", `{"workflowId":"conformance-noop"}`)["runId"].(string), "/", "~2F", 1)
		var types []string
		require.Eventually(t, func() bool {
			types = nil
			for _, e := range do("GET", run+"/events/poll?timeout=1", "")["events"].([]any) {
				types = append(types, e.(map[string]any)["type"].(string))
			}
			return strings.Join(types, " ") == want
		}, 10*time.Second, 10*time.Millisecond, "%s: %v", id, types)
	}
}

func TestTagsAreTakenBack(t *testing.T) {
	t.Parallel()
	var asked string
	h := tagged(tamper.Any, func(tag string) string { return `"shown-` + strings.Trim(tag, `"`) + `"` })(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = r.Header.Get("If-None-Match")
			w.Header().Set("ETag", `"host"`)
		}))
	get := func(match string) string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("If-None-Match", match)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Header().Get("ETag")
	}
	assert.Equal(t, `"shown-host"`, get(`"x"`))
	get(`"x", W/"shown-host"`)
	assert.Equal(t, `"x", W/"host"`, asked)
}

func TestMountedServesBelowItsBase(t *testing.T) {
	t.Parallel()
	h := mounted("/api")(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if tamper.CreateRun(r) {
			w.WriteHeader(http.StatusCreated)
			w.Write([]byte(`{"runId":"t/r","eventsUrl":"/runs/t~2Fr/events"}`))
			return
		}
		w.Write(tamper.Encode(r.URL.EscapedPath()))
	}))
	for target, want := range map[string]string{"/api/runs/a%2Fb": `"/runs/a%2Fb"`, "/runs/a": "another site\n", "/apixruns": "another site\n"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))
		assert.Equal(t, want, w.Body.String(), target)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/runs", nil))
	assert.JSONEq(t, `{"runId":"t/r","eventsUrl":"/api/runs/t~2Fr/events"}`, w.Body.String())
}
