package supervised

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

// TestMain lets the test program be the process that is started: it is this
// program's own file.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Command {
		if err := Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func settings(t *testing.T) (Settings, string) {
	t.Helper()
	config, err := referencehost.DefaultConfig()
	require.NoError(t, err)
	return Settings{Keys: config.Keys, TokenSecrets: config.TokenSecrets}, config.Keys[0].Key
}

func call(t *testing.T, method, url, key, body string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("OpenWOP-Version", "2")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	var v map[string]any
	require.NoError(t, json.NewDecoder(res.Body).Decode(&v))
	return res.StatusCode, v
}

// A host that is killed comes back at its address with what it had accepted.
func TestKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	s, key := settings(t)
	p, err := Start(t.Context(), s)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	status, run := call(t, "POST", p.URL()+"/runs", key, `{"workflowId":"conformance-delay","inputs":{"delayMs":300}}`)
	require.Equal(t, http.StatusCreated, status)
	require.Error(t, p.Restart(t.Context()), "it runs already")
	for range 2 {
		require.NoError(t, p.Kill(t.Context()))
		require.Error(t, p.Kill(t.Context()), "it is dead already")
		_, err = http.Get(p.URL() + "/.well-known/openwop") //nolint:bodyclose // there is none
		require.Error(t, err)
		address := p.URL()
		require.NoError(t, p.Restart(t.Context()))
		require.Equal(t, address, p.URL())
	}
	require.Eventually(t, func() bool {
		_, v := call(t, "GET", p.URL()+run["statusUrl"].(string), key, "")
		return v["status"] == "completed"
	}, 10*time.Second, 20*time.Millisecond)
	_, document := call(t, "GET", p.URL()+"/.well-known/openwop", key, "")
	assert.Equal(t, map[string]any{"seamsProfile": "openwop-conformance-seams-v2"}, document["conformance"])
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s, _ := settings(t)
	p, err := Start(t.Context(), s)
	require.NoError(t, err)
	require.DirExists(t, p.directory)
	require.NoError(t, p.Kill(t.Context()))
	require.NoError(t, p.Close(), "dead or alive")
	require.NoDirExists(t, p.directory)
}

func TestServe(t *testing.T) {
	t.Parallel()
	s, _ := settings(t)
	s.Directory = filepath.Join(t.TempDir(), "host")
	require.NoError(t, os.Mkdir(s.Directory, 0o700))
	s.Addr, s.Store = "127.0.0.1:0", filepath.Join(s.Directory, "store.db")
	line, err := json.Marshal(s)
	require.NoError(t, err)
	in, gone := io.Pipe()
	out, said := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Serve(context.Background(), in, said) }()
	_, err = gone.Write(append(line, '\n'))
	require.NoError(t, err)
	var answer ready
	require.NoError(t, json.NewDecoder(out).Decode(&answer))
	res, err := http.Get(answer.URL + "/.well-known/openwop")
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.NoError(t, gone.Close()) // whoever started it is gone
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("the host serves on for nobody")
	}
	require.NoDirExists(t, s.Directory)
}

func TestServeRefuses(t *testing.T) {
	t.Parallel()
	s, _ := settings(t)
	s.Addr, s.Store = "127.0.0.1:0", t.TempDir()+"/missing/store.db"
	line, err := json.Marshal(s)
	require.NoError(t, err)
	for name, input := range map[string]string{"nothing": "", "half a line": `{"Addr":`, "no settings": "[]\n", "a store that cannot be": string(line) + "\n"} {
		var out bytes.Buffer
		assert.Error(t, Serve(t.Context(), strings.NewReader(input), &out), name)
		if strings.HasSuffix(input, "\n") {
			assert.Contains(t, out.String(), `"error":`, name)
		}
	}
}
