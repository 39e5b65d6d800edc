package referencehost_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/fixtures"
	referencehost "wopcert/reference-host"
)

func listen(t *testing.T, ctx context.Context, addr string, change ...func(*referencehost.Config)) (*referencehost.Server, error) {
	t.Helper()
	config, err := referencehost.DefaultConfig()
	require.NoError(t, err)
	for _, f := range change {
		f(&config)
	}
	return referencehost.Listen(ctx, addr, config)
}

func TestListen(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"", ":0", "127.0.0.1:0", "localhost:0"} {
		server, err := listen(t, t.Context(), addr)
		require.NoError(t, err, addr)
		assert.Regexp(t, `^http://(127\.0\.0\.1|\[::1\]):\d+$`, server.URL())
		response, err := http.Get(server.URL() + wellKnown)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, http.StatusOK, response.StatusCode)
		assert.Len(t, server.Keys(), 7)
		assert.True(t, strings.HasPrefix(server.Key(referencehost.KeyTenantA), referencehost.TestKeyPrefix))
		assert.False(t, strings.HasPrefix(server.Key(referencehost.KeyProduction), referencehost.TestKeyPrefix))
		assert.Empty(t, server.Key("nobody"))
		assert.Contains(t, server.Fixtures(), "conformance-noop")
		require.NoError(t, server.Close())
		require.NoError(t, server.Close(), "a second close is as good as one")
		_, err = http.Get(server.URL() + wellKnown)
		require.Error(t, err)
	}
}

func TestListenRefusesWhatOtherMachinesReach(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:0", "nonsense", "127.0.0.1", "127.0.0.1:port", "no-such-host.invalid:0"} {
		_, err := listen(t, t.Context(), addr)
		require.Error(t, err, addr)
	}
	server, err := listen(t, t.Context(), "0.0.0.0:0", func(c *referencehost.Config) { c.AllowNonLoopback = true })
	require.NoError(t, err)
	require.NoError(t, server.Close())
}

func TestListenOnATakenPort(t *testing.T) {
	t.Parallel()
	server, err := listen(t, t.Context(), "")
	require.NoError(t, err)
	defer server.Close()
	_, err = listen(t, t.Context(), strings.TrimPrefix(server.URL(), "http://"))
	require.Error(t, err)
}

func TestTheServerStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server, err := listen(t, ctx, "")
	require.NoError(t, err)
	request, err := http.NewRequest("POST", server.URL()+"/runs", strings.NewReader(`{"workflowId":"conformance-cancellable"}`))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+server.Key(referencehost.KeyTenantA))
	response, err := http.DefaultTransport.RoundTrip(request)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, response.StatusCode)
	require.NoError(t, response.Body.Close())
	idle, err := net.Dial("tcp", strings.TrimPrefix(server.URL(), "http://")) // a client that says nothing
	require.NoError(t, err)
	defer idle.Close()
	cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- server.Wait() }()
	select {
	case err := <-stopped:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("the server does not stop")
	}
	require.NoError(t, server.Close())
}

func TestConfigRefusals(t *testing.T) {
	t.Parallel()
	unknown := `{"id":"u","name":"U","version":"1","nodes":[{"id":"n","typeId":"core.unheardOf","name":"N","position":{"x":0,"y":0},
		"config":{},"inputs":{}}],"edges":[],"triggers":[],"variables":[],"metadata":{},"settings":{}}`
	for name, change := range map[string]func(*referencehost.Config){
		"no clock":             func(c *referencehost.Config) { c.Clock = nil },
		"no store":             func(c *referencehost.Config) { c.Store = nil },
		"rare keep-alive":      func(c *referencehost.Config) { c.KeepAlive = 31 * time.Second },
		"no keep-alive":        func(c *referencehost.Config) { c.KeepAlive = 0 },
		"no body":              func(c *referencehost.Config) { c.Limits.MaxRequestBodyBytes = 0 },
		"short runs":           func(c *referencehost.Config) { c.Limits.MaxRunDuration = time.Millisecond },
		"large pages":          func(c *referencehost.Config) { c.Limits.MaxPageSize = 1001 },
		"client version":       func(c *referencehost.Config) { c.MinClientVersion = "2" },
		"short key":            func(c *referencehost.Config) { c.Keys[0].Key = "short" },
		"key with a space":     func(c *referencehost.Config) { c.Keys[0].Key = "0123456789 0123456789" },
		"two keys of one name": func(c *referencehost.Config) { c.Keys[1].Name = c.Keys[0].Name },
		"one key twice":        func(c *referencehost.Config) { c.Keys[1].Key = c.Keys[0].Key },
		"tenant with a slash":  func(c *referencehost.Config) { c.Keys[0].Tenant = "a/b" },
		"tenant with a tilde":  func(c *referencehost.Config) { c.Keys[0].Tenant = "a~b" },
		"subject with a space": func(c *referencehost.Config) { c.Keys[0].SubjectID = "a b" },
		"signing key of 1 byte": func(c *referencehost.Config) {
			c.SigningKeys = []referencehost.SigningKey{{KeyID: "k", PublicKey: []byte{1}}}
		},
		"implementation URL": func(c *referencehost.Config) { c.Implementation.URL = "not a url" },
		"a fixture twice":    func(c *referencehost.Config) { c.Unlisted = c.Fixtures[:1] },
		"unknown node type":  func(c *referencehost.Config) { c.Unlisted = []fixtures.Workflow{parse(t, unknown)} },
		"no definition":      func(c *referencehost.Config) { c.Unlisted = []fixtures.Workflow{{ID: "x", Document: []byte("{}")}} },
		"a node type twice":  func(c *referencehost.Config) { c.NodeTypes = []referencehost.NodeType{{ID: "core.noop"}} },
	} {
		config, err := referencehost.DefaultConfig()
		require.NoError(t, err)
		change(&config)
		_, err = referencehost.New(config)
		require.Error(t, err, name)
		assert.True(t, strings.HasPrefix(err.Error(), "reference host: "), err)
	}
}

func TestGeneratedKeysAreNeverTheSame(t *testing.T) {
	t.Parallel()
	one, err := referencehost.DefaultConfig()
	require.NoError(t, err)
	other, err := referencehost.DefaultConfig()
	require.NoError(t, err)
	for i := range one.Keys {
		assert.NotEqual(t, one.Keys[i].Key, other.Keys[i].Key)
	}
}

func TestWrapsAreInOrder(t *testing.T) {
	t.Parallel()
	var order []string
	wrap := func(name string) func(http.Handler) http.Handler {
		return func(inner http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				order = append(order, name)
				inner.ServeHTTP(w, r)
			})
		}
	}
	h := start(t, func(c *referencehost.Config) {
		c.Wrap = []func(http.Handler) http.Handler{wrap("outer"), wrap("inner")}
	})
	h.call("GET", wellKnown, "")
	assert.Equal(t, []string{"outer", "inner"}, order)
}
