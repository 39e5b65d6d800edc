package referencehost_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// hammer posts createRun bodies from 16 clients and returns the latencies.
func hammer(b *testing.B, client *http.Client, url, key string, n int) (latencies []time.Duration, elapsed time.Duration) {
	b.Helper()
	const clients = 16
	each := make([][]time.Duration, clients)
	began := time.Now()
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			for range n / clients {
				sent := time.Now()
				if _, err := post(client, url, key, noop); err != nil {
					b.Error(err)
					return
				}
				each[i] = append(each[i], time.Since(sent))
			}
		})
	}
	group.Wait()
	elapsed = time.Since(began)
	latencies = slices.Concat(each...)
	slices.Sort(latencies)
	return latencies, elapsed
}

// BenchmarkCreateRunLatency measures createRun of conformance-noop from 16
// clients on the same machine, beside a peer in the same run: a net/http
// handler that reads the body and answers a fixed 201.
func BenchmarkCreateRunLatency(b *testing.B) {
	const n = 16_000
	peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"runId":"tenant-a/0123456789abcdef","status":"pending","eventsUrl":"/runs/tenant-a~2F0123456789abcdef/events"}`)
	}))
	defer peer.Close()
	var p99, rate, ratio float64
	for b.Loop() {
		client, url, key, _ := benchHost(b)
		hammer(b, client, peer.URL, key, n/4) // connections and caches warm
		_, floor := hammer(b, client, peer.URL, key, n)
		latencies, took := hammer(b, client, url+"/runs", key, n)
		p99 += float64(latencies[len(latencies)*99/100].Microseconds()) / 1000
		rate += float64(len(latencies)) / took.Seconds()
		ratio += took.Seconds() / floor.Seconds()
	}
	b.ReportMetric(p99/float64(b.N), "p99-ms")
	b.ReportMetric(rate/float64(b.N), "runs/s")
	b.ReportMetric(ratio/float64(b.N), "time/bare-handler")
}

// BenchmarkThousandSubscribers has 1,000 readers of one live run, each of
// which has to receive every event, in order, and then the end.
func BenchmarkThousandSubscribers(b *testing.B) {
	const readers, chunks = 1000, 50
	for b.Loop() {
		gate := make(chan struct{})
		client, url, key, host := benchHost(b, chatter(gate, chunks, 16))
		answer, err := post(client, url+"/runs", key, `{"workflowId":"chatter"}`)
		if err != nil {
			b.Fatal(err)
		}
		_, rest, _ := strings.Cut(answer, `"runId":"`)
		id, _, _ := strings.Cut(rest, `"`)
		path := url + "/runs/" + strings.Replace(id, "/", "~2F", 1) + "/events?streamMode=debug"
		var group sync.WaitGroup
		ready := make(chan error, readers)
		for range readers {
			group.Go(func() { follow(b, client, path, key, chunks+4, ready) })
		}
		for range readers {
			if err := <-ready; err != nil {
				b.Fatal(err)
			}
		}
		close(gate)
		group.Wait()
		if err := host.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(readers*(chunks+4)*b.N)/b.Elapsed().Seconds(), "frames/s")
}

// follow reads one stream to its end and checks that the ids are 0, 1, 2, ….
func follow(b *testing.B, client *http.Client, path, key string, want int, ready chan<- error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		ready <- err
		return
	}
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := client.Do(request)
	ready <- err
	if err != nil {
		return
	}
	defer response.Body.Close()
	next := 0
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			if id != fmt.Sprint(next) {
				b.Errorf("id %s instead of %d", id, next)
				return
			}
			next++
		}
	}
	if lines.Err() != nil || next != want {
		b.Errorf("%d of %d frames, %v", next, want, lines.Err())
	}
}

// BenchmarkFinishedRunMemory states what one finished run of conformance-noop
// keeps on the heap, and that reading runs keeps nothing more.
func BenchmarkFinishedRunMemory(b *testing.B) {
	const runs = 5_000
	var kept, read float64
	for b.Loop() {
		client, url, key, _ := benchHost(b)
		before := heap()
		hammer(b, client, url+"/runs", key, runs)
		after := heap()
		readAll(b, client, url, key)
		kept += float64(after-before) / runs
		read += float64(heap()-after) / runs
	}
	b.ReportMetric(kept/float64(b.N), "B/finished-run")
	b.ReportMetric(read/float64(b.N), "B/run-after-reading")
}

// heap is the live heap in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// readAll lists the newest runs and streams each of them.
func readAll(b *testing.B, client *http.Client, url, key string) {
	b.Helper()
	get := func(path string) string {
		request, err := http.NewRequest(http.MethodGet, url+path, nil)
		if err != nil {
			b.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+key)
		response, err := client.Do(request)
		if err != nil {
			b.Fatal(err)
		}
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			b.Fatalf("%s: %d %v", path, response.StatusCode, err)
		}
		return string(data)
	}
	ids := strings.Split(get("/runs"), `"runId":"`)[1:]
	for _, rest := range ids {
		id, _, _ := strings.Cut(rest, `"`)
		get("/runs/" + strings.Replace(id, "/", "~2F", 1) + "/events?streamMode=debug")
	}
}
