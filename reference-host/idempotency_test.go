package referencehost_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

const (
	noop    = `{"workflowId":"conformance-noop"}`
	someKey = "0123456789abcdefghijkl"
)

func key(suffix string) []string { return []string{"Idempotency-Key", someKey + suffix} }

func TestReplay(t *testing.T) {
	t.Parallel()
	h := start(t)
	first := h.call("POST", "/runs", noop, key("")...)
	require.Equal(t, http.StatusCreated, first.StatusCode)
	assert.Empty(t, first.Header.Get("OpenWOP-Idempotent-Replay"))
	for _, same := range []string{noop, ` { "workflowId" : "conformance-noop" } `} {
		again := h.call("POST", "/runs", same, key("")...)
		assert.Equal(t, http.StatusCreated, again.StatusCode)
		assert.Equal(t, "true", again.Header.Get("OpenWOP-Idempotent-Replay"))
		assert.Equal(t, first.body, again.body)
		assert.Equal(t, first.Header.Get("Content-Type"), again.Header.Get("Content-Type"))
	}
	mismatch := h.call("POST", "/runs", `{"workflowId":"conformance-noop","tags":["x"]}`, key("")...)
	assert.Equal(t, "idempotency_key_mismatch", mismatch.code(t))
	assert.NotContains(t, string(mismatch.body), "runId")
	mismatch = h.call("POST", "/runs", noop, append(key(""), "OpenWOP-Force-Engine-Version", "0")...)
	assert.Equal(t, "idempotency_key_mismatch", mismatch.code(t))
	ids, _ := h.page("")
	assert.Len(t, ids, 1)

	other := h.call("POST", "/runs", noop, append(key(""), h.as(referencehost.KeyTenantB)...)...)
	assert.Equal(t, http.StatusCreated, other.StatusCode, "another tenant's key is another key")
	assert.Empty(t, other.Header.Get("OpenWOP-Idempotent-Replay"))
	same := h.call("POST", "/runs", noop, append(key(""), h.as(referencehost.KeyProduction)...)...)
	assert.Equal(t, first.body, same.body, "the record belongs to the tenant")
}

func TestKeyGrammar(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, bad := range []string{"short", someKey[1:], strings.Repeat("x", 129), someKey + "/", someKey + " x", someKey + "é", someKey + "+"} {
		r := h.call("POST", "/runs", noop, "Idempotency-Key", bad)
		assert.Equal(t, "idempotency_key_invalid", r.code(t), bad)
	}
	for _, good := range []string{someKey, strings.Repeat("x", 128), "123e4567-e89b-12d3-a456-426614174000", "A.b_c~d-" + someKey} {
		h.create(noop, "Idempotency-Key", good)
	}
	request, err := http.NewRequest("POST", h.url+"/runs", strings.NewReader(noop))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+h.keys[referencehost.KeyTenantA])
	request.Header["Idempotency-Key"] = []string{someKey, someKey}
	response, err := http.DefaultTransport.RoundTrip(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusBadRequest, response.StatusCode)
	request.Header["Idempotency-Key"] = []string{""}
	request.Body = http.NoBody
	request.ContentLength = 0
	response, err = http.DefaultTransport.RoundTrip(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusBadRequest, response.StatusCode)

	assert.Equal(t, http.StatusOK, h.call("GET", "/runs", "", "Idempotency-Key", "short").StatusCode, "GET does not honour it")
}

func TestWhatIsStored(t *testing.T) {
	t.Parallel()
	h := start(t, without("agents"))
	replayed := func(body string, header ...string) bool {
		t.Helper()
		first := h.call("POST", "/runs", body, header...)
		second := h.call("POST", "/runs", body, header...)
		assert.Equal(t, first.StatusCode, second.StatusCode)
		return second.Header.Get("OpenWOP-Idempotent-Replay") == "true"
	}
	assert.True(t, replayed(`{"workflowId":"gone"}`, key("a")...), "404 not_found is final")
	assert.True(t, replayed(`{"mode":"eval","evalSuiteRef":"s","agentId":"a"}`, key("b")...), "422 capability_required is final")
	assert.False(t, replayed(`{"workflowId":1}`, key("c")...), "400 validation_error is not stored")
	assert.False(t, replayed(`{"workflowId":"conformance-noop","tenantId":"x"}`, key("d")...), "403 is not stored")
	assert.False(t, replayed(`{"workflowId":"conformance-noop","residency":{"region":"x"}}`, key("e")...), "residency_unavailable is retriable")
	assert.False(t, replayed(noop, append(key("f"), "Authorization", "")...), "401 is not stored")

	// a key that was not used up takes another request
	h.create(noop, key("c")...)
	h.create(noop, key("d")...)
}

