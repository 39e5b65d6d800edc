package referencehost_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/internal/token"
)

// receiver is a place for callbacks under a public name, which the host's network carries to loopback.
type receiver struct {
	t      testing.TB
	url    string
	server *httptest.Server
	mu     sync.Mutex
	answer func(http.ResponseWriter, *http.Request)
	got    chan object
}

// lookups resolves names of a test.
type lookups map[string][]netip.Addr

func (n lookups) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	return slices.Clone(n[host]), nil
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{t: t, got: make(chan object, 64), url: "https://example.com/callback"} // the name httptest's certificate has
	r.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		assert.NoError(t, err)
		var value object
		assert.NoError(t, json.Unmarshal(body, &value))
		value["path"], value["authorization"] = request.URL.Path, request.Header.Get("Authorization")
		r.mu.Lock()
		answer := r.answer
		r.mu.Unlock()
		if answer != nil {
			answer(w, request)
		}
		r.got <- value
	}))
	t.Cleanup(r.server.Close)
	return r
}

func (r *receiver) script(answer func(http.ResponseWriter, *http.Request)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// egress is the policy under which the host reaches the receiver.
func (r *receiver) egress(c *referencehost.Config) {
	public := netip.MustParseAddr("93.184.216.34")
	c.Egress.Resolver = lookups{"example.com": {public}, "rebound.example": {netip.MustParseAddr("10.0.0.1")}}
	c.Egress.Routes = map[netip.AddrPort]string{netip.AddrPortFrom(public, 443): r.server.Listener.Addr().String()}
	c.Egress.ExtraRoots = append(c.Egress.ExtraRoots, r.server.Certificate())
}

func (r *receiver) next() object {
	r.t.Helper()
	select {
	case value := <-r.got:
		return value
	case <-time.After(10 * time.Second):
		r.t.Fatal("no callback comes")
		return nil
	}
}

// called creates a run with a callback address; body is its other members.
func (h *testHost) called(r *receiver, body string) (path string, notice object) {
	h.t.Helper()
	_, path = h.asks(strings.Replace(body, "{", `{"callbackUrl":"`+r.url+`",`, 1))
	return path, r.next()
}

// present uses a token without any other credential.
func (h *testHost) present(token, value string, header ...string) *reply {
	header = append([]string{"Authorization", ""}, header...)
	if value == "" {
		return h.call("GET", "/interrupts/"+token, "", header...)
	}
	return h.call("POST", "/interrupts/"+token, `{"resumeValue":`+value+`}`, header...)
}

func TestCallbackAndTokens(t *testing.T) {
	t.Parallel()
	receiver := newReceiver(t)
	h := start(t, receiver.egress)
	path, notice := h.called(receiver, `{"workflowId":"conformance-approval"}`)
	events := h.events(path)
	request := payload(find(events, "interrupt.requested")[0])
	assert.Equal(t, request, notice["interrupt"])
	assert.Equal(t, payload(find(events, "node.suspended")[0])["interruptId"], notice["interruptId"])
	assert.Empty(t, notice["authorization"])
	resume, inspect := notice["token"].(string), notice["inspectToken"].(string)
	assert.Regexp(t, `^ow2\.hs256\.[A-Za-z0-9._~-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$`, resume)
	expires, err := time.Parse(time.RFC3339, notice["expiresAt"].(string))
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now().Add(30*time.Minute), expires, time.Minute)

	for _, text := range []string{resume, inspect} {
		r := h.present(text, "")
		require.Equal(t, 200, r.StatusCode, string(r.body))
		assert.Equal(t, request, r.json(t))
	}
	assert.Equal(t, "forbidden", h.present(inspect, `{"action":"accept"}`).code(t))
	assert.Equal(t, "validation_error", h.present(resume, `{"action":"refine"}`).code(t))
	assert.Equal(t, "waiting-approval", h.call("GET", path, "").json(t)["status"])
	r := h.present(resume, `{"action":"accept"}`)
	require.Equal(t, 200, r.StatusCode, string(r.body))
	assert.Equal(t, "completed", h.finish(path)["status"])
	assert.NotContains(t, payload(find(h.events(path), "interrupt.resolved")[0]), "resolvedBy")
	for _, text := range []string{resume, inspect} {
		assert.Equal(t, "interrupt_already_resolved", h.present(text, "").code(t))
	}
	assert.Equal(t, "interrupt_already_resolved", h.present(resume, `{"action":"accept"}`).code(t))
	for _, event := range h.events(path) { // the token is for who was called, and in nobody's log
		assert.NotContains(t, string(must(json.Marshal(event))), "ow2.")
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func TestTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	receiver := newReceiver(t)
	old := referencehost.TokenSecret{KeyID: "before", Value: []byte(strings.Repeat("o", 32))}
	h := start(t, receiver.egress, func(c *referencehost.Config) { c.TokenSecrets = append(c.TokenSecrets, old) })
	path, notice := h.called(receiver, `{"workflowId":"conformance-approval"}`)
	good := notice["token"].(string)
	parts := strings.Split(good, ".")
	claims := must(base64.RawURLEncoding.DecodeString(parts[3]))
	foreign := base64.RawURLEncoding.EncodeToString([]byte(strings.ReplaceAll(string(claims), "tenant-a/", "tenant-b/")))
	var said token.Claims
	require.NoError(t, json.Unmarshal(claims, &said))
	other := must(token.NewRing([]token.Secret{{KeyID: parts[2], Value: []byte(strings.Repeat("x", 32))}}))
	for name, text := range map[string]string{
		"truncated": good[:len(good)-3], "without a mac": strings.Join(parts[:4], "."), "re-signed": other.Mint(said),
		"an unheld kid":                strings.Join([]string{"ow2", "hs256", "k9", parts[3], parts[4]}, "."),
		"another algorithm":            strings.Join([]string{"ow2", "none", parts[2], parts[3], parts[4]}, "."),
		"the claims of another tenant": strings.Join([]string{"ow2", "hs256", parts[2], foreign, parts[4]}, "."),
		"unprefixed":                   parts[3] + "." + parts[4], "a word": "token",
	} {
		for _, value := range []string{"", `{"action":"accept"}`} {
			r := h.present(text, value)
			assert.Equal(t, "interrupt_token_invalid", r.code(t), name)
			assert.Equal(t, 401, r.StatusCode, name)
		}
	}
	assert.Equal(t, "waiting-approval", h.call("GET", path, "").json(t)["status"])

	held := must(token.NewRing([]token.Secret{old}))
	assert.Equal(t, 200, h.present(held.Mint(said), "").StatusCode, "a secret that is held but makes no tokens any more")
	said.ExpiresAt = time.Now().Add(-time.Second)
	assert.Equal(t, "interrupt_expired", h.present(held.Mint(said), "").code(t))
	assert.Equal(t, "interrupt_expired", h.present(held.Mint(said), `{"action":"accept"}`).code(t))
	said.ExpiresAt, said.RunID = time.Now().Add(time.Hour), "tenant-a/0123456789abcdef0123"
	assert.Equal(t, "not_found", h.present(held.Mint(said), "").code(t))
}

func TestTokensEndWithTheirInterrupt(t *testing.T) {
	t.Parallel()
	receiver := newReceiver(t)
	manual := manualClock()
	h := start(t, receiver.egress, withClock(manual))
	path, notice := h.called(receiver, `{"workflowId":"conformance-approval"}`)
	require.Equal(t, 200, h.call("POST", path+"/cancel", "").StatusCode)
	assert.Equal(t, "interrupt_already_resolved", h.present(notice["token"].(string), `{"action":"accept"}`).code(t))
	assert.Equal(t, "interrupt_already_resolved", h.present(notice["token"].(string), "").code(t))

	_, notice = h.called(receiver, `{"workflowId":"conformance-approval-timeout"}`)
	assert.Equal(t, manual.Now().Add(1500*time.Millisecond).Format("2006-01-02T15:04:05.000Z"), notice["expiresAt"])
	manual.Advance(1500 * time.Millisecond)
	assert.Equal(t, "interrupt_expired", h.present(notice["token"].(string), `{"action":"accept"}`).code(t))

	path, notice = h.called(receiver, measured(`{"tokenLifetimeMs":1000,"timeoutMs":60000}`))
	manual.Advance(time.Second)
	assert.Equal(t, "interrupt_expired", h.present(notice["token"].(string), "").code(t))
	assert.Equal(t, "waiting-approval", h.call("GET", path, "").json(t)["status"], "the interrupt outlives its token")
	h.accept(path)
}

func TestATokenIsNoApprover(t *testing.T) {
	t.Parallel()
	receiver := newReceiver(t)
	h := start(t, receiver.egress)
	path, notice := h.called(receiver, measured(`{"approversList":["approver-a1"]}`))
	r := h.present(notice["token"].(string), `{"action":"accept"}`)
	assert.Equal(t, "forbidden", r.code(t))
	r = h.present(notice["token"].(string), `{"action":"accept","decidedBy":"approver-a1"}`)
	assert.Equal(t, "forbidden", r.code(t), "saying so makes nobody an approver")
	r = h.present(notice["token"].(string), `{"action":"accept"}`, h.as(referencehost.KeyApprover1)...)
	assert.Equal(t, "forbidden", r.code(t), "on this surface the token is the credential")
	assert.Equal(t, "waiting-approval", h.call("GET", path, "").json(t)["status"])

	_, notice = h.called(receiver, `{"workflowId":"conformance-interrupt-auth-required"}`)
	assert.NotContains(t, notice, "token")
	assert.Equal(t, 200, h.present(notice["inspectToken"].(string), "").StatusCode)

	path, notice = h.called(receiver, measured(`{"requiredApprovals":2}`))
	for range 2 {
		assert.Equal(t, 200, h.present(notice["token"].(string), `{"action":"accept"}`).StatusCode)
	}
	assert.Equal(t, "waiting-approval", h.call("GET", path, "").json(t)["status"], "the bearer votes once")
}

func TestTokenResolvesHonourIdempotencyKey(t *testing.T) {
	t.Parallel()
	receiver := newReceiver(t)
	h := start(t, receiver.egress)
	_, notice := h.called(receiver, `{"workflowId":"conformance-approval"}`)
	key := []string{"Idempotency-Key", "token-key-0123456789-0123"}
	first := h.present(notice["token"].(string), `{"action":"accept"}`, key...)
	again := h.present(notice["token"].(string), `{"action":"accept"}`, key...)
	require.Equal(t, 200, first.StatusCode)
	assert.Equal(t, first.body, again.body)
	assert.Equal(t, "true", again.Header.Get("OpenWOP-Idempotent-Replay"))
	assert.Equal(t, "interrupt_token_invalid", h.present("ow2.hs256.k9.e30.e30", `1`, key...).code(t))
}

func TestCallbackDelivery(t *testing.T) {
	t.Parallel()
	receiver := newReceiver(t)
	h := start(t, receiver.egress)
	answers, attempts := []int{500, 302, 204}, new(atomic.Int32)
	receiver.script(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "https://example.com/elsewhere")
		w.WriteHeader(answers[min(int(attempts.Add(1)), len(answers))-1])
	})
	_, notice := h.called(receiver, `{"workflowId":"conformance-approval"}`)
	assert.Equal(t, "/callback", notice["path"])
	for range 2 {
		assert.Equal(t, "/callback", receiver.next()["path"], "a redirect is not followed, and the notice comes again")
	}
	receiver.script(nil)
	_, path := h.create(`{"workflowId":"wopcert-interrupt-pair","callbackUrl":"` + receiver.url + `"}`)
	first, second := receiver.next(), receiver.next()
	assert.ElementsMatch(t, []any{"left", "right"}, []any{first["nodeId"], second["nodeId"]})
	r := h.call("POST", path+":fork", `{"mode":"branch","fromSeq":1}`)
	require.Equal(t, 201, r.StatusCode, string(r.body))
	_, path = h.asks(`{"workflowId":"conformance-approval","callbackUrl":"https://rebound.example/"}`) // resolves to a private address
	assert.Equal(t, "waiting-approval", h.call("GET", path, "").json(t)["status"])
	_, notice = h.called(receiver, `{"workflowId":"conformance-clarification"}`)
	assert.Equal(t, "ask", notice["nodeId"], "nobody is called about a fork")
	assert.Empty(t, receiver.got)
}

