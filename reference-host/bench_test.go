package referencehost_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	referencehost "wopcert/reference-host"
)

// benchHost serves a host over loopback with a client that keeps its connections.
func benchHost(b *testing.B, change ...func(*referencehost.Config)) (*http.Client, string, string, *referencehost.Host) {
	b.Helper()
	config, err := referencehost.DefaultConfig()
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range change {
		f(&config)
	}
	key := config.Keys[0].Key
	host, err := referencehost.New(config)
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(host.Handler())
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}
	b.Cleanup(func() {
		_ = host.Close()
		client.CloseIdleConnections()
		server.Close()
	})
	return client, server.URL, key, host
}

func post(client *http.Client, url, key, body string) (string, error) {
	request, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusCreated {
		err = fmt.Errorf("status %d: %s", response.StatusCode, data)
	}
	return string(data), err
}

// BenchmarkCreateRun creates and completes runs of conformance-noop over loopback, client included.
func BenchmarkCreateRun(b *testing.B) {
	client, url, key, _ := benchHost(b)
	b.ReportAllocs()
	b.SetParallelism(8)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := post(client, url+"/runs", key, noop); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
}

// BenchmarkCreateRunHandler is the same without the network: the host's own share.
func BenchmarkCreateRunHandler(b *testing.B) {
	_, _, key, host := benchHost(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			request := httptest.NewRequest("POST", "/runs", strings.NewReader(noop))
			request.Header.Set("Authorization", "Bearer "+key)
			request.Header.Set("Content-Type", "application/json")
			recorder := httptest.NewRecorder()
			host.Handler().ServeHTTP(recorder, request)
			if recorder.Code != http.StatusCreated {
				b.Error(recorder.Body.String())
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
}

// BenchmarkSubscribers streams a run of 1000 chunks to 100 readers.
func BenchmarkSubscribers(b *testing.B) {
	const readers, chunks = 100, 1000
	for b.Loop() {
		gate := make(chan struct{})
		client, url, key, host := benchHost(b, chatter(gate, chunks, 16))
		if _, err := post(client, url+"/runs", key, `{"workflowId":"chatter"}`); err != nil {
			b.Fatal(err)
		}
		var list struct{ path string }
		runs := httptest.NewRecorder()
		request := httptest.NewRequest("GET", "/runs", nil)
		request.Header.Set("Authorization", "Bearer "+key)
		host.Handler().ServeHTTP(runs, request)
		_, rest, _ := strings.Cut(runs.Body.String(), `"runId":"`)
		id, _, _ := strings.Cut(rest, `"`)
		list.path = "/runs/" + strings.Replace(id, "/", "~2F", 1)
		var group sync.WaitGroup
		ready := make(chan struct{}, readers)
		for range readers {
			group.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				request, err := http.NewRequestWithContext(ctx, "GET", url+list.path+"/events?streamMode=debug", nil)
				if err != nil {
					b.Error(err)
					return
				}
				request.Header.Set("Authorization", "Bearer "+key)
				response, err := client.Do(request)
				ready <- struct{}{}
				if err != nil {
					b.Error(err)
					return
				}
				defer response.Body.Close()
				data, err := io.ReadAll(response.Body)
				if frames := strings.Count(string(data), "\n\n"); err != nil || frames != chunks+4 {
					b.Errorf("%d frames, %v", frames, err)
				}
			})
		}
		for range readers {
			<-ready
		}
		close(gate)
		group.Wait()
		if err := host.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(readers*(chunks+4)*b.N)/b.Elapsed().Seconds(), "frames/s")
}
