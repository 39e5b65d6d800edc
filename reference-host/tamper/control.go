package tamper

import "net/http"

// The operations that control runs, and the one that lists them.

// PauseRun selects pauseRun.
func PauseRun(r *http.Request) bool { return Verb(http.MethodPost, "pause")(r) }

// ResumeRun selects resumeRun.
func ResumeRun(r *http.Request) bool { return Verb(http.MethodPost, "resume")(r) }

// BulkCancel selects bulkCancelRuns.
func BulkCancel(r *http.Request) bool { return Op(http.MethodPost, "/runs:bulk-cancel")(r) }

// ListRuns selects listRuns.
func ListRuns(r *http.Request) bool { return Op(http.MethodGet, "/runs")(r) }

// Preflight selects the requests with which a browser asks what it may send.
func Preflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}
