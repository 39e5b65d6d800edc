package referencehost_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

// crashesVariable says how often TestKillMinusNine kills the host. 200 take some two minutes:
//
//	WOPCERT_CRASHES=200 go test -run TestKillMinusNine -timeout 15m ./reference-host
const crashesVariable = "WOPCERT_CRASHES"

// crashHostVariable makes this test binary a host: its value is a crashHost.
const crashHostVariable = "WOPCERT_CRASH_HOST"

// crashHost is what the host of a crash test is started with.
type crashHost struct{ Store, Addr, Provider string }

// TestKillMinusNine kills a host on a file again and again while it works, and looks afterwards for what was lost, done
// twice or left in disorder.
func TestKillMinusNine(t *testing.T) {
	if os.Getenv(crashHostVariable) != "" {
		serveUntilKilled(t)
	}
	t.Parallel()
	crashes := 20
	if text := os.Getenv(crashesVariable); text != "" {
		var err error
		crashes, err = strconv.Atoi(text)
		require.NoError(t, err)
	} else if testing.Short() {
		crashes = 3
	}
	load := newCrashLoad(t)
	host := crashHost{Store: filepath.Join(t.TempDir(), "store"), Addr: freeAddr(t), Provider: load.provider.URL}
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	process := load.boot(host)
	load.subscribe()
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 6 {
		clients.Go(func() { load.work(ctx) })
	}
	for range crashes {
		time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond) // the moment is the test
		require.NoError(t, process.Process.Kill())
		_ = process.Wait() // it was killed
		load.down()
		process = load.boot(host)
		load.look()
	}
	stop()
	clients.Wait()
	load.settle()
	load.verify()
	t.Logf("%d crashes, %d runs accepted, %d requests sent again, %d effects, %d deliveries",
		crashes, len(load.accepted), load.repeated.Load(), len(load.effects), load.deliveries.Load())
	require.NoError(t, process.Process.Kill())
	_ = process.Wait()
}

func freeAddr(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// serveUntilKilled is the process that is killed. It prints the keys and never returns.
func serveUntilKilled(t *testing.T) {
	var order crashHost
	require.NoError(t, json.Unmarshal([]byte(os.Getenv(crashHostVariable)), &order))
	store, err := referencehost.OpenFileStore(order.Store)
	require.NoError(t, err)
	config, err := referencehost.DefaultConfig()
	require.NoError(t, err)
	config.Store = store
	config.Egress.Trusted = []string{order.Provider}
	config.Recovery.MaxAttempts = 1000 // here it is the killing that goes wrong, and not the runs
	config.Limits.MaxActiveRuns = 1 << 20
	require.NoError(t, config.KeepSecrets(t.Context()))
	_, err = referencehost.Listen(context.Background(), order.Addr, config)
	require.NoError(t, err)
	keys := make(map[string]string)
	for _, key := range config.Keys {
		keys[key.Name] = key.Key
	}
	require.NoError(t, json.NewEncoder(os.Stdout).Encode(keys))
	select {}
}

// boot starts the host and waits until it serves.
func (l *crashLoad) boot(host crashHost) *exec.Cmd {
	l.t.Helper()
	order, err := json.Marshal(host)
	require.NoError(l.t, err)
	process := exec.Command(os.Args[0], "-test.run=^TestKillMinusNine$", "-test.timeout=0")
	process.Env = append(os.Environ(), crashHostVariable+"="+string(order))
	process.Stderr = os.Stderr
	out, err := process.StdoutPipe()
	require.NoError(l.t, err)
	require.NoError(l.t, process.Start())
	l.t.Cleanup(func() { _ = process.Process.Kill() })
	var keys map[string]string
	if err := json.NewDecoder(out).Decode(&keys); err != nil {
		_ = process.Wait()
		require.NoError(l.t, err, "the host does not start")
	}
	l.up("http://"+host.Addr, keys[referencehost.KeyTenantA])
	return process
}

// verify looks at everything once the last host has come to rest.
func (l *crashLoad) verify() {
	t := l.t
	listed := l.list()
	for key, id := range l.accepted {
		assert.True(t, listed[id], "the run of key %s is lost", key)
	}
	assert.Len(t, listed, len(l.accepted), "one run for one key")
	for _, id := range l.accepted {
		l.verifyLog(id)
	}
	for path, identities := range l.effects {
		assert.Len(t, identities, 1, "the effect %s has one identity", path)
	}
}

// verifyLog holds a log to the invariants of logs, and to what was seen of it before.
func (l *crashLoad) verifyLog(id string) {
	t := l.t
	events := l.events(id)
	if !assert.NotEmpty(t, events, id) {
		return
	}
	seen := l.seen[id]
	if assert.GreaterOrEqual(t, len(events), len(seen), id) {
		assert.True(t, slices.Equal(seen, events[:len(seen)]), "%s: what was seen has changed", id)
	}
	completed := make(map[string]int)
	ids := make(map[string]bool)
	terminal := ""
	for i, raw := range events {
		var event struct {
			EventID, Type, NodeID, Timestamp string
			Sequence                         int
		}
		require.NoError(t, json.Unmarshal([]byte(raw), &event))
		assert.Equal(t, i, event.Sequence, id)
		assert.False(t, ids[event.EventID], "%s: %s twice", id, event.EventID)
		ids[event.EventID] = true
		assert.Equal(t, i == 0, event.Type == "run.started", "%s: %s at %d", id, event.Type, i)
		assert.Empty(t, terminal, "%s: %s behind the end", id, event.Type)
		switch event.Type {
		case "node.completed":
			completed[event.NodeID]++
		case "run.completed", "run.failed", "run.cancelled":
			terminal = event.Type
		}
		if terminal == "run.completed" {
			l.expectDelivered(event.EventID)
		}
	}
	assert.Contains(t, []string{"run.completed", "run.cancelled"}, terminal, "%s: %s", id, fmt.Sprint(events[max(len(events)-3, 0):]))
	for node, n := range completed {
		assert.Equal(t, 1, n, "%s: %s completed", id, node)
	}
}
