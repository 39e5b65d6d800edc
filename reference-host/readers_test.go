package referencehost_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/r3labs/sse/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/fixtures"
	referencehost "wopcert/reference-host"
)

func TestManyReadersSeeEveryEventInOrder(t *testing.T) {
	t.Parallel()
	const readers, chunks = 50, 200
	gate := make(chan struct{})
	h := start(t, chatter(gate, chunks, 1))
	_, path := h.create(`{"workflowId":"chatter"}`)
	var group sync.WaitGroup
	for i := range readers {
		query := "/events?streamMode=debug"
		if i%3 == 0 {
			query += "&bufferMs=1"
		}
		frames := h.stream(path + query)
		group.Go(func() {
			want := 0
			for _, f := range collect(t, frames) {
				if f.event != "batch" {
					assert.Equal(t, strconv.Itoa(want), f.id)
					want++
					continue
				}
				var batch []struct{ Sequence int }
				assert.NoError(t, json.Unmarshal([]byte(f.data), &batch))
				for _, event := range batch {
					assert.Equal(t, want, event.Sequence)
					want++
				}
			}
			assert.Equal(t, chunks+4, want)
		})
	}
	close(gate)
	group.Wait()
}

// chatter adds a workflow whose node writes many chunks once the gate opens.
func chatter(gate <-chan struct{}, chunks, size int) func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		c.NodeTypes = append(c.NodeTypes, referencehost.NodeType{
			ID: "test.chatter",
			Run: func(ctx context.Context, call *referencehost.Call) (referencehost.Values, error) {
				select {
				case <-gate:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				for i := range chunks {
					if err := call.Chunk(strings.Repeat("x", size), i == chunks-1, nil); err != nil {
						return nil, err
					}
				}
				return nil, nil
			},
		})
		workflow, err := fixtures.Parse([]byte(`{"id":"chatter","name":"C","version":"1","nodes":[{"id":"t","typeId":"test.chatter","name":"T",
			"position":{"x":0,"y":0},"config":{},"inputs":{}}],"edges":[],"triggers":[],"variables":[],"metadata":{},"settings":{}}`))
		if err != nil {
			panic(err)
		}
		c.Unlisted = append(c.Unlisted, workflow)
	}
}

func TestAReaderThatStopsReadingHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	const chunks, size = 256, 32 << 10 // more than the sockets buffer
	gate := make(chan struct{})
	h := start(t, chatter(gate, chunks, size), func(c *referencehost.Config) {
		c.Limits.WriteTimeout = 3 * time.Second
		c.KeepAlive = referencehost.MaxKeepAlive // a comment would count as well
	})
	_, path := h.create(`{"workflowId":"chatter"}`)

	stuck, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	require.NoError(t, err)
	defer stuck.Close()
	_, err = fmt.Fprintf(stuck, "GET %s/events?streamMode=debug HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path, h.keys[referencehost.KeyTenantA])
	require.NoError(t, err)
	reader := h.stream(path + "/events?streamMode=debug")
	close(gate)
	count := 0
	for range reader {
		count++
	}
	assert.Equal(t, chunks+4, count)
	assert.Equal(t, "completed", h.finish(path)["status"])
	// the stuck reader's connection is given up, with what fitted before
	require.NoError(t, stuck.SetReadDeadline(time.Now().Add(20*time.Second)))
	got, err := io.Copy(io.Discard, stuck)
	if err == nil {
		assert.Positive(t, got)
	}
}

func TestTooManyStreams(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *referencehost.Config) { c.Limits.MaxStreams = 1 })
	_, path := h.create(`{"workflowId":"conformance-cancellable"}`)
	frames := h.stream(path + "/events")
	next(t, frames)
	r := h.call("GET", path+"/events", "")
	assert.Equal(t, "rate_limited", r.code(t))
	assert.Equal(t, "1", r.Header.Get("Retry-After"))
	h.call("POST", path+"/cancel", "")
	collect(t, frames)
	require.Eventually(t, func() bool { return h.call("GET", path+"/events", "").StatusCode == http.StatusOK }, 10*time.Second, time.Millisecond)
}

func TestCloseEndsStreamsAndPolls(t *testing.T) {
	t.Parallel()
	manual := manualClock()
	h := start(t, withClock(manual))
	_, path := h.create(`{"workflowId":"conformance-cancellable"}`)
	manual.AwaitPending(2) // the run's deadline and the node's delay
	frames := h.stream(path + "/events?streamMode=debug&bufferMs=5000")
	polled := make(chan *reply, 1)
	go func() { polled <- h.call("GET", path+"/events/poll?afterSequence=100&timeout=60", "") }()
	manual.AwaitPending(5) // also keep-alive, window and the end of the poll: all wait
	require.NoError(t, h.host.Close())
	rest := collect(t, frames)
	require.Len(t, rest, 1, "what was gathered is flushed")
	assert.Equal(t, "batch", rest[0].event)
	assert.Equal(t, http.StatusOK, (<-polled).StatusCode)
	r := h.call("GET", path, "")
	assert.Equal(t, "running", r.json(t)["status"], "the run is not lost")
}

// never is a reconnect strategy that does not reconnect: the client would repeat events and call it a success.
type never struct{}

func (never) NextBackOff() time.Duration { return -1 }
func (never) Reset()                     {}

func TestAnOrdinaryClientSeesEveryEvent(t *testing.T) {
	t.Parallel()
	const chunks = 100
	gate := make(chan struct{})
	h := start(t, chatter(gate, chunks, 1))
	_, path := h.create(`{"workflowId":"chatter"}`)
	client := sse.NewClient(h.url+path+"/events?streamMode=debug", sse.ClientMaxBufferSize(1<<20))
	client.Headers["Authorization"] = "Bearer " + h.keys[referencehost.KeyTenantA]
	client.ReconnectStrategy = never{}
	connected := make(chan struct{})
	client.OnConnect(func(*sse.Client) { close(connected) })
	go func() {
		<-connected
		close(gate)
	}()
	var ids, events []string
	err := client.SubscribeRawWithContext(t.Context(), func(message *sse.Event) {
		ids, events = append(ids, string(message.ID)), append(events, string(message.Event))
	})
	require.NoError(t, err)
	require.Len(t, ids, chunks+4)
	for i, id := range ids {
		assert.Equal(t, strconv.Itoa(i), id)
	}
	assert.Equal(t, "run.started", events[0])
	assert.Equal(t, "run.completed", events[len(events)-1])
}
