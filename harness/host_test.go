package harness

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/corpus"
	"wopcert/requirements"
)

// Ids to assert with; what they say does not matter here.
const (
	idA = requirements.R0170RunCancel
	idB = requirements.R0172CreatedRunReadable
	idC = requirements.RunsResponseLinks
)

// document is the least discovery document, with further members.
func document(more map[string]any) map[string]any {
	d := map[string]any{"protocolVersions": []string{"2.0"}, "preferredVersion": "2.0"}
	maps.Copy(d, more)
	return d
}

// newHost serves a discovery document and leaves every other path to a
// handler.
func newHost(t *testing.T, more map[string]any, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	raw, err := json.Marshal(document(more))
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+WellKnown, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(raw)
	})
	if handler != nil {
		mux.HandleFunc("/", handler)
	}
	s := httptest.NewServer(mux)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

// oneTest is a scenario of one test that declares idA, or the ids given.
func oneTest(run func(*T), ids ...requirements.ID) Scenario {
	if len(ids) == 0 {
		ids = []requirements.ID{idA}
	}
	return Scenario{ID: "v2-run-cancel", Title: "t", Document: "runs.md", Section: "s",
		Tests: []Test{{Name: "one", Witnesses: ids, Run: run}}}
}

func loaded(t *testing.T) *corpus.Corpus {
	t.Helper()
	c, err := corpus.Load()
	require.NoError(t, err)
	return c
}

// measure runs scenarios against a host. The options' own fields win.
func measure(t *testing.T, o Options) *Results {
	t.Helper()
	return measureIn(t, context.Background(), o)
}

func measureIn(t *testing.T, ctx context.Context, o Options) *Results {
	t.Helper()
	o.Corpus = loaded(t)
	if o.Credentials.Primary == "" {
		o.Credentials.Primary = "a-key-of-the-first-tenant" // without it only public tests run
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	results, err := Run(ctx, o)
	require.NoError(t, err)
	return results
}

// rowOf is the row of a requirement.
func rowOf(t *testing.T, r *Results, id requirements.ID) bundle.Row {
	t.Helper()
	i := slices.IndexFunc(r.Rows, func(row bundle.Row) bool { return row.ID == string(id) })
	require.GreaterOrEqual(t, i, 0, "no row %s", id)
	return r.Rows[i]
}

// during runs a function as the one test of a scenario, for the tests that
// look at what T does rather than at rows.
func during(t *testing.T, host *httptest.Server, c Credentials, f func(*T)) *Results {
	t.Helper()
	return measure(t, Options{BaseURL: host.URL, Credentials: c, Scenarios: []Scenario{oneTest(func(tt *T) {
		f(tt)
		tt.Expect(idA, That(true, "the test to end", "it did"))
	})}})
}