func TestARunThatCouldNotStartCanBeRetried(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *referencehost.Config) { c.Limits.MaxActiveRuns = 1 })
	_, path := h.create(`{"workflowId":"conformance-cancellable"}`)
	assert.Equal(t, "rate_limited", h.call("POST", "/runs", noop, key("")...).code(t))
	h.call("POST", path+"/cancel", "")
	require.Eventually(t, func() bool {
		r := h.call("POST", "/runs", noop, key("")...)
		return r.StatusCode == http.StatusCreated && r.Header.Get("OpenWOP-Idempotent-Replay") == ""
	}, 10*time.Second, time.Millisecond, "429 is executed again")
}

// failingStore refuses the first creates.
type failingStore struct {
	referencehost.Store
	mu    sync.Mutex
	fails int
}

func (s *failingStore) Create(c ctx, run referencehost.Run, exclusive bool, first ...referencehost.Draft) (referencehost.Log, error) {
	s.mu.Lock()
	s.fails--
	failing := s.fails >= 0
	s.mu.Unlock()
	if failing {
		return nil, errors.New("no space")
	}
	return s.Store.Create(c, run, exclusive, first...)
}

func TestAnInternalErrorIsExecutedAgain(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *referencehost.Config) { c.Store = &failingStore{Store: c.Store, fails: 1} })
	assert.Equal(t, "internal_error", h.call("POST", "/runs", noop, key("")...).code(t))
	h.create(noop, key("")...)
	assert.Equal(t, "true", h.call("POST", "/runs", noop, key("")...).Header.Get("OpenWOP-Idempotent-Replay"))
}

func TestReplayedCancel(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, path := h.create(`{"workflowId":"conformance-cancellable"}`)
	_, other := h.create(`{"workflowId":"conformance-cancellable"}`)
	first := h.call("POST", path+"/cancel", "", key("")...)
	again := h.call("POST", path+"/cancel", "", key("")...)
	assert.Equal(t, http.StatusOK, again.StatusCode, "not run_terminal: the request was made once")
	assert.Equal(t, first.body, again.body)
	assert.Equal(t, "idempotency_key_mismatch", h.call("POST", other+"/cancel", "", key("")...).code(t))
	assert.Equal(t, http.StatusCreated, h.call("POST", "/runs", noop, key("")...).StatusCode, "another operation is another record")
	conflict := h.call("POST", path+"/cancel", "", key("x")...)
	assert.Equal(t, "run_terminal", conflict.code(t))
	assert.Equal(t, "true", h.call("POST", path+"/cancel", "", key("x")...).Header.Get("OpenWOP-Idempotent-Replay"))
}

func TestRetention(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual))
	first := h.call("POST", "/runs", noop, key("")...)
	manual.Advance(24 * time.Hour)
	assert.Equal(t, first.body, h.call("POST", "/runs", noop, key("")...).body)
	manual.Advance(time.Millisecond)
	later := h.call("POST", "/runs", noop, key("")...)
	assert.Equal(t, http.StatusCreated, later.StatusCode)
	assert.NotEqual(t, first.body, later.body)
}

// slowStore holds the first create until it is let go.
type slowStore struct {
	referencehost.Store
	entered, leave chan struct{}
	once           sync.Once
}

func (s *slowStore) Create(c ctx, run referencehost.Run, exclusive bool, first ...referencehost.Draft) (referencehost.Log, error) {
	s.once.Do(func() {
		close(s.entered)
		<-s.leave
	})
	return s.Store.Create(c, run, exclusive, first...)
}

func TestInFlight(t *testing.T) {
	t.Parallel()
	slow := &slowStore{entered: make(chan struct{}), leave: make(chan struct{})}
	h := start(t, func(c *referencehost.Config) { slow.Store = c.Store; c.Store = slow })
	var winner *reply
	var group sync.WaitGroup
	group.Go(func() { winner = h.call("POST", "/runs", noop, key("")...) })
	<-slow.entered
	busy := h.call("POST", "/runs", noop, key("")...)
	assert.Equal(t, "idempotency_in_flight", busy.code(t))
	assert.Equal(t, "1", busy.Header.Get("Retry-After"))
	assert.Equal(t, "idempotency_key_mismatch", h.call("POST", "/runs", `{"workflowId":"gone"}`, key("")...).code(t))
	close(slow.leave)
	group.Wait()
	require.Equal(t, http.StatusCreated, winner.StatusCode)
	assert.Equal(t, winner.body, h.call("POST", "/runs", noop, key("")...).body)
}

func TestOneKeyInParallelMakesOneRun(t *testing.T) {
	t.Parallel()
	h := start(t)
	ids := make(map[string]int)
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			r := h.call("POST", "/runs", noop, key("")...)
			if r.StatusCode == http.StatusConflict {
				assert.Equal(t, "idempotency_in_flight", r.code(t))
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids[r.json(t)["runId"].(string)]++
		})
	}
	group.Wait()
	assert.Len(t, ids, 1)
	held, _ := h.page("")
	assert.Len(t, held, 1)
}
