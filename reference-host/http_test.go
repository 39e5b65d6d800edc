package referencehost_test

import (
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

const wellKnown = "/.well-known/openwop"

func TestDiscovery(t *testing.T) {
	t.Parallel()
	public, _, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	h := start(t, func(c *referencehost.Config) {
		c.SigningKeys = []referencehost.SigningKey{
			{KeyID: "now", PublicKey: public},
			{KeyID: "then", PublicKey: public, RetiredAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		}
	})
	r := h.call("GET", wellKnown, "", "Authorization", "")
	require.Equal(t, http.StatusOK, r.StatusCode)
	assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
	assert.Equal(t, h.host.Discovery(), r.body)
	assert.Equal(t, r.body, h.call("GET", wellKnown, "", "Authorization", "Bearer nonsense").body)
	document := r.json(t)
	assert.Equal(t, []any{"2.0"}, document["protocolVersions"])
	assert.Equal(t, "2.0", document["preferredVersion"])
	assert.Equal(t, 3.0, document["eventLogSchemaVersion"])
	keys := document["signingKeys"].([]any)
	assert.Equal(t, map[string]any{
		"keyId": "now", "alg": "ed25519", "use": "certification-bundle", "publicKey": base64.RawURLEncoding.EncodeToString(public),
	}, keys[0])
	assert.Equal(t, "2026-01-02T03:04:05Z", keys[1].(map[string]any)["retiredAt"])
	for _, absent := range []string{"capabilities", "profiles", "supportedTransports", "a2a", "mcp"} {
		assert.NotContains(t, document, absent)
	}
	for family, present := range map[string]bool{"eventLog": true, "limits": true, "runList": true, "auth": true} {
		record, ok := document[family].(map[string]any)
		assert.Equal(t, present, ok, family)
		row, _ := h.contract.Family(family)
		assert.Equal(t, row.Witness, record["witness"])
		assert.Equal(t, record["status"] == "stable", record["until"] == nil)
	}

	etag := r.Header.Get("ETag")
	assert.Regexp(t, `^"[0-9a-f]{32}"$`, etag)
	for _, match := range []string{etag, `W/` + etag, `"x", ` + etag, `*`} {
		r := h.call("GET", wellKnown, "", "If-None-Match", match)
		assert.Equal(t, http.StatusNotModified, r.StatusCode, match)
		assert.Empty(t, r.body)
		assert.Equal(t, etag, r.Header.Get("ETag"))
		assert.Equal(t, "2.0", r.Header.Get("OpenWOP-Version"))
	}
	for _, other := range []string{`"x"`, `x`, ``} {
		assert.Equal(t, http.StatusOK, h.call("GET", wellKnown, "", "If-None-Match", other).StatusCode, other)
	}
	head := h.call("HEAD", wellKnown, "")
	assert.Equal(t, http.StatusOK, head.StatusCode)
	assert.Equal(t, etag, head.Header.Get("ETag"))
	assert.Empty(t, head.body)
}

func TestVersionNegotiation(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(`{"workflowId":"conformance-noop"}`)
	for _, resource := range []string{wellKnown, path, "/runs"} {
		for _, served := range []string{"", "2", "2.0", " 2 "} {
			r := h.call("GET", resource, "", "OpenWOP-Version", served)
			assert.Equal(t, http.StatusOK, r.StatusCode, served)
			assert.Equal(t, "2.0", r.Header.Get("OpenWOP-Version"))
		}
		for _, other := range []string{"1", "1.11", "3", "2.1", "2.00", "02", "v2", "2,1", "*", "2.x"} {
			r := h.call("GET", resource, "", "OpenWOP-Version", other)
			assert.Equal(t, "protocol_version_unsupported", r.code(t), other)
			assert.Equal(t, []any{"2.0"}, r.details(t)["protocolVersions"])
			assert.Equal(t, "2.0", r.Header.Get("OpenWOP-Version"))
		}
	}
	assert.Equal(t, "protocol_version_mismatch", h.call("GET", "/v1/runs", "", "OpenWOP-Version", "2").code(t))
	assert.Equal(t, "protocol_version_unsupported", h.call("GET", "/v1/runs", "", "OpenWOP-Version", "1").code(t))
	assert.Equal(t, "not_found", h.call("GET", "/v1/runs", "").code(t))
	assert.Equal(t, "not_found", h.call("GET", "/v10/runs", "", "OpenWOP-Version", "2").code(t))
}

func TestClientVersion(t *testing.T) {
	t.Parallel()
	h := start(t)
	for client, status := range map[string]int{
		"1.9": 426, "0.0": 426, "2.0": 200, "2.44": 200, "3.0": 200, "18446744073709551615.0": 200,
		"": 200, "1": 200, "1.x": 200, "01.0": 200, "1.0.0": 200, "old": 200, "18446744073709551616.0": 200,
	} {
		assert.Equal(t, status, h.call("GET", "/runs", "", "OpenWOP-Client-Version", client).StatusCode, client)
	}
	r := h.call("GET", "/runs", "", "OpenWOP-Client-Version", "1.9", "Authorization", "")
	assert.Equal(t, "client_version_unsupported", r.code(t))
	assert.Equal(t, "2.0", r.details(t)["minClientVersion"])
	assert.Equal(t, "OpenWOP/2.0", r.Header.Get("Upgrade"))
	assert.Equal(t, http.StatusOK, h.call("GET", wellKnown, "", "OpenWOP-Client-Version", "1.0").StatusCode,
		"an old client can read what it would need")

	open := start(t, func(c *referencehost.Config) { c.MinClientVersion = "" })
	assert.Equal(t, http.StatusOK, open.call("GET", "/runs", "", "OpenWOP-Client-Version", "0.1").StatusCode)
	assert.NotContains(t, open.call("GET", wellKnown, "").json(t), "minClientVersion")
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(`{"workflowId":"conformance-noop"}`)
	protected := [][2]string{
		{"GET", "/runs"}, {"POST", "/runs"}, {"GET", path}, {"POST", path + "/cancel"},
		{"GET", path + "/events"}, {"GET", path + "/events/poll"}, {"GET", "/workflows/conformance-noop"},
	}
	key := h.keys[referencehost.KeyTenantA]
	for _, operation := range protected {
		for header, code := range map[string]string{
			"": "unauthenticated", "Basic " + key: "unauthenticated", "Bearer": "unauthenticated", "Bearer ": "unauthenticated", key: "unauthenticated",
			"Bearer " + key + "x": "identity_unverified", "Bearer " + key[:len(key)-1]: "identity_unverified",
			"Bearer " + strings.Repeat("x", 600): "identity_unverified",
		} {
			r := h.call(operation[0], operation[1], "", "Authorization", header)
			assert.Equal(t, http.StatusUnauthorized, r.StatusCode, "%v %s", operation, header)
			assert.Equal(t, code, r.code(t), header)
			assert.Equal(t, "Bearer", r.Header.Get("WWW-Authenticate"))
			assert.Equal(t, "2.0", r.Header.Get("OpenWOP-Version"))
			assert.NotContains(t, string(r.body), key)
		}
	}
	assert.Equal(t, http.StatusOK, h.call("GET", path, "", "Authorization", "bearer  "+key).StatusCode)

	reader := h.as(referencehost.KeyReadOnly)
	for _, operation := range protected {
		r := h.call(operation[0], operation[1]+"?timeout=1", "", reader...)
		if operation[0] == "POST" {
			assert.Equal(t, "forbidden", r.code(t), operation)
			assert.Empty(t, r.Header.Get("WWW-Authenticate"))
		} else {
			assert.Equal(t, http.StatusOK, r.StatusCode, operation)
		}
	}
}

func TestRevokedKeyIsRefusedOnTheNextRequest(t *testing.T) {
	t.Parallel()
	h := start(t)
	assert.Equal(t, http.StatusOK, h.call("GET", "/runs", "").StatusCode)
	assert.True(t, h.host.Revoke(referencehost.KeyTenantA))
	assert.False(t, h.host.Revoke("nobody"))
	r := h.call("GET", "/runs", "")
	assert.Equal(t, "credential_revoked", r.code(t))
	assert.Equal(t, "Bearer", r.Header.Get("WWW-Authenticate"))
	assert.Equal(t, http.StatusOK, h.call("GET", "/runs", "", h.as(referencehost.KeyReadOnly)...).StatusCode)

	facts := h.host.Audit()
	require.Len(t, facts, 7)
	assert.Equal(t, "bearer", facts[0].Assurance)
	assert.Equal(t, int64(1), facts[0].Admitted)
	assert.Equal(t, int64(1), facts[0].Refused)
	assert.False(t, facts[0].LastUsed.IsZero())
	assert.True(t, facts[1].LastUsed.IsZero())
}

func TestRunIDs(t *testing.T) {
	t.Parallel()
	h := start(t)
	id, path := h.create(`{"workflowId":"conformance-noop"}`)
	_, opaque, _ := strings.Cut(id, "/")
	for _, suffix := range []string{"", "/events/poll?timeout=1"} {
		for _, good := range []string{path, "/runs/tenant-a%2F" + opaque, "/runs/tenant-a%2f" + opaque, "/runs/tenant-a%7E2F" + opaque} {
			assert.Equal(t, http.StatusOK, h.call("GET", good+suffix, "").StatusCode, good)
		}
		for _, bad := range []string{
			"/runs/" + opaque, "/runs/tenant-a~2f" + opaque, "/runs/tenant-a~2g" + opaque, "/runs/tenant-a~", "/runs/tenant-a%252F" + opaque,
			"/runs/tenant-a~2Fshort", "/runs/~2F" + opaque, "/runs/tenant-a~2F" + opaque + "~2Fx", "/runs/tenant-a~2F" + opaque + "%00",
			"/runs/tenant-a~2F" + strings.Repeat("x", 129), "/runs/tenant-a~2F" + opaque + "~20",
		} {
			r := h.call("GET", bad+suffix, "")
			assert.Equal(t, "validation_error", r.code(t), bad)
		}
	}
	assert.Equal(t, "not_found", h.call("GET", "/runs/tenant-a~2Faaaaaaaaaaaaaaaa", "").code(t))

	foreign := h.as(referencehost.KeyTenantB)
	for _, operation := range [][2]string{{"GET", ""}, {"GET", "/events"}, {"GET", "/events/poll"}, {"POST", "/cancel"}} {
		there := h.call(operation[0], path+operation[1], "", foreign...)
		gone := h.call(operation[0], "/runs/tenant-a~2Faaaaaaaaaaaaaaaa"+operation[1], "", foreign...)
		assert.Equal(t, "id_tenant_mismatch", there.code(t))
		assert.Equal(t, there.body, gone.body, "the answer does not tell whether there is such a run")
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(`{"workflowId":"conformance-noop"}`)
	for _, request := range [][2]string{
		{"GET", "/"}, {"GET", "/nothing"}, {"GET", "/runs/"}, {"GET", "//runs"}, {"GET", "/runs/../runs"}, {"GET", path + "/"},
		{"GET", path + "/events/"}, {"GET", path + "/events/poll/x"}, {"GET", path + "/artifacts/a"}, {"POST", path + ":stop"},
		{"DELETE", path}, {"PUT", "/runs"}, {"POST", wellKnown}, {"GET", path + "/cancel"}, {"HEAD", path + "/events"}, {"OPTIONS", "/runs"},
		{"BREW", "/runs"}, {"GET", "/openapi.json"}, {"GET", "/metrics"},
	} {
		r := h.call(request[0], request[1], "")
		assert.Equal(t, http.StatusNotFound, r.StatusCode, request)
		assert.Equal(t, "2.0", r.Header.Get("OpenWOP-Version"))
		if request[0] != "HEAD" {
			assert.Equal(t, "not_found", r.code(t), request)
		}
	}
	assert.Equal(t, "GET, POST", h.call("PUT", "/runs", "").Header.Get("Allow"))
	assert.Equal(t, http.StatusOK, h.call("HEAD", path, "").StatusCode)
}

func TestNoLegacyHeaders(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, r := range []*reply{h.call("GET", wellKnown, ""), h.call("GET", "/nothing", ""), h.call("GET", "/runs", "", "Authorization", "")} {
		for name := range r.Header {
			lower := strings.ToLower(name)
			assert.False(t, strings.HasPrefix(lower, "x-"), name)
			assert.NotEqual(t, "capabilities-etag", lower)
		}
	}
}

func TestBodyLimits(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *referencehost.Config) { c.Limits.MaxRequestBodyBytes = 1000 })
	fits := `{"workflowId":"conformance-noop","metadata":{"x":"` + strings.Repeat("y", 1000-53) + `"}}`
	require.Len(t, fits, 1000)
	h.create(fits)
	r := h.call("POST", "/runs", fits+" ")
	assert.Equal(t, "payload_too_large", r.code(t))
	assert.Equal(t, 1000.0, r.details(t)["maxRequestBodyBytes"])

	// without a length
	request, err := http.NewRequest("POST", h.url+"/runs", io.MultiReader(strings.NewReader(fits), strings.NewReader(fits)))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+h.keys[referencehost.KeyTenantA])
	response, err := http.DefaultTransport.RoundTrip(request)
	require.NoError(t, err)
	defer response.Body.Close()
	assert.Equal(t, http.StatusRequestEntityTooLarge, response.StatusCode)
	assert.Equal(t, 1000.0, h.call("GET", wellKnown, "").json(t)["limits"].(map[string]any)["maxRequestBodyBytes"])
}

