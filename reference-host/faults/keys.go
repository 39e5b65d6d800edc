package faults

import (
	"net/http"
	"sync"

	"wopcert/reference-host/tamper"
)

// refusalsForgotten carries a request out again that would be answered with a refusal
// from its record.
func refusalsForgotten() tamper.Middleware {
	return tamper.Instead(tamper.ResumeRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		body := tamper.Body(r)
		a := tamper.Record(next, r)
		if a.Status == http.StatusConflict && a.Header.Get("OpenWOP-Idempotent-Replay") != "" {
			again := r.Clone(r.Context())
			again.Header.Del("Idempotency-Key")
			tamper.SetBody(again, body)
			a = tamper.Record(next, again)
		}
		a.Send(w)
	})
}

// keysOfAnyRun answers a cancel by its key alone.
func keysOfAnyRun() tamper.Middleware {
	var mu sync.Mutex
	known := map[string][]byte{}
	return tamper.Instead(tamper.CancelRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		key := r.Header.Get("Idempotency-Key")
		a := tamper.Record(next, r)
		mu.Lock()
		first, has := known[key]
		if !has && a.Status == http.StatusOK {
			known[key] = a.Body
		}
		mu.Unlock()
		if doc, _ := a.JSON(); has && doc["error"] == "idempotency_key_mismatch" {
			a.Status, a.Body = http.StatusOK, first
			a.Header.Set("OpenWOP-Idempotent-Replay", "true")
		}
		a.Send(w)
	})
}
