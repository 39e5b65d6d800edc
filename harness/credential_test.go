package harness

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/requirements"
)

// Without the primary key nothing is said of a host but what is public.
func TestOnlyPublicTestsRunWithoutAKey(t *testing.T) {
	t.Parallel()
	s := Scenario{ID: "v2-run-cancel", Tests: []Test{
		{Name: "public", Public: true, Witnesses: []requirements.ID{idA}, Run: func(tt *T) { tt.Expect(idA, That(true, "", "")) }},
		{Name: "keyed", Witnesses: []requirements.ID{idB}, Run: func(tt *T) { tt.Expect(idB, That(false, "e", "o")) }},
	}}
	r, err := Run(context.Background(), Options{BaseURL: newHost(t, nil, nil).URL, Corpus: loaded(t), Scenarios: []Scenario{s}})
	require.NoError(t, err)
	assert.Equal(t, bundle.ExecutedPass, rowOf(t, r, idA).Result)
	assert.Equal(t, bundle.Blocked, rowOf(t, r, idB).Result)
	assert.Contains(t, rowOf(t, r, idB).Detail, "--api-key-env")
}

func TestCredentialsAreChecked(t *testing.T) {
	t.Parallel()
	host := newHost(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer right-key-of-a-tenant" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":"unauthenticated","message":"no"}`))
			return
		}
		w.WriteHeader(http.StatusNotFound)
	})
	run := func(c Credentials) error {
		_, err := Run(context.Background(), Options{BaseURL: host.URL, Corpus: loaded(t), Credentials: c, Preflight: true})
		return err
	}
	assert.NoError(t, run(Credentials{Primary: "right-key-of-a-tenant"}))
	assert.NoError(t, run(Credentials{}), "a key that was not given is not asked about")
	var refused *CredentialError
	require.ErrorAs(t, run(Credentials{Primary: "right-key-of-a-tenant", ReadOnly: "wrong-key-of-a-tenant"}), &refused)
	assert.Equal(t, ReadOnly, refused.Who)
	assert.Contains(t, refused.Observed, "401 unauthenticated")
	assert.Contains(t, refused.Hint(), "--read-only-key-env")
	assert.NotContains(t, refused.Error(), "wrong-key-of-a-tenant")
}
