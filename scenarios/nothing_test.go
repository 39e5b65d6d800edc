package scenarios

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/harness"
	"wopcert/requirements"
)

// knowsNothing are answers of hosts that implement none of OpenWOP.
func knowsNothing() map[string]http.HandlerFunc {
	fixed := func(status int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if contentType != "" {
				w.Header().Set("Content-Type", contentType)
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	const envelope = `{"error":%q,"message":"no"}`
	return map[string]http.HandlerFunc{
		"404":                  fixed(404, "", ""),
		"404 with an envelope": fixed(404, "application/json", fmt.Sprintf(envelope, "not_found")),
		"400 with an envelope": fixed(400, "application/json", fmt.Sprintf(envelope, "validation_error")),
		"401 with an envelope": fixed(401, "application/json", fmt.Sprintf(envelope, "unauthenticated")),
		"403 with an envelope": fixed(403, "application/json", fmt.Sprintf(envelope, "id_tenant_mismatch")),
		"409 with an envelope": fixed(409, "application/json", fmt.Sprintf(envelope, "run_terminal")),
		"500":                  fixed(500, "", ""),
		"503 with an envelope": fixed(503, "application/json", fmt.Sprintf(envelope, "runner_unavailable")),
		"200 empty":            fixed(200, "", ""),
		"200 HTML":             fixed(200, "text/html", "<!doctype html><title>hello</title>"),
		"200 {}":               fixed(200, "application/json", "{}"),
		"200 null":             fixed(200, "application/json", "null"),
		"201 {}":               fixed(201, "application/json", "{}"),
		"201 with a run id":    fixed(201, "application/json", `{"runId":"t/0123456789abcdef","status":"pending","eventsUrl":"/runs/t~2F0123456789abcdef/events"}`),
		"204":                  fixed(204, "", ""),
		"200 empty stream":     fixed(200, "text/event-stream", ""),
		"304":                  fixed(304, "", ""),
		"a redirect loop":      func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) },
		"a hang-up":            hangUp,
		"silence":              func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"an endless body": func(w http.ResponseWriter, r *http.Request) {
			forever(w, r, "application/json", strings.Repeat(" ", 1<<15))
		},
		"endless comments": func(w http.ResponseWriter, r *http.Request) { forever(w, r, "text/event-stream", ": still here\n\n") },
		"endless frames":   func(w http.ResponseWriter, r *http.Request) { forever(w, r, "text/event-stream", "data: {}\n\n") },
		"a body that never ends": func(w http.ResponseWriter, r *http.Request) {
			begin(w, "application/json", `{"runId":`)
			<-r.Context().Done()
		},
		"echo of what it was sent":  echoBody,
		"201 to whatever is posted": createsBlindly,
	}
}

// claiming starts a host with a discovery document, whose every other path is a
// handler's.
func claiming(t *testing.T, document []byte, rest http.Handler) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc(harness.WellKnown, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(document)
	})
	mux.Handle("/", rest)
	return serve(t, mux)
}

// serve runs a host whose handlers all end with the test.
func serve(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a server notices that its client left only when the body is read
		r.Body = io.NopCloser(bytes.NewReader(body))
		both, done := context.WithCancel(r.Context())
		defer done()
		defer context.AfterFunc(ctx, done)()
		handler.ServeHTTP(w, r.WithContext(both))
	}))
	t.Cleanup(func() { cancel(); host.CloseClientConnections(); host.Close() })
	return host
}

func hangUp(w http.ResponseWriter, _ *http.Request) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_ = conn.Close()
	}
}

func begin(w http.ResponseWriter, contentType, text string) {
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write([]byte(text))
	_ = http.NewResponseController(w).Flush()
}

func forever(w http.ResponseWriter, r *http.Request, contentType, text string) {
	begin(w, contentType, text)
	for r.Context().Err() == nil {
		if _, err := w.Write([]byte(text)); err != nil {
			return
		}
	}
}

func echoBody(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	var body any
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		body = map[string]any{}
	}
	_ = json.NewEncoder(w).Encode(body)
}

