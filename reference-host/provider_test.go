package referencehost_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

// provider is who effects go to. It remembers every request and answers by its script.
type provider struct {
	t      testing.TB
	url    string
	mu     sync.Mutex
	got    []received
	more   chan struct{}
	answer func(n int, r received) (status int, body string)
}

// received is a request as the provider saw it; dropped ones were cut off without an answer.
type received struct{ key, body string }

// drop makes a provider cut the connection.
const drop = -1

func newProvider(t testing.TB) *provider {
	p := &provider{t: t, more: make(chan struct{})}
	p.answer = func(n int, _ received) (int, string) { return 200, `{"n":` + string(rune('0'+n%10)) + `}` }
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// trust lets a host reach the provider.
func (p *provider) trust(c *referencehost.Config) { c.Egress.Trusted = append(c.Egress.Trusted, p.url) }

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	got := received{r.Header.Get("Idempotency-Key"), string(body)}
	p.got = append(p.got, got)
	status, text := p.answer(len(p.got), got)
	close(p.more)
	p.more = make(chan struct{})
	p.mu.Unlock()
	if status == drop {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// script changes how the provider answers.
func (p *provider) script(answer func(n int, r received) (int, string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

func (p *provider) requests() []received {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]received(nil), p.got...)
}

func (p *provider) bodies() (bodies []string) {
	for _, r := range p.requests() {
		bodies = append(bodies, r.body)
	}
	return bodies
}

func (p *provider) keys() (keys []string) {
	for _, r := range p.requests() {
		keys = append(keys, r.key)
	}
	return keys
}

// await waits for the n-th request.
func (p *provider) await(n int) {
	p.t.Helper()
	limit := time.After(10 * time.Second)
	for {
		p.mu.Lock()
		have, more := len(p.got), p.more
		p.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-more:
		case <-limit:
			require.Fail(p.t, "the request does not come")
		}
	}
}

// effects reads the effect records of a run.
func (h *testHost) effects(path string) []object {
	h.t.Helper()
	r := h.call("GET", path+"/effects", "")
	require.Equal(h.t, http.StatusOK, r.StatusCode, string(r.body))
	var rows []object
	for _, row := range r.json(h.t)["effects"].([]any) {
		rows = append(rows, row.(object))
	}
	return rows
}

func column(rows []object, name string) (values []any) {
	for _, row := range rows {
		values = append(values, row[name])
	}
	return values
}

// undone reads the compensation of a run once it is over.
func (h *testHost) undone(path string) object {
	h.t.Helper()
	for range 200 {
		r := h.call("GET", path+"/compensation", "")
		require.Equal(h.t, http.StatusOK, r.StatusCode, string(r.body))
		switch view := r.json(h.t); view["status"] {
		case "pending", "running":
			time.Sleep(5 * time.Millisecond)
		default:
			return view
		}
	}
	h.t.Fatal("the compensation does not end")
	return nil
}

// counter counts what passes a sender.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}

// gatedFrom holds the answers back from the n-th on.
type gatedFrom struct {
	referencehost.Sender
	n    int
	gate chan struct{}
	seen *counter
}

func (g gatedFrom) Send(ctx ctx, effect referencehost.Effect) (*referencehost.Outcome, error) {
	n := g.seen.next()
	outcome, err := g.Sender.Send(ctx, effect)
	if n >= g.n {
		<-g.gate
	}
	return outcome, err
}

// listing is the first page of the runs of tenant A.
func (h *testHost) listing() (runs []object) {
	h.t.Helper()
	for _, run := range h.call("GET", "/runs", "").json(h.t)["runs"].([]any) {
		runs = append(runs, run.(object))
	}
	return runs
}
