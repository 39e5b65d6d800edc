package referencehost_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// crashLoad is what a host is kept busy with while it is killed, and what has been seen of it.
type crashLoad struct {
	t        *testing.T
	client   *http.Client
	provider *httptest.Server
	next     atomic.Int64
	repeated atomic.Int64

	mu        sync.Mutex
	url, key  string                     // of the host, "" while it is down
	alive     chan struct{}              // closed while it is up
	accepted  map[string]string          // idempotency key -> run id
	seen      map[string][]string        // run id -> events as they were read last
	effects   map[string]map[string]bool // path at the provider -> identities it was asked under
	delivered map[string]bool            // ids of events that were delivered

	deliveries atomic.Int64
}

func newCrashLoad(t *testing.T) *crashLoad {
	l := &crashLoad{
		t: t, client: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 32}}, alive: make(chan struct{}),
		accepted: make(map[string]string), seen: make(map[string][]string), effects: make(map[string]map[string]bool), delivered: make(map[string]bool),
	}
	l.provider = httptest.NewServer(http.HandlerFunc(l.receive))
	t.Cleanup(l.provider.Close)
	return l
}

// receive is the outside world: effects below /effects/, deliveries at /hook.
func (l *crashLoad) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the host was killed while it spoke
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if path, ok := strings.CutPrefix(r.URL.Path, "/effects/"); ok {
		if l.effects[path] == nil {
			l.effects[path] = make(map[string]bool)
		}
		l.effects[path][r.Header.Get("Idempotency-Key")] = true
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"done":true}`) // the host may be gone
		return
	}
	var delivery struct {
		Event struct {
			EventID string `json:"eventId"`
		} `json:"event"`
		EventID string `json:"eventId"`
	}
	if json.Unmarshal(body, &delivery) == nil {
		l.delivered[delivery.Event.EventID], l.delivered[delivery.EventID] = true, true
	}
	l.deliveries.Add(1)
	w.WriteHeader(http.StatusNoContent)
}

func (l *crashLoad) up(url, key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.url, l.key = url, key
	close(l.alive)
}

func (l *crashLoad) down() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alive = make(chan struct{})
}

// ask sends one request to the host that is up; it waits for one. The error says that the host died over it.
func (l *crashLoad) ask(ctx context.Context, method, path, body, idempotencyKey string) (int, []byte, error) {
	l.mu.Lock()
	alive := l.alive
	l.mu.Unlock()
	select {
	case <-alive:
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
	l.mu.Lock()
	url, key := l.url, l.key
	l.mu.Unlock()
	request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), method, url+path, strings.NewReader(body))
	require.NoError(l.t, err)
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("OpenWOP-Version", "2")
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if idempotencyKey != "" {
		request.Header.Set("Idempotency-Key", idempotencyKey)
	}
	response, err := l.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, data, err
}

// must asks until the host has answered.
func (l *crashLoad) must(method, path, body string) (int, []byte) {
	for {
		status, data, err := l.ask(context.Background(), method, path, body, "")
		if err == nil {
			return status, data
		}
	}
}

func (l *crashLoad) subscribe() {
	status, data := l.must("POST", "/webhooks", `{"url":"`+l.provider.URL+`/hook","events":["run.completed"]}`)
	require.Equal(l.t, http.StatusCreated, status, string(data))
}

// work creates runs until ctx ends. A create whose answer did not come is sent again under its key until one does, for
// a client does not give up either.
func (l *crashLoad) work(ctx context.Context) {
	for ctx.Err() == nil {
		n := l.next.Add(1)
		key := fmt.Sprintf("crash-test-key-%012d", n)
		body := l.order(n)
		for first := true; ; first = false {
			status, data, err := l.ask(context.Background(), "POST", "/runs", body, key)
			if !first {
				l.repeated.Add(1)
			}
			if err != nil {
				continue
			}
			var created struct {
				RunID string `json:"runId"`
			}
			if !assert.Equal(l.t, http.StatusCreated, status, string(data)) || !assert.NoError(l.t, json.Unmarshal(data, &created)) {
				return
			}
			l.mu.Lock()
			l.accepted[key] = created.RunID
			l.mu.Unlock()
			if n%9 == 0 {
				_, _, _ = l.ask(ctx, "POST", "/runs/"+url.PathEscape(created.RunID)+"/cancel", "", "") // it may have ended, or the host
			}
			break
		}
	}
}

// order is a createRun body.
func (l *crashLoad) order(n int64) string {
	switch n % 6 {
	case 0:
		return `{"workflowId":"conformance-multi-node"}`
	case 1:
		return fmt.Sprintf(`{"workflowId":"wopcert-http-effect","inputs":{"url":"%s/effects/activity-%d"}}`, l.provider.URL, n)
	case 2:
		return fmt.Sprintf(`{"workflowId":"wopcert-http-effect","inputs":{"url":"%s/effects/business-%d","key":"order-%d"}}`, l.provider.URL, n, n)
	case 3:
		return fmt.Sprintf(`{"workflowId":"wopcert-two-delays","inputs":{"firstMs":%d,"secondMs":%d}}`, rand.IntN(50), rand.IntN(50))
	case 4:
		return `{"workflowId":"conformance-subworkflow-parent"}`
	}
	return `{"workflowId":"conformance-noop"}`
}

// look reads some logs and remembers what they hold.
func (l *crashLoad) look() {
	l.mu.Lock()
	var ids []string
	for _, id := range l.accepted {
		if ids = append(ids, id); len(ids) == 40 { // a map gives them in another order every time
			break
		}
	}
	l.mu.Unlock()
	for _, id := range ids {
		events := l.events(id)
		seen := l.seen[id]
		if assert.GreaterOrEqual(l.t, len(events), len(seen), id) {
			assert.True(l.t, slices.Equal(seen, events[:len(seen)]), "%s: what was seen has changed", id)
		}
		l.seen[id] = events
	}
}

// events are the events of a run as the host writes them.
func (l *crashLoad) events(id string) []string {
	status, data := l.must("GET", "/runs/"+url.PathEscape(id)+"/events/poll?timeout=1", "")
	require.Equal(l.t, http.StatusOK, status, string(data))
	var poll struct{ Events []json.RawMessage }
	require.NoError(l.t, json.Unmarshal(data, &poll))
	events := make([]string, len(poll.Events))
	for i, event := range poll.Events {
		events[i] = string(bytes.TrimSpace(event))
	}
	return events
}

// list are the runs of the tenant that no run has started.
func (l *crashLoad) list() map[string]bool {
	listed := make(map[string]bool)
	for cursor := ""; ; {
		status, data := l.must("GET", "/runs?limit=100"+cursor, "")
		require.Equal(l.t, http.StatusOK, status, string(data))
		var page struct {
			Runs []struct {
				RunID      string `json:"runId"`
				WorkflowID string `json:"workflowId"`
			} `json:"runs"`
			NextCursor string `json:"nextCursor"`
		}
		require.NoError(l.t, json.Unmarshal(data, &page))
		for _, run := range page.Runs {
			if run.WorkflowID != "conformance-subworkflow-child" {
				listed[run.RunID] = true
			}
		}
		if page.NextCursor == "" {
			return listed
		}
		cursor = "&cursor=" + url.QueryEscape(page.NextCursor)
	}
}

// settle waits until every accepted run has ended and every end was delivered.
func (l *crashLoad) settle() {
	limit := time.Now().Add(60 * time.Second)
	for _, id := range l.accepted {
		for time.Now().Before(limit) {
			status, data := l.must("GET", "/runs/"+url.PathEscape(id)+"/events/poll?timeout=5&afterSequence=1000", "")
			require.Equal(l.t, http.StatusOK, status, string(data))
			var poll struct{ IsTerminal bool }
			require.NoError(l.t, json.Unmarshal(data, &poll))
			if poll.IsTerminal {
				break
			}
		}
	}
}

// expectDelivered waits for the delivery of an event: it was in the log, so it goes out, however often the host died.
func (l *crashLoad) expectDelivered(eventID string) {
	arrived := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.delivered[eventID]
	}
	for limit := time.Now().Add(20 * time.Second); !arrived(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			assert.Fail(l.t, "the event "+eventID+" was not delivered")
			return
		}
	}
}
