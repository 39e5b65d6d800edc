package harness

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/harness/receiver"
	"wopcert/requirements"
)

// A survey runs no test, and its rows are those of the run that follows.
func TestSurveyForetellsARun(t *testing.T) {
	t.Parallel()
	var ran atomic.Bool
	test := func(name string, ids []requirements.ID, gates ...Gate) Test {
		return Test{Name: name, Witnesses: ids, Gates: gates, Run: func(tt *T) {
			ran.Store(true)
			for _, id := range ids {
				tt.Expect(id, That(true, "", ""))
			}
		}}
	}
	a, b, c := []requirements.ID{idA}, []requirements.ID{idB}, []requirements.ID{idC}
	scenarios := []Scenario{
		{ID: "v2-one", Tests: []Test{
			test("open", a, NeedsFixture("conformance-noop")),
			test("blocked", b, NeedsFixture("conformance-delay", "conformance-cancellable"), NeedsCredential(ReadOnly)),
			test("blocks in part", a, NeedsCredential(OtherTenant)),
			test("does not bind", c, Advertises("webhooks"), NeedsReceiver()),
			test("seams", c, NeedsSeams()),
		}},
		{ID: "v2-two", Tests: []Test{test("opted out", []requirements.ID{requirements.EventsSequence}, Advertises("replay"), NeedsFixture("never asked for"))}},
		{ID: "v2-three", Tests: []Test{test("open", []requirements.ID{requirements.R0176EraKey})}},
	}
	host := newHost(t, map[string]any{"fixtures": []string{"conformance-noop"}}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer key-of-the-other-tenant" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	o := Options{BaseURL: host.URL, Scenarios: scenarios, OptOuts: []string{"replay"},
		Credentials: Credentials{Primary: "key-of-the-first-tenant", OtherTenant: "key-of-the-other-tenant", Approver: "key-of-the-first-tenant"}, Corpus: loaded(t)}
	f, err := Survey(t.Context(), o)
	require.NoError(t, err)
	assert.False(t, ran.Load(), "no test is run")
	assert.Equal(t, RowCounts{Observable: 1, Blocked: 2, Inapplicable: 1, Skipped: 1}, f.Rows)
	needs := map[string]int{}
	for _, n := range f.Needs {
		lack := " is there"
		if n.Lack != "" {
			lack = " lacks"
		}
		what := n.What
		if n.Kind == NeedKey {
			what = n.Who.String()
		}
		needs[string(n.Kind)+" "+what+lack] = len(n.Rows)
	}
	assert.Equal(t, map[string]int{"fixture conformance-noop is there": 1, "fixture conformance-delay or conformance-cancellable lacks": 1,
		"key read-only key lacks": 1, "key other tenant lacks": 1, "key primary tenant is there": 3, "seams  lacks": 1}, needs)
	keys := map[Identity]Key{}
	for _, k := range f.Keys {
		keys[k.Who] = k
	}
	assert.Equal(t, Primary, *keys[Approver].SameAs)
	assert.Nil(t, keys[OtherTenant].SameAs)
	assert.True(t, keys[OtherTenant].Refused)
	assert.False(t, keys[ReadOnly].Given)
	require.NotNil(t, f.Clock)
	assert.Less(t, f.Clock.Abs(), 5*time.Second)

	o.Credentials.OtherTenant = "" // certify would not start with a key that is refused
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	counts := RowCounts{}
	for _, row := range r.Rows {
		if slices.Contains([]string{"v2-one", "v2-two", "v2-three"}, row.Scenario) && row.ID[:12] == "openwop.requ" {
			counts.addRow(string(row.Result))
		}
	}
	assert.Equal(t, f.Rows, counts)
}

func (c *RowCounts) addRow(result string) {
	switch result {
	case "blocked":
		c.Blocked++
	case "skipped":
		c.Skipped++
	case "inapplicable":
		c.Inapplicable++
	default:
		c.Observable++
	}
}

// A host that answers nothing but its discovery document is asked for one key, not for seven in turn.
func TestSurveyOfASilentHost(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	host := newHost(t, nil, func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		panic(http.ErrAbortHandler)
	})
	f, err := Survey(t.Context(), Options{BaseURL: host.URL, Corpus: loaded(t),
		Credentials: Credentials{Primary: "key-of-the-first-tenant", OtherTenant: "key-of-the-other-tenant"}})
	require.NoError(t, err)
	assert.True(t, f.Keys[0].Silent)
	assert.True(t, f.Keys[1].Silent)
	assert.Contains(t, f.Keys[1].Observed, "not asked")
	assert.LessOrEqual(t, asked.Load(), int32(2), "a request may be sent again on a fresh connection, and no other follows")
}

// The survey says whether the host's own call arrived, beside whether it could.
func TestSurveyOfTheReceiver(t *testing.T) {
	t.Parallel()
	own := receiving(t, receiver.Config{})
	roots := x509.NewCertPool()
	roots.AddCert(own.CA())
	more := map[string]any{"fixtures": []string{reachFixture}, "webhooks": map[string]any{"status": "stable"}}
	s := oneTest(func(*T) { t.Error("no test is run") })
	s.Gates = []Gate{NeedsReceiver()}
	for name, c := range map[string]struct {
		host     *hookHost
		receiver Receiver
		called   bool
	}{
		"reached":      {&hookHost{roots: roots}, Receiver{Server: own}, true},
		"never called": {&hookHost{}, Receiver{Server: own, Patience: 50 * time.Millisecond}, false},
	} {
		f, err := Survey(t.Context(), Options{BaseURL: newHost(t, more, c.host.ServeHTTP).URL, Corpus: loaded(t), Scenarios: []Scenario{s},
			Credentials: Credentials{Primary: "key-of-the-first-tenant"}, Receiver: c.receiver})
		require.NoError(t, err, name)
		assert.Equal(t, c.called, f.Called, name)
		assert.Equal(t, own.URL().String(), f.Receiver)
		assert.Equal(t, 1, f.Rows.Observable, name)
	}
}

func TestHopsOverTLS(t *testing.T) {
	t.Parallel()
	host := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = nil
		_, _ = w.Write([]byte(`{"protocolVersions":["2.0"]}`))
	}))
	host.Config.ErrorLog = log.New(io.Discard, "", 0)
	host.StartTLS()
	t.Cleanup(host.Close)
	roots := x509.NewCertPool()
	roots.AddCert(host.Certificate())
	f, err := Survey(t.Context(), Options{BaseURL: host.URL, Corpus: loaded(t), TLS: &tls.Config{RootCAs: roots}})
	require.NoError(t, err)
	require.Len(t, f.Hops, 4)
	assert.Contains(t, f.Hops[2].Detail, "TLS 1.3, certificate valid until ")
	assert.Nil(t, f.Clock, "the host sends no date")

	f, err = Survey(t.Context(), Options{BaseURL: host.URL, Corpus: loaded(t)})
	require.Error(t, err)
	require.Len(t, f.Hops, 3)
	assert.True(t, f.Hops[2].Failed)
}

// The hops end at the one that failed, whatever did.
func TestHopsEndWhereTheWayDoes(t *testing.T) {
	t.Parallel()
	f, err := Survey(t.Context(), Options{BaseURL: "http://127.0.0.1:1", Corpus: loaded(t)})
	var refused *DiscoveryError
	require.ErrorAs(t, err, &refused)
	require.Len(t, f.Hops, 2)
	assert.False(t, f.Hops[0].Failed)
	assert.True(t, f.Hops[1].Failed)
	assert.Contains(t, f.Hops[1].Detail, "127.0.0.1:1 (")
	assert.Nil(t, f.Host)
}
