package report_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/harness"
	"wopcert/report"
	"wopcert/requirements"
)

// BenchmarkReports writes every report of a run with 400 requirements and 20,000 exchanges, a tenth of it failed. It
// states the heap that the writing allocated at most at one time, in MiB.
func BenchmarkReports(b *testing.B) {
	dir := b.TempDir()
	large(b, dir)
	b.ResetTimer()
	for range b.N {
		peak := watchHeap()
		e, err := report.Open(dir)
		require.NoError(b, err)
		_, err = e.WriteAll(filepath.Join(dir, "reports"))
		require.NoError(b, err)
		b.ReportMetric(peak(), "MiB-heap")
	}
}

// watchHeap samples the heap until it is asked for the largest it has seen.
func watchHeap() func() float64 {
	stop, done := make(chan struct{}), make(chan float64)
	go func() {
		var largest uint64
		var m runtime.MemStats
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for {
			runtime.ReadMemStats(&m)
			largest = max(largest, m.HeapAlloc)
			select {
			case <-ticker.C:
			case <-stop:
				done <- float64(largest) / (1 << 20)
				return
			}
		}
	}()
	return func() float64 { close(stop); return <-done }
}

func large(b *testing.B, dir string) {
	b.Helper()
	write := func(name string, v any) {
		text, err := json.Marshal(v)
		require.NoError(b, err)
		name = filepath.Join(dir, name)
		require.NoError(b, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(b, os.WriteFile(name, text, 0o644))
	}
	known := requirements.All()
	body := `{"runId":"tenant-a/0123456789abcdef","status":"running","note":"` + strings.Repeat("x", 1000) + `"}`
	r := report.Results{Suite: "wopcert 0", Certification: &report.Certification{Verdict: report.Failed, Profiles: []report.Profile{}}}
	for i := range 400 {
		id, scenario := string(known[i%len(known)].ID), fmt.Sprintf("v2-scenario-%d", i/4)
		if i >= len(known) {
			id = fmt.Sprintf("openwop.requirement.more.n%d", i)
		}
		row := bundle.Row{ID: id, Scenario: scenario, Result: bundle.ExecutedPass, Assertions: 1}
		test := fmt.Sprintf("test %d", i)
		if i%10 == 0 {
			row.Result, row.Detail = bundle.ExecutedFail, "expected a; observed b"
			r.Failures = append(r.Failures, harness.Failure{Requirement: requirements.ID(id), Scenario: scenario, Test: test, Expected: "a", Observed: "b", Exchange: 30})
		}
		r.Rows = append(r.Rows, row)
		r.Tests = append(r.Tests, harness.TestResult{Scenario: scenario, Test: test, Started: began.Add(time.Duration(i) * time.Millisecond), Elapsed: time.Second, Ran: true})
		tape := harness.TestTape{Scenario: scenario, Test: test}
		for n := range 50 {
			tape.Exchanges = append(tape.Exchanges, harness.Exchange{
				Number: n + 1, Started: began, Method: "POST", URL: "http://127.0.0.1:1/runs", Status: 201, Millis: 1,
				Request:  harness.Message{Headers: []string{"Accept: application/json", "Content-Type: application/json"}, Body: body},
				Response: harness.Message{Headers: []string{"Content-Type: application/json"}, Body: body},
			})
		}
		write(fmt.Sprintf("capture/%s/test-%d.json", scenario, i), tape)
	}
	write(report.ResultsFile, r)
}