func TestRefusedCallbackURLs(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, url := range []string{
		"http://example.com/", "https://localhost/", "https://127.0.0.1/", "https://[::1]/", "https://10.1.2.3/", "https://192.168.0.1/",
		"https://169.254.169.254/latest/meta-data", "https://[::ffff:10.0.0.1]/", "https://user:pass@example.com/", "ftp://example.com/",
		"https://2130706433/", "https://0x7f.1/", "mailto:a@example.com",
	} {
		r := h.call("POST", "/runs", `{"workflowId":"conformance-noop","callbackUrl":"`+url+`"}`)
		assert.Equal(t, "validation_error", r.code(t), url)
		assert.Equal(t, "callbackUrl", r.details(t)["field"], url)
	}
	assert.Empty(t, h.call("GET", "/runs", "").json(t)["runs"])
}

func TestTokenSecretsAreChecked(t *testing.T) {
	t.Parallel()
	for name, secrets := range map[string][]referencehost.TokenSecret{
		"none": nil, "too short": {{KeyID: "k", Value: []byte("short")}},
	} {
		config, err := referencehost.DefaultConfig()
		require.NoError(t, err)
		config.TokenSecrets = secrets
		_, err = referencehost.New(config)
		assert.ErrorContains(t, err, "token secret", name)
	}
}
