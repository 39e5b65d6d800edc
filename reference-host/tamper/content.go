package tamper

import (
	"net/http"
	"strings"
)

// The operations on what runs produce, on what is said of them, and on two of
// them at once.

// Verb selects an operation whose path is a run's with a verb behind a colon.
func Verb(method, verb string) Match {
	return func(r *http.Request) bool {
		segment, ok := strings.CutPrefix(r.URL.EscapedPath(), "/runs/")
		if !ok || r.Method != method || strings.Contains(segment, "/") {
			return false
		}
		segment = strings.Replace(strings.ToUpper(segment), "%3A", ":", 1)
		return strings.HasSuffix(segment, ":"+strings.ToUpper(verb))
	}
}

// ForkRun selects forkRun.
func ForkRun(r *http.Request) bool { return Verb(http.MethodPost, "fork")(r) }

// DiffRun selects diffRun.
func DiffRun(r *http.Request) bool { return Verb(http.MethodGet, "diff")(r) }

// GetAncestry selects getRunAncestry.
func GetAncestry(r *http.Request) bool { return Op(http.MethodGet, "/runs/{}/ancestry")(r) }

// Annotate selects createAnnotation.
func Annotate(r *http.Request) bool { return Op(http.MethodPost, "/runs/{}/annotations")(r) }

// ListAnnotations selects listAnnotations.
func ListAnnotations(r *http.Request) bool { return Op(http.MethodGet, "/runs/{}/annotations")(r) }

// GetArtifact selects getArtifact.
func GetArtifact(r *http.Request) bool { return Op(http.MethodGet, "/runs/{}/artifacts/{}")(r) }

// GetEvalSummary selects getEvalSummary.
func GetEvalSummary(r *http.Request) bool { return Op(http.MethodGet, "/runs/{}/eval-summary")(r) }

// HostEvents selects streamHostEvents.
func HostEvents(r *http.Request) bool { return Op(http.MethodGet, "/host/events")(r) }

// Redeliver selects the hook that has work delivered a second time.
func Redeliver(r *http.Request) bool { return Op(http.MethodPost, "/host/durability/kill")(r) }

// Streams selects event streams of runs by their mode, as it was asked for; the
// one without any is updates.
func Streams(modes ...string) Match {
	return func(r *http.Request) bool {
		mode := r.URL.Query().Get("streamMode")
		if mode == "" {
			mode = "updates"
		}
		for _, m := range modes {
			if m == mode && StreamRun(r) {
				return true
			}
		}
		return false
	}
}

// Buffered selects event streams that ask for batches.
func Buffered(r *http.Request) bool {
	window := r.URL.Query().Get("bufferMs")
	return StreamRun(r) && window != "" && strings.Trim(window, "0") != ""
}