func TestMalformedBodies(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, body := range []string{
		"\xff\xfe", "{", "{}{}", "nul", `{"workflowId":"conformance-noop"}x`, "\xef\xbb\xbf{}", `{"workflowId":"\ud800"}`,
		`{"metadata":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, `{"workflowId":"conformance-noop","metadata":{"n":1e999}}`,
		`{"workflowId":"conformance-noop","metadata":{"n":9007199254740993}}`, "1", "true", `[{"workflowId":"conformance-noop"}]`,
	} {
		r := h.call("POST", "/runs", body)
		assert.Equal(t, "validation_error", r.code(t), body)
	}
	assert.Equal(t, "validation_error", h.call("POST", "/runs", "").code(t))
	assert.Empty(t, h.call("GET", "/runs", "").json(t)["runs"])
}

func TestSnapshotValidators(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual))
	_, path := h.create(`{"workflowId":"conformance-delay","inputs":{"delayMs":10}}`)
	manual.AwaitPending(2)
	live := h.call("GET", path, "")
	etag := live.Header.Get("ETag")
	assert.Equal(t, `"1"`, etag, "the sequence of node.started")
	again := h.call("GET", path, "")
	assert.Equal(t, etag, again.Header.Get("ETag"))
	assert.Equal(t, live.body, again.body)
	assert.Equal(t, http.StatusNotModified, h.call("GET", path, "", "If-None-Match", etag).StatusCode)
	manual.Advance(10 * time.Millisecond)
	h.finish(path)
	r := h.call("GET", path, "", "If-None-Match", etag)
	assert.Equal(t, http.StatusOK, r.StatusCode)
	assert.Equal(t, `"3"`, r.Header.Get("ETag"))
}

func TestSnapshotCompression(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(`{"workflowId":"conformance-noop","metadata":{"x":"` + strings.Repeat("y", 5000) + `"}}`)
	h.finish(path)
	plain := h.call("GET", path, "", "Accept-Encoding", "identity")
	assert.Empty(t, plain.Header.Get("Content-Encoding"))
	assert.Contains(t, plain.Header.Values("Vary"), "Accept-Encoding")
	for coding, coded := range map[string]bool{
		"gzip": true, "br, gzip;q=0.5": true, "*": true, "GZIP": true, "gzip;q=0": false, "br": false, "*;q=0": false, "gzip;q=0, *": false, "gzip;q=x": false,
	} {
		r := h.call("GET", path, "", "Accept-Encoding", coding)
		assert.Equal(t, coded, r.Header.Get("Content-Encoding") == "gzip", coding)
		assert.Equal(t, plain.Header.Get("ETag"), r.Header.Get("ETag"))
		body := r.body
		if coded {
			assert.Less(t, len(body), len(plain.body))
			reader, err := gzip.NewReader(bytes.NewReader(body))
			require.NoError(t, err)
			body, err = io.ReadAll(reader)
			require.NoError(t, err)
		}
		assert.Equal(t, plain.body, body)
	}
}

func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *referencehost.Config) { c.AllowedOrigins = []string{"https://app.example"} })
	preflight := func(origin, path string) *reply {
		return h.call("OPTIONS", path, "", "Authorization", "", "Origin", origin, "Access-Control-Request-Method", "POST")
	}
	r := preflight("https://app.example", "/runs")
	assert.Equal(t, http.StatusNoContent, r.StatusCode)
	assert.Equal(t, "https://app.example", r.Header.Get("Access-Control-Allow-Origin"))
	assert.Equal(t, "GET, POST", r.Header.Get("Access-Control-Allow-Methods"))
	assert.Equal(t, "2.0", r.Header.Get("OpenWOP-Version"))
	allowed := strings.Split(r.Header.Get("Access-Control-Allow-Headers"), ", ")
	for _, operation := range h.contract.Operations() {
		assert.Subset(t, allowed, append(operation.RequestHeaders, "Authorization", "Content-Type"))
	}
	assert.Empty(t, preflight("https://evil.example", "/runs").Header.Get("Access-Control-Allow-Origin"))
	assert.Equal(t, http.StatusNotFound, preflight("https://app.example", "/nothing").StatusCode)

	r = h.call("GET", "/runs", "", "Origin", "https://app.example")
	assert.Equal(t, "https://app.example", r.Header.Get("Access-Control-Allow-Origin"))
	assert.Contains(t, r.Header.Get("Access-Control-Expose-Headers"), "OpenWOP-Version")
	assert.Contains(t, r.Header.Values("Vary"), "Origin")
	assert.Empty(t, h.call("GET", "/runs", "", "Origin", "https://evil.example").Header.Get("Access-Control-Allow-Origin"))
}

// brokenStore fails where a test wants it to.
type brokenStore struct{ referencehost.Store }

func (brokenStore) Open(_ ctx, _ string) (referencehost.Log, error) {
	return nil, errors.New("disk on fire at /secret/place")
}

func TestFailuresAreInternalErrors(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var logged bytes.Buffer
	h := start(t, func(c *referencehost.Config) {
		c.Store = brokenStore{c.Store}
		c.Logger = slog.New(slog.NewTextHandler(lockedWriter{&mu, &logged}, nil))
	})
	_, path := h.create(`{"workflowId":"conformance-noop"}`)
	for _, suffix := range []string{"", "/events", "/events/poll"} {
		r := h.call("GET", path+suffix, "")
		assert.Equal(t, "internal_error", r.code(t))
		assert.NotContains(t, string(r.body), "secret")
	}
	mu.Lock()
	defer mu.Unlock()
	assert.Contains(t, logged.String(), "disk on fire")
	for _, key := range h.keys {
		assert.NotContains(t, logged.String(), key)
	}
}

func TestAPanicIsAnInternalError(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *referencehost.Config) { c.Store = panickyStore{c.Store} })
	r := h.call("GET", "/runs/tenant-a~2Faaaaaaaaaaaaaaaa", "")
	assert.Equal(t, "internal_error", r.code(t))
}

type panickyStore struct{ referencehost.Store }

func (panickyStore) Open(ctx, string) (referencehost.Log, error) { panic("oh") }

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(data)
}
