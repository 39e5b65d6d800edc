package referencehost_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/internal/eventlog"
)

// onEachStore runs a benchmark on a store of each kind.
func onEachStore(b *testing.B, bench func(b *testing.B, store referencehost.Store)) {
	b.Run("memory", func(b *testing.B) {
		store, err := referencehost.NewMemoryStore()
		require.NoError(b, err)
		bench(b, store)
	})
	b.Run("file", func(b *testing.B) {
		bench(b, openStore(b, filepath.Join(b.TempDir(), "store")))
	})
}

func benchDraft(eventType string) referencehost.Draft {
	return referencehost.Draft{
		EventID: referencehost.RandomIDs{}.Opaque(), Type: eventType, Timestamp: time.Now(),
		Payload: json.RawMessage(`{"level":"info","message":"a line of a log that is about as long as such lines are","nodeId":"noop"}`),
	}
}

func benchRun(i int64) eventlog.Run {
	return eventlog.Run{
		ID: fmt.Sprintf("tenant-a/benchmark-%010d", i), WorkflowID: "conformance-noop", CreatedAt: time.Now(), Deadline: time.Now().Add(time.Hour),
		MaxNodeExecutions: 10, MaxLoopIterations: 10,
		Owner: eventlog.Owner{Tenant: "tenant-a", Subject: eventlog.Subject{
			Issuer: "urn:wopcert-reference-host:api-key", SubjectID: "operator-a", Tenant: "tenant-a", Lane: "api-key", Kind: "user",
		}},
	}
}

// BenchmarkAppend is one event at a time to one of as many logs as there are writers.
func BenchmarkAppend(b *testing.B) {
	onEachStore(b, func(b *testing.B, store referencehost.Store) {
		for _, writers := range []int{1, 64} {
			b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
				var n atomic.Int64
				b.SetParallelism(writers)
				b.RunParallel(func(pb *testing.PB) {
					log, err := store.Create(b.Context(), benchRun(time.Now().UnixNano()+n.Add(1)), false, benchDraft("run.started"))
					if err != nil {
						b.Error(err)
						return
					}
					for pb.Next() {
						if _, err := log.Append(b.Context(), referencehost.AnySequence, benchDraft("log.appended")); err != nil {
							b.Error(err)
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			})
		}
	})
}

// BenchmarkForkOfTenThousandEvents is a forkRun near the end of a long log, from the request to the answer.
func BenchmarkForkOfTenThousandEvents(b *testing.B) {
	onEachStore(b, func(b *testing.B, store referencehost.Store) {
		h := start(b, func(c *referencehost.Config) { c.Store = store }, withReplay)
		drafts := make([]referencehost.Draft, 10_000)
		for i := range drafts {
			drafts[i] = benchDraft("log.appended")
		}
		drafts[0].Type, drafts[0].Payload = "run.started", json.RawMessage(`{"workflowId":"conformance-noop"}`)
		_, err := store.Create(b.Context(), benchRun(1), false, append(drafts, benchDraft("run.cancelled"))...)
		require.NoError(b, err)
		path := "/runs/" + strings.ReplaceAll(benchRun(1).ID, "/", "~2F")
		for b.Loop() {
			r := h.call("POST", path+":fork", `{"mode":"branch","fromSeq":9999}`)
			require.Equal(b, http.StatusCreated, r.StatusCode, string(r.body))
		}
		b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/fork")
	})
}

// BenchmarkOpen is the check of a whole file before anything is served from it.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "store")
	store, err := referencehost.OpenFileStore(path)
	require.NoError(b, err)
	for i := range int64(100) {
		drafts := make([]referencehost.Draft, 1000)
		for j := range drafts {
			drafts[j] = benchDraft("log.appended")
		}
		_, err := store.Create(b.Context(), benchRun(i), false, drafts...)
		require.NoError(b, err)
	}
	require.NoError(b, store.Close())
	for b.Loop() {
		store, err := referencehost.OpenFileStore(path)
		require.NoError(b, err)
		require.NoError(b, store.Close())
	}
	b.ReportMetric(100_000*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
