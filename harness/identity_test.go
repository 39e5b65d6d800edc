package harness

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
)

// Every identity a key can be given for sends that key, is known by it, and has
// a name and a flag of its own.
func TestIdentities(t *testing.T) {
	t.Parallel()
	keys := Credentials{Primary: "key-of-primary", OtherTenant: "key-of-other", ReadOnly: "key-of-reader", Production: "key-of-production",
		Approver: "key-of-approver", SecondApprover: "key-of-second", Override: "key-of-override"}
	var mu sync.Mutex
	seen := map[string]bool{}
	host := newHost(t, nil, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.Header.Get("Authorization")] = true
		w.WriteHeader(http.StatusNotFound)
	})
	names := map[string]bool{}
	r, err := Run(context.Background(), Options{BaseURL: host.URL, Corpus: loaded(t), Credentials: keys,
		Approver: ApproverRefs{Principal: "someone", Group: "some", Role: "part", Override: "over"},
		Scenarios: []Scenario{oneTest(func(tt *T) {
			for _, who := range identities() {
				tt.Do(Request{Path: "/runs/x", As: who})
				names[who.String()], names[who.supply()] = true, true
			}
			tt.Expect(idA, Equal("approver", ApproverRefs{"someone", "some", "part", "over"}, tt.ApproverRefs()))
		})}})
	require.NoError(t, err)
	assert.Equal(t, bundle.ExecutedPass, rowOf(t, r, idA).Result)
	assert.Len(t, keys.Values(), len(identities()))
	assert.Len(t, names, 2*len(identities()))
	for _, key := range keys.Values() {
		assert.True(t, seen["Bearer "+key], key)
	}
	assert.Equal(t, []string{"key-of-approver"}, Credentials{Approver: "key-of-approver"}.Values())
	assert.NotContains(t, Credentials{Approver: "key-of-approver"}.String(), "key-of-approver")
}
