package webhook_test

import (
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"wopcert/reference-host/internal/clock"
	"wopcert/reference-host/internal/egress"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/webhook"
)

// BenchmarkDeliveries is how many signed deliveries reach a sink on loopback over TLS, from the append of their event
// to the row that is gone: one subscription of the plain scheme, one that opted into Standard Webhooks.
func BenchmarkDeliveries(b *testing.B) {
	for name, change := range map[string]func(*webhook.Subscription){
		"v1":       func(*webhook.Subscription) {},
		"standard": func(s *webhook.Subscription) { s.Standard, s.Secret = true, standardSecret },
	} {
		b.Run(name, func(b *testing.B) {
			var arrived sync.WaitGroup
			sink := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.WriteHeader(http.StatusNoContent)
				arrived.Done()
			}))
			defer sink.Close()
			sender, err := egress.New(egress.Policy{Trusted: []string{sink.URL}, ExtraRoots: []*x509.Certificate{sink.Certificate()}})
			require.NoError(b, err)
			defer sender.Close()
			w := newWorld(b, status(200), func(c *webhook.Config) { c.Sender, c.Clock = sender, clock.Real{} })
			w.subscribe("hook", func(s *webhook.Subscription) { s.URL = sink.URL; change(s) })
			const perRun = 100
			log := w.run("warm")
			arrived.Add(1)
			arrived.Wait()
			b.ResetTimer()
			arrived.Add(b.N)
			for n := range b.N {
				if n%perRun == 0 && n > 0 {
					log = w.run(fmt.Sprintf("run-%d", n))
					continue
				}
				_, err := log.Append(b.Context(), eventlog.AnySequence, draft(eventlog.RunStarted, n))
				require.NoError(b, err)
			}
			arrived.Wait()
			b.StopTimer()
			w.settle()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
		})
	}
}
