package tamper

import (
	"net/http"
	"strings"
)

// The operations of the run surface and of discovery, by their operationId.

// Discovery selects the well-known resource.
func Discovery(r *http.Request) bool { return Op(http.MethodGet, "/.well-known/openwop")(r) }

// CreateRun selects createRun.
func CreateRun(r *http.Request) bool { return Op(http.MethodPost, "/runs")(r) }

// GetRun selects getRun.
func GetRun(r *http.Request) bool {
	return Op(http.MethodGet, "/runs/{}")(r) && !strings.Contains(r.URL.EscapedPath(), ":")
}

// CancelRun selects cancelRun.
func CancelRun(r *http.Request) bool { return Op(http.MethodPost, "/runs/{}/cancel")(r) }

// PollRun selects pollRunEvents.
func PollRun(r *http.Request) bool { return Op(http.MethodGet, "/runs/{}/events/poll")(r) }

// StreamRun selects streamRunEvents.
func StreamRun(r *http.Request) bool { return Op(http.MethodGet, "/runs/{}/events")(r) }

// GetWorkflow selects getWorkflow.
func GetWorkflow(r *http.Request) bool { return Op(http.MethodGet, "/workflows/{}")(r) }

// OfRun selects every operation on one run.
func OfRun(r *http.Request) bool { return RunSegment(r) != "" }

// RunSegment is the path segment that names the run, as it was written, "" for
// a request that names none.
func RunSegment(r *http.Request) string {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/runs/")
	if !ok {
		return ""
	}
	segment, _, _ := strings.Cut(rest, "/")
	segment, _, _ = strings.Cut(segment, ":")
	return segment
}

// SetRunSegment names another run in the path of a request.
func SetRunSegment(r *http.Request, segment string) {
	SetPath(r, strings.Replace(r.URL.EscapedPath(), "/runs/"+RunSegment(r), "/runs/"+segment, 1))
}