// createsBlindly hands out runs it knows nothing of.
func createsBlindly(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error":"not_found","message":"no"}`))
		return
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"runId":"t/%020d","status":"pending","eventsUrl":"/runs/x/events"}`, time.Now().UnixNano())
}

// excused are requirements that a host which knows nothing meets all the same,
// by name of the host.
func excused(name string) []requirements.ID {
	if name == "201 to whatever is posted" {
		return []requirements.ID{
			// It refuses no key, so none that is valid; the invalid ones fail it.
			requirements.R0170IdempotencyKeyGrammarValidAccepted,
			// It sets no minClientVersion and serves every client.
			requirements.R0172MinClientVersion,
		}
	}
	return nil
}

// established are the requirements that a discovery document alone, served on
// every request to it without looking at the request, does hold: they speak of
// nothing but the document.
func established() []requirements.ID {
	return []requirements.ID{
		// A closed root that has the two version members and nothing foreign.
		requirements.R0169CapabilitiesRootClosedValid,
		requirements.R0169CapabilitiesRootClosedUnknownRootKey,
		requirements.R0169CapabilitiesRootClosedDottedKey,
		requirements.R0169CapabilitiesRootClosedWrapper,
		requirements.R0169CapabilitiesRootClosedProfiles,
		requirements.R0175NoTransportAdvertisement,
		// protocolVersions and preferredVersion agree.
		requirements.R0172PreferredVersionDefaultMember,
		// It names no profile, and its versions have the form profiles read.
		requirements.R0169ProfilesDerivedOnlyDerivable,
		requirements.R0169ProfilesDerivedOnlyNoRootProfiles,
		// The document is the major 2 one, and is JSON.
		requirements.R0176WellKnownOneResourceV2Representation,
		// It is the same whatever version is asked for.
		requirements.R0176WellKnownOneResource,
	}
}

func TestHostsThatKnowNothing(t *testing.T) {
	t.Parallel()
	c := contract(t)
	raw, err := json.Marshal(map[string]any{
		"protocolVersions": []string{"2.0"}, "preferredVersion": "2.0",
		"fixtures": []string{noop, identity, delay, failure, multiNode, cancellable, schemaBound, dispatchLoop, versionFold},
	})
	require.NoError(t, err)
	for name, handler := range knowsNothing() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := claiming(t, raw, handler)
			began := time.Now()
			results, err := harness.Run(t.Context(), harness.Options{
				BaseURL: host.URL, Corpus: c, Scenarios: All(), Timeout: 3 * time.Second, Parallel: 64,
				Credentials: harness.Credentials{Primary: "key-of-tenant-a", OtherTenant: "key-of-tenant-b", ReadOnly: "key-that-reads"},
			})
			require.NoError(t, err)
			assert.Less(t, time.Since(began), 2*time.Minute)
			assert.Empty(t, results.SuiteFaults)
			seen := 0
			for _, row := range results.Rows {
				id := requirements.ID(row.ID)
				if row.Result != bundle.ExecutedPass || !strings.HasPrefix(row.ID, "openwop.requirement.") {
					continue
				}
				if slices.Contains(excused(name), id) {
					continue
				}
				seen++
				assert.True(t, slices.Contains(established(), id), "%s passes: %d assertions %s", row.ID, row.Assertions, row.Detail)
			}
			assert.NotZero(t, seen, "the document is the same whatever the rest answers")
		})
	}
}

// Hosts without a discovery document of major 2 cannot be measured at all.
func TestHostsWithoutDiscovery(t *testing.T) {
	t.Parallel()
	c := contract(t)
	for name, handler := range knowsNothing() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := serve(t, handler)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			results, err := harness.Run(ctx, harness.Options{BaseURL: host.URL, Corpus: c, Scenarios: All(), Timeout: 3 * time.Second})
			var d *harness.DiscoveryError
			require.ErrorAs(t, err, &d)
			assert.Nil(t, results)
		})
	}
}
